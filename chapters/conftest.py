"""The net under the notebooks: a stored output is a checked claim.

nbval runs every cell and compares what it prints with what is stored. Alone it knows no tolerance
and looks neither at figures nor at whether the stored outputs come from one run from top to bottom.
This file adds:

* numbers within one unit of the last printed digit (see `close`), words exactly;
* figures by the data they plot, and pixel by pixel where the pinned matplotlib is installed;
* per notebook, "stored outputs": run, in order, one alternative text a figure, and a reason
  beside every cell whose output is not compared;
* per notebook, "time": reported at the end, and an error above a generous limit.

    python -m pytest --nbval --nbval-current-env --nbval-cell-timeout=60 chapters
"""

from __future__ import annotations

import base64
import io
import os
import platform
import re
import time
from collections.abc import Iterable, Iterator
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from nbval.plugin import IPyNbCell, IPyNbFile

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # as in `make`
    os.environ.setdefault(_name, "1")

AIM, CAP = 20, 30  # seconds a notebook: the aim, and the cap we report
LONG = {
    "09-trainability": 90,
    "11-real-architectures": 90,
}  # caps of those that train or load models
LIMIT = 2  # times the cap: what is an error
SMALL = 2e-3  # no printed number may move by more than this fraction
FIGURE = 1e-3  # plotted values are stored with five digits
ROUNDING = 1e-6  # what a number printed with more than six digits may move: another CPU

# --- comparing text -----------------------------------------------------------------------------

NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w])")


def close(old: str, new: str, relative: float = SMALL) -> bool:
    """Say whether two printed numbers agree.

    Whole numbers agree when they are equal. Others may differ by one unit of the last printed
    digit (the finer of the two), because rounding turns a difference of 1e-15 into one unit; but
    never by more than `relative`, so that a number printed with one digit cannot move by half its
    size. Another CPU moves trained values by about 1e-5: four digits of them are safe.
    """
    if old == new:
        return True
    if not any(set(text) & set(".eE") for text in (old, new)):
        return False
    a, b = (Decimal(text.replace("−", "-")) for text in (old, new))
    unit = Decimal(1).scaleb(min(int(x.as_tuple().exponent) for x in (a, b)))
    size = max(abs(a), abs(b))
    allowed = max(min(unit, size * Decimal(relative)), size * Decimal(ROUNDING))
    return abs(a - b) <= allowed


def same_text(old: str, new: str, relative: float = SMALL) -> str:
    """Return an empty string where two texts agree, else the first difference."""
    words = [[re.sub(r"[^\S\n]+", " ", w) for w in NUMBER.split(t)] for t in (old, new)]
    numbers = [NUMBER.findall(t) for t in (old, new)]
    if words[0] != words[1]:
        lines = zip(old.splitlines(), new.splitlines(), strict=False)
        first = next(((a, b) for a, b in lines if a != b), (old[-200:], new[-200:]))
        return f"words differ: stored {first[0]!r}, now {first[1]!r}"
    for a, b in zip(*numbers, strict=True):
        if not close(a, b, relative):
            return f"a number differs: stored {a}, now {b}"
    return ""


# --- comparing figures --------------------------------------------------------------------------


def same_data(old: Any, new: Any, where: str = "figure") -> str:
    """Compare two summaries of figures; return the first difference or an empty string."""
    if isinstance(old, dict) and isinstance(new, dict):
        if old.keys() != new.keys():
            return f"{where}: stored has {sorted(old)}, now {sorted(new)}"
        pairs: Iterable[tuple[Any, Any, Any]] = ((k, old[k], new[k]) for k in old)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return f"{where}: stored has {len(old)} entries, now {len(new)}"
        pairs = ((i, a, b) for i, (a, b) in enumerate(zip(old, new, strict=True)))
    elif isinstance(old, str) and isinstance(new, str):
        if re.search(r"\.(x|y)$", where):
            a, b = ([float(v) for v in text.split()] for text in (old, new))
            floor = FIGURE * 1e-3 * max(map(abs, a), default=0.0)
            near = [
                abs(x - y) <= FIGURE * abs(x) + floor
                for x, y in zip(a, b, strict=False)
            ]
            return (
                ""
                if len(a) == len(b) and all(near)
                else f"{where}: stored {old}, now {new}"
            )
        return (problem := same_text(old, new)) and f"{where}: {problem}"
    else:
        return "" if old == new else f"{where}: stored {old}, now {new}"
    return next(
        filter(None, (same_data(a, b, f"{where}.{key}") for key, a, b in pairs)),
        "",
    )


