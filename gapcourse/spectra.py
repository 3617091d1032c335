r"""Singular values, eigenvalues, and the numbers that say how close a matrix is to rank one.

Every function takes a real numpy array or torch tensor, one matrix or a batch of them over leading
dimensions, and answers in kind: for a torch tensor a tensor on the same device; for one numpy
matrix a float where the answer is one number. Whole numbers count as float64, half precision is
raised to float32.

Strings, complex numbers, objects and sparse tensors raise `TypeError`; an array that is not a
matrix, is empty, or holds NaN or infinity raises `ValueError`.
"""

from typing import Any

import numpy as np

from . import _checks
from ._checks import Array, Floats

__all__ = [
    "collapse_residual",
    "effective_rank",
    "eigenvalues",
    "singular_values",
    "spectral_gap",
    "stable_rank",
    "token_cosine",
    "top_singular_values",
]


def singular_values(A: Array) -> Array:
    r"""Return all singular values, largest first.

    Parameters
    ----------
    A : array or tensor, shape (..., m, n)

    Returns
    -------
    array or tensor, shape (..., min(m, n))

    Examples
    --------
    >>> singular_values([[3, 0], [0, 4]])
    array([4., 3.])
    """
    xp, A = _matrix(A, "A")
    return xp.linalg.svdvals(A)


def eigenvalues(A: Array) -> Array:
    r"""Return all eigenvalues, complex, sorted by decreasing modulus.

    For a Markov matrix the first is 1. The two of a conjugate pair have the same modulus.

    Parameters
    ----------
    A : array or tensor, shape (..., T, T)

    Returns
    -------
    array or tensor, shape (..., T), complex

    Examples
    --------
    >>> eigenvalues([[0, 1], [0.5, 0.5]])
    array([ 1. +0.j, -0.5+0.j])
    """
    xp, A = _matrix(A, "A", square=True)
    values = xp.linalg.eigvals(A) + 0j  # numpy returns real ones where it can
    order = xp.argsort(xp.abs(values), descending=True, stable=True)
    take = xp.take_along_dim if _checks.is_torch(A) else np.take_along_axis
    return take(values, order, -1)


def top_singular_values(A: Array, k: int = 2) -> Array:
    r"""Return the k largest singular values, largest first.

    A large numpy matrix goes through Lanczos iterations (products with A and its transpose only),
    which cost a fraction of a full decomposition and agree with it to about 1e-13; all others
    through the full decomposition. The result does not depend on chance: the start vectors are
    fixed.

    Parameters
    ----------
    A : array or tensor, shape (..., m, n)
    k : int, default 2
        How many, from 1 to min(m, n).

    Returns
    -------
    array or tensor, shape (..., k)

    Raises
    ------
    ValueError
        k out of range.

    Examples
    --------
    >>> top_singular_values([[3, 0, 0], [0, 4, 0]], k=1)
    array([4.])
    """
    xp, A = _matrix(A, "A")
    smaller_side = min(A.shape[-2:])
    if _checks.whole(k, "k") > smaller_side:
        raise ValueError(
            f"k must be at most {smaller_side} for a matrix of shape {tuple(A.shape)}, got {k}; "
            "pass a smaller k"
        )
    if isinstance(A, np.ndarray) and A.ndim == 2 and smaller_side >= _LARGE and k <= _FEW:
        return _lanczos(A, k)
    return xp.linalg.svdvals(A)[..., :k]


def spectral_gap(A: Array) -> Array:
    r"""Return :math:`s_1(A) - s_2(A)`, the gap between the two largest singular values.

    Parameters
    ----------
    A : array or tensor, shape (..., m, n), with m and n at least 2

    Returns
    -------
    float for one numpy matrix, else array or tensor, shape (...)

    Examples
    --------
    >>> spectral_gap([[3, 0], [0, 4]])
    1.0
    """
    top = top_singular_values(_at_least_two(A, "A"), 2)
    return _number(top[..., 0] - top[..., 1])


