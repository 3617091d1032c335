"""What chapter 07, Gradient explosion, claims, measured.

Fixed attention: the expectations are exact, for Dirichlet rows (exponential entries), so that the
only tolerance is that of the mean over draws. Limits: the exact recursion is the finite-size
correction of its leading order.
"""

import functools
import math
import warnings

import numpy as np
import torch

from gapcourse import ensembles, gradients, networks, predictions

from .chapter_03 import EPS
from .chapter_04 import extrapolated
from .ledger import Check, Curve, Identity, Sign, generator, mean_and_error, measures


def jacobian(stack: networks.AttentionStack, x: np.ndarray, weights: list) -> float:
    """Return the norm of the Jacobian of X_L in some weights, formed entry by entry."""
    out = stack(x).flatten()
    rows = [
        torch.cat([g.flatten() for g in torch.autograd.grad(y, weights, retain_graph=True)]).numpy()
        for y in out
    ]
    return float(np.linalg.norm(rows))


@measures("gradient-kronecker")
def _() -> list[Check]:
    """Exact: the full Jacobian, one backward pass an entry, against two norms of T x d matrices.

    Rounding: products of some ten matrices of size 6, below 1000 eps relative.
    """
    T, d, depth = 5, 6, 4
    checks: list[Check] = []
    for removed in (False, True):
        rng = generator("kronecker", int(removed))
        stack = networks.AttentionStack(depth, T, d, mean_removal=removed, rng=rng)
        x = ensembles.isometric_input(T, d, rng=rng)
        A = [M.numpy() for M in stack.fixed_matrices]
        W = [M.detach().numpy() for M in stack.value_weights]
        X = [x]
        for a, w in zip(A, W, strict=True):
            X.append(a @ X[-1] @ w)
        for layer in range(1, depth + 1):
            left = functools.reduce(lambda P, a: a @ P, A[layer - 1 :], X[layer - 1])
            right = functools.reduce(np.matmul, W[layer:], np.eye(d))
            whole = jacobian(stack, x, [stack.value_weights[layer - 1]])
            product = np.linalg.norm(left) * np.linalg.norm(right)
            label = f"layer {layer} of {depth}, mean removed {removed}"
            checks += [
                Identity(
                    f"Jacobian, {label}",
                    lambda factor, a=whole, b=product: abs(a / b - factor),
                    1000 * EPS,
                ),
                Identity(
                    f"value_gradient_norm, {label}",
                    lambda factor, at=(stack, x, layer), a=whole: abs(
                        gradients.value_gradient_norm(*at) / a - factor
                    ),
                    1000 * EPS,
                ),
            ]
    return checks


@functools.cache
def squares(T: int, d: int, depth: int, removed: bool, seeds: int) -> np.ndarray:
    """Return |dX_L/dW_l|_F^2 for l = 1 to L, and |A_L ... A_1|_F^2 in the last column."""
    rows = []
    for seed in range(seeds):
        rng = generator("gradient", T, d, depth, seed)
        stack = networks.AttentionStack(
            depth, T, d, entries="exponential", mean_removal=removed, rng=rng
        )
        x = ensembles.isometric_input(T, d, rng=rng)
        norms = np.array(gradients.value_gradient_norms(stack, x)) ** 2
        product = functools.reduce(lambda P, a: a @ P, (M.numpy() for M in stack.fixed_matrices))
        rows.append([*norms, (product**2).sum()])
    return np.array(rows)


