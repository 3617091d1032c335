"""Marchenko-Pastur, Fuss-Catalan: against quadrature, against each other, against simulation."""

import math
import warnings

import numpy as np
import pytest
from scipy.integrate import quad

from gapcourse.laws import FussCatalan, MarchenkoPastur, QuarterCircle

LAWS = [
    MarchenkoPastur(0.01),
    MarchenkoPastur(0.5, 3.0),
    MarchenkoPastur(1.0),
    MarchenkoPastur(4.0, 0.2),
    MarchenkoPastur(300.0),
    FussCatalan(1),
    FussCatalan(2),
    FussCatalan(5),
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


def lower(law):
    return getattr(law, "lower_edge", 0.0)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_mass_and_moments(law):
    assert law.atom + integral(law, lower(law), law.edge) == pytest.approx(1, abs=1e-8)
    assert law.moment(0) == 1
    for k in (2, 4, 8):
        assert law.moment(k) == pytest.approx(integral(law, lower(law), law.edge, k), rel=1e-8)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_cdf_is_the_integral_of_the_density(law):
    for x in lower(law) + (law.edge - lower(law)) * np.array([0.01, 0.2, 0.5, 0.9]):
        mass = law.atom + integral(law, lower(law), x)
        assert law.cdf(x) == pytest.approx(mass, abs=1e-9)


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
    assert law.outlier == 0


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


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MarchenkoPastur(0), ValueError, "ratio .*got 0; pass rows/columns"),
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
