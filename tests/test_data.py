"""Logs: what can be used is used, and what cannot is named by its line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import freepull as fp
from freepull.data import read
from freepull.errors import InvalidInput, UnusableRows
from support.drive import assert_sentence

GOOD = {"agent": ["b", "a", "a", "b", "a"], "arm": [10, 2, 2, 2, 10], "reward": [0.5, 1.0, 0.0, 0.25, 1.0]}


def test_pulls_and_sums_are_counted_by_agent_and_arm_in_the_order_of_names() -> None:
    past = read(pl.DataFrame(GOOD))
    assert (past.agents, past.arms) == (("a", "b"), ("2", "10"))
    assert past.pulls.tolist() == [[2, 1], [1, 1]]
    assert past.sums.tolist() == [[1.0, 1.0], [0.25, 0.5]]
    assert past.squares.tolist() == [[1.0, 1.0], [0.0625, 0.25]]
    assert (past.rows, past.unusable, past.coins) == (5, (), False)


def test_a_log_of_zeros_and_ones_is_one_of_coins() -> None:
    assert read(pl.DataFrame({"agent": [1, 1], "arm": ["x", "y"], "reward": [0, 1]})).coins


def test_every_kind_of_file_says_the_same(tmp_path: Path) -> None:
    frame = pl.DataFrame(GOOD)
    frame.write_csv(tmp_path / "past.csv")
    frame.write_parquet(tmp_path / "past.parquet")
    frame.write_csv(tmp_path / "past.txt")
    for source in (tmp_path / "past.csv", str(tmp_path / "past.parquet"), tmp_path / "past.txt", frame.reverse()):
        assert (read(source).pulls == read(frame).pulls).all()
        assert (read(source).sums == read(frame).sums).all()


GOOD_LINES = 80
"""So many that a tenth of the rows, and no more, cannot be used."""
BAD = (
    """arm,note,agent,reward
x,,ann,1
x,,,0.5
,,ann,0.5

