"""What chapter 08, Mean removal, claims, measured.

Without its outlier the stable rank is a moment over the largest singular value s_1 to the fourth.
That value stands off its edge by the Tracy-Widom mean, as in chapter 04: for a law whose
S-transform gives w^2 = z (1+z) S(z) (squares at mean 1) and x = (1+z)/w, the shift is
-1.2065 (2T sqrt(2/x''))^(-2/3), its scatter 1.2680/1.2065 of that. s_1^-4 carries four times the
shift: at T = 200 it makes 9 to 22 % in layers 1 to 3. It is applied as a correction and half of it
is the bias; where that is too much, the chapter's line, of (sr/T)^(-1/2) in T^(-2/3), is laid
through several T: its bias is what the line makes of the Tracy-Widom term itself, which is derived.

The numbers in signs lie between what the claim says and what would contradict it.
"""

import functools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from gapcourse import attention, ensembles, laws, predictions, spectra

from .chapter_02 import TRACY_WIDOM
from .chapter_03 import EPS, EXPONENTIAL
from .chapter_04 import edge_term, extrapolated
from .chapter_05 import parts, recursion
from .chapter_06 import CASES, PAIR, _second_curve, gauss, second
from .ledger import Check, Curve, Identity, Sign, draws, falls, generator, mean_and_error, measures

ONE = np.ones(1)


def rank(X: np.ndarray) -> float:
    """Return the stable rank of X X'."""
    return 1 + spectra.collapse_residual(X)


def markov(T: int, rng: np.random.Generator) -> np.ndarray:
    return ensembles.random_markov(T, entries="exponential", rng=rng)


