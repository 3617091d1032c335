"""Spectral measures and mean removal: prescribed spectra, torch parity, refusals."""

import math
from itertools import pairwise

import numpy as np
import pytest
from array_api_compat import array_namespace
from hypothesis import given, settings
from hypothesis import strategies as st

from gapcourse import spectra
from gapcourse.attention import remove_mean
from gapcourse.ensembles import isometric_input, random_markov

ALL = [getattr(spectra, name) for name in spectra.__all__]
ONE_NUMBER = [
    spectra.spectral_gap,
    spectra.stable_rank,
    spectra.collapse_residual,
    spectra.composite_residual,
    spectra.effective_rank,
    spectra.token_cosine,
]
ENTRIES = ("lognormal", "gamma")
NOT_ZERO = [spectra.stable_rank, spectra.collapse_residual, spectra.effective_rank]


def with_spectrum(s, rows, columns):
    """Return a matrix with these singular values and Haar singular vectors."""
    s = np.asarray(s)
    left, right = isometric_input(len(s), rows, rng=1), isometric_input(len(s), columns, rng=2)
    return left.T @ (s[:, None] * right)


# ------------------------------------------------------------------ exact values


@pytest.mark.parametrize("shape", [(6, 6), (6, 9), (9, 6)])
def test_a_prescribed_spectrum_comes_back(shape):
    s = np.array([5.0, 3.0, 1.0, 0.5, 0.25, 1e-3])
    A = with_spectrum(s, *shape)
    np.testing.assert_allclose(spectra.singular_values(A), s, rtol=1e-11)
    np.testing.assert_allclose(spectra.top_singular_values(A), s[:2], rtol=1e-13)
    np.testing.assert_allclose(spectra.top_singular_values(A, 6), s, rtol=1e-11)
    assert spectra.spectral_gap(A) == pytest.approx(2, rel=1e-13)
    assert spectra.stable_rank(A) == pytest.approx((s**2).sum() / 25, rel=1e-13)
    assert spectra.collapse_residual(A) == pytest.approx(((s[1:] / 5) ** 4).sum(), rel=1e-12)
    q = s / s.sum()
    assert spectra.effective_rank(A) == pytest.approx(math.exp(-(q * np.log(q)).sum()), rel=1e-12)


def test_eigenvalues_come_by_decreasing_modulus():
    basis = np.random.default_rng(0).standard_normal((5, 5))
    A = basis @ np.diag([0.5, -3.0, 1.0, 2.0, -0.1]) @ np.linalg.inv(basis)
    values = spectra.eigenvalues(A)
    assert values.dtype == np.complex128
    np.testing.assert_allclose(values, [-3, 2, 1, 0.5, -0.1], rtol=1e-10)
    rotation = spectra.eigenvalues([[0, -2, 0], [2, 0, 0], [0, 0, 1]])
    np.testing.assert_allclose(np.abs(rotation), [2, 2, 1])
    np.testing.assert_allclose(np.sort(rotation.imag), [-2, 0, 2])
    moduli = np.abs(spectra.eigenvalues(random_markov(60, rng=1)))
    assert moduli[0] == pytest.approx(1, rel=1e-12)
    assert (np.diff(moduli) <= 0).all()


def test_the_residual_has_no_cancellation():
    X = with_spectrum([1.0, 1e-4, 1e-4], 8, 8)
    assert spectra.collapse_residual(X) == pytest.approx(2e-16, rel=1e-9)
    assert spectra.collapse_residual(np.diag([1.0, 1e-9])) == pytest.approx(1e-36, rel=1e-12)
    assert spectra.collapse_residual(np.diag([1e200, 1e190])) == pytest.approx(1e-40, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 10**6), st.floats(1e-150, 1e150))
