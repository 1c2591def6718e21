"""Random small worlds for Hypothesis: a game, its agents, how they answer, a principal, and how long it lasts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import freepull as fp

AGENTS = [
    fp.agents.AlphaUCB(2.0), fp.agents.AlphaUCB(0.1), fp.agents.KLUCB(), fp.agents.KLUCB(3.0), fp.agents.Thompson(),
    fp.agents.EpsilonGreedy(0.5), fp.agents.Greedy(), fp.agents.RoundRobin(),
]  # fmt: skip
ANSWERS = [
    fp.answers.Always(), fp.answers.Never(), fp.answers.WithProbability(0.5), fp.answers.HoldOut(2),
    fp.answers.IfWorthIt(),
]  # fmt: skip
PROTOCOLS: list[Any] = [
    fp.protocols.TakeOrBan(), fp.protocols.BanFor(1), fp.protocols.BanFor(3), fp.protocols.BanAfter(2),
    fp.protocols.NeverBan(),
]  # fmt: skip
LAWS = [fp.rewards.Bernoulli(), fp.rewards.Beta(5.0)]
RULES: list[fp.rules.Rule] = [
    fp.rules.Paper(0.5, "simplified", 0.1), fp.rules.Paper(0.1, "simplified", 0.01),
    fp.rules.Paper(0.5, "simplified", 0.001), fp.rules.Paper(0.9, "simplified", 0.3), fp.rules.Paper(0.2, "equation"),
    fp.rules.Paper(0.9, "finite_time"), fp.rules.Passive(),
]  # fmt: skip
PROVEN: list[fp.rules.Rule] = [
    fp.rules.Population(0.5, pulls=2), fp.rules.Population(0.5),
]  # fmt: skip
"""Rules that the second reading of the mechanics does not know."""
SCHEDULES = [
    fp.observe.Steps(0), fp.observe.Steps(3), fp.observe.Share(0.25), fp.observe.Share(1.0), fp.observe.Root(),
    fp.observe.Adaptive(3.0), fp.observe.Adaptive(0.05), fp.observe.KnownGap(1.0),
]  # fmt: skip


@dataclass(frozen=True)
class World:
    """One set of parameters for a simulation."""

    game: fp.Game
    agents: list[Any]
    answers: list[Any]
    principal: fp.Principal
    horizon: int
    seed: int

    def parameters(self) -> dict[str, Any]:
        """Return them as `freepull.simulate` takes them, on the readable engine."""
        names = ("agents", "answers", "principal", "horizon", "seed")
        return {name: getattr(self, name) for name in names} | {"engine": "readable"}


@st.composite
def principals(draw: st.DrawFn, rules: Sequence[fp.rules.Rule] = RULES) -> fp.Principal:
    """Draw a principal; those without a δ cannot use κ_o."""
    rule = draw(st.sampled_from(rules))
    schedules = [s for s in SCHEDULES if rule.delta is not None or not isinstance(s, fp.observe.KnownGap)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a bonus below 1
        return fp.Principal(
            rule,
            observe=draw(st.sampled_from(schedules)),
            protocol=draw(st.sampled_from(PROTOCOLS)),
            offers=draw(st.sampled_from(["one", "each"])),
            bonus=draw(st.sampled_from([1.0, 2.5, 0.3])),
            budget=draw(st.none() | st.sampled_from([0.0, 0.9, 3.0, 7.5, 20.0])),
        )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw a world of at most 3 agents, 4 arms and 40 steps."""
    M, K = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    means = draw(st.lists(st.lists(st.integers(0, 16), min_size=K, max_size=K), min_size=M, max_size=M))
    return World(
        game=fp.Game([[mean / 16 for mean in row] for row in means], rewards=draw(st.sampled_from(LAWS))),
        agents=draw(st.lists(st.sampled_from(AGENTS), min_size=M, max_size=M)),
        answers=draw(st.lists(st.sampled_from(ANSWERS), min_size=M, max_size=M)),
        principal=draw(principals()),
        horizon=draw(st.integers(K, 40)),
        seed=draw(st.integers(0, 2**64 - 1)),
    )
