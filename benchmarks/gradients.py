"""How long `gapcourse.gradients` takes, as ratios to the full Jacobian in the same run.

Run it with ``python benchmarks/gradients.py``, on one thread (``OMP_NUM_THREADS=1``); ``--tokens
150`` takes another size (the Jacobian's time grows like the fourth power of it), ``--large`` adds
T = 1000 and 2000 without the rival.
"""

import argparse
import time
from collections.abc import Callable

import torch

from gapcourse.ensembles import isometric_input
from gapcourse.gradients import value_gradient_norm, value_gradient_norms
from gapcourse.networks import AttentionStack

DEPTHS = (2, 3, 4, 5)
LAYER = 2


def jacobian_norm(stack: AttentionStack, x: torch.Tensor) -> float:
    """Return the norm of the Jacobian in one layer's value weights, formed by autograd."""
    name = f"layers.{LAYER - 1}.value"
    weight = stack.value_weights[LAYER - 1].detach()

    def last_tokens(value: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(stack, {name: value}, (x,))

    jacobian = torch.autograd.functional.jacobian(last_tokens, weight, vectorize=True)
    return float(jacobian.norm())


def seconds(call: Callable[[], object], repeat: int = 1) -> float:
    """Return the best time of a few."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def compare(tokens: int, attention: str) -> None:
    """Print one row: both routes for all depths, and how far apart their results are."""
    x = torch.from_numpy(isometric_input(tokens, tokens, rng=0))
    stacks = [AttentionStack(depth, tokens, tokens, attention=attention, rng=1) for depth in DEPTHS]
    slow = seconds(lambda: [jacobian_norm(stack, x) for stack in stacks])
    fast = seconds(lambda: [value_gradient_norm(s, x, LAYER, rng=2) for s in stacks], repeat=5)
    apart = max(
        abs(value_gradient_norm(s, x, LAYER, rng=2) / jacobian_norm(s, x) - 1) for s in stacks
    )
    print(
        f"{attention:8s} T = d = {tokens}: Jacobian {slow:7.2f} s, ours {1e3 * fast:8.2f} ms, "
        f"{slow / fast:6.0f} times faster, results {apart:.0e} apart"
    )


def large(tokens: int, attention: str, depth: int) -> None:
    """Print the time of one call at a size where no Jacobian fits."""
    x = isometric_input(tokens, tokens, rng=0)
    stack = AttentionStack(depth, tokens, tokens, attention=attention, rng=1)
    time_ = seconds(lambda: value_gradient_norms(stack, x, rng=2))
    print(f"{attention:8s} T = d = {tokens}, {depth} layers at once: {time_:.1f} s")


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=60, help="T = d of the comparison (60)")
    parser.add_argument("--large", action="store_true", help="also T = 1000 and 2000")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"norm of dX_L/dW_{LAYER} for L = {DEPTHS[0]} to {DEPTHS[-1]}, one thread")
    for attention in ("markov", "softmax"):
        compare(options.tokens, attention)
    if options.large:
        large(2000, "markov", 5)
        large(1000, "softmax", 3)


if __name__ == "__main__":
    main()
