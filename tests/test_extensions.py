"""The book's own Sphinx extensions, on a page made for the purpose."""

import json
import re
import sys
from pathlib import Path

import pytest
from docutils import nodes
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "_ext"))


PAGE = r"""# A law of $T$, and its title

A law ($T \to \infty$), the $k$th of $T$.
The **edge of $A$** is *$2\sigma$*; $A$-dependent [$s_2$](https://example.org/), and $c$ alone.
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Return the page as a reader's browser gets it, before it is HTML."""
    folder = tmp_path_factory.mktemp("book")
    (folder / "index.md").write_text(PAGE, encoding="utf-8")
    options = {
        "extensions": ["myst_parser", "course_assets"],
        "myst_enable_extensions": ["dollarmath"],
        "html_theme_options": {"repository_url": "https://example.org/owner/name"},
    }
    places = (folder, None, folder / "out", folder / "trees")
    app = Sphinx(*places, "html", confoverrides=options, status=None, warning=None)
    app.builder.read()
    return app.env.get_and_resolve_doctree("index", app.builder)


def test_no_line_ends_between_a_formula_and_what_touches_it(page):
    kept = [node.astext() for node in page.findall(nodes.inline) if "nowrap" in node["classes"]]
    assert kept == [
        "T,",
        *(r"(T \to \infty),", "kth", "T."),
        *(r"2\sigma;", "A-", "s_2,"),
    ]


def test_nothing_is_lost_or_added(page):
    title, text = page[0]
    assert title.astext() == "A law of T, and its title"
    assert text.astext().replace("\n", " ") == (
        r"A law (T \to \infty), the kth of T. "
        r"The edge of A is 2\sigma; A-dependent s_2, and c alone."
    )
    [link] = page.findall(nodes.reference)
    assert link["refuri"] == "https://example.org/"
    assert len(list(page.findall(nodes.math))) == 9


def test_the_versions_page_names_what_the_chapters_import():
    imported, recorded = set(), set()
    for path in (ROOT / "chapters").rglob("[a-z0-9]*.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        recorded |= set(notebook["metadata"]["gapcourse"]["versions"])
        for cell in notebook["cells"]:
            code = "".join(cell["source"]) if cell["cell_type"] == "code" else ""
            imported |= set(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE))
    imported = {name.replace("sklearn", "scikit-learn") for name in imported}
    assert {"torch", "scikit-learn"} <= imported - set(sys.stdlib_module_names) <= recorded
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert all(f"\n{name}==" in pins for name in recorded - {"python", "gapcourse"})
