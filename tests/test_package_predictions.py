"""The theory as functions: values, agreement with sampled matrices, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapcourse import predictions as p
from gapcourse import spectra
from gapcourse.ensembles import isometric_input, random_markov
from gapcourse.laws import AttentionBulk, FussCatalan

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
    (p.width_collapse, {"T": 10, "d": 12, "layer": 2, "sigma": 1.0}),
    (p.attention_width_collapse, {"T": 10, "d": 12, "head_dim": 4, "logit_std": 0.5}),
    (p.mean_removed_stable_rank, {"layer": 2, "gamma": 0.5}),
    (p.attention_mean_removed_stable_rank, {"gamma": 0.5, "ratio": 2.0, "logit_std": 0.5}),
    (p.token_spread, {"gamma": 0.5, "ratio": 2.0, "logit_std": 0.5}),
    (p.second_layer_logit_variance, {"gamma": 0.5, "logit_std": 0.5}),
    (p.second_layer_outlier, {"gamma": 0.5, "logit_std": 0.5}),
    (p.second_layer_edge, {"gamma": 0.5, "ratio": 2.0, "logit_std": 0.5}),
    (p.gaussian_token_edge, {"gamma": 2.0, "ratio": 2.0, "logit_std": 0.5}),
    (p.energy_step, {"energy": 0.5, "spread": 4.0, "gamma": 0.5, "logit_std": 0.5}),
    (p.product_norm, {"T": 10, "depth": 2, "sigma": 1.0}),
    (p.gradient_norm, {"T": 10, "d": 12, "depth": 2, "sigma": 1.0}),
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
        (lambda: p.width_collapse(1, 9, 1, 1), "T .*at least 2, got 1; pass whole .*2 or more"),
        (
            lambda: p.width_collapse([4, 9], [[8]], 1, 1),
            "T must be at most d, got T=9, d=8: .*take",
        ),
        (lambda: p.width_collapse(9, 9, 0, 1), "layer .*at least 1 .*got 0; pass whole"),
        (lambda: p.width_collapse(9, 9, 1.5, 1), r"layer .*whole .*got 1\.5; pass whole"),
        (lambda: p.width_collapse(9, 9, 1, 3), r"sigma must be below sqrt\(T\), .*= 1: .*pass"),
        (
            lambda: p.width_collapse(2, 2, 10**6, 1.4),
            r"layer must leave .*1\.8e308.*pass a smaller",
        ),
        (lambda: p.attention_width_collapse(9, 8, 4, 1), "T must be at most d, got T=9, d=8: "),
        (lambda: p.attention_width_collapse(9, 9, 0, 1), "head_dim .*at least 1, got 0; pass"),
        (lambda: p.attention_width_collapse(9, 9, 4, 13.1), r"logit_std .*at most 13, got 13\.1"),
        (
            lambda: p.mean_removed_stable_rank(1, 1.01),
            r"gamma .*at most 1, got 1\.01; pass tokens/",
        ),
        (lambda: p.mean_removed_stable_rank(1, 0), "gamma .*at least 1e-06 .*got 0; pass tokens/"),
        (lambda: p.mean_removed_stable_rank(0, 1), "layer .*at least 1 .*got 0; pass whole"),
        (lambda: p.attention_mean_removed_stable_rank(1, 0, 1), "ratio .*got 0; pass tokens/head"),
        (lambda: p.attention_mean_removed_stable_rank(1, 1, 27), "logit_std .*at most 26, got 27"),
        (lambda: p.token_spread(1.5, 1, 1), r"gamma .*at most 1, got 1\.5; pass"),
        (lambda: p.second_layer_logit_variance(0, 1), "gamma .*got 0; pass"),
        (lambda: p.second_layer_outlier(1, 13.1), r"logit_std .*at most 13, got 13\.1; pass"),
        (
            lambda: p.second_layer_outlier([1, 0.01], 1),
            "variance of at most 700, got 17182.*; pass",
        ),
        (
            lambda: p.second_layer_edge(0.01, 1, 1),
            "logit_std must .* at most 700, got 29524.*; pass",
        ),
        (lambda: p.second_layer_edge(1, 1e7, 0.5), r"ratio .*at most 1000000, got 10000000; pass"),
        (lambda: p.gaussian_token_edge(-0.1, 1, 1), r"gamma .*at least 0 .*got -0\.1; pass"),
        (lambda: p.gaussian_token_edge(1, 1, 0), "logit_std .*above 0 .*got 0; pass"),
        (lambda: p.energy_step(0, 1, 1, 1), "energy .*above 0, got 0; pass the mean squared"),
        (lambda: p.energy_step(1, 0.99, 1, 1), r"spread .*at least 1, got 0\.99; pass"),
        (lambda: p.energy_step(30, 1, 1, 1), "logit_std must .* at most 700, got 900; pass"),
        (lambda: p.energy_step(1e200, 1, 1, 1), "logit_std must .* at most 700, got inf; pass"),
        (lambda: p.energy_step(26, 1e308, 1e-6, 1), r"spread must leave .*1\.8e308"),
        (lambda: p.product_norm(0, 1, 1), "T .*at least 1, got 0; pass"),
        (lambda: p.product_norm(9, 0, 1), "depth .*at least 1 .*got 0; pass whole .*counts from 1"),
        (lambda: p.product_norm(9, 3, 1e200, leading=True, mean_removed=True), "sigma must leave"),
        (lambda: p.gradient_norm(9, 8, 1, 1), "T must be at most d, got T=9, d=8: .*take fewer"),
        (lambda: p.gradient_norm(9, 9, 2.5, 1), r"depth .*whole .*got 2\.5; pass"),
        (
            lambda: p.gradient_norm(100, 100, 500, 1),
            r"depth must leave .*1\.8e308.*; pass a smaller",
        ),
    ],
)
def test_outside_the_domain(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ------------------------------------------------------------------ layers


@pytest.mark.parametrize("value", [1, 0, "yes", None, [True]])
def test_flags_are_true_or_false(value):
    for call in (
        lambda: p.width_collapse(9, 9, 1, 1.0, leading=value),
        lambda: p.product_norm(9, 1, 1.0, leading=value),
        lambda: p.gradient_norm(9, 9, 1, 1.0, leading=value),
        lambda: p.gradient_norm(9, 9, 1, 1.0, value),
        lambda: p.second_layer_logit_variance(1.0, 0.5, value),
    ):
        with pytest.raises(TypeError, match=r"(leading|mean_removed) must be True or False, got"):
            call()


@pytest.mark.filterwarnings("error")
def test_the_borders_of_the_domains_belong_to_them():
    assert p.width_collapse(2, 2, 1, 1.41) > 0
    assert p.width_collapse(100, 100, 10**6, 1.0) == 0  # below the smallest float64
    assert 0 < p.mean_removed_stable_rank(10**6, 1) < p.mean_removed_stable_rank(10**6, 1e-6)
    for gamma, ratio, s in ((1, 1e6, 26), (1e-6, 1e-6, 1e-200), (1, 1e-6, 26), (1e-6, 1e6, 1e-9)):
        assert 0 < p.attention_mean_removed_stable_rank(gamma, ratio, s) < 1
        assert p.token_spread(gamma, ratio, s) >= 2
        assert np.isfinite(p.gaussian_token_edge(1e6 * gamma, ratio, s))
    assert p.gaussian_token_edge(0, 1e-6, 1e-200) == pytest.approx(2e-200, rel=1e-2)
    assert np.isfinite(p.second_layer_edge([1, 1, 1e-6], [1e-6, 1e6, 1], [1.6, 1e-9, 1e-3])).all()
    assert np.isfinite(p.second_layer_logit_variance(1e-6, 13))
    root = 26.457513  # of 700
    assert p.energy_step(root, 1, 1, 1) == pytest.approx(root * math.expm1(root**2), rel=1e-11)
    assert p.product_norm(1, 5, 2.0) == 1  # one token attends to itself
    assert p.product_norm(1, 5, 2.0, mean_removed=True) == 0
    assert p.product_norm(5, 3, 1e200, True) == pytest.approx(math.sqrt(5 * 0.8**3), rel=1e-12)
    assert p.product_norm(5, 3, 1e-200, True) == 0


def moments(T, d, layers, sigma):
    """Return sr - 1 from the recursion for r = E|M|_F^4 and q = E|M|_4^4, step by step."""
    r, q = float(T) ** 2, float(T)
    for size in (d, T) * layers:
        r, q = size**2 * r + 2 * size * q, size * (size + 1) * q + size * r
    return sigma ** (4 * layers) / float(T) ** (4 * layers) * q / float(d) ** (2 * layers)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
@pytest.mark.parametrize(("T", "d"), [(20, 20), (20, 50), (200, 200), (10**5, 10**5)])
def test_width_collapse_solves_its_recursion(T, d, sigma):
    expected = [moments(T, d, layer, sigma) for layer in (1, 2, 3, 6)]
    np.testing.assert_allclose(p.width_collapse(T, d, [1, 2, 3, 6], sigma), expected, rtol=1e-11)


def test_width_collapse_at_large_T():
    """The relative correction to the leading order is O(1/T), 2 to 12 over T at these layers."""
    layers = np.array([1, 2, 3])
    for gamma in (1.0, 0.25):
        T = 10**6
        exact = p.width_collapse(T, T / gamma, layers, 0.7)
        leading = p.width_collapse(T, T / gamma, layers, 0.7, leading=True)
        np.testing.assert_allclose(exact, leading, rtol=12 / T)
        formula = (1 + layers * (1 + gamma)) * 0.7 ** (4 * layers) * float(T) ** (1 - 2 * layers)
        np.testing.assert_allclose(leading, formula, rtol=1e-12)
    np.testing.assert_allclose(
        p.width_collapse(200, 200, layers, 1.0), [0.0151, 6.3e-7, 2.2e-11], rtol=0.01
    )


def test_attention_width_collapse_at_its_limits():
    assert 400 * p.attention_width_collapse(400, 400, 400, 1.0) == pytest.approx(9.86, abs=0.005)
    assert 400 * p.attention_width_collapse(400, 400, 25, 1.0) == pytest.approx(24.86, abs=0.005)
    for gamma, s in ((1.0, 1.0), (0.5, 0.3)):
        T, sigma = 1000, p.softmax_sigma(s)
        large_head = p.attention_width_collapse(T, T / gamma, 10**15, s)
        iid = p.width_collapse(T, T / gamma, 1, sigma, leading=True)
        assert large_head == pytest.approx(iid, rel=1e-10)
        here = T * p.attention_width_collapse(T, T / gamma, 50, s)
        assert here == pytest.approx(p.token_spread(gamma, T / 50, s) * sigma**4, rel=1e-12)


def test_mean_removed_stable_rank_of_the_fuss_catalan_law():
    for layer, expected in ((1, 0.0658), (2, 0.0336), (3, 0.0225)):
        law = FussCatalan(2 * layer)
        value = p.mean_removed_stable_rank(layer, 1.0)
        assert value == pytest.approx(law.moment(4) / law.edge**4, rel=1e-11)
        assert value == pytest.approx(expected, abs=5e-5)
    assert p.mean_removed_stable_rank(1, 0.5) == pytest.approx(0.0813, abs=5e-5)
    deep = 10**5
    assert 2 * math.e**2 * deep * p.mean_removed_stable_rank(deep, 1.0) == pytest.approx(
        1, rel=2 / deep
    )


@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.05])
@pytest.mark.parametrize("layer", [1, 2, 5])
def test_mean_removed_stable_rank_is_at_the_minimum(layer, gamma):
    z = np.geomspace(1e-3, 10, 200_001)  # steps of 5e-5, whose square is the relative error
    edge = ((1 + z) ** (layer + 1) * (1 + gamma * z) ** layer / z).min()
    expected = (1 + layer * (1 + gamma)) / edge**2
    assert p.mean_removed_stable_rank(layer, gamma) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("s", [0.25, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("ratio", [1e-6, 0.25, 1.0, 4.0, 16.0])
def test_attention_at_its_limits(ratio, s):
    law, narrow = AttentionBulk.softmax(s, ratio), 1e-6
    # Few tokens in many dimensions: the values W act as an isometry, and the law is A's own.
    assert p.token_spread(narrow, ratio, s) == pytest.approx(
        law.moment(4) / law.moment(2) ** 2, rel=2 * narrow
    )
    assert p.attention_mean_removed_stable_rank(narrow, ratio, s) == pytest.approx(
        law.moment(4) / law.edge**4, rel=4 * narrow
    )
    assert p.gaussian_token_edge(0.0, ratio, s) == pytest.approx(law.edge, rel=1e-11)
    for gamma in (0.5, 1.0):  # large heads: the i.i.d. model
        iid = p.mean_removed_stable_rank(1, gamma)
        value = p.attention_mean_removed_stable_rank(gamma, ratio, s)
        if ratio == 1e-6:
            assert value == pytest.approx(iid, rel=1e-5)
        else:
            assert value < iid


def brute_edge(tokens, ratio, v):
    """Return the minimum over w of (1 + C(w))/w from w = 0 on, on a grid."""
    z = np.geomspace(1e-9, 1e3, 400_001)
    w_2 = z * tokens(z) ** 2 / ((1 + ratio * z) * v)
    rising = np.cumprod(np.diff(w_2, prepend=0) > 0).astype(bool)
    x = (1 + z + (math.expm1(v) - v) * w_2) / np.sqrt(w_2)
    return x[rising].min()


def s_transform(z, ratio, s):
    """Return that of softmax attention's squared singular values at mean 1, by interpolation."""
    c_1 = s**2 / math.expm1(s**2)
    y = np.concatenate(
        [
            np.geomspace(1e-11, 0.5 / (ratio * c_1), 200_000),
            (1 - np.geomspace(0.5, 1e-9, 200_000)) / (ratio * c_1),
        ]
    )
    C = (1 - c_1) * y + c_1 * y / (1 - ratio * c_1 * y)
    return np.exp(np.interp(np.log(z), np.log(C), np.log(y))) / (z * (1 + z))


