"""A check that can't fail is worth nothing: each claim must notice a wrong formula.

Twice over: the formula inside the check is moved, by 10 to 20 % either way; and the function of the
package that the claim names is replaced by one that is wrong by 15 %.
"""

import inspect
import itertools
import pkgutil

import numpy as np
import pytest

from gapcourse import predictions
from tests import claims, test_claims  # noqa: F401  (claims registers the measurements)
from tests.claims import ledger
from tests.claims.ledger import Curve, Identity, Mutation, Sign

MUTATIONS = [Mutation(*pair) for pair in itertools.product(("constant", "exponent"), (1, -1))]
NAMED = {claim["id"]: claim.get("formulas") or [] for claim in ledger.read()}
FORMULAS = [(claim, name) for claim, names in NAMED.items() for name in names]


@pytest.mark.parametrize("claim", ledger.MEASUREMENTS)
def test_wrong_formula_is_noticed(claim):
    checks = ledger.MEASUREMENTS[claim]()
    pairs = [(c, m) for c in checks for m in MUTATIONS if m.part in c.parts]
    assert pairs, "no check of this claim could notice a wrong formula"
    missed = [f"{c.label}: {m}" for c, m in pairs if not c.failures(m)]
    assert not missed, "\n".join(missed)


@pytest.mark.parametrize("claim", ledger.MEASUREMENTS)
def test_steps_are_small(claim):
    for check in ledger.MEASUREMENTS[claim]():
        for step in ("step", "exponent_step"):
            assert 0.1 <= getattr(check, step, 0.1) <= 0.2, check.label


@pytest.mark.parametrize("factor", [1.15, 0.85])
@pytest.mark.parametrize(("claim", "formula"), FORMULAS)
def test_wrong_package_is_noticed(claim, formula, factor, monkeypatch):
    test_claims.test_claim(claim)  # measured, and kept, with the true package
    true = pkgutil.resolve_name(formula)
    if isinstance(true, property):
        wrong = property(lambda law: factor * true.fget(law))
    else:

        def wrong(*args, **options):
            return factor * true(*args, **options)

    monkeypatch.setattr(formula, wrong)
    with pytest.raises(AssertionError):
        test_claims.test_claim(claim)


@pytest.mark.parametrize("claim", ledger.MEASUREMENTS)
def test_every_formula_used_is_named(claim, monkeypatch):
    """What a check asks of `gapcourse.predictions`, the test above makes wrong."""
    checks, used = ledger.MEASUREMENTS[claim](), set()

    def watched(name, function):
        return lambda *args, **options: used.add(name) or function(*args, **options)

    for name, function in inspect.getmembers(predictions, inspect.isfunction):
        if function.__module__ == predictions.__name__ and not name.startswith("_"):
            formula = f"{predictions.__name__}.{name}"
            monkeypatch.setattr(predictions, name, watched(formula, function))
    for check in checks:
        check.failures()
    missing = sorted(used - set(NAMED.get(claim, [])))
    assert not missing, f"claims.yml: add {missing} to the formulas of {claim}"


# The logic of a check itself, on made-up data.

SIZES = np.array([100.0, 200.0, 400.0])


def _curve(measured, **options):
    given = {"stderr": np.full(3, 0.001), "bias": np.zeros(3), "exponent": -0.5, **options}
    return Curve("made up", SIZES, measured, predict=lambda T: 2 * T**-0.5, **given)


def test_curve_accepts_the_truth_and_what_its_errors_allow():
    assert not _curve(2 * SIZES**-0.5).failures()
    assert not _curve(2.007 * SIZES**-0.5).failures()
    assert not _curve(2.1 * SIZES**-0.5, correction=1.05).failures()
    assert not _curve(2.1 * SIZES**-0.5, bias=np.full(3, 0.05)).failures()


def test_curve_refuses_a_wrong_level_a_wrong_rate_and_nan():
    assert len(_curve(2.1 * SIZES**-0.5).failures()) == 3
    (only,) = _curve(2.1 * SIZES**-0.6, level=False).failures()
    assert "rate" in only
    assert _curve(np.full(3, np.nan)).failures()


def test_identity_refuses_what_is_left_over_and_nan():
    assert not Identity("made up", lambda factor: abs(factor - 1), 1e-12).failures()
    for left in (1e-11, np.nan):
        assert Identity("made up", lambda factor, left=left: left, 1e-12).failures()


def test_sign_wants_k_standard_errors():
    assert not Sign("made up", 0.5, 0.1).failures()
    assert Sign("made up", 0.3, 0.1).failures()
    assert Sign("made up", np.nan, 0.1).failures()


def test_a_claim_is_measured_once():
    with pytest.raises(ValueError, match="measured twice"):
        ledger.measures("markov-identities")(list)
