"""The figures: words and numbers beside every picture, colours that can be told apart."""

import base64
import math
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest

from gapcourse import figures
from gapcourse.laws import QuarterCircle

STYLE = Path(figures.__file__).with_name("gapcourse.mplstyle")
SIZES = np.array([50, 100, 200, 400])


@pytest.fixture(autouse=True)
def style():
    with mpl.rc_context():
        figures.use_style()
        yield
        plt.close("all")


@pytest.fixture
def ax():
    return figures.panel()[1]


def numbers(text):
    return [float(n) for n in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", text)]


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- what the reader sees -------------------------------------------------------------------------


def test_spectrum_shows_and_says_measurement_theory_outlier_prediction(ax):
    values = 2 * np.sqrt(np.linspace(0.01, 1, 399))
    figures.spectrum(ax, values, QuarterCircle(1.0), outlier=8.0, prediction=3.0)
    assert labels(ax) == ["measured", "quarter-circle law", "outlier", "your prediction"]
    assert numbers(figures.alt_text(ax.figure)) == [399, 0.2, 2, 2, 8, 3]
    assert ax.get_xlabel()
    assert ax.get_ylabel() == "density"


def test_histogram_is_a_density_and_counts_what_it_cannot_show(ax):
    values = np.concatenate([np.linspace(0.1, 2, 96), [50.0, 60.0, 70.0, 80.0]])
    figures.spectrum(ax, values, QuarterCircle(1.0))
    heights, edges, _ = ax.patches[0].get_data()
    assert heights @ np.diff(edges) == pytest.approx(0.96)
    assert "4 of them lie beyond the right edge" in figures.alt_text(ax.figure)
    assert "4 more, up to 80.0" in labels(ax)


def test_a_far_outlier_is_named_at_the_edge(ax):
    figures.spectrum(ax, np.linspace(0, 2, 50), QuarterCircle(1.0), outlier=20.0, prediction=14.0)
    assert ax.get_xlim()[1] < 3
    assert labels(ax)[2:] == ["outlier at 20.0", "your prediction at 14.0"]


def test_eigenvalue_cloud(ax):
    z = np.exp(1j * np.linspace(0, 6, 50)) * np.linspace(0.1, 1.1, 50)
    figures.eigenvalue_cloud(ax, z, radius=1.0, outlier=20.0, prediction=1.5)
    inside = np.count_nonzero(np.abs(z) <= 1)
    said = figures.alt_text(ax.figure)
    assert numbers(said) == [50, 1.1, inside, 1, 1.5, 20]
    assert labels(ax) == ["measured", "predicted circle", "your prediction", "outlier at 20.0"]
    assert ax.get_aspect() == 1


def test_ordered(ax):
    figures.ordered(ax, [0.1, 1.0, 0.05], [1.0, 0.12, 0.06], prediction=0.7)
    assert numbers(figures.alt_text(ax.figure)) == [3, 1, 0.1, 0.05, 1, 0.12, 0.7]
    assert labels(ax) == ["measured", "theory", "your prediction"]


def test_curve(ax):
    figures.curve(ax, [2, 3, 5], [1.5, 1.2, 1.1], [1.4, 1.25, 1.05], label="stretch", level=1.0)
    assert figures.alt_text(ax.figure) == (
        "Stretch goes from 1.50 at 2 to 1.10 at 5; theory goes from 1.40 to 1.05; "
        "the limit is 1.00."
    )
    assert labels(ax) == ["stretch", "theory", "limit"]


def test_curves_on_the_same_axes(ax):
    figures.curve(ax, [1, 2], [1.0, -2.0], [1.1, -2.1], label="first")
    figures.curve(ax, [1, 2], [3.0, 40.0], [3.0, 40.0], label="second", level=5, level_label="top")
    assert labels(ax) == ["first", "theory", "second", "top"]
    assert numbers(figures.alt_text(ax.figure)) == [
        *(1, 1, -2, 2, 1.1, -2.1),
        *(3, 1, 40, 2, 3, 40, 5),
    ]
    assert ax.get_ylim()[0] < -2.1
    assert ax.get_ylim()[1] > 40


def test_parity(ax):
    figures.parity(ax, [1.0, 2.0, 4.0], [0.5, 2.0, 8.0], label="pareto")
    assert figures.alt_text(ax.figure) == (
        "Pareto: 3 draws with measured values from 0.500 to 8.00, on average 50 % from the "
        "predicted ones."
    )
    assert labels(ax) == ["pareto", "theory"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted", "measured")
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), [[1, 0.5], [2, 2], [4, 8]])
    np.testing.assert_array_equal(ax.lines[0].get_data(), [[0.5, 8], [0.5, 8]])


