"""The book and its surroundings, read from their sources: pages, links, frame, citations."""

import contextlib
import io
import json
import math
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FILES = [TOC["root"], *(entry["file"] for part in TOC["parts"] for entry in part["chapters"])]
PAGES = sorted((ROOT / "pages").glob("*.md"))
CHAPTERS = sorted((ROOT / "chapters").glob("[0-9][0-9]-*.ipynb"))
NOTEBOOKS = [*CHAPTERS, *sorted((ROOT / "chapters/experiments").glob("*.ipynb"))]
FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
CLAIMS = ROOT / "claims.yml"


def source(path):
    """Return a page's text; of a notebook, its Markdown cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def name(path):
    return path.relative_to(ROOT).as_posix()


def prose(text):
    """Return a text without its code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def claim_ids():
    if not CLAIMS.is_file():
        pytest.skip("there is no ledger yet")
    return {claim["id"] for claim in yaml.safe_load(CLAIMS.read_text(encoding="utf-8"))}


def one_of(path):
    return pytest.param(path, id=name(path))


every_text = pytest.mark.parametrize("path", [one_of(p) for p in (*PAGES, *NOTEBOOKS, *FRONT)])
every_chapter = pytest.mark.parametrize("path", [one_of(p) for p in CHAPTERS])
every_notebook = pytest.mark.parametrize("path", [one_of(p) for p in NOTEBOOKS])


# --- pages and links ------------------------------------------------------------------------------


def test_the_table_of_contents_is_complete():
    exist = {name(path).rsplit(".", 1)[0] for path in (*PAGES, *NOTEBOOKS)}
    assert exist == set(FILES)
    assert [f for f in FILES if re.match(r"chapters/\d", f)] == [
        name(path).removesuffix(".ipynb") for path in CHAPTERS
    ]


def test_the_title_page_lists_the_chapters_that_exist():
    listed = re.findall(r"\.\./(chapters/[\w/-]+)\.ipynb", source(ROOT / "pages/index.md"))
    assert set(listed) == {f for f in FILES if f.startswith("chapters/")}


@every_text
def test_a_local_link_leads_somewhere(path):
    text = prose(source(path))
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"\}\s+(\.\./\S+)", source(path))
    for target in targets:
        if re.match(r"https?:|mailto:|#", target):
            continue
        file = (path.parent / target.split("#")[0]).resolve()
        assert file.exists() or file.with_suffix(".ipynb").exists(), f"{target} leads nowhere"


def claim_links(path):
    return set(re.findall(r"#claim-([a-z0-9-]+)", source(path)))


@pytest.mark.parametrize("path", [one_of(p) for p in (*PAGES, *NOTEBOOKS)])
def test_a_linked_claim_is_in_the_ledger(path):
    missing = claim_links(path) - claim_ids()
    assert not missing, f"claims.yml has no {sorted(missing)}"


def test_a_claim_is_shown_and_linked_by_its_chapter():
    tags, links = set(), set()
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        tags |= {tag for c in cells for tag in c["metadata"].get("tags", [])}
        links |= claim_links(path)
    for claim in claim_ids():
        assert f"claim:{claim}" in tags, f"no cell has the tag claim:{claim}"
        assert claim in links, f"no chapter links the claim {claim}"


# --- words ----------------------------------------------------------------------------------------

AVOIDED = (
    r"\bobviously\b|\bclearly,|\btrivial|it is worth noting|let us dive|in this section we will"
    r"|initialization|\bmodeling\b|\bcolor of\b|\bbehavior\b|\bcenter\b|\bnormaliz|\bgeneraliz"
)
# A path from the root of a file system, after a space, a quote or a bracket.
PRIVATE = (
    r"(?<![^\s\"'`(\[=:])/(?:home|root|Users|Volumes|tmp|var|usr|opt|mnt|srv)/"
    r"|\b[A-Z]:\\"
)


@every_text
def test_words_that_do_not_belong(path):
    found = re.findall(AVOIDED, prose(source(path)), flags=re.IGNORECASE)
    assert not found, f"words to avoid: {found}"
    assert not re.search(PRIVATE, path.read_text(encoding="utf-8")), "a path of one machine"


# --- citations ------------------------------------------------------------------------------------

BIBLIOGRAPHY = (ROOT / "references.bib").read_text(encoding="utf-8")
KEYS = re.findall(r"^@\w+\{([^,]+),", BIBLIOGRAPHY, flags=re.MULTILINE)


