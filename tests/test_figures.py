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
from scipy.integrate import trapezoid

from gapcourse import figures
from gapcourse.laws import AttentionBulk, FussCatalan, MarchenkoPastur, QuarterCircle

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


def line(ax, label):
    return next(line for line in ax.lines if line.get_label() == label)


def test_a_second_law_is_drawn_dashed_and_said(ax):
    figures.spectrum(
        ax, [0.5, 1.0, 1.5], QuarterCircle(1.0), other=QuarterCircle(2.0), other_label="iid noise"
    )
    assert labels(ax) == ["measured", "quarter-circle law", "iid noise"]
    assert numbers(figures.alt_text(ax.figure)) == [3, 0.5, 1.5, 2, 4]
    assert "the iid noise ends at 4.00" in figures.alt_text(ax.figure)
    assert ax.get_xlim()[1] > 4  # the further edge counts
    second = line(ax, "iid noise")
    assert second.is_dashed()
    assert second.get_color() == figures.OTHER
    assert second.get_xdata().max() == 4


def test_the_zeros_of_an_atom_are_counted_but_not_drawn(ax):
    values = [0.0, 1e-16, 1e-15, *np.linspace(1, 3, 2)]
    figures.spectrum(ax, values, MarchenkoPastur(4.0))
    heights, edges, _ = ax.patches[0].get_data()
    assert heights @ np.diff(edges) == pytest.approx(0.4)
    assert heights[0] == 0
    share = "share of zeros 0.60, theory 0.75"
    assert share in labels(ax)
    said = figures.alt_text(ax.figure)
    assert said.endswith(f"; {share}.")
    assert numbers(said) == [5, 0, 3, 3, 0.6, 0.75]


def test_zeros_without_an_atom_stay_in_the_bars(ax):
    figures.spectrum(ax, [0.0, 1e-17, 1.0, 2.0], QuarterCircle(1.0))
    heights, edges, _ = ax.patches[0].get_data()
    assert heights @ np.diff(edges) == pytest.approx(1)
    assert "zeros" not in figures.alt_text(ax.figure)
    assert "between 0 and 2.00" in figures.alt_text(ax.figure)


@pytest.mark.parametrize("law", [AttentionBulk(1.0, 0.0, 1.0), FussCatalan(2), FussCatalan(4)])
def test_a_density_infinite_at_zero_leaves_by_the_top(ax, law):
    figures.spectrum(ax, law.ppf((np.arange(400) + 0.5) / 400), law)
    tallest = ax.patches[0].get_data()[0].max()
    theory = ax.lines[0]
    y = theory.get_ydata()
    assert np.isinf(y[0])
    assert y[1] > ax.get_ylim()[1]
    assert 0 < theory.get_xdata()[1] < 1e-5 * law.edge
    assert tallest < ax.get_ylim()[1] < 1.4 * tallest
    assert np.isfinite(ax.dataLim.get_points()).all()
    assert "its density leaves the panel at the top" in figures.alt_text(ax.figure)
    ax.figure.canvas.draw()


def test_a_density_that_fits_does_not_leave(ax):
    law = QuarterCircle(1.0)
    figures.spectrum(ax, law.ppf((np.arange(400) + 0.5) / 400), law)
    assert "leaves" not in figures.alt_text(ax.figure)


@pytest.mark.parametrize(
    "law", [AttentionBulk(1.0, 0.2, 4.0), AttentionBulk(1.0, 0.001, 4.0), MarchenkoPastur(0.5)]
)
def test_a_law_is_drawn_on_its_support_only_and_finely(ax, law):
    figures.spectrum(ax, [1.0, 2.0], law)
    x, y = ax.lines[0].get_data()
    bands = getattr(law, "bands", None) or ((law.lower_edge, law.edge),)
    assert np.isnan(x).sum() == np.isnan(y).sum() == len(bands) - 1  # a gap breaks the line
    drawn = x[np.isfinite(x)]
    inside = [(low <= drawn) & (drawn <= high) for low, high in bands]
    assert np.any(inside, axis=0).all()
    for here, (low, high) in zip(inside, bands, strict=True):
        assert drawn[here].min() == low
        assert drawn[here].max() == high
        seen = trapezoid(y[np.isfinite(x)][here], drawn[here])
        assert seen == pytest.approx(law.cdf(high) - law.cdf(low), rel=0.01)


