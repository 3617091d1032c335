"""Change the repository's address everywhere, or check that it is the same everywhere.

    python tools/repository.py https://github.com/you/your-fork
    python tools/repository.py --check

The address stands in one place, `[project.urls] Repository` in pyproject.toml. The files made
from it (the book's configuration, links in the README and the pages, CITATION.cff, the setup cell
of every chapter, Colab and Pages links) follow with this one command.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Files that cannot do without the address; every other text file may hold it.
MUST_HOLD = ("_config.yml", "README.md", "CITATION.cff")

TEXT = {".bib", ".cff", ".ipynb", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"}
SKIP = {"_build", "_lib", "dist", "node_modules"}

# Placeholders, and repositories that the course may link to and that are not its own.
OTHERS = {"you/your-fork", "owner/name"}

ADDRESS = re.compile(r"https://github\.com/([A-Za-z0-9-]+/[A-Za-z0-9._-]*[A-Za-z0-9_-])")
# How a slug shows in the three kinds of links: the repository, Colab's copy of it, its Pages site.
LINKS = re.compile(
    r"(?:https://github\.com/|colab\.research\.google\.com/github/)"
    r"(?P<slug>[A-Za-z0-9-]+/[A-Za-z0-9._-]*[A-Za-z0-9_-])"
    r"|https://(?P<owner>[A-Za-z0-9-]+)\.github\.io/(?P<name>[A-Za-z0-9._-]*[A-Za-z0-9_-])"
)


def address(root: Path = ROOT) -> str:
    """Return the repository's address as pyproject.toml states it."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"])


def slug_of(url: str) -> str:
    """Return owner/name of a GitHub address, or raise ValueError saying what is wanted."""
    match = ADDRESS.fullmatch(url.removesuffix("/").removesuffix(".git"))
    if match is None:
        raise ValueError(
            f"URL must look like https://github.com/OWNER/NAME, got {url!r} "
            "(the Colab and Pages links can be made for GitHub only)"
        )
    return match.group(1)


def text_files(root: Path = ROOT) -> Iterator[Path]:
    """Yield the project's own text files, none of what was built or brought in."""
    for path in sorted(root.iterdir()):
        if path.name in SKIP or (path.name.startswith(".") and path.name != ".github"):
            continue
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (
            file
            for file in found
            if file.is_file()
            and file.suffix in TEXT
            and not any(
                part.startswith(".") or part in SKIP for part in file.parts[len(root.parts) + 1 :]
            )
        )


def linked_slugs(text: str) -> set[str]:
    """Return owner/name, in small letters, of every repository that a text links to."""
    found = (m["slug"] or f"{m['owner']}/{m['name']}" for m in LINKS.finditer(text))
    return {slug.removesuffix(".git").lower() for slug in found} - OTHERS


def rewrite(text: str, old: str, new: str) -> str:
    """Return the text with every link to repository `old` led to `new` (both owner/name)."""

    def follow(match: re.Match[str]) -> str:
        found = match["slug"] or f"{match['owner']}/{match['name']}"
        plain = found.removesuffix(".git")
        if plain.lower() != old.lower():
            return match[0]
        if match["slug"] is None:
            owner, name = new.split("/")
            return f"https://{owner.lower()}.github.io/{name}"
        return match[0].replace(found, new + found[len(plain) :])

    return LINKS.sub(follow, text)


def change(url: str, root: Path = ROOT) -> list[Path]:
    """Write the new address into every file that holds the old one; return the files changed."""
    old, new = slug_of(address(root)), slug_of(url)
    changed = []
    for path in text_files(root):
        before = path.read_bytes().decode("utf-8")
        after = rewrite(before, old, new)
        if after != before:
            path.write_bytes(after.encode("utf-8"))
            changed.append(path)
    return changed


def problems(root: Path = ROOT) -> list[str]:
    """Return what is wrong: a file without the address, or a link to another repository."""
    slug = slug_of(address(root)).lower()
    found = []
    for path in text_files(root):
        slugs = linked_slugs(path.read_text(encoding="utf-8"))
        name = path.relative_to(root).as_posix()
        if name in MUST_HOLD and slug not in slugs:
            found.append(f"{name}: does not hold the address of {slug}")
        found += [f"{name}: links to {other}, not {slug}" for other in sorted(slugs - {slug})]
    return found


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("url", nargs="?", help="the new address, https://github.com/OWNER/NAME")
    what.add_argument("--check", action="store_true", help="check that all files agree")
    args = parser.parse_args()
    if args.check:
        wrong = problems()
        print(*wrong, sep="\n", end="\n" if wrong else "")
        print(f"repository: {'NOT the same everywhere' if wrong else address() + ' everywhere'}")
        return 1 if wrong else 0
    try:
        changed = change(args.url)
    except ValueError as error:
        print(f"repository: {error}", file=sys.stderr)
        return 2
    for path in changed:
        print(f"  {path.relative_to(ROOT).as_posix()}")
    print(f"repository: {address()} is now the address, in {len(changed)} files changed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
