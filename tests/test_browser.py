"""The built book in a browser: alone in the world, without errors, with a demo that moves.

Every page of `_build/html` is opened once in headless Chromium, with every other host blocked.
"""

import functools
import gzip
import http.server
import os
import re
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "_build/html"
DEMO = "chapters/03-the-spectral-gap.html"
REPOSITORY = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
WEIGHT = 1.2e6  # bytes on the wire, for a page without a demo

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]
BROWSERS = (
    "chromium chromium-browser google-chrome google-chrome-stable chrome chromium.exe chrome.exe"
)
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Google/Chrome/Application/chrome.exe",
)
NO_BROWSER = (
    "The browser checks need Chromium or Chrome and found neither: install it (Debian and Ubuntu: "
    "sudo apt-get install chromium; macOS: brew install --cask chromium; Windows: winget install "
    "Google.Chrome), or name its program in CHROMIUM, or skip these checks with SKIP_BROWSER=1."
)

pytestmark = pytest.mark.skipif(
    os.environ.get("SKIP_BROWSER") == "1", reason="SKIP_BROWSER=1: the browser checks are left out"
)


def browser_program() -> str | None:
    """Path of an installed Chromium or Chrome."""
    named = os.environ.get("CHROMIUM")
    found = map(shutil.which, [named] if named else [*BROWSERS.split(), *PLACES])
    return next(filter(None, found), None)


def missing() -> str:
    """Say what these checks need and do not find; an empty text where they can run."""
    if not (BOOK / "index.html").exists():
        return "There is no built book in _build/html: run make book first."
    if browser_program():
        return ""
    named = os.environ.get("CHROMIUM")
    return f"CHROMIUM={named} is no program that can be run." if named else NO_BROWSER


def test_what_the_checks_need_is_there():
    """Fail once, and in words; the others skip."""
    if lacking := missing():
        pytest.fail(lacking, pytrace=False)


# ---------------------------------------------------------------- server and browser
EXTRA = {
    "/blank.html": lambda: b"<!doctype html><title>blank</title><link rel=icon href='data:,'>",
    "/demos.mjs": (ROOT / "gapcourse/demos.mjs").read_bytes,
}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serve the book compressed, as a web host does, and the demo's module beside it."""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        file = Path(self.translate_path(path + "index.html" if path.endswith("/") else path))
        if path in EXTRA:
            body = EXTRA[path]()
        elif file.is_file():
            body = file.read_bytes()
        else:
            self.send_error(404)
            return
        kind = "text/javascript" if path.endswith(".mjs") else self.guess_type(str(file))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if not kind.startswith(("image/png", "font/")):
            body = gzip.compress(body, 6)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def base():
    if lacking := missing():
        pytest.skip(lacking)
    handler = functools.partial(Handler, directory=str(BOOK))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    if lacking := missing():
        pytest.skip(lacking)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser_program(), args=FLAGS)
        yield chromium
        chromium.close()


# ---------------------------------------------------------------- every page, once
@dataclass
class Visit:
    """What opening one page did."""

    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    weight: float = 0
    formulas: int = 0
    typeset: int = 0
    wrong: int = 0
    demo: bool = False
    width: int = 0
    reports: list[str] = field(default_factory=list)
    colab: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)


def open_page(page, base: str, path: str) -> Visit:
    """Open a page and wait until it has come to rest, noting all that it asks for and says."""
    visit = Visit()
    inside = (base, "data:", "blob:")

    def asked(request):
        if not request.url.startswith(inside):
            visit.outside.append(request.url)

    page.on("request", asked)
    page.on("requestfailed", lambda r: visit.errors.append(f"failed: {r.url}"))
    page.on("response", lambda r: r.status >= 400 and visit.errors.append(f"{r.status}: {r.url}"))
    page.on("console", lambda m: m.type == "error" and visit.errors.append(f"console: {m.text}"))
    page.on("pageerror", lambda e: visit.errors.append(f"script: {e}"))
    wire = page.context.new_cdp_session(page)
    wire.send("Network.enable")

    def arrived(event):
        visit.weight += event["encodedDataLength"]

    wire.on("Network.loadingFinished", arrived)
    page.goto(base + path)
    page.evaluate("globalThis.MathJax?.startup?.promise")
    page.evaluate("document.fonts.ready.then(() => true)")
    if page.locator("script[type='application/vnd.jupyter.widget-view+json']").count():
        page.locator(".gap-demo td[data-out=s1]:not(:empty)").first.wait_for()
        visit.demo = True
    found = page.evaluate("""() => {
        const all = (css) => [...document.querySelectorAll(css)];
        return {
            formulas: all("main .math").length,
            typeset: all("main .math").filter((m) => m.querySelector("mjx-container")).length,
            wrong: all("mjx-merror, [data-mjx-error]").length,
            width: document.documentElement.scrollWidth - innerWidth,
            reports: all("a.report-error").map((a) => a.href),
            colab: all("a[href*='colab.research.google.com/']")
                .filter((a) => a.closest(".article-header-buttons")).map((a) => a.href),
            silent: all("article img").filter((i) => !i.alt.trim()).map((i) => i.src),
            links: all("article a[href]").map((a) => a.href),
            ids: all("[id]").map((e) => e.id),
        };
    }""")
    for name, value in found.items():
        setattr(visit, name, value)
    return visit