def test_laws_named_after_people_keep_their_capitals(ax):
    figures.spectrum(ax, [1.0], FussCatalan(1), other=MarchenkoPastur(1.0), other_label="x")
    assert labels(ax)[1] == "Fuss-Catalan law"


def test_distribution_returns_the_distance_and_says_it(ax):
    law = QuarterCircle(1.0)
    values = law.ppf([0.2, 0.5, 0.95])  # furthest apart left of the last step: 0.95, 2/3
    distance = figures.distribution(ax, values, law)
    assert distance == pytest.approx(0.95 - 2 / 3)
    said = figures.alt_text(ax.figure)
    assert numbers(said)[0] == 3
    assert said.endswith("the largest distance is 0.283.")
    assert labels(ax) == ["measured", "quarter-circle law", "largest distance 0.283"]
    x, y = line(ax, "largest distance 0.283").get_data()
    assert list(x) == [values[2]] * 2
    np.testing.assert_allclose(y, [0.95, 2 / 3])
    x, y = ax.lines[0].get_data()
    np.testing.assert_allclose(y, [0, 1 / 3, 2 / 3, 1, 1])
    assert ax.lines[0].get_drawstyle() == "steps-post"
    np.testing.assert_allclose(x[1:4], values)


def test_distribution_agrees_with_scipy(ax):
    from scipy.stats import kstest

    law = QuarterCircle(1.0)
    for draws in (law.rvs(20, 1), 0.8 * law.rvs(30, 2), 1.3 * law.rvs(30, 3)):
        distance = figures.distribution(ax, draws, law)
        assert distance == pytest.approx(kstest(draws, law.cdf).statistic)
    steps = [line for line in ax.lines if line.get_drawstyle() == "steps-post"]
    assert [line.get_color() for line in steps] == list(figures.MEASURED[:3])


def test_distribution_knows_the_atom_and_its_rounding(ax):
    law = MarchenkoPastur(4.0)
    values = np.r_[np.full(75, 1e-15), law.ppf(0.75 + 0.25 * (np.arange(25) + 0.5) / 25)]
    assert figures.distribution(ax, values, law) == pytest.approx(0.005)
    assert figures.distribution(ax, values[50:], law) == pytest.approx(0.255)
    x, y = line(ax, "Marchenko-Pastur law").get_data()
    assert list(y[:2]) == [0, 0.75]
    assert x[0] == pytest.approx(0)


def test_distribution_needs_no_density(ax):
    class Uniform:
        edge = 1.0

        def cdf(self, x):
            return np.clip(x, 0, 1)

    assert figures.distribution(ax, [0.5, 7.0], Uniform()) == pytest.approx(0.5)
    assert ax.get_xlim()[1] == pytest.approx(3)
    assert "1 of the values lie beyond the right edge" in figures.alt_text(ax.figure)


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
    assert labels(ax) == ["measured", "your prediction", "theory"]


def test_curve(ax):
    figures.curve(ax, [2, 3, 5], [1.5, 1.2, 1.1], [1.4, 1.25, 1.05], label="stretch", level=1.0)
    assert figures.alt_text(ax.figure) == (
        "Stretch goes from 1.50 at 2 to 1.10 at 5; theory goes from 1.40 to 1.05; "
        "the limit is 1.00."
    )
    assert labels(ax) == ["stretch", "limit", "theory"]


def test_curves_on_the_same_axes(ax):
    figures.curve(ax, [1, 2], [1.0, -2.0], [1.1, -2.1], label="first")
    figures.curve(ax, [1, 2], [3.0, 40.0], [3.0, 40.0], label="second", level=5, level_label="top")
    assert labels(ax) == ["first", "second", "top", "theory"]
    assert numbers(figures.alt_text(ax.figure)) == [
        *(1, 1, -2, 2, 1.1, -2.1),
        *(3, 1, 40, 2, 3, 40, 5),
    ]
    assert ax.get_ylim()[0] < -2.1
    assert ax.get_ylim()[1] > 40


