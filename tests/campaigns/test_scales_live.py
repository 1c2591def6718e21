"""Rewards as people have them: stars, amounts, yes and no; a rule sees [0, 1], and people their own units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import freepull as fp
from freepull import errors
from freepull.campaigns.journal.recovery import verify
from freepull.scales import Scale, likely
from support.staging import EACH, Clock, create, picture, reopen

COMPARING = fp.Principal(
    fp.rules.Comparisons(0.9, 0.1), observe=fp.observe.Steps(0), offers="each", protocol=fp.protocols.NeverBan()
)


def told(campaign: fp.Campaign, people: int, scale: dict[str, Any]) -> None:
    """Let everybody pull every arm a few times, A always the best."""
    for lap in range(6):
        for agent in range(people):
            for arm in "ABC":
                campaign.ask(agent)
                campaign.tell(agent, arm, scale["high"] if arm == "A" else scale["low"], f"{lap}.{arm}")


@pytest.mark.parametrize(
    ("scale", "low", "high", "width", "unit"),
    [("1..5", 1, 5, 4.0, ""), ("0..50 EUR", 0.0, 50.0, 50.0, " EUR"), ("yes/no", "no", "yes", 1.0, "")],
)
def test_means_and_effects_are_in_the_units_that_are_told(
    sqlite: str, clock: Clock, scale: str, low: Any, high: Any, width: float, unit: str
) -> None:
    campaign = create(sqlite, clock, principal=COMPARING, agents=20, scale=scale, checks=False)
    plain = create(sqlite + "2", clock, principal=COMPARING, agents=20, checks=False)
    told(campaign, 20, {"low": low, "high": high})
    told(plain, 20, {"low": 0.0, "high": 1.0})
    ours, theirs = campaign.status(), plain.status()
    offset = 1.0 if scale == "1..5" else 0.0
    assert [arm.mean for arm in ours.arms] == [offset + width * (arm.mean or 0.0) for arm in theirs.arms]
    assert [it.low for it in ours.differences] == [width * it.low for it in theirs.differences]
    assert (ours.scale, ours.epsilon, ours.clipped) == (scale, width * 0.1, 0)
    assert ours.decided
    verdict, other = campaign.verdict(), plain.verdict()
    assert verdict.differences[0].high == width * other.differences[0].high
    by = [float(words.split(" or more")[0].split()[0]) for words in other.why.split("on average, by ")[1:]]
    assert by
    for least in by:
        assert f"by {width * least:.4f}{unit} or more" in verdict.why
    assert f"rewards lie in {scale}" in str(verdict.rests_on)
    assert f"ε = {width * 0.1:g}{unit}" in verdict.rests_on.rule
    before = picture(campaign)
    campaign = reopen(campaign, sqlite, clock)
    assert (picture(campaign), campaign.verdict()) == (before, verdict)
    campaign.close()
    verify(sqlite, campaign.name)


def test_amounts_are_clipped_and_the_verdict_says_how_many(url: str, clock: Clock) -> None:
    campaign = create(url, clock, principal=COMPARING, scale="0..50 EUR")
    campaign.tell("ann", "A", 70)
    campaign.tell_many([("bob", "A", 60.0, "b1"), ("bob", "B", 10.0, "b2"), ("cy", "A", -1.0, None)])
    campaign.act("ann", "B", "v1")
    campaign.outcome("ann", "v1", 51.0)
    assert campaign.status().clipped == 4
    assert "4 of the rewards told lay outside 0..50 EUR, and count as its ends" in campaign.verdict().why
    assert [arm.mean for arm in campaign.status().arms][:2] == pytest.approx([100 / 3, 30.0])
    before = picture(campaign)
    campaign.snapshot()
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    campaign.close()
    verify(url, campaign.name)


def test_what_is_on_no_scale_is_refused(sqlite: str, clock: Clock) -> None:
    stars = create(sqlite, clock, scale="1..5")
    for wrong in (0.5, 6, "yes", True, float("nan"), None):
        with pytest.raises(errors.InvalidReward, match="reward must be"):
            stars.tell("ann", "A", wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidReward):
        stars.tell_many([("ann", "A", 3.0, None), ("ann", "A", 5.5, None)])
    amounts = create(sqlite + "2", clock, scale="0..50 EUR")
    with pytest.raises(errors.InvalidReward):
        amounts.tell_many([("ann", "A", 3.0, None), ("ann", "A", float("inf"), None)])
    coins = create(sqlite + "3", clock, scale="yes/no")
    for good in ("yes", "No", True, 0, 1.0, "true", "FALSE"):
        coins.tell("ann", "A", good)
    for bad in (0.5, "maybe", 2, "1", np.array([0, 1]), 1 + 0j, b"1", None):
        with pytest.raises(errors.InvalidReward, match="must be yes or no"):
            coins.tell("ann", "A", bad)  # type: ignore[arg-type]
    assert (stars.status().observations, coins.status().observations) == (0, 7)
    for wrong in ("5..1", "1-5", "a..b", 5, "", "1..5 "):
        if wrong != "1..5 ":
            with pytest.raises(errors.InvalidInput, match="scale must be"):
                create(sqlite, clock, name="other", scale=wrong)


def test_no_outcome_is_agreed_in_the_same_units(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=EACH, scale="1..5", if_no_outcome=3, outcome_within="1 hour")
    campaign.act("ann", "A", "v1")
    clock.pass_hours(1)
    assert campaign.status().arms[0].mean == 3.0
    assert "counts as 3" in str(campaign.verdict().rests_on)
    with pytest.raises(errors.InvalidInput, match="if_no_outcome"):
        create(sqlite, clock, name="other", principal=EACH, scale="1..5", if_no_outcome=0)
    euros = create(sqlite, clock, name="euros", principal=EACH, scale="0..100000 EUR", if_no_outcome=12345)
    euros.act("ann", "A", "v1")
    assert "counts as 12345 EUR" in str(euros.verdict().rests_on)


def test_files_have_the_units_that_were_told(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(sqlite, clock, scale="yes/no")
    (tmp_path / "in.csv").write_text("agent,arm,reward\nann,A,yes\nann,B,no\nbob,A,1\nbob,B,false\n")
    assert campaign.import_observations(tmp_path / "in.csv") == 4
    stars = create(sqlite + "2", clock, scale="1..5")
    stars.tell("ann", "A", 4)
    stars.export(tmp_path / "out.csv")
    assert pl.read_csv(tmp_path / "out.csv")["reward"].to_list() == [4.0]


@pytest.mark.parametrize(
    ("scale", "told"),
    [("1..10", [2.0, 7.5]), ("0..1000000 EUR", [0.01, 999_999.99]), ("0..0.000001", [0.0000002, 0.0000009])],
)
def test_what_is_exported_is_what_was_told(
    sqlite: str, clock: Clock, tmp_path: Path, scale: str, told: list[float]
) -> None:
    campaign = create(sqlite, clock, scale=scale)
    for reward in told:
        campaign.tell("ann", "A", reward)
    campaign.export(tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet")["reward"].to_list() == told


def test_a_rehearsal_needs_no_scale(sqlite: str, clock: Clock) -> None:
    from freepull.campaigns.rehearsal import play

    campaign = create(sqlite, clock, agents=2, arms=2, scale="1..5")
    play(campaign, fp.Game([[0.0, 1.0]] * 2), steps=3)
    assert {arm.mean for arm in campaign.status().arms} <= {1.0, 5.0, None}


def test_a_shell_shows_and_takes_them(tmp_path: Path) -> None:
    from freepull.cli.campaign_data import app

    url, run = f"sqlite:///{tmp_path}/trial.db", CliRunner().invoke
    new = ["new", url, "x", "--arms", "A,B", "--agents", "2", "--price", "0.50 EUR", "--reward-scale", "1..5"]
    assert run(app, new).exit_code == 0
    assert run(app, ["start", url, "x"]).exit_code == 0
    assert run(app, ["tell", url, "x", "#0", "A", "4"]).output.strip() == "noted"
    shown = run(app, ["status", url, "x"], env={"COLUMNS": "200"})
    assert "mean per agent, 1..5" in shown.output
    assert run(app, ["tell", url, "x", "#0", "A", "6"]).exit_code == 2


def test_a_scale_is_read_as_it_is_written() -> None:
    assert Scale.parse("scale", "-5 .. 5 points") == Scale("-5..5 points", -5.0, 5.0, "points")
    assert Scale.parse("scale", "0..100 %").clips
    assert [likely(it) for it in ([1, 5], [0, 5], [0, 10], [55, 99], [-3, 3], [-1234567, 5], [])] == [
        "1..5",
        "0..5",
        "0..10",
        "0..100",
        "-3..3",
        "-2000000..1000000",
        "0..1",
    ]
