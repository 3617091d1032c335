"""Two directives that write a page from data: `{claims}` and `{execution-status}`.

- `{claims}` shows claims.yml: an overview, then one section a claim with the target `claim-<id>`.
- `{execution-status}` shows, for each chapter, how its stored outputs came about and with which
  versions, beside the pins that the checks run with.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)


class Page(SphinxDirective):
    """What both directives need: the book's folder, its chapters, and Markdown for the reader."""

    @property
    def root(self) -> Path:
        """The book's folder."""
        return Path(self.env.srcdir)

    def depends_on(self, path: Path) -> Path:
        """Have the page built again when a file changes."""
        self.env.note_dependency(str(path))
        return path

    def chapters(self) -> dict[str, dict[str, Any]]:
        """Return the notebooks by document name, in reading order."""
        found = {}
        folder = self.root / "chapters"
        paths = sorted(folder.glob("[0-9][0-9]-*.ipynb")) + sorted(folder.glob("*/*.ipynb"))
        for path in paths:
            text = self.depends_on(path).read_text(encoding="utf-8")
            found[path.relative_to(self.root).with_suffix("").as_posix()] = json.loads(text)
        return found

    def markdown(self, text: str, into: nodes.Element | None = None) -> list[nodes.Node]:
        """Parse MyST Markdown as if it stood in the page."""
        holder = nodes.Element() if into is None else into
        source, line = self.get_source_info()
        lines = StringList(text.splitlines(), source=source or "")
        self.state.nested_parse(lines, line or 0, holder)
        return list(holder.children)

    def table(self, head: list[str], rows: Iterable[list[str]]) -> list[nodes.Node]:
        """Return a table whose cells are Markdown."""
        lines = ["```{list-table}", ":header-rows: 1", ""]
        for row in [head, *rows]:
            lines += [f"{'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(row)]
        return self.markdown("\n".join([*lines, "```"]))


class Claims(Page):
    """The claim ledger."""

    def run(self) -> list[nodes.Node]:
        """Return an overview of the claims, and a section for each."""
        path = self.depends_on(self.root / "claims.yml")
        if not path.is_file():
            logger.warning(
                "claims.yml is missing: the ledger is empty", location=self.get_location()
            )
            return self.markdown("*The ledger is empty.*")
        claims = yaml.safe_load(path.read_text(encoding="utf-8")) or []
        chapters = self.chapters()
        rows = [
            [
                f"[{claim['title']}](#claim-{claim['id']})",
                str(claim["kind"]),
                str(claim["chapter"]).replace("experiments", "exp."),  # a phone is narrow
                re.split(r"[,:;(.]", str(claim["verdict"]), maxsplit=1)[0].strip(),
            ]
            for claim in claims
        ]
        overview = self.table(["Claim", "Kind", "Ch.", "Verdict"], rows)
        return [*overview, *(self.section(claim, chapters) for claim in claims)]

    def section(self, claim: dict[str, Any], chapters: dict[str, Any]) -> nodes.section:
        """Return one claim as a section with the target `claim-<id>`."""
        label = f"claim-{claim['id']}"
        section = nodes.section(ids=[label], names=[label])
        section += nodes.title(text=str(claim["title"]))
        self.state.document.note_explicit_target(section, section)
        self.markdown(str(claim["statement"]), section)
        fields = nodes.field_list()
        for name, text in (
            ("Kind", claim["kind"]),
            ("Verdict", claim["verdict"]),
            ("Source", claim["source"]),
            ("Where", self.place(claim, chapters)),
            ("In code", ", ".join(f"`{name}`" for name in claim.get("formulas", [])) or None),
            ("Tolerance", claim.get("tolerance")),
            ("Test", f"`{claim['test']}`" if claim.get("test") else None),
        ):
            if text is not None:
                body = nodes.field_body()
                self.markdown(str(text), body)
                fields += nodes.field("", nodes.field_name(text=name), body)
        section += fields
        return section

    def place(self, claim: dict[str, Any], chapters: dict[str, Any]) -> str:
        """Return where a claim is shown: the chapter or page, and the figure if it is one."""
        number, cell = str(claim["chapter"]), str(claim.get("cell", ""))
        for name, notebook in chapters.items():
            if name.startswith(f"chapters/{number}") and shows(notebook, str(claim["id"])):
                title = f"Chapter {number}" if number.isdecimal() else "The paper's experiments"
                where = f"{{doc}}`{title} </{name}>`"
                return where + (f", [the figure](#{cell})" if cell in figures(notebook) else "")
        return f"Chapter {number}"


class ExecutionStatus(Page):
    """How the chapters were executed, and with which versions."""

    def run(self) -> list[nodes.Node]:
        """Return a table of chapters and one of versions."""
        pins = dict(
            line.split("==")
            for line in self.depends_on(self.root / "constraints.txt").read_text().splitlines()
            if "==" in line
        )
        project = tomllib.loads(self.depends_on(self.root / "pyproject.toml").read_text("utf-8"))
        pins["gapcourse"] = project["project"]["version"]
        chapters = self.chapters()
        rows = []
        for name, notebook in chapters.items():
            code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
            outputs = [cell for cell in code if cell["outputs"]]
            rows.append(
                [
                    f"{{doc}}`/{name}`",
                    "yes" if in_order(code) else "**no**",
                    str(len(code)),
                    f"{sum(not ignored(c) for c in outputs)} / {sum(map(ignored, outputs))}",
                ]
            )
        head = ["Chapter", "Run in order", "Code cells", "Outputs checked / not"]
        status = self.table(head, rows) if rows else self.markdown("*There is no chapter yet.*")

        made = [nb["metadata"].get("gapcourse", {}).get("versions", {}) for nb in chapters.values()]
        names = {name for versions in made for name in versions}
        versions = [
            [
                f"`{name}`" if name != "python" else "Python",
                ", ".join(sorted({v[name] for v in made if name in v})),
                pins.get(name, "any from 3.11" if name == "python" else "—"),
            ]
            for name in sorted(names)
        ]
        head = ["", "Stored outputs made with", "Checks run with"]
        return [*status, *(self.table(head, versions) if versions else [])]


def shows(notebook: dict[str, Any], claim: str) -> bool:
    """Tell whether a notebook has the cell of a claim."""
    return any(f"claim:{claim}" in c["metadata"].get("tags", []) for c in notebook["cells"])


def figures(notebook: dict[str, Any]) -> set[str]:
    """Return the names of a notebook's figures."""
    metadata = (cell["metadata"].get("mystnb", {}) for cell in notebook["cells"])
    return {str(m["figure"]["name"]) for m in metadata if "name" in m.get("figure", {})}


def in_order(code: list[dict[str, Any]]) -> bool:
    """Tell whether code cells were run once each, from the first to the last."""
    counts = [cell["execution_count"] for cell in code if "".join(cell["source"]).strip()]
    return counts == list(range(1, len(counts) + 1))


def ignored(cell: dict[str, Any]) -> bool:
    """Tell whether a cell's output is left out of the comparison, as a widget's picture is."""
    if any("widget-view" in kind for output in cell["outputs"] for kind in output.get("data", {})):
        return True
    tags = {tag.lower() for tag in cell["metadata"].get("tags", [])}
    return "nbval-ignore-output" in tags or "NBVAL_IGNORE_OUTPUT" in "".join(cell["source"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    app.add_directive("claims", Claims)
    app.add_directive("execution-status", ExecutionStatus)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