def test_curve_takes_seeds_and_needs_no_theory(ax):
    measured = np.array([[1.0, 2.0, 3.0], [10.0, 11.0, 12.0]])
    figures.curve(ax, [5, 4], measured[::-1], label=r"$\\lambda$")
    figures.curve(ax, [4, 5], [1.0, 2.0], [1.0, 2.0], label="two")
    assert labels(ax) == [r"$\\lambda$", "two", "theory"]
    points, second, _ = ax.lines
    np.testing.assert_allclose(points.get_data(), [[4, 5], [2, 11]])
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(1.2)
    assert band[:, 1].max() == pytest.approx(11.8)
    assert (points.get_color(), second.get_color()) == figures.MEASURED[:2]
    assert (points.get_marker(), second.get_marker()) == figures.MARKERS[:2]
    said = figures.alt_text(ax.figure)
    assert said.startswith("λ, the mean of 3 seeds, goes from 2.00 at 4 to 11.0 at 5. Two goes")


@pytest.mark.parametrize("when", ["before", "after"])
def test_curve_on_a_log_axis_keeps_every_series_in_view(ax, monkeypatch, when):
    monkeypatch.setattr(figures.plt, "close", lambda fig: None)
    monkeypatch.setattr(figures.plt, "show", lambda: None)
    k = np.arange(1, 11)
    if when == "before":
        ax.set_yscale("log")
    figures.curve(ax, k, 0.1**k, 0.1**k, label="walk")
    figures.curve(ax, k, 0.5**k, label="lazy")
    if when == "after":
        ax.set_yscale("log")
    figures.show(ax.figure)
    bottom, top = ax.get_ylim()
    assert 1e-12 < bottom < 1e-10
    assert 0.5 < top < 10


def test_curve_sorts_its_points_and_its_theory(ax):
    figures.curve(ax, [3, 1, 2], [9.0, 7.0, 8.0], [6.0, 4.0, 5.0])
    for drawn, y in zip(ax.lines, ([7, 8, 9], [4, 5, 6]), strict=True):
        np.testing.assert_array_equal(drawn.get_data(), [[1, 2, 3], y])
    assert numbers(figures.alt_text(ax.figure)) == [7, 1, 9, 3, 4, 6]


def test_a_log_axis_made_after_leaves_out_what_it_cannot_show(ax, monkeypatch):
    monkeypatch.setattr(figures.plt, "show", lambda: None)
    figures.curve(ax, [1, 2, 3], [1.0, 0.1, 0.0])
    ax.set_yscale("log")
    figures.show(ax.figure)
    assert 0.01 < ax.get_ylim()[0] < 0.1


def test_limits_set_by_hand_stay(ax, monkeypatch):
    monkeypatch.setattr(figures.plt, "show", lambda: None)
    figures.curve(ax, [1, 2], [1.0, 0.1])
    ax.set_yscale("log")
    ax.set_ylim(0.01, 7)
    figures.show(ax.figure)
    assert ax.get_ylim() == (0.01, 7)


def test_matrix_of_one_sign_and_of_both():
    fig, (left, right) = figures.panels(2)
    figures.matrix(left, [[1.0, 3.0], [0.5, 1.5]])
    figures.matrix(right, [[1.0, -3.0], [0.0, 1.0]], label=r"$\\sigma$", limit=2)
    assert left.images[0].get_clim() == (0, 3)
    assert right.images[0].get_clim() == (-2, 2)
    said = figures.alt_text(fig)
    assert "2 rows and 2 columns, entries between 0.500 and 3.00; the largest column sum" in said
    assert "is 1.50 times the mean one" in said
    assert "σ between -3.00 and 1.00, mean -0.250, standard deviation 1.64; 1 of 4 cells" in said
    paper = mpl.colors.to_rgb(figures.BACKGROUND)
    for image in (left.images[0], right.images[0]):
        np.testing.assert_allclose(image.cmap(image.norm(0.0))[:3], paper, atol=0.02)
    assert [ax.get_xlabel() for ax in fig.axes[2:]] == ["entries", r"$\\sigma$"]  # the bars


def test_a_series_that_spans_decades_brings_the_usual_ticks_back(ax):
    figures.sweep(ax, [10, 100], [1.0, 3.0])
    assert len(ax.get_yticks()) > 2
    figures.sweep(ax, [10, 100], [1e-2, 1e-12])
    figures.show(ax.figure)
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert sum("10" in label for label in labels) >= 3