@pytest.fixture(scope="module")
def visits(browser, base) -> dict[str, Visit]:
    visits = {}
    for file in sorted(BOOK.rglob("*.html")):
        path = file.relative_to(BOOK).as_posix()
        if path.startswith("_static/") or path == "index.html":  # index.html only leads on
            continue
        context = browser.new_context(viewport={"width": 390, "height": 800})
        visits[path] = open_page(context.new_page(), base, path)
        context.close()
    return visits


def problems(visits: dict[str, Visit], **checks) -> str:
    """One line for each page and check that went wrong."""
    return "\n".join(
        f"{path}: {name}: {found}"
        for path, visit in visits.items()
        for name, check in checks.items()
        if (found := check(path, visit))
    )


def test_first_page_leads_to_the_title_page(browser, base):
    page = browser.new_page()
    page.goto(base)
    page.wait_for_url("**/pages/index.html")
    page.close()


def test_no_page_asks_another_host_or_logs_an_error(visits):
    assert DEMO in visits
    wrong = problems(visits, outside=lambda _, v: v.outside, errors=lambda _, v: v.errors)
    assert not wrong, wrong


def test_mathematics_is_typeset(visits):
    wrong = problems(
        visits,
        untypeset=lambda _, v: v.formulas - v.typeset,
        errors=lambda _, v: v.wrong,
    )
    assert not wrong, wrong
    assert visits[DEMO].typeset > 0


def test_pictures_have_words(visits):
    wrong = problems(visits, without_alt=lambda _, v: v.silent)
    assert not wrong, wrong


def test_local_links_lead_somewhere(visits, base):
    def leads(link: str) -> bool:
        target = urlsplit(link)
        path, place = unquote(target.path).lstrip("/"), unquote(target.fragment)
        known = visits[path].ids if path in visits else []
        return (BOOK / path).is_file() and (not place or place in known)

    wrong = problems(
        visits,
        dead=lambda _, v: [x for x in v.links if x.startswith((base, "file:")) and not leads(x)],
    )
    assert not wrong, wrong


def test_weight_on_the_wire(visits):
    for path, visit in visits.items():
        print(f"{visit.weight / 1e6:6.2f} MB  {path}{'  (demo)' if visit.demo else ''}")
    wrong = problems(visits, bytes=lambda _, v: not v.demo and v.weight > WEIGHT and v.weight)
    assert not wrong, wrong


def test_no_page_scrolls_sideways_on_a_phone(visits):
    wrong = problems(visits, pixels_too_wide=lambda _, v: max(v.width, 0))
    assert not wrong, wrong


def test_each_page_has_a_link_that_reports_an_error_on_it(visits):
    def check(path, visit):
        if len(visit.reports) != 1:
            return f"{len(visit.reports)} links"
        link = urlsplit(visit.reports[0])
        title = parse_qs(link.query)["title"][0]
        right = visit.reports[0].startswith(f"{REPOSITORY}/issues/new?")
        return "" if right and path.removesuffix(".html") in title else visit.reports[0]

    wrong = problems(visits, link=check)
    assert not wrong, wrong


def test_only_chapters_open_in_colab(visits):
    host, repository = REPOSITORY.removeprefix("https://").split("/", 1)
    assert host == "github.com"

    def check(path, visit):
        if not path.startswith("chapters/"):
            return visit.colab
        notebook = path.replace(".html", ".ipynb")
        right = f"https://colab.research.google.com/github/{repository}/blob/main/{notebook}"
        return "" if visit.colab == [right] else visit.colab or "no link"

    wrong = problems(visits, colab=check)
    assert not wrong, wrong