@pytest.mark.parametrize("s", [0.3, 0.5, 0.8, 1.2, 2.0])
@pytest.mark.parametrize("ratio", [0.25, 1.0, 16.0])
@pytest.mark.parametrize("gamma", [1.0, 0.4])
def test_edges_are_at_the_minimum(gamma, ratio, s):
    gaussian = brute_edge(lambda z: 1 / (1 + gamma * z), ratio, s**2)
    assert p.gaussian_token_edge(gamma, ratio, s) == pytest.approx(gaussian, rel=1e-7)
    v = p.second_layer_logit_variance(gamma, s, mean_removed=True)
    if v > 20:  # the minimum is at a z below the grid
        return
    second = brute_edge(lambda z: s_transform(z, ratio, s) / (1 + gamma * z), ratio, v)
    assert p.second_layer_edge(gamma, ratio, s) == pytest.approx(second, rel=1e-5)


def test_edges_of_the_sheet():
    edges = p.gaussian_token_edge(0.0, [1 / 16, 1, 4, 16, 50], 0.6)
    np.testing.assert_allclose(edges, [1.344, 1.629, 2.157, 3.309, 5.127], atol=6e-4)
    assert p.second_layer_edge(1.0, 1.0, 0.5) == pytest.approx(0.666, abs=5e-4)
    for gamma in (0.3, 1.0, 3.0):  # linear attention of vanishing logits: c and gamma alone count
        small = p.gaussian_token_edge(gamma, 1.0, [1e-6, 1e-4])
        assert small[1] == pytest.approx(100 * small[0], rel=1e-7)


