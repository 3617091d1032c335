"""Random Markov matrices and isometric inputs: invariants, laws, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapcourse.attention import remove_mean
from gapcourse.ensembles import ENTRIES, isometric_input, random_markov

SMOOTH = {"lognormal": 0.5, "gamma": 0.7, "exponential": 1.0, "uniform": 0.4, "bernoulli": 0.8}
markov = st.builds(
    random_markov,
    st.integers(1, 40),
    entries=st.sampled_from(ENTRIES),
    rng=st.integers(0, 2**32),
)


class Tensor:
    """What a torch tensor looks like from outside, without torch."""

    __module__ = "torch"


# ------------------------------------------------------------------ every Markov matrix


@settings(max_examples=60, deadline=None)
@given(markov)
def test_rows_are_probability_vectors(A):
    T = len(A)
    assert A.shape == (T, T)
    assert A.dtype == np.float64
    assert (A >= 0).all()
    np.testing.assert_allclose(A.sum(axis=1), 1, rtol=0, atol=1e-13)
    assert np.linalg.norm(A, 2) >= 1 - 1e-12


@settings(max_examples=60, deadline=None)
@given(markov)
def test_identities_of_the_mean_removed_matrix(A):
    T = len(A)
    J = np.full((T, T), 1 / T)  # e e^T
    P = remove_mean(A)
    np.testing.assert_allclose(P, A @ (np.eye(T) - J), atol=1e-13)
    np.testing.assert_allclose(P, A - J, atol=1e-13)
    np.testing.assert_allclose(A @ A.T, J + P @ P.T, atol=1e-12)
    # One eigenvalue 1 becomes 0: z det(z - A) = (z - 1) det(z - P), for every z.
    for z in (2.0, -1.5, 1.5j, -0.7 + 1.4j):
        left = z * np.linalg.det(z * np.eye(T) - A)
        right = (z - 1) * np.linalg.det(z * np.eye(T) - P)
        np.testing.assert_allclose(left, right, rtol=1e-8)


@pytest.mark.parametrize("entries", ENTRIES)
def test_the_left_sided_analogues_fail(entries):
    T = 50
    A = random_markov(T, entries=entries, rng=3)
    J, P = np.full((T, T), 1 / T), remove_mean(A)
    assert np.abs(P.sum(axis=1)).max() < 1e-12  # P 1 = 0 ...
    assert np.abs(P.sum(axis=0)).max() > 1e-2  # ... but 1^T P is not
    assert np.abs(A.T @ A - (J + P.T @ P)).max() > 1e-3
    assert np.abs(P - (np.eye(T) - J) @ A).max() > 1e-3


# ------------------------------------------------------------------ each ensemble is what it says


@pytest.mark.parametrize(("entries", "sigma"), SMOOTH.items())
def test_entries_have_the_sigma_asked_for(entries, sigma):
    # T * A_ij is D_ij / mean(D) up to a row factor of 1 + O(1/sqrt(T)); E of its variance is
    # sigma^2 (1 + O(1/T)), the standard error comes from the fourth moment of the sample itself.
    T = 400
    Z = (T * random_markov(T, entries=entries, sigma=sigma, rng=7) - 1) ** 2
    standard_error = Z.std() / T
    assert abs(Z.mean() - sigma**2) < 4 * standard_error + 4 * sigma**2 / T
    assert standard_error < 0.02 * sigma**2  # tight enough to see 10 % in sigma


@pytest.mark.parametrize("entries", ["lognormal", "gamma", "exponential", "bernoulli"])
def test_the_natural_sigma_is_one(entries):
    for seed in range(3):
        left = random_markov(20, entries=entries, rng=seed)
        np.testing.assert_array_equal(left, random_markov(20, entries=entries, sigma=1, rng=seed))


def test_the_natural_uniform_starts_at_zero():
    A = random_markov(300, entries="uniform", rng=0)
    asked = random_markov(300, entries="uniform", sigma=3**-0.5, rng=0)
    np.testing.assert_allclose(A, asked, rtol=0, atol=1e-16)
    assert 0 < 300 * A.min() < 1e-3
    shifted = random_markov(300, entries="uniform", sigma=0.1, rng=0)
    assert abs(300 * shifted.min() - (1 - 0.1 * math.sqrt(3))) < 0.02


def test_gamma_rows_are_dirichlet():
    # Var(A_ij) = (T - 1) / (T^2 (T / sigma^2 + 1)), exactly.
    T, sigma, n = 5, 0.8, 1500
    draws = np.array([random_markov(T, entries="gamma", sigma=sigma, rng=i) for i in range(n)])
    variance = (T - 1) / (T**2 * (T / sigma**2 + 1))
    Z = (draws.reshape(-1) - 1 / T) ** 2
    assert abs(Z.mean() - variance) < 4 * Z.std() / math.sqrt(len(Z) / T)


@pytest.mark.parametrize(
    ("asked", "alpha"),
    [({}, 1 + math.sqrt(2)), ({"sigma": 0.25}, 1 + 17**0.5), ({"alpha": 0.9}, 0.9)],
)
def test_pareto_tail_index(asked, alpha):
    # log D is exponential of rate alpha, and a row's mean minus its minimum forgets the row's sum:
    # expectation (1 - 1/T)/alpha, standard error 1/(alpha T).
    T = 300
    logs = np.log(random_markov(T, entries="pareto", rng=5, **asked))
    spread = (logs - logs.min(axis=1, keepdims=True)).mean()
    assert abs(alpha * spread - (1 - 1 / T)) < 4 / T


def test_cauchy_quartiles():
    # Quartiles of |Cauchy| are tan(pi/8), 1, tan(3 pi/8): ratio (1 + sqrt 2)^2 in every row. The
    # standard error of a row's log-ratio is below 3/sqrt(T); 400 rows divide it by 20.
    A = random_markov(400, entries="cauchy", rng=2)
    low, high = np.quantile(A, [0.25, 0.75], axis=1)
    assert abs(np.log(high / low).mean() - 2 * math.log(1 + math.sqrt(2))) < 4 * 3 / 20 / 20


def test_bernoulli_rows_follow_the_law_of_redrawn_rows():
    T, sigma, n = 4, 3.0, 4000  # p = 0.1: two rows in three come out empty at first
    draws = np.concatenate(
        [random_markov(T, entries="bernoulli", sigma=sigma, rng=i) for i in range(n // T)]
    )
    p = 1 / (1 + sigma**2)
    for ones in (1, 2):
        exact = math.comb(T, ones) * p**ones * (1 - p) ** (T - ones) / (1 - (1 - p) ** T)
        seen = ((draws > 0).sum(axis=1) == ones).mean()
        assert abs(seen - exact) < 4 * math.sqrt(exact * (1 - exact) / n)
    columns = (draws > 0).mean(axis=0)  # no column is preferred
    mean = p / (1 - (1 - p) ** T)
    assert np.abs(columns - mean).max() < 4 * math.sqrt(mean * (1 - mean) / n)


@pytest.mark.parametrize(
    "extreme",
    [
        {"entries": "lognormal", "sigma": 1e50},
        {"entries": "lognormal", "sigma": 1e-50},
        {"entries": "gamma", "sigma": 1e50},
        {"entries": "gamma", "sigma": 1e-50},
        {"entries": "bernoulli", "sigma": 1e50},
        {"entries": "bernoulli", "sigma": 1e-50},
        {"entries": "uniform", "sigma": 1e-50},
        {"entries": "pareto", "sigma": 1e-50},
        {"entries": "pareto", "alpha": 1e-3},
    ],
)
def test_extreme_parameters_stay_markov(extreme):
    A = random_markov(30, rng=1, **extreme)
    assert (A >= 0).all()
    np.testing.assert_allclose(A.sum(axis=1), 1, atol=1e-13)


# ------------------------------------------------------------------ isometric inputs


@pytest.mark.parametrize(("T", "d"), [(1, 1), (1, 7), (5, 5), (40, 90)])
def test_isometric_rows(T, d):
    X = isometric_input(T, d, rng=0)
    assert X.shape == (T, d)
    np.testing.assert_allclose(X @ X.T, np.eye(T), atol=1e-13)


def test_isometric_input_is_haar():
    # An entry of a Haar row in dimension d: mean 0, E x^2 = 1/d, E x^4 = 3/(d (d + 2)).
    T, d, n = 3, 4, 3000
    draws = np.array([isometric_input(T, d, rng=i) for i in range(n)])
    for power, expected in ((1, 0), (2, 1 / d), (4, 3 / (d * (d + 2)))):
        Z = draws**power
        assert (np.abs(Z.mean(axis=0) - expected) < 4.5 * Z.std(axis=0) / math.sqrt(n)).all()


# ------------------------------------------------------------------ randomness


@pytest.mark.parametrize(
    "draw", [lambda rng: random_markov(6, rng=rng), lambda rng: isometric_input(3, 6, rng=rng)]
)
def test_seeds(draw):
    np.testing.assert_array_equal(draw(3), draw(np.int64(3)))
    np.testing.assert_array_equal(draw(3), draw(np.random.default_rng(3)))
    assert not np.array_equal(draw(3), draw(4))
    assert not np.array_equal(draw(None), draw(None))
    generator = np.random.default_rng(3)
    assert not np.array_equal(draw(generator), draw(generator))  # one stream, two draws


def test_the_global_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    random_markov(5)
    isometric_input(2, 3)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


BAD_RNG = [
    (True, TypeError, "rng .*True.*default_rng"),
    (1.0, TypeError, r"rng .*1\.0.*default_rng"),
    ("1", TypeError, "rng .*'1'.*default_rng"),
    (np.random.RandomState(0), TypeError, "rng .*RandomState.*default_rng"),
    (-1, ValueError, "rng .*-1; pass"),
]


@pytest.mark.parametrize(("rng", "error", "message"), BAD_RNG)
def test_wrong_rng(rng, error, message):
    with pytest.raises(error, match=message):
        random_markov(3, rng=rng)
    with pytest.raises(error, match=message):
        isometric_input(3, 4, rng=rng)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (0, ValueError, "size .*got 0; pass 1 or more"),
        (-3, ValueError, "size .*got -3; pass 1 or more"),
        (2.5, TypeError, r"size .*got 2\.5 .*pass an int"),
        (4.0, TypeError, r"size .*got 4\.0 .*pass an int"),
        (math.nan, TypeError, "size .*got nan .*pass an int"),
        (True, TypeError, "size .*got True .*pass an int"),
        ("5", TypeError, "size .*got '5' .*pass an int"),
        (None, TypeError, "size .*got None .*pass an int"),
        ([3], TypeError, r"size .*got \[3\] .*pass an int"),
        (Tensor(), TypeError, r"size .*torch tensor.*pass int\(\.\.\.\)"),
    ],
)
def test_wrong_size(size, error, message):
    with pytest.raises(error, match=message):
        random_markov(size)
    with pytest.raises(error, match=message.replace("size", "tokens")):
        isometric_input(size, 10)
    with pytest.raises(error, match=message.replace("size", "dim")):
        isometric_input(1, size)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sigma": 0}, ValueError, "sigma .*got 0; pass a positive"),
        ({"sigma": -1}, ValueError, "sigma .*got -1; pass a positive"),
        ({"sigma": math.nan}, ValueError, "sigma .*got nan"),
        ({"sigma": math.inf}, ValueError, "sigma .*got inf; pass a positive"),
        ({"sigma": 1e200}, ValueError, r"sigma .*1e\+200; come closer"),
        ({"sigma": "1"}, TypeError, "sigma .*'1'.*pass real numbers"),
        ({"sigma": 1j}, TypeError, "sigma .*1j.*pass real numbers"),
        ({"sigma": True}, TypeError, "sigma .*True.*pass real numbers"),
        ({"sigma": Fraction(1, 2)}, TypeError, r"sigma .*Fraction\(1, 2\).*pass real numbers"),
        ({"sigma": [1.0]}, TypeError, r"sigma .*\[1\.0\]; pass a single"),
        ({"sigma": Tensor()}, TypeError, r"sigma .*torch tensor; pass sigma\.numpy\(\)"),
        ({"entries": "uniform", "sigma": 0.6}, ValueError, r"sigma .*0\.57735.*got 0\.6.*gamma"),
        ({"entries": "exponential", "sigma": 2}, ValueError, r"sigma .*got 2\.0.*gamma"),
        ({"entries": "cauchy", "sigma": 1}, ValueError, "sigma .*cauchy.*got 1.*no mean.*leave it"),
        ({"entries": "gauss"}, ValueError, "entries .*'lognormal'.*got 'gauss'; pick"),
        ({"entries": None}, TypeError, "entries .*got None; pass one of"),
        ({"entries": ["gamma"]}, TypeError, r"entries .*got \['gamma'\]; pass one of"),
        ({"alpha": 3}, ValueError, "alpha .*alpha=3 with entries='lognormal'; leave alpha out"),
        ({"entries": "pareto", "alpha": 0}, ValueError, "alpha .*got 0; pass a positive"),
        ({"entries": "pareto", "alpha": math.nan}, ValueError, "alpha .*got nan"),
        (
            {"entries": "pareto", "alpha": 3, "sigma": 1},
            ValueError,
            "sigma=1 and alpha=3; pass one",
        ),
    ],
)
def test_wrong_parameters(arguments, error, message):
    with pytest.raises(error, match=message):
        random_markov(5, **arguments)


@pytest.mark.parametrize(
    ("size", "got"),
    [
        (100_001, r"\(100001, 100001\)"),
        (10**400, r"\(1000"),
        pytest.param(10**5000, "a very", id="very long"),
    ],
)
def test_too_large_for_the_memory(size, got):
    message = rf"must ask for at most 1e\+10 entries \(80 GB.*got shape {got}.*; ask for fewer"
    with pytest.raises(ValueError, match=f"^size {message}"):
        random_markov(size)
    with pytest.raises(ValueError, match=f"^tokens and dim {message}"):
        isometric_input(size, size)


def test_more_tokens_than_dimensions():
    with pytest.raises(ValueError, match=r"tokens .*tokens=5, dim=4.*fewer tokens or a larger dim"):
        isometric_input(5, 4)