def test_a_second_parity_takes_the_next_colour_and_lengthens_the_diagonal(ax):
    figures.parity(ax, [1.0, 2.0], [1.0, 2.0], label="first")
    figures.parity(ax, [4.0, 10.0], [5.0, 10.0], label="second")
    assert labels(ax) == ["first", "second", "theory"]
    colors = [mpl.colors.to_hex(cloud.get_facecolor()[0]) for cloud in ax.collections]
    assert colors == list(figures.MEASURED[:2])
    (diagonal,) = ax.lines
    np.testing.assert_array_equal(diagonal.get_data(), [[1, 10], [1, 10]])
    assert numbers(figures.alt_text(ax.figure)) == [2, 1, 2, 0, 2, 5, 10, 10]


def test_theory_is_a_dark_line_over_the_measurement_and_the_prediction_dashed(ax):
    figures.sweep(ax, SIZES, 1 / SIZES, 1.1 / SIZES, prediction=0.01)
    lines = {line.get_label(): line for line in ax.lines}
    theory, guess = lines["theory"], lines["your prediction"]
    assert theory.get_color() == figures.THEORY
    assert theory.get_zorder() > lines["measured"].get_zorder()
    assert guess.is_dashed()
    assert not theory.is_dashed()


def test_sweep_keeps_every_series_in_view(ax):
    for scale in (1.0, 1e-3, 50.0):
        figures.sweep(ax, SIZES, scale / SIZES, label=f"times {scale:g}")
    bottom, top = ax.get_ylim()
    assert bottom < 1e-3 / 400
    assert top > 1.0
    colors = [line.get_color() for line in ax.lines]
    assert len(set(colors)) == 3
    assert [t for t in ax.get_xticks() if 50 <= t <= 400] == list(SIZES)


def test_panels_are_told_apart():
    fig, axes = figures.panels(3)
    assert len(axes) == len(fig.axes) == 3
    for ax in axes[:2]:
        figures.ordered(ax, [1.0, 0.1])
    assert figures.alt_text(fig).startswith("Panel 1 of 2: 2 singular values")
    assert " Panel 2 of 2: " in figures.alt_text(fig)


def test_describe_adds_a_sentence(ax):
    figures.describe(ax, "  a curve\n falls ")
    figures.describe(ax, "s_2 follows it.")
    figures.describe(ax, "pareto: it stays")
    assert figures.alt_text(ax.figure) == "A curve falls. s_2 follows it. Pareto: it stays."


def test_symbols_are_spoken_without_markup(ax):
    figures.sweep(ax, SIZES, 1 / SIZES, label=r"$|\lambda_2|$")
    assert figures.alt_text(ax.figure).startswith("|λ_2| falls from 0.0200 at size 50")


# --- rates ----------------------------------------------------------------------------------------


def test_fit_of_an_exact_power_is_exact():
    fit = figures.fit_rate(SIZES, 3.0 * SIZES**-0.5, 2.0 * SIZES**-0.6)
    assert fit.slope == pytest.approx(-0.5)
    assert fit.stderr == pytest.approx(0, abs=1e-12)
    assert fit.predicted_slope == pytest.approx(-0.6)
    assert str(fit) == "slope -0.500 ± 0.000, predicted -0.600"


