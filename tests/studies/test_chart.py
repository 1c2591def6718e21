"""The chart of a study shows its means, intervals and shares decided, one line for each principal."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from freepull import charts, studies
from freepull.charts import COLOURS
from freepull.errors import InvalidInput, StudyError
from freepull.studies.store import ALL, chart
from support.sample import STUDY, written


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> studies.Store:
    folder = tmp_path_factory.mktemp("chart")
    text = STUDY.replace("[0.01, 0.05]", "[0.01, 0.05, 0.5]")
    studies.run(studies.read(written(folder, text)), folder / "out")
    return studies.Store.open(folder / "out")


def test_one_line_for_each_principal_and_other_swept_value(store: studies.Store) -> None:
    figure = Figure()
    ax = figure.subplots()
    assert chart(store, ax=ax) is ax
    lines = [container.get_label() for container in ax.containers]
    assert lines == ["authors, horizon=400", "authors, horizon=600"]
    shown = [text.get_text() for text in ax.get_legend().get_texts()]  # type: ignore[union-attr]
    assert set(lines) < set(shown)
    assert "passive, horizon=600" in shown
    assert ax.get_xscale() == "log"
    assert len([text for text in ax.texts if text.get_text().endswith("%")]) == 6
    table = studies.summary(store)
    means = ax.containers[1].lines[0].get_ydata()  # type: ignore[attr-defined]
    assert list(means) == table["spent"][1:6:2].to_list()
    assert to_hex(ax.containers[1].lines[0].get_color()).upper() == COLOURS[1]  # type: ignore[attr-defined]
    assert ax.get_title() == "Small"


def test_another_axis_may_be_chosen(store: studies.Store) -> None:
    ax = chart(store, "horizon")
    assert ax.get_xlabel() == "horizon T, steps"
    assert ax.get_xscale() == "linear"
    with pytest.raises(InvalidInput, match="x must be one of delta, horizon"):
        chart(store, "seed")


def test_words_stand_side_by_side(tmp_path: Path) -> None:
    text = STUDY.partition("[sweep]")[0] + '[sweep]\nagents = ["greedy", "thompson"]'
    studies.run(studies.read(written(tmp_path, text)).with_runs(1), tmp_path / "out")
    ax = chart(studies.Store.open(tmp_path / "out"))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["greedy", "thompson"]


def test_without_a_sweep_there_are_bars(tmp_path: Path) -> None:
    studies.run(studies.read(written(tmp_path, STUDY.partition("[sweep]")[0])).with_runs(2), tmp_path / "out")
    ax = chart(studies.Store.open(tmp_path / "out"))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["authors", "passive"]


def test_an_unfinished_study_is_drawn_as_far_as_it_is(store: studies.Store, tmp_path: Path) -> None:
    with studies.Store.begin(tmp_path / "out", store.study) as begun:
        with pytest.raises(StudyError, match="no finished runs to draw yet"):
            chart(begun)
        cell = store.study.cells[0]
        begun.add(cell, studies.result(store, cell))
        assert chart(begun).get_xlabel() == "δ"
    assert charts.against(studies.summary(store), "delta", "cell").get_xlabel() == "δ"


def test_any_quantity_is_drawn_with_or_without_labels_and_names(store: studies.Store) -> None:
    table = studies.summary(store, ALL)
    ax = chart(store, quantity="regret", labels=False)
    assert ax.containers[1].lines[0].get_ydata().tolist() == table["regret"][1:6:2].to_list()  # type: ignore[attr-defined]
    assert ax.get_ylabel() == "regret of all agents"
    assert len(ax.texts) == 0
    bare = chart(store, quantity="error", labels=False, xlabel="", ylabel="", logx=False, legend=False)
    assert (bare.get_xlabel(), bare.get_ylabel(), bare.get_legend(), bare.get_xscale()) == ("", "", None, "linear")
    wrong = [100 * (1 - share) for share in table["correct"][1:6:2]]
    assert bare.containers[1].lines[0].get_ydata().tolist() == pytest.approx(wrong)  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match="quantity must be one of spent, paid"):
        chart(store, quantity="regrets")