def test_heatmap_writes_each_number_into_its_cell(ax):
    values = [[1.5, 0.25], [0.001, 30.0]]
    figures.heatmap(ax, ["plain", "fixed"], [25, 50], values, label=r"$T$", logarithmic=True)
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert written == {(0, 0): "1.5", (1, 0): "0.25", (0, 1): "0.001", (1, 1): "30"}
    assert [t.get_text() for t in ax.get_xticklabels()] == ["25", "50"]
    assert ax.images[0].norm(0.001) == 0
    assert ax.images[0].norm(30.0) == 1
    assert ax.images[0].norm(math.sqrt(0.03)) == pytest.approx(0.5)
    said = figures.alt_text(ax.figure)
    assert "T from 0.00100 (row fixed, column 25) to 30.0 (row fixed, column 50)" in said
    assert "row by row: 1.50, 0.250, 0.00100, 30.0" in said


def test_heatmap_of_equal_numbers_and_readable_ink(ax):
    figures.heatmap(ax, [1], [1, 2, 3], [[0.0, 0.0, 0.0]])
    assert {text.get_color() for text in ax.texts} == {figures.THEORY}
    other = figures.panel()[1]
    figures.heatmap(other, [1], [1, 2], [[0.0, 1.0]])
    assert [text.get_color() for text in other.texts] == [figures.THEORY, figures.BACKGROUND]


def test_heatmap_leaves_a_masked_cell_empty(ax):
    values = np.ma.masked_invalid([[4.0, NAN], [1.0, 2.0]])
    figures.heatmap(ax, [1, 2], [1, 2], values, logarithmic=True)
    assert [text.get_text() for text in ax.texts] == ["4", "–", "1", "2"]
    assert ax.images[0].get_array().mask.tolist() == [[False, True], [False, False]]
    said = figures.alt_text(ax.figure)
    assert "from 1.00 (row 2, column 1) to 4.00 (row 1, column 1)" in said
    assert "row by row: 4.00, empty, 1.00, 2.00" in said


@pytest.mark.parametrize("same", [True, False])
def test_panels_with_the_same_legend_share_one(monkeypatch, same):
    monkeypatch.setattr(figures.plt, "show", lambda: None)
    fig, axes = figures.panels(2)
    for i, ax in enumerate(axes):
        figures.curve(ax, [1, 2], [1.0, 2.0], [1.0, 2.0], label="walk" if same or i else "run")
    figures.show(fig)
    assert [ax.get_legend() is None for ax in axes] == [same, same]
    assert [[t.get_text() for t in box.get_texts()] for box in fig.legends] == (
        [["walk", "theory"]] if same else []
    )


@pytest.mark.parametrize("n", [1, 2])
def test_legends_lie_below_the_data_and_the_name_of_the_axis(n):
    fig, axes = figures.panels(n)
    figures.curve(axes[0], [1, 2], [1.0, 2.0], [1.0, 2.0], label="walk")
    fig.canvas.draw()
    box = axes[0].get_legend().get_window_extent()
    assert box.y1 < axes[0].xaxis.label.get_window_extent().y0 + 3
    assert box.y0 >= 0


def test_matrix_that_is_not_positive_or_zero():
    _, (left, right) = figures.panels(2)
    figures.matrix(left, [[-1.0, -2.0]])
    figures.matrix(right, np.zeros((2, 2)))
    assert left.images[0].get_clim() == (-2, 0)
    assert right.images[0].get_clim() == (0, 1)
    blank = mpl.colors.to_rgb(figures.BACKGROUND)
    np.testing.assert_allclose(left.images[0].cmap(1.0)[:3], blank, atol=0.02)


def test_rounding_errors_of_a_matrix_are_no_sign(ax):
    figures.matrix(ax, [[1.0, -1e-17]])
    assert ax.images[0].get_clim() == (0, 1)
    assert "between 0 and 1.00" in figures.alt_text(ax.figure)


