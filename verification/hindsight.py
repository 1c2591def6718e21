"""What could be known before money is spent: is the forecast of a verdict right, and what would others make of it?

`python -m verification.hindsight` takes some five minutes and prints three tables: how often a trial is decided of
which the forecast says p; what share of the bonuses goes into undecided trials under `futility`, and under a rule to
stop that was learned from other runs, which may even know the true gap; and what somebody would pay who sees a trial's
free run to its end, and the rewards to come (docs/statistics.md, futility and adaptive).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from rich.console import Console

import freepull as fp
from freepull.compiling import jit
from freepull.principal.rules.certified.design import design
from freepull.principal.rules.certified.evaluation import eliminate, evaluate
from freepull.simulation.compiled import certified as kernel
from freepull.simulation.compiled import engine
from freepull.simulation.compiled.state import ACTIVE, DECIDED_AT, PAID, Block
from freepull.simulation.experiment import check

from .picks import Floats
from .settings import SETTINGS, Panel, Setting

CROWD = SETTINGS[2]
LEARNT_ON, JUDGED_ON = 7_100, 7_101
"""Seeds."""
EDGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.01)
THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.3)
PRICES = (5e-5, 1e-4, 1.5e-4, 2e-4, 3e-4, 5e-4, 1e-3)
"""What a bonus in an undecided trial is worth in undecided trials, from one end of the trade to the other."""
BAR = 0.08
MOST_ROUNDS = 400


@dataclass(frozen=True)
class AnyGap:
    """People as in the crowd's games, with gaps of all sizes: the logarithm is even."""

    agents: int
    low: float
    high: float

    def __call__(self, rng: np.random.Generator) -> fp.Game:
        """Draw one panel."""
        gap = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return Panel(self.agents, tuple(0.5 - k * gap for k in range(4)))(rng)


ANY_GAP = replace(CROWD, name="2,000 people, gaps from .006 to .06", game=AnyGap(2000, 0.006, 0.06))


@dataclass(frozen=True)
class Seen:
    """Trials that pay from half time on, step by step while they are undecided."""

    run: Any
    step: Any
    paid: Floats
    forecast: Floats
    features: Floats
    """Of the rival that looks best: what a rule to stop may go by."""
    gaps: Floats
    """The true gap, by step."""
    decided: Any
    """By run."""
    in_all: Floats
    """What was paid, by run."""


def watch(setting: Setting, seed: int, runs: int) -> Seen:
    """Play trials, and note at the end of every step what is known."""
    experiment = check(setting.game, fp.agents.AlphaUCB(), fp.answers.Always(), setting.principal(
        fp.rules.Certified(setting.delta)), setting.horizon, runs, seed, "decided", None)  # fmt: skip
    player, rows, ends = engine.Player(experiment), [], []
    for run in experiment.runs:
        block = Block(experiment, player.coded, (run,))
        player.kernel.begin(block)
        trials, game = block.state.trials, np.sort(block.games[0].global_means)
        while block.t < setting.horizon and trials[0, DECIDED_AT] == 0:
            block.t = player.kernel.advance(block, block.t + 1)
            if setting.horizon // 2 <= block.t < setting.horizon and trials[0, DECIDED_AT] == 0:
                told, own = block.lanes.told, block.own
                chance = kernel.chance(told, block.state, player.coded.terms, own, 0, block.t)
                paid = float(trials[0, PAID])
                rows.append((run, block.t, paid, chance, game[-1] - game[-2], *features(block, own, paid)))
        ends.append((trials[0, DECIDED_AT] > 0, trials[0, PAID]))
    seen, end = np.array(rows), np.array(ends, float)
    return Seen(seen[:, 0].astype(int), seen[:, 1].astype(int), seen[:, 2], seen[:, 3], seen[:, 5:], seen[:, 4],
                end[:, 0] > 0, end[:, 1])  # fmt: skip


def features(block: Block, own: Any, paid: float) -> list[float]:
    """Powers and products of the z-score and the evidence of the nearest rival, of the next one's, and of the money."""
    active, scores = block.state.arms[: len(own.outlook), ACTIVE] > 0, own.outlook[:, 0]
    nearest = np.argsort(np.where(active, scores, math.inf))[:2]
    z, other = scores[nearest]
    capital = own.coming.capital[0, own.constants.decides, nearest[0]].sum()
    e = min(max(math.log(max(float(capital), 1e-300)), -3.0), 4.0)
    money, more = paid / 1e4, float(active.sum() > 2)
    return [1.0, z, z * z, z**3, e, e * e, z * e, money, money * z, money * money, more,
            more * min(float(other), 6.0)]  # fmt: skip


def learn(seen: Seen, price: float, known: Floats) -> dict[int, Floats]:
    """Learn what going on costs at each step, backwards from the last: whether undecided, and the money that is lost.

    Money counts as the bar has it: lost ≤ 8 % of all says (1 − .08)·lost − .08·spent in decided trials ≤ 0.
    """
    cost = np.where(seen.decided, -price * BAR * seen.in_all, 1 + price * (1 - BAR) * seen.in_all)
    found: dict[int, Floats] = {}
    for t in sorted(set(seen.step.tolist()), reverse=True):
        now = seen.step == t
        own = known[now]
        found[t] = np.linalg.solve(own.T @ own + 1e-6 * np.eye(own.shape[1]), own.T @ cost[seen.run[now]])
        stopped = 1 + price * (1 - BAR) * seen.paid[now]
        better = stopped < own @ found[t]
        cost[seen.run[now][better]] = stopped[better]
    return found


