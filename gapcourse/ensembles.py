"""Random matrices of the course: random Markov matrices and isometric inputs."""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from . import _checks
from ._checks import RNG, Floats

Shape: TypeAlias = tuple[int, int]

__all__ = ["ENTRIES", "isometric_input", "random_markov"]


def random_markov(
    size: int,
    *,
    entries: str = "lognormal",
    sigma: float | None = None,
    alpha: float | None = None,
    rng: RNG = None,
) -> Floats:
    r"""Draw a random Markov matrix: i.i.d. non-negative entries, each row divided by its sum.

    With raw entries :math:`D_{ij}`, the matrix is :math:`A_{ij} = D_{ij} / \sum_k D_{ik}`. The bulk
    of its singular values at large T depends on D through one number only, if the variance of D is
    finite: :math:`\sigma = \mathrm{std}(D) / \mathbb{E}(D)`.

    Parameters
    ----------
    size : int
        T, the number of rows and of columns, at least 1.
    entries : str, default "lognormal"
        The law of D, one of `ENTRIES`:

        - ``"lognormal"``: exp of a Gaussian of variance log(1 + sigma²), any sigma;
        - ``"gamma"``: shape 1/sigma², so that the rows are Dirichlet vectors, any sigma;
        - ``"exponential"``: gamma at sigma = 1;
        - ``"uniform"``: between 1 - sqrt(3) sigma and 1 + sqrt(3) sigma, so from 0 at the largest
          sigma it can have, 1/sqrt(3);
        - ``"bernoulli"``: 0 or 1, P(1) = 1/(1 + sigma²), any sigma; an empty row is drawn again;
        - ``"pareto"``: P(D > x) = x^(-alpha) for x >= 1, with alpha = 1 + sqrt(1 + 1/sigma²), hence
          alpha > 2; a heavier tail is had with ``alpha=``;
        - ``"cauchy"``: absolute value of a Cauchy variable; it has no mean, hence no sigma.
    sigma : float, optional
        Standard deviation of the raw entry over its mean. None takes the ensemble's natural value:
        1/sqrt(3) for uniform, 1 for the others.
    alpha : float, optional
        Tail index of Pareto entries, instead of sigma. The fourth moment is infinite for
        alpha <= 4, the variance for alpha <= 2, the mean for alpha <= 1.
    rng : None, int or numpy.random.Generator, optional
        Source of randomness; the same int gives the same matrix.

    Returns
    -------
    numpy.ndarray, shape (T, T), float64
        Entries at least 0, each row with sum 1.

    Raises
    ------
    TypeError
        An argument of the wrong kind.
    ValueError
        ``size`` below 1 or above 100000 (80 GB), an unknown ensemble, a sigma or alpha that the
        ensemble can't have.

    References
    ----------
    Bordenave, Caputo and Chafaï (2012), *Circular law theorem for random Markov matrices*, for
    finite variance; Chafaï (2010), *The Dirichlet Markov ensemble*, for uniform ones; Nait Saada,
    Naderi and Tanner (2025) use it as the model of an attention matrix at initialisation.

    Examples
    --------
    >>> A = random_markov(200, entries="gamma", sigma=0.5, rng=1)
    >>> bool(np.allclose(A.sum(axis=1), 1))
    True
    >>> float(round(200 * A.std(), 2))
    0.5
    """
    T = _checks.whole(size, "size")
    _checks.affordable((T, T), "size")
    raw = raw_rows(entries, sigma, alpha)
    D = raw(_checks.generator(rng), (T, T))
    A: Floats = D / D.sum(axis=1, keepdims=True)
    return A


def raw_rows(
    entries: str, sigma: float | None, alpha: float | None
) -> Callable[[np.random.Generator, Shape], Floats]:
    """Return what draws the raw entries of some rows, each up to a factor of its own."""
    if not isinstance(entries, str):
        raise TypeError(
            f"entries must be a name, got {_checks.shown(entries)}; pass one of {ENTRIES}"
        )
    if entries not in ENTRIES:
        raise ValueError(f"entries must be one of {ENTRIES}, got {entries!r}; pick one of them")
    sampler, parameter = _SAMPLERS[entries], _shape_parameter(entries, sigma, alpha)
    return lambda rng, shape: sampler(rng, shape, parameter)


def isometric_input(tokens: int, dim: int, *, rng: RNG = None) -> Floats:
    r"""Draw T orthonormal token vectors in dimension d: :math:`X_0 X_0^\top = I`.

    The rows are Haar distributed: they come from the QR factorisation of a Gaussian matrix, with
    the signs of R's diagonal moved into Q (without them the law would depend on the algorithm).

    Parameters
    ----------
    tokens : int
        T, the number of rows, at least 1.
    dim : int
        d, the number of columns, at least T: no more than d vectors are orthonormal in dimension d.
    rng : None, int or numpy.random.Generator, optional
        Source of randomness; the same int gives the same matrix.

    Returns
    -------
    numpy.ndarray, shape (T, d), float64
        Matrix with orthonormal rows.

    Raises
    ------
    TypeError
        An argument of the wrong kind.
    ValueError
        ``tokens`` or ``dim`` below 1, ``tokens`` above ``dim``, or more than 1e10 entries (80 GB).

    References
    ----------
    Mezzadri (2007), *How to generate random matrices from the classical compact groups*.

    Examples
    --------
    >>> X = isometric_input(3, 5, rng=1)
    >>> bool(np.allclose(X @ X.T, np.eye(3)))
    True
    """
    T, d = _checks.whole(tokens, "tokens"), _checks.whole(dim, "dim")
    _checks.affordable((T, d), "tokens and dim")
    if d < T:
        raise ValueError(
            f"tokens must be at most dim, got tokens={T}, dim={d}: dimension {d} holds no {T} "
            "orthonormal rows; take fewer tokens or a larger dim"
        )
    Q, R = np.linalg.qr(_checks.generator(rng).standard_normal((d, T)))
    signs = np.where(np.diagonal(R) < 0, -1.0, 1.0)
    X: Floats = np.ascontiguousarray((Q * signs).T)
    return X


