"""The demos without a browser: arguments, traits, stored text, and the files behind them."""

import builtins
import contextlib
import importlib
import inspect
import json
import math
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import traitlets

from gapcourse import demos, ensembles

ROOT = Path(__file__).resolve().parent.parent
MODULE = (ROOT / "gapcourse/demos.mjs").read_text(encoding="utf-8")


SETTINGS = {
    "spectrum": {"tokens": 40, "sigma": 0.3, "entries": "pareto", "seed": 9, "view": "ranks"},
    "walk": {"tokens": 40, "sigma": 0.3, "entries": "gamma", "laziness": 0.5, "seed": 9},
    "noise": {"rows": 60, "columns": 60, "entries": "heavy", "factors": 2, "seed": 9},
    "attention": {
        "tokens": 40,
        "head_dim": 20,
        "logit_std": 1.2,
        "kind": "relu",
        "centred": True,
        "seed": 9,
    },
    "collapse": {
        "tokens": 40,
        "gamma": 0.5,
        "sigma": 0.3,
        "entries": "softmax",
        "layers": 5,
        "seed": 9,
    },
    "depth": {
        "tokens": 40,
        "layers": 5,
        "sigma": 0.3,
        "skip": "1/sqrt(depth)",
        "norm": "post",
        "mean_removal": True,
        "seed": 9,
    },
    "gradients": {"tokens": 40, "gamma": 0.5, "layers": 5, "sigma": 0.3, "seed": 9},
    "removal": {
        "tokens": 40,
        "gamma": 0.5,
        "sigma": 0.3,
        "entries": "gamma",
        "layers": 5,
        "seed": 9,
    },
    "training": {"depth": 6, "learning_rate": 0.005, "mean_removal": True, "seed": 9},
    "blocks": {
        "tokens": 40,
        "layers": 5,
        "attention": "dependent",
        "mask": "causal",
        "skip": "1/sqrt(depth)",
        "norm": "pre",
        "mean_removal": True,
        "seed": 9,
    },
    "heads": {
        "tokens": 40,
        "head_dim": 8,
        "logit_std": 1.2,
        "similarity": 0.5,
        "gamma": 1.2,
        "seed": 9,
    },
}
TEXTS = {
    "spectrum": "demos.spectrum(tokens=150, sigma=1, entries='lognormal', seed=1)",
    "walk": "demos.walk(tokens=100, sigma=1, entries='exponential', laziness=0, seed=1)",
    "noise": "demos.noise(rows=150, columns=150, entries='gaussian', factors=1, seed=1)",
    "attention": (
        "demos.attention(tokens=150, head_dim=150, logit_std=0.5, kind='softmax', "
        "centred=False, seed=1)"
    ),
    "collapse": (
        "demos.collapse(tokens=100, gamma=1, sigma=1, entries='exponential', layers=3, seed=1)"
    ),
    "depth": (
        "demos.depth(tokens=60, layers=12, sigma=1, skip='none', norm='none', "
        "mean_removal=False, seed=1)"
    ),
    "gradients": "demos.gradients(tokens=60, gamma=1, layers=6, sigma=1, seed=1)",
    "removal": (
        "demos.removal(tokens=100, gamma=1, sigma=1, entries='exponential', layers=6, seed=1)"
    ),
    "training": "demos.training(depth=4, learning_rate=0.01, mean_removal=False, seed=1)",
    "blocks": (
        "demos.blocks(tokens=60, layers=12, attention='markov', mask='none', skip='none', "
        "norm='none', mean_removal=False, seed=1)"
    ),
    "heads": (
        "demos.heads(tokens=64, head_dim=16, logit_std=0.5, similarity=0, gamma=0.5, seed=1)"
    ),
}
SCENES = pytest.mark.parametrize("scene", demos.CONTROLS)


@SCENES
def test_arguments_become_synced_traits(scene):
    demo = getattr(demos, scene)(**SETTINGS[scene])
    assert isinstance(demo, demos.Demo)
    state = demo.get_state()
    assert {name: state[name] for name in SETTINGS[scene]} == SETTINGS[scene]
    assert state["scene"] == scene
    assert state["_esm"] == MODULE


