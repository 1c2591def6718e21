"""The page of a plan: complete, self-contained, and safe whatever the plan says."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import numpy as np
import pytest

import freepull as fp
from freepull.pages import plan_page
from freepull.planning import words


@pytest.fixture(scope="module")
def plan() -> fp.Plan:
    return fp.plan(arms=2, agents=20, horizon=40, gap=0.15, runs=40, price="0.50 EUR")


@pytest.fixture(scope="module")
def page(plan: fp.Plan) -> str:
    return plan_page(plan)


class Balance(HTMLParser):
    """Complains where tags do not close as they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_has_every_figure_with_its_source_and_every_curve(plan: fp.Plan, page: str) -> None:
    for row in plan.rows():
        assert row.value in page
        assert row.source in page
    assert plan.sentences[0] in page
    for title in ("How many people", "How long", "How much risk", "How long to watch before paying", "nearly as good"):
        assert title in page
    assert page.count("<figure>") == 4
    assert page.count("class=plan") == 5


def test_cost_time_chance_and_what_must_be_true_come_first(plan: fp.Plan, page: str) -> None:
    found = plan.forecast
    assert found is not None
    first, _, rest = page.partition("<h2>")
    big = re.findall(r'<p class="big">([^<]+)</p>', first)
    assert big == [
        words.spend(found.mean, plan.price, " bonuses"),
        f"step {found.decided(0.5):,.0f} of 40",
        words.percent(found.chance[0]),
    ]
    assert escape(plan.question["beliefs"]) in first
    assert "Rewards do not drift" in first
    assert f"{plan.first.randomised:,.0f} assigned pulls, over by step {plan.first.randomised / 20:.0f}" in first
    assert rest.startswith("The figures")
    assert "prefers-color-scheme:dark" in page


def test_what_somebody_who_decides_reads_is_short_and_says_nothing_twice(plan: fp.Plan) -> None:
    assert plan.forecast is not None
    none = replace(plan.forecast, decided_at=np.full(plan.forecast.runs, np.nan))
    page = plan_page(
        replace(plan, forecast=none, question={**plan.question, "beliefs": "what a log says; fitted to 271 steps"})
    )
    first, _, rest = page.partition("<h2>")
    assert '<p class="big">no verdict</p><p>in none of 40 simulated trials</p>' in first
    assert "what a log says. More below." in first
    assert "fitted to" not in first
    assert "What is believed, in full: what a log says; fitted to 271 steps." in rest


def test_every_variant_is_a_row_beside_the_plan(plan: fp.Plan, page: str) -> None:
    assert plan.forecast is not None
    for curve in plan.curves.values():
        for point in curve.points:
            found = point.forecast
            more, margin = found.against(plan.forecast)
            shown = [f"{point.x:,g}", plan.money(found.mean), "" if point.planned else words.signed(more, margin)]
            shown += [words.between(*found.range(0.9)), words.chance(*found.chance), f"{found.runs:,}"]
            assert "".join(f'<td class="n">{escape(cell)}</td>' for cell in shown) in page
    assert "EUR)</td>" in page


def test_a_curve_without_all_its_points_says_so(plan: fp.Plan, page: str) -> None:
    assert "There was no time" not in page
    short = {**plan.curves, "delta": replace(plan.curves["delta"], complete=False)}
    assert plan_page(replace(plan, curves=short)).count("There was no time for all of these") == 1


def test_it_asks_nothing_of_any_host(page: str) -> None:
    pictures = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert len(pictures) == page.count("src=") == 4
    bare = re.sub(r'src="data:[^"]+"', "", page)
    assert not re.search(r"https?:|//|@import|url\(|<script|<link", bare)
    for picture in pictures:
        svg = base64.b64decode(picture).decode()
        assert "<svg" in svg
        assert not re.search(r'href="(?!#)', svg)


def test_tags_close_and_phones_are_told_their_width(page: str) -> None:
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert 'name="viewport"' in page
    assert "@media print" in page


def test_what_people_wrote_is_text_not_markup(plan: fp.Plan) -> None:
    evil = "<script>alert(1)</script>"
    told = replace(plan, sentences=(evil,), question={**plan.question, "beliefs": evil})
    page = plan_page(told, title=evil)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 4


def test_the_same_plan_gives_the_same_page(plan: fp.Plan, page: str) -> None:
    assert plan_page(plan) == page


def test_a_plan_by_formulas_has_a_page_too() -> None:
    page = plan_page(fp.plan(arms=2, agents=20, horizon=40, gap=0.15, quick=True))
    assert "<figure>" not in page
    assert "formula" in page