def test_a_large_matrix_is_drawn_as_means_of_blocks(ax):
    import io

    M = np.random.default_rng(0).exponential(size=(400, 301))
    figures.matrix(ax, M)
    drawn = ax.images[0].get_array()
    assert drawn.shape == (100, 76)
    assert drawn[3, 2] == pytest.approx(M[12:16, 8:12].mean())
    assert drawn[99, 75] == pytest.approx(M[396:, 300:].mean())
    assert ax.images[0].get_extent() == [0.5, 301.5, 400.5, 0.5]
    assert "drawn as means of 4 × 4 blocks" in figures.alt_text(ax.figure)
    png = io.BytesIO()
    ax.figure.savefig(png, format="png", pil_kwargs={"optimize": True})
    assert len(png.getvalue()) < 100_000


@pytest.mark.parametrize("colors", [figures._BLUES, figures._SIGNS])
@pytest.mark.parametrize("vision", ["none", "protan", "deutan", "tritan"])
def test_colours_of_an_image_are_ordered_for_every_reader(colors, vision):
    light = np.array([lab(c[:3], vision)[0] for c in colors(np.linspace(0, 1, 33))])
    if colors is figures._SIGNS:
        assert (np.diff(light[:17]) > 0).all()
        light = light[16:]
        ends = [lab(colors(t)[:3], vision) for t in (0.25, 0.75)]
        assert np.linalg.norm(ends[0] - ends[1]) > 40
    assert (np.diff(light) < 0).all()


CROSSINGS = [
    ([(0, 1)], 0),
    ([(0, 3), (2, 1)], 0),
    ([(0, 2), (3, 1)], 1),
    ([(0, 3), (1, 4), (2, 5)], 3),
    ([(0, 5), (1, 3), (2, 4)], 1),
]


@pytest.mark.parametrize(("pairs", "count"), CROSSINGS)
def test_chords_show_and_say_crossings(ax, pairs, count):
    assert figures.crossings(pairs) == count
    figures.chords(ax, pairs, title="one")
    k = len(pairs)
    said = figures.alt_text(ax.figure)
    assert said.startswith(f"One: {k} chord")
    assert numbers(said) == [k, 2 * k] + [count] * (count > 0)
    assert ("no crossings" in said) == (count == 0)
    assert [text.get_text() for text in ax.texts] == [str(i) for i in range(2 * k)]
    assert ax.get_title() == "one"
    drawn = ax.lines[1:-1]
    assert len(drawn) == k
    at = np.column_stack(ax.lines[-1].get_data())
    for chord, ends in zip(drawn, pairs, strict=True):
        np.testing.assert_allclose(np.column_stack(chord.get_data()), at[sorted(ends)])


def test_only_chords_that_cross_stand_out(ax):
    figures.chords(ax, [(0, 5), (1, 3), (2, 4)])
    blue, brown = figures.MEASURED[0], figures.OUTLIER
    assert [chord.get_color() for chord in ax.lines[1:-1]] == [blue, brown, brown]


def test_pairings_without_crossings_are_counted_by_the_catalan_numbers():
    def pairings(points):
        if not points:
            yield []
        for partner in points[1:]:
            rest = [p for p in points[1:] if p != partner]
            yield from ([(points[0], partner), *others] for others in pairings(rest))

    counts = [
        sum(figures.crossings(pairs) == 0 for pairs in pairings(list(range(2 * k))))
        for k in (1, 2, 3, 4)
    ]
    assert counts == [1, 2, 5, 14]


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


def test_a_zero_that_rounding_has_moved_is_a_zero(ax):
    figures.ordered(ax, [1.0, 0.5, 3e-17])
    assert "the last 0" in figures.alt_text(ax.figure)
    ax.cla()
    figures.chords(ax, [(0, 3), (1, 4), (2, 5)])
    drawn = np.concatenate([line.get_ydata() for line in ax.lines[1:]])  # without the circle
    assert not np.any((drawn != 0) & (np.abs(drawn) < 1e-12))


def test_a_second_law_and_a_second_histogram_have_names_and_colours_of_their_own(ax):
    figures.spectrum(ax, [0.5, 1.0], QuarterCircle(1.0), other=FussCatalan(2))
    figures.spectrum(ax, [0.5, 1.5], label="again")
    assert "Fuss-Catalan law ends at 2.60" in figures.alt_text(ax.figure)
    bars = [p.get_facecolor() for p in ax.patches]
    assert len(bars) == len(set(bars)) == 2


