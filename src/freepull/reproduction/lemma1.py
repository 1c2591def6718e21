"""Lemma 1 as an experiment: what an agent earns when it follows, refuses, holds out, or withholds its natural pulls."""

from __future__ import annotations

from typing import Any

import polars as pl
from matplotlib.figure import Figure

from freepull import charts
from freepull.agents import AlphaUCB
from freepull.agents.answers import Always, HoldOut, Never, WithProbability
from freepull.game import Game
from freepull.principal import Principal, protocols
from freepull.principal.rules import Certified, Paper, Passive, Rule
from freepull.reproduction.section import Finding, Request, Section, figure, mean, spread, together, told
from freepull.simulation import Result, simulate

HORIZON = 10_000
MEANS = [[0.8, 0.55, 0.1], [0.1, 0.55, 0.8]]
"""A gap of .1: natural pulls are a good part of what the principal needs."""
RULES = {"paper": Paper(0.01), "authors": Paper(0.01, "simplified", 0.1), "certified": Certified(0.01)}
PROTOCOLS: dict[str, protocols.BanProtocol] = {
    "Take-or-Ban": protocols.TakeOrBan(), "ban for 1,000 steps": protocols.BanFor(1000),
    "ban after 3 refusals": protocols.BanAfter(3), "never ban": protocols.NeverBan(),
}  # fmt: skip
LEARNS, WITHHOLDS = AlphaUCB(2.0), AlphaUCB(0.2)
WITHHOLD = "withhold natural pulls"
CONDUCT: dict[str, tuple[Any, Any]] = {
    "follow": (LEARNS, Always()), "refuse": (LEARNS, Never()), "refuse one in five": (LEARNS, WithProbability(0.8)),
    "hold out for 1,000 offers": (LEARNS, HoldOut(1000)), WITHHOLD: (WITHHOLDS, Always()),
}  # fmt: skip


def lemma_1(request: Request) -> Section:
    """Agent 1 follows or deviates; agent 2 follows."""
    rules = {name: rule for name, rule in RULES.items() if name in request.settings}
    unpaid = {conduct: _own(_play(request, Passive(), protocols.TakeOrBan(), conduct)) for conduct in CONDUCT}
    rows = []
    for setting, rule in rules.items():
        for protocol, banning in PROTOCOLS.items():
            played = {conduct: _play(request, rule, banning, conduct) for conduct in CONDUCT}
            own = {conduct: _own(result) for conduct, result in played.items()}
            for conduct, result in played.items():
                reward, bonus = (own[conduct][what] - own["follow"][what] for what in ("reward", "bonus"))
                alone = unpaid[conduct]["reward"] - unpaid["follow"]["reward"]
                row: dict[str, Any] = {"setting": setting, "protocol": protocol, "conduct": conduct}
                row |= {what: spread(own[conduct][what].to_list())[0] for what in ("reward", "bonus")}
                parts = {
                    "gain": reward + bonus, "gain_reward": reward, "gain_bonus": bonus, "alone": alone,
                    "added": reward + bonus - alone,
                }  # fmt: skip
                for part, values in parts.items():
                    row[part], row[f"{part}_error"] = spread(values.to_list())
                half = 1.96 * row["gain_error"]
                row |= {"gain_low": row["gain"] - half, "gain_high": row["gain"] + half}
                rows.append(row | {"paid": mean(result, "paid")[0]})
    frame = pl.DataFrame(rows, schema_overrides={"gain": pl.Float64})
    return Section(
        "lemma1", "Lemma 1 as an experiment",
        f"Two agents with means {MEANS[0]} and {MEANS[1]}, T = 10⁴. Agent 2 follows; agent 1 follows, refuses, refuses "
        "one offer in five, holds out for 1,000 offers, or withholds: it explores for itself a tenth of what it would "
        "(α = .2 instead of 2) and takes every offer. What counts is reward plus bonus, against following on the same "
        "luck. The control is the same deviation where nobody is ever paid: what it earns there is no gain from "
        "incentives. Lemma 1 says that under Take-or-Ban following is best among taking and refusing. It says nothing "
        "of withholding, and no protocol of the paper prevents that.",
        tuple(_finding(frame, protocol) for protocol in PROTOCOLS), _drawn(frame),
        "Bars: agent 1's gain over following, by conduct and protocol, with 95 % intervals. Dashed: what withholding "
        "gains where nobody is ever paid.",
        frame,
    )  # fmt: skip


