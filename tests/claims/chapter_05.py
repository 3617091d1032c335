"""What chapter 05, Rank collapse in width, claims, measured.

Isometric tokens X_0, X_l = A_l X_{l-1} W_l. Write X_l = e w^T + Y_l with w = X_l^T e less what Y
has of it: w_l = W_l^T X_{l-1}^T e and Y_l = A_perp,l Y_{l-1} W_l. Since A_perp e = 0 the two see
other directions, so they are independent up to O(1/T). Finite-size terms:

- second order perturbation: sum_{k>=2} s_k^4 is tr (YY^T)^2 with e taken off on the left and w on
  the right, so that T - 1 and d - 1 stand in the recursions for T and d;
- an entry of A_perp has the variance sigma^2/T^2 (1 + `Entry.drift`/T), and as rows sum to 0, a
  row has T/(T-1) times that in each of its T - 1 directions. Rows scatter in length, which adds
  kappa' r to the step of q: kappa' = kappa + 4 sigma^2 - 4 (skewness) sigma, the excess kurtosis
  of the raw entry and, to first order, what dividing by the row's sum does to it;
- s_1^2/d^l has the mean (1 + sigma^2/T)^(l-1), at l = 1 1 + sigma^2/T + sigma^2/d; |w|^2/d^l is a
  product of l independent chi-squared variables over d, whose inverse square has the mean
  (d^2/((d-2)(d-4)))^l. That is the most of what one draw of sr - 1 scatters, so the numerator
  sum_{k>=2} s_k^4/d^(2l) is compared by itself, to 10 %, and sr - 1 itself to 20 % at
  layer 1 and by its rate further on.

A derived term is applied as a correction, and half of its size is the bias.
"""

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
from scipy.special import digamma

from gapcourse import attention, ensembles, predictions, spectra
from gapcourse.laws import AttentionBulk

from .chapter_02 import TRACY_WIDOM
from .chapter_03 import BERNOULLI, EPS, EXPONENTIAL, UNIFORM, Entry
from .chapter_04 import edge_term, extrapolated
from .ledger import Check, Curve, Identity, Sign, falls, generator, mean_and_error, measures

LAYERS = (1, 2, 3)


def parts(X: np.ndarray) -> tuple[float, float, float]:
    """Return sum_{k>=2} s_k^4, s_1^2 and sr(XX^T) - 1."""
    s2 = spectra.singular_values(X) ** 2
    rest = float((s2[1:] ** 2).sum())
    return rest, float(s2[0]), spectra.collapse_residual(X)


@functools.cache
def stacks(entry: Entry, T: int, d: int, depth: int, seeds: int) -> np.ndarray:
    """Return, of shape (seeds, depth, 3): rest/d^2l, s_1^2/d^l and sr - 1."""
    rows = []
    for seed in range(seeds):
        rng = generator(f"stack {entry.name}", T, d, seed)
        X = ensembles.isometric_input(T, d, rng=rng)
        row = []
        for _ in range(depth):
            A = ensembles.random_markov(T, entries=entry.name, sigma=entry.sigma, rng=rng)
            X = A @ X @ (rng.standard_normal((d, d)) / math.sqrt(d))
            row.append(parts(X))
        rows.append(row)
    return np.array(rows)


def recursion(
    T: float,
    d: float,
    layer: int,
    v: float,
    kappa: float = 0.0,
    start: tuple[float, float] | None = None,
) -> float:
    """Return q_l of the two moment recursions, for noise of variance v; start: p_0 and q_0.

    r = E p^2; at the start it is p_0^2.
    """
    p, q = start or (T, T)
    r = p**2
    for _ in range(layer):
        q, r = d * (d + 1) * q + d * r, d**2 * r + 2 * d * q
        q, r = v**2 * (T * (T + 1) * q + (T + kappa) * r), v**2 * (T**2 * r + 2 * T * q)
    return q


def finite(
    entry: Entry, T: float, d: float, layer: int, start: tuple[float, float] | None = None
) -> float:
    """Return sum_{k>=2} s_k^4/d^2l with its derived finite-size terms."""
    sigma = entry.sigma
    v = sigma**2 / T**2 * (1 + entry.drift / T) * T / (T - 1)
    kappa = entry.excess + 4 * sigma**2 - 4 * entry.skewness * sigma
    return recursion(T - 1, d - 1, layer, v, kappa, start) / d ** (2 * layer)


