"""What chapter 02, Limiting laws, claims, measured.

Two ways of saying how far a finite matrix may be from its law:

- moments: the term of order 1/T is derived (Gaussian pairings, and the excess kurtosis kappa where
  one entry appears four times); it is applied as a correction, and half of its size is the bias;
- quantiles: values repel, so a spectrum is rigid: a quantile is off by about one rank, that is by
  1/(T density), which is the bias.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal
from scipy.optimize import brentq

from gapcourse.laws import FussCatalan, MarchenkoPastur, QuarterCircle, SingularValueLaw

from .chapter_03 import EPS, gaussian_radius
from .ledger import Check, Curve, Identity, Sign, falls, generator, mean_and_error, measures

EXCESS = {"gaussian": 0.0, "signs": -2.0, "exponential": 6.0}
ROUNDING = 1e-12  # the second moment of signs is 1 exactly
TRACY_WIDOM = (-1.2065336, 1.2680)  # mean and standard deviation, real matrices


def noise(
    entries: str, shape: tuple[int, int], seeds: int, factor: int = 0
) -> Iterator[np.ndarray]:
    """Yield matrices of independent entries, mean 0, variance 1/columns, the same each time."""
    for seed in range(seeds):
        rng = generator(entries, *shape, factor, seed)
        if entries == "signs":
            M = rng.choice([-1.0, 1.0], shape)
        elif entries == "exponential":
            M = rng.standard_exponential(shape) - 1
        else:
            M = rng.standard_normal(shape)
        yield M / np.sqrt(shape[1])


def singular_values(M: np.ndarray) -> np.ndarray:
    return np.linalg.svd(M, compute_uv=False)


def moments(
    label: str,
    samples: dict[int, list[np.ndarray]],
    law: SingularValueLaw,
    terms: dict[int, float],
) -> list[Check]:
    """Compare even moments with those of the law; terms: T times the correction, absolute."""
    sizes = np.array(list(samples), dtype=float)
    checks: list[Check] = []
    for k, term in terms.items():
        rows = [mean_and_error([(x**k).mean() for x in draws]) for draws in samples.values()]
        mean, error = np.array(rows).T
        relative = term / law.moment(k) / sizes
        checks.append(
            Curve(
                f"moment {k}, {label}",
                sizes,
                mean,
                error / mean,
                lambda T, k=k: np.full(len(T), law.moment(k)),
                correction=1 + relative,
                bias=np.abs(relative) / 2 + ROUNDING,
                exponent=0,
            )
        )
    return checks


def quantiles(
    label: str,
    samples: dict[int, list[np.ndarray]],
    law: SingularValueLaw,
    shares: Sequence[float],
    ranks: float = 1.0,
) -> list[Check]:
    """Compare quantiles with those of the law, to so many ranks."""
    sizes = np.array(list(samples), dtype=float)
    checks: list[Check] = []
    for q in shares:
        rows = [
            mean_and_error([np.quantile(x, q, method="hazen") for x in draws])
            for draws in samples.values()
        ]
        mean, error = np.array(rows).T
        x = law.ppf(q)
        checks.append(
            Curve(
                f"quantile {q}, {label}",
                sizes,
                mean,
                error / mean,
                lambda T, q=q: np.full(len(T), law.ppf(q)),
                bias=ranks / (sizes * law.pdf(x) * x),
            )
        )
    return checks


@measures("semicircle")
def _() -> list[Check]:
    """W = (M + M^T)/sqrt(2): variance 1/T off the diagonal and 2/T on it.

    Walks of four and six steps give E tr W^4/T = 2 + (5 + kappa)/T and E tr W^6/T =
    5 + (22 + 6 kappa)/T, with kappa half the excess of the entries of M.
    """
    checks: list[Check] = []
    for entries in ("gaussian", "signs", "exponential"):
        samples = {
            T: [
                np.abs(np.linalg.eigvalsh((M + M.T) / np.sqrt(2)))
                for M in noise(entries, (T, T), seeds)
            ]
            for T, seeds in {100: 60, 200: 40, 400: 20}.items()
        }
        kappa = EXCESS[entries] / 2
        law = QuarterCircle(1.0)
        checks += moments(entries, samples, law, {2: 1, 4: 5 + kappa, 6: 22 + 6 * kappa})
        checks += quantiles(entries, samples, law, (0.25, 0.5, 0.75))
    return checks


@measures("marchenko-pastur")
def _() -> list[Check]:
    """Count walks: T times the terms are 1 + kappa (fourth) and 3 (1 + r)(1 + kappa) (sixth).

    r: rows over columns; T: columns.

    The atom is exact: a matrix with more rows than columns has rank at most its columns.
    """
    checks: list[Check] = []
    for ratio, entries in (
        (0.5, "gaussian"),
        (3.0, "gaussian"),
        (0.5, "signs"),
        (3.0, "exponential"),
    ):
        law = MarchenkoPastur(ratio)
        samples = {}
        for columns, seeds in {100: 60, 200: 40, 300: 20}.items():
            rows = round(ratio * columns)
            draws = [singular_values(M) for M in noise(entries, (rows, columns), seeds)]
            samples[columns] = [np.pad(x, (0, rows - len(x))) for x in draws]
        kappa, label = EXCESS[entries], f"ratio {ratio}, {entries}"
        checks += moments(
            label, samples, law, {2: 0, 4: 1 + kappa, 6: 3 * (1 + ratio) * (1 + kappa)}
        )
        outer = law.atom + (1 - law.atom) * np.array([0.25, 0.5, 0.75])
        checks += quantiles(label, samples, law, outer)
        empty = np.mean(samples[100][0] <= 100 * EPS)
        if law.atom:
            checks.append(
                Identity(
                    f"share of zeros, {label}",
                    lambda factor, law=law, empty=empty: abs(empty - factor * law.atom),
                    4 * EPS,
                )
            )
    return checks


@measures("circular-law")
def _() -> list[Check]:
    """Radii against the uniform disc; angles by the share of eigenvalues with |Re| > |Im|.

    Of a real matrix about sqrt(2T/pi) eigenvalues are real, and their neighbours keep away from the
    line: half of them is the bias of the share.
    """
    seeds = {100: 40, 200: 20, 400: 12}
    sizes = np.array(list(seeds), dtype=float)
    checks: list[Check] = []
    for entries in ("gaussian", "signs", "exponential"):
        samples = {
            T: [np.linalg.eigvals(M) for M in noise(entries, (T, T), n)] for T, n in seeds.items()
        }
        wedge = [
            mean_and_error([np.mean(np.abs(z.real) > np.abs(z.imag)) for z in draws])
            for draws in samples.values()
        ]
        mean, error = np.array(wedge).T
        checks += radii(entries, samples, QuarterCircle(1.0))
        checks.append(
            Curve(
                f"share with |Re| > |Im|, {entries}",
                sizes,
                mean,
                error / mean,
                lambda T: np.full(len(T), 0.5),
                bias=np.sqrt(2 / np.pi / sizes),
                step=0.2,
            )
        )
    return checks


def radii(
    label: str,
    samples: dict[int, list[np.ndarray]],
    law: SingularValueLaw,
    shares: Sequence[float] = (0.25, 0.5, 0.75),
    ranks: float = 1.0,
) -> list[Check]:
    """Compare the quantiles of the eigenvalues' moduli, to so many ranks."""
    sizes = np.array(list(samples), dtype=float)
    checks: list[Check] = []
    for t in shares:
        rows = [
            mean_and_error([np.quantile(np.abs(z), t, method="hazen") for z in draws])
            for draws in samples.values()
        ]
        mean, error = np.array(rows).T
        slope = (law.radius_ppf(t + 0.01) - law.radius_ppf(t - 0.01)) / 0.02
        checks.append(
            Curve(
                f"radius of the share {t}, {label}",
                sizes,
                mean,
                error / mean,
                lambda T, t=t: np.full(len(T), law.radius_ppf(t)),
                bias=ranks * slope / law.radius_ppf(t) / sizes,
            )
        )
    return checks


