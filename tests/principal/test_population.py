"""The population rule: one look, at first rewards only, and how often it speaks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import freepull as fp
from drive import RISK, assert_sentence
from freepull.errors import InvalidInput
from freepull.principal.record import UNITS
from freepull.principal.rules.population import PopulationState, fill_evidence, winner
from freepull.simulation import facade

LAMBDAS, PI = [0.99, 0.8, 0.5, 0.25, 0.12], [0.4, 0.2, 0.15, 0.15, 0.1]


def trial_of(arms: int, agents: int, pulls: int = 2, **more: Any) -> fp.Trial:
    settings = {name: more.pop(name) for name in ("offers", "budget") if name in more}
    principal = fp.Principal(fp.rules.Population(0.3, pulls), observe=fp.observe.Steps(0), **settings)
    return principal.start(arms=arms, agents=agents, **more)


def tell(trial: fp.Trial, *rewards: list[float], agents: range | None = None) -> None:
    """Let agents pull every arm once."""
    for row in rewards:
        for m in agents or range(trial.setting.agents):
            for k, x in enumerate(row):
                trial.tell(m, k, x)


def evidence_of(state: Any) -> NDArray[np.float64]:
    assert isinstance(state, PopulationState)
    return state.claims


def test_the_evidence_by_hand() -> None:
    trial = trial_of(2, 3, pulls=2)
    rewards = [[[0.5, 0.0], [1.0, 0.25]], [[0.5, 0.5], [0.0, 0.0]], [[1.0, 1.0], [0.5, 0.0]]]
    for m, rows in enumerate(rewards):
        for row in rows:
            for k, x in enumerate(row):
                trial.tell(m, k, x)
    trial.end_step()
    D = [0.625, 0.0, 0.25]
    for j, k, sign in [(0, 1, 1), (1, 0, -1)]:
        by_hand = sum(p * math.prod(1 + sign * a * d for d in D) for p, a in zip(PI, LAMBDAS, strict=True))
        assert evidence_of(trial.rule)[j, k] == pytest.approx(math.log(by_hand), abs=1e-12)
        assert trial.rule.bounds()[k] == pytest.approx(by_hand)


def test_one_arm_above_all_others_decides() -> None:
    trial = trial_of(3, 8)
    tell(trial, [0.0, 1.0, 0.25], [0.25, 1.0, 0.0])
    assert trial.active == [0, 1, 2]
    trial.end_step()
    verdict = trial.verdict()
    assert (trial.active, verdict.arm, verdict.certified) == ([1], 1, True)
    assert verdict.why.startswith("it was claimed above every other arm by the population rule")
    assert verdict.rests_on.target == "the population from which the 8 agents of the panel were drawn"
    assert "nobody is missing because of rewards" in verdict.rests_on.assumptions


def test_every_claim_needs_the_rivals_share_of_delta() -> None:
    trial = trial_of(3, 8, pulls=1)
    tell(trial, [0.8, 0.4, 0.5])
    trial.end_step()
    evidence = np.exp(evidence_of(trial.rule))
    assert evidence[0, 1] > 2 / 0.3 > evidence[0, 2] > 1 / 0.3
    assert trial.active == [0, 1, 2]


def test_above_some_is_not_enough_and_there_is_no_second_look() -> None:
    trial = trial_of(3, 8, offers="each")
    tell(trial, [1.0, 1.0, 0.0], [1.0, 1.0, 0.0])
    trial.end_step()
    assert trial.active == [0, 1, 2]
    before = evidence_of(trial.rule).copy()
    tell(trial, *[[1.0, 0.0, 0.0]] * 20)
    trial.end_step()
    assert np.array_equal(evidence_of(trial.rule), before)
    assert trial.decided_at is None
    assert [trial.wanted(m) for m in range(8)] == [None] * 8
    assert "claimed no arm above all others, and there is no second" in trial.verdict().why
    assert not any(trial.rule.awaits(m) for m in range(8))


def test_only_the_first_rewards_count() -> None:
    trial = trial_of(2, 2, pulls=2)
    tell(trial, [1.0, 0.0], [1.0, 0.5], [0.0, 1.0], agents=range(1))
    tell(trial, [0.5, 0.5], agents=range(1, 2))
    trial.end_step()
    assert trial.rule.bounds() == [0.0, 0.0]  # agent 1 is awaited
    assert (trial.rule.awaits(0), trial.rule.awaits(1)) == (False, True)
    tell(trial, [0.5, 0.5], agents=range(1, 2))
    trial.end_step()
    assert math.exp(evidence_of(trial.rule)[0, 1]) == pytest.approx(
        sum(p * (1 + a * 0.75) for p, a in zip(PI, LAMBDAS, strict=True))
    )


@pytest.mark.parametrize("offers", ["one", "each"])
def test_the_stream_furthest_below_n_is_wanted(offers: str) -> None:
    trial = trial_of(2, 4, pulls=3, offers=offers, weights=[1, 1, 1, 0])
    for m, pulls in enumerate([(3, 2), (3, 3), (5, 0), (0, 0)]):
        for k, n in enumerate(pulls):
            for _ in range(n):
                trial.tell(m, k, 0.5)
    trial.end_step()
    wants = [(2, 1, 3), (0, 1, 1)]
    assert [tuple(want) for want in trial.rule.wants([True] * 4)] == (wants if offers == "each" else wants[:1])
    assert trial.rule.missing() == [[0.0, 1.0], [0.0, 0.0], [0.0, 3.0], [0.0, 0.0]]


def test_leavers_are_dropped_before_the_look_and_make_no_second_one_after_it() -> None:
    trial = trial_of(2, 3, leavers="independent")
    tell(trial, [1.0, 0.5], [0.5, 0.5], agents=range(2))
    trial.leave(2)
    trial.end_step()
    assert math.exp(evidence_of(trial.rule)[0, 1]) == pytest.approx(
        sum(p * (1 + a * 0.25) ** 2 for p, a in zip(PI, LAMBDAS, strict=True))
    )
    looked = trial.rule
    trial.leave(1)
    trial.end_step()
    assert trial.rule is looked


@pytest.mark.parametrize(("arms", "delta", "agents"), [(2, 0.05, 6), (3, 0.01, 9), (2, 0.9, 1), (65_536, 1e-100, 353)])
def test_the_fewest_agents_are_those_with_whom_the_clearest_rewards_decide(
    arms: int, delta: float, agents: int
) -> None:
    rule = fp.rules.Population(delta, pulls=1)
    assert rule.fewest_agents(arms) == agents
    for count in (agents - 1, agents):
        total = sum(p * (1 + a) ** count for p, a in zip(PI, LAMBDAS, strict=True))
        assert (total >= (arms - 1) / delta) == (count == agents)


def test_the_fewest_agents_do_decide_and_one_less_does_not() -> None:
    for agents, decided in ((2, False), (3, True)):
        trial = trial_of(2, agents, pulls=1)
        tell(trial, [1.0, 0.0])
        trial.end_step()
        assert trial.verdict().decided == decided


def test_a_verdict_says_that_there_are_too_few_agents() -> None:
    short = ", which can never decide with fewer than 3 agents;"
    assert short in trial_of(2, 2).verdict().why
    assert short in trial_of(2, 3, weights=[1, 0, 1]).verdict().why
    assert "never" not in trial_of(2, 3).verdict().why


@pytest.fixture
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing have been said before."""
    monkeypatch.setattr(facade, "_SAID", set())


