"""Stacks of attention layers at initialisation.

The module needs torch. `AttentionStack` draws every matrix from one ``rng``;
`CONFIGURATIONS` names the stacks that the paper's experiments compare.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _checks, ensembles
from . import attention as attentions
from ._checks import RNG, Array

try:
    import torch
except ImportError as error:
    raise ImportError(
        'gapcourse.networks needs torch, which is missing; pip install "gapcourse[torch]"'
    ) from error

__all__ = ["AttentionStack", "CONFIGURATIONS"]  # noqa: RUF022


class AttentionStack(torch.nn.Module):
    r"""A stack of attention layers, freshly drawn.

    With no skip connection, norm or MLP and one head, layer l does

    .. math:: X_l = A_l X_{l-1} W_l, \qquad l = 1, \dots, L,

    on the T × d matrix of tokens (a row each). The value weights :math:`W_l` (d × d) have
    independent N(0, 1) entries, not scaled, unless asked otherwise. The attention matrix
    :math:`A_l` is fixed (a random Markov matrix, or the identity), or depends on the tokens through
    queries :math:`Q = X_{l-1} W_Q` and keys :math:`K = X_{l-1} W_K`, as
    `gapcourse.attention.attention_matrix` says.

    In general a layer is one block, or two where there is an MLP; B is what the block does to the
    tokens, and a the weight of its skip connection:

    ============= ==================================== ==============================
    norm          without skip                         with skip
    ============= ==================================== ==============================
    none          B(X)                                 X + a B(X)
    pre           B(norm(X))                           X + a B(norm(X))
    post          norm(B(X))                           norm(X + a B(X))
    ============= ==================================== ==============================

    Parameters
    ----------
    depth : int
        L, the number of layers, at least 1.
    tokens, dim : int
        T and d, at least 1; T may exceed d.
    attention : {"markov", "identity", "softmax", "linear", "relu", "sigmoid"}
        The first two are fixed, the others depend on the tokens.
    entries, sigma, alpha : optional
        The ensemble of Markov attention, as `gapcourse.ensembles.random_markov` takes them:
        log-normal with sigma = 1 unless given.
    logit_std : float or "xavier", optional
        s, 1 unless given: the entries of :math:`W_Q` and of :math:`W_K` have variance s, so that
        on isometric tokens a logit has standard deviation s. ``"xavier"`` takes
        s = 2/(d + d_k): on isometric tokens its logits vanish as d grows.
    heads : int
        H, the number of heads, which must divide d: head h, with an attention matrix of its own,
        makes the h-th group of d/H columns. There is no output projection.
    head_dim : int, optional
        :math:`d_k`, the size of a query or a key; d/H unless given.
    mask : "causal" or boolean array, shape (T, T), optional
        True where a token (column) is visible to the row; every row sees at least one. Fixed
        Markov attention keeps the visible raw entries.
    window : int, optional
        Each row sees only tokens fewer than this many places away, and of these those that the mask
        shows.
    mean_removal : bool
        Whether each row of the attention matrix loses its mean over the visible tokens, as
        `gapcourse.attention.remove_mean` does it: a causal mask makes it the running mean.
    value_init : str or float
        Law of the value weights: ``"gaussian"`` (variance 1), a number (Gaussian of that standard
        deviation), ``"scaled"`` (variance 1/d), ``"xavier"`` (uniform, variance 1/d), ``"he"``
        (variance 2/d), ``"orthogonal"`` (Haar) or ``"identity"``.
    skip : bool, float or str
        True for a = 1, a number above 0 for a, ``"1/sqrt(depth)"`` or ``"1/sqrt(dim)"``.
    norm : {None, "layer", "rms"}
        Norm of each token, without parameters of its own.
    norm_position : {"pre", "post"}
        See the table.
    norm_eps : float
        Added to the variance (layer) or the mean square (rms) before the root is taken.
    mlp : int, optional
        Hidden width h of an MLP behind each attention block, :math:`\phi(XV_1)V_2` with Gaussian
        entries of variance 2/d (1/d for tanh and identity) and 1/h.
    activation : {"relu", "gelu", "tanh", "identity"}
        :math:`\phi`.
    dtype : torch.dtype, optional
        ``torch.float64`` unless given, or ``torch.float32``.
    device : str or torch.device, optional
        Where it computes.
    rng : None, int or numpy.random.Generator, optional
        Source of randomness; the same int gives the same stack on every device. Layer by layer, the
        draws don't depend on mask, mean removal, skip or norm, nor on the number of layers to come.

    Raises
    ------
    TypeError
        An argument of the wrong kind.
    ValueError
        A number out of range, an unknown name, an argument that this attention has no use for, a
        mask that does not fit or hides all tokens from a row. At a call: tokens of another shape,
        NaN or infinity in them, a layer whose tokens leave the range of the data type.

    References
    ----------
    Nait Saada, Naderi and Tanner (2025) for the model, mean removal and unscaled values. Dong,
    Cordonnier and Loukas (2021), Noci et al. (2022) for rank collapse with skips and norms.

    Examples
    --------
    >>> from gapcourse.ensembles import isometric_input
    >>> stack = AttentionStack(3, 20, 30, attention="softmax", rng=1)
    >>> x = isometric_input(20, 30, rng=2)
    >>> stack(x).shape
    torch.Size([20, 30])
    >>> len(stack.trace(x)), len(stack.attention_matrices(x)), len(stack.value_weights)
    (4, 3, 3)
    """

    def __init__(
        self,
        depth: int,
        tokens: int,
        dim: int,
        *,
        attention: str = "markov",
        entries: str | None = None,
        sigma: float | None = None,
        alpha: float | None = None,
        logit_std: float | str | None = None,
        heads: int = 1,
        head_dim: int | None = None,
        mask: Array | str | None = None,
        window: int | None = None,
        mean_removal: bool = False,
        value_init: str | float = "gaussian",
        skip: bool | float | str = False,
        norm: str | None = None,
        norm_position: str = "pre",
        norm_eps: float = 1e-5,
        mlp: int | None = None,
        activation: str = "relu",
        dtype: torch.dtype | None = None,
        device: str | torch.device | None = None,
        rng: RNG = None,
    ) -> None:
        super().__init__()
        self.depth = _checks.whole(depth, "depth")
        self.tokens, self.dim = _checks.whole(tokens, "tokens"), _checks.whole(dim, "dim")
        self.attention = _one_of(attention, "attention", (*_FIXED, *_DEPENDENT))
        self.heads = _checks.whole(heads, "heads")
        if self.dim % self.heads:
            raise ValueError(
                f"heads must divide dim, got heads={heads}, dim={dim}; take a divisor of {dim}"
            )
        unused = {"entries": entries, "sigma": sigma, "alpha": alpha}
        if self.attention == "markov":
            unused = {}
        if self.is_fixed:
            unused |= {"logit_std": logit_std, "head_dim": head_dim}
        for name, value in unused.items():
            if value is not None:
                raise ValueError(
                    f"{name} must be left out for attention={attention!r}, got "
                    f"{_checks.shown(value)}: it has no use there; leave it out"
                )
        self.head_dim = (
            self.dim // self.heads if head_dim is None else _checks.whole(head_dim, "head_dim")
        )
        self.logit_std = _logit_std(logit_std, self.dim, self.head_dim)
        self.mean_removal = _checks.flag(mean_removal, "mean_removal")
        self.skip = _skip(skip, self.depth, self.dim)
        self.norm = None if norm is None else _one_of(norm, "norm", ("layer", "rms"))
        self.norm_position = _one_of(norm_position, "norm_position", ("pre", "post"))
        self.norm_eps = float(
            _checks.within(norm_eps, "norm_eps", 0, ndim=(0,), remedy="pass 0 or more")
        )
        self.mlp = None if mlp is None else _checks.whole(mlp, "mlp")
        self.activation = _one_of(activation, "activation", tuple(_ACTIVATIONS))
        place = _place(dtype, device)
        visible = _visible(mask, window, self.tokens)
        self.visible: torch.Tensor | None
        self.register_buffer("visible", None if visible is None else torch.from_numpy(visible))
        generator = _checks.generator(rng)
        recipe = {"entries": entries or "lognormal", "sigma": sigma, "alpha": alpha}
        self.layers = torch.nn.ModuleList(
            _Layer(self, value_init, visible, recipe, generator) for _ in range(self.depth)
        )
        self.to(device=place[1], dtype=place[0])

    @property
    def is_fixed(self) -> bool:
        """Whether the attention matrices don't depend on the tokens."""
        return self.attention in _FIXED

    @property
    def is_bare(self) -> bool:
        """Whether there is no skip connection, norm or MLP."""
        return self.skip is None and self.norm is None and self.mlp is None

    @property
    def value_weights(self) -> list[torch.nn.Parameter]:
        r"""The parameters :math:`W_1, \dots, W_L`, each of shape (d, d), used as X W."""
        return [layer.value for layer in self._drawn]

    @property
    def query_weights(self) -> list[torch.nn.Parameter]:
        """The parameters W_Q of each layer, of shape (d, H d_k); none for fixed attention."""
        return [] if self.is_fixed else [layer.query for layer in self._drawn]

    @property
    def key_weights(self) -> list[torch.nn.Parameter]:
        """The parameters W_K of each layer, of shape (d, H d_k); none for fixed attention."""
        return [] if self.is_fixed else [layer.key for layer in self._drawn]

    @property
    def fixed_matrices(self) -> list[torch.Tensor]:
        """The matrices of fixed attention, as applied, of shape (T, T) or (H, T, T); else none."""
        return [layer.matrix for layer in self._drawn] if self.is_fixed else []

    @property
    def _drawn(self) -> list[_Layer]:
        return list(self.layers)  # type: ignore[arg-type]

    def forward(self, x: Array) -> torch.Tensor:
        r"""Return the tokens of the last layer, :math:`X_L`, with gradients.

        Parameters
        ----------
        x : array or tensor, shape (..., T, d)
            The tokens that enter, one a row; brought to the stack's data type and device.

        Returns
        -------
        tensor, shape (..., T, d)
        """
        X = self.enter(x)
        for layer in range(1, self.depth + 1):
            X = self.step(X, layer)
        return X

    @torch.no_grad()
    def trace(self, x: Array, *, unit: bool = False) -> list[torch.Tensor]:
        r"""Return the tokens of all layers, :math:`X_0, \dots, X_L`, without gradients.

        Parameters
        ----------
        x : array or tensor, shape (..., T, d)
        unit : bool
            Whether to divide each :math:`X_l` by its Frobenius norm. The stable rank and its kin
            don't see it, and no depth overflows. Only for fixed attention without norm or MLP or
            skip, where the layers don't see it either.

        Returns
        -------
        list of L + 1 tensors, shape (..., T, d)
        """
        if unit and not (self.is_fixed and self.is_bare):
            raise ValueError(
                "unit must be False unless the stack is linear in the tokens (fixed attention, no "
                "skip, norm or MLP), got True; leave it out"
            )
        tokens = [_unit(self.enter(x)) if unit else self.enter(x)]
        for layer in range(1, self.depth + 1):
            X = self.step(tokens[-1], layer)
            tokens.append(_unit(X) if unit else X)
        return tokens

    @torch.no_grad()
    def attention_matrices(self, x: Array) -> list[torch.Tensor]:
        r"""Return the attention matrices as applied, after mean removal, without gradients.

        Parameters
        ----------
        x : array or tensor, shape (..., T, d)
            The tokens that enter the stack; fixed attention is the same for all.

        Returns
        -------
        list of L tensors, shape (..., T, T) for one head, (..., H, T, T) for more
        """
        X, matrices = self.enter(x), []
        for layer in range(1, self.depth + 1):
            matrices.append(self.matrix(X, layer))
            if layer < self.depth and not self.is_fixed:
                X = self.step(X, layer)
        return matrices

    def truncated(self, depth: int) -> AttentionStack:
        """Return the stack of the first layers, which shares their weights with this one.

        Parameters
        ----------
        depth : int
            How many, from 1 to the depth of this stack.

        Examples
        --------
        >>> stack = AttentionStack(3, 4, 4, rng=1)
        >>> stack.truncated(2).value_weights[1] is stack.value_weights[1]
        True
        """
        shorter = copy.copy(self)
        shorter.depth = _within_depth(depth, "depth", self.depth)
        shorter._modules = {"layers": self.layers[: shorter.depth]}
        return shorter

    def enter(self, x: Array) -> torch.Tensor:
        """Return tokens as a tensor of the stack's data type and device, after checking them."""
        X = torch.as_tensor(_checks.matrix(x, "x")[1])
        if X.shape[-2:] != (self.tokens, self.dim):
            raise ValueError(
                f"x must have shape (..., {self.tokens}, {self.dim}) for tokens={self.tokens}, "
                f"dim={self.dim}, got {tuple(X.shape)}; pass one row for each token"
            )
        weight = self._drawn[0].value
        return X.to(device=weight.device, dtype=weight.dtype)

    def step(self, X: torch.Tensor, layer: int) -> torch.Tensor:
        """Return the tokens that a layer, counted from 1, makes of those before it.

        Parameters
        ----------
        X : tensor, shape (..., T, d)
        layer : int
            From 1 to L.
        """
        weights = self._drawn[_within_depth(layer, "layer", self.depth) - 1]
        X = self._block(X, lambda Y: self._attend(Y, layer))
        if self.mlp is not None:
            phi = _ACTIVATIONS[self.activation][0]
            X = self._block(X, lambda Y: phi(Y @ weights.mlp_in) @ weights.mlp_out)
        if not torch.isfinite(X).all():
            raise ValueError(
                f"layer {layer} must keep its tokens within the range of {X.dtype}, got NaN or "
                f"infinity; {_REMEDY}"
            )
        return X

    def matrix(self, X: torch.Tensor, layer: int) -> torch.Tensor:
        """Return the attention matrix that a layer, counted from 1, applies to its tokens.

        Parameters
        ----------
        X : tensor, shape (..., T, d)
            The tokens of the layer before, not yet normalised.
        layer : int
            From 1 to L.
        """
        return self._matrix(self._pre(X), _within_depth(layer, "layer", self.depth))

    def _block(self, X: torch.Tensor, branch: Any) -> torch.Tensor:
        Y: torch.Tensor = branch(self._pre(X))
        if self.skip is not None:
            Y = X + self.skip * Y
        return self._normalised(Y) if self.norm_position == "post" else Y

    def _pre(self, X: torch.Tensor) -> torch.Tensor:
        return self._normalised(X) if self.norm_position == "pre" else X

    def _normalised(self, X: torch.Tensor) -> torch.Tensor:
        if self.norm is None:
            return X
        if self.norm == "layer":
            X = X - X.mean(dim=-1, keepdim=True)
        size = X.detach().abs().amax(dim=-1, keepdim=True).clamp(min=1)  # large tokens: no overflow
        X = X / size
        return X / torch.sqrt((X * X).mean(dim=-1, keepdim=True) + self.norm_eps / size**2)

    def _attend(self, X: torch.Tensor, layer: int) -> torch.Tensor:
        """Return A X W, head by head."""
        A, V = self._matrix(X, layer), X @ self._drawn[layer - 1].value
        return A @ V if self.heads == 1 else _join(A @ _split(V, self.heads))

    def _matrix(self, X: torch.Tensor, layer: int) -> torch.Tensor:
        weights = self._drawn[layer - 1]
        if self.is_fixed:
            return weights.matrix
        Q, K = X @ weights.query, X @ weights.key
        if self.heads > 1:
            Q, K = _split(Q, self.heads), _split(K, self.heads)
        visible = self.visible
        try:
            if self.mean_removal:
                return _mean_removed(Q, K, self.attention, visible)
            A: torch.Tensor = attentions.attention_matrix(Q, K, kind=self.attention, mask=visible)
            return A
        except ValueError as error:
            raise ValueError(
                f"layer {layer} must keep its logits within the range of {X.dtype}, got NaN or "
                f"infinity; {_REMEDY}"
            ) from error

    def extra_repr(self) -> str:
        """Return the sizes, for torch's printed form."""
        return (
            f"depth={self.depth}, tokens={self.tokens}, dim={self.dim}, "
            f"attention={self.attention!r}, mean_removal={self.mean_removal}"
        )


