"""How long the two largest singular values take, as a ratio to a full decomposition, and memory.

Run it with ``OMP_NUM_THREADS=1 python benchmarks/spectra.py``, one thread for both ways;
``--tokens 500 1000 2000`` chooses the sizes.
"""

import argparse
import timeit
from collections.abc import Callable

import numpy as np
from _measure import growth, megabytes, peak_memory

from gapcourse.ensembles import random_markov
from gapcourse.spectra import stable_rank, top_singular_values


def seconds(call: Callable[[], object], repeat: int) -> float:
    """Return the best of several times: the time without what else the machine does."""
    return min(timeit.repeat(call, number=1, repeat=repeat))


def main() -> None:
    """Time both ways for each size, on the same matrix, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--entries", default="lognormal", help="ensemble of the matrix (lognormal)")
    parser.add_argument("--repeat", type=int, default=5, help="times of which the best counts (5)")
    arguments = parser.parse_args()
    sizes, times, memory = arguments.tokens, [], []
    small = random_markov(500, rng=1)
    print(f"random Markov matrix, {arguments.entries}; ratios to all singular values by numpy")
    for T in sizes:
        A = random_markov(T, entries=arguments.entries, rng=1)
        full = seconds(lambda A=A: np.linalg.svd(A, compute_uv=False), arguments.repeat)
        two = seconds(lambda A=A: top_singular_values(A), arguments.repeat)
        rank = seconds(lambda A=A: stable_rank(A), arguments.repeat)
        error = np.abs(top_singular_values(A) / np.linalg.svd(A, compute_uv=False)[:2] - 1).max()
        times.append((full, two))
        memory.append(
            (
                peak_memory(
                    lambda A=A: np.linalg.svd(A, compute_uv=False),
                    lambda: np.linalg.svd(small, compute_uv=False),
                ),
                peak_memory(lambda A=A: top_singular_values(A), lambda: top_singular_values(small)),
            )
        )
        print(
            f"T = {T:5d}: all {1e3 * full:7.1f} ms; s_1 and s_2 {1e3 * two:6.1f} ms, "
            f"{full / two:5.1f} times faster, relative difference {error:.0e}; "
            f"stable rank {full / rank:5.1f} times faster"
        )
    for i, name in enumerate(("all", "s_1 and s_2")):
        exponent = growth(sizes, [time[i] for time in times]) if len(sizes) > 1 else float("nan")
        print(
            f"{name}: the time grows like T^{exponent:.1f}; beside the matrix, "
            f"{megabytes(8 * sizes[-1] ** 2)}, the largest takes {megabytes(memory[-1][i])}"
        )


if __name__ == "__main__":
    main()
