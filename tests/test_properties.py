"""What holds in every simulated world: sums that must add up, and the same bits for the same seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import freepull as fp
from support.drive import Pull, experiment, stacks, watched
from support.examples import examples
from support.worlds import World, principals, worlds


def pulls_of(world: World, run: int) -> list[Pull]:
    told = {"agents": world.agents, "answers": world.answers, "seed": world.seed}
    return watched(experiment(world.game, world.principal, world.horizon, **told), run)


@examples(100)
@given(world=worlds(), until=st.sampled_from(["horizon", "decided"]))
def test_columns_add_up(world: World, until: str) -> None:
    result = fp.simulate(world.game, **world.parameters(), runs=2, until=until, keep="agents")
    assert result.agents is not None
    for row in result.frame.iter_rows(named=True):
        mine = result.agents.filter(result.agents["run"] == row["run"])
        pulls = np.array(mine["pulls"].to_list())
        steps = row["decided_at"] if until == "decided" and row["decided"] else world.horizon
        assert pulls.sum() == world.game.agents * steps
        assert (pulls.sum(axis=1) == steps).all()
        assert row["free_pulls"] == pulls.sum() - row["paid"]
        assert row["offered"] == row["paid"] + row["refused"]
        assert row["spent"] == pytest.approx(row["paid"] * world.principal.bonus)
        assert row["banned"] <= min(world.game.agents, row["refused"])
        assert row["decided"] == (row["decided_at"] is not None)
        assert row["certified"] <= row["decided"]
        assert row["correct"] == world.game.is_best(row["arm"])
        assert row["reward"] == math.fsum(mine["reward"])
        assert row["spent"] == pytest.approx(mine["bonus"].sum())
        loss = world.game.means.max(axis=1, keepdims=True) - world.game.means
        assert row["regret"] == float((pulls * loss).sum())  # sixteenths, so exact in any order
    assert result.paid.sum() * 2 == result.frame["paid"].sum()


@examples(60)
@given(world=worlds(), run=st.integers(0, 50))
def test_columns_follow_from_the_pulls(world: World, run: int) -> None:
    pulls = pulls_of(world, run)
    result = fp.simulate(world.game, **world.parameters(), runs=[run], keep="agents")
    row, means = result.frame.row(0, named=True), world.game.means
    assert result.agents is not None
    assert row["run"] == run
    assert row["reward"] == math.fsum(pull.reward for pull in pulls)
    assert row["regret"] == math.fsum(means[pull.agent].max() - means[pull.agent, pull.arm] for pull in pulls)
    assert row["paid"] == sum(pull.paid for pull in pulls)
    for m in range(world.game.agents):
        mine = [pull for pull in pulls if pull.agent == m]
        assert result.agents["reward"][m] == math.fsum(pull.reward for pull in mine)
        assert result.agents["bonus"][m] == pytest.approx(sum(pull.paid for pull in mine) * world.principal.bonus)
        for k in range(world.game.arms):
            assert result.agents["pulls"][m][k] == sum(pull.arm == k for pull in mine)
            assert result.paid[m, k] == sum(pull.paid for pull in mine if pull.arm == k)


@examples(60)
@given(world=worlds())
def test_nothing_is_paid_while_observing_or_after_the_decision(world: World) -> None:
    result = fp.simulate(world.game, **world.parameters(), runs=1, trace=1)
    started = world.principal.start(arms=world.game.arms, agents=world.game.agents, horizon=world.horizon)
    decided_at = result.frame["decided_at"][0]
    for pull in pulls_of(world, 0):
        if pull.paid:
            assert started.kappa is None or pull.t > started.kappa
            assert decided_at is None or pull.t <= decided_at


@examples(60)
@given(world=worlds())
def test_an_eliminated_arm_never_returns_and_spending_never_falls(world: World) -> None:
    trace = fp.simulate(world.game, **world.parameters(), runs=1, trace=1).trace
    assert trace is not None
    assert trace.height == world.horizon * world.game.arms
    for k in range(world.game.arms):
        arm = trace.filter(trace["arm"] == k)
        assert arm["active"].to_list() == sorted(arm["active"], reverse=True)
        assert arm["paid"].to_list() == sorted(arm["paid"])
    assert trace.filter(trace["active"]).group_by("step").len()["len"].min() >= 1  # type: ignore[operator]


@examples(40)
@given(world=worlds())
def test_the_same_seed_gives_the_same_bits_and_a_run_can_be_repeated_alone(world: World) -> None:
    first, again = (fp.simulate(world.game, **world.parameters(), runs=3, keep="agents") for _ in range(2))
    alone = fp.simulate(world.game, **world.parameters(), runs=[2], keep="agents")
    assert first.agents is not None
    assert again.agents is not None
    assert alone.agents is not None
    assert_frame_equal(first.frame, again.frame, check_exact=True)
    assert_frame_equal(first.agents, again.agents, check_exact=True)
    assert (first.paid == again.paid).all()
    assert_frame_equal(first.frame.filter(first.frame["run"] == 2), alone.frame, check_exact=True)
    assert_frame_equal(first.agents.filter(first.agents["run"] == 2), alone.agents, check_exact=True)


@examples(60)
@given(world=worlds(), other=principals(), run=st.integers(0, 50))
def test_the_nth_reward_of_a_stream_does_not_depend_on_the_principal(
    world: World, other: fp.Principal, run: int
) -> None:
    changed = World(world.game, world.agents, world.answers, other, world.horizon, world.seed)
    ours, theirs = stacks(pulls_of(world, run)), stacks(pulls_of(changed, run))
    for stream in ours.keys() & theirs.keys():
        shared = min(len(ours[stream]), len(theirs[stream]))
        assert ours[stream][:shared] == theirs[stream][:shared]


@examples(60)
@given(world=worlds())
def test_a_principal_who_never_pays_leaves_the_agents_alone(world: World) -> None:
    passive = fp.Principal(fp.rules.Passive())
    penniless = fp.Principal(fp.rules.Paper(0.5, "simplified"), observe=fp.observe.Steps(0), budget=0.0)
    paths = [
        pulls_of(World(world.game, world.agents, world.answers, principal, world.horizon, world.seed), 0)
        for principal in (passive, penniless)
    ]
    assert paths[0] == paths[1]