class _Layer(torch.nn.Module):
    """The matrices of one layer, drawn; the stack applies them."""

    matrix: torch.Tensor
    query: torch.nn.Parameter
    key: torch.nn.Parameter
    value: torch.nn.Parameter
    mlp_in: torch.nn.Parameter
    mlp_out: torch.nn.Parameter

    def __init__(
        self,
        stack: AttentionStack,
        value_init: str | float,
        visible: Any,
        recipe: Mapping[str, Any],
        rng: np.random.Generator,
    ) -> None:
        super().__init__()
        T, d = stack.tokens, stack.dim
        if stack.is_fixed:
            A = [_fixed(stack.attention, T, visible, recipe, rng) for _ in range(stack.heads)]
            if stack.mean_removal:
                A = [attentions.remove_mean(one, visible) for one in A]
            self.register_buffer("matrix", torch.from_numpy(A[0] if len(A) == 1 else np.stack(A)))
        else:
            shape, std = (d, stack.heads * stack.head_dim), math.sqrt(stack.logit_std)
            self.query = _parameter(std * rng.standard_normal(shape))
            self.key = _parameter(std * rng.standard_normal(shape))
        self.value = _parameter(_value(value_init, d, rng))
        if stack.mlp is not None:
            gain, h = _ACTIVATIONS[stack.activation][1], stack.mlp
            self.mlp_in = _parameter(math.sqrt(gain / d) * rng.standard_normal((d, h)))
            self.mlp_out = _parameter(math.sqrt(1 / h) * rng.standard_normal((h, d)))


