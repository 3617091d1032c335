"""The claim ledger: every claim measured, and the ledger itself kept true.

One claim: `python -m pytest tests/test_claims.py -k second-singular-value`; other seeds than the
usual ones: `CLAIMS_SEED=5 python -m pytest tests/test_claims.py`.
"""

import pkgutil
import re

import nbformat
import pytest

from tests import claims  # noqa: F401  (registers the measurements)
from tests.claims import ledger

CLAIMS = ledger.read()
IDS = [claim["id"] for claim in CLAIMS]
each_claim = pytest.mark.parametrize("claim", CLAIMS, ids=IDS)


@pytest.mark.parametrize("name", IDS)
def test_claim(name):
    found = ledger.failures(name)
    assert not found, "\n".join(found)


def test_every_claim_is_measured_and_every_measurement_claimed():
    tested = {claim["id"] for claim in CLAIMS if not claim["verdict"].startswith("not tested")}
    assert tested == set(ledger.MEASUREMENTS)


def test_ids_are_unique_and_fit_for_links():
    assert len(set(IDS)) == len(IDS)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in IDS)


@each_claim
def test_fields(claim):
    assert isinstance(claim.get("formulas"), list), (
        f"claims.yml: say which functions of the package state {claim['id']}, for the mutation "
        "test to make wrong: formulas: [gapcourse.predictions.…], or formulas: [] if none does"
    )
    assert set(claim) - {"formulas"} == ledger.FIELDS
    assert all(isinstance(claim[field], str) and claim[field].strip() for field in ledger.FIELDS)
    assert claim["kind"] in ledger.KINDS
    verdict, _, reason = claim["verdict"].partition(": ")
    assert verdict in ledger.VERDICTS
    assert reason.strip(), "say what came out, how it deviates, or why it is not tested"


NAMES = (
    *("Catalan", "Dobrushin", "Frobenius", "Fuss", "Gaussian", "Kronecker", "Marchenko", "Markov"),
    *("Pastur", "Perron", "Xavier", "LayerNorm", "MLP", "ReLU"),
)


@each_claim
def test_a_title_is_a_heading_with_its_names_written_right(claim):
    title = claim["title"]
    assert title[0].isupper()
    assert not title.endswith(".")
    written = {name.lower(): name for name in NAMES} | {"iid": "i.i.d.", "lognormal": "log-normal"}
    wrong = [w for w in re.findall(r"\w+", title) if written.get(w.lower(), w) != w]
    assert not wrong, f"{wrong} in {title}"


def test_titles_are_unique():
    titles = [claim["title"] for claim in CLAIMS]
    assert len(set(titles)) == len(titles)


@each_claim
def test_named_things_exist(claim):
    assert claim["test"] == f"tests/test_claims.py::test_claim[{claim['id']}]"
    for formula in claim.get("formulas") or []:
        named = pkgutil.resolve_name(formula)
        assert callable(named) or isinstance(named, property), formula


@each_claim
def test_chapter_shows_the_claim(claim):
    where = claim["chapter"]
    folder, names = ledger.ROOT / "chapters", f"{where}-*.ipynb"
    paths = list((folder / where).glob("*.ipynb") if where == "experiments" else folder.glob(names))
    assert paths, f"there is no chapter {where}"
    cells = [cell for path in paths for cell in nbformat.read(path, as_version=4).cells]
    tags = {tag for cell in cells for tag in cell.metadata.get("tags", [])}
    figures = {cell.metadata.get("mystnb", {}).get("figure", {}).get("name") for cell in cells}
    assert f"claim:{claim['id']}" in tags, f"no cell of {where} has the tag"
    assert claim["cell"] in tags | figures


def test_chapters_tag_no_unknown_claim():
    tags = {
        tag
        for path in (ledger.ROOT / "chapters").rglob("*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        for tag in cell.metadata.get("tags", [])
        if tag.startswith("claim:")
    }
    assert tags <= {f"claim:{name}" for name in IDS}
