"""Live demos: figures that compute and redraw in the reader's browser, with or without a kernel.

A demo is an `anywidget <https://anywidget.dev>`_. Its JavaScript (``demos.mjs`` beside this file)
draws the random matrix, finds its singular values and plots them, so that it also works in the
published book, where no kernel runs. Its random numbers are its own: a seed here and the same seed
in numpy give different matrices of the same law.
"""

from __future__ import annotations

import math
from importlib.resources import files

from . import _checks

try:
    import anywidget
    import traitlets
except ImportError as error:
    raise ImportError(
        'gapcourse.demos needs anywidget: pip install "gapcourse[notebooks]"'
    ) from error

__all__ = ["ENSEMBLES", "SpectrumDemo", "spectrum"]

TOKENS = (10, 300)
SIGMA = (0.1, 2.0)
VIEWS = ("both", "histogram", "ranks")


def _ensemble(label: str, low: float, high: float, reason: str) -> dict[str, str | float]:
    return {"label": label, "low": low, "high": high, "reason": reason}


_WIDE = f"The slider of this demo goes from {SIGMA[0]:g} to {SIGMA[1]:g}."

ENSEMBLES: dict[str, dict[str, str | float]] = {
    "lognormal": _ensemble("log-normal", *SIGMA, _WIDE),
    "gamma": _ensemble("gamma (Dirichlet rows)", *SIGMA, _WIDE),
    "exponential": _ensemble(
        "exponential", 1.0, 1.0, "Exponential entries have σ = 1: their spread is their mean."
    ),
    "uniform": _ensemble(
        "uniform",
        SIGMA[0],
        1 / math.sqrt(3),
        "Uniform entries have σ at most 1/√3 = 0.577: a wider interval would go below 0.",
    ),
    "bernoulli": _ensemble("Bernoulli (sparse)", *SIGMA, _WIDE),
    "pareto": _ensemble("Pareto (heavy tail)", *SIGMA, _WIDE),
}
"""Ensembles that the demo draws from, each with the range of sigma and why it ends there.

:meta hide-value:
"""


class SpectrumDemo(anywidget.AnyWidget):
    """Singular values of one random Markov matrix, with sliders; see `spectrum`."""

    _esm = files("gapcourse").joinpath("demos.mjs").read_text(encoding="utf-8")

    tokens = traitlets.Int(150, min=TOKENS[0], max=TOKENS[1]).tag(sync=True)
    sigma = traitlets.Float(1.0, min=SIGMA[0], max=SIGMA[1]).tag(sync=True)
    entries = traitlets.Enum(tuple(ENSEMBLES), "lognormal").tag(sync=True)
    seed = traitlets.Int(1, min=0, max=2**31 - 1).tag(sync=True)
    view = traitlets.Enum(VIEWS, "both").tag(sync=True)
    ensembles = traitlets.Dict(ENSEMBLES, read_only=True).tag(sync=True)

    def __repr__(self) -> str:
        """Short and free of addresses, so that a stored output is the same in every run."""
        return (
            f"SpectrumDemo(tokens={self.tokens}, sigma={self.sigma:.4g}, "
            f"entries={self.entries!r}, seed={self.seed})"
        )


def spectrum(
    tokens: int = 150,
    sigma: float | None = None,
    entries: str = "lognormal",
    seed: int = 1,
    *,
    view: str = "both",
) -> SpectrumDemo:
    r"""Show the singular values of a random Markov matrix, live.

    The left plot is the histogram of :math:`\sqrt T\,s_k(A_\perp)` under the quarter circle on
    :math:`[0, 2\sigma]`, with :math:`\sqrt T\,s_1(A)` beyond a break of the axis; the right plot
    has all :math:`s_k(A)` in order, with :math:`2\sigma/\sqrt T`. Sliders change T and
    sigma, a list changes the ensemble, a button the draw. As in
    `gapcourse.ensembles.random_markov`, entries are independent and each row is divided by its sum.

    Parameters
    ----------
    tokens : int
        Size T of the matrix, from 10 to 300.
    sigma : float, optional
        Standard deviation of a raw entry over its mean, from 0.1 to 2 and within what the ensemble
        can have. By default 1, or the most a uniform entry can have, 1/sqrt(3).
    entries : str
        Law of a raw entry, one of `ENSEMBLES`.
    seed : int
        Seed of the first draw; "New draw" takes the next one.
    view : str
        "both" plots, or only the "histogram" or the "ranks".

    Returns
    -------
    SpectrumDemo
        A widget: the last expression of a cell shows it.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `tokens`, `sigma` or `seed` is out of range, or `entries` or `view` is unknown.

    Examples
    --------
    >>> spectrum(tokens=100, entries="uniform")
    SpectrumDemo(tokens=100, sigma=0.5774, entries='uniform', seed=1)
    """
    tokens = _whole(tokens, "tokens", *TOKENS)
    seed = _whole(seed, "seed", 0, 2**31 - 1)
    ensemble = ENSEMBLES[_choice(entries, "entries", tuple(ENSEMBLES))]
    _choice(view, "view", VIEWS)
    low, high = float(ensemble["low"]), float(ensemble["high"])
    if sigma is None:
        sigma = min(1.0, high)
    sigma = _checks.positive(sigma, "sigma", "pass sigma=None for the natural value")
    if not low <= sigma <= high:
        raise ValueError(
            f"sigma must lie between {low:.4g} and {high:.4g} for entries={entries!r} in this "
            f"demo, got {sigma}. {ensemble['reason']} Pass sigma=None for the natural value"
        )
    return SpectrumDemo(tokens=tokens, sigma=sigma, entries=entries, seed=seed, view=view)


def _whole(value: object, name: str, low: int, high: int) -> int:
    """Return a whole number within the demo's range."""
    number = _checks.whole(value, name, low)
    if number > high:
        raise ValueError(f"{name} must be at most {high} in this demo, got {number}; pass less")
    return number


def _choice(value: object, name: str, options: tuple[str, ...]) -> str:
    """Return one of the options."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a name, got {_checks.shown(value)}; pass one of {options}")
    if value not in options:
        raise ValueError(f"{name} must be one of {options}, got {value!r}; pick one of them")
    return value
