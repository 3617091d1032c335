"""The matrix-free random Markov matrix: its products, its law, its largest singular values."""

import math
import re
import sys

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator, svds
from scipy.stats import ks_2samp

from gapcourse import operators
from gapcourse.ensembles import ENTRIES, random_markov
from gapcourse.operators import MarkovOperator
from gapcourse.spectra import singular_values, top_singular_values


@pytest.fixture
def small_blocks(monkeypatch):
    """Many blocks at a small size, the last one lower than the others."""
    monkeypatch.setattr(operators, "_BLOCK", 900)  # at T = 130: 6 rows, and 4 in the last block
    monkeypatch.setattr(operators, "_PARTS", 5)


# ------------------------------------------------------------------ the same as the dense matrix


@pytest.mark.parametrize("entries", ENTRIES)
def test_products_are_those_of_the_dense_matrix(entries, small_blocks):
    A = MarkovOperator(130, entries=entries, rng=3)
    D = A.dense()
    assert A.shape == D.shape == (130, 130)
    assert A.dtype == D.dtype == np.float64
    assert (D >= 0).all()
    np.testing.assert_allclose(D.sum(axis=1), 1, rtol=1e-14)
    X = np.random.default_rng(0).standard_normal((130, 4))
    close = {"rtol": 1e-12, "atol": 1e-14}  # sums of 130 terms, rounded in another order
    np.testing.assert_allclose(A.matvec(X[:, 0]), D @ X[:, 0], **close)
    np.testing.assert_allclose(A.rmatvec(X[:, 0]), D.T @ X[:, 0], **close)
    np.testing.assert_allclose(A.matmat(X), D @ X, **close)
    np.testing.assert_allclose(A.rmatmat(X), D.T @ X, **close)
    np.testing.assert_allclose(A.gram(X), D.T @ (D @ X), **close)
    np.testing.assert_allclose(A @ X[:, :1], D @ X[:, :1], **close)
    np.testing.assert_allclose(A @ list(X[:, 0]), D @ X[:, 0], **close)
    np.testing.assert_allclose(A.T @ X[:, 0], D.T @ X[:, 0], **close)
    np.testing.assert_allclose(A.H @ X, D.T @ X, **close)
    np.testing.assert_allclose((2 * A - A.T) @ X, 2 * D @ X - D.T @ X, **close)


def test_scipy_takes_it(small_blocks):
    A = MarkovOperator(130, rng=3)
    assert aslinearoperator(A) is A
    s = svds(A, k=2, return_singular_vectors=False, random_state=0)
    np.testing.assert_allclose(np.sort(s)[::-1], singular_values(A.dense())[:2], rtol=1e-10)


def test_the_seed_is_the_matrix_and_threads_change_nothing(small_blocks):
    x = np.random.default_rng(0).standard_normal(130)
    A = MarkovOperator(130, rng=3, threads=1)
    for threads in (2, 7):
        B = MarkovOperator(130, rng=np.random.default_rng(3), threads=threads)
        assert B.seed == A.seed
        np.testing.assert_array_equal(B.dense(), A.dense())
        np.testing.assert_array_equal(B.rmatvec(x), A.rmatvec(x))
        np.testing.assert_array_equal(B.gram(x[:, None]), A.gram(x[:, None]))
    assert MarkovOperator(130, rng=4).seed != A.seed
    assert MarkovOperator(130).seed != MarkovOperator(130).seed
    assert not np.isin(MarkovOperator(130, rng=4).dense(), A.dense()).any()


def test_no_block_repeats_another(small_blocks):
    D = MarkovOperator(130, rng=3).dense()
    assert len(np.unique(D)) == D.size


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_smallest_sizes(size):
    A = MarkovOperator(size, rng=1)
    np.testing.assert_allclose(A @ np.ones(size), np.ones(size))
    np.testing.assert_allclose(A.top_singular_values(1), singular_values(A.dense())[:1])


# ------------------------------------------------------------------ the law


