"""Sweeps: tidy rows, generators of cells, failures, resuming, processes and a Dask cluster."""

import csv
import functools
import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("joblib", reason="joblib is an extra of the package")
pytest.importorskip("tqdm", reason="tqdm is an extra of the package")

import joblib

from gapcourse.sweeps import Table, sweep

GRID = {"n": [5, 10], "scale": [1.0, 2.0, 4.0]}


def draw(n, scale, rng):
    return {"mean": scale * rng.standard_normal(n).mean(), "process": os.getpid()}


def value(n, scale, rng):
    return scale * rng.random() + n


def fragile(n, scale, rng):
    if scale == 2:
        raise ArithmeticError(f"too much of {n}")
    return rng.random()


def here(function, grid=GRID, seeds=2, **options):
    return sweep(function, grid, seeds, **{"jobs": 1, "progress": False, **options})


# ------------------------------------------------------------------ the table


def test_rows_are_tidy_and_in_the_order_of_the_grid():
    table = here(draw)
    assert len(table) == 12
    assert table.names == ["n", "scale", "seed", "mean", "process", "error"]
    np.testing.assert_array_equal(table["n"], np.repeat([5, 10], 6))
    np.testing.assert_array_equal(table["scale"], np.tile(np.repeat([1.0, 2.0, 4.0], 2), 2))
    np.testing.assert_array_equal(table["seed"], np.tile([0, 1], 6))
    assert table["mean"].dtype == np.float64
    assert [row["mean"] for row in table] == table["mean"].tolist()
    assert set(table["error"]) == {""}
    assert table.failed == []
    assert repr(table) == "<Table of 12 rows: n, scale, seed, mean, process, error>"


def test_a_grid_of_cells_and_numpy_values():
    product = here(draw)
    cells = [{"n": np.int64(n), "scale": np.float64(s)} for n in GRID["n"] for s in GRID["scale"]]
    table = here(draw, cells, np.arange(2))
    np.testing.assert_array_equal(table["mean"], product["mean"])
    assert [type(v) for v in table.rows[0].values()][:3] == [int, float, int]
    mixed = here(lambda rng, **cell: len(cell), [{"a": 1}, {"a": None, "b": "x"}, {"b": True}], 1)
    assert mixed["value"].tolist() == [1, 2, 1]
    assert mixed["a"].tolist()[:2] == [1, None]
    assert mixed["b"].tolist()[1:] == ["x", True]


def test_one_number_goes_to_value():
    table = here(value, seeds=[7])
    assert table.names == ["n", "scale", "seed", "value", "error"]
    assert set(table["seed"]) == {7}
    assert (table["value"] > table["n"]).all()
    assert here(lambda n, scale, rng: np.float32(0.5))["value"][0] == 0.5


