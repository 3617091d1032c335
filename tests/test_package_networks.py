"""Stacks of attention layers: against a dense implementation, draws, masks, refusals."""

import doctest
import inspect
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import expit

from gapcourse.ensembles import ENTRIES, isometric_input, random_markov

torch = pytest.importorskip("torch", reason="torch is an extra of the package")

from gapcourse import networks  # noqa: E402
from gapcourse.networks import CONFIGURATIONS, AttentionStack  # noqa: E402
from gapcourse.spectra import stable_rank  # noqa: E402

DEPENDENT = ("softmax", "linear", "relu", "sigmoid")
KINDS = ("markov", "identity", *DEPENDENT)
CAUSAL = np.tril(np.ones((6, 6), dtype=bool))
HOLES = np.random.default_rng(0).random((6, 6)) < 0.5
np.fill_diagonal(HOLES, True)


def tokens(rows=6, columns=8, rng=0):
    return np.random.default_rng(rng).standard_normal((rows, columns))


def numbers(tensor):
    return tensor.detach().numpy()


# ------------------------------------------------------------------ an independent implementation


MAPS = {"linear": lambda z: z, "relu": lambda z: np.maximum(z, 0), "sigmoid": expit}


def attend_by_hand(X, W_Q, W_K, kind, seen):
    """Return the attention matrix of one head, row by row from its definition."""
    A = np.zeros((len(X), len(X)))
    for i, row in enumerate(seen):
        z = np.array([X[i] @ W_Q @ (W_K.T @ X[j]) / math.sqrt(W_Q.shape[1]) for j in row])
        weights = np.exp(z - z.max()) if kind == "softmax" else MAPS[kind](z)
        A[i, row] = weights / (weights.sum() if kind == "softmax" else len(row))
    return A


def norm_by_hand(X, kind):
    rows = []
    for row in X:
        centred = row - row.mean() if kind == "layer" else row
        rows.append(centred / math.sqrt((centred**2).mean() + 1e-5))
    return np.array(rows)