_FIXED = ("markov", "identity")
_DEPENDENT = ("softmax", "linear", "relu", "sigmoid")
_SKIPS = ("1/sqrt(depth)", "1/sqrt(dim)")
_ACTIVATIONS: dict[str, tuple[Any, float]] = {  # with d times the variance of the first weights
    "relu": (torch.relu, 2.0),
    "gelu": (torch.nn.functional.gelu, 2.0),
    "tanh": (torch.tanh, 1.0),
    "identity": (lambda X: X, 1.0),
}
_VALUES: dict[str, Any] = {  # each draws a (d, d) matrix
    "gaussian": lambda d, rng: rng.standard_normal((d, d)),
    "scaled": lambda d, rng: rng.standard_normal((d, d)) / math.sqrt(d),
    "xavier": lambda d, rng: rng.uniform(-1, 1, (d, d)) * math.sqrt(3 / d),
    "he": lambda d, rng: rng.standard_normal((d, d)) * math.sqrt(2 / d),
    "orthogonal": lambda d, rng: ensembles.isometric_input(d, d, rng=rng),
    "identity": lambda d, rng: np.eye(d),
}
_REMEDY = (
    "take value_init='scaled', a norm, fewer layers, smaller tokens, or dtype=torch.float64 if it "
    "is not that yet"
)
_BLOCKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "LN": {"norm": "layer", "norm_position": "post"},
    "skip": {"skip": True},
    "upscaled skip": {"skip": "1/sqrt(dim)"},
    "skip + LN": {"skip": True, "norm": "layer", "norm_position": "post"},
    "upscaled skip + LN": {"skip": "1/sqrt(dim)", "norm": "layer", "norm_position": "post"},
}
_KINDS: dict[str, dict[str, Any]] = {
    "markov": {"attention": "markov"},
    "softmax": {"attention": "softmax", "logit_std": "xavier"},
}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    f"{kind}, {block}{', mean removed' if removed else ''}": {
        **_KINDS[kind],
        **_BLOCKS[block],
        "mean_removal": removed,
    }
    for kind in _KINDS
    for block in _BLOCKS
    for removed in (False, True)
} | {"identity": {"attention": "identity"}}
"""Keyword arguments of `AttentionStack`, by name, for the 24 published configurations and identity
attention: ``AttentionStack(10, 150, 150, **CONFIGURATIONS["markov, skip + LN, mean removed"])``.

Fixed Markov attention, or softmax attention with Xavier keys and queries; plain, LayerNorm, skip,
upscaled skip (the attention branch times 1/sqrt(d)), and both; plain or with the mean removed. Nait
Saada, Naderi and Tanner (2025), public experiment code.
"""