def stable_rank(M: Array) -> Array:
    r"""Return the stable rank :math:`\mathrm{sr}(M) = \|M\|_F^2/\|M\|^2` of the matrix given.

    It lies between 1 and the rank, and changes little when small singular values do. The stable
    rank of a token covariance is ``stable_rank(X @ X.T)``; where it is close to 1, use
    `collapse_residual` on X.

    Parameters
    ----------
    M : array or tensor, shape (..., m, n)

    Returns
    -------
    float for one numpy matrix, else array or tensor, shape (...)

    Raises
    ------
    ValueError
        A zero matrix has no stable rank.

    Examples
    --------
    >>> stable_rank([[3, 0], [0, 4]])
    1.5625
    """
    xp, M = _scaled(*_matrix(M, "M"), "M")
    if isinstance(M, np.ndarray) and M.ndim == 2 and min(M.shape) >= _LARGE:
        norm = _lanczos(M, 1)[0]
    else:
        norm = xp.linalg.svdvals(M)[..., 0]
    ratio = xp.sum(M * M, axis=(-2, -1)) / norm**2
    return _number(xp.clip(ratio, 1.0, None))  # rounding alone could take it below 1


def collapse_residual(X: Array) -> Array:
    r"""Return :math:`\sum_{k\ge2} s_k^4/s_1^4` of the singular values of X.

    It equals :math:`\mathrm{sr}(XX^\top) - 1`, the distance from rank collapse, but is summed
    directly: the subtraction would lose every digit once the residual falls below 1e-16.

    Parameters
    ----------
    X : array or tensor, shape (..., T, d)

    Returns
    -------
    float for one numpy matrix, else array or tensor, shape (...)

    Raises
    ------
    ValueError
        A zero matrix has no stable rank.

    Examples
    --------
    >>> collapse_residual([[2, 0], [0, 1]])
    0.0625
    """
    xp, X = _scaled(*_matrix(X, "X"), "X")
    s = xp.linalg.svdvals(X)
    return _number(xp.sum((s[..., 1:] / s[..., :1]) ** 4, axis=-1))


def effective_rank(A: Array) -> Array:
    r"""Return the effective rank, exp of the entropy of :math:`p_k = s_k/\sum_j s_j`.

    Parameters
    ----------
    A : array or tensor, shape (..., m, n)

    Returns
    -------
    float for one numpy matrix, else array or tensor, shape (...)

    Raises
    ------
    ValueError
        A zero matrix has no effective rank.

    References
    ----------
    Roy and Vetterli (2007), *The effective rank: a measure of effective dimensionality*.

    Examples
    --------
    >>> round(effective_rank([[1, 0], [0, 1]]), 12)
    2.0
    """
    xp, A = _scaled(*_matrix(A, "A"), "A")
    s = xp.linalg.svdvals(A)
    p = s / xp.sum(s, axis=-1, keepdims=True)
    logs = xp.log(xp.where(p > 0, p, xp.ones_like(p)))  # 0 log 0 counts as 0
    return _number(xp.exp(-xp.sum(p * logs, axis=-1)))


def token_cosine(X: Array) -> Array:
    r"""Return the mean cosine between two different tokens (rows) of X.

    .. math:: \frac{1}{T(T-1)} \sum_{i\ne j} \frac{x_i^\top x_j}{\|x_i\|\,\|x_j\|}

    It is computed from the sum of the unit rows, without the T × T matrix of cosines.

    Parameters
    ----------
    X : array or tensor, shape (..., T, d), with T at least 2

    Returns
    -------
    float for one numpy matrix, else array or tensor, shape (...)

    Raises
    ------
    ValueError
        Fewer than two rows, or a zero row, which has no direction.

    Examples
    --------
    >>> token_cosine([[1, 0], [1, 0], [0, 2]])
    0.3333333333333333
    """
    xp, X = _matrix(X, "X")
    T = X.shape[-2]
    if T < 2:
        raise ValueError(f"X must have at least 2 rows (tokens), got {T}; pass more tokens")
    largest = xp.max(xp.abs(X), axis=-1, keepdims=True)
    if not bool(xp.all(largest > 0)):
        count = int(xp.sum(xp.astype(largest == 0, xp.int64)))
        raise ValueError(
            f"X must have no zero row, got {count} of them: a zero token has no direction; "
            "remove them"
        )
    units = X / largest
    units = units / xp.sqrt(xp.sum(units * units, axis=-1, keepdims=True))
    total = xp.sum(units, axis=-2)
    return _number((xp.sum(total * total, axis=-1) - T) / (T * (T - 1)))