def pinned() -> bool:
    """Say whether pictures can be compared pixel by pixel: Linux, and the pinned matplotlib."""
    here = Path(__file__).resolve()
    pins = next(
        (
            p / "constraints.txt"
            for p in here.parents
            if (p / "constraints.txt").exists()
        ),
        None,
    )
    if pins is None or platform.system() != "Linux":
        return False
    wanted = re.search(
        r"^matplotlib==(\S+)", pins.read_text(encoding="utf-8"), re.MULTILINE
    )
    return wanted is not None and wanted[1] == version("matplotlib")


def same_pixels(old: str, new: str) -> str:
    """Compare two base64 PNGs; return the difference or an empty string."""
    from PIL import Image, ImageChops

    a, b = (
        Image.open(io.BytesIO(base64.b64decode(x))).convert("RGB") for x in (old, new)
    )
    if a.size != b.size:
        return f"picture: stored has {a.size} pixels, now {b.size}"
    # A step of 24 of 255 is more than a shift by a thousandth of a pixel makes at an edge.
    steps = ImageChops.difference(a, b).split()
    worst = ImageChops.lighter(ImageChops.lighter(steps[0], steps[1]), steps[2])
    changed = sum(worst.histogram()[25:])
    if changed > 5e-4 * a.width * a.height:
        return f"picture: {changed} of {a.width * a.height} pixels changed, the data did not"
    return ""


def pictures(outputs: Iterable[Any]) -> list[Any]:
    """Return the outputs that hold a picture."""
    return [o for o in outputs if "image/png" in o.get("data", {})]


def published(output: Any) -> Any:
    """Return what figures.show stored beside a picture."""
    return (output.get("metadata") or {}).get("gapcourse")


def same_figures(old: Iterable[Any], new: Iterable[Any]) -> str:
    """Compare the figures of a cell; return the first difference or an empty string."""
    before, after = pictures(old), pictures(new)
    if len(before) != len(after):
        return f"stored has {len(before)} figures, now {len(after)}"
    for a, b in zip(before, after, strict=True):
        facts = published(a), published(b)
        if facts[0] is None or facts[1] is None:
            return "a picture without its data: end the cell with figures.show(fig)"
        problem = same_text(facts[0]["alt"], facts[1]["alt"], 1e-2)
        problem = problem or same_data(facts[0]["data"], facts[1]["data"])
        if not problem and pinned():
            problem = same_pixels(a["data"]["image/png"], b["data"]["image/png"])
        if problem:
            return problem
    return ""


def compare(
    cell: IPyNbCell, new: list[Any], old: list[Any], skip_compare: Any = None
) -> bool:
    """Compare the outputs of a cell; nbval calls this in place of its own."""
    cell.comparison_traceback = []
    problem = same_figures(old, new) or _same_rest(old, new, cell.parent.skip_compare)
    if problem:
        cell.comparison_traceback.append(problem)
    return not problem


def _same_rest(old: Iterable[Any], new: Iterable[Any], skipped: Iterable[str]) -> str:
    before, after = (
        [dict(_parts(o, skipped)) for o in outputs] for outputs in (old, new)
    )
    if [list(p) for p in before] != [list(p) for p in after]:
        return f"stored outputs are {_kinds(before)}, now {_kinds(after)}"
    for a, b in zip(before, after, strict=True):
        relative = 1e-2 if "figure" in a else SMALL
        for key in a:
            if isinstance(a[key], str) and isinstance(b[key], str):
                problem = same_text(a[key], b[key], relative)
            else:
                problem = (
                    "" if a[key] == b[key] else f"stored {a[key]!r}, now {b[key]!r}"
                )
            if problem:
                return f"{key}: {problem}"
    return ""


def _kinds(outputs: list[dict[str, Any]]) -> str:
    return ", ".join("+".join(o) for o in outputs) or "none"


