"""One address and one setup cell, the same everywhere; and the setup cell leaves others alone."""

import ast
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))


def tool(name):
    """Import one of the tools, which are scripts and no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


repository, setup_cell, colab = tool("repository"), tool("setup_cell"), tool("colab")
HOST = "https://github.com"  # no whole address stands in this file: it would be rewritten, too
OTHER = f"{HOST}/Someone/their-course"
PAGES = "https://{}.github.io/{}"


@pytest.fixture
def copy(tmp_path):
    """Copy the project's text files."""
    for path in repository.text_files():
        new = tmp_path / path.relative_to(ROOT)
        new.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, new)
    return tmp_path


# --- the address ----------------------------------------------------------------------------------


def test_the_address_is_the_same_everywhere():
    assert repository.problems() == []


def test_one_command_changes_it_everywhere(copy):
    old = repository.slug_of(repository.address())
    changed = repository.change(OTHER, root=copy)
    assert repository.address(root=copy) == OTHER
    assert repository.problems(root=copy) == []
    assert {copy / name for name in repository.MUST_HOLD} <= set(changed)
    owner, name = old.split("/")
    left = re.compile(rf"{old}\b|\b{owner}\.github\.io/{name}\b", re.IGNORECASE)
    for path in repository.text_files(copy):
        assert not left.search(path.read_text(encoding="utf-8")), f"{path.name} has the old address"
    for path in setup_cell.notebooks(copy):
        assert setup_cell.problem(path, copy) is None
    assert PAGES.format("someone", "their-course") in (copy / "README.md").read_text("utf-8")


def test_there_and_back_again_is_where_it_was(copy):
    before = repository.address(copy)
    repository.change(OTHER, root=copy)
    repository.change(before, root=copy)
    for path in repository.text_files(copy):
        assert path.read_bytes() == (ROOT / path.relative_to(copy)).read_bytes(), path.name


def test_an_address_left_behind_is_found(copy):
    page = copy / "README.md"
    page.write_text(page.read_text("utf-8") + f"\n{OTHER}/issues\n", encoding="utf-8")
    assert any("README.md: links to someone/their-course" in p for p in repository.problems(copy))


@pytest.mark.parametrize("url", ["", "gapcourse", "https://gitlab.com/a/b", f"{HOST}/a"])
def test_an_address_that_cannot_be_is_refused(url):
    with pytest.raises(ValueError, match=r"URL must look like https://github\.com/OWNER/NAME"):
        repository.slug_of(url)


def test_a_name_that_only_begins_alike_is_another():
    slug = repository.slug_of(repository.address())
    text = f"{HOST}/{slug}-extras and {HOST}/{slug}.git, {slug}"
    assert repository.rewrite(text, slug, "a/b") == (
        f"{HOST}/{slug}-extras and {HOST}/a/b.git, {slug}"
    )


# --- the setup cell -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", setup_cell.notebooks(), ids=lambda path: path.stem)
def test_a_notebook_has_the_common_setup_cell(path):
    assert setup_cell.problem(path) is None


def notebook(source, tags=("setup",)):
    cell = {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": [source]}
    return {"cells": [{"cell_type": "markdown", "metadata": {}, "source": []}, cell]}


def test_it_is_put_in_front_once_and_renewed(tmp_path):
    (tmp_path / "pyproject.toml").write_text(f'[project.urls]\nRepository = "{OTHER}"\n')
    path = tmp_path / "01-a.ipynb"
    path.write_text(json.dumps(notebook("import numpy as np\n\nrng = 1")))
    assert setup_cell.write(path, ROOT)
    assert setup_cell.problem(path, ROOT) is None
    assert not setup_cell.write(path, ROOT)
    assert setup_cell.problem(path, tmp_path) is not None
    assert setup_cell.write(path, tmp_path)
    source = "".join(setup_cell.setup_cell(json.loads(path.read_text()))["source"])
    assert source == setup_cell.block(tmp_path) + "\nimport numpy as np\n\nrng = 1"


def test_a_first_cell_without_the_tag_is_refused():
    with pytest.raises(ValueError, match="tag `setup`"):
        setup_cell.setup_cell(notebook("", tags=()))


def run_block(monkeypatch, *, in_colab):
    """Run the fetch block and return the commands it would have run."""
    ran = []
    monkeypatch.setattr(
        subprocess, "run", lambda command, **options: ran.append((command, options))
    )
    if in_colab:
        monkeypatch.setitem(sys.modules, "google.colab", sys)
    else:
        monkeypatch.delitem(sys.modules, "google.colab", raising=False)
    exec(setup_cell.block(), {})
    return ran


def test_outside_colab_it_does_nothing(monkeypatch):
    assert run_block(monkeypatch, in_colab=False) == []


def test_in_colab_it_installs_the_package_of_this_repository(monkeypatch):
    [(command, options)] = run_block(monkeypatch, in_colab=True)
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert command[-1] == f"gapcourse @ git+{repository.address()}@main"
    assert not {"--upgrade", "-U", "--force-reinstall"} & set(command)
    assert options == {"check": True}


# --- the rehearsal --------------------------------------------------------------------------------


def test_the_rehearsal_pins_every_version():
    pins = dict(pin.split("==") for pin in colab.pins())
    assert {"numpy", "matplotlib", "ipywidgets", "anywidget", "ipykernel"} | colab.OURS <= set(pins)


def test_a_kernel_of_the_rehearsal_sees_nothing_of_ours(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "ours")
    monkeypatch.setenv("VIRTUAL_ENV", "ours")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "2")
    variables = colab.surroundings(tmp_path, "file:///copy")
    assert variables["PYTHONPATH"] == str(tmp_path)
    assert "VIRTUAL_ENV" not in variables
    assert variables["GIT_CONFIG_COUNT"] == "3"
    assert variables["GIT_CONFIG_KEY_2"] == "url.file:///copy.insteadOf"
    assert variables["GIT_CONFIG_VALUE_2"] == repository.address()


def test_the_book_builds_without_what_only_the_checks_install():
    """`make test` builds in the larger environment, so look at the imports themselves."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["book"]]
    there = {re.split(r"[<>=\[]", line)[0].replace("-", "_") for line in wanted}
    there |= {"traitlets", "IPython"}  # with ipywidgets
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    there |= set(config["sphinx"]["config"]["autodoc_mock_imports"]) | set(sys.stdlib_module_names)
    for path in sorted((ROOT / "gapcourse").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            missing = {name.partition(".")[0] for name in names} - there
            assert not missing, f"{path.name} imports {missing}: add it to autodoc_mock_imports"