def test_panels_are_told_apart():
    fig, axes = figures.panels(3)
    assert len(axes) == len(fig.axes) == 3
    for ax, second in zip(axes, (0.1, 0.2), strict=False):
        figures.ordered(ax, [1.0, second])
    assert figures.alt_text(fig).startswith("Panel 1 of 2: 2 singular values")
    assert " Panel 2 of 2: " in figures.alt_text(fig)


def test_panels_alike_are_described_once():
    fig, axes = figures.panels(4)
    for ax, pairs in zip(axes, [[(0, 1)], [(0, 1)], [(0, 2), (1, 3)], [(0, 1)]], strict=True):
        figures.chords(ax, pairs, numbered=False)
        assert not ax.texts
    said = figures.alt_text(fig)
    assert said.startswith("Panels 1 to 2 of 4: 1 chord between 2 points on a circle, no crossings")
    assert "Panel 3 of 4: 2 chords between 4 points on a circle, 1 crossing. Panel 4 of 4" in said


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
distribution, matrix, chords = figures.distribution, figures.matrix, figures.chords
heatmap = figures.heatmap
CDF = "must have a distribution function cdf and a number edge"
QC = QuarterCircle(1.0)


def on_log_axis(ax, *args, **options):
    ax.set_yscale("log")
    curve(ax, *args, **options)


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
    (lambda ax: spectrum(ax, [1.0], other=3), TypeError, f"other {LAW}, got 3; pass an ob"),
    (lambda ax: spectrum(ax, [1.0], QC, other=QC), ValueError, "other_label must differ .*pass"),
    (lambda ax: spectrum(ax, [1.0], QC, other="x"), TypeError, f"other {LAW}, got 'x'; pass"),
    (lambda ax: distribution(ax, [], QC), ValueError, f"values {EMPTY}"),
    (lambda ax: distribution(ax, [NAN], QC), ValueError, "values .*NaN, got .*; remove"),
    (lambda ax: distribution(ax, [[1.0]], QC), ValueError, f"values {NOT_1D}"),
    (lambda ax: distribution(ax, [1.0], None), TypeError, f"law {CDF}, got None; pass an ob"),
    (lambda ax: distribution(2, [1.0], QC), TypeError, "ax must .*got 2; pass those"),
    (lambda ax: curve(ax, [1, 2], [[1, 2]]), ValueError, "measured .*row a point, got 1 rows for"),
    (lambda ax: curve(ax, [1], [[[1]]]), ValueError, r"measured .*\(1, 1, 1\); bring"),
    (lambda ax: on_log_axis(ax, [1], [0]), ValueError, "measured .*above 0, got 0; log axes"),
    (lambda ax: on_log_axis(ax, [1], [1], [-1]), ValueError, "predicted .*got -1; log axes"),
    (lambda ax: on_log_axis(ax, [1], [1], level=0), ValueError, "level .*above 0, got 0; log"),
    (lambda ax: heatmap(3, [1], [1], [[1.0]]), TypeError, "ax must .*got 3; pass those"),
    (
        lambda ax: heatmap(ax, [1], [1], [[1.0, 2.0]]),
        ValueError,
        r"values .*\(1, 1\), got shape \(1, 2\)",
    ),
    (lambda ax: heatmap(ax, [1], [1], [[NAN]]), ValueError, "values must not contain NaN"),
    (lambda ax: heatmap(ax, [1], [1], [[0.0]], logarithmic=True), ValueError, "values must be"),
    (
        lambda ax: heatmap(ax, [1], [1], np.ma.masked_invalid([[NAN]])),
        ValueError,
        "values must have a cell that is not masked, got none; pass numbers",
    ),
    (lambda ax: heatmap(ax, [1], [1], [[1.0]], logarithmic="no"), TypeError, "logarithmic"),
    (lambda ax: matrix(ax, [1.0]), ValueError, r"M must be a 2-D array .*\(1,\); bring"),
    (lambda ax: matrix(ax, np.ones((0, 2))), ValueError, r"M .*not empty.*\(0, 2\); pass"),
    (lambda ax: matrix(ax, [[INF]]), ValueError, "M must be finite, got inf; remove"),
    (lambda ax: matrix(ax, [[1j]]), TypeError, "M must hold real numbers"),
    (lambda ax: matrix(ax, [[1.0]], limit=0), ValueError, "limit .*above 0, got 0; pass where"),
    (lambda ax: matrix(ax, [[1.0]], limit="a"), TypeError, "limit must hold real.*; pass real"),
    (lambda ax: matrix(3, [[1.0]]), TypeError, "ax must .*got 3; pass those"),
    (lambda ax: chords(ax, [(0, 1)], numbered="no"), TypeError, "numbered must be True or False"),
    (lambda ax: chords(ax, []), ValueError, r"pairs must be a 2-D .*\(0,\); pass"),
    (lambda ax: chords(ax, [(0, 1, 2, 3)]), ValueError, "pairs must hold each of 0, …, 3 once"),
    (lambda ax: chords(ax, [(0, 2)]), ValueError, r"pairs .*0, …, 1 once.*\[\(0, 2\)\]; number"),
    (lambda ax: chords(ax, [(0, 1), (1, 2)]), ValueError, "pairs must hold each of 0, …, 3 once"),
    (lambda ax: chords(ax, [(0, 0.5)]), ValueError, r"pairs .*whole.*got 0\.5; number"),
    (lambda ax: chords(ax, [(-1, 0)]), ValueError, "pairs .*got -1; number"),
    (lambda ax: chords(ax, [("a", "b")]), TypeError, "pairs must hold real numbers"),
    (lambda ax: chords(3, [(0, 1)]), TypeError, "ax must .*got 3; pass those"),
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


