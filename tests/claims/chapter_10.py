"""What chapter 10, Blocks, claims, measured.

Mean squares are exact for exponential raw entries (Dirichlet rows): no bias. A mean of logarithms
is off by half of the relative variance of what is averaged: u + eta g |u| with a Gaussian vector g
of mean square 1 has a squared length with the relative variance 2 eta^2 (2 + eta^2)/(d
(1+eta^2)^2), 1.5/d at eta = 1: half of it a layer is a correction, and half of that the bias. Late
layers of causal stacks are ruled by their slowest mode. The numbers in signs lie between what the
claim says and what would contradict it.
"""

import functools
import itertools
import math

import numpy as np

from gapcourse import ensembles, gradients, networks, predictions, spectra

from .chapter_03 import EPS
from .chapter_04 import extrapolated
from .ledger import Check, Curve, Identity, Sign, falls, generator, mean_and_error, measures

ONE = np.ones(1)


def visible(T: int, mask: str = "dense", window: int = 4) -> np.ndarray:
    """Return which token (column) each row sees."""
    offset = np.subtract.outer(np.arange(T), np.arange(T))
    seen = np.ones((T, T), dtype=bool)
    if "causal" in mask:
        seen &= offset >= 0
    if "window" in mask:
        seen &= np.abs(offset) < window
    return seen


