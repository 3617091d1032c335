r"""Norms of the gradients that reach the weights of an `gapcourse.networks.AttentionStack`.

The gradient of the tokens that leave the stack with respect to one weight matrix is a Td × d²
Jacobian. Its Frobenius norm can be had without forming it: exactly, by a Kronecker identity, where
the attention is fixed; else from products of the Jacobian's transpose with random vectors.

The module needs torch. Layers count from 1.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _checks
from ._checks import RNG, Array

try:
    import torch
except ImportError as error:
    raise ImportError(
        'gapcourse.gradients needs torch, which is missing; pip install "gapcourse[torch]"'
    ) from error

from .networks import AttentionStack, _within_depth

__all__ = [
    "Estimate",
    "query_key_gradient_norm",
    "query_key_gradient_norms",
    "value_gradient_norm",
    "value_gradient_norms",
]


class Estimate(float):
    """A float that knows its standard error.

    Parameters
    ----------
    value : float
    standard_error : float
        0 where the value is exact.
    probes : int
        How many random probes were drawn.

    Examples
    --------
    >>> norm = Estimate(2.0, standard_error=0.1, probes=30)
    >>> norm, norm * 2
    (Estimate(2.0, standard_error=0.1, probes=30), 4.0)
    """

    standard_error: float
    probes: int

    def __new__(cls, value: float, standard_error: float = 0.0, probes: int = 0) -> Estimate:
        """Make one; see the class."""
        estimate = super().__new__(cls, value)
        estimate.standard_error, estimate.probes = float(standard_error), int(probes)
        return estimate

    def __getnewargs__(self) -> tuple[float, float, int]:  # type: ignore[override]
        return float(self), self.standard_error, self.probes

    def __repr__(self) -> str:
        return (
            f"Estimate({float(self)!r}, standard_error={self.standard_error:.2g}, "
            f"probes={self.probes})"
        )


def value_gradient_norm(
    stack: AttentionStack,
    x: Array,
    layer: int,
    *,
    log: bool = False,
    rtol: float = 0.03,
    probes: int = 1000,
    rng: RNG = None,
) -> float | Estimate:
    r"""Return the norm of the gradient of the last tokens in one layer's value weights.

    .. math:: \left\|\frac{\partial X_L}{\partial W_l}\right\|_F

    For fixed attention (one head, no skip connection, norm or MLP) it is exact:

    .. math:: \|A_L \cdots A_l X_{l-1}\|_F \; \|W_{l+1} \cdots W_L\|_F,

    since the Jacobian is :math:`(W_{l+1}\cdots W_L)^\top \otimes (A_L\cdots A_l X_{l-1})`. The cost
    is :math:`O(L T^3)` at T = d, the memory :math:`O(T^2)`.

    Otherwise it is estimated: with v a standard normal Td-vector,
    :math:`\mathbb E\|J^\top v\|^2 = \|J\|_F^2`, and one backward pass gives :math:`J^\top v`. A
    pilot of 8 probes says how many it takes; the mean over as many fresh ones is an unbiased
    estimate of the *square* (a sample that misses `rtol` is extended, which moves it by far less
    than its error). The root of it is returned, with a standard error on the safe side: three of it
    hold at least as often as for a normal variable. Where a few directions of the weights carry
    most of the square, it is taken exactly on the span of the pilot, and sampled with fresh probes
    off it (Hutch++). Where nothing follows the last layer's attention (no MLP, no post-norm), the
    gradient of that layer is exact again, with a standard error of 0.

    Parameters
    ----------
    stack : AttentionStack
    x : array or tensor, shape (T, d)
        The tokens that enter.
    layer : int
        l, from 1 to L.
    log : bool
        Whether to return the natural logarithm (and its standard error). With fixed attention no
        depth overflows it; where attention is made from the tokens, the gradients themselves must
        lie within the range of the stack's numbers.
    rtol : float
        Probes are drawn until the standard error is at most this fraction of the norm.
    probes : int
        The most to draw, at least 8; a warning says where they did not suffice.
    rng : None, int or numpy.random.Generator, optional
        Source of the probes.

    Returns
    -------
    float, or `Estimate` where the attention depends on the tokens or the stack is not bare

    Raises
    ------
    TypeError
        An argument of the wrong kind.
    ValueError
        A number out of range; tokens of another shape, with NaN or infinity; a norm beyond the
        range of float64 (``log=True`` has it).

    Warns
    -----
    UserWarning
        The probes did not suffice.

    References
    ----------
    The Kronecker identity: derived in this course. Random probes: Hutchinson (1989); the split:
    Meyer, Musco, Musco and Woodruff (2021), *Hutch++: optimal stochastic trace estimation*.
    Gradients under rank collapse: Noci et al. (2022); Nait Saada, Naderi and Tanner (2025).

    Examples
    --------
    >>> stack = AttentionStack(2, 3, 3, attention="identity", value_init="identity")
    >>> round(value_gradient_norm(stack, [[1, 0, 0], [0, 1, 0], [0, 0, 1]], 1), 12)
    3.0
    """
    layers = [_layer(stack, layer)]
    return _value_norms(stack, x, layers, log=log, rtol=rtol, probes=probes, rng=rng)[0]


def value_gradient_norms(
    stack: AttentionStack,
    x: Array,
    *,
    log: bool = False,
    rtol: float = 0.03,
    probes: int = 1000,
    rng: RNG = None,
) -> list[float | Estimate]:
    r"""Return the norms of the gradients in the value weights of all layers, in one sweep.

    As `value_gradient_norm` for l = 1, ..., L, at the cost of little more than one of them:
    :math:`A_L\cdots A_l X_{l-1}` is :math:`A_L \cdots A_1 X_0` times :math:`W_1 \cdots W_{l-1}`, a
    first factor that all layers share, and a probe's backward pass meets all layers.

    Parameters
    ----------
    stack, x, log, rtol, probes, rng
        As in `value_gradient_norm`.

    Returns
    -------
    list of L floats or `Estimate`, that of layer l at place l - 1

    Examples
    --------
    >>> stack = AttentionStack(3, 8, 8, rng=1)
    >>> all_of_them = value_gradient_norms(stack, np.eye(8))
    >>> bool(np.isclose(all_of_them[1], value_gradient_norm(stack, np.eye(8), 2)))
    True
    """
    layers = list(range(1, _stack(stack).depth + 1))
    return _value_norms(stack, x, layers, log=log, rtol=rtol, probes=probes, rng=rng)


def query_key_gradient_norm(
    stack: AttentionStack,
    x: Array,
    layer: int,
    *,
    log: bool = False,
    rtol: float = 0.03,
    probes: int = 1000,
    rng: RNG = None,
) -> Estimate:
    r"""Return the norm of the gradient of the last tokens in one layer's query and key weights.

    .. math:: \left(\left\|\frac{\partial X_L}{\partial W_Q}\right\|_F^2 +
       \left\|\frac{\partial X_L}{\partial W_K}\right\|_F^2\right)^{1/2}

    It vanishes under rank collapse: where all tokens are alike, no weighting of them matters (Noci
    et al. 2022). It is estimated by probes, as in `value_gradient_norm`; weights that enter the
    logits at scale s have a gradient that grows like the root of s, so compare it at one s.

    Parameters
    ----------
    stack : AttentionStack
        With attention that depends on the tokens.
    x, layer, log, rtol, probes, rng
        As in `value_gradient_norm`.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        Fixed attention, which has neither queries nor keys; else as in `value_gradient_norm`.

    Examples
    --------
    >>> alike = np.ones((5, 6))
    >>> stack = AttentionStack(2, 5, 6, attention="softmax", rng=1)
    >>> bool(query_key_gradient_norm(stack, alike, 1, rng=2) < 1e-12)
    True
    """
    layers = [_layer(stack, layer)]
    return _query_key_norms(stack, x, layers, log=log, rtol=rtol, probes=probes, rng=rng)[0]


def query_key_gradient_norms(
    stack: AttentionStack,
    x: Array,
    *,
    log: bool = False,
    rtol: float = 0.03,
    probes: int = 1000,
    rng: RNG = None,
) -> list[Estimate]:
    r"""Return the norms of the gradients in the query and key weights of all layers, in one sweep.

    Parameters
    ----------
    stack, x, log, rtol, probes, rng
        As in `query_key_gradient_norm`.

    Returns
    -------
    list of L `Estimate`, that of layer l at place l - 1

    Examples
    --------
    >>> stack = AttentionStack(3, 8, 8, attention="softmax", rng=1)
    >>> len(query_key_gradient_norms(stack, np.eye(8), rng=2))
    3
    """
    layers = list(range(1, _stack(stack).depth + 1))
    return _query_key_norms(stack, x, layers, log=log, rtol=rtol, probes=probes, rng=rng)


_LEAST = 8  # probes
_PILOT = 8  # probes that say how many it takes
_PATIENCE = 40  # probes to sample, before the directions seen are taken exactly
_WIDEST = 64  # directions to take exactly, and probes to compare in pairs
_ENTRIES = 2**25  # of float64 that one batch of probes may take: 256 MB


def _value_norms(
    stack: AttentionStack, x: Array, layers: list[int], *, log: bool, **options: Any
) -> list[float | Estimate]:
    options = _options(**options)
    x = _tokens(stack, x)
    if stack.is_fixed and stack.is_bare and stack.heads == 1:
        logs = _exact(stack, x, layers)
        return [
            norm if log else _exp(norm, layer) for norm, layer in zip(logs, layers, strict=True)
        ]
    last = stack.mlp is None and (stack.norm is None or stack.norm_position == "pre")
    exact = [_last_layer(stack, x)] if last and layers[-1] == stack.depth else []
    rest = layers[: len(layers) - len(exact)]
    weights = stack.value_weights
    estimates = exact
    if rest:
        estimates = _probed(stack, x, rest, [[weights[k - 1]] for k in rest], **options) + exact
    return [_rescaled(norm, k, log) for norm, k in zip(estimates, layers, strict=True)]


def _query_key_norms(
    stack: AttentionStack, x: Array, layers: list[int], *, log: bool, **options: Any
) -> list[Estimate]:
    options = _options(**options)
    x = _tokens(stack, x)
    if stack.is_fixed:
        raise ValueError(
            f"stack must have attention that depends on the tokens, got {stack.attention!r}, which "
            "has neither queries nor keys; pass one with attention='softmax'"
        )
    weights = [[stack.query_weights[k - 1], stack.key_weights[k - 1]] for k in layers]
    estimates = _probed(stack, x, layers, weights, **options)
    return [_rescaled(norm, k, log) for norm, k in zip(estimates, layers, strict=True)]


@torch.no_grad()
def _exact(stack: AttentionStack, x: torch.Tensor, layers: list[int]) -> list[float]:
    """Return the logarithms of the exact norms, for layers that increase.

    Two chains of products, each kept at unit norm: from the left A_L ... A_1 X_0 W_1 ... W_(l-1),
    from the right W_(l+1) ... W_L.
    """
    weights = stack.value_weights
    right = {stack.depth: math.log(stack.dim) / 2}  # of the identity
    product, size = None, 0.0
    for k in range(stack.depth - 1, layers[0] - 1, -1):
        product, change = _unit(weights[k] if product is None else weights[k] @ product)
        size += change
        right[k] = size
    left, size = _unit(x)
    for matrix in stack.fixed_matrices:
        left, change = _unit(matrix @ left)
        size += change
    logs = []
    for k in range(1, layers[-1] + 1):
        if k > 1:
            left, change = _unit(left @ weights[k - 2])
            size += change
        if k in layers:
            logs.append(size + right[k])
    return logs


@torch.no_grad()
def _last_layer(stack: AttentionStack, x: torch.Tensor) -> Estimate:
    """Return the logarithm of the exact norm of the last layer, whose attention nothing follows.

    Head h makes its d/H columns from A_h N, with N the tokens it sees; the skip connection weighs
    them.
    """
    for k in range(1, stack.depth):
        x = stack.step(x, k)
    _, size = _unit(stack.matrix(x, stack.depth) @ stack._pre(x))
    columns = stack.dim // stack.heads
    return Estimate(size + math.log(columns) / 2 + math.log(stack.skip or 1.0))


def _unit(M: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return a tensor divided by its Frobenius norm, and the logarithm of that; zero stays."""
    norm = float(torch.linalg.vector_norm(M, dtype=torch.float64))
    if 1e-100 < norm < 1e100:
        return M / norm, math.log(norm)
    largest = float(M.abs().max())  # the squares left the range of float64
    if largest == 0:
        return M, -math.inf
    if not math.isfinite(largest):
        raise ValueError(
            "stack must have finite weights, got NaN or infinity in the product of some; draw "
            "them again"
        )
    M, rest = M / largest, math.log(largest)
    norm = float(torch.linalg.vector_norm(M, dtype=torch.float64))
    return M / norm, rest + math.log(norm)


