"""Attention matrices and mean removal."""

import math
from typing import Any

import numpy as np
from scipy.special import expit

from . import _checks
from ._checks import Array

__all__ = ["attention_matrix", "mean_removed_attention", "remove_mean"]

_KINDS = ("softmax", "linear", "relu", "sigmoid")


def attention_matrix(
    queries: Array,
    keys: Array,
    *,
    kind: str = "softmax",
    scale: float | None = None,
    mask: Array | None = None,
) -> Array:
    r"""Return the attention matrix of queries and keys.

    .. math:: S &= \mathrm{scale}\; Q K^\top, \\
       A_{ij} &= \frac{e^{S_{ij}}}{\sum_m e^{S_{im}}} \text{ (softmax)} \\
       \text{or } A_{ij} &= \frac{f(S_{ij})}{n_i},

    with f(z) = z (linear), max(z, 0) (relu) or 1/(1 + exp(-z)) (sigmoid), and n_i the number of
    tokens that row i sees: n without a mask. The rows of softmax attention sum to 1; those of the
    others don't.

    Parameters
    ----------
    queries : array or tensor, shape (..., T, d_k)
        Q, one row for each token that asks.
    keys : array or tensor, shape (..., n, d_k)
        K, one row for each token that is asked; the leading dimensions broadcast with those of the
        queries.
    kind : {"softmax", "linear", "relu", "sigmoid"}
        The map from logits to attention.
    scale : float, optional
        Factor of the logits, finite; :math:`1/\sqrt{d_k}` unless given. With independent entries of
        mean 0 and variance 1 in Q and K, ``scale = s / math.sqrt(d_k)`` makes logits of standard
        deviation s.
    mask : boolean array or tensor, broadcastable to (..., T, n), optional
        True where a token (column) is visible to the row; every row sees at least one. The entries
        of hidden tokens are exactly 0.

    Returns
    -------
    array or tensor, shape (..., T, n)
        Of the kind, device and data type of the queries and keys (the wider type of the two, and
        float64 for whole numbers); gradients pass.

    Raises
    ------
    TypeError
        Complex numbers, strings, objects; a sparse tensor; an array beside a tensor; a kind that is
        no string; a mask that is not boolean.
    ValueError
        NaN or infinity; queries and keys that don't fit each other; an unknown kind; a scale that
        is not finite; logits beyond the range of the data type; a mask that does not fit, or hides
        all tokens from a row.

    References
    ----------
    Softmax attention at initialisation: Nait Saada, Naderi and Tanner (2025). ReLU attention:
    Wortsman et al. (2023). Sigmoid attention: Ramapuram et al. (2024).

    Examples
    --------
    >>> Q, K = [[0.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0]]
    >>> attention_matrix(Q, K, kind="relu", scale=1.0)
    array([[0., 0.],
           [1., 0.]])
    >>> attention_matrix(Q, K).sum(axis=1)
    array([1., 1.])
    """
    if not isinstance(kind, str):
        raise TypeError(
            f"kind must be one of {_KINDS}, got {_checks.shown(kind)} ({type(kind).__name__}); "
            "pick one of them"
        )
    if kind not in _KINDS:
        raise ValueError(
            f"kind must be one of {_KINDS}, got {_checks.shown(kind)}; pick one of them"
        )
    xp, logits = _logits(queries, keys, scale)
    visible = None if mask is None else _mask(xp, mask, logits, "logits")
    if kind == "softmax":
        if visible is not None:
            logits = xp.where(visible, logits, xp.full_like(logits, -math.inf))
        top = xp.max(logits, axis=-1, keepdims=True)  # it cancels: no gradient through it
        weights = xp.exp(logits - (top.detach() if _checks.is_torch(top) else top))
        return weights / xp.sum(weights, axis=-1, keepdims=True)
    if kind == "linear":
        values = logits
    elif kind == "relu":
        values = xp.where(logits > 0, logits, xp.zeros_like(logits))
    elif _checks.is_torch(logits):
        values = logits.sigmoid()
    else:
        values = expit(logits).astype(logits.dtype)
    if visible is None:
        return values / values.shape[-1]
    return xp.where(visible, values / _count(xp, visible, values), xp.zeros_like(values))