def test_standard_error_is_the_spread_of_the_slope_over_repetitions():
    rng = np.random.default_rng(5)
    fits = [
        figures.fit_rate(SIZES, SIZES[:, None] ** -0.5 * rng.gamma(25, 1 / 25, (4, 40)))
        for _ in range(400)
    ]
    slopes = np.array([fit.slope for fit in fits])
    # the spread of 400 slopes is known to 1/sqrt(800) = 3.5 %, the mean of the errors better
    assert np.mean([fit.stderr for fit in fits]) == pytest.approx(slopes.std(), rel=4 * 0.035)
    assert slopes.mean() == pytest.approx(-0.5, abs=4 * slopes.std() / 20)


def test_sweep_returns_the_fit_whatever_the_order_of_the_sizes(ax):
    measured = SIZES[:, None] ** -0.5 * np.array([0.9, 1.0, 1.1])
    fit = figures.sweep(ax, SIZES[::-1], measured[::-1], SIZES[::-1] ** -0.5)
    assert fit.slope == pytest.approx(-0.5)
    assert fit.predicted_slope == pytest.approx(-0.5)


def test_without_spread_or_spare_points_there_is_no_error():
    assert math.isnan(figures.fit_rate([1, 2], [1, 2]).stderr)


# --- bad input ------------------------------------------------------------------------------------

