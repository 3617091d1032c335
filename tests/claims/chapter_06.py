"""What chapter 06, Rank collapse in depth, claims, measured.

Stacks and finite-size terms of random Markov attention as in chapter 05. In layer 2 of softmax
attention what is not derived is a multiple of 1/T: extrapolated from two sizes, half of the last
step the bias.
"""

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np

from gapcourse import attention, ensembles, predictions, spectra

from .chapter_03 import EPS, EXPONENTIAL
from .chapter_04 import edge_term, extrapolated, softmax_noise
from .chapter_05 import SQUARE, finite, stacks
from .chapter_07 import energies, shared
from .ledger import Check, Curve, Identity, Sign, draws, falls, generator, mean_and_error, measures

ENSEMBLES = ("lognormal", "gamma", "uniform", "bernoulli", "pareto", "cauchy")


def coefficient(A: np.ndarray) -> float:
    """Return tau(A), the largest total variation distance of two rows."""
    return max(float(np.abs(A - row).sum(axis=1).max()) / 2 for row in A)


@measures("dobrushin-product")
def _() -> list[Check]:
    """Exact. Equality: A = t I + (1-t) 1 p' has tau = t, and so have their products, multiplied.

    Rounding: T eps for the product of two, and as much for each further one. The inequality has
    room to spare on random matrices. The spread of a column of a product is at most its tau. The
    residual of a product, T eps in absolute terms, is about 1/T^2 after 3 layers.
    """
    T = 30
    rng = generator("dobrushin")
    shares = (0.3, 0.6, 0.8, 0.5)
    lazy = [t * np.eye(T) + (1 - t) * rng.dirichlet(np.ones(T)) for t in shares]
    pairs = [rng.dirichlet(np.ones(2), size=2) for _ in range(3)]

    def equality(matrices: list[np.ndarray], factor: float) -> float:
        product = np.linalg.multi_dot(matrices)
        return abs(coefficient(product) / math.prod(map(coefficient, matrices)) - factor)

    def common(matrices: list[np.ndarray], factor: float) -> float:
        """(tI + (1-t) 1p')(uI + (1-u) 1q') = tu I + 1 r': the rows of the rest are equal."""
        rest = np.linalg.multi_dot(matrices) - factor * math.prod(shares) * np.eye(T)
        return float(np.ptp(rest, axis=0).max())

    def residuals(matrices: list[np.ndarray], factor: float) -> float:
        """(I-P) of a product is the product of the (I-P) A, relative."""
        less = [A - A.mean(axis=0) for A in matrices]
        whole, parts = np.linalg.multi_dot(matrices), np.linalg.multi_dot(less)
        return float(np.linalg.norm(whole - whole.mean(axis=0) - factor * parts)) / np.linalg.norm(
            parts
        )

    checks: list[Check] = [
        Identity("lazy matrices", functools.partial(equality, lazy), 4 * T * EPS / 0.07),
        Identity("two states", functools.partial(equality, pairs), 1e-12),
        Identity("the rest has equal rows", functools.partial(common, lazy), 4 * T * EPS),
        Identity(
            "the residual of a product",
            functools.partial(residuals, list(draws(T, 3, "gamma"))),
            4 * T**3 * EPS,
        ),
    ]
    for name in ENSEMBLES:
        factors = list(draws(T, 6, name))
        taus = [coefficient(A) for A in factors]
        product = np.eye(T)
        for k, A in enumerate(factors, 1):
            product = A @ product
            tau = coefficient(product)
            if k > 1:
                checks.append(
                    Sign(f"tau of {k} factors, {name}", math.prod(taus[:k]) - tau),
                )
            spread = float(np.ptp(product, axis=0).max())
            checks.append(Sign(f"columns of {k} factors, {name}", tau + 4 * T * EPS - spread))
    # The true rate: E |(I - P) A_L ... A_1|_F^2 = (T - 1) r^L, exact for Dirichlet rows.
    seeds = {25: 120, 50: 80, 100: 40}
    sizes = np.array(list(seeds), dtype=float)
    rows = []
    for tokens, n in seeds.items():
        found = []
        for seed in range(n):
            rng = generator("forget", tokens, seed)
            Y, row = np.eye(tokens) - 1 / tokens, []
            for _ in range(4):
                Y = ensembles.random_markov(tokens, entries="exponential", rng=rng) @ Y
                Y = Y - Y.mean(axis=0)
                row.append((Y**2).sum())
            found.append(row)
        rows.append(mean_and_error(found))
    mean, error = np.array(rows).transpose(1, 2, 0)
    for L in (2, 3, 4):
        term = (1 - 1 / sizes) ** (L + 1) / (1 + 1 / sizes) ** L

        def exact(T: np.ndarray, L: int = L) -> np.ndarray:
            return (1 - 1 / T) * predictions.product_norm(T, L, 1.0, mean_removed=True) ** 2

        checks += [
            Curve(
                f"|(I - P) M_L|^2, L = {L}",
                sizes,
                mean[L - 1],
                error[L - 1] / mean[L - 1],
                exact,
                bias=np.zeros(3),
            ),
            Curve(
                f"leading order, L = {L}",
                sizes,
                mean[L - 1],
                error[L - 1] / mean[L - 1],
                lambda T, L=L: T ** (1.0 - L),
                correction=term,
                bias=np.abs(term - 1) / 2,
                exponent=1.0 - L,
                exponent_step=0.2,
                level=False,
            ),
        ]
    return checks