# ---------------------------------------------------------------- the demo
@pytest.fixture(params=[1280, 390], ids=["desktop", "phone"])
def demo(request, browser, base):
    context = browser.new_context(viewport={"width": request.param, "height": 900})
    page = context.new_page()
    page.goto(base + DEMO)
    page.locator(".gap-demo td[data-out=s1]:not(:empty)").first.wait_for()
    yield page
    context.close()


def shown(page) -> dict[str, object]:
    """Numbers, note, picture and labels of the first demo of a page, after its next redraw."""
    return page.evaluate("""async () => {
        for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
        const demo = document.querySelector(".gap-demo");
        const texts = {};
        for (const o of demo.querySelectorAll("[data-out]")) texts[o.dataset.out] = o.textContent;
        return {
            ...texts,
            note: demo.querySelector(".gap-note").textContent,
            pictures: [...demo.querySelectorAll("canvas")].map((c) => c.toDataURL()),
            labels: [...demo.querySelectorAll("canvas")].map((c) => c.getAttribute("aria-label")),
            width: document.documentElement.scrollWidth - innerWidth,
            focus: document.activeElement.name,
        };
    }""")


def assert_redrawn(before, after):
    """Numbers and both pictures are new, and the labels tell it."""
    assert before["s2"] != after["s2"]
    for old, new in zip(before["pictures"], after["pictures"], strict=True):
        assert old != new
    for old, new in zip(before["labels"], after["labels"], strict=True):
        assert old != new
    told = re.search(r"the second is ([\d.]+)", after["labels"][1])
    assert told
    assert float(told[1]) == pytest.approx(float(after["s2"]), abs=6e-4)


def test_controls_by_keyboard(demo):
    start = shown(demo)
    assert len(start["pictures"]) == 2
    assert start["width"] <= 0
    controls = demo.locator(".gap-demo").first
    # In JupyterLab the notebook would take the arrow keys of a control that does not say so.
    assert controls.locator("[data-lm-suppress-shortcuts]").count() == 4
    controls.locator("[name=tokens]").focus()
    demo.keyboard.press("ArrowRight")
    more_tokens = shown(demo)
    assert int(more_tokens["tokens"]) == int(start["tokens"]) + 10
    assert_redrawn(start, more_tokens)

    demo.keyboard.press("Tab")
    assert shown(demo)["focus"] == "sigma"
    demo.keyboard.press("ArrowLeft")
    less_sigma = shown(demo)
    assert float(less_sigma["sigma"]) == pytest.approx(float(start["sigma"]) - 0.05)
    assert float(less_sigma["s2"]) < float(more_tokens["s2"])
    assert_redrawn(more_tokens, less_sigma)

    demo.keyboard.press("Tab")
    assert shown(demo)["focus"] == "entries"
    demo.keyboard.press("g")  # gamma
    gamma = shown(demo)
    assert_redrawn(less_sigma, gamma)

    demo.keyboard.press("Tab")
    assert shown(demo)["focus"] == "draw"
    demo.keyboard.press("Enter")
    fresh = shown(demo)
    assert_redrawn(gamma, fresh)
    assert fresh["p2"] == gamma["p2"]
    demo.keyboard.press("Space")
    assert_redrawn(fresh, shown(demo))
    assert shown(demo)["width"] <= 0


@pytest.mark.parametrize("demo", [1280], indirect=True)
def test_sigma_stays_within_the_ensemble(demo):
    controls = demo.locator(".gap-demo").first
    controls.locator("[name=entries]").select_option("uniform")
    uniform = shown(demo)
    assert uniform["sigma"] == "0.58"
    assert "1/√3" in uniform["note"]
    controls.locator("[name=sigma]").focus()
    demo.keyboard.press("End")
    assert shown(demo)["sigma"] == "0.58"
    demo.keyboard.press("Home")
    assert shown(demo)["sigma"] == "0.10"
    assert shown(demo)["note"] == ""
    controls.locator("[name=entries]").select_option("exponential")
    assert shown(demo)["sigma"] == "1.00"
    assert controls.locator("[name=sigma]").is_disabled()
    controls.locator("[name=entries]").select_option("lognormal")
    assert shown(demo)["sigma"] == "0.10"  # what the reader had asked for