NAN, INF = math.nan, math.inf
EMPTY = r"must be a 1-D array and not empty, got shape \(0,\); pass at least"
NOT_1D = r"must be a 1-D array and not empty, got shape \(1, 1\); bring"
RAGGED = [[1], [1, 2]]
UNEVEN = r"must be a rectangular array, .*in \[\[1\], \[1, 2\]\]; make them"
LAW = "must have a density pdf and a number edge"
spectrum, cloud, ordered, sweep = (
    figures.spectrum,
    figures.eigenvalue_cloud,
    figures.ordered,
    figures.sweep,
)
curve, parity = figures.curve, figures.parity
BAD = [
    (lambda ax: spectrum(ax, []), ValueError, f"values {EMPTY}"),
    (lambda ax: spectrum(ax, [1, NAN]), ValueError, r"values .*NaN, got \[1, nan\]; remove"),
    (lambda ax: spectrum(ax, [1, INF]), ValueError, "values must be finite .*got inf; "),
    (lambda ax: spectrum(ax, [-1.0]), ValueError, "values .*at least 0, got -1; .*pass them"),
    (lambda ax: spectrum(ax, [[1.0]]), ValueError, f"values {NOT_1D}"),
    (lambda ax: spectrum(ax, RAGGED), ValueError, f"values {UNEVEN}"),
    (lambda ax: spectrum(ax, [1j]), TypeError, r"values .*real numbers, got \[1j\] .*; pass real"),
    (
        lambda ax: spectrum(ax, ["a"]),
        TypeError,
        r"values .*real numbers, got \['a'\] .*; pass real",
    ),
    (lambda ax: spectrum(ax, [1.0], outlier=NAN), ValueError, "outlier .*got nan; remove"),
    (lambda ax: spectrum(ax, [1.0], outlier=-2), ValueError, "outlier .*got -2; .*pass"),
    (lambda ax: spectrum(ax, [1.0], prediction="x"), TypeError, "prediction .*'x'.*; pass real"),
    (lambda ax: spectrum(ax, [1.0], prediction=-1), ValueError, "prediction .*got -1; .*pass"),
    (
        lambda ax: spectrum(ax, [1.0], prediction=[2]),
        TypeError,
        r"prediction .*got \[2\]; pass a s",
    ),
    (lambda ax: spectrum(ax, [1.0], "quarter"), TypeError, f"law {LAW}, got 'quarter'; pass an ob"),
    (lambda ax: spectrum(ax, [1.0], QuarterCircle), TypeError, f"law {LAW}, got <class.*; pass an"),
    (lambda ax: spectrum("ax", [1.0]), TypeError, "ax must be matplotlib axes, got 'ax'; pass"),
    (lambda ax: spectrum(ax.figure, [1.0]), TypeError, "ax must .*got <Figure.*; pass those of"),
    (lambda ax: cloud(ax, []), ValueError, f"eigenvalues {EMPTY}"),
    (lambda ax: cloud(ax, [1j * INF]), ValueError, "eigenvalues .*; remove"),
    (lambda ax: cloud(ax, [INF]), ValueError, r"eigenvalues must be finite, got \[inf\]; remove"),
    (lambda ax: cloud(ax, RAGGED), ValueError, f"eigenvalues {UNEVEN}"),
    (lambda ax: cloud(ax, [1j], 0.0), ValueError, "radius must .*above 0, got 0; pass the"),
    (lambda ax: cloud(ax, [1j], NAN), ValueError, "radius .*NaN, got nan; remove"),
    (lambda ax: cloud(ax, [1j], prediction=-1), ValueError, "prediction .*got -1; pass the"),
    (lambda ax: cloud(ax, [1j], outlier=[1]), TypeError, r"outlier .*got \[1\]; pass a single"),
    (
        lambda ax: cloud(ax, [object()]),
        TypeError,
        "eigenvalues .*complex numbers, got .*; pass num",
    ),
    (lambda ax: ordered(ax, [1.0, -2]), ValueError, "values .*at least 0, got -2; .*pass"),
    (lambda ax: ordered(ax, [1.0], [-3]), ValueError, "predicted .*at least 0, got -3; .*pass"),
    (lambda ax: ordered(ax, [1.0], prediction=-1), ValueError, "prediction .*got -1; .*pass"),
    (
        lambda ax: ordered(ax, [1.0, 2.0], [1.0]),
        ValueError,
        r"predicted must have the shape of values, \(2,\), got \(1,\); pass one",
    ),
    (
        lambda ax: sweep(ax, [1, 2], [1, 2, 3]),
        ValueError,
        "measured .*got 3 rows for 2 sizes; pass it as",
    ),
    (
        lambda ax: sweep(ax, [1, 2], [[[1]]]),
        ValueError,
        r"measured must be a 1-D array or a 2-D array .*\(1, 1, 1\); bring",
    ),
    (lambda ax: sweep(ax, [1, 2], RAGGED), ValueError, f"measured {UNEVEN}"),
    (lambda ax: sweep(ax, [1, 2], [1, 0]), ValueError, "measured .*above 0, got 0; log axes"),
    (lambda ax: sweep(ax, [0, 2], [1, 1]), ValueError, "sizes .*above 0, got 0; log axes"),
    (lambda ax: sweep(ax, [2, 2], [1, 1]), ValueError, r"sizes .*two .*got \[2, 2\]; add another"),
    (
        lambda ax: sweep(ax, [1, 2], [1, 2], [1]),
        ValueError,
        r"predicted .*sizes, .*got \(1,\); pass",
    ),
    (lambda ax: sweep(ax, [1, 2], [1, 2], [1, -1]), ValueError, "predicted .*got -1; log axes"),
    (
        lambda ax: sweep(ax, [1, 2], [1, 2], prediction=[1]),
        ValueError,
        r"prediction must have the shape of sizes, \(2,\), got \(1,\); pass one",
    ),
    (
        lambda ax: sweep(ax, [1, 2], [1, 2], prediction=-1),
        ValueError,
        "prediction .*above 0, got -1; log axes",
    ),
    (lambda ax: curve(ax, [], [], []), ValueError, f"x {EMPTY}"),
    (
        lambda ax: curve(ax, [1, 2], [1], [1, 2]),
        ValueError,
        r"measured .* x, .*got \(1,\); pass one",
    ),
    (lambda ax: curve(ax, [1], [1], [1, 2]), ValueError, r"predicted .* x, .*got \(2,\); pass one"),
    (lambda ax: curve(ax, [1], [INF], [1]), ValueError, "measured must be finite, got inf; remove"),
    (lambda ax: curve(ax, [1], [1], [1], level=NAN), ValueError, "level .*got nan; remove"),
    (lambda ax: curve(ax, [1], [1], [1], level="a"), TypeError, "level .*'a'.*; pass real"),
    (lambda ax: curve(ax, [1], RAGGED, [1]), ValueError, f"measured {UNEVEN}"),
    (lambda ax: curve(1, [1], [1], [1]), TypeError, "ax must .*got 1; pass those"),
    (lambda ax: parity(ax, [1], []), ValueError, f"measured {EMPTY}"),
    (
        lambda ax: parity(ax, [1], [1, 2]),
        ValueError,
        r"measured .*predicted, .*got \(2,\); pass one",
    ),
    (lambda ax: parity(ax, [0], [1]), ValueError, "predicted .*above 0, got 0; log"),
    (lambda ax: parity(ax, [1], [-1]), ValueError, "measured .*above 0, got -1; log"),
    (lambda ax: figures.describe(ax, " . "), ValueError, "sentence .*got ' . '; say in words"),
    (lambda ax: figures.describe(ax, 3), TypeError, "sentence must be a string, got 3; pass"),
    (lambda ax: figures.panels(0), ValueError, "n .*at least 1, got 0; pass 1 or more"),
    (
        lambda ax: figures.panels(1.5),
        TypeError,
        r"n must be a whole number.*got 1\.5 .*; pass an int",
    ),
    (lambda ax: figures.panels(True), TypeError, "n must be a whole number.*got True .*; pass an"),
    (lambda ax: figures.show(ax), TypeError, "fig must .*got <Axes.*; pass that of"),
    (lambda ax: figures.show(ax.figure), ValueError, "fig .*alternative text, got <Fig.*; add a s"),
    (lambda ax: figures.alt_text(ax), TypeError, "fig must .*got <Axes.*; pass that of"),
    (lambda ax: figures.summary(ax), TypeError, "fig must .*got <Axes.*; pass that of"),
]