@measures("gradient-same-every-layer")
def _() -> list[Check]:
    """Exact expectations (Dirichlet rows): no bias. "T" counts layers here: no trend in l.

    Given the attention matrices the mean over the values is d^L |A_L ... A_1|_F^2: divided by it,
    a draw scatters by what the values do. T < d, for which the sum is the same.
    """
    checks: list[Check] = []
    layers = np.arange(1.0, 4.0)
    for removed in (False, True):
        found = squares(12, 30, 3, removed, 500)
        given = found[:, :3] / found[:, 3:] / 30.0**3
        mean, error = mean_and_error(given)
        name = f"mean removed {removed}"
        checks.append(
            Curve(
                f"over d^L |A_3 A_2 A_1|^2, {name}",
                layers,
                mean,
                error / mean,
                np.ones_like,
                bias=np.zeros(3),
                exponent=0.0,
                exponent_step=0.2,
                step=0.15,
            )
        )
        mean, error = mean_and_error(found[:, :3])
        checks.append(
            Curve(
                f"|dX_3/dW_l|^2, {name}",
                layers,
                mean,
                error / mean,
                lambda T, removed=removed: np.full(
                    len(T), predictions.gradient_norm(12, 30, 3, 1.0, removed) ** 2
                ),
                bias=np.zeros(3),
                step=0.2,
            )
        )
        depths = np.arange(1.0, 4.0)
        rows = [mean_and_error(squares(12, 30, int(n), removed, 500)[:, -1]) for n in depths]
        mean, error = np.array(rows).T
        checks.append(
            Curve(
                f"|A_L ... A_1|^2, L = 1 to 3, {name}",
                depths,
                mean,
                error / mean,
                lambda T, removed=removed: predictions.product_norm(12, T, 1.0, removed) ** 2,
                bias=np.zeros(3),
            )
        )
    return checks


@measures("gradient-growth")
def _() -> list[Check]:
    """Leading orders at d = T and d = 2T, with the exact recursion (Dirichlet rows) as correction.

    Half of the correction is the bias, as nothing else is left out of a mean: for the terms behind
    the leading one. One draw at L = 3 scatters by a fifth and more.
    """
    checks: list[Check] = []
    for ratio, depth, removed, seeds in (
        (1, 1, False, {20: 60, 40: 40, 80: 20}),
        (2, 1, False, {20: 60, 40: 40, 80: 20}),
        (1, 2, False, {20: 160, 40: 120, 80: 80}),
        (1, 3, False, {20: 200, 40: 160, 80: 120}),
        (1, 1, True, {20: 60, 40: 40, 80: 20}),
        (1, 2, True, {20: 160, 40: 120, 80: 80}),
        (2, 2, True, {20: 160, 40: 120, 80: 80}),
    ):
        sizes = np.array(list(seeds), dtype=float)
        d = ratio * sizes
        samples = [squares(T, ratio * T, depth, removed, n)[:, 0] for T, n in seeds.items()]
        mean, error = np.array([mean_and_error(x) for x in samples]).T

        def leading(
            T: np.ndarray, ratio: int = ratio, depth: int = depth, removed: bool = removed
        ) -> np.ndarray:
            return predictions.gradient_norm(T, ratio * T, depth, 1.0, removed, leading=True) ** 2

        v = 1 / (sizes + 1)
        p, u = sizes, np.ones_like(sizes)
        for _ in range(depth):
            p, u = (
                (v * (p - u), v * (p - u) / sizes)
                if removed
                else (u + v * (p - u), u + v * (p - u) / sizes)
            )
        plain = 2 * d if depth == 1 else d**depth
        term = d**depth * p / (sizes * ratio**depth if removed else plain)
        checks.append(
            Curve(
                f"|dX_L/dW_1|^2, L = {depth}, d = {ratio} T, mean removed {removed}",
                sizes,
                mean,
                error / mean,
                leading,
                correction=term,
                bias=np.abs(term - 1) / 2,
                exponent=1.0 if removed else float(depth),
                exponent_step=0.2,
            )
        )
    # Unscaled values do it alone: identity attention has T d^L, exactly.
    for depth in (1, 3):
        rows = []
        for T in (20, 40):
            found = []
            for seed in range(80):
                rng = generator("identity gradient", T, depth, seed)
                stack = networks.AttentionStack(depth, T, T, attention="identity", rng=rng)
                x = ensembles.isometric_input(T, T, rng=rng)
                found.append(gradients.value_gradient_norm(stack, x, 1) ** 2)
            rows.append(mean_and_error(found))
        mean, error = np.array(rows).T
        checks.append(
            Curve(
                f"identity attention, L = {depth}",
                np.array([20.0, 40.0]),
                mean,
                error / mean,
                lambda T, depth=depth: T * T**depth,
                bias=np.full(2, 1000 * EPS),
                exponent=1.0 + depth,
                exponent_step=0.2,
            )
        )
    # Pareto entries, alpha = 1.5: no variance. One entry D against the rest T m of its row, which
    # is off by T^(1/alpha - 1), relative: half of that is the bias.
    alpha, m = 1.5, 3.0
    seeds = {100: 80, 200: 60, 400: 40, 800: 16}
    sizes = np.array(list(seeds), dtype=float)
    rows = []
    for T, n in seeds.items():
        found = []
        for seed in range(n):
            rng = generator("pareto gradient", T, seed)
            A = ensembles.random_markov(T, entries="pareto", alpha=alpha, rng=rng)
            found.append(T * (A**2).sum())
        rows.append(mean_and_error(found))
    mean, error = np.array(rows).T
    constant = alpha * math.gamma(2 - alpha) * math.gamma(alpha) / m**alpha
    checks.append(
        Curve(
            "one layer, Pareto entries, alpha = 1.5",
            sizes,
            mean,
            error / mean,
            lambda T: constant * T ** (3 - alpha),
            bias=sizes ** (1 / alpha - 1) / 2,
            exponent=3 - alpha,
            exponent_step=0.2,
            level=False,
        )
    )
    return checks


