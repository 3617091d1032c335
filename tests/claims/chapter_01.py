"""What chapter 01, Random Markov matrices, claims, measured.

Finite-size terms as in chapter 03: for raw entries of mean 1, standard deviation sigma and excess
kurtosis kappa, T^2 Var(A_ij) = sigma^2 (1 + drift/T). A derived term is applied as a correction,
signs included, and half of its size is allowed as bias, for the terms behind it.
"""

import functools

import numpy as np

from gapcourse import attention, predictions

from .chapter_03 import BERNOULLI, EPS, EXPONENTIAL, UNIFORM, Entry
from .ledger import Check, Curve, Identity, Sign, draws, mean_and_error, measures

SEEDS = {100: 120, 200: 80, 400: 40}
SIZES = np.array(list(SEEDS), dtype=float)
STEPS = (2, 3, 4)


def _stationary(A: np.ndarray) -> np.ndarray:
    """Return the law pi with pi A = pi: pi (I - A_perp) = 1/T, a well-conditioned system."""
    T = len(A)
    return np.linalg.solve(np.eye(T) - attention.remove_mean(A).T, np.full(T, 1 / T))


def _distance(P: np.ndarray, law: np.ndarray) -> np.ndarray:
    """Return the total variation between each row of P and the law."""
    return np.abs(P - law).sum(axis=-1) / 2