def test_scale_free_measures(rows, columns, seed, scale):
    X = np.random.default_rng(seed).standard_normal((rows, columns))
    rank = min(rows, columns)
    for function in NOT_ZERO:
        assert function(scale * X) == pytest.approx(function(X), rel=1e-10)
        assert function(X.T) == pytest.approx(function(X), rel=1e-10)
    assert 1 <= spectra.stable_rank(X) <= rank * (1 + 1e-12)
    assert 1 - 1e-12 <= spectra.effective_rank(X) <= rank * (1 + 1e-12)
    difference = spectra.stable_rank(X @ X.T) - 1
    assert spectra.collapse_residual(X) == pytest.approx(difference, abs=1e-10)


def test_token_cosine():
    X = np.random.default_rng(5).standard_normal((7, 4))
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosines = units @ units.T
    expected = cosines[~np.eye(7, dtype=bool)].mean()
    assert spectra.token_cosine(X) == pytest.approx(expected, rel=1e-12)
    lengths = 10.0 ** np.array([-200, -150, 0, 1, 150, 200, 300])[:, None]
    assert spectra.token_cosine(lengths * X) == pytest.approx(expected, rel=1e-12)
    assert spectra.token_cosine(np.ones((5, 3))) == pytest.approx(1)
    assert spectra.token_cosine(isometric_input(4, 9, rng=0)) == pytest.approx(0, abs=1e-15)


def composite(R):
    return math.sqrt(np.linalg.norm(R, 1) * np.linalg.norm(R, np.inf))


def test_the_composite_residual_of_equal_tokens_and_of_two():
    token = np.array([3.0, -1.0, 0.5])
    assert spectra.composite_residual(np.tile(token, (4, 1))) == 0
    assert spectra.composite_residual(np.zeros((4, 3))) == 0
    assert spectra.composite_residual([[5.0, 2.0]]) == 0
    step = np.array([2.0, 0.0, -6.0])
    X = np.stack([token + step, token - step])  # column sums 2 |step|, row sums 2 + 6
    assert spectra.composite_residual(X) == pytest.approx(math.sqrt(12 * 8), rel=1e-14)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6), st.floats(1e-300, 1e300))
def test_the_composite_residual(rows, columns, seed, scale):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns))
    value = spectra.composite_residual(X)
    assert value == pytest.approx(composite(X - X.mean(axis=0)), rel=1e-12, abs=1e-14)
    assert spectra.composite_residual(scale * X) == pytest.approx(scale * value, rel=1e-12)
    shifted = spectra.composite_residual(X + rng.standard_normal(columns))
    assert shifted == pytest.approx(value, rel=1e-12, abs=1e-14)
    centres = [np.median(X, axis=0), X[0], *(X.mean(axis=0) + rng.standard_normal((20, columns)))]
    smallest = min(composite(X - x) for x in centres)
    assert value <= 2 * (1 - 1 / rows) * smallest * (1 + 1e-12) + 1e-14


def test_the_bound_of_the_composite_residual_is_sharp():
    T = 50  # one token away from all the others: the mean is nearly twice as far as they are
    X = np.zeros((T, 1))
    X[0] = 1
    assert spectra.composite_residual(X) == pytest.approx(
        math.sqrt(2 * (1 - 1 / T) * (1 - 1 / T)), rel=1e-12
    )
    assert composite(X - np.zeros(1)) == 1


def test_attention_contracts_the_composite_residual():
    # A row-stochastic matrix leaves 1xᵀ alone, so the residual falls with each product.
    X = np.random.default_rng(6).standard_normal((40, 10))
    values = []
    for seed in range(4):
        X = random_markov(40, rng=seed) @ X
        values.append(spectra.composite_residual(X))
    assert all(after < 0.5 * before for before, after in pairwise(values))


# ------------------------------------------------------------------ the fast path