def _split(X: torch.Tensor, heads: int) -> torch.Tensor:
    """Turn (..., T, H k) into (..., H, T, k)."""
    return X.reshape(*X.shape[:-1], heads, -1).transpose(-3, -2)


def _join(X: torch.Tensor) -> torch.Tensor:
    """Turn (..., H, T, k) into (..., T, H k)."""
    return X.transpose(-3, -2).flatten(-2)


def _mean_removed(
    Q: torch.Tensor, K: torch.Tensor, kind: str, visible: torch.Tensor | None
) -> torch.Tensor:
    """Return the attention matrix with each row's mean removed, without cancellation.

    Logits that die out leave A close to uniform, and A minus its mean to rounding errors. The map
    from logits to weights is therefore taken minus its value at 0, which the mean removes anyway.
    """
    logits = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
    if not torch.isfinite(logits).all():
        raise ValueError("logits must be finite")

    def shown(M: torch.Tensor, other: float = 0.0) -> torch.Tensor:
        return M if visible is None else torch.where(visible, M, other)

    if kind == "softmax":
        top = shown(logits.detach(), -math.inf).amax(dim=-1, keepdim=True)  # it cancels
        f = torch.expm1(shown(logits - top))
    elif kind == "sigmoid":
        f = shown(torch.tanh(logits / 2) / 2)
    else:
        f = shown(torch.relu(logits) if kind == "relu" else logits)
    seen = logits.shape[-1] if visible is None else visible.sum(dim=-1, keepdim=True)
    total = f.sum(dim=-1, keepdim=True)
    return shown(f - total / seen) / (seen + total if kind == "softmax" else seen)