@SCENES
def test_text_is_the_call_and_the_same_in_every_run(scene):
    demo = getattr(demos, scene)()
    assert repr(demo) == TEXTS[scene]
    assert demo._repr_mimebundle_()[0]["text/plain"] == TEXTS[scene]
    assert repr(eval(repr(demo))) == TEXTS[scene]


@SCENES
def test_controls_are_in_order_and_named_as_the_arguments(scene):
    state = json.loads(json.dumps(getattr(demos, scene)().get_state()["controls"], sort_keys=True))
    assert [control["name"] for control in state] == list(demos.CONTROLS[scene])
    arguments = set(inspect.signature(getattr(demos, scene)).parameters)
    assert arguments - {"view"} == {*demos.CONTROLS[scene], "seed"}
    if scene in ("spectrum", "walk"):
        (options,) = (control["options"] for control in state if control["name"] == "entries")
        assert [option.pop("name") for option in options] == list(demos.ENSEMBLES)
        assert options == list(demos.ENSEMBLES.values())


@pytest.mark.parametrize(
    ("scene", "name"),
    [(s, n) for s, controls in demos.CONTROLS.items() for n, c in controls.items() if "step" in c],
)
def test_slider_has_whole_steps_and_its_ends_are_allowed(scene, name):
    control = demos.CONTROLS[scene][name]
    for end in (control["low"], control["high"]):
        unit = control["step"] if control["step"] < 1 else 1
        places = (math.log10(end) if control.get("log") else end) / unit
        assert places == pytest.approx(round(places), abs=1e-9)
        free = name == "sigma" and "entries" in demos.CONTROLS[scene]
        others = {"entries": "gamma"} if free else {}
        assert getattr(getattr(demos, scene)(**{name: end}, **others), name) == end


@pytest.mark.parametrize(
    ("scene", "start", "name", "value", "words"),
    [
        ("noise", {}, "entries", "lognormal", "entries.*one of.*heavy.*got 'lognormal'"),
        ("noise", {}, "rows", 201, "rows.*200.*got 201"),
        ("noise", {}, "factors", 0, "factors.*got 0"),
        ("noise", {"factors": 2}, "rows", 100, "rows.*columns.*2 factors.*100 and 150.*rows=150"),
        ("spectrum", {"entries": "exponential"}, "sigma", 0.3, "sigma.*exponential.*got 0.3"),
        ("walk", {"entries": "uniform"}, "sigma", 1, "sigma.*uniform.*got 1.*1/√3.*sigma=0.577"),
        ("spectrum", {}, "view", "pie", "view.*histogram.*got 'pie'"),
        ("spectrum", {}, "tokens", True, "tokens.*True"),
        ("attention", {}, "seed", -1, "seed.*got -1"),
        ("collapse", {}, "sigma", 0.5, "sigma.*exponential.*got 0.5.*sigma=1"),
        ("collapse", {}, "entries", "pareto", "entries.*one of.*softmax.*got 'pareto'"),
        ("collapse", {}, "gamma", 0.1, "gamma.*at least 0.25.*got 0.1"),
        ("depth", {}, "sigma", 3.0, "sigma.*at most 2.*got 3.*from 0.1 to 2"),
        ("depth", {}, "skip", "1/sqrt(L)", "skip.*one of.*depth.*got '1/sqrt"),
        ("gradients", {}, "layers", 0, "layers.*at least 1.*got 0"),
        ("removal", {}, "sigma", 0.5, "sigma.*exponential.*got 0.5.*sigma=1"),
        ("removal", {}, "entries", "softmax", "entries.*one of.*gamma.*got 'softmax'"),
        ("training", {}, "learning_rate", 2.0, "learning_rate.*at most 1.*got 2.*0.0001 to 1"),
        ("training", {}, "depth", 9, "depth.*at most 8.*got 9"),
        ("blocks", {}, "mask", "future", "mask.*one of.*causal.*got 'future'"),
        ("blocks", {}, "norm", "layer", "norm.*one of.*pre.*got 'layer'"),
        ("heads", {}, "similarity", 1.0, "similarity.*at most 0.95.*got 1"),
    ],
)
@pytest.mark.parametrize("held", [False, True])
def test_an_attribute_is_refused_as_the_argument_is(scene, start, name, value, words, held):
    demo = getattr(demos, scene)(**start)
    before = repr(demo)
    with (
        pytest.raises(ValueError, match=words),
        demo.hold_trait_notifications() if held else contextlib.nullcontext(),
    ):
        setattr(demo, name, value)
    assert repr(demo) == before


