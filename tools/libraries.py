"""Renew or check the pinned front-end libraries in `_lib`.

    python tools/libraries.py           fetch the versions below and write `_lib` anew (needs npm)
    python tools/libraries.py --check   compare `_lib` with the checksums in its manifest

The book serves these files itself, so that no page asks another host for anything.
Building the book needs neither npm nor Node: only renewing these files does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path

LIB = Path(__file__).resolve().parent.parent / "_lib"

# What MathJax asks for by itself: its fonts, the TeX extensions it loads on demand, and the speech
# and Braille tools of its menu (in English). The packages that its main file contains stay out.
MATHJAX_TEX = (
    "action amscd bbox boldsymbol braket bussproofs cancel cases centernot color colortbl colorv2 "
    "empheq enclose extpfeil gensymb html mathtools mhchem physics tagformat textcomp textmacros "
    "unicode upgreek verb"
)

# name: (npm package and version, SPDX licence, {file in the package: folder under _lib/name})
PACKAGES: dict[str, tuple[str, str, dict[str, str]]] = {
    "mathjax": (
        "mathjax@3.2.2",
        "Apache-2.0",
        {
            "es5/tex-mml-chtml.js": "",
            "es5/output/chtml/fonts/woff-v2/*.woff": "output/chtml/fonts/woff-v2",
            **{
                f"es5/input/tex/extensions/{name}.js": "input/tex/extensions"
                for name in MATHJAX_TEX.split()
            },
            "es5/a11y/*.js": "a11y",
            **{
                f"es5/sre/mathmaps/{name}.json": "sre/mathmaps" for name in ("base", "en", "nemeth")
            },
        },
    ),
    "requirejs": ("requirejs@2.3.8", "MIT", {"require.js": ""}),
    "html-manager": (
        "@jupyter-widgets/html-manager@1.0.15",
        "BSD-3-Clause",
        {"dist/embed-amd.js": "", "dist/*.woff2": ""},
    ),
}

MIT = """Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in
all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN
THE SOFTWARE.
"""


def licence(name: str, package: Path) -> str:
    """Text of the licence of one library; where its package lacks it, from where it can be had."""
    if name == "requirejs":
        return "Copyright jQuery Foundation and other contributors\n\n" + MIT
    if name == "html-manager":  # its package has no licence file, that of its Python sibling has
        own = installed("ipywidgets", "LICENSE").read_text(encoding="utf-8")
        bundled = (package / "dist/embed.js.LICENSE.txt").read_text(encoding="utf-8")
        fonts = (
            "Font Awesome Free (the .woff2 files) by Fonticons, Inc., https://fontawesome.com: "
            "fonts SIL OFL 1.1, code MIT.\n"
        )
        return f"{own}\nThe bundle holds besides:\n\n{bundled}\n{fonts}"
    return (package / "LICENSE").read_text(encoding="utf-8")


def installed(package: str, name: str) -> Path:
    """Path of the installed file of a Python package whose path ends in `name`."""
    for file in metadata.files(package) or []:
        if file.as_posix().endswith(name):
            return Path(str(file.locate()))
    raise SystemExit(f"{package} has no file {name}: install it first, pip install {package}")


def write(path: Path, content: bytes) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def renew() -> None:
    """Fetch every library and write `_lib` with its manifest."""
    shutil.rmtree(LIB, ignore_errors=True)
    versions = {}
    for name, (spec, spdx, files) in PACKAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            command = ["npm", "pack", "--silent", "--pack-destination", folder, spec]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
                archive.extractall(folder, filter="data")
            package = Path(folder) / "package"
            for pattern, target in files.items():
                found = sorted(package.glob(pattern))
                if not found:
                    raise SystemExit(f"{spec} has no file {pattern}")
                for file in found:
                    write(LIB / name / target / file.name, file.read_bytes())
            write(LIB / name / "LICENSE.txt", licence(name, package).encode())
        versions[name] = {"package": f"npm:{spec}", "licence": spdx}
    bundle = installed("anywidget", "nbextension/index.js")
    write(LIB / "anywidget/index.js", bundle.read_bytes())
    write(LIB / "anywidget/LICENSE.txt", installed("anywidget", "LICENSE").read_bytes())
    spec = f"pypi:anywidget=={metadata.version('anywidget')}"
    versions["anywidget"] = {"package": spec, "licence": "MIT"}
    manifest = {"libraries": versions, "sha256": checksums()}
    write(LIB / "manifest.json", (json.dumps(manifest, indent=2) + "\n").encode())


def checksums() -> dict[str, str]:
    """SHA-256 of every file in `_lib` but the manifest, by its path."""
    files = sorted(p for p in LIB.rglob("*") if p.is_file() and p != LIB / "manifest.json")
    return {
        p.relative_to(LIB).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
    }


def differences() -> list[str]:
    """Files of `_lib` that are missing, unknown or changed, against the manifest."""
    stated = json.loads((LIB / "manifest.json").read_text(encoding="utf-8"))["sha256"]
    found = checksums()
    return [
        f"{name}: {'missing' if name not in found else 'changed' if name in stated else 'unknown'}"
        for name in sorted(stated.keys() | found.keys())
        if stated.get(name) != found.get(name)
    ]


def main() -> int:
    """Renew `_lib`, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the manifest")
    if parser.parse_args().check:
        wrong = differences()
        print("\n".join(wrong) or "_lib: every file as in its manifest")
        return 1 if wrong else 0
    renew()
    size = sum(p.stat().st_size for p in LIB.rglob("*") if p.is_file())
    print(f"_lib renewed: {len(checksums())} files, {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
