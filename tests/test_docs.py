"""The documentation builds without a warning, links lead somewhere, and the paper's items and formulas have places."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from sphinx.util.inventory import InventoryFile

import freepull as fp
from freepull import testing
from freepull.reproduction import FIGURES

ROOT = Path(__file__).parents[1]
CONSTANTS = {
    "freepull.instances.PAPER_MEANS",
    "freepull.testing.AGENT_CHECKS",
    "freepull.testing.RULE_CHECKS",
    "freepull.testing.STORE_CHECKS",
}
"""Tables, which say what they are where they are used."""
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
ANCHORS = {name: set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)) for name, text in PAGES.items()}
ITEMS = [
    "Algorithm 1", *(f"line {n}" for n in range(1, 19)), "output",
    *(f"Eq. ({n})" for n in range(1, 12)),
    *(f"Lemma {n}" for n in range(1, 5)), "Theorem 1", "Theorem 2", *(f"Lemma {n}" for n in range(5, 13)),
    "Theorem 3", "Theorem 4",
    "Fig. 1", *(f"Fig. 2({part})" for part in "abcd"), "Fig. 3",
    "§3.2 X_km(t), μ_km", "§3.2 μ_k", "§3.2 T, δ", "§3.2 k_*m, μ_*m", "§3.2 Δ_km, Δ_min,m", "§3.2 k_*, μ_*",
    "§3.2 Δ_k, Δ_min", "§3.3 observation", "§3.4 I_km(t), X'", "§3.4 π_m(t)", "§3.4 R_m(T)",
    "§3.4 P[k̂_* = k_*] ≥ 1 − δ", "§3.4 C(T)", '§4.1 "Take"', '§4.1 "Ban"', "§4.2 consistent", "§4.2 N^w_km(Γ)",
    "§4.2 KL(μ_km, μ_*m)", "§4.2 κ(T) = T/2", "§4.2 N_km(t), μ̂_km(t)", "§4.3 μ̂_k(t)", "§4.3 S(t)", "§4.3 k̄(t), m̄(t)",
    "§4.3 memory O(KM)", "§5.1 α-UCB", "§5.1 x⁺", "§5.3 event H", "§6 toy game", "App. A κ_o(T)", "App. A T/4, √T",
    "App. A Δ̂_min(t)", "App. B H_m(t), Π_m, Π'_m, τ_m", "App. C θ", "App. C 𝔄, 𝔄', 𝔅_d, ζ, ε_m, ℭ_1, ℭ_2",
    "App. E Λ, F_km, N_max, event E_m", "App. F C_km, Z_km", "App. H output at T", "App. H CB_k without log log",
    "App. H Bernoulli rewards", "App. H random games", "App. H stochastic agents",
    "§3.4 remark", "§5.2 remark", "footnote 1", "footnote 2", "footnote 3", "§5.1 free pulls", "§5.1 almost free",
    "§7 personalised tasks", "§7 agent sampling", "§7 other protocols", "§7 other agents", "§7 other bandits",
]  # fmt: skip
"""The paper's numbered items in its own order, then its definitions, remarks and footnotes by section."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-d", str(folder / "trees"), str(ROOT / "docs"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def public_names() -> Iterator[str]:
    """Return every public name: those of the package, and those of its modules that are public themselves."""
    for module in (fp, testing):
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.ismodule(value):
                yield f"{module.__name__}.{name}"
                continue
            inside = getattr(value, "__all__", None) or [name for name in vars(value) if name[0].isupper()]
            yield from (f"{module.__name__}.{name}.{each}" for each in inside)


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    with (site / "objects.inv").open("rb") as file:
        kinds = InventoryFile.load(file, "", lambda _, to: to)
    described = {name for kind, names in kinds.items() if kind.startswith("py:") for name in names}
    public = set(public_names())
    assert len(public) > 80
    assert sorted(public - described - CONSTANTS) == []