@pytest.mark.parametrize(
    ("scene", "start", "changes", "expected"),
    [
        ("noise", {"rows": 100}, {"factors": 3}, {"rows": 150}),
        ("noise", {"columns": 100}, {"factors": 3}, {"rows": 100}),
        ("noise", {"factors": 3}, {"columns": 80}, {"rows": 80}),
        ("noise", {"factors": 3}, {"factors": 1, "rows": 80}, {"columns": 150}),
        ("spectrum", {"sigma": 0.3}, {"entries": "exponential"}, {"sigma": 1}),
        ("walk", {"entries": "gamma"}, {"entries": "uniform"}, {"sigma": 1 / 3**0.5}),
        ("walk", {"entries": "gamma", "sigma": 0.3}, {"entries": "uniform"}, {"sigma": 0.3}),
        ("collapse", {"entries": "gamma", "sigma": 0.3}, {"entries": "exponential"}, {"sigma": 1}),
        ("removal", {"entries": "gamma", "sigma": 0.3}, {"entries": "exponential"}, {"sigma": 1}),
        ("collapse", {"entries": "softmax", "sigma": 0.3}, {"entries": "identity"}, {"sigma": 0.3}),
    ],
)
@pytest.mark.parametrize("held", [False, True])
def test_a_setting_follows_another(scene, start, changes, expected, held):
    demo = getattr(demos, scene)(**start)
    with demo.hold_trait_notifications() if held else contextlib.nullcontext():
        for name, value in changes.items():
            setattr(demo, name, value)
    assert {name: getattr(demo, name) for name in expected} == expected
    settings = {name: getattr(demo, name) for name in demos.CONTROLS[scene]}
    assert repr(getattr(demos, scene)(**settings)) == repr(demo)  # a call could ask for them


@pytest.mark.parametrize("entries", demos.CONTROLS["collapse"]["entries"]["options"])
@pytest.mark.parametrize("end", ["low", "high"])
def test_collapse_takes_the_whole_range_of_sigma(entries, end):
    sigma = demos.CONTROLS["collapse"]["entries"]["options"][entries][end]
    assert demos.collapse(entries=entries, sigma=sigma).sigma == sigma


def test_settings_held_together_need_no_order():
    demo = demos.spectrum(entries="exponential")
    with demo.hold_trait_notifications():
        demo.sigma = 0.3
        demo.entries = "gamma"
    assert (demo.sigma, demo.entries) == (0.3, "gamma")
    with pytest.raises(ValueError, match=r"sigma.*exponential"), demo.hold_trait_notifications():
        demo.entries, demo.sigma = "exponential", 0.4
    assert (demo.sigma, demo.entries) == (0.3, "gamma")
    demo.set_state({"entries": "uniform", "sigma": 0.5})  # as a page sends it
    assert (demo.sigma, demo.entries) == (0.5, "uniform")


@pytest.mark.parametrize(
    ("scene", "name"),
    [
        ("noise", "row"),
        ("noise", "tokens"),
        ("walk", "view"),
        ("attention", "sigma"),
        ("depth", "gamma"),
        ("gradients", "skip"),
        ("removal", "depth"),
        ("training", "layers"),
        ("blocks", "sigma"),
        ("heads", "kappa"),
    ],
)
def test_a_name_that_the_scene_does_not_have_is_refused(scene, name):
    demo = getattr(demos, scene)()
    settings = ", ".join([*demos.CONTROLS[scene], "seed"])
    with pytest.raises(
        AttributeError, match=rf"{name}.*demos\.{scene}.*got {name} = 5.*{settings}"
    ):
        setattr(demo, name, 5)
    demo._mine = demo.layout.width = "5px"
    assert demo._mine == "5px"