def _fixed(stack: networks.AttentionStack, x: np.ndarray, layer: int) -> float:
    """Return the norm with the attention matrices held still."""
    F = stack.trace(x)[layer - 1].numpy()
    for A in stack.attention_matrices(x)[layer - 1 :]:
        F = A.numpy() @ F
    B = np.eye(stack.dim)
    for W in stack.value_weights[layer:]:
        B = B @ W.detach().numpy()
    return float(np.linalg.norm(F) * np.linalg.norm(B))


def _quiet(function, *args: object, **options: object) -> gradients.Estimate:
    """Return an estimate without the warning that its probes did not suffice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


@measures("gradient-probes")
def _() -> list[Check]:
    """Probe: the mean of |J'g|^2 is exact, and the package's estimate right to its standard error.

    The last layer's attention is followed by nothing: there the identity is exact. The factor of
    the part through A(X) with the mean removed: small logits (s = 0.1 and less, terms of order s),
    off by a multiple of 1/T, extrapolated; half of the last step as bias, and s for the logits.
    """
    rng = generator("probes")
    stack = networks.AttentionStack(2, 8, 8, attention="softmax", rng=rng)
    x = ensembles.isometric_input(8, 8, rng=rng)
    weights = stack.value_weights[0]
    exact = jacobian(stack, x, [weights])
    Y = stack(x)
    probes = torch.from_numpy(rng.standard_normal((4000, 8, 8)))
    (back,) = torch.autograd.grad(Y, weights, probes, is_grads_batched=True)
    mean, error = mean_and_error((back**2).sum(dim=(1, 2)).numpy())
    one = np.ones(1)
    checks: list[Check] = [
        Curve(
            "|J'g|^2",
            one,
            np.array([mean]),
            np.array([error / mean]),
            lambda T: exact**2 * one,
            bias=0 * one,
        ),
        Identity(
            "the last layer",
            lambda factor: abs(
                gradients.value_gradient_norm(stack, x, 2)
                / jacobian(stack, x, [stack.value_weights[1]])
                - factor
            ),
            1000 * EPS,
        ),
    ]

    def estimated(T: np.ndarray) -> np.ndarray:
        norms = [gradients.value_gradient_norm(stack, x, 1, rtol=0.02, rng=n) for n in range(8)]
        return one * np.mean(norms)

    checks.append(
        Curve(
            "value_gradient_norm, 8 times, each to 2 %",
            one,
            exact * one,
            one * 0.02 / math.sqrt(8),
            estimated,
            bias=0 * one,
        )
    )
    for name, removed, shapes, limit in (
        ("plain, s = 0.05", False, {24: (24, 24), 48: (48, 48)}, 1.0),
        ("mean removed, gamma = 1, c = 1", True, {24: (24, 24), 48: (48, 48)}, math.sqrt(10 / 3)),
        ("mean removed, gamma = 1/2, c = 2", True, {24: (48, 12), 48: (96, 24)}, math.sqrt(3.125)),
    ):
        samples = {}
        for T, n in {24: 200, 48: 120}.items():
            d, head_dim = shapes[T]
            found = []
            for seed in range(n):
                rng = generator("through", T, d, head_dim, int(removed), seed)
                kind = {"attention": "softmax", "logit_std": 0.05, "head_dim": head_dim}
                soft = networks.AttentionStack(2, T, d, mean_removal=removed, rng=rng, **kind)
                tokens = ensembles.isometric_input(T, d, rng=rng)
                whole = _quiet(
                    gradients.value_gradient_norm, soft, tokens, 1, rtol=0.04, probes=400, rng=rng
                )
                found.append(whole / _fixed(soft, tokens, 1))
            samples[T] = np.array(found)
        checks.append(
            extrapolated(
                f"whole over fixed, {name}", samples, lambda T, limit=limit: limit, step=0.15
            )
        )
    return checks


def query_key(stack: networks.AttentionStack, x: np.ndarray) -> float:
    """Return the norm in queries and keys of one softmax layer, by the covariances C_i."""
    A = stack.attention_matrices(x)[0].numpy()
    kinds = (stack.query_weights, stack.key_weights, stack.value_weights)
    WQ, WK, WV = (w[0].detach().numpy() for w in kinds)
    total = 0.0
    for token, weights in zip(x, A, strict=True):
        away = x - weights @ x
        C = (away.T * weights) @ away @ WV
        total += (token @ token) * ((WK.T @ C) ** 2).sum() + ((token @ WQ) ** 2).sum() * (
            C**2
        ).sum()
    return math.sqrt(total / WQ.shape[1])


@measures("query-key-vanish")
def _() -> list[Check]:
    """Compare the identity with the full Jacobian, to rounding; and the rate in the tokens' spread.

    "T" is the spread delta. What follows delta^2 is a relative O(delta): of every draw the two
    signs of delta are averaged, which leaves O(delta^2), times the logits' s^2 T = 32: the bias is
    delta^2 times the size of a logit's second order, of 1 each for query and key.
    """
    T, d = 10, 12
    rng = generator("query key")
    head = networks.AttentionStack(1, T, d, attention="softmax", rng=rng)
    x = ensembles.isometric_input(T, d, rng=rng)
    whole = jacobian(head, x, [head.query_weights[0], head.key_weights[0]])
    one = np.ones(1)
    alike = np.tile(x[:1], (T, 1))

    def estimated(_: np.ndarray) -> np.ndarray:
        norms = [gradients.query_key_gradient_norm(head, x, 1, rtol=0.03, rng=n) for n in range(8)]
        return one * np.mean(norms)

    checks: list[Check] = [
        Identity("by covariances", lambda factor: abs(query_key(head, x) / whole - factor), 1e-12),
        Curve(
            "query_key_gradient_norm, 8 times, each to 3 %",
            one,
            whole * one,
            one * 0.03 / math.sqrt(8),
            estimated,
            bias=0 * one,
        ),
        Sign("all tokens alike: below 1e-12", 1e-12 - query_key(head, alike)),
        Identity(
            "all tokens alike: the values' gradient",
            lambda factor: abs(
                gradients.value_gradient_norm(head, alike, 1) / math.sqrt(d * T) - factor
            ),
            1e-12,
        ),
    ]
    spreads = np.array([0.01, 0.02, 0.04])
    rows = []
    slack = []
    for seed in range(30):
        rng = generator("spread", seed)
        one_head = networks.AttentionStack(1, 32, 40, attention="softmax", rng=rng)
        common = rng.standard_normal(40) / math.sqrt(40)
        xi = ensembles.isometric_input(32, 40, rng=rng)
        row = [
            [query_key(one_head, common + sign * delta * xi) for sign in (1, -1)]
            for delta in spreads
        ]
        rows.append(np.mean(row, axis=1))
        WQ, WK, WV = (
            np.linalg.norm(w[0].detach().numpy(), 2)
            for w in (one_head.query_weights, one_head.key_weights, one_head.value_weights)
        )
        for delta, norm in zip(spreads, rows[-1], strict=True):
            X = np.linalg.norm(common + delta * xi)
            bound = delta**2 * X * math.hypot(WQ, WK) * WV / math.sqrt(40)
            slack.append(1 - norm / bound)
    rates = np.log(np.array(rows)[:, 1:] / np.array(rows)[:, :-1]) / math.log(2)
    mean, error = mean_and_error(rates)
    checks += [
        Curve(
            "power of the spread, between neighbours",
            spreads[1:],
            mean,
            error / mean,
            lambda T: np.full(len(T), 2.0),
            bias=32 * spreads[1:] ** 2,
        ),
        Sign("the bound holds", min(slack)),
    ]
    return checks


def energies(T: int, depth: int, eta: float, skip: float) -> tuple[float, float]:
    """Return U and Q after L layers, by the recursion, for exponential entries."""
    U, Q, v = 1.0, T - 1.0, 1 / (T + 1)
    for _ in range(depth):
        U = (skip + eta**2) * U + eta**2 * v / T * Q
        Q = (skip + eta**2 * v * (1 - 1 / T)) * Q
    return U, Q


@functools.cache
def shared(T: int, depth: int, eta: float, skip: float, seeds: int) -> np.ndarray:
    """Return |e'X_L|^2 and the rest of |X_L|_F^2 of stacks with a skip, a row a seed."""
    rows = []
    for seed in range(seeds):
        rng = generator("skip", T, depth, round(100 * eta), seed)
        X = ensembles.isometric_input(T, T, rng=rng)
        for _ in range(depth):
            A = ensembles.random_markov(T, entries="exponential", rng=rng)
            X = skip * X + eta * (A @ X @ rng.standard_normal((T, T)) / math.sqrt(T))
        U = T * (X.mean(axis=0) ** 2).sum()
        rows.append((U, (X**2).sum() - U))
    return np.array(rows)


