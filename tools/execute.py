"""Run notebooks from top to bottom, in place, so that the same source gives the same bytes.

    python tools/execute.py                      all of them
    python tools/execute.py chapters/03-….ipynb  one
    python tools/execute.py --check              run, compare with what is stored, write nothing

Alternative text is taken from the published figures (gapcourse.figures.show) into the metadata of
their cells, random widget ids are replaced by stable ones, and what changes from run to run
(timings, the editor's marks) is left out. The versions that made the outputs are recorded in
`metadata.gapcourse.versions`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

os.environ.update(  # before any kernel starts: these decide the last digits and the pictures
    OMP_NUM_THREADS="1",
    OPENBLAS_NUM_THREADS="1",
    MPLBACKEND="module://matplotlib_inline.backend_inline",
    PYTHONHASHSEED="0",
)

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

sys.path.insert(0, str(Path(__file__).resolve().parent))
from setup_cell import notebooks

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 120  # seconds a cell may take
RECORDED = ("numpy", "scipy", "matplotlib", "torch", "transformers", "tokenizers", "scikit-learn",
            "gapcourse")  # fmt: skip
TRANSIENT = ("execution", "ExecuteTime", "collapsed", "scrolled", "id", "outputId", "colab",
             "vscode", "pycharm", "trusted")  # fmt: skip
KEPT = ("kernelspec", "language_info", "gapcourse", "widgets", "mystnb", "jupytext", "title")
HEX_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


class NativeKernelManager(AsyncKernelManager):
    """Starts kernels of this very Python, whatever kernels are installed."""

    def __init__(self, **options: Any) -> None:
        options["kernel_spec_manager"] = KernelSpecManager(
            ensure_native_kernel=True, kernel_dirs=[]
        )
        super().__init__(**options)


class CellFailed(Exception):
    """A cell raised, ran out of time, or lost its kernel."""


def versions() -> dict[str, str]:
    """Return the versions of what computes and draws."""
    found = {"python": platform.python_version()}
    for name in RECORDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            source = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
            match = re.search(r'^version = "(.+)"$', source, re.MULTILINE)
            if name != "gapcourse" or match is None:
                raise
            found[name] = match[1]
    return found


def clean(nb: NotebookNode) -> None:
    """Remove outputs, counts, and metadata that differ between editors and runs."""
    for key in set(nb.metadata) - set(KEPT):
        del nb.metadata[key]
    nb.metadata.pop("widgets", None)
    nb.nbformat_minor = max(nb.nbformat_minor, 5)
    seen: set[str] = set()
    for i, cell in enumerate(nb.cells):
        for key in TRANSIENT:
            cell.metadata.pop(key, None)
        if not cell.get("id") or cell.id in seen:
            cell.id = f"cell-{i}"
        seen.add(cell.id)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def run(nb: NotebookNode, folder: Path) -> None:
    """Run every code cell in a fresh kernel that works in `folder`."""
    client = NotebookClient(
        nb,
        kernel_name="python3",
        kernel_manager_class=NativeKernelManager,
        extra_arguments=["--IPKernelApp.log_level=40"],  # cell errors reach us as outputs
        timeout=TIMEOUT,
        record_timing=False,
        store_widget_state=True,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise CellFailed(_blame(nb, error)) from error


def _blame(nb: NotebookNode, error: Exception) -> str:
    """Say which cell failed, with its first lines and the message."""
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    ran = [i for i, cell in enumerate(code) if cell.execution_count is not None or cell.outputs]
    failed = [i for i in ran if any(o.output_type == "error" for o in code[i].outputs)]
    i = failed[0] if failed else min(len(ran), len(code) - 1)
    source = "\n".join(f"    {line}" for line in code[i].source.splitlines()[:8])
    if isinstance(error, CellExecutionError):
        message = f"{error.ename}: {error.evalue}"
    elif isinstance(error, CellTimeoutError):
        message = f"it ran longer than {TIMEOUT} s"
    else:
        message = f"{type(error).__name__}: {error}"
    return f"code cell {i + 1} of {len(code)} (id {code[i].id}):\n{source}\n  {message}"


def write_alt_text(nb: NotebookNode) -> None:
    """Copy the alternative text of each published figure into the metadata of its cell."""
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        said = [o.metadata.gapcourse.alt for o in cell.outputs if "gapcourse" in _metadata(o)]
        image = cell.metadata.get("mystnb", {}).get("image", {})
        if said:
            figure = cell.metadata.setdefault("mystnb", NotebookNode())
            figure.setdefault("image", NotebookNode())["alt"] = said[0]
        elif "alt" in image and not any("image/png" in o.get("data", {}) for o in cell.outputs):
            del image["alt"]


def _metadata(output: NotebookNode) -> dict[str, Any]:
    return output.get("metadata") or {}


def stable_ids(nb: NotebookNode, name: str) -> NotebookNode:
    """Replace random widget ids by ids made from the notebook's name and their order."""
    found: dict[str, str] = {}
    models: set[str] = set()
    state = nb.metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {})
    models.update(state.get("state", {}))
    views = [o.data for c in nb.cells for o in c.get("outputs", []) if "data" in o]
    for data in views:
        view = data.get("application/vnd.jupyter.widget-view+json")
        if view:
            models.add(view["model_id"])
    if not models:
        return nb
    parts = [nb.cells, nb.metadata]  # the cells first: ids in order of appearance
    for part in parts:
        for old in HEX_ID.findall(json.dumps(part, sort_keys=False)):
            if old in models and old not in found:
                digest = hashlib.sha256(f"{name}:{len(found)}".encode())
                found[old] = digest.hexdigest()[:32]
    text = HEX_ID.sub(lambda match: found.get(match[0], match[0]), json.dumps(nb))
    return nbformat.from_dict(json.loads(text))


