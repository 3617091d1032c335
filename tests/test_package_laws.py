"""The quarter circle: mass, quantiles, moments, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad

from gapcourse.ensembles import random_markov
from gapcourse.laws import QuarterCircle, SingularValueLaw
from gapcourse.spectra import eigenvalues, singular_values

SIGMAS = [0.03, 1.0, 17.0]


class Tensor:
    """What a torch tensor looks like from outside, without torch."""

    __module__ = "torch"


@pytest.mark.parametrize("sigma", SIGMAS)
def test_density_integrates_to_the_cdf_and_to_the_moments(sigma):
    law = QuarterCircle(sigma)
    assert law.edge == 2 * sigma
    for x in np.linspace(0, 1, 7) * law.edge:
        mass = quad(law.pdf, 0, x, epsabs=1e-13)[0]
        assert law.cdf(x) == pytest.approx(mass, abs=1e-9)
    for k in (0, 2, 4, 6, 10):
        moment = quad(lambda x, k=k: x**k * law.pdf(x), 0, law.edge, epsabs=0, epsrel=1e-11)[0]
        assert law.moment(k) == pytest.approx(moment, rel=1e-8)


def test_moments_are_catalan_numbers():
    assert [QuarterCircle(1.0).moment(2 * n) for n in range(6)] == [1, 1, 2, 5, 14, 42]
    assert QuarterCircle(0.5).moment(4) == 2 / 16
    assert QuarterCircle(0.01).moment(2000) == 0  # no overflow on the way


def test_large_moments():
    one = Fraction(math.comb(1030, 515), 516)  # above the power 2^1030, which float64 can't hold
    assert QuarterCircle(1).moment(1030) == pytest.approx(float(one), rel=1e-14)
    assert math.log2(QuarterCircle(1).moment(1030)) == pytest.approx(1015.66, abs=0.01)
    for n in (10_000, 10_001):  # exact below, a series above
        exact = Fraction(math.comb(2 * n, n), (n + 1) * 4**n)
        assert QuarterCircle(0.5).moment(2 * n) == pytest.approx(float(exact), rel=1e-14)
    assert QuarterCircle(0.5).moment(10**400) == 0


@pytest.mark.parametrize(
    ("k", "got"),
    [(1060, "1060"), (10**400, "1000"), pytest.param(10**5000, "a very long int", id="very long")],
)
def test_moments_beyond_float64(k, got):
    with pytest.raises(ValueError, match=rf"^k must .*1\.8e308.*got {got}.*; pass a smaller k"):
        QuarterCircle(1).moment(k)


def test_outside_the_support():
    law = QuarterCircle(1.0)
    x = [-np.inf, -1, 0, 2, 3, np.inf]
    np.testing.assert_array_equal(law.pdf(x), [0, 0, 2 / math.pi, 0, 0, 0])
    np.testing.assert_array_equal(law.cdf(x), [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("sigma", SIGMAS)
def test_quantiles(sigma):
    law = QuarterCircle(sigma)
    q = np.r_[0, 1e-300, 1e-12, np.linspace(1e-3, 1, 2000)]
    x = law.ppf(q)
    assert (np.diff(x) > 0).all()
    assert (x[0], x[-1]) == (0, law.edge)
    np.testing.assert_allclose(law.cdf(x), q, rtol=1e-12, atol=1e-15)
    # Exact pairs: x = edge sin(y/2) has cdf (y + sin y)/pi.
    y = np.linspace(0, 3.1, 500)
    np.testing.assert_allclose(
        law.ppf((y + np.sin(y)) / np.pi), law.edge * np.sin(y / 2), rtol=1e-12
    )


def test_numbers_give_floats_and_arrays_keep_their_shape():
    law = QuarterCircle(1)
    for function in (law.pdf, law.cdf, law.ppf, law.radius_ppf):
        assert type(function(0.5)) is float
        assert type(function(1)) is float
        assert function(np.ones((2, 3), dtype=int)).shape == (2, 3)
        assert function([0, 1]).shape == (2,)
        assert function(np.zeros(0)).shape == (0,)
    assert (law.atom, law.outlier) == (0, 0)
    assert isinstance(law, SingularValueLaw)


def test_sampling():
    law, n = QuarterCircle(2.0), 40_000
    x = law.rvs(n, rng=1)
    np.testing.assert_array_equal(x, law.rvs((n,), rng=np.random.default_rng(1)))
    assert law.rvs((2, 3), rng=0).shape == (2, 3)
    assert isinstance(law.rvs((), rng=0), np.ndarray)
    assert law.rvs((), rng=0).shape == ()
    # Kolmogorov: P(sup |F_n - F| > 2/sqrt(n)) < 7e-4.
    distance = np.abs(law.cdf(np.sort(x)) - (np.arange(n) + 0.5) / n).max()
    assert distance < 2 / math.sqrt(n)


def test_fit():
    law = QuarterCircle(0.7)
    x = law.rvs(20_000, rng=2)
    fitted = QuarterCircle.fit(x)
    # std of x^2 is sigma^2 (C_2 - 1 = 1), so sigma's standard error is sigma / (2 sqrt n).
    assert abs(fitted.sigma - 0.7) < 4 * 0.7 / (2 * math.sqrt(20_000))
    assert law.fit(x) == fitted
    assert QuarterCircle.fit([3e200, 4e200]).sigma == pytest.approx(math.sqrt(12.5) * 1e200)
    assert QuarterCircle.fit([[1, 1], [1, 1]]) == QuarterCircle(1)


def test_it_is_the_law_of_a_random_markov_matrix():
    T, sigma = 500, 1.0
    A = random_markov(T, entries="gamma", sigma=sigma, rng=4)
    law = QuarterCircle(sigma)
    s = math.sqrt(T) * singular_values(A)[1:]
    # Singular values repel: distances and linear statistics fluctuate by O(1/T), not 1/sqrt(T).
    distance = np.abs(law.cdf(np.sort(s)) - (np.arange(T - 1) + 0.5) / (T - 1)).max()
    assert distance < 10 / T
    assert law.fit(s).sigma == pytest.approx(sigma, abs=5 / T)
    moduli = math.sqrt(T) * np.abs(eigenvalues(A)[1:])
    t = np.array([0.1, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(np.quantile(moduli, t), law.radius_ppf(t), atol=15 / T)


def test_radius_is_that_of_the_uniform_disc():
    np.testing.assert_allclose(QuarterCircle(2).radius_ppf([0, 0.25, 1]), [0, 1, 2])


@pytest.mark.parametrize(
    ("sigma", "error", "message"),
    [
        (0, ValueError, "sigma .*got 0; pass std/mean"),
        (-2.0, ValueError, "sigma .*got -2; pass std/mean"),
        (math.nan, ValueError, "sigma .*got nan; remove"),
        (math.inf, ValueError, "sigma .*got inf; pass std/mean"),
        ("1", TypeError, "sigma .*'1'.*pass real numbers"),
        (None, TypeError, "sigma .*None.*pass real numbers"),
        (1 + 0j, TypeError, r"sigma .*\(1\+0j\).*pass real numbers"),
        (np.ones(2), TypeError, r"sigma .*array\(\[1\., 1\.\]\); pass a single"),
        (Tensor(), TypeError, r"sigma .*torch tensor; pass sigma\.numpy\(\)"),
    ],
)
def test_wrong_sigma(sigma, error, message):
    with pytest.raises(error, match=message):
        QuarterCircle(sigma)


@pytest.mark.parametrize(
    ("method", "name"),
    [("pdf", "x"), ("cdf", "x"), ("ppf", "q"), ("radius_ppf", "t"), ("fit", "values")],
)
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (math.nan, ValueError, "NaN, got nan; remove"),
        ([0.5, math.nan], ValueError, r"NaN, got \[0\.5, nan\]; remove"),
        ("a", TypeError, "'a'.*pass real numbers"),
        ([1j], TypeError, r"\[1j\].*pass real numbers"),
        ([None], TypeError, r"\[None\].*pass real numbers"),
        ([True], TypeError, r"\[True\].*pass real numbers"),
        ([[1], [1, 2]], ValueError, "unequal length"),
        (Tensor(), TypeError, r"torch tensor; pass \w+\.numpy\(\)"),
    ],
)
def test_wrong_values(method, name, value, error, message):
    with pytest.raises(error, match=f"^{name} .*{message}"):
        getattr(QuarterCircle(1.0), method)(value)


@pytest.mark.parametrize(("method", "name"), [("ppf", "q"), ("radius_ppf", "t")])
@pytest.mark.parametrize("value", [-0.1, 1.5, math.inf])
def test_probabilities_outside_0_1(method, name, value):
    with pytest.raises(ValueError, match=f"^{name} .*got {value}; pass probabilities"):
        getattr(QuarterCircle(1.0), method)([0.5, value])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r"values .*got \[\]; pass"),
        ([0, 0], r"values .*got \[0, 0\]; pass"),
        ([-1], "got -1; pass"),
    ],
)
def test_nothing_to_fit(values, message):
    with pytest.raises(ValueError, match=message):
        QuarterCircle.fit(values)


@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (3, ValueError, "k must be even, got 3.*pass 2 or 4"),
        (-2, ValueError, "k .*got -2; pass 0 or more"),
        (2.0, TypeError, r"k .*got 2\.0 .*pass an int"),
    ],
)
def test_wrong_moment(k, error, message):
    with pytest.raises(error, match=message):
        QuarterCircle(1.0).moment(k)


@pytest.mark.parametrize("size", [-1, (2, -1)])
def test_wrong_sample_size(size):
    with pytest.raises(ValueError, match=r"size .*got -1"):
        QuarterCircle(1.0).rvs(size)
    with pytest.raises(ValueError, match=r"size .*80 GB.*got shape \(1000.*; ask for fewer"):
        QuarterCircle(1.0).rvs(10**400)
    with pytest.raises(TypeError, match=r"rng .*True"):
        QuarterCircle(1.0).rvs(2, rng=True)