def test_csv_keeps_every_digit(tmp_path):
    with pytest.warns(RuntimeWarning, match="4 of 12 cells failed"):
        table = here(fragile)
    table.to_csv(tmp_path / "table.csv")
    with open(tmp_path / "table.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == table.names
    read = [float(row["value"] or "nan") for row in rows]
    np.testing.assert_array_equal(read, table["value"])
    assert rows[2]["error"] == "ArithmeticError: too much of 5"


def test_a_column_that_is_not_there():
    with pytest.raises(KeyError, match=r"no column 'mena'; the table has \['n', 'mean'\]"):
        Table([{"n": 1, "mean": 2.0}])["mena"]


# ------------------------------------------------------------------ generators


def test_a_cell_has_its_numbers_whatever_is_around_it():
    table = here(value)
    known = {(row["n"], row["scale"], row["seed"]): row["value"] for row in table}
    assert len(set(known.values())) == 12  # no two cells share their numbers
    backwards = {"scale": GRID["scale"][::-1], "n": [10, 3]}
    for row in here(value, backwards, [3, 1]):
        if row["n"] == 10 and row["seed"] == 1:
            assert row["value"] == known[10, row["scale"], 1]
    names = here(lambda rng, **cell: rng.random(), [{"a": 1}, {"b": 1}, {"a": 1.0}, {"a": True}])
    assert len(set(names["value"])) == len(names)


def test_numbers_stay_the_same_from_version_to_version():
    # Another number here would make every published sweep another one.
    assert here(value, {"n": [0], "scale": [1.0]}, 1)["value"][0] == 0.023825802707070243


def test_processes_change_nothing():
    table = here(draw)
    parallel = sweep(draw, GRID, 2, jobs=2, progress=False)
    np.testing.assert_array_equal(parallel["mean"], table["mean"])
    assert set(table["process"]) == {os.getpid()}
    assert os.getpid() not in set(parallel["process"])


def test_joblib_says_how_and_how_many(monkeypatch):
    seen = []
    original = joblib.Parallel

    def parallel(n_jobs, **options):
        seen.append(n_jobs)
        return original(n_jobs=1, **options)

    monkeypatch.setattr(joblib, "Parallel", parallel)
    sweep(value, GRID, 1, progress=False)
    with joblib.parallel_config(n_jobs=3):
        sweep(value, GRID, 1, progress=False)
        sweep(value, GRID, 1, progress=False, jobs=2)
    assert seen == [-1, 3, 2]
    monkeypatch.undo()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert set(sweep(draw, GRID, 1, progress=False)["process"]) == {os.getpid()}


def test_a_dask_cluster_takes_the_same_call():
    distributed = pytest.importorskip("distributed", reason="distributed is an extra: no cluster")
    table = here(draw)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config(backend="dask"),
    ):
        workers = set(client.run(os.getpid).values())
        on_cluster = sweep(draw, GRID, 2, progress=False)
    np.testing.assert_array_equal(on_cluster["mean"], table["mean"])
    assert len(workers) == 2
    assert set(on_cluster["process"]) <= workers


# ------------------------------------------------------------------ failures


def test_a_failed_cell_is_reported_and_the_rest_is_kept():
    message = (
        r"4 of 12 cells failed, the others are kept:\n"
        r"  n=5, scale=2\.0, seed=0: ArithmeticError: too much of 5\n"
    )
    with pytest.warns(RuntimeWarning, match=message) as caught:
        table = here(fragile)
    assert caught[0].filename == __file__
    assert [(row["n"], row["scale"], row["seed"]) for row in table.failed] == [
        (5, 2.0, 0),
        (5, 2.0, 1),
        (10, 2.0, 0),
        (10, 2.0, 1),
    ]
    np.testing.assert_array_equal(np.isnan(table["value"]), table["scale"] == 2)
    clean = here(fragile, {"n": [5, 10], "scale": [1.0, 4.0]})
    np.testing.assert_array_equal(table["value"][table["scale"] != 2], clean["value"])


def test_many_failures_are_reported_briefly():
    with pytest.warns(RuntimeWarning, match="12 of 12") as caught:
        here(lambda n, scale, rng: 1 / 0)
    text = str(caught[0].message)
    assert text.count("ZeroDivisionError") == 5
    assert text.endswith("…")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.ones(2), r"TypeError: what function returns must be a number, .*array.*pass float"),
        ({"a": [1]}, r"TypeError: result 'a' must be a number.*\[1\] \(list\); pass float"),
        ({"n": 1}, r"ValueError: .*must not have the names \['n'\].*call them otherwise"),
        (1j, r"TypeError: what function returns .*complex.*pass float"),
    ],
)
def test_results_that_are_no_cell_of_a_table(result, message):
    with pytest.warns(RuntimeWarning, match=message):
        here(lambda n, scale, rng: result)


def test_a_failure_in_another_process():
    with pytest.warns(RuntimeWarning, match="ArithmeticError: too much of 5"):
        table = sweep(fragile, GRID, 1, jobs=2, progress=False)
    assert len(table.failed) == 2


# ------------------------------------------------------------------ the cache


