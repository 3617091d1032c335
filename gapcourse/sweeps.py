"""Run a function over a grid of parameters and over seeds, into a tidy table.

It needs joblib and tqdm, which come with ``pip install "gapcourse[notebooks]"``.
"""

import csv
import functools
import hashlib
import inspect
import itertools
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import _checks

try:
    import joblib  # type: ignore[import-untyped]
    from tqdm.auto import tqdm  # type: ignore[import-untyped]
except ImportError as error:
    raise ImportError(
        f"gapcourse.sweeps needs {error.name}, which is not installed; "
        'pip install "gapcourse[notebooks]"'
    ) from None

__all__ = ["Table", "sweep"]

Value: TypeAlias = bool | int | float | str | None
Row: TypeAlias = dict[str, Value]


class Table:
    """A tidy table: one row for each cell of a grid and each seed, in the grid's order.

    A column is had by its name, as a numpy array, with NaN where a cell failed.
    ``pandas.DataFrame(table.rows)`` makes a data frame.

    Parameters
    ----------
    rows : list of dict
        One dict a row, from the names of the columns to numbers, strings, booleans or None.

    Attributes
    ----------
    rows : list of dict
        The rows.

    Examples
    --------
    >>> table = Table([{"T": 10, "seed": 0, "value": 0.5}, {"T": 20, "seed": 0, "value": 0.25}])
    >>> table["value"]
    array([0.5 , 0.25])
    >>> table
    <Table of 2 rows: T, seed, value>
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)

    @property
    def names(self) -> list[str]:
        """Names of the columns: the parameters, ``seed``, the results, ``error``."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        return [name for name in names if name != "error"] + ["error"] * ("error" in names)

    @property
    def failed(self) -> list[Row]:
        """The rows of cells that failed, which have an ``error`` and no results."""
        return [row for row in self.rows if row.get("error")]

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.names:
            raise KeyError(f"no column {name!r}; the table has {self.names}")
        values = [row.get(name, np.nan) for row in self.rows]
        plain = all(isinstance(value, bool | int | float) for value in values)
        text = all(isinstance(value, str) for value in values)
        return np.array(values, dtype=None if plain or text else object)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.names)}>"

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a file of comma-separated values, floats with all their digits.

        Parameters
        ----------
        path : str or path
            The file, overwritten if it is there.
        """
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.names)
            writer.writeheader()
            writer.writerows(self.rows)


def sweep(
    function: Callable[..., Any],
    grid: Mapping[str, Iterable[Value]] | Iterable[Mapping[str, Value]],
    seeds: int | Iterable[int] = 1,
    *,
    cache: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: bool = True,
) -> Table:
    """Call a function in each cell of a grid, for each seed, and collect what it returns.

    The cells run side by side on this machine's processors, or on a Dask cluster: within ``with
    joblib.parallel_config(backend="dask"):``, once a ``distributed.Client`` is connected, the same
    call goes there. The generator of a cell comes from its parameters and its seed only, so that
    the table depends neither on the order of the cells, nor on which others there are, nor on the
    number of processes.

    Parameters
    ----------
    function : callable
        Called as ``function(**parameters, rng=generator)``; returns a number, which goes to the
        column ``value``, or a dict from names to numbers, strings, booleans or None. Other
        processes must be able to load it: a function of a module or a notebook is.
    grid : dict of sequences, or sequence of dicts
        The values of each parameter, of which all combinations are taken, the last parameter
        running fastest; or the cells one by one. Values are numbers, strings, booleans or None.
    seeds : int or sequence of int, default 1
        The seeds, or how many: 0, 1, ….
    cache : path, optional
        Folder that keeps each cell's result, made if need be. A later call of the same function
        takes from there what has been done: an interrupted sweep resumes, a larger grid or more
        seeds cost only what is new, failed cells are tried again. The function counts as the same
        while its source, its name and the values it encloses are; changes in what it calls are not
        seen: delete the folder after such a change.
    jobs : int, optional
        Number of processes; -1 is one for each processor, 1 none but this one. By default what
        ``joblib.parallel_config`` says, else -1.
    progress : bool, default True
        Whether a bar shows how many cells are done.

    Returns
    -------
    Table
        Columns: the parameters, ``seed``, the results, and ``error``, which is empty where the cell
        went well. The column of a result, from a dict of sequences, reshaped to the lengths of the
        sequences and of the seeds, has one axis for each.

    Raises
    ------
    TypeError
        An argument of the wrong kind; a function that does not take the parameters and ``rng``.
    ValueError
        An empty grid or no seeds; repeated cells or seeds; parameters named ``rng``, ``seed`` or
        ``error``; a cache that is a file; ``jobs`` of 0.

    Warns
    -----
    RuntimeWarning
        Cells raised an error: how many, and the parameters of the first few. The others are kept.

    Examples
    --------
    >>> def largest(n, scale, rng):
    ...     return {"largest": scale * rng.standard_normal(n).max()}
    >>> table = sweep(largest, {"n": [10, 1000], "scale": [1.0]}, 3, jobs=1, progress=False)
    >>> table.names
    ['n', 'scale', 'seed', 'largest', 'error']
    >>> table["largest"].reshape(2, 1, 3).mean(axis=-1).round(1).shape
    (2, 1)
    """
    if not callable(function):
        raise TypeError(
            f"function must be callable, got {_checks.shown(function)}; pass the function itself"
        )
    cells, seeds = _cells(grid), _seeds(seeds)
    _check_call(function, cells[0])
    if jobs is not None and _checks.whole(jobs, "jobs", minimum=-(10**6)) == 0:
        raise ValueError("jobs must not be 0, got 0; pass -1 for one job for each processor")
    tasks = list(itertools.product(cells, seeds))
    store = None if cache is None else _Store(cache, function)
    results: dict[int, tuple[Row, str]] = {}
    for i, (cell, seed) in enumerate(tasks):
        known = None if store is None else store.load(cell, seed)
        if known is not None:
            results[i] = known, ""
    todo = [i for i in range(len(tasks)) if i not in results]
    name = getattr(function, "__name__", type(function).__name__)
    with tqdm(total=len(tasks), initial=len(results), desc=name, disable=not progress) as bar:
        parallel = joblib.Parallel(n_jobs=_jobs(jobs), return_as="generator_unordered")
        calls = (joblib.delayed(_call)(i, function, *tasks[i]) for i in todo)
        for i, result, problem in parallel(calls) if todo else ():
            results[i] = result, problem
            if store is not None and not problem:
                cell, seed = tasks[i]
                store.save(cell, seed, result)
            bar.update()
    table = Table(
        {**cell, "seed": seed, **results[i][0], "error": results[i][1]}
        for i, (cell, seed) in enumerate(tasks)
    )
    _warn(table)
    return table


def _cells(grid: Any) -> list[Row]:
    """Return the cells of a grid, each a dict of plain values."""
    if isinstance(grid, Mapping):
        axes = {name: _listed(values, f"grid[{name!r}]") for name, values in grid.items()}
        cells = [
            dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
        ]
    else:
        cells = _listed(grid, "grid")
    if not cells or not all(isinstance(cell, Mapping) and cell for cell in cells):
        raise ValueError(
            f"grid must hold at least one cell with a parameter, got {_checks.shown(grid)}; pass a "
            "dict of sequences, such as {'T': [100, 200]}, or a sequence of dicts"
        )
    for name in set().union(*cells):
        if not isinstance(name, str):
            raise TypeError(f"grid must have names as keys, got {name!r}; pass strings")
        if name in ("rng", "seed", "error"):
            raise ValueError(
                f"grid must not have a parameter {name!r}, got one: the table needs that name; "
                "call it otherwise"
            )
    cells = [{name: _plain(v, f"grid[{name!r}]") for name, v in cell.items()} for cell in cells]
    _once([json.dumps(cell, sort_keys=True) for cell in cells], "grid", "cells")
    return cells


def _seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, int | np.integer) and not isinstance(seeds, bool):
        return list(range(_checks.whole(seeds, "seeds")))
    values = [_checks.whole(seed, "each of seeds", minimum=0) for seed in _listed(seeds, "seeds")]
    if not values:
        raise ValueError("seeds must hold at least one seed, got none; pass a number of seeds")
    _once(values, "seeds", "seeds")
    return values


def _listed(values: Any, name: str) -> list[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(
            f"{name} must be a sequence, got {_checks.shown(values)} ({type(values).__name__}); "
            "put it into a list"
        )
    return list(values)


def _plain(value: Any, name: str) -> Value:
    """Return a number, string, boolean or None as Python's own type."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    for kinds, plain in (((bool, np.bool_), bool), ((int, np.integer), int)):
        if isinstance(value, kinds):
            return plain(value)
    if isinstance(value, float | np.floating):
        return float(value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a tensor of one number
        return _plain(value.item(), name)
    raise TypeError(
        f"{name} must be a number, a string, a boolean or None, got {_checks.shown(value)} "
        f"({type(value).__name__}); pass float(...) of it, or a name for it"
    )


def _once(values: list[Any], name: str, what: str) -> None:
    if len(set(values)) < len(values):
        twice = next(value for i, value in enumerate(values) if value in values[:i])
        raise ValueError(
            f"{name} must not repeat {what}, got {twice} twice; pass each of them once"
        )


def _check_call(function: Callable[..., Any], cell: Row) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # some built-in functions have none
        return
    try:
        signature.bind(**cell, rng=None)
    except TypeError as problem:
        names = ", ".join([*cell, "rng"])
        raise TypeError(
            f"function must take {names} by name, got one with {signature} ({problem}); give it "
            "these parameters"
        ) from None


def _jobs(jobs: int | None) -> int:
    """Return joblib's number of jobs: what was asked for here, or in its configuration, or all."""
    if jobs is not None:
        return jobs
    _, configured = joblib.parallel.get_active_backend()
    return -1 if configured in (None, 1) else int(configured)


def _generator(cell: Row, seed: int) -> np.random.Generator:
    """Return the generator of a cell, the same wherever and whenever the cell runs."""
    key = np.frombuffer(_digest(cell)[:16], dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(key.tolist())))


