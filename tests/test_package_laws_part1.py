"""Marchenko-Pastur, Fuss-Catalan, attention bulk: quadrature, each other, simulation."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from gapcourse.attention import attention_matrix
from gapcourse.laws import AttentionBulk, FussCatalan, MarchenkoPastur, QuarterCircle
from gapcourse.predictions import spike_singular_value

LAWS = [
    MarchenkoPastur(1e-6),
    MarchenkoPastur(0.01),
    MarchenkoPastur(0.5, 3.0),
    MarchenkoPastur(1.0),
    MarchenkoPastur(4.0, 0.2),
    MarchenkoPastur(300.0),
    FussCatalan(1),
    FussCatalan(2),
    FussCatalan(5),
    AttentionBulk(0.0, 0.7, 1.0),
    AttentionBulk(1.0, 1e-6, 1.0),
    AttentionBulk(1.0, 0.0, 0.2),
    AttentionBulk(1.0, 0.0, 1.0),
    AttentionBulk(1.0, 0.0, 5.0),
    AttentionBulk(2.0, 1.0, 1e-3),
    AttentionBulk(1.0, 1e-9, 1e3),  # two bands
    AttentionBulk(1.0, 0.3, 20.0),  # two bands
    AttentionBulk(1e-7, 1.0, 1e3),
    AttentionBulk.softmax(0.5, 4.0),  # two bands
    AttentionBulk.softmax(1.0, 4.0),
    AttentionBulk.softmax(0.7, 16.0, head_dim=75, degrees=3),
    AttentionBulk.softmax(0.5, 1000.0, head_dim=4, degrees=4),  # five bands
    AttentionBulk.from_map(lambda z: z + 0.3 * z * z, 1.0, 20.0, head_dim=8, degrees=2),  # an atom
]
SHARES = np.array([0.0, 1e-6, 0.05, 0.3, 0.5, 0.8, 0.97, 1.0])


def integral(law, low, high, k=0):
    """Integrate x^k times the density, where both ends may have roots or singularities."""
    width = high - low

    def function(w):  # x = low + width sin^2(w)^3: flat at both ends
        u = math.sin(w) ** 6
        x = low + width * u
        slope = 6 * width * math.sin(w) ** 5 * math.cos(w)
        return x**k * law.pdf(x) * slope if slope > 0 else 0.0

    return quad(function, 0, math.pi / 2, epsabs=0, epsrel=1e-10, limit=400)[0]


def support(law):
    return getattr(law, "bands", ((getattr(law, "lower_edge", 0.0), law.edge),))


def lower(law):
    return support(law)[0][0]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_mass_and_moments(law):
    mass = law.atom + sum(integral(law, *band) for band in support(law))
    assert mass == pytest.approx(1, abs=1e-8)
    assert law.moment(0) == 1
    for k in (2, 4, 8):
        moment = sum(integral(law, *band, k) for band in support(law))
        assert law.moment(k) == pytest.approx(moment, rel=1e-8)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_cdf_is_the_integral_of_the_density(law):
    mass = law.atom
    for low, high in support(law):
        for share in (0.01, 0.2, 0.5, 0.9):
            x = low + share * (high - low)
            assert law.cdf(x) == pytest.approx(mass + integral(law, low, x), abs=1e-9)
        mass += integral(law, low, high)
        assert law.cdf(high) == pytest.approx(mass, abs=1e-9)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_quantiles_invert_the_cdf(law):
    q = law.atom + (1 - law.atom) * SHARES
    x = law.ppf(q)
    np.testing.assert_allclose(law.cdf(x[1:]), q[1:], rtol=1e-9, atol=1e-12)
    assert (np.diff(x) >= 0).all()
    assert x[-1] == law.edge
    assert x[0] == (0 if law.atom else lower(law))
    assert (law.ppf(law.atom * np.array([0, 0.5])) <= lower(law)).all()


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_outside_the_support_and_shapes(law):
    x = [-math.inf, -1.0, law.edge * 1.001, math.inf]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(law.pdf(x), 0)
        np.testing.assert_array_equal(law.cdf(x), [0, 0, 1, 1])
        assert law.pdf(np.linspace(0, law.edge, 6).reshape(2, 3)).shape == (2, 3)
        assert law.ppf(np.zeros(0)).shape == (0,)
        assert type(law.pdf(law.edge / 2)) is float
        assert type(law.cdf(0)) is float


@pytest.mark.parametrize("scale", [1e-150, 0.7, 1e150])
@pytest.mark.parametrize("ratio", [1e-8, 0.5, 1 - 1e-12, 1.0, 4.0, 1e8])
def test_marchenko_pastur_density_at_its_borders(ratio, scale):
    law = MarchenkoPastur(ratio, scale)
    low, high = law.lower_edge, law.edge
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = [-math.inf, -1e300, -high, -5e-324, np.nextafter(high, math.inf), 1e300, math.inf]
        np.testing.assert_array_equal(law.pdf(x), 0)
        assert law.pdf(high) == 0
        if low == 0:
            assert law.pdf([0, -0.0]) * scale == pytest.approx(2 / math.pi, rel=1e-12)
        else:
            np.testing.assert_array_equal(law.pdf([-low, -0.0, 0, np.nextafter(low, 0), low]), 0)
        # In terms of the distances from the edges, as squares of x would cancel. Rounding moves x
        # by 1e-16 of itself, and so the density by that over the distance.
        gap = np.array([1e-1, 1e-3, 1e-6, 1e-9]) * (high - low)
        for x in (low + gap, high - gap):
            parts = [(x - low) / scale, (high - x) / scale, (x + low) / scale, (x + high) / scale]
            exact = np.sqrt(np.prod(parts, axis=0)) / (math.pi * ratio * x)
            error = np.abs(law.pdf(x) / exact - 1)
            assert (error < 1e-14 + 1e-15 * x / np.minimum(x - low, high - x)).all()


def test_three_names_of_the_quarter_circle():
    x, q = np.linspace(0, 2.1, 50), np.linspace(0, 1, 50)
    for law in (MarchenkoPastur(1.0), FussCatalan(1)):
        np.testing.assert_allclose(law.pdf(x), QuarterCircle(1).pdf(x), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(law.cdf(x), QuarterCircle(1).cdf(x), atol=1e-14)
        np.testing.assert_allclose(law.ppf(q), QuarterCircle(1).ppf(q), atol=1e-13)
        assert law.edge == 2
        for k in (2, 4, 20, 200):
            assert law.moment(k) == pytest.approx(QuarterCircle(1).moment(k), rel=1e-12)


def test_marchenko_pastur_of_the_transpose():
    """The values of M that are not zero are those of its transpose."""
    wide, tall = MarchenkoPastur(0.25, 2.0), MarchenkoPastur(4.0, 1.0)
    x = np.linspace(0, 3.2, 40)
    assert tall.edge == wide.edge == 3
    assert tall.lower_edge == wide.lower_edge == 1
    assert (wide.atom, tall.atom) == (0, 0.75)
    np.testing.assert_allclose(tall.pdf(x), wide.pdf(x) / 4, atol=1e-14)
    np.testing.assert_allclose(tall.cdf(x), 0.75 + wide.cdf(x) / 4, atol=1e-14)


def test_fuss_catalan_numbers():
    assert [FussCatalan(3).moment(2 * k) for k in range(5)] == [1, 1, 4, 22, 140]
    assert FussCatalan(2).edge == pytest.approx(math.sqrt(27 / 4), rel=1e-15)
    np.testing.assert_allclose(FussCatalan(3).radius_ppf([0, 0.25, 1]), [0, 0.125, 1])
    assert FussCatalan(2).pdf(0) == math.inf


@pytest.mark.parametrize(("rows", "columns"), [(300, 600), (600, 300)])
def test_marchenko_pastur_is_the_law_of_a_rectangular_matrix(rows, columns):
    M = np.random.default_rng(1).normal(size=(rows, columns)) * 1.5 / math.sqrt(columns)
    s = np.zeros(rows)
    s[: min(rows, columns)] = np.linalg.svd(M, compute_uv=False)
    law = MarchenkoPastur(rows / columns, 1.5)
    # Singular values repel: distances and linear statistics fluctuate by O(1/rows).
    positive = np.sort(s[s > 0])
    ranks = law.atom + (1 - law.atom) * (np.arange(len(positive)) + 0.5) / len(positive)
    assert np.abs(law.cdf(positive) - ranks).max() < 10 / rows
    fitted = MarchenkoPastur.fit(s)
    assert fitted.ratio == pytest.approx(law.ratio, rel=10 / rows)
    assert fitted.sigma == pytest.approx(1.5, rel=5 / rows)
    assert fitted.atom == pytest.approx(law.atom, abs=10 / rows)


def test_fuss_catalan_is_the_law_of_a_product():
    T, rng = 400, np.random.default_rng(2)
    M = rng.normal(size=(T, T)) @ rng.normal(size=(T, T)) / T
    s = np.linalg.svd(M, compute_uv=False)[::-1]
    law = FussCatalan(2)
    assert np.abs(law.cdf(s) - (np.arange(T) + 0.5) / T).max() < 10 / T
    moduli = np.abs(np.linalg.eigvals(M))
    t = np.array([0.25, 0.5, 0.75])
    np.testing.assert_allclose(np.quantile(moduli, t), law.radius_ppf(t), atol=15 / T)


@pytest.mark.parametrize("law", [MarchenkoPastur(3.0, 2.0), FussCatalan(3)], ids=str)
def test_sampling(law):
    n = 20_000
    x = law.rvs(n, rng=1)
    np.testing.assert_array_equal(x, law.rvs((n,), rng=np.random.default_rng(1)))
    # Kolmogorov: P(sup |F_n - F| > 2/sqrt(n)) < 7e-4.
    x = np.sort(x)[np.sort(x) > 0]
    ranks = 1 - (np.arange(len(x))[::-1] + 0.5) / n
    assert np.abs(law.cdf(x) - ranks).max() < 2 / math.sqrt(n)


def test_fit_of_draws_with_an_atom():
    fitted = MarchenkoPastur.fit(MarchenkoPastur(3.0, 2.0).rvs(40_000, rng=3))
    # Standard errors over seeds: 0.025 and 0.009.
    assert fitted.ratio == pytest.approx(3, abs=0.1)
    assert fitted.sigma == pytest.approx(2, abs=0.036)


@pytest.mark.parametrize("ratio", [0.2, 1.0, 3.0])
def test_fit_of_a_histogram(ratio):
    law, q = MarchenkoPastur(ratio, 2.0), (np.arange(10_000) + 0.5) / 10_000
    counts, edges = np.histogram(law.ppf(q), bins=np.linspace(0, law.edge, 101))
    fitted = MarchenkoPastur.fit(np.repeat((edges[1:] + edges[:-1]) / 2, counts))
    # Rounding to a bin's centre moves a mean of smooth functions by its width squared.
    assert fitted.ratio == pytest.approx(ratio, rel=0.01)
    assert fitted.sigma == pytest.approx(2, rel=0.005)
    assert fitted.atom == pytest.approx(law.atom, abs=0.01)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MarchenkoPastur(0), ValueError, "ratio .*got 0; pass rows/columns"),
        (lambda: MarchenkoPastur(1e-9), ValueError, "ratio .*got 1e-09; pass rows/columns"),
        (lambda: MarchenkoPastur(math.inf), ValueError, "ratio .*got inf; pass rows/columns"),
        (lambda: MarchenkoPastur("1"), TypeError, "ratio .*'1'.*pass real numbers"),
        (lambda: MarchenkoPastur(1.0, -1), ValueError, "sigma .*got -1; pass the scale"),
        (lambda: MarchenkoPastur.fit([2, 2]), ValueError, r"values .*\[2, 2\]; pass all"),
        (lambda: MarchenkoPastur.fit([]), ValueError, r"values .*\[\]; pass all"),
        (lambda: MarchenkoPastur.fit([-1, 2]), ValueError, "values .*got -1; pass singular"),
        (lambda: MarchenkoPastur(1.0).moment(20_002), ValueError, "k .*20000.*got 20002"),
        (lambda: MarchenkoPastur(1.0).moment(2_000), ValueError, r"k .*1\.8e308.*got 2000"),
        (lambda: FussCatalan(0), ValueError, "order .*got 0; pass 1 or more"),
        (lambda: FussCatalan(1.5), TypeError, r"order .*got 1\.5 \(float\); pass an int"),
        (lambda: FussCatalan(1001), ValueError, "order .*got 1001; pass fewer"),
        (lambda: FussCatalan(2).moment(3), ValueError, "k must be even, got 3"),
        (lambda: FussCatalan(2).moment(2_000), ValueError, r"k .*1\.8e308.*got 2000"),
        (lambda: FussCatalan(2).ppf(1.1), ValueError, r"q .*got 1\.1; pass probabilities"),
    ],
)
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_no_eigenvalues_of_a_rectangular_matrix():
    with pytest.raises(NotImplementedError, match="MarchenkoPastur says nothing about eigenvalues"):
        MarchenkoPastur(2.0).radius_ppf(0.5)


# --- the attention bulk ---------------------------------------------------------------------------


def relu(z):
    return max(z, 0.0)


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def quartic(law, x):
    """Return -Im G from the polynomial, the slow way: the largest imaginary part of a root."""
    a, n, r = law.linear**2, law.noise**2, law.ratio * law.linear**2
    # x G (1 - r G^2) = (1 + n G^2)(1 - r G^2) + a G^2
    return max(np.roots([n * r, -r * x, r - n - a, x, -1]).imag)


@pytest.mark.parametrize(
    "law",
    [
        AttentionBulk.softmax(0.5, 4.0),
        AttentionBulk.softmax(1.0, 1.0),
        AttentionBulk(1.0, 0.2, 50.0),
        AttentionBulk(1.0, 3.0, 50.0),
        AttentionBulk(1.0, 0.5, 0.1),
    ],
    ids=str,
)
def test_density_is_that_of_the_polynomial(law):
    for x in np.linspace(0.01, 1.1, 60) * law.edge:
        assert law.pdf(x) == pytest.approx(2 / math.pi * quartic(law, x), abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.floats(-3, 3), st.floats(0, math.pi / 2))
@example(math.log10(1.717782), math.atan(0.191217))  # just before the band splits in two
@example(math.log10(18.464), math.atan(2.576))
@example(0.0, 1e-8)  # next to the density that is infinite at 0
@example(3.0, 1e-9)
@example(3.0, math.pi / 2 - 1e-9)
def test_mass_for_any_ratio_and_any_parts(log_ratio, angle):
    law = AttentionBulk(math.cos(angle), math.sin(angle), 10**log_ratio)
    mass = law.atom + sum(integral(law, *band) for band in law.bands)
    assert mass == pytest.approx(1, abs=1e-6)
    assert law.cdf([law.bands[0][0] * 0.999, law.edge]) == pytest.approx(
        [law.atom if law.bands[0][0] else 0, 1], abs=1e-12
    )


@pytest.mark.parametrize(
    "law",
    [AttentionBulk(0.0, 1.3, 5.0), AttentionBulk(1.2, 0.5, 1e-6), AttentionBulk(1e-30, 1.3, 1e3)],
    ids=str,
)
def test_quarter_circle_of_a_large_head_or_without_linear_part(law):
    circle = QuarterCircle(1.3)
    x, q = np.linspace(0, 2.7, 40), np.linspace(0, 1, 40)
    np.testing.assert_allclose(law.pdf(x), circle.pdf(x), atol=1e-3 if law.ratio < 1 else 1e-7)
    np.testing.assert_allclose(law.cdf(x), circle.cdf(x), atol=1e-6)
    np.testing.assert_allclose(law.radius_ppf(q), circle.radius_ppf(q), atol=1e-5)
    assert law.edge == pytest.approx(circle.edge, rel=1e-6)
    assert law.moment(12) == pytest.approx(circle.moment(12), rel=1e-4)


def test_product_law_at_a_square_head():
    law, product = AttentionBulk(1.0, 0.0, 1.0), FussCatalan(2)
    x, q = np.linspace(0.01, 2.7, 60), np.linspace(0, 1, 60)
    np.testing.assert_allclose(law.pdf(x), product.pdf(x), atol=1e-7)
    np.testing.assert_allclose(law.cdf(x), product.cdf(x), atol=1e-12)
    np.testing.assert_allclose(law.ppf(q), product.ppf(q), atol=1e-12)
    np.testing.assert_allclose(law.radius_ppf(q), q, atol=1e-14)  # t, not sqrt(t)
    assert [round(law.moment(2 * k), 9) for k in range(4)] == [1, 1, 3, 12]
    assert law.edge == pytest.approx(product.edge, rel=1e-14)
    small = np.array([1e-9, 1e-12])
    assert law.pdf(0) == math.inf
    np.testing.assert_allclose(law.pdf(small) * np.cbrt(small), math.sqrt(3) / math.pi, rtol=1e-5)


def test_product_law_with_a_large_and_a_small_head():
    assert AttentionBulk(2.0, 0.0, 0.19).pdf(0) == pytest.approx(1 / (math.pi * 0.9), rel=1e-12)
    law = AttentionBulk(2.0, 0.0, 5.0)
    assert law.atom == 0.8
    assert law.cdf(0) == 0.8
    np.testing.assert_array_equal(law.radius_ppf([0, 0.5, 0.79]), 0)
    assert 0 < law.radius_ppf(0.81) < law.radius_ppf(1) == 2


def parts(law):
    """Return the squared sizes and the ratios of the parts that are products."""
    pairs = ((law.linear, law.ratio), *law.higher)
    return np.array([size**2 for size, _ in pairs]), np.array([ratio for _, ratio in pairs])


@pytest.mark.parametrize("law", [law for law in LAWS if isinstance(law, AttentionBulk)], ids=str)
def test_moments_and_outer_radius(law):
    a, c = parts(law)
    m2 = law.noise**2 + a.sum()
    assert law.moment(2) == pytest.approx(m2, rel=1e-12)
    assert law.moment(4) == pytest.approx(np.sum(c * a**2) + 2 * m2**2, rel=1e-12)
    assert law.radius_ppf(1) == pytest.approx(math.sqrt(m2), rel=1e-14)
    t = np.linspace(0.05, 0.95, 19)
    r = law.radius_ppf(t)
    assert (np.diff(r) >= 0).all()
    assert (r[t > law.atom + 1e-9] > 0).all()
    assert (r[t < law.atom - 1e-9] == 0).all()
    V = t[r > 0] * (1 - t[r > 0]) / r[r > 0] ** 2
    left = law.noise**2 * V + np.sum(a * V[:, None] / (1 + c * a * V[:, None]), axis=1)
    np.testing.assert_allclose(left, 1 - t[r > 0], rtol=1e-9)


@pytest.mark.parametrize(
    "law",
    [
        AttentionBulk.softmax(0.7, 16.0, head_dim=75, degrees=2),
        AttentionBulk.softmax(0.5, 300.0, head_dim=4, degrees=3),
        AttentionBulk.from_map(relu, 1.0, 3.0, head_dim=10, degrees=4),
    ],
    ids=str,
)
def test_density_of_all_degrees_is_that_of_the_polynomial(law):
    a, c = parts(law)
    one = np.polynomial.Polynomial([1.0])
    G2, G = np.polynomial.Polynomial([0, 0, 1]), np.polynomial.Polynomial([0, 1])
    factors = [one - size * ratio * G2 for size, ratio in zip(a, c, strict=True)]
    whole = np.prod(factors)
    for x in np.linspace(0.01, 1.1, 60) * law.edge:
        equation = (one + law.noise**2 * G2 - x * G) * whole
        for size, factor in zip(a, factors, strict=True):
            equation += size * G2 * (whole // factor)
        assert law.pdf(x) == pytest.approx(2 / math.pi * equation.roots().imag.max(), abs=2e-6)


def test_all_degrees():
    law = AttentionBulk.softmax(0.7, 16.0, head_dim=75, degrees=2)
    assert law.higher == ((pytest.approx(0.49 / math.sqrt(2)), pytest.approx(1200 / 2850)),)
    t = [0.25, 0.5, 0.75]
    np.testing.assert_allclose(law.radius_ppf(t), [0.176, 0.266, 0.361], atol=6e-4)
    one = AttentionBulk.softmax(0.7, 16.0)
    np.testing.assert_allclose(one.radius_ppf(t), [0.197, 0.284, 0.372], atol=6e-4)
    assert law.moment(2) == pytest.approx(one.moment(2), rel=1e-14)
    assert AttentionBulk.softmax(0.7, 16.0, head_dim=75) == one
    by_map = AttentionBulk.from_map(math.exp, 0.7, 16.0, head_dim=75, degrees=2)
    mean = math.exp(0.7**2 / 2)
    assert by_map.edge == pytest.approx(mean * law.edge, rel=1e-9)
    assert by_map.cdf(0.5 * mean) == pytest.approx(law.cdf(0.5), abs=1e-9)
    four = AttentionBulk.from_map(math.exp, 0.7, 16.0, head_dim=75, degrees=5)
    sizes = [mean * 0.7**k / math.sqrt(math.factorial(k)) for k in (2, 3, 4, 5)]
    np.testing.assert_allclose([size for size, _ in four.higher], sizes, rtol=1e-9)
    # He_2 alone, and with it an even map: no linear part, no noise
    square = AttentionBulk.from_map(lambda z: z * z - 1, 1.0, 4.0, head_dim=10, degrees=2)
    assert (square.linear, square.noise) == (0, 0)
    assert square.edge == pytest.approx(AttentionBulk(math.sqrt(2), 0.0, 40 / 55).edge, rel=1e-9)
    # With features in plenty, degree 2 is noise.
    x = np.linspace(0, one.edge, 50)
    wide = AttentionBulk.softmax(0.7, 16.0, head_dim=10**9, degrees=2)
    np.testing.assert_allclose(wide.cdf(x), one.cdf(x), atol=1e-7)
    assert AttentionBulk.softmax(0.7, 1.0, head_dim=10**18, degrees=20).edge > 1


def test_degree_two_mends_the_small_eigenvalues_of_a_small_head():
    T, head_dim, s, rng = 500, 40, 0.7, np.random.default_rng(7)
    A = attention_matrix(*rng.normal(size=(2, T, head_dim)), scale=s / math.sqrt(head_dim))
    t = np.array([0.25, 0.5])
    seen = math.sqrt(T) * np.quantile(np.abs(np.linalg.eigvals(A - 1 / T)), t)
    one = AttentionBulk.softmax(s, T / head_dim).radius_ppf(t)
    two = AttentionBulk.softmax(s, T / head_dim, head_dim=head_dim, degrees=2).radius_ppf(t)
    assert (seen < two).all()
    assert (two < one - 0.01).all()


@pytest.mark.parametrize(
    ("ratio", "edge"), [(1 / 16, 1.344), (1, 1.629), (4, 2.157), (16, 3.309), (50, 5.127)]
)
def test_edges_of_softmax(ratio, edge):
    law = AttentionBulk.softmax(0.6, ratio)
    assert law.edge == pytest.approx(edge, abs=6e-4)
    assert law.outlier == 1
    # The edge is the least x between the pole at 0 and the next.
    G = np.linspace(0, 1, 20_002)[1:-1] / (law.linear * math.sqrt(ratio))
    x = 1 / G + law.noise**2 * G + law.linear**2 * G / (1 - ratio * law.linear**2 * G**2)
    assert law.edge == pytest.approx(x.min(), rel=1e-6)


@pytest.mark.parametrize(
    ("f", "ratio", "edge"),
    [(relu, 1, 1.402), (relu, 5, 1.935), (sigmoid, 1, 0.539), (sigmoid, 5, 0.775)],
)
def test_edges_of_other_maps(f, ratio, edge):
    assert AttentionBulk.from_map(f, 1.0, ratio).edge == pytest.approx(edge, abs=6e-4)


def test_parts_of_a_map_with_a_kink_or_a_jump():
    for s in (0.3, 1.0, 4.0):
        law = AttentionBulk.from_map(relu, s, 1.0)
        assert law.linear == pytest.approx(s / 2, rel=1e-10)
        assert law.noise == pytest.approx(s * math.sqrt(1 / 4 - 1 / (2 * math.pi)), rel=1e-10)
        assert law.outlier == pytest.approx(s / math.sqrt(2 * math.pi), rel=1e-10)
    law = AttentionBulk.from_map(lambda z: float(z > 0.37), 1.0, 1.0)  # no whole number
    tail = math.erfc(0.37 / math.sqrt(2)) / 2
    slope = math.exp(-(0.37**2) / 2) / math.sqrt(2 * math.pi)
    assert law.outlier == pytest.approx(tail, abs=1e-9)
    assert law.linear == pytest.approx(slope, abs=1e-9)
    assert law.noise == pytest.approx(math.sqrt(tail - tail**2 - slope**2), abs=1e-9)


def test_parts_of_smooth_maps():
    by_map, named = AttentionBulk.from_map(math.exp, 0.7, 3.0), AttentionBulk.softmax(0.7, 3.0)
    mean = math.exp(0.7**2 / 2)
    assert by_map.outlier == pytest.approx(mean, rel=1e-11)
    assert by_map.linear == pytest.approx(0.7 * mean, rel=1e-11)
    assert by_map.noise == pytest.approx(named.noise * mean, rel=1e-11)
    assert named.noise**2 == pytest.approx(math.exp(0.49) - 1.49, rel=1e-13)
    assert AttentionBulk.softmax(1e-3, 1.0).noise == pytest.approx(1e-6 / math.sqrt(2), rel=1e-6)
    square = AttentionBulk.from_map(lambda z: 1e-9 * z * z, 1.0, 3.0)
    assert square.linear == 0
    assert square.noise == pytest.approx(math.sqrt(2) * 1e-9, rel=1e-10)
    line = AttentionBulk.from_map(lambda z: -3 * z + 1, 1.0, 3.0)
    assert line.linear == pytest.approx(3, rel=1e-12)
    assert (line.noise, line.atom) == (0, AttentionBulk(3.0, 0.0, 3.0).atom)
    assert line.outlier == pytest.approx(1, rel=1e-12)
    assert AttentionBulk.from_map(lambda z: z, 1.0, 3.0).outlier == 0


@pytest.mark.parametrize(
    ("logit_std", "threshold"), [(0.25, 1.671), (0.5, 2.495), (0.7, 3.322), (1.0, 5.034)]
)
def test_two_bands_of_softmax(logit_std, threshold):
    one = AttentionBulk.softmax(logit_std, threshold * 0.999)
    two = AttentionBulk.softmax(logit_std, threshold * 1.001)
    assert len(one.bands) == 1
    (_, low), (high, _) = two.bands
    assert low < high
    middle = (low + high) / 2
    assert two.pdf(middle) == 0
    assert two.cdf(middle) == pytest.approx(1 - 1 / two.ratio, rel=1e-12)
    assert one.cdf(middle) == pytest.approx(two.cdf(middle), abs=2e-3)


@pytest.mark.parametrize(
    ("head_dim", "s", "most", "circle"),
    [(150, 0.5, 0.035, 0.3), (600, 0.5, 0.014, 0.1), (2400, 0.7, 0.014, 0.02)],
)
def test_it_is_the_law_of_softmax_attention(head_dim, s, most, circle):
    """Over 10 seeds, the largest distance of the distribution functions, and edge over theory's.

    0.018 to 0.028, 0.005 to 0.009, 0.005 to 0.009 (the quarter circle's: 0.37, 0.12, 0.027 at
    least), and 0.96 to 1.00, 0.97 to 1.01, 0.99 to 1.01. The first is a bias of order 1/head_dim.
    """
    T, rng = 600, np.random.default_rng(5)
    A = attention_matrix(*rng.normal(size=(2, T, head_dim)), scale=s / math.sqrt(head_dim))
    law = AttentionBulk.softmax(s, T / head_dim)
    x = math.sqrt(T) * np.linalg.svd(A - 1 / T, compute_uv=False)[::-1]
    ranks = (np.arange(T) + 0.5) / T
    assert np.abs(law.cdf(x) - ranks).max() < most
    assert np.abs(QuarterCircle.fit(x).cdf(x) - ranks).max() > circle
    assert x[-1] == pytest.approx(law.edge, rel=0.06)


def test_linear_attention_has_the_product_law():
    T, head_dim, rng = 500, 250, np.random.default_rng(6)
    Q, K = rng.normal(size=(2, T, head_dim))
    M = Q @ K.T / math.sqrt(head_dim * T)
    x = np.linalg.svd(M, compute_uv=False)[::-1][-head_dim:]
    law = AttentionBulk(1.0, 0.0, T / head_dim)
    ranks = 0.5 + (np.arange(head_dim) + 0.5) / T
    assert np.abs(law.cdf(x) - ranks).max() < 10 / T
    for k in (2, 4, 6):  # linear statistics fluctuate by O(1/T)
        assert np.sum(x**k) / T == pytest.approx(law.moment(k), rel=10 * k / T)
    moduli = np.abs(np.linalg.eigvals(M))
    t = np.array([0.6, 0.75, 0.9])
    np.testing.assert_allclose(np.quantile(moduli, t), law.radius_ppf(t), atol=15 / T)


# --- rank-one parts -------------------------------------------------------------------------------

BULKS = [law for law in LAWS if isinstance(law, AttentionBulk)]


def position(law, G):
    """Return x and dx/dG, for any law of the sum over parts."""
    a, c = parts(law)
    u = c * a * G[:, None] ** 2
    x = 1 / G + law.noise**2 * G + G * np.sum(a / (1 - u), axis=1)
    slope = law.noise**2 - 1 / G**2 + np.sum(a * (1 + u) / (1 - u) ** 2, axis=1)
    return x, slope


@pytest.mark.parametrize("law", BULKS, ids=str)
def test_a_spike_is_outside_the_support_or_absorbed(law):
    theta = law.edge * np.logspace(-3, 2, 400)
    x = law.spike(theta)
    expected, slope = position(law, 1 / theta)
    np.testing.assert_allclose(x, np.where(slope < 0, expected, law.edge), rtol=1e-9)
    assert (x[theta >= law.edge] > law.edge).all()
    # What is not the edge lies in no band, and 1/theta is then the integral of 1/(x - t).
    seen = x != law.edge
    for low, high in law.bands:
        assert ((x[seen] < low + 1e-9) | (x[seen] > high - 1e-9)).all()
    assert (np.diff(x[seen]) > 0).all()
    q = (np.arange(4000) + 0.5) / 4000
    values = law.ppf(q)
    for i in np.flatnonzero(seen & (theta > 1.5 * law.edge))[::20]:
        both = np.mean(x[i] / (x[i] ** 2 - values**2))
        assert both == pytest.approx(1 / theta[i], rel=1e-3)


def test_spikes_where_they_are_known():
    theta = np.array([0.3, 0.69, 0.71, 1.0, 5.0])
    circle = AttentionBulk(0.0, 0.7, 3.0)
    np.testing.assert_allclose(circle.spike(theta), spike_singular_value(theta, 0.7), rtol=1e-14)
    law = AttentionBulk.softmax(0.5, 16.0)
    (_, low), (high, _) = law.bands
    assert law.spike(0.5**0.5) == pytest.approx(0.7047, abs=5e-5)
    assert low < law.spike(0.5**0.5) < high
    # Within the atom of linear attention, from an inner to the outer space of zeros.
    line = AttentionBulk(2.0, 0.0, 5.0)
    for theta in (1e-100, 1e-9):
        assert line.spike(theta) == pytest.approx(line.atom * theta, rel=1e-12)
    assert line.spike(1e200) == pytest.approx(1e200, rel=1e-14)
    assert AttentionBulk(1.0, 1.0, 5.0).spike(1e-200) == AttentionBulk(1.0, 1.0, 5.0).edge
    assert line.spike(2 * math.sqrt(5)) == line.edge  # at the pole
    assert type(law.spike(1)) is float
    assert law.spike(np.ones((2, 3))).shape == (2, 3)
    assert law.spike([]).shape == (0,)
    large = AttentionBulk(law.linear * 1e100, law.noise * 1e100, law.ratio)
    assert large.spike(2e100) == pytest.approx(1e100 * law.spike(2.0), rel=1e-12)


def test_a_spike_of_linear_attention_and_noise():
    """Over 8 seeds 5.61 to 5.89 at 5.78, and 0.917 to 0.950 at 0.929."""
    T, head_dim, rng = 500, 50, np.random.default_rng(8)
    law = AttentionBulk(1.0, 0.2, T / head_dim)
    M = rng.normal(size=(T, head_dim)) @ rng.normal(size=(head_dim, T)) / math.sqrt(head_dim * T)
    M += 0.2 * rng.normal(size=(T, T)) / math.sqrt(T)
    u, v = rng.normal(size=(2, T))
    spike = np.outer(u / np.linalg.norm(u), v / np.linalg.norm(v))
    above = np.linalg.norm(M + 5.5 * spike, 2)
    assert above == pytest.approx(law.spike(5.5), abs=0.25)
    (_, low), (high, _) = law.bands
    between = np.linalg.svd(M + 1.0 * spike, compute_uv=False)[head_dim]
    assert low < law.spike(1.0) < high
    assert between == pytest.approx(law.spike(1.0), abs=0.04)


@pytest.mark.parametrize(
    ("theta", "error", "message"),
    [
        (0, ValueError, "theta .*above 0, got 0; pass the size"),
        ([1, -1], ValueError, "theta .*above 0, got -1; pass the size"),
        (math.inf, ValueError, "theta .*finite.*got inf; pass the size"),
        ("1", TypeError, "theta .*'1'.*pass real"),
    ],
)
def test_spikes_refused(theta, error, message):
    with pytest.raises(error, match=message):
        AttentionBulk(1.0, 1.0, 1.0).spike(theta)


def test_attention_bulk_scales_and_shows_itself():
    law, large = AttentionBulk(0.5, 0.2, 3.0), AttentionBulk(0.5e100, 0.2e100, 3.0)
    assert large.edge == pytest.approx(law.edge * 1e100, rel=1e-13)
    assert large.pdf(1e100) == pytest.approx(law.pdf(1.0) / 1e100, rel=1e-12)
    assert repr(law) == "AttentionBulk(linear=0.5, noise=0.2, ratio=3.0)"
    assert law.outlier == 0
    assert law == AttentionBulk(0.5, 0.2, 3)
    assert law.rvs(3, rng=0).shape == (3,)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: AttentionBulk(-1, 1, 1), ValueError, "linear .*got -1; pass its size"),
        (lambda: AttentionBulk(1, math.nan, 1), ValueError, "noise .*got nan; remove"),
        (lambda: AttentionBulk(0, 0, 1), ValueError, "linear and noise .*got 0 and 0; raise one"),
        (lambda: AttentionBulk(1, 1, 0), ValueError, "ratio .*got 0; pass tokens/head"),
        (lambda: AttentionBulk(1, 1, 1e7), ValueError, "ratio .*got 10000000; pass tokens/head"),
        (lambda: AttentionBulk(1, 1, [1]), TypeError, r"ratio .*got \[1\]; pass a single one"),
        (lambda: AttentionBulk("1", 1, 1), TypeError, "linear .*got '1'.*pass real numbers"),
        (lambda: AttentionBulk(1, 1, 1).moment(2002), ValueError, "k .*2000.*got 2002"),
        (lambda: AttentionBulk(1, 1, 1e6).moment(200), ValueError, r"k .*1\.8e308.*got 200"),
        (lambda: AttentionBulk.softmax(0, 1), ValueError, "logit_std .*got 0; pass the standard"),
        (lambda: AttentionBulk.softmax(27, 1), ValueError, "logit_std .*got 27; pass the standard"),
        (lambda: AttentionBulk.softmax(1, 1, degrees=2), ValueError, "head_dim .*got None .*pass"),
        (lambda: AttentionBulk.softmax(1, 1, degrees=0), ValueError, "degrees .*got 0; pass 1"),
        (lambda: AttentionBulk.softmax(1, 1, degrees=21), ValueError, "degrees .*got 21; pass few"),
        (lambda: AttentionBulk.softmax(1, 1, head_dim=1.5), TypeError, "head_dim .*got 1.5"),
        (lambda: AttentionBulk.from_map(3, 1, 1), TypeError, "f must be a function .*got 3"),
        (lambda: AttentionBulk.from_map(lambda z: "a", 1, 1), ValueError, "f must be finite.*nan"),
        (lambda: AttentionBulk.from_map(lambda z: None, 1, 1), TypeError, "f must take one number"),
        (
            lambda: AttentionBulk.from_map(math.log, 1, 1),
            ValueError,
            "f must be finite, got nan at",
        ),
        (lambda: AttentionBulk.from_map(relu, -1, 1), ValueError, "logit_std .*got -1"),
        (lambda: AttentionBulk.from_map(lambda z: 2.0, 1, 1), ValueError, "f .*constant, got 2"),
        (lambda: AttentionBulk.from_map(lambda z: 0, 1, 1), ValueError, "f .*constant, got 0"),
        (lambda: AttentionBulk.from_map(lambda z: 1 / z, 1, 1), ValueError, "f .*finite, got nan"),
        (lambda: AttentionBulk.from_map(math.exp, 20, 1), ValueError, "f .*finite, got nan at 7"),
        (
            lambda: AttentionBulk.from_map(lambda z: math.exp(z * z / 3), 1, 1),
            ValueError,
            "f .*finite second moment",
        ),
    ],
)
def test_attention_bulk_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make()