def first(entry: Entry, T: float, d: float, layer: int) -> float:
    """Return the mean of s_1^2/d^l."""
    v = entry.sigma**2
    return 1 + v / T + v / d if layer == 1 else (1 + v / T) ** (layer - 1)


@measures("matrix-keeps-rank")
def _() -> list[Check]:
    """Finite size: the drift of the variance, in the share sigma^2/(1 + sigma^2) of the energy.

    No trend in T; beside it sr(Sigma_1) - 1 falls. The tokens of layer 1, sr(X_1) and their mean
    cosine, are a multiple of 1/T off: extrapolated.
    """
    seeds = {50: 60, 100: 40, 200: 30, 400: 10}
    sizes = np.array(list(seeds), dtype=float)
    checks: list[Check] = []
    for entry in (EXPONENTIAL, UNIFORM, BERNOULLI):
        rows = []
        for T, n in seeds.items():
            found = []
            for seed in range(n):
                rng = generator(f"rank {entry.name}", T, seed)
                A = ensembles.random_markov(T, entries=entry.name, sigma=entry.sigma, rng=rng)
                found.append(spectra.stable_rank(A))
            rows.append(mean_and_error(found))
        mean, error = np.array(rows).T
        share = entry.sigma**2 / (1 + entry.sigma**2)
        drift = share * entry.drift / sizes
        checks.append(
            Curve(
                f"sr(A), {entry.name}",
                sizes,
                mean,
                error / mean,
                lambda T, sigma=entry.sigma: predictions.stable_rank(T, sigma),
                correction=1 + drift,
                bias=abs(drift) / 2 + share * abs(drift),
                exponent=0,
            )
        )
        checks.append(Sign(f"sr(A) stays above 1.2, {entry.name}", *mean_and_error(found)))
    tokens = {}
    for T, n in {100: 160, 200: 100}.items():
        rows = []
        for seed in range(n):
            rng = generator("tokens of layer 1", T, seed)
            A = ensembles.random_markov(T, entries="exponential", rng=rng)
            X = A @ rng.standard_normal((T, T))  # isometric tokens times values are noise
            rows.append((spectra.stable_rank(X), spectra.token_cosine(X)))
        tokens[T] = np.array(rows)
    one = EXPONENTIAL.sigma**2
    for i, (name, limit) in enumerate((("sr(X_1)", 1 + one), ("cosine in X_1", 1 / (1 + one)))):
        samples = {T: x[:, i] for T, x in tokens.items()}
        checks.append(extrapolated(name, samples, lambda T, limit=limit: limit))
    residual = [stacks(EXPONENTIAL, T, T, 3, n)[:, 0, 2] for T, n in SQUARE.items()]
    checks.append(falls("sr(Sigma_1) - 1 falls to less than half", residual[0] / 2, residual[-1]))
    return checks


SQUARE = {50: 200, 100: 160, 200: 120}