def _digest(*parts: Any) -> bytes:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


def _call(index: int, function: Callable[..., Any], cell: Row, seed: int) -> tuple[int, Row, str]:
    """Run one cell, in whatever process: its number, its result, and what went wrong."""
    try:
        result = function(**cell, rng=_generator(cell, seed))
        if not isinstance(result, Mapping):
            return index, {"value": _plain(result, "what function returns")}, ""
        clash = {"seed", "error", *cell} & set(result)
        if clash:
            raise ValueError(
                f"what function returns must not have the names {sorted(clash)}, which the table "
                "has already; call them otherwise"
            )
        return index, {str(k): _plain(v, f"result {k!r}") for k, v in result.items()}, ""
    except Exception as problem:
        return index, {}, f"{type(problem).__name__}: {problem}"


def _warn(table: Table) -> None:
    failed = table.failed
    if failed:
        lines = [
            ", ".join(f"{name}={value!r}" for name, value in row.items() if name != "error")
            + f": {row['error']}"
            for row in failed[:5]
        ]
        lines += ["…"] * (len(failed) > 5)
        warnings.warn(
            f"{len(failed)} of {len(table)} cells failed, the others are kept:\n  "
            + "\n  ".join(lines),
            RuntimeWarning,
            stacklevel=3,
        )