@pytest.mark.parametrize(
    ("entries", "options"),
    [
        *((name, {}) for name in ENTRIES),
        ("gamma", {"sigma": 2.0}),
        ("lognormal", {"sigma": 0.3}),
        ("uniform", {"sigma": 0.2}),
        ("pareto", {"alpha": 1.5}),
        ("pareto", {"sigma": 0.5}),
        ("bernoulli", {"sigma": 3.0}),
    ],
)
def test_the_law_is_that_of_random_markov(entries, options, small_blocks):
    # The raw entries of both, up to a factor near 1 for each row, are independent: the distance of
    # two samples of n exceeds 1.95 sqrt(2/n) = 0.018 with probability 0.001. A sigma that is wrong
    # by a fifth is farther away.
    T = 150
    raw = {"bernoulli": np.max, "pareto": np.min}.get(entries, np.median)

    def sample(A):
        return (A / raw(A, axis=1, keepdims=True)).ravel()

    A = sample(MarkovOperator(T, entries=entries, rng=1, **options).dense())
    B = sample(random_markov(T, entries=entries, rng=2, **options))
    assert ks_2samp(A, B).statistic < 1.95 * math.sqrt(2 / T**2)
    name = "alpha" if "alpha" in options else "sigma"
    if entries not in ("cauchy", "exponential"):
        size = options.get(name, 1 / math.sqrt(3) if entries == "uniform" else 1.0)
        other = {**options, name: 0.8 * size}
        C = sample(MarkovOperator(T, entries=entries, rng=1, **other).dense())
        assert ks_2samp(C, B).statistic > 1.95 * math.sqrt(2 / T**2)


@pytest.mark.parametrize(
    ("entries", "options"),
    [("gamma", {"sigma": 1e3}), ("lognormal", {"sigma": 1e90}), ("pareto", {"alpha": 1e-3})],
)
def test_the_heaviest_tails_neither_overflow_nor_vanish(entries, options, small_blocks):
    A = MarkovOperator(130, entries=entries, rng=1, **options).dense()
    np.testing.assert_allclose(A.sum(axis=1), 1, rtol=1e-14)
    if entries != "lognormal":
        assert np.median(A.max(axis=1)) > 0.9  # one entry is nearly the whole row


def test_sparse_rows_are_never_empty(small_blocks):
    # At sigma = 12 a row of 40 is empty with probability (144/145)^40 = 0.76 before it is redrawn.
    T = 40
    counts = [
        (MarkovOperator(T, entries="bernoulli", sigma=12, rng=seed).dense() > 0).sum(axis=1)
        for seed in range(20)
    ]
    p = 1 / 145
    expected = T * p / -math.expm1(T * math.log1p(-p))
    spread = math.sqrt(np.var(counts) / np.size(counts))
    assert np.min(counts) == 1
    assert np.mean(counts) == pytest.approx(expected, abs=4 * spread)


# ------------------------------------------------------------------ singular values


def test_the_largest_singular_values_at_4096():
    A = MarkovOperator(4096, entries="exponential", rng=1)
    two = A.top_singular_values()
    np.testing.assert_allclose(two, top_singular_values(A.dense()), rtol=1e-10)
    assert 4096 * (two[0] ** 2 - 1) == pytest.approx(1, abs=0.1)  # 1 + sigma²/T, sigma = 1
    assert two[1] == pytest.approx(2 / 64, rel=0.01)  # 2 sigma/sqrt(T), from below


@pytest.mark.parametrize("k", [1, 2, 5])
def test_more_values_and_fewer(k):
    A = MarkovOperator(1100, entries="uniform", rng=2)
    full = singular_values(A.dense())
    np.testing.assert_allclose(A.top_singular_values(k), full[:k], rtol=1e-10)


