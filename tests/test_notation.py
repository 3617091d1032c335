"""The notation page is true: names exist, symbols are used, no parameter is missing."""

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = (
    *("ensembles", "laws", "spectra", "attention", "networks", "gradients", "operators"),
    *("predictions", "sweeps"),
    *("figures", "demos"),
)
PAGE = (ROOT / "pages/notation.md").read_text(encoding="utf-8")
CHAPTERS = sorted((ROOT / "chapters").rglob("[a-z0-9]*.ipynb"))


HEAD = "| symbol | paper | Python | meaning |\n| --- | --- | --- | --- |\n"


def rows():
    """Return the cells of the tables: symbol, paper, Python, meaning."""
    lines = [line for line in PAGE.replace(HEAD, "").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def cells(kind):
    """Return the sources of all cells of one kind, over all chapters."""
    books = (json.loads(path.read_text(encoding="utf-8"))["cells"] for path in CHAPTERS)
    return ["".join(c["source"]) for book in books for c in book if c["cell_type"] == kind]


def parameters(function):
    return set(inspect.signature(function).parameters) - {"self", "args", "kwargs"}


def package():
    """Return the public names of the package, and the names of all parameters."""
    names, arguments = set(), set()
    for module in (importlib.import_module(f"gapcourse.{m}") for m in MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            names.add(name)
            if inspect.isclass(thing):
                members = {k: v for k, v in vars(thing).items() if not k.startswith("_")}
                names |= set(members)
                arguments |= parameters(thing)
                methods = (getattr(thing, k) for k in members)
                functions = [m for m in methods if inspect.isroutine(m)]  # class methods too
            else:
                functions = [thing] if inspect.isfunction(thing) else []
            arguments = arguments.union(*(parameters(f) for f in functions))
    return names, arguments


NAMES, ARGUMENTS = package()


def test_the_tables_can_be_read():
    assert len(rows()) >= 10
    assert PAGE.count(HEAD) == PAGE.count("\n## ") - 1  # one table a heading, but for the others
    assert all(len(row) == 4 and all(row) for row in rows())


@pytest.mark.parametrize(
    ("name", "dagger"), [found for row in rows() for found in re.findall(r"`(\w+)`(†?)", row[2])]
)
def test_a_python_name_exists(name, dagger):
    if not dagger:
        assert name in NAMES | ARGUMENTS, f"{name} is no name of the package"
    elif CHAPTERS:
        assert any(re.search(rf"\b{name}\b", code) for code in cells("code")), (
            f"no chapter has a variable {name}"
        )


def plain(latex):
    """Return a formula without what does not change its meaning."""
    latex = re.sub(r"\\[lr]Vert", r"\\|", latex)
    return re.sub(r"[\s{}]|\\[,;!]|\\left|\\right", "", latex)


@pytest.mark.skipif(not CHAPTERS, reason="no chapter yet")
@pytest.mark.parametrize("symbol", [row[0] for row in rows()])
def test_a_symbol_is_used(symbol):
    formulas = re.findall(r"\$\$?(.+?)\$\$?", "\n".join(cells("markdown")), flags=re.DOTALL)
    wanted = plain(symbol.strip("$")).removesuffix("_k")
    assert any(wanted in plain(formula) for formula in formulas), f"no chapter uses {symbol}"


def test_no_parameter_is_missing():
    missing = ARGUMENTS - set(re.findall(r"`(\w+)`", PAGE))
    assert not missing, f"parameters that the notation page does not name: {sorted(missing)}"


def test_nothing_else_is_named():
    others = set(re.findall(r"`(\w+)`", PAGE.split("## Other")[1]))
    assert others <= ARGUMENTS, f"no parameters of the package: {sorted(others - ARGUMENTS)}"