class Links(HTMLParser):
    """What a page links to, and the places that it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links, self.places = list[str](), set[str]()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.places |= {str(found[name]) for name in ("id", "name") if found.get(name)}
        self.links += [str(found[name]) for name in ("href", "src") if found.get(name)]


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere_and_none_loads_from_another_host(site: Path) -> None:
    pages = {path: Links(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    assert len(pages) > 30
    for path, page in pages.items():
        for link in page.links:
            if "://" in link or link.startswith(("mailto:", "data:")):
                continue
            name, _, place = unquote(link).partition("#")
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            assert target.exists(), (path.name, link)
            if place and target in pages and not target.name.startswith(("genindex", "search")):
                assert place in pages[target].places, (path.name, link)
    loaded = re.compile(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"https?://[^>]+>")
    assert [found for path in pages for found in loaded.findall(path.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "examples" / "tutorials").glob("*.py")))
def test_a_tutorial_was_run_and_is_a_notebook_that_jupyter_reads(site: Path, name: str) -> None:
    page = (site / "tutorials" / f"{name}.html").read_text(encoding="utf-8")
    assert "sphx-glr-script-out" in page or "sphx-glr-single-img" in page
    assert "Traceback" not in page
    (path,) = site.glob(f"_downloads/*/{name}.ipynb")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    kinds = Counter(cell["cell_type"] for cell in notebook["cells"])
    assert kinds["code"] > 2
    assert kinds["markdown"] > 3
    text = "".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    assert re.findall(r":\w+:`|`_|^\.\. ", text, re.MULTILINE) == []


@pytest.mark.slow
def test_formulas_are_typeset_without_a_script(site: Path) -> None:
    for name in ("statistics", "certified", "mechanics", "comparisons", "checks", "planning", "concordance"):
        page = (site / f"{name}.html").read_text(encoding="utf-8")
        formulas = re.findall(r"<math.*?</math>", page, re.DOTALL)
        assert len(formulas) >= 25 or name not in ("statistics", "certified")
        assert [formula for formula in formulas if re.search(r"[\\$_]|&(?!lt;|gt;|amp;)", formula)] == []
        (article,) = re.findall(r"<article.*?</article>", page, re.DOTALL)
        text = re.sub(r"<(math|code|pre|script)\b.*?</\1>|<[^>]+>", " ", article, flags=re.DOTALL)
        assert re.findall(r"(?<![A-Za-z0-9_])[^\W\d_][\u0300-\u036f]*[_^]\S+", text) == []
        assert re.findall(r"<script[^>]*(?:mathjax|katex)", page, re.IGNORECASE) == []


def test_every_public_class_and_function_has_a_docstring() -> None:
    bare = []
    for name in public_names():
        home, _, attribute = name.rpartition(".")
        value = getattr(eval(home.replace("freepull", "fp", 1), {"fp": fp}), attribute)
        if (inspect.isclass(value) or inspect.isfunction(value)) and not inspect.getdoc(value):
            bare.append(name)
    assert bare == []


def test_the_readme_links_to_what_is_there() -> None:
    links = [
        (source, link)
        for source in ("README.md", "CONTRIBUTING.md", "SECURITY.md")
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / source).read_text())
        if "://" not in link
    ]
    assert len(links) > 8
    assert [(source, link) for source, link in links if not (ROOT / link).exists()] == []


def rows() -> list[list[str]]:
    """The concordance's rows, cell by cell, without heads and the table of statuses."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGES["concordance.md"].splitlines()
        if line.startswith("|")
    ]
    return [row for row in cells if len(row) == 6 and row[0] not in ("item", "---")]


def test_every_item_of_the_paper_has_one_row() -> None:
    assert [row[0] for row in rows()] == ITEMS


def test_every_row_has_a_formula_a_code_place_and_a_status_or_says_why_not() -> None:
    for item, words, formula, code, status, erratum in rows():
        assert words, item
        assert formula != "–" or status.startswith("not implemented: "), item
        assert code != "–" or status.startswith(("not implemented: ", "proof")), item
        assert re.match(
            r"exact|mended|heuristic|stated|proof|not implemented: |implemented|simulated|in the ", status
        ), item
        assert re.fullmatch(r"–|\d+(, \d+)*", erratum), item