def draw(seen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return random attention with exponential raw entries under a mask."""
    D = rng.exponential(size=seen.shape) * seen
    return D / D.sum(axis=1, keepdims=True)


def mean_step(S: np.ndarray, seen: np.ndarray, omega: float = 1.0, skip: float = 0.0) -> np.ndarray:
    """Return the mean of XX' one layer on, formula (2)."""
    n = seen.sum(axis=1)
    M = seen / n[:, None]
    B = M @ S @ M.T
    return skip * S + omega * (B + np.diag((seen @ np.diag(S) - n * np.diag(B)) / (n * (n + 1))))


def share(X: np.ndarray) -> float:
    """Return epsilon, the share of the energy in which tokens differ."""
    X = np.asarray(X) / np.abs(np.asarray(X)).max()
    return float(((X - X.mean(axis=0)) ** 2).sum() / (X**2).sum())


def shares(seen: np.ndarray, depth: int) -> np.ndarray:
    """Return epsilon of layers 0 to depth, by the recursion."""
    S, found = np.eye(len(seen)), []
    for _ in range(depth + 1):
        found.append(1 - S.sum() / len(S) / np.trace(S))
        S = mean_step(S, seen)
    return np.array(found)


def stack(depth: int, T: int, seed: int, attention: str = "markov", **options) -> tuple:
    """Return a stack on tokens of length sqrt(d), d = T, and these tokens."""
    rng = generator("block", depth, T, seed)
    kind = {"entries": "exponential"} if attention == "markov" else {"logit_std": 1 / T}
    options = {"value_init": "scaled", **kind, **options}
    net = networks.AttentionStack(depth, T, T, attention=attention, rng=rng, **options)
    return net, math.sqrt(T) * ensembles.isometric_input(T, T, rng=rng)


def trace(*args, **options) -> list[np.ndarray]:
    """Return the tokens of all layers."""
    net, x = stack(*args, **options)
    return [X.numpy() for X in net.trace(x)]


# ------------------------------------------------------------------ masks


@measures("block-masks")
def _() -> list[Check]:
    """Exact in the mean: XX' one layer on, T = 6, three masks; energies after layers, T = 32.

    Causal: token 2 by A_22, exactly; the slowest mode 1/3 in the mean, by the recursion (the next,
    1/6, is 2^-23 T^2 below at most: 5e-4); typical factor e^-2: mean of logarithms, layers 30 to
    60, where the next mode is e^-30 below: no bias. Softmax: 1/4, by sign. Window: 1 - lambda, to
    w/T relative: where the walk turns back is known to half a step of size w at each end.
    """
    checks: list[Check] = []
    X = generator("masked").standard_normal((6, 8)) + 1
    for mask in ("dense", "causal", "causal window"):
        seen, rows = visible(6, mask, 3), []
        rng = generator("mask", len(mask))
        for _ in range(4000):
            Y = X + 0.5 * draw(seen, rng) @ X @ rng.standard_normal((8, 8))
            G = Y @ Y.T
            rows.append([*np.diag(G), G.sum(), G[0, -1] + 50])
        mean, error = mean_and_error(rows)
        G = mean_step(X @ X.T, seen, 2.0, 1.0)
        exact = np.array([*np.diag(G), G.sum(), G[0, -1] + 50])
        checks.append(
            Curve(
                f"mean of XX', {mask}",
                np.arange(1.0, 9.0),
                mean,
                error / mean,
                lambda T, exact=exact: exact,
                bias=np.zeros(8),
            )
        )
    T = 32
    for mask, depth in (("causal", 6), ("window", 24), ("causal window", 12)):
        seen, S, rows = visible(T, mask), np.eye(T), []
        for _ in range(depth):
            S = mean_step(S, seen)
        for seed in range(100):
            rng, M = generator("energies", depth, seed), np.eye(T)
            for _ in range(depth):
                M = draw(seen, rng) @ M
            rows.append([(M**2).sum(), ((M - M.mean(axis=0)) ** 2).sum()])
        mean, error = mean_and_error(rows)
        exact = np.array([np.trace(S), np.trace(S) - S.sum() / T])
        checks.append(
            Curve(
                f"energy and residual, {mask}, layer {depth}",
                np.array([1.0, 2.0]),
                mean,
                error / mean,
                lambda T, exact=exact: exact,
                bias=np.zeros(2),
                step=0.2,
            )
        )
    A = draw(visible(8, "causal"), generator("first token"))
    Y = generator("tokens").standard_normal((8, 5))
    checks.append(
        Identity(
            "token 2 from token 1, by A_22",
            lambda factor: float(
                np.abs((A @ Y)[1] - (A @ Y)[0] - factor * A[1, 1] * (Y[1] - Y[0])).max()
            ),
            100 * EPS,
        )
    )
    sizes = np.array([16.0, 32.0, 64.0])
    late = [shares(visible(int(size), "causal"), 24)[-2:] for size in sizes]
    checks.append(
        Curve(
            "causal, factor a layer in the mean",
            sizes,
            np.array([b / a for a, b in late]),
            np.zeros(3),
            lambda T: np.full(len(T), 1 / 3),
            bias=np.full(3, 5e-4),
            exponent=0.0,
            exponent_step=0.2,
        )
    )
    rng, rows, seen = generator("typical"), [], visible(6, "causal")
    for _ in range(600):
        B, logs = np.eye(5), []
        for _ in range(60):  # differences from token 1: the block without its row and column
            B = draw(seen, rng)[1:, 1:] @ B
            logs.append(math.log(np.linalg.norm(B)))
            B /= np.linalg.norm(B)
        rows.append(-2 * np.mean(logs[30:]))
    mean, error = mean_and_error(rows)
    checks.append(
        Curve(
            "causal, logarithm of the factor, typical",
            ONE,
            mean * ONE,
            error / mean * ONE,
            lambda _: 2 * ONE,
            bias=0 * ONE,
            step=0.2,
        )
    )
    runs = {
        mask: np.array(
            [
                [math.log10(max(share(Z), 1e-60)) for Z in trace(14, 24, seed, "softmax", **kind)]
                for seed in range(40 if kind else 8)
            ]
        )
        for mask, kind in (("dense", {}), ("causal", {"mask": "causal"}))
    }
    fall = (runs["causal"][:, 14] - runs["causal"][:, 6]) / 8
    mean, error = mean_and_error(fall * math.log(10))
    checks += [
        Sign("causal softmax: 1/4 a layer, to 40 %", 0.4 - abs(mean - math.log(0.25)), error),
        Sign("dense softmax: below 10^-14 at layer 6", *mean_and_error(-14 - runs["dense"][:, 6])),
        Sign("causal: above 10^-6 there", *mean_and_error(runs["causal"][:, 6] + 6)),
    ]
    sizes, w = np.array([100.0, 200.0, 400.0]), 4
    slow = []
    for size in sizes:
        seen = visible(int(size), "window", w)
        slow.append(np.sort(np.abs(spectra.eigenvalues(seen / seen.sum(axis=1)[:, None])))[-2])
    checks.append(
        Curve(
            "window, 1 - lambda",
            sizes,
            1 - np.array(slow),
            np.zeros(3),
            lambda T: math.pi**2 * w * (w - 1) / (6 * T**2),
            bias=w / sizes,
            exponent=-2.0,
            exponent_step=0.2,
            step=0.15,
        )
    )
    steps = {}
    for mask, T in itertools.product(("dense", "causal", "window", "causal window"), (16, 64)):
        line = shares(visible(T, mask), 16 if mask in ("dense", "causal") else 800)
        steps[mask, T] = int(np.argmax(line < 0.01))
    rate = {m: math.log(steps[m, 64] / steps[m, 16], 4) for m, _ in steps}
    return [
        *checks,
        Sign("dense: two layers at every size", 0.1 - abs(rate["dense"])),
        Sign("causal: a little more with T", 0.4 - abs(rate["causal"] - 0.3)),
        Sign("window: layers like T^2", 0.3 - abs(rate["window"] - 2)),
        Sign("causal window: like T", 0.3 - abs(rate["causal window"] - 1)),
    ]


@measures("block-causal-spectrum")
def _() -> list[Check]:
    """Exact: the diagonal, corners of products, the mean count of eigenvalues above x.

    "T" is 1/x for the counts and the rank k for singular values. Noise alone, A - M, against (7).
    The solver: the imaginary part 1e-4 x and 160 points leave 0.1 % of what a tenth of both, with
    1280 points, gives (0.003 x made 2 %). Rows that sum to 0 and fourth moments, which (7) leaves
    out, make a multiple of 1/T each: 150 draws lie 1.3, 1.3 and 1.9 % below it at T = 200, and half
    of that at T = 400; independent Gaussian entries 0.5 %. So 4/T is allowed. What the running mean
    adds, and the power of k, by sign. Width: sr - 1 does not fall like 1/T, to a sixth, by sign.
    """
    T = 200
    seen = visible(T, "causal")
    A = draw(visible(30, "causal"), generator("triangle"))
    corner = functools.reduce(
        np.matmul, (draw(visible(12, "causal"), generator("corner", k)) for k in range(4))
    )
    first = functools.reduce(
        np.matmul, (draw(visible(12, "causal"), generator("corner", k))[:5, :5] for k in range(4))
    )
    checks: list[Check] = [
        Identity(
            "eigenvalues are the diagonal",
            lambda factor: abs(
                math.expm1(
                    np.linalg.slogdet(3 * np.eye(30) - A)[1] - np.log(3 - factor * np.diag(A)).sum()
                )
            ),
            3000 * EPS,
        ),
        Identity(
            "corners of products",
            lambda factor: float(np.abs(corner[:5, :5] - factor * first).max()),
            100 * EPS,
        ),
    ]
    levels = np.array([0.5, 0.1, 0.02])
    diagonals, values, noise = [], [], []
    for seed in range(100):
        B = draw(seen, generator("causal spectrum", seed))
        diagonals.append([(np.diag(B) > x).sum() for x in levels])
        if seed < 12:
            values.append(spectra.singular_values(B))
            noise.append(spectra.singular_values(B - seen / seen.sum(axis=1)[:, None]))
    mean, error = mean_and_error(diagonals)
    term = 1 - (1 - levels) ** T
    checks.append(
        Curve(
            "eigenvalues above x",
            1 / levels,
            mean,
            error / mean,
            lambda T: T,
            correction=term,
            bias=np.zeros(3),
            exponent=1.0,
            exponent_step=0.2,
        )
    )
    grid = np.geomspace(0.02, 50, 160) / math.sqrt(T)
    ranks = np.array([34, 55, 89])
    line = np.exp(np.interp(0.5 - ranks, -noise_counts(T, grid), np.log(grid)))
    mean, error = (x[ranks - 1] for x in mean_and_error(noise))
    checks.append(
        Curve(
            "singular values of the noise, by rank",
            ranks.astype(float),
            mean,
            error / mean,
            lambda _: line,
            bias=np.full(3, 4 / T + 0.001),
            step=0.15,
        )
    )
    whole = np.array(values)
    middle = np.array([3, 5, 8, 13, 21, 34, 50])
    slopes = [np.polyfit(np.log(middle), np.log(x[middle - 1]), 1)[0] for x in whole]
    ratio = whole[:, ranks - 1].mean(axis=1) / line.mean()
    checks += [
        Sign("power of k about -1/2", 0.3 - abs(np.mean(slopes) + 0.5), mean_and_error(slopes)[1]),
        Sign("with the mean, within 15 % of noise", *mean_and_error(0.15 - np.abs(ratio - 1))),
    ]
    rows = {}
    for size, n in {40: 80, 240: 32}.items():
        found = []
        for seed in range(n):
            rng = generator("masked width", size, seed)
            Y, row = np.eye(size), []
            for _ in range(2):
                Y = draw(visible(size, "causal"), rng) @ Y @ rng.standard_normal((size, size))
                Y /= np.linalg.norm(Y)
                row.append(spectra.collapse_residual(Y))
            B = draw(visible(size), rng) @ rng.standard_normal((size, size))
            found.append([*row, spectra.collapse_residual(B)])
        rows[size] = np.array(found)
    small, large = rows.values()
    return [
        *checks,
        falls("layer 1: sr - 1 does not fall by a third", 1.5 * large[:, 0], small[:, 0]),
        falls("layer 2: sr - 1 does not fall by half", 2 * large[:, 1], small[:, 1]),
        falls("dense: it falls by 2.5", small[:, 2], 2.5 * large[:, 2]),
    ]


def noise_counts(T: int, x: np.ndarray, rounds: int = 150) -> np.ndarray:
    """Return how many singular values of causal noise exceed each x, by the equation (7)."""
    i = np.arange(1, T + 1)
    V, density = (i - 1) / (i + 1) / i**2, []
    g = h = np.full(T, -1j)
    for z in (x * (1 + 1e-4j))[::-1]:
        for _ in range(rounds):
            h = (h + 1 / (z - np.cumsum((V * g)[::-1])[::-1])) / 2
            g = (g + 1 / (z - V * np.cumsum(h))) / 2
        density.append(-2 / np.pi * g.imag.sum())
    mass = np.array(density)[::-1] * x
    steps = (mass[1:] + mass[:-1]) / 2 * np.diff(np.log(x))
    return np.r_[np.cumsum(steps[::-1])[::-1], 0.0]


# ------------------------------------------------------------------ the budget


def budget(T: float, depth: int, weight: float, pre: bool = False) -> tuple[float, float, float]:
    """Return the sum of ln((1+omega)/(1+omega r)), ln((T-1)U/Q) by the recursion, and a third.

    That is what the mean of the logarithm is above the second, d = T: the deviation of ln U has a
    mean and a variance, to second order. With a pre-norm a large U has a small branch: they fade.
    """
    v, U, Q, total, mean, variance = 1 / (T + 1), 1.0, T - 1.0, 0.0, 0.0, 0.0
    r = (1 - 1 / T) * v
    for _ in range(int(depth)):
        omega = weight * T / (U + Q) if pre else weight
        total += math.log((1 + omega) / (1 + omega * r))
        near, far = (U / (U + K) for K in (Q, Q + T)) if pre else (0.0, 0.0)
        bend, keep = far * (1 - far) - near * (1 - near), 1 + far - near
        noise = 2 * omega * (2 + omega) / (1 + omega) ** 2 / T
        mean = keep * mean + (bend * variance - noise) / 2
        variance = keep**2 * variance + noise
        U, Q = (1 + omega) * U + omega * v / T * Q, (1 + omega * r) * Q
    return total, math.log((T - 1) * U / Q), mean


@functools.cache
def spent(T: int, depth: int, eta: float, place: str, seeds: int) -> np.ndarray:
    """Return ln((T-1)U/Q) of stacks with a skip, a branch of weight eta and a norm, d = T."""
    found = []
    for seed in range(seeds):
        rng = generator("budget", T, depth, seed)
        X = math.sqrt(T) * ensembles.isometric_input(T, T, rng=rng)
        for _ in range(depth):
            A = draw(np.ones((T, T)), rng)
            W = eta * rng.standard_normal((T, T)) / math.sqrt(T)
            unit = math.sqrt(T) * X / np.linalg.norm(X, axis=1, keepdims=True)
            X = X + A @ (unit if place == "pre" else X) @ W
            if place == "post":
                X = math.sqrt(T) * X / np.linalg.norm(X, axis=1, keepdims=True)
        e = share(X)
        found.append(math.log((T - 1) * (1 - e) / e))
    return np.array(found)


def _budget(
    label: str, T: int, depths: tuple[int, ...], beta: float, place: str, **options
) -> Curve:
    """Compare with the recursion: the rest of (8) and what logarithms lose as correction."""
    layers = np.array(depths, dtype=float)
    sums = np.array([budget(T, L, L ** (-2 * beta), place == "pre") for L in depths]).T
    rows = [mean_and_error(spent(T, L, L**-beta, place, 100)) for L in depths]
    mean, error = np.array(rows).T
    return Curve(
        label,
        layers,
        mean,
        error / mean,
        lambda _, line=sums[0]: line,
        correction=(sums[1] + sums[2]) / sums[0],
        bias=np.abs(sums[2]) / 2 / sums[1],
        step=0.2,
        **options,
    )


@measures("block-norm-skip")
def _() -> list[Check]:
    """Compare the budget of plain, post-norm and pre-norm skips; the rest by sign."""
    T, depths = 64, (4, 8, 16, 32)
    checks: list[Check] = [
        _budget("skip alone", T, depths, 0.0, "none", exponent=1.0, exponent_step=0.2),
        _budget("post-norm", T, depths, 0.0, "post", exponent=1.0, exponent_step=0.2),
        _budget("pre-norm", T, depths, 0.0, "pre"),
    ]
    decades = {}
    for kind in ("markov", "softmax"):
        for name, options in (
            ("nothing", {}),
            ("pre", {"norm": "layer"}),
            ("post", {"norm": "layer", "norm_position": "post"}),
            ("skip", {"skip": True}),
        ):
            runs = [share(trace(4, 48, seed, kind, **options)[-1]) for seed in range(12)]
            decades[kind, name] = np.log10(np.maximum(runs, 1e-40))
    for place in ("pre", "post"):
        a, b = decades["markov", "nothing"], decades["markov", place]
        mean, error = mean_and_error(a - b)
        checks += [
            Sign(f"fixed, norm alone, {place}: same to half a decade", 0.5 - abs(mean), error),
            Sign(
                f"softmax, norm alone, {place}: below 10^-9",
                *mean_and_error(-9 - decades["softmax", place]),
            ),
        ]
    mean, error = mean_and_error(decades["markov", "skip"] - decades["softmax", "skip"])
    return [
        *checks,
        Sign("skip: the two attentions agree to 0.15 of a decade", 0.15 - abs(mean), error),
        Sign("skip: half a decade after 4 layers", *mean_and_error(1 + decades["softmax", "skip"])),
    ]


@measures("block-depth-scaling")
def _() -> list[Check]:
    """Branches of weight L^-beta: what they spend, by L, beta = 0, 1/4, 1/2; and what they add."""
    checks: list[Check] = [
        _budget(
            f"beta = {beta}",
            64,
            (4, 8, 16, 32),
            beta,
            "none",
            exponent=1 - 2 * beta,
            exponent_step=0.2,
        )
        for beta in (0.0, 0.25, 0.5)
    ]
    for kind in ("markov", "softmax"):
        added, common = [], []
        for seed in range(16):
            tokens = trace(24, 48, seed, kind, skip="1/sqrt(depth)")
            change = tokens[-1] - tokens[0]
            added.append((change**2).sum() / 48**2)
            common.append(1 - share(change))
        checks += [
            Sign(f"{kind}: little is added", *mean_and_error(0.2 - np.array(added))),
            Sign(f"{kind}: a quarter and more shared", *mean_and_error(np.array(common) - 0.25)),
        ]
    return checks


@measures("block-value-scale")
def _() -> list[Check]:
    """Exact in any draw for fixed attention. Softmax, layer 2, s = 0.5: (9), extrapolated in T.

    What (9) leaves out: the pattern of columns of layer 2, a relative exp(s^2 sigma_1^2) - 1 = 0.07
    (chapter 06) for unscaled values: half of it as correction; 1200 and 700 draws leave -2 +- 2 %
    (He values: 0 +- 2 %). Rates: bias as in the level's extrapolation, a multiple of 1/T that is
    fitted, half of it. A mean of the residual over that of the shared part, so a draw counts by
    residual - ratio * shared. Scales don't alter the weights: one draw for all.
    """
    checks: list[Check] = []
    x = ensembles.isometric_input(24, 24, rng=generator("scale"))
    norm = {"norm": "rms", "norm_position": "post", "norm_eps": 0.0}
    for name, options in (("bare", {}), ("post-norm", norm)):
        pair = [
            share(
                networks.AttentionStack(3, 24, 24, value_init=value, rng=5, **options)
                .trace(x)[-1]
                .numpy()
            )
            for value in (1.0, 24**-0.5)
        ]
        checks.append(
            Identity(
                f"unscaled and scaled, {name}",
                lambda factor, a=pair[0], b=pair[1]: abs(a / b - factor),
                1e-7,
            )
        )
    s = 0.5
    sigma = math.expm1(s * s)
    pattern = math.expm1(s * s * sigma)
    sizes = {32: 200, 64: 1200, 128: 700}
    found = {T: np.array([second_share(T, s, seed) for seed in range(n)]) for T, n in sizes.items()}
    for i, (name, power) in enumerate((("gaussian", -1), ("he", -3), ("xavier", -3))):
        rows, samples = [], {}
        for T, x in found.items():
            rest, shared = x[:, i].T
            ratio = rest.mean() / shared.mean()
            samples[T] = (ratio + (rest - ratio * shared) / shared.mean()) / T**power
            rows.append(mean_and_error(samples[T]))

        def formula(T: int, name: str = name, power: int = power) -> float:
            omega = {"gaussian": float(T), "he": 2.0, "xavier": 1.0}[name]
            v = (s * sigma * omega / T) ** 2
            kappa = predictions.token_spread(1.0, 1.0, s)
            odds = sigma / T * (kappa * v + math.expm1(v) - v)
            return odds * (1 + pattern / 2 * (name == "gaussian")) / T**power

        pair = {T: samples[T] for T in (64, 128)}
        checks.append(extrapolated(f"residual over shared, {name}", pair, formula, step=0.2))
        if power == -1:
            continue
        mean, error = np.array(rows).T
        T = np.array(list(sizes), dtype=float)
        slope, limit = np.polyfit(1 / T, mean, 1)
        checks.append(
            Curve(
                f"rate, {name}",
                T,
                mean * T**power,
                error / mean,
                lambda T, power=power: T ** float(power),
                correction=1 + slope / limit / T / 2,
                bias=np.abs(slope / limit) / T / 2,
                exponent=float(power),
                exponent_step=0.2,
                level=False,
            )
        )
    lost = {
        value: np.log10(
            [share(trace(4, 48, seed, skip=True, value_init=value)[-1]) for seed in range(20)]
        )
        for value in ("gaussian", "he", "xavier")
    }
    return [
        *checks,
        Sign(
            "skip: unscaled values lose 3 decades in 4 layers",
            *mean_and_error(-3 - lost["gaussian"]),
        ),
        falls("He values more than Xavier values", lost["xavier"], lost["he"] + 0.05),
        Sign("and these less than half a decade", *mean_and_error(lost["xavier"] + 0.5)),
    ]


def second_share(T: int, s: float, seed: int) -> list[tuple[float, float]]:
    """Return residual and shared part after two layers, values at omega = T, 2 and 1, over omega^2.

    Bare softmax stack, d = T: omega multiplies the logits of layer 2, and the tokens.
    """
    rng = generator("second share", T, seed)
    X = ensembles.isometric_input(T, T, rng=rng)
    for omega in (1.0, np.array([T, 2.0, 1.0])[:, None, None]):
        WQ, WK, W = rng.standard_normal((3, T, T))
        logits = omega * s / math.sqrt(T) * (X @ WQ) @ (X @ WK).T
        A = np.exp(logits - logits.max(axis=-1, keepdims=True))
        A /= A.sum(axis=-1, keepdims=True)
        X = A @ (X @ W / math.sqrt(T))
    means = X.mean(axis=1, keepdims=True)
    rest = ((X - means) ** 2).sum(axis=(1, 2))
    return list(zip(rest, T * (means**2).sum(axis=(1, 2)), strict=True))


# ------------------------------------------------------------------ equilibria


def ladder(g: np.ndarray, factor: float = 1.0) -> np.ndarray:
    """Return the equilibrium (11)."""
    X = np.zeros((len(g), len(g)))
    for i in range(len(g)):
        c = X[:i, :i].sum(axis=0)
        X[i, :i] = factor * g[:i] * c / (g[i] - g[:i])
        X[i, i] = math.sqrt(1 - (X[i, :i] ** 2).sum())
    return X


def unit(X: np.ndarray) -> np.ndarray:
    """Return tokens of length one."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def climb(X: np.ndarray, W: np.ndarray, norm: bool = True) -> np.ndarray:
    """Return one layer of uniform causal attention, values and a norm."""
    Y = np.cumsum(X, axis=0) / np.arange(1, len(X) + 1)[:, None] @ W
    return unit(Y) if norm else Y / np.abs(Y).max()


def repel(angles: np.ndarray, b: float) -> np.ndarray:
    """Return one layer of tokens on the circle that repel each other."""
    X = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    A = np.exp(-b * X @ X.swapaxes(-1, -2))
    Y = -(A / A.sum(axis=-1, keepdims=True)) @ X
    return np.arctan2(Y[..., 1], Y[..., 0])


@measures("block-equilibrium")
def _() -> list[Check]:
    """Exact: the ladder stays, and a small push of the triangle is multiplied by (12).

    A push of 1e-6 is linear to 1e-6 relative, mu to 1e-4. Convergence, ranks and collapse by sign.
    """
    T = 5
    rng = generator("ladder")
    g = np.cumprod([1.0, *(i + 0.5 for i in range(2, T + 1))])
    W, goal = np.diag(g), ladder(g)

    def smallest(X: np.ndarray) -> float:
        s = spectra.singular_values(X)
        return float(s[-1] / s[0])

    def stays(factor: float) -> float:
        X = ladder(g, factor)
        return float(np.abs(climb(X, W) - X).max())

    checks: list[Check] = [Identity("the ladder stays", stays, 1e-12)]
    ends, bare, haar = [], [], []
    for _ in range(12):
        X = np.tril(rng.standard_normal((T, T)))
        X = Y = Z = unit(X * np.sign(np.diag(X))[:, None])
        for layer in range(60):
            X = climb(X, W)
            if layer < 10:
                Y = climb(Y, W, norm=False)
            if layer < 16:
                Z = climb(Z, ensembles.isometric_input(T, T, rng=rng))
        ends.append(float(np.abs(X - goal).max()))
        bare.append(smallest(Y))
        haar.append(smallest(Z))
    checks += [
        Sign("every triangular start comes to the ladder", 1e-6 - max(ends)),
        Sign("full rank", smallest(goal) - 0.3),
        Sign("without the norm: rank one", 1e-6 - max(bare)),
        Sign("orthogonal values: they fall", 1e-2 - float(np.median(haar))),
    ]
    for k in range(1, T + 1):
        X = np.tril(0.1 + rng.random((T, T)))
        X[:, k:] = 0
        X = unit(X)
        for _ in range(400):
            X = climb(X, W)
        rest = float(np.abs(climb(X, W) - X).max())
        rank = int((spectra.singular_values(X) > 1e-6).sum())
        checks.append(Sign(f"rank {k}, at rest", 0.5 * (rank == k) - 1e9 * rest))
    corners = 2 * math.pi / 3 * np.arange(3)
    push = 1e-6 * np.array([1.0, -1.0, 0.0])
    for b in (0.2, 0.4, 0.5, 0.6, 1.0):
        change = np.angle(np.exp(1j * (repel(corners + push, b) - corners)))[0] / 1e-6
        mu = 1 - (1.5 - 2.25 * b) / (-math.expm1(-1.5 * b))
        checks.append(
            Identity(
                f"the triangle, b = {b}",
                lambda factor, a=change, mu=mu: abs(a - factor * mu),
                1e-4,
            )
        )
        angles = corners + 0.05 * rng.standard_normal(3)
        for _ in range(400):
            angles = repel(angles, b)
        end = smallest(np.c_[np.cos(angles), np.sin(angles)])
        returns = end - 0.99 if b in (0.4, 0.5, 0.6) else 0.01 - end
        checks.append(Sign(f"b = {b}: returns, or ends on a line", returns))
    angles = 2 * math.pi * rng.random((1500, 3))
    for _ in range(200):
        angles = repel(angles, 0.4)
    s = spectra.singular_values(np.stack([np.cos(angles), np.sin(angles)], axis=-1))
    found = s[:, -1] / s[:, 0]
    reach = found > 0.99
    return [
        *checks,
        Sign("some random starts reach the triangle", *mean_and_error(1.0 * reach)),
        Sign("fewer than one in four", *mean_and_error(0.25 - reach)),
        Sign("all others end on a line", 0.01 - float(np.max(found[~reach]))),
    ]


# ------------------------------------------------------------------ module by module


@measures("block-table")
def _() -> list[Check]:
    """Signs of the table, small: width T = 24 and 96, depth 8 at T = 24, gradients at T = 16.

    The one formula: unscaled values make the gradient of the first layer grow by d^(7/2)
    (p_8/p_1)^(1/2) from one layer to 8, in the mean square; mean logarithms of a product of 8
    chi-squared variables over d are off by 8/(2d) in ln: the bias, relative to the growth.
    """
    skip, layer = {"skip": True}, {"norm": "layer"}
    designs = {
        "bare": {},
        "unscaled values": {"value_init": "gaussian"},
        "post-norm": {**layer, "norm_position": "post"},
        "causal mask": {"mask": "causal"},
        "skip": skip,
        "skip 1/sqrt(L)": {"skip": "1/sqrt(depth)"},
        "skip, pre-norm": {**skip, **layer},
        "mean removed": {"mean_removal": True},
        "removed, skip": {**skip, "mean_removal": True},
    }

    def log_rank(X: np.ndarray) -> float:
        return math.log10(max(spectra.collapse_residual(X), 1e-60))

    width, depth = {}, {}
    for name, options in designs.items():
        ends = [
            np.array([log_rank(trace(1, T, seed, **options)[1]) for seed in range(40)])
            for T in (24, 96)
        ]
        width[name] = ends[0] - ends[1]
        runs = [trace(8, 24, seed, **options) for seed in range(24)]
        depth[name] = np.array([log_rank(X[1]) - log_rank(X[8]) for X in runs])
    checks: list[Check] = []
    for name in ("bare", "unscaled values", "post-norm"):
        checks += [
            Sign(f"width is lost: {name}", *mean_and_error(width[name] - 0.1)),
            Sign(f"depth is lost: {name}", *mean_and_error(depth[name] - 9)),
        ]
    for name in ("causal mask", "mean removed", "removed, skip"):
        checks.append(Sign(f"width is kept: {name}", *mean_and_error(0.3 - width[name])))
    for name in ("skip 1/sqrt(L)", "removed, skip"):
        checks.append(Sign(f"depth is kept: {name}", *mean_and_error(1.2 - depth[name])))
    checks += [
        falls("a causal mask helps depth", depth["bare"], depth["causal mask"] + 3),
        falls("a skip helps depth", depth["bare"], depth["skip"] + 5),
        Sign(
            "pre-norm helps a skip, draw by draw",
            *mean_and_error(depth["skip"] - depth["skip, pre-norm"]),
        ),
    ]
    T, growth = 24, []
    for seed in range(24):
        logs = []
        for L in (1, 8):
            net, x = stack(L, T, seed, value_init="gaussian")
            logs.append(float(gradients.value_gradient_norm(net, x, 1, log=True)))
        growth.append(logs[1] - logs[0])
    v = 1 / (T + 1)
    r = (1 - 1 / T) * v
    p = {L: 1 + r * (1 - r**L) / (1 - r) + (T - 1) * r**L for L in (1, 8)}
    p[1] = 1 + (T - 1) * v
    exact = (7 * math.log(T) + math.log(p[8] / p[1])) / 2
    mean, error = mean_and_error(growth)
    checks.append(
        Curve(
            "unscaled values: growth of the gradient, ln",
            ONE,
            mean * ONE,
            error / mean * ONE,
            lambda _: exact * ONE,
            bias=8 / (2 * T) / exact * ONE,
        )
    )
    normed = {"mean_removal": True, **layer}
    designs |= {"removed, norm": normed, "removed, norm, skip": {**normed, **skip}}
    softmax = {}
    for name in ("removed, norm", "removed, norm, skip"):
        runs = [trace(8, 24, seed, "softmax", **designs[name]) for seed in range(24)]
        softmax[name] = np.array([log_rank(X[1]) - log_rank(X[8]) for X in runs])
    checks += [
        # Single draws lose 2 to 60 decades: none counts for more than 12.
        Sign(
            "softmax, removed, norm: rank is lost",
            *mean_and_error(softmax["removed, norm"].clip(max=12) - 4),
        ),
        Sign("not with a skip", *mean_and_error(1.2 - softmax["removed, norm, skip"])),
    ]
    below = {}
    for name in ("bare", "skip", "skip 1/sqrt(L)", "removed, norm"):
        found = []
        for seed in range(4):
            net, x = stack(6, 16, seed, "softmax", **designs[name])
            options = {"rtol": 0.2, "log": True, "rng": generator("probe", seed)}
            values = float(gradients.value_gradient_norm(net, x, 6, **options))
            queries = float(gradients.query_key_gradient_norm(net, x, 6, **options))
            found.append((values - queries) / math.log(10))
        below[name] = np.array(found)
    return [
        *checks,
        falls("a skip keeps queries and keys", below["bare"], below["skip"] + 3),
        falls("so does a norm, mean removed", below["bare"], below["removed, norm"] + 3),
        Sign("with 1/sqrt(L) within a decade", *mean_and_error(1.2 - below["skip 1/sqrt(L)"])),
    ]
