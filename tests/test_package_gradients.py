"""Gradient norms: against the full Jacobian, over seeds, in the deep, and what is refused."""

import doctest
import math
import pickle
import time
import warnings

import numpy as np
import pytest

from gapcourse.ensembles import isometric_input

torch = pytest.importorskip("torch", reason="torch is an extra of the package")

from gapcourse import gradients  # noqa: E402
from gapcourse.gradients import (  # noqa: E402
    Estimate,
    query_key_gradient_norm,
    query_key_gradient_norms,
    value_gradient_norm,
    value_gradient_norms,
)
from gapcourse.networks import CONFIGURATIONS, AttentionStack  # noqa: E402

CAUSAL = {"mask": "causal", "mean_removal": True}
FIXED = [
    {},
    {"mean_removal": True},
    {"attention": "identity", "value_init": "scaled"},
    {"attention": "identity", "mean_removal": True},
    {"entries": "gamma", "sigma": 0.5, "value_init": "orthogonal"},
    CAUSAL,
]
DEPENDENT = [
    {"attention": "softmax"},
    {"attention": "softmax", "mean_removal": True, "logit_std": 0.5},
    {"attention": "linear", "value_init": "scaled"},
    {"attention": "relu", "heads": 2, "head_dim": 3, **CAUSAL},
    {"attention": "sigmoid", "skip": "1/sqrt(depth)", "norm": "layer"},
    {"attention": "softmax", "skip": True, "norm": "rms", "norm_position": "post", "mlp": 7},
]
PROBED = [*DEPENDENT, {"heads": 4}, {"skip": 0.5, **CAUSAL}, {"norm": "layer"}]
SEEDS = 20


def tokens(rows=6, columns=8, rng=0):
    return np.random.default_rng(rng).standard_normal((rows, columns)) / 2


def jacobian_norm(stack, x, *weights):
    """Return the norm of the full Jacobian in some weights, one output at a time."""
    outputs = stack(x).flatten()
    return math.sqrt(
        sum(
            float((g**2).sum())
            for out in outputs
            for g in torch.autograd.grad(out, weights, retain_graph=True, materialize_grads=True)
        )
    )


def value_norms(stack, x):
    return [jacobian_norm(stack, x, W) for W in stack.value_weights]


def query_key_norms(stack, x):
    return [
        jacobian_norm(stack, x, *pair)
        for pair in zip(stack.query_weights, stack.key_weights, strict=True)
    ]


# ------------------------------------------------------------------ fixed attention: exact


@pytest.mark.parametrize("options", FIXED, ids=str)
@pytest.mark.parametrize(("depth", "T", "d"), [(1, 6, 8), (2, 5, 5), (4, 6, 8), (3, 7, 3)])
def test_the_exact_norm_is_that_of_the_jacobian(options, depth, T, d):
    """Ten products of matrices lose few of 16 digits."""
    stack, x = AttentionStack(depth, T, d, rng=1, **options), tokens(T, d)
    norms, exact = value_gradient_norms(stack, x), value_norms(stack, x)
    assert all(type(norm) is float for norm in norms)
    np.testing.assert_allclose(norms, exact, rtol=1e-12)
    for layer, norm in enumerate(exact, 1):
        assert value_gradient_norm(stack, x, layer) == pytest.approx(norm, rel=1e-12)
        logarithm = value_gradient_norm(stack, x, layer, log=True)
        assert logarithm == pytest.approx(math.log(norm), rel=1e-12, abs=1e-12)


def test_the_identity_of_kronecker():
    """The formula itself, written out."""
    stack, x = AttentionStack(4, 6, 8, rng=3), tokens()
    A, X = stack.attention_matrices(x), stack.trace(x)
    W = [w.detach() for w in stack.value_weights]
    expected = (A[3] @ A[2] @ A[1] @ X[1]).norm() * (W[2] @ W[3]).norm()
    assert value_gradient_norm(stack, x, 2) == pytest.approx(expected.item(), rel=1e-13)