def _unit(X: torch.Tensor) -> torch.Tensor:
    """Divide each matrix by its Frobenius norm; a zero matrix stays."""
    size = X.abs().amax(dim=(-2, -1), keepdim=True)
    X = X / torch.where(size > 0, size, torch.ones_like(size))
    norm = torch.linalg.matrix_norm(X, keepdim=True)
    return X / torch.where(norm > 0, norm, torch.ones_like(norm))


def _parameter(values: Any) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.from_numpy(values))


def _fixed(
    kind: str, T: int, visible: Any, recipe: Mapping[str, Any], rng: np.random.Generator
) -> Any:
    """Draw one fixed attention matrix; hidden raw entries are 0, an empty row is drawn again."""
    if kind == "identity":
        if visible is not None and not visible.diagonal().all():
            raise ValueError(
                "mask must show each token itself to attention='identity', got False on the "
                "diagonal; unmask its diagonal"
            )
        return np.eye(T)
    A = ensembles.random_markov(T, rng=rng, **recipe)
    if visible is None:
        return A
    A = np.where(visible, A, 0.0)
    for row in np.flatnonzero(A.sum(axis=1) == 0):  # a row of n visible tokens has one law
        seen = np.flatnonzero(visible[row])
        A[row, seen] = ensembles.random_markov(len(seen), rng=rng, **recipe)[0]
    return A / A.sum(axis=1, keepdims=True)


