"""How long mean-removed attention takes, as ratios to torch's plain fused attention in one run.

Run it with ``python benchmarks/attention.py``; ``--tokens 1024`` asks for another length, and
``--device cuda`` for another device. On the CPU everything runs in one thread.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
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
    parser.add_argument("--tokens", type=int, default=4096, help="T (4096)")
    parser.add_argument("--head-dim", type=int, default=64, help="d_k (64)")
    parser.add_argument("--heads", type=int, default=1, help="number of heads (1)")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--rounds", type=int, default=15, help="repetitions (15)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    shape = (3, 1, args.heads, args.tokens, args.head_dim)
    q, k, v = torch.randn(shape, generator=generator).to(args.device)

    def removed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return mean_removed_attention(q, k, v)

    def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return mean_removed_attention(q, k, v, causal=True)

    def plain_causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=True)

    def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return remove_mean(attention_matrix(q, k)) @ v

    print(
        f"T = {args.tokens}, d_k = {args.head_dim}, {args.heads} heads, float32, {args.device}, "
        f"median of {args.rounds}"
    )
    pairs = {
        "all tokens": (scaled_dot_product_attention, removed),
        "causal": (plain_causal, causal),
        "dense, T x T": (scaled_dot_product_attention, dense),
    }
    for what, (plain, ours) in pairs.items():
        for mode, run in (
            ("forward", lambda call: call(q, k, v)),
            ("with gradients", lambda call: forward_and_backward(call, q, k, v)),
        ):
            calls = {
                "plain": lambda run=run, plain=plain: run(plain),
                "ours": lambda run=run, ours=ours: run(ours),
            }
            taken = seconds(calls, args.device, args.rounds)
            print(
                f"{what:14s} {mode:16s} plain {1e3 * taken['plain']:8.1f} ms   "
                f"ours {1e3 * taken['ours']:8.1f} ms   ratio {taken['ours'] / taken['plain']:.3f}"
            )


if __name__ == "__main__":
    main()