def _logits(queries: Array, keys: Array, scale: float | None) -> tuple[Any, Array]:
    """Return (array namespace, scale Q Kᵀ)."""
    if _checks.is_torch(queries) != _checks.is_torch(keys):
        kinds = ["a torch tensor" if _checks.is_torch(x) else "an array" for x in (queries, keys)]
        raise TypeError(
            f"queries and keys must be of one kind, got {kinds[0]} and {kinds[1]}; pass "
            "torch.from_numpy(...) of the array, or .numpy() of the tensor"
        )
    (xp, Q), (_, K) = _checks.matrix(queries, "queries"), _checks.matrix(keys, "keys")
    shapes = f"got shapes {tuple(Q.shape)} and {tuple(K.shape)}"
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError(
            f"queries and keys must have equally many columns, {shapes}; pass (..., T, d_k) and "
            "(..., n, d_k) with one d_k"
        )
    try:
        np.broadcast_shapes(tuple(Q.shape[:-2]), tuple(K.shape[:-2]))
    except ValueError:
        raise ValueError(
            f"queries and keys must broadcast in their leading dimensions, {shapes}; give them "
            "the same ones"
        ) from None
    if scale is None:
        scale = 1 / math.sqrt(Q.shape[-1])
    else:
        scale = float(_checks.within(scale, "scale", ndim=(0,), remedy="pass a finite number"))
    dtype = xp.result_type(Q.dtype, K.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        logits = (scale * xp.astype(Q, dtype)) @ xp.matrix_transpose(xp.astype(K, dtype))
    if not bool(xp.all(xp.isfinite(logits))):
        raise ValueError(
            f"queries and keys must give finite logits, got some beyond the range of {dtype}; pass "
            "smaller ones, or a smaller scale"
        )
    return xp, logits


def mean_removed_attention(
    q: Array, k: Array, v: Array, *, causal: bool = False, scale: float | None = None
) -> Array:
    r"""Return the output of softmax attention with its mean removed, on torch's fused attention.

    .. math:: A_\perp V &= A V - \mathbf 1\,\bar v^\top = A\,(V - \mathbf 1\,\bar v^\top), \\
       \bar v &= \tfrac1n \textstyle\sum_j v_j

    The fix is one subtraction of the values' mean, before the one pass of
    ``torch.nn.functional.scaled_dot_product_attention``: no T × T matrix is formed, where torch has
    a fused kernel (on the CPU, for values as wide as the queries). Gradients pass.

    With ``causal=True`` row i sees the tokens up to i and loses their mean,

    .. math:: \sum_{j\le i} A_{ij} v_j - \tfrac1i \textstyle\sum_{j\le i} v_j,

    that of ``remove_mean(A, mask)`` with the triangular mask: the mean over all tokens would leak
    the future. This analogue is another problem. The matrix subtracted, :math:`U_{ij} = 1/i`, has
    full rank and a norm near 2; it is not the outlier of a causal A, no identity of `remove_mean`
    holds, and the first row becomes 0.

    Parameters
    ----------
    q : tensor, shape (..., T, d_k)
        Queries. Leading dimensions (batch, heads) broadcast.
    k : tensor, shape (..., n, d_k)
        Keys; n = T if causal.
    v : tensor, shape (..., n, d_v)
        Values.
    causal : bool
        Whether a token sees only itself and those before it.
    scale : float, optional
        Factor of the logits, finite; :math:`1/\sqrt{d_k}` unless given.

    Returns
    -------
    tensor, shape (..., T, d_v)
        On the device of the three and of the widest of their data types; float64 for whole numbers.

    Raises
    ------
    TypeError
        Anything but dense real torch tensors: of a numpy array pass ``torch.from_numpy(...)``; a
        causal that is neither True nor False.
    ValueError
        NaN or infinity, shapes that don't fit each other, tensors on two devices, a scale that is
        not finite, logits or sums beyond the range of the data type.

    References
    ----------
    Nait Saada, Naderi and Tanner (2025), section 2.2, for mean removal; as one subtraction from the
    values, and the causal form: derived in this course.

    Examples
    --------
    >>> import torch
    >>> q = k = torch.zeros(2, 1)
    >>> v = torch.tensor([[1.0], [3.0]])
    >>> mean_removed_attention(q, k, v).tolist()
    [[0.0], [0.0]]
    """
    xp, (q, k, v) = _tensors(q=q, k=k, v=v)
    remedy = "masks are for attention_matrix and remove_mean"
    causal = _checks.flag(causal, "causal", remedy)
    if scale is not None:
        scale = float(_checks.within(scale, "scale", ndim=(0,), remedy="pass a finite number"))
    batch = _batch(q, k, v, causal=causal)
    dtype = xp.result_type(xp.result_type(q.dtype, k.dtype), v.dtype)
    # Fused kernels take (batch, heads, tokens, dim).
    fold = batch or (1,)
    q, k, v = (
        xp.astype(x, dtype).expand(*fold, *x.shape[-2:]).reshape(-1, fold[-1], *x.shape[-2:])
        for x in (q, k, v)
    )
    from torch.nn.functional import scaled_dot_product_attention

    if causal:
        wide = xp.float32 if xp.finfo(dtype).bits < 32 else dtype  # a sum can overflow half
        counts = xp.arange(1, v.shape[-2] + 1, dtype=wide, device=v.device)
        running = xp.astype(v.cumsum(-2, dtype=wide) / counts[:, None], dtype)
        out = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale) - running
    else:
        out = scaled_dot_product_attention(q, k, v - v.mean(-2, keepdim=True), scale=scale)
    if not bool(xp.isfinite(xp.max(xp.abs(out.detach())))):  # NaN is the largest of all
        raise ValueError(
            f"q, k and v must give finite logits and sums, got some beyond the range of {dtype}; "
            "pass smaller ones, or a smaller scale"
        )
    return out.reshape(*batch, *out.shape[-2:])


