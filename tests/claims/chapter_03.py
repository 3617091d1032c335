"""What chapter 03, The spectral gap, claims, measured.

Finite-size terms are derived here for raw entries of mean 1, standard deviation sigma, third moment
mu = E D^3 and excess kurtosis kappa:

- T^2 Var(A_ij) = sigma^2 - (2 (mu - 1 - sigma^2) - 3 sigma^2 (1 + sigma^2))/T + ..., from expanding
  1/(row sum)^2 to second order (for Dirichlet rows exactly: exponential (T-1)/(T+1));
- the edge of square noise is 2 sigma (1 - 0.38 T^(-2/3) + kappa/(2T)): the mean of the Tracy-Widom
  law (Johnstone 2001: -1.2065 times 2^(4/3)/8), and the first term in the fourth cumulant;
- the spectral radius of complex Gaussian noise is known exactly at every T (Kostlan 1992).

One rule throughout: the derived term is applied as a correction, signs included, and half of its
size is allowed as bias, for the terms behind it.
"""

import functools
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, ndtri

from gapcourse import attention, laws, predictions, spectra

from .ledger import Check, Curve, Identity, Sign, draws, falls, mean_and_error, measures

EPS = np.finfo(float).eps


@dataclass(frozen=True)
class Entry:
    """A law of raw entries with light tails; sizes of its finite-size terms."""

    name: str
    sigma: float
    third: float  # E D^3 at mean 1
    excess: float  # kurtosis - 3

    @property
    def edge_terms(self) -> tuple[np.ndarray, ...]:
        """Relative finite-size terms of the edge at `SIZES`: soft edge, fourth cumulant, drift."""
        return (
            -0.38 * SIZES ** (-2 / 3),
            self.excess / (2 * SIZES),
            self.drift / (2 * SIZES),
        )

    @property
    def skewness(self) -> float:
        """Skewness of the raw entry."""
        return (self.third - 1 - 3 * self.sigma**2) / self.sigma**3

    @property
    def drift(self) -> float:
        """T times the relative finite-size term of T^2 Var(A_ij)."""
        v = self.sigma**2
        return -(2 * (self.third - 1 - v) - 3 * v * (1 + v)) / v


def lognormal(sigma: float) -> Entry:
    w = 1 + sigma**2
    return Entry("lognormal", sigma, w**3, w**4 + 2 * w**3 + 3 * w**2 - 6)


def _bernoulli(sigma: float) -> Entry:
    p = 1 / (1 + sigma**2)
    return Entry("bernoulli", sigma, p**-2, 1 / (p * (1 - p)) - 6)


EXPONENTIAL = Entry("exponential", 1.0, 6.0, 6.0)
UNIFORM = Entry("uniform", 3**-0.5, 2.0, -1.2)
BERNOULLI = _bernoulli(2.0)
LIGHT = (EXPONENTIAL, UNIFORM, lognormal(0.5), BERNOULLI)
SEEDS = {100: 60, 200: 40, 400: 20, 800: 12}
SIZES = np.array(list(SEEDS), dtype=float)