@measures("perron-frobenius")
def _() -> list[Check]:
    """Exact up to rounding: products as in chapter 03; pi by a solve, condition below 100.

    tau, the largest distance of two rows, is attained: by the difference of the worst two starts.
    The other bounds hold on these matrices with room to spare (at equality they would be a matter
    of rounding); delta = sum_j min_i A_ij is what all rows have in common.
    """
    T, k = 40, 5
    power = np.linalg.matrix_power
    matrices = {
        name: next(draws(T, 1, name))
        for name in ("lognormal", "gamma", "uniform", "bernoulli", "pareto", "cauchy")
    }

    def right(A: np.ndarray, factor: float) -> float:
        return np.abs(A.sum(axis=1) - factor).max()

    def left(A: np.ndarray, factor: float) -> float:
        law = _stationary(A)
        return np.abs(law @ A - factor * law).sum()

    def powers(A: np.ndarray, factor: float) -> float:
        law = _stationary(A)
        return np.abs(power(A, k) - factor * law - power(A - law, k)).max()

    def spectrum(A: np.ndarray, factor: float) -> float:
        """det(A - z) (-z) = det(A - 1 pi - z) (1 - z): 1 is a simple eigenvalue, 0 in its place."""
        z = 0.5j * np.eye(T)
        logs = np.linalg.slogdet([A - z, A - _stationary(A) - z])[1]
        return abs(logs[0] + np.log(0.5) - logs[1] - np.log(abs(factor - 0.5j)))

    statements = {
        "A 1 = 1": (right, 4 * T * EPS),
        "pi A = pi": (left, 100 * T * EPS),
        "A^k = 1 pi + (A - 1 pi)^k": (powers, 100 * T * EPS * 2**k),
        "spectrum": (spectrum, 100 * T**2 * EPS),
    }
    checks: list[Check] = [
        Identity(f"{label}, {name}", functools.partial(residual, A), tolerance)
        for label, (residual, tolerance) in statements.items()
        for name, A in matrices.items()
    ]
    for name, A in matrices.items():
        if A.min() == 0:
            continue
        law, common = _stationary(A), A.min(axis=0).sum()
        apart = np.array([_distance(A, row) for row in A])
        tau, worst = apart.max(), np.unravel_index(apart.argmax(), apart.shape)
        second = np.sort(np.abs(np.linalg.eigvals(A)))[-2]

        def attained(
            factor: float, A: np.ndarray = A, tau: float = tau, worst: tuple = worst
        ) -> float:
            w = np.zeros(T)
            w[list(worst)] = 1, -1
            return abs(np.abs(w @ A).sum() - factor * tau * np.abs(w).sum())

        far = _distance(np.eye(T), law).max()
        checks += [
            Identity(f"tau is attained, {name}", attained, 4 * T * EPS),
            Sign(f"pi is positive, {name}", law.min()),
            Sign(f"|lambda_2| < tau, {name}", tau - second),
            Sign(f"tau < 1 - delta, {name}", 1 - common - tau),
            Sign(f"{k} steps, {name}", tau**k * far - _distance(power(A, k), law).max()),
        ]
    # Without positive entries: a cycle has T eigenvalues of modulus 1, two closed classes have the
    # eigenvalue 1 twice.
    cycle = np.roll(np.eye(T), 1, axis=1)
    classes = np.kron(np.eye(2), next(draws(T // 2, 1, "uniform")))
    moduli = np.sort(np.abs(np.linalg.eigvals([cycle, classes])))
    checks += [
        Identity("a cycle", lambda factor: np.abs(moduli[0] - factor).max(), 100 * T * EPS),
        Identity("two classes", lambda factor: abs(moduli[1, -2] - factor), 100 * T * EPS),
    ]
    return checks


@functools.cache
def _walk(entry: Entry) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and relative error of T|pi - 1/T|, its distance, those after 1 and k steps."""
    means, errors = [], []
    for T, seeds in SEEDS.items():
        rows = []
        for A in draws(T, seeds, entry.name, sigma=entry.sigma):
            law = _stationary(A)
            away = law - 1 / T
            walks = [_distance(np.linalg.matrix_power(A, k), law).mean() for k in (1, *STEPS)]
            rows.append((T * np.linalg.norm(away), np.abs(away).sum() / 2, *walks))
        mean, error = mean_and_error(rows)
        means.append(mean)
        errors.append(error / mean)
    return np.array(means).T, np.array(errors).T


@measures("stationary-law")
def _() -> list[Check]:
    """Expand: pi - 1/T = (b + b A_perp + ...)/sqrt(T), b = e A_perp, and E|b|^2 = T Var(A_ij).

    Finite size: half of the drift of the variance, and sigma^2/(2T) from the second term of the
    series. The distance is a mean of T moduli, each of a sum of T terms that is nearly normal: the
    Edgeworth terms of E|X|, below (kappa + skewness^2)/(24 T), are part of the bias.
    """
    checks: list[Check] = []
    for entry in (EXPONENTIAL, UNIFORM, BERNOULLI):
        term = (entry.drift + entry.sigma**2) / 2 / SIZES
        allowed = (abs(entry.drift) + entry.sigma**2) / 4 / SIZES
        mean, error = _walk(entry)
        checks += [
            Curve(
                f"T |pi - 1/T|, {entry.name}",
                SIZES,
                mean[0],
                error[0],
                lambda T, sigma=entry.sigma: np.full(len(T), sigma),
                correction=1 + term,
                bias=allowed,
                exponent=0,
            ),
            Curve(
                f"total variation, {entry.name}",
                SIZES,
                mean[1],
                error[1],
                lambda T, sigma=entry.sigma: predictions.stationary_distance(T, sigma),
                correction=1 + term,
                bias=allowed + (abs(entry.excess) + entry.skewness**2) / 24 / SIZES,
                exponent=-0.5,
                exponent_step=0.2,
            ),
        ]
    return checks


@measures("walk-forgets")
def _() -> list[Check]:
    """Half the sum of |row of A_perp^k|, up to what pi adds, of order 1/T.

    Finite size, relative: half of the drift for each step; the length of the walk's row before the
    last step fluctuates, which lowers its mean by an eighth of its relative variance, (kappa + 2)/T
    from the first step and 2/T from each of the k - 2 others; and 1/T for pi and for walks that
    come back. Matrices drawn afresh in each step (layers) obey the same formula.

    After one step the entries are the raw ones; the row's sum moves the mean modulus by a multiple
    of (1 + sigma^2)/T.
    """
    checks: list[Check] = []
    first = {EXPONENTIAL: np.exp(-1), UNIFORM: 1 / 4, BERNOULLI: 4 / 5}  # E|D - 1|/2
    for entry, level in first.items():
        mean, error = _walk(entry)
        checks.append(
            Curve(
                f"after 1 step, {entry.name}",
                SIZES,
                mean[2],
                error[2],
                lambda T, level=level: np.full(len(T), level),
                bias=(1 + entry.sigma**2) / SIZES,
                exponent=0,
            )
        )
        for k, measured, stderr in zip(STEPS, mean[3:], error[3:], strict=True):
            checks.append(_forgets(f"after {k} steps, {entry.name}", entry, k, measured, stderr))
    for k in (2, 3):
        rows = []
        for T, seeds in SEEDS.items():
            fresh = draws(T, k * (seeds // 4), "exponential")
            layers = [functools.reduce(np.matmul, Ms) for Ms in zip(*k * [fresh], strict=True)]
            rows.append(mean_and_error([_distance(P, P.mean(axis=0)).mean() for P in layers]))
        mean, error = np.array(rows).T
        checks.append(_forgets(f"{k} layers", EXPONENTIAL, k, mean, error / mean))
    return checks


def _forgets(label: str, entry: Entry, k: int, measured: np.ndarray, stderr: np.ndarray) -> Curve:
    drift = k * entry.drift / 2 / SIZES
    length = (entry.excess + 2 + 2 * (k - 2)) / 8 / SIZES
    return Curve(
        label,
        SIZES,
        measured,
        stderr,
        lambda T: predictions.walk_distance(T, entry.sigma, k),
        correction=1 + drift - length,
        bias=(abs(drift) + abs(length)) / 2 + 1 / SIZES,
        exponent=(1 - k) / 2,
    )


@measures("gap-sets-time")
def _() -> list[Check]:
    """Exact on two states and for the lazy walk; else the rate at which the distance decays.

    Bias of the rate: between k and m steps the distance carries a factor that is a power of the
    number of steps, not an exponential: sqrt(k) for noise (the norm of its k-th power is
    sqrt(e k) |lambda_2|^k), which moves the rate by log(m/k)/2 over (m - k) log(1/|lambda_2|).
    """
    power, T = np.linalg.matrix_power, 40
    p, q = 0.2, 0.05
    pair = np.array([[1 - p, p], [q, 1 - q]])
    brisk = next(draws(T, 1, "exponential"))
    slow = 0.7 * np.eye(T) + 0.3 * brisk
    roots = np.linalg.eigvals(brisk)

    right = np.roll(np.eye(16), 1, axis=1)
    ring = np.eye(16) / 2 + (right + right.T) / 4

    def wave(factor: float) -> float:
        """Compare with the first wave, cos(2 pi j/T) 2/T lambda_2^k, which is left by then."""
        k, rate = 200, (1 + np.cos(2 * np.pi / 16)) / 2
        left = _distance(power(ring, k)[0], np.full(16, 1 / 16)) / rate**k
        return abs(left - factor * np.abs(np.cos(2 * np.pi * np.arange(16) / 16)).mean())

    def two_states(factor: float) -> float:
        left = [
            _distance(power(pair, k)[0], np.array([q, p]) / (p + q))
            - p / (p + q) * factor * abs(1 - p - q) ** k
            for k in range(1, 20)
        ]
        return np.abs(left).max()

    def trace(factor: float) -> float:
        """Compare tr L^3 of the lazy walk L with the sum over the eigenvalues of the walk."""
        return abs(np.trace(power(slow, 3)) - ((0.7 + 0.3 * factor * roots) ** 3).sum())

    checks: list[Check] = [
        Identity("two states", two_states, 100 * EPS),
        Identity("a ring", wave, 1e-9),  # the second wave is 1e-10 of it by then
        Identity("lazy walk: eigenvalues", trace, 100 * T * EPS),
        Identity(
            "lazy walk: the same pi",
            lambda factor: np.abs(_stationary(slow) - factor * _stationary(brisk)).max(),
            100 * EPS,
        ),
    ]
    sizes = {50: 20, 100: 20, 200: 20}
    for stay in (0.0, 0.5, 0.9):
        means, errors, allowed, lower = [], [], [], []
        for T, seeds in sizes.items():
            rates, room = [], []
            for A in draws(T, seeds, "exponential"):
                lazy = stay * np.eye(T) + (1 - stay) * A
                gap = -np.log(np.sort(np.abs(np.linalg.eigvals(lazy)))[-2])
                steps = [int(np.ceil(np.log(1 / far) / gap)) for far in (1e-5, 1e-10)]
                law = _stationary(A)
                logs = [np.log(_distance(power(lazy, k), law).max()) for k in steps]
                rates.append((logs[0] - logs[1]) / (steps[1] - steps[0]) / gap)
                room.append(min(log + k * gap for log, k in zip(logs, steps, strict=True)))
            mean, error = mean_and_error(rates)
            means.append(mean)
            errors.append(error / mean)
            allowed.append(np.log(steps[1] / steps[0]) / 2 / ((steps[1] - steps[0]) * gap))
            lower.append(min(room) + np.log(2))
        checks += [
            Curve(
                f"rate, staying with probability {stay}",
                np.array(list(sizes), dtype=float),
                np.array(means),
                np.array(errors),
                np.ones_like,
                bias=np.array(allowed),
            ),
            Sign(f"distance > |lambda_2|^k/2, staying with probability {stay}", min(lower)),
        ]
    return checks
