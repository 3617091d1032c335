r"""Singular values, eigenvalues, and the numbers that say how close a matrix is to rank one.

Every function takes a real numpy array or torch tensor, one matrix or a batch of them over leading
dimensions, and answers in kind: for a torch tensor a tensor on the same device; for one numpy
matrix a float where the answer is one number. Whole numbers count as float64, half precision is
raised to float32.

Strings, complex numbers, objects and sparse tensors raise `TypeError`; an array that is not a
matrix, is empty, or holds NaN or infinity raises `ValueError`.
"""

import functools
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _checks
from ._checks import Array, Floats

__all__ = [
    "collapse_residual",
    "composite_residual",
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

    Large matrices go, one by one, through Lanczos iterations (products with A and its transpose
    only, in double precision, on the processor), which cost a fraction of a full decomposition and
    agree with it to about 1e-12. Small ones, and tensors that ask for a gradient, go through the
    full decomposition. The result depends on chance only by rounding: the start vectors are fixed.

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
    return _top(A, k) if _lanczos_pays(A, k) else xp.linalg.svdvals(A)[..., :k]


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

    It lies between 1 and the rank, and changes little when small singular values do. The norm comes
    from the Gram matrix of the smaller side, or from Lanczos iterations where M is large: never
    from a full decomposition. The stable rank of a token covariance is ``stable_rank(X @ X.T)``;
    where it is close to 1, use `collapse_residual` on X.

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
    if _lanczos_pays(M, 1):
        square = _top(M, 1)[..., 0] ** 2
    else:
        N = xp.matrix_transpose(M)
        gram = N @ M if M.shape[-2] >= M.shape[-1] else M @ N
        square = xp.linalg.eigvalsh(gram)[..., -1]
    ratio = xp.sum(M * M, axis=(-2, -1)) / square
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


def composite_residual(X: Array) -> Array:
    r"""Return how far the tokens are from being all equal, in the composite norm.

    .. math:: &\sqrt{\|R\|_1 \, \|R\|_\infty}, \\
       &R = X - \mathbf 1 x^\top, \quad x = \tfrac1T X^\top \mathbf 1,

    with the largest absolute column sum :math:`\|R\|_1` and row sum :math:`\|R\|_\infty`. Here x is
    the mean token, so that :math:`\mathbf 1 x^\top` is the nearest matrix of equal rows in the
    Frobenius norm, and R is X with its token mean removed. A minimiser of the composite norm itself
    takes a search for each matrix and gains little: as R is I - 11ᵀ/T times any other residual,
    and that matrix has composite norm 2 (1 - 1/T), the value returned is at most 2 (1 - 1/T) times
    the smallest over all x, and equal to it for two tokens.

    Parameters
    ----------
    X : array or tensor, shape (..., T, d)

    Returns
    -------
    float for one numpy matrix, else array or tensor, shape (...)
        0 where all rows are the same. It is a length: twice the tokens, twice the residual.

    References
    ----------
    Dong, Cordonnier and Loukas (2021) show that it falls doubly exponentially with the depth of
    pure attention.

    Examples
    --------
    >>> composite_residual([[1, 0], [3, 0]])
    1.4142135623730951
    """
    xp, X = _matrix(X, "X")
    largest = xp.max(xp.abs(X), axis=(-2, -1), keepdims=True)
    scale = xp.where(largest > 0, largest, xp.ones_like(largest))
    R = X / scale
    R = xp.abs(R - xp.mean(R, axis=-2, keepdims=True))
    column = xp.max(xp.sum(R, axis=-2), axis=-1)
    row = xp.max(xp.sum(R, axis=-1), axis=-1)
    return _number(xp.sqrt(column * row) * scale[..., 0, 0])


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
_TOLERANCE = 1e-6  # relative residual in A^T A; the values themselves err by about its square
_CHUNK = 2**16  # entries that stay in the processor's cache between two products


def _lanczos_pays(A: Array, k: int) -> bool:
    needs_gradient = _checks.is_torch(A) and A.requires_grad
    return min(A.shape[-2:]) >= _LARGE and k <= _FEW and not needs_gradient


def _top(A: Array, k: int) -> Array:
    """Return the k largest singular values of each matrix of a batch by Lanczos iterations."""
    matrices = A.cpu().numpy() if _checks.is_torch(A) else A
    flat = matrices.reshape(-1, *A.shape[-2:])
    values = np.stack([_lanczos(matrix, k) for matrix in flat])
    values = values.reshape(*A.shape[:-2], k).astype(matrices.dtype)
    return A.new_tensor(values) if _checks.is_torch(A) else values


def _lanczos(A: Floats, k: int) -> Floats:
    """Return the k largest singular values of one matrix.

    The values are those of A on the vectors found, so nothing is lost by squaring. As the Krylov
    space grows by k vectors at a time, it sees a value as often as it is asked for.
    """
    m, n = A.shape
    turned = m < n or (m == n and A.flags.f_contiguous)
    B = np.asarray(A.T if turned else A, dtype=np.float64)
    scale = float(max(B.max(), -B.min()))
    if 1e-50 < scale < 1e50 or scale == 0:
        scale = 1.0
    else:
        B = B / scale
    rows = max(1, _CHUNK // min(m, n))
    add = _add_together if _together_pays(k) else _add_one_by_one

    def square(X: Floats) -> Floats:
        vectors = np.ascontiguousarray(X.T)
        images = np.zeros_like(vectors)
        for start in range(0, max(m, n), rows):  # read from memory once, for all the products
            add(images, vectors, B[start : start + rows])
        return images.T

    vectors = _block_lanczos(square, min(m, n), k, width=k)
    values = np.linalg.svd(B if vectors is None else B @ vectors, compute_uv=False)[:k]
    return np.asarray(values * scale)


def _add_one_by_one(images: Floats, vectors: Floats, chunk: Floats) -> None:
    """Add the product of chunk.T @ chunk with each row of the vectors to the images."""
    for image, vector in zip(images, vectors, strict=True):
        image += (chunk @ vector) @ chunk


def _add_together(images: Floats, vectors: Floats, chunk: Floats) -> None:
    images += (vectors @ chunk.T) @ chunk


@functools.cache
def _together_pays(width: int) -> bool:
    """Say whether a chunk takes a few vectors faster together than one by one.

    Together they take half as long, or twice as long, as the kernels of the BLAS that numpy runs on
    this processor would have it; so it is tried, once.
    """
    chunk, vectors = np.ones((32, _CHUNK // 32)), np.ones((width, _CHUNK // 32))

    def seconds(add: Callable[[Floats, Floats, Floats], None]) -> float:
        return min(timeit.repeat(lambda: add(vectors.copy(), vectors, chunk), number=1, repeat=9))

    return seconds(_add_together) < 0.8 * seconds(_add_one_by_one)


def _block_lanczos(
    square: Callable[[Floats], Floats],
    n: int,
    k: int,
    *,
    width: int,
    report: Callable[[Floats, Floats], None] | None = None,
) -> Floats | None:
    """Return eigenvectors of the k largest eigenvalues of a symmetric matrix without negative ones.

    ``square`` multiplies it with n × width vectors. The Krylov space grows by a block of `width` of
    them in each step, so that a value which occurs up to `width` times is seen as often; the basis
    is kept orthogonal in full. Every few steps the values are looked at, and ``report`` hears of
    them and of their relative residuals. None means that rounding hides the k-th value, or that the
    space has grown too large.
    """
    from scipy.linalg import eigh

    steps = min(_MOST_STEPS, n // (2 * width))
    basis = np.empty((n, steps * width), order="F")
    projected = np.zeros((steps * width, steps * width))
    block = np.linalg.qr(np.random.default_rng(0).standard_normal((n, width)))[0]
    for step in range(1, steps + 1):
        last, old, new = max(0, step - 2) * width, (step - 1) * width, step * width
        basis[:, old:new] = block
        V, near = basis[:, :new], basis[:, last:new]  # the image is orthogonal to those before
        image = square(block)
        part = near.T @ image
        projected[last:new, old:new], projected[old:new, last:new] = part, part.T
        block, R = np.linalg.qr(image - near @ part)
        if step % (2 + step // 60) == 0 or step == steps:
            values, y = eigh(projected[:new, :new], subset_by_index=[new - k, new - 1])
            residuals = np.linalg.norm(R @ y[-width:], axis=0)
            if report is not None:
                report(values[::-1], (residuals / values.clip(1e-300))[::-1])
            hidden = values[0] < 1e-9 * values[-1]  # by rounding, or seen too little of so far
            if not hidden and (residuals <= _TOLERANCE * values).all():
                vectors: Floats = V @ y
                return vectors
            if hidden and step > 8:
                return None
        block = np.linalg.qr(block - V @ (V.T @ block))[0]  # to all, in spite of rounding
    return None


_MOST_STEPS = 300


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
