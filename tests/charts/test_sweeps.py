"""Charts of sweeps say what the rows say: points, intervals, lines, axes; and pictures can be written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import freepull as fp
from freepull import charts
from freepull.errors import InvalidInput

ROWS = pl.DataFrame({
    "horizon": [100, 1_000, 10_000] * 2 + [None],
    "principal": ["ours"] * 3 + ["$theirs"] * 3 + ["level"],
    "regret": [5.0, 9.0, 14.0, 4.0, 20.0, 90.0, 30.0],
    "regret_low": [4.0, 8.0, 12.0, 3.0, 18.0, math.nan, 30.0],
    "regret_high": [7.0, 10.0, 15.0, 6.0, 23.0, math.nan, 30.0],
    "correct": [0.5, 0.8, 1.0, 0.2, 0.3, 0.4, 1.0],
    "correct_low": [0.4, 0.7, 0.9, 0.1, 0.2, 0.3, 0.9],
    "correct_high": [0.7, 0.9, 1.0, 0.4, 0.5, 0.6, 1.0],
    "decided": [0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0],
})  # fmt: skip


def lines(ax: Axes) -> dict[str, Any]:
    return {str(container.get_label()): container for container in ax.containers}


def intervals(container: Any) -> list[tuple[float, float]]:
    return [tuple(segment[:, 1].tolist()) for segment in container.lines[2][0].get_segments()]


def test_every_line_has_its_points_and_intervals() -> None:
    ax = charts.sweep(ROWS, "horizon", "regret")
    found = lines(ax)
    assert list(found) == ["ours", r"\$theirs"]
    assert found["ours"].lines[0].get_ydata().tolist() == [5.0, 9.0, 14.0]
    assert intervals(found["ours"]) == [(4.0, 7.0), (8.0, 10.0), (12.0, 15.0)]
    assert intervals(found[r"\$theirs"]) == [(3.0, 6.0), (18.0, 23.0), (90.0, 90.0)]
    for value, at in zip((100, 1_000, 10_000), found["ours"].lines[0].get_xdata(), strict=True):
        assert at == pytest.approx(value, rel=0.05)
    level = next(line for line in ax.lines if line.get_label() == "level")
    assert level.get_ydata() == [30.0, 30.0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("horizon T, steps", "regret of all agents")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["100", "1,000", "10,000"]
    assert len(ax.texts) == 0


def test_axes_may_be_called_anything_be_logarithmic_or_not_and_lines_unnamed() -> None:
    ax = charts.sweep(ROWS, "horizon", "regret", xlabel="T", ylabel="", logx=False, logy=True, legend=False)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale(), ax.get_yscale()) == ("T", "", "linear", "log")
    assert ax.get_legend() is None
    assert ax.get_ylim()[0] > 0


def test_an_error_is_what_correct_lacks_and_shares_are_in_percent() -> None:
    ax = charts.sweep(ROWS, "horizon", "error")
    assert lines(ax)["ours"].lines[0].get_ydata().tolist() == pytest.approx([50.0, 20.0, 0.0])
    assert [end for pair in intervals(lines(ax)["ours"]) for end in pair] == pytest.approx([30, 60, 10, 30, 0, 10])
    assert ax.get_ylabel() == "runs with a wrong arm, %"
    assert charts.sweep(ROWS, "horizon", "correct").get_ylim()[1] == 104.0


def test_labels_are_the_shares_decided_and_can_be_left_out() -> None:
    ax = charts.sweep(ROWS, "horizon", "regret", labels=True)
    assert sorted(text.get_text() for text in ax.texts) == ["0 %"] * 4 + ["100 %", "50 %"]
    assert charts.against(ROWS.with_columns(spent="regret", spent_low="regret", spent_high="regret"), "horizon").texts


def test_comparisons_are_gathered_by_what_was_swept() -> None:
    pair = {"certified": fp.Principal(fp.rules.Certified(0.1)), "passive": fp.Principal(fp.rules.Passive())}
    found = {T: fp.compare(pair, fp.Game([[0.9, 0.2], [0.3, 0.6]]), horizon=T, runs=4, progress=False)
             for T in (200, 400)}  # fmt: skip
    rows = charts.gathered(found, "horizon")
    assert rows.select("horizon", "principal").rows() == [
        (T, name) for T in (200, 400) for name in ("certified", "passive")
    ]
    for T, name, regret in rows.select("horizon", "principal", "regret").iter_rows():
        assert regret == found[T].results[name].frame["regret"].mean()
    assert lines(charts.sweep(rows, "horizon", "decided"))["passive"].lines[0].get_ydata().tolist() == [0.0, 0.0]
    by_name = charts.gathered({T: one.results for T, one in found.items()}, "horizon")
    assert by_name.equals(rows, null_equal=True)


def test_differences_are_bars_with_paired_intervals() -> None:
    rules = {"a": fp.rules.Certified(0.1), "b": fp.rules.Paper(0.1, "simplified", 0.5), "c": fp.rules.Passive()}
    three = {name: fp.Principal(rule) for name, rule in rules.items()}
    found = fp.compare(three, fp.Game([[0.9, 0.2], [0.3, 0.6]]), horizon=1_000, runs=6, progress=False)
    assert (found.differences().filter(quantity="paid")["difference"] != 0).all()
    for against, others in ((None, ["b", "c"]), ("b", ["a", "c"])):
        ax = charts.differences(found, "paid", against)
        rows = found.differences(against).filter(quantity="paid")
        assert [label.get_text() for label in ax.get_yticklabels()] == others
        assert [bar.get_width() for bar in ax.patches] == rows["difference"].to_list()  # type: ignore[attr-defined]
        ends = [container for container in ax.containers if hasattr(container, "lines")]
        for container, low, high in zip(ends, rows["low"], rows["high"], strict=True):
            shown = container.lines[2][0].get_segments()[0][:, 0].tolist()
            assert shown == pytest.approx([low, high])
        assert ax.get_xlabel() == f"more than {against or 'a'}: bonuses paid, C(T)"


@pytest.mark.parametrize(("ending", "begins"), [(".pdf", b"%PDF"), (".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_a_picture_is_written_by_its_ending_and_the_same_twice(tmp_path: Path, ending: str, begins: bytes) -> None:
    before = mpl.rcParams["pdf.fonttype"]
    first, second = (
        charts.save(charts.sweep(ROWS, "horizon", "regret", ax=Figure().subplots()), tmp_path / name / f"a{ending}")
        for name in ("one", "two")
    )
    assert first.read_bytes().startswith(begins)
    assert first.read_bytes() == second.read_bytes()
    assert mpl.rcParams["pdf.fonttype"] == before
    if ending == ".pdf":
        assert b"CreationDate" not in first.read_bytes()
        assert b"/Type3" not in first.read_bytes()
        assert b"/Type 3" not in first.read_bytes()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: charts.sweep(ROWS, "horizn", "regret"), "column must be one of horizon"),
        (lambda: charts.sweep(ROWS, "horizon", "paid"), "column must be one of .*; got 'paid'"),
        (lambda: charts.sweep(ROWS, "horizon", "decided", logy=True), "logy must be left out here, because decided is"),
        (lambda: charts.sweep(ROWS.with_columns(horizon=pl.col("horizon") - 100), "horizon", "regret", logx=True),
         "logx must be left out here, because a value is not above 0, got 0"),
        (lambda: charts.sweep(ROWS.clear(), "horizon", "regret"), "rows must have at least one value of regret"),
        (lambda: charts.save(charts.sweep(ROWS, "horizon", "regret"), "a.gif"), ".pdf, .png or .svg, got 'a.gif'"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_said_in_a_sentence(call: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        call()