@measures("depth-scaled-skip")
def _() -> list[Check]:
    """Exact recursions (Dirichlet rows): no bias; the limit in L by the recursion, to 1/L.

    The common share after L layers at weight 1/sqrt(L), against e/T: corrections from the exact
    recursion, half of them as bias. Gradients of queries and keys over those of the values, first
    layer over last, tokens normalised: signs.
    """
    checks: list[Check] = []
    L = 16
    for name, eta, skip in (
        ("weight 1", 1.0, 1.0),
        ("weight 1/sqrt(L)", L**-0.5, 1.0),
    ):
        sizes = np.array([16.0, 32.0, 64.0])
        samples = [
            shared(int(T), L, eta, skip, n) for T, n in zip(sizes, (400, 240, 120), strict=True)
        ]
        mean, error = np.array([mean_and_error(x) for x in samples]).transpose(1, 2, 0)
        for i, part in enumerate(("U", "Q")):
            if name == "weight 1" and part == "U":
                continue  # a product of L chi-squared variables: its mean is not typical
            checks.append(
                Curve(
                    f"{part}, {name}, {L} layers",
                    sizes,
                    mean[i],
                    error[i] / mean[i],
                    lambda T, i=i, eta=eta, skip=skip: np.array(
                        [energies(int(t), L, eta, skip)[i] for t in T]
                    ),
                    bias=np.zeros(3),
                    step=0.2,
                )
            )
        if skip == 1.0 and eta < 1:
            exact = np.array([energies(int(T), L, eta, skip) for T in sizes])
            term = exact[:, 0] / math.e
            checks.append(
                Curve(
                    f"U is e, {name}",
                    sizes,
                    mean[0],
                    error[0] / mean[0],
                    lambda T: np.full(len(T), math.e),
                    correction=term,
                    bias=np.abs(term - 1) / 2,
                    exponent=0.0,
                    exponent_step=0.2,
                    step=0.2,
                )
            )
            term = exact[:, 0] / exact.sum(axis=1) * sizes / math.e
            checks.append(
                Curve(
                    f"common share of the mean energies, {name}",
                    sizes,
                    mean[0] / mean.sum(axis=0),
                    np.hypot(*(error / mean)),
                    lambda T: math.e / T,
                    correction=term,
                    bias=np.abs(term - 1) / 2,
                    exponent=-1.0,
                    exponent_step=0.2,
                    step=0.2,
                )
            )
    limit = math.e + (r := (1 - 1 / 64) / 65) * (math.e - math.exp(r)) / (1 - r)
    checks.append(
        Identity(
            "U as L grows, T = 64",
            lambda factor: abs(energies(64, 100_000, 100_000**-0.5, 1.0)[0] / limit - factor),
            1e-4,
        )
    )
    share = {
        name: (x[:, 0] / x.sum(axis=1))
        for name, x in (
            ("none", shared(64, 3, 1.0, 0.0, 40)),
            ("weight 1", shared(64, 10, 1.0, 1.0, 40)),
            ("scaled", shared(64, 16, 0.25, 1.0, 120)),
        )
    }
    checks += [
        Sign("no skip: above 0.98 after 3 layers", *mean_and_error(share["none"] - 0.98)),
        Sign("weight 1: above 0.8 after 10 layers", *mean_and_error(share["weight 1"] - 0.8)),
        Sign("weight 1/sqrt(L): below 0.1", *mean_and_error(0.1 - share["scaled"])),
    ]
    size, depth = 24, 12
    falls_by = {}
    for name, skip in (
        ("none", {}),
        ("weight 1", {"skip": True}),
        ("scaled", {"skip": "1/sqrt(depth)"}),
    ):
        found = []
        for seed in range(10 if skip else 6):
            rng = generator("ratio", seed)
            stack = networks.AttentionStack(
                depth,
                size,
                size,
                attention="softmax",
                logit_std=1 / size,
                norm="rms",
                value_init="scaled",
                rng=rng,
                **skip,
            )
            x = math.sqrt(size) * ensembles.isometric_input(size, size, rng=rng)
            options = {"rtol": 0.3, "probes": 100, "rng": rng}
            top = _quiet(gradients.query_key_gradient_norms, stack, x, **options)
            bottom = _quiet(gradients.value_gradient_norms, stack, x, **options)
            ratio = np.array(top, dtype=float) / np.array(bottom, dtype=float)
            found.append(math.log10(ratio[0] / ratio[-1]))
        falls_by[name] = np.array(found)
    checks += [
        Sign("no skip: it falls by 10^6", *mean_and_error(falls_by["none"] - 6)),
        Sign(
            "weight 1: it falls more than at 1/sqrt(L)",
            *mean_and_error(falls_by["weight 1"] - falls_by["scaled"]),
        ),
        Sign("1/sqrt(L): by less than a factor of 3", *mean_and_error(0.48 - falls_by["scaled"])),
    ]
    return checks