def test_the_second_layer_is_consistent():
    gamma, s = np.array([[1.0], [0.5]]), np.array([0.3, 0.5, 0.7])
    removed = p.second_layer_logit_variance(gamma, s, mean_removed=True)
    plain = p.second_layer_logit_variance(gamma, s)
    energy = p.energy_step(1.0, 1.0, gamma, s)
    np.testing.assert_allclose(energy, p.softmax_sigma(s) ** 2 / gamma, rtol=1e-13)
    np.testing.assert_allclose(removed, s**2 * energy**2, rtol=1e-13)
    outlier = p.second_layer_outlier(gamma, s)
    np.testing.assert_allclose(np.log1p(outlier**2), plain - removed, rtol=1e-12)
    seen = p.second_layer_logit_variance([1, 1, 0.5], [0.5, 0.8, 0.4], mean_removed=True)
    np.testing.assert_allclose(seen, [0.0202, 0.514, 0.0193], rtol=0.005)
    np.testing.assert_allclose(
        p.second_layer_outlier([1, 0.5], [0.5, 0.4]), [0.271, 0.343], atol=5e-4
    )


def test_energy_of_the_third_layer():
    for s, expected in ((0.5, 1.2e-4), (0.6, 4.3e-3), (0.7, 0.103), (0.8, 2.0)):
        energy = p.energy_step(p.energy_step(1, 1, 1, s), p.token_spread(1, 1, s), 1, s)
        assert s**2 * energy**2 == pytest.approx(expected, rel=0.03)
    tiny = p.energy_step(1e-3, 4.0, 1.0, 0.5)  # small logits: the linear part
    assert tiny == pytest.approx(4.0 * 0.25 * 1e-9, rel=1e-6)


