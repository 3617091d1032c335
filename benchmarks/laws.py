"""How long the densities of `gapcourse.laws` take, as ratios to a bare formula in the same run.

Run it with ``python benchmarks/laws.py``; ``--points 10000`` asks for more points.
"""

import argparse
import math
import timeit
import tracemalloc
from collections.abc import Callable

import numpy as np

from gapcourse.laws import AttentionBulk, FussCatalan, MarchenkoPastur, QuarterCircle


def bare_quarter_circle(x: np.ndarray) -> np.ndarray:
    """Evaluate the quarter circle of sigma = 1 in one line of numpy, without any check."""
    return np.sqrt(np.maximum(4 - x * x, 0)) / math.pi


def bare_marchenko_pastur(x: np.ndarray, ratio: float, sigma: float = 1.0) -> np.ndarray:
    """Evaluate the textbook's formula in numpy, 0 outside the support, without any other check."""
    low, high = sigma * abs(1 - math.sqrt(ratio)), sigma * (1 + math.sqrt(ratio))
    density = np.zeros_like(x)
    inside = (x > low) & (x < high)
    y = x[inside]
    root = np.sqrt((high**2 - y**2) * (y**2 - low**2))
    density[inside] = root / (math.pi * sigma**2 * ratio * y)
    return density


def seconds(*calls: Callable[[], object]) -> list[float]:
    """Return the best of many short runs of each, in turn: the time without the machine's load."""
    numbers = [max(1, timeit.Timer(call).autorange()[0] // 20) for call in calls]
    rounds = [
        [timeit.timeit(call, number=n) / n for call, n in zip(calls, numbers, strict=True)]
        for _ in range(40)
    ]
    return [min(times) for times in zip(*rounds, strict=True)]


def peak(call: Callable[[], object]) -> int:
    """Return the most bytes of Python's and numpy's that a call holds at a time."""
    tracemalloc.start()
    call()
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size


def main() -> None:
    """Time each law and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=int, default=1000, help="points of a density (1000)")
    points = parser.parse_args().points
    laws = {
        "quarter circle": QuarterCircle(1.0),
        "Marchenko-Pastur, ratio 0.5": MarchenkoPastur(0.5),
        "Marchenko-Pastur, ratio 1": MarchenkoPastur(1.0),
        "Marchenko-Pastur, ratio 2": MarchenkoPastur(2.0),
        "Fuss-Catalan, order 2": FussCatalan(2),
        "attention, c = 1": AttentionBulk.softmax(0.5, 1.0),
        "attention, c = 16, two bands": AttentionBulk.softmax(0.5, 16.0),
        "attention, all degrees to 4": AttentionBulk.softmax(0.5, 4.0, head_dim=150, degrees=4),
    }
    print(
        f"{points} points of a density; beside Marchenko-Pastur its own bare formula, else the "
        "quarter circle's"
    )
    for name, law in laws.items():
        x = np.linspace(0, law.edge, points)

        def bare(law=law, x=x) -> np.ndarray:
            if isinstance(law, MarchenkoPastur):
                return bare_marchenko_pastur(x, law.ratio)
            return bare_quarter_circle(x)

        formula, time = seconds(bare, lambda law=law, x=x: law.pdf(x))
        print(
            f"{name:30s} {1e3 * time:7.3f} ms, {time / formula:6.2f} times the formula; "
            f"peak {1e-3 * peak(lambda law=law, x=x: law.pdf(x)):5.0f} kB"
        )


if __name__ == "__main__":
    main()