y,"two
lines",ann,0.5
y,,ann,1.5
y,"a
b
c",ann,-0.1
y,,ann,many
y,,ann,
y,,ann,nan
y,,ann
"""
    + "x,,ann,1\n" * GOOD_LINES
)


def test_unusable_rows_are_named_with_their_line_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(BAD)
    with pytest.warns(
        UnusableRows, match=r"^8 of 90 rows of the log are left out: line 3 \(no agent\), line 4 \(no arm\)"
    ):
        past = read(tmp_path / "bad.csv")
    assert past.unusable == (
        (3, "no agent"),
        (4, "no arm"),
        (8, "reward 1.5 is outside [0, 1]"),
        (9, "reward -0.1 is outside [0, 1]"),
        (12, "reward many is not a number"),
        (13, "no reward"),
        (14, "reward nan is not a number"),
        (15, "no reward"),
    )
    assert past.pulls.tolist() == [[1 + GOOD_LINES, 1]]
    assert past.describe()["unusable"][0] == {"where": 3, "why": "no agent"}


def test_the_warning_names_the_first_few_and_counts_the_rest(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(BAD)
    with pytest.warns(UnusableRows, match=r"line 12 \(reward many is not a number\) and 3 more\.$"):
        read(tmp_path / "bad.csv")


def test_rows_of_frames_are_counted_from_zero() -> None:
    some = {"agent": ["a", None, "a"], "arm": ["x", "x", "y"], "reward": [1.0, 1.0, None]}
    frame = pl.concat([pl.DataFrame(some), *[pl.DataFrame(some)[:1]] * 20])
    with pytest.warns(UnusableRows, match=r"row 1 \(no agent\), row 2 \(no reward\)"), pytest.raises(InvalidInput):
        read(frame)


def test_a_good_log_is_read_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(pl.DataFrame(GOOD))


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (pl.DataFrame({"agent": [1], "Arm": [1], "reward": [1]}), ["columns agent, arm and reward", "Arm", "name arm"]),
        (pl.DataFrame({"agent": [1, 2], "arm": [1, 1], "reward": [1, 0]}), ["at least 2 arms", "got 1"]),
        (pl.DataFrame({"agent": [], "arm": [], "reward": []}), ["at least 2 arms", "got 0"]),
        ("nowhere.csv", ["a file that exists", "nowhere.csv"]),
        (7, ["CSV or Parquet file", "got 7"]),
    ],
)
def test_what_is_no_log_gets_a_sentence(log: Any, words: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(log)
    for word in words:
        assert word in str(caught.value)


def test_unreadable_files_get_a_sentence(tmp_path: Path) -> None:
    for name, content in (("a.parquet", b"agent,arm,reward\n"), ("b.csv", b"\xff\xfe\x00"), ("c.csv", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInput, match="the log"):
            read(tmp_path / name)


def test_a_game_is_estimated_from_a_log() -> None:
    rng = np.random.default_rng(3)
    means = np.array([[0.8, 0.3], [0.6, 0.5]])
    agent, arm = np.divmod(rng.integers(0, 4, 8_000), 2)
    reward = (rng.random(8_000) < means[agent, arm]).astype(int)
    game = fp.Game.from_log(pl.DataFrame({"agent": agent, "arm": arm, "reward": reward}), weights=[1, 3])
    assert np.abs(game.means - means).max() < 6 * np.sqrt(0.25 / 1_800)
    assert isinstance(game.rewards, fp.rewards.Bernoulli)
    assert game.weights.tolist() == [0.25, 0.75]


def test_files_that_would_have_to_be_guessed_at_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "past.csv"
    for text, told in (
        ("agent,arm,reward\n1,a,1\n1,b,0,5\n", "line 3 of the log"),
        ("agent,arm,reward,agent\n1,a,1,2\n", "one column agent"),
    ):
        path.write_text(text)
        with pytest.raises(InvalidInput, match=told):
            read(path)


def test_a_log_of_stars_is_not_planned_from_its_worst_rows(tmp_path: Path) -> None:
    rows = "".join(f"{i % 7},{'xy'[i % 2]},{i % 5 + 1}\n" for i in range(100))
    (tmp_path / "stars.csv").write_text("agent,arm,reward\n" + rows)
    with pytest.raises(InvalidInput, match=r"got 80 of 100, .* rewards run 1 to 5: pass --scale 1\.\.5\.$"):
        read(tmp_path / "stars.csv")
    past = read(tmp_path / "stars.csv", scale="1..5")
    assert (past.rows, past.unusable, past.scale) == (100, (), "1..5")
    assert past.sums.sum() == pytest.approx(50.0)
    assert past.describe()["scale"] == "1..5"


@pytest.mark.parametrize(
    ("rewards", "scale"),
    [
        ([12.5, 310, 0], "0..400"),
        (["yes", "no", "no"], "yes/no"),
        (["True", "false", "no"], "yes/no"),
        ([0, 7, 10], "0..10"),
    ],
)
def test_the_likely_scale_is_in_the_message(rewards: list[Any], scale: str) -> None:
    log = {"agent": [1] * 30, "arm": ["x", "y"] * 15, "reward": [str(it) for it in rewards] * 10}
    with pytest.raises(InvalidInput, match=f"pass --scale {scale}"):
        read(pl.DataFrame(log))
    assert read(pl.DataFrame(log), scale=scale).pulls.sum() == 30


def test_amounts_beyond_the_scale_count_as_its_ends_and_others_are_left_out() -> None:
    log = pl.DataFrame({"agent": [1] * 20, "arm": ["x", "y"] * 10, "reward": [60.0] + [25.0] * 19})
    assert read(log, scale="0..50 EUR").sums.sum() == 1.0 + 0.5 * 19
    with pytest.warns(UnusableRows, match=r"reward 60.0 is outside 0..50\)"):
        assert read(log, scale="0..50").pulls.sum() == 19


EUROPEAN = """user_id;slot;stars;when
7;left;3,5;01.05.2026 09:30
7;right;NA;01.05.2026 09:31
8;right;1;2026-05-02T10:00:00
8;left;5;1777716000
8;left;2;1777716000000
"""


def test_columns_semicolons_times_and_missing_values_as_tools_write_them(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(EUROPEAN + "7;left;4;02.05.2026\n" * 8)
    columns = "agent=user_id,arm=slot,reward=stars,at=when"
    with pytest.warns(UnusableRows, match=r"^1 of 13 rows .* line 3 \(no reward\)"):
        past = read(tmp_path / "log.csv", scale="1..5", columns=columns)
    assert (past.agents, past.arms) == (("7", "8"), ("left", "right"))
    assert past.acts is not None
    assert past.acts.dated
    days = past.acts.time - past.acts.time.min()
    assert sorted(set(np.round(days, 3).tolist())) == [0.0, 0.604, 1.021]
    with pytest.warns(UnusableRows):
        assert read(tmp_path / "log.csv", "1..5", dict(part.split("=") for part in columns.split(","))).rows == 13


@pytest.mark.parametrize("columns", ["agent", "agent=nobody", "who=user_id", 7, {"agent": ""}])
def test_columns_that_are_not_there_get_a_sentence(columns: Any) -> None:
    with pytest.raises(InvalidInput, match="columns must"):
        read(pl.DataFrame(GOOD), columns=columns)


def test_a_plan_takes_scale_and_columns(tmp_path: Path) -> None:
    rows = "".join(f"{i % 7},{'xy'[i % 2]},{i % 5 + 1}\n" for i in range(100))
    (tmp_path / "stars.csv").write_text("who,slot,stars\n" + rows)
    columns = {"agent": "who", "arm": "slot", "reward": "stars"}
    made = fp.plan(log=tmp_path / "stars.csv", scale="1..5", columns=columns, horizon=20, quick=True)
    assert made.question["log"]["scale"] == "1..5"
    assert fp.Game.from_log(tmp_path / "stars.csv", scale="1..5", columns=columns).arms == 2
    with pytest.raises(InvalidInput, match="scale must be left out without a log"):
        fp.plan(gap=0.1, arms=2, agents=5, horizon=20, scale="1..5")


def test_truth_values_are_coins() -> None:
    past = read(pl.DataFrame({"agent": [1, 1, 1], "arm": ["x", "y", "y"], "reward": [True, False, True]}))
    assert past.coins
    assert past.sums.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_times_since_1970_are_in_any_usual_unit(unit: int) -> None:
    days = [(1_700_000_000 + 86_400 * day) * unit for day in range(3)]
    acts = read(pl.DataFrame({"agent": [1, 1, 1], "arm": [0, 1, 0], "reward": [0, 1, 1], "at": days})).acts
    assert acts is not None
    assert np.diff(acts.time).tolist() == [1.0, 1.0]


def test_a_date_that_may_be_two_days_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("agent,arm,reward,at\n" + "".join(f"{day},{day % 2},1,5/{day}/2026 9:30\n" for day in range(1, 13)))
    with pytest.raises(InvalidInput) as problem:
        read(path)
    assert "'5/1/2026 9:30'" in assert_sentence(problem)


def test_a_comma_is_decimal_only_where_it_separates_no_cells(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("agent;arm;reward\n" + "".join(f"{m};{m % 2};0,5\n" for m in range(12)))
    assert read(path).sums.sum() == 6.0
    path.write_text("agent,arm,reward\n" + "".join(f'{m},{m % 2},"1,000"\n' for m in range(12)))
    with pytest.raises(InvalidInput) as problem:
        read(path, scale="0..5000")
    assert "reward 1,000 is not a number" in assert_sentence(problem)