_LARGE = 500  # smaller side from which Lanczos beats the full decomposition
_FEW = 10  # number of values up to which it does
_TOLERANCE = 1e-8  # relative residual in A^T A; the values themselves err by about its square


def _lanczos(A: Floats, k: int) -> Floats:
    """Return the k largest singular values by ARPACK's Lanczos iteration on AᵀA.

    The values are those of A on the vectors found, so nothing is lost by squaring. One Krylov space
    can't see a repeated value twice: a second run, from another start, looks at what is left over
    and sends the matrix to the full decomposition if a value was missed.
    """
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    B = np.asarray(A if A.shape[0] >= A.shape[1] else A.T, dtype=np.float64)
    scale = np.abs(B).max()
    if scale == 0:
        return np.zeros(k, dtype=A.dtype)
    B = B / scale
    n = B.shape[1]
    start = np.random.default_rng(0).standard_normal((2, n))
    found = np.zeros((n, 0))

    def square(x: Floats) -> Floats:
        x = x.ravel() - found @ (found.T @ x.ravel())
        y: Floats = B.T @ (B @ x)
        y -= found @ (found.T @ y)
        return y

    operator = LinearOperator((n, n), matvec=square, dtype=np.float64)
    try:
        _, vectors = eigsh(operator, k=k, ncv=40, tol=_TOLERANCE, v0=start[0])
        found = np.linalg.qr(vectors)[0]
        values = np.linalg.svd(B @ found, compute_uv=False)
        left, _ = eigsh(operator, k=1, ncv=40, tol=_TOLERANCE, v0=start[1])
        complete = left[0] <= values[-1] ** 2 * (1 + 1e-10) + 1e-14 * values[0] ** 2
    except ArpackError:  # no convergence, or nothing left over to look at
        complete = False
    if not complete:
        values = np.linalg.svd(B, compute_uv=False)[:k]
    return np.asarray(values * scale, dtype=A.dtype)


def _matrix(value: Array, name: str, *, square: bool = False) -> tuple[Any, Array]:
    """Return (array namespace, array) in a precision that linear algebra takes."""
    xp, array = _checks.matrix(value, name, square=square)
    if array.dtype not in (xp.float32, xp.float64):
        half = xp.finfo(array.dtype).bits < 32
        array = xp.astype(array, xp.float32 if half else xp.float64)
    return xp, array


def _scaled(xp: Any, array: Array, name: str) -> tuple[Any, Array]:
    """Divide each matrix by its largest modulus; a zero matrix is refused."""
    largest = xp.max(xp.abs(array), axis=(-2, -1), keepdims=True)
    if not bool(xp.all(largest > 0)):
        which = "a zero matrix" if len(array.shape) == 2 else "a batch with a zero matrix in it"
        raise ValueError(
            f"{name} must not be zero, got {which} of shape {tuple(array.shape)}: its rank has no "
            "such measure; leave it out"
        )
    return xp, array / largest


def _at_least_two(value: Array, name: str) -> Array:
    _, array = _checks.matrix(value, name)
    if min(array.shape[-2:]) < 2:
        raise ValueError(
            f"{name} must have at least 2 rows and 2 columns, got shape {tuple(array.shape)}: a "
            "gap needs two singular values; pass a larger matrix"
        )
    return array


def _number(result: Array) -> Array:
    """Return a float for one numpy number; leave batches and tensors as they are."""
    return (
        float(result) if isinstance(result, np.ndarray | np.generic) and not result.ndim else result
    )