def test_a_pass_draws_each_block_once(monkeypatch):
    A = MarkovOperator(1100, entries="uniform", rng=2)
    drawn = []
    block = MarkovOperator._block
    monkeypatch.setattr(
        MarkovOperator, "_block", lambda self, number: drawn.append(number) or block(self, number)
    )
    A.gram(np.ones((1100, 3)))
    blocks = math.ceil(1100 / (operators._BLOCK // 1100))
    assert sorted(drawn) == list(range(blocks))


def test_values_that_cannot_be_told():
    A = MarkovOperator(1100, entries="uniform", sigma=1e-5, rng=2)  # s_2 about 6e-7
    with pytest.raises(RuntimeError, match=r"2 largest .*3e-5 times .*uniform.*; pass a smaller k"):
        A.top_singular_values()
    np.testing.assert_allclose(A.top_singular_values(1), 1, rtol=1e-12)


def test_the_bar_counts_passes(capsys):
    pytest.importorskip("tqdm", reason="tqdm is an extra of the package")
    A = MarkovOperator(1100, entries="uniform", rng=2)
    values = A.top_singular_values(progress=True)
    shown = capsys.readouterr().err
    assert "passes over the matrix" in shown
    assert f"s_2={values[1]:.6f}" in shown
    assert re.search(r"[1-9]\d passes", shown)
    A.top_singular_values()
    assert capsys.readouterr().err == ""


def test_a_bar_without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    A = MarkovOperator(1100, entries="uniform", rng=2)
    with pytest.raises(ImportError, match=r'progress=True needs tqdm.*"gapcourse\[notebooks\]"'):
        A.top_singular_values(progress=True)
    A.top_singular_values(1)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"size": 0}, ValueError, "size .*at least 1, got 0; pass 1 or more"),
        ({"size": 2.5}, TypeError, r"size .*got 2\.5 .*pass an int"),
        ({"entries": "levy"}, ValueError, "entries must be one of .*'levy'; pick one of them"),
        ({"entries": 3}, TypeError, "entries must be a name, got 3; pass one of"),
        ({"sigma": -1.0}, ValueError, r"sigma .*got -1; pass a positive number"),
        ({"entries": "uniform", "sigma": 1.0}, ValueError, r"sigma must be at most 1/sqrt\(3\)"),
        ({"alpha": 2.0}, ValueError, "alpha is the tail index .*leave alpha out"),
        ({"threads": 0}, ValueError, "threads .*at least 1, got 0; pass 1 or more"),
        ({"rng": "seed"}, TypeError, "rng must be None, .*'seed'"),
    ],
)
def test_what_it_refuses(options, error, message):
    with pytest.raises(error, match=message):
        MarkovOperator(**{"size": 10, **options})


@pytest.mark.parametrize("product", ["matvec", "rmatvec", "matmat", "rmatmat", "gram"])
def test_vectors_that_do_not_fit(product):
    function = getattr(MarkovOperator(10, rng=1), product)
    name = "x" if product.endswith("vec") else "X"
    with pytest.raises(ValueError, match=rf"{name} must be .*T.* = 10 .*got shape \(9, 2\); bring"):
        function(np.ones((9, 2)))
    with pytest.raises(ValueError, match=rf"{name} must be finite, got inf; remove"):
        function(np.full((10, 1), np.inf))
    with pytest.raises(TypeError, match=rf"{name} must hold real numbers.*pass real"):
        function(["a"] * 10)


def test_k_out_of_range():
    A = MarkovOperator(20, rng=1)
    with pytest.raises(ValueError, match=r"k must be at most 10 at T = 20, got 11; pass"):
        A.top_singular_values(11)
    with pytest.raises(ValueError, match=r"k .*at least 1, got 0"):
        A.top_singular_values(0)
    with pytest.raises(TypeError, match=r"k .*got 2\.0 .*pass an int"):
        A.top_singular_values(2.0)


def test_a_dense_matrix_too_large_to_make():
    with pytest.raises(ValueError, match=r"dense must ask for at most .*80 GB"):
        MarkovOperator(200_000, rng=1).dense()
