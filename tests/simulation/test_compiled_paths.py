"""The compiled engine follows the readable one path by path, whatever the parts (docs/mechanics.md)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import freepull as fp
from freepull.simulation.compiled import engine
from freepull.simulation.experiment import Experiment, check
from support.examples import cases as chosen
from support.examples import examples
from support.paths import compare, same
from support.tiers import some_quick

UCB = fp.agents.AlphaUCB()
M, K = 4, 3
MEANS = [[0.9, 0.4, 0.1], [0.2, 0.5, 0.8], [0.3, 0.6, 0.3], [0.5, 0.5, 0.9]]


def categorical() -> fp.Game:
    table = np.random.default_rng(5).dirichlet([1.0, 1.0, 1.0], size=(M, K))
    return fp.Game(rewards=fp.rewards.Categorical([0.0, 0.3, 1.0], table))


def empirical() -> fp.Game:
    rng = np.random.default_rng(6)
    return fp.Game(rewards=fp.rewards.Empirical([[rng.random(1 + m + k).tolist() for k in range(K)] for m in range(M)]))


def drawn(law: Any) -> Callable[[np.random.Generator], fp.Game]:
    return lambda rng: fp.Game(rng.uniform(0.3, 0.7, (M, K)), rewards=law)


def drawn_table(rng: np.random.Generator) -> fp.Game:
    return fp.Game(rewards=fp.rewards.Categorical(rng.random(3).tolist(), rng.dirichlet([1.0] * 3, size=(M, K))))


OPTIONS: dict[str, list[Any]] = {
    "game": [
        fp.Game(MEANS), drawn(None), fp.Game(MEANS, rewards=fp.rewards.Beta(3)), drawn(fp.rewards.Beta(0.3)),
        fp.Game(MEANS, rewards=fp.rewards.TruncatedNormal(0.1)), categorical(), empirical(), drawn_table,
        fp.Game([[0.0, 1.0, 0.5]] * M),
    ],
    "agents": [
        UCB, fp.agents.AlphaUCB(0.3), fp.agents.KLUCB(), fp.agents.KLUCB(c=3.0), fp.agents.Thompson(),
        fp.agents.EpsilonGreedy(), fp.agents.Greedy(), fp.agents.RoundRobin(), fp.agents.UCBV(), fp.agents.MOSS(),
        fp.agents.MOSS(horizon=120), fp.agents.UCB1Tuned(), fp.agents.BayesUCB(), fp.agents.BayesUCB(c=5.0),
        fp.agents.EXP3(), [fp.agents.EXP3(0.2), fp.agents.UCBV(2.0), UCB, fp.agents.EXP3()],
        [UCB, fp.agents.Thompson(), fp.agents.AlphaUCB(1.0), fp.agents.Greedy()],
        [fp.agents.KLUCB(), UCB, fp.agents.RoundRobin(), UCB],
    ],
    "answers": [
        fp.answers.Always(), fp.answers.Never(), fp.answers.WithProbability(0.6), fp.answers.HoldOut(3),
        fp.answers.IfWorthIt(), fp.answers.Reluctant(0.6, 0.5),
        [fp.answers.Never(), fp.answers.Always(), fp.answers.WithProbability(0.5), fp.answers.IfWorthIt()],
    ],
    "rule": [
        fp.rules.Paper(0.05, "simplified", 0.02), fp.rules.Paper(0.9, "simplified", 0.2), fp.rules.Paper(0.1),
        fp.rules.Paper(0.3, "finite_time"), fp.rules.Passive(), fp.rules.Certified(0.3),
        fp.rules.Certified(0.4, robust=0.05),
        fp.rules.Certified(0.4, robust=0.02, epsilon=0.3), fp.rules.Certified(0.3, epsilon=0.1),
        fp.rules.Certified(
            0.05,
            gap=0.2,
            design=fp.rules.Design(
                first_block=4, first_level=2, growth=0.2, neyman=0.1, stretch=0.5, held_back=0.5,
                forecast=fp.rules.Forecast(),
            ),
        ),
        fp.rules.Certified(0.4, epsilon=0.3),
        fp.rules.Population(0.3, pulls=3), fp.rules.Population(0.5),
        fp.rules.Paper(0.3, "simplified", 0.05, pay="uniform"),
        fp.rules.Comparisons(0.3), fp.rules.Comparisons(0.9, epsilon=0.05), fp.rules.Comparisons(0.9, cap=4, late=True),
    ],
    "observe": [
        fp.observe.Share(0.5), fp.observe.Steps(0), fp.observe.Steps(2), fp.observe.Root(), fp.observe.Share(1.0),
        fp.observe.Adaptive(slack=3.0), fp.observe.Adaptive(slack=0.05), fp.observe.KnownGap(0.9),
    ],
    "protocol": [
        fp.protocols.TakeOrBan(), fp.protocols.BanFor(3), fp.protocols.BanAfter(2), fp.protocols.NeverBan(),
    ],
    "offers": ["one", "each"],
    "budget": [None, 0.5, 7.0, 60.0],
    "bonus": [1.0, 0.25],
    "futility": [0.0, 0.0, 0.3],
    "until": ["horizon", "decided"],
    "trace": [None, [1, 17, 40, 120]],
}  # fmt: skip


PRESENCE: dict[str, list[Any]] = {
    "activity": [
        fp.activity.Rate(0.3), fp.activity.Lognormal(0.5, 1.0, silent=0.2), fp.activity.EveryStep(),
        [fp.activity.Rate(2.0), fp.activity.EveryStep(), fp.activity.Rate(0.05), fp.activity.Lognormal(1.0, 0.5)],
    ],
    "leaving": [
        fp.leaving.Stays(), fp.leaving.AtRandom(0.7, after=20), fp.leaving.AfterActs(9),
        fp.leaving.InAnger(0.8, after=3, reward=0.4, probability=0.2),
        fp.leaving.AnyOf([fp.leaving.AtRandom(0.5), fp.leaving.InAnger(0.5), fp.leaving.AfterActs(50)]),
        [fp.leaving.Stays(), fp.leaving.AfterActs(2), fp.leaving.AnyOf([fp.leaving.AtRandom(1.0)]),
         fp.leaving.InAnger(1.0, probability=1.0)],
    ],
}  # fmt: skip


D = fp.disturbances
WORLDS: dict[str, list[Any]] = {
    "disturbances": [
        (), D.Reports(late=0.5, steps=3), [D.Shocks(0.1), D.Reports(late=0.3, steps=200, missing=0.2)],
        [D.Reports(missing=0.4), D.Drift(0.2), D.PaidBias(-0.2)], D.Reports(late=1.0, steps=1),
    ],
}  # fmt: skip


def spread(options: dict[str, list[Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """Draw cases in which every value of an option stands equally often, each time with others."""
    rng = np.random.default_rng(seed)
    columns = {name: [values[i % len(values)] for i in rng.permutation(count)] for name, values in options.items()}
    return [{name: column[i] for name, column in columns.items()} for i in range(count)]


def experiment(case: dict[str, Any], horizon: int, runs: Any, seed: int) -> Experiment:
    if isinstance(case["rule"], fp.rules.Passive) and isinstance(case["observe"], fp.observe.KnownGap):
        case["observe"] = fp.observe.Root()  # a known gap needs a rule with a delta
    if isinstance(case["rule"], fp.rules.Comparisons) and isinstance(case["observe"], fp.observe.Adaptive):
        case["observe"] = fp.observe.Steps(2)  # adaptive schedules are not compiled with this rule
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        principal = fp.Principal(
            case["rule"], case["observe"], case["protocol"], case["offers"], case["bonus"], case["budget"],
            futility=case.get("futility", 0.0) if case["rule"].forecasts else 0.0,
        )  # fmt: skip
    checked = check(
        case["game"], case["agents"], case["answers"], principal, horizon, runs, seed, case["until"], case["trace"],
        **{name: case[name] for name in PRESENCE | WORLDS if name in case},
    )  # fmt: skip
    return replace(checked, margins=seed % 2 == 0)


def is_deep(agents: Any) -> bool:
    """Whether somebody is among them who keeps more of its past than counts and means."""
    return any(
        type(it) in (fp.agents.KLUCB, fp.agents.Thompson) for it in (agents if type(agents) is list else [agents])
    )


def world_of(laws: bool, people: bool) -> dict[str, list[Any]]:
    """Return the options of one kind of world, all of which share their machine code.

    With ``laws`` rewards are no coins, and somebody draws beliefs; with ``people`` they come, go and answer.
    """
    games, agents, answers = OPTIONS["game"], OPTIONS["agents"], OPTIONS["answers"]
    coins = [0, 1, len(games) - 1]
    world = OPTIONS | {"game": [it for i, it in enumerate(games) if (i in coins) != laws]}
    world["agents"] = [it for it in agents if not is_deep(it)]
    if laws:
        world["agents"] = [
            it if is_deep(it) else [*(it if type(it) is list else [it] * M)[1:], THOMPSON] for it in agents
        ]
    world["answers"] = [[it] * 3 + [fp.answers.Reluctant(0.3, 0.5)] for it in answers if type(it) is not list]
    if not people:
        return world | {"answers": [fp.answers.Always()]}
    habits = [[it] * 3 + [fp.activity.Rate(0.5)] for it in PRESENCE["activity"] if type(it) is not list]
    return world | PRESENCE | {"activity": habits}


THOMPSON = fp.agents.Thompson()
WEIGHTED = [fp.rules.Certified(0.3), fp.rules.Passive(), fp.rules.Comparisons(0.9, 0.02)]
KINDS = chosen([*product((False, True), repeat=2)], 3)
"""The barest and the fullest world; all four with `make deep`."""
CASES = [case for i, kind in enumerate(KINDS) for case in spread(world_of(*kind), 90, i)]
MIXED = spread(OPTIONS | PRESENCE | WORLDS, 400, 9)


@pytest.mark.slow
@pytest.mark.parametrize("number", some_quick(len(CASES), 4))
def test_all_options_give_the_same_path(number: int) -> None:
    case = dict(CASES[number])
    compare(experiment(case, horizon=120, runs=[0, 1, 7], seed=number))


@pytest.mark.slow
@pytest.mark.parametrize("number", chosen(some_quick(len(MIXED), 4), 100))
def test_mixed_worlds_give_the_same_path(number: int) -> None:
    case = dict(MIXED[number])
    compare(experiment(case, horizon=120, runs=[0, 1, 7], seed=number))


def test_the_cases_reach_what_they_are_meant_to_reach() -> None:
    seen = [o for i, case in enumerate(CASES) for o in engine.play(experiment(dict(case), 120, [0, 1, 7], i), 1)]
    assert sum(o.decided for o in seen) > 20
    assert len({o.survives for o in seen}) > 3
    assert sum(o.banned > 0 for o in seen) > 20
    assert sum(o.refused > 0 for o in seen) > 20
    assert sum(o.paid.sum() > 0 for o in seen) > 40
    assert sum(not o.decided for o in seen) > 40


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], int, int]:
    agents, arms = draw(st.integers(1, 18)), draw(st.integers(2, 11))
    means = draw(
        st.lists(
            st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.55, 0.9, 1.0]), min_size=arms, max_size=arms),
            min_size=agents,
            max_size=agents,
        )
    )
    strategies = st.sampled_from([a for a in OPTIONS["agents"] if not isinstance(a, list) and not is_deep(a)])
    replies = st.sampled_from([a for a in OPTIONS["answers"] if not isinstance(a, list)])
    case = {name: draw(st.sampled_from(values)) for name, values in OPTIONS.items() if name != "trace"}
    case["trace"] = None
    plain = isinstance(case["rule"], (fp.rules.Paper, fp.rules.Population))  # which are for plain averages
    weights = None if plain else draw(st.none() | st.lists(st.integers(1, 99), min_size=agents, max_size=agents))
    case["game"] = fp.Game(means, weights=weights)
    case["agents"] = draw(st.one_of(strategies, st.lists(strategies, min_size=agents, max_size=agents)))
    case["answers"] = fp.answers.Always()
    if draw(st.booleans()):
        case["answers"] = draw(st.one_of(replies, st.lists(replies, min_size=agents, max_size=agents)))
        for name, values in PRESENCE.items():
            parts = st.sampled_from([it for it in values if not isinstance(it, list)])
            case[name] = draw(st.one_of(parts, st.lists(parts, min_size=agents, max_size=agents)))
    case["disturbances"] = draw(st.sampled_from(WORLDS["disturbances"]))
    return case, draw(st.integers(arms, 60)), draw(st.integers(0, 2**64 - 1))


@pytest.mark.slow
@given(cases())
@examples(60)
def test_random_games_give_the_same_path(case: tuple[dict[str, Any], int, int]) -> None:
    options, horizon, seed = case
    compare(experiment(options, horizon, runs=[0, 3], seed=seed))


@pytest.mark.parametrize(("workers", "lanes"), [(1, 1), (2, 16), (3, 1000), (1, 1000)])
def test_threads_and_blocks_change_no_bit(workers: int, lanes: int) -> None:
    case = {name: values[0] for name, values in OPTIONS.items()} | {"trace": None}
    case["agents"] = [UCB, fp.agents.Thompson(), fp.agents.AlphaUCB(1.0), fp.agents.Greedy()]
    e = experiment(case, horizon=150, runs=40, seed=3)
    for a, b in zip(compare(e, workers, lanes), engine.play(e, 1), strict=True):
        same(a, b)


def test_a_run_repeated_alone_is_the_same_run() -> None:
    game, principal = fp.instances.toy(), fp.Principal(fp.rules.Paper(0.01, "simplified", 0.1))
    many = fp.simulate(game, principal=principal, horizon=2000, runs=50, seed=9)
    alone = fp.simulate(game, principal=principal, horizon=2000, runs=[37], seed=9)
    assert alone.frame.row(0) == many.frame.row(37)


@pytest.mark.slow
def test_a_long_run_with_many_agents_gives_the_same_path() -> None:
    family = fp.instances.Family(agents=37, means=[0.4, 0.45, 0.5, 0.55, 0.6], gap=None)
    case = {name: values[0] for name, values in OPTIONS.items()} | {"game": family, "trace": [500, 1500]}
    case["rule"] = fp.rules.Paper(0.05, "simplified", 0.1)
    found = compare(experiment(case, horizon=1500, runs=[0, 1], seed=4))
    assert all(o.paid.sum() > 0 or o.decided for o in found)


@pytest.mark.parametrize("rule", WEIGHTED)
@pytest.mark.parametrize("offers", ["one", "each"])
def test_weights_that_floats_cannot_add_to_one_give_the_same_path(rule: fp.rules.Rule, offers: str) -> None:
    tied = [0, 0, 1, 0, 0, 0, 1]  # of weight ½ each
    for game in (
        fp.Game([[a, 1 - a] for a in tied], weights=[2, 1, 10, 5, 1, 6, 5]),
        fp.Game([[0.3, 0.6, 0.2], [0.5, 0.4, 0.9], [0.2, 0.8, 0.1]], weights=[0.31, 0.17, 0.83]),
    ):
        case = {name: values[0] for name, values in OPTIONS.items()} | {"game": game, "trace": [5, 50, 200]}
        compare(experiment(case | {"rule": rule, "offers": offers}, horizon=200, runs=3, seed=0))


def weighted_or_not(generator: np.random.Generator) -> fp.Game:
    """Draw a game whose weights are its own, in two of three runs."""
    drawn = generator.integers(1, 9, 4).tolist()
    return fp.Game(MEANS, weights=[[1, 1, 1, 1], [3, 1, 1, 1], drawn][generator.integers(3)])


@pytest.mark.parametrize("rule", WEIGHTED)
def test_games_may_be_drawn_with_other_weights_in_every_run(rule: fp.rules.Rule) -> None:
    assert len({tuple(weighted_or_not(np.random.default_rng(i)).weights) for i in range(8)}) > 3
    case = {name: values[0] for name, values in OPTIONS.items()} | {"game": weighted_or_not, "trace": [50, 200]}
    for seed in range(2):
        compare(experiment(case | {"rule": rule}, horizon=200, runs=8, seed=seed))


def test_weights_are_used_by_the_passive_principal() -> None:
    game = fp.Game(MEANS, weights=[5, 1, 1, 1])
    case = {name: values[0] for name, values in OPTIONS.items()} | {"game": game, "trace": [50, 200]}
    case["rule"] = fp.rules.Passive()
    compare(experiment(case, horizon=200, runs=5, seed=2))


CROWD = fp.instances.Family(agents=40, means=[0.6, 0.5, 0.4, 0.3], sd=0.1, gap=None, clip=(0.01, 0.99))


def graded(rng: np.random.Generator) -> fp.Game:
    return fp.Game(CROWD(rng).means, rewards=fp.rewards.Beta(2), weights=rng.integers(0, 5, 40).tolist())


CROWDS: dict[str, list[Any]] = {
    "rule": [
        fp.rules.Comparisons(0.05), fp.rules.Comparisons(0.05, epsilon=0.05), fp.rules.Comparisons(0.05, cap=6),
        fp.rules.Comparisons(0.05, late=True), fp.rules.Comparisons(0.05, epsilon=0.05, cap=9, late=True),
    ],
    "game": [CROWD, graded],
    "agents": [UCB, [UCB, fp.agents.EpsilonGreedy()] * 20],
    "answers": [[fp.answers.Always()] * 39 + [fp.answers.Reluctant(0.4, 0.5)], fp.answers.Reluctant(0.4, 0.5)],
    "activity": [fp.activity.Rate(2.0), fp.activity.Lognormal(0.5, 0.8, silent=0.1)],
    "leaving": [
        fp.leaving.Stays(), fp.leaving.AnyOf([fp.leaving.AtRandom(0.3, after=20), fp.leaving.InAnger(0.5, after=3)]),
    ],
    "protocol": [fp.protocols.NeverBan(), fp.protocols.TakeOrBan()],
    "offers": ["one", "each"],
    "budget": [None, 60.0],
    "until": ["horizon", "decided"],
}  # fmt: skip
CROWD_CASES = spread(CROWDS, 20, 1)


def crowd(number: int) -> Experiment:
    case = CROWD_CASES[number] | {"observe": fp.observe.Share(0.1), "bonus": 1.0, "trace": [9, 60, 300]}
    return experiment(case, horizon=300, runs=[0, 5], seed=number)


@pytest.mark.parametrize("number", some_quick(len(CROWD_CASES), 4))
def test_comparisons_within_crowds_give_the_same_path(number: int) -> None:
    compare(crowd(number))


def test_crowds_reach_what_they_are_meant_to_reach() -> None:
    seen = [o for number in range(len(CROWD_CASES)) for o in engine.play(crowd(number), 1)]
    assert sum(o.decided for o in seen) >= 10
    assert sum(not o.decided for o in seen) >= 10
    assert sum(o.paid.sum() > 0 for o in seen) >= 10
    assert sum(o.refused > 0 for o in seen) >= 5
