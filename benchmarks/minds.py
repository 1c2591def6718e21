"""What parts of one's own cost: an index beside the built-in one, environments beside the readable engine, and pairs.

All by processor time of one process, in turn. `python -m benchmarks.minds` prints these rows alone.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

import freepull as fp

from . import report
from .findings import FULL, QUICK, Effort, Findings, ns
from .timing import Sample, in_turn

INDEX_BAR, PRINCIPAL_BAR, AGENTS_BAR, PAIRS_BAR = 3.0, 1e6, 5e4, 0.5
AGENTS, ARMS, HORIZON, RUNS = 30, 10, 100_000, 16
TRIALS, STEPS = 64, 500
"""Of the environments: how many trials at once on the principal's side, and how long."""
PAIRS = 200
"""Runs of each principal that are compared."""
PART, SIDES, PAIRED = "an index of one's own, times α-UCB", "environments, agent-steps a second", "paired differences"


@dataclass
class AtHand(fp.agents.Indexed):
    """α-UCB by what is at hand."""

    alpha: float = 2.0

    @staticmethod
    def index(mean: float, root: float, t: int, params: Any) -> float:
        """The paper's index."""
        return float(mean + math.sqrt(params.alpha * math.log(t)) * root)


@dataclass
class Divides(fp.agents.Indexed):
    """α-UCB as one writes it at first."""

    alpha: float = 2.0

    @staticmethod
    def index(pulls: float, total: float, t: int, params: Any) -> float:
        """The same, with two divisions."""
        return float(total / pulls + math.sqrt(params.alpha * math.log(t) / pulls))


@dataclass
class Varies(fp.agents.Indexed):
    """UCB-V by what is at hand."""

    zeta: float = 1.2

    @staticmethod
    def index(squares: float, mean: float, root: float, t: int, params: Any) -> float:
        """As in examples/own_formula.py."""
        spread = params.zeta * math.log(t) * (root * root)
        return float(mean + math.sqrt(2 * max(squares * (root * root) - mean * mean, 0.0) * spread) + 3 * spread)


def measure(found: Findings, effort: Effort) -> None:
    """Add all rows."""
    _indices(found, effort)
    _sides(found, effort)
    _pairs(found)


def _game(agents: int = AGENTS) -> fp.Game:
    return fp.Game(np.random.default_rng(0).uniform(0.2, 0.8, (agents, ARMS)))


def _simulated(agent: fp.agents.Agent, horizon: int = HORIZON, runs: int = RUNS, engine: str = "compiled") -> float:
    """Return ns per agent-step."""
    began = time.process_time()
    fp.simulate(_game(), principal=fp.Principal(fp.rules.Certified(0.01)), agents=agent, horizon=horizon, runs=runs,
                workers=1, engine=engine, progress=False)  # fmt: skip
    return (time.process_time() - began) / (AGENTS * horizon * runs) * 1e9


def _indices(found: Findings, effort: Effort) -> None:
    ways: dict[str, fp.agents.Agent] = {
        "α-UCB by `mean` and `root`": AtHand(),
        "α-UCB with two divisions": Divides(),
        "UCB-V by `mean` and `root`": Varies(),
    }
    built, *own = in_turn([partial(_simulated, it) for it in (fp.agents.AlphaUCB(), *ways.values())], effort.few)
    for what, one in zip(ways, own, strict=True):
        detail = f"{ns(one.median)} beside {ns(built.median)}"
        found.at_most(PART, f"{what}, {AGENTS}×{ARMS}", one.ratio(built), INDEX_BAR, "×", detail)


def _sides(found: Findings, effort: Effort) -> None:
    readable = partial(_simulated, fp.agents.AlphaUCB(), 1_000, 1, "readable")
    many, agents, plain = in_turn([_principals_side, _agents_side, readable], effort.few)
    for what, one, bar in (
        (f"the principal's, {TRIALS} trials at once, {AGENTS}×{ARMS}", many, PRINCIPAL_BAR),
        (f"the agents', {AGENTS}×{ARMS}", agents, AGENTS_BAR),
    ):
        found.at_least(SIDES, what, _rate(one), bar, "", f"the readable engine: {_rate(plain):,.0f}")


def _rate(sample: Sample) -> float:
    return 1e9 / sample.median


def _principals_side() -> float:
    """Return ns per agent-step, offers to all included."""
    from freepull import envs

    env = envs.PrincipalVectorEnv(_game(), STEPS, TRIALS, protocol=fp.protocols.NeverBan())
    env.reset(seed=1)
    chance = np.random.default_rng(1)
    offers = {"arm": chance.integers(0, ARMS + 1, (TRIALS, AGENTS)), "price": chance.random((TRIALS, AGENTS)),
              "stop": np.zeros(TRIALS, np.int64)}  # fmt: skip
    began = time.process_time()
    for _ in range(STEPS):
        env.step(offers)
    return (time.process_time() - began) / (AGENTS * TRIALS * STEPS) * 1e9


def _agents_side() -> float:
    """Return ns per agent-step, offers by `Certified` included."""
    from freepull import envs

    env = envs.parallel_env(_game(), fp.Principal(fp.rules.Certified(0.01)), 2 * STEPS)
    env.reset(seed=1)
    arms = np.random.default_rng(1).integers(0, ARMS, (2 * STEPS, AGENTS)).tolist()
    actions = [dict(zip(env.agents, chosen, strict=True)) for chosen in arms]
    began = time.process_time()
    for chosen in actions:
        env.step(chosen)
    return (time.process_time() - began) / (AGENTS * len(actions)) * 1e9


def _pairs(found: Findings) -> None:
    """How wide an interval of pairs is beside that of as many runs with luck of their own."""
    rules = {"certified": fp.rules.Certified(0.01), "authors": fp.rules.Paper(0.01, "simplified", 0.1)}
    game = fp.instances.Family(agents=5, means=[0.3, 0.4, 0.5, 0.6, 0.7], sd=0.1, gap=None)
    compared = fp.compare({name: fp.Principal(rule) for name, rule in rules.items()}, game, horizon=20_000, runs=PAIRS,
                          seed=1, progress=False)  # fmt: skip
    row = compared.differences().filter(quantity="spent").row(0, named=True)
    detail = f"{row['difference']:,.0f}, from {row['low']:,.0f} to {row['high']:,.0f}, {PAIRS} runs"
    found.at_most(PAIRED, "what is spent, 5×5, T = 20,000, times the interval without pairs", row["width"], PAIRS_BAR,
                  "×", detail)  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    found = Findings()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measure(found, QUICK if parser.parse_args().quick else FULL)
    report.show(found, Console(highlight=False, width=140))


if __name__ == "__main__":
    main()