def _width(entry: Entry, ratio: int, seeds: dict[int, int], layers: tuple[int, ...]) -> list[Check]:
    """Compare layers with the leading order: numerator to 10 %, sr - 1 itself to 20 %."""
    sizes = np.array(list(seeds), dtype=float)
    depth = max(layers)
    checks: list[Check] = []
    for layer in layers:
        samples = [stacks(entry, T, ratio * T, depth, n)[:, layer - 1] for T, n in seeds.items()]

        def leading(T: np.ndarray, layer: int = layer) -> np.ndarray:
            return predictions.width_collapse(T, ratio * T, layer, entry.sigma, leading=True)

        constant = 1 + layer * (1 + 1 / ratio)
        plain = constant * entry.sigma ** (4 * layer) * sizes ** (1.0 - 2 * layer)
        rest = np.array([finite(entry, T, ratio * T, layer) for T in sizes]) / plain
        top = np.array([first(entry, T, ratio * T, layer) for T in sizes])
        d = ratio * sizes
        inverse = (d**2 / ((d - 2) * (d - 4))) ** layer / top**2
        label = f"{entry.name}, gamma = 1/{ratio}, layer {layer}"
        for name, column, correction, step in (
            (f"sum of s_k^4, {label}", 0, rest, 0.1),
            (f"sr - 1, {label}", 2, rest * inverse, 0.2),
        ):
            mean, error = np.array([mean_and_error(x[:, column]) for x in samples]).T
            checks.append(
                Curve(
                    name,
                    sizes,
                    mean,
                    error / mean,
                    leading,
                    correction=correction,
                    bias=np.abs(rest - 1) / 2 + (column == 2) * np.abs(inverse - 1) / 2,
                    exponent=None if (layer, column) == (1, 2) else 1 - 2 * layer,
                    exponent_step=0.2,
                    step=step,
                    level=(column == 0 or layer == 1),
                )
            )
        mean, error = np.array([mean_and_error(x[:, 1]) for x in samples]).T
        checks.append(
            Curve(
                f"s_1^2/d^l, {label}",
                sizes,
                mean,
                error / mean,
                np.ones_like,
                correction=top,
                bias=(top - 1) / 2,
                step=0.15,
            )
        )
    return checks


@measures("width-collapse")
def _() -> list[Check]:
    """Layer 1: exponential entries, gamma = 1 and 1/2, and uniform ones, gamma = 1/2."""
    return [
        *_width(EXPONENTIAL, 1, SQUARE, (1,)),
        *_width(EXPONENTIAL, 2, {50: 150, 100: 120, 200: 60}, (1,)),
        *_width(UNIFORM, 2, {50: 150, 100: 120, 200: 60}, (1,)),
    ]


@measures("width-collapse-layers")
def _() -> list[Check]:
    """Layers 1 to 3; the constants and the rates 1 - 2l, and the powers of sigma (uniform)."""
    slack = []
    for seed in range(20):
        rng = generator("squeeze", seed)
        X = Y = ensembles.isometric_input(40, 50, rng=rng)
        for _ in LAYERS:
            A = ensembles.random_markov(40, entries="exponential", rng=rng)
            W = rng.standard_normal((50, 50)) / math.sqrt(50)
            g = X.sum(axis=0) @ W / math.sqrt(40)
            X, Y = A @ X @ W, attention.remove_mean(A) @ Y @ W
            unit = g / np.linalg.norm(g)
            rest, along = Y - np.outer(Y @ unit, unit), ((X @ unit) ** 2).sum()
            fourth, top = _moments(rest[None])[1][0], np.linalg.norm(rest, 2)
            value = spectra.collapse_residual(X)
            slack += [
                fourth / along**2 / value - 1,
                1 - (fourth - top**4) / (along + top**2) ** 2 / value,
            ]
    return [
        *_width(EXPONENTIAL, 1, SQUARE, LAYERS),
        *_width(UNIFORM, 2, {50: 150, 100: 120, 200: 60}, (2, 3)),
        Sign("the squeeze, 20 stacks", min(slack) + 1e-9),
    ]