@pytest.mark.parametrize(
    "A",
    [
        random_markov(600, entries="gamma", rng=1),
        random_markov(600, entries="cauchy", rng=1),
        np.random.default_rng(1).standard_normal((550, 700)),
        np.random.default_rng(1).standard_normal((700, 550)) * 1e180,
        np.kron(np.eye(2), random_markov(300, rng=1)),  # every value twice
        with_spectrum(np.r_[1, 0.1, 0.1, np.full(537, 0.05)], 540, 540),  # the second value twice
        np.diag(np.repeat(np.linspace(0, 1, 300), 2)),  # here one Krylov space does miss the twins
        np.roll(np.eye(520), 1, axis=0),  # the same value 520 times
    ],
    ids=["markov", "heavy", "wide", "tall", "blocks", "pair", "twins", "permutation"],
)
def test_lanczos_agrees_with_the_full_decomposition(A):
    full = np.linalg.svd(A, compute_uv=False)
    for k in (1, 2, 3):
        top = spectra.top_singular_values(A, k)
        np.testing.assert_allclose(top, full[:k], rtol=1e-11)
    np.testing.assert_array_equal(top, spectra.top_singular_values(A, 3))  # no chance in it
    expected = (full / full[0]) @ (full / full[0])
    assert spectra.stable_rank(A) == pytest.approx(expected, rel=1e-11)


def test_lanczos_on_a_matrix_of_rank_one_and_on_zero():
    np.testing.assert_allclose(
        spectra.top_singular_values(np.full((600, 600), 1 / 600), 3), [1, 0, 0], atol=1e-12
    )
    np.testing.assert_array_equal(spectra.top_singular_values(np.zeros((600, 600))), [0, 0])


def test_lanczos_keeps_single_precision():
    A = random_markov(600, entries="gamma", rng=1)
    top = spectra.top_singular_values(A.astype(np.float32))
    assert top.dtype == np.float32
    np.testing.assert_allclose(top, spectra.top_singular_values(A), rtol=1e-6)


def test_lanczos_takes_batches_and_tensors():
    batch = np.stack([[random_markov(520, entries=e, rng=i) for i in range(2)] for e in ENTRIES])
    full = np.linalg.svd(batch, compute_uv=False)
    top = spectra.top_singular_values(batch)
    assert top.shape == (2, 2, 2)
    np.testing.assert_allclose(top, full[..., :2], rtol=1e-11)
    expected = (full**2).sum(axis=-1) / full[..., 0] ** 2
    np.testing.assert_allclose(spectra.stable_rank(batch), expected, rtol=1e-11)
    np.testing.assert_allclose(spectra.spectral_gap(batch), full[..., 0] - full[..., 1], rtol=1e-10)
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    for dtype in (torch.float32, torch.float64):
        result = spectra.top_singular_values(torch.tensor(batch, dtype=dtype))
        assert result.dtype == dtype
        # single precision rounds the entries, 1/T each, so the values by about 6e-8 of them
        np.testing.assert_allclose(result, top, rtol=1e-11 if dtype == torch.float64 else 1e-6)
    A = torch.tensor(batch[0, 0], requires_grad=True)
    (gradient,) = torch.autograd.grad(spectra.top_singular_values(A, 1).sum(), A)
    left, _, right = np.linalg.svd(batch[0, 0])
    np.testing.assert_allclose(gradient, np.outer(left[:, 0], right[0]), atol=1e-12)


@pytest.mark.parametrize("turn", [np.asarray, np.asfortranarray, np.transpose, np.flipud])
@pytest.mark.parametrize("shape", [(700, 530), (530, 700), (600, 600)])
def test_lanczos_whatever_the_layout(shape, turn):
    A = turn(np.random.default_rng(3).standard_normal(shape))
    full = np.linalg.svd(A, compute_uv=False)
    np.testing.assert_allclose(spectra.top_singular_values(A), full[:2], rtol=1e-11)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_lanczos_whichever_way_the_machine_multiplies_faster(k, monkeypatch):
    A, answers = random_markov(700, rng=8)[:600], []
    assert spectra._together_pays(k) is spectra._together_pays(k)  # tried once
    for together in (True, False):
        monkeypatch.setattr(spectra, "_together_pays", lambda width, answer=together: answer)
        answers.append(spectra.top_singular_values(A, k))
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-12)
    np.testing.assert_allclose(answers[0], spectra.singular_values(A)[:k], rtol=1e-11)