def test_keys_are_alike_and_unique():
    assert len(KEYS) == len(set(KEYS))
    assert all(re.fullmatch(r"[a-z]+\d{4}[a-z]+", key) for key in KEYS)


UNLINKED = {  # no lasting address that we know
    *("bai2008large", "frobenius1912matrizen", "roy2007effective"),
}


def test_a_source_can_be_opened():
    entries = re.findall(r"^@\w+\{([^,]+),(.*?)^\}", BIBLIOGRAPHY, re.MULTILINE | re.DOTALL)
    place = re.compile(
        r"^  (?:doi +=\s\{10\.\d+/\S+\}|eprint +=\s\{(?:[a-z-]+/\d{7}|\d{4}\.\d{4,5})\}"
        r"|url +=\s\{https://\S+\}),$",
        re.MULTILINE,
    )
    assert len(entries) == len(KEYS)
    assert {key for key, fields in entries if not place.search(fields)} == UNLINKED
    assert "arXiv" not in BIBLIOGRAPHY, "its number belongs in `eprint`, which becomes a link"


def test_a_cited_key_exists():
    texts = [source(path) for path in (*PAGES, *NOTEBOOKS)]
    texts += [CLAIMS.read_text(encoding="utf-8")] if CLAIMS.is_file() else []
    cited = {
        key.strip()
        for text in texts
        for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text)
        for key in keys.split(",")
    }
    assert "naitsaada2025mind" in cited
    assert cited <= set(KEYS), f"not in references.bib: {sorted(cited - set(KEYS))}"


def test_an_author_and_year_in_prose_is_in_the_bibliography():
    entries = {}
    for entry in re.split(r"^@", BIBLIOGRAPHY, flags=re.MULTILINE)[1:]:
        field = dict(re.findall(r"^\s*(author|year)\s*=\s*\{(.+)\},$", entry, flags=re.MULTILINE))
        entries.setdefault(field["year"], []).append(field["author"])
    texts = [
        source(path) for path in (*PAGES, *NOTEBOOKS, *sorted((ROOT / "gapcourse").glob("*.py")))
    ]
    texts += [CLAIMS.read_text(encoding="utf-8")] if CLAIMS.is_file() else []
    for text in texts:
        for author, year in re.findall(r"([^\W\d_][\w-]*)(?:\s+et al\.)?,?\s+\((\d{4})\)", text):
            known = " ".join(entries.get(year, []))
            assert author in known, f"{author} ({year}) is not in references.bib"


def test_the_citation_file_agrees_with_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["repository-code"] == PROJECT["urls"]["Repository"]
    assert [a["name"] for a in citation["authors"]] == [a["name"] for a in PROJECT["authors"]]
    assert f"## {PROJECT['version']}" in source(ROOT / "CHANGELOG.md")


def test_the_licences_are_there():
    assert source(ROOT / "LICENSE").startswith("MIT License")
    assert "creativecommons.org/licenses/by/4.0/legalcode" in source(ROOT / "LICENSE-CONTENT")


# --- glossary -------------------------------------------------------------------------------------


def test_the_glossary_is_sorted_and_has_the_terms_of_the_chapters():
    block = re.search(r"```\{glossary\}\n(.*?)```", source(ROOT / "pages/glossary.md"), re.DOTALL)
    terms = [line for line in block[1].splitlines() if line and not line.startswith(" ")]
    assert terms == sorted(terms, key=str.lower)
    defined = {
        term for p in NOTEBOOKS for term in re.findall(r"\*\*([a-z][a-z -]+)\*\*", source(p))
    }
    assert {"spectral gap", "circular law", "stable rank"} <= defined
    wanted = {"row-stochastic matrix", "bulk", "outlier", "quarter-circle law", "rank collapse"}
    absent = (wanted | {"i.i.d.", "heavy tail"} | defined) - set(map(str.lower, terms))
    assert not absent, f"terms that the chapters define: {sorted(absent)}"
    texts = [source(path) for path in (*PAGES, CLAIMS) if path.stem != "glossary"]
    texts += [path.read_text(encoding="utf-8") for path in NOTEBOOKS]  # captions and code, too
    used = re.sub(r"[\s-]+", " ", " ".join(texts)).lower()
    unused = [
        t for t in terms if not re.search(rf"\b{re.escape(t.lower().replace('-', ' '))}", used)
    ]
    assert not unused, f"terms that the book never uses: {unused}"


# --- README ---------------------------------------------------------------------------------------


