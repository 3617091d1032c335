"""The theory as functions: values, agreement with sampled matrices, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapcourse import predictions as p
from gapcourse import spectra
from gapcourse.ensembles import isometric_input, random_markov

OF_T_AND_SIGMA = [
    p.first_singular_value,
    p.second_singular_value,
    p.second_eigenvalue,
    p.spectral_gap,
    p.frobenius_norm,
    p.stable_rank,
    p.stationary_distance,
]
OF_SEVERAL = [  # with arguments that fit
    (p.spike_singular_value, {"theta": 1.0, "sigma": 1.0}),
    (p.attention_first_singular_value, {"T": 10, "head_dim": 4, "logit_std": 0.5}),
    (p.stray_size, {"second": 0.1, "ratio": 4.0}),
    (p.walk_distance, {"T": 10, "sigma": 1.0, "steps": 2}),
    (p.softmax_sigma, {"logit_std": 0.5}),
]
sigmas = st.floats(1e-3, 1e3)


class Tensor:
    """What a torch tensor looks like from outside, without torch."""

    __module__ = "torch"


def test_values():
    T, sigma = 400, 2.0
    assert p.first_singular_value(T, sigma) == pytest.approx(math.sqrt(1.01), rel=1e-14)
    assert p.second_singular_value(T, sigma) == pytest.approx(0.2, rel=1e-14)
    assert p.second_eigenvalue(T, sigma) == pytest.approx(0.1, rel=1e-14)
    assert p.spectral_gap(T, sigma) == pytest.approx(math.sqrt(1.01) - 0.2, rel=1e-14)
    assert p.frobenius_norm(T, sigma) == pytest.approx(math.sqrt(5), rel=1e-14)
    assert p.stable_rank(T, sigma) == pytest.approx(5 / 1.01, rel=1e-14)
    distance = 2 / math.sqrt(800 * math.pi)
    assert p.stationary_distance(T, sigma) == pytest.approx(distance, rel=1e-14)
    for steps, power in ((2, 0.2), (3, 0.02), (5, 2e-4)):  # sigma^k T^((1-k)/2)
        expected = power / math.sqrt(2 * math.pi)
        assert p.walk_distance(T, sigma, steps) == pytest.approx(expected, rel=1e-13)


def test_values_for_attention():
    assert p.softmax_sigma(1.0) == pytest.approx(math.sqrt(math.e - 1), rel=1e-14)
    assert p.softmax_sigma(1e-9) == pytest.approx(1e-9, rel=1e-14)
    assert p.softmax_sigma(26) == pytest.approx(math.exp(338), rel=1e-12)
    s_1 = p.attention_first_singular_value(800, 50, 0.7)
    assert 800 * (s_1**2 - 1) == pytest.approx(math.expm1(0.49) + 8 * 0.49**2, rel=1e-10)
    sigma = p.softmax_sigma(0.7)
    far = p.attention_first_singular_value(800, 10**15, 0.7)
    assert far == pytest.approx(p.first_singular_value(800, sigma), rel=1e-14)
    assert p.stray_size(-0.125, 16) == pytest.approx(math.sqrt(0.5), rel=1e-14)
    assert p.stray_size(0, 16) == 0
    for s, c in ((0.3, 2), (1.0, 16)):  # of softmax
        assert p.stray_size(s**2 / 2, c) == pytest.approx(s**2 * math.sqrt(c / 2), rel=1e-14)


@pytest.mark.parametrize(("function", "fitting"), OF_SEVERAL)
def test_several_arguments_broadcast(function, fitting):
    assert type(function(**fitting)) is float
    names = list(fitting)
    column = function(
        **{name: np.array([[fitting[name]]] * 2) for name in names[:1]},
        **{name: [fitting[name]] * 3 for name in names[1:]},
    )
    np.testing.assert_array_equal(column, np.full(column.shape, function(**fitting)))
    assert column.shape == ((2, 3) if len(names) > 1 else (2, 1))
    for name in names[1:]:
        wrong = fitting | {names[0]: [fitting[names[0]]] * 3, name: [fitting[name]] * 2}
        with pytest.raises(ValueError, match=rf"{names[0]}.* and .*{name}.* must broadcast.*give"):
            function(**wrong)


@pytest.mark.parametrize(("function", "fitting"), OF_SEVERAL)
def test_several_arguments_refused(function, fitting):
    for name in fitting:
        for value, error in (
            (math.nan, ValueError),
            (-math.inf, ValueError),
            ("a", TypeError),
            (Tensor(), TypeError),
        ):
            with pytest.raises(error, match=rf"^{name} must .*; (pass|remove)"):
                function(**fitting | {name: value})


@pytest.mark.parametrize("entries", ["exponential", "uniform"])
def test_a_random_walk_forgets_its_start(entries):
    """Measured over predicted, 8 seeds: the first 0.97 to 1.10, after k steps 0.956 to 1.011."""
    T = 400
    sigma = 1.0 if entries == "exponential" else 3**-0.5
    A = random_markov(T, entries=entries, rng=12)
    law = np.linalg.matrix_power(A, 30)[0]
    off = np.abs(law - 1 / T).sum() / 2
    # (1/2) the sum of T moduli of Gaussians: relative standard deviation 0.76/sqrt(T) = 0.04.
    assert off == pytest.approx(p.stationary_distance(T, sigma), rel=0.17)
    power = A
    for steps in (2, 3, 4):
        power = power @ A
        seen = np.abs(power - law).sum(axis=1).mean() / 2
        assert seen == pytest.approx(p.walk_distance(T, sigma, steps), rel=0.06)


@pytest.mark.parametrize("function", OF_T_AND_SIGMA)
def test_numbers_give_floats_and_arrays_broadcast(function):
    assert type(function(100, 1)) is float
    T, sigma = np.array([[50], [60]]), np.array([0.5, 1.0, 2.0])
    grid = function(T, sigma)
    assert grid.shape == (2, 3)
    assert grid[1, 2] == function(60, 2.0)
    assert function([10, 20.0], 1).shape == (2,)


@pytest.mark.parametrize("entries", ["gamma", "uniform"])
def test_they_describe_a_sampled_matrix(entries):
    # T (s_1^2 - 1) is close to sigma^2 chi^2_T / T, of relative standard deviation sqrt(2/T); the
    # energy off the mean fluctuates by O(1/T); the edge and the radius carry the slower T^(-2/3)
    # and T^(-1/2) of their limits.
    T, sigma = 700, 0.5
    A = random_markov(T, entries=entries, sigma=sigma, rng=11)
    s, moduli = spectra.singular_values(A), np.abs(spectra.eigenvalues(A))
    excess = p.first_singular_value(T, sigma) - 1
    assert s[0] - 1 == pytest.approx(excess, rel=4 * math.sqrt(2 / T))
    assert s[1] == pytest.approx(p.second_singular_value(T, sigma), rel=4 * T ** (-2 / 3))
    assert moduli[1] == pytest.approx(p.second_eigenvalue(T, sigma), rel=3 * T**-0.5)
    assert s[0] - s[1] == pytest.approx(p.spectral_gap(T, sigma), abs=0.002)
    assert np.linalg.norm(A) == pytest.approx(p.frobenius_norm(T, sigma), rel=2 / T)
    assert spectra.stable_rank(A) == pytest.approx(p.stable_rank(T, sigma), rel=4 / T)


@given(sigmas)
def test_pareto_tail_index_inverts_the_coefficient_of_variation(sigma):
    alpha = p.pareto_tail_index(sigma)
    assert alpha > 2
    assert alpha * (alpha - 2) * sigma**2 == pytest.approx(1, rel=1e-6)


def test_pareto_tail_index_is_4_where_the_fourth_moment_appears():
    assert p.pareto_tail_index(1 / math.sqrt(8)) == pytest.approx(4, rel=1e-14)


@given(st.floats(0, 1e3), sigmas)
def test_a_spike_never_falls_below_the_edge(theta, sigma):
    value = p.spike_singular_value(theta, sigma)
    assert value >= 2 * sigma * (1 - 1e-12)
    if theta <= sigma:
        assert value == pytest.approx(2 * sigma)


def test_the_spike_formula_on_gaussian_noise():
    T, sigma = 400, 1.0
    noise = sigma * np.random.default_rng(3).standard_normal((T, T)) / math.sqrt(T)
    u, v = isometric_input(1, T, rng=1), isometric_input(1, T, rng=2)
    for theta in (0.5, 1.5, 3.0):
        s = spectra.top_singular_values(noise + theta * u.T @ v, 1)[0]
        # Fluctuations of an outlier are of order sigma/sqrt(T) = 0.05, those of the edge smaller.
        assert s == pytest.approx(
            p.spike_singular_value(theta, sigma), abs=3 * sigma / math.sqrt(T)
        )


def test_heavy_tail_exponent():
    assert p.heavy_tail_exponent(2.5) == pytest.approx(-0.2)
    assert p.heavy_tail_exponent(4) == -0.5
    assert p.heavy_tail_exponent(100) == -0.5
    assert p.heavy_tail_exponent(2.0001) == pytest.approx(0, abs=1e-4)


REFUSED = [
    ("a", TypeError, "'a'.*pass real numbers"),
    (1j, TypeError, "1j.*pass real numbers"),
    (None, TypeError, "None.*pass real numbers"),
    ([object()], TypeError, "object.*pass real numbers"),
    (math.nan, ValueError, "got nan; remove"),
    (math.inf, ValueError, "got inf; pass"),
    (0, ValueError, "got 0; pass"),
    ([10, -1], ValueError, "got -1; pass"),
    (Tensor(), TypeError, r"torch tensor; pass \w+\.numpy\(\)"),
]


@pytest.mark.parametrize("function", OF_T_AND_SIGMA)
@pytest.mark.parametrize(("value", "error", "message"), REFUSED)
def test_wrong_T_and_sigma(function, value, error, message):
    with pytest.raises(error, match=f"^T .*{message}"):
        function(value, 1.0)
    with pytest.raises(error, match=f"^sigma .*{message}"):
        function(10, value)


@pytest.mark.parametrize("function", OF_T_AND_SIGMA)
def test_T_is_whole(function):
    with pytest.raises(ValueError, match=r"T must be whole and at least \d, got 10\.5; pass whole"):
        function([10, 10.5], 1.0)


@pytest.mark.parametrize("function", OF_T_AND_SIGMA)
def test_one_token_has_no_second_value(function):
    if function in (p.second_singular_value, p.second_eigenvalue, p.spectral_gap):
        with pytest.raises(ValueError, match=r"T .*at least 2, got 1; pass .*tokens, 2 or more"):
            function([1, 2], 1.0)
        assert function(2, 0.1) > 0
    else:
        assert function(1, 0.1) > 0


@pytest.mark.parametrize("function", OF_T_AND_SIGMA)
def test_arguments_that_do_not_broadcast(function):
    message = r"^T and sigma must .*T of shape \(3,\) and sigma of shape \(2,\); give"
    with pytest.raises(ValueError, match=message):
        function([10, 20, 30], [1.0, 2.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: p.pareto_tail_index(0), "sigma .*got 0; pass"),
        (lambda: p.spike_singular_value(-1, 1), "theta .*got -1; pass"),
        (lambda: p.spike_singular_value(1, 0), "sigma .*got 0; pass"),
        (lambda: p.walk_distance(1, 1, 2), "T .*at least 2, got 1; pass"),
        (lambda: p.walk_distance(9, 1, 1), "steps .*at least 2, got 1; pass whole .*2 or more"),
        (lambda: p.walk_distance(9, 1, [2, 2.5]), r"steps .*whole .*got 2\.5; pass whole"),
        (lambda: p.softmax_sigma(0), "logit_std .*above 0 .*got 0; pass"),
        (lambda: p.softmax_sigma(26.1), r"logit_std .*at most 26, got 26\.1; pass"),
        (lambda: p.attention_first_singular_value(9, 0, 1), "head_dim .*at least 1, got 0; pass"),
        (lambda: p.attention_first_singular_value(9, 1.5, 1), r"head_dim .*whole .*got 1\.5; pass"),
        (lambda: p.attention_first_singular_value(0, 9, 1), "T .*at least 1, got 0; pass"),
        (lambda: p.attention_first_singular_value(9, 9, 27), "logit_std .*at most 26, got 27"),
        (lambda: p.stray_size(0.1, 0), "ratio .*above 0, got 0; pass"),
        (lambda: p.heavy_tail_exponent([3, 2]), "alpha .*got 2; .*take alpha > 2"),
    ],
)
def test_outside_the_domain(call, message):
    with pytest.raises(ValueError, match=message):
        call()
