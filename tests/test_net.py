"""The net under the notebooks catches what it should, and lets an untouched notebook pass.

One small notebook is executed, then damaged in many ways; nbval runs over them once, and each test
asks what it said of one. Finer damage is tried on the functions of the net themselves. Then a
constant is changed in a copy of the package.
"""

import ast
import copy
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
CHAPTER = ROOT / "chapters" / "03-the-spectral-gap.ipynb"
CELLS = {
    "setup": "import numpy as np\nfrom gapcourse import figures, predictions\n\n"
    "figures.use_style()\nrng = np.random.default_rng(1)",
    "number": "print(f'T = 400: the second singular value is "
    "{predictions.second_singular_value(400, 1.0):.4f}')",
    "figure": "fig, ax = figures.panel()\nax.plot([1, 2, 3, 4], [1.0, 4.0, 2.0, 3.0])\n"
    "figures.describe(ax, 'Four points joined by a line')\nfigures.show(fig)",
    "exempt": "# NBVAL_IGNORE_OUTPUT: stands for a timing\nprint('took 1.2 s')",
    "widget": "import ipywidgets\n\nipywidgets.IntSlider(3)",
}


def environment(package: Path) -> dict[str, str]:
    """Return the environment of a run that imports gapcourse from the folder `package`."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(package)}


def execute(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools" / "execute.py", *arguments]
    env = environment(ROOT)
    return subprocess.run(
        command, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )


def prepare(folder: Path) -> Path:
    """Make a copied folder: the net, the pins, no notebooks yet."""
    chapters = folder / "chapters"
    chapters.mkdir(parents=True)
    shutil.copy(ROOT / "chapters" / "conftest.py", chapters)
    shutil.copy(ROOT / "constraints.txt", folder)
    return chapters


def verdicts(folder: Path, package: Path = ROOT, *options: str) -> dict[str, dict[str, str]]:
    """Run nbval over a copied folder; what failed, by notebook and item."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "-q"]
    command += ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=60"]
    command += ["--junit-xml=report.xml", *options, "chapters"]
    env = environment(package)
    env.pop("PYTEST_ADDOPTS", None)
    run = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found: dict[str, dict[str, str]] = {p.stem: {} for p in (folder / "chapters").glob("*.ipynb")}
    seen = set()
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        notebook = re.sub(r"(\.ipynb)?(::.*)?$", "", case.get("classname", "")).split(".")[-1]
        notebook = notebook.rpartition("/")[2]
        seen.add(notebook)
        for failure in [*case.iter("failure"), *case.iter("error")]:
            found[notebook][case.get("name", "")] = failure.text or ""
    assert seen == set(found), run.stdout + run.stderr
    return found


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Run the small notebook through tools/execute.py."""
    cells = [new_markdown_cell("# Small", id="title")]
    cells += [new_code_cell(source, id=name) for name, source in CELLS.items()]
    path = tmp_path_factory.mktemp("executed") / "small.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    run = execute(path)
    assert run.returncode == 0, run.stdout + run.stderr
    return path


def damaged(nb):
    """Return every damage nbval is asked about: name -> a changed copy of the notebook."""
    variants: dict[str, nbformat.NotebookNode] = {}

    def variant(name):
        book = variants.setdefault(name, copy.deepcopy(nb))
        return {c["id"]: c for c in book.cells}

    variant("untouched")
    cells = variant("harmless")  # 0.1001 for 0.1000: rounding may do that; and an exempt output
    cells["number"].outputs[0].text = cells["number"].outputs[0].text.replace("0.1000", "0.1001")
    cells["exempt"].outputs[0].text = "took 9.8 s\n"

    cells = variant("values")  # a number; a figure with the same words and other data
    cells["number"].outputs[0].text = cells["number"].outputs[0].text.replace("0.1000", "0.1003")
    cells["figure"].source = cells["figure"].source.replace("4.0", "4.1")
    cells = variant("outputs")  # one removed; a figure with the same data and other pixels
    cells["number"].outputs = []
    cells["figure"].source = cells["figure"].source.replace("3.0])", "3.0], color='green')")
    cells = variant("frame")
    del cells["figure"].metadata["mystnb"]
    cells["exempt"].source = cells["exempt"].source.replace(": stands for a timing", "")
    cells["number"].execution_count, cells["figure"].execution_count = 3, 2
    cells = variant("stripped")
    for name in CELLS:
        cells[name].outputs, cells[name].execution_count = [], None
    return variants


@pytest.fixture(scope="module")
def found(executed, tmp_path_factory):
    """Ask nbval about every damaged notebook, in one run."""
    folder = tmp_path_factory.mktemp("net")
    chapters = prepare(folder)
    for name, book in damaged(nbformat.read(executed, as_version=4)).items():
        nbformat.write(book, chapters / f"{name}.ipynb")
    return verdicts(folder)


@pytest.mark.parametrize("name", ["untouched", "harmless"])
def test_sound_notebook_passes(found, name):
    assert found[name] == {}


@pytest.mark.parametrize(
    ("name", "item", "says"),
    [
        ("values", "Cell 1", "a number differs: stored 0.1003, now 0.1000"),
        ("values", "Cell 2", "figure.0.artists.0.y"),
        ("outputs", "Cell 1", "stored outputs are none, now stdout"),
        ("frame", "stored outputs", "has no alternative text"),
        ("frame", "stored outputs", "exempt without a reason"),
        ("frame", "stored outputs", "the cells count [1, 3, 2, 4, 5]"),
        ("stripped", "stored outputs", "5 of 5 code cells have not been run"),
    ],
)
def test_damage_is_caught(found, name, item, says):
    assert item in found[name], f"not caught: {found[name]}"
    assert says in found[name][item]


def test_changed_colour_is_caught_in_the_pinned_environment(found):
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if platform.system() != "Linux" or f"matplotlib=={version('matplotlib')}" not in pins:
        pytest.skip("pixels are compared on Linux with the pinned matplotlib only")
    assert "pixels changed, the data did not" in found["outputs"]["Cell 2"]


# --- finer damage, tried on the functions of the net ----------------------------------------------


@pytest.fixture(scope="module")
def net():
    """Load chapters/conftest.py as a module."""
    spec = importlib.util.spec_from_file_location("net", ROOT / "chapters" / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s = 0.2003", "s = 0.2004"),  # one unit of the last digit
        ("x 9.999", "x 10.00"),  # the finer unit
        ("0.9999", "1"),  # %g drops zeros
        ("1.23456789e-05", "1.23456788e-05"),
        ("0.123456789012", "0.123456789345"),  # more than six digits: a relative 1e-6
        ("size   9.999  a", "size  10.00   a"),  # padding is not a word
        ("−0.500 by theory", "−0.5001 by theory"),
    ],
)
def test_rounding_is_forgiven(net, old, new):
    assert net.same_text(old, new) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s = 0.2003", "s = 0.2005"),
        ("0.5", "0.6"),  # one unit, but a fifth of the number
        ("1.00", "1.01"),
        ("T = 400", "T = 401"),
        ("1", "0.1"),
        ("2.0e-03", "2.0e-04"),
        ("-0.500", "0.500"),
        ("True", "False"),
        ("second value 0.1", "third value 0.1"),
        ("0.1", "0.1 0.1"),
        ("one\ntwo", "one two"),
    ],
)
def test_other_text_is_not(net, old, new):
    assert net.same_text(old, new)
    assert net.same_text(new, old)


def _alt(cells):
    cells["figure"].metadata["mystnb"]["image"]["alt"] = "Five points joined by a line."


def _unpublished(cells):
    cells["figure"].outputs[0].metadata = {}


def _two_figures(cells):
    cells["figure"].outputs *= 2


def _tag(cells):
    cells["number"].metadata["tags"] = ["nbval-ignore-output"]


def _exempt_claim(cells):
    cells["exempt"].metadata["tags"] = ["claim:second-singular-value"]


def _skip(cells):
    cells["number"].source = "# NBVAL_SKIP\n" + cells["number"].source


def _skip_tag(cells):
    cells["number"].metadata["tags"] = ["nbval-skip"]


def _unrun(cells):
    cells["number"].outputs, cells["number"].execution_count = [], None


def _second_run(cells):
    for i, name in enumerate(CELLS):
        cells[name].execution_count = i + 6


def _many(cells):
    for name in ("number", "widget"):
        cells[name].source = "# NBVAL_IGNORE_OUTPUT: why not\n" + cells[name].source


def test_a_figure_more_or_less_is_not_the_same(net, executed):
    nb = nbformat.read(executed, as_version=4)
    outputs = next(c for c in nb.cells if c.id == "figure").outputs
    assert net.same_figures(outputs, outputs) == ""
    assert net.same_figures(outputs, []) == "stored has 1 figures, now 0"
    assert net.same_figures([], outputs) == "stored has 0 figures, now 1"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_alt, "alternative text is not the figure's"),
        (_unpublished, "end the cell with figures.show"),
        (_two_figures, "publishes 2 figures"),
        (_tag, "exempt without a reason"),
        (_exempt_claim, "carries a claim"),
        (_skip, "skips the check"),
        (_skip_tag, "skips the check"),
        (_unrun, "1 of 5 code cells have not been run"),
        (_second_run, "the cells count [6, 7, 8, 9, 10]"),
        (_many, "3 of 5 cells are exempt"),
    ],
)
def test_faults_of_stored_outputs(net, executed, damage, says):
    nb = nbformat.read(executed, as_version=4)
    assert net.faults(nb) == []
    damage({c["id"]: c for c in nb.cells})
    assert any(says in fault for fault in net.faults(nb)), net.faults(nb)


# --- a changed constant in the package ------------------------------------------------------------


def mutated_package(folder: Path) -> Path:
    """Copy gapcourse, with 2.2 sigma/sqrt(T) for 2 sigma/sqrt(T)."""
    shutil.copytree(
        ROOT / "gapcourse", folder / "gapcourse", ignore=shutil.ignore_patterns("__pycache__")
    )
    module = folder / "gapcourse" / "predictions.py"
    source = module.read_text(encoding="utf-8")
    tree = ast.parse(source)
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    function = next(f for f in functions if f.name == "second_singular_value")
    formula = ast.unparse(function.body[-1])
    assert formula.count("2 * sigma") == 1, formula
    lines = source.splitlines(keepends=True)
    first, last = function.body[-1].lineno - 1, function.end_lineno
    changed = "".join(lines[first:last]).replace("2 * sigma", "2.2 * sigma")
    module.write_text("".join([*lines[:first], changed, *lines[last:]]), encoding="utf-8")
    asked = "from gapcourse import predictions as p; print(p.second_singular_value(400, 1.0))"
    run = subprocess.run(
        [sys.executable, "-c", asked], cwd=folder, env=environment(folder), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert float(run.stdout) == pytest.approx(0.11)
    return folder


@pytest.fixture(scope="module")
def mutated(tmp_path_factory):
    """Return the folder of the changed package."""
    return mutated_package(tmp_path_factory.mktemp("package"))


def test_changed_constant_is_caught(executed, mutated, tmp_path):
    shutil.copy(executed, prepare(tmp_path))
    found = verdicts(tmp_path, mutated)
    assert list(found["small"]) == ["Cell 1"]
    assert "stored 0.1000, now 0.1100" in found["small"]["Cell 1"]


def test_changed_constant_is_caught_in_the_chapter(mutated, tmp_path):
    if not CHAPTER.exists():
        pytest.skip("chapter 03 is not written yet")
    shutil.copy(CHAPTER, prepare(tmp_path))
    found = verdicts(tmp_path, mutated, "-x", "-k", "Cell")  # the first cell that notices is enough
    assert found[CHAPTER.stem], "not caught"
    assert all("Cell outputs differ" in text for text in found[CHAPTER.stem].values()), found


# --- tools/execute.py -----------------------------------------------------------------------------


def test_execute_is_reproducible(executed):
    run = execute("--check", executed)
    assert run.returncode == 0, run.stdout
    assert "byte-identical" in run.stdout


def test_execute_writes_what_the_book_needs(executed):
    nb = nbformat.read(executed, as_version=4)
    cells = {c["id"]: c for c in nb.cells}
    assert list(cells) == ["title", *CELLS]
    assert cells["figure"].metadata.mystnb.image.alt == "Four points joined by a line."
    assert cells["figure"].outputs[0].metadata.gapcourse.data
    assert set(nb.metadata.gapcourse.versions) == {
        "python", "numpy", "scipy", "matplotlib", "torch", "transformers", "tokenizers",
        "scikit-learn", "gapcourse",
    }  # fmt: skip
    assert nb.metadata.kernelspec == {
        "name": "python3", "display_name": "Python 3", "language": "python",
    }  # fmt: skip
    view = cells["widget"].outputs[0].data["application/vnd.jupyter.widget-view+json"]
    assert view.model_id in nb.metadata.widgets["application/vnd.jupyter.widget-state+json"].state
    assert all("execution" not in c.metadata for c in nb.cells)


def test_execute_names_the_failing_cell_and_keeps_the_file(tmp_path):
    path = tmp_path / "broken.ipynb"
    cells = [new_code_cell("x = 1", id="fine"), new_code_cell("x / 0", id="wrong")]
    nbformat.write(new_notebook(cells=cells), path)
    before = path.read_bytes()
    run = execute(path)
    assert run.returncode == 1
    for part in ("broken.ipynb", "code cell 2 of 2 (id wrong)", "ZeroDivisionError"):
        assert part in run.stdout
    assert path.read_bytes() == before