def test_deep_stacks_are_exact_in_logarithms():
    """Weights d times smaller in variance make each of L - 1 factors sqrt(d) times smaller."""
    x, depth = isometric_input(6, 8, rng=2), 900
    stack, scaled = (
        AttentionStack(depth, 6, 8, value_init=v, rng=1) for v in ("gaussian", "scaled")
    )
    logs = np.array(value_gradient_norms(stack, x, log=True))
    assert logs.min() > 800
    reference = np.array(value_gradient_norms(scaled, x, log=True))
    np.testing.assert_allclose(logs, reference + (depth - 1) * math.log(8) / 2, rtol=1e-12)
    np.testing.assert_allclose(np.exp(reference), value_gradient_norms(scaled, x), rtol=1e-9)
    with pytest.raises(ValueError, match=r"gradient norm of layer 7 .*e to the .*pass log=True"):
        value_gradient_norm(stack, x, 7)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_large_and_small_tokens(size):
    stack, x = AttentionStack(3, 6, 8, rng=1), tokens()
    expected = np.array(value_gradient_norms(stack, x)) * size
    np.testing.assert_allclose(value_gradient_norms(stack, size * x), expected, rtol=1e-12)


def test_a_gradient_that_is_zero():
    """One token under mean removal: A is 0."""
    stack = AttentionStack(3, 1, 4, mean_removal=True, rng=1)
    assert value_gradient_norms(stack, np.ones((1, 4))) == [0.0] * 3
    assert value_gradient_norm(stack, np.ones((1, 4)), 2, log=True) == -math.inf
    probed = AttentionStack(3, 1, 4, attention="softmax", mean_removal=True, rng=1)
    assert value_gradient_norms(probed, np.ones((1, 4))) == [0.0] * 3
    assert query_key_gradient_norm(probed, np.ones((1, 4)), 2, log=True) == -math.inf


# ------------------------------------------------------------------ probes


def scores(estimates, exact):
    """Return errors in units of the standard error: shape (seeds, layers)."""
    error = np.array(estimates) - np.array(exact)
    return error / np.array([[e.standard_error for e in row] for row in estimates])


@pytest.mark.parametrize("options", PROBED, ids=str)
def test_probes_find_the_norm_of_the_jacobian(options):
    """Within 3 standard errors for each seed; the seeds are fixed.

    The root mean square of 20 scores of variance 1 scatters by 0.16: three times that, above 1.
    """
    stack, x = AttentionStack(3, 6, 8, rng=1, **options), tokens()
    exact = value_norms(stack, x)
    last = len(exact) if options.get("mlp") or options.get("norm_position") else len(exact) - 1
    estimates = [value_gradient_norms(stack, x, rng=seed) for seed in range(SEEDS)]
    assert all(isinstance(norm, Estimate) for norm in estimates[0])
    z = scores([row[:last] for row in estimates], exact[:last])
    assert np.abs(z).max() < 3
    assert (np.sqrt((z**2).mean(axis=0)) < 1.5).all()
    for row in estimates:
        assert all(norm.standard_error <= 0.03 * norm for norm in row)
    if last < len(exact):  # nothing follows the last attention: exact
        assert estimates[0][-1] == pytest.approx(exact[-1], rel=1e-12)
        assert (estimates[0][-1].standard_error, estimates[0][-1].probes) == (0, 0)
        assert value_gradient_norm(stack, x, 3) == pytest.approx(exact[-1], rel=1e-12)


@pytest.mark.parametrize("options", DEPENDENT, ids=str)
def test_probes_find_query_and_key_gradients(options):
    stack, x = AttentionStack(3, 6, 8, rng=1, **options), tokens()
    exact = query_key_norms(stack, x)
    estimates = [query_key_gradient_norms(stack, x, rng=seed) for seed in range(SEEDS)]
    z = scores(estimates, exact)
    assert np.abs(z).max() < 3
    one = query_key_gradient_norm(stack, x, 2, rng=3)
    assert abs(one - exact[1]) < 3 * one.standard_error


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_published_configuration(name):
    stack, x = AttentionStack(2, 6, 8, rng=1, **CONFIGURATIONS[name]), isometric_input(6, 8, rng=2)
    for norm, exact in zip(
        value_gradient_norms(stack, x, rng=4), value_norms(stack, x), strict=True
    ):
        error = 3 * getattr(norm, "standard_error", 0) + 1e-9 * exact
        assert abs(norm - exact) < error


@pytest.mark.parametrize("probes", [8, 1000])
def test_the_square_is_unbiased(probes):
    """Over 400 seeds: the mean of squares within 3 of its errors."""
    stack, x = AttentionStack(2, 4, 5, attention="softmax", rng=1), tokens(4, 5)
    exact = value_norms(stack, x)[0]
    options = {"probes": probes, "rtol": 1e9}
    squares = [value_gradient_norm(stack, x, 1, rng=k, **options) ** 2 for k in range(400)]
    error = np.std(squares) / 20
    assert error < 0.05 * exact**2
    assert abs(np.mean(squares) - exact**2) < 3 * error


