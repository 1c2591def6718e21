"""The theorems and lemmas beside simulation, and Lemma 1 as an experiment: what an agent earns when it deviates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from freepull import charts
from freepull import theory as theorems
from freepull.agents import Agent, AlphaUCB, Remembering, RoundRobin, Withholding
from freepull.agents.answers import Always, Answer, HoldOut, IfWorthIt, Never, WithProbability
from freepull.game import Game
from freepull.instances import toy
from freepull.principal import Principal, protocols, schedules
from freepull.principal.pricing import BeyondNatural, Capped, Compensate, Posted, Quota, beyond_natural
from freepull.principal.rules import Certified, Comparisons, Paper, Passive, Rule
from freepull.reproduction.section import Finding, Request, Section, figure, mean, share, spread, together, told
from freepull.simulation import Result, simulate
from freepull.strategic import best_response
from freepull.theory import natural_pulls

LEMMA_1_HORIZON = 10_000
MEANS = [[0.8, 0.55, 0.1], [0.1, 0.55, 0.8]]
"""A gap of .1: natural pulls are a good part of what the principal needs."""
RULES = {"paper": Paper(0.01), "authors": Paper(0.01, "simplified", 0.1), "certified": Certified(0.01)}
COMPENSATED = "Take-or-Ban, compensated"
TERMS: dict[str, dict[str, Any]] = {
    "Take-or-Ban": {"protocol": protocols.TakeOrBan()}, "ban for 1,000 steps": {"protocol": protocols.BanFor(1000)},
    "ban after 3 refusals": {"protocol": protocols.BanAfter(3)}, "never ban": {"protocol": protocols.NeverBan()},
    COMPENSATED: {"protocol": protocols.TakeOrBan(), "pricing": Compensate()},
}  # fmt: skip
"""Protocols with bonuses of 1, and one that pays what an agent gives up by its own record."""
LEARNS, WITHHOLDS = AlphaUCB(2.0), AlphaUCB(0.2)
WITHHOLD = "withhold natural pulls"
CONDUCT: dict[str, tuple[Any, Any]] = {
    "follow": (LEARNS, Always()), "refuse": (LEARNS, Never()), "refuse one in five": (LEARNS, WithProbability(0.8)),
    "hold out for 1,000 offers": (LEARNS, HoldOut(1000)), WITHHOLD: (WITHHOLDS, Always()),
}  # fmt: skip


def lemma_1(request: Request) -> Section:
    """Agent 1 follows or deviates; agent 2 follows."""
    rules = {name: rule for name, rule in RULES.items() if name in request.settings}
    frame = deviations(rules, TERMS, request.runs, request.seed)
    return Section(
        "lemma1", "Lemma 1 as an experiment",
        f"Two agents with means {MEANS[0]} and {MEANS[1]}, T = 10⁴. Agent 2 follows; agent 1 follows, refuses, refuses "
        "one offer in five, holds out for 1,000 offers, or withholds: it explores for itself a tenth of what it would "
        "(α = .2 instead of 2) and takes every offer. What counts is reward plus bonus, against following on the same "
        "luck. The control is the same deviation where nobody is ever paid: what it earns there is no gain from "
        "incentives. Lemma 1 says that under Take-or-Ban following is best among taking and refusing. It says nothing "
        "of withholding, and no protocol of the paper prevents that. Its extended form (docs/mechanics.md) is about "
        "offers that pay what an agent gives up, here by its own record and .01 more: whoever takes all of them loses "
        "no more than what their prices fall short of true gaps.",
        tuple(_finding(frame, protocol) for protocol in TERMS), _drawn(frame),
        "Bars: agent 1's gain over following, by conduct and protocol, with 95 % intervals. Dashed: what withholding "
        "gains where nobody is ever paid.",
        frame,
    )  # fmt: skip


@dataclass
class Sparing(Remembering):
    """A strategist made against `BeyondNatural`: by itself it pulls an arm no further than until it is paid for it.

    Up to a step it pulls its best arm only, which it knows; then it makes up for what the price asks for.
    """

    best: int = 0
    until: int = 0
    share: float = 0.9

    @staticmethod
    def numbers_kept(arms: int) -> int:
        """Means, pulls and bonuses of every arm."""
        return 3 * arms

    @staticmethod
    def choice(memory: Any, t: int, arms: int, params: Any) -> int:
        """The first arm that would not be paid for yet, or the best one."""
        total, best = 0.0, int(params.best)
        for k in range(arms):
            total += memory[arms + k]
            if memory[arms + k] < 1.0:
                return k
        for k in range(arms if float(t) > params.until else 0):
            asked = k != best and memory[arms + arms + k] < 1.0
            own = int(memory[arms + k])
            if asked and beyond_natural(memory[:arms], k, own, int(total), 1.0, 2.0, params.share) < 1.0:
                return k
        return best

    @staticmethod
    def note(memory: Any, arm: int, reward: float, paid: float, arms: int) -> None:
        """Count."""
        memory[arms + arm] += 1.0
        memory[arm] += (reward - memory[arm]) / memory[arms + arm]
        memory[arms + arms + arm] += 1.0 if paid > 0.0 else 0.0


BEST = 0
"""Agent 1's own best arm."""
STOPS = [math.ceil(part * LEMMA_1_HORIZON) for part in (0.5, 0.75, 1.0)]
WAYS: list[tuple[Agent, Answer]] = [(LEARNS, Always())]
WAYS += [
    (Withholding(arm, until, alpha, but), Always())
    for arm, but in ((1, -1), (-1, BEST))
    for until in STOPS
    for alpha in (2.0, 0.2)
]
WAYS += [(it, IfWorthIt()) for it in (LEARNS, *(Withholding(until=until, but=BEST) for until in STOPS))]
WAYS += [(Sparing(BEST, until, part), Always()) for until in (0, *STOPS[:2]) for part in (0.9, 0.95, 1.0)]
"""Among these the best response to every defence is searched for."""
DEFENCES: dict[str, dict[str, Any]] = {
    "bonuses of 1, no defence": {}, "compensation": {"pricing": Compensate()},
    "nothing for natural pulls": {"pricing": BeyondNatural()},
    "posted prices, no bans": {"pricing": Posted(), "protocol": protocols.NeverBan()},
    "openings that do not depend on silence": {"rule": Comparisons(0.01)},
    "35 pulls of an arm for nothing": {"pricing": Quota(pulls=35)},
    "300 bonuses a person": {"pricing": Capped(bonuses=300)},
}  # fmt: skip


