"""The figures of the course: measurement, theory and the reader's own prediction together.

Every function takes arrays and an `ax` and computes nothing that the reader should see computed.
What is measured is drawn in colour, the theory as a dark line over it, the reader's prediction
dashed. Each also writes one sentence of alternative text, with numbers taken from the data.
"""

from __future__ import annotations

import base64
import io
import itertools
import math
import numbers
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation
from numpy.typing import ArrayLike, NDArray

from . import _checks
from ._checks import Floats

__all__ = [
    "Fit",
    "alt_text",
    "chords",
    "crossings",
    "curve",
    "describe",
    "distribution",
    "eigenvalue_cloud",
    "fit_rate",
    "heatmap",
    "matrix",
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
OTHER = "#7c3aed"  # a second law beside the theory, dashed
MARKERS = ("o", "s", "^", "D")

_BLUES = LinearSegmentedColormap.from_list("blues", [BACKGROUND, "#6fb1de", "#0072b2", "#00263d"])
_SIGNS = LinearSegmentedColormap.from_list(
    "signs", ["#004066", "#0072b2", BACKGROUND, PREDICTION, "#7a2807"]
)
_CELLS = 120  # rows or columns of an image; of a larger matrix, means of blocks are drawn
_ZERO = 1e-6  # of the edge: what is below is a zero that rounding has moved
_FAR = 6.0  # a mark further out than this many bulks is named beside an arrow, not drawn to scale
_sentences: WeakKeyDictionary[Axes, list[str]] = WeakKeyDictionary()
_fitted: WeakKeyDictionary[Axes, tuple[str, tuple[float, float]]] = WeakKeyDictionary()


class Law(Protocol):
    """What a figure needs of a limiting law: a density and where it ends."""

    @property
    def edge(self) -> float:
        """Right end of the support."""

    def pdf(self, x: NDArray[np.float64], /) -> Any:
        """Density at `x`."""


class Distribution(Protocol):
    """What `distribution` needs of a law: a distribution function and where it ends."""

    @property
    def edge(self) -> float:
        """Right end of the support."""

    def cdf(self, x: NDArray[np.float64], /) -> Any:
        """Probability of a value of at most `x`."""


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
    height = 4.4 * rows  # with legends below the panels
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


_L = TypeVar("_L", Law, Distribution)


def _law(law: _L, name: str = "law", method: str = "pdf") -> _L:
    edge = getattr(law, "edge", None)
    if not callable(getattr(law, method, None)) or not isinstance(edge, numbers.Real):
        what = {"pdf": "a density pdf", "cdf": "a distribution function cdf"}[method]
        raise TypeError(
            f"{name} must have {what} and a number edge, got {_checks.shown(law)}; pass an "
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


def _one_row(array: Floats, name: str, x: Floats, x_name: str, each: str) -> Floats:
    """Return measurements as (n, seeds)."""
    if len(array) != len(x):
        raise ValueError(
            f"{name} must have one row {each}, got {len(array)} rows for {len(x)} {x_name}; pass "
            f"it as ({x_name}, seeds)"
        )
    return array.reshape(len(array), -1)


def _number(x: float, digits: int = 3) -> str:
    """Write `x` with a few digits, the way one would say it."""
    if x == 0:
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{x:.{digits - 1}e}"))))
    if -4 < exponent < 6:
        return f"{x:.{max(digits - 1 - exponent, 0)}f}"
    return f"{x / 10.0**exponent:.{digits - 1}f} × 10^{exponent}"


def _snapped(x: float, scale: float) -> float:
    """Return `x`, or 0 where rounding errors, which differ between computers, are all it is."""
    return float(x) if abs(x) > 1e-12 * scale else 0.0


def _rate(slope: float) -> str:
    """Write an exponent; a rounding error of zero is zero."""
    return f"{round(slope, 3) + 0.0:.3f}"


def _spoken(label: str) -> str:
    """Write a label without mathematical markup, for the alternative text."""
    greek = {"lambda": "λ", "sigma": "σ", "alpha": "α", "gamma": "γ", "perp": "⊥", "times": "×"}
    plain = re.sub(r"\\([a-zA-Z]+)", lambda match: greek.get(match[1], match[1]), label)
    return " ".join(re.sub(r"[${}\\]", "", plain).split())


def _name_of(law: object) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(law).__name__)
    is_named_after_people = words in {"Fuss-Catalan", "Marchenko-Pastur"}
    return f"{words if is_named_after_people else words.lower()} law"


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
    """Return the alternative text of a figure, panel by panel; equal neighbours are named once."""
    said = [" ".join(_sentences[ax]) for ax in _figure(fig).axes if ax in _sentences]
    if len(said) < 2:
        return "".join(said)
    parts, first = [], 1
    for text, group in itertools.groupby(said):
        last = first + len(list(group)) - 1
        panels = f"Panel {first}" if first == last else f"Panels {first} to {last}"
        parts.append(f"{panels} of {len(said)}: {text}")
        first = last + 1
    return " ".join(parts)


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


def _columns(ax: Axes) -> int:
    """Return how many columns a legend may have."""
    grid = ax.get_gridspec()
    return 1 if grid is not None and grid.ncols > 1 else 2


def _legend(ax: Axes, *, from_zero: bool = False, top: float | None = None) -> None:
    """Draw the legend, every label once, below the axes, and leave the data (or `top`) some air."""
    handles, labels = ax.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    if not once:
        return
    names = sorted(once, key=lambda name: name.startswith("theory"))  # theory last
    below = ScaledTranslation(0, -0.52, ax.figure.dpi_scale_trans)  # of ticks and the axis' name
    ax.legend(
        [once[name] for name in names],
        names,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + below,
        ncols=_columns(ax),
    )
    low, high = ax.dataLim.y0, ax.dataLim.y1  # of everything drawn so far
    if ax.get_yscale() == "log":
        low = low if low > 0 else ax.dataLim.minposy
        air = max(high / low, 1.1) ** 0.06
        ax.set_ylim(low / air, high * air)
    else:
        high = high if top is None else top
        air = 0.06 * ((high - low) or 1.0)
        ax.set_ylim(0.0 if from_zero and low >= 0 else low - air, high + air)
    _fitted[ax] = ax.get_yscale(), ax.get_ylim()


def _refit(ax: Axes) -> None:
    """Make the room anew where the scale has changed since, unless the limits were set by hand."""
    if ax in _fitted:
        scale, limits = _fitted[ax]
        if ax.get_yscale() != scale and ax.get_ylim() == limits:
            _legend(ax)


def _share_legend(fig: Figure) -> None:
    """Where all panels have the same legend, draw it once below them."""
    legends = [legend for ax in fig.axes if ax in _fitted and (legend := ax.get_legend())]
    names = [[text.get_text() for text in legend.get_texts()] for legend in legends]
    if len(legends) > 1 and all(some == names[0] for some in names):
        handles = [handle for handle in legends[0].legend_handles if handle is not None]
        columns = min(len(handles), max(1, 80 // (6 + max(map(len, names[0])))))
        for legend in legends:
            legend.remove()
        fig.legend(handles, names[0], loc="outside lower center", ncols=columns)


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


def _density(law: Law) -> tuple[Floats, Floats]:
    """Return points of a density on its support, with NaN in the gaps."""
    end = float(law.edge)
    bands = getattr(law, "bands", ((float(getattr(law, "lower_edge", 0.0)), end),))
    gap = np.array([np.nan])
    x: list[Floats] = []
    y: list[Floats] = []
    for low, high in bands:
        at = np.linspace(low, high, 401)
        if not np.isfinite(law.pdf(at[:1])).all():
            at = np.sort(np.r_[at, low + (high - low) * np.geomspace(1e-6, 2e-3, 30)])
        x += [at, gap]
        y += [np.asarray(law.pdf(at), dtype=float), gap]
    return np.concatenate(x[:-1]), np.concatenate(y[:-1])


def _zeros(data: Floats, law: object, edge: float) -> tuple[NDArray[np.bool_], float]:
    """Return which values belong to the atom of the law at zero, and the atom."""
    atom = float(getattr(law, "atom", 0.0))
    return (data <= _ZERO * edge) & (atom > 0), atom


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
    other: Law | None = None,
    other_label: str | None = None,
) -> None:
    """Draw singular values as a density, with the law that predicts them.

    The horizontal axis ends at three times the bulk: what lies further out is still counted in
    the density and named at the right edge, so that one huge value never hides all others. In the
    same way a density that towers over the histogram, or is infinite at 0, leaves by the top.
    Where the law has an atom at zero, the zeros are counted in the density but not drawn as a
    bar: their share is named. Call it again on the same axes for another histogram: it takes the
    next colour.

    Parameters
    ----------
    ax : matplotlib axes
    values : (n,) array
        Non-negative values, the bulk only or all.
    law : object with `pdf` and `edge`, optional
        Its density is drawn over the histogram, on the support: between the intervals `bands`, or
        below `lower_edge`, if the law has such an attribute, there is no line. `atom`, if it has
        one, is the probability of zero.
    outlier : float, optional
        A value standing apart, drawn as a marked line.
    label : str
        Legend entry of the histogram.
    prediction : float, optional
        The reader's guess, drawn as a dashed line.
    name : str
        What the values are, for the alternative text.
    other : object with `pdf` and `edge`, optional
        A second law to compare with, drawn dashed.
    other_label : str, optional
        Its legend entry; its name unless given.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes, `law` or `other` is no law, both have one name, or the numbers are
        empty, negative, NaN, or of the wrong shape.
    """
    ax, data = _axes(ax), _not_negative(values, "values")
    laws = [
        (_law(given, what), (what == "other" and other_label) or _name_of(given), what)
        for given, what in ((law, "law"), (other, "other"))
        if given is not None
    ]
    if len({text for _, text, _ in laws}) < len(laws):
        raise ValueError(
            f"other_label must differ from the name of law, got {_checks.shown(laws[-1][1])}; "
            "pass other_label, such as 'i.i.d.'"
        )
    ends = [float(given.edge) for given, *_ in laws]
    reference = max(ends, default=float(np.quantile(data, 0.95)))
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
    zero, atom = _zeros(data, law, reference)
    lowest = _snapped(data.min(), data.max())
    heights = np.histogram(data[~zero], edges)[0] / (data.size * width)
    color = MEASURED[sum(isinstance(p, StepPatch) for p in ax.patches) % len(MEASURED)]
    ax.stairs(heights, edges, fill=True, color=color, alpha=0.55, label=label)
    says = f"Histogram of {data.size} {name} between {_number(lowest)}"
    says += f" and {_number(data.max())}"
    tallest, top = float(heights.max()), None
    for (given, text, what), end in zip(laws, ends, strict=True):
        x, y = _density(given)
        style = {"color": THEORY} if what == "law" else {"color": OTHER, "ls": (0, (3, 1.5))}
        ax.plot(x, y, label=text, **style)
        says += f"; the {_spoken(text)} ends at {_number(end)}"
        if 0 < 1.6 * tallest < np.nanmax(y):
            top = 1.25 * tallest
            says += ", and its density leaves the panel at the top"
    if atom > 0:
        share = f"share of zeros {_number(zero.mean(), 2)}, theory {_number(atom, 2)}"
        text = share if _columns(ax) > 1 else share.replace(", ", ",\n")
        ax.plot([0], [0], "^", color=color, ls="none", ms=11, clip_on=False, label=text)
        says += f"; {share}"
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
    _legend(ax, from_zero=True, top=top)
    describe(ax, says)


def distribution(
    ax: Axes, values: ArrayLike, law: Distribution, *, label: str = "measured"
) -> float:
    """Draw the share of values up to each point as steps, over the law's distribution function.

    Where they are furthest apart, a bar joins them. Call it again on the same axes for another
    series: it takes the next colour.

    Parameters
    ----------
    ax : matplotlib axes
    values : (n,) array
    law : object with `cdf` and `edge`
        It may have an atom at zero, the attribute `atom`: zeros that rounding has moved, up to a
        millionth of the edge, count as zeros then.
    label : str
        Legend entry of the steps.

    Returns
    -------
    float
        The largest distance between the two functions (Kolmogorov-Smirnov), taken on both sides
        of every step.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes, `law` has no distribution function, or the values are empty, NaN or of
        the wrong shape.
    """
    ax, data = _axes(ax), _array(values, "values")
    edge = float(_law(law, method="cdf").edge)
    data = np.sort(np.where(_zeros(data, law, edge)[0], 0.0, data))
    share = np.arange(data.size + 1) / data.size
    at = np.asarray(law.cdf(data), dtype=float)
    before = np.asarray(law.cdf(np.nextafter(data, -np.inf)), dtype=float)
    above, below = share[1:] - at, before - share[:-1]
    apart = np.maximum(above, below)
    distance = float(apart.max())
    worst = int(np.argmax(apart > distance - 1e-9))  # the first, whatever the last digits are
    ends = (at, share[1:]) if above[worst] >= below[worst] else (before, share[:-1])
    low, high = min(0.0, data[0]), max(edge, min(data[-1], 3 * edge))
    x = np.r_[np.nextafter(low, -np.inf), np.linspace(low, high, 401)]
    series = sum(line.get_drawstyle() == "steps-post" for line in ax.lines)
    color = MEASURED[series % len(MEASURED)]
    steps = np.r_[low, data, max(high, data[-1])], np.r_[share, 1.0]
    ax.plot(*steps, drawstyle="steps-post", color=color, lw=3.2, alpha=0.75, label=label)
    ax.plot(x, law.cdf(x), color=THEORY, lw=1.6, label=_name_of(law))
    text = f"largest distance {_number(distance)}"
    ax.plot([data[worst]] * 2, [e[worst] for e in ends], "-", color=OUTLIER, lw=4, label=text)
    says = f"{_spoken(label)}: distribution function of {data.size} values between"
    says += f" {_number(data[0])} and {_number(data[-1])}, over the {_name_of(law)}, which ends at"
    says += f" {_number(edge)}; the largest distance is {_number(distance)}"
    if hidden := int(np.count_nonzero(data > high)):
        says += f"; {hidden} of the values lie beyond the right edge of the panel"
    left, right = (low, high) if not series else ax.get_xlim()
    ax.set_xlim(min(left, low), max(right, high))
    ax.grid(axis="y")
    ax.set_yticks(np.linspace(0, 1, 6))
    _label(ax, r"$\sqrt{T}\,\times$ singular value", "share of values up to x")
    _legend(ax, from_zero=True)
    describe(ax, says)
    return distance


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
    says += f", the last {_number(_snapped(data[-1], data[0]))}" if data.size > 2 else ""
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
    y = _one_row(y, "measured", x, "sizes", "a size")
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
    series, mean = _points(ax, x, y, label, color)
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
    else:
        ax.set_yscale("log")  # the usual ticks, where an earlier series had plain ones
    ax.grid(axis="y", which="major")
    _size_ticks(ax, ticks)
    _label(ax, "tokens T", "value")
    _legend(ax)
    describe(ax, says)
    return fit


def _points(
    ax: Axes, x: Floats, y: Floats, label: str, color: str | None = None, **style: Any
) -> tuple[int, Floats]:
    """Draw the means over seeds and the band; return the number of series before, and the means."""
    series = sum(line.get_marker() in MARKERS for line in ax.lines)
    color = MEASURED[series % len(MEASURED)] if color is None else color
    mean = y.mean(axis=1)
    if y.shape[1] > 1:
        low, high = np.quantile(y, [0.1, 0.9], axis=1)
        ax.fill_between(x, low, high, color=color, alpha=0.22, lw=0)
    marker = MARKERS[series % len(MARKERS)]
    ax.plot(x, mean, marker, color=color, ls="none", label=label, **style)
    return series, mean


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
    predicted: ArrayLike | None = None,
    *,
    label: str = "measured",
    level: float | None = None,
    level_label: str = "limit",
) -> None:
    """Draw a measured quantity over its prediction on plain axes, with the level both tend to.

    The points are means over seeds, the band holds the middle 80 % of the seeds. Call it again on
    the same axes for another series: it takes the next colour. For a quantity that decays
    geometrically call ``ax.set_yscale("log")``, before or after.

    Parameters
    ----------
    ax : matplotlib axes
    x : (n,) array
    measured : (n,) or (n, seeds) array
        Positive on a log axis.
    predicted : (n,) array, optional
        The theory at each `x`.
    label : str
        What is measured: legend entry and alternative text.
    level : float, optional
        A horizontal line.
    level_label : str
        Its legend entry.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes, or the arrays are empty, NaN, of different shapes, or not positive on a
        log axis.
    """
    ax, at = _axes(ax), _array(x, "x")
    real = _positive if ax.get_yscale() == "log" else _array
    y = real(measured, "measured", 1, 2)
    if y.ndim == 1:
        _same_shape(y, "measured", at, "x")
    y = _one_row(y, "measured", at, "x", "a point")
    theory = None if predicted is None else real(predicted, "predicted")
    if theory is not None:
        _same_shape(theory, "predicted", at, "x")
    height = None if level is None else float(real(level, "level", 0))
    order = np.argsort(at, kind="stable")
    at, y = at[order], y[order]
    _, mean = _points(ax, at, y, label, zorder=3)
    says = _spoken(label) + (f", the mean of {y.shape[1]} seeds," if y.shape[1] > 1 else "")
    says += f" goes from {_number(mean[0])} at {at[0]:.4g} to {_number(mean[-1])} at {at[-1]:.4g}"
    if theory is not None:
        theory = theory[order]
        ax.plot(at, theory, color=THEORY, label="theory")
        says += f"; theory goes from {_number(theory[0])} to {_number(theory[-1])}"
    if height is not None:
        ax.axhline(height, color=OUTLIER, ls=":", label=level_label)
        line = _spoken(level_label)
        says += f"; {'' if line.startswith('your') else 'the '}{line} is {_number(height)}"
    ax.grid(axis="y")
    _legend(ax)
    describe(ax, says)


def heatmap(
    ax: Axes,
    rows: Sequence[object],
    columns: Sequence[object],
    values: ArrayLike,
    *,
    label: str = "values",
    row_label: str = "row",
    column_label: str = "column",
    logarithmic: bool = False,
) -> None:
    """Draw a table of numbers as coloured cells, each with its number written in it.

    Dark cells are large. For numbers over several decades colour their logarithm.

    Parameters
    ----------
    ax : matplotlib axes
    rows, columns : sequences of numbers or str
        What the rows and columns stand for, from the top and from the left.
    values : (len(rows), len(columns)) array
        Real numbers; positive where `logarithmic`. A masked cell stays empty: where a sweep failed
        and left NaN, pass ``np.ma.masked_invalid(values)``.
    label : str
        What the numbers are: colour bar and alternative text.
    row_label, column_label : str
        Names of the axes.
    logarithmic : bool
        Whether equal ratios get equal steps of colour.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes, `values` is empty, all masked, NaN, of another shape than its names, or
        not positive where it must be, or `logarithmic` is neither True nor False.
    """
    ax, logs = _axes(ax), _checks.flag(logarithmic, "logarithmic")
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else False
    if np.any(mask):
        if np.all(mask):
            raise ValueError("values must have a cell that is not masked, got none; pass numbers")
        values = np.ma.filled(values, np.ma.compressed(values)[0])
    table = np.ma.array((_positive if logs else _array)(values, "values", 2), mask=mask)
    empty = np.ma.getmaskarray(table)
    names = [[_cell_name(n) for n in part] for part in (rows, columns)]
    if table.shape != (shape := (len(names[0]), len(names[1]))):
        raise ValueError(
            f"values must have a row for each of rows and a column for each of columns, {shape}, "
            f"got shape {table.shape}; transpose it or name what is missing"
        )
    low, high = float(table.min()), float(table.max())
    norm = LogNorm(low, high) if logs and high > low else Normalize(low, high)
    image = ax.imshow(table, cmap=_BLUES.resampled(65), norm=norm, aspect="auto")
    bar = ax.figure.colorbar(image, ax=ax, location="bottom")
    bar.outline.set_visible(False)
    bar.set_label(label)
    ax.set_xticks(range(shape[1]), names[1])
    ax.set_yticks(range(shape[0]), names[0])
    ax.tick_params(length=0)
    ax.grid(visible=False)
    written = [
        "–" if blank else re.sub(r"e([-+])0", r"e\1", f"{value:.2g}")
        for value, blank in zip(table.data.flat, empty.flat, strict=True)
    ]
    room = 72 * _inches(ax)[0] / shape[1]  # points that a cell is wide; a digit takes 0.65 of size
    size = min(9.0, room / (0.65 * max(map(len, written))))
    for (i, j), text in zip(np.ndindex(shape), written, strict=True):
        ink = BACKGROUND if not empty[i, j] and norm(table[i, j]) > 0.57 else THEORY
        ax.text(j, i, text, ha="center", va="center", color=ink, fontsize=size)
    _label(ax, column_label, row_label)
    places = [np.unravel_index(i, table.shape) for i in (table.argmin(), table.argmax())]
    ends = [
        f"{_number(table[i, j])} ({_spoken(row_label)} {names[0][i]},"
        f" {_spoken(column_label)} {names[1][j]})"
        for i, j in places
    ]
    corners = ["empty" if empty[i, j] else _number(table[i, j]) for i in (0, -1) for j in (0, -1)]
    describe(
        ax,
        f"Table of {shape[0]} rows ({_spoken(row_label)} {names[0][0]} to {names[0][-1]}) and"
        f" {shape[1]} columns ({_spoken(column_label)} {names[1][0]} to {names[1][-1]}) in colour,"
        f" {_spoken(label)} from {ends[0]} to {ends[1]}; the corners, row by row: "
        + ", ".join(corners),
    )


def _cell_name(name: object) -> str:
    """Return what stands at a row or column: a text as it is, a number without needless zeros."""
    return f"{name:g}" if isinstance(name, numbers.Real) else str(name)


def matrix(ax: Axes, M: ArrayLike, *, label: str = "entries", limit: float | None = None) -> None:
    """Draw the entries of a matrix as an image with a colour bar.

    Zero has the colour of the paper. Positive entries go to blue; where there are entries of both
    signs, negative ones go to blue and positive ones to orange, on one scale. A matrix with more
    than 120 rows or columns is drawn as the means of square blocks, and the colour bar says so.

    Parameters
    ----------
    ax : matplotlib axes
    M : (rows, columns) array
        Real entries.
    label : str
        Name of the colour bar.
    limit : float, optional
        Where the colour scale ends, in absolute value; the largest that is drawn by default.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes, `M` is empty, NaN or of the wrong shape, or `limit` is not positive.
    """
    ax, entries = _axes(ax), _array(M, "M", 2)
    remedy = "pass where the colours end, such as the largest |M|"
    end = None if limit is None else _checks.positive(limit, "limit", remedy)
    rows, columns = entries.shape
    side = -(-max(rows, columns) // _CELLS)
    drawn = _means_of_blocks(entries, side)
    end = float(np.abs(drawn).max()) or 1.0 if end is None else end
    least, most = (_snapped(v, np.abs(entries).max()) for v in (entries.min(), entries.max()))
    has_minus, has_plus = least < 0, most > 0
    colors = _SIGNS if has_minus and has_plus else _BLUES.reversed() if has_minus else _BLUES
    image = ax.imshow(
        drawn,
        cmap=colors.resampled(65),  # few colours make a small file
        vmin=-end if has_minus else 0.0,
        vmax=end if has_plus or not has_minus else 0.0,
        extent=(0.5, columns + 0.5, rows + 0.5, 0.5),
        aspect="equal" if max(rows, columns) <= 4 * min(rows, columns) else "auto",
        interpolation="nearest",
    )
    over, under = bool((drawn > end).any()), bool((drawn < -end).any())
    arrows = {(True, True): "both", (True, False): "max", (False, True): "min"}
    where = "right" if _columns(ax) > 1 else "bottom"
    extend = arrows.get((over, under), "neither")
    bar = ax.figure.colorbar(image, ax=ax, location=where, extend=extend)
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(4)
    blocks = "" if side == 1 else f"means of {side} × {side} blocks"
    bar.set_label(f"{label}, {blocks}" if blocks else label)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(4, integer=True))
    says = f"Image of a matrix with {rows} rows and {columns} columns, {_spoken(label)} between"
    says += f" {_number(least)} and {_number(most)}"
    if has_minus:
        mean, spread = _number(_snapped(entries.mean(), end)), _number(entries.std())
        says += f", mean {mean}, standard deviation {spread}"
    elif has_plus:
        sums = entries.sum(axis=0)
        ratio = _number(sums.max() / sums.mean())
        says += f"; the largest column sum is {ratio} times the mean one"
    says += f"; drawn as {blocks}" if blocks else ""
    if beyond := np.count_nonzero(np.abs(drawn) > end):
        says += f"; {beyond} of {drawn.size} cells lie beyond the colour scale, which ends at"
        says += f" {_number(end)}"
    _label(ax, "column", "row")
    describe(ax, says)


def _means_of_blocks(entries: Floats, side: int) -> Floats:
    """Return the mean of every block of `side` rows and columns, of what there is at the border."""
    means = entries
    for axis, size in enumerate(entries.shape):
        start = np.arange(0, size, side)
        count = np.diff(np.r_[start, size])
        means = np.add.reduceat(means, start, axis=axis) / np.expand_dims(count, 1 - axis)
    return means


def crossings(pairs: ArrayLike) -> int:
    """Return how often the chords of a pairing cross.

    The points 0, 1, …, 2k - 1 stand in this order on a circle; two chords cross where just one
    end of the one lies between the ends of the other. Of all pairings those without
    crossings make up the limit of a moment.

    Parameters
    ----------
    pairs : (k, 2) array of whole numbers
        Each of 0, …, 2k - 1 once.

    Raises
    ------
    TypeError, ValueError
        If `pairs` is no such pairing.

    Examples
    --------
    >>> crossings([(0, 1), (2, 3)]), crossings([(0, 2), (1, 3)])
    (0, 1)
    """
    return int(_crossed(_pairing(pairs)).sum()) // 2


def _pairing(pairs: ArrayLike) -> NDArray[np.int64]:
    remedy = "number the points 0, 1, … and join each to one other"
    ends = _checks.within(pairs, "pairs", 0, is_whole=True, ndim=(2,), remedy=remedy)
    if ends.shape[1] != 2 or not np.array_equal(np.sort(ends, axis=None), np.arange(ends.size)):
        raise ValueError(
            f"pairs must hold each of 0, …, {max(ends.size, 2) - 1} once, two in a row, got "
            f"{_checks.shown(pairs)}; {remedy}"
        )
    return np.sort(ends, axis=1).astype(np.int64)


def _crossed(ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say for every two chords, (k, k), whether they cross."""
    low, high = ends.T
    left = (low[:, None] < low) & (low < high[:, None]) & (high[:, None] < high)
    crossed: NDArray[np.bool_] = left | left.T
    return crossed


def chords(ax: Axes, pairs: ArrayLike, *, title: str | None = None, numbered: bool = True) -> None:
    """Draw a pairing of points on a circle as chords; those that cross another stand out.

    Parameters
    ----------
    ax : matplotlib axes
    pairs : (k, 2) array of whole numbers
        Each of 0, …, 2k - 1 once, clockwise from the top.
    title : str, optional
        Drawn above, and the beginning of the alternative text.
    numbered : bool
        Whether the points carry their numbers, which need room.

    Raises
    ------
    TypeError, ValueError
        If `ax` is no axes or `pairs` no such pairing.
    """
    ax, ends, numbered = _axes(ax), _pairing(pairs), _checks.flag(numbered, "numbered")
    crossed = _crossed(ends)
    apart = np.asarray(~crossed.any(axis=1))
    angle = np.pi / 2 - 2 * np.pi * (np.arange(ends.size) + 0.5) / ends.size
    x, y = np.round(np.cos(angle), 9), np.round(np.sin(angle), 9)  # a zero is a zero
    round_ = np.linspace(0, 2 * np.pi, 121)
    ax.plot(np.cos(round_), np.sin(round_), color="#8c8c88", lw=1.2)
    for chord, is_apart in zip(ends, apart, strict=True):
        ax.plot(x[chord], y[chord], color=MEASURED[0] if is_apart else OUTLIER, lw=3)
    ax.plot(x, y, "o", color=THEORY, ls="none")
    for i in range(ends.size if numbered else 0):
        ax.text(1.17 * x[i], 1.17 * y[i], str(i), ha="center", va="center")
    ax.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    ax.set_axis_off()
    k, n = len(ends), int(crossed.sum()) // 2
    says = f"{k} chord{'s' * (k > 1)} between {2 * k} points on a circle, "
    says += f"{n} crossing{'s' * (n > 1)}" if n else "no crossings"
    if title is not None:
        ax.set_title(title)
        says = f"{_spoken(title)}: {says}"
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
            kind = "image " + " × ".join(map(str, pixels.shape))
            artists.append(_digest(kind, points, in_order=True))
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
    for ax in fig.axes:
        _refit(ax)
    data = summary(fig)
    _share_legend(fig)
    if not _in_notebook():
        plt.show()
        return
    from IPython.display import display

    png = io.BytesIO()
    fig.savefig(png, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True})
    shown = {"image/png": base64.b64encode(png.getvalue()).decode("ascii"), "text/plain": alt}
    plt.close(fig)
    publish: Any = display
    publish(shown, metadata={"gapcourse": {"alt": alt, "data": data}}, raw=True)


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    return hasattr(sys.modules["IPython"].get_ipython(), "kernel")