def _drawn(frame: pl.DataFrame) -> Figure:
    settings = frame["setting"].unique(maintain_order=True).to_list()
    drawn = figure(2.0 + 3.4 * max(1, len(settings)), 4.2, max(1, len(settings)))
    place = list(CONDUCT).index(WITHHOLD) - 1
    for ax, setting in zip(drawn.axes, settings, strict=False):
        shown = frame.filter((pl.col("setting") == setting) & (pl.col("conduct") != "follow"))
        charts.grouped(shown, "conduct", "protocol", "gain", ax=ax).set_xlabel(f"gain over following, {setting}")
        ax.axvline(0, color="black", linewidth=0.8)
        ax.vlines(shown.filter(conduct=WITHHOLD)["alone"][0], place - 0.48, place + 0.48, "black", "dashed")
        if ax is not drawn.axes[0]:
            ax.set_yticklabels([])
        if (legend := ax.get_legend()) is not None:
            legend.set_visible(ax is drawn.axes[-1])
    return drawn


def _play(request: Request, rule: Rule, protocol: protocols.BanProtocol, conduct: str) -> Result:
    agent, answer = CONDUCT[conduct]
    return simulate(
        Game(MEANS), principal=Principal(rule, protocol=protocol), agents=[agent, LEARNS],
        answers=[answer, Always()], horizon=HORIZON, runs=request.runs, seed=request.seed, keep="agents",
        progress=False,
    )  # fmt: skip


def _own(result: Result) -> pl.DataFrame:
    """Agent 1's rewards and bonuses, run by run."""
    assert result.agents is not None
    return result.agents.filter(agent=0).sort("run")


def _finding(frame: pl.DataFrame, protocol: str) -> Finding:
    own = frame.filter(protocol=protocol)
    measured = {
        setting: "; ".join(
            f"{row['conduct']}: {_told(row, 'gain')} (rewards {_told(row, 'gain_reward')}, bonuses "
            f"{_told(row, 'gain_bonus')})"
            for row in own.filter(pl.col("conduct") != "follow", setting=setting).iter_rows(named=True)
        )
        for setting in own["setting"].unique(maintain_order=True)
    }  # fmt: skip
    deviating = own.filter(pl.col("conduct") != "follow")
    refusing = deviating.filter(pl.col("conduct") != WITHHOLD)
    better = refusing.filter(pl.col("gain_low") > 0)
    same = refusing.filter((pl.col("gain_low") <= 0) & (pl.col("gain_high") >= 0))
    truth = (
        f"Following is beaten by {_listed(better)}."
        if better.height
        else "No kind of refusing earns more than following."
    )
    if same.height:
        truth += f" No difference was seen for {_listed(same)}."
    withheld = deviating.filter((pl.col("conduct") == WITHHOLD) & (pl.col("gain_low") > 0))
    if withheld.height:
        found = list(withheld.iter_rows(named=True))
        gains = together(f"{row['gain']:+,.0f} ({row['setting']})" for row in found)
        added = together(f"{_told(row, 'added')} ({row['setting']})" for row in found)
        truth += (
            f" Withholding pays: {gains}. But exploring so little earns {_told(found[0], 'alone')} "
            f"where nobody is ever paid, on the same luck; incentives add {added}. {_bonuses(own)}"
        )
    return Finding(f"{protocol}: gain over following, reward plus bonus", measured, truth)


def _told(row: dict[str, Any], what: str) -> str:
    return told((row[what], row[f"{what}_error"]))


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
            f"{bonus[WITHHOLD]:,.0f}, the principal's bill from {paid['follow']:,.0f} to "
            f"{paid[WITHHOLD]:,.0f}"
        )
    return "; ".join(told_of) + "."