@pytest.mark.parametrize(
    "s",
    [
        np.r_[1, np.full(260, 0.5), np.full(259, 0.2)],  # the Krylov space ends after five vectors
        np.r_[1, 0.5, 0.3, 0.2, 0.1, np.zeros(515)],
        np.r_[1, 1e-3 * np.linspace(1, 0.1, 519)],  # the first value drowns the others a bit
    ],
    ids=["few", "rank", "small"],
)
def test_lanczos_keeps_its_basis_orthogonal(s, monkeypatch):
    A = with_spectrum(s, 520, 520)
    monkeypatch.setattr(array_namespace(A).linalg, "svdvals", None)
    shapes = []
    svd = np.linalg.svd
    monkeypatch.setattr(np.linalg, "svd", lambda M, **kw: shapes.append(M.shape) or svd(M, **kw))
    np.testing.assert_allclose(spectra.top_singular_values(A), s[:2], rtol=1e-10)
    assert shapes == [(520, 2)]  # and not the full decomposition that follows a failure


def test_lanczos_goes_on_where_the_edge_is_dense():
    # Near its edge the spectrum has gaps like those of a random matrix, n^(-2/3): more than 100
    # steps. The values err by the square of the residual, 1e-12, over the gap of 1e-3.
    n = 20_000
    d = 1 - np.linspace(0, 1, n) ** (2 / 3)
    steps = []
    vectors = spectra._block_lanczos(
        lambda X: steps.append(X.shape) or d[:, None] * X, n, 2, width=2
    )
    assert len(steps) > 100
    values = np.linalg.eigvalsh(vectors.T @ (d[:, None] * vectors))[::-1]
    np.testing.assert_allclose(values, d[:2], rtol=1e-8)


def test_lanczos_on_values_that_rounding_hides_from_the_gram_matrix():
    s = np.r_[1.0, 1e-9, np.full(518, 1e-10)]  # squared, 1e-18 is lost beside 1
    top = spectra.top_singular_values(with_spectrum(s, 520, 520))
    # a full decomposition finds small values up to a few times 1e-16 of the largest
    np.testing.assert_allclose(top, [1, 1e-9], rtol=1e-12, atol=3e-15)
    assert top[1] == pytest.approx(1e-9, rel=1e-5)


@pytest.mark.parametrize("shape", [(20, 7), (7, 20), (520, 6), (3, 520, 6)])
def test_the_stable_rank_decomposes_the_smaller_gram_matrix(shape, monkeypatch):
    M = np.random.default_rng(4).standard_normal(shape)
    s = np.linalg.svd(M, compute_uv=False)
    expected = (s**2).sum(axis=-1) / s[..., 0] ** 2
    seen = []
    linalg = array_namespace(M).linalg
    eigvalsh = linalg.eigvalsh
    monkeypatch.setattr(linalg, "eigvalsh", lambda G: seen.append(G.shape) or eigvalsh(G))
    monkeypatch.setattr(linalg, "svdvals", None)
    np.testing.assert_allclose(spectra.stable_rank(M), expected, rtol=1e-12)
    assert [gram[-2:] for gram in seen] == [(min(shape[-2:]),) * 2]


def test_no_full_decomposition_where_two_values_do(monkeypatch):
    A = random_markov(600, entries="gamma", rng=1)
    shapes = []
    svd = np.linalg.svd

    def spy(M, *args, **kwargs):
        shapes.append(M.shape)
        return svd(M, *args, **kwargs)

    monkeypatch.setattr(np.linalg, "svd", spy)
    spectra.spectral_gap(A)
    assert shapes == [(600, 2)]


# ------------------------------------------------------------------ kinds of input


