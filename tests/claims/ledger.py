"""The claim ledger: its entries, its measurements, and the logic of a check.

A claim is one entry in `claims.yml` and one function decorated with `measures(<id>)` that returns
checks of three kinds:

- `Identity`: an exact statement; what is left over stays below a rounding bound.
- `Curve`: a formula against measurements at several T, its level and, where it has one, its rate.
- `Sign`: a quantity is positive by k standard errors (empirical statements of sign and trend).

A check lists what is wrong with it; an empty list means that it holds. Identities and curves also
take a `Mutation`, a wrong formula, which they must notice: see `tests/test_mutation.py`.

Every formula of the package is called when a check is made, not when its claim is measured, so a
changed formula is noticed although each claim is measured once a session.
"""

import functools
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from gapcourse import ensembles

ROOT = Path(__file__).parents[2]
STANDARD_ERRORS = 4  # k: with 20 seeds or more, one check in a thousand fails by chance
FIELDS = {"id", "title", "statement", "source", "kind", "chapter", "cell", "test"}
FIELDS |= {"verdict", "tolerance"}
KINDS = {"exact", "limit", "empirical"}
VERDICTS = {"reproduced", "deviates", "not tested"}

# Other seeds than the usual ones, to see that no tolerance was fitted to them:
# CLAIMS_SEED=5 python -m pytest tests/test_claims.py
SEED = int(os.environ.get("CLAIMS_SEED", "3"))


@dataclass(frozen=True)
class Mutation:
    """A wrong formula: one part of it moved, up (+1) or down (-1), by the step of the check."""

    part: str  # "constant" or "exponent"
    direction: int

    def __str__(self) -> str:
        return f"{self.part} moved {'up' if self.direction > 0 else 'down'}"


@dataclass(frozen=True)
class Identity:
    """An exact statement, `residual(factor) = 0` at factor 1, up to rounding."""

    label: str
    residual: Callable[[float], float]
    tolerance: float
    step: float = 0.1

    parts = ("constant",)

    def failures(self, mutation: Mutation | None = None) -> list[str]:
        factor = 1 + self.step * mutation.direction if mutation else 1.0
        left = self.residual(factor)
        ok = left <= self.tolerance
        return [] if ok else [f"{self.label}: {left:.2e} is left, {self.tolerance:.2e} allowed"]


@dataclass(frozen=True)
class Curve:
    """A formula beside the mean of what was measured, at each size T.

    `measured` is compared with `predict(sizes) * correction`. Two checks, both relative:

    - level: at each T the two agree within k standard errors + bias;
    - rate: the slope of log(measured/predicted) against log T is 0 within k of its standard errors
      + the steepest slope that a bias of that size can make, sum |w_i| bias_i.
    """

    label: str
    sizes: np.ndarray
    measured: np.ndarray  # mean over seeds, one a size
    stderr: np.ndarray  # its standard error, relative
    predict: Callable[[np.ndarray], Any]
    bias: np.ndarray  # relative finite-size bias allowed, derived beside the claim
    exponent: float | None = None  # the power of T in the formula; None: no rate is claimed
    level: bool = True  # False: the formula has no constant
    correction: np.ndarray | float = 1.0  # derived finite-size factor
    step: float = 0.1  # what a mutation of the constant changes, 0.1 to 0.2
    exponent_step: float = 0.1  # the same for the exponent; of an exponent 0, absolute

    @property
    def parts(self) -> tuple[str, ...]:
        return ("constant",) * self.level + ("exponent",) * (self.exponent is not None)

    def failures(self, mutation: Mutation | None = None) -> list[str]:
        part = mutation.part if mutation else None
        found: list[str] = []
        with np.errstate(divide="ignore"):  # a wrong formula can be 0: infinity fails
            ratio = self.measured / (np.asarray(self.predict(self.sizes)) * self.correction)
        logs = np.log(self.sizes)
        if part == "constant":
            ratio = ratio / (1 + self.step * mutation.direction)
        if part == "exponent":
            shift = self.exponent_step * (self.exponent or 1.0) * mutation.direction
            ratio = ratio * np.exp(-shift * (logs - logs.mean()))
        if self.level and part != "exponent":
            allowed = STANDARD_ERRORS * self.stderr + self.bias
            found += [
                f"{self.label}: at T = {T:.0f} measured/formula = {r:.4f}, 1 ± {a:.4f} allowed"
                for T, r, a in zip(self.sizes, ratio, allowed, strict=True)
                if not abs(r - 1) <= a
            ]
        if self.exponent is not None and part != "constant":
            weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
            with np.errstate(invalid="ignore"):  # a wrong formula can be negative: NaN fails
                slope = weights @ np.log(ratio)
            spread = np.sqrt(((weights * self.stderr) ** 2).sum())
            allowed = STANDARD_ERRORS * spread + np.abs(weights) @ self.bias
            if not abs(slope) <= allowed:
                found.append(f"{self.label}: the rate is off by {slope:.4f}, {allowed:.4f} allowed")
        return found


@dataclass(frozen=True)
class Sign:
    """A quantity is positive by k standard errors. It has no constant to mutate."""

    label: str
    value: float
    stderr: float = 0.0

    parts = ()

    def failures(self, mutation: Mutation | None = None) -> list[str]:
        ok = self.value > STANDARD_ERRORS * self.stderr
        return [] if ok else [f"{self.label}: {self.value:.4f} ± {self.stderr:.4f} is not above 0"]


Check = Identity | Curve | Sign
MEASUREMENTS: dict[str, Callable[[], list[Check]]] = {}


def measures(claim: str) -> Callable[[Callable[[], list[Check]]], Callable[[], list[Check]]]:
    """Register the function that measures a claim; its result is kept for the session."""

    def register(function: Callable[[], list[Check]]) -> Callable[[], list[Check]]:
        if claim in MEASUREMENTS:
            raise ValueError(f"{claim} is measured twice")
        MEASUREMENTS[claim] = functools.cache(function)
        return MEASUREMENTS[claim]

    return register


def failures(claim: str, mutation: Mutation | None = None) -> list[str]:
    """Return what is wrong with a claim, check by check."""
    return [line for check in MEASUREMENTS[claim]() for line in check.failures(mutation)]


def read(path: Path = ROOT / "claims.yml") -> list[dict[str, Any]]:
    """Return the entries of the ledger."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def draws(T: int, seeds: int, entries: str, **options: float) -> Iterator[np.ndarray]:
    """Yield random Markov matrices, the same ones for the same arguments."""
    name = zlib.crc32(repr((entries, sorted(options.items()))).encode())
    for seed in range(seeds):
        rng = np.random.default_rng([SEED, name, T, seed])
        yield ensembles.random_markov(T, entries=entries, rng=rng, **options)


def generator(name: str, *numbers: int) -> np.random.Generator:
    """Return the generator of that name, the same one for the same arguments."""
    return np.random.default_rng([SEED, zlib.crc32(name.encode()), *numbers])


def mean_and_error(samples: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over the first axis and its standard error."""
    samples = np.asarray(samples, dtype=float)
    return samples.mean(axis=0), samples.std(axis=0, ddof=1) / np.sqrt(len(samples))


def falls(label: str, first: Any, last: Any) -> Sign:
    """Return the check that the mean of the first sample is above that of the last."""
    (a, da), (b, db) = mean_and_error(first), mean_and_error(last)
    return Sign(label, float(a - b), float(np.hypot(da, db)))