def test_the_readme_snippet_prints_what_stands_below_it():
    text = source(ROOT / "README.md")
    code, printed = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", text, re.DOTALL).groups()
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {})
    assert out.getvalue() == printed


def test_the_example_of_the_api_page_runs():
    code = re.search(r"```python\n(.*?)```", source(ROOT / "pages/api.md"), re.DOTALL)[1]
    scope = {}
    exec(code, scope)
    assert abs(scope["s2"] / scope["edge"] - 1) < 0.05
    assert 1 <= scope["s1"] < 1.01


# --- numbers in words -----------------------------------------------------------------------------

NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(?:(?: × 10\^|e)(-?\d+))?(?!\w|\.\d)")
NOT_A_VALUE = (
    r"\[\(\d+\)\]\(#[\w-]+\)|\]\([^)]*\)"  # links
    r"|\^\{[^{}]*\}|\^\d|_\{[^{}]*\}|\\[td]?frac(?:\{[^{}]*\}|\d){2}"  # exponents, fractions
)
BY_HAND = {  # what no cell shows: the words, the values behind them, and why
    "the middle 80 %": [100 * (0.9 - 0.1)],  # the band of figures.sweep
    "0.6 % at $T = 512$": [38 * 512 ** (-2 / 3), 512],  # 0.38 T^(-2/3)
    "$s_2$ is 0.02": [2 / 10_000**0.5],  # quiz 3: T = 10,000, sigma = 1
    "root mean square 0.01": [1 / 10_000**0.5],  # the same
    "(a) 2.8": [8**0.5],  # quiz 4
    "down to 1.11 at $k = 20$": [(21**21 / 20**20) ** (1 / 40), 20],  # quiz 5: formula (11)
    "that is 1.961": [2 * 50 / 51],  # exercise 1
    "\\sqrt{1000} = 7.9$": [1000, 1000**0.5 / 4],  # exercise 2
    "\\sqrt{\\ln(1 + \\sigma^2)} = 2.04$": [math.log(1 + 1000 / 16) ** 0.5],  # the same
    "about 2.6: the formula": [(27 / 4) ** 0.5],  # exercise 4
    "Both are about 1.76": [  # 02, exercise 2: the least x
        min((1 + (1 + w * w / 2500) ** 0.5) / w * 50 + w / 400 for w in range(1, 500))
    ],
    "$\\frac12 \\cdot 1.2065 = 0.60$ against 0.38": [1.2065 / 2, 1.2065 / 2 ** (5 / 3), 1.2065],
    "$2^{2/3} = 1.59$": [2 ** (2 / 3)],  # 02, exercise 3, as the line before
    "(0.136)": [1.358 / 100**0.5],  # 02, exercise 4: the 5 % point of Kolmogorov's law
    "Section 2.2": [2.2],  # of the paper
}


def numbers(text):
    """Return the numbers of a text as they are written, with their values."""
    text = re.sub(r"(?<=\d)(?:\{,\}|[,_])(?=\d{3})", "", text)
    return [(digits, float(f"{digits}e{ten or 0}")) for digits, ten in NUMBER.findall(text)]


def unseen(text, *sources, whole=10):
    """Return the numbers of a text that none of the sources shows at the text's own rounding."""

    def look(text, values):
        for digits, value in numbers(re.sub(NOT_A_VALUE, "", text)):
            half = 0.5000001 * 10.0 ** -len(digits.partition(".")[2])
            if ("." in digits or value >= whole) and all(abs(value - v) > half for v in values):
                yield digits

    for words, values in BY_HAND.items():
        text = text if any(look(words, values)) else text.replace(words, "")
    return list(look(text, [value for part in sources for _, value in numbers(part)]))


