"""How long `gapcourse.gradients` takes and how much memory, as ratios to the full Jacobian.

Run it with ``python benchmarks/gradients.py``, on one thread (``OMP_NUM_THREADS=1``). ``--tokens
150`` takes another size: the published route needs some 32 T⁴ bytes, 16 GB there, and minutes.
``--growth`` fits how both grow with T, ``--large`` adds T = 1000 and 2000 without a rival.

Each route runs in a process of its own, after the imports and a small case; its memory is what the
process then needs on top.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gapcourse.ensembles import isometric_input
from gapcourse.gradients import value_gradient_norm, value_gradient_norms
from gapcourse.networks import AttentionStack

DEPTHS = (2, 3, 4, 5)
LAYER = 2
MB = 1e6


def published_norm(stack: AttentionStack, x: torch.Tensor) -> float:
    """Return ‖dX_L/dW_l‖ as the published method goes about it, for fixed attention.

    The Jacobian of X_L in the layer's output Y = A_l X_(l-1) W_l, one row at a time by autograd, is
    T d × T d; with dY = A_l X_(l-1) dW it gives the T d × d² one in W_l, whose norm is taken.
    """
    with torch.no_grad():
        for layer in range(1, LAYER):
            x = stack.step(x, layer)
        inputs = stack.matrix(x, LAYER) @ x
        output = inputs @ stack.value_weights[LAYER - 1]

    def last_tokens(Y: torch.Tensor) -> torch.Tensor:
        for layer in range(LAYER + 1, stack.depth + 1):
            Y = stack.step(Y, layer)
        return Y

    jacobian = torch.autograd.functional.jacobian(last_tokens, output)
    return float(torch.einsum("abtj,ti->abij", jacobian, inputs).norm())


def jacobian_norm(stack: AttentionStack, x: torch.Tensor) -> float:
    """Return it from the Jacobian in W_l itself, all rows at once by autograd."""

    def last_tokens(value: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(stack, {f"layers.{LAYER - 1}.value": value}, (x,))

    weight = stack.value_weights[LAYER - 1].detach()
    return float(torch.autograd.functional.jacobian(last_tokens, weight, vectorize=True).norm())


def our_norm(stack: AttentionStack, x: torch.Tensor) -> float:
    """Return it as the package does: exactly, or to 3 % for attention that depends on tokens."""
    return value_gradient_norm(stack, x, LAYER, rng=2)


ROUTES = {"published": published_norm, "jacobian": jacobian_norm, "ours": our_norm}


def norms(route: str, tokens: int, attention: str) -> tuple[float, list[float], list[float]]:
    """Return the seconds of CPU that all depths take together, the norms, and their errors."""
    x = torch.from_numpy(isometric_input(tokens, tokens, rng=0))
    stacks = [AttentionStack(depth, tokens, tokens, attention=attention, rng=1) for depth in DEPTHS]
    start = time.process_time()
    values = [ROUTES[route](stack, x) for stack in stacks]
    seconds = time.process_time() - start
    return seconds, values, [getattr(value, "standard_error", 0.0) for value in values]


def child(route: str, tokens: int, attention: str) -> None:
    """Print what one route gives, its seconds and bytes as JSON; ours is short, and repeated."""
    for each in ("ours", route):
        norms(each, 6, attention)
    before = peak()
    runs = [norms(route, tokens, attention) for _ in range(5 if route == "ours" else 1)]
    seconds = statistics.median(run[0] for run in runs)
    result = {"norms": runs[0][1], "errors": runs[0][2]}
    print(json.dumps(result | {"seconds": seconds, "bytes": peak() - before}))


def peak() -> int:
    """Return the most memory that this process ever held, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(route: str, tokens: int, attention: str) -> dict[str, Any]:
    """Return what `child` prints in a process of its own."""
    if route == "published":
        needed, there = 34 * tokens**4, available()
        if needed > there:
            raise SystemExit(
                f"the published route needs {needed / 1e9:.1f} GB at T = {tokens}, and "
                f"{there / 1e9:.1f} GB are free; pass a smaller --tokens"
            )
    command = [sys.executable, __file__, "--child", route, str(tokens), attention]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{route} at T = {tokens} failed ({done.returncode}): {done.stderr}")
    return json.loads(done.stdout)


