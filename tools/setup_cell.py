"""Make the setup cell of the notebooks: one text, in one place, the same in all of them.

    python tools/setup_cell.py            # print it
    python tools/setup_cell.py --write    # put it into every notebook
    python tools/setup_cell.py --check    # check that every notebook has it

The cell is the first code cell of a notebook, tagged `setup`. It begins with the block made here,
which fetches the package in Colab and does nothing elsewhere; the notebook's own imports follow.
The repository's address comes from pyproject.toml.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from repository import ROOT, address

FIRST = "# Setup: in Colab this fetches the course's package; elsewhere it does nothing."
LAST = "    subprocess.run([*install, source], check=True)"
BLOCK = """\
{first}
import subprocess
import sys

if "google.colab" in sys.modules:
    source = "gapcourse @ git+{address}@main"
    install = [sys.executable, "-m", "pip", "install", "--quiet"]
{last}
"""


def block(root: Path = ROOT) -> str:
    """Return the lines that every setup cell begins with."""
    return BLOCK.format(first=FIRST, last=LAST, address=address(root))


def chapters(root: Path = ROOT) -> list[Path]:
    """Return the chapters in reading order."""
    return sorted((root / "chapters").glob("[0-9][0-9]-*.ipynb"))


def notebooks(root: Path = ROOT) -> list[Path]:
    """Return the chapters, and the pages of the paper's experiments after them."""
    return [*chapters(root), *sorted((root / "chapters/experiments").glob("*.ipynb"))]


def setup_cell(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the first code cell, which must be the one tagged `setup`."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    if not code or "setup" not in code[0]["metadata"].get("tags", []):
        raise ValueError("the first code cell must have the tag `setup`")
    cell: dict[str, Any] = code[0]
    return cell


def renewed(source: str, new: str) -> str:
    """Return a setup cell's source with its fetch block replaced, or put in front."""
    lines = source.splitlines()
    if FIRST in lines and LAST in lines:
        lines = lines[: lines.index(FIRST)] + lines[lines.index(LAST) + 1 :]
    own = "\n".join(lines).strip("\n")
    return f"{new}\n{own}" if own else new.rstrip("\n")


def write(path: Path, root: Path = ROOT) -> bool:
    """Put the block into one notebook; return whether that changed it."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cell = setup_cell(notebook)
    source = "".join(cell["source"])
    new = renewed(source, block(root))
    if new == source:
        return False
    cell["source"] = new.splitlines(keepends=True)
    text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")
    return True


def problem(path: Path, root: Path = ROOT) -> str | None:
    """Return what is wrong with one notebook's setup cell, None if nothing is."""
    try:
        source = "".join(setup_cell(json.loads(path.read_text(encoding="utf-8")))["source"])
    except ValueError as error:
        return str(error)
    if not source.startswith(block(root).rstrip("\n")):
        return "its setup cell is not the common one; run: python tools/setup_cell.py --write"
    return None


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help="put it into every notebook")
    what.add_argument("--check", action="store_true", help="check every notebook")
    args = parser.parse_args()
    if args.write:
        changed = [path.name for path in notebooks() if write(path)]
        print(f"setup cell: {len(changed)} changed {' '.join(changed)}".rstrip())
    elif args.check:
        wrong = [(path.name, why) for path in notebooks() if (why := problem(path))]
        for name, why in wrong:
            print(f"{name}: {why}")
        print(f"setup cell: {'NOT alike' if wrong else 'alike'} in {len(notebooks())} notebooks")
        return 1 if wrong else 0
    else:
        print(block(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