def kept_curve(layer: int, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return w and x(w) of mean-removed Markov attention: S(z) = 1/((1+z)^l (1+gamma z)^l)."""
    z = np.geomspace(1e-3, 30, 20_000) / layer
    w = np.sqrt(z / ((1 + z) ** (layer - 1) * (1 + gamma * z) ** layer))
    keep = np.arange(len(w)) <= np.argmax(w)
    return w[keep], ((1 + z) / w)[keep]


def softmax_curve(gamma: float, c: float, s: float) -> tuple[np.ndarray, np.ndarray]:
    """Return w and x(w) of one layer of mean-removed softmax attention, isometric tokens."""
    k2 = math.expm1(s * s)
    a = s * s / k2
    y = np.linspace(1e-4, 0.98, 40_000) / (c * a)
    z = (1 - a) * y + a * y / (1 - c * a * y)
    w = np.sqrt(y / (1 + gamma * z))
    keep = np.arange(len(w)) <= np.argmax(w)
    return w[keep], ((1 + z) / w)[keep]


def shrink(curve: tuple[np.ndarray, np.ndarray], sizes: np.ndarray) -> np.ndarray:
    """Return the mean of (edge/s_1)^4 at each T, to second order in the scatter."""
    shift = np.array([edge_term(*curve, int(T)) for T in sizes]) / curve[1].min()
    scatter = shift * TRACY_WIDOM[1] / TRACY_WIDOM[0]
    return (1 + shift) ** -4 * (1 + 10 * scatter**2)


def line(sizes: np.ndarray, shares: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """Return limit of sr/T and its standard error, by a line of (sr/T)^(-1/2) in T^(-2/3)."""
    y, weight = shares**-0.5, 2 * shares**1.5 / errors
    design = np.stack([np.ones_like(sizes), sizes ** (-2 / 3)], axis=1) * weight[:, None]
    covariance = np.linalg.inv(design.T @ design)
    edge = (covariance @ design.T @ (y * weight))[0]
    return edge**-2, 2 * math.sqrt(covariance[0, 0]) / edge**3


def limit_check(
    label: str,
    sizes: np.ndarray,
    rows: list[np.ndarray],
    curve: tuple[np.ndarray, np.ndarray],
    predict: Callable[[], float],
) -> Curve:
    """Compare the limit by the line with a formula; T stands for the largest size."""
    shares, errors = np.array([mean_and_error(x) for x in rows]).T
    value, error = line(sizes, shares, errors)
    bias = abs(line(sizes, shrink(curve, sizes), errors / shares)[0] - 1)
    return Curve(
        f"limit, {label}",
        sizes[-1:],
        value * ONE,
        error / value * ONE,
        lambda _: predict() * ONE,
        bias=bias * ONE,
        step=0.2,
    )


# ------------------------------------------------------------------ what is removed


@measures("removal-exact")
def _() -> list[Check]:
    """Exact. det(z - A + f 1q') (z - 1) = (z - 1 + f) det(z - A), at z = 3; rounding: 1000 T eps.

    Beside it what is not removed: sizes by sign. The mean that grows back, |e'A_perp|^2, has for
    Dirichlet rows the mean (T-1)/(T (T+1)), exactly: no bias.
    """
    T = 40
    rng = generator("exact")
    A, B = markov(T, rng), markov(T, rng)
    P = np.full((T, T), 1 / T)
    tilted = rng.exponential(size=T)
    z = 3.0

    def determinant(factor: float, row: np.ndarray) -> float:
        plain, less = (np.linalg.slogdet(z * np.eye(T) - M)[1] for M in (A, A - factor * row))
        return abs(math.exp(less - plain) * (z - 1) / z - 1)

    pi = np.linalg.matrix_power(A, 60)[0]
    rows = {"1/T": P[0], "columns": A.mean(axis=0), "any": tilted / tilted.sum(), "pi": pi}
    checks: list[Check] = [
        Identity(
            f"eigenvalues, q = {name}",
            functools.partial(determinant, row=row),
            1000 * T * EPS,
            step=0.2,
        )
        for name, row in rows.items()
    ]
    centre = np.eye(T) - P
    b = attention.remove_mean(A).mean(axis=0)
    checks += [
        Identity(
            "outputs centred: rows and columns",
            lambda factor: float(np.abs(centre @ A @ centre - A + factor * A.mean(axis=0)).max()),
            4 * T * EPS,
        ),
        Identity(
            "removed in each layer, and once",
            lambda factor: float(
                np.abs(
                    attention.remove_mean(B) @ attention.remove_mean(A) - (B @ A - P) + factor * b
                ).max()
            ),
            4 * T * EPS,
        ),
    ]
    sizes = np.array([50.0, 100.0, 200.0])
    seeds = (160, 120, 60)
    regrown, once, each = [], [], []
    for size, n in zip((50, 100, 200), seeds, strict=True):
        found = []
        for seed in range(n):
            rng = generator("regrown", size, seed)
            M = markov(size, rng)
            found.append((attention.remove_mean(M).mean(axis=0) ** 2).sum() * size)
            if size == 200 and seed < 20:
                N, X = markov(size, rng), rng.standard_normal((size, size))
                once.append(rank((N @ M - 1 / size) @ X))
                each.append(rank(attention.remove_mean(N) @ (attention.remove_mean(M) @ X)))
        regrown.append(mean_and_error(found))
    mean, error = np.array(regrown).T
    checks += [
        Curve(
            "the mean grows back: |e'A_perp|^2 is sigma^2/T",
            sizes,
            mean,
            error / mean,
            lambda T: 1 / T,
            correction=(1 - 1 / sizes) / (1 + 1 / sizes),
            bias=np.zeros(3),
            exponent=-1.0,
            exponent_step=0.2,
        ),
        Sign("removed once: sr below 1.1 after two layers", *mean_and_error(1.1 - np.array(once))),
        Sign("removed in each: above 6", *mean_and_error(np.array(each) - 6)),
    ]
    for kind in ("relu", "sigmoid"):
        found = []
        for seed in range(12):
            rng = generator("rows", seed)
            M = attention.attention_matrix(*rng.standard_normal((2, 200, 200)), kind=kind)
            own, G = attention.remove_mean(M, stochastic=False), rng.standard_normal((200, 200))
            found.append((rank((M - 1 / 200) @ G), rank(own @ G)))
        less, values = np.array(found).T
        checks += [
            Sign(f"{kind}: less 1/T, below 1.15", *mean_and_error(1.15 - less)),
            Sign(f"{kind}: values less their mean, above 6", *mean_and_error(values - 6)),
        ]
    return checks


# ------------------------------------------------------------------ what the tokens keep

KEPT = {50: 160, 100: 120, 200: 60, 400: 10}


@functools.cache
def kept(ratio: int) -> dict[int, np.ndarray]:
    """Return sr/T of layers 1 to 3 with the mean removed, d = ratio T, a row a seed."""
    found = {}
    for T, n in KEPT.items():
        d, rows = ratio * T, []
        for seed in range(n):
            rng = generator("kept", T, d, seed)
            X, row = ensembles.isometric_input(T, d, rng=rng), []
            for _ in range(3):
                X = attention.remove_mean(markov(T, rng)) @ X @ rng.standard_normal((d, d))
                row.append(rank(X) / T)
            rows.append(row)
        found[T] = np.array(rows)
    return found


@measures("removal-stable-rank")
def _() -> list[Check]:
    """Compare limits by the line, gamma = 1 and 1/2, layers 1 to 3, to 20 %; layer 1 to 15 %.

    Level and rate in T with the Tracy-Widom term as correction, half of it as bias. (The line is of
    sr over T: another power of T would move the limit by half.)
    """
    sizes = np.array(list(KEPT), dtype=float)
    checks: list[Check] = []
    for ratio in (1, 2):
        found = kept(ratio)
        for layer in (1, 2, 3):
            rows = [x[:, layer - 1] for x in found.values()]
            curve = kept_curve(layer, 1 / ratio)
            term = shrink(curve, sizes)
            mean, error = np.array([mean_and_error(x) for x in rows]).T

            def predict(layer: int = layer, gamma: float = 1 / ratio) -> float:
                return predictions.mean_removed_stable_rank(layer, gamma)

            label = f"gamma = 1/{ratio}, layer {layer}"
            checks.append(limit_check(label, sizes, rows, curve, predict))
            if layer == 1:
                checks.append(
                    Curve(
                        f"sr, {label}",
                        sizes[1:],
                        (mean * sizes)[1:],
                        (error / mean)[1:],
                        lambda T, predict=predict: T * predict(),
                        correction=term[1:],
                        bias=(term[1:] - 1) / 2,
                        exponent=1.0,
                        exponent_step=0.2,
                        step=0.15,
                    )
                )
    rng = generator("plain")
    plain = [rank(markov(200, rng) @ rng.standard_normal((200, 200))) for _ in range(10)]
    return [*checks, Sign("plain: below 1.05", *mean_and_error(1.05 - np.array(plain)))]


@measures("removal-depth")
def _() -> list[Check]:
    """Compare the limit with 1/((1+gamma) e^2 l); "T" is the depth.

    At gamma = 1 the limit times 2 e^2 l is e^2 (2l/(2l+1))^(4l+1), whose logarithm is
    -1/(24 l^2) + ...: the bias. At other gamma the factor is 1 - gamma (1-gamma)/((1+gamma)^2 l),
    from z = 1/((1+gamma) l) and one more order of the logarithm: at 1/2 1 - 1/(9l), a correction,
    and 1/(9 l^2) for what follows. What is measured: limits by the line, layers 1 to 3.
    """
    depths = np.array([1.0, 3.0, 10.0, 30.0])
    written = (2 * depths + 1) * np.exp(
        2 * (2 * depths * np.log(2 * depths) - (2 * depths + 1) * np.log1p(2 * depths))
    )
    sizes, late = np.array(list(KEPT), dtype=float), np.array([10.0, 30.0, 100.0])
    checks: list[Check] = [
        Curve(
            "limit times (1 + gamma) e^2 l, gamma = 1/2",
            late,
            1 / (1.5 * math.e**2 * late),
            np.zeros(3),
            lambda T: predictions.mean_removed_stable_rank(T, 0.5),
            correction=1 + 1 / (9 * late),
            bias=1 / (9 * late**2),
            exponent=-1.0,
            exponent_step=0.2,
        ),
        Curve(
            "the formula is the closed one at gamma = 1",
            depths,
            written,
            np.zeros(4),
            lambda T: predictions.mean_removed_stable_rank(T, 1.0),
            bias=np.full(4, 1e-9),
        ),
        Curve(
            "limit times 2 e^2 l",
            depths,
            written,
            np.zeros(4),
            lambda T: 1 / (2 * math.e**2 * T),
            bias=1 / (24 * depths**2),
            exponent=-1.0,
            exponent_step=0.2,
        ),
    ]
    found = kept(1)
    values = []
    for layer in (1, 2, 3):
        shares = np.array([mean_and_error(x[:, layer - 1]) for x in found.values()]).T
        own = line(sizes, shrink(kept_curve(layer, 1.0), sizes), shares[1] / shares[0])[0]
        values.append((*line(sizes, *shares), abs(own - 1)))
    value, error, bias = np.array(values).T
    layers = np.array([1.0, 2.0, 3.0])
    checks.append(
        Curve(
            "extrapolated, layers 1 to 3: like 1/l",
            layers,
            value,
            error / value,
            lambda T: predictions.mean_removed_stable_rank(T, 1.0),
            bias=bias,
            exponent=-1.0,
            exponent_step=0.2,
            step=0.2,
        )
    )
    for T, deep in deep_ranks().items():
        label = f"layer 12 keeps less than layer 3, T = {T}"
        checks.append(falls(label, 0.85 * deep[:, 0], deep[:, 1]))
    few, many = (x[:, 1] for x in deep_ranks().values())
    return [*checks, falls("more tokens keep more at layer 12", many, few)]


@functools.cache
def deep_ranks() -> dict[int, np.ndarray]:
    """Return sr of layers 3 and 12, the mean removed, d = T."""
    found = {}
    for T, n in {80: 48, 240: 16}.items():
        rows = []
        for seed in range(n):
            rng = generator("deep", T, seed)
            X, row = np.eye(T), []
            for layer in range(1, 13):
                X = attention.remove_mean(markov(T, rng)) @ X @ rng.standard_normal((T, T))
                X /= np.linalg.norm(X)
                if layer in (3, 12):
                    row.append(rank(X))
            rows.append(row)
        found[T] = np.array(rows)
    return found


@measures("removal-gradients")
def _() -> list[Check]:
    """Last layer, d |A_L X_(L-1)|^2: exact in the mean for Dirichlet rows; T = 24, d = 48, then T.

    Leading orders in T: exact values as correction, half of it as bias; of the ratio of plain to
    removed no bias, since nothing is left out.
    """

    def squares(T: int, d: int, depth: int, removed: bool, seeds: int) -> np.ndarray:
        rows = []
        for seed in range(seeds):
            rng = generator("last gradient", T, d, seed)
            X, row = ensembles.isometric_input(T, d, rng=rng), []
            for _ in range(depth):
                A = markov(T, rng)
                X = (attention.remove_mean(A) if removed else A) @ X
                row.append(d * (X**2).sum())
                X = X @ rng.standard_normal((d, d))
            rows.append(row)
        return np.array(rows)

    checks: list[Check] = []
    depths = np.arange(1.0, 5.0)
    for removed in (False, True):
        mean, error = mean_and_error(squares(24, 48, 4, removed, 400))
        checks.append(
            Curve(
                f"last layer by depth, mean removed {removed}",
                depths,
                mean,
                error / mean,
                lambda L, removed=removed: predictions.gradient_norm(24, 48, L, 1.0, removed) ** 2,
                bias=np.zeros(4),
                step=0.15,
            )
        )
    sizes = np.array([20.0, 40.0, 80.0])
    seeds = (240, 160, 80)
    pairs = {
        removed: np.array(
            [
                mean_and_error(squares(int(T), 2 * int(T), 2, removed, n)[:, 1])
                for T, n in zip(sizes, seeds, strict=True)
            ]
        ).T
        for removed in (False, True)
    }
    v = 1 / (sizes + 1)
    r = (1 - 1 / sizes) * v
    exact = {False: 1 + r * (1 + r) + (sizes - 1) * r**2, True: sizes * r**2}
    for removed, power in ((False, 2.0), (True, 1.0)):
        mean, error = pairs[removed]
        term = exact[removed] * (sizes if removed else 1)
        checks.append(
            Curve(
                f"two layers, d = 2T, leading order, mean removed {removed}",
                sizes,
                mean,
                error / mean,
                lambda T, removed=removed: (
                    predictions.gradient_norm(T, 2 * T, 2, 1.0, removed, leading=True) ** 2
                ),
                correction=term,
                bias=np.abs(term - 1) / 2,
                exponent=power,
                exponent_step=0.2,
            )
        )
    ratio = pairs[False][0] / pairs[True][0]
    term = exact[False] / exact[True] / sizes
    checks.append(
        Curve(
            "plain over removed, two layers: T^(L-1)",
            sizes,
            ratio,
            np.hypot(*(pairs[k][1] / pairs[k][0] for k in (False, True))),
            lambda T: T,
            correction=term,
            bias=np.zeros(3),
            exponent=1.0,
            exponent_step=0.2,
            step=0.15,
        )
    )
    return checks


class Largest(TorchDispatchMode):
    """Keeps the size of the largest tensor that any operation returns."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        whole = out if isinstance(out, (tuple, list)) else [out]
        sizes = [x.numel() for x in whole if isinstance(x, torch.Tensor)]
        self.size = max([self.size, *sizes])
        return out


@measures("removal-fused")
def _() -> list[Check]:
    """Exact: fused attention on centred values against the dense matrix; rounding: 4 T eps.

    The largest tensor an operation returns: T^2 entries dense, those of the values fused.
    """
    T, width = 512, 32
    q, k, v = torch.from_numpy(generator("fused").standard_normal((3, 1, 1, T, width)))

    def dense() -> torch.Tensor:
        return (torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width), -1) - 1 / T) @ v

    def fused(factor: float = 1.0) -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v - factor * v.mean(-2, keepdim=True))

    used = {}
    for run in (dense, fused):
        with Largest() as seen:
            run()
        used[run.__name__] = seen.size
    return [
        Identity(
            "fused is dense",
            lambda factor: float((fused(factor) - dense()).abs().max()),
            4 * T * EPS,
        ),
        Identity(
            "mean_removed_attention is dense",
            lambda factor: float(
                (attention.mean_removed_attention(q, k, v) - factor * dense()).abs().max()
            ),
            4 * T * EPS,
        ),
        Sign("dense forms T^2 numbers", used["dense"] - T * T + 1),
        Sign("fused nothing larger than the values", T * width + 1 - used["fused"]),
    ]


