"""The package imports fast, lazily, and its docstrings' examples run."""

import doctest
import importlib
import subprocess
import sys

import pytest

import gapcourse

MODULES = [
    *("attention", "ensembles", "gradients", "laws", "networks"),
    *("operators", "predictions", "spectra", "sweeps"),
]
NEED_TORCH = {"gradients", "networks"}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_is_fast():
    code = (
        "import time; start = time.perf_counter(); import gapcourse; "
        "print(time.perf_counter() - start)"
    )
    assert min(float(run(code)) for _ in range(3)) < 0.3


def test_import_brings_no_heavy_package():
    heavy = "{'numpy', 'scipy', 'matplotlib', 'torch'} & set(sys.modules)"
    assert run(f"import sys, gapcourse; dir(gapcourse); print({heavy})") == "set()"


def test_numeric_modules_bring_neither_torch_nor_matplotlib():
    uses = "g.ensembles, g.laws, g.predictions, g.attention, g.spectra, g.operators"
    code = (
        f"import sys, gapcourse as g; {uses}; print({{'torch', 'matplotlib'}} & set(sys.modules))"
    )
    assert run(code) == "set()"


def test_submodules_load_on_first_use():
    code = (
        "import sys, gapcourse; before = 'gapcourse.laws' in sys.modules; "
        "gapcourse.laws; print(before, 'gapcourse.laws' in sys.modules)"
    )
    assert run(code) == "False True"


def test_dir_names_every_submodule_and_a_typo_is_an_attribute_error():
    assert set(MODULES) <= set(dir(gapcourse))
    with pytest.raises(AttributeError, match=r"no attribute 'spektra'.*spectra"):
        gapcourse.spektra  # noqa: B018


def test_version_is_a_string():
    assert gapcourse.__version__[0].isdigit()


@pytest.mark.parametrize("name", MODULES)
def test_all_is_sorted_and_true(name):
    if name in NEED_TORCH:
        pytest.importorskip("torch")  # an extra
    module = importlib.import_module(f"gapcourse.{name}")
    assert sorted(module.__all__) == module.__all__
    for public in module.__all__:
        assert getattr(module, public).__doc__, public


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    if name in NEED_TORCH or name == "attention":  # one of its functions does
        pytest.importorskip("torch")
    result = doctest.testmod(importlib.import_module(f"gapcourse.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