@pytest.mark.parametrize(("call", "error", "says"), BAD)
def test_bad_input_is_refused_in_words(ax, call, error, says):
    with pytest.raises(error, match=f"^{says}"):
        call(ax)
    assert not ax.has_data()  # refused before anything is drawn


@pytest.mark.parametrize("dtype", [int, np.float32])
def test_integers_and_single_precision_are_accepted(ax, dtype):
    figures.spectrum(ax, np.array([1, 2, 3], dtype=dtype))
    assert "3 scaled singular values between 1.00 and 3.00" in figures.alt_text(ax.figure)


# --- the summary that the net compares ------------------------------------------------------------


def drawn(values, **options):
    fig, ax = figures.panel()
    figures.sweep(ax, SIZES, values, **options)
    return figures.summary(fig)


def test_summary_follows_the_data_and_not_the_colour():
    values = 1 / SIZES
    assert drawn(values) == drawn(values, color="red")
    assert drawn(values) != drawn(values * [1, 1, 1.01, 1])
    assert drawn(values) != drawn(values, label="another")
    assert drawn(values) != drawn(values, prediction=0.01)


@pytest.mark.parametrize("index", [0, 7, 123, 398])
def test_summary_sees_one_changed_point_of_a_line(index):
    def summary(y):
        fig, ax = figures.panel()
        ax.plot(y)
        return figures.summary(fig)

    y = np.linspace(1, 2, 399)
    changed = y.copy()
    changed[index] *= 1.5
    assert summary(y) != summary(changed)


def test_summary_of_a_cloud_does_not_depend_on_the_order():
    z = np.exp(1j * np.arange(40))

    def summary(z):
        fig, ax = figures.panel()
        figures.eigenvalue_cloud(ax, z, 1.0)
        return figures.summary(fig)

    assert summary(z) == summary(z[::-1])
    assert summary(z) != summary(1.01 * z)


# --- publishing -----------------------------------------------------------------------------------

PUBLISH = """
import sys, json
import numpy as np
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
shell.kernel = None
from gapcourse import figures
figures.use_style()
fig, ax = figures.panel()
figures.spectrum(ax, np.linspace(0, 2, 100))
caught = []
shell.display_pub.publish = lambda **message: caught.append(message)
figures.show(fig)
figures.plt.close("all")
print(json.dumps({k: caught[0][k] for k in ("data", "metadata")}))
"""


