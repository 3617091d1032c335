"""Helper package of a course on rank collapse and signal propagation in attention layers.

Each submodule holds one idea and is imported when it is first used, so that ``import gapcourse``
costs next to nothing:

- ``ensembles``: random Markov matrices and isometric inputs;
- ``laws``: limiting laws of singular values;
- ``spectra``: singular values, eigenvalues, stable rank and its kin;
- ``attention``: attention matrices and mean removal;
- ``networks``: stacks of attention layers (torch);
- ``gradients``: norms of their gradients (torch);
- ``operators``: a random Markov matrix that is never stored;
- ``predictions``: the theory as functions;
- ``figures``: the course's figures;
- ``sweeps``: a function over a grid and seeds, as a tidy table;
- ``demos``: the live demos.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (
        attention,
        demos,
        ensembles,
        figures,
        gradients,
        laws,
        networks,
        operators,
        predictions,
        spectra,
        sweeps,
    )

    __version__: str

__all__ = [
    "__version__",
    "attention",
    "demos",
    "ensembles",
    "figures",
    "gradients",
    "laws",
    "networks",
    "operators",
    "predictions",
    "spectra",
    "sweeps",
]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gapcourse")
    except PackageNotFoundError:  # a copy of the folder, not installed
        return "0+unknown"


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {__all__}")


def __dir__() -> list[str]:
    return sorted(__all__)