CALLS = []
STOP = []


def counted(n, scale, rng):
    if len(CALLS) in STOP:
        raise KeyboardInterrupt
    CALLS.append((n, scale))
    return {"sum": n + scale, "noise": rng.random()}


@pytest.fixture(autouse=True)
def no_calls_yet():
    CALLS.clear()
    STOP.clear()


def test_an_interrupted_sweep_resumes(tmp_path):
    STOP.append(7)
    with pytest.raises(KeyboardInterrupt):
        here(counted, cache=tmp_path / "new" / "folder")
    assert len(CALLS) == 7
    STOP.clear()
    resumed = here(counted, cache=tmp_path / "new" / "folder")
    assert len(CALLS) == 12
    assert len(set(CALLS)) == 6
    assert resumed.rows == here(counted).rows


def test_more_seeds_cost_only_what_is_new(tmp_path):
    first = here(counted, seeds=1, cache=tmp_path)
    more = here(counted, seeds=3, cache=str(tmp_path))
    assert len(CALLS) == 6 + 12
    assert more.rows[::3] == first.rows
    here(counted, {"n": [10, 20], "scale": [4.0]}, 3, cache=tmp_path)
    assert len(CALLS) == 18 + 3


def test_failed_cells_are_tried_again_and_others_are_not(tmp_path):
    tried = tmp_path / "tried"

    def once_more(n, scale, rng):
        with open(tried, "a", encoding="utf-8") as file:
            file.write("x")
        if n == 5 and not os.environ.get("GAPCOURSE_TEST_WHOLE"):
            raise OSError("no disk")
        return n

    with pytest.warns(RuntimeWarning, match="6 of 12 cells failed"):
        here(once_more, cache=tmp_path / "cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAPCOURSE_TEST_WHOLE", "1")
        assert not here(once_more, cache=tmp_path / "cache").failed
    assert len(tried.read_text()) == 12 + 6


