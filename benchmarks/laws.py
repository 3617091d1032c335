"""How long the densities of `gapcourse.laws` take, as ratios to a bare formula in the same run.

Run it with ``python benchmarks/laws.py``; ``--points 10000`` asks for more points.
"""

import argparse
import math
import timeit
from collections.abc import Callable

import numpy as np

from gapcourse.laws import AttentionBulk, FussCatalan, MarchenkoPastur, QuarterCircle


def bare(x: np.ndarray) -> np.ndarray:
    """Evaluate the quarter circle of sigma = 1 in one line of numpy, without any check."""
    return np.sqrt(np.maximum(4 - x * x, 0)) / math.pi


def seconds(call: Callable[[], object]) -> float:
    """Return the best of seven means: the time without what else the machine does."""
    number = timeit.Timer(call).autorange()[0]
    return min(timeit.repeat(call, number=number, repeat=7)) / number


def main() -> None:
    """Time each law and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=int, default=1000, help="points of a density (1000)")
    points = parser.parse_args().points
    laws = {
        "quarter circle": QuarterCircle(1.0),
        "Marchenko-Pastur, ratio 0.5": MarchenkoPastur(0.5),
        "Fuss-Catalan, order 2": FussCatalan(2),
        "attention, c = 1": AttentionBulk.softmax(0.5, 1.0),
        "attention, c = 16, two bands": AttentionBulk.softmax(0.5, 16.0),
        "attention, all degrees to 4": AttentionBulk.softmax(0.5, 4.0, head_dim=150, degrees=4),
    }
    grid = np.linspace(0, 2, points)
    formula = seconds(lambda: bare(grid))
    print(f"{points} points of a density; the bare formula takes {1e6 * formula:.0f} µs")
    for name, law in laws.items():
        x = np.linspace(0, law.edge, points)
        time = seconds(lambda law=law, x=x: law.pdf(x))
        print(f"{name:30s} {1e3 * time:8.3f} ms {time / formula:10.0f} times the formula")


if __name__ == "__main__":
    main()
