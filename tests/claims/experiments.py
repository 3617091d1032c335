"""What the pages on the paper's experiments claim, measured: trends, and the formulas beside them.

A trend of a configuration is a sign, by 4 standard errors over seeds; the number of configurations
whose trend deviates from the published one is part of the claim. Formulas with log-normal entries
(sigma = 1, as published) have the finite-size terms of chapter 05, with a fourth cumulant of 38.
"""

import functools
import math
import warnings

import numpy as np

from gapcourse import attention, ensembles, gradients, networks, predictions, spectra

from .chapter_03 import lognormal
from .chapter_05 import finite, parts
from .ledger import Check, Curve, Sign, generator, mean_and_error, measures

ENTRY = lognormal(1.0)
BLOCKS = ("plain", "LN", "skip", "skip + LN", "upscaled skip", "upscaled skip + LN")


def configuration(name: str, depth: int, T: int, seed: int) -> tuple:
    """Return a published stack and its isometric tokens, the same ones each time."""
    rng = generator(name, depth, T, seed)
    stack = networks.AttentionStack(depth, T, T, rng=rng, **networks.CONFIGURATIONS[name])
    return stack, ensembles.isometric_input(T, T, rng=rng)


@functools.cache
def first_layer(name: str, T: int, seeds: int) -> np.ndarray:
    """Return sum_{k>=2} s_k^4/d^2, s_1^2/d and sr - 1 after one layer, a row a seed."""
    rows = []
    for seed in range(seeds):
        stack, x = configuration(name, 1, T, seed)
        X = stack.trace(x)[1].numpy()
        rest, top, residual = parts(X)
        rows.append((rest / T**2, top / T, residual))
    return np.array(rows)


def trend(label: str, low: np.ndarray, high: np.ndarray, up: bool) -> Sign:
    """Return the check that the second sample is above the first, or below it."""
    (a, da), (b, db) = mean_and_error(low), mean_and_error(high)
    return Sign(label, float(b - a if up else a - b), math.hypot(da, db))


@measures("paper-stable-rank-width")
def _() -> list[Check]:
    """Signs: log(sr - 1) at T = 20 against T = 100, layer 1, all 24 and identity.

    Formulas: the bare layer by its numerator, log-normal terms as correction, half of them as bias;
    with a skip of weight 1 a share of 3/8 of the numerator is that of the bare layer, and the rest
    is off by a few 1/d: 8/T in all; the upscaled skip, (T + 5)/phi^4, leaves out v = 1/d and how
    |g|^2 scatters, variance 2/d: 5/T.
    """
    checks: list[Check] = []
    for name in networks.CONFIGURATIONS:
        close = name in ("markov, LN", "markov, skip", "markov, skip + LN")
        low, high = (
            np.log(first_layer(name, T, n)[:, 2])
            for T, n in ((20, 240 if close else 40), (100, 60 if close else 15))
        )
        up = "removed" in name or name == "identity" or "upscaled" in name
        checks.append(trend(f"{name}: sr {'grows' if up else 'falls'} with T", low, high, up))
    seeds = {40: 240, 80: 160, 160: 60}
    sizes = np.array(list(seeds), dtype=float)
    samples = [first_layer("markov, plain", T, n) for T, n in seeds.items()]
    mean, error = np.array([mean_and_error(x[:, 0]) for x in samples]).T
    term = np.array([finite(ENTRY, T, T, 1) for T in sizes]) * sizes / 3
    checks.append(
        Curve(
            "markov, plain: sum of s_k^4",
            sizes,
            mean,
            error / mean,
            lambda T: predictions.width_collapse(T, T, 1, 1.0, leading=True),
            correction=term,
            bias=np.abs(term - 1) / 2,
            exponent=-1.0,
            exponent_step=0.2,
            step=0.15,
        )
    )
    sizes, term = sizes[1:], term[1:]
    pair = {80: 120, 160: 60}
    samples = [first_layer("markov, upscaled skip", T, n)[:, 2] + 1 for T, n in pair.items()]
    mean, error = np.array([mean_and_error(x) for x in samples]).T
    checks.append(
        Curve(
            "markov, upscaled skip: (T + 5)/6.854",
            sizes,
            mean,
            error / mean,
            lambda T: (T + 5) / ((1 + math.sqrt(5)) / 2) ** 4,
            bias=5 / sizes,
            step=0.2,
        )
    )
    samples = [first_layer("markov, skip", T, n)[:, 0] for T, n in pair.items()]
    mean, error = np.array([mean_and_error(x) for x in samples]).T
    checks.append(
        Curve(
            "markov, skip: sum of s_k^4, 8/T",
            sizes,
            mean,
            error / mean,
            lambda T: 8 / T,
            correction=1 + (term - 1) * 3 / 8,
            bias=np.abs(term - 1) * 3 / 16 + 8 / sizes,
            step=0.2,
        )
    )
    return checks


