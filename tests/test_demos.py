"""The demos without a browser: arguments, traits, stored text, and the files behind them."""

import builtins
import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gapcourse import demos, ensembles

ROOT = Path(__file__).resolve().parent.parent
MODULE = (ROOT / "gapcourse/demos.mjs").read_text(encoding="utf-8")


def test_arguments_become_synced_traits():
    demo = demos.spectrum(tokens=40, sigma=0.3, entries="pareto", seed=9, view="ranks")
    state = demo.get_state()
    assert {k: state[k] for k in ("tokens", "sigma", "entries", "seed", "view")} == {
        "tokens": 40,
        "sigma": 0.3,
        "entries": "pareto",
        "seed": 9,
        "view": "ranks",
    }
    assert state["ensembles"] == demos.ENSEMBLES
    assert state["_esm"] == MODULE


def test_text_is_short_and_the_same_in_every_run():
    text = "SpectrumDemo(tokens=150, sigma=1, entries='lognormal', seed=1)"
    assert repr(demos.spectrum()) == text
    assert demos.spectrum()._repr_mimebundle_()[0]["text/plain"] == text


@pytest.mark.parametrize("entries", demos.ENSEMBLES)
def test_natural_sigma_is_that_of_the_package(entries):
    sigma = demos.spectrum(entries=entries).sigma
    assert sigma == pytest.approx(3**-0.5 if entries == "uniform" else 1.0)
    ensembles.random_markov(4, entries=entries, sigma=sigma, rng=0)


@pytest.mark.parametrize("entries", demos.ENSEMBLES)
@pytest.mark.parametrize("end", ["low", "high"])
def test_package_has_the_whole_range_of_each_ensemble(entries, end):
    sigma = demos.ENSEMBLES[entries][end]
    ensembles.random_markov(20, entries=entries, sigma=sigma, rng=0)
    assert demos.spectrum(entries=entries, sigma=sigma).sigma == sigma


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"tokens": 9}, ValueError, "tokens.*10.*got 9"),
        ({"tokens": 301}, ValueError, "tokens.*300.*got 301"),
        ({"tokens": 50.0}, TypeError, "tokens.*whole number.*50.0"),
        ({"tokens": True}, TypeError, "tokens.*True"),
        ({"tokens": "50"}, TypeError, "tokens.*'50'"),
        ({"sigma": 0}, ValueError, "sigma.*above 0.*got 0"),
        ({"sigma": 2.5}, ValueError, "sigma.*between 0.1 and 2.*got 2.5.*sigma=None"),
        ({"sigma": float("nan")}, ValueError, "sigma.*NaN"),
        ({"sigma": "1"}, TypeError, "sigma.*'1'"),
        ({"sigma": 1.0, "entries": "uniform"}, ValueError, "sigma.*uniform.*got 1.0.*1/√3"),
        ({"sigma": 0.5, "entries": "exponential"}, ValueError, "sigma.*exponential.*got 0.5"),
        ({"entries": "cauchy"}, ValueError, "entries.*one of.*pareto.*got 'cauchy'"),
        ({"entries": 3}, TypeError, "entries.*name.*got 3"),
        ({"seed": -1}, ValueError, "seed.*got -1"),
        ({"seed": 2**31}, ValueError, "seed.*got 2147483648"),
        ({"seed": None}, TypeError, "seed.*None"),
        ({"view": "pie"}, ValueError, "view.*one of.*histogram.*got 'pie'"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        demos.spectrum(**arguments)


def test_missing_anywidget_names_the_remedy(monkeypatch):
    def no_anywidget(name, *rest, _import=builtins.__import__, **named):
        if name == "anywidget":
            raise ImportError(name)
        return _import(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", no_anywidget)
    with pytest.raises(ImportError, match=r'pip install "gapcourse\[notebooks\]"'):
        importlib.reload(demos)


def test_only_what_ipywidgets_7_knows_is_used():
    # ipywidgets 8 added the traits tabbable and tooltip; ours must not use them.
    own = set(demos.SpectrumDemo.class_own_traits())
    assert own == {"tokens", "sigma", "entries", "seed", "view", "ensembles"}


def test_module_asks_nobody_for_anything():
    assert "http" not in MODULE
    assert "import " not in MODULE
    assert "fetch(" not in MODULE


def test_wheel_holds_the_module():
    # The build takes every file of the package that git does not ignore.
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    assert wheel["build"]["targets"]["wheel"] == {"packages": ["gapcourse"]}
    command = ["git", "check-ignore", "--quiet", "gapcourse/demos.mjs"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode != 0


@pytest.mark.parametrize(
    "notebook", sorted((ROOT / "chapters").glob("*.ipynb")), ids=lambda p: p.stem
)
def test_notebooks_hold_the_present_module(notebook):
    metadata = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]
    state = metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {})
    for model in state.get("state", {}).values():
        if "_esm" in model["state"]:
            same = model["state"]["_esm"] == MODULE
            assert same, "the stored demo is an old one: run make execute"


def test_libraries_are_as_in_their_manifest():
    command = [sys.executable, str(ROOT / "tools/libraries.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_each_library_has_its_licence():
    manifest = json.loads((ROOT / "_lib/manifest.json").read_text(encoding="utf-8"))
    for name, library in manifest["libraries"].items():
        assert (ROOT / "_lib" / name / "LICENSE.txt").stat().st_size > 500
        assert library["package"]
        assert library["licence"]
