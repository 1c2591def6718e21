"""The readable engine against a second reading of docs/mechanics.md: identical paths, step by step."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import freepull as fp
from freepull.simulation.readable import play
from support import reference
from support.drive import experiment
from support.examples import examples
from support.worlds import World, worlds

UNITS = 2**30


def assert_same_paths(world: World, run: int, until: str) -> None:
    told: dict[str, Any] = {"agents": world.agents, "answers": world.answers, "seed": world.seed, "until": until}
    checked = experiment(world.game, world.principal, world.horizon, trace=1, runs=[run], **told)
    found = play(checked, run)
    end = reference.play(world.game, principal=world.principal, horizon=world.horizon, run=run, **told)
    assert found.pulls.tolist() == end.pulls
    assert found.sums.tolist() == [[int(s * UNITS) for s in row] for row in end.sums]
    assert found.paid.tolist() == end.paid
    active = [{p.arm for p in found.trace if p.step == t and p.active} for t in range(1, len(end.active) + 1)]
    assert active == end.active
    assert (found.decided_at, found.decided) == (end.decided_at, end.decided_at is not None)
    assert (found.offered, found.refused, found.banned) == (end.offered, end.refused, len(end.banned))
    assert (found.arm, found.correct) == (end.arm, world.game.is_best(end.arm))


@examples(250)
@given(world=worlds(), run=st.integers(0, 1000), until=st.sampled_from(["horizon", "decided"]))
def test_small_worlds_are_played_identically(world: World, run: int, until: str) -> None:
    assert_same_paths(world, run, until)


def test_the_toy_is_played_identically_for_a_while() -> None:
    for offers in ("one", "each"):
        principal = fp.Principal(fp.rules.Paper(0.5, "simplified", 0.1), offers=offers)
        game = fp.instances.toy()
        pair = [fp.agents.AlphaUCB()] * 2, [fp.answers.WithProbability(0.9), fp.answers.Always()]
        assert_same_paths(World(game, *pair, principal, horizon=1500, seed=4), run=2, until="horizon")


def test_a_panel_of_twenty_is_played_identically() -> None:
    means = [[((3 * m + 5 * k) % 17) / 16 for k in range(5)] for m in range(20)]
    panel = [fp.agents.AlphaUCB(0.5), fp.agents.Greedy(), fp.agents.EpsilonGreedy(1.0), fp.agents.RoundRobin()] * 5
    for rule, observe in (
        (fp.rules.Paper(0.5, "simplified", 0.05), fp.observe.Adaptive()),
        (fp.rules.Paper(0.5), fp.observe.Root()),
    ):
        principal = fp.Principal(rule, observe=observe, protocol=fp.protocols.BanFor(2), offers="each", budget=120.0)
        answers = [fp.answers.WithProbability(0.7)] * 20
        assert_same_paths(World(fp.Game(means), panel, answers, principal, horizon=60, seed=1), run=0, until="horizon")
