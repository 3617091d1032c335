"""The two largest singular values of a random Markov matrix that is never stored.

Run it with ``OMP_NUM_THREADS=1 python benchmarks/operators.py``; ``--tokens 8192`` takes another
size. It prints the time, the most memory the process ever held, and what the dense matrix needs.
"""

import argparse
import resource
import sys
import time

from gapcourse.operators import MarkovOperator


def main() -> None:
    """Compute s_1 and s_2, with a progress bar, and print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=32768, help="size of the matrix (32768)")
    parser.add_argument("--entries", default="lognormal", help="ensemble of the matrix (lognormal)")
    parser.add_argument("--threads", type=int, help="threads that draw blocks (all processors)")
    arguments = parser.parse_args()
    T = arguments.tokens
    A = MarkovOperator(T, entries=arguments.entries, rng=1, threads=arguments.threads)
    start = time.perf_counter()
    first, second = A.top_singular_values(progress=True)
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss counts bytes there, kB elsewhere
    peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"T = {T}, {A.entries}, {A.threads} threads: {seconds:.0f} s")
    print(f"s_1 = {first:.12f}, T (s_1² - 1) = {T * (first**2 - 1):.4f}")
    print(f"s_2 = {second:.12f}, sqrt(T) s_2 = {T**0.5 * second:.4f}")
    print(f"peak memory {peak / 1e9:.2f} GB; the dense matrix alone has {8 * T * T / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
