r"""The law of a product of Gaussian matrices plus independent noise, solved.

The Cauchy transform G of the law, made symmetric, solves, with a + n = 1 and r = c a,

    x = 1/G + n G + a G/(1 - r G²).

Write G = sqrt(v) exp(-i w), with w between 0 and pi/2 for x >= 0. The imaginary part of the
equation fixes cos 2w as a function of v, and with it the real part becomes

    x = 2 cos w (1 + n r v²) / (sqrt(v) (1 + r v)),
    x² r v² (1 + r v)(1 - n v) = (1 + n r v²)² ((1 + r v)(1 - n v) - a v).

So each v belongs to one x, and on each band of the support x falls as v grows: a bisection for v
can't end on a wrong root. (For given x the quartic in G has two real roots at least, as x runs from
-infinity to infinity on both sides of the poles; the density belongs to the only complex pair.)
The bands end where cos 2w = 1, and at x = 0 with cos 2w = -1. The integral of G is elementary, and
gives the distribution function without quadrature.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import quad_vec

from ._checks import Floats
from ._roots import bisect


class Band(NamedTuple):
    """An interval of the support, with the values of v at its ends."""

    low: float
    high: float
    v_low: float
    v_high: float


class Bulk:
    """The law for parts whose squares sum to 1.

    Parameters
    ----------
    linear, noise : float
        Root of a, and of n.
    ratio : float
        c, the ratio of tokens to head dimension.
    """

    def __init__(self, linear: float, noise: float, ratio: float) -> None:
        self.a = linear**2
        self.n = noise**2 if noise > 1e-20 else 0.0
        self.r = ratio * self.a
        self.c = ratio
        self.atom = max(0.0, 1 - 1 / ratio) if self.n == 0 else 0.0
        self.bands = self._bands()

    # --- the support ------------------------------------------------------------------------------

    def _bands(self) -> tuple[Band, ...]:
        a, n, r = self.a, self.n, self.r

        def closed(v: float) -> float:  # above 0 in gaps, where cos 2w > 1
            return (1 - r * v) ** 2 * (1 - n * v) - a * v * (1 + r * v)

        def root(low: float, high: float, sign: int) -> float:
            logs = np.array(math.log(low)), np.array(math.log(high))
            found = bisect(lambda u: np.array(sign * closed(math.exp(u))), *logs)
            return math.exp(float(found))

        def x(v: float) -> float:
            g = math.sqrt(v)
            return 1 / g + n * g + a * g / (1 - r * v)

        # v at x = 0: (1 + r v)(1 - n v) = a v, if it has a root.
        v_zero = 1 / float(positive_root(1 - r, n * r)) if n > 0 or r < a else 1e100
        pole = 1 / r if r > 0 else math.inf
        v_edge = root(0.1 * min(1, pole), min(pole, v_zero), -1)
        edge = x(v_edge)
        if self.atom > 0:  # no noise and c > 1: a quadratic
            v = (2 * r + 1 + math.sqrt(1 + 8 * r)) / (2 * r * (r - 1))
            return (Band(x(v), edge, v, v_edge),)
        slope = r + 2 * n - a  # the cubic `closed` may have two more roots, around its maximum
        inner = slope**2 - 3 * n * (2 * r + 1)
        if n * r > 0 and slope > 0 and inner > 0:
            top = (slope + math.sqrt(inner)) / (3 * r * n)
            if top > pole and closed(top) > 0:
                v_low, v_high = root(pole, top, 1), root(top, v_zero, -1)
                return Band(0.0, x(v_high), v_zero, v_high), Band(x(v_low), edge, v_low, v_edge)
        return (Band(0.0, edge, v_zero, v_edge),)

    # --- density and distribution -----------------------------------------------------------------

    def _transform(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return v = |G|², cos w and sin w at points of the support."""
        a, n, r = self.a, self.n, self.r
        inner, outer = self.bands[0], self.bands[-1]
        is_inner = x <= inner.high
        low = np.where(is_inner, inner.v_high, outer.v_high)
        high = np.where(is_inner, inner.v_low, outer.v_low)

        def excess(log: Floats) -> Floats:
            v = np.exp(log)
            both = (1 + r * v) * (1 - n * v)
            left: Floats = x**2 * r * v**2 * both
            return left - (1 + n * r * v**2) ** 2 * (both - a * v)

        v = np.exp(bisect(excess, np.log(low), np.log(high)))
        cosine = np.minimum(x * np.sqrt(v) * (1 + r * v) / (2 * (1 + n * r * v**2)), 1.0)
        return v, cosine, np.sqrt((1 - cosine) * (1 + cosine))

    def _inside(self, x: Floats) -> tuple[np.ndarray, Floats]:
        """Return which points lie in the support, and the points with the others replaced."""
        inside = np.zeros(x.shape, dtype=bool)
        for band in self.bands:
            inside |= (x >= band.low) & (x <= band.high)
        return inside, np.where(inside, x, self.bands[-1].high)

    def pdf(self, x: Floats) -> Floats:
        """Return the density, without the atom: -2 Im G/pi."""
        inside, points = self._inside(x)
        v, _, sine = self._transform(points)
        density = np.where(inside, 2 / math.pi * np.sqrt(v) * sine, 0.0)
        infinite = self.n == 0 and self.c == 1
        return np.where(x == 0, math.inf, density) if infinite else density

    def cdf(self, x: Floats) -> Floats:
        """Return the distribution function, from the integral of G.

        It is x G - log G - n G²/2 + log(1 - r G²)/(2c).
        """
        inside, points = self._inside(x)
        v, cosine, sine = self._transform(points)
        turn = np.arctan2(2 * self.r * v * sine * cosine, 1 - self.r * v * (2 * cosine**2 - 1))
        above = np.arctan2(sine, cosine) + turn / (2 * self.c)
        above += sine * (self.n * v * cosine - points * np.sqrt(v))
        share = np.clip(1 - 2 / math.pi * above, self.atom, 1)
        gap = 1 - 1 / self.c if self.bands[0].high < self.bands[-1].high else self.atom
        outside = np.where(x < 0, 0.0, np.where(x > self.bands[-1].high, 1.0, gap))
        return np.where(inside, np.where(x == 0, self.atom, share), outside)

    def ppf(self, q: Floats) -> Floats:
        """Return quantiles: Newton's method, kept between two points of a table."""
        table = np.sort(np.concatenate([self._grid(band) for band in self.bands]))
        shares = np.maximum.accumulate(self.cdf(table))
        index = np.clip(np.searchsorted(shares, q.ravel()), 1, len(table) - 1)
        low, high = table[index - 1], table[index]
        x, active = (low + high) / 2, np.arange(q.size)
        for _ in range(60):
            points = x[active]
            error = self.cdf(points) - q.ravel()[active]
            open_ = (np.abs(error) > 4e-16) & (high[active] - low[active] > 4e-16 * points)
            active, points, error = active[open_], points[open_], error[open_]
            if not len(active):
                break
            low[active] = np.where(error < 0, points, low[active])
            high[active] = np.where(error < 0, high[active], points)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = points - error / self.pdf(points)
            good = (step > low[active]) & (step < high[active])
            x[active] = np.where(good, step, (low[active] + high[active]) / 2)
        x = x.reshape(q.shape)
        start = self.bands[0].low if self.atom == 0 else 0.0
        return np.where(q <= self.atom, start, np.where(q == 1, self.bands[-1].high, x))

    @staticmethod
    def _grid(band: Band) -> Floats:
        """Return points of a band, close together at its ends."""
        points = band.low + (band.high - band.low) * np.sin(np.linspace(0, math.pi / 2, 200)) ** 2
        points[-1] = band.high
        near: Floats = band.high * np.logspace(-24, -5, 60)
        return np.concatenate([points, near]) if band.low == 0 else points

    # --- moments and radii ------------------------------------------------------------------------

    def moment_share(self, k: int) -> float:
        """Return the moment of order k over the k-th power of the edge.

        Free cumulants of the symmetric law: 1 of order 2, a r^(j-1) of order 2j. With their series
        P(u) = 1 + sum κ_2j u^j the moment is the coefficient of u^(k/2) in P(u)^(k+1), over k + 1
        (Lagrange), by the recurrence for powers of a series, all of whose terms are positive.
        """
        half, edge = k // 2, self.bands[-1].high
        j = np.arange(1, half + 1)
        with np.errstate(under="ignore"):
            cumulants = self.a / edge**2 * (self.r / edge**2) ** (j - 1.0)
        cumulants[:1] += self.n / edge**2
        power = np.zeros(half + 1)
        power[0] = 1.0
        for i in range(1, half + 1):
            weights = j[:i] * (k + 2) - i
            power[i] = np.dot(weights * cumulants[:i], power[i - 1 :: -1][:i]) / i
        return float(power[half] / (k + 1))

    def radius(self, t: Floats) -> Floats:
        """Return the radius that holds the fraction t of the eigenvalues."""
        rest = 1 - t
        radius: Floats = np.sqrt(t * positive_root(1 - rest * self.r, self.n * self.r * rest))
        return radius