def test_every_code_place_of_the_concordance_exists() -> None:
    places = re.findall(r"`([\w.]+): ([\w.]+)`", " ".join(row[3] for row in rows()))
    assert len(places) > 80
    for module, place in places:
        reduce(getattr, place.split("."), importlib.import_module(f"freepull.{module}"))


def test_every_anchor_and_erratum_of_the_concordance_exists() -> None:
    everywhere = set().union(*ANCHORS.values())
    linked = re.findall(r"\]\(#([\w-]+)\)", PAGES["concordance.md"])
    assert len(linked) > 80
    assert set(linked) <= everywhere
    errata = PAGES["statistics.md"].split("(errata)=")[1].split("(bounds)=")[0]
    numbers = [int(n) for n in re.findall(r"^(\d+)\. ", errata, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    named = {int(n) for row in rows() for n in re.findall(r"\d+", row[5])}
    assert named == set(numbers)  # every erratum is found from the item that it is about


@pytest.mark.parametrize("folder", ["src", "tests", "verification", "benchmarks", "examples"])
def test_code_cites_anchors_that_exist(folder: str) -> None:
    cited = re.compile(r"docs/(\w+\.md), ([a-z]\w*)\b(?! \w)")
    for path in sorted((ROOT / folder).rglob("*.py")):
        for page, anchor in cited.findall(path.read_text(encoding="utf-8")):
            assert anchor in ANCHORS[page], f"{path.name}: {page} has no {anchor}"


def test_no_formula_stands_on_two_pages_or_twice_on_one() -> None:
    formula = re.compile(r"(\S.*?) *(=|\\le|\\ge|\\leftarrow|\\propto)(?![a-z]) *(\S.*)", re.DOTALL)
    defined = Counter(
        re.sub(r"\s|&|\\[,;]|\\(?:cdot|left|right)(?![a-z])|[()]", "", "".join(found.groups()))
        for text in PAGES.values()
        for block in re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)
        for part in re.split(r"\\\\|&&|\\q?quad(?![a-z])|\\(?:begin|end)\{aligned\}", block)
        if (found := formula.match(part.strip()))
    )
    assert len(defined) > 100
    assert [found for found, times in defined.items() if times > 1] == []


def test_the_page_of_the_reproduction_names_every_figure_that_can_be_asked_for() -> None:
    table = PAGES["reproduction.md"].partition("| `--figure` |")[2].partition("\n\n")[0]
    first = [row.split("|")[1] for row in table.splitlines()[2:]]
    assert re.findall(r"\w+", "".join(first)) == list(FIGURES)


def test_a_lemma_with_a_number_alone_is_the_papers() -> None:
    assert re.findall(r"(?:Lemma|Theorem) \d+", PAGES["certified.md"]) == []
    assert {int(n) for text in PAGES.values() for n in re.findall(r"Lemma (\d+)(?! of Magureanu)", text)} <= set(
        range(1, 13)
    )


def test_modules_and_functions_that_pages_name_are_there() -> None:
    modules: dict[str, list[str]] = {}
    for folder in ("src", "tests", "verification", "examples", "chaos", "load", "benchmarks", "deploy", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            modules.setdefault(path.name, []).append(path.read_text(encoding="utf-8"))
    for page, text in PAGES.items():
        for module, names in re.findall(r"\b(\w+\.py)(?:: ([\w., ]+))?`", text):
            assert module in modules, (page, module)
            for name in (word.split(".")[-1] for word in names.split(", ") if word):
                there = re.compile(rf"(def|class) {name}\b|^ *{name}\b.*=|\b{name}\b *[:,]", re.MULTILINE)
                assert any(there.search(code) for code in modules[module]), (page, module, name)