@measures("removal-causal")
def _() -> list[Check]:
    """Exact: the leak, the erased token, the eigenvalues (diagonals of triangular matrices).

    The norm of the running mean stays below 2 (Hardy) and rises; ranks don't grow with T: by sign.
    """
    T = 40
    rng = generator("causal")

    def causal(T: int, rng: np.random.Generator) -> np.ndarray:
        D = np.tril(rng.exponential(size=(T, T)))
        return D / D.sum(axis=1, keepdims=True)

    A = causal(T, rng)
    mask = np.tri(T, dtype=bool)
    U = np.tri(T) / np.arange(1, T + 1)[:, None]
    M = attention.remove_mean(A, mask)
    z = 3.0

    def eigenvalues(factor: float) -> float:
        expected = np.log(np.abs(z - np.diag(A) + factor / np.arange(1, T + 1))).sum()
        return abs(math.expm1(np.linalg.slogdet(z * np.eye(T) - M)[1] - expected))

    norms = []
    for size in (100, 1000, 10_000, 100_000):
        i = np.arange(1, size + 1)
        x = 1 / np.sqrt(i)
        for _ in range(60):
            y = np.cumsum(x / np.linalg.norm(x)) / i
            x = np.cumsum((y / i)[::-1])[::-1]
        norms.append(float(np.linalg.norm(y)))
    ranks = {}
    for size, n in {50: 120, 300: 60}.items():
        rows = []
        for seed in range(n):
            rng = generator("causal ranks", size, seed)
            B, X = causal(size, rng), rng.standard_normal((size, size))
            rows.append(
                [rank(N @ X) for N in (B, attention.remove_mean(B, np.tri(size, dtype=bool)))]
            )
        ranks[size] = np.array(rows)
    (plain, less), (wide, wide_less) = ranks[50].T, ranks[300].T
    checks: list[Check] = [
        Identity(
            "less 11'/T the first token sees the last",
            lambda factor: abs((A - 1 / T)[0, -1] * T + factor),
            EPS * T,
        ),
        Identity(
            "less the running mean",
            lambda factor: float(np.abs(A - factor * U - attention.remove_mean(A, mask)).max()),
            T * EPS,
        ),
        Identity("eigenvalues less 1/i", eigenvalues, 1000 * T * EPS),
        Sign("nothing of the future", 1e-15 - float(np.abs(np.triu(M, 1)).max())),
        Sign("the first token is erased", 1e-15 - float(np.abs(M[0]).max())),
        Sign("no split: (A - U)U' is not 0", float(np.linalg.norm(M @ U.T)) - 0.1),
        Sign("the norm of U is below 2", 2 - max(norms)),
        Sign("and rises", min(np.diff(norms))),
        Sign("above 1.8 at T = 100,000", norms[-1] - 1.8),
        Sign("plain: no collapse to 1, T = 50", *mean_and_error(plain - 1.1)),
        Sign("plain: no collapse to 1, T = 300", *mean_and_error(wide - 1.2)),
        falls("running mean: higher than plain, T = 50", less, plain),
        falls("running mean: higher than plain, T = 300", wide_less, wide),
        falls("by less than a factor of two", 2 * plain, less),
        falls("less the running mean sr grows by less than 1.7", 1.7 * less, wide_less),
        falls("plain by less than 1.4", 1.4 * plain, wide),
    ]
    return checks


