"""Limiting laws of singular values, each as an object with a density, quantiles and moments.

All are laws of singular values, never of their squares or of eigenvalues.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import _checks
from ._checks import RNG, Floats

__all__ = ["QuarterCircle", "SingularValueLaw"]


class SingularValueLaw(ABC):
    """What all laws share: the checks of the arguments, sampling, and the names.

    A law gives its `edge`, and the array functions ``_pdf``, ``_cdf``, ``_ppf``, ``_moment`` and,
    where eigenvalues make sense, ``_radius_ppf``; they receive checked float64 arrays.
    """

    @property
    @abstractmethod
    def edge(self) -> float:
        """Largest point of the law's support."""

    @property
    def outlier(self) -> float:
        """Position of the singular value outside the support, 0 where there is none."""
        return 0.0

    @property
    def atom(self) -> float:
        """Probability of the value zero."""
        return 0.0

    def pdf(self, x: ArrayLike) -> float | Floats:
        """Return the density at ``x`` (without the atom), 0 outside the support.

        A float for a number, an array of the same shape for an array.
        """
        return _checks.plain(self._pdf(_checks.numbers(x, "x")))

    def cdf(self, x: ArrayLike) -> float | Floats:
        """Return the probability of a value of at most ``x`` (with the atom)."""
        return _checks.plain(self._cdf(_checks.numbers(x, "x")))

    def ppf(self, q: ArrayLike) -> float | Floats:
        """Return the quantile: the x with ``cdf(x) = q``, for q between 0 and 1."""
        return _checks.plain(self._ppf(_probability(q, "q")))

    def moment(self, k: int) -> float:
        """Return the expectation of x^k, for even k >= 0.

        Even moments are traces, (1/T) tr (M Mᵀ)^(k/2); the odd ones are not, and are refused.
        """
        k = _checks.whole(k, "k", minimum=0)
        if k % 2:
            raise ValueError(
                f"k must be even, got {_checks.shown(k)}: only even moments of singular values are "
                f"traces; pass {_checks.shown(k - 1)} or {_checks.shown(k + 1)}"
            )
        moment = self._moment(k)
        if not math.isfinite(moment):
            raise ValueError(
                f"k must leave the moment below 1.8e308, the largest float64, got "
                f"{_checks.shown(k)}; pass a smaller k"
            )
        return moment

    def rvs(self, size: int | tuple[int, ...], rng: RNG = None) -> Floats:
        """Draw independent values, an array of shape ``size``.

        Singular values of one matrix are *not* independent (they repel each other); their
        histogram is close to that of these draws, their spacings are not.
        """
        if isinstance(size, tuple):
            shape = tuple(_checks.whole(n, "size", minimum=0) for n in size)
        else:
            shape = (_checks.whole(size, "size", minimum=0),)
        _checks.affordable(shape, "size")
        return np.asarray(self._ppf(_checks.generator(rng).random(shape)))

    def radius_ppf(self, t: ArrayLike) -> float | Floats:
        """Return the radius within which the fraction ``t`` of the eigenvalues lies."""
        return _checks.plain(self._radius_ppf(_probability(t, "t")))

    @abstractmethod
    def _pdf(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _cdf(self, x: Floats) -> Floats: ...

    @abstractmethod
    def _ppf(self, q: Floats) -> Floats: ...

    @abstractmethod
    def _moment(self, k: int) -> float: ...

    def _radius_ppf(self, t: Floats) -> Floats:
        raise NotImplementedError(f"{type(self).__name__} says nothing about eigenvalues")


@dataclass(frozen=True)
class QuarterCircle(SingularValueLaw):
    r"""Quarter-circle law: singular values of a large square matrix of independent noise.

    .. math:: f(x) = \frac{1}{\pi\sigma^2}\sqrt{4\sigma^2 - x^2}, \qquad 0 \le x \le 2\sigma.

    It is the limit, as T grows, of :math:`\sqrt{T}` times the singular values of
    :math:`A_\perp = A - \frac1T \mathbf 1\mathbf 1^\top`, for a random Markov matrix A whose raw
    entries have a finite variance and :math:`\sigma = \mathrm{std}(D)/\mathbb{E}(D)`. The largest
    of them sits at the edge :math:`2\sigma` if the fourth moment is finite too. If the raw entries
    have a bounded density, the eigenvalues of :math:`\sqrt{T} A_\perp` fill the disc of radius
    :math:`\sigma` uniformly.

    Parameters
    ----------
    sigma : float
        Half the edge, and the root mean square of the values; above 0.

    Raises
    ------
    TypeError
        An argument of the wrong kind; a torch tensor (pass ``.numpy()``).
    ValueError
        sigma not above 0 or not finite; NaN; a probability outside [0, 1]; a moment that is odd or
        beyond float64.

    References
    ----------
    Bordenave, Caputo and Chafaï (2012) for the circular law of eigenvalues; Chafaï (2010) for the
    singular values with uniform Dirichlet rows (exponential entries).

    Examples
    --------
    >>> law = QuarterCircle(sigma=0.5)
    >>> law.edge, law.cdf(1.0), law.moment(2)
    (1.0, 1.0, 0.25)
    >>> round(law.ppf(0.5), 4)
    0.404
    """

    sigma: float

    def __post_init__(self) -> None:
        sigma = _checks.positive(self.sigma, "sigma", "pass std/mean of the raw entry, such as 1.0")
        object.__setattr__(self, "sigma", sigma)

    @property
    def edge(self) -> float:
        """Largest point of the support, 2 sigma."""
        return 2 * self.sigma

    @classmethod
    def fit(cls, values: ArrayLike) -> "QuarterCircle":
        r"""Estimate sigma from values: their root mean square, as :math:`\mathbb{E}x^2=\sigma^2`.

        Pass the bulk only: :math:`\sqrt{T}` times the singular values of :math:`A_\perp`, without
        the outlier of A.

        Parameters
        ----------
        values : array_like of non-negative numbers, any shape

        Examples
        --------
        >>> QuarterCircle.fit([1, 1, 2, 2])
        QuarterCircle(sigma=1.5811388300841898)
        """
        array = _checks.within(values, "values", 0, remedy="pass singular values")
        if not array.any():  # empty arrays included
            raise ValueError(
                f"values must hold a number above 0, got {_checks.shown(values)}; pass singular "
                "values of a matrix that is not zero"
            )
        scale = array.max()
        return cls(float(scale * np.sqrt(np.mean((array / scale) ** 2))))

    def _pdf(self, x: Floats) -> Floats:
        u = np.where((x >= 0) & (x <= self.edge), x / self.edge, 1.0)
        density: Floats = 2 / (math.pi * self.sigma) * np.sqrt(1 - u * u)
        return density

    def _cdf(self, x: Floats) -> Floats:
        u = np.clip(x / self.edge, 0, 1)
        return 2 / math.pi * (u * np.sqrt(1 - u * u) + np.arcsin(u))

    def _ppf(self, q: Floats) -> Floats:
        # With x = edge sin(y/2) the equation is y + sin y = pi q; with x = edge cos(y/2) it is
        # y - sin y = pi (1 - q). Newton's method on the one whose y is small.
        low = q <= 0.5
        sign = np.where(low, 1.0, -1.0)
        target = math.pi * np.where(low, q, 1 - q)
        y = np.where(low, target / 2, np.cbrt(6 * target))
        for _ in range(6):
            slope = np.where(y > 0, 1 + sign * np.cos(y), 1.0)
            y = y - (y + sign * np.sin(y) - target) / slope
        x: Floats = self.edge * np.where(low, np.sin(y / 2), np.cos(y / 2))
        return x

    def _moment(self, k: int) -> float:
        n = min(k // 2, 10**300)  # from far below there on the result is 0 or infinite
        try:
            power = math.pow(self.edge, n)
        except OverflowError:
            return math.inf
        return power * _catalan(n) * power  # the whole power could overflow before the moment does

    def _radius_ppf(self, t: Floats) -> Floats:
        return self.sigma * np.sqrt(t)


def _catalan(n: int) -> float:
    """Return the n-th Catalan number over 4^n."""
    if n <= 10_000:
        share: float = math.comb(2 * n, n) / ((n + 1) * 4**n)
        return share
    series = 1 - 1 / (8 * n) + 1 / (128 * n * n)  # Stirling's, the next term being below 5e-15
    return series / math.sqrt(math.pi * n) / (n + 1)


def _probability(values: ArrayLike, name: str) -> Floats:
    return _checks.within(values, name, 0, 1, remedy="pass probabilities")
