"""Attention matrices: against scipy and torch, masks, gradients, laws, refusals."""

import math
import warnings

import numpy as np
import pytest
from scipy.special import expit, softmax

from gapcourse import predictions
from gapcourse.attention import attention_matrix, mean_removed_attention, remove_mean
from gapcourse.laws import AttentionBulk

MAPS = {
    "linear": lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "sigmoid": expit,
}
KINDS = ["softmax", *MAPS]


def queries_and_keys(tokens, head_dim, rng, *batch):
    return np.random.default_rng(rng).standard_normal((2, *batch, tokens, head_dim))


def by_hand(Q, K, kind, scale, mask=True):
    """Return the attention matrix from the definition, row by row."""
    S = scale * Q @ K.T
    A, mask = np.zeros(S.shape), np.broadcast_to(mask, S.shape)
    for i, seen in enumerate(mask):
        logits = S[i, seen]
        A[i, seen] = softmax(logits) if kind == "softmax" else MAPS[kind](logits) / seen.sum()
    return A


# ------------------------------------------------------------------ the definition


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_definition(kind):
    Q, K = queries_and_keys(7, 4, 1)
    np.testing.assert_allclose(attention_matrix(Q, K, kind=kind), by_hand(Q, K, kind, 0.5))
    np.testing.assert_allclose(
        attention_matrix(Q, K[:5], kind=kind, scale=-1.3), by_hand(Q, K[:5], kind, -1.3)
    )
    causal = np.tril(np.ones((7, 7), dtype=bool))
    padding = np.array([True, True, False, True, False, True, True])
    for mask in (causal, padding, causal & padding):
        A = attention_matrix(Q, K, kind=kind, mask=mask)
        np.testing.assert_allclose(A, by_hand(Q, K, kind, 0.5, mask), atol=1e-17)
        assert (A[~np.broadcast_to(mask, A.shape)] == 0).all()
        if kind == "softmax":
            np.testing.assert_allclose(A.sum(axis=1), 1, rtol=1e-14)


def test_it_is_softmax_by_default():
    Q, K = queries_and_keys(6, 9, 2, 3, 2)
    A = attention_matrix(Q, K)
    assert A.shape == (3, 2, 6, 6)
    np.testing.assert_allclose(A, softmax(Q @ K.swapaxes(-1, -2) / 3, axis=-1), rtol=1e-13)
    one_query_for_all = attention_matrix(Q[0, 0], K)
    np.testing.assert_allclose(one_query_for_all[2, 1], attention_matrix(Q[0, 0], K[2, 1]))


def test_a_mask_for_each_of_a_batch():
    Q, K = queries_and_keys(4, 3, 3, 2)
    mask = np.array([[[True, True, True, True]], [[True, False, False, True]]])
    A = attention_matrix(Q, K, mask=mask)
    np.testing.assert_allclose(A[0], attention_matrix(Q[0], K[0]))
    np.testing.assert_allclose(A[1][:, [0, 3]], attention_matrix(Q[1], K[1][[0, 3]]))


def test_data_types():
    Q, K = queries_and_keys(5, 3, 4)
    for kind in KINDS:
        exact = attention_matrix(Q, K, kind=kind)
        for dtype, error in ((np.float16, 1e-2), (np.float32, 1e-6), (np.longdouble, 1e-15)):
            A = attention_matrix(Q.astype(dtype), K.astype(dtype), kind=kind, mask=np.eye(5) < 2)
            assert A.dtype == dtype
            np.testing.assert_allclose(A.astype(float), exact, atol=error)
        assert attention_matrix(Q.astype(np.float32), K, kind=kind).dtype == np.float64
    assert attention_matrix([[1, 2]], [[3, 4], [0, 1]]).dtype == np.float64