@functools.cache
def in_depth(name: str, T: int, depth: int, seeds: int) -> np.ndarray:
    """Return sr - 1 at layers 1 to depth, a row a seed; NaN where tokens are exactly zero."""
    rows = []
    for seed in range(seeds):
        stack, x = configuration(name, depth, T, seed)
        tokens = stack.trace(x)[1:]
        rows.append([spectra.collapse_residual(X.numpy()) if X.any() else np.nan for X in tokens])
    return np.array(rows)


@measures("paper-stable-rank-depth")
def _() -> list[Check]:
    """Signs on log10(sr - 1) at layer 10: near 1 is below 0.1, well above 1 is above 0.5.

    T = 60 where the margin is wide, T = 150, as published, where it is not. Upscaled skip: the
    factor between layers 5 and 10, geometric mean. Of its logarithm 3/(2d) are from how the shared
    length scatters (variance 6/d of a mean of 2), 2 v from the noise added, v = 1/d, and 2 v from
    its spread kappa: the correction, half of it bias.
    """
    checks: list[Check] = []
    markov = [f"markov, {block}" for block in BLOCKS]
    softmax = [f"softmax, {block}" for block in BLOCKS]
    for name in (*markov, *softmax):
        found = np.log10(np.maximum(in_depth(name, 60, 10, 8)[:, -1], 1e-60))
        checks.append(Sign(f"{name}: near 1", *mean_and_error(-1 - found)))
    for name in (*(f"{name}, mean removed" for name in markov), "identity"):
        T, n = {"markov, plain, mean removed": (150, 30), "identity": (150, 8)}.get(name, (60, 8))
        found = np.log10(in_depth(name, T, 10, n)[:, -1])
        checks.append(Sign(f"{name}: well above 1", *mean_and_error(found - math.log10(0.5))))
    for block in ("skip", "upscaled skip", "upscaled skip + LN"):
        name = f"softmax, {block}, mean removed"
        found = np.log10(in_depth(name, 60, 10, 8)[:, -1])
        checks.append(Sign(f"{name}: well above 1", *mean_and_error(found - math.log10(0.5))))
    for block in ("LN", "skip + LN"):
        name = f"softmax, {block}, mean removed"
        found = np.log10(np.maximum(in_depth(name, 60, 10, 30)[:, -1], 1e-60))
        checks.append(Sign(f"{name}: deviates, near 1", *mean_and_error(-1 - found)))
    zero = np.isnan(in_depth("softmax, plain, mean removed", 60, 10, 8)[:, -1])
    checks.append(Sign("softmax, plain, mean removed: deviates, no tokens left", zero.all() - 0.5))
    T, n = 80, 100
    found = np.log(in_depth("markov, upscaled skip", T, 10, n))
    mean, error = mean_and_error((found[:, 4] - found[:, 9]) / 5)
    checks.append(
        Curve(
            "markov, upscaled skip: a factor of 4 a layer",
            np.array([float(T)]),
            np.array([math.exp(mean)]),
            np.array([error]),
            lambda T: np.array([4.0]),
            correction=1 - 5.5 / T,
            bias=np.array([5.5 / T / 2]),
            step=0.15,
        )
    )
    return checks