# The samplers take a generator, a shape (rows, T), and the parameter of the ensemble: sigma, or
# alpha for Pareto. Scaling a row changes nothing, so heavy-tailed entries are drawn as logarithms
# and each row is divided by its largest entry: no overflow, no empty row.


def _from_logs(logs: Floats) -> Floats:
    D: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    return D


def _lognormal(rng: np.random.Generator, shape: Shape, sigma: float) -> Floats:
    return _from_logs(math.sqrt(math.log1p(sigma**2)) * rng.standard_normal(shape))


def _gamma(rng: np.random.Generator, shape: Shape, sigma: float) -> Floats:
    a = sigma**-2  # a gamma variable of shape a is one of shape a + 1 times U^(1/a)
    logs = np.log(rng.standard_gamma(a + 1, shape))
    return _from_logs(logs - rng.standard_exponential(shape) / a)


def _uniform(rng: np.random.Generator, shape: Shape, sigma: float) -> Floats:
    half_width = min(sigma * math.sqrt(3), 1.0)
    return 1 + half_width * (1 - 2 * rng.random(shape))


def _bernoulli(rng: np.random.Generator, shape: Shape, sigma: float) -> Floats:
    p, T = 1 / (1 + sigma**2), shape[1]
    D = rng.random(shape) < p
    empty = ~D.any(axis=1)
    if empty.any():
        # Redrawing a row until it is not empty, in one step: the column of its first 1 is a
        # geometric variable conditioned to be at most T; after that column the row is free.
        n = int(empty.sum())
        log_q = math.log1p(-p)
        first = np.ceil(np.log1p(rng.random(n) * math.expm1(T * log_q)) / log_q)
        first = np.clip(first, 1, T)[:, None]
        column = np.arange(1, T + 1)
        D[empty] = (column == first) | ((column > first) & (rng.random((n, T)) < p))
    return D.astype(np.float64)


def _pareto(rng: np.random.Generator, shape: Shape, alpha: float) -> Floats:
    return _from_logs(rng.standard_exponential(shape) / alpha)


def _cauchy(rng: np.random.Generator, shape: Shape, _: float) -> Floats:
    return np.abs(rng.standard_cauchy(shape))


_SAMPLERS: dict[str, Callable[[np.random.Generator, Shape, float], Floats]] = {
    "lognormal": _lognormal,
    "gamma": _gamma,
    "exponential": _gamma,
    "uniform": _uniform,
    "bernoulli": _bernoulli,
    "pareto": _pareto,
    "cauchy": _cauchy,
}
ENTRIES: tuple[str, ...] = tuple(_SAMPLERS)
"""Names of the ensembles that `random_markov` knows."""

_LARGEST_UNIFORM = 1 / math.sqrt(3)
_SANE = (1e-100, 1e100)  # what float64 can square and divide by without overflow


def _shape_parameter(entries: str, sigma: float | None, alpha: float | None) -> float:
    """Return the number the sampler takes, or refuse what this ensemble can't have."""
    if alpha is not None:
        if entries != "pareto":
            raise ValueError(
                f"alpha is the tail index of entries='pareto' only, got alpha={alpha!r} with "
                f"entries={entries!r}; leave alpha out"
            )
        if sigma is not None:
            raise ValueError(
                f"sigma and alpha fix each other, got sigma={sigma!r} and alpha={alpha!r}; "
                "pass one of them"
            )
        return _sane(alpha, "alpha")
    if entries == "cauchy":
        if sigma is not None:
            raise ValueError(
                f"sigma must be left out for entries='cauchy', got {sigma!r}: a Cauchy variable "
                "has no mean, hence no sigma; leave it out"
            )
        return math.nan
    if sigma is None:
        sigma = _LARGEST_UNIFORM if entries == "uniform" else 1.0
    sigma = _sane(sigma, "sigma")
    if entries == "uniform" and sigma > _LARGEST_UNIFORM * (1 + 1e-12):
        raise ValueError(
            f"sigma must be at most 1/sqrt(3) = 0.57735 for entries='uniform', got {sigma}: a "
            "uniform variable that is never negative can't vary more; use entries='gamma'"
        )
    if entries == "exponential" and sigma != 1:
        raise ValueError(
            f"sigma must be 1 for entries='exponential', got {sigma}: an exponential variable has "
            "its standard deviation equal to its mean; use entries='gamma' for another sigma"
        )
    return 1 + math.hypot(1, 1 / sigma) if entries == "pareto" else sigma


def _sane(value: float, name: str) -> float:
    value = _checks.positive(value, name, f"pass a positive number, such as {name}=1.0")
    low, high = _SANE
    if not low <= value <= high:
        raise ValueError(f"{name} must lie between {low} and {high}, got {value}; come closer to 1")
    return value