def defences(request: Request) -> Section:
    """What is left to gain for a strategist, defence by defence, and what the defence costs."""
    rows, plain = [], Principal(Certified(0.01))
    for name, terms in DEFENCES.items():
        principal = replace(plain, **terms)
        honest = simulate(Game(MEANS), principal=principal, horizon=LEMMA_1_HORIZON, runs=request.runs,
                          seed=request.seed, progress=False)  # fmt: skip
        found = best_response(Game(MEANS), principal=principal, horizon=LEMMA_1_HORIZON, strategies=WAYS,
                              runs=request.runs, seed=request.seed)  # fmt: skip
        row: dict[str, Any] = {
            "defence": name,
            "strategy": f"{found.agent!r}, {found.answer!r}",
            "bill": mean(honest, "spent")[0],
        }
        row |= {"earned": mean(honest, "reward")[0] + row["bill"], "decided": share(honest, "decided")[0]}
        for part in ("gain", "rewards", "bonuses", "alone", "added", "cost"):
            row[part], row[f"{part}_error"] = getattr(found, part).mean, getattr(found, part).error
        half = 1.96 * row["added_error"]
        rows.append(row | {"added_low": row["added"] - half, "added_high": row["added"] + half, "all": ""})
    frame = pl.DataFrame(rows)
    drawn = figure(7.2, 3.2)
    charts.grouped(frame, "defence", "all", "added", ax=drawn.axes[0]).set_xlabel("what incentives add to the gain")
    return Section(
        "defences", "Defences: what a strategic agent can still extract",
        f"The game and the certified rule of Lemma 1's section. Under every defence the best response is searched for "
        f"anew, among honesty and {len(WAYS) - 1} ways to withhold natural pulls or to refuse what does not pay, nine "
        "of them made against the third defence, and judged on luck that it was not chosen by. What incentives add is "
        "the gain over honesty without what the same strategy gains where nobody is ever paid.",
        tuple(_defence(row, rows[0], request.runs) for row in rows), drawn,
        "Bars: what incentives add to the gain of the best response, by defence, with 95 % intervals.", frame,
    )  # fmt: skip


def _defence(row: dict[str, Any], none: dict[str, Any], runs: int) -> Finding:
    measured = {
        part: _told(row, part) for part in ("gain", "rewards", "bonuses", "alone", "added", "cost")
    } | {"honest users": f"the bill is {row['bill']:,.0f}, both agents earn {row['earned']:,.0f}"}  # fmt: skip
    truth = f"The best response is {row['strategy']}; {row['decided']} of {runs} honest trials are decided."
    if row is not none and none["added"] > 0:
        left, more = 100 * row["added"] / none["added"], 100 * (row["bill"] / none["bill"] - 1)
        truth = f"{left:.0f} % of the gain is left, and honest users cost {more:+.0f} %. {truth}"
    return Finding(row["defence"], measured, truth)


