"""Limiting laws of singular values, each as an object with a density, quantiles and moments.

All are laws of singular values, never of their squares or of eigenvalues.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc

from . import _checks
from ._bulk import Bulk, hermite
from ._checks import RNG, Floats
from ._roots import bisect

__all__ = [
    "AttentionBulk",
    "FussCatalan",
    "MarchenkoPastur",
    "QuarterCircle",
    "SingularValueLaw",
]


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
        raise NotImplementedError(
            f"{type(self).__name__} says nothing about eigenvalues; QuarterCircle, FussCatalan and "
            "AttentionBulk do"
        )


@dataclass(frozen=True)
class QuarterCircle(SingularValueLaw):
    r"""Quarter-circle law: singular values of a large square matrix of independent noise.

    .. math:: f(x) = \frac{1}{\pi\sigma^2}\sqrt{4\sigma^2 - x^2}, \quad 0 \le x \le 2\sigma.

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


@dataclass(frozen=True)
class MarchenkoPastur(SingularValueLaw):
    r"""Marchenko-Pastur law, of singular values: a large rectangular matrix of independent noise.

    .. math::

        f(x) &= \frac{\sqrt{(x_+^2 - x^2)(x^2 - x_-^2)}}{\pi\sigma^2 \lambda x}, \\
        x_\pm &= \sigma\,|1 \pm \sqrt\lambda|,

    for the ratio :math:`\lambda` of rows to columns, between the edges :math:`x_-` and
    :math:`x_+`. It is the limit law of the square roots of the eigenvalues of
    :math:`M M^\top`, one for each *row* of M, if the entries of M are independent with mean 0 and
    variance :math:`\sigma^2/\text{columns}`. With more rows than columns a share
    :math:`1 - 1/\lambda` of them is zero (the atom). Ratio 1 gives `QuarterCircle`.

    Parameters
    ----------
    ratio : float
        Rows over columns, from 1e-8 to 1e8.
    sigma : float
        Standard deviation of an entry times the root of the number of columns, above 0.

    Raises
    ------
    TypeError, ValueError
        As `QuarterCircle`; a moment with k above 20,000.

    References
    ----------
    Marchenko and Pastur (1967). For the edges as limits of the largest and smallest singular value
    a finite fourth moment is needed; Bai and Yin (1993).

    Examples
    --------
    >>> law = MarchenkoPastur(ratio=4.0)
    >>> law.lower_edge, law.edge, law.atom
    (1.0, 3.0, 0.75)
    >>> round(law.moment(4), 12)
    5.0
    """

    ratio: float
    sigma: float = 1.0

    def __post_init__(self) -> None:
        remedy = "pass rows/columns, such as 0.5"
        ratio = float(_checks.within(self.ratio, "ratio", 1e-8, 1e8, ndim=(0,), remedy=remedy))
        sigma = _checks.positive(self.sigma, "sigma", "pass the scale of an entry, such as 1.0")
        object.__setattr__(self, "ratio", ratio)
        object.__setattr__(self, "sigma", sigma)

    @property
    def edge(self) -> float:
        """Largest point of the support, sigma (1 + sqrt(ratio))."""
        return self.sigma * (1 + math.sqrt(self.ratio))

    @property
    def lower_edge(self) -> float:
        """Smallest point of the support (the atom apart), sigma abs(1 - sqrt(ratio))."""
        return self.sigma * abs(1 - math.sqrt(self.ratio))

    @property
    def atom(self) -> float:
        """Probability of the value zero, 1 - 1/ratio for a ratio above 1."""
        return max(0.0, 1 - 1 / self.ratio)

    @classmethod
    def fit(cls, values: ArrayLike) -> "MarchenkoPastur":
        r"""Estimate ratio and sigma, from :math:`\mathbb{E}x^2=\sigma^2` and the fourth moment.

        The latter is :math:`\sigma^4(1+\lambda)`. Pass one value for each row, the zeros of a
        matrix with more rows than columns included (``numpy`` leaves them out): without them the
        answer is the law of the transpose. Of a histogram pass ``np.repeat(centres, counts)``.

        Parameters
        ----------
        values : array_like of non-negative numbers, any shape, not all equal

        Examples
        --------
        >>> MarchenkoPastur.fit([0, 0, 1, 1])
        MarchenkoPastur(ratio=1.0, sigma=0.7071067811865476)
        """
        array = _checks.within(values, "values", 0, remedy="pass singular values")
        scale = array.max(initial=0.0)
        if array.size == 0 or array.min() == scale:
            raise ValueError(
                f"values must hold two different numbers, got {_checks.shown(values)}; pass all "
                "singular values of a matrix of noise"
            )
        square = np.square(array / scale).ravel()
        mean = float(square.mean())
        square -= mean
        ratio = float(square @ square) / square.size / mean**2
        return cls(ratio, float(scale) * math.sqrt(mean))

    # With p = sqrt(ratio), or 1/sqrt(ratio) above 1 (the transpose's), the angle w between 0 and pi
    # with x^2 = x_-^2 + (x_+^2 - x_-^2) sin^2(w/2) has the density (2/pi) sin^2(w)/(1 + p^2 - 2p
    # cos w) among the values that are not zero; _share is its integral.

    def _angle(self, x: Floats) -> Floats:
        low, high = self.lower_edge, self.edge
        y = np.clip(x, low, high)
        part = (y - low) / (high - low) * (y + low) / (high + low)
        return 2 * np.arcsin(np.sqrt(part))

    def _share(self, angle: Floats) -> Floats:
        p = math.sqrt(min(self.ratio, 1 / self.ratio))
        sine = p * np.sin(angle)
        turn = np.arctan2(sine, 1 - p * np.cos(angle))
        return (angle + turn + (sine - turn) / p**2) / math.pi

    def _pdf(self, x: Floats) -> Floats:
        low, high = self.lower_edge, self.edge
        y = x.clip(low, high) / self.sigma  # at both edges the formula is 0
        low, high = low / self.sigma, high / self.sigma
        square = high - y
        square *= high + y
        if low == 0:  # the quarter circle, whose density at 0 is not 0
            square = np.where(x >= 0, square, 0.0)
            return np.sqrt(square) / (math.pi * self.sigma * self.ratio)
        square *= y - low
        square *= y + low
        density: Floats = np.sqrt(square)
        density /= y
        density /= math.pi * self.sigma * self.ratio
        return density

    def _cdf(self, x: Floats) -> Floats:
        share = np.clip(self._share(self._angle(x)), 0, 1)
        return np.where(x < 0, 0.0, self.atom + (1 - self.atom) * share)

    def _ppf(self, q: Floats) -> Floats:
        share = (q - self.atom) / (1 - self.atom)
        angle = bisect(lambda w: self._share(w) - share, np.zeros_like(q), np.full_like(q, math.pi))
        low, high = self.lower_edge, self.edge
        x = np.hypot(low, math.sqrt((high - low) * (high + low)) * np.sin(angle / 2))
        x = np.where(q == 1, high, np.minimum(x, high))
        return np.where(q <= self.atom, low if self.atom == 0 else 0.0, x)

    def _moment(self, k: int) -> float:
        n = _half(k)
        if n == 0:
            return 1.0
        # The sum of Narayana numbers, C(n, r) C(n - 1, r)/(r + 1) ratio^r, from ratios of terms.
        r = np.arange(n - 1)
        steps = math.log(self.ratio) + np.log((n - r) * (n - 1 - r) / ((r + 1) * (r + 2)))
        logs = np.concatenate([[0.0], np.cumsum(steps)])
        top = logs.max()
        log = top + math.log(math.fsum(np.exp(logs - top))) + k * math.log(self.sigma)
        return _exp(log)