def _tensors(**inputs: Array) -> tuple[Any, list[Array]]:
    """Return (array namespace, real dense finite tensors on one device)."""
    for name, value in inputs.items():
        if not _checks.is_torch(value):
            raise TypeError(
                f"{name} must be a torch tensor, got {_checks.shown(value)} "
                f"({type(value).__name__}); pass torch.from_numpy({name}) of a numpy array (torch: "
                'pip install "gapcourse[torch]")'
            )
    xp, tensors = None, []
    for name, value in inputs.items():
        xp, tensor = _checks.matrix(value, name)
        tensors.append(tensor)
    devices = [str(x.device) for x in tensors]
    if len(set(devices)) > 1:
        raise ValueError(
            f"{', '.join(inputs)} must be on one device, got {', '.join(devices)}; move them with "
            ".to(device)"
        )
    return xp, tensors


def _batch(q: Array, k: Array, v: Array, *, causal: bool) -> tuple[int, ...]:
    """Return the common leading dimensions of queries, keys and values that fit each other."""
    shapes = f"got shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"q, k and v must be (..., T, d_k), (..., n, d_k) and (..., n, d_v), {shapes}; give q "
            "and k one width, k and v one length"
        )
    if causal and q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"q and k must have equally many tokens for causal attention, {shapes}; pass all "
            "queries, or causal=False"
        )
    try:
        return np.broadcast_shapes(*(tuple(x.shape[:-2]) for x in (q, k, v)))
    except ValueError:
        raise ValueError(
            f"q, k and v must broadcast in their leading dimensions, {shapes}; give them the same "
            "ones"
        ) from None


