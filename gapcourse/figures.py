"""The figures of the course: measurement, theory and the reader's own prediction together.

Every function takes arrays and an `ax` and computes nothing that the reader should see computed.
What is measured is drawn in colour, the theory as a dark line over it, the reader's prediction
dashed. Each also writes one sentence of alternative text, with numbers taken from the data.
"""

from __future__ import annotations

import base64
import io
import math
import numbers
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import ArrayLike, NDArray

from . import _checks
from ._checks import Floats

__all__ = [
    "Fit",
    "alt_text",
    "curve",
    "describe",
    "eigenvalue_cloud",
    "fit_rate",
    "ordered",
    "panel",
    "panels",
    "parity",
    "show",
    "spectrum",
    "summary",
    "sweep",
    "use_style",
]

BACKGROUND = "#fcfcfa"
MEASURED = ("#0072b2", "#a8447f", "#007a5a", "#8a5a00")  # one colour a series, as in the style
THEORY = "#1a1a1a"
PREDICTION = "#c2410c"
OUTLIER = "#8a5a00"
MARKERS = ("o", "s", "^", "D")

_FAR = 6.0  # a mark further out than this many bulks is named beside an arrow, not drawn to scale
_sentences: WeakKeyDictionary[Axes, list[str]] = WeakKeyDictionary()


class Law(Protocol):
    """What a figure needs of a limiting law: a density and where it ends."""

    @property
    def edge(self) -> float:
        """Right end of the support."""

    def pdf(self, x: NDArray[np.float64], /) -> Any:
        """Density at `x`."""


@dataclass(frozen=True)
class Fit:
    """A rate fitted on log-log axes, beside the predicted one.

    Attributes
    ----------
    slope : float
        Least-squares slope of log(mean over seeds) against log(size).
    stderr : float
        Its standard error, propagated from the spread over seeds; from the residuals where there
        is one seed only; NaN where neither can be had.
    predicted_slope : float or None
        The same slope of the predicted curve.
    """

    slope: float
    stderr: float
    predicted_slope: float | None = None

    def __str__(self) -> str:
        text = f"slope {self.slope:.3f} ± {self.stderr:.3f}"
        if self.predicted_slope is None:
            return text
        return f"{text}, predicted {self.predicted_slope:.3f}"


# --- style and panels ---------------------------------------------------------------------------


def use_style() -> None:
    """Apply the course's style to every figure made from here on."""
    plt.style.use(str(Path(__file__).with_name("gapcourse.mplstyle")))


def panel() -> tuple[Figure, Axes]:
    """Return a figure with one panel, sized for the book."""
    fig, axes = panels(1)
    return fig, axes[0]