def test_another_function_has_other_results(tmp_path):
    def scaled(factor):
        def multiple(n, scale, rng):
            return factor * n

        return multiple

    def product(n, scale, rng, by):
        return by * n

    for factor in (2, 3):
        table = here(scaled(factor), cache=tmp_path)
        np.testing.assert_array_equal(table["value"], factor * table["n"])
        table = here(functools.partial(product, by=factor), cache=tmp_path)
        np.testing.assert_array_equal(table["value"], factor * table["n"])
    files = len(list(tmp_path.iterdir()))
    assert files == 4 * 12
    here(scaled(3), cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == files


def test_a_changed_source_is_another_function(tmp_path):
    script = tmp_path / "script.py"
    text = (
        "from gapcourse.sweeps import sweep\n"
        "def f(n, rng):\n    print('called')\n    return n * FACTOR\n"
        "t = sweep(f, {'n': [1, 2]}, cache='cache', jobs=1, progress=False)\n"
        "print(t['value'].tolist())\n"
    )

    def run(factor):
        script.write_text(text.replace("FACTOR", factor), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.split("\n")[:-1]

    assert run("3") == ["called", "called", "[3, 6]"]
    assert run("3") == ["[3, 6]"]
    assert run("5") == ["called", "called", "[5, 10]"]


def test_spoilt_files_are_computed_again(tmp_path):
    table = here(counted, cache=tmp_path)
    for path, text in zip(
        sorted(tmp_path.iterdir()), ["", "{", "[]", "{}", '{"result": 3}'], strict=False
    ):
        path.write_text(text, encoding="utf-8")
    assert here(counted, cache=tmp_path).rows == table.rows
    assert len(CALLS) == 12 + 5
    stored = [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()]
    assert {tuple(content) for content in stored} == {("cell", "seed", "result")}


def test_infinite_results_and_no_results_are_kept(tmp_path):
    for _ in range(2):
        table = here(lambda n, scale, rng: {"a": np.inf, "b": np.nan}, cache=tmp_path / "a")
        assert np.isinf(table["a"]).all()
        assert np.isnan(table["b"]).all()
    for _ in range(2):
        here(lambda n, scale, rng: CALLS.append(n) or {}, cache=tmp_path / "b")
    assert len(CALLS) == 12


# ------------------------------------------------------------------ the bar


def test_the_bar_counts_cells(capsys, tmp_path):
    here(value, progress=True, cache=tmp_path)
    assert "value: 100%" in (bar := capsys.readouterr().err)
    assert "12/12" in bar
    here(value, progress=True, seeds=3, cache=tmp_path)
    assert "12/18" in capsys.readouterr().err  # starts with what is there
    here(value)
    assert capsys.readouterr().err == ""


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"function": 3}, TypeError, "function must be callable, got 3; pass the function"),
        ({"function": lambda n, rng: 0}, TypeError, r"function must take n, scale, rng .*\(n, rng"),
        ({"function": lambda n, scale: 0}, TypeError, r"function must take n, scale, rng by name"),
        ({"grid": {}}, ValueError, r"grid must hold at least one cell .*got \{\}; pass"),
        ({"grid": {"n": [], "scale": [1]}}, ValueError, "grid must hold at least one cell"),
        ({"grid": [3]}, ValueError, r"grid must hold at least one cell.*got \[3\]; pass"),
        ({"grid": 3}, TypeError, r"grid must be a sequence, got 3 \(int\); put it into a list"),
        ({"grid": {"n": 3}}, TypeError, r"grid\['n'\] must be a sequence, got 3 .*list"),
        ({"grid": {"n": "ab"}}, TypeError, r"grid\['n'\] must be a sequence, got 'ab' .*list"),
        ({"grid": {"n": [[1]]}}, TypeError, r"grid\['n'\] must be a number, .*got \[1\] \(list\)"),
        ({"grid": {"n": [1, 1]}}, ValueError, "grid must not repeat cells, got .*once"),
        ({"grid": {"seed": [1]}}, ValueError, "grid must not have a parameter 'seed'.*otherwise"),
        ({"grid": {1: [1]}}, TypeError, "grid must have names as keys, got 1; pass strings"),
        ({"seeds": 0}, ValueError, "seeds must be .*at least 1, got 0; pass 1 or more"),
        ({"seeds": []}, ValueError, "seeds must hold at least one seed, got none; pass"),
        ({"seeds": [1, 1]}, ValueError, "seeds must not repeat seeds, got 1 twice; pass each"),
        ({"seeds": [-1]}, ValueError, "each of seeds must be .*at least 0, got -1"),
        ({"seeds": 2.0}, TypeError, r"seeds must be a sequence, got 2\.0 \(float\)"),
        ({"seeds": [0.5]}, TypeError, r"each of seeds .*got 0\.5 .*pass an int"),
        ({"jobs": 0}, ValueError, "jobs must not be 0, got 0; pass -1"),
        ({"jobs": "all"}, TypeError, "jobs must be a whole number.*'all'"),
        ({"cache": __file__}, ValueError, "cache must be a folder, got the file .*; pass another"),
    ],
)
def test_what_it_refuses(options, error, message):
    with pytest.raises(error, match=message):
        sweep(**{"function": value, "grid": GRID, "seeds": 1, "jobs": 1, **options})


@pytest.mark.parametrize("missing", ["joblib", "tqdm"])
def test_without_joblib_or_tqdm(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "try:\n    import gapcourse.sweeps\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"gapcourse.sweeps needs {missing}" in done.stdout
    assert 'pip install "gapcourse[notebooks]"' in done.stdout


def test_an_array_or_tensor_of_no_dimension_is_its_number():
    torch = pytest.importorskip("torch")
    table = sweep(
        lambda T, rng: {"a": torch.tensor(2.5 * T), "b": np.array(T)}, {"T": [1, 2]}, jobs=1
    )
    assert list(table["a"]) == [2.5, 5.0]
    assert list(table["b"]) == [1, 2]
