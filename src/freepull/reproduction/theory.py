"""The theorems and lemmas beside simulation."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from freepull import charts
from freepull import theory as theorems
from freepull.agents import RoundRobin
from freepull.agents.answers import Never
from freepull.fluid import natural_pulls
from freepull.game import Game
from freepull.instances import toy
from freepull.principal import Principal, schedules
from freepull.principal.rules import Paper, Passive
from freepull.reproduction.section import Finding, Request, Section, figure, mean, spread, told
from freepull.simulation import simulate

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