def remove_mean(A: Array, mask: Array | None = None, *, stochastic: bool = True) -> Array:
    r"""Remove the rank-one part that every row-stochastic matrix has.

    .. math:: A_\perp &= A\,(I - \tfrac1T \mathbf 1\mathbf 1^\top) \\
           &= A - \tfrac1T (A\mathbf 1) \mathbf 1^\top

    Each row loses its mean, which is 1/T. Exactly, for every row-stochastic A:
    :math:`AA^\top = ee^\top + A_\perp A_\perp^\top` with :math:`e = 1/\sqrt T`, and the eigenvalues
    of :math:`A_\perp` are those of A with one eigenvalue 1 replaced by 0.

    With a mask the mean is taken over the visible tokens of each row and removed from them; hidden
    entries stay 0. The identities above then fail: it is another problem.

    With ``stochastic=False`` the rows may be any, as those of linear, ReLU or sigmoid attention:
    each loses its own mean. Then :math:`AA^\top = mm^\top + A_\perp A_\perp^\top` with
    :math:`m = A\mathbf 1/\sqrt T`; the statement on eigenvalues fails.

    Parameters
    ----------
    A : array or tensor, shape (..., T, T)
        Row-stochastic: entries at least 0, each row with sum 1, within the square root of the
        precision of the data type (1.5e-8 for float64, 3.5e-4 for float32).
    mask : boolean array or tensor, broadcastable to A, optional
        True where a token (column) is visible to the row; every row sees at least one.
    stochastic : bool
        Whether to refuse rows that are not stochastic.

    Returns
    -------
    array or tensor, shape (..., T, T)
        Of the kind and data type of A; whole numbers become float64.

    Raises
    ------
    TypeError
        Complex numbers, strings, objects; a sparse tensor; a mask that is not boolean.
    ValueError
        Rows that are not stochastic (unless ``stochastic=False``), NaN or infinity, not a square
        matrix, a mask that does not fit, a row that sees nothing, weight on hidden tokens.

    References
    ----------
    Nait Saada, Naderi and Tanner (2025), section 2.2.

    Examples
    --------
    >>> remove_mean([[0.5, 0.5], [1.0, 0.0]])
    array([[ 0. ,  0. ],
           [ 0.5, -0.5]])
    >>> remove_mean([[3.0, 1.0], [-2.0, 0.0]], stochastic=False)
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    xp, A = _checks.matrix(A, "A", square=True)
    tolerance = float(xp.finfo(A.dtype).eps) ** 0.5
    sums = xp.sum(A, axis=-1, keepdims=True)
    if _checks.flag(stochastic, "stochastic"):
        _check_rows(xp, A, sums, tolerance)
    else:
        tolerance *= _checks.scalar(xp.max(xp.abs(A)))
    if mask is None:
        return A - sums / A.shape[-1]
    visible = _mask(xp, mask, A, "A")
    hidden_weight = _checks.scalar(xp.max(xp.where(visible, xp.zeros_like(A), xp.abs(A))))
    if hidden_weight > tolerance:
        raise ValueError(
            f"A must be 0 where mask is False, got an entry of {hidden_weight:.3g} there; apply "
            "the mask before the softmax"
        )
    return xp.where(visible, A - sums / _count(xp, visible, A), xp.zeros_like(A))


def _check_rows(xp: Any, A: Array, sums: Array, tolerance: float) -> None:
    """Refuse rows that are not stochastic."""
    error = _checks.scalar(xp.max(xp.abs(sums - 1)))
    if error > tolerance:
        raise ValueError(
            f"A must have rows with sum 1, within {tolerance:.1e}, got a sum off by {error:.3g}; "
            "divide each row by its sum, or pass stochastic=False to take any rows"
        )
    least = _checks.scalar(xp.min(A))
    if least < -tolerance:
        raise ValueError(
            f"A must have entries of at least 0, got {least:.3g}; pass the attention matrix "
            "itself, before anything is subtracted, or stochastic=False to take any rows"
        )


def _count(xp: Any, visible: Array, A: Array) -> Array:
    """Return how many tokens each row sees, as a column of A's data type."""
    return xp.sum(xp.astype(visible, A.dtype), axis=-1, keepdims=True)


def _mask(xp: Any, mask: Array, A: Array, name: str) -> Array:
    """Return the mask as a boolean array of A's kind and shape."""
    if _checks.is_torch(mask) and not _checks.is_torch(A):
        raise TypeError(
            f"mask must be of the kind of {name}, got a torch tensor with a numpy {name}; pass "
            "mask.numpy()"
        )
    visible = (
        _checks.dense(mask, "mask") if _checks.is_torch(mask) else _checks.rectangular(mask, "mask")
    )
    if str(visible.dtype) not in ("bool", "torch.bool"):
        raise TypeError(
            f"mask must be boolean, True where a token is visible, got {visible.dtype}; "
            "pass mask.astype(bool), or mask == 0 for an additive one"
        )
    if _checks.is_torch(A):
        visible = xp.asarray(visible, device=A.device)
    try:
        visible = xp.broadcast_to(visible, A.shape)
    except (ValueError, RuntimeError):
        raise ValueError(
            f"mask must fit {name} of shape {tuple(A.shape)}, got shape {tuple(visible.shape)}; "
            f"pass one of shape {tuple(A.shape[-2:])}"
        ) from None
    if not bool(xp.all(xp.any(visible, axis=-1))):
        raise ValueError(
            "mask must let every row see a token, got a row of False only; unmask its diagonal"
        )
    return visible