def summed(plot, *args, **options):
    fig, ax = figures.panel()
    plot(ax, *args, **options)
    plt.close(fig)
    return figures.summary(fig)


def test_summary_sees_a_change_of_every_plot():
    rng = np.random.default_rng(0)
    values, M, k = QC.ppf(rng.random(50)), rng.standard_normal((6, 8)), np.arange(1, 5)
    pairs = [(0, 1), (2, 3)]
    first = [
        summed(spectrum, values, QC, other=QC, other_label="a"),
        summed(spectrum, np.zeros(3), MarchenkoPastur(2.0)),
        summed(distribution, values, QC),
        summed(curve, k, rng.random((4, 5))),
        summed(curve, k, 1 / k),
        summed(matrix, M),
        summed(matrix, M),
        summed(matrix, np.abs(M)),
        summed(chords, pairs),
        summed(chords, pairs),
    ]
    second = [
        summed(spectrum, values, QC, other=QuarterCircle(1.01), other_label="a"),
        summed(spectrum, np.zeros(3), MarchenkoPastur(2.1)),
        summed(distribution, values * 1.01, QC),
        summed(curve, k, rng.random((4, 5))),
        summed(curve, k, 1 / k, 1 / k),
        summed(matrix, M.T),
        summed(matrix, M, limit=9),
        summed(matrix, np.abs(M) * np.where(np.arange(8) == 3, 1.1, 1)),
        summed(chords, [(0, 2), (1, 3)]),
        summed(chords, pairs, title="a"),
    ]
    same = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a == b]
    assert not same
    assert summed(matrix, M) == first[5]


def test_summary_of_an_image_is_small_and_sees_its_shape():
    M = np.random.default_rng(0).standard_normal((100, 50))
    entries = [summed(matrix, m)[0]["artists"][0] for m in (M, M.reshape(50, 100))]
    assert [entry["kind"] for entry in entries] == ["image 100 × 50", "image 50 × 100"]
    assert len(str(entries[0])) < 400
    changed = M.copy()
    changed[17, 3] += 5
    assert summed(matrix, changed)[0]["artists"][0] != entries[0]


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

ALWAYS = (figures.MEASURED[0], figures.THEORY, figures.PREDICTION, figures.OTHER)
SERIES = (*figures.MEASURED, figures.THEORY, figures.PREDICTION)


def linear(color):
    """Return linear-light RGB."""
    rgb = np.array(mpl.colors.to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    """Return the contrast ratio of WCAG 2.2."""
    lights = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] + 0.05 for c in (a, b))
    return lights[1] / lights[0]


@pytest.mark.parametrize("color", [*SERIES, figures.OUTLIER, figures.OTHER])
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
    seen = [lab(c, vision) for c in ALWAYS]
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