@pytest.mark.parametrize("rtol", [0.03, 0.1])
def test_scores_spread_like_a_normal_variable(rtol):
    """Over 300 seeds. The error is on the safe side: it allows for what few pairs may miss.

    Measured on 3,000 other seeds of five stacks: mean -0.07, spread 0.68 to 0.82 where the scatter
    is estimated, 1 % beyond 2, none beyond 3. The mean of 300 scatters by 0.05,
    the spread by 0.03: three times that.
    """
    stack = AttentionStack(2, 8, 10, attention="softmax", mask="causal", skip=True, rng=1)
    x = tokens(8, 10)
    exact = value_norms(stack, x)[0]
    estimates = [[value_gradient_norm(stack, x, 1, rtol=rtol, rng=k)] for k in range(300)]
    assert all(norm.standard_error <= rtol * norm for (norm,) in estimates)
    z = scores(estimates, [exact])
    assert -0.3 < z.mean() < 0.1
    assert 0.55 < z.std() < 0.9
    assert (np.abs(z) > 2).mean() < 0.0455
    assert (np.abs(z) > 3).mean() < 0.01


def test_few_directions_are_taken_exactly():
    """Where one direction carries the norm, signs alone need 2/(4 rtol²) = 556 probes for 3 %."""
    x = np.ones((12, 12)) + tokens(12, 12) / 100
    stack = AttentionStack(4, 12, 12, attention="softmax", rng=1)
    estimate = value_gradient_norm(stack, x, 1, rng=1)
    exact = jacobian_norm(stack, x, stack.value_weights[0])
    assert estimate.probes <= 40
    assert abs(estimate - exact) < 3 * estimate.standard_error + 1e-12 * exact
    fine = value_gradient_norm(stack, x, 1, rtol=1e-3, rng=1)
    assert fine.standard_error <= 1e-3 * fine
    assert abs(fine - exact) < 3 * fine.standard_error + 1e-12 * exact


@pytest.mark.parametrize("options", [{}, {"mean_removal": True}], ids=str)
def test_both_ways_agree(options):
    """Fixed attention, exactly and by probes: two different computations of one number."""
    stack, x = AttentionStack(3, 6, 8, rng=1, **options), tokens()
    probed = gradients._probed(
        stack, torch.from_numpy(x), [1, 2, 3], [[W] for W in stack.value_weights],
        rtol=0.02, probes=1000, rng=np.random.default_rng(1),
    )  # fmt: skip
    for log, exact in zip(probed, value_gradient_norms(stack, x), strict=True):
        assert abs(math.exp(log) / exact - 1) < 3 * log.standard_error


def test_the_stopping_rule():
    stack = AttentionStack(3, 6, 8, attention="softmax", skip=True, rng=1)
    x = tokens()
    coarse, fine = (value_gradient_norm(stack, x, 1, rtol=r, rng=1) for r in (0.1, 0.005))
    assert coarse.standard_error <= 0.1 * coarse
    assert fine.standard_error <= 0.005 * fine
    assert min(fine.probes, coarse.probes) >= 8
    with pytest.warns(UserWarning, match="8 probes leave a relative .*rtol=1e-06; pass more"):
        value_gradient_norm(stack, x, 1, rtol=1e-6, probes=8, rng=1)
    with pytest.warns(UserWarning, match="53 probes leave") as caught:
        few = value_gradient_norm(stack, x, 1, rtol=1e-9, probes=53, rng=1)
    assert caught[0].filename == __file__
    assert few.probes == 53


def test_one_seed_gives_one_estimate():
    stack, x = AttentionStack(2, 6, 8, attention="softmax", rng=1), tokens()
    first, again, other = (value_gradient_norm(stack, x, 1, rng=k) for k in (1, 1, 2))
    third = value_gradient_norm(stack, x, 1, rng=np.random.default_rng(1))
    assert [again, third] == pytest.approx([first, first], rel=1e-12)
    assert abs(other / first - 1) > 1e-6
    log = value_gradient_norm(stack, x, 1, log=True, rng=1)
    assert log == pytest.approx(math.log(first), rel=1e-12)
    assert log.standard_error == pytest.approx(first.standard_error / first, rel=1e-12)