def outcome(seen: Seen, stops: Any) -> tuple[float, float]:
    """The share of decided trials, and of bonuses in the others, if trials end where ``stops`` says so first.

    A stopped trial counts as undecided. Free pulls would decide a few of them.
    """
    decided, paid = seen.decided.copy(), seen.in_all.copy()
    at, first = np.unique(seen.run[stops], return_index=True)
    decided[at], paid[at] = False, seen.paid[stops][first]
    return float(decided.mean()), float(paid[~decided].sum() / max(paid.sum(), 1.0))


def reliability(seen: Seen) -> list[tuple[float, float, int]]:
    """Between every two edges: the mean forecast, the share that was decided, and how many forecasts there were."""
    right, found = seen.decided[seen.run], []
    for low, high in pairwise(EDGES):
        own = (seen.forecast >= low) & (seen.forecast < high)
        if own.any():
            found.append((float(seen.forecast[own].mean()), float(right[own].mean()), int(own.sum())))
    return found


@jit
def go_on(streams: Any, state: Any, own: Any, agents: int, rounds: int) -> int:
    """Go on with the rounds, whether or not anybody pulls, until one arm is left; return how many, or −1."""
    used, coming = kernel.used_of(own, 0), kernel.coming_of(own, 0)
    for count in range(rounds):
        kernel.draw_again(streams, state.seats, used, coming, own.fill, 0, agents)
        evaluate(used, coming, own.fill, own.measure, own.constants)
        if eliminate(used, coming, own.constants) == 1:
            return count + 1
        design(used, coming, own.constants)
    return -1


def at_least(setting: Setting, seed: int, runs: int) -> Floats:
    """What somebody pays who sees the free run to its end and the rewards to come; infinite if nothing is enough.

    Which samples the deciding round needs is a matter of the stacks; those that the free run does not bring are bought.
    Nothing is taken off for the pulls whose place they take.
    """
    free = replace(setting.principal(fp.rules.Certified(setting.delta)), budget=0.0)
    experiment = check(setting.game, fp.agents.AlphaUCB(), fp.answers.Always(), free, setting.horizon, runs, seed,
                       "decided", None)  # fmt: skip
    player, costs = engine.Player(experiment), []
    for run in experiment.runs:
        block = Block(experiment, player.coded, (run,))
        player.kernel.begin(block)
        while block.t < setting.horizon and block.state.trials[0, DECIDED_AT] == 0:
            block.t = player.kernel.advance(block, setting.horizon)
        costs.append(0.0)
        if block.state.trials[0, DECIDED_AT] == 0:
            pulls = block.final_counts()[0][0].T
            rounds = go_on(block.lanes.told, block.state, block.own, setting.agents, MOST_ROUNDS)
            needed = np.asarray(block.own.used.pulls[0])
            enough = rounds > 0 and (needed.sum(axis=0) <= setting.horizon).all()
            costs[-1] = float(np.maximum(needed - pulls, 0).sum()) if enough else math.inf
    return np.array(costs)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=16_000, help="trials to learn from, and to judge by")
    runs, tell = parser.parse_args().runs, Console(highlight=False, width=160).print
    learnt, fresh = watch(CROWD, LEARNT_ON, runs), watch(CROWD, JUDGED_ON, runs)
    bars, any_gap = watch(CROWD, CROWD.seed, CROWD.runs), watch(ANY_GAP, JUDGED_ON, max(runs // 2, 1))
    for name, seen in ((ANY_GAP.name, any_gap), (CROWD.name, fresh)):
        rows = (f"{p:.3f}: {share:.3f} of {count:,}" for p, share, count in reliability(seen))
        tell(f"forecast: decided, {name}\n  " + "\n  ".join(rows))
    for name, seen in (("fresh", fresh), ("those of the bar", bars)):
        none = np.zeros(len(seen.run), bool)
        _tell(tell, f"{CROWD.name}, {name}: no futility", *outcome(seen, none))
        for f in THRESHOLDS:
            _tell(tell, f"  futility = {f:g}", *outcome(seen, seen.forecast < f))
        for knows in (False, True):
            for price in PRICES:
                own, others = _design(seen, knows), _design(learnt, knows)
                costs = learn(learnt, price, others)
                going_on = np.array([row @ costs[t] for row, t in zip(own, seen.step.tolist(), strict=True)])
                stops = 1 + price * (1 - BAR) * seen.paid < going_on
                told = "learned, the true gap known" if knows else "learned"
                _tell(tell, f"  {told}, a bonus counts {price:g}", *outcome(seen, stops))
    for setting in SETTINGS[1:3]:
        costs_of = np.sort(at_least(setting, setting.seed, setting.runs))
        shown = "  ".join(f"{q:.0%}: {costs_of[int(q * len(costs_of))]:,.0f}" for q in (0.4, 0.5, 0.6, 0.8, 0.9, 0.96))
        nothing = float((costs_of == 0.0).mean())
        tell(f"who sees the future pays, {setting.name}: nothing in {nothing:.1%}; {shown}")
    return 0


def _design(seen: Seen, knows: bool) -> Floats:
    """What is known at each step; with the true gap, and its products, if somebody may know it."""
    if not knows:
        return seen.features
    gap = 100 * seen.gaps[:, None]
    return np.hstack([seen.features, gap, gap * gap, gap * seen.features[:, [1, 4, 7]]])


def _tell(tell: Callable[[str], None], what: str, decided: float, lost: float) -> None:
    tell(f"{what}: {decided:.1%} decided, {lost:.1%} of the bonuses in the others")


if __name__ == "__main__":
    sys.exit(main())