def executed(path: Path) -> str:
    """Return the text of the notebook after a fresh run."""
    nb = nbformat.read(path, as_version=4)
    clean(nb)
    run(nb, path.parent)
    write_alt_text(nb)
    for cell in nb.cells:
        for key in TRANSIENT:
            cell.metadata.pop(key, None)
    nb.metadata["kernelspec"] = {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    }
    nb.metadata["language_info"] = {"name": "python", "file_extension": ".py"}
    nb.metadata.setdefault("gapcourse", NotebookNode())["versions"] = versions()
    nb = stable_ids(nb, path.stem)
    nbformat.validate(nb)
    return nbformat.writes(nb) + "\n"


def differences(old: str, new: str) -> str:
    """Name the cells in which two texts of a notebook differ."""
    before, after = json.loads(old), json.loads(new)
    pairs = zip(before["cells"], after["cells"], strict=False)
    cells = [str(i) for i, (a, b) in enumerate(pairs) if a != b]
    parts = [f"cell(s) {', '.join(cells)}"] if cells else []
    parts += ["the notebook's metadata"] if before["metadata"] != after["metadata"] else []
    return " and ".join(parts) or "layout of the file"


def save(path: Path, text: str) -> None:
    """Write all of the file or nothing."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8", newline="\n"
    ) as file:
        file.write(text)
    if path.exists():
        os.chmod(file.name, path.stat().st_mode)
    os.replace(file.name, path)


def main(argv: list[str] | None = None) -> int:
    """Run the notebooks named on the command line, or all of them."""
    parser = argparse.ArgumentParser(
        description="Run notebooks in place, reproducibly; write alt text; report the time."
    )
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all in chapters/")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail unless a fresh run is byte-identical to what is stored",
    )
    args = parser.parse_args(argv)
    paths = args.notebooks or notebooks()
    if not paths:
        print("execute: no notebooks found")
        return 0
    bad = 0
    for n, path in enumerate(paths, 1):
        print(f"[{n}/{len(paths)}] {path.name} …", end=" ", flush=True)
        if not path.is_file():
            print("no such file")
            bad += 1
            continue
        stored, start = path.read_bytes().decode("utf-8"), time.perf_counter()
        try:
            fresh = executed(path)
        except CellFailed as error:
            print(f"FAILED\n{path}: {error}", flush=True)
            bad += 1
            continue
        took = f"{time.perf_counter() - start:.1f} s"
        if fresh == stored:
            print(f"{took}, byte-identical to the stored one")
        elif args.check:
            print(f"{took}, DIFFERS from the stored one in {differences(stored, fresh)}")
            bad += 1
        else:
            save(path, fresh)
            print(f"{took}, written")
    print(f"execute: {len(paths) - bad} of {len(paths)} notebook(s) fine")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