@pytest.mark.usefixtures("unsaid")
@pytest.mark.parametrize("engine", ["compiled", "readable"])
@pytest.mark.parametrize(
    ("agents", "pulls", "why"),
    [
        (5, 10, "at least 6 agents are needed for 2 arms at δ = 0.05, and there are 5"),
        (6, 11, "2 × 11 pulls of every agent are needed, and the horizon is 20"),
    ],
)
def test_a_simulation_that_can_never_decide_says_so_once(engine: str, agents: int, pulls: int, why: str) -> None:
    game, principal = fp.Game([[1.0, 0.0]] * agents), fp.Principal(fp.rules.Population(0.05, pulls))
    with pytest.warns(UserWarning, match="rules.Population") as told:
        fp.simulate(game, principal=principal, horizon=20, runs=2, engine=engine)
    fp.simulate(game, principal=principal, horizon=20, runs=2, engine=engine)
    assert [str(one.message) for one in told] == [
        f"rules.Population pays for pulls here, but can never decide, because {why}."
    ]
    assert told[0].filename == __file__


@pytest.mark.usefixtures("unsaid")
def test_a_simulation_that_can_just_decide_says_nothing() -> None:
    principal = fp.Principal(fp.rules.Population(0.05, 10))
    found = fp.simulate(
        fp.Game([[1.0, 0.0]] * 6), principal=principal, agents=fp.agents.RoundRobin(), horizon=20, runs=1
    )
    assert found.frame["decided_at"].to_list() == [20]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fp.rules.Population(1.0), "delta must be"),
        (lambda: fp.rules.Population(0.1, pulls=0), "pulls must be"),
        (lambda: trial_of(2, 3, weights=[1, 2, 1]), "weights must be equal or 0 with rules.Population"),
        (lambda: trial_of(2, 3, leavers="worst_case"), "leavers must be 'wait' or 'independent'"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        make()
    assert assert_sentence(problem).startswith(said)


def claims(K: int, M: int, gap: float, delta: float, runs: int, n: int, seed: int) -> NDArray[np.int64]:
    """The winners of trials whose agents are drawn around means with a gap below the first, sd 0.1."""
    rng, evidence = np.random.default_rng(seed), np.zeros((K, K))
    centres = np.full(K, 0.5 - gap / 2)
    centres[0] += gap
    found = np.zeros(runs, np.int64)
    for run in range(runs):
        means = np.clip(rng.normal(centres, 0.1, (M, K)), 0, 1)
        sums = np.ascontiguousarray(rng.binomial(n, means).T) * UNITS
        fill_evidence(evidence, sums, np.full(M, 1 / M), n)
        found[run] = winner(evidence, math.log((K - 1) / delta))
    return found


@pytest.mark.parametrize(("M", "gap", "power"), [(30, 0.15, 0.68), (60, 0.1, 0.93), (120, 0.05, 0.74)])
def test_how_often_it_speaks(M: int, gap: float, power: float) -> None:
    runs = 1500
    spoke = float((claims(2, M, gap, 0.05, runs, 200, seed=1) == 0).mean())
    log = math.log(2 / RISK)  # Bernstein, and the figures are rounded to the percent from as many runs
    tolerance = math.sqrt(2 * power * (1 - power) * log / runs) + log / (3 * runs) + 0.015
    assert abs(spoke - power) <= tolerance


@pytest.mark.parametrize("K", [2, 4])
def test_how_seldom_it_is_wrong(K: int) -> None:
    delta, runs = 0.1, 2000
    wrong = float((claims(K, 20, 0.0, delta, runs, 20, seed=2) > 0).mean())  # arm 0 is as good as any
    assert wrong <= delta + math.sqrt(math.log(1 / RISK) / (2 * runs))