def test_show_publishes_the_same_bytes_with_words_and_data():
    import json

    run = [
        subprocess.run(
            [sys.executable, "-c", PUBLISH], capture_output=True, text=True, check=True,
            encoding="utf-8",
        ).stdout.splitlines()[-1]
        for _ in range(2)
    ]  # fmt: skip
    assert run[0] == run[1]
    message = json.loads(run[0])
    alt = "Histogram of 100 scaled singular values between 0 and 2.00."
    assert message["data"]["text/plain"] == message["metadata"]["gapcourse"]["alt"] == alt
    assert message["metadata"]["gapcourse"]["data"][0]["artists"][0]["kind"] == "patch"
    png = base64.b64decode(message["data"]["image/png"])
    assert png.startswith(b"\x89PNG")
    assert len(png) < 80_000
    assert b"Software" not in png


def test_show_works_in_plain_python():
    code = (
        "import matplotlib; matplotlib.use('Agg')\n"
        "from gapcourse import figures\n"
        "fig, ax = figures.panel(); figures.ordered(ax, [1.0, 0.1]); figures.show(fig)\n"
        "import sys; assert 'IPython' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the style ------------------------------------------------------------------------------------

SERIES = (*figures.MEASURED, figures.THEORY, figures.PREDICTION)


def linear(color):
    """Return linear-light RGB."""
    rgb = np.array(mpl.colors.to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    """Return the contrast ratio of WCAG 2.2."""
    lights = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] + 0.05 for c in (a, b))
    return lights[1] / lights[0]


@pytest.mark.parametrize("color", [*SERIES, figures.OUTLIER])
def test_colours_stand_out_from_the_background(color):
    assert contrast(color, figures.BACKGROUND) >= 4.5  # text needs 4.5, graphics 3
    assert contrast(color, "#121212") >= 3 or color == figures.THEORY  # if ever without background


# Simulated full protanopia, deuteranopia, tritanopia: Machado, Oliveira and Fernandes (2009).
BLIND = {
    "none": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
               [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
               [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def lab(color, vision):
    """Return CIE L*a*b* of a colour as seen with a kind of colour blindness."""
    rgb = np.clip(np.array(BLIND[vision]) @ linear(color), 0, 1)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
              [0.0193339, 0.1191920, 0.9503041]]  # fmt: skip
    xyz = np.array(to_xyz) @ rgb / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", BLIND)
def test_what_a_figure_always_holds_is_told_apart_by_every_reader(vision):
    seen = [lab(c, vision) for c in (figures.MEASURED[0], figures.THEORY, figures.PREDICTION)]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 20


@pytest.mark.parametrize("vision", BLIND)
def test_series_are_told_apart_by_colour_too(vision):
    seen = [lab(c, vision) for c in figures.MEASURED]
    gaps = [np.linalg.norm(a - b) for a, b in combinations(seen, 2)]
    assert min(gaps) > 10  # the markers differ as well
    assert len(set(figures.MARKERS)) >= len(figures.MEASURED)


def test_style_has_only_keys_that_matplotlib_3_8_knows():
    keys = {
        line.partition(":")[0].strip()
        for line in STYLE.read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    }
    assert keys <= set(mpl.rcParams)
    new = {
        "grid.major.color",
        "grid.minor.color",
        "figure.hooks",
        "macosx.window_mode",
    }  # after 3.8
    assert not keys & new


def test_style_is_opaque_and_legible():
    assert mpl.colors.to_hex(mpl.rcParams["figure.facecolor"]) == figures.BACKGROUND
    assert mpl.colors.to_hex(mpl.rcParams["savefig.facecolor"]) == figures.BACKGROUND
    assert mpl.rcParams["savefig.transparent"] is False
    cycle = [mpl.colors.to_hex(c) for c in mpl.rcParams["axes.prop_cycle"].by_key()["color"]]
    assert cycle == list(figures.MEASURED)
    width = figures.panels(2)[0].get_figwidth() * 72  # points; a phone shows it 360 px wide
    sizes = [mpl.rcParams[f"{k}.labelsize"] for k in ("axes", "xtick", "ytick")]
    assert min(*sizes, mpl.rcParams["legend.fontsize"]) * 360 / width >= 8