def deviations(rules: Mapping[str, Rule], terms: Mapping[str, dict[str, Any]], runs: int, seed: int) -> pl.DataFrame:
    """What agent 1 earns by each conduct, and what it gains over following, run by run on the same luck.

    One row per rule, terms of payment and conduct; ``alone`` is what a conduct earns where nobody is ever paid.
    """
    free = Principal(Passive())
    unpaid = {conduct: _own(_play(free, conduct, runs, seed)) for conduct in CONDUCT}
    rows = []
    for setting, rule in rules.items():
        for protocol, agreed in terms.items():
            paying = Principal(rule, **agreed)
            played = {conduct: _play(paying, conduct, runs, seed) for conduct in CONDUCT}
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
                rows.append(row | {"spent": mean(result, "spent")[0]})
    return pl.DataFrame(rows, schema_overrides={"gain": pl.Float64})


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


def _play(principal: Principal, conduct: str, runs: int, seed: int) -> Result:
    agent, answer = CONDUCT[conduct]
    return simulate(
        Game(MEANS), principal=principal, agents=[agent, LEARNS], answers=[answer, Always()],
        horizon=LEMMA_1_HORIZON, runs=runs, seed=seed, keep="agents", progress=False,
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
        bonus, spent = (
            {row["conduct"]: row[what] for row in own.filter(setting=setting).iter_rows(named=True)}
            for what in ("bonus", "spent")
        )
        told_of.append(
            f"{setting}: agent 1's bonuses go from {bonus['follow']:,.0f} to "
            f"{bonus[WITHHOLD]:,.0f}, the principal's bill from {spent['follow']:,.0f} to "
            f"{spent[WITHHOLD]:,.0f}"
        )
    return "; ".join(told_of) + "."


HORIZON, DELTA = 100_000, 0.01
LENGTHS = (1_000, 10_000, 100_000)
EASY = [[0.9, 0.2], [0.3, 0.6]]
"""A game with a gap of .2, where the theorems say something within T."""


def theory(request: Request) -> Section:
    """Lemmas 2, 3 and 4 and the two theorems."""
    rows = _natural(request)
    drawn = figure(6.4, 4.2)
    charts.floors(rows, ax=drawn.axes[0])
    return Section(
        "theory", "The lemmas and theorems beside simulation",
        "With the constants of the proofs. They are bounds, and never forecasts. Lemma 1 has a section of its own. The "
        f"figure shows Lemma 4 for agent 1 of the toy game. The easy game has means {EASY[0]} and {EASY[1]}.",
        (_lemma_2(request), _lemma_3(request), _lemma_4(rows, request.runs), *_theorems(request)),
        drawn, "Lines: pulls of agent 1 against the number of steps, by arm, with Lemma 4's lower bound dashed.", rows,
    )  # fmt: skip


def _lemma_2(request: Request) -> Finding:
    """How often the band is left, looked at 500 times in the second half."""
    looks = range(HORIZON // 2, HORIZON + 1, 100)
    measured, claim = {}, theorems.confidence(3, 2, HORIZON, DELTA)
    for name, rule in {
        "equation": Paper(DELTA), "simplified": Paper(DELTA, "simplified"), "× 0.1": Paper(DELTA, "simplified", 0.1),
    }.items():  # fmt: skip
        result = simulate(toy(), principal=Principal(rule), horizon=HORIZON, runs=request.runs, seed=request.seed,
                          trace=list(looks), progress=False)  # fmt: skip
        assert result.trace is not None
        seen = result.trace
        off = np.abs(seen["mean"].to_numpy() - toy().global_means[seen["arm"].to_numpy()]) > seen["bound"].to_numpy()
        runs = seen.filter(pl.Series(off))["run"].n_unique()
        measured[name] = f"left in {runs} of {request.runs} runs"
    sentence = (
        f"Looked at every 100 steps. Lemma 2 allows a share of {DELTA:g} for Eq. (2). {claim.condition} The other "
        "two bounds have no proof."
    )
    return Finding("Lemma 2: in the second half no sample mean leaves its band μ_k ± CB_k, with probability 1 − δ.",
                   measured, sentence)  # fmt: skip


def _lemma_3(request: Request) -> Finding:
    """When an arm falls, in pulls of every agent; agents take the two arms in turn, and nobody is paid."""
    game = Game(EASY)
    principal = Principal(Paper(DELTA), observe=schedules.Steps(0))
    result = simulate(game, principal=principal, agents=RoundRobin(), answers=Never(), horizon=HORIZON,
                      runs=request.runs, seed=request.seed, until="decided", progress=False)  # fmt: skip
    claim = theorems.sufficient_pulls(game.minimum_gap, 2, 2, HORIZON, DELTA)
    pulls = [at / 2 for at in result.frame["decided_at"].drop_nulls()]
    hard = theorems.sufficient_pulls(toy().minimum_gap, 3, 2, HORIZON, DELTA)
    holds = len(pulls) == request.runs and max(pulls) <= claim.value
    return Finding(
        "Lemma 3: an arm is out once every agent has pulled it and the best one often enough.",
        {"easy game": f"out in {len(pulls)} of {request.runs} runs, after {told(spread(pulls))} pulls of every agent, "
                      f"{max(pulls, default=math.nan):,.0f} at most; the lemma asks for {claim.value:,.0f}"},
        f"{'It holds, with room to spare.' if holds else 'It does not hold here.'} On the toy game {hard.condition}",
    )  # fmt: skip


def _natural(request: Request) -> pl.DataFrame:
    """Natural pulls of agent 1 of the toy game at several lengths."""
    rows = []
    for steps in LENGTHS:
        result = simulate(toy(), principal=Principal(Passive()), horizon=steps, runs=request.runs, seed=request.seed,
                          keep="agents", progress=False)  # fmt: skip
        assert result.agents is not None
        pulls = np.array(result.agents.filter(agent=0)["pulls"].to_list())
        claim, fluid = theorems.ucb_pulls(toy().means[0], steps), natural_pulls(toy().means[:1], steps)[0]
        for k in range(3):
            rows.append({
                "arm": k + 1, "steps": steps, "mean": float(pulls[:, k].mean()), "least": int(pulls[:, k].min()),
                "most": int(pulls[:, k].max()), "fluid": float(fluid[k]), "bound": float(claim.value[k]),
                "broken": int((pulls[:, k] < claim.value[k]).sum()), "applies": claim.holds,
                "condition": claim.condition,
            })  # fmt: skip
    return pl.DataFrame(rows)


def _lemma_4(rows: pl.DataFrame, runs: int) -> Finding:
    measured = {
        f"Λ = {steps:,}": "; ".join(
            f"arm {row['arm']}: {row['mean']:,.0f} pulls, {row['least']:,} at least; bound {row['bound']:.2g}, "
            f"fluid {row['fluid']:,.0f}"
            for row in own.iter_rows(named=True)
        )
        for (steps,), own in rows.group_by("steps", maintain_order=True)
    }
    broken = int(rows["broken"].sum())
    last = rows.row(-1, named=True)
    ratio = last["mean"] / last["bound"]
    return Finding(
        "Lemma 4: with probability 1 − 2K/Λ an α-UCB agent has pulled every arm, its best one too, at least as often "
        "as a bound says that grows like log Λ.",
        measured,
        "It holds on the event G_m: in steps Λ/2 to 3Λ/4 the agent's sample means stay within √(3·log t/(2N)) of its "
        f"means. {'Never broken' if broken == 0 else f'Broken in {broken} of {rows.height * runs} counts'}, and loose: "
        f"at Λ = 10⁵ arm {last['arm']} is pulled {ratio:,.0f} times as often. The fluid formula is what forecasts "
        "use. "
        + " ".join(f"At Λ = {row['steps']:,} {row['condition']}" for row in rows.filter(arm=2).iter_rows(named=True)),
    )


def _theorems(request: Request) -> list[Finding]:
    findings = []
    for name, game in {"the toy game": toy(), "the easy game": Game(EASY)}.items():
        first = theorems.expected_incentives(game, HORIZON, DELTA)
        second = theorems.ucb_incentives(game, HORIZON, DELTA)
        paid = simulate(game, principal=Principal(Paper(DELTA)), horizon=HORIZON, runs=request.runs, seed=request.seed,
                        until="decided", progress=False)  # fmt: skip
        most, decided = max(paid.frame["paid"].to_list()), int(paid.frame["decided"].sum())
        if max(first.value, second.value) > HORIZON // 2:
            truth = f"Vacuous here: at most T/2 = {HORIZON // 2:,} bonuses can be paid at all."
        else:
            held = (
                "Both hold in every run" if most <= min(first.value, second.value) else "A run pays more than they say"
            )
            times = (f"{claim.value / max(1, mean(paid, 'paid')[0]):.3g}" for claim in (first, second))
            truth = f"{held}; they are {' and '.join(times)} times what is paid on average."
        findings.append(Finding(
            f"Theorems 1 and 2 bound the cumulative incentives, on {name}.",
            {"Theorem 1": f"{first.value:,.0f}", "Theorem 2": f"{second.value:,.0f}",
             "paid, as printed": f"{told(mean(paid, 'paid'))}, {most:,} at most, {decided} of {request.runs} decided"},
            f"{truth} Theorem 1: {first.condition} Theorem 2: {second.condition}",
        ))  # fmt: skip
    return findings
