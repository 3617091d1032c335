"""Argument checks that all modules share.

Every refusal names the argument, says what it must be, shows what came, and tells the way out.
A value of the wrong kind (a string, a tensor, a float for a count) is a ``TypeError``; a value of
the right kind outside its range is a ``ValueError``.
"""

import operator
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Array: TypeAlias = Any  # a numpy array or a torch tensor
RNG: TypeAlias = int | np.random.Generator | None


def shown(value: object) -> str:
    """Return a short text of a value, on one line, for an error message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else text[:97] + "..."


def is_torch(value: object) -> bool:
    """Say whether a value is a torch tensor, without importing torch."""
    return any(cls.__module__.partition(".")[0] == "torch" for cls in type(value).__mro__)


def generator(rng: RNG) -> np.random.Generator:
    """Return the generator that ``rng`` stands for (SPEC 7): None, a seed, or a Generator."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if isinstance(rng, bool | np.bool_) or not isinstance(rng, int | np.integer):
        raise TypeError(
            f"rng must be None, a whole number or a numpy.random.Generator, got {shown(rng)} "
            f"({type(rng).__name__}); pass numpy.random.default_rng(seed)"
        )
    if rng < 0:
        raise ValueError(f"rng as a seed must be at least 0, got {rng}; pass another whole number")
    return np.random.default_rng(int(rng))


def whole(value: object, name: str, minimum: int = 1) -> int:
    """Return ``value`` as an int that is at least ``minimum``."""
    problem = f"{name} must be a whole number, at least {minimum}, got {shown(value)}"
    if is_torch(value):
        raise TypeError(f"{problem} (a torch tensor); pass int(...) of it")
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{problem} (a bool); pass an int")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{problem} ({type(value).__name__}); pass an int") from None
    if number < minimum:
        raise ValueError(f"{problem}; pass {minimum} or more")
    return number


def numbers(values: ArrayLike, name: str) -> Floats:
    """Return real numbers, of any shape, as a float64 array without NaN."""
    if is_torch(values):
        raise TypeError(
            f"{name} must be numbers or a numpy array, got a torch tensor; pass {name}.numpy()"
        )
    array = _numeric(values, name).astype(np.float64)
    if np.isnan(array).any():
        raise ValueError(f"{name} must not contain NaN, got {shown(values)}; remove the NaN first")
    return array


def within(
    values: ArrayLike,
    name: str,
    low: float,
    high: float = np.inf,
    *,
    open_low: bool = False,
    is_whole: bool = False,
    remedy: str,
) -> Floats:
    """Return finite real numbers that lie between ``low`` and ``high``, whole ones if asked."""
    array = numbers(values, name)
    good = np.isfinite(array) & (array <= high) & ((array > low) if open_low else (array >= low))
    if is_whole:
        good &= array == np.floor(array)
    if not good.all():
        bound = f"above {low:g}" if open_low else f"at least {low:g}"
        if np.isfinite(high):
            bound += f" and at most {high:.12g}"
        kind = "whole" if is_whole else "finite"
        raise ValueError(f"{name} must be {kind} and {bound}, got {array[~good][0]:.12g}; {remedy}")
    return array


def positive(value: object, name: str, remedy: str) -> float:
    """Return one finite number above zero."""
    array = within(value, name, 0, open_low=True, remedy=remedy)  # type: ignore[arg-type]
    if array.ndim:
        raise TypeError(f"{name} must be one number, got {shown(value)}; pass a single float")
    return float(array)


def plain(array: Floats) -> float | Floats:
    """Return a float where numbers came in, an array where an array did."""
    return float(array) if np.ndim(array) == 0 else array


def matrix(value: Array, name: str, *, square: bool = False) -> tuple[Any, Array]:
    """Return (array namespace, array) for one real matrix or a batch of them.

    A torch tensor stays one, on its device; all else becomes a numpy array. Floating types are
    kept, whole numbers become float64.
    """
    array = value if is_torch(value) else _numeric(value, name)
    xp = array_api_compat.array_namespace(array)
    if xp.isdtype(array.dtype, ("bool", "complex floating")):  # a tensor; numpy has been asked
        raise TypeError(f"{name} must hold real numbers, got {array.dtype}; {_REAL}")
    if xp.isdtype(array.dtype, "integral"):
        array = xp.astype(array, xp.float64)
    shape = tuple(array.shape)
    if len(shape) < 2 or 0 in shape:
        raise ValueError(
            f"{name} must be a matrix (..., rows, columns) with at least one entry, got shape "
            f"{shape}; pass a 2-D array, or a batch of them"
        )
    if square and shape[-1] != shape[-2]:
        raise ValueError(f"{name} must be square, got shape {shape}; pass a (T, T) matrix")
    if not bool(xp.all(xp.isfinite(array))):
        bad = array[~xp.isfinite(array)]
        raise ValueError(
            f"{name} must be finite, got {len(bad)} NaN or infinite entries, first "
            f"{float(bad[0])}; remove them first"
        )
    return xp, array


_REAL = "pass real numbers, as int or float"


def _numeric(values: object, name: str) -> NDArray[Any]:
    """Return values as a numpy array of real numbers, whatever their shape."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array; pass {name}.filled(...)")
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} must be a rectangular array, got rows of unequal length in {shown(values)}; "
            "make them equally long"
        ) from None
    if array.dtype.kind not in "iuf":
        raise TypeError(
            f"{name} must hold real numbers, got {shown(values)} ({array.dtype.name}); {_REAL}"
        )
    return array