def published(stack: networks.AttentionStack, x: np.ndarray, layer: int) -> float:
    """Return the published code's quantity for fixed attention, by its factors."""
    X = stack.trace(x)[layer - 1].numpy()
    A, *later = (M.numpy() for M in stack.fixed_matrices[layer - 1 :])
    M = functools.reduce(lambda P, a: a @ P, later, np.eye(stack.tokens))
    B = functools.reduce(
        np.matmul, (W.detach().numpy() for W in stack.value_weights[layer:]), np.eye(stack.dim)
    )
    return float((M**2).sum() * np.linalg.norm(B) * np.linalg.norm(B.T @ A @ X))


@measures("published-gradient")
def _() -> list[Check]:
    """Exact: its four-axis form against its factors, and T times the true norm in the last layer.

    Rates in T = d, layer 1 of three: mean squares against p_2^2 d^5 p_1 and its leading orders, T^5
    plain and T^3 with the mean removed; there the exact recursions are the correction, half of it
    the bias. Factors that share matrices correlate to a relative 4/d^2 each, |M|^4 in place of
    p_2^2 adds as much: 16/T^2. In two layers both go like T^3.
    """
    checks: list[Check] = []
    T, d, depth = 5, 5, 3
    rng = generator("published")
    stack = networks.AttentionStack(depth, T, d, entries="exponential", rng=rng)
    x = ensembles.isometric_input(T, d, rng=rng)
    for layer in range(1, depth + 1):
        before, X = (y.clone() for y in stack.trace(x)[layer - 1 : layer + 1])
        Y = X.requires_grad_()
        for later in range(layer + 1, depth + 1):
            Y = stack.step(Y, later)
        rows = [torch.autograd.grad(y, X, retain_graph=True)[0] for y in Y.flatten()]
        J = torch.stack(rows).reshape(T, d, T, d)
        AX = stack.fixed_matrices[layer - 1] @ before
        over_tokens = float(torch.einsum("tksb,sa->tkab", J, AX).norm())
        over_features = float(J.norm() * (J @ AX).norm())
        checks += [
            Identity(
                f"over tokens: the gradient, layer {layer}",
                lambda factor, at=(stack, x, layer), a=over_tokens: abs(
                    gradients.value_gradient_norm(*at) / a - factor
                ),
                1000 * EPS,
            ),
            Identity(
                f"over features: by factors, layer {layer}",
                lambda factor, at=(stack, x, layer), a=over_features: abs(
                    published(*at) / a - factor
                ),
                1000 * EPS,
            ),
        ]
    checks.append(
        Identity(
            "T times the gradient in the last layer",
            lambda factor: abs(
                published(stack, x, depth)
                / gradients.value_gradient_norm(stack, x, depth)
                / (T * factor)
                - 1
            ),
            1000 * EPS,
        )
    )
    sizes = np.array([16.0, 32.0, 64.0])
    for removed in (False, True):
        rows, ratios = [], []
        for T, n in zip((16, 32, 64), (300, 200, 120), strict=True):
            found = []
            for seed in range(n):
                rng = generator("both quantities", T, int(removed), seed)
                stack = networks.AttentionStack(
                    3, T, T, entries="exponential", mean_removal=removed, rng=rng
                )
                x = ensembles.isometric_input(T, T, rng=rng)
                found.append(
                    (gradients.value_gradient_norm(stack, x, 1) ** 2, published(stack, x, 1) ** 2)
                )
            rows.append(mean_and_error(found))
            ratios.append(np.sqrt([b / a for a, b in found]))
        mean, error = np.array(rows).transpose(1, 2, 0)
        name = "mean removed" if removed else "plain"

        def exact(T: np.ndarray, removed: bool = removed) -> np.ndarray:
            p1, p2 = (predictions.product_norm(T, n, 1.0, removed) ** 2 for n in (1, 2))
            return p2**2 * T**5 * p1

        constant, exponent = (1.0, 3.0) if removed else (2.0, 5.0)
        v = 1 / (sizes + 1)
        r = (1 - 1 / sizes) * v
        p1, p2 = (
            (sizes * r, sizes * r**2)
            if removed
            else (1 + (sizes - 1) * v, 1 + r * (1 + r) + (sizes - 1) * r**2)
        )
        term = p2**2 * sizes**5 * p1 / (constant * sizes**exponent)
        checks += [
            Curve(
                f"published, squared, {name}",
                sizes,
                mean[1],
                error[1] / mean[1],
                exact,
                bias=16 / sizes**2,
                step=0.15,
            ),
            Curve(
                f"published, squared, leading order, {name}",
                sizes,
                mean[1],
                error[1] / mean[1],
                lambda T, a=constant, b=exponent: a * T**b,
                correction=term,
                bias=np.abs(term - 1) / 2 + 16 / sizes**2,
                exponent=exponent,
                exponent_step=0.2,
                level=False,
            ),
        ]
        pairs = []
        for T, n in zip((16, 32, 64), (300, 200, 120), strict=True):
            found = []
            for seed in range(n):
                rng = generator("published, two layers", T, int(removed), seed)
                two = networks.AttentionStack(
                    2, T, T, entries="exponential", mean_removal=removed, rng=rng
                )
                tokens = ensembles.isometric_input(T, T, rng=rng)
                found.append(published(two, tokens, 1) ** 2)
            pairs.append(mean_and_error(found))
        mean, error = np.array(pairs).T
        constant = 1.0 if removed else 8.0
        term = p1**3 / constant
        checks.append(
            Curve(
                f"published, squared, two layers: T^3, {name}",
                sizes,
                mean,
                error / mean,
                lambda T, a=constant: a * T**3.0,
                correction=term,
                bias=np.abs(term - 1) / 2 + 16 / sizes**2,
                exponent=3.0,
                exponent_step=0.2,
                level=False,
            )
        )
        ratio = [np.log(x) for x in ratios]
        growth = (ratio[-1].mean() - ratio[0].mean()) / math.log(4)
        error = math.hypot(*(mean_and_error(x)[1] for x in (ratio[0], ratio[-1]))) / math.log(4)
        checks.append(
            Sign(f"published over gradient grows by T or so, {name}", 0.25 - abs(growth - 1), error)
        )
    return checks