def available() -> float:
    """Return how many bytes of memory are free, infinity where the system does not say."""
    file = Path("/proc/meminfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((1024.0 * int(s.split()[1]) for s in lines if s.startswith("MemAvail")), np.inf)


def compare(tokens: int, attention: str, rival: str) -> None:
    """Print one row: both routes for all depths, and how far apart their results are."""
    ours, theirs = (measure(route, tokens, attention) for route in ("ours", rival))
    apart = np.abs(np.subtract(ours["norms"], theirs["norms"]))
    errors = np.array(ours["errors"])
    exact = np.max((apart / theirs["norms"])[errors == 0])
    scores = (apart[errors > 0] / errors[errors > 0]).tolist()
    less = theirs["bytes"] / max(ours["bytes"], MB)
    print(
        f"{attention}, T = d = {tokens}: {rival} {theirs['seconds']:.2f} s and "
        f"{theirs['bytes'] / MB:.0f} MB, ours {1e3 * ours['seconds']:.1f} ms and "
        f"{ours['bytes'] / MB:.1f} MB: {theirs['seconds'] / ours['seconds']:.0f} times faster, "
        f"{less:.0f} times less memory (ours counted as 1 MB at least), {exact:.0e} apart"
        + (f", estimates {max(scores):.1f} standard errors" if scores else ""),
        flush=True,
    )


def growth(route: str, sizes: tuple[int, ...]) -> None:
    """Print the exponents of T in one route's time and memory, fitted over some sizes."""
    rows = [measure(route, tokens, "markov") for tokens in sizes]
    exponents = (
        np.polyfit(np.log(sizes), np.log([row[key] for row in rows]), 1)[0]
        for key in ("seconds", "bytes")
    )
    print("markov, T = d = {}: {} time T^{:.1f}, memory T^{:.1f}".format(sizes, route, *exponents))


def large(label: str, call: Callable[[], object]) -> None:
    """Print the time of one call at a size where no Jacobian fits."""
    start = time.process_time()
    result = call()
    print(f"{label}: {time.process_time() - start:.1f} s, {result}", flush=True)


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=60, help="T = d of the comparison (60)")
    parser.add_argument("--growth", action="store_true", help="also how both grow with T")
    parser.add_argument("--large", action="store_true", help="also T = 1000 and 2000")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.child:
        route, tokens, attention = options.child
        child(route, int(tokens), attention)
        return
    print(f"norm of dX_L/dW_{LAYER} for L = {DEPTHS[0]} to {DEPTHS[-1]}, one thread", flush=True)
    compare(options.tokens, "markov", "published")
    if options.tokens <= 80:  # all rows at once take more memory than one by one
        compare(options.tokens, "markov", "jacobian")
        compare(options.tokens, "softmax", "jacobian")
    if options.growth:
        growth("published", (24, 32, 44, 60))
        growth("ours", (300, 500, 800, 1200))
    if options.large:
        x = isometric_input(2000, 2000, rng=0)
        stack = AttentionStack(5, 2000, 2000, rng=1)
        large("markov, T = d = 2000, 5 layers at once", lambda: value_gradient_norms(stack, x))
        x = isometric_input(1000, 1000, rng=0)
        for depth in (3, 5):
            stack = AttentionStack(depth, 1000, 1000, attention="softmax", rng=1)
            label = f"softmax, T = d = 1000, layer 2 of {depth}, to 3 %"
            large(label, lambda stack=stack: value_gradient_norm(stack, x, 2, rng=2))


if __name__ == "__main__":
    main()
