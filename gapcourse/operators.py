r"""A random Markov matrix that is never stored, for sizes where the matrix would not fit.

A dense matrix of T = 32768 takes 8.6 GB. Its products with vectors need only a few rows at a time,
and a counter-based generator can draw the same rows again whenever they are needed.
"""

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from . import _checks
from ._checks import RNG, Array, Floats
from .ensembles import raw_rows
from .spectra import _block_lanczos, top_singular_values

__all__ = ["MarkovOperator"]


class MarkovOperator(LinearOperator):
    r"""A random Markov matrix of the law of `random_markov`, matrix-free.

    Each block of rows has a generator of its own, the counter-based Philox keyed by (seed, block):
    a product draws the rows, uses them and forgets them. Blocks are shared out to threads. It is a
    SciPy linear operator, so ``A @ x``, ``A.T @ y`` and ``scipy.sparse.linalg`` work on it; the
    same seed always stands for the same matrix, whatever the number of threads.

    Parameters
    ----------
    size : int
        T, the number of rows and of columns, at least 1.
    entries : str, default "lognormal"
        The law of the raw entries, as in `random_markov`.
    sigma : float, optional
        Standard deviation of the raw entry over its mean, as in `random_markov`.
    alpha : float, optional
        Tail index of Pareto entries, instead of sigma, as in `random_markov`.
    rng : None, int or numpy.random.Generator, optional
        Gives the seed of the blocks, one number. The law is that of `random_markov`; the matrix of
        the same ``rng`` is another one.
    threads : int, optional
        How many threads draw blocks; by default as many as there are processors. Each calls the
        linear algebra library, which should then keep to one thread (``OMP_NUM_THREADS=1``).

    Attributes
    ----------
    shape : tuple of int
        (T, T).
    seed : int
        First half of the key; the second half is the number of the block.
    threads : int
        How many threads draw blocks.

    Raises
    ------
    TypeError
        An argument of the wrong kind.
    ValueError
        ``size`` or ``threads`` below 1, an unknown ensemble, a sigma or alpha that the ensemble
        can't have.

    References
    ----------
    Salmon, Moraes, Dror and Shaw (2011), *Parallel random numbers: as easy as 1, 2, 3*, for
    counter-based generators.

    Examples
    --------
    >>> A = MarkovOperator(300, entries="gamma", sigma=0.5, rng=1)
    >>> bool(np.allclose(A @ np.ones(300), 1))
    True
    >>> bool(np.allclose(A.T @ np.arange(300), A.dense().T @ np.arange(300)))
    True
    """

    def __init__(
        self,
        size: int,
        *,
        entries: str = "lognormal",
        sigma: float | None = None,
        alpha: float | None = None,
        rng: RNG = None,
        threads: int | None = None,
    ) -> None:
        T = _checks.whole(size, "size")
        self._raw = raw_rows(entries, sigma, alpha)
        self.entries = entries
        cores = os.cpu_count() or 1
        self.threads = cores if threads is None else _checks.whole(threads, "threads")
        self.seed = int(_checks.generator(rng).integers(2**64, dtype=np.uint64))
        self._height = max(1, _BLOCK // T)
        super().__init__(np.dtype(np.float64), (T, T))  # type: ignore[call-arg]

    def dense(self) -> Floats:
        """Return the matrix itself, shape (T, T): for small sizes, and for tests."""
        T = self.shape[0]
        _checks.affordable((T, T), "dense")
        A = np.empty((T, T))
        self._fill(A, lambda block: block)
        return A

    def gram(self, X: Array) -> Floats:
        r"""Return :math:`A^\top A X`, with each block drawn once instead of twice.

        Parameters
        ----------
        X : array, shape (T, n)

        Returns
        -------
        numpy.ndarray, shape (T, n)
        """
        columns = self._fitting(X, "X", 2)
        return self._add(columns.shape[1], lambda rows, block: block.T @ (block @ columns))

    def top_singular_values(self, k: int = 2, *, progress: bool = False) -> Floats:
        """Return the k largest singular values, largest first.

        Block Lanczos iterations take a number of passes over the matrix that grows slowly, about
        like the cube root of T; each pass draws all entries once. Below T = 1000 the matrix is
        made.

        Parameters
        ----------
        k : int, default 2
            How many, from 1 to 10 (to T, where that is less).
        progress : bool, default False
            Whether a bar counts the passes, with the smallest of the values found so far and the
            relative residual, which ends at 1e-6. It needs tqdm.

        Returns
        -------
        numpy.ndarray, shape (k,)

        Raises
        ------
        ValueError
            k out of range.
        RuntimeError
            The values are too close to each other, or too small beside the first, for this method.
        """
        T = self.shape[0]
        most = min(T, _MOST_VALUES)
        if _checks.whole(k, "k") > most:
            raise ValueError(f"k must be at most {most} at T = {T}, got {k}; pass a smaller k")
        if T < _SMALL:
            return np.asarray(top_singular_values(self.dense(), k))
        bar = _passes() if progress else None

        def square(X: Floats) -> Floats:
            result = self.gram(X)
            if bar is not None:
                bar.update()
            return result

        def report(values: Floats, residuals: Floats) -> None:
            if bar is not None:
                last = {
                    f"s_{k}": f"{math.sqrt(values[-1]):.6f}",
                    "residual": f"{residuals[-1]:.0e}",
                }
                bar.set_postfix(last)

        try:
            vectors = _block_lanczos(square, T, k, width=k + _MORE, report=report)
        finally:
            if bar is not None:
                bar.close()
        if vectors is None:
            raise RuntimeError(
                f"the {k} largest singular values must be above 3e-5 times the first and settle "
                f"within the iterations allowed, but those of {self!r} are not or do not; pass a "
                "smaller k, or a larger sigma"
            )
        return np.asarray(np.linalg.svd(self._matmat(vectors), compute_uv=False))

    def matvec(self, x: Array) -> Floats:  # type: ignore[override]
        """Return A x, for a vector of T numbers."""
        return self._matvec(self._fitting(x, "x", 1))

    def rmatvec(self, x: Array) -> Floats:  # type: ignore[override]
        r"""Return :math:`A^\top x`, for a vector of T numbers."""
        return self._rmatvec(self._fitting(x, "x", 1))

    def matmat(self, X: Array) -> Floats:  # type: ignore[override]
        """Return A X, for T rows of numbers."""
        return self._matmat(self._fitting(X, "X", 2))

    def rmatmat(self, X: Array) -> Floats:  # type: ignore[override]
        r"""Return :math:`A^\top X`, for T rows of numbers."""
        return self._rmatmat(self._fitting(X, "X", 2))

    def __repr__(self) -> str:
        return f"<MarkovOperator of {self.entries} entries, shape {self.shape}, seed {self.seed}>"

    # SciPy calls these four, also for the transpose and for sums and products of operators.

    def _matvec(self, x: Floats) -> Floats:
        return self._matmat(x.reshape(-1, 1)).reshape(x.shape)

    def _rmatvec(self, x: Floats) -> Floats:
        return self._rmatmat(x.reshape(-1, 1)).reshape(x.shape)

    def _matmat(self, X: Floats) -> Floats:
        return self._fill(np.empty((self.shape[0], X.shape[1])), lambda block: block @ X)

    def _rmatmat(self, X: Floats) -> Floats:
        return self._add(X.shape[1], lambda rows, block: block.T @ X[rows])

    def _fitting(self, value: Array, name: str, ndim: int) -> Floats:
        T = self.shape[0]
        kind = ("a vector of T", "a matrix with T rows of")[ndim - 1]
        array = _checks.within(value, name, remedy="remove what is not")
        column = ndim == 1 and array.shape == (T, 1)  # a vector too, for SciPy
        if not column and (array.ndim != ndim or array.shape[0] != T):
            raise ValueError(
                f"{name} must be {kind} = {T} numbers, got shape {array.shape}; bring it into that "
                "shape"
            )
        return array

    def _block(self, number: int) -> tuple[slice, Floats]:
        """Draw a block: which rows, and their entries."""
        T = self.shape[0]
        start = number * self._height
        rows = slice(start, min(start + self._height, T))
        key = np.array([self.seed, number], dtype=np.uint64)
        generator = np.random.Generator(np.random.Philox(key=key))
        block = self._raw(generator, (rows.stop - start, T))
        block /= block.sum(axis=1, keepdims=True)
        return rows, block

    def _parts(self, work: Callable[[Iterator[tuple[slice, Floats]]], Any]) -> Iterator[Any]:
        """Share the blocks out to threads, in parts that don't depend on how many there are."""
        numbers = np.arange(-(-self.shape[0] // self._height))
        parts = np.array_split(numbers, min(len(numbers), _PARTS))
        with ThreadPoolExecutor(self.threads) as pool:
            yield from pool.map(lambda part: work(map(self._block, part.tolist())), parts)

    def _fill(self, result: Floats, product: Callable[[Floats], Floats]) -> Floats:
        """Write the product of each block to its rows."""

        def work(blocks: Iterator[tuple[slice, Floats]]) -> None:
            for rows, block in blocks:
                result[rows] = product(block)

        for _ in self._parts(work):
            pass
        return result

    def _add(self, columns: int, product: Callable[[slice, Floats], Floats]) -> Floats:
        """Add the products of all blocks up, always in the same order."""

        def work(blocks: Iterator[tuple[slice, Floats]]) -> Floats:
            total = np.zeros((self.shape[0], columns))
            for rows, block in blocks:
                total += product(rows, block)
            return total

        result = np.zeros((self.shape[0], columns))
        for part in self._parts(work):
            result += part
        return result


_BLOCK = 2**17  # entries of a block: 1 MB, about what a processor keeps close
_PARTS = 32  # each has a sum of its own, T × width numbers
_SMALL = 1000
_MOST_VALUES = 10
_MORE = 6  # vectors beyond k: drawing entries costs ten times what a product with a vector does


def _passes() -> Any:
    """Return a bar that counts passes."""
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError(
            "progress=True needs tqdm, which is not installed; "
            'pip install "gapcourse[notebooks]", or leave progress out'
        ) from None
    return tqdm(desc="passes over the matrix", unit=" passes")
