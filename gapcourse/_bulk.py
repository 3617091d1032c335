r"""The law of products of Gaussian matrices plus independent noise, solved.

The Cauchy transform G of the law, made symmetric, solves, with the sum of all a and n being 1,

    x = 1/G + n G + sum a G/(1 - r G²),

a sum with one term, and some more in the law of all degrees. Write G = sqrt(v) exp(-i w), with w
between 0 and pi/2 for x >= 0. The imaginary part of the equation is

    1 = n v + sum a v (1 + r v)/(1 - 2 r v cos 2w + r² v²),

whose right side grows with cos 2w: v fixes w, and then x. So on each band of the support x falls as
v grows, and a search for v can't end on a wrong root. (For given x the polynomial in G has but one
complex pair of roots, as x runs from -infinity to infinity between the poles.) The bands end
where cos 2w = 1, and at x = 0 with cos 2w = -1. The integral of G is elementary, and gives the
distribution function without quadrature.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
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
    noise : float
        Root of n.
    parts, ratios : array_like, shape (K,)
        Roots of a, largest r first, and r/a: the ratio of tokens to features.
    """

    def __init__(self, noise: float, parts: ArrayLike, ratios: ArrayLike) -> None:
        self.n = noise**2 if noise > 1e-20 else 0.0
        self.a, self.c = np.square(parts), np.asarray(ratios, dtype=float)
        self.r: Floats = self.c * self.a
        self.atom = max(0.0, 1 - float(np.sum(1 / self.c))) if self.n == 0 else 0.0
        self.bands, self.gaps = self._bands()

    # --- the support ------------------------------------------------------------------------------

    def _balance(self, v: Floats, cosine: Floats) -> Floats:
        """Return the right side of the imaginary part minus 1, given v and cos 2w."""
        a, r, v_k, cosine_k = self.a, self.r, v[..., None], cosine[..., None]
        # 1 - 2 r v cos 2w + r² v², without cancellation
        with np.errstate(divide="ignore", over="ignore"):
            terms = a * v_k * (1 + r * v_k) / ((1 - r * v_k) ** 2 + 2 * r * v_k * (1 - cosine_k))
        balance: Floats = self.n * v + terms.sum(-1) - 1
        return balance

    def _slope(self, v: Floats) -> Floats:
        """Return the derivative of the balance at cos 2w = 1 by log v: it grows with v."""
        u = self.r * v[..., None]
        with np.errstate(divide="ignore", over="ignore"):
            terms = self.a * v[..., None] * (1 + 3 * u) / (1 - u) ** 3
        slope: Floats = self.n * v + terms.sum(-1)
        return slope

    def _zero(self, share: Floats) -> Floats:
        """Return y >= 1 with n y + sum a y/(1 + share r y) = 1, or 1e100 if there is none."""

        def excess(log: Floats) -> Floats:
            y = np.exp(log)[..., None]
            left: Floats = np.sum(self.a * y / (1 + share[..., None] * self.r * y), axis=-1)
            return left + self.n * y[..., 0] - 1

        low, high = np.zeros_like(share), np.full_like(share, math.log(1e100))
        y: Floats = np.exp(bisect(excess, low, high))
        return y

    def _bands(self) -> tuple[tuple[Band, ...], tuple[float, ...]]:
        """Return the bands, from the innermost, and the probability below the gap under each."""

        def root(function: Callable[[Floats], Floats], low: float, high: float) -> float:
            logs = np.array(math.log(low)), np.array(math.log(high))
            return math.exp(float(bisect(lambda u: function(np.exp(u)), *logs)))

        def closed(v: Floats) -> Floats:  # below 0 in gaps, where cos 2w > 1
            return self._balance(v, np.ones_like(v))

        def x(v: float) -> float:
            g = math.sqrt(v)
            return 1 / g + self.n * g + g * float(np.sum(self.a / (1 - self.r * v)))

        v_zero = float(self._zero(np.array(1.0)))
        poles = [float(1 / r) for r in self.r if r * v_zero > 1]
        limits = [*poles, v_zero]
        v_edge = root(closed, 0.1 * min(1, limits[0]), limits[0])
        bands, gaps = [], []
        v, high = v_edge, x(v_edge)
        for i in range(len(poles)):  # between two poles the balance is convex in log v: one gap
            low = root(self._slope, limits[i], limits[i + 1])
            if closed(np.array(low)) < 0:
                v_low = root(lambda v: -closed(v), limits[i], low)
                v_high = root(closed, low, limits[i + 1])
                bands.append(Band(x(v_low), high, v_low, v))
                gaps.append(1 - float(np.sum(1 / self.c[: i + 1])))
                v, high = v_high, x(v_high)
        if self.atom == 0:
            bands.append(Band(0.0, high, v_zero, v))
            gaps.append(0.0)
        return tuple(bands[::-1]), tuple(gaps[::-1])

    # --- density and distribution -----------------------------------------------------------------

    def _transform(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return v = |G|², cos w and sin w at points of the support."""
        if len(self.a) > 1:
            return self._polished(x)
        a, n, r = self.a[0], self.n, self.r[0]
        low, high = np.empty_like(x), np.empty_like(x)
        for band in self.bands[::-1]:
            low = np.where(x <= band.high, band.v_high, low)
            high = np.where(x <= band.high, band.v_low, high)

        def excess(log: Floats) -> Floats:  # with one term cos 2w is rational in v; so is x²
            v = np.exp(log)
            both = (1 + r * v) * (1 - n * v)
            gap: Floats = x**2 * r * v**2 * both - (1 + n * r * v**2) ** 2 * (both - a * v)
            return gap

        v = np.exp(bisect(excess, np.log(low), np.log(high)))
        cosine = np.minimum(x * np.sqrt(v) * (1 + r * v) / (2 * (1 + n * r * v**2)), 1.0)
        return v, cosine, np.sqrt((1 - cosine) * (1 + cosine))

    @cached_property
    def _table(self) -> tuple[Floats, Floats, Floats]:
        """Return x, log v and cos 2w on a grid of each band, x increasing."""
        tables = []
        for band in self.bands:
            ends = math.log(band.v_low), math.log(band.v_high)
            log = ends[0] + (ends[1] - ends[0]) * np.sin(np.linspace(0, math.pi / 2, 1000)) ** 2
            v, one = np.exp(log), np.ones(len(log))
            double = bisect(lambda c, v=v: self._balance(v, c), -one, one)  # type: ignore[misc]
            double[0], double[-1] = (1.0 if band.low > 0 else -1.0), 1.0
            below = (1 - self.r * v[:, None]) ** 2
            below += 2 * self.r * v[:, None] * (1 - double[:, None])
            terms = np.sum(self.a * (1 - self.r * v[:, None]) / below, axis=1)
            x = np.sqrt((1 + double) / 2 * v) * (1 / v + self.n + terms)
            x[0], x[-1] = band.low, band.high
            tables.append((np.maximum.accumulate(x), log, double))
        x, log, double = (np.concatenate(column) for column in zip(*tables, strict=True))
        return x, log, double

    def _polished(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return what `_transform` does, by Newton's method for G from the table."""
        table, log, double = self._table
        cosine = np.interp(x, table, double)
        g = np.exp(np.interp(x, table, log) / 2 - 0.5j * np.arccos(np.clip(cosine, -1, 1)))
        for _ in range(12):
            square = self.r * g[..., None] ** 2
            with np.errstate(divide="ignore", invalid="ignore"):
                value = 1 / g + self.n * g + g * np.sum(self.a / (1 - square), axis=-1)
                terms = np.sum(self.a * (1 + square) / (1 - square) ** 2, axis=-1)
                step = (value - x) / (self.n - 1 / g**2 + terms)
            near = np.abs(step) < 0.1 * np.abs(g)  # at an edge the slope is 0
            g = np.where(near & ((g - step).imag <= 0), g - step, g)
        size = np.abs(g)
        return size**2, g.real / size, np.abs(g.imag) / size  # never -0.0

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
        infinite = self.n == 0 and np.sum(1 / self.c) == 1
        return np.where(x == 0, math.inf, density) if infinite else density

    def cdf(self, x: Floats) -> Floats:
        """Return the distribution function, from the integral of G.

        It is x G - log G - n G²/2 + sum a log(1 - r G²)/(2r).
        """
        inside, points = self._inside(x)
        v, cosine, sine = self._transform(points)
        u = self.r * v[..., None]
        turns = np.arctan2(
            2 * u * (sine * cosine)[..., None], 1 - u * (2 * cosine**2 - 1)[..., None]
        )
        above = np.arctan2(sine, cosine) + np.sum(turns / (2 * self.c), axis=-1)
        above += sine * (self.n * v * cosine - points * np.sqrt(v))
        share = np.where(x == 0, self.atom, np.clip(1 - 2 / math.pi * above, self.atom, 1))
        outside = np.where(x < 0, 0.0, 1.0)
        for band, gap in zip(self.bands[::-1], self.gaps[::-1], strict=True):
            outside = np.where((x >= 0) & (x < band.low), gap, outside)
        return np.where(inside, share, outside)

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

    # --- moments, radii and spikes ----------------------------------------------------------------

    def moment_share(self, k: int) -> float:
        """Return the moment of order k over the k-th power of the edge.

        The symmetric law has the free cumulants sum a r^(j-1) of order 2j, and n more of order 2.
        With their series P(u) = 1 + sum κ_2j u^j the moment is the coefficient of u^(k/2) in
        P(u)^(k+1), over k + 1 (Lagrange), by the recurrence for powers of a series, all of whose
        terms are positive.
        """
        half, edge = k // 2, self.bands[-1].high
        j = np.arange(1, half + 1)
        with np.errstate(under="ignore"):
            powers = (self.r / edge**2) ** (j[:, None] - 1.0)
        cumulants = np.sum(self.a / edge**2 * powers, axis=1)
        cumulants[:1] += self.n / edge**2
        power = np.zeros(half + 1)
        power[0] = 1.0
        for i in range(1, half + 1):
            weights = j[:i] * (k + 2) - i
            power[i] = np.dot(weights * cumulants[:i], power[i - 1 :: -1][:i]) / i
        return float(power[half] / (k + 1))

    def radius(self, t: Floats) -> Floats:
        """Return the radius that holds the fraction t of the eigenvalues: V = (1 - t) y."""
        y = self._zero(1 - t)
        return np.where(y < 1e99, np.sqrt(t / y), 0.0)

    def spike(self, theta: Floats) -> Floats:
        """Return x at G = 1/theta where dx/dG < 0, that is outside the support, else the edge."""
        t = np.clip(theta, 1e-70, 1e70)  # beyond, x is linear in theta
        with np.errstate(divide="ignore", invalid="ignore"):
            far = t[..., None] ** 2 - self.r
            slope = self.n / t**2 + np.sum(self.a * (far + 2 * self.r) / far**2, axis=-1) - 1
            x = t + self.n / t + t * np.sum(self.a / far, axis=-1)
            return np.where(slope < 0, theta / t * x, self.bands[-1].high)


def hermite(
    f: Callable[[float], float], s: float, degrees: int
) -> tuple[float, tuple[float, ...], float]:
    """Return the mean of f(sZ) for a normal Z, the sizes of its parts, and that of the rest.

    The part of degree k, from 1 to ``degrees``, has the size sqrt(k!) |a_k|.
    """

    def value(z: float) -> float:
        try:
            y = float(f(s * z))
        except (ArithmeticError, ValueError):  # as 1/0 and the logarithm of -1
            y = math.nan
        except TypeError as error:
            raise TypeError(
                f"f must take one number and return one, got an error at {s * z:.6g} ({error}); "
                "pass a function such as math.exp"
            ) from error
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

    def basis(z: float) -> Floats:  # He_k(z)/sqrt(k!)
        h = [1.0, z]
        for k in range(1, degrees):
            h.append((z * h[k] - math.sqrt(k) * h[k - 1]) / math.sqrt(k + 1))
        return np.array(h)

    parts = expectation(lambda z: value(z) / size * basis(z))
    rest = expectation(lambda z: np.array([(value(z) / size - parts @ basis(z)) ** 2]))[0]
    mean, sizes = float(parts[0] * size), [*np.abs(parts[1:]), math.sqrt(float(rest))]
    whole = math.hypot(*sizes)
    if whole < 1e-8:
        raise ValueError(f"f must not be constant, got {mean:.6g} everywhere; pass another map")
    *found, noise = (float(part) * size if part > 1e-8 * whole else 0.0 for part in sizes)
    return mean if abs(parts[0]) > 1e-8 * whole else 0.0, tuple(found), noise