def panels(n: int) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure with `n` panels, two in a row, so that they stay legible on a phone.

    Parameters
    ----------
    n : int
        Number of panels, at least 1.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : sequence of `n` matplotlib axes

    Raises
    ------
    TypeError
        If `n` is not a whole number.
    ValueError
        If `n` is below 1.
    """
    n = _checks.whole(n, "n")
    columns, rows = min(n, 2), (n + 1) // 2
    height = 4.2 if n == 1 else 4.0 * rows
    fig, grid = plt.subplots(rows, columns, figsize=(7.2, height), squeeze=False)
    axes = list(grid.flat)
    for spare in axes[n:]:
        spare.remove()
    return fig, axes[:n]


# --- checks and words ---------------------------------------------------------------------------


def _axes(ax: object) -> Axes:
    if not isinstance(ax, Axes):
        raise TypeError(
            f"ax must be matplotlib axes, got {_checks.shown(ax)}; pass those of figures.panel()"
        )
    return ax


def _figure(fig: object) -> Figure:
    if not isinstance(fig, Figure):
        raise TypeError(
            f"fig must be a matplotlib figure, got {_checks.shown(fig)}; pass that of "
            "figures.panel()"
        )
    return fig


def _law(law: Law) -> Law:
    edge = getattr(law, "edge", None)
    if not callable(getattr(law, "pdf", None)) or not isinstance(edge, numbers.Real):
        raise TypeError(
            f"law must have a density pdf and a number edge, got {_checks.shown(law)}; pass an "
            "object such as laws.QuarterCircle(1.0)"
        )
    return law


def _array(values: ArrayLike, name: str, *ndim: int) -> Floats:
    """Return finite numbers in one of these numbers of dimensions, one if none is given."""
    return _checks.within(values, name, ndim=ndim or (1,), remedy="remove it first")


def _not_negative(values: ArrayLike, name: str, *ndim: int) -> Floats:
    remedy = "singular values are never negative: pass them as they are"
    return _checks.within(values, name, 0, ndim=ndim or (1,), remedy=remedy)


def _positive(values: ArrayLike, name: str, *ndim: int) -> Floats:
    remedy = "log axes and ratios need numbers above 0: leave out the others"
    return _checks.within(values, name, 0, open_low=True, ndim=ndim or (1,), remedy=remedy)


def _complex(values: ArrayLike, name: str, *ndim: int) -> NDArray[np.complex128]:
    array: NDArray[np.complex128] = _checks.numbers(values, name, ndim=ndim, is_complex=True)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {_checks.shown(values)}; remove it first")
    return array


def _same_shape(array: Floats, name: str, other: Floats, other_name: str) -> None:
    if array.shape != other.shape:
        raise ValueError(
            f"{name} must have the shape of {other_name}, {other.shape}, got {array.shape}; pass "
            "one value for each"
        )


def _number(x: float, digits: int = 3) -> str:
    """Write `x` with a few digits, the way one would say it."""
    if x == 0:
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{x:.{digits - 1}e}"))))
    if -4 < exponent < 6:
        return f"{x:.{max(digits - 1 - exponent, 0)}f}"
    return f"{x / 10.0**exponent:.{digits - 1}f} × 10^{exponent}"


def _rate(slope: float) -> str:
    """Write an exponent; a rounding error of zero is zero."""
    return f"{round(slope, 3) + 0.0:.3f}"


def _spoken(label: str) -> str:
    """Write a label without mathematical markup, for the alternative text."""
    greek = {"lambda": "λ", "sigma": "σ", "alpha": "α", "gamma": "γ", "perp": "⊥", "times": "×"}
    plain = re.sub(r"\\([a-zA-Z]+)", lambda match: greek.get(match[1], match[1]), label)
    return " ".join(re.sub(r"[${}\\]", "", plain).split())


def _name_of(law: Law) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(law).__name__).lower()
    return f"{words} law"


def describe(ax: Axes, sentence: str) -> None:
    """Add a sentence to the alternative text of `ax`.

    Every plotting function of this module does so itself; call it for what you draw by hand.
    """
    if not isinstance(sentence, str):
        raise TypeError(
            f"sentence must be a string, got {_checks.shown(sentence)}; pass str(...) of it"
        )
    given, sentence = sentence, " ".join(sentence.split()).rstrip(".")
    if not sentence:
        raise ValueError(
            f"sentence must hold words, got {given!r}; say in words what the panel shows"
        )
    if re.match(r"(?:a|[^\W\d_]{2,})\b", sentence):  # a word; a symbol such as s_2 keeps its case
        sentence = sentence[0].upper() + sentence[1:]
    _sentences.setdefault(_axes(ax), []).append(f"{sentence}.")


def alt_text(fig: Figure) -> str:
    """Return the alternative text of a figure, panel by panel."""
    said = [" ".join(_sentences[ax]) for ax in _figure(fig).axes if ax in _sentences]
    if len(said) < 2:
        return "".join(said)
    return " ".join(f"Panel {i} of {len(said)}: {text}" for i, text in enumerate(said, 1))


def _label(ax: Axes, x: str, y: str) -> None:
    """Name the axes where nobody has yet."""
    if not ax.get_xlabel():
        ax.set_xlabel(x)
    if not ax.get_ylabel():
        ax.set_ylabel(y)


def _inches(ax: Axes) -> tuple[float, float]:
    """Return about how wide and high the axes will be."""
    grid, whole = ax.get_gridspec(), ax.figure
    columns, rows = (1, 1) if grid is None else (grid.ncols, grid.nrows)
    width, height = whole.bbox.width / whole.dpi, whole.bbox.height / whole.dpi
    return max(width / columns - 0.9, 0.5), max(height / rows - 0.9, 0.5)


def _legend(ax: Axes, *, from_zero: bool = False) -> None:
    """Draw the legend, every label once, in room made for it above the data."""
    handles, labels = ax.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    if not once:
        return
    grid = ax.get_gridspec()
    columns = 1 if grid is not None and grid.ncols > 1 else 2
    ax.legend(list(once.values()), list(once), loc="upper right", ncols=columns)
    rows = -(-len(once) // columns)
    inches = _inches(ax)[1]
    room = min(0.05 + 0.29 * rows / inches, 0.6)
    low, high = ax.dataLim.y0, ax.dataLim.y1  # of everything drawn so far
    if ax.get_yscale() == "log":
        span = max(high / low, 1.1)
        ax.set_ylim(low / span**0.06, high * span ** (0.06 + room / (1 - room)))
        return
    span = (high - low) or 1.0
    bottom = 0.0 if from_zero and low >= 0 else low - 0.06 * span
    ax.set_ylim(bottom, high + (high - bottom) * (0.03 + room) / (1 - room))


def _beyond(ax: Axes, text: str, color: str, *, y: float | None = None) -> None:
    """Point to a value that lies to the right of the axes, and name it in the legend."""
    row = sum(line.get_marker() == ">" for line in ax.lines)
    where = ax.transAxes if y is None else ax.get_yaxis_transform()
    y = 0.08 + 0.12 * row if y is None else y
    style: dict[str, Any] = {"color": color, "ls": "none", "markersize": 11, "clip_on": False}
    ax.plot([1.0], [y], ">", transform=where, label=text, **style)


def _plain_ticks(axis: Axis, *, subs: Sequence[float] = (1.0,)) -> None:
    """Label a log axis with the numbers themselves."""
    axis.set_major_locator(LogLocator(subs=list(subs)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


# --- the plots ----------------------------------------------------------------------------------


def spectrum(
    ax: Axes,
    values: ArrayLike,
    law: Law | None = None,
    *,
    outlier: float | None = None,
    label: str = "measured",
    prediction: float | None = None,
    name: str = "scaled singular values",
) -> None:
    """Draw singular values as a density, with the law that predicts them.

    The horizontal axis ends at three times the bulk: what lies further out is still counted in
    the density and named at the right edge, so that one huge value never hides all others.

    Parameters
    ----------
    ax : matplotlib axes
    values : (n,) array
        Non-negative values, the bulk only or all.
    law : object with `pdf` and `edge`, optional
        Its density is drawn over the histogram.
    outlier : float, optional
        A value standing apart, drawn as a marked line.
    label : str
        Legend entry of the histogram.
    prediction : float, optional
        The reader's guess, drawn as a dashed line.
    name : str
        What the values are, for the alternative text.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes, `law` is no law, or the numbers are empty, negative, NaN, or of the
        wrong shape.
    """
    ax, data = _axes(ax), _not_negative(values, "values")
    reference = float(_law(law).edge) if law is not None else float(np.quantile(data, 0.95))
    reference = reference if reference > 0 else max(float(data.max()), 1.0)
    limit = max(1.1 * reference, 1.02 * min(float(data.max()), 3 * reference))
    marks = [
        (None if mark is None else float(_not_negative(mark, what, 0)), what)
        for mark, what in ((outlier, "outlier"), (prediction, "prediction"))
    ]
    near = [m for m, _ in marks if m is not None and m <= _FAR * reference]
    hidden = int(np.count_nonzero(data > limit))
    width = reference / min(max(round(1.5 * math.sqrt(data.size)), 10), 40)
    edges = np.arange(0, max(limit, float(data[data <= limit].max(initial=0))) + width, width)
    counts, _ = np.histogram(data, edges)
    ax.stairs(
        counts / (data.size * width), edges, fill=True, color=MEASURED[0], alpha=0.55, label=label
    )
    says = f"Histogram of {data.size} {name} between {_number(data.min())}"
    says += f" and {_number(data.max())}"
    if law is not None:
        x = np.linspace(0, reference, 401)
        ax.plot(x, np.asarray(law.pdf(x), dtype=float), color=THEORY, label=_name_of(law))
        says += f"; the {_name_of(law)} ends at {_number(reference)}"
    for mark, what in marks:
        if mark is None:
            continue
        guess = what == "prediction"
        text = "your prediction" if guess else "outlier"
        color = PREDICTION if guess else OUTLIER
        if mark in near:
            ax.axvline(mark, color=color, ls=(0, (4, 2)) if guess else "-", label=text)
        else:
            _beyond(ax, f"{text} at {_number(mark)}", color)
        says += f"; {text if guess else 'the outlier'} stands at {_number(mark)}"
    if hidden:
        _beyond(ax, f"{hidden} more, up to {_number(data.max())}", MEASURED[0])
        says += f"; {hidden} of them lie beyond the right edge of the panel"
    ax.set_xlim(0, max([limit, *(1.06 * m for m in near)]))
    _label(ax, r"$\sqrt{T}\,\times$ singular value", "density")
    _legend(ax, from_zero=True)
    describe(ax, says)


def eigenvalue_cloud(
    ax: Axes,
    eigenvalues: ArrayLike,
    radius: float | None = None,
    *,
    outlier: complex | None = None,
    label: str = "measured",
    prediction: float | None = None,
) -> None:
    """Draw eigenvalues in the complex plane, with the circle that should hold them.

    Parameters
    ----------
    ax : matplotlib axes
    eigenvalues : (n,) complex array
    radius : float, optional
        Predicted radius, drawn as a circle.
    outlier : complex, optional
        An eigenvalue standing apart; named at the edge where it lies far outside.
    label : str
        Legend entry of the cloud.
    prediction : float, optional
        The reader's guess of the radius, drawn dashed.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes, the numbers are empty, NaN or of the wrong shape, or a radius is
        not positive.
    """
    ax, z = _axes(ax), _complex(eigenvalues, "eigenvalues", 1)
    circles = []
    for value, what in ((radius, "radius"), (prediction, "prediction")):
        if value is not None:
            circles.append((_checks.positive(value, what, "pass the radius of a circle"), what))
    o = None if outlier is None else complex(_complex(outlier, "outlier", 0))
    modulus = np.abs(z)
    drawn = radius is not None
    reference = circles[0][0] if drawn else float(np.quantile(modulus, 0.95)) or 1.0
    shown = z[modulus <= 3 * reference]
    limit = max(reference, float(np.abs(shown).max(initial=0)))
    ax.scatter(shown.real, shown.imag, s=12, color=MEASURED[0], linewidths=0, label=label)
    angle = np.linspace(0, 2 * np.pi, 181)
    says = f"{z.size} eigenvalues in the complex plane, the largest of modulus"
    says += f" {_number(modulus.max())}"
    for r, what in circles:
        guess = what == "prediction"
        text = "your prediction" if guess else "predicted circle"
        if r > _FAR * reference:
            _beyond(ax, f"{text}: {_number(r)}", PREDICTION)
        else:
            style: dict[str, Any] = {"color": THEORY}
            style = {"color": PREDICTION, "ls": (0, (4, 2))} if guess else style
            ax.plot(r * np.cos(angle), r * np.sin(angle), label=text, **style)
            limit = max(limit, r)
        if guess:
            says += f"; your prediction is the radius {_number(r)}"
        else:
            inside = np.count_nonzero(modulus <= r)
            says += f"; {inside} of them lie inside the predicted circle of radius {_number(r)}"
    if hidden := z.size - shown.size:
        _beyond(ax, f"{hidden} more, up to {_number(modulus.max())}", MEASURED[0])
        says += f"; {hidden} of them lie outside the panel"
    if o is not None:
        if abs(o) > _FAR * reference:
            _beyond(ax, f"outlier at {_number(o.real)}", OUTLIER, y=o.imag)
        else:
            ax.plot(
                [o.real], [o.imag], "D", color=OUTLIER, markersize=9, ls="none", label="outlier"
            )
            limit = max(limit, abs(o))
        says += f"; the outlier stands at {_number(o.real)}"
    _label(ax, "real part", "imaginary part")
    _legend(ax)
    (width, height), (bottom, top) = _inches(ax), ax.get_ylim()
    half = max(1.06 * limit, (top - bottom) * width / height / 2)  # equal scales fill the panel
    ax.set_xlim(-half, half)
    ax.set_aspect("equal", adjustable="box")
    describe(ax, says)


def ordered(
    ax: Axes,
    values: ArrayLike,
    predicted: ArrayLike | None = None,
    *,
    label: str = "measured",
    prediction: float | None = None,
    name: str = "singular values",
) -> None:
    """Draw values in decreasing order against their rank, the first one apart.

    Parameters
    ----------
    ax : matplotlib axes
    values : (n,) array
        Non-negative, in any order.
    predicted : (n,) array, optional
        Non-negative, predicted values in decreasing order, drawn as a dark line.
    label : str
        Legend entry of the values.
    prediction : float, optional
        The reader's guess of the second value, drawn as a dashed level.
    name : str
        What the values are, for the alternative text.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes, or the numbers are empty, NaN, or of the wrong shape.
    """
    ax, data = _axes(ax), np.sort(_not_negative(values, "values"))[::-1]
    rank = np.arange(1, data.size + 1)
    theory = None if predicted is None else _not_negative(predicted, "predicted")
    if theory is not None:
        _same_shape(theory, "predicted", data, "values")
    guess = None if prediction is None else float(_not_negative(prediction, "prediction", 0))
    ax.plot(rank, data, "o", color=MEASURED[0], alpha=0.75, mew=0, ls="none", label=label)
    says = f"{data.size} {name} in decreasing order"
    first = [_number(v) for v in data[:2]]
    says += f": the first is {first[0]}" + (f", the second {first[1]}" if first[1:] else "")
    says += f", the last {_number(data[-1])}" if data.size > 2 else ""
    if theory is not None:
        ax.plot(rank[:1], theory[:1], "_", color=THEORY, ls="none", markersize=22, mew=2.2)
        ax.plot(rank[1:], theory[1:], color=THEORY, label="theory")
        says += f"; theory says {' and '.join(_number(v) for v in theory[:2])}"
    if guess is not None:
        ax.axhline(guess, color=PREDICTION, ls=(0, (4, 2)), label="your prediction")
        says += f"; your prediction is {_number(guess)}"
    ax.set_xscale("log")
    _plain_ticks(ax.xaxis)
    ax.grid(axis="y")
    _label(ax, "rank", "value")
    _legend(ax, from_zero=True)
    describe(ax, says)


def fit_rate(sizes: ArrayLike, measured: ArrayLike, predicted: ArrayLike | None = None) -> Fit:
    """Fit a power law to measurements at several sizes.

    Parameters
    ----------
    sizes : (n,) array
        Positive, at least two different ones.
    measured : (n, seeds) or (n,) array
        Positive.
    predicted : (n,) array, optional
        Positive; its own slope is returned beside.

    Returns
    -------
    Fit

    Raises
    ------
    TypeError, ValueError
        If a shape does not match or a number is not positive.
    """
    x, y, theory = _sweep_arrays(sizes, measured, predicted)
    log_x, mean = np.log(x), y.mean(axis=1)
    centred = log_x - log_x.mean()
    weight = centred / (centred @ centred)
    slope = float(weight @ np.log(mean))
    if y.shape[1] > 1:  # error of log(mean), seeds being independent
        error = y.std(axis=1, ddof=1) / (mean * math.sqrt(y.shape[1]))
        stderr = float(np.sqrt(weight**2 @ error**2))
    elif x.size > 2:
        residual = np.log(mean) - np.log(mean).mean() - slope * centred
        stderr = float(np.sqrt(residual @ residual / (x.size - 2) / (centred @ centred)))
    else:
        stderr = math.nan
    return Fit(slope, stderr, None if theory is None else float(weight @ np.log(theory)))


def _sweep_arrays(
    sizes: ArrayLike, measured: ArrayLike, predicted: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
    x, y = _positive(sizes, "sizes"), _positive(measured, "measured", 1, 2)
    y = y.reshape(len(y), -1)
    if len(y) != len(x):
        raise ValueError(
            f"measured must have one row a size, got {len(y)} rows for {len(x)} sizes; pass it as "
            "(sizes, seeds)"
        )
    theory = None if predicted is None else _positive(predicted, "predicted")
    if theory is not None:
        _same_shape(theory, "predicted", x, "sizes")
    if np.unique(x).size < 2:
        raise ValueError(
            f"sizes must hold two different sizes, got {_checks.shown(sizes)}; add another"
        )
    return x, y, theory


def sweep(
    ax: Axes,
    sizes: ArrayLike,
    measured: ArrayLike,
    predicted: ArrayLike | None = None,
    *,
    label: str = "measured",
    color: str | None = None,
    prediction: ArrayLike | None = None,
) -> Fit:
    """Draw a quantity against size on log-log axes and fit its rate.

    The points are means over seeds, the band holds the middle 80 % of the seeds, the dark line
    is the theory. Call it again on the same axes for another series: it takes the next colour.

    Parameters
    ----------
    ax : matplotlib axes
    sizes : (n,) array
        Positive sizes.
    measured : (n, seeds) or (n,) array
        Positive measurements, one row a size.
    predicted : (n,) array, optional
        The theory at each size.
    label : str
        Legend entry of the series.
    color : str, optional
        Any matplotlib colour; the next one of the style where there is none.
    prediction : float or (n,) array, optional
        The reader's guess, drawn dashed.

    Returns
    -------
    Fit
        Fitted slope, its standard error and the predicted slope.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes, a shape does not match, or a number is not positive.
    """
    ax = _axes(ax)
    x, y, theory = _sweep_arrays(sizes, measured, predicted)
    order = np.argsort(x)
    x, y = x[order], y[order]
    theory = None if theory is None else theory[order]
    guess = None
    if prediction is not None:
        guess = _positive(prediction, "prediction", 0, 1)
        if guess.ndim:
            _same_shape(guess, "prediction", x, "sizes")
        guess = np.broadcast_to(guess, x.shape)[order]
    fit = fit_rate(x, y, theory)
    series = sum(line.get_marker() in MARKERS for line in ax.lines)
    color = MEASURED[series % len(MEASURED)] if color is None else color
    mean = y.mean(axis=1)
    if y.shape[1] > 1:
        low, high = np.quantile(y, [0.1, 0.9], axis=1)
        ax.fill_between(x, low, high, color=color, alpha=0.22, lw=0)
    ax.plot(x, mean, MARKERS[series % len(MARKERS)], color=color, ls="none", label=label)
    first, last = _number(mean[0]), _number(mean[-1])
    says = f"{_spoken(label)} {'falls' if mean[-1] < mean[0] else 'rises'}"
    says += f" from {first} at size {x[0]:g} to {last} at size {x[-1]:g}"
    if first == last:
        says = f"{_spoken(label)} stays at {first} from size {x[0]:g} to size {x[-1]:g}"
    says += f", fitted slope {_rate(fit.slope)}"
    if theory is not None and fit.predicted_slope is not None:
        ax.plot(x, theory, color=THEORY, zorder=2.5, label="theory")
        says += f"; theory ends at {_number(theory[-1])}, slope {_rate(fit.predicted_slope)}"
    if guess is not None:
        ax.plot(x, guess, color=PREDICTION, ls=(0, (4, 2)), label="your prediction")
        says += f"; your prediction ends at {_number(guess[-1])}"
    ticks = sorted({*x, *ax.get_xticks()} if series else set(x))
    if not series:
        ax.set_xscale("log")
        ax.set_yscale("log")
    span = math.log10(ax.dataLim.y1 / ax.dataLim.y0)
    if ax.dataLim.y0 > 1e-4 and ax.dataLim.y1 < 1e5 and span < 3:
        _plain_ticks(ax.yaxis, subs=(1, 2, 5) if span < 1.5 else (1,))
    ax.grid(axis="y", which="major")
    _size_ticks(ax, ticks)
    _label(ax, "tokens T", "value")
    _legend(ax)
    describe(ax, says)
    return fit


def _size_ticks(ax: Axes, sizes: Sequence[float]) -> None:
    """Label the sizes themselves, as many as fit without touching."""
    span = math.log(sizes[-1] / sizes[0])
    room = 0.11 if len(ax.figure.axes) == 1 else 0.24
    chosen = [sizes[0]]
    for size in sizes[1:]:
        if math.log(size / chosen[-1]) >= room * span:
            chosen.append(size)
    ax.set_xticks(chosen, [f"{size:g}" for size in chosen])
    ax.xaxis.set_minor_locator(LogLocator(subs=[]))
    ax.xaxis.set_minor_formatter(NullFormatter())


def curve(
    ax: Axes,
    x: ArrayLike,
    measured: ArrayLike,
    predicted: ArrayLike,
    *,
    label: str = "measured",
    level: float | None = None,
    level_label: str = "limit",
) -> None:
    """Draw a measured quantity over its prediction on plain axes, with the level both tend to.

    Parameters
    ----------
    ax : matplotlib axes
    x, measured, predicted : (n,) arrays
    label : str
        What is measured: legend entry and alternative text.
    level : float, optional
        A horizontal line.
    level_label : str
        Its legend entry.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes, or the arrays are empty, NaN, or of different shapes.
    """
    ax, at, y = _axes(ax), _array(x, "x"), _array(measured, "measured")
    theory = _array(predicted, "predicted")
    for array, what in ((y, "measured"), (theory, "predicted")):
        _same_shape(array, what, at, "x")
    height = None if level is None else float(_array(level, "level", 0))
    ax.plot(at, y, "o", color=MEASURED[0], ls="none", label=label, zorder=3)
    ax.plot(at, theory, color=THEORY, label="theory")
    says = f"{label} goes from {_number(y[0])} at {at[0]:g} to {_number(y[-1])} at {at[-1]:g}"
    says += f"; theory goes from {_number(theory[0])} to {_number(theory[-1])}"
    if height is not None:
        ax.axhline(height, color=OUTLIER, ls=":", label=level_label)
        says += f"; the {level_label} is {_number(height)}"
    ax.grid(axis="y")
    _legend(ax)
    describe(ax, says)


def parity(ax: Axes, predicted: ArrayLike, measured: ArrayLike, *, label: str = "measured") -> None:
    """Draw measured against predicted, one mark a draw; on the diagonal they agree.

    Call it again on the same axes for another series: it takes the next colour.

    Parameters
    ----------
    ax : matplotlib axes
    predicted, measured : (n,) arrays
    label : str
        Legend entry of the series.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes, or the arrays are empty, NaN, not positive, or of different shapes.
    """
    ax, x, y = _axes(ax), _positive(predicted, "predicted"), _positive(measured, "measured")
    _same_shape(y, "measured", x, "predicted")
    series = len(ax.collections)
    color, marker = MEASURED[series % len(MEASURED)], MARKERS[series % len(MARKERS)]
    ax.scatter(x, y, s=36, color=color, marker=marker, alpha=0.75, linewidths=0, label=label)
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    for line in ax.lines:  # the diagonal of the series before
        ends = np.asarray(line.get_xdata(), dtype=float)
        low, high = min(low, ends[0]), max(high, ends[-1])
        line.remove()
    ax.plot([low, high], [low, high], color=THEORY, zorder=0.5, label="theory")
    error = float(np.abs(x / y - 1).mean())
    _label(ax, "predicted", "measured")
    _legend(ax)
    describe(
        ax,
        f"{label}: {x.size} draws with measured values from {_number(y.min())} to "
        f"{_number(y.max())}, on average {100 * error:.0f} % from the predicted ones",
    )


# --- publishing ---------------------------------------------------------------------------------


def _rounded(values: NDArray[np.float64]) -> str:
    """Five digits of each number, and nothing below a millionth of the largest; one line."""
    scale = float(np.abs(values).max(initial=0))
    kept = np.where(np.abs(values) < 1e-6 * scale, 0.0, values)
    return " ".join(f"{v:.5g}" for v in kept)


def _digest(kind: str, xy: NDArray[np.float64], *, in_order: bool) -> dict[str, Any]:
    """Summarise points by count, mean, spread, and nine of them (quantiles where unordered)."""
    out: dict[str, Any] = {"kind": kind, "n": len(xy)}
    xy = xy[np.isfinite(xy).all(axis=1)]
    for name, values in zip("xy", xy.T, strict=True):
        if values.size == 0:
            continue
        picked = values if in_order else np.sort(values)
        nine = picked[np.linspace(0, len(picked) - 1, 9).round().astype(int)]
        wave = values if in_order else picked  # a weighted mean sees what the nine miss
        weight = np.cos(np.arange(len(wave)))
        moments = [values.mean(), values.std(), (weight @ wave) / len(wave)]
        out[name] = _rounded(np.concatenate([moments, nine]))
    return out


def summary(fig: Figure) -> list[dict[str, Any]]:
    """Return what a figure plots, small enough to store and to compare with a tolerance.

    One entry a panel: its words and, for every artist, count, mean, spread and nine points.
    Colours and sizes are not in it.
    """
    out = []
    for ax in _figure(fig).axes:
        artists = [
            _digest("line", np.column_stack(line.get_data()).astype(float), in_order=True)
            for line in ax.lines
        ]
        for patch in ax.patches:
            vertices = patch.get_patch_transform().transform(patch.get_path().vertices)
            artists.append(_digest("patch", np.asarray(vertices, dtype=float), in_order=True))
        for collection in ax.collections:
            offsets = np.asarray(collection.get_offsets(), dtype=float)
            if len(offsets) > 1 or offsets.any():
                artists.append(_digest("points", offsets, in_order=False))
            else:
                paths = [np.asarray(path.vertices, dtype=float) for path in collection.get_paths()]
                if paths:
                    artists.append(_digest("area", np.vstack(paths), in_order=True))
        for image in ax.images:
            pixels = np.asarray(image.get_array(), dtype=float)
            points = np.column_stack([np.arange(pixels.size), pixels.ravel()])
            artists.append(_digest("image", points, in_order=True))
        legend = ax.get_legend()
        words = [ax.get_title(), ax.get_xlabel(), ax.get_ylabel()]
        words += [text.get_text() for text in ax.texts]
        words += [] if legend is None else [text.get_text() for text in legend.get_texts()]
        out.append({"text": [word for word in words if word], "artists": artists})
    return out


def show(fig: Figure) -> None:
    """Publish a figure with its alternative text and a summary of its data, and close it.

    In a notebook the same data give the same bytes. In a plain Python session the figure opens
    in a window where there is a screen.

    Raises
    ------
    ValueError
        If the figure has no alternative text: see `describe`.
    """
    alt = alt_text(fig)
    if not alt:
        raise ValueError(
            f"fig must have an alternative text, got {_checks.shown(fig)} without one; add a "
            "sentence with describe(ax, …)"
        )
    if not _in_notebook():
        plt.show()
        return
    from IPython.display import display

    png = io.BytesIO()
    fig.savefig(png, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True})
    data = {"image/png": base64.b64encode(png.getvalue()).decode("ascii"), "text/plain": alt}
    facts = {"gapcourse": {"alt": alt, "data": summary(fig)}}
    plt.close(fig)
    publish: Any = display
    publish(data, metadata=facts, raw=True)


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    return hasattr(sys.modules["IPython"].get_ipython(), "kernel")