def _parts(output: Any, skipped: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Give what is compared of an output, sorted, so that both sides come in one order."""
    if output["output_type"] == "stream":
        yield output["name"], output["text"]
    elif output["output_type"] == "error":
        yield "error", f"{output['ename']}: {output['evalue']}"
    else:
        if published(output) is not None:
            yield "figure", ""
        for key in sorted(output["data"]):
            if key not in skipped:
                yield key, output["data"][key]


# --- the frame of a notebook --------------------------------------------------------------------

REASON = re.compile(r"^\s*#\s*NBVAL_IGNORE_OUTPUT:\s*\S+", re.MULTILINE)
EXEMPT = re.compile(r"^\s*#\s*(?:NBVAL|PYTEST_VALIDATE)_IGNORE_OUTPUT\b", re.MULTILINE)
SKIPPED = re.compile(r"^\s*#\s*NBVAL_SKIP\b", re.MULTILINE)
EXEMPT_TAGS = {"nbval-ignore-output", "pytest-validate-ignore-output"}
SKIPPED_TAGS = {"nbval-skip", "skip-execution"}


def exempt(cell: Any) -> bool:
    """Say whether the output of a cell is not compared."""
    return bool(
        EXEMPT.search(cell.source) or EXEMPT_TAGS & set(cell.metadata.get("tags", []))
    )


def faults(nb: Any) -> list[str]:
    """Return what is wrong with the stored outputs of a notebook, cell by cell."""
    cells = [c for c in nb.cells if c.cell_type == "code" and c.source.strip()]
    found = []
    counts = [cell.execution_count for cell in cells]
    if None in counts:
        found.append(
            f"{counts.count(None)} of {len(counts)} code cells have not been run"
        )
    elif counts != list(range(1, len(counts) + 1)):
        found.append(f"not run once from top to bottom: the cells count {counts}")
    for i, cell in enumerate(cells, 1):
        say = f"code cell {i} ({cell.get('id')}): "
        if SKIPPED.search(cell.source) or SKIPPED_TAGS & set(
            cell.metadata.get("tags", [])
        ):
            found.append(
                say + "skips the check; only NBVAL_IGNORE_OUTPUT with a reason may"
            )
        if exempt(cell) and not REASON.search(cell.source):
            found.append(say + "is exempt without a reason: # NBVAL_IGNORE_OUTPUT: why")
        tags = cell.metadata.get("tags", [])
        if exempt(cell) and any(tag.startswith("claim:") for tag in tags):
            found.append(say + "carries a claim, so its output must be compared")
        figures = pictures(cell.outputs)
        if len(figures) > 1:
            found.append(
                say
                + f"publishes {len(figures)} figures; one a cell carries one alt text"
            )
        for output in figures:
            facts = published(output)
            alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
            if facts is None and not exempt(cell):
                found.append(
                    say
                    + "a picture without its data: end the cell with figures.show(fig)"
                )
            elif not alt.strip():
                found.append(
                    say + "its figure has no alternative text: run tools/execute.py"
                )
            elif facts is not None and alt != facts["alt"]:
                found.append(
                    say
                    + "its alternative text is not the figure's: run tools/execute.py"
                )
    free = sum(map(exempt, cells))
    if free > len(cells) / 4:
        found.append(
            f"{free} of {len(cells)} cells are exempt from checking, a quarter may be"
        )
    return found


class Frame(pytest.Item):
    """The stored outputs of a notebook: complete, in order, described."""

    def runtest(self) -> None:
        """Fail with all faults at once."""
        if found := faults(self.parent.nb):
            raise AssertionError("\n".join(found))

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        """Show the faults, no traceback."""
        return f"{self.path.name}: {excinfo.value}"

    def reportinfo(self) -> tuple[Path, int, str]:
        """Name the item in reports."""
        return self.path, 0, f"{self.path.name}::{self.name}"


class Time(Frame):
    """The seconds a notebook's cells took together."""

    def runtest(self) -> None:
        """Pass the time on to the report; fail only where something is badly wrong."""
        seconds = getattr(self.parent, "seconds", 0.0)
        self.user_properties.append(
            ("notebook seconds", (self.path.name, round(seconds, 1)))
        )
        cap = LONG.get(self.path.stem, CAP)
        assert seconds < LIMIT * cap, (
            f"took {seconds:.0f} s; the aim is {AIM} s, the cap {cap} s"
        )


# --- hooking into nbval -------------------------------------------------------------------------

_collect, _runtest = IPyNbFile.collect, IPyNbCell.runtest


def collect(file: IPyNbFile) -> Iterator[pytest.Item]:
    """Give the frame, every cell, and the time of a notebook."""
    cells = list(_collect(file))
    yield Frame.from_parent(file, name="stored outputs")
    for cell in cells:
        if REASON.search(cell.cell.source):
            cell.options["check"] = False
        yield cell
    yield Time.from_parent(file, name="time")


def runtest(cell: IPyNbCell) -> None:
    """Run a cell and add its seconds to the notebook's."""
    start = time.perf_counter()
    try:
        _runtest(cell)
    finally:
        before = getattr(cell.parent, "seconds", 0.0)
        cell.parent.seconds = before + time.perf_counter() - start


if _collect.__module__ == "nbval.plugin":  # once in a process
    IPyNbFile.collect, IPyNbCell.runtest, IPyNbCell.compare_outputs = (
        collect,
        runtest,
        compare,
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how long each notebook took."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports(
        "failed"
    ):
        for name, value in report.user_properties:
            if name == "notebook seconds" and report.when == "call":
                cap = LONG.get(Path(value[0]).stem, CAP)
                over = f", over the cap of {cap} s" if value[1] > cap else ""
                terminalreporter.write_line(
                    f"{value[0]}: {value[1]} s (aim {AIM} s){over}"
                )