@pytest.mark.parametrize("function", ALL)
def test_whole_numbers_lists_and_batches(function):
    batch = np.random.default_rng(2).integers(1, 9, (2, 3, 5, 5))
    results = np.asarray(function(batch))
    assert results.shape[:2] == (2, 3)
    for i in range(2):
        for j in range(3):
            one = function(batch[i, j])
            np.testing.assert_allclose(results[i, j], one, rtol=1e-9)
            np.testing.assert_array_equal(one, function(batch[i, j].tolist()))
            np.testing.assert_array_equal(one, function(batch[i, j].astype(np.float64)))
            assert type(one) is (float if function in ONE_NUMBER else np.ndarray)


@pytest.mark.parametrize("function", ALL)
def test_single_and_half_precision(function):
    A = random_markov(6, rng=1)
    exact = function(A)
    assert np.allclose(function(A.astype(np.float32)), exact, rtol=1e-4, atol=1e-5)
    assert np.allclose(function(A.astype(np.float16)), exact, rtol=2e-2, atol=2e-2)
    assert np.allclose(function(A.astype(np.longdouble)), exact)


@pytest.mark.parametrize("function", [*ALL, remove_mean])
def test_torch_tensors_answer_in_kind(function):
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    A = np.stack([random_markov(7, rng=i) for i in range(3)])
    for value in (A, A[0]):
        result = function(torch.tensor(value))
        assert isinstance(result, torch.Tensor)
        np.testing.assert_allclose(result.numpy(), function(value), rtol=1e-9, atol=1e-12)
    single = function(torch.tensor(A, dtype=torch.float32))
    assert single.dtype in (torch.float32, torch.complex64)
    function(torch.tensor(A).half() if function is not remove_mean else torch.tensor(A))
    function(torch.eye(4, dtype=torch.int64))


def test_torch_gradients_pass():
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    X = torch.tensor(np.random.default_rng(1).standard_normal((4, 6)), requires_grad=True)
    assert torch.autograd.gradcheck(spectra.stable_rank, X)
    assert torch.autograd.gradcheck(spectra.collapse_residual, X)
    assert torch.autograd.gradcheck(spectra.composite_residual, X)
    assert torch.autograd.gradcheck(spectra.top_singular_values, X)


# ------------------------------------------------------------------ mean removal


def causal(T, seed=0):
    weights = np.tril(random_markov(T, rng=seed))
    return weights / weights.sum(axis=1, keepdims=True), np.tril(np.ones((T, T), dtype=bool))


def test_a_mask_takes_the_mean_over_visible_tokens():
    A, mask = causal(6)
    P = remove_mean(A, mask)
    U = mask / mask.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(P, A - U, atol=1e-15)
    assert (P[~mask] == 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 0, atol=1e-15)
    np.testing.assert_array_equal(P[0], 0)
    everything = np.ones((6, 6), dtype=bool)
    np.testing.assert_allclose(remove_mean(A, everything), remove_mean(A), atol=1e-16)
    padding = np.array([True, True, False])  # one row of it, for all rows
    B = np.array([[0.2, 0.8, 0], [1, 0, 0], [0.5, 0.5, 0]])
    np.testing.assert_allclose(
        remove_mean(B, padding), [[-0.3, 0.3, 0], [0.5, -0.5, 0], [0, 0, 0]], atol=1e-15
    )


def test_masks_for_tensors():
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    A, mask = causal(5)
    for kind in (mask, torch.tensor(mask)):
        result = remove_mean(torch.tensor(A), kind)
        np.testing.assert_allclose(result.numpy(), remove_mean(A, mask), atol=1e-16)
    with pytest.raises(TypeError, match=r"mask .*torch tensor with a numpy A; pass mask\.numpy"):
        remove_mean(A, torch.tensor(mask))
    with pytest.raises(TypeError, match=r"mask must be boolean.*float64; pass mask"):
        remove_mean(torch.tensor(A), torch.tensor(A))
    with pytest.raises(ValueError, match=r"mask must fit A of shape \(5, 5\), got shape \(4, 4\)"):
        remove_mean(torch.tensor(A), torch.ones(4, 4, dtype=torch.bool))