def cells_of(path, *kinds):
    """Return of each cell its source, its caption, and what it shows in words."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        book = cell["metadata"].get("mystnb", {})
        shown = ["".join(output.get("text", "")) for output in cell.get("outputs", [])]
        shown = "\n".join([book.get("image", {}).get("alt", ""), *shown])
        if cell["cell_type"] in kinds:
            yield "".join(cell["source"]), book.get("figure", {}).get("caption", ""), shown


@every_notebook
def test_a_number_in_a_caption_or_in_prose_is_shown(path):
    seen, code, wrong = re.findall(r"```python\n.*?```", source(path), re.DOTALL), [], []
    for text, caption, shown in cells_of(path, "code"):
        code, seen = [*code, text], [*seen, text, shown]
        wrong += [f"{number}, in {caption}" for number in unseen(caption, shown, *code)]
    wrong += unseen(prose(source(path)), *seen, whole=math.inf)
    assert not wrong, "no cell shows, and BY_HAND does not derive: " + "\n".join(wrong)


def test_what_is_derived_by_hand_still_stands_somewhere():
    text = "".join(source(p) + "".join(c[1] for c in cells_of(p, "code")) for p in NOTEBOOKS)
    assert [words for words in BY_HAND if words not in text] == []


# --- the frame of a chapter -----------------------------------------------------------------------

FRAME = ("Predict", "Play", "Break it", "Check yourself", "Exercises", "What you saw")


def sections(path):
    """Return the sections of a chapter by heading, in order."""
    parts = re.split(r"^## (.+)$", source(path), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@every_chapter
def test_a_chapter_opens_with_what_it_asks_and_gives(path):
    opening = re.split(r"^## ", source(path), flags=re.MULTILINE)[0]
    assert re.match(r"# \S.*\n\n\S", opening), "a title and a sentence why it matters"
    goals = re.search(r"\*\*You will be able to\*\*\s+((?:- .+\n)+)", opening)
    assert 3 <= len(goals[1].splitlines()) <= 5
    assert "**You need**" in opening
    assert "minutes" in opening.split("**Time**")[1]


@every_chapter
def test_a_chapter_has_its_sections_in_order(path):
    headings = list(sections(path))
    places = [headings.index(heading) for heading in FRAME]
    assert places == sorted(places)
    assert places[0] == 0
    assert places[-1] == len(headings) - 1


@every_notebook
def test_the_first_code_cell_is_the_setup(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert "setup" in code[0]["metadata"].get("tags", [])
    assert sum("setup" in cell["metadata"].get("tags", []) for cell in code) == 1


def questions(text):
    """Return the numbered questions of a text."""
    return re.split(r"^\*\*(?:Exercise )?\d+\.?", text, flags=re.MULTILINE)[1:]


@every_chapter
def test_every_choice_has_a_reason(path):
    asked = questions(sections(path)["Check yourself"])
    assert 3 <= len(asked) <= 5
    for question in asked:
        choices = re.findall(r"<details>\s*<summary>.*?</summary>(.*?)</details>", question, re.S)
        verdicts = [re.match(r"\s*(Yes|No)\b\W*(.*)", choice, re.S) for choice in choices]
        assert len(choices) >= 2
        assert [v[1] for v in verdicts].count("Yes") == 1
        assert all(len(v[2].split()) >= 3 for v in verdicts), "a reason, not only right or wrong"


@every_chapter
def test_an_exercise_says_how_long_it_takes_and_folds_its_solution(path):
    exercises = questions(sections(path)["Exercises"])
    assert exercises
    for exercise in exercises:
        assert re.match(r"\*\*\s+\(\d+ minutes", exercise)
        assert "<details>" in exercise


@every_notebook
def test_folds_are_closed_and_read_well_in_colab(path):
    text = source(path)
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>")
    # A blank line after the summary, or what follows is not read as Markdown.
    assert not re.search(r"</summary>(?!\n\n)", text)


@every_chapter
def test_what_you_saw_links_the_ledger_line_by_line(path):
    lines = re.findall(r"^- .+$", sections(path)["What you saw"], flags=re.MULTILINE)
    assert lines
    assert all("#claim-" in line for line in lines)


@every_chapter
def test_theorems_open_with_plain_words_and_name_their_source(path):
    found = re.findall(r"^:::\{prf:(?:theorem|proposition)\}.*?^:::", source(path), re.M | re.S)
    assert found
    for theorem in found:
        assert re.search(r":label: \S+\n\n\*\*.+?\*\*", theorem)
        assert "*Source: " in theorem


@every_notebook
def test_equations_count_and_links_show_their_numbers(path):
    text = source(path)
    equations = re.findall(r"(?:\\tag\{(\d+)\}\s*)?^\$\$ \((eq-[\w-]+)\)", text, re.MULTILINE)
    number = {label: str(i) for i, (_, label) in enumerate(equations, 1)}
    assert [(tag, label) for label, tag in number.items()] == equations
    assert text.count(r"\tag{") == len(equations)
    for cell, caption, _ in cells_of(path, "code", "markdown"):
        for shown, label in re.findall(r"\[\((\d+)\)\]\(#(eq-[\w-]+)\)", cell + caption):
            assert shown == number.get(label), f"[({shown})](#{label})"