@dataclass(frozen=True)
class FussCatalan(SingularValueLaw):
    r"""Fuss-Catalan law: singular values of a product of independent square noise matrices.

    With n = order, for :math:`0 < t < \pi/(n+1)`,

    .. math::

        x^2 &= \frac{\sin^{n+1}((n+1)t)}{\sin t\,\sin^n(nt)}, \\
        f(x) &= \frac{2}{\pi x}\,\frac{\sin((n+1)t)\,\sin t}{\sin(nt)}.

    It is the limit law, as T grows, for the product of n independent (T, T) matrices whose entries
    are independent with mean 0 and variance 1/T. The moment of order 2k is the Fuss-Catalan number
    :math:`\binom{(n+1)k}{k}/(nk+1)`; the edge is :math:`\sqrt{(n+1)^{n+1}/n^n}`. Order 1 is
    ``QuarterCircle(1)``. The fraction t of the eigenvalues lies within the radius
    :math:`t^{n/2}`.

    Parameters
    ----------
    order : int
        Number of factors, from 1 to 1000.

    Raises
    ------
    TypeError, ValueError
        As `QuarterCircle`; an order that is not a whole number of 1 to 1000; a moment with k above
        20,000.

    References
    ----------
    Alexeev, Götze and Tikhomirov (2010) for powers of one matrix, which have the same limit; for
    products it follows from the S-transform, chapter 02 of this course. The density follows from
    :math:`x^2 = w^{n+1}/(w-1)`, which the generating function w of the moments solves, with
    :math:`w = e^{it}\sin((n+1)t)/\sin(nt)`.

    Examples
    --------
    >>> law = FussCatalan(order=2)
    >>> [law.moment(k) for k in (2, 4, 6)]
    [1.0, 3.0, 12.0]
    >>> round(law.edge, 4), law.radius_ppf(0.25)
    (2.5981, 0.25)
    """

    order: int

    def __post_init__(self) -> None:
        order = _checks.whole(self.order, "order")
        if order > 1000:
            raise ValueError(f"order must be at most 1000, got {order}; pass fewer factors")
        object.__setattr__(self, "order", order)

    @property
    def edge(self) -> float:
        """Largest point of the support, the root of (n+1)^(n+1)/n^n."""
        n = self.order
        return math.sqrt((n + 1) * (1 + 1 / n) ** n)

    # The angle y = pi - (n+1) t grows with x, from 0 to pi.

    def _sines(self, y: Floats) -> tuple[Floats, Floats, Floats]:
        """Return sin((n+1)t), sin t and sin(nt), exact at both ends."""
        n, rest = self.order, math.pi - y
        t = rest / (n + 1)
        return np.sin(np.minimum(y, rest)), np.sin(t), np.sin(np.minimum(n * t, y + t))

    def _value(self, y: Floats) -> Floats:
        n = self.order
        big, one, many = (np.where(y < math.pi, sine, 1.0) for sine in self._sines(y))
        x = np.sqrt(big / one * (big / many) ** n)
        return np.where(y < math.pi, np.minimum(x, self.edge), self.edge)

    def _angle(self, x: Floats) -> Floats:
        x = np.clip(x, 0, self.edge)
        return bisect(lambda y: self._value(y) - x, np.zeros_like(x), np.full_like(x, math.pi))

    def _pdf(self, x: Floats) -> Floats:
        inside = (x >= 0) & (x < self.edge)
        x = np.where(inside, x, self.edge / 2)
        big, one, many = self._sines(self._angle(x))
        with np.errstate(divide="ignore", invalid="ignore"):
            density = 2 / math.pi * big * one / many / x
        at_zero = 2 / math.pi if self.order == 1 else math.inf
        return np.where(inside, np.where(x > 0, density, at_zero), 0.0)

    def _cdf(self, x: Floats) -> Floats:
        return np.where(x > 0, self._below(self._angle(x)), 0.0)

    def _below(self, y: Floats) -> Floats:
        """Return the probability of the values whose angle is below y."""
        big, one, many = self._sines(y)
        many = np.where(many > 0, many, 1.0)
        return (y + self.order * big * one / many) / math.pi

    def _ppf(self, q: Floats) -> Floats:
        y = bisect(lambda y: self._below(y) - q, np.zeros_like(q), np.full_like(q, math.pi))
        return np.where(q == 1, self.edge, np.where(q == 0, 0.0, self._value(y)))

    def _moment(self, k: int) -> float:
        m = _half(k)
        try:
            return float(math.comb((self.order + 1) * m, m) // (self.order * m + 1))
        except OverflowError:
            return math.inf

    def _radius_ppf(self, t: Floats) -> Floats:
        return t ** (self.order / 2)


@dataclass(frozen=True)
class AttentionBulk(SingularValueLaw):
    r"""Bulk law of an attention matrix at initialisation: a linear part plus independent noise.

    The entries f(S)/T of the matrix come from logits :math:`S = s\,QK^\top/\sqrt{d_k}`, Q and K of
    shape (T, d_k) with independent entries of mean 0 and variance 1. They depend on each other.
    With the linear part's size c1, the noise's size c2 and the ratio :math:`c = T/d_k`, the Cauchy
    transform G of the law, made symmetric, solves

    .. math:: x = \frac1G + c_2^2\,G + \frac{c_1^2\,G}{1 - c\,c_1^2 G^2}.

    It is the limit law of :math:`\sqrt T` times the singular values of the mean-removed matrix, as
    T and d_k grow at a fixed ratio. The edge is the least x over
    :math:`0 < G < 1/(c_1\sqrt c)`. As c goes to 0, or with c1 = 0, it becomes the quarter circle
    of :math:`\sigma = \sqrt{c_1^2 + c_2^2}`. With c2 = 0 it is the law of
    :math:`QK^\top/\sqrt{d_k T}`: an atom of :math:`1 - 1/c` above c = 1, and at c = 1 a density
    that grows as :math:`x^{-1/3}` towards 0. For small c2/c1 and large c there are two bands
    with a gap between them; the inner one then holds the share :math:`1 - 1/c`.

    The fraction t of the eigenvalues lies within the radius :math:`\sqrt{t(1-t)/V}`, where V > 0
    solves :math:`c_2^2 V + c_1^2 V/(1 + c\,c_1^2 V) = 1 - t`; the outer radius is
    :math:`\sqrt{c_1^2 + c_2^2}`, whatever c is.

    That is the limit. For a small head `softmax` and `from_map` also give an interpolation, the law
    of all degrees (empirical, derived in this course): the part of degree k, of size
    :math:`h_k = \sqrt{k!}\,|a_k|` (over :math:`|a_0|` for softmax), acts as a product with
    :math:`n_k = \binom{d_k+k-1}{k}` features, :math:`r_k = T/n_k`, and adds
    :math:`h_k^2 G/(1 - r_k h_k^2 G^2)` to x, likewise in V. It comes closer to the small
    eigenvalues; what it leaves out about halves when :math:`d_k` doubles at a fixed ratio (seen,
    not derived), and is not small at :math:`d_k = 20`.

    Parameters
    ----------
    linear : float
        c1, the size of the linear part, at least 0.
    noise : float
        c2, the size of the independent part, at least 0, not 0 together with ``linear``. Below
        1e-20 of the linear part it counts as 0.
    ratio : float
        Tokens over head dimension, from 1e-6 to 1e6.

    Attributes
    ----------
    higher : tuple of (size, ratio) pairs
        The parts of degree 2 and above, :math:`(h_k, r_k)`, as far as ``degrees`` asked for
        them; ``noise`` is then what is left.

    Raises
    ------
    TypeError, ValueError
        As `QuarterCircle`; a moment with k above 2,000; degrees above 1 without ``head_dim``.

    References
    ----------
    That attention's bulk behaves as a linear part plus independent noise is, for softmax, a theorem
    of Hayase, Collins and Karakida (2025, arXiv:2510.06685). For entrywise maps of mean 0 the law
    is that of Pennington and Worah (2017), proved for wider classes by Benigni and Péché (2021),
    who give it as an equation of degree four; the form above is derived in this course. The radii
    are those of an R-diagonal limit, Haagerup and Larsen (2000); that they hold for attention is
    what one sees, not a theorem.

    Examples
    --------
    >>> law = AttentionBulk.softmax(logit_std=0.6, ratio=4.0)
    >>> round(law.edge, 3), law.outlier
    (2.157, 1.0)
    >>> AttentionBulk(linear=1.0, noise=0.0, ratio=5.0).atom
    0.8
    """

    linear: float
    noise: float
    ratio: float
    higher: tuple[tuple[float, float], ...] = field(default=(), init=False, repr=False)
    _outlier: float = field(default=0.0, init=False, repr=False)
    _shape: Bulk = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("linear", "noise"):
            remedy = "pass its size, such as 0.5"
            value = float(_checks.within(getattr(self, name), name, 0, ndim=(0,), remedy=remedy))
            object.__setattr__(self, name, value)
        if self.linear == self.noise == 0:
            raise ValueError("linear and noise must not both be 0, got 0 and 0; raise one of them")
        ratio = float(
            _checks.within(
                self.ratio, "ratio", 1e-6, 1e6, ndim=(0,), remedy="pass tokens/head dimension"
            )
        )
        object.__setattr__(self, "ratio", ratio)
        self._solve()

    def _solve(self) -> None:
        """Set up the solver, of the law over its scale."""
        parts, noise = [(self.linear / self._scale, self.ratio)], self.noise / self._scale
        if self.higher:
            parts += [(size / self._scale, ratio) for size, ratio in self.higher]
            faint = [size for size, ratio in parts if ratio * size**2 < 1e-8]  # as good as noise
            noise = math.hypot(noise, *faint)
            parts = [(size, ratio) for size, ratio in parts if ratio * size**2 >= 1e-8]
            parts.sort(key=lambda part: -part[1] * part[0] ** 2)
        sizes, ratios = zip(*(parts or [(0.0, 1.0)]), strict=True)
        object.__setattr__(self, "_shape", Bulk(noise, sizes, ratios))

    @classmethod
    def _of_parts(
        cls,
        parts: Sequence[float],
        noise: float,
        ratio: float,
        head_dim: int | None,
        outlier: float,
    ) -> "AttentionBulk":
        """Return the law for parts of degree 1, 2, ... of the given sizes."""
        law = cls(parts[0], noise or max(parts), ratio)  # the noise is set right below
        if len(parts) > 1 and head_dim is not None:
            tokens = law.ratio * head_dim
            features = [  # far above 1e300 there is no float64, and no difference
                min(math.comb(head_dim + k - 1, k), 10**300) for k in range(2, len(parts) + 1)
            ]
            pairs = [(c, tokens / n) for c, n in zip(parts[1:], features, strict=True) if c > 0]
            object.__setattr__(law, "higher", tuple(pairs))
        object.__setattr__(law, "noise", float(noise))
        object.__setattr__(law, "_outlier", outlier)
        law._solve()
        return law

    @classmethod
    def from_map(
        cls,
        f: Callable[[float], float],
        logit_std: float,
        ratio: float,
        *,
        head_dim: int | None = None,
        degrees: int = 1,
    ) -> "AttentionBulk":
        r"""Return the law for entries f(S)/T, not divided by their row's sum.

        With :math:`a_0, a_1` the first coefficients of :math:`f(sz) = \sum_k a_k He_k(z)` in
        Hermite polynomials, c1 is :math:`|a_1|`, :math:`c_2^2 = \mathrm{Var} f - a_1^2`, and the
        outlier sits at :math:`|a_0|`.

        The coefficients come from adaptive quadrature, right to about 1e-10 also where f has kinks
        or jumps; a feature narrower than 0.1 ``logit_std`` may be missed. A part below 1e-8 of the
        whole counts as none.

        Parameters
        ----------
        f : callable
            The map of one logit, as ``lambda z: max(z, 0.0)`` for ReLU attention; finite for
            arguments up to 38 ``logit_std``, and with a finite second moment.
        logit_std : float
            s, the standard deviation of a logit, above 0.
        ratio : float
            Tokens over head dimension.
        head_dim : int, optional
            :math:`d_k`, needed for degrees above 1.
        degrees : int
            Degrees of f that count as products of Gaussian matrices, 1 to 20; those above count
            as noise.

        Examples
        --------
        >>> law = AttentionBulk.from_map(lambda z: max(z, 0.0), logit_std=1.0, ratio=1.0)
        >>> round(law.linear, 6), round(law.noise, 6), round(law.outlier, 6)
        (0.5, 0.301405, 0.398942)
        """
        if not callable(f):
            raise TypeError(f"f must be a function of one number, got {_checks.shown(f)}; pass one")
        s = _checks.positive(logit_std, "logit_std", "pass the standard deviation of a logit")
        head_dim, degrees = _degrees(head_dim, degrees)
        mean, parts, noise = hermite(f, s, degrees)
        return cls._of_parts(parts, noise, ratio, head_dim, abs(mean))

    @classmethod
    def softmax(
        cls, logit_std: float, ratio: float, *, head_dim: int | None = None, degrees: int = 1
    ) -> "AttentionBulk":
        r"""Return the law of softmax attention, whose rows sum to 1.

        :math:`c_1^2 = s^2`, :math:`c_2^2 = e^{s^2} - 1 - s^2`, and the outlier sits at 1. At finite
        T the tail of the entries matters: up to s = 0.5 the edge is sharp, at s = 1 and T = 1200
        a few values still lie above it.

        Parameters
        ----------
        logit_std : float
            s, the standard deviation of a logit, above 0 and at most 26.
        ratio : float
            Tokens over head dimension.
        head_dim, degrees : int, optional
            As in `from_map`.

        Examples
        --------
        >>> round(AttentionBulk.softmax(1.0, ratio=1.0).edge, 2)
        3.0
        """
        s = float(
            _checks.within(
                logit_std,
                "logit_std",
                0,
                26,
                open_low=True,
                ndim=(0,),
                remedy="pass the standard deviation of a logit",
            )
        )
        head_dim, degrees = _degrees(head_dim, degrees)
        parts = [s**k / math.sqrt(math.factorial(k)) for k in range(1, degrees + 1)]
        noise = math.sqrt(math.exp(s * s) * gammainc(degrees + 1, s * s))  # the rest of the series
        return cls._of_parts(parts, noise, ratio, head_dim, 1.0)

    @property
    def _scale(self) -> float:
        return math.hypot(self.linear, self.noise, *(size for size, _ in self.higher))

    @property
    def edge(self) -> float:
        """Largest point of the support."""
        return self._scale * self._shape.bands[-1].high

    @property
    def bands(self) -> tuple[tuple[float, float], ...]:
        """The intervals that make up the support, from the innermost (the atom apart)."""
        scale = self._scale
        return tuple((scale * band.low, scale * band.high) for band in self._shape.bands)

    @property
    def outlier(self) -> float:
        """Position of the singular value that the mean makes, 0 if the sizes alone are given."""
        return self._outlier

    def spike(self, theta: ArrayLike) -> float | Floats:
        r"""Return the singular value that one independent rank-one part of size theta makes.

        .. math:: x(\theta) = \frac1G + c_2^2\,G + \frac{c_1^2\,G}{1 - c\,c_1^2 G^2} \\
           \text{at } G = 1/\theta, \text{ where } dx/dG < 0

        (with the sum over the parts in the law of all degrees). There x lies outside the support:
        beyond the edge, for theta above a threshold, or in a gap (between two bands, or between an
        atom and the bulk). Elsewhere the part is absorbed by the bulk, whose largest value stays at
        the `edge`: that is returned.

        Parameters
        ----------
        theta : array_like
            Size of the rank-one part, above 0, on the scale of the law: for attention
            :math:`\sqrt T` times its singular value.

        Returns
        -------
        float or array
            A float for a number, an array of the same shape for an array.

        References
        ----------
        Benaych-Georges and Nadakuditi (2012), for an invariant matrix plus an independent rank-one
        part. Its use for attention, whose parts of degree 2 come from the same queries and keys, is
        derived in this course, and checked by simulation.

        Examples
        --------
        >>> law = AttentionBulk.softmax(logit_std=0.5, ratio=16.0)
        >>> [[round(x, 3) for x in band] for band in law.bands]
        [[0.0, 0.357], [1.348, 2.75]]
        >>> round(law.spike(0.5**0.5), 4)
        0.7047
        """
        theta = _checks.within(
            theta, "theta", 0, open_low=True, remedy="pass the size of the rank-one part"
        )
        scale = self._scale
        return _checks.plain(scale * self._shape.spike(theta / scale))

    @property
    def atom(self) -> float:
        """Probability of the value zero: without noise and above ratio 1, 1 - 1/ratio."""
        return self._shape.atom

    def _pdf(self, x: Floats) -> Floats:
        return self._shape.pdf(x / self._scale) / self._scale

    def _cdf(self, x: Floats) -> Floats:
        return self._shape.cdf(x / self._scale)

    def _ppf(self, q: Floats) -> Floats:
        return np.minimum(self._scale * self._shape.ppf(q), self.edge)

    def _moment(self, k: int) -> float:
        if k > 2000:
            raise ValueError(
                f"k must be at most 2000 here, got {_checks.shown(k)}; pass a smaller k"
            )
        log = math.log(self._scale) + math.log(self._shape.bands[-1].high)
        return self._shape.moment_share(k) * _exp(k * log)

    def _radius_ppf(self, t: Floats) -> Floats:
        return self._scale * self._shape.radius(t)


def _catalan(n: int) -> float:
    """Return the n-th Catalan number over 4^n."""
    if n <= 10_000:
        share: float = math.comb(2 * n, n) / ((n + 1) * 4**n)
        return share
    series = 1 - 1 / (8 * n) + 1 / (128 * n * n)  # Stirling's, the next term being below 5e-15
    return series / math.sqrt(math.pi * n) / (n + 1)


def _degrees(head_dim: int | None, degrees: int) -> tuple[int | None, int]:
    degrees = _checks.whole(degrees, "degrees")
    if degrees > 20:
        raise ValueError(f"degrees must be at most 20, got {degrees}; pass fewer, such as 3")
    if head_dim is not None:
        head_dim = _checks.whole(head_dim, "head_dim")
    elif degrees > 1:
        raise ValueError(
            f"head_dim must be a whole number for degrees above 1, got None with "
            f"degrees {degrees}; pass the head dimension"
        )
    return head_dim, degrees


def _half(k: int) -> int:
    """Return k/2 for a moment that is summed or multiplied out."""
    if k > 20_000:
        raise ValueError(f"k must be at most 20000 here, got {_checks.shown(k)}; pass a smaller k")
    return k // 2


def _exp(log: float) -> float:
    try:
        return math.exp(log)
    except OverflowError:
        return math.inf


def _probability(values: ArrayLike, name: str) -> Floats:
    return _checks.within(values, name, 0, 1, remedy="pass probabilities")