def positive_root(b: Floats | float, d: Floats | float) -> Floats:
    """Return the root y >= 0 of y² = b y + d, for d >= 0."""
    b, d = np.asarray(b, dtype=float), np.asarray(d, dtype=float)
    root = np.hypot(b, 2 * np.sqrt(d))
    with np.errstate(divide="ignore", invalid="ignore"):
        stable = 2 * d / (root - b)
    y: Floats = np.where(b >= 0, (b + root) / 2, stable)
    return y


def hermite(f: Callable[[float], float], s: float) -> tuple[float, float, float]:
    """Return the mean of f(sZ) for a normal Z, its linear part |a_1|, and the rest's root."""

    def value(z: float) -> float:
        try:
            y = float(f(s * z))
        except (OverflowError, ZeroDivisionError):
            y = math.nan
        if not math.isfinite(y):
            raise ValueError(
                f"f must be finite, got {y} at {s * z:.6g}; pass a map that is finite up to 38 "
                "times logit_std, or a smaller logit_std"
            )
        return y

    def expectation(g: Callable[[float], Floats]) -> Floats:
        """Integrate between whole numbers: an adaptive rule finds kinks, not narrow peaks."""
        integrate: Any = quad_vec
        result: tuple[Floats, float] = integrate(
            lambda z: g(z) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi),
            -38.0,
            38.0,
            epsabs=1e-13,
            epsrel=1e-12,
            norm="max",
            limit=2000,
            points=[float(z) for z in range(-37, 38)],
        )
        return result[0]

    nodes = np.linspace(-38, 38, 609)
    values = np.array([value(float(z)) for z in nodes]) * np.exp(-(nodes**2) / 4)
    size = math.sqrt(np.mean(values**2) * 76 / math.sqrt(2 * math.pi))
    if size == 0:
        raise ValueError("f must not be constant, got 0 everywhere; pass another map")
    if max(abs(values[0]), abs(values[-1])) > 1e-6 * np.abs(values).max():
        raise ValueError(
            "f must have a finite second moment under a normal law, got a map that grows too fast; "
            "pass one that grows more slowly than exp(z²/4)"
        )
    mean, slope = expectation(lambda z: value(z) / size * np.array([1.0, z]))
    rest = expectation(lambda z: np.array([(value(z) / size - mean - slope * z) ** 2]))[0]
    linear, noise = abs(float(slope)), math.sqrt(float(rest))
    if math.hypot(linear, noise) < 1e-8:
        raise ValueError(f"f must not be constant, got {mean * size:.6g} everywhere; pass another")
    whole = math.hypot(linear, noise)
    linear, noise = (part * size if part > 1e-8 * whole else 0.0 for part in (linear, noise))
    return float(mean * size), linear, noise