def test_the_scene_stays():
    demo = demos.noise()
    with pytest.raises(traitlets.TraitError, match=r"scene.*read-only"):
        demo.scene = "walk"
    assert demo.scene == "noise"
    demo.set_state(demo.get_state() | {"tokens": 40})  # a page has the settings of all scenes
    assert repr(demo) == TEXTS["noise"]


@pytest.mark.parametrize("scene", ["spectrum", "walk"])
@pytest.mark.parametrize("entries", demos.ENSEMBLES)
def test_natural_sigma_is_that_of_the_package(scene, entries):
    sigma = getattr(demos, scene)(entries=entries).sigma
    assert sigma == pytest.approx(3**-0.5 if entries == "uniform" else 1.0)
    ensembles.random_markov(4, entries=entries, sigma=sigma, rng=0)


@pytest.mark.parametrize("entries", demos.ENSEMBLES)
@pytest.mark.parametrize("end", ["low", "high"])
def test_package_has_the_whole_range_of_each_ensemble(entries, end):
    sigma = demos.ENSEMBLES[entries][end]
    ensembles.random_markov(20, entries=entries, sigma=sigma, rng=0)
    assert demos.spectrum(entries=entries, sigma=sigma).sigma == sigma


@pytest.mark.parametrize(
    ("scene", "arguments", "error", "words"),
    [
        ("spectrum", {"tokens": 9}, ValueError, "tokens.*10.*got 9"),
        ("spectrum", {"tokens": 301}, ValueError, "tokens.*300.*got 301"),
        ("spectrum", {"tokens": 50.0}, TypeError, "tokens.*whole number.*50.0"),
        ("spectrum", {"tokens": True}, TypeError, "tokens.*True"),
        ("spectrum", {"tokens": "50"}, TypeError, "tokens.*'50'"),
        ("spectrum", {"sigma": 0}, ValueError, "sigma.*at least 0.1.*got 0"),
        ("spectrum", {"sigma": 2.5}, ValueError, "sigma.*at most 2.*got 2.5.*from 0.1 to 2"),
        ("spectrum", {"sigma": float("nan")}, ValueError, "sigma.*NaN"),
        ("spectrum", {"sigma": "1"}, TypeError, "sigma.*'1'"),
        (
            "spectrum",
            {"sigma": 1.0, "entries": "uniform"},
            ValueError,
            "sigma.*uniform.*got 1.0.*1/√3.*sigma=0.577",
        ),
        (
            "spectrum",
            {"sigma": 0.5, "entries": "exponential"},
            ValueError,
            "sigma.*exponential.*got 0.5",
        ),
        ("spectrum", {"entries": "cauchy"}, ValueError, "entries.*one of.*pareto.*got 'cauchy'"),
        ("spectrum", {"entries": 3}, TypeError, "entries.*name.*got 3"),
        ("spectrum", {"seed": -1}, ValueError, "seed.*got -1"),
        ("spectrum", {"seed": 2**31}, ValueError, "seed.*got 2147483648"),
        ("spectrum", {"seed": None}, TypeError, "seed.*None"),
        ("spectrum", {"view": "pie"}, ValueError, "view.*one of.*histogram.*got 'pie'"),
        ("walk", {"tokens": 301}, ValueError, "tokens.*300.*got 301"),
        ("walk", {"sigma": 0.5}, ValueError, "sigma.*exponential.*got 0.5"),
        ("walk", {"laziness": 1}, ValueError, "laziness.*at most 0.95.*got 1.*0 to 0.95"),
        ("walk", {"laziness": -0.1}, ValueError, "laziness.*at least 0.*got -0.1"),
        ("walk", {"laziness": "0"}, TypeError, "laziness.*'0'"),
        ("noise", {"rows": 9}, ValueError, "rows.*10.*got 9"),
        ("noise", {"columns": 201}, ValueError, "columns.*200.*got 201"),
        ("noise", {"columns": 50.0}, TypeError, "columns.*whole number.*50.0"),
        ("noise", {"entries": "cauchy"}, ValueError, "entries.*one of.*heavy.*got 'cauchy'"),
        ("noise", {"factors": 5}, ValueError, "factors.*at most 4.*got 5"),
        ("noise", {"factors": 2, "rows": 100}, ValueError, "rows.*columns.*100 and 150.*rows=150"),
        ("attention", {"tokens": 5}, ValueError, "tokens.*10.*got 5"),
        ("attention", {"head_dim": 1000}, ValueError, "head_dim.*300.*got 1000"),
        ("attention", {"logit_std": 2}, ValueError, "logit_std.*at most 1.5.*got 2"),
        ("attention", {"kind": "cosine"}, ValueError, "kind.*one of.*relu.*got 'cosine'"),
        ("attention", {"centred": 1}, TypeError, "centred.*True or False.*got 1"),
        ("attention", {"seed": -1}, ValueError, "seed.*got -1"),
        ("collapse", {"tokens": 1}, ValueError, "tokens.*at least 2.*got 1"),
        ("collapse", {"tokens": 151}, ValueError, "tokens.*150.*got 151"),
        ("collapse", {"gamma": 1.5}, ValueError, "gamma.*at most 1.*got 1.5.*0.25 to 1"),
        ("collapse", {"gamma": "1"}, TypeError, "gamma.*'1'"),
        ("collapse", {"sigma": 0.5}, ValueError, "sigma.*exponential.*got 0.5.*sigma=1"),
        ("collapse", {"entries": "pareto"}, ValueError, "entries.*identity.*got 'pareto'"),
        ("collapse", {"layers": 9}, ValueError, "layers.*at most 8.*got 9"),
        ("collapse", {"layers": 2.0}, TypeError, "layers.*whole number.*2.0"),
        ("depth", {"layers": 13}, ValueError, "layers.*at most 12.*got 13"),
        ("depth", {"skip": True}, TypeError, "skip.*name.*got True.*plain"),
        ("depth", {"norm": "layer"}, ValueError, "norm.*one of.*post.*got 'layer'"),
        ("depth", {"mean_removal": "yes"}, TypeError, "mean_removal.*True or False.*'yes'"),
        ("depth", {"sigma": 0}, ValueError, "sigma.*at least 0.1.*got 0"),
        ("gradients", {"tokens": 0}, ValueError, "tokens.*at least 2.*got 0"),
        ("gradients", {"gamma": 0.25}, ValueError, "gamma.*at least 0.5.*got 0.25"),
        ("gradients", {"sigma": float("inf")}, ValueError, "sigma.*inf"),
        ("gradients", {"seed": 2**31}, ValueError, "seed.*got 2147483648"),
        ("removal", {"gamma": 0.25}, ValueError, "gamma.*at least 0.5.*got 0.25"),
        ("removal", {"entries": "identity"}, ValueError, "entries.*lognormal.*got 'identity'"),
        ("training", {"depth": 0}, ValueError, "depth.*at least 1.*got 0"),
        ("training", {"learning_rate": 0}, ValueError, "learning_rate.*0.0001.*got 0"),
        ("training", {"learning_rate": "0.1"}, TypeError, "learning_rate.*'0.1'"),
        ("training", {"mean_removal": 1}, TypeError, "mean_removal.*True or False.*got 1"),
        ("blocks", {"tokens": 3}, ValueError, "tokens.*at least 4.*got 3"),
        ("blocks", {"attention": "relu"}, ValueError, "attention.*one of.*softmax.*got 'relu'"),
        ("blocks", {"mask": None}, TypeError, "mask.*name.*None.*window"),
        ("heads", {"head_dim": 128}, ValueError, "head_dim.*at most 64.*got 128"),
        ("heads", {"similarity": -0.1}, ValueError, "similarity.*at least 0.*got -0.1"),
        ("heads", {"gamma": 0.1}, ValueError, "gamma.*at least 0.2.*got 0.1"),
    ],
)
def test_bad_arguments_are_refused(scene, arguments, error, words):
    with pytest.raises(error, match=words):
        getattr(demos, scene)(**arguments)


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
    own = set(demos.Demo.class_own_traits())
    settings = {name for controls in demos.CONTROLS.values() for name in controls}
    assert own == {"scene", "controls", "seed", "view"} | settings
    assert not own & {"tabbable", "tooltip"}


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
