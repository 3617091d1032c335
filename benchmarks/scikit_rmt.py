"""How `MarchenkoPastur.fit` compares with ``.fit`` of scikit-rmt's law: time and answers.

scikit-rmt pins an old numpy, so give it an environment of its own, and tell this script its Python:
``python -m venv rival && rival/bin/pip install scikit-rmt``, then
``python benchmarks/scikit_rmt.py --rival rival/bin/python``.

Its ``.fit`` is SciPy's general one, maximum likelihood for a shift and a factor: the ratio cannot
be fitted. Three ways to use it are timed: as it is, given the true ratio; the same with a starting
point; and a search over the ratio around it, which asks what ours answers.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
import timeit
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

SIGMA = 1.5


def rival() -> None:
    """Fit what comes in as JSON, in the rival's environment; a failure is an answer too."""
    from scipy.optimize import minimize_scalar
    from skrmt.ensemble.spectral_law import MarchenkoPasturDistribution

    warnings.simplefilter("ignore")

    def timed(call: Callable[[], tuple[float, ...]]) -> dict[str, Any]:
        try:
            best = np.inf
            for _ in range(3):
                start = time.process_time()
                answer = call()
                best = min(best, time.process_time() - start)
            return {"seconds": best, "answer": [float(x) for x in answer]}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    answers = []
    for case in json.load(sys.stdin):
        ratio, values = case["ratio"], np.array(case["eigenvalues"])
        law = MarchenkoPasturDistribution(ratio)

        def searched(values: np.ndarray = values) -> tuple[float, float]:
            values = values[values > 0]  # its density at 0 is NaN

            def fitted(log: float) -> tuple[float, float]:
                law = MarchenkoPasturDistribution(float(np.exp(log)))
                scale = law.fit(values, loc=0, scale=values.mean(), floc=0)[1]
                return law.nnlf((0, scale), values), scale

            best = min(np.linspace(-2.5, 2.5, 26), key=lambda log: fitted(log)[0])
            bounds = (best - 0.2, best + 0.2)
            log = minimize_scalar(lambda log: fitted(log)[0], bounds=bounds, method="bounded").x
            return float(np.exp(log)), float(np.sqrt(fitted(log)[1]))

        def shift(law: Any = law, values: np.ndarray = values, **start: float) -> Any:
            loc, scale = law.fit(values, **start)
            return loc, np.sqrt(scale)

        def started(shift: Any = shift, values: np.ndarray = values) -> Any:
            return shift(loc=0, scale=values.mean())

        grid = np.linspace(0, law.lambda_plus, 100_001)[1:]
        answers.append(
            {
                "as it is": timed(shift),
                "with a starting point": timed(started),
                "searching the ratio": timed(searched),
                "mass": float(np.nansum(law.pdf(grid)) * (grid[1] - grid[0])),
                "cdf at 0": float(law.cdf(0.0)),
            }
        )
    json.dump(answers, sys.stdout)


def main() -> None:
    """Fit both ways, for a ratio below and one above 1, and print times and answers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rival", required=True, help="the Python that has scikit-rmt")
    python = parser.parse_args().rival
    from gapcourse.laws import MarchenkoPastur

    cases, eigenvalues = [], []
    for rows, columns in ((500, 1000), (1000, 500)):
        noise = np.random.default_rng(0).standard_normal((rows, columns))
        s = np.linalg.svd(SIGMA / columns**0.5 * noise, compute_uv=False)
        eigenvalues.append(np.concatenate([s**2, np.zeros(rows - len(s))]))
        cases.append({"ratio": rows / columns, "eigenvalues": eigenvalues[-1].tolist()})
    if shutil.which(python) is None:
        raise SystemExit(f"--rival must be the path of a Python, got {python}; see --help")
    done = subprocess.run(
        [python, __file__, "--child"], input=json.dumps(cases), capture_output=True, text=True
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SystemExit(f"{python} could not run scikit-rmt ({reason}); install it there")
    for case, squares, theirs in zip(cases, eigenvalues, json.loads(done.stdout), strict=True):
        values, ratio = np.sqrt(squares), case["ratio"]
        law = MarchenkoPastur.fit(values)
        ours = min(timeit.repeat(lambda v=values: MarchenkoPastur.fit(v), number=50, repeat=20))
        print(f"ratio {ratio}, sigma {SIGMA}, {len(values)} values, one for each row")
        print(
            f"  ours: {2e4 * ours:.0f} µs, ratio {law.ratio:.3f}, sigma {law.sigma:.3f}; mass of "
            f"the density and atom {law.cdf(law.edge):.3f}, probability of 0 {law.atom:.3f}"
        )
        for way, found in theirs.items():
            if not isinstance(found, dict):
                continue
            if "error" in found:
                print(f"  scikit-rmt {way}: fails, {found['error']}")
                continue
            first, sigma = found["answer"]
            name = "ratio" if way.startswith("search") else "ratio given, shift"
            print(
                f"  scikit-rmt {way}: {1e3 * found['seconds']:.1f} ms, {name} {first:.3f}, "
                f"sigma {sigma:.3f}; ours is {50 * found['seconds'] / ours:.0f} times faster"
            )
        print(
            f"  scikit-rmt's law: mass of its density {theirs['mass']:.3f}, probability of 0 "
            f"{theirs['cdf at 0']:.3f} (right: {min(1, 1 / ratio):.3f} and "
            f"{max(0, 1 - 1 / ratio):.3f})"
        )


if __name__ == "__main__":
    rival() if sys.argv[1:] == ["--child"] else main()