@pytest.mark.parametrize("function", [*ALL, remove_mean])
@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_tensors_without_readable_entries(function, layout):
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    name = rf"^(?P<name>[AMX]) must .*torch\.sparse_{layout}; pass (?P=name)\.to_dense\(\)"
    with pytest.raises(TypeError, match=name):
        function(torch.eye(3).to_sparse(layout=getattr(torch, f"sparse_{layout}")))
    with pytest.raises(TypeError, match=r"^[AMX] must .*device meta.*; make it on the cpu"):
        function(torch.eye(3, device="meta"))


def test_masks_without_readable_entries():
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    mask = torch.ones(3, 3, dtype=torch.bool)
    with pytest.raises(TypeError, match=r"^mask must .*torch\.sparse_coo; pass mask\.to_dense"):
        remove_mean(torch.eye(3), mask.to_sparse())
    with pytest.raises(TypeError, match=r"^mask must .*device meta.*; make it on the cpu"):
        remove_mean(torch.eye(3), mask.to("meta"))
    with pytest.raises(ValueError, match=r"mask .*unequal length in \[\[True\], .*make them"):
        remove_mean(torch.eye(2), [[True], [True, False]])
    with pytest.raises(TypeError, match=r"mask must be boolean.*object; pass mask"):
        remove_mean(torch.eye(2), np.eye(2, dtype=object))


@pytest.mark.filterwarnings("error")
def test_checks_leave_gradients_alone():
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    A, mask = causal(4)
    for which in (None, mask):
        tensor = torch.tensor(A, requires_grad=True)
        result = remove_mean(tensor, which)
        assert result.requires_grad
        result[3, 3].backward()
        np.testing.assert_allclose(tensor.grad[3], [-0.25, -0.25, -0.25, 0.75])
    with pytest.raises(ValueError, match=r"A .*at least 0, got -0\.5; pass"):
        remove_mean(torch.tensor([[1.5, -0.5], [0.5, 0.5]], requires_grad=True))
    for function in (*ALL, remove_mean):
        with pytest.raises(ValueError, match=r"^[AMX] must .*finite, got 4 .*nan; remove"):
            function(torch.full((2, 2), math.nan, requires_grad=True))


def test_single_precision_rows_are_stochastic_enough():
    A = random_markov(500, rng=0).astype(np.float32)
    P = remove_mean(A)
    assert P.dtype == np.float32
    assert np.abs(P.sum(axis=1)).max() < 1e-6


@pytest.mark.parametrize(
    ("A", "message"),
    [
        ([[1.0, 0.5], [0.5, 0.5]], r"A .*rows with sum 1, within 1\.5e-08, got .*0\.5; divide"),
        ([[1.0, 0.0], [0.5, 0.5 + 1e-7]], r"A .*got a sum off by 1e-07; divide"),
        ([[1.5, -0.5], [0.5, 0.5]], r"A .*at least 0, got -0\.5; pass"),
        ([[0.0, 0.0], [0.5, 0.5]], "A .*off by 1; divide"),
    ],
)
def test_rows_that_are_not_stochastic(A, message):
    with pytest.raises(ValueError, match=message):
        remove_mean(A)


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (np.ones((2, 2)), TypeError, "mask must be boolean.*float64; pass mask"),
        ([[True], [True, False]], ValueError, r"mask .*unequal length in \[\[True\], .*make them"),
        ("causal", TypeError, "mask must be boolean.*; pass mask"),
        (np.ones((3, 3), dtype=bool), ValueError, r"mask .*\(2, 2\), got shape \(3, 3\); pass"),
        (np.array([[True, True], [False, False]]), ValueError, "mask .*row of False only; unmask"),
        (np.eye(2, dtype=bool), ValueError, r"A must be 0 where mask is False, got .*0\.5 there"),
    ],
)
def test_wrong_masks(mask, error, message):
    with pytest.raises(error, match=message):
        remove_mean([[0.5, 0.5], [0.5, 0.5]], mask)


# ------------------------------------------------------------------ refusals