def _value(value_init: str | float, d: int, rng: np.random.Generator) -> Any:
    if isinstance(value_init, str):
        return _VALUES[_one_of(value_init, "value_init", tuple(_VALUES))](d, rng)
    remedy = f"pass a standard deviation above 0, or one of {tuple(_VALUES)}"
    return _checks.positive(value_init, "value_init", remedy) * rng.standard_normal((d, d))


def _one_of(value: object, name: str, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(
            f"{name} must be one of {allowed}, got {_checks.shown(value)} "
            f"({type(value).__name__}); pick one of them"
        )
    if value not in allowed:
        raise ValueError(
            f"{name} must be one of {allowed}, got {_checks.shown(value)}; pick one of them"
        )
    return value


def _logit_std(logit_std: float | str | None, dim: int, head_dim: int) -> float:
    if logit_std is None:
        return 1.0
    if isinstance(logit_std, str):
        _one_of(logit_std, "logit_std", ("xavier",))
        return 2 / (dim + head_dim)
    remedy = "pass the standard deviation of a logit, such as 1.0, or 'xavier'"
    return _checks.positive(logit_std, "logit_std", remedy)


def _skip(skip: bool | float | str, depth: int, dim: int) -> float | None:
    """Return the weight of the branch, or None where there is no skip connection."""
    if isinstance(skip, bool | np.bool_):
        return 1.0 if skip else None
    if isinstance(skip, str):
        _one_of(skip, "skip", _SKIPS)
        return 1 / math.sqrt(depth if skip == "1/sqrt(depth)" else dim)
    return _checks.positive(skip, "skip", f"pass True, False, a number above 0, or one of {_SKIPS}")


def _place(
    dtype: torch.dtype | None, device: str | torch.device | None
) -> tuple[torch.dtype, torch.device]:
    dtype = torch.float64 if dtype is None else dtype
    if dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"dtype must be torch.float32 or torch.float64, got {_checks.shown(dtype)}; pass one "
            "of them"
        )
    try:
        where = torch.empty(0, device="cpu" if device is None else device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(
            f"device must be one that torch can use here, got {_checks.shown(device)}; pass 'cpu', "
            "or 'cuda' where there is a GPU"
        ) from error
    return dtype, where


def _visible(mask: Array | str | None, window: int | None, T: int) -> Any:
    """Return which token (column) each row sees, or None where all see all."""
    if mask is None and window is None:
        return None
    offsets = np.subtract.outer(np.arange(T), np.arange(T))
    visible = np.ones((T, T), dtype=bool)
    if window is not None:
        visible &= np.abs(offsets) < _checks.whole(window, "window")
    if isinstance(mask, str):
        _one_of(mask, "mask", ("causal",))
        visible &= offsets >= 0
    elif mask is not None:
        given = (
            _checks.dense(mask, "mask").cpu().numpy()
            if _checks.is_torch(mask)
            else _checks.rectangular(mask, "mask")
        )
        if given.dtype != bool:
            raise TypeError(
                "mask must be 'causal' or boolean, True where a token is visible, got "
                f"{given.dtype}; pass mask.astype(bool), or mask == 0 for an additive one"
            )
        if given.shape != (T, T):
            raise ValueError(
                f"mask must have shape ({T}, {T}) for tokens={T}, got {given.shape}; pass one row "
                "for each token"
            )
        visible &= given
    if not visible.any(axis=1).all():
        row = int(np.argmin(visible.any(axis=1)))
        raise ValueError(
            f"mask must let every row see a token, got a row of False only (row {row}, counted "
            "from 0, after the window); unmask its diagonal"
        )
    return visible


def _within_depth(value: object, name: str, depth: int) -> int:
    number = _checks.whole(value, name)
    if number > depth:
        raise ValueError(
            f"{name} must be at most the stack's depth, {depth}, got {number}; layers count from 1"
        )
    return number