@pytest.mark.parametrize("kind", KINDS)
def test_large_logits(kind):
    Q, K = np.array([[1e3], [-1e3], [0.0]]), np.array([[1.0], [-1.0], [0.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        A = attention_matrix(Q, K, kind=kind)
        hidden = attention_matrix(Q, K, kind=kind, mask=np.eye(3, dtype=bool))
    np.testing.assert_allclose(A, by_hand(Q, K, kind, 1.0), atol=1e-300)
    if kind == "softmax":
        np.testing.assert_allclose(A, [[1, 0, 0], [0, 1, 0], [1 / 3, 1 / 3, 1 / 3]], atol=1e-200)
        np.testing.assert_array_equal(hidden, np.eye(3))
    np.testing.assert_array_equal(hidden[~np.eye(3, dtype=bool)], 0)


# ------------------------------------------------------------------ torch


def test_torch_fused_attention_agrees():
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    fused = torch.nn.functional.scaled_dot_product_attention
    Q, K = (torch.tensor(x) for x in queries_and_keys(6, 4, 5, 2))
    values, causal = torch.eye(6, dtype=Q.dtype).expand(2, 6, 6), torch.ones(6, 6).tril() > 0
    np.testing.assert_allclose(attention_matrix(Q, K), fused(Q, K, values), atol=1e-15)
    np.testing.assert_allclose(
        attention_matrix(Q, K, scale=0.7), fused(Q, K, values, scale=0.7), atol=1e-15
    )
    for mask in (causal, causal.numpy()):
        A = attention_matrix(Q, K, mask=mask)
        np.testing.assert_allclose(A, fused(Q, K, values, is_causal=True), atol=1e-15)
        assert (A[:, ~causal] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_torch_answers_in_kind(kind):
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    Q, K = queries_and_keys(5, 3, 6)
    mask = np.tril(np.ones((5, 5), dtype=bool))
    for which in (None, mask):
        exact = attention_matrix(Q, K, kind=kind, mask=which)
        for dtype, error in ((torch.bfloat16, 2e-2), (torch.float32, 1e-6), (torch.float64, 1e-15)):
            tensors = torch.tensor(Q, dtype=dtype), torch.tensor(K, dtype=dtype)
            A = attention_matrix(*tensors, kind=kind, mask=which)
            assert A.dtype == dtype
            np.testing.assert_allclose(A.double(), exact, atol=error)
    assert attention_matrix(torch.eye(3).long(), torch.eye(3), kind=kind).dtype == torch.float64


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("masked", [False, True])
def test_gradients(kind, masked):
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    Q, K = (torch.tensor(x, requires_grad=True) for x in queries_and_keys(4, 3, 7))
    mask = torch.ones(4, 4).tril() > 0 if masked else None

    def attend(queries, keys):
        return attention_matrix(queries, keys, kind=kind, mask=mask)

    assert torch.autograd.gradcheck(attend, (Q, K))
    zero = torch.zeros(4, 3, dtype=Q.dtype, requires_grad=True)  # all logits 0, at ReLU's kink
    attend(zero, K)[3, 0].backward()
    slope = {"softmax": (K[0] - K.mean(0)) / 4, "linear": K[0] / 4, "relu": 0 * K[0]}
    expected = slope.get(kind, K[0] / 16) / math.sqrt(3)
    np.testing.assert_allclose(zero.grad[3], expected.detach(), atol=1e-15)
    large = (1e4 * Q.detach()).requires_grad_()
    attend(large, K).sum().backward()
    assert torch.isfinite(large.grad).all()


# ------------------------------------------------------------------ refusals

Q0 = np.ones((3, 2))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: attention_matrix(Q0, np.ones((3, 4))), ValueError, r"columns.*\(3, 4\); pass"),
        (
            lambda: attention_matrix(np.ones((2, 3, 2)), np.ones((3, 3, 2))),
            ValueError,
            r"leading dimensions.*\(2, 3, 2\) and \(3, 3, 2\); give",
        ),
        (lambda: attention_matrix(Q0, Q0, kind="Softmax"), ValueError, "kind .*'Softmax'; pick"),
        (lambda: attention_matrix(Q0, Q0, kind=None), TypeError, "kind .*None .*; pick"),
        (lambda: attention_matrix(Q0, Q0, scale=math.inf), ValueError, "scale .*got inf; pass"),
        (lambda: attention_matrix(Q0, Q0, scale=math.nan), ValueError, "scale .*nan; remove"),
        (lambda: attention_matrix(Q0, Q0, scale="1"), TypeError, "scale .*'1'.*; pass real"),
        (lambda: attention_matrix(Q0, Q0, scale=[1.0, 2.0]), TypeError, "scale .*; pass a single"),
        (lambda: attention_matrix(Q0, Q0, mask=Q0 > 0), ValueError, r"mask .*logits .*\(3, 3\), "),
        (lambda: attention_matrix(Q0, Q0, mask=np.eye(3)), TypeError, "mask must be boolean"),
        (
            lambda: attention_matrix(Q0, Q0, mask=np.tri(3, k=-1, dtype=bool)),
            ValueError,
            "mask .*row of False only; unmask",
        ),
        (lambda: attention_matrix(Q0[0], Q0), ValueError, r"queries .*shape \(2,\); pass a 2-D"),
        (lambda: attention_matrix(Q0, [[1, math.nan]]), ValueError, "keys .*finite, got 1 NaN"),
        (lambda: attention_matrix(Q0, Q0 + 0j), TypeError, "keys .*complex128.*pass real"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("error")
def test_logits_that_overflow(kind):
    message = "queries and keys must give finite logits, .*range of {}; pass smaller ones, or"
    for dtype, size in ((np.float16, 1e3), (np.float32, 1e20), (np.float64, 1e200)):
        Q = np.full((2, 3), size, dtype=dtype)
        with pytest.raises(ValueError, match=message.format(np.dtype(dtype).name)):
            attention_matrix(Q, Q, kind=kind)
        cancelling = Q * np.array([1, -1, 1], dtype=dtype)  # infinity - infinity
        with pytest.raises(ValueError, match=message.format(np.dtype(dtype).name)):
            attention_matrix(cancelling, Q, kind=kind)
        assert attention_matrix(Q, Q, kind=kind, scale=1e-4 / size).shape == (2, 2)
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    with pytest.raises(ValueError, match=message.format(r"torch\.float32")):
        attention_matrix(torch.full((2, 3), 1e20), torch.full((2, 3), 1e20), kind=kind)


def test_arrays_and_tensors_do_not_mix():
    torch = pytest.importorskip("torch", reason="torch is an extra of the package")
    with pytest.raises(TypeError, match="one kind, got a torch tensor and an array; pass torch"):
        attention_matrix(torch.ones(3, 2), Q0)
    with pytest.raises(TypeError, match="one kind, got an array and a torch tensor; pass torch"):
        attention_matrix(Q0, torch.ones(3, 2))
    with pytest.raises(TypeError, match=r"kind of logits, got .*numpy logits; pass mask\.numpy"):
        attention_matrix(Q0, Q0, mask=torch.ones(3, 3) > 0)
    with pytest.raises(TypeError, match=r"queries .*sparse_coo; pass queries\.to_dense"):
        attention_matrix(torch.ones(3, 2).to_sparse(), torch.ones(3, 2))


# ------------------------------------------------------------------ rows of any sum


def test_rows_of_any_sum_lose_their_mean():
    A = attention_matrix(*queries_and_keys(6, 3, 8, 2), kind="linear")
    with pytest.raises(TypeError, match=r"stochastic must be True or False, got 'no' \(str\)"):
        remove_mean(A, stochastic="no")
    P = remove_mean(A, stochastic=False)
    np.testing.assert_allclose(P, A @ (np.eye(6) - 1 / 6), atol=1e-15)
    m = A.sum(axis=2, keepdims=True) / math.sqrt(6)
    square = m @ m.swapaxes(1, 2) + P @ P.swapaxes(1, 2)
    np.testing.assert_allclose(square, A @ A.swapaxes(1, 2), atol=1e-14)
    with pytest.raises(
        ValueError, match=r"A must have rows with sum 1, .*or pass stochastic=False"
    ):
        remove_mean(A)
    with pytest.raises(ValueError, match=r"A .*at least 0, got -0\.5; .*or stochastic=False"):
        remove_mean([[1.5, -0.5], [0.5, 0.5]])
    S = attention_matrix(*queries_and_keys(6, 3, 8))
    np.testing.assert_array_equal(remove_mean(S, stochastic=False), remove_mean(S))


def test_rows_of_any_sum_under_a_mask():
    mask = np.tri(5, dtype=bool)
    A = 1e6 * attention_matrix(*queries_and_keys(5, 3, 9), kind="relu", mask=mask)
    P = remove_mean(A, mask, stochastic=False)
    for i in range(5):
        np.testing.assert_allclose(P[i, : i + 1], A[i, : i + 1] - A[i, : i + 1].mean(), atol=1e-9)
        np.testing.assert_array_equal(P[i, i + 1 :], 0)
    for tiny in (1.0, 1e-30):  # what counts as hidden weight goes with the size of A
        with pytest.raises(ValueError, match="A must be 0 where mask is False"):
            remove_mean(tiny * (A + 1), mask, stochastic=False)
    with pytest.raises(ValueError, match="finite, got 1 NaN"):
        remove_mean([[math.nan, 0], [0, 0]], stochastic=False)
    with pytest.raises(ValueError, match="square"):
        remove_mean(np.ones((2, 3)), stochastic=False)
    np.testing.assert_array_equal(remove_mean(np.zeros((2, 2)), stochastic=False), 0)


# ------------------------------------------------------------------ mean removal on fused attention

SHAPES = [(7, 4), (3, 7, 4), (2, 3, 7, 4), (2, 1, 3, 7, 4)]
NO_TORCH = "torch is an extra of the package"


def tensors(shape, rng, dtype=None):
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    values = np.random.default_rng(rng).standard_normal((3, *shape))
    return tuple(torch.tensor(x, dtype=dtype or torch.float64) for x in values)


def dense(q, k, v, causal=False, scale=None):
    """Return what `mean_removed_attention` must give, by way of the T × T matrix."""
    mask = np.tri(q.shape[-2], dtype=bool) if causal else None
    return remove_mean(attention_matrix(q, k, scale=scale, mask=mask), mask) @ v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_fused_mean_removal_is_the_dense_one(shape, causal):
    """In float64 to 1e-12, in float32 to 1e-5; rounding is of order 10 eps here."""
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    for dtype, error in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        q, k, v = tensors(shape, 21, dtype)
        for scale in (None, 1.7):
            out = mean_removed_attention(q, k, v, causal=causal, scale=scale)
            assert out.dtype == dtype
            assert out.shape == shape
            exact = dense(q.double(), k.double(), v.double(), causal, scale)
            np.testing.assert_allclose(out, exact, atol=error)
    assert abs(exact).max() > 0.1
    if causal:
        np.testing.assert_allclose(out[..., 0, :], 0, atol=1e-6)  # the first row


@pytest.mark.parametrize("causal", [False, True])
def test_fused_mean_removal_at_length(causal):
    """T = 600. A mean of 100 is known to 100 eps = 1.2e-5; causal attention sums before it."""
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    q, k, v = tensors((2, 600, 16), 22, torch.float32)
    for shift in (0.0, 100.0):
        exact = dense(q.double(), k.double(), (v + shift).double(), causal)
        out = mean_removed_attention(q, k, v + shift, causal=causal)
        np.testing.assert_allclose(out, exact, atol=(1e-4 if causal else 2e-5) if shift else 1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_fused_mean_removal_is_that_of_torch(causal):
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    q, k, v = tensors((2, 3, 9, 4), 23)
    plain = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    counts = torch.arange(1, 10, dtype=v.dtype)[:, None]
    mean = v.cumsum(-2) / counts if causal else v.mean(-2, keepdim=True)
    np.testing.assert_allclose(
        mean_removed_attention(q, k, v, causal=causal), plain - mean, atol=1e-14
    )


def test_causal_attention_does_not_see_the_future():
    q, k, v = tensors((5, 3), 24)
    out = mean_removed_attention(q, k, v, causal=True)
    k[3:], v[3:] = 7.0, -9.0
    np.testing.assert_array_equal(mean_removed_attention(q, k, v, causal=True)[:3], out[:3])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES[:3])
def test_gradients_of_fused_mean_removal(shape, causal):
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    inputs = tuple(x.requires_grad_() for x in tensors(shape, 25))

    def attend(*qkv):
        return mean_removed_attention(*qkv, causal=causal)

    assert torch.autograd.gradcheck(attend, inputs)
    weights = torch.tensor(np.random.default_rng(26).standard_normal(shape))
    fused = torch.autograd.grad((attend(*inputs) * weights).sum(), inputs)
    exact = torch.autograd.grad((dense(*inputs, causal) * weights).sum(), inputs)
    for ours, theirs in zip(fused, exact, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    single = tuple(x.detach().float().requires_grad_() for x in inputs)
    fused = torch.autograd.grad((attend(*single) * weights.float()).sum(), single)
    for ours, theirs in zip(fused, exact, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_matrix_is_formed(shape, causal):
    """With all kernels but the fused one turned off, it still runs."""
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    attention = pytest.importorskip("torch.nn.attention", reason="torch 2.3 has it")
    with attention.sdpa_kernel([attention.SDPBackend.FLASH_ATTENTION]):
        mean_removed_attention(*tensors(shape, 27, torch.float32), causal=causal)


def test_queries_keys_and_values_of_other_shapes():
    q, k, v = tensors((2, 3, 6, 4), 28)
    exact = dense(q, k, v)
    few = mean_removed_attention(q[..., :2, :], k, v)  # fewer queries than keys
    np.testing.assert_allclose(few, exact[..., :2, :], atol=1e-14)
    narrow = mean_removed_attention(q, k, v[..., :1])
    np.testing.assert_allclose(narrow, exact[..., :1], atol=1e-14)
    shared = mean_removed_attention(q, k[:1, :1], v[0])  # one key head for all
    expected = dense(q, k[:1, :1].expand(2, 3, 6, 4), v[0].expand(2, 3, 6, 4))
    np.testing.assert_allclose(shared, expected, atol=1e-14)
    crossed = mean_removed_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
    assert crossed.shape == (2, 6, 3, 4)  # not contiguous


@pytest.mark.parametrize("causal", [False, True])
def test_data_types_of_fused_mean_removal(causal):
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    q, k, v = tensors((8, 4), 29)
    exact = dense(q, k, v, causal)
    for dtype, error in ((torch.bfloat16, 6e-2), (torch.float16, 6e-3)):
        out = mean_removed_attention(*(x.to(dtype) for x in (q, k, v)), causal=causal)
        assert out.dtype == dtype
        np.testing.assert_allclose(out.double(), exact, atol=error)
    assert mean_removed_attention(q.float(), k, v.half(), causal=causal).dtype == torch.float64
    assert mean_removed_attention(*(x.long() for x in (q, k, v)), causal=causal).dtype == q.dtype
    ones = torch.full((1000, 2), 100.0, dtype=torch.float16)  # whose sum is beyond float16
    zero = mean_removed_attention(ones / 100, ones / 100, ones, causal=causal)
    np.testing.assert_allclose(zero.double(), 0, atol=0.1)


def test_what_fused_mean_removal_refuses():
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    q, k, v = tensors((3, 5, 4), 30)
    array = np.ones((5, 4))
    bad = v.clone()
    bad[0, 0, 0] = math.nan
    far = v.clone()
    far[0, 0, 0] = math.inf
    meta = torch.ones(5, 4, device="meta")
    for call, error, message in (
        (lambda: mean_removed_attention(array, array, array), TypeError, r"^q .*from_numpy\(q\)"),
        (lambda: mean_removed_attention(q, k, array), TypeError, r"^v .*ndarray.*from_numpy\(v\)"),
        (lambda: mean_removed_attention(q, "k", v), TypeError, r"^k .*'k' \(str\); pass torch"),
        (lambda: mean_removed_attention(q, None, v), TypeError, r"^k .*None .*gapcourse\[torch\]"),
        (lambda: mean_removed_attention(q + 0j, k, v), TypeError, "^q must hold real .*complex"),
        (lambda: mean_removed_attention(q > 0, k, v), TypeError, "^q must hold real .*bool"),
        (lambda: mean_removed_attention(q, k.to_sparse(), v), TypeError, r"^k .*k\.to_dense\(\)"),
        (lambda: mean_removed_attention(q, k, meta), TypeError, "^v must hold numbers.*meta"),
        (
            lambda: mean_removed_attention(q, k, v, causal=1),
            TypeError,
            "^causal .*got 1 .int.; masks",
        ),
        (lambda: mean_removed_attention(q, k, v, causal=None), TypeError, "^causal .*None"),
        (lambda: mean_removed_attention(q, k, v, scale="1"), TypeError, "^scale .*; pass real"),
        (lambda: mean_removed_attention(q, k, v, scale=math.inf), ValueError, "^scale .*inf; pass"),
        (lambda: mean_removed_attention(q, k, bad), ValueError, "^v must be finite, got 1 NaN"),
        (lambda: mean_removed_attention(bad, k, v), ValueError, "^q must be finite, got 1 NaN"),
        (lambda: mean_removed_attention(q, far, v), ValueError, "^k must be finite, got 1 NaN or"),
        (
            lambda: mean_removed_attention(q[0, 0], k, v),
            ValueError,
            r"^q .*shape \(4,\); pass a 2-D",
        ),
        (lambda: mean_removed_attention(q[:, :0], k, v), ValueError, "^q .*at least one entry"),
        (
            lambda: mean_removed_attention(q, k[..., :2], v),
            ValueError,
            r"k and v .*5, 2\).*; give q",
        ),
        (
            lambda: mean_removed_attention(q, k, v[:, :2]),
            ValueError,
            r"k and v .*2, 4\); give q and",
        ),
        (
            lambda: mean_removed_attention(q, k[:2], v),
            ValueError,
            "broadcast in their leading .*give",
        ),
        (
            lambda: mean_removed_attention(q[:, :2], k, v, causal=True),
            ValueError,
            "^q and k must have equally many tokens .*; pass all queries, or causal=False",
        ),
        (
            lambda: mean_removed_attention(1e200 * q, 1e200 * k, v),
            ValueError,
            r"finite logits and sums, .*range of torch\.float64; pass smaller ones",
        ),
        (
            lambda: mean_removed_attention(1e20 * q.float(), 1e20 * k.float(), v.float()),
            ValueError,
            r"finite logits and sums, .*range of torch\.float32; pass smaller ones",
        ),
    ):
        with pytest.raises(error, match=message):
            call()


def test_fused_mean_removal_on_a_gpu():
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    if not torch.cuda.is_available():
        pytest.skip("no GPU that torch can use")
    q, k, v = tensors((2, 3, 64, 16), 31, torch.float32)
    for causal in (False, True):
        out = mean_removed_attention(*(x.to("cuda") for x in (q, k, v)), causal=causal)
        assert out.device.type == "cuda"
        np.testing.assert_allclose(out.cpu(), dense(q, k, v, causal), atol=1e-5)
    with pytest.raises(ValueError, match=r"on one device, got cuda:0, cpu, cpu; move them"):
        mean_removed_attention(q.to("cuda"), k, v)


# ------------------------------------------------------------------ at initialisation


@pytest.mark.parametrize("ratio", [1 / 16, 1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_the_edge_and_the_first_singular_value(kind, ratio):
    """Over 6 seeds, s_2 over the edge had mean 0.993, 0.991, 0.974, range 0.955 to 1.013.

    The means are for the three ratios; they differ by 0.006 at most between the kinds, and the
    standard deviation is 0.007, 0.013, 0.010. The outlier was within 0.5 % of a_0.
    """
    T, s = 600, 0.5 if kind == "softmax" else 1.0
    head_dim = round(T / ratio)
    Q, K = queries_and_keys(T, head_dim, 11)
    A = attention_matrix(Q, K, kind=kind, scale=s / math.sqrt(head_dim))
    if kind == "softmax":
        law = AttentionBulk.softmax(s, ratio)
    else:
        law = AttentionBulk.from_map(lambda z: float(MAPS[kind](z)), s, ratio)
    P = remove_mean(A, stochastic=kind == "softmax")
    edge = math.sqrt(T) * np.linalg.norm(P, 2)
    assert 0.94 < edge / law.edge < 1.03
    if ratio >= 1:  # the quarter circle of the same variance ends well below
        assert edge > 1.15 * 2 * math.sqrt(law.moment(2))
    if kind == "linear":
        assert law.outlier == 0
    else:
        assert np.linalg.norm(A, 2) == pytest.approx(law.outlier, rel=0.015)


def test_long_keys_raise_the_first_singular_value():
    """T (s_1² - 1) over 10 seeds: 0.80 ± 0.05 and 1.41 ± 0.08; the i.i.d. model says 0.43."""
    T, s = 600, 0.6
    for head_dim, spread in ((100, 0.052), (38, 0.083)):
        Q, K = queries_and_keys(T, head_dim, 12)
        s_1 = np.linalg.norm(attention_matrix(Q, K, scale=s / math.sqrt(head_dim)), 2)
        expected = predictions.attention_first_singular_value(T, head_dim, s)
        assert T * (s_1**2 - 1) == pytest.approx(T * (expected**2 - 1), abs=4 * spread)
        iid = predictions.first_singular_value(T, predictions.softmax_sigma(s))
        assert s_1 - iid > 0.5 * (expected - iid)


def test_a_stray_value_in_the_gap():
    """Over 5 seeds 0.702 to 0.727 at 0.7047; the next values 0.45 to 0.51 and 1.36 to 1.40."""
    T, head_dim, s = 1200, 75, 0.5
    law = AttentionBulk.softmax(s, T / head_dim)
    stray = law.spike(predictions.stray_size(s**2 / 2, T / head_dim))
    (_, low), (high, _) = law.bands
    assert low < stray < high
    Q, K = queries_and_keys(T, head_dim, 13)
    P = remove_mean(attention_matrix(Q, K, scale=s / math.sqrt(head_dim)))
    x = math.sqrt(T) * np.linalg.svd(P, compute_uv=False)
    inside = x[(x > low + 0.25) & (x < high - 0.1)]
    assert inside == pytest.approx([stray], abs=0.045)
    x = math.sqrt(T) * np.linalg.svd(P - P.mean(axis=0), compute_uv=False)
    assert not ((x > low + 0.25) & (x < high - 0.1)).any()


def test_stray_values_above_the_edge():
    """z²: over 4 seeds s_1 was 3.60 to 3.64 at 3.536, the next at most 2.98; edge 2.83."""
    T, head_dim = 1000, 250
    law = AttentionBulk.from_map(lambda z: z * z, 1.0, T / head_dim)
    stray = law.spike(law.outlier * predictions.stray_size(1.0, T / head_dim))
    Q, K = queries_and_keys(T, head_dim, 14)
    A = T * attention_matrix(Q, K, kind="linear") ** 2  # f(S)/T with f(z) = z²
    P = remove_mean(A, stochastic=False)
    top = math.sqrt(T) * np.linalg.svd(P, compute_uv=False)[:2]
    assert top[0] == pytest.approx(stray, abs=0.18)
    assert top[1] < 3.1 < stray
    centred = math.sqrt(T) * np.linalg.norm(P - P.mean(axis=0), 2)
    assert centred < 3.1
