"""Principals are compared on the same luck, and what is shown in a notebook is text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

import freepull as fp
from freepull.errors import InvalidInput
from freepull.simulation.results import interval
from support.drive import assert_sentence

PRINCIPALS = {
    "one": fp.Principal(fp.rules.Paper(0.3, "simplified", 0.05), observe=fp.observe.Share(0.2)),
    "each": fp.Principal(fp.rules.Paper(0.3, "simplified", 0.05), observe=fp.observe.Share(0.2), offers="each"),
    "passive": fp.Principal(fp.rules.Passive()),
}


def drawn(rng: np.random.Generator) -> fp.Game:
    return fp.Game(rng.random((2, 3)))


def compare(**more: Any) -> fp.Comparison:
    told: dict[str, Any] = {"horizon": 300, "runs": 12, "seed": 2, "trace": 100}
    return fp.compare(PRINCIPALS, drawn, **(told | more))


@pytest.fixture(scope="module")
def found() -> fp.Comparison:
    return compare()


def test_a_difference_is_that_of_the_same_runs(found: fp.Comparison) -> None:
    rows = found.differences()
    assert rows.height == 2 * 12
    assert rows["against"].unique().to_list() == ["one"]
    spent = [found.results[name].frame["spent"].to_numpy() for name in ("each", "one")]
    (row,) = rows.filter(principal="each", quantity="spent").iter_rows(named=True)
    assert (row["difference"], row["low"], row["high"]) == interval(spent[0] - spent[1])
    apart = np.sqrt(sum(np.var(each, ddof=1) for each in spent))
    assert row["width"] == pytest.approx(np.std(spent[0] - spent[1], ddof=1) / apart)
    assert row["runs"] == 12


def test_all_meet_the_same_games(found: fp.Comparison) -> None:
    width = found.differences("passive").filter(principal="one", quantity="reward")["width"][0]
    assert width < 0.5


def test_whom_to_compare_with_can_be_said(found: fp.Comparison) -> None:
    turned = compare(against="passive")
    assert turned.against == "passive"
    assert turned.differences().equals(found.differences("passive"))


def test_a_run_that_only_one_decided_has_no_difference_in_time(found: fp.Comparison) -> None:
    row = found.differences("passive").filter(principal="one", quantity="decided_at")
    assert row["runs"].to_list() == [0]


@pytest.mark.parametrize(
    ("principals", "against", "said"),
    [
        ({"alone": PRINCIPALS["one"]}, None, "principals must be two or more, by name"),
        ({1: PRINCIPALS["one"], "1": PRINCIPALS["each"]}, None, "principals must be two or more, by names that differ"),
        ({"one": PRINCIPALS["one"], "two": 5}, None, "principals['two'] must be a freepull.Principal"),
        (list(PRINCIPALS.values()), None, "principals must be two or more, by name"),
        (PRINCIPALS, "nobody", "against must be one of one, each, passive"),
    ],
)
def test_what_cannot_be_compared_is_refused(principals: Any, against: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        fp.compare(principals, drawn, against=against, horizon=50, runs=2)
    assert assert_sentence(problem).startswith(said)


def test_traces_count_pulls_and_what_they_cost(found: fp.Comparison) -> None:
    trace, frame = found.results["each"].trace, found.results["each"].frame
    assert trace is not None
    last = trace.filter(step=300).group_by("run", maintain_order=True).sum()
    assert last["pulls"].to_list() == [600] * 12
    assert last["regret"].to_list() == pytest.approx(frame["regret"].to_list())
    assert trace.filter(step=100, run=0)["pulls"].sum() == 200


def test_regret_is_drawn_against_time(found: fp.Comparison) -> None:
    ax = fp.charts.regret(found.results)
    assert isinstance(ax, Axes)
    assert [line.get_label() for line in ax.get_lines()] == list(PRINCIPALS)
    mean = found.results["passive"].frame["regret"].mean()
    assert ax.get_lines()[2].get_ydata()[-1] == pytest.approx(mean)  # type: ignore[index]


def test_charts_take_what_compare_found_as_it_is(found: fp.Comparison) -> None:
    for chart in (fp.charts.regret, fp.charts.accuracy, fp.charts.spend):
        alike = [chart(it) for it in (found, found.results)]
        drawn = [[np.asarray(line.get_xydata()).tolist() for line in ax.get_lines()] for ax in alike]
        assert drawn[0] == drawn[1]
        assert alike[0].get_ylabel() == alike[1].get_ylabel()


def test_regret_without_a_trace_is_refused() -> None:
    with pytest.raises(InvalidInput, match="results must have traces"):
        fp.charts.regret(compare(trace=None, runs=2).results)
    ended = compare(until="decided", trace=10, runs=4)
    assert ended.results["each"].frame["decided"].any()
    with pytest.raises(InvalidInput, match="results must be played to the horizon"):
        fp.charts.regret(ended.results)


def test_a_notebook_shows_tables(found: fp.Comparison) -> None:
    result = found.results["one"]
    for shown, word in ((found, "differences from one"), (result, "12 runs, 300 steps")):
        html = shown._repr_html_()
        assert html.count("<table>") == html.count("</table>") >= 1
        assert word in html
        assert "spent" in html
    trial = PRINCIPALS["one"].start(arms=3, agents=2, horizon=50)
    trial.tell(0, 1, 0.5)
    html = trial.verdict()._repr_html_()
    assert "<td>no</td>" in html
    plan = fp.plan(gap=0.2, arms=2, agents=3, horizon=100, quick=True)
    assert plan.sentences[0].split()[0] in plan._repr_html_()