def _nodes(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices and weights that average polynomials of degree 5 as Gaussian entries do."""
    points = list(itertools.product((-math.sqrt(3), 0.0, math.sqrt(3)), repeat=math.prod(shape)))
    weights = np.prod(np.where(np.array(points) == 0, 2 / 3, 1 / 6), axis=1)
    return np.array(points).reshape(-1, *shape), weights


def _moments(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return tr YY^T and tr (YY^T)^2 of a batch."""
    gram = Y @ Y.swapaxes(-1, -2)
    return np.trace(gram, axis1=-2, axis2=-1), (gram**2).sum(axis=(-2, -1))


@measures("width-moments")
def _() -> list[Check]:
    """Average over Gaussian matrices exactly, by quadrature: the traces are of degree 4.

    Three nodes for each entry, 0 and +-sqrt(3), average every polynomial of degree 5 as N(0, 1)
    does: 3^6 nodes for a 3 x 2 matrix. Rounding: sums of 729 terms, some tens of times the result.
    Then the closed form against the recursion, and the package's function against the closed form,
    a difference of two numbers that is l/T of them: some 1000 T eps.
    """
    Y = generator("moments").standard_normal((3, 2))
    (p,), (q,) = _moments(Y[None])
    W, weights = _nodes((2, 3))
    traces = _moments(Y @ W)
    by_values = [weights @ m for m in (*traces, traces[0] ** 2)]
    v = 0.3
    G, weights = _nodes((2, 3))
    traces = _moments(math.sqrt(v) * G @ Y)
    by_noise = [weights @ m for m in (*traces, traces[0] ** 2)]
    pairs = {
        "p -> n p, n = 3 columns": (by_values[0], 3 * p),
        "q -> n (n+1) q + n r, n = 3 columns": (by_values[1], 12 * q + 3 * p**2),
        "r -> n^2 r + 2 n q, n = 3 columns": (by_values[2], 9 * p**2 + 6 * q),
        "p -> v n p, n = 2 rows": (by_noise[0], 2 * v * p),
        "q -> v^2 (n (n+1) q + n r), n = 2 rows": (by_noise[1], v**2 * (6 * q + 2 * p**2)),
        "r -> v^2 (n^2 r + 2 n q), n = 2 rows": (by_noise[2], v**2 * (4 * p**2 + 4 * q)),
    }
    checks: list[Check] = [
        Identity(label, lambda factor, a=a, b=b: abs(a / b - factor), 1000 * EPS)
        for label, (a, b) in pairs.items()
    ]
    for T, d, layer, sigma in (50, 80, 1, 0.6), (50, 80, 2, 1.5), (50, 80, 3, 1.0):
        q, r = float(T), float(T) ** 2
        for _ in range(layer):
            for n, scale in (d, 1.0), (T, sigma**4 / T**4):
                q, r = scale * (n * (n + 1) * q + n * r), scale * (n * n * r + 2 * n * q)
        up = (1 + 2 / T) ** (layer + 1) * (1 + 2 / d) ** layer
        down = (1 - 1 / T) ** (layer + 1) * (1 - 1 / d) ** layer
        closed = sigma ** (4 * layer) * T ** (2.0 - 2 * layer) * (up - down) / 3
        checks += [
            Identity(
                f"closed form, T = {T}, d = {d}, layer {layer}",
                lambda factor, a=closed * float(d) ** (2 * layer), q=q: abs(a / q - factor),
                1000 * EPS,
            ),
            Identity(
                f"width_collapse, T = {T}, d = {d}, layer {layer}",
                lambda factor, at=(T, d, layer, sigma), a=closed: abs(
                    predictions.width_collapse(*at) / a - factor
                ),
                1000 * T * EPS,
            ),
        ]
    return checks


@functools.cache
def residuals(
    T: int, d: int, seeds: int, head_dim: int, s: float, kind: str = "softmax"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sum_{k>=2} s_k^4/(s_1^2 mean d^2), s_1^2/d and sr - 1 of layer 1, a row a seed.

    Queries and keys are Gaussian, as isometric tokens make them.
    """
    rows = []
    for seed in range(seeds):
        rng = generator("layer", T, d, head_dim, seed)
        X = ensembles.isometric_input(T, d, rng=rng)
        Q, K = rng.standard_normal((2, T, head_dim))
        A = attention.attention_matrix(Q, K, kind=kind, scale=s / math.sqrt(head_dim))
        rest, top, residual = parts(A @ X @ (rng.standard_normal((d, d)) / math.sqrt(d)))
        rows.append((rest, top, residual))
    return tuple(np.array(rows).T)


SPREAD = 0.5


@measures("width-softmax")
def _() -> list[Check]:
    """Corrections are O(1/T) and O(1/d_k), multiples of 1/T at fixed c: extrapolated in T.

    In a head of fixed size corrections stay: 2/d_k. The rate in T at c = 1 and 4: the bias is what
    is measured at T = 50 to 200 as a multiple of 1/T, half of it, as where it is derived.
    Numerators, as above: the law of s_1 is known. A small head weakens the collapse: sign.
    """
    checks: list[Check] = []
    tops = {}
    for gamma, c in (1.0, 0.25), (1.0, 1.0), (1.0, 4.0), (1.0, 8.0), (0.5, 1.0), (0.5, 8.0):
        ratio = round(1 / gamma)
        pair = {100: 160, 200: 100} if c < 8 else {100: 240, 200: 160}
        samples = {
            T: T * residuals(T, ratio * T, n, round(T / c), SPREAD)[0] for T, n in pair.items()
        }
        tops[gamma, c] = samples[200]

        def constant(T: int, ratio: int = ratio, c: float = c) -> float:
            return T * predictions.attention_width_collapse(T, ratio * T, round(T / c), SPREAD)

        label = f"T (sr - 1), gamma = {gamma}, c = {c}"
        checks.append(extrapolated(label, samples, constant, step=0.1 if c < 8 else 0.15))
    sizes = np.array([50.0, 100.0, 200.0])
    for c in (1.0, 4.0):
        rows = [
            mean_and_error(residuals(int(T), int(T), n, round(T / c), SPREAD)[0])
            for T, n in zip(sizes, (100, 60, 40), strict=True)
        ]
        mean, error = np.array(rows).T
        scaled = sizes * mean
        slope, limit = np.polyfit(1 / sizes, scaled, 1)
        checks.append(
            Curve(
                f"rate, c = {c}",
                sizes,
                mean,
                error / mean,
                lambda T, c=c: predictions.attention_width_collapse(T, T, np.round(T / c), SPREAD),
                bias=np.abs(slope / limit) / sizes / 2,
                correction=1 + slope / limit / sizes / 2,
                exponent=-1.0,
                exponent_step=0.2,
                level=False,
            )
        )
    sizes = np.array([100.0, 200.0, 400.0])
    rows = [
        mean_and_error(residuals(int(T), int(T), n, 20, SPREAD)[0])
        for T, n in zip(sizes, (160, 80, 12), strict=True)
    ]
    mean, error = np.array(rows).T
    checks.append(
        Curve(
            "a head of dimension 20, with its floor",
            sizes,
            mean,
            error / mean,
            lambda T: predictions.attention_width_collapse(T, T, 20, SPREAD),
            bias=np.full(3, 2 / 20),
            step=0.2,
        )
    )
    return [*checks, falls("a small head weakens the collapse", tops[1.0, 8.0], tops[1.0, 0.25])]


def _product_edge(c: float, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return w and x(w) for linear attention times tokens and values, at unit mean.

    The S-transform of the squares is 1/((1+z)(1+cz)(1+gamma z)); w^2 = z (1+z) S, x = (1+z)/w.
    """
    z = np.geomspace(1e-3, 10.0, 20_000)
    w = np.sqrt(z / ((1 + c * z) * (1 + gamma * z)))
    return w, (1 + z) / w


@measures("width-contrasts")
def _() -> list[Check]:
    """Identity and orthogonal attention: X_1 is a Wishart factor; sr/T -> (1+g)/(1+sqrt(g))^4.

    Its largest eigenvalue has the mean mu - 1.2065 m and the variance 1.607 m^2 (Johnstone 2001),
    mu = (sqrt(T-1) + sqrt(d))^2, m = (sqrt(T-1) + sqrt(d)) (1/sqrt(T-1) + 1/sqrt(d))^(1/3); the
    second moment is T d (T + d + 1): the correction, half of it the bias. Linear attention: the
    free product's moment 2 + g + c over its edge to the fourth, the edge shifted by Tracy-Widom.
    ReLU and sigmoid: T a_0^4 (sr - 1) -> (2 + g) k_2^2 + c a_1^4, extrapolated in T.
    """
    seeds = {50: 120, 100: 80, 200: 40}
    sizes = np.array(list(seeds), dtype=float)
    checks: list[Check] = []
    for kind in "identity", "orthogonal":
        for ratio in (1, 2):
            rows = []
            for T, n in seeds.items():
                found = []
                for seed in range(n):
                    rng = generator(kind, T, ratio, seed)
                    X = ensembles.isometric_input(T, ratio * T, rng=rng)
                    A = np.eye(T)
                    if kind == "orthogonal":
                        A = ensembles.isometric_input(T, T, rng=rng)
                    X = A @ X @ rng.standard_normal((ratio * T, ratio * T))
                    found.append((1 + spectra.collapse_residual(X)) / T)
                rows.append(mean_and_error(found))
            mean, error = np.array(rows).T
            d = ratio * sizes
            a, b = np.sqrt(sizes - 1), np.sqrt(d)
            m = (a + b) * (1 / a + 1 / b) ** (1 / 3)
            top = (a + b) ** 2 + TRACY_WIDOM[0] * m
            true = sizes * d * (sizes + d + 1) * (1 + 3 * 1.607 * (m / top) ** 2) / top**2
            limit = (1 + 1 / ratio) / (1 + ratio**-0.5) ** 4
            term = true / sizes / limit
            checks.append(
                Curve(
                    f"sr/T, {kind}, gamma = 1/{ratio}",
                    sizes,
                    mean,
                    error / mean,
                    lambda T, limit=limit: np.full(len(T), limit),
                    correction=term,
                    bias=np.abs(term - 1) / 2 / 4,
                    exponent=0.0,
                    exponent_step=0.2,
                )
            )
    rows = []
    for T, n in seeds.items():
        rows.append(mean_and_error((1 + residuals(T, T, n, T, 1.0, "linear")[2]) / T))
    mean, error = np.array(rows).T
    w, x = _product_edge(1.0, 1.0)
    shift = np.array([edge_term(w, x, int(T)) for T in sizes]) / x.min()
    checks.append(
        Curve(
            "sr/T, linear, c = 1",
            sizes,
            mean,
            error / mean,
            lambda T: np.full(len(T), 4 / x.min() ** 4),
            correction=(1 + shift) ** -4,
            bias=np.abs((1 + shift) ** -4 - 1) / 2,
            step=0.2,
        )
    )
    for kind, f in ("relu", lambda z: max(z, 0.0)), ("sigmoid", lambda z: 1 / (1 + math.exp(-z))):
        for c in (1.0, 4.0):
            samples = {
                T: T * residuals(T, T, n, round(T / c), 1.0, kind)[0]
                for T, n in {100: 160, 200: 100}.items()
            }

            def constant(T: int, f: Callable = f, c: float = c) -> float:
                law = AttentionBulk.from_map(f, 1.0, c)
                return 3 * law.moment(2) ** 2 + c * law.linear**4

            checks.append(
                extrapolated(f"T a_0^4 (sr - 1), {kind}, c = {c}", samples, constant, step=0.15)
            )
        tops = [mean_and_error(residuals(200, 200, 100, 200, 1.0, kind)[1])]
        mean, error = np.array(tops).T
        checks.append(
            Curve(
                f"s_1/sqrt(d) is |a_0|, {kind}",
                np.array([200.0]),
                np.sqrt(mean),
                error / mean / 2,
                lambda T, f=f: [AttentionBulk.from_map(f, 1.0, 1.0).outlier],
                bias=np.array([4 / 200]),
            )
        )
    linear = [residuals(T, T, n, T, 1.0, "linear")[2] + 1 for T, n in seeds.items()]
    checks.append(falls("linear: sr grows", -linear[0] * 2, -linear[-1]))
    return checks


@measures("width-subtraction")
def _() -> list[Check]:
    """Known spectra: the residual of U diag(s) V' is known; small s_k err by T eps s_1 each.

    At s_k/s_1 = r the residual is (T - 1) r^4, its relative error 4 T eps/r. Subtracting errs by
    eps in absolute terms: at T = 500 it fails at layer 4 in float64, at layer 2 in float32.
    """
    T, checks = 40, []
    rng = generator("subtraction")
    U, V = (ensembles.isometric_input(T, T, rng=rng) for _ in range(2))
    for r in (1e-2, 1e-4, 1e-6):
        s = np.array([1.0] + [r] * (T - 1))
        checks.append(
            Identity(
                f"sum of s_k^4, s_k/s_1 = {r}",
                lambda factor, X=(U * s) @ V, r=r: abs(
                    spectra.collapse_residual(X) / ((T - 1) * r**4) - factor
                ),
                4 * T * EPS / r,
            )
        )
    rng = generator("both ways")
    size = 500
    start = ensembles.isometric_input(size, size, rng=rng)
    X = {np.float64: start, np.float32: start.astype(np.float32)}
    for layer in range(1, 5):
        A = ensembles.random_markov(size, entries="exponential", rng=rng)
        W = rng.standard_normal((size, size)) / math.sqrt(size)
        direct, off = {}, {}
        for kind, tokens in X.items():
            X[kind] = Y = A.astype(kind) @ tokens @ W.astype(kind)
            direct[kind] = float(spectra.collapse_residual(Y))
            off[kind] = abs((float(spectra.stable_rank(Y @ Y.T)) - 1) / direct[kind] - 1)
        apart = abs(direct[np.float32] / direct[np.float64] - 1)
        checks.append(Sign(f"direct sums agree to 1 %, layer {layer}", 0.01 - apart))
        for kind, good in (np.float64, 3), (np.float32, 1):
            name = f"{kind.__name__}, layer {layer}"
            checks.append(
                Sign(f"subtraction is right to 10 %, {name}", 0.1 - off[kind])
                if layer <= good
                else Sign(f"subtraction is off by more, {name}", off[kind] - 0.1)
            )
    return checks


def _gaussian(T: int, d: int, cosine: float, seeds: int) -> np.ndarray:
    """Return rest/d^2, s_1^2/d and sr - 1 of layer 1, a row a seed, for exponential entries.

    The tokens have mean square length 1: the root of the cosine times a common unit vector plus
    Gaussian noise.
    """
    rows = []
    for seed in range(seeds):
        rng = generator("tokens in width", T, d, int(100 * cosine), seed)
        X = math.sqrt((1 - cosine) / d) * rng.standard_normal((T, d))
        X[:, 0] += math.sqrt(cosine)
        A = ensembles.random_markov(T, entries="exponential", rng=rng)
        rows.append(parts(A @ X @ (rng.standard_normal((d, d)) / math.sqrt(d))))
    return np.array(rows)


@measures("width-inputs")
def _() -> list[Check]:
    """Tokens that are not isometric: p_0 = tr and q_0 = tr of the square of their centred Gram.

    Gaussian tokens, centred, and off the shared vector on the right, are (T-1) x (d-1) noise: p_0 =
    (1-k) (T-1) (d-1)/d, q_0 = (1-k)^2 (T-1) (d-1) (T+d-1)/d^2, exactly. The shared part is |w|^2 =
    d (k T + 1 - k); what s_1^2 takes from the noise is as for isometric tokens over that length,
    to 1/T. So sr - 1 tends to (1-k)^2 (2 + 2 gamma) sigma^4/(T (k T + 1 - k)^2).
    """
    seeds = {50: 160, 100: 120, 200: 80}
    sizes = np.array(list(seeds), dtype=float)
    checks: list[Check] = []
    for gamma, cosine in (0.5, 0.0), (2.0, 0.0), (4.0, 0.0), (1.0, 0.3), (2.0, 0.3):
        samples = [_gaussian(T, round(T / gamma), cosine, n) for T, n in seeds.items()]
        d = np.round(sizes / gamma)
        own = (1 - cosine) ** 2
        limit = own * (2 + 2 * gamma) / sizes
        exact = []
        for T, dim in zip(sizes, d, strict=True):
            p = (1 - cosine) * (T - 1) * (dim - 1) / dim
            q = own * (T - 1) * (dim - 1) * (T + dim - 1) / dim**2
            exact.append(finite(EXPONENTIAL, T, dim, 1, (p, q)))
        rest = np.array(exact) / limit
        label = f"gamma = {gamma}, cosine {cosine}"
        length = cosine * sizes + 1 - cosine
        mean, error = np.array([mean_and_error(x[:, 0]) for x in samples]).T
        checks.append(
            Curve(
                f"sum of s_k^4, {label}",
                sizes,
                mean,
                error / mean,
                lambda T, limit=limit: limit,
                correction=rest,
                bias=np.abs(rest - 1) / 2,
                exponent=-1.0 if gamma < 4 else None,
                exponent_step=0.2,
            )
        )
        top = 1 + (1 - cosine) * (1 / sizes + 1 / d) * (1 if cosine == 0 else 1 / length)
        mean, error = np.array([mean_and_error(x[:, 1]) for x in samples]).T
        checks.append(
            Curve(
                f"s_1^2/d, {label}",
                sizes,
                mean,
                error / mean,
                lambda T, length=length: length,
                correction=top,
                bias=np.abs(top - 1) / 2,
                step=0.2,
            )
        )
        if cosine == 0:
            continue
        mean, error = np.array([mean_and_error(np.log(x[:, 2])) for x in samples]).T
        fluctuation = digamma(d / 2) - np.log(d / 2)  # E log(|w|^2/d), of a chi-squared variable
        checks.append(
            Curve(
                f"sr - 1 (geometric means), {label}",
                sizes,
                np.exp(mean),
                error,
                lambda T, limit=limit, length=length: limit / length**2,
                correction=rest * np.exp(-2 * fluctuation) / top**2,
                bias=np.abs(rest - 1) / 2,
                exponent=-3.0,
                exponent_step=0.2,
                step=0.2,
            )
        )
    # Any input, from p_0 and q_0 of the draw: repeated words; and any attention, one value step.
    for name in "repeated words", "softmax on Gaussian tokens", "softmax on repeated words":
        samples: dict[int, list[float]] = {}
        many = 1 if "words" in name else 3
        for T, n in {100: 270 // many, 200: 180 // many}.items():
            for seed in range(n):
                rng = generator(name, T, seed)
                X = rng.standard_normal((T if "Gaussian" in name else 1000, T)) / math.sqrt(T)
                if "words" in name:
                    chance = 1 / np.arange(1, 1001)
                    X = X[rng.choice(1000, size=T, p=chance / chance.sum())]
                if "softmax" in name:
                    Q, K = math.sqrt(SPREAD) * (X @ rng.standard_normal((2, T, T)))
                    M = attention.attention_matrix(Q, K) @ X
                else:
                    M = ensembles.random_markov(T, entries="exponential", rng=rng) @ X
                rest, _, _ = parts(M @ rng.standard_normal((T, T)) / math.sqrt(T))
                off = _off_mean(X if name == "repeated words" else M)
                (p,), (q,) = _moments(off[None])
                line = (q + 2 * p**2 / T) / T**2 if name == "repeated words" else q + p**2 / T
                samples.setdefault(T, []).append(rest / line)
        checks.append(
            extrapolated(
                f"over the formula, {name}",
                {T: np.array(x) for T, x in samples.items()},
                lambda T: 1.0,
                step=0.2,
            )
        )
    # A fixed vocabulary: softmax attention does not collapse to the end.
    words, s = 30, SPREAD
    chance = 1 / np.arange(1, words + 1)
    chance = chance / chance.sum()
    floor, seen = [], {50: [], 200: []}
    for seed in range(120):
        rng = generator("vocabulary", seed)
        A = chance * np.exp(s * rng.standard_normal((words, words)))
        A = A / A.sum(axis=1, keepdims=True)
        floor.append(math.log(spectra.collapse_residual(np.sqrt(chance)[:, None] * A)))
        for T, found in seen.items():
            X = rng.standard_normal((words, T))[rng.choice(words, size=T, p=chance)] / math.sqrt(T)
            Q, K = math.sqrt(s) * (X @ rng.standard_normal((2, T, T)))
            X = attention.attention_matrix(Q, K) @ X @ rng.standard_normal((T, T))
            found.append(math.log(spectra.collapse_residual(X)))
    (a, da), (b, db) = mean_and_error(floor), mean_and_error(seen[200])
    checks += [
        falls("30 words: T = 200 has a quarter of T = 50", seen[200], seen[50] - np.log(4)),
        Sign(
            "and is within a factor of 2 of the floor", math.log(2) - abs(a - b), math.hypot(da, db)
        ),
    ]
    return checks


def _off_mean(X: np.ndarray) -> np.ndarray:
    """Return X without its token mean, and without the direction of that mean."""
    mean = X.mean(axis=0)
    unit = mean / np.linalg.norm(mean)
    rest = X - mean
    return rest - np.outer(rest @ unit, unit)
