"""The readable engine: the order within a step, what agents see, and stacks of rewards written beforehand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

import freepull as fp
from freepull.agents.answers import Situation
from freepull.randomness import REWARD, key, word
from freepull.simulation.readable import play
from support.drive import experiment, paper, stacks, watched

TOY = fp.instances.toy()
NOW = fp.observe.Steps(0)


class Diary:
    """A round-robin agent that writes down every call; all copies share one diary."""

    lines: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self, arms: int, key: int) -> None:
        self.arms = arms

    def pick(self, t: int) -> int:
        self.lines.append((self.name, "pick", t))
        return (t - 1) % self.arms

    def learn(self, arm: int, reward: float) -> None:
        self.lines.append((self.name, "learn", arm, reward))


class Asked:
    """An answer that writes down what it was shown."""

    seen: ClassVar[list[Situation]] = []

    def __init__(self, take: bool) -> None:
        self.take = take

    def takes(self, offer: Situation) -> bool:
        self.seen.append(replace(offer, pulls=list(offer.pulls), sums=list(offer.sums)))
        Diary.lines.append(("answer", offer.t, offer.arm))
        return self.take


@pytest.fixture(autouse=True)
def _empty_diaries() -> None:
    Diary.lines.clear()
    Asked.seen.clear()


def test_the_calls_of_a_step_come_in_the_order_of_the_docs() -> None:
    game = fp.Game([[1.0, 1.0], [1.0, 1.0]])
    agents, answers = [Diary("a"), Diary("b")], [Asked(take=True), Asked(take=True)]
    play(experiment(game, fp.Principal(paper(), observe=NOW), 2, agents=agents, answers=answers), 0)
    assert Diary.lines == [
        ("answer", 1, 0),  # agent 0 is offered arm 0, takes it, and is not asked to pick
        ("b", "pick", 1),
        ("a", "learn", 0, 1.0),
        ("b", "learn", 0, 1.0),
        ("answer", 2, 1),  # arm 0 is complete, arm 1 is not: agent 0 again
        ("b", "pick", 2),
        ("a", "learn", 1, 1.0),
        ("b", "learn", 1, 1.0),
    ]


def test_after_a_refusal_the_agent_picks_for_itself() -> None:
    game = fp.Game([[1.0, 1.0, 1.0]])
    principal = fp.Principal(paper(arms=3), observe=fp.observe.Steps(1), protocol=fp.protocols.NeverBan())
    end = play(experiment(game, principal, 3, agents=Diary("a"), answers=Asked(take=False)), 0)
    # step 2: offered arm 1, its own turn is arm 1 as well: taken, and paid; step 3: offered arm 2, likewise
    assert Diary.lines[2:5] == [("answer", 2, 1), ("a", "pick", 2), ("a", "learn", 1, 1.0)]
    assert (end.offered, end.refused, end.banned, end.paid.tolist()) == (2, 0, 0, [[0, 1, 1]])


def test_refusing_and_then_picking_the_offered_arm_is_taking_it() -> None:
    checked = experiment(
        fp.Game([[0.5, 0.5]]),
        fp.Principal(paper(1000.0), observe=NOW),
        4,
        agents=fp.agents.RoundRobin(),
        answers=fp.answers.Never(),
    )
    end = play(checked, 0)
    assert (end.offered, end.refused, end.banned) == (4, 0, 0)
    assert end.paid.tolist() == [[2, 2]]


def test_refusing_for_another_arm_is_refusing() -> None:
    checked = experiment(
        fp.Game([[0.5, 0.5]]),
        fp.Principal(paper(1000.0), observe=fp.observe.Steps(2)),
        5,
        agents=fp.agents.RoundRobin(),
        answers=fp.answers.Never(),
    )
    end = play(checked, 0)
    # step 3: a tie, arm 0, its own turn; step 4: arm 1 (1 pull against 2), its own turn; step 5: a tie, arm 0
    assert (end.offered, end.refused, end.paid.tolist()) == (3, 0, [[2, 1]])
    stubborn = experiment(
        fp.Game([[1.0, 0.0]]),
        fp.Principal(paper(1000.0), observe=fp.observe.Steps(2)),
        9,
        agents=fp.agents.Greedy(),
        answers=fp.answers.Never(),
    )
    end = play(stubborn, 0)
    # step 3: arm 0, which it wants anyway; step 4: arm 1, which it refuses, and is banned
    assert (end.offered, end.refused, end.banned, end.paid.tolist()) == (2, 1, 1, [[1, 0]])


def test_an_answer_sees_the_step_the_offer_its_number_and_the_agents_own_past() -> None:
    game = fp.Game([[1.0, 0.0]])
    principal = fp.Principal(paper(1000.0), observe=fp.observe.Steps(2), bonus=1.5)
    play(experiment(game, principal, 4, agents=fp.agents.RoundRobin(), answers=Asked(take=True), seed=3), 5)
    first, second = Asked.seen
    assert (first.t, first.arm, first.bonus, first.nth) == (3, 0, 1.5, 1)
    assert (first.pulls, first.sums) == ([1, 1], [1.0, 0.0])
    assert (second.t, second.arm, second.nth) == (4, 1, 2)
    assert (second.pulls, second.sums) == ([2, 1], [2.0, 0.0])
    assert 0.0 <= first.coin < 1.0
    assert first.coin != second.coin


def test_agents_learn_from_paid_pulls_and_never_see_the_bonus() -> None:
    game = fp.Game([[1.0, 1.0]])
    principal = fp.Principal(paper(), observe=NOW, bonus=7.0)
    end = play(experiment(game, principal, 2, agents=Diary("a"), answers=Asked(take=True)), 0)
    assert [line for line in Diary.lines if line[1] == "learn"] == [("a", "learn", 0, 1.0), ("a", "learn", 1, 1.0)]
    assert end.rewards().tolist() == [2.0]


@pytest.mark.parametrize("law", [fp.rewards.Bernoulli(), fp.rewards.Beta(4.0)])
def test_the_nth_pull_of_a_stream_takes_the_nth_word_of_its_stack(law: Any) -> None:
    game = fp.Game(TOY.means, rewards=law)
    for (m, k), rewards in stacks(watched(experiment(game, fp.Principal(paper(arms=3)), 60, seed=9), run=4)).items():
        own = key(9, 4, m, REWARD)
        assert rewards == [game.streams.draw(m, k, word(own, k, n)) for n in range(1, len(rewards) + 1)]


def test_two_principals_on_one_seed_meet_the_same_luck() -> None:
    free, paid = (
        stacks(watched(experiment(TOY, fp.Principal(rule, observe=NOW, offers="each"), 400, seed=5)))
        for rule in (fp.rules.Passive(), fp.rules.Paper(0.01))
    )
    lengths = {stream: (len(free[stream]), len(paid[stream])) for stream in free}
    assert any(a != b for a, b in lengths.values())
    for stream, (a, b) in lengths.items():
        assert free[stream][: min(a, b)] == paid[stream][: min(a, b)]


def test_runs_agents_and_seeds_have_luck_of_their_own() -> None:
    game = fp.Game([[0.5, 0.5], [0.5, 0.5]])
    passive = fp.Principal(fp.rules.Passive())
    luck = []
    for seed, run in ((0, 0), (0, 1), (1, 0)):
        checked = experiment(game, passive, 80, agents=fp.agents.RoundRobin(), seed=seed)
        luck += [tuple(rewards) for rewards in stacks(watched(checked, run)).values()]
    assert len(set(luck)) == 12


def test_every_reward_is_a_multiple_of_the_unit() -> None:
    game = fp.Game(TOY.means, rewards=fp.rewards.Beta(4.0))
    for pull in watched(experiment(game, fp.Principal(fp.rules.Passive()), 50)):
        assert (pull.reward * 2**30).is_integer()


AGENTS = fp.agents.AlphaUCB(), fp.agents.KLUCB(), fp.agents.Thompson(), fp.agents.EpsilonGreedy()
RUNS = [
    ([[143, 36, 21], [21, 36, 143]], [[123, 19, 0], [1, 12, 129]], [[0, 15, 15], [15, 28, 0]]),
    ([[159, 26, 15], [15, 26, 159]], [[138, 13, 0], [0, 7, 144]], [[0, 21, 13], [13, 23, 0]]),
    ([[157, 28, 15], [16, 27, 157]], [[136, 14, 0], [0, 8, 142]], [[0, 22, 13], [14, 23, 0]]),
    ([[134, 41, 25], [25, 41, 134]], [[117, 21, 0], [1, 16, 122]], [[0, 23, 5], [18, 28, 0]]),
]


@pytest.mark.parametrize(("agent", "pulls", "wins", "paid"), [(a, *run) for a, run in zip(AGENTS, RUNS, strict=True)])
def test_runs_that_must_never_change(agent: Any, pulls: Any, wins: Any, paid: Any) -> None:
    """Keys, stacks, indices and the mechanism together: whoever changes these numbers changes everybody's results."""
    principal = fp.Principal(fp.rules.Paper(0.5, "simplified", 0.1), protocol=fp.protocols.NeverBan())
    told: dict[str, Any] = {"agents": agent, "answers": fp.answers.WithProbability(0.7), "seed": 7}
    end = play(experiment(TOY, principal, 200, **told), 3)
    assert end.pulls.tolist() == pulls
    assert (end.sums / 2**30).tolist() == wins
    assert end.paid.tolist() == paid