@pytest.mark.parametrize("demo", [1280], indirect=True)
def test_numbers_follow_the_theory_at_the_largest_size(demo):
    controls = demo.locator(".gap-demo").first
    controls.locator("[name=entries]").select_option("gamma")
    controls.locator("[name=tokens]").focus()
    demo.keyboard.press("End")
    seen = {k: float(shown(demo)[k]) for k in ("tokens", "sigma", "s1", "s2", "p1", "p2", "gap")}
    assert seen["tokens"] == 300
    assert seen["p2"] == pytest.approx(2 * seen["sigma"] / np.sqrt(300), abs=1e-4)
    # Seen over seeds 1 to 60 of this law and size: s2 at 0.978 to 1.011 of the edge, s1 within
    # 0.0004 of its formula.
    assert 0.96 < seen["s2"] / seen["p2"] < 1.03
    assert seen["s1"] == pytest.approx(seen["p1"], abs=0.001)
    assert seen["gap"] == pytest.approx(seen["s1"] - seen["s2"], abs=2e-4)


def test_demo_works_from_the_file(browser):
    page = browser.new_page()
    page.goto((BOOK / DEMO).as_uri())
    page.locator(".gap-demo td[data-out=s1]:not(:empty)").first.wait_for()
    page.close()


# ---------------------------------------------------------------- its mathematics
@pytest.fixture(scope="module")
def blank(browser, base):
    page = browser.new_page()
    page.goto(base + "blank.html")
    yield page
    page.close()


def markov(size: int, seed: int) -> np.ndarray:
    raw = np.random.default_rng(seed).lognormal(size=(size, size))
    return raw / raw.sum(axis=1, keepdims=True)


MATRICES = {
    "one": np.array([[-3.0]]),
    "zero": np.zeros((6, 6)),
    "identity": np.eye(7),
    "uniform": np.full((40, 40), 1 / 40),
    "rank-three": np.random.default_rng(0).normal(size=(50, 3))
    @ np.random.default_rng(1).normal(size=(3, 50)),
    "gaussian": np.random.default_rng(2).normal(size=(64, 64)),
    "triangular": np.tril(np.ones((60, 60))) / np.arange(1, 61)[:, None],
    "markov-300": markov(300, 3),
    "mean-removed-300": markov(300, 4) - 1 / 300,
    "graded": np.diag(10.0 ** -np.arange(12.0)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_singular_values_equal_those_of_numpy(blank, name):
    A = MATRICES[name]
    script = "async ([a, n]) => [...(await import('/demos.mjs')).singularValues(a, n)]"
    values = blank.evaluate(script, [A.ravel().tolist(), len(A)])
    expected = np.linalg.svd(A, compute_uv=False)
    assert values == sorted(values, reverse=True)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9 * max(1, expected[0]))


@pytest.mark.parametrize("size", [2, 10, 300])
def test_both_spectra_from_one_bidiagonal_form(blank, size):
    A = markov(size, size)
    script = """async ([a, n]) => {
        const { all, bulk } = (await import('/demos.mjs')).markovSpectra(a, n);
        return [[...all], [...bulk]];
    }"""
    for values, matrix in zip(
        blank.evaluate(script, [A.ravel().tolist(), size]), (A, A - 1 / size), strict=True
    ):
        expected = np.linalg.svd(matrix, compute_uv=False)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("entries", "sigma"),
    [
        ("lognormal", 1.0),
        ("gamma", 0.5),
        ("gamma", 1.5),
        ("exponential", 1.0),
        ("uniform", 0.5),
        ("bernoulli", 1.0),
        ("pareto", 0.25),
    ],
)
def test_ensembles_have_the_sigma_they_are_asked_for(blank, entries, sigma):
    script = """async ([entries, sigma]) => {
        const { randomMarkov } = await import('/demos.mjs');
        return [...randomMarkov(300, sigma, entries, 7)];
    }"""
    A = np.reshape(blank.evaluate(script, [entries, sigma]), (300, 300))
    np.testing.assert_allclose(A.sum(axis=1), 1, rtol=1e-12)
    assert A.min() >= 0
    # 90,000 entries: one standard error of std/mean is 1.0 % for the log-normal law (kurtosis 41)
    # and 1.4 % for this Pareto law (kurtosis 66), less for the others.
    assert 300 * A.std() == pytest.approx(sigma, rel=0.05)
