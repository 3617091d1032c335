"""Attention matrices and mean removal."""

from typing import Any

from . import _checks
from ._checks import Array

__all__ = ["remove_mean"]


def remove_mean(A: Array, mask: Array | None = None) -> Array:
    r"""Remove the rank-one part that every row-stochastic matrix has.

    .. math:: A_\perp = A\,(I - \tfrac1T \mathbf 1\mathbf 1^\top)
           = A - \tfrac1T (A\mathbf 1) \mathbf 1^\top

    Each row loses its mean, which is 1/T. Exactly, for every row-stochastic A:
    :math:`AA^\top = ee^\top + A_\perp A_\perp^\top` with :math:`e = 1/\sqrt T`, and the eigenvalues
    of :math:`A_\perp` are those of A with one eigenvalue 1 replaced by 0.

    With a mask the mean is taken over the visible tokens of each row and removed from them; hidden
    entries stay 0. The identities above then fail: it is another problem.

    Parameters
    ----------
    A : array or tensor, shape (..., T, T)
        Row-stochastic: entries at least 0, each row with sum 1, within the square root of the
        precision of the data type (1.5e-8 for float64, 3.5e-4 for float32).
    mask : boolean array or tensor, broadcastable to A, optional
        True where a token (column) is visible to the row; every row sees at least one.

    Returns
    -------
    array or tensor, shape (..., T, T)
        Of the kind and data type of A; whole numbers become float64.

    Raises
    ------
    TypeError
        Complex numbers, strings, objects; a sparse tensor; a mask that is not boolean.
    ValueError
        Rows that are not stochastic, NaN or infinity, not a square matrix, a mask that does not
        fit, a row that sees nothing, weight on hidden tokens.

    References
    ----------
    Nait Saada, Naderi and Tanner (2025), section 2.2.

    Examples
    --------
    >>> remove_mean([[0.5, 0.5], [1.0, 0.0]])
    array([[ 0. ,  0. ],
           [ 0.5, -0.5]])
    """
    xp, A = _checks.matrix(A, "A", square=True)
    tolerance = float(xp.finfo(A.dtype).eps) ** 0.5
    sums = xp.sum(A, axis=-1, keepdims=True)
    error = _checks.scalar(xp.max(xp.abs(sums - 1)))
    if error > tolerance:
        raise ValueError(
            f"A must have rows with sum 1, within {tolerance:.1e}, got a sum off by {error:.3g}; "
            "divide each row by its sum"
        )
    least = _checks.scalar(xp.min(A))
    if least < -tolerance:
        raise ValueError(
            f"A must have entries of at least 0, got {least:.3g}; pass the attention "
            "matrix itself, before anything is subtracted"
        )
    if mask is None:
        return A - sums / A.shape[-1]
    visible = _mask(xp, mask, A)
    hidden_weight = _checks.scalar(xp.max(xp.where(visible, xp.zeros_like(A), xp.abs(A))))
    if hidden_weight > tolerance:
        raise ValueError(
            f"A must be 0 where mask is False, got an entry of {hidden_weight:.3g} there; apply "
            "the mask before the softmax"
        )
    count = xp.sum(xp.astype(visible, A.dtype), axis=-1, keepdims=True)
    return xp.where(visible, A - sums / count, xp.zeros_like(A))


def _mask(xp: Any, mask: Array, A: Array) -> Array:
    """Return the mask as a boolean array of A's kind and shape."""
    if _checks.is_torch(mask) and not _checks.is_torch(A):
        raise TypeError(
            "mask must be of A's kind, got a torch tensor with a numpy A; pass mask.numpy()"
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
            f"mask must fit A of shape {tuple(A.shape)}, got shape {tuple(visible.shape)}; pass a "
            "(T, T) mask"
        ) from None
    if not bool(xp.all(xp.any(visible, axis=-1))):
        raise ValueError(
            "mask must let every row see a token, got a row of False only; unmask its diagonal"
        )
    return visible