BAD_MATRICES = [
    (1.0, ValueError, r"matrix .*shape \(\); pass a 2-D"),
    ([1.0, 2.0], ValueError, r"matrix .*shape \(2,\); pass a 2-D"),
    (np.zeros((0, 0)), ValueError, r"at least one entry, got shape \(0, 0\); pass"),
    (np.zeros((2, 0, 3)), ValueError, r"at least one entry, got shape \(2, 0, 3\); pass"),
    ([[1.0, math.nan], [0, 1]], ValueError, "finite, got 1 NaN or infinite .*nan; remove"),
    ([[1.0, math.inf], [0, -math.inf]], ValueError, "finite, got 2 NaN or infinite .*inf; remove"),
    ([[1, 2], [3]], ValueError, "unequal length .*make them"),
    (np.eye(2) + 0j, TypeError, "complex128.*pass real numbers"),
    (np.eye(2, dtype=bool), TypeError, "bool.*pass real numbers"),
    (np.eye(2, dtype=object), TypeError, "object.*pass real numbers"),
    ([["a", "b"], ["c", "d"]], TypeError, "'a'.*pass real numbers"),
    (None, TypeError, "None.*pass real numbers"),
    (np.ma.masked_array(np.eye(2)), TypeError, r"masked array; pass \w+\.filled"),
]


@pytest.mark.parametrize("function", [*ALL, remove_mean])
@pytest.mark.parametrize(("value", "error", "message"), BAD_MATRICES)
def test_what_is_no_matrix(function, value, error, message):
    with pytest.raises(error, match=rf"^[AMX] must .*{message}"):
        function(value)


@pytest.mark.parametrize("function", [*ALL, remove_mean])
def test_tensors_that_are_no_real_matrix(function):
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    with pytest.raises(TypeError, match=r"^[AMX] must .*torch\.complex64.*pass real"):
        function(torch.eye(2) + 0j)
    with pytest.raises(TypeError, match=r"^[AMX] must .*torch\.bool.*pass real"):
        function(torch.eye(2) > 0)
    with pytest.raises(ValueError, match=r"^[AMX] must .*finite, got 4 .*nan; remove"):
        function(torch.eye(2) * math.nan)
    with pytest.raises(ValueError, match=r"^[AMX] must .*shape \(2,\); pass"):
        function(torch.ones(2))


@pytest.mark.parametrize("function", NOT_ZERO)
def test_zero_matrices(function):
    with pytest.raises(ValueError, match=r"must not be zero, got a zero matrix of shape \(2, 3\)"):
        function(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="must not be zero, got a batch with a zero matrix"):
        function(np.stack([np.eye(2), np.zeros((2, 2))]))


@pytest.mark.parametrize("function", [spectra.eigenvalues, remove_mean])
def test_matrices_that_are_not_square(function):
    with pytest.raises(ValueError, match=r"A must be square, got shape \(2, 3\); pass"):
        function(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (0, ValueError, "k .*at least 1, got 0; pass 1 or more"),
        (-1, ValueError, "k .*at least 1, got -1; pass 1 or more"),
        (4, ValueError, r"k must be at most 3 .*\(3, 5\), got 4; pass a smaller k"),
        (2.0, TypeError, r"k .*got 2\.0 .*pass an int"),
        (True, TypeError, "k .*got True .*pass an int"),
    ],
)
def test_k_out_of_range(k, error, message):
    with pytest.raises(error, match=message):
        spectra.top_singular_values(np.ones((3, 5)), k)


def test_too_small_for_a_gap_or_for_a_pair_of_tokens():
    with pytest.raises(ValueError, match=r"A must have at least 2 rows .*\(1, 5\).*larger"):
        spectra.spectral_gap(np.ones((1, 5)))
    with pytest.raises(ValueError, match=r"X must have at least 2 rows .*got 1; pass more tokens"):
        spectra.token_cosine(np.ones((1, 5)))
    with pytest.raises(ValueError, match=r"X must have no zero row, got 1 of them.*remove"):
        spectra.token_cosine([[1.0, 0.0], [0.0, 0.0]])
