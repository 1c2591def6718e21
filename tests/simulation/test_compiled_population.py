"""The population rule, and best up to ε, compiled and readable, where the pairs of options do not lead."""

from __future__ import annotations

from typing import Any

import pytest
from test_compiled_paths import MEANS

import freepull as fp
from freepull.simulation.results import Outcome
from support.drive import experiment
from support.paths import compare
from support.tiers import mostly_slow

pytestmark = pytest.mark.slow
SHY = {"answers": fp.answers.WithProbability(0.8), "protocol": fp.protocols.BanFor(3)}


def paths(game: Any, rule: fp.rules.Rule, horizon: int, runs: Any = 4, **more: Any) -> list[Outcome]:
    settings = {name: more.pop(name) for name in ("offers", "observe", "protocol", "budget") if name in more}
    principal = fp.Principal(rule, **settings)
    return compare(experiment(game, principal, horizon, runs=runs, trace=[horizon // 3, horizon], seed=5, **more))


@pytest.mark.parametrize("offers", ["one", "each"])
@pytest.mark.parametrize("law", [None, fp.rewards.Beta(3)])
@pytest.mark.parametrize("weights", [[5, 1, 1, 1], [1, 0, 2, 1]])
def test_weights_give_the_same_path(weights: list[int], law: Any, offers: str) -> None:
    game = fp.Game(MEANS, weights=weights, rewards=law)
    for kappa in (0, 100):
        rule = fp.rules.Certified(0.3, epsilon=0.05)
        found = paths(game, rule, 300, runs=3, offers=offers, observe=fp.observe.Steps(kappa), **SHY)
        assert any(o.paid.sum() > 0 for o in found)
        assert all(o.paid[1].sum() == 0 for o in found) or weights[1] > 0


@pytest.mark.parametrize("offers", ["one", "each"])
def test_agents_without_weight_are_no_part_of_the_population(offers: str) -> None:
    game = fp.Game(MEANS, weights=[1, 0, 1, 1])
    for rule in (fp.rules.Population(0.4, pulls=20), fp.rules.Population(0.2)):
        found = paths(game, rule, 200, offers=offers, runs=20)
        assert all(o.paid[1].sum() == 0 for o in found)
        assert any(o.paid.sum() > 0 for o in found)


def test_runs_are_declared_best_up_to_epsilon_while_other_arms_are_in() -> None:
    rule = fp.rules.Certified(0.3, epsilon=0.3)
    found = paths(fp.Game(MEANS), rule, 400, runs=10, observe=fp.observe.Steps(0), offers="each")
    declared = [o for o in found if o.decided and sum(c.active for c in o.trace[-3:]) > 1]
    assert len(declared) > 2
    assert all(o.certified for o in declared)


def test_the_adaptive_schedule_starts_at_the_same_step() -> None:
    for rule in (fp.rules.Population(0.2, pulls=30), fp.rules.Population(0.2)):
        for slack in (0.1, 1.0):
            found = paths(fp.instances.toy(), rule, 1000, observe=fp.observe.Adaptive(slack))
            assert any(o.paid.sum() > 0 for o in found)


def test_the_look_is_at_the_first_step_that_completes_it() -> None:
    rule, agents = fp.rules.Population(0.4, pulls=5), fp.agents.RoundRobin()
    found = paths(fp.Game([[1.0, 0.0]] * 4), rule, 40, agents=agents)
    assert [o.decided_at for o in found] == [10] * 4


def test_population_looks_decide_and_do_not() -> None:
    game = fp.Game([[0.9, 0.2]] * 3 + [[0.6, 0.4]] * 3)
    found = paths(game, fp.rules.Population(0.2, pulls=10), 300, runs=30, observe=fp.observe.Steps(50))
    assert 0 < sum(o.decided for o in found) < 30
    assert all(o.certified == o.decided for o in found)
    assert all(o.pulls.min() >= 10 for o in found)


@pytest.mark.parametrize("offers", ["one", "each"])
@pytest.mark.parametrize("law", mostly_slow(None, fp.rewards.Beta(3)))
def test_looks_at_every_n_give_the_same_path(offers: str, law: Any) -> None:
    means = [[0.1, 0.45 + 0.02 * m, 0.95 - 0.01 * m, 0.6] for m in range(12)]
    game, rule = fp.Game(means, rewards=law), fp.rules.Population(0.2)
    found = paths(game, rule, 600, runs=8, offers=offers, observe=fp.observe.Steps(30), **SHY)
    some = [sum(c.active for c in o.trace[-4:]) for o in found]
    assert 0 < sum(o.decided for o in found) < len(found), "some are decided, some are not"
    assert any(1 < left < 4 for left in some), "arms fall one by one"
    assert any(o.paid.sum() > 0 for o in found)


def test_the_first_look_is_after_one_pull_of_every_stream() -> None:
    found = paths(fp.Game([[1.0, 0.0, 0.0]] * 6), fp.rules.Population(0.2), 40, agents=fp.agents.RoundRobin())
    assert [o.decided_at for o in found] == [3] * 4