@functools.cache
def log_gradients(name: str, T: int, seeds: int, depth: int = 3, layer: int = 2) -> np.ndarray:
    """Return the logarithms of |dX_L/dW_l|_F, one a seed."""
    found = []
    for seed in range(seeds):
        stack, x = configuration(name, depth, T, seed)
        options = {"log": True, "rtol": 0.1, "probes": 200, "rng": generator("probe", seed)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(float(gradients.value_gradient_norm(stack, x, layer, **options)))
    return np.array(found)


@measures("paper-gradient-norms")
def _() -> list[Check]:
    """Signs on the exponent of T between 16 and 64, layer 2 of 3: growth is above 0.2.

    More slowly than plain is by more than 0.2, flat within 0.2, as fast within 0.5. One layer: the
    mean square is d |A|_F^2, with the drift of log-normal entries, -6/T of sigma^2, as correction,
    half of it bias.
    """
    checks: list[Check] = []
    small, large = 16, 64

    def slope(name: str) -> tuple[float, float]:
        n = (
            60 if ", LN" in name else 40 if " + LN" in name else 30 if "upscaled" in name else 12
        )  # draws scatter
        (a, da), (b, db) = (mean_and_error(log_gradients(name, T, n)) for T in (small, large))
        span = math.log(large / small)
        return float((b - a) / span), math.hypot(da, db) / span

    rates = {name: slope(name) for name in networks.CONFIGURATIONS}
    for name, (rate, error) in rates.items():
        kind, _, rest = name.partition(", ")
        block = rest.removesuffix(", mean removed")
        plain, spread = rates[name.removesuffix(", mean removed")]
        removed, flat = rest.endswith("mean removed"), block == "upscaled skip"
        both = math.hypot(error, spread)
        if flat and not (removed and kind == "softmax"):
            checks.append(Sign(f"{name}: deviates, flat", 0.2 - abs(rate), error))
        elif not removed:
            checks.append(Sign(f"{name}: grows", rate - 0.2, error))
        elif "LN" in block:
            checks.append(Sign(f"{name}: grows", rate - 0.2, error))
            checks.append(Sign(f"{name}: deviates, as fast", 0.5 - abs(rate - plain), both))
        elif kind == "markov":
            checks.append(Sign(f"{name}: grows", rate - 0.2, error))
            checks.append(Sign(f"{name}: more slowly", plain - rate - 0.2, both))
        else:
            checks.append(Sign(f"{name}: deviates, falls", -rate - 0.2, error))
    sizes = np.array([40.0, 80.0, 160.0])
    for removed in (False, True):
        name = "markov, plain" + ", mean removed" * removed
        squares = [np.exp(2 * log_gradients(name, int(T), 40, 1, 1)) for T in sizes]
        mean, error = np.array([mean_and_error(x) for x in squares]).T
        term = ENTRY.drift / sizes / (1 if removed else 2)
        checks.append(
            Curve(
                f"one layer, squared, {name}",
                sizes,
                mean,
                error / mean,
                lambda T, removed=removed: (
                    predictions.gradient_norm(T, T, 1, 1.0, removed, leading=True) ** 2
                ),
                correction=1 + term,
                bias=np.abs(term) / 2,
                exponent=1.0,
                exponent_step=0.2,
            )
        )
    return checks


@measures("paper-nonisometric-input")
def _() -> list[Check]:
    """Gaussian tokens: numerators as in chapter 05, log-normal terms as correction, half as bias.

    Exactly centred Gaussian tokens: p_0 = (T-1) (d-1)/d, q_0 = (T-1) (d-1) (T+d-1)/d^2. The rank
    with the mean removed grows: sign.
    """
    checks: list[Check] = []
    for gamma, seeds in (
        (0.1, {40: 60, 80: 30}),
        (0.5, {40: 160, 80: 120, 160: 60}),
        (2.0, {80: 160, 160: 80, 320: 30}),
        (10.0, {320: 60, 640: 24}),
    ):
        sizes = np.array(list(seeds), dtype=float)
        rest, ranks, term = [], {}, []
        for T, n in seeds.items():
            d = round(T / gamma)
            plain, removed = [], []
            for seed in range(n):
                rng = generator("gaussian input", T, d, seed)
                A = ensembles.random_markov(T, rng=rng)
                XW = rng.standard_normal((T, d)) @ rng.standard_normal((d, d)) / d
                plain.append(parts(A @ XW)[0])
                if seed < 16:
                    removed.append(spectra.collapse_residual(attention.remove_mean(A) @ XW))
            rest.append(mean_and_error(plain))
            ranks[T] = np.log1p(removed)
            p, q = (T - 1) * (d - 1) / d, (T - 1) * (d - 1) * (T + d - 1) / d**2
            term.append(finite(ENTRY, T, d, 1, (p, q)) * T / (2 + 2 * gamma))
        mean, error = np.array(rest).T
        checks.append(
            Curve(
                f"(2 + 2 gamma)/T, gamma = {gamma}",
                sizes,
                mean,
                error / mean,
                lambda T, gamma=gamma: (2 + 2 * gamma) / T,
                correction=np.array(term),
                bias=np.abs(np.array(term) - 1) / 2,
                exponent=-1.0 if gamma in (0.5, 2.0) else None,
                exponent_step=0.2,
                step=0.15,
            )
        )
        first, *_, last = ranks.values()
        checks.append(trend(f"mean removed: sr grows with T, gamma = {gamma}", first, last, True))
    return checks