def _probed(
    stack: AttentionStack,
    x: torch.Tensor,
    layers: list[int],
    weights: Sequence[list[torch.nn.Parameter]],
    *,
    rtol: float,
    probes: int,
    rng: np.random.Generator,
) -> list[Estimate]:
    """Return the logarithm of the norm in each set of weights, with its relative error.

    The graph is made once, from the first of the layers on; the backward passes are batched.
    """
    flat = [weight for group in weights for weight in group]
    frozen = [weight for weight in flat if not weight.requires_grad]
    try:
        for weight in frozen:
            weight.requires_grad_(True)
        with torch.inference_mode(False):
            X = x.clone()
            with torch.no_grad():
                for k in range(1, layers[0]):
                    X = stack.step(X, k)
            with torch.enable_grad():
                for k in range(layers[0], stack.depth + 1):
                    X = stack.step(X, k)
                most = 4 * stack.heads * stack.tokens**2 + sum(weight.numel() for weight in flat)
                at_once = min(max(_ENTRIES // most, 1), _PILOT)
                groups = [_Group(X, *pair) for pair in zip(weights, layers, strict=True)]
                return _draw(X, groups, at_once, rtol=rtol, probes=probes, rng=rng)
    finally:
        for weight in frozen:
            weight.requires_grad_(False)


class _Group:
    """The Jacobian J of X in one set of weights, and what is known of its squared norm.

    That is the square on a subspace of the weights, which is exact, and a sample of the square off
    it: ‖(1 - P) Jᵀv‖² for random v (Hutch++). All squares are in units of `scale` squared.
    """

    def __init__(self, X: torch.Tensor, weights: list[torch.nn.Parameter], layer: int) -> None:
        self.X, self.weights, self.layer = X, weights, layer
        self.basis = X.new_zeros((0, sum(weight.numel() for weight in weights)))  # rows
        self.scale = 0.0
        self.inside = 0.0
        self.restart()

    def restart(self) -> None:
        """Forget the squares off the subspace."""
        self.rows = self.basis[:0]
        self.squares: list[float] = []
        self.pilot = 0  # how many of the squares the estimate leaves out

    def add(self, gradients: Sequence[torch.Tensor]) -> None:
        """Take in a batch of products of the Jacobian's transpose with random vectors."""
        rows = torch.cat([gradient.flatten(1) for gradient in gradients], dim=1)
        if not torch.isfinite(rows).all():
            raise ValueError(
                f"the gradient of layer {self.layer} must lie within the range of {rows.dtype}, "
                "got NaN or infinity; take value_init='scaled', fewer layers, or "
                "dtype=torch.float64 if it is not that yet"
            )
        self.scale = self.scale or float(rows.abs().max())
        rows = rows / (self.scale or 1.0)
        rows = rows - (rows @ self.basis.T) @ self.basis
        self.squares += rows.square().sum(dim=1, dtype=torch.float64).tolist()
        self.rows = torch.cat([self.rows, rows[: _WIDEST - len(self.rows)]])

    def part(self, rtol: float) -> float:
        """Return the error of the norm, in units of rtol, if that off the subspace were 1."""
        mean = math.fsum(self.squares) / len(self.squares)
        return mean / (2 * rtol * (self.inside + mean)) if mean else 0.0

    def scatter(self, rtol: float) -> float:
        """Return the relative variance of one square.

        With M = JJᵀ a square has variance 2 ‖M‖², at most 2 (tr M)²: that of a single direction.
        Where little is left off the subspace, this will do. Elsewhere it is estimated: the square
        of an inner product of two rows has mean ‖M‖², and pairs tell more of it than the squares
        themselves do. What few rows may miss is allowed for by one standard deviation, from leaving
        out one at a time (jackknife).
        """
        part = self.part(rtol)
        if part == 0 or (len(self.basis) and 2 * _shape(part) <= _PATIENCE):
            return 2.0
        rows = self.rows.double()
        inner = (rows @ rows.T).cpu().numpy()
        inner = inner / inner.diagonal().max()
        n, squares = len(inner), inner.diagonal()
        others = (squares.sum() - squares) / (n - 1)
        if not (others**2).all():  # beside one square the others are nothing
            return 2.0
        pairs = (inner**2).sum(axis=1) - squares**2
        whole = 2 * pairs.sum() / (n * (n - 1)) / squares.mean() ** 2
        without = 2 * (pairs.sum() - 2 * pairs) / ((n - 1) * (n - 2)) / others**2
        return float(min(whole + math.sqrt(n - 1) * without.std(), 2.0))

    def needed(self, rtol: float) -> int:
        """Return how many probes the sample should have."""
        return math.ceil(self.scatter(rtol) * _shape(self.part(rtol)))

    def estimate(self, rtol: float, drawn: int) -> Estimate:
        """Return the logarithm of the norm, from what came after the pilot, with its error."""
        sample = self.squares[self.pilot :]
        square = self.inside + math.fsum(sample) / len(sample)
        if square == 0:
            return Estimate(-math.inf, 0.0, drawn)
        error = rtol * self.part(rtol) * _spread(len(sample) / self.scatter(rtol))
        rounding = math.sqrt(torch.finfo(self.X.dtype).eps)
        return Estimate(math.log(square) / 2 + math.log(self.scale), max(error, rounding), drawn)

    def deflate(self) -> None:
        """Move the directions seen into the subspace, and start the squares off it again."""
        known = len(self.basis)
        self.basis = torch.linalg.qr(torch.cat([self.basis, self.rows]).T)[0].T
        tangent = torch.zeros_like(self.X, requires_grad=True)
        pulled = torch.autograd.grad(
            self.X, self.weights, tangent, create_graph=True, materialize_grads=True
        )
        sizes = [weight.numel() for weight in self.weights]
        pieces = torch.split(self.basis[known:], sizes, dim=1)
        directions = [
            piece.reshape(-1, *weight.shape)
            for piece, weight in zip(pieces, self.weights, strict=True)
        ]
        (pushed,) = torch.autograd.grad(pulled, tangent, directions, is_grads_batched=True)
        self.inside += float((pushed / self.scale).square().sum(dtype=torch.float64))
        self.restart()


def _spread(shape: float) -> float:
    """Return the relative error of a mean of squares: a gamma variable, where these are normal.

    It is skew, and by chance low with an error in proportion. The error given is wide enough for
    three of it to hold as often as three standard deviations of a normal variable. The quantile is
    that of Wilson and Hilferty: right to 3 % from shape 8 on, too wide below.
    """
    root = 1 - 1 / (9 * shape) - 1 / math.sqrt(shape)
    return (root**-3 - 1) / 3 if root > 0 else math.inf


def _shape(part: float) -> float:
    """Return the shape at which the error is 1/part: the inverse of `_spread`."""
    gap = -math.expm1(-math.log1p(3 / part) / 3) if part else 1.0  # 1 - root, without cancellation
    gap = max(gap, 1e-9)  # beyond are more probes than anybody draws
    return ((math.sqrt(1 + 4 * gap / 9) + 1) / (2 * gap)) ** 2


def _draw(
    X: torch.Tensor,
    groups: Sequence[_Group],
    at_once: int,
    *,
    rtol: float,
    probes: int,
    rng: np.random.Generator,
) -> list[Estimate]:
    """Let pilot probes choose the subspaces and the number to sample; then sample fresh ones."""
    flat = [weight for group in groups for weight in group.weights]
    drawn = 0

    def draw(number: int) -> None:
        nonlocal drawn
        end = min(drawn + number, probes)
        while drawn < end:
            batch = min(at_once, end - drawn)
            normal = rng.standard_normal((batch, *X.shape))
            vectors = torch.tensor(normal, dtype=X.dtype, device=X.device)
            gradients = list(
                torch.autograd.grad(
                    X, flat, vectors,
                    retain_graph=True, is_grads_batched=True, materialize_grads=True,
                )
            )  # fmt: skip
            drawn += batch
            for group in groups:
                group.add([gradients.pop(0) for _ in group.weights])

    pilot = min(_PILOT, probes // 2)
    draw(pilot)
    while drawn + 2 * pilot <= probes:
        narrow = [
            group
            for group in groups
            if group.needed(rtol) > _PATIENCE and len(group.basis) + len(group.rows) <= _WIDEST
        ]
        if not narrow:
            break
        for group in narrow:
            group.deflate()
        draw(pilot)
    for group in groups:
        group.pilot = len(group.squares)
    number = max(pilot, *(5 * group.needed(rtol) // 4 for group in groups))  # seldom too few
    while True:
        draw(number)
        estimates = [group.estimate(rtol, drawn) for group in groups]
        error = max(estimate.standard_error for estimate in estimates)
        if error <= rtol:
            return estimates
        if drawn == probes:
            warnings.warn(
                f"{drawn} probes leave a relative standard error of {error:.2g}, above "
                f"rtol={rtol:g}; pass more probes or a larger rtol",
                stacklevel=5,
            )
            return estimates
        number = max(
            1, *(group.needed(rtol) + group.pilot - len(group.squares) for group in groups)
        )


def _rescaled(estimate: Estimate, layer: int, log: bool) -> Estimate:
    """Return what was asked for: the logarithm, or the norm itself."""
    if log:
        return estimate
    norm = _exp(estimate, layer)
    return Estimate(norm, norm * estimate.standard_error, estimate.probes)


def _exp(log: float, layer: int) -> float:
    if log > math.log(sys.float_info.max):
        raise ValueError(
            f"the gradient norm of layer {layer} must lie within the range of float64, got e to "
            f"the {log:.6g}; pass log=True for its logarithm"
        )
    return math.exp(log)


def _stack(stack: object) -> AttentionStack:
    if not isinstance(stack, AttentionStack):
        raise TypeError(
            f"stack must be a gapcourse.networks.AttentionStack, got {type(stack).__name__}; make "
            "one"
        )
    return stack


def _layer(stack: AttentionStack, layer: int) -> int:
    return _within_depth(layer, "layer", _stack(stack).depth)


def _tokens(stack: AttentionStack, x: Array) -> torch.Tensor:
    X = stack.enter(x).detach()
    if X.ndim != 2:
        raise ValueError(
            f"x must be one matrix of tokens, got shape {tuple(X.shape)}; pass one of a batch at a "
            "time"
        )
    return X


def _options(*, rtol: float, probes: int, rng: RNG) -> dict[str, Any]:
    return {
        "rtol": _checks.positive(rtol, "rtol", "pass a relative error, such as 0.03"),
        "probes": _checks.whole(probes, "probes", _LEAST),
        "rng": _checks.generator(rng),
    }