# ------------------------------------------------------------------ real attention

HEADS = {64: 160, 128: 120, 256: 60}


@functools.cache
def softmax_kept(c: int) -> dict[int, np.ndarray]:
    """Return sr/T after one layer of mean-removed softmax attention, s = 0.5, d = T, d_k = T/c."""
    found = {}
    for T, n in HEADS.items():
        rows = []
        for seed in range(n):
            rng = generator("head kept", T, c, seed)
            Q, K = math.sqrt(0.5) * rng.standard_normal((2, T, T // c))
            A = attention.remove_mean(attention.attention_matrix(Q, K))
            rows.append(rank(A @ rng.standard_normal((T, T))) / T)
        found[T] = np.array(rows)
    return found


@measures("removal-attention")
def _() -> list[Check]:
    """Limits by the line for c = 1, 4 and 16, to 20 %; small heads keep less, by sign.

    s = 0.5, gamma = 1. Level at c = 1: the Tracy-Widom term as correction, half of it as bias.
    What a small head adds, O(1/d_k) = O(c/T), is in the errors of the line.
    """
    sizes = np.array(list(HEADS), dtype=float)
    checks: list[Check] = []
    for c in (1, 4, 16):
        rows = list(softmax_kept(c).values())
        curve = softmax_curve(1.0, float(c), 0.5)
        term = shrink(curve, sizes)
        mean, error = np.array([mean_and_error(x) for x in rows]).T

        def predict(c: int = c) -> float:
            return predictions.attention_mean_removed_stable_rank(1.0, c, 0.5)

        checks.append(limit_check(f"c = {c}", sizes, rows, curve, predict))
        least = 2.5 if c < 16 else 2.0  # heads of size 4 and 16: the limit is far
        checks.append(
            falls(f"sr grows by {least} from T = 64 to 256, c = {c}", 4 * rows[2], least * rows[0])
        )
        if c == 1:
            checks.append(
                Curve(
                    "sr, c = 1",
                    sizes[1:],
                    (mean * sizes)[1:],
                    (error / mean)[1:],
                    lambda T, predict=predict: T * predict(),
                    correction=term[1:],
                    bias=(term[1:] - 1) / 2,
                    step=0.15,
                )
            )
    wide, small = softmax_kept(1)[256], softmax_kept(16)[256]
    return [*checks, falls("a small head keeps less than half", wide / 2, small)]


# ------------------------------------------------------------------ deeper layers


@measures("removal-second-layer")
def _() -> list[Check]:
    """Look at the stacks of `second-layer-centring`, chapter 06, with means removed in both layers.

    Logits, a multiple of 1/T off, extrapolated in T; sigma_A^2 = e^v - 1 of them; the edge with its
    Tracy-Widom term, as there, and against that of fresh tokens with the same logits, by sign. What
    that term leaves: 3 to 4 % at T = 100, 1.5 to 2 % at T = 200, 0.4 of it.
    """
    checks: list[Check] = []
    for gamma, s in CASES:
        samples = {T: second(T, round(T / gamma), s, n) for T, n in PAIR.items()}
        label = f"gamma = {gamma}, s = {s}"
        v = (s * math.expm1(s * s) / gamma) ** 2
        fresh = laws.AttentionBulk.softmax(math.sqrt(v), gamma).edge
        top = math.sqrt(200) * samples[200]["removed outlier"]
        sizes = np.array(list(samples), dtype=float)
        mean, error = np.array(
            [mean_and_error(math.sqrt(T) * x["removed outlier"]) for T, x in samples.items()]
        ).T
        w, x = _second_curve(gamma, gamma, s)
        shift = np.array([edge_term(w, x, int(T)) for T in sizes]) / x.min()
        checks += [
            extrapolated(
                f"logits of layer 2, {label}",
                {T: x["removed logits"] for T, x in samples.items()},
                lambda T, at=(gamma, s): predictions.second_layer_logit_variance(*at, True),
            ),
            Curve(
                f"edge of layer 2, {label}",
                sizes,
                mean,
                error / mean,
                lambda T, at=(gamma, s): np.full(
                    len(T), predictions.second_layer_edge(at[0], at[0], at[1])
                ),
                correction=1 + shift,
                bias=np.abs(shift) / 2,
            ),
            Sign(f"1.5 times that of fresh tokens, {label}", *mean_and_error(top - 1.5 * fresh)),
        ]
    return checks


@functools.cache
def softmax_stack(T: int, s: float, depth: int, seeds: int) -> np.ndarray:
    """Return energy, kappa (before) and the logits' variance of each layer, means removed.

    Of shape (seeds, depth, 3); d = d_k = T.
    """
    rows = []
    for seed in range(seeds):
        rng = generator("softmax stack", T, round(100 * s), seed)
        X, row = ensembles.isometric_input(T, T, rng=rng), []
        for _ in range(depth):
            gram = X @ X.T
            energy, spread = np.trace(gram) / T, T * (gram**2).sum() / np.trace(gram) ** 2
            Q, K = math.sqrt(s) * (X @ rng.standard_normal((2, T, T)))
            A = attention.attention_matrix(Q, K)
            row.append((energy, max(spread, 1.0), (Q @ K.T / math.sqrt(T)).var(axis=1).mean()))
            X = attention.remove_mean(A) @ X @ rng.standard_normal((T, T))
        rows.append(row)
    return np.array(rows)


STACK = {64: 160, 128: 80}


@measures("removal-variance-recursion")
def _() -> list[Check]:
    """One layer ahead, from the energy and kappa of the draw, in ratios: layers 1 and 2.

    A ratio is off by a multiple of 1/T: extrapolated, half of the last step as bias. kappa of layer
    1 likewise, by `token_spread`. Layer 3 in geometric means, by sign. Dying out and blowing up by
    sign, on logarithms of layers 1 to 4.
    """
    checks: list[Check] = []
    for s in (0.5, 0.6):
        found = {T: softmax_stack(T, s, 4, n) for T, n in STACK.items()}
        for layer in (1, 2):
            samples = {}
            for T, x in found.items():
                rho, kappa = x[:, layer - 1, 0], x[:, layer - 1, 1]
                v = (s * rho) ** 2
                ahead = (kappa * v + np.expm1(v) - v) * rho
                samples[T] = x[:, layer, 0] / ahead
            rho, kappa = found[128][:, layer - 1, :2].mean(axis=0)
            v = (s * rho) ** 2
            own = (kappa * v + math.expm1(v) - v) * rho

            def predict(T: int, at: tuple = (rho, kappa, 1.0, s), own: float = own) -> float:
                return predictions.energy_step(*at) / own

            checks.append(
                extrapolated(f"energy after layer {layer}, s = {s}", samples, predict, step=0.2)
            )
        checks.append(
            extrapolated(
                f"kappa after layer 1, s = {s}",
                {T: x[:, 1, 1] for T, x in found.items()},
                lambda T, s=s: predictions.token_spread(1.0, 1.0, s),
                step=0.15,
            )
        )
        rho, kappa = found[128][:, 2, 0], found[128][:, 2, 1]
        ahead = [predictions.energy_step(*at, 1.0, s) for at in zip(rho, kappa, strict=True)]
        mean, error = mean_and_error(np.log(found[128][:, 3, 0] / ahead))
        checks.append(Sign(f"energy after layer 3, s = {s}: to 40 %", 0.4 - abs(mean), error))
    low, high = (np.log(softmax_stack(128, s, 4, 20)[..., 2]) for s in (0.5, 0.8))
    return [
        *checks,
        Sign("s = 0.5: logits die out", *mean_and_error(-10 - low[:, 3])),
        falls("and faster by layer", low[:, 1] - low[:, 2], low[:, 0] - low[:, 1]),
        Sign("s = 0.8: they blow up by layer 4", *mean_and_error(high[:, 3] - 2)),
        falls("layer by layer", high[:, 3] - high[:, 2], high[:, 1] - high[:, 0]),
    ]


@functools.cache
def normalised(removed: bool, T: int, depth: int, seeds: int) -> np.ndarray:
    """Return sigma_A^2, sr and mean cosine and |cosine| by layer, tokens of length 1, s = 1."""
    rows = []
    for seed in range(seeds):
        rng = generator("normalised", T, seed)
        X, row = ensembles.isometric_input(T, T, rng=rng), []
        for _ in range(depth):
            Q, K = X @ rng.standard_normal((2, T, T))
            A = attention.attention_matrix(Q, K)
            B = attention.remove_mean(A)
            X = (B if removed else A) @ X @ rng.standard_normal((T, T))
            size = rank(X)
            X = X / np.linalg.norm(X, axis=1, keepdims=True)
            cosine = X @ X.T
            row.append(((B**2).sum(), size, cosine.mean(), np.abs(cosine).mean()))
        rows.append(row)
    return np.array(rows)


@measures("removal-normalised")
def _() -> list[Check]:
    """Exact on two poles: sigma_A^2 = tanh^2(beta), and its mean over beta by quadrature.

    Given the query beta is normal, its variance a chi-squared variable over d, of mean 1 and
    variance 2/d: two points with these moments as correction, 1/d^2 as bias. The rest by sign: T =
    100, s = 1, 80 stacks, plain ones 8.
    """
    T, d = 20, 24
    w = math.sqrt(2 / d)
    rng = generator("poles")
    u = rng.standard_normal(d)
    u /= np.linalg.norm(u)
    signs = np.where(np.arange(T) % 2, 1.0, -1.0)
    X = np.outer(signs, u)

    def poles(factor: float, WQ: np.ndarray, WK: np.ndarray) -> float:
        A = attention.remove_mean(attention.attention_matrix(X @ WQ, X @ WK))
        beta = factor * (u @ WQ) @ (u @ WK) / math.sqrt(d)
        return abs((A**2).sum() - math.tanh(beta) ** 2)

    weights = rng.standard_normal((2, d, d))
    found = []
    for _ in range(2000):
        WQ, WK = rng.standard_normal((2, d, d))
        found.append(math.tanh((u @ WQ) @ (u @ WK) / math.sqrt(d)) ** 2)
    mean, error = mean_and_error(found)
    both = [gauss(lambda z, v=v: np.tanh(math.sqrt(1 + v) * z) ** 2) for v in (-w, w)]
    checks: list[Check] = [
        Identity("two poles", functools.partial(poles, WQ=weights[0], WK=weights[1]), 100 * EPS),
        Curve(
            "mean over beta",
            ONE,
            mean * ONE,
            error / mean * ONE,
            lambda _: gauss(lambda z: np.tanh(z) ** 2) * ONE,
            correction=np.mean(both) / gauss(lambda z: np.tanh(z) ** 2),
            bias=ONE / d**2,
            step=0.2,
        ),
    ]
    removed, plain = normalised(True, 100, 8, 80), normalised(False, 100, 8, 8)
    checks += [
        Sign("removed: attention is random at layer 8", *mean_and_error(removed[:, 7, 0] - 0.1)),
        Sign("plain: uniform from layer 4 on", *mean_and_error(0.02 - plain[:, 3:, 0].max(axis=1))),
        falls("removed: sr falls, layers 1 to 3", removed[:, 0, 1], 2 * removed[:, 2, 1]),
        Sign("to nearly 1 at layer 8", *mean_and_error(1.4 - removed[:, 7, 1])),
        Sign("mean cosine near 0", *mean_and_error(0.2 - removed[:, 7, 2])),
        Sign("mean |cosine| near 1", *mean_and_error(removed[:, 7, 3] - 0.8)),
    ]
    return checks


# ------------------------------------------------------------------ more than one outlier


def grouped(T: int, K: int, w: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return random Markov attention on K groups, raw entries within a group w times larger; Pi."""
    group = np.arange(T) % K
    same = group[:, None] == group
    D = rng.exponential(size=(T, T)) * np.where(same, w, 1.0)
    return D / D.sum(axis=1, keepdims=True), same * K / T


@measures("removal-several")
def _() -> list[Check]:
    """Four groups, w = 4: eigenvalues and the plain stable rank, extrapolated in T.

    Terms of relative 1/T are extrapolated away, half of the last step the bias. After n removals
    4 - n outliers, which the values make unequal by sqrt(K/d) each, and a bulk that is not small:
    by sign, as are softmax attention on grouped tokens (geometric means) and a head of size 8.
    """
    K, w = 4, 4.0
    beta = (w - 1) / (w + K - 1)
    eigenvalues: dict[int, list[float]] = {}
    ranks: dict[int, list[list[float]]] = {}
    for T, n in {120: 60, 240: 24}.items():
        for seed in range(n):
            rng = generator("groups", T, seed)
            A, Pi = grouped(T, K, w, rng)
            G = rng.standard_normal((T, T))
            values = np.sort(np.abs(spectra.eigenvalues(A)))[::-1]
            eigenvalues.setdefault(T, []).append(float(values[1:K].mean()))
            U, s, Vt = np.linalg.svd(A)
            row = [rank(U[:, k:] * s[k:] @ (Vt[k:] @ G)) for k in range(5)]
            ranks.setdefault(T, []).append(
                [*row, rank((A - 1 / T) @ G), rank((A - A @ Pi) @ G), math.sqrt(T) * values[K]]
            )
    checks: list[Check] = [
        extrapolated(
            "K - 1 eigenvalues",
            {T: np.array(x) for T, x in eigenvalues.items()},
            lambda T: beta,
        ),
    ]
    small, large = (np.array(ranks[T]) for T in (120, 240))
    noise = 3 * (19 / 4 / (7 / 4) ** 2) ** 2  # (2 + gamma) sigma^4
    checks.append(
        extrapolated("plain", {120: small[:, 0], 240: large[:, 0]}, lambda T: 1 + (K - 1) * beta**4)
    )
    for k in (1, 2, 3):
        mean, error = mean_and_error(large[:, k])
        most = K - k + noise / beta**4 / 240
        checks += [
            Sign(f"{k} removed: not above {K - k} and the bulk", 1.05 * most - mean, error),
            Sign(f"{k} removed: above 0.7 times {K - k}", mean - 0.7 * (K - k), error),
        ]
    on_groups = {}
    for T, n in {80: 24, 240: 24}.items():
        rows = []
        for seed in range(n):
            rng = generator("softmax on groups", T, seed)
            group = np.arange(T) % K
            centres, own = rng.standard_normal((K, T)), rng.standard_normal((T, T))
            X = (centres[group] + own) / math.sqrt(2 * T)
            A = attention.attention_matrix(*(math.sqrt(0.7) * (X @ rng.standard_normal((2, T, T)))))
            G, Pi = X @ rng.standard_normal((T, T)), (group[:, None] == group) * K / T
            values = A - A @ Pi
            rows.append([math.log(rank(M @ G)) for M in (A - 1 / T, values, values - Pi @ values)])
        on_groups[T] = np.array(rows)
    few, many = on_groups.values()
    checks += [
        Sign(
            "softmax on groups: the mean alone stays below 2.5",
            *mean_and_error(math.log(2.5) - many[:, 0]),
        ),
        Sign(
            "group means of the values stay below 3.5",
            *mean_and_error(math.log(3.5) - many[:, 1]),
        ),
        falls("of values and outputs: sr grows by 1.3", many[:, 2], few[:, 2] + math.log(1.3)),
        falls("and is twice what the mean gives", many[:, 2], many[:, 0] + math.log(2)),
        falls("three removed: worse than one", large[:, 1], large[:, 3]),
        falls("mean removed: no better than one outlier", 1.3 * large[:, 1], large[:, 5]),
        falls("four removed: sr grows", large[:, 4], 1.5 * small[:, 4]),
        falls("group means removed: sr grows", large[:, 6], 1.5 * small[:, 6]),
        Sign("and is above 10", *mean_and_error(large[:, 6] - 10)),
    ]
    found = []
    for seed in range(16):
        rng = generator("small head", seed)
        Q, K_ = 0.5 * rng.standard_normal((2, 240, 8))
        U, s, Vt = np.linalg.svd(attention.attention_matrix(Q, K_))
        G = rng.standard_normal((240, 240))
        found.append([rank(U[:, k:] * s[k:] @ (Vt[k:] @ G)) for k in (1, 8, 9)])
    one, most, every = np.array(found).T
    return [
        *checks,
        falls("a small head: all but one removed is worse than the mean removed", one, most),
        falls("all nine removed: the rank is back", every, 2.5 * most),
    ]


@measures("removal-relatives")
def _() -> list[Check]:
    """Centred: exact. Differential: numerator, outlier and bulk of A_1 - lambda A_2, by T.

    sum_{k>=2} s_k^4/d^2 by the recursion of chapter 05 with the variances added (drift, T - 1 and
    d - 1), half of what it adds to the leading order as bias; s_1^2/d to (1-lambda)^2, to which the
    bulk adds (1+lambda^2)(1/T + 1/d), half of it the bias. Edge: Tracy-Widom, half of it as bias.
    """
    checks: list[Check] = []
    sizes = np.array([100.0, 200.0])
    (M,) = draws(40, 1, "gamma")
    checks.append(
        Identity(
            "centred rows are A_perp",
            lambda factor: float(
                np.abs(M - factor * M.mean(axis=1, keepdims=True) - attention.remove_mean(M)).max()
            ),
            40 * EPS,
        )
    )
    for lam in (0.2, 0.4, 0.6, 1.0):
        found: dict[int, list[tuple[float, ...]]] = {100: [], 200: []}
        eigen = 0.0
        for T, n in {100: 120, 200: 60}.items():
            for seed in range(n):
                rng = generator("differential", T, seed)
                D = markov(T, rng) - lam * markov(T, rng)
                eigen = max(eigen, float(np.abs(D.sum(axis=1) - (1 - lam)).max()))
                edge = spectra.singular_values(D)[1 if lam < 1 else 0]
                X = D @ rng.standard_normal((T, T)) / math.sqrt(T)
                found[T].append((*parts(X)[:2], math.sqrt(T) * edge, rank(X) / T))
        rest, top, edge, share = (
            np.array([mean_and_error(np.array(x)[:, i]) for x in found.values()]).T
            for i in range(4)
        )
        sigma = 1 + lam**2
        checks.append(Sign(f"the eigenvalue is 1 - {lam}", 1e-13 - eigen))
        shift = np.array([TRACY_WIDOM[0] / 2 ** (5 / 3) * T ** (-2 / 3) for T in sizes])
        drift = EXPONENTIAL.drift / (2 * sizes)
        checks.append(
            Curve(
                f"sqrt(T) s_2, lambda = {lam}",
                sizes,
                edge[0],
                edge[1] / edge[0],
                lambda T, sigma=sigma: 2 * math.sqrt(sigma) * np.ones_like(T),
                correction=1 + shift + drift,
                bias=np.abs(shift) / 2 + np.abs(drift) / 2,
            )
        )
        if lam == 1.0:
            term = shrink(kept_curve(1, 1.0), sizes)
            checks.append(
                Curve(
                    "lambda = 1: sr/T is that of mean removal",
                    sizes,
                    share[0],
                    share[1] / share[0],
                    lambda T: predictions.mean_removed_stable_rank(1, 1.0) * np.ones_like(T),
                    correction=term,
                    bias=(term - 1) / 2,
                    step=0.15,
                )
            )
            continue
        v = sigma / sizes**2 * (1 + 2 * drift) * sizes / (sizes - 1)
        exact = [recursion(T - 1, T - 1, 1, u) / T**2 for T, u in zip(sizes, v, strict=True)]
        term = np.array(exact) * sizes / (3 * sigma**2)
        outlier = 1 + 2 * sigma / sizes / (1 - lam) ** 2
        checks += [
            Curve(
                f"sum of s_k^4, lambda = {lam}",
                sizes,
                rest[0],
                rest[1] / rest[0],
                lambda T, sigma=sigma: (
                    sigma**2 * predictions.width_collapse(T, T, 1, 1.0, leading=True)
                ),
                correction=term,
                bias=np.abs(term - 1) / 2,
                exponent=None,
            ),
            Curve(
                f"s_1^2/d, lambda = {lam}",
                sizes,
                top[0],
                top[1] / top[0],
                lambda T, lam=lam: (1 - lam) ** 2 * np.ones_like(T),
                correction=outlier,
                bias=(outlier - 1) / 2,
                step=0.2,
            ),
        ]
    return checks


def quantise(X: np.ndarray, bits: int) -> np.ndarray:
    """Return X rounded to 2^b levels, evenly spaced from -max to max."""
    top = np.abs(X).max()
    step = 2 * top / (2**bits - 1)
    return np.round((X + top) / step) * step - top


@measures("removal-quantisation")
def _() -> list[Check]:
    """Error of the differences by (8), with the largest entry of the draw and the share of eps_l.

    Root mean squares over draws, 1 - 1/T of the error being differences. A rounding error is
    uniform to a relative exp(-2 pi^2 (rms/step)^2) (Widrow): none at 8 bits while the differences
    themselves are larger than a step; at 4 bits below 1 %, the bias. One entry of T^2, the largest,
    has no error: another 1/T^2.
    """
    bits_by = {
        (False, 1): (8,),
        (False, 2): (8,),
        (False, 3): (4, 3),
        (True, 1): (8, 4),
        (True, 2): (8, 4),
        (True, 3): (8,),
    }
    sizes = np.array([50.0, 100.0, 200.0])
    rows: dict[tuple, list] = {}
    for T, n in {50: 300, 100: 160, 200: 50}.items():
        for removed in (False, True):
            found: dict[tuple, list] = {}
            for seed in range(n):
                rng = generator("bits", T, seed)
                X = np.eye(T)
                for layer in (1, 2, 3):
                    A = markov(T, rng)
                    A = attention.remove_mean(A) if removed else A
                    X = A @ X @ rng.standard_normal((T, T)) / math.sqrt(T)
                    own = ((X - X.mean(axis=0)) ** 2).sum()
                    for b in bits_by.get((removed, layer), ()):
                        error = quantise(X, b) - X
                        lost = ((error - error.mean(axis=0)) ** 2).sum() / own
                        m = np.abs(X).max() / math.sqrt((X**2).mean())
                        uniform = (2 * m / (2**b - 1)) ** 2 / 12 * (X**2).sum() / own
                        found.setdefault((removed, layer, b), []).append(
                            (
                                lost / uniform,
                                math.log(max(lost, 1e-9)),
                                math.log(m),
                                lost / math.sqrt(uniform),
                            )
                        )
            for key, x in found.items():
                rows.setdefault(key, []).append(np.array(x))
    checks: list[Check] = []
    for b in (4, 3):
        # Steps far larger than the differences: a column has one boundary in it, or none, so that
        # draws scatter and few of them make the mean.
        samples = rows.pop((False, 3, b))[1]
        mean, error = mean_and_error(samples[:, 3] / math.sqrt(12 / math.pi))
        checks.append(Sign(f"large steps, {b} bits: the root, to 40 %", 0.4 - abs(mean - 1), error))
    for (removed, layer, b), samples in rows.items():
        mean, error = np.array([mean_and_error(x[:, 0]) for x in samples]).T
        checks.append(
            Curve(
                f"error over (8), mean removed {removed}, layer {layer}, {b} bits",
                sizes,
                np.sqrt(mean),
                error / mean / 2,
                lambda T: np.ones_like(T),
                correction=np.sqrt(1 - 1 / sizes),
                bias=1 / sizes**2 + (0.01 if b < 8 else 0),
            )
        )
    # With the share of the mean energies, eps_l = (T-1) r^l/p_l: geometric means over draws, the
    # largest entry taken out; the mean logarithm of a chi-squared variable over d is off by 1/d, of
    # l layers l/T. From layer 1 to 2 the error grows by about sqrt(T/2).
    r = (1 - 1 / sizes) / (sizes + 1)
    for layer in (1, 2):
        size = [x[:, 1] / 2 - x[:, 2] for x in rows[False, layer, 8]]
        mean, error = np.array([mean_and_error(x) for x in size]).T

        def formula(T: np.ndarray, layer: int = layer) -> np.ndarray:
            root = predictions.product_norm(T, layer, 1.0) / np.sqrt((T - 1) * r**layer)
            return 2 / math.sqrt(12) / 255 * root

        checks.append(
            Curve(
                f"plain, layer {layer}, 8 bits",
                sizes,
                np.exp(mean),
                error,
                formula,
                correction=np.sqrt(1 - 1 / sizes),
                bias=layer / sizes,
                exponent=(layer - 1) / 2,
                exponent_step=0.2,
            )
        )
    return checks