def stack_by_hand(stack, x, options, seen, fixed):
    """Return the tokens and attention matrices of all layers of a stack with given weights.

    `seen` lists the visible tokens of each row; `fixed` holds fixed attention before mean removal.
    """
    heads, d = options.get("heads", 1), stack.dim
    skip = options.get("skip", False)
    a = {True: 1.0, "1/sqrt(dim)": d**-0.5, "1/sqrt(depth)": stack.depth**-0.5}.get(skip, skip)
    norm, position = options.get("norm"), options.get("norm_position", "pre")
    phi = {"tanh": np.tanh, "relu": MAPS["relu"]}[options.get("activation", "relu")]

    def block(X, branch):
        Y = branch(norm_by_hand(X, norm) if norm and position == "pre" else X)
        Y = X + a * Y if skip is not False else Y
        return norm_by_hand(Y, norm) if norm and position == "post" else Y

    trace, matrices = [x], []
    for k in range(stack.depth):
        W = numbers(stack.value_weights[k])
        used = []

        def attention(X, k=k, W=W, used=used):
            outputs = []
            for h in range(heads):
                if fixed is not None:
                    A = fixed[k].reshape(heads, stack.tokens, stack.tokens)[h].copy()
                else:
                    n = stack.head_dim
                    W_Q, W_K = (
                        numbers(w[k])[:, h * n : (h + 1) * n]
                        for w in (stack.query_weights, stack.key_weights)
                    )
                    A = attend_by_hand(X, W_Q, W_K, stack.attention, seen)
                if options.get("mean_removal"):
                    for i, row in enumerate(seen):
                        A[i, row] -= A[i, row].mean()
                used.append(A)
                outputs.append(A @ X @ W[:, h * d // heads : (h + 1) * d // heads])
            return np.hstack(outputs)

        X = block(trace[-1], attention)
        if "mlp" in options:
            layer = stack.layers[k]
            X = block(X, lambda Y: phi(Y @ numbers(layer.mlp_in)) @ numbers(layer.mlp_out))  # noqa: B023
        trace.append(X)
        matrices.append(used[0] if heads == 1 else np.array(used))
    return trace, matrices


def check_against_by_hand(options, x, depth=3, rtol=1e-10):
    T, d = x.shape
    stack = AttentionStack(depth, T, d, rng=5, **options)
    mask, window = options.get("mask"), options.get("window", T)
    mask = {None: np.ones((T, T), dtype=bool), "causal": np.tri(T, dtype=bool)}.get(
        mask if not isinstance(mask, np.ndarray) else "given", mask
    )
    seen = [[j for j in range(T) if mask[i, j] and abs(i - j) < window] for i in range(T)]
    fixed = None
    if stack.is_fixed:  # the same draws before anything is removed from them
        plain = AttentionStack(depth, T, d, rng=5, **(options | {"mean_removal": False}))
        fixed = [numbers(A).copy() for A in plain.attention_matrices(x)]
    trace, matrices = stack_by_hand(stack, x, options, seen, fixed)
    assert len(stack.trace(x)) == depth + 1
    for ours, expected in zip(stack.trace(x), trace, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=rtol * np.abs(expected).max())
    for ours, expected in zip(stack.attention_matrices(x), matrices, strict=True):
        assert ours.shape == expected.shape
        np.testing.assert_allclose(ours, expected, rtol=0, atol=rtol * np.abs(expected).max())
    np.testing.assert_array_equal(numbers(stack(x)), stack.trace(x)[-1])


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize(("T", "d"), [(12, 16), (7, 5)])
def test_published_configurations(name, T, d):
    """Where the logits die out the reference's A - 1/T keeps few of its 16 digits."""
    x = isometric_input(T, d, rng=1) if d >= T else tokens(T, d, 1)
    dying = name == "softmax, plain, mean removed"
    check_against_by_hand(CONFIGURATIONS[name], x, rtol=1e-4 if dying else 1e-9)


def test_the_table_is_the_published_grid():
    assert len(CONFIGURATIONS) == 25
    settings = {
        (c["attention"], c.get("skip"), c.get("norm"), c["mean_removal"])
        for name, c in CONFIGURATIONS.items()
        if name != "identity"
    }
    skips, norms = (None, True, "1/sqrt(dim)"), (None, "layer")
    expected = {
        (a, s, n, r)
        for a in ("markov", "softmax")
        for s in skips
        for n in norms
        for r in (False, True)
    }
    assert settings == expected
    assert CONFIGURATIONS["identity"]["attention"] == "identity"
    assert all(
        c["logit_std"] == "xavier" for c in CONFIGURATIONS.values() if c["attention"] == "softmax"
    )


@pytest.mark.parametrize(
    "options",
    [
        *({"attention": kind, "mean_removal": r} for kind in KINDS for r in (False, True)),
        *(
            {"attention": kind, "mean_removal": r, "mask": "causal", "heads": 2}
            for kind in KINDS
            for r in (False, True)
        ),
        *({"attention": kind, "mean_removal": True, "mask": HOLES} for kind in KINDS),
        {"attention": "softmax", "head_dim": 3, "logit_std": 2.0},
        {"attention": "relu", "heads": 4, "head_dim": 5, "window": 2},
        {"attention": "softmax", "mask": "causal", "window": 3, "skip": True},
        {"attention": "markov", "entries": "pareto", "alpha": 1.5, "window": 1},
        {"attention": "sigmoid", "skip": 0.25, "norm": "rms"},
        {"attention": "linear", "skip": "1/sqrt(depth)", "norm": "rms", "norm_position": "post"},
        {"attention": "softmax", "norm": "layer", "mlp": 11, "skip": True},
        {"attention": "markov", "mlp": 3, "activation": "tanh", "skip": True, "norm": "layer",
         "norm_position": "post"},
    ],
    ids=str,
)  # fmt: skip
def test_every_option_by_hand(options):
    check_against_by_hand(options, tokens() / 3)


# ------------------------------------------------------------------ the draws


def weights(stack):
    return [numbers(p) for p in stack.parameters()]


@pytest.mark.parametrize("kind", ["markov", "softmax"])
def test_one_seed_gives_one_stack(kind):
    x = tokens()
    options = {"attention": kind, "heads": 2, "mlp": 4}
    stack = AttentionStack(3, 6, 8, rng=1, **options)
    generator = np.random.default_rng(1)
    for again in (1, generator):
        other = AttentionStack(3, 6, 8, rng=again, **options)
        np.testing.assert_array_equal(numbers(stack(x)), numbers(other(x)))
    next_one = AttentionStack(3, 6, 8, rng=generator, **options)  # the generator has moved on
    assert not np.allclose(numbers(stack(x)), numbers(next_one(x)))
    assert not np.array_equal(*(numbers(w) for w in stack.value_weights[:2]))
    state = torch.get_rng_state()
    AttentionStack(2, 3, 4, attention=kind, rng=1)
    assert torch.equal(state, torch.get_rng_state())


def test_the_draws_do_not_depend_on_what_is_done_with_them():
    long = AttentionStack(4, 6, 8, attention="softmax", rng=1)
    for options in (
        {"mask": "causal"},
        {"mean_removal": True},
        {"skip": True},
        {"norm": "layer"},
        {"dtype": torch.float64},
    ):
        short = AttentionStack(2, 6, 8, attention="softmax", rng=1, **options)
        for ours, theirs in zip(short.value_weights, long.value_weights, strict=False):
            np.testing.assert_array_equal(numbers(ours), numbers(theirs))
    plain, removed = (AttentionStack(3, 6, 8, mean_removal=r, rng=2) for r in (False, True))
    x = tokens()
    for A, B in zip(plain.attention_matrices(x), removed.attention_matrices(x), strict=True):
        np.testing.assert_allclose(A - 1 / 6, B, atol=1e-15)
    np.testing.assert_allclose(plain.attention_matrices(x)[0], random_markov(6, rng=2), atol=1e-15)


def test_laws_of_the_value_weights():
    """The variance of d² entries scatters by sqrt(2)/d, 0.6 %: five times that are 3 %."""
    d = 240
    for value_init, variance in (
        ("gaussian", 1), (0.3, 0.09), ("scaled", 1 / d), ("xavier", 1 / d), ("he", 2 / d),
    ):  # fmt: skip
        (W,) = AttentionStack(1, 2, d, value_init=value_init, rng=1).value_weights
        assert W.var().item() == pytest.approx(variance, rel=0.03)
        assert abs(W.mean().item()) < 5 * math.sqrt(variance) / d
        kurtosis = (W**4).mean().item() / W.var().item() ** 2
        assert kurtosis == pytest.approx(1.8 if value_init == "xavier" else 3, rel=0.1)
    (W,) = AttentionStack(1, 2, d, value_init="orthogonal", rng=1).value_weights
    np.testing.assert_allclose(numbers(W @ W.T), np.eye(d), atol=1e-12)
    (W,) = AttentionStack(1, 2, d, value_init="identity", rng=1).value_weights
    np.testing.assert_array_equal(numbers(W), np.eye(d))


def test_law_of_the_logits():
    """W_Q has d d_k entries: its variance scatters by sqrt(2/(d d_k)), here 1.3 %; five times."""
    d, head_dim = 200, 60
    x = isometric_input(100, d, rng=3)
    for logit_std, s in ((0.5, 0.5), (None, 1.0), ("xavier", 2 / (d + head_dim))):
        stack = AttentionStack(
            1, 100, d, attention="linear", logit_std=logit_std, head_dim=head_dim, rng=2
        )
        for W in (*stack.query_weights, *stack.key_weights):
            assert W.shape == (d, head_dim)
            assert W.var().item() == pytest.approx(s, rel=0.065)
        logits = 100 * stack.attention_matrices(x)[0]  # linear attention is logits over T
        assert logits.std().item() == pytest.approx(s, rel=0.065)
    assert AttentionStack(1, 2, 6, rng=1).query_weights == []


def test_law_of_the_mlp():
    """Entries of variance 2/d and 1/h keep a token's mean square, through ReLU.

    The mean square of 400 numbers from 300 hidden ones scatters by about 10 %; 50 tokens share the
    weights, so not much of it averages out.
    """
    stack = AttentionStack(1, 50, 400, attention="identity", value_init="identity", mlp=300, rng=4)
    x = tokens(50, 400, 5)
    assert (stack(x) ** 2).mean().item() == pytest.approx(1, rel=0.3)


@pytest.mark.parametrize("entries", ENTRIES)
def test_every_markov_ensemble(entries):
    stack = AttentionStack(2, 5, 5, entries=entries, rng=1)
    np.testing.assert_allclose(
        stack.attention_matrices(np.eye(5))[0], random_markov(5, entries=entries, rng=1), atol=1e-15
    )
    masked = AttentionStack(2, 40, 3, entries=entries, mask="causal", heads=3, rng=1)
    for A in masked.attention_matrices(np.ones((40, 3))):
        np.testing.assert_allclose(A.sum(dim=-1), 1, rtol=1e-13)
        assert (A >= 0).all()
        assert (A[:, ~np.tri(40, dtype=bool)] == 0).all()


def test_sparse_rows_keep_their_law_under_a_mask():
    """Row 0 sees itself only; row 1 is equally often (1, 0), (0, 1) and (1/2, 1/2).

    For Bernoulli entries with P(1) = 1/2. 600 draws: the counts scatter by 11.5; five times that.
    """
    stack = AttentionStack(600, 2, 1, entries="bernoulli", sigma=1.0, mask="causal", rng=1)
    A = np.array([numbers(layer.matrix) for layer in stack.layers])
    np.testing.assert_array_equal(A[:, 0], np.tile([1.0, 0.0], (600, 1)))
    counts = [(A[:, 1, 0] == p).sum() for p in (0, 0.5, 1)]
    assert sum(counts) == 600
    assert all(abs(count - 200) < 58 for count in counts)
    sparse = AttentionStack(1, 60, 1, entries="bernoulli", sigma=1e4, mask="causal", rng=1)
    A = numbers(sparse.layers[0].matrix)
    np.testing.assert_array_equal(np.sort(A, axis=1), np.tile([0.0] * 59 + [1.0], (60, 1)))
    assert A.argmax(axis=1)[30:].std() > 5


# ------------------------------------------------------------------ structure


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mean_removal", [False, True])
def test_causal_attention_sees_no_future(kind, mean_removal):
    stack = AttentionStack(
        3, 6, 8, attention=kind, mask="causal", mean_removal=mean_removal, skip=True, norm="rms",
        mlp=4, heads=2, rng=1,
    )  # fmt: skip
    x = tokens()
    later = x.copy()
    later[4:] += 1
    ours, theirs = numbers(stack(x)), numbers(stack(later))
    np.testing.assert_allclose(ours[:4], theirs[:4], rtol=1e-12)
    assert not np.allclose(ours[4:], theirs[4:])
    full = AttentionStack(3, 6, 8, attention=kind, mean_removal=True, rng=1)
    assert not np.allclose(numbers(full(x))[:4], numbers(full(later))[:4]) or kind == "identity"


@pytest.mark.parametrize("kind", KINDS)
def test_mean_removal_by_the_running_mean(kind):
    x = tokens()
    plain, removed = (
        AttentionStack(1, 6, 8, attention=kind, mask="causal", mean_removal=r, rng=1)
        for r in (False, True)
    )
    A, B = plain.attention_matrices(x)[0].numpy(), removed.attention_matrices(x)[0].numpy()
    U = np.tri(6) / np.arange(1, 7)[:, None]
    np.testing.assert_allclose(B, A - A.sum(axis=1, keepdims=True) * U, atol=1e-13)
    np.testing.assert_allclose(B[0], 0, atol=1e-15)


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
def test_small_logits_lose_no_digits(kind):
    """To first order A is (1 + S - mean S)/T (softmax), (1/2 + S/4)/T (sigmoid)."""
    x, size = tokens(), 1e-13
    stack = AttentionStack(1, 6, 8, attention=kind, logit_std=size, mean_removal=True, rng=1)
    S = x @ numbers(stack.query_weights[0] @ stack.key_weights[0].T) @ x.T / math.sqrt(8)
    expected = (S - S.mean(axis=1, keepdims=True)) / (6 if kind == "softmax" else 24)
    for mask in (None, np.ones((6, 6), dtype=bool)):
        stack = AttentionStack(
            1, 6, 8, attention=kind, logit_std=size, mean_removal=True, mask=mask, rng=1
        )
        A = stack.attention_matrices(x)[0].numpy()
        np.testing.assert_allclose(A, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("mean_removal", [False, True])
def test_large_logits(mean_removal):
    stack = AttentionStack(1, 6, 8, attention="softmax", mean_removal=mean_removal, rng=1)
    A = stack.attention_matrices(1e6 * tokens())[0].numpy() + (1 / 6 if mean_removal else 0)
    np.testing.assert_allclose(np.sort(A, axis=1), np.tile([0] * 5 + [1], (6, 1)), atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_batches(kind):
    options = {"attention": kind, "heads": 2, "norm": "layer", "mlp": 3, "skip": True}
    stack = AttentionStack(2, 6, 8, mask="causal", mean_removal=True, rng=1, **options)
    batch = np.stack([tokens(rng=k) for k in range(6)]).reshape(2, 3, 6, 8)
    out = numbers(stack(batch))
    assert out.shape == (2, 3, 6, 8)
    np.testing.assert_allclose(out[1, 2], numbers(stack(batch[1, 2])), rtol=1e-11, atol=1e-13)
    A = stack.attention_matrices(batch)[1]
    assert A.shape[-3:] == (2, 6, 6)
    one = stack.attention_matrices(batch[1, 2])[1]
    np.testing.assert_allclose(A if stack.is_fixed else A[1, 2], one, rtol=1e-11, atol=1e-13)
    assert [X.shape for X in stack.trace(batch)] == [batch.shape] * 3


def test_a_truncated_stack_is_the_first_layers():
    x = tokens()
    stack = AttentionStack(4, 6, 8, attention="softmax", skip="1/sqrt(depth)", rng=1)
    first = stack.truncated(2)
    np.testing.assert_array_equal(numbers(first(x)), stack.trace(x)[2])
    assert (first.depth, stack.depth, len(stack.layers)) == (2, 4, 4)
    assert first.value_weights[1] is stack.value_weights[1]
    assert first.skip == 0.5
    with pytest.raises(ValueError, match="depth must be at most the stack's depth, 4, got 5"):
        stack.truncated(5)


def test_weights_are_live_and_gradients_pass():
    x = torch.from_numpy(tokens())
    stack = AttentionStack(
        2, 6, 8, attention="softmax", skip=True, norm="layer", mlp=4, mean_removal=True, rng=1
    )
    before = stack(x)
    assert before.requires_grad
    assert not any(X.requires_grad for X in (*stack.trace(x), *stack.attention_matrices(x)))
    with torch.no_grad():
        stack.value_weights[0].mul_(2)
    assert not torch.allclose(before, stack(x))
    assert len(list(stack.parameters())) == 2 * 5
    assert torch.autograd.gradcheck(stack, x[:, :].clone().requires_grad_())
    before.square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in stack.parameters())
    fixed = AttentionStack(2, 6, 8, rng=1)
    assert len(list(fixed.parameters())) == 2
    assert fixed.state_dict().keys() == {
        f"layers.{k}.{name}" for k in (0, 1) for name in ("value", "matrix")
    }


@pytest.mark.parametrize("kind", DEPENDENT)
@pytest.mark.parametrize("mask", [None, "causal"])
def test_gradients_of_mean_removed_attention(kind, mask):
    stack = AttentionStack(1, 4, 3, attention=kind, mask=mask, mean_removal=True, rng=1)
    assert torch.autograd.gradcheck(stack, torch.from_numpy(tokens(4, 3)).requires_grad_())


def test_tokens_of_other_types():
    stack = AttentionStack(1, 2, 2, rng=1)
    exact = numbers(stack(np.eye(2)))
    for x in ([[1, 0], [0, 1]], np.eye(2, dtype=int), torch.eye(2), torch.eye(2).long()):
        assert stack(x).dtype == torch.float64
        np.testing.assert_array_equal(numbers(stack(x)), exact)
    with torch.inference_mode():
        np.testing.assert_array_equal(stack(np.eye(2)).numpy(), exact)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_float32(name):
    """Three layers, each a few dozen operations, at 6e-8 a piece: 1e-3 leaves a wide margin."""
    x = isometric_input(12, 16, rng=1)
    double = AttentionStack(3, 12, 16, rng=5, **CONFIGURATIONS[name])
    single = AttentionStack(3, 12, 16, rng=5, dtype=torch.float32, **CONFIGURATIONS[name])
    assert single(x).dtype == torch.float32
    exact = numbers(double(x))
    np.testing.assert_allclose(numbers(single(x)), exact, rtol=0, atol=1e-3 * np.abs(exact).max())
    assert torch.equal(double.to(torch.float32)(x), single(x))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_cuda(name):
    x = isometric_input(12, 16, rng=1)
    options = CONFIGURATIONS[name] | {"mask": "causal"}
    there = AttentionStack(3, 12, 16, rng=5, device="cuda", **options)
    here = AttentionStack(3, 12, 16, rng=5, **options)
    assert there(x).device.type == "cuda"
    exact = numbers(here(x))
    np.testing.assert_allclose(
        numbers(there(x).cpu()), exact, rtol=0, atol=1e-9 * np.abs(exact).max()
    )


# ------------------------------------------------------------------ deep stacks


def test_an_overflow_names_its_layer():
    """Unscaled weights multiply tokens by about sqrt(d) = 5.5 a layer: 308/log10(5.5) = 416."""
    stack = AttentionStack(450, 4, 30, rng=1)
    x = isometric_input(4, 30, rng=2)
    with pytest.raises(ValueError, match=r"layer 4[0-3]\d must keep its tokens .*take value_init"):
        stack(x)
    with pytest.raises(ValueError, match=r"layer \d\d must keep its tokens .*torch.float32, got"):
        AttentionStack(450, 4, 30, dtype=torch.float32, rng=1)(x)
    trace = stack.trace(x, unit=True)
    assert all(abs(torch.linalg.matrix_norm(X).item() - 1) < 1e-14 for X in trace)
    short = stack.truncated(9).trace(x)
    for ours, theirs in zip(trace[:10], short, strict=True):
        np.testing.assert_allclose(ours, theirs / torch.linalg.matrix_norm(theirs), atol=1e-14)
    assert stable_rank(trace[-1].numpy()) < 1 + 1e-10


def test_logits_that_overflow_name_their_layer():
    for removal in (False, True):
        stack = AttentionStack(1, 4, 3, attention="softmax", mean_removal=removal, rng=1)
        with pytest.raises(ValueError, match=r"layer 1 must keep its logits .*take value_init"):
            stack(np.full((4, 3), 1e200))


def test_norms_take_large_tokens():
    for norm in ("layer", "rms"):
        stack = AttentionStack(1, 6, 8, attention="identity", norm=norm, rng=1)
        x = tokens()
        np.testing.assert_allclose(numbers(stack(1e300 * x)), numbers(stack(1e100 * x)), rtol=1e-12)
    zero = AttentionStack(1, 6, 8, attention="softmax", norm="layer", rng=1)(np.zeros((6, 8)))
    np.testing.assert_array_equal(numbers(zero), 0)


# ------------------------------------------------------------------ refusals


def make(*sizes, **options):
    return lambda: AttentionStack(*(sizes or (2, 6, 8)), **options)


SMALL = AttentionStack(2, 3, 4, rng=1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (make(0, 6, 8), ValueError, "depth .*at least 1, got 0; pass 1 or more"),
        (make(2.0, 6, 8), TypeError, "depth .*got 2.0 .*pass an int"),
        (make(2, 0, 8), ValueError, "tokens .*got 0"),
        (make(2, 6, -1), ValueError, "dim .*got -1"),
        (make(attention="mean"), ValueError, "attention must be one of .*'mean'; pick"),
        (make(attention=None), TypeError, "attention must be one of .*None"),
        (make(heads=3), ValueError, "heads must divide dim, got heads=3, dim=8; take a divisor"),
        (make(logit_std=1.0), ValueError, "logit_std must be left out for attention='markov'"),
        (make(head_dim=4), ValueError, "head_dim must be left out for attention='markov'"),
        (make(attention="softmax", sigma=1.0), ValueError, "sigma must be left out"),
        (make(attention="identity", entries="gamma"), ValueError, "entries must be left out"),
        (make(attention="softmax", logit_std=0), ValueError, "logit_std .*above 0, got 0"),
        (make(attention="softmax", logit_std="he"), ValueError, "logit_std .*xavier.*'he'"),
        (make(attention="softmax", head_dim=0), ValueError, "head_dim .*got 0"),
        (make(sigma=-1.0), ValueError, "sigma .*above 0, got -1"),
        (make(entries="normal"), ValueError, "entries must be one of .*'normal'"),
        (make(mean_removal="yes"), TypeError, "mean_removal must be True or False, got 'yes'"),
        (make(value_init="kaiming"), ValueError, "value_init must be one of .*'kaiming'"),
        (make(value_init=0.0), ValueError, "value_init .*above 0, got 0; pass a standard dev"),
        (make(value_init=None), TypeError, "value_init must hold real numbers, got None"),
        (make(skip="sqrt"), ValueError, "skip must be one of .*'sqrt'"),
        (make(skip=-1.0), ValueError, "skip .*above 0, got -1; pass True"),
        (make(norm="batch"), ValueError, "norm must be one of .*'batch'"),
        (make(norm="rms", norm_position="both"), ValueError, "norm_position .*'both'"),
        (make(norm_eps=-1e-5), ValueError, "norm_eps .*at least 0, got -1e-05"),
        (make(mlp=0), ValueError, "mlp .*got 0"),
        (make(mlp=4, activation="swish"), ValueError, "activation must be one of .*'swish'"),
        (make(dtype=torch.float16), TypeError, "dtype must be torch.float32 or torch.float64"),
        (make(dtype=torch.long), TypeError, "dtype .*torch.int64; pass one"),
        (make(device="nowhere"), ValueError, "device must be one .*'nowhere'; pass 'cpu'"),
        (make(mask="future"), ValueError, "mask must be one of .*'future'"),
        (make(mask=np.tri(6)), TypeError, "mask must be 'causal' or boolean.*float64; pass mask"),
        (make(mask=np.tri(5) > 0), ValueError, r"mask must have shape \(6, 6\) .*got \(5, 5\)"),
        (make(mask=np.tri(6, k=-1) > 0), ValueError, r"mask must let .*\(row 0, .*unmask its"),
        (
            make(mask=torch.ones(6, 6).triu(3) > 0, window=3),
            ValueError,
            r"mask must let every row see .*\(row 0, counted from 0, after the window\)",
        ),
        (make(window=0), ValueError, "window .*at least 1, got 0"),
        (
            make(attention="identity", mask=~np.eye(6, dtype=bool)),
            ValueError,
            "mask must show each token itself to attention='identity'",
        ),
        (make(rng=-1), ValueError, "rng as a seed must be at least 0"),
        (make(rng=torch.Generator()), TypeError, "rng must be None, a whole number or"),
        (lambda: SMALL(np.ones((4, 3))), ValueError, r"x must have shape \(..., 3, 4\) .*\(4, 3\)"),
        (lambda: SMALL(np.ones(4)), ValueError, r"x must be a matrix .*\(4,\)"),
        (lambda: SMALL(np.full((3, 4), np.nan)), ValueError, "x must be finite, got 12 NaN"),
        (lambda: SMALL.trace([[1, 2]]), ValueError, r"x must have shape .*got \(1, 2\); pass one"),
        (lambda: SMALL(np.ones((3, 4)) * 1j), TypeError, "x must hold real numbers"),
        (lambda: SMALL("x"), TypeError, "x must hold real numbers"),
        (lambda: SMALL.step(torch.ones(3, 4), 3), ValueError, "layer must be at most .* 2, got 3"),
        (lambda: SMALL.step(torch.ones(3, 4), 0), ValueError, "layer .*at least 1, got 0"),
        (
            lambda: AttentionStack(2, 3, 4, skip=True, rng=1).trace(np.ones((3, 4)), unit=True),
            ValueError,
            "unit must be False unless the stack is linear",
        ),
    ],
)  # fmt: skip
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ------------------------------------------------------------------ the module


@pytest.mark.parametrize("name", ["networks", "gradients"])
def test_without_torch_the_error_says_what_to_install(name):
    code = (
        "import importlib, sys; sys.modules['torch'] = None\n"
        f"try: importlib.import_module('gapcourse.{name}')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        f'gapcourse.{name} needs torch, which is missing; pip install "gapcourse[torch]"'
    )


def test_examples_run_and_everything_is_described():
    result = doctest.testmod(networks)
    assert result.attempted > 0
    assert result.failed == 0
    described = AttentionStack.__doc__
    for name in inspect.signature(AttentionStack).parameters:
        assert name in described, name
    assert sorted(networks.__all__) == networks.__all__
