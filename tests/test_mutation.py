"""A check that can't fail is worth nothing: each claim must notice a wrong formula.

Twice over: the formula inside the check is moved, by 10 to 20 % either way; and the function of the
package that the claim names is replaced by one that is wrong by 15 %.
"""

import itertools
import pkgutil

import numpy as np
import pytest

from tests import claims  # noqa: F401  (registers the measurements)
from tests.claims import ledger
from tests.claims.ledger import Curve, Identity, Mutation, Sign

MUTATIONS = [Mutation(*pair) for pair in itertools.product(("constant", "exponent"), (1, -1))]
FORMULAS = [(c["id"], name) for c in ledger.read() for name in c.get("formulas", [])]


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
    ledger.MEASUREMENTS[claim]()  # measured with the true package
    assert not ledger.failures(claim)
    true = pkgutil.resolve_name(formula)
    monkeypatch.setattr(formula, lambda *args, **options: factor * true(*args, **options))
    assert ledger.failures(claim)


def test_every_formula_used_is_named():
    """A claim without a formula of the package says so by having none; there are few."""
    without = set(ledger.MEASUREMENTS) - {claim for claim, _ in FORMULAS}
    assert without <= {"infinite-variance", "power-norms"}


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