def power_steps(T, depth, sigma, removed):
    """Return E||A_L ... A_1||_F² from the recursion, step by step."""
    energy, first, v = float(T), 1.0, sigma**2 / (T + sigma**2)
    for _ in range(depth):
        noise = v * (energy - first)
        kept = 0.0 if removed else first
        energy, first = kept + noise, kept + noise / T
    return energy


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("T", [2, 12, 60, 1000])
def test_products_solve_their_recursion(T, sigma, removed):
    depths = np.array([1, 2, 3, 10])
    expected = np.array([power_steps(T, depth, sigma, removed) for depth in depths])
    product = p.product_norm(T, depths, sigma, removed)
    np.testing.assert_allclose(product**2, expected, rtol=1e-12)
    d = T + 3
    gradient = p.gradient_norm(T, d, depths, sigma, removed)
    np.testing.assert_allclose(gradient**2, float(d) ** depths * expected, rtol=1e-12)


def test_products_at_large_T():
    T, sigma = 10**7, 0.8
    depths = np.array([1, 2, 3])
    for removed in (False, True):
        exact = p.product_norm(T, depths, sigma, removed)
        leading = p.product_norm(T, depths, sigma, removed, leading=True)
        np.testing.assert_allclose(exact, leading, rtol=6 / T)
        d = 2 * T
        exact = p.gradient_norm(T, d, depths, sigma, removed)
        leading = p.gradient_norm(T, d, depths, sigma, removed, leading=True)
        np.testing.assert_allclose(exact, leading, rtol=6 / T)
    one = p.product_norm(T, 1, sigma)
    assert one == pytest.approx(p.frobenius_norm(T, sigma), rel=1e-6)
    assert p.gradient_norm(50, 80, 1, 1.0, leading=True) == pytest.approx(math.sqrt(160), rel=1e-12)
    plain, removed = (p.gradient_norm(50, 80, 3, 0.8, flag, leading=True) for flag in (False, True))
    assert (plain / removed) ** 2 == pytest.approx(50**2 / 0.8**6, rel=1e-12)  # T^(L-1)/sigma^2L


def test_products_of_the_sheet():
    squares = p.product_norm(60, [1, 2, 3], 1.0) ** 2
    np.testing.assert_allclose(squares, [1.9672, 1.0317, 1.0166], atol=5e-5)
    exact = p.gradient_norm(12, 30, 3, 1.0, mean_removed=True) ** 2
    leading = p.gradient_norm(12, 30, 3, 1.0, mean_removed=True, leading=True) ** 2
    assert (exact, leading) == pytest.approx((113.6, 187.5), abs=0.05)
    # Exactly, at any T: |A|² = 1 + |A_perp|².
    one, removed = (p.product_norm([5, 60], 1, 1.3, flag) ** 2 for flag in (False, True))
    np.testing.assert_allclose(one, 1 + removed, rtol=1e-13)
    assert 0 < p.gradient_norm(1000, 1000, 1000, 1.0, mean_removed=True) < 1e3  # no underflow
