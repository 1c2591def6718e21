"""Lemma 1 as an experiment: what an agent earns when it follows, refuses, holds out, or withholds its natural pulls."""

from __future__ import annotations

from typing import Any

import polars as pl

from freepull import charts
from freepull.agents import AlphaUCB
from freepull.answers import Always, HoldOut, Never, WithProbability
from freepull.instances import toy
from freepull.principal import Principal, protocols
from freepull.principal.rules import Certified, Paper
from freepull.reproduction.gathering import Request
from freepull.reproduction.section import Finding, Section, figure, mean, spread, told
from freepull.simulation import Result, simulate

HORIZON = 100_000
RULES = {"authors": Paper(0.01, "simplified", 0.1), "certified": Certified(0.01)}
PROTOCOLS: dict[str, protocols.BanProtocol] = {
    "Take-or-Ban": protocols.TakeOrBan(), "ban for 1,000 steps": protocols.BanFor(1000),
    "ban after 3 refusals": protocols.BanAfter(3), "never ban": protocols.NeverBan(),
}  # fmt: skip
LEARNS, WITHHOLDS = AlphaUCB(2.0), AlphaUCB(0.02)
CONDUCT: dict[str, tuple[Any, Any]] = {
    "follow": (LEARNS, Always()), "refuse": (LEARNS, Never()), "refuse one in five": (LEARNS, WithProbability(0.8)),
    "hold out for 1,000 offers": (LEARNS, HoldOut(1000)), "withhold natural pulls": (WITHHOLDS, Always()),
}  # fmt: skip


def lemma_1(request: Request) -> Section:
    """Agent 1 follows or deviates; agent 2 follows."""
    rules = {name: rule for name, rule in RULES.items() if name in request.settings}
    rows, findings = [], []
    for setting, rule in rules.items():
        for protocol in PROTOCOLS:
            played = {conduct: _play(request, rule, protocol, conduct) for conduct in CONDUCT}
            own = {conduct: _earned(result) for conduct, result in played.items()}
            differences = {conduct: spread((own[conduct] - own["follow"]).to_list()) for conduct in CONDUCT}
            for conduct, result in played.items():
                centre, error = differences[conduct]
                first = _first(result)
                rows.append({
                    "setting": setting, "protocol": protocol, "conduct": conduct,
                    "earned": spread(own[conduct].to_list())[0],
                    "reward": spread(first["reward"].to_list())[0], "bonus": spread(first["bonus"].to_list())[0],
                    "gain": centre, "gain_error": error, "gain_low": centre - 1.96 * error,
                    "gain_high": centre + 1.96 * error, "paid": mean(result, "paid")[0],
                })  # fmt: skip
    frame = pl.DataFrame(rows, schema_overrides={"gain": pl.Float64})
    drawn = figure(5.0 * max(1, len(rules)), 4.6, max(1, len(rules)))
    for ax, setting in zip(drawn.axes, rules, strict=False):
        shown = frame.filter((pl.col("setting") == setting) & (pl.col("conduct") != "follow"))
        charts.grouped(shown, "conduct", "protocol", "gain", ax=ax).set_xlabel(f"gain over following, {setting}")
        ax.axvline(0, color="black", linewidth=0.8)
    for protocol in PROTOCOLS:
        findings.append(_finding(frame, protocol))
    return Section(
        "lemma1", "Lemma 1 as an experiment",
        "The toy game, T = 10⁵. Agent 2 follows; agent 1 follows, refuses, refuses one offer in five, holds out "
        "for 1,000 offers, or withholds: it explores for itself a hundredth of what it would (α = .02 instead of "
        "2) and takes every offer. What counts is reward plus bonus, against following on the same luck. Lemma 1 "
        "says that under Take-or-Ban following is best among taking and refusing. It says nothing of "
        "withholding, and no protocol here prevents that.",
        tuple(findings), drawn, "Bars: agent 1's gain over following, by conduct and protocol, with 95 % intervals.",
        frame,
    )  # fmt: skip


def _play(request: Request, rule: Any, protocol: str, conduct: str) -> Result:
    agent, answer = CONDUCT[conduct]
    return simulate(
        toy(), principal=Principal(rule, protocol=PROTOCOLS[protocol]), agents=[agent, LEARNS],
        answers=[answer, Always()], horizon=HORIZON, runs=request.runs, seed=request.seed, keep="agents",
        progress=False,
    )  # fmt: skip


def _first(result: Result) -> pl.DataFrame:
    assert result.agents is not None
    return result.agents.filter(agent=0).sort("run")


def _earned(result: Result) -> pl.Series:
    first = _first(result)
    return first["reward"] + first["bonus"]


def _finding(frame: pl.DataFrame, protocol: str) -> Finding:
    own = frame.filter(protocol=protocol)
    measured = {
        setting: "; ".join(
            f"{row['conduct']}: {told((row['gain'], row['gain_error']))}"
            for row in own.filter(pl.col("conduct") != "follow", setting=setting).iter_rows(named=True)
        )
        for setting in own["setting"].unique(maintain_order=True)
    }  # fmt: skip
    better = own.filter((pl.col("gain_low") > 0) & (pl.col("conduct") != "follow"))
    obeys = better.filter(pl.col("conduct") != "withhold natural pulls")
    truth = (
        "Following beats every kind of refusing." if obeys.is_empty() else
        f"Following is beaten by: {_listed(obeys)}."
    )  # fmt: skip
    withheld = better.filter(pl.col("conduct") == "withhold natural pulls")
    if not withheld.is_empty():
        truth += f" Withholding pays: {_listed(withheld)}. {_bonuses(own)}"
    return Finding(f"{protocol}: gain over following, reward plus bonus", measured, truth)


def _listed(rows: pl.DataFrame) -> str:
    return ", ".join(f"{row['conduct']} ({row['setting']}, {row['gain']:+,.0f})" for row in rows.iter_rows(named=True))


def _bonuses(own: pl.DataFrame) -> str:
    """Tell whether the gain comes out of the principal's purse."""
    told_of = []
    for setting in own["setting"].unique(maintain_order=True):
        bonus, paid = (
            {row["conduct"]: row[what] for row in own.filter(setting=setting).iter_rows(named=True)}
            for what in ("bonus", "paid")
        )
        told_of.append(
            f"{setting}: agent 1's bonuses go from {bonus['follow']:,.0f} to "
            f"{bonus['withhold natural pulls']:,.0f}, the principal's bill from {paid['follow']:,.0f} to "
            f"{paid['withhold natural pulls']:,.0f}"
        )
    return "; ".join(told_of) + "."
