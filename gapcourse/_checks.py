"""Argument checks that all modules share.

Every refusal names the argument, says what it must be, shows what came, and tells the way out.
A value of the wrong kind (a string, a tensor, a float for a count) is a ``TypeError``; a value of
the right kind outside its range is a ``ValueError``.
"""

import math
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
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python does not write out a whole number of more than 4300 digits
        return f"a very long {type(value).__name__}"
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


def flag(value: object, name: str, remedy: str = "pass one of them") -> bool:
    """Return True or False, and nothing that merely counts as one."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(
            f"{name} must be True or False, got {shown(value)} ({type(value).__name__}); {remedy}"
        )
    return bool(value)


def affordable(shape: tuple[int, ...], name: str) -> None:
    """Refuse to make an array of float64 that would fill the memory."""
    if math.prod(shape) > _MOST:
        raise ValueError(
            f"{name} must ask for at most {_MOST:.0e} entries (80 GB in float64), got shape "
            f"{shown(shape)}; ask for fewer"
        )


def together(**arrays: Floats) -> None:
    """Refuse arrays, given by their names, that don't broadcast."""
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        shapes = " and ".join(f"{name} of shape {array.shape}" for name, array in arrays.items())
        raise ValueError(
            f"{' and '.join(arrays)} must broadcast together, got {shapes}; give them one shape, "
            "or pass a single number for one of them"
        ) from None


def numbers(
    values: ArrayLike, name: str, *, ndim: tuple[int, ...] = (), is_complex: bool = False
) -> NDArray[Any]:
    """Return numbers as a float64 (or complex128) array without NaN.

    With ``ndim``, the array must have one of these numbers of dimensions, and an entry.
    """
    if is_torch(values):
        raise TypeError(
            f"{name} must be numbers or a numpy array, got a torch tensor; pass {name}.numpy()"
        )
    array = _numeric(values, name, is_complex=is_complex)
    array = array.astype(np.complex128 if is_complex else np.float64)
    if ndim == (0,) and array.ndim:
        raise TypeError(f"{name} must be one number, got {shown(values)}; pass a single one")
    if ndim and (array.ndim not in ndim or not array.size):
        kinds = " or ".join(("one number", "a 1-D array", "a 2-D array")[n] for n in ndim)
        remedy = "bring it into that shape" if array.size else "pass at least one number"
        raise ValueError(f"{name} must be {kinds} and not empty, got shape {array.shape}; {remedy}")
    if np.isnan(array).any():
        raise ValueError(f"{name} must not contain NaN, got {shown(values)}; remove the NaN first")
    return array


def within(
    values: ArrayLike,
    name: str,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    open_low: bool = False,
    is_whole: bool = False,
    ndim: tuple[int, ...] = (),
    remedy: str,
) -> Floats:
    """Return finite real numbers that lie between ``low`` and ``high``, whole ones if asked."""
    array: Floats = numbers(values, name, ndim=ndim)
    good = np.isfinite(array) & (array <= high) & ((array > low) if open_low else (array >= low))
    if is_whole:
        good &= array == np.floor(array)
    if not good.all():
        bounds = ["whole" if is_whole else "finite"]
        if np.isfinite(low):
            bounds.append(f"above {low:g}" if open_low else f"at least {low:g}")
        if np.isfinite(high):
            bounds.append(f"at most {high:.12g}")
        got = f"{array[~good][0]:.12g}"
        raise ValueError(f"{name} must be {' and '.join(bounds)}, got {got}; {remedy}")
    return array


def positive(value: object, name: str, remedy: str) -> float:
    """Return one finite number above zero."""
    return float(within(value, name, 0, open_low=True, ndim=(0,), remedy=remedy))  # type: ignore[arg-type]


def plain(array: Floats) -> float | Floats:
    """Return a float where numbers came in, an array where an array did."""
    return float(array) if np.ndim(array) == 0 else array


def scalar(number: Array) -> float:
    """Return a float, for a check: of a tensor, without its gradient."""
    return float(number.detach() if is_torch(number) else number)


def dense(tensor: Array, name: str) -> Array:
    """Return a torch tensor whose entries can be read one by one."""
    layout = str(tensor.layout)
    if layout != "torch.strided":
        raise TypeError(
            f"{name} must be a dense tensor, got layout {layout}; pass {name}.to_dense()"
        )
    if tensor.is_meta:
        raise TypeError(
            f"{name} must hold numbers, got a tensor on device meta, which has a shape only; make "
            "it on the cpu or a gpu"
        )
    return tensor


def matrix(value: Array, name: str, *, square: bool = False) -> tuple[Any, Array]:
    """Return (array namespace, array) for one real matrix or a batch of them.

    A torch tensor stays one, on its device; all else becomes a numpy array. Floating types are
    kept, whole numbers become float64.
    """
    array = dense(value, name) if is_torch(value) else _numeric(value, name)
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
            f"{scalar(bad[0])}; remove them first"
        )
    return xp, array


_MOST = 10**10
_REAL = "pass real numbers, as int or float"


def rectangular(values: object, name: str) -> NDArray[Any]:
    """Return values as a numpy array, whatever their type and shape."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array; pass {name}.filled(...)")
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} must be a rectangular array, got rows of unequal length in {shown(values)}; "
            "make them equally long"
        ) from None


def _numeric(values: object, name: str, *, is_complex: bool = False) -> NDArray[Any]:
    """Return values as a numpy array of numbers, real ones unless complex ones will do."""
    array = rectangular(values, name)
    if array.dtype.kind not in ("iufc" if is_complex else "iuf"):
        kind, remedy = ("complex", "pass numbers") if is_complex else ("real", _REAL)
        raise TypeError(
            f"{name} must hold {kind} numbers, got {shown(values)} ({array.dtype.name}); {remedy}"
        )
    return array