class _Store:
    """A folder with a file for each cell that went well."""

    def __init__(self, folder: str | os.PathLike[str], function: Callable[..., Any]) -> None:
        self.folder = Path(folder)
        self.identity = _identity(function)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise ValueError(
                f"cache must be a folder, got the file {str(folder)!r}; pass another path"
            ) from None

    def path(self, cell: Row, seed: int) -> Path:
        return self.folder / f"{_digest(self.identity, cell, seed).hex()[:32]}.json"

    def load(self, cell: Row, seed: int) -> Row | None:
        """Return a result, or None where there is none that can be read."""
        try:
            content = json.loads(self.path(cell, seed).read_text(encoding="utf-8"))
            return dict(content["result"])
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def save(self, cell: Row, seed: int, result: Row) -> None:
        path = self.path(cell, seed)
        draft = path.with_suffix(f".{os.getpid()}")  # an interrupted write leaves no half result
        content = {"cell": cell, "seed": seed, "result": result}
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(path)


def _identity(function: Any) -> list[Any]:
    """Return what tells a function from others and from its earlier versions, as far as we see."""
    if isinstance(function, functools.partial):
        values = joblib.hash((function.args, function.keywords))
        return [_identity(function.func), values]
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        return [_identity(type(function)), joblib.hash(function)]  # an object that can be called
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = ""
    enclosed = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    values = [
        _identity(value) if callable(value) else joblib.hash(value)
        for value in enclosed
        if value is not function
    ]
    return [function.__module__, function.__qualname__, source, values]
