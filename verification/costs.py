"""What a verdict costs: every rule on the same games and the same luck, beside two yardsticks.

One is the reference lower bound. The other has oracle bets: rounds and blocks as the certified rule lays them out, but
every account lies on the true best rival at the true gap.
"""

from __future__ import annotations

import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import freepull as fp
from freepull.game import TIE
from freepull.simulation.compiled import engine
from freepull.simulation.compiled.certified import CertifiedKernel
from freepull.simulation.compiled.state import Block
from freepull.simulation.experiment import Experiment, check
from freepull.theory import lower_bound, natural_pulls

from .found import THREADS
from .picks import Floats
from .settings import AFTER, BLIND, ORACLE, TOY, Setting, family

AGENTS: dict[str, Any] = {"α-UCB": None, "Thompson": fp.agents.Thompson(), "ε-greedy": fp.agents.EpsilonGreedy(),
          "Greedy": fp.agents.Greedy()}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What one rule paid in one setting."""

    setting: str
    rule: str
    paid: Floats
    decided: int
    correct: int
    """Runs that decided and named a best arm, or one that is worse by no more than the rule's ε."""

    @property
    def runs(self) -> int:
        """How many."""
        return len(self.paid)

    @property
    def mean(self) -> float:
        """Mean number of bonuses, undecided runs included."""
        return float(self.paid.mean())

    @property
    def error(self) -> float:
        """Its standard error."""
        return float(self.paid.std(ddof=1)) / math.sqrt(self.runs) if self.runs > 1 else math.nan

    @property
    def median(self) -> float:
        """The median."""
        return float(np.median(self.paid))


def measure(setting: Setting, name: str, rule: Any, runs: int, agents: Any = None) -> Cost:
    """Simulate a rule in a setting until it decides."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        experiment = _experiment(setting, rule, runs, agents)
    epsilon = getattr(rule, "epsilon", 0.0)
    found = sorted(
        (one.run, float(one.paid.sum()), one.decided, one.correct or one.game.gaps[one.arm] <= epsilon + TIE)
        for one in engine.play(experiment, None)
    )
    right = [fine for *_, decided, fine in found if decided]
    return Cost(setting.name, name, np.array([paid for _, paid, *_ in found]), len(right), sum(right))


class OracleKernel(CertifiedKernel):
    """The certified rule's kernel, with the bets of somebody who knows the game; a block is one run."""

    def begin(self, block: Block) -> None:
        """Lay everything on the best arm, at its distance; on the next one against the best arm itself."""
        super().begin(block)
        (game,), books, K = block.games, block.own, int(self.terms.K)
        means = game.global_means
        best, second = np.argsort(-means, kind="stable")[:2]
        gaps = means[best] - means
        gaps[best] = gaps[second]
        rivals = np.where(np.arange(K) == best, second, best)
        capital = np.zeros((1, 1, K, K, K))
        capital[0, 0, np.arange(K), rivals, np.arange(K)] = 1.0
        constants = books.constants._replace(gaps=np.maximum(gaps, 1e-9), rival_memory=0.0, gap_memory=0.0)
        coming = books.coming._replace(capital=capital, fits=np.zeros(K))
        block.own = books._replace(constants=constants, coming=coming)


def oracle(setting: Setting, runs: int) -> Cost:
    """What the certified rule's rounds cost with oracle bets, on the same games with the same luck."""
    player = engine.Player(_experiment(setting, fp.rules.Certified(setting.delta), runs))
    player.kernel = OracleKernel(player.experiment, player.coded)
    with ThreadPoolExecutor(THREADS) as pool:
        found = [one for (one,) in pool.map(player.play, [(run,) for run in range(runs)])]
    right = sum(one.decided and one.correct for one in found)
    paid = np.array([float(one.paid.sum()) for one in found])
    return Cost(setting.name, ORACLE, paid, sum(one.decided for one in found), right)


def _experiment(setting: Setting, rule: Any, runs: int, agents: Any = None) -> Experiment:
    return check(setting.game, agents or fp.agents.AlphaUCB(), fp.answers.Always(), setting.principal(rule),
                 setting.horizon, runs, setting.seed, "decided", None)  # fmt: skip


def limit(setting: Setting, runs: int) -> float:
    """The lower bound, averaged over the same games, with the fluid natural pulls up to κ for free."""
    experiment = _experiment(setting, fp.rules.Certified(setting.delta), runs)
    numbers = experiment.runs[:1] if isinstance(setting.game, fp.Game) else experiment.runs
    games = [experiment.game_of(run) for run in numbers]
    bound = float(np.mean([
        lower_bound(game, natural_pulls(game.means, setting.horizon // 2), setting.delta).sum() for game in games
    ]))  # fmt: skip
    return bound if bound >= 1 else 0.0


def wrong_forecasts(scale: float) -> list[tuple[str, Cost, Cost]]:
    """Agents that the forecast does not have in mind: (agents, with forecast, without), the toy and M = K = 30."""
    found: list[tuple[str, Cost, Cost]] = []
    for setting in (replace(TOY, runs=300), replace(family(30, 0.1, 8), horizon=200_000)):
        rules, runs = setting.rules(), max(2, int(setting.runs * scale))
        for name, agents in AGENTS.items():
            on, off = (measure(setting, which, rules[which], runs, agents) for which in (AFTER, BLIND))
            found.append((name, on, off))
    return found