@measures("fuss-catalan")
def _() -> list[Check]:
    """E tr (MM^T)^2/T of a product grows from m to (1 + (1 + kappa)/T) m + 1 - kappa/T... a factor.

    From the first factor on: n + 1 + (n (n + 1)/2 + n kappa)/T.
    """
    checks: list[Check] = []
    for order, entries in (2, "gaussian"), (3, "gaussian"), (2, "signs"):
        values, roots = {}, {}
        for T, seeds in {100: 60, 200: 40, 400: 12}.items():
            factors = [noise(entries, (T, T), seeds, factor=j + 1) for j in range(order)]
            products = [np.linalg.multi_dot(Ms) for Ms in zip(*factors, strict=True)]
            values[T] = [singular_values(M) for M in products]
            roots[T] = [np.linalg.eigvals(M) for M in products[:20]]
        law, label = FussCatalan(order), f"{order} factors, {entries}"
        term = order * (order + 1) / 2 + order * EXCESS[entries]
        checks += moments(label, values, law, {2: 0, 4: term})
        checks += quantiles(label, values, law, (0.5, 0.7, 0.9))
        checks += radii(label, roots, law)
    return checks


def _tops(T: int, seeds: int) -> tuple[np.ndarray, ...]:
    """Return s_1 of Gaussian noise, lambda_1 of symmetric noise, and T times the smallest s."""
    rng = generator("edge", T)
    values = []
    for _ in range(seeds // 50):
        M = rng.standard_normal((50, T, T)) / np.sqrt(T)
        symmetric = (M + M.transpose(0, 2, 1)) / np.sqrt(2)
        s = singular_values(M)
        values.append((s[:, 0], np.linalg.eigvalsh(symmetric)[:, -1], T * s[:, -1]))
    return tuple(np.concatenate(values, axis=1))


def _tops_of_bands(T: int, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two for large T, from the band matrices that reflections make.

    A reflection keeps Gaussian entries Gaussian and turns a column into its length, so the law is
    the same exactly: a bidiagonal matrix of chi variables (Golub and Kahan's form), and for
    symmetric noise a tridiagonal one.

    The vector that goes with the largest value lives on the first few multiples of T^(1/3) rows;
    those beyond the first 20 T^(1/3) are left out.
    """
    rng, rows = generator("edge", T), round(20 * T ** (1 / 3))
    degrees = T - np.arange(rows)
    last = {"select": "i", "select_range": (rows - 1, rows - 1)}
    values = []
    for _ in range(seeds):
        a, b = np.sqrt(rng.chisquare(degrees)), np.sqrt(rng.chisquare(degrees - 1))
        square = eigvalsh_tridiagonal(a**2 + b**2, a[1:] * b[:-1], **last)[0]  # of B B^T
        off = np.sqrt(rng.chisquare(degrees[:-1] - 1))
        symmetric = eigvalsh_tridiagonal(np.sqrt(2) * rng.standard_normal(rows), off, **last)[0]
        values.append((np.sqrt(square / T), symmetric / np.sqrt(T)))
    both = np.array(values).T
    return both[0], both[1]


@measures("edge-speed")
def _() -> list[Check]:
    """Largest value of Gaussian noise: 2 + 2^(4/3)/4 T^(-2/3) times a Tracy-Widom variable.

    Symmetric (Wigner) matrices: without the factor 2^(4/3)/4. Finite size: 2 becomes 2 - 1/(2T),
    the centring of Johnstone (2001) averaged over rows and columns.
    """
    seeds = {50: 1500, 200: 600, 800: 2500, 3200: 2500}
    sizes = np.array(list(seeds), dtype=float)
    centre, spread = TRACY_WIDOM
    tops = [_tops(T, n) if T < 500 else _tops_of_bands(T, n) for T, n in seeds.items()]
    top = {
        name: [found[i] for found in tops] for i, name in enumerate(("noise", "symmetric noise"))
    }
    checks: list[Check] = []
    for (name, samples), unit in zip(top.items(), (2 ** (4 / 3) / 4, 1.0), strict=True):
        below, error = np.array([mean_and_error(2 - x) for x in samples]).T
        size = unit * sizes ** (-2 / 3)
        term = 1 / (2 * sizes) / (-centre * size)
        scatter = np.array([x.std(ddof=1) for x in samples])
        checks += [
            Curve(
                f"2 - largest value, {name}",
                sizes,
                below,
                error / below,
                lambda T, unit=unit: QuarterCircle(1.0).edge - 2 - centre * unit * T ** (-2 / 3),
                correction=1 + term,
                bias=term / 2,
                exponent=-2 / 3,
                exponent_step=0.2,
                step=0.2,
            ),
            Curve(
                f"scatter of the largest value, {name}",
                sizes,
                scatter,
                1 / np.sqrt(2 * np.array(list(seeds.values()))),
                lambda T, unit=unit: spread * unit * T ** (-2 / 3),
                bias=term / 2,
                exponent=-2 / 3,
                exponent_step=0.2,
                step=0.2,
            ),
        ]
    # The hard end: P(T s > y) = exp(-y - y^2/2) (Edelman 1988). The outermost eigenvalue stands
    # outside its disc: the excess of complex Gaussian noise (Kostlan 1992), half of it the bias.
    hard, error = np.array([mean_and_error(found[2]) for found in tops[:2]]).T
    y = np.linspace(0, 12, 12_001)
    mean = np.exp(-y - y**2 / 2).sum() * (y[1] - y[0])
    outer = {
        T: [np.abs(np.linalg.eigvals(M)).max() for M in noise("gaussian", (T, T), n)]
        for T, n in {50: 200, 100: 100, 200: 60}.items()
    }
    excess = np.array([gaussian_radius(T) - 1 for T in outer])
    radius, scatter = np.array([mean_and_error(x) for x in outer.values()]).T
    return [
        *checks,
        Curve(
            "smallest value",
            sizes[:2],
            hard / sizes[:2],
            error / hard,
            lambda T: mean / T,
            bias=1 / sizes[:2],
            exponent=-1,
            exponent_step=0.2,
            step=0.2,
        ),
        Curve(
            "outermost eigenvalue",
            np.array(list(outer), dtype=float),
            radius,
            scatter / radius,
            lambda T: QuarterCircle(1.0).radius_ppf(1.0) * np.ones(len(T)),
            correction=1 + excess,
            bias=excess / 2,
        ),
        *(
            Sign(f"outside the disc at T = {T}", r - 1, e)
            for T, r, e in zip(outer, radius, scatter, strict=True)
        ),
    ]


def distance(x: np.ndarray, law: SingularValueLaw) -> float:
    """Return the largest distance between the distribution functions (Kolmogorov-Smirnov)."""
    share, n = law.cdf(np.sort(x)), len(x)
    return max((share - np.arange(n) / n).max(), (np.arange(1, n + 1) / n - share).max())


@measures("rigid-histogram")
def _() -> list[Check]:
    """Expect a distance between spectrum and law of about log(T)/T, not 1/sqrt(T).

    The count below x scatters by the root of log T only, its maximum over x by log T: between 50
    and 400 the logarithm makes the slope -0.8 where 1/T alone has -1. Tested: between -3/4 and -1.
    Independent draws: the same distance has the Kolmogorov law, mean 0.8687 and 5 % quantile 0.5196
    times T^(-1/2); Stephens' term 0.12/sqrt(T) + 0.11/T is the correction, half of it the bias.
    """
    seeds = {50: 100, 100: 80, 200: 60, 400: 40}
    sizes = np.array(list(seeds), dtype=float)
    law = QuarterCircle(1.0)
    spectra, independent = [], []
    for T, n in seeds.items():
        rng = generator("independent", T)
        spectra.append([distance(singular_values(M), law) for M in noise("gaussian", (T, T), n)])
        independent.append([distance(law.rvs(T, rng=rng), law) for _ in range(10 * n)])
    mean, error = np.array([mean_and_error(x) for x in independent]).T
    term = 0.12 / np.sqrt(sizes) + 0.11 / sizes
    checks: list[Check] = [
        Curve(
            "distance, independent draws",
            sizes,
            mean,
            error / mean,
            lambda T: 0.8687 / np.sqrt(T),
            correction=1 / (1 + term),
            bias=term / 2,
            exponent=-0.5,
            exponent_step=0.2,
        )
    ]
    mean, error = np.array([mean_and_error(x) for x in spectra]).T
    logs = np.log(sizes) - np.log(sizes).mean()
    weights = logs / (logs**2).sum()
    slope, spread = weights @ np.log(mean), np.sqrt(((weights * error / mean) ** 2).sum())
    rooted = [np.sqrt(T) * np.array(x) for T, x in zip(sizes, spectra, strict=True)]
    return [
        *checks,
        Sign("distance falls faster than T^(-3/4)", -3 / 4 - slope, spread),
        Sign("distance falls more slowly than 1/T", slope + 1, spread),
        falls("sqrt(T) times the distance falls", rooted[0], rooted[-1]),
        *(
            Sign(f"p-value above 0.95 at T = {T:.0f}", *mean_and_error(0.5196 - x))
            for T, x in zip(sizes, rooted, strict=True)
        ),
    ]


# --- R and S of a spectrum ------------------------------------------------------------------------


def cauchy(s: np.ndarray, x: float) -> float:
    """Return G(x) of the values and their negatives."""
    return float(np.mean(x / (x**2 - s**2)))


def r_transform(s: np.ndarray, w: float) -> float:
    """Return R(w) = x - 1/w at the x outside the spectrum with G(x) = w."""
    top = s.max()
    return brentq(lambda x: cauchy(s, x) - w, top * (1 + 1e-9), top + 2 / w, xtol=1e-14) - 1 / w


def s_transform(s: np.ndarray, z: float) -> float:
    """Return S(z) = chi(z) (1 + z)/z of the squares, for z below 0."""

    def psi(log: float) -> float:
        u = np.exp(log)
        return float(np.mean(-u * s**2 / (1 + u * s**2))) - z

    return -np.exp(brentq(psi, -30, 30, xtol=1e-14)) * (1 + z) / z


def _transforms(
    label: str,
    make: Callable[[int, int], np.ndarray],
    measure: Callable[[np.ndarray], float],
    rule: Callable[[], float],
    ranks: float = 1.0,
) -> Curve:
    """Return the check that a transform of the matrices `make` draws follows the rule.

    ranks: T times the relative bias.
    """
    seeds = {100: 40, 200: 20, 400: 10}
    sizes = np.array(list(seeds), dtype=float)
    rows = [
        mean_and_error([measure(singular_values(make(T, seed))) for seed in range(n)])
        for T, n in seeds.items()
    ]
    mean, error = np.array(rows).T
    return Curve(
        label, sizes, mean, error / mean, lambda T: np.full(len(T), rule()), bias=ranks / sizes
    )


@measures("free-rules")
def _() -> list[Check]:
    """At points outside the spectrum: psi and G are means over T values, right to about 1/T.

    For R that is a relative 1/T. S(z) takes the inverse of psi, which turns 1/T into a relative
    |d log chi/dz|/T with chi = z S/(1 + z): large where psi is flat, close to an atom.
    One summand and one factor are fixed matrices, with values that are no random spectrum: half 0,
    half 1. Gaussian noise makes them free.
    """
    w, z, c, size = 0.35, -0.4, 2.0, 0.8

    def gaussian(name: str, T: int, n: int, seed: int) -> np.ndarray:
        return generator(name, T, n, seed).standard_normal((T, n)) / np.sqrt(n)

    def product(T: int, seed: int) -> np.ndarray:
        n = round(T / c)
        return gaussian("queries", T, n, seed) @ gaussian("keys", T, n, seed).T / np.sqrt(c)

    def scaled(T: int, seed: int) -> np.ndarray:
        return size * gaussian("noise", T, T, seed)

    def fixed(T: int, seed: int) -> np.ndarray:
        return np.diag(np.arange(T) % 2 * 1.0)

    two = np.array([0.0, 1.0])
    additive = {  # R(w) of each matrix
        "noise": (scaled, lambda: size**2 * w),
        "product": (product, lambda: w / (1 - c * w**2)),
        "fixed": (fixed, lambda: r_transform(two, w)),
    }
    factors = {  # S(z)
        "noise": (scaled, lambda z=z: 1 / (size**2 * (1 + z))),
        "product": (product, lambda z=z: 1 / ((1 + z) * (1 + c * z))),
        "fixed": (fixed, lambda z=z: s_transform(two, z)),
    }
    checks: list[Check] = []
    for names in (("noise",), ("product",), ("product", "noise"), ("fixed", "noise")):
        checks.append(
            _transforms(
                "R of " + " + ".join(names),
                lambda T, seed, names=names: sum(additive[name][0](T, seed) for name in names),
                lambda s: r_transform(s, w),
                lambda names=names: sum(additive[name][1]() for name in names),
            )
        )
    for names in (("noise",), ("product",), ("fixed", "noise")):

        def rule(z: float = z, names: tuple[str, ...] = names) -> float:
            return math.prod(factors[name][1](z) for name in names)

        h = 1e-4
        steep = (math.log(rule(z + h)) - math.log(rule(z - h))) / (2 * h) + 1 / z - 1 / (1 + z)
        checks.append(
            _transforms(
                "S of " + " times ".join(names),
                lambda T, seed, names=names: functools.reduce(
                    np.matmul, [factors[name][0](T, seed) for name in names]
                ),
                lambda s: s_transform(s, z),
                rule,
                ranks=abs(steep),
            )
        )
    # The bridge between the two is exact, for every spectrum: G((1 + z)/w) = w, w² = z (1 + z) S.
    for name, s in {"two values": two, "a product": singular_values(product(100, 0))}.items():

        def bridge(factor: float, s: np.ndarray = s) -> float:
            root = -1j * np.sqrt(-factor * z * (1 + z) * s_transform(s, z))
            x = (1 + z) / root
            return abs(np.mean(x / (x**2 - s**2)) - root)

        checks.append(Identity(f"w R(w) = z, {name}", bridge, 1e-10))
    # Without freeness the rule fails: the R of M + M is 2 R(2w), not 2 R(w).
    same = [
        r_transform(singular_values(2 * scaled(100, seed)), w) / (2 * size**2 * w) - 1
        for seed in range(20)
    ]
    return [*checks, Sign("R does not add for M + M", *mean_and_error(same))]
