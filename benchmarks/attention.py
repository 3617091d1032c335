"""How long mean-removed attention takes, as ratios to torch's plain fused attention in one run.

Run it with ``python benchmarks/attention.py``; ``--tokens 1024 2048`` asks for other lengths, and
``--device cuda`` for another device. On the CPU everything runs in one thread. The growth is fitted
over all the lengths; the memory is what a forward call takes at its peak, at the largest length.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from _measure import growth, megabytes, peak_memory
from torch.nn.functional import scaled_dot_product_attention

from gapcourse.attention import attention_matrix, mean_removed_attention, remove_mean


def seconds(calls: dict[str, Callable[[], object]], device: str, rounds: int) -> dict[str, float]:
    """Return the median time of each call, all of them taken in turn: load then hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}  # first: warm-up


def forward_and_backward(call: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    """Run a function and its gradient."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    call(*leaves).sum().backward()


def main() -> None:
    """Time both, forward and with gradients, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--tokens", type=int, nargs="+", default=[1024, 2048, 4096], help="T (1024 2048 4096)"
    )
    parser.add_argument("--head-dim", type=int, default=64, help="d_k (64)")
    parser.add_argument("--heads", type=int, default=1, help="number of heads (1)")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--rounds", type=int, default=15, help="repetitions (15)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    shape = (3, 1, args.heads, max(args.tokens), args.head_dim)
    everything = torch.randn(shape, generator=generator).to(args.device)

    def removed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return mean_removed_attention(q, k, v)

    def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return mean_removed_attention(q, k, v, causal=True)

    def plain_causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=True)

    def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return remove_mean(attention_matrix(q, k)) @ v

    def memory(call: Callable[..., torch.Tensor]) -> float:
        q, k, v = everything
        if args.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            call(q, k, v)
            return float(torch.cuda.max_memory_allocated() - before)
        small = everything[..., :64, :]
        return peak_memory(lambda: call(q, k, v), lambda: call(*small))

    print(
        f"d_k = {args.head_dim}, {args.heads} heads, float32, {args.device}, ratio to plain fused "
        f"attention, medians of {args.rounds}"
    )
    pairs = {
        "all tokens": (scaled_dot_product_attention, removed),
        "causal": (plain_causal, causal),
        "dense, T x T": (scaled_dot_product_attention, dense),
    }
    for what, (plain, ours) in pairs.items():
        for mode in ("forward", "with gradients"):
            times = []
            for tokens in args.tokens:
                inputs = everything[..., :tokens, :]
                calls = {
                    name: (
                        (lambda call=call, inputs=inputs: call(*inputs))
                        if mode == "forward"
                        else (lambda call=call, inputs=inputs: forward_and_backward(call, *inputs))
                    )
                    for name, call in (("plain", plain), ("ours", ours))
                }
                taken = seconds(calls, args.device, args.rounds)
                slow, fast = taken["ours"], taken["plain"]
                times.append(slow)
                print(
                    f"{what:12s} {mode:14s} T = {tokens:5d}: plain {1e3 * fast:7.1f} ms, "
                    f"ours {1e3 * slow:7.1f} ms, ratio {slow / fast:.3f}",
                    flush=True,
                )
            if len(times) > 1:
                print(f"{'':28s}the time grows like T^{growth(args.tokens, times):.1f}")
        print(
            f"{'':28s}memory of a forward call: plain {megabytes(memory(plain))}, "
            f"ours {megabytes(memory(ours))}"
        )


if __name__ == "__main__":
    main()
