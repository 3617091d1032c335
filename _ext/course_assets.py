"""Make the book stand alone: its libraries come from `_lib`, and no page asks another host.

- `_lib` joins the static files, and a small script tells RequireJS and the widget manager where
  their files lie (they would look beside the page, then at a public CDN).
- The theme brings its icons twice, as web fonts and as a script of half a megabyte on the wire:
  the fonts do.
- Thebe, which the theme loads from a CDN, goes; inline scripts that come twice go once.
- A labelled equation has one number, the book's, also where it carries a tag for Colab.
- A formula in a line keeps its brackets, its punctuation and its ending ("$k$th") beside it.
- Each page ends with a link that reports an error on it.
- The site's address (sitemap, page previews) follows from the repository's.
- Only notebooks get launch buttons.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.transforms.post_transforms import SphinxPostTransform

ROOT = Path(__file__).resolve().parent.parent

WIDGETS = """\
// Where the widget libraries are, seen from this script (written by _ext/course_assets.py).
(() => {
  const at = (path) => new URL(path, document.currentScript.src).href;
  requirejs.config({ paths: {
    anywidget: at("anywidget/index"),
    // for the fonts of the widgets' style
    "@jupyter-widgets": at("html-manager"),
    "@jupyter-widgets/html-manager/dist": at("html-manager"),
  } });
})();
"""

NO_ICONS = "// Emptied by _ext/course_assets.py: the theme's web fonts draw the icons.\n"


def site_address(app: Sphinx, config: Config) -> None:
    """Derive the address of the published site from the repository's."""
    _, owner, name = config.html_theme_options["repository_url"].rstrip("/").rsplit("/", 2)
    config.html_baseurl = config.html_baseurl or f"https://{owner}.github.io/{name}/"
    config.ogp_site_url = config.html_baseurl


def silence_thebe(app: Sphinx, config: Config) -> None:
    """Take away all that sphinx-thebe, which Jupyter Book always loads, would do."""
    for listeners in app.events.listeners.values():
        for listener in list(listeners):
            if listener.handler.__module__.startswith("sphinx_thebe"):
                app.disconnect(listener.id)


def own_libraries(app: Sphinx) -> None:
    """Serve `_lib` with the static files."""
    app.config.html_static_path = [*app.config.html_static_path, str(ROOT / "_lib")]


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Write the script that tells the widget libraries where they are, and empty the icons'."""
    if exception is None and app.builder.format == "html":
        static = Path(app.outdir) / "_static"
        (static / "course-widgets.js").write_text(WIDGETS, encoding="utf-8")
        (static / "scripts/fontawesome.js").write_text(NO_ICONS, encoding="utf-8")


def one_number(app: Sphinx, doctree: nodes.document) -> None:
    r"""Take `\\tag` from labelled equations: Colab shows it, the book numbers them itself."""
    for equation in doctree.findall(nodes.math_block):
        if equation.get("label"):
            text = re.sub(r"\\tag\*?\{[^{}]*\}", "", equation.astext())
            equation.children = [nodes.Text(text)]


class KeepTogether(SphinxPostTransform):
    """Let no line end between a formula and what is written right before or behind it.

    A browser may break a line on either side of a formula, as it may beside a picture: "(" would
    stay behind, and a full stop begin a line. So the formula, what opens before it and the letters
    and marks behind it, up to a space, a dash or a slash, become one `inline` of class `nowrap`.
    """

    default_priority = 900  # when references have been resolved
    formats = ("html",)

    BEFORE = re.compile(r"[^\w\s/–—-]*$")
    BEHIND = re.compile(r"[^\s/–—-]*[/–—-]?")

    def run(self, **kwargs: Any) -> None:
        """Wrap each formula of a page that touches anything."""
        for formula in list(self.document.findall(nodes.math)):
            whole: nodes.Node = formula
            while isinstance(whole.parent, nodes.Inline) and len(whole.parent.children) == 1:
                whole = whole.parent  # a formula that is all of a link, or of a word in italics
            self.wrap(whole)

    def wrap(self, whole: nodes.Node) -> None:
        """Wrap one formula with what it touches in the texts on its two sides."""
        parent, at = whole.parent, whole.parent.index(whole)
        before, behind = (
            parent[i] if 0 <= i < len(parent) and isinstance(parent[i], nodes.Text) else ""
            for i in (at - 1, at + 1)
        )
        left = before[self.BEFORE.search(before).start() :]
        right = behind[: self.BEHIND.match(behind).end()]
        if left or right:
            together = nodes.inline(classes=["nowrap"])
            outside = nodes.Text(before.removesuffix(left)), nodes.Text(behind.removeprefix(right))
            parts = [outside[0], together, outside[1]]
            parent[at - bool(before) : at + 1 + bool(behind)] = [p for p in parts if p != ""]
            parts = [nodes.Text(left), whole, nodes.Text(right)]
            together += [part for part in parts if part != ""]


def tidy_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Drop doubled scripts and Thebe's style; report link everywhere, launch only notebooks."""
    context["css_files"] = [css for css in context["css_files"] if "thebe" not in str(css)]
    scripts, bodies = [], set()
    for script in context["script_files"]:
        body = getattr(script, "attributes", {}).get("body")
        if body is None or body not in bodies:
            scripts.append(script)
        bodies.add(body)
    context["script_files"] = scripts

    repository = app.config.html_theme_options["repository_url"].rstrip("/")
    query = urlencode({"title": f"Error on the page {page}", "body": REPORT.format(page=page)})
    context["theme_extra_footer"] = (
        f'<a class="report-error" href="{repository}/issues/new?{query.replace("&", "&amp;")}">'
        "Report an error on this page</a>"
    )

    if not str(app.env.doc2path(page)).endswith(".ipynb"):
        context["header_buttons"] = [
            b for b in context.get("header_buttons", []) if b.get("label") != "launch-buttons"
        ]


REPORT = """Page: {page}

What is wrong (quote the sentence, or name the figure or the cell):

What it should be, if you know:
"""


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect everything after the other extensions."""
    app.connect("config-inited", silence_thebe, priority=1)
    app.connect("config-inited", site_address, priority=100)
    app.connect("builder-inited", own_libraries, priority=900)
    app.connect("doctree-read", one_number)
    app.add_post_transform(KeepTogether)
    app.connect("html-page-context", tidy_page, priority=900)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