@functools.cache
def _light(entry: Entry) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and relative error of s_1^2 - 1, s_2, ||A||_F^2 - 1 and sr(A): two (4, sizes)."""
    means, errors = [], []
    for T, seeds in SEEDS.items():
        rows = []
        for A in draws(T, seeds, entry.name, sigma=entry.sigma):
            s1, s2 = spectra.top_singular_values(A)
            energy = (A**2).sum()
            rows.append((s1**2 - 1, s2, energy - 1, energy / s1**2))
        mean, error = mean_and_error(rows)
        means.append(mean)
        errors.append(error / mean)
    return np.array(means).T, np.array(errors).T


@measures("markov-identities")
def _() -> list[Check]:
    """Exact up to rounding: a product of T x T matrices errs by at most T eps |A||B|, here T eps.

    A determinant is compared through its logarithm, whose error is cond(A - zI) times T eps; with
    |z| = 1/2, away from every eigenvalue, cond stays below 100. tr A_perp^k, k <= 4, sums T entries
    of a product whose factors have row sums at most 2: k T eps T 2^k.
    """
    T = 40
    e = np.full((T, 1), T**-0.5)
    J = e @ e.T
    matrices = {
        name: next(draws(T, 1, name))
        for name in ("lognormal", "gamma", "uniform", "bernoulli", "pareto", "cauchy")
    }
    matrices["running mean"] = np.tril(np.ones((T, T))) / np.arange(1, T + 1)[:, None]
    matrices["permutation"] = np.roll(np.eye(T), 1, axis=1)
    matrices["one token"] = np.eye(1, T, 3).repeat(T, axis=0)
    z = 0.5j

    def projection(A: np.ndarray, factor: float) -> float:
        return np.abs(attention.remove_mean(A) - A @ (np.eye(T) - factor * J)).max()

    def split(A: np.ndarray, factor: float) -> float:
        B = attention.remove_mean(A)
        return np.abs(A @ A.T - factor * J - B @ B.T).max()

    def traces(A: np.ndarray, factor: float) -> float:
        B, power = attention.remove_mean(A), np.linalg.matrix_power
        return max(abs(np.trace(power(A, k) - power(B, k)) - factor) for k in (1, 2, 3, 4))

    def determinant(A: np.ndarray, factor: float) -> float:
        """det(A - z) (-z) = det(A_perp - z) (1 - z): eigenvalue 1 out, 0 in."""
        B = attention.remove_mean(A)
        left = np.linalg.slogdet(A - z * np.eye(T))[1] + np.log(abs(z))
        return abs(left - np.linalg.slogdet(B - z * np.eye(T))[1] - np.log(abs(factor - z)))

    statements = {
        "A_perp = A (I - ee^T)": (projection, 4 * T * EPS),
        "AA^T = ee^T + A_perp A_perp^T": (split, 4 * T * EPS),
        "tr A^k = 1 + tr A_perp^k": (traces, 4 * T**2 * EPS * 2**4),
        "spectrum": (determinant, 100 * T**2 * EPS),
    }
    checks: list[Check] = [
        Identity(f"{label}, {name}", functools.partial(residual, A), tolerance)
        for label, (residual, tolerance) in statements.items()
        for name, A in matrices.items()
    ]
    # No left-sided analogue: e^T A_perp has norm about sigma/sqrt(T), not 0 (a doubly stochastic
    # matrix, such as the permutation, is the exception).
    left = []
    for A in draws(T, 40, "exponential"):
        B = attention.remove_mean(A)
        left.append((np.linalg.norm(e.T @ B), np.linalg.norm(A.T @ A - J - B.T @ B)))
    for label, mean, error in zip(
        ("e^T A_perp", "A^T A - ee^T - A_perp^T A_perp"), *mean_and_error(left), strict=True
    ):
        checks.append(Sign(f"{label} is not 0", mean, error))
    return checks


@measures("first-singular-value")
def _() -> list[Check]:
    """Finite size: the drift of the variance, and the next order of s_1^2, sigma^4/T^2."""
    return [
        Curve(
            f"s_1^2 - 1, {entry.name}",
            SIZES,
            *(part[0] for part in _light(entry)),
            lambda T, sigma=entry.sigma: predictions.first_singular_value(T, sigma) ** 2 - 1,
            correction=1 + (entry.drift + entry.sigma**2) / SIZES,
            bias=(abs(entry.drift) + entry.sigma**2) / 2 / SIZES,
            exponent=-1,
        )
        for entry in LIGHT
    ]


@measures("second-singular-value")
def _() -> list[Check]:
    """Finite size: the soft edge, the fourth cumulant, the drift of the standard deviation."""
    return [
        Curve(
            f"s_2, {entry.name}",
            SIZES,
            *(part[1] for part in _light(entry)),
            lambda T, sigma=entry.sigma: predictions.second_singular_value(T, sigma),
            correction=1 + sum(entry.edge_terms),
            bias=sum(map(np.abs, entry.edge_terms)) / 2,
            exponent=-0.5,
            exponent_step=0.15,
        )
        for entry in LIGHT
    ]


@measures("frobenius-norm")
def _() -> list[Check]:
    """Finite size: the drift of the variance. The exponent is 0: T drops out."""
    checks: list[Check] = []
    for entry in LIGHT:
        energy, rank = (tuple(part[row] for part in _light(entry)) for row in (2, 3))
        drift = entry.drift / SIZES
        share = entry.sigma**2 / (1 + entry.sigma**2)  # what the drift moves of sr(A)
        checks += [
            Curve(
                f"||A||_F^2 - 1, {entry.name}",
                SIZES,
                *energy,
                lambda T, sigma=entry.sigma: predictions.frobenius_norm(T, sigma) ** 2 - 1,
                correction=1 + drift,
                bias=abs(drift) / 2,
                exponent=0,
            ),
            Curve(
                f"sr(A), {entry.name}",
                SIZES,
                *rank,
                lambda T, sigma=entry.sigma: predictions.stable_rank(T, sigma),
                correction=1 + share * drift,
                bias=share * abs(drift) / 2,
                exponent=0,
            ),
        ]
    return checks


def gaussian_radius(T: float) -> float:
    """Return the mean spectral radius of complex Gaussian noise, sigma = 1, exact at every T.

    The squared moduli are independent gamma variables of shapes 1..T (Kostlan 1992).
    """
    r = np.linspace(0.7, 1.8, 400)
    shapes = np.arange(1, T + 1)[:, None]
    below = np.exp(np.log(np.maximum(gammainc(shapes, T * r**2), 1e-300)).sum(axis=0))
    return 0.7 + (r[1] - r[0]) * (1 - below).sum()


@measures("second-eigenvalue")
def _() -> list[Check]:
    """Finite size: from above, as complex Gaussian noise does, where it is exactly known."""
    seeds = {50: 80, 100: 60, 200: 40, 400: 20}
    sizes = np.array(list(seeds), dtype=float)
    correction = np.array([gaussian_radius(T) for T in sizes])
    checks: list[Check] = []
    for entry in (EXPONENTIAL, UNIFORM):
        measured = [
            mean_and_error(
                [abs(spectra.eigenvalues(A)[1]) for A in draws(T, n, entry.name, sigma=entry.sigma)]
            )
            for T, n in seeds.items()
        ]
        mean, error = np.array(measured).T
        checks.append(
            Curve(
                f"|lambda_2|, {entry.name}",
                sizes,
                mean,
                error / mean,
                lambda T, sigma=entry.sigma: predictions.second_eigenvalue(T, sigma),
                bias=(correction - 1) / 2,
                correction=correction,
                exponent=-0.5,
                exponent_step=0.2,
            )
        )
    return checks


@measures("power-norms")
def _() -> list[Check]:
    """Finite size: not derived beyond one step; the terms of one step, all of them, are allowed."""
    powers = (2, 4, 8)
    sizes = SIZES[:3]
    checks: list[Check] = []
    for entry in (EXPONENTIAL, UNIFORM):
        means, errors = [], []
        for T in (100, 200, 400):
            rows = []
            for A in draws(T, 20, entry.name, sigma=entry.sigma):
                B = attention.remove_mean(A)
                norms = (np.linalg.norm(np.linalg.matrix_power(B, k), 2) for k in powers)
                rows.append([norm ** (1 / k) for norm, k in zip(norms, powers, strict=True)])
            mean, error = mean_and_error(rows)
            means.append(mean)
            errors.append(error / mean)
        for k, mean, error in zip(powers, np.array(means).T, np.array(errors).T, strict=True):
            checks.append(
                Curve(
                    f"power {k}, {entry.name}",
                    sizes,
                    mean,
                    error,
                    lambda T, sigma=entry.sigma, k=k: (
                        sigma * laws.FussCatalan(k).edge ** (1 / k) / np.sqrt(T)
                    ),
                    bias=sum(map(np.abs, entry.edge_terms))[:3],
                    exponent=-0.5,
                    exponent_step=0.2,
                )
            )
    return checks


@measures("quarter-circle-bulk")
def _() -> list[Check]:
    """Finite size: m times the drift, (m-1)/2, and 0, 1/2, 6/5 times 1 + kappa + tau, m = 1, 2, 3.

    The first corrections of E tr (YY^T)^m for T x T noise Y of given entry variance: Wishart
    moments (0, 1/2, 6/5), one column less for rows that sum to 0 ((m-1)/2), and the pairings in
    which a row appears twice, with an entry four times (kappa) or scaled as a whole by its sum:
    squared, that scatters by tau/T, tau = 4 sigma^2 - 4 sigma skewness. Left over, at T = 100 over
    1500 uniform matrices: below 0.0015.
    """
    seeds = {200: 20, 400: 20, 800: 12}
    sizes = np.array(list(seeds), dtype=float)
    checks: list[Check] = []
    for entry in (EXPONENTIAL, UNIFORM):
        means, errors = [], []
        for T, n in seeds.items():
            rows = []
            for A in draws(T, n, entry.name, sigma=entry.sigma):
                B = attention.remove_mean(A)
                W = T * B @ B.T
                squared = W @ W
                rows.append((np.trace(W) / T, np.trace(squared) / T, (squared * W).sum() / T))
            mean, error = mean_and_error(rows)
            means.append(mean)
            errors.append(error / mean)
        for m, mean, error in zip((1, 2, 3), np.array(means).T, np.array(errors).T, strict=True):
            pairings = (0, 1 / 2, 6 / 5)[m - 1]
            rows = entry.excess + 4 * entry.sigma * (entry.sigma - entry.skewness)
            checks.append(
                Curve(
                    f"moment {2 * m}, {entry.name}",
                    sizes,
                    mean,
                    error,
                    lambda T, sigma=entry.sigma, m=m: np.full(
                        len(T), laws.QuarterCircle(sigma).moment(2 * m)
                    ),
                    correction=1 + (m * entry.drift + pairings * (1 + rows) + (m - 1) / 2) / sizes,
                    bias=(m * abs(entry.drift) + pairings * (1 + abs(rows)) + (m - 1) / 2)
                    / 2
                    / sizes,
                    exponent=0,
                )
            )
    return checks


@dataclass(frozen=True)
class Spikes:
    """Per draw: s_2 and the size of the largest entry of A_perp, both times sqrt(T)."""

    edge: np.ndarray
    theta: np.ndarray
    rest: np.ndarray  # sigma of A_perp without its largest entry
    largest: np.ndarray  # the largest raw entry over the least of its row
    first: np.ndarray  # s_1 - 1

    @property
    def formula(self) -> np.ndarray:
        """The largest-entry formula of each draw, written out here: for spreads only."""
        return _above_edge(self.theta, self.rest)


@functools.cache
def _spikes(T: int, seeds: int, entries: str, parameter: float) -> Spikes:
    option = {"alpha" if entries == "pareto" else "sigma": parameter}
    option = {} if entries == "cauchy" else option
    rows = []
    for A in draws(T, seeds, entries, **option):
        s1, s2 = spectra.top_singular_values(A)
        B = attention.remove_mean(A)
        i, j = np.unravel_index(A.argmax(), A.shape)
        rest = np.sqrt((B**2).sum() - B[i, j] ** 2)
        largest = A[i, j] / A[i].min() if A[i].min() > 0 else np.inf
        rows.append((np.sqrt(T) * s2, np.sqrt(T) * B[i, j], rest, largest, s1 - 1))
    return Spikes(*np.array(rows).T)


def _explained(label: str, samples: dict[int, Spikes]) -> Curve:
    """Return mean s_2 beside the mean of the largest-entry formula on the same draws.

    Errors come from the spread of measured/formula over draws. Bias: one draw scatters around the
    formula by that spread sd, and s_2 is the largest of the few spikes that compete; the mean of
    the larger of two is higher by sd/sqrt(pi).
    """
    ratios = [s.edge / s.formula for s in samples.values()]
    spread = np.array([r.std(ddof=1) for r in ratios])
    return Curve(
        label,
        np.array(list(samples), dtype=float),
        np.array([s.edge.mean() for s in samples.values()]),
        spread / np.sqrt([len(r) for r in ratios]),
        lambda T: [
            np.mean(predictions.spike_singular_value(s.theta, s.rest)) for s in samples.values()
        ],
        bias=spread / np.sqrt(np.pi),
    )


def _correlated(label: str, s: Spikes, above: float) -> Sign:
    """Return the check that s_2 and the formula are correlated more than that (Fisher's z)."""
    z = np.arctanh(np.corrcoef(s.edge, s.formula)[0, 1]) - np.arctanh(above)
    return Sign(label, z, (len(s.edge) - 3) ** -0.5)


@measures("largest-entry-spike")
def _() -> list[Check]:
    checks: list[Check] = []
    for alpha in (3.0, 3.5):
        samples = {T: _spikes(T, n, "pareto", alpha) for T, n in {200: 100, 400: 60}.items()}
        checks += [
            _explained(f"theta + sigma^2/theta, alpha = {alpha}", samples),
            _correlated(f"per draw, alpha = {alpha}", samples[400], above=0.9),
        ]
    return checks


def _largest(T: float, law: str, parameter: float) -> np.ndarray:
    """Return the largest of T^2 raw entries, at evenly spaced quantiles."""
    u = (np.arange(4000) + 0.5) / 4000
    tail = -np.expm1(np.log(u) / T**2)  # P(D > largest)
    if law == "pareto":
        return tail ** (-1 / parameter)
    return np.exp(-np.sqrt(np.log1p(parameter**2)) * ndtri(tail))


def _scaled(T: float, raw: np.ndarray, mean: float) -> np.ndarray:
    """Return sqrt(T) times the entry of A that a raw entry makes; mean T is the rest of its row."""
    return np.sqrt(T) * raw / (raw + mean * T)


def _above_edge(theta: np.ndarray, sigma: np.ndarray | float) -> np.ndarray:
    """Return theta + sigma^2/theta above sigma, 2 sigma below."""
    size = np.maximum(theta, sigma)
    return size + sigma**2 / size


@measures("lognormal-slow-edge")
def _() -> list[Check]:
    """Empirical: the excess is there, it falls, and the largest entry carries it.

    The fall is small beside the scatter of one draw, so the largest entry serves as a control
    variate: mean of (sqrt(T) s_2 - formula of the draw) + mean of the formula over the known law of
    the largest of T^2 entries.
    """
    samples = {T: _spikes(T, n, "lognormal", 1.0) for T, n in {200: 200, 800: 60}.items()}
    mean_entry = np.sqrt(2)  # exp(log(2)/2), entries being exp of a centred Gaussian
    controlled = {
        T: s.edge
        - _above_edge(s.theta, 1.0)
        + _above_edge(_scaled(T, _largest(T, "lognormal", 1.0), mean_entry), 1.0).mean()
        for T, s in samples.items()
    }
    return [
        *(Sign(f"excess at T = {T}", *mean_and_error(s.edge - 2)) for T, s in samples.items()),
        falls("the excess falls", controlled[200], controlled[800]),
        _explained("largest entry", samples),
        _correlated("per draw", samples[200], above=0.8),
    ]


def _pareto_edge(T: float, alpha: float, raw: np.ndarray) -> np.ndarray:
    """Return s_2 by the largest-entry formula; sigma is that of the entries below the largest."""
    first = alpha / (alpha - 1) * (1 - raw ** (1 - alpha))
    second = alpha / (alpha - 2) * (1 - raw ** (2 - alpha))
    sigma = np.sqrt(second - first**2) / first
    return _above_edge(_scaled(T, raw, first), sigma) / np.sqrt(T)


@measures("heavy-tail-fourth-moment")
def _() -> list[Check]:
    """Compare means of log s_2, with the largest raw entry M as a control variate.

    E log s_2 = E log(s_2/g(M)) + E log g(M), whatever s_2 is: g is the largest-entry formula, which
    scatters as s_2 does, and the law of M is known. (A Pareto entry is at least 1: dividing a row
    by its least entry gives the raw entries back, up to 1/(alpha T).)

    The approach to the power is slow, relative T^(1 - 4/alpha). What g does beyond the power,
    integrated over the law of M, is the correction; half of what it does from T to infinity is the
    bias. At alpha = 2.5 that is too much for a rate: there, growth only.
    """
    checks: list[Check] = []
    for alpha, seeds in (2.5, {100: 80, 800: 20}), (3.0, {100: 120, 200: 100, 400: 60, 800: 40}):
        sizes = np.array(list(seeds), dtype=float)
        logs, expected = [], []
        for T, n in seeds.items():
            sample = _spikes(T, n, "pareto", alpha)
            formula = _pareto_edge(T, alpha, sample.largest)
            logs.append(mean_and_error(np.log(sample.edge / np.sqrt(T) / formula)))
            expected.append(np.log(_pareto_edge(T, alpha, _largest(T, "pareto", alpha))).mean())
        excess, error = np.array(logs).T
        mean = excess + np.array(expected)
        growth = mean[-1] - mean[0] + np.log(sizes[-1] / sizes[0]) / 2
        spread = float(np.hypot(error[-1], error[0]))
        checks.append(Sign(f"sqrt(T) s_2 grows, alpha = {alpha}", growth, spread))
    far = 1e9
    beyond_power = np.array(expected) - (2 / alpha - 1) * np.log(sizes)
    limit = np.log(_pareto_edge(far, alpha, _largest(far, "pareto", alpha))).mean()
    limit -= (2 / alpha - 1) * np.log(far)
    checks.append(
        Curve(
            f"exponent, alpha = {alpha}",
            sizes,
            np.exp(mean),
            error,
            lambda T: T ** predictions.heavy_tail_exponent(alpha),
            correction=np.exp(beyond_power),
            bias=np.abs(beyond_power - limit) / 2,
            exponent=2 / alpha - 1,
            exponent_step=0.2,
            level=False,
        )
    )
    return checks


@measures("infinite-variance")
def _() -> list[Check]:
    """Finite mean (alpha = 1.5): s_2 follows the largest entry, x/(1 + x), up to 1.

    Control variate as above. Bias: the rest of a row, T m in the formula, fluctuates by
    T^(1/alpha - 1), which moves x/(1 + x) by 1/(1 + x) times as much.
    """
    alpha, mean_entry = 1.5, 3.0
    samples = {T: _spikes(T, n, "pareto", alpha) for T, n in {50: 200, 400: 80, 800: 40}.items()}
    sizes = np.array([400.0, 800.0])
    s2 = {T: s.edge / np.sqrt(T) for T, s in samples.items()}

    def entry(raw: np.ndarray, T: float) -> np.ndarray:
        return raw / (raw + mean_entry * T)

    expected = np.array([entry(_largest(T, "pareto", alpha), T).mean() for T in sizes])
    excess, error = np.array(
        [mean_and_error(s2[T] - entry(samples[T].largest, T)) for T in (400, 800)]
    ).T
    radius = {
        T: np.log([abs(spectra.eigenvalues(A)[1]) for A in draws(T, n, "pareto", alpha=alpha)])
        for T, n in {50: 200, 400: 50}.items()
    }
    cauchy = {T: _spikes(T, n, "cauchy", 1.0) for T, n in {50: 200, 800: 25}.items()}
    above = {T: s.edge / np.sqrt(T) for T, s in cauchy.items()}
    return [
        Curve(
            "s_2 is the largest entry, alpha = 1.5",
            sizes,
            expected + excess,
            error / expected,
            lambda T: expected,
            bias=(1 - expected) / expected * sizes ** (1 / alpha - 1),
            step=0.15,
        ),
        falls("s_2 rises", -s2[50], -s2[800]),
        falls("s_1 - 1 falls", samples[50].first, samples[800].first),
        falls("the gap closes", samples[50].first - s2[50], samples[800].first - s2[800]),
        falls("|lambda_2| falls", radius[50], radius[400]),
        falls("Cauchy: s_2 rises", -above[50], -above[800]),
        Sign("Cauchy: s_2 passes 1", *mean_and_error(above[800] - 1)),
        Sign("Cauchy: s_1 stays above 1.05", *mean_and_error(cauchy[800].first - 0.05)),
    ]