def softmax_step(
    mean: np.ndarray, rest: np.ndarray, weights: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean token and residual one softmax layer on, without cancellation."""
    WQ, WK, WV = weights
    B = WQ @ WK.T / math.sqrt(WK.shape[1])
    shared = rest @ (B.T @ mean)
    p = np.exp(shared - shared.max())
    p /= p.sum()
    tilt = np.expm1(rest @ B @ rest.T)
    weighted = tilt @ p
    Y = p * (tilt - weighted[:, None]) / (1 + weighted[:, None]) @ rest
    return (mean + p @ rest + Y.mean(axis=0)) @ WV, (Y - Y.mean(axis=0)) @ WV


@measures("residual-doubly-exponential")
def _() -> list[Check]:
    """Powers 3^L: one set of weights on tokens of several lengths a, slope between neighbours.

    What follows the cube is the next order of the exponential, a relative s^2 a^4, and the pattern
    of columns, as small: 3^(L-1) of it reach the last layer. "T" is the length. The level by
    `energy_step` with the spread measured, layers 1 and 2 of plain stacks (T = 100): its terms are
    a relative 1/T times a few (bias: 4/T), and in layer 2 the pattern p, which it leaves out, adds
    to the squares of a row what the outlier has, exp(s^2 sigma^2) - 1 = 0.07: a correction, half of
    it bias. Bounds: by sign.
    """
    T, s = 100, 0.5
    lengths = np.array([0.1, 0.15, 0.2])
    slopes: dict[tuple[str, int], list[np.ndarray]] = {}
    for seed in range(10):
        rng = generator("cubic", seed)
        X = ensembles.isometric_input(T, T, rng=rng)
        layers = [
            (*(math.sqrt(s) * rng.standard_normal((2, T, T))), rng.standard_normal((T, T)) / 10)
            for _ in range(3)
        ]
        size = np.empty((2, 3, len(lengths)))
        for i, a in enumerate(lengths):
            x = a * X.mean(axis=0), a * (X - X.mean(axis=0))
            for L, weights in enumerate(layers):
                x = softmax_step(*x, weights)
                size[0, L, i] = np.linalg.norm(x[1])
                size[1, L, i] = spectra.composite_residual(x[1])
        powers = np.diff(np.log(size)) / np.diff(np.log(lengths))
        for k, name in enumerate(("Frobenius", "composite")):
            for L in (1, 2, 3):
                slopes.setdefault((name, L), []).append(powers[k, L - 1])
    checks: list[Check] = []
    for (name, L), found in slopes.items():
        mean, error = mean_and_error(found)
        checks.append(
            Curve(
                f"power, {L} layers, {name} norm",
                lengths[1:],
                mean,
                error / mean,
                lambda T, L=L: np.full(len(T), 3.0**L),
                bias=4 * s**2 * lengths[1:] ** 4 + 1e-9,
            )
        )
    ratios, slack = [], []
    for seed in range(100):
        rng = generator("ahead", seed)
        X = ensembles.isometric_input(T, T, rng=rng)
        x, row = (X.mean(axis=0), X - X.mean(axis=0)), []
        for _ in range(2):
            weights = (
                *(math.sqrt(s) * rng.standard_normal((2, T, T))),
                rng.standard_normal((T, T)),
            )
            energy = (x[1] ** 2).sum() / T
            G = x[1] / np.linalg.norm(x[1])
            spread = max(T * ((G @ G.T) ** 2).sum(), 1.0)
            old = x
            x = softmax_step(*x, weights)
            row.append((energy, spread, (x[1] ** 2).sum() / T))
            if seed < 5:
                A = attention.attention_matrix(
                    (old[0] + old[1]) @ weights[0], (old[0] + old[1]) @ weights[1]
                )
                B = np.linalg.norm(weights[0] @ weights[1].T / math.sqrt(T), 2)
                V = np.linalg.norm(weights[2], 2)
                tau, wide = coefficient(A), diameter(old[1])
                slack += [
                    math.tanh(B * wide**2 / 4) - tau * (1 - 1e-9),
                    1 - diameter(x[1]) / (V * tau * wide) if tau > 1e-9 else 1.0,
                ]
        ratios.append(row)
    energy, spread, found = np.array(ratios).transpose(2, 1, 0)
    mean, error = mean_and_error((found / _ahead(energy, spread)).T)
    pattern = math.expm1(s**2 * math.expm1(s**2))
    for layer, term in ((1, 0.0), (2, pattern)):
        checks.append(
            Curve(
                f"one ahead, layer {layer}",
                np.array([float(T)]),
                mean[layer - 1 : layer],
                error[layer - 1 : layer] / mean[layer - 1 : layer],
                lambda T, at=(energy[layer - 1], spread[layer - 1]): np.array(
                    [(predictions.energy_step(*at, 1.0, 0.5) / _ahead(*at)).mean()]
                ),
                correction=1 + term,
                bias=np.array([4 / T + term / 2]),
                step=0.1 if layer == 1 else 0.2,
            )
        )
    checks.append(Sign("tanh and diameter bounds", min(slack)))

    def two_tokens(factor: float) -> float:
        """Two tokens x and -x on a line: tau = tanh(b (2x)^2/4), the bound itself."""
        token, b = 0.7, 1.3
        A = attention.attention_matrix([[token], [-token]], [[b * token], [-b * token]], scale=1.0)
        return abs(coefficient(A) / math.tanh(b * (2 * token) ** 2 / 4) - factor)

    left = hard_picks(64, 16, 40)
    before = np.column_stack([np.full(len(left), 64.0), left[:, :2]])
    chance = before * (1 - (1 - 1 / before) ** before)
    for layer in range(3):
        seen, uniform = left[:, layer], chance[:, layer]
        checks += [
            falls(f"at most uniform picks, layer {layer + 1}", 1.1 * uniform, seen),
            falls(f"and about as many, layer {layer + 1}", seen, 0.75 * uniform),
        ]
    checks.append(Sign("one token after 16 layers", *mean_and_error(1.5 - left[:, -1])))
    return [*checks, Identity("tanh is attained", two_tokens, 100 * EPS)]


def hard_picks(T: int, depth: int, seeds: int) -> np.ndarray:
    """Return how many different tokens are left when each picks its largest logit, by layer."""
    rows = []
    for seed in range(seeds):
        rng = generator("picks", T, seed)
        X, row = ensembles.isometric_input(T, T, rng=rng), []
        for _ in range(depth):
            WQ, WK, W = rng.standard_normal((3, T, T)) / math.sqrt(T)
            names, first = np.unique(((X @ WQ) @ (X @ WK).T).argmax(axis=1), return_inverse=True)
            X = (X[names] @ W)[first]
            row.append(len(names))
        rows.append(row)
    return np.array(rows)


def diameter(X: np.ndarray) -> float:
    """Return the largest distance of two tokens."""
    return max(float(np.linalg.norm(X - row, axis=1).max()) for row in X)


def _ahead(energy: np.ndarray, spread: np.ndarray, s: float = 0.5) -> np.ndarray:
    """Return `energy_step` at gamma = 1, written out: for the weights of a mean only."""
    v = (s * energy) ** 2
    return (spread * v + np.expm1(v) - v) * energy


@measures("path-decomposition")
def _() -> list[Check]:
    """Exact: a stack with H heads and a skip is a sum of (H + 1)^L paths. Rounding: 1000 eps."""
    T, d, depth, heads = 6, 5, 3, 2
    rng = generator("paths")
    X = rng.standard_normal((T, d))
    A = np.array([list(draws(T, heads, "gamma")) for _ in range(depth)])
    A = rng.dirichlet(np.ones(T), size=(depth, heads, T))
    W = rng.standard_normal((depth, heads, d, d))
    out = X
    for layer in range(depth):
        out = out + sum(A[layer, h] @ out @ W[layer, h] for h in range(heads))

    def paths(factor: float) -> float:
        total = np.zeros_like(X)
        for path in itertools.product(range(heads + 1), repeat=depth):
            P, V = np.eye(T), np.eye(d)
            for layer, h in enumerate(path):
                if h < heads:
                    P, V = A[layer, h] @ P, V @ W[layer, h]
            total += P @ X @ V * (factor if max(path) < heads else 1)
        return float(np.abs(total - out).max() / np.abs(out).max())

    checks: list[Check] = [Identity("sum over paths", paths, 1000 * EPS)]
    # By the number k of heads passed: (T - 1) C(L, k) (H r)^k, exact for Dirichlet rows. T is k.
    size, rows = 20, []
    for seed in range(150):
        rng = generator("path lengths", seed)
        start = ensembles.isometric_input(size, size, rng=rng)
        sums = {0: start - start.mean(axis=0)}
        for _ in range(depth):
            new = dict(sums)
            pairs = [
                (
                    ensembles.random_markov(size, entries="exponential", rng=rng),
                    rng.standard_normal((size, size)) / math.sqrt(size),
                )
                for _ in range(heads)
            ]
            for k, Y in sums.items():
                step = sum(a @ Y @ w for a, w in pairs)
                new[k + 1] = new.get(k + 1, 0) + step - step.mean(axis=0)
            sums = new
        rows.append([(sums[k] ** 2).sum() for k in range(1, depth + 1)])
    mean, error = mean_and_error(rows)
    r = (1 - 1 / size) / (size + 1)
    checks.append(
        Curve(
            "residual by heads passed",
            np.arange(1.0, depth + 1),
            mean,
            error / mean,
            lambda k: [(size - 1) * math.comb(depth, int(n)) * (heads * r) ** n for n in k],
            bias=np.zeros(depth),
        )
    )
    return checks


def gauss(f: Callable, *args: float) -> float:
    """Return the mean of f(u) over a standard normal u."""
    u = np.linspace(-8, 8, 200_001)
    return float(np.average(f(u, *args), weights=np.exp(-(u**2) / 2)))


@measures("skip-and-mlp")
def _() -> list[Check]:
    """Exact recursions of mean squares (Dirichlet rows): U what tokens share, Q the residual.

    Per layer Q goes by 1 + omega r, with a skip, the share of the residual, once small, by
    (1 + omega r)/(1 + omega). MLP: h hidden units, an average over h, so the error is that of the
    draws; finite h makes no bias at this order beyond 1/h.
    """
    checks: list[Check] = []
    T = 64
    for name, L, eta, skip in (
        ("no skip", 3, 1.0, 0.0),
        ("skip", 8, 1.0, 1.0),
        ("1/sqrt(L)", 16, 0.25, 1.0),
    ):
        found = shared(T, L, eta, skip, 120)
        mean, error = mean_and_error(found)
        for i, part in ((0, "shared part"), (1, "residual")):
            if (name, i) == ("skip", 0):
                continue  # a product of many chi-squared factors: its mean is not typical
            checks.append(
                Curve(
                    f"{part}, {name}, {L} layers",
                    np.array([float(T)]),
                    mean[i : i + 1],
                    error[i : i + 1] / mean[i],
                    lambda T, i=i, at=(L, eta, skip): [energies(int(t), *at)[i] for t in T],
                    bias=np.zeros(1),
                    step=0.2,
                )
            )
    before, after = (shared(T, L, 1.0, 1.0, 120) for L in (8, 10))
    late = np.log((before[:, 1] / before[:, 0]).mean() / (after[:, 1] / after[:, 0]).mean()) / 2
    spread = math.hypot(
        *(
            mean_and_error(x[:, 1] / x[:, 0])[1] / mean_and_error(x[:, 1] / x[:, 0])[0]
            for x in (before, after)
        )
    )
    scaled = shared(T, 16, 0.25, 1.0, 120)
    checks += [
        Sign("skip: a layer costs more than a factor of 1.5", late - math.log(1.5), spread / 2),
        Sign("skip: and less than 2.7", math.log(2.7) - late, spread / 2),
        Sign(
            "1/sqrt(L) keeps nine tenths of the share",
            *mean_and_error(scaled[:, 1] / scaled.sum(axis=1) - 0.9),
        ),
    ]
    # MLPs: two tokens of cosine 1 - x, a wide random layer; (1 - cosine)/x against chi.
    x, h = 1e-4, 4000
    for name, phi, slope in (
        ("ReLU", lambda u: np.maximum(u, 0), lambda u: (u > 0) * 1.0),
        ("tanh(4 u)", lambda u: np.tanh(4 * u), lambda u: 4 / np.cosh(4 * u) ** 2),
    ):
        found = []
        for seed in range(60):
            u, w = generator("mlp", seed).standard_normal((2, h))
            a, b = math.sqrt(1 - x / 2), math.sqrt(x / 2)
            y, z = phi(a * u + b * w), phi(a * u - b * w)
            found.append(((y - z) ** 2).sum() / 2 / math.sqrt((y @ y) * (z @ z)) / x)
        mean, error = mean_and_error(found)
        chi = gauss(lambda u, slope=slope: slope(u) ** 2) / gauss(lambda u, phi=phi: phi(u) ** 2)
        checks.append(
            Curve(
                f"chi, {name}",
                np.ones(1),
                np.array([mean]),
                np.array([error / mean]),
                lambda T, chi=chi: np.array([chi]),
                bias=np.array([1 / h + math.sqrt(x)]),
            )
        )
    left = {}
    for name, gain in ("ReLU", 0.0), ("tanh(4 u)", 4.0), ("tanh(200 u)", 200.0):
        found = []
        for seed in range(6):
            rng = generator("blocks", seed)
            X = rng.standard_normal((32, 128))
            for _ in range(4):
                A = ensembles.random_markov(32, entries="exponential", rng=rng)
                W, V1, V2 = rng.standard_normal((3, 128, 128)) / math.sqrt(128)
                X = _unit(A @ X @ W)
                X = _unit((np.tanh(gain * (X @ V1)) if gain else np.maximum(X @ V1, 0)) @ V2)
            found.append(math.log10(1 - spectra.token_cosine(X)))
        left[name] = np.array(found)
    checks += [
        Sign("ReLU undoes nothing: below 10^-3 after 4 blocks", *mean_and_error(-3 - left["ReLU"])),
        falls("a sharp tanh keeps ten times more", left["tanh(200 u)"], left["tanh(4 u)"] + 1),
        Sign("and tanh(4 u) more than ReLU", *mean_and_error(left["tanh(4 u)"] - left["ReLU"])),
    ]
    return checks


def _unit(X: np.ndarray) -> np.ndarray:
    """Return tokens divided by their root mean square."""
    return X / np.sqrt((X**2).mean(axis=1, keepdims=True))


def share_of_residual(X: np.ndarray) -> float:
    """Return epsilon, the share of the energy that is not common to all tokens."""
    return float(((X - X.mean(axis=0)) ** 2).sum() / (X**2).sum())


def next_share(epsilon: float, T: int, omega: float, skip: float = 1.0) -> float:
    """Return epsilon one layer of random Markov attention on, a ratio of means."""
    v = 1 / (T + 1)
    whole = skip + omega * (1 - epsilon + v * epsilon)
    return epsilon * (skip + omega * (1 - 1 / T) * v) / whole


@functools.cache
def normed(T: int, depth: int, where: str, seeds: int) -> list[list[np.ndarray]]:
    """Return the tokens of stacks with a skip and a norm of the tokens' root mean square."""
    stacks_ = []
    for seed in range(seeds):
        rng = generator("normed", T, seed)
        X = math.sqrt(T) * ensembles.isometric_input(T, T, rng=rng)
        tokens = [X]
        for _ in range(depth):
            A = ensembles.random_markov(T, entries="exponential", rng=rng)
            W = rng.standard_normal((T, T)) / math.sqrt(T)
            X = _unit(X + A @ X @ W) if where == "post" else X + A @ _unit(X) @ W
            tokens.append(X)
        stacks_.append(tokens)
    return stacks_


@measures("over-smoothing")
def _() -> list[Check]:
    """Exact: queries equal to keys make a symmetric graph; cosines by the share of the residual.

    Post-norm: the share falls by (1 + r)/2 a layer once it is small, geometric mean over layers 16
    to 24; the shared token's length scatters, which moves the mean logarithm by 1/(2d), and the
    share itself is 2^-9 there: 2/d in all. Pre-norm: the recursion in which the stream grows;
    it is of ratios of means, and lengths of relative variance 4/d times sum 1/l^2 make a bias of
    7/d.
    """
    rng = generator("graph")
    K = math.sqrt(0.5) * rng.standard_normal((40, 40))
    A = attention.attention_matrix(K, K)
    w = np.exp(K @ K.T / math.sqrt(40))
    pi = w.sum(axis=1) / w.sum()
    checks: list[Check] = [
        Identity(
            "the degrees are stationary",
            lambda factor: float(np.abs(pi @ A / pi - factor).max()),
            1000 * EPS,
        ),
        Sign("eigenvalues are real", 1e-8 - float(np.abs(spectra.eigenvalues(A).imag).max())),
    ]
    T, depth, seeds = 96, 24, 24
    post, pre = (normed(T, depth, where, seeds) for where in ("post", "pre"))
    one = post[0][2]
    checks.append(
        Identity(
            "cosine by the share of the residual",
            lambda factor: abs(
                spectra.token_cosine(one) / (1 - T / (T - 1) * share_of_residual(one)) - factor
            ),
            1e-12,
        )
    )
    r = (1 - 1 / T) / (T + 1)
    epsilon = np.array([[share_of_residual(X) for X in tokens] for tokens in post])
    mean, error = mean_and_error(np.log(epsilon[:, 24] / epsilon[:, 16]) / 8)
    checks.append(
        Curve(
            "post-norm, factor a layer",
            np.array([float(T)]),
            np.array([math.exp(mean)]),
            np.array([error]),
            lambda _: np.array([(1 + r) / 2]),
            bias=np.array([2 / T]),
        )
    )
    line, energy, v = [1 - 1 / T], 1.0, 1 / (T + 1)
    for _ in range(depth):
        old = line[-1]
        line.append(next_share(old, T, 1 / energy))
        energy += 1 - old + v * old
    stays = np.array([[share_of_residual(X) for X in tokens] for tokens in pre])
    layers = np.array([4, 8, 16])
    mean, error = mean_and_error(stays[:, layers])
    checks.append(
        Curve(
            "pre-norm",
            layers.astype(float),
            mean,
            error / mean,
            lambda layers: np.array(line)[layers.astype(int)],
            bias=np.full(3, 7 / T),
            step=0.2,
        )
    )
    checks.append(falls("after 16 layers pre-norm keeps more", stays[:, 16], 10 * epsilon[:, 16]))
    return checks


@measures("hierarchical-fusion")
def _() -> list[Check]:
    """Exact for concatenation: its share is the mean of the layers'. The rest by sign.

    Post-norm stacks of 16 layers: concatenation, maximum and gate against the last layer alone.
    """
    T = 96
    stacks_ = [tokens[:17] for tokens in normed(T, 24, "post", 24)]
    layers = stacks_[0][1:]
    mean = np.mean([share_of_residual(X) for X in layers])
    joined = np.concatenate(layers, axis=1)
    rows = []
    for seed, tokens in enumerate(stacks_):
        later = np.array(tokens[1:])
        gate = np.exp(later @ generator("gate", seed).standard_normal(T) / math.sqrt(T))
        gate /= gate.sum(axis=0)
        fused = (
            later[-1],
            np.concatenate(later, axis=1),
            later.max(axis=0),
            (gate[..., None] * later).sum(axis=0),
        )
        rows.append([1 - spectra.token_cosine(X) for X in fused])
    last, concat, top, gated = np.array(rows).T
    return [
        Identity(
            "concatenation",
            lambda factor: abs(share_of_residual(joined) / mean - factor),
            1e-12,
        ),
        Identity(
            "its cosine",
            lambda factor: abs((1 - spectra.token_cosine(joined)) / (T / (T - 1) * mean) - factor),
            1e-12,
        ),
        falls("concatenation keeps a hundred times more", concat, 100 * last),
        falls("the maximum keeps ten times more", top, 10 * last),
        falls("a gate keeps ten times more", gated, 10 * last),
    ]


@measures("width-worsens-depth")
def _() -> list[Check]:
    """Over the plane of T and l: each layer divides sr - 1 by T^2, up to constants.

    Numerators sum_{k>=2} s_k^4/d^2l, with the finite-size terms of chapter 05, and their ratio from
    layer to layer; sr - 1 at T = 200 and layer l is below that at T = 50 and layer l + 1 at l = 3,
    by sign.
    """
    sizes = np.array(list(SQUARE), dtype=float)
    samples = [stacks(EXPONENTIAL, T, T, 3, n) for T, n in SQUARE.items()]
    checks: list[Check] = []
    for layer in (1, 2):
        rest = [
            [finite(EXPONENTIAL, T, T, n) for T in sizes] / (sizes ** (1.0 - 2 * n) * (1 + 2 * n))
            for n in (layer, layer + 1)
        ]
        means, errors = np.array(
            [[mean_and_error(x[:, n - 1, 0]) for n in (layer, layer + 1)] for x in samples]
        ).transpose(2, 1, 0)
        checks.append(
            Curve(
                f"layer {layer + 1} over layer {layer}",
                sizes,
                means[1] / means[0],
                np.hypot(*(errors / means)),
                lambda T, layer=layer: (3 + 2 * layer) / (1 + 2 * layer) * T**-2.0,
                correction=rest[1] / rest[0],
                bias=np.abs(rest[1] / rest[0] - 1) / 2,
                exponent=-2.0,
                exponent_step=0.2,
            )
        )
        checks.append(
            Curve(
                f"sum of s_k^4, layer {layer + 1}",
                sizes,
                means[1],
                errors[1] / means[1],
                lambda T, layer=layer: predictions.width_collapse(T, T, layer + 1, 1, leading=True),
                correction=rest[1],
                bias=np.abs(rest[1] - 1) / 2,
                exponent=-1.0 - 2 * layer,
                exponent_step=0.2,
            )
        )
    deep = {40: 160, 80: 100, 160: 50}
    sizes = np.array(list(deep), dtype=float)
    far = [stacks(EXPONENTIAL, T, T, 6, n) for T, n in deep.items()]
    for layer in (4, 6):
        mean, error = np.array([mean_and_error(x[:, layer - 1, 0]) for x in far]).T
        power = 1.0 - 2 * layer
        term = np.array([finite(EXPONENTIAL, T, T, layer) for T in sizes])
        term = term / sizes**power / (1 + 2 * layer)
        checks.append(
            Curve(
                f"rate at layer {layer}",
                sizes,
                mean,
                error / mean,
                lambda T, layer=layer: predictions.width_collapse(T, T, layer, 1.0, leading=True),
                correction=term,
                bias=np.abs(term - 1) / 2,
                exponent=power,
                level=False,
            )
        )
    narrow, wide = np.log(samples[0][..., 2]), np.log(samples[-1][..., 2])
    lost = [a - b for a, b in ((narrow[:, 0], narrow[:, 1]), (wide[:, 0], wide[:, 1]))]
    checks.append(falls("a layer costs more in a wider stack", lost[1], lost[0]))
    return checks


@functools.cache
def second(T: int, d: int, s: float, seeds: int) -> dict[str, np.ndarray]:
    """Return what layer 2 of softmax attention looks like, plain and with the mean removed.

    outlier: s_1 of A_perp; centred: the same with the columns centred; logits: their variance
    within a row; length: of the shared query as it comes back to layer 1, |X_0 W W_K W_Q' W' X_0' e
    off e|^2/(d^3 T), of mean 1.
    """
    rows = []
    for seed in range(seeds):
        rng = generator("second", T, d, round(100 * s), seed)
        X = ensembles.isometric_input(T, d, rng=rng)
        Q, K = math.sqrt(s) * (X @ rng.standard_normal((2, d, d)))
        A = attention.attention_matrix(Q, K)
        W, WQ, WK = rng.standard_normal((3, d, d))
        back = X @ (W @ (WK @ (WQ.T @ (W.T @ X.sum(axis=0)))))
        plain = A @ X @ W
        row = {"length": float(((back - back.mean()) ** 2).sum() / (d**3.0 * T * T))}
        for name, Y in ("plain", plain), ("removed", plain - (X @ W).mean(axis=0)):
            Q, K = Y @ WQ, s * (Y @ WK)
            B = attention.remove_mean(attention.attention_matrix(Q, K))
            row[f"{name} logits"] = (Q @ K.T / math.sqrt(d)).var(axis=1).mean()
            row[f"{name} outlier"] = np.linalg.norm(B, 2)
            if name == "plain":
                row["plain centred"] = np.linalg.norm(B - B.mean(axis=0), 2)
        rows.append(row)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


PAIR = {100: 160, 200: 100}
CASES = ((1.0, 0.5), (1.0, 0.4), (0.5, 0.4))  # gamma and s


def _controlled(v: float, T: int, d: int, sample: dict[str, np.ndarray]) -> np.ndarray:
    """Return the outliers with most of their scatter taken out: its mean stays.

    The pattern of columns is A_perp X_0 W W_K W_Q' W' X_0' e: of what comes before A_perp the
    squared length f is a product of four independent chi-squared variables, of d, d, d and T - 1
    degrees, and the outlier goes like sqrt(exp(v f) - 1). What a draw has more of that than the
    mean over the law is divided out. (The law by 10^5 draws, to 0.1 %.)
    """
    rng = np.random.default_rng(0)
    law = math.prod(rng.chisquare(n, 100_000) / n for n in (d, d, d)) * (
        rng.chisquare(T - 1, 100_000) / T
    )
    expected = np.sqrt(np.expm1(v * law)).mean()
    return sample["plain outlier"] * expected / np.sqrt(np.expm1(v * sample["length"]))


@measures("second-layer-outlier")
def _() -> list[Check]:
    """Extrapolated in T, with the length of the shared query as a control variate.

    It does not fall with T, while the noise does: its share of the formula at T = 200 is above that
    of 1/sqrt(2) of its value at T = 100, by sign.
    """
    checks: list[Check] = []
    for gamma, s in CASES:
        v = (s / gamma) ** 2 * math.expm1(s * s)
        samples = {
            T: _controlled(v, T, round(T / gamma), second(T, round(T / gamma), s, n))
            for T, n in PAIR.items()
        }
        label = f"gamma = {gamma}, s = {s}"
        checks.append(
            extrapolated(
                f"outlier, {label}",
                samples,
                lambda T, at=(gamma, s): predictions.second_layer_outlier(*at),
                step=0.15,
            )
        )
        checks.append(
            falls(f"it falls less than noise, {label}", samples[200], 0.85 * samples[100])
        )
    return checks


def _second_curve(c: float, gamma: float, s: float) -> tuple[np.ndarray, np.ndarray]:
    """Return w and x(w) of layer 2's bulk, the mean removed in both layers."""
    k2 = math.expm1(s * s)
    a, v = s * s / k2, (s * k2 / gamma) ** 2
    y = np.linspace(1e-4, 0.98, 20_000) / (c * a)
    z = (1 - a) * y + a * y / (1 - c * a * y)
    tokens = y / (z * (1 + z)) / (1 + gamma * z)
    w = np.sqrt(z * tokens**2 / ((1 + c * z) * v))
    keep = np.arange(len(w)) <= np.argmax(w)
    w, z = w[keep], z[keep]
    return w, (1 + z + softmax_noise(math.sqrt(v)) * w**2) / w


@measures("second-layer-centring")
def _() -> list[Check]:
    """Plain stacks: centring the columns too leaves noise, which falls like T^(-1/2) (empirical).

    With the mean removed in layer 1 there is no shared vector: the variance of the logits, a
    multiple of 1/T off, extrapolated, and the edge with its Tracy-Widom term (half of it as bias,
    and another 1/sqrt(T) half: fourth order in tokens whose lengths scatter).
    """
    checks: list[Check] = []
    for gamma, s in CASES:
        samples = {T: second(T, round(T / gamma), s, n) for T, n in PAIR.items()}
        label = f"gamma = {gamma}, s = {s}"
        centred = {T: x["plain centred"] for T, x in samples.items()}
        outlier = {T: x["plain outlier"] for T, x in samples.items()}
        checks += [
            falls(f"centred, a third is left, {label}", outlier[200] / 3, centred[200]),
            falls(f"what is left falls, {label}", 0.85 * centred[100], centred[200]),
            extrapolated(
                f"logits, mean removed, {label}",
                {T: x["removed logits"] for T, x in samples.items()},
                lambda T, at=(gamma, s): predictions.second_layer_logit_variance(*at, True),
            ),
        ]
        sizes = np.array(list(samples), dtype=float)
        mean, error = np.array(
            [mean_and_error(math.sqrt(T) * x["removed outlier"]) for T, x in samples.items()]
        ).T
        w, x = _second_curve(gamma, gamma, s)
        shift = np.array([edge_term(w, x, int(T)) for T in sizes]) / x.min()
        checks.append(
            Curve(
                f"edge, mean removed, {label}",
                sizes,
                mean,
                error / mean,
                lambda T, at=(gamma, s): np.full(
                    len(T), predictions.second_layer_edge(at[0], at[0], at[1])
                ),
                correction=1 + shift,
                bias=np.abs(shift) / 2,
            )
        )
    return checks