def test_deep_stacks_by_probes():
    """A pre-norm keeps the tokens' size out of the layers: with W scaled, X only shrinks.

    The gradient of layer 1 is unchanged; that of a weight elsewhere would grow.
    """
    stack = AttentionStack(300, 4, 6, attention="softmax", norm="layer", skip=True, rng=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log = value_gradient_norm(stack, tokens(4, 6), 250, log=True, rng=1)
    assert math.isfinite(log)
    bare = AttentionStack(600, 4, 6, heads=2, value_init=20.0, rng=1)
    with pytest.raises(ValueError, match=r"layer \d+ must keep its tokens within the range"):
        value_gradient_norm(bare, tokens(4, 6), 1, rng=1)


def test_a_gradient_beyond_the_squares_of_float64():
    """Tokens of size 1e250 and heads: the square of the gradient overflows, its logarithm not."""
    stack, x = AttentionStack(2, 4, 6, heads=2, rng=1), tokens(4, 6)
    small, large = (value_gradient_norm(stack, c * x, 1, rng=1) for c in (1, 1e250))
    assert large == pytest.approx(1e250 * small, rel=1e-10)
    assert large.standard_error == pytest.approx(1e250 * small.standard_error, rel=1e-8)


# ------------------------------------------------------------------ rank collapse


def test_query_and_key_gradients_vanish_under_rank_collapse():
    """Tokens ever more alike: the norm falls like the square of what is left of the difference.

    Once because the logits of a row are ever more alike, once because the values are.
    """
    stack = AttentionStack(1, 6, 8, attention="softmax", rng=1)
    common, noise = np.ones((6, 8)), tokens()
    norms = [
        query_key_gradient_norm(stack, common + e * noise, 1, rtol=0.01, rng=1)
        for e in (1e-2, 1e-3, 1e-4)
    ]
    assert norms[0] / norms[1] == pytest.approx(100, rel=0.1)
    assert norms[1] / norms[2] == pytest.approx(100, rel=0.05)
    assert query_key_gradient_norm(stack, common, 1, rng=1) < 1e-13
    value = value_gradient_norm(stack, common, 1, rng=1)
    assert value == pytest.approx(math.sqrt(8 * 48), rel=1e-12)  # sqrt(d) ||A X||: it stays


def test_in_depth_they_vanish_as_the_tokens_collapse():
    x = isometric_input(20, 20, rng=1)
    options = {"attention": "softmax", "norm": "layer", "norm_position": "post", "rng": 2}
    norms = query_key_gradient_norms(AttentionStack(6, 20, 20, **options), x, rng=3)
    assert norms[5] < 1e-3 * norms[0]


# ------------------------------------------------------------------ types, side effects, speed


@pytest.mark.parametrize("options", [{}, {"attention": "softmax"}], ids=str)
def test_float32(options):
    x = tokens()
    double = value_gradient_norms(AttentionStack(3, 6, 8, rng=1, **options), x, rng=2)
    single = AttentionStack(3, 6, 8, rng=1, dtype=torch.float32, **options)
    np.testing.assert_allclose(value_gradient_norms(single, x, rng=2), double, rtol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("options", [{}, {"attention": "softmax"}], ids=str)
def test_cuda(options):
    x = tokens()
    here = value_gradient_norms(AttentionStack(3, 6, 8, rng=1, **options), x, rng=2)
    there = AttentionStack(3, 6, 8, rng=1, device="cuda", **options)
    np.testing.assert_allclose(value_gradient_norms(there, x, rng=2), here, rtol=1e-8)


def test_the_stack_is_left_as_it_was():
    stack, x = AttentionStack(2, 6, 8, attention="softmax", rng=1), tokens()
    free = value_gradient_norm(stack, x, 1, rng=1)
    stack.requires_grad_(False)
    tensor = torch.from_numpy(x).requires_grad_()
    assert value_gradient_norm(stack, tensor, 1, rng=1) == pytest.approx(free, rel=1e-12)
    assert not any(p.requires_grad for p in stack.parameters())
    assert tensor.grad is None
    assert all(p.grad is None for p in stack.parameters())
    with torch.no_grad():
        assert value_gradient_norm(stack, x, 1, rng=1) == pytest.approx(free, rel=1e-12)
    with torch.inference_mode():
        again = value_gradient_norm(stack, torch.from_numpy(x) + 0, 1, rng=1)
    assert again == pytest.approx(free, rel=1e-12)


def test_an_estimate_is_a_float():
    estimate = Estimate(2.0, standard_error=0.5, probes=9)
    assert (estimate + 1, math.sqrt(estimate**2), f"{estimate:.1f}") == (3.0, 2.0, "2.0")
    again = pickle.loads(pickle.dumps(estimate))
    assert (again, again.standard_error, again.probes) == (2.0, 0.5, 9)
    assert np.array([estimate, 1.0]).dtype == np.float64


def test_it_is_faster_than_the_jacobian():
    """Measured: 2,500 to 4,000 times (exact), 140 to 350 times (probes to 3 %), at T = d = 60.

    A tenth of the least, on a machine that may be busy.
    """
    x = isometric_input(60, 60, rng=1)
    for options, least in (({}, 250), ({"attention": "softmax"}, 14)):
        stack = AttentionStack(3, 60, 60, rng=1, **options)

        def slow(stack=stack):
            f = lambda W: torch.func.functional_call(  # noqa: E731
                stack, {"layers.1.value": W}, (torch.from_numpy(x),)
            )
            W = stack.value_weights[1].detach()
            return torch.autograd.functional.jacobian(f, W).norm().item()

        start = time.perf_counter()
        exact = slow()
        jacobian = time.perf_counter() - start
        times = []
        for seed in range(5):
            start = time.perf_counter()
            norm = value_gradient_norm(stack, x, 2, rng=seed)
            times.append(time.perf_counter() - start)
            assert norm == pytest.approx(exact, rel=1e-10 if not options else 0.15)
        assert jacobian > least * min(times)


# ------------------------------------------------------------------ refusals

STACK = AttentionStack(2, 3, 4, attention="softmax", rng=1)
MARKOV = AttentionStack(2, 3, 4, rng=1)
X = np.ones((3, 4))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: value_gradient_norm(MARKOV, X, 0), ValueError, "layer .*at least 1, got 0"),
        (lambda: value_gradient_norm(MARKOV, X, 3), ValueError, "layer must be at most .*2, got 3"),
        (lambda: value_gradient_norm(MARKOV, X, 1.0), TypeError, "layer .*whole .*pass an int"),
        (lambda: value_gradient_norm("stack", X, 1), TypeError, "stack must be a .*, got str"),
        (lambda: value_gradient_norms(X, X), TypeError, "stack must be a .*, got ndarray"),
        (lambda: value_gradient_norm(MARKOV, X.T, 1), ValueError, r"x must have shape .*\(4, 3\)"),
        (lambda: value_gradient_norm(MARKOV, X[None], 1), ValueError, r"x must be one .*\(1, 3, 4"),
        (lambda: value_gradient_norm(MARKOV, X * np.nan, 1), ValueError, "x must be finite"),
        (lambda: value_gradient_norm(STACK, X, 1, rtol=0), ValueError, "rtol .*above 0, got 0"),
        (lambda: value_gradient_norm(STACK, X, 1, probes=7), ValueError, "probes .*least 8, got 7"),
        (lambda: value_gradient_norm(STACK, X, 1, rng="a"), TypeError, "rng must be None"),
        (lambda: value_gradient_norm(MARKOV, X, 1, rng=-1), ValueError, "rng as a seed"),
        (lambda: query_key_gradient_norm(MARKOV, X, 1), ValueError, "stack must have .*'markov'"),
        (lambda: query_key_gradient_norms(MARKOV, X), ValueError, "neither queries nor keys; pass"),
        (lambda: query_key_gradient_norm(STACK, X, 3), ValueError, "layer must be at most"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_weights_that_are_not_finite():
    stack = AttentionStack(3, 3, 4, rng=1)
    with torch.no_grad():
        stack.value_weights[1][0, 0] = math.nan
    with pytest.raises(ValueError, match="stack must have finite weights, got NaN"):
        value_gradient_norm(stack, X, 1)


def test_examples_run():
    result = doctest.testmod(gradients)
    assert result.attempted > 0
    assert result.failed == 0
    assert sorted(gradients.__all__) == gradients.__all__


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("depth", "tokens", "seed"), [(8, 12, 1), (30, 20, 1)])
def test_stacks_whose_rows_pick_one_token_have_an_estimate(depth, tokens, seed):
    """There all squares but one can be zero, and no scatter can be seen in them."""
    stack = AttentionStack(depth, tokens, tokens, attention="softmax", rng=seed)
    x = isometric_input(tokens, tokens, rng=seed)
    for norms in (value_gradient_norms, query_key_gradient_norms):
        found = norms(stack, x, log=True, rng=0)
        assert len(found) == depth
        assert not any(math.isnan(float(norm)) for norm in found)


@pytest.mark.parametrize("rtol", [1e-12, 1e-17, 1e-300])
def test_a_tolerance_below_rounding_ends_with_the_most_probes_and_a_warning(rtol):
    stack = AttentionStack(2, 8, 8, attention="softmax", rng=0)
    x = isometric_input(8, 8, rng=0)
    with pytest.warns(UserWarning, match="100 probes leave a relative standard error"):
        found = value_gradient_norm(stack, x, 1, rtol=rtol, probes=100, rng=0)
    assert found.probes == 100
