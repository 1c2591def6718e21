"""What serves large trials changes nothing: pulls in bulk, closings in slices, saved state; beside a plain trial."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import freepull as fp
from drive import assert_sentence
from freepull.errors import InvalidInput
from freepull.principal.rules.base import RuleState, Want
from freepull.principal.rules.certified import state as certified
from plain_trial import PlainTrial
from worlds import PROTOCOLS

RULES: list[fp.rules.Rule] = [
    fp.rules.Certified(0.5),
    fp.rules.Certified(0.3, design=fp.rules.Design(2, 1, growth=0.5, stretch=1.0, held_back=0.5)),
    fp.rules.Certified(0.1, design=fp.rules.Design(3, 2, growth=1.0, neyman=0.1, forecast=fp.rules.Forecast())),
    fp.rules.Certified(0.6, gap=0.3, design=fp.rules.Design(shrink=False)),
    fp.rules.Pairwise(0.5),
    fp.rules.Pairwise(0.9, blocks=fp.rules.Blocks(3, 2, 0.5, 0.2)),
    fp.rules.Pairwise(0.5, blocks=fp.rules.Blocks(growth=10.0)),
    fp.rules.Population(0.9, pulls=2),
]


@st.composite
def trials(draw: st.DrawFn, least: int = 1) -> tuple[fp.Principal, dict[str, Any]]:
    """Draw a principal, and the frame of a trial."""
    rule = draw(st.sampled_from(RULES))
    principal = fp.Principal(
        rule,
        observe=fp.observe.Steps(draw(st.sampled_from([0, 0, 2, 9]))),
        protocol=draw(st.sampled_from(PROTOCOLS)),
        offers=draw(st.sampled_from(["one", "each"])),
        budget=draw(st.sampled_from([None, None, 2.0, 9.0])),
    )
    M, K = draw(st.integers(least, 6)), draw(st.integers(2, 4))
    frame: dict[str, Any] = {"arms": K, "agents": M, "leavers": draw(st.sampled_from(rule.policies))}
    frame["horizon"] = draw(st.sampled_from([None, 8, 40]))
    if frame["horizon"] is not None and frame["horizon"] < K:
        frame["horizon"] = None
    if not isinstance(rule, fp.rules.Population):
        weights = draw(st.sampled_from([None, [1.0, 2.0, 0.0, 0.5, 1.0, 3.0], [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]]))
        frame["weights"] = None if weights is None else weights[:M]
    frame["withdrawal"] = rule.withdrawals and draw(st.booleans())
    return principal, frame


class Driver:
    """Makes up what happens in a trial, from a seed and from what the trial answers."""

    def __init__(self, frame: dict[str, Any], seed: int) -> None:
        self.chance, self.M, self.K, self.frame = random.Random(seed), frame["agents"], frame["arms"], frame
        self.gone: set[int] = set()
        self.withdrawn: set[int] = set()

    def agents(self) -> list[int]:
        """Those who can be told of."""
        return [m for m in range(self.M) if self.frame["leavers"] == "wait" or m not in self.gone]

    def pulls(self, trial: fp.Trial, most: int) -> list[tuple[int, int, float]]:
        """Pulls of offered arms and of others; binary rewards, or in tenths."""
        found, agents = [], self.agents()
        for _ in range(self.chance.randint(0, most) if agents else 0):
            m = self.chance.choice(agents)
            offered = trial.wanted(m)
            k = offered if offered is not None and self.chance.random() < 0.7 else self.chance.randrange(self.K)
            found.append((m, k, self.chance.choice([float(k == 0), 0.1 * self.chance.randint(0, 10)])))
        return found

    def odd(self, trial: fp.Trial) -> tuple[str, int] | None:
        """Now and then somebody leaves, an offer is cancelled or an arm withdrawn."""
        what, m, k = self.chance.random(), self.chance.randrange(self.M), self.chance.randrange(self.K)
        staying = [a for a in range(self.M) if trial.setting.weights[a] > 0 and a not in self.gone and a != m]
        if what < 0.06 and staying:
            self.gone.add(m)
            return "leave", m
        if what < 0.12:
            return "cancel", m
        open_to_it = trial.setting.withdrawal and trial.decided_at is None and len(self.withdrawn) < self.K - 1
        if what < 0.15 and open_to_it and k not in self.withdrawn:
            self.withdrawn.add(k)
            return "withdraw", k
        return None


def assert_same(trial: fp.Trial, plain: PlainTrial) -> None:
    """Everything that both know is the same, to the bit."""
    agents = range(trial.setting.agents)
    assert trial.active == plain.active
    assert trial.rule.bounds() == plain.rule.numbers()
    assert [trial.wanted(m) for m in agents] == [plain.wanted(m) for m in agents]
    assert (trial.decided_at, trial.steps, trial.offered) == (plain.decided_at, plain.steps, plain.offered)
    assert (trial.refused, trial.banned_until) == (plain.refused, plain.until)
    assert trial.awaited == plain.awaited
    paid = np.zeros(trial.paid.shape, int)
    np.add.at(paid, tuple(np.array(plain.paid, int).reshape(-1, 2).T), 1)
    assert trial.paid.tolist() == paid.tolist()
    assert trial.panel.number == plain.panels


def apply(trial: Any, what: tuple[str, int]) -> Any:
    return getattr(trial, what[0])(what[1])


@contextmanager
def slices_of(streams: int) -> Iterator[None]:
    """Make slices so small that a trial of six agents has many."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("freepull.principal") and hasattr(module, "STREAMS"):
                patch.setattr(module, "STREAMS", streams)
        patch.setattr(certified, "BETS", 1)
        yield


@settings(max_examples=150)
@given(made=trials(), seed=st.integers(0, 2**32), many=st.booleans(), sliced=st.booleans())
def test_a_trial_is_the_plain_one(
    made: tuple[fp.Principal, dict[str, Any]], seed: int, many: bool, sliced: bool
) -> None:
    principal, frame = made
    trial = principal.start(**frame)
    plain, driver = PlainTrial(principal, trial.setting), Driver(frame, seed)
    for _ in range(25):
        for m in driver.chance.sample(range(driver.M), driver.chance.randint(0, driver.M)):
            offer = trial.ask(m)
            assert (None if offer is None else offer.arm) == plain.ask(m)
        odd = driver.odd(trial)
        if odd is not None:
            one, other = apply(trial, odd), apply(plain, odd)
            assert (one.arm if isinstance(one, fp.Offer) else one) == other
        pulls = driver.pulls(trial, 4 * driver.M * driver.K)
        told = trial.tell_many(*zip(*pulls, strict=True)) if many and pulls else [trial.tell(*pull) for pull in pulls]
        assert told == [plain.tell(*pull) for pull in pulls]
        trial.end_step(at_once=not sliced)
        plain.end_step()
        if sliced:  # pulls that come while the step is being closed count for the next one
            late = driver.pulls(trial, 8)
            trial.work(0)
            assert [trial.tell(*pull) for pull in late] == [plain.tell(*pull) for pull in late]
            assert trial.work()
        assert_same(trial, plain)
    assert trial.record.pulls.sum() == len(plain.told)


Event = tuple[str, Any]


def happen(trial: fp.Trial, event: Event) -> Any:
    """Let one event of a log happen; return what was answered."""
    name, given = event
    if name == "end_step":
        return trial.end_step(at_once=False)
    if name == "closed":
        return trial.work()
    return trial.tell_many(*zip(*given, strict=True)) if name == "tell_many" else apply(trial, event)


def live(principal: fp.Principal, frame: dict[str, Any], seed: int) -> tuple[fp.Trial, list[Event], list[Any]]:
    """Drive a trial whose steps are closed slice by slice while other things go on; return it, its log, its answers."""
    trial, driver = principal.start(**frame), Driver(frame, seed)
    log: list[Event] = []
    answers: list[Any] = []

    def note(*event: Any) -> None:
        was_closing = trial.closing
        answer = happen(trial, event)
        if was_closing and not trial.closing and event[0] != "closed":
            log.append(("closed", None))  # leaving and withdrawing end a closing before they begin
            answers.append(True)
        log.append(event)
        answers.append(answer)

    for _ in range(60):
        if not trial.closing and driver.chance.random() < 0.5:
            note("end_step", None)
        for _ in range(driver.chance.randint(0, 30)):
            if trial.closing and trial.work(0):
                log.append(("closed", None))
                answers.append(True)
        note("ask", driver.chance.randrange(driver.M))
        odd = driver.odd(trial)
        if odd is not None:
            note(*odd)
        pulls = driver.pulls(trial, 3 * driver.M)
        if pulls:
            note("tell_many", pulls)
    note("closed", None)
    return trial, log, answers


@settings(max_examples=60)
@given(made=trials(), seed=st.integers(0, 2**32), streams=st.sampled_from([1, 2, 5, 1 << 15]))
def test_a_replay_of_the_log_gives_the_same_bits_however_the_work_was_sliced(
    made: tuple[fp.Principal, dict[str, Any]], seed: int, streams: int
) -> None:
    with slices_of(streams):
        trial, log, answers = live(*made, seed)
    again = made[0].start(**made[1])
    assert [happen(again, event) for event in log] == answers
    assert again.state() == trial.state()
    assert str(again.verdict()) == str(trial.verdict())


@settings(max_examples=60)
@given(made=trials(), seed=st.integers(0, 2**32), share=st.floats(0, 1))
def test_a_restored_trial_goes_on_as_if_nothing_had_happened(
    made: tuple[fp.Principal, dict[str, Any]], seed: int, share: float
) -> None:
    trial, log, answers = live(*made, seed)
    again, cut = made[0].start(**made[1]), round(share * len(log))
    for event in log[:cut]:
        happen(again, event)
    while again.closing:
        happen(again, log[cut])
        cut += 1
    state = again.state()
    restored = made[0].restore(state)
    assert restored.state() == state
    assert made[0].restore(memoryview(bytearray(state))).state() == state
    assert [happen(restored, event) for event in log[cut:]] == answers[cut:]
    assert restored.state() == trial.state()
    assert restored.rule.bounds() == trial.rule.bounds()
    assert str(restored.verdict().rests_on) == str(trial.verdict().rests_on)


@pytest.mark.parametrize("rule", [fp.rules.Paper(0.5, "simplified", 0.01), fp.rules.Passive(), *RULES])
@pytest.mark.parametrize("offers", ["one", "each"])
def test_closing_in_slices_is_closing_at_once(rule: fp.rules.Rule, offers: str) -> None:
    chance = random.Random(1)
    principal = fp.Principal(rule, observe=fp.observe.Adaptive(1.0), offers=offers, budget=30.0)
    weights = None if isinstance(rule, (fp.rules.Paper, fp.rules.Population)) else [1.0, 2.0, 0.0, 1.0]
    one, other = (principal.start(arms=3, agents=4, horizon=60, weights=weights) for _ in range(2))
    cuts = []
    for _ in range(60):
        pulls = [(m, chance.randrange(3), chance.random()) for m in range(4)]
        for trial in (one, other):
            for m in range(4):
                trial.ask(m)
            trial.tell_many(*zip(*pulls, strict=True))
        one.end_step()
        before = shown(other)
        with slices_of(2):
            other.end_step(at_once=False)
            cuts.append(0)
            while not other.work(0):
                cuts[-1] += 1
                assert one.phase == "over" or shown(other) == before
                assert other.verdict().decided == (before[1] is not None)
        assert one.state() == other.state()
    assert one.kappa is not None
    assert sum(cuts) > 60 or isinstance(rule, fp.rules.Passive)


def shown(trial: fp.Trial) -> tuple[Any, ...]:
    """What agents and watchers see that must not change before a closing is done."""
    wanted = [trial.wanted(m) for m in range(trial.setting.agents)]
    return trial.active, trial.decided_at, trial.kappa, trial.verdict().arm, trial.record.pulls.tolist(), wanted


def test_who_asks_or_leaves_during_a_closing_is_not_in_the_new_plan() -> None:
    for offers in ("one", "each"):
        principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers=offers)
        trial = principal.start(arms=2, agents=4)
        trial.end_step(at_once=False)
        offer = trial.ask(0)
        assert offer is not None
        assert trial.work()
        assert trial.ask(0) == offer
        assert trial.tell(0, offer.arm, 0.5) == "paid"
        assert trial.wanted(0) is None, "one offer a step, and this one was made in it"
        assert [trial.wanted(m) for m in (1, 2, 3)] == ([None] * 3 if offers == "one" else [0] * 3)
        trial.end_step(at_once=False)
        trial.leave(0)
        assert trial.work()
        assert trial.wanted(0) is None
        assert trial.wanted(1) == 0


def test_the_state_is_saved_between_steps_only_and_read_by_its_own_principal() -> None:
    principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0))
    trial = principal.start(arms=2, agents=3)
    state = trial.state()
    assert b"".join(bytes(piece) for piece in trial.state_pieces()) == state
    trial.end_step(at_once=False)
    with pytest.raises(InvalidInput) as problem:
        trial.state()
    assert assert_sentence(problem).startswith("a step is being closed")
    for other, wrong, said in [
        (fp.Principal(fp.rules.Certified(0.04), observe=fp.observe.Steps(0)), state, "state must be of a trial of"),
        (principal, b"", "state must be what Trial.state returned in this version"),
        (principal, b"freepull trial 2" + state[16:], "state must be what Trial.state returned in this version"),
        (principal, state[:-1], "state must be what Trial.state returned, whole"),
        (principal, state + b"0", "state must be what Trial.state returned, whole"),
        (principal, state[:17] + b"\xff" * 8 + state[25:], "state must be what Trial.state returned, whole"),
    ]:
        with pytest.raises(InvalidInput) as problem:
            other.restore(wrong)
        assert assert_sentence(problem).startswith(said)


@pytest.mark.parametrize(
    ("agents", "arms", "rewards", "said"),
    [
        ([0, 3], [0, 0], [0.5, 0.5], "agents[1] must be a whole number from 0 to 2, got 3."),
        ([0, -1], [0, 0], [0.5, 0.5], "agents[1] must be a whole number from 0 to 2, got -1."),
        ([0.0], [0], [0.5], "agents must be whole numbers from 0 to 2, got [0.0]."),
        ([True], [0], [0.5], "agents must be whole numbers from 0 to 2, got [True]."),
        ([0, 1], [1, 2], [0.5, 0.5], "arms[1] must be a whole number from 0 to 1, got 2."),
        ([0, 1], [1, 1], [0.5, float("nan")], "rewards[1] must be a number in [0, 1], got nan."),
        ([0, 1], [1, 1], [float("inf"), 0.5], "rewards[0] must be a number in [0, 1], got inf."),
        ([0, 1], [1, 1], [0.5, 1.5], "rewards[1] must be a number in [0, 1], got 1.5."),
        ([0], [1], ["0.5"], "rewards must be numbers in [0, 1], got ['0.5']."),
        ([0], [1], [True], "rewards must be numbers in [0, 1], got [True]."),
        ([0], [1], 0.5, "rewards must be a row of numbers, one for each pull, got 0.5."),
        ([[0]], [1], [0.5], "agents must be a row of numbers, one for each pull, got [[0]]."),
        ([[0], 1], [1], [0.5], "agents must be a row of numbers, one for each pull, got [[0], 1]."),
        (
            [0, 1],
            [1],
            [0.5, 0.5],
            "agents, arms and rewards must be equally many, got 2, 1 and 2; give each pull all three.",
        ),
    ],
)
def test_a_wrong_pull_among_many_is_refused_with_a_sentence_and_nothing_changes(
    agents: Any, arms: Any, rewards: Any, said: str
) -> None:
    trial = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0)).start(arms=2, agents=3)
    trial.ask(0)
    before = trial.state()
    with pytest.raises(InvalidInput) as problem:
        trial.tell_many(agents, arms, rewards)
    assert assert_sentence(problem) == said
    assert trial.state() == before


def test_many_pulls_of_an_agent_who_left_for_good_are_refused() -> None:
    principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0))
    trial = principal.start(arms=2, agents=3, leavers="independent")
    trial.leave(1)
    before = trial.state()
    with pytest.raises(InvalidInput) as problem:
        trial.tell_many([0, 1, 1], [0, 0, 0], [0.5, 0.5, 0.5])
    assert assert_sentence(problem) == "agent 1 has left, so its pulls no longer count; do not tell them."
    assert trial.state() == before
    assert trial.tell_many([], [], []) == []
    assert trial.state() == before


def test_acting_twice_is_seen_in_one_batch_and_in_two() -> None:
    for batches, regular in [([[0, 1]], True), ([[0, 1, 0]], False), ([[0, 1], [1]], False)]:
        trial = fp.Principal(fp.rules.Passive()).start(arms=2, agents=2, horizon=9)
        for agents in batches:
            trial.tell_many(agents, [0] * len(agents), [0.5] * len(agents))
        assert trial.regular == regular
        trial.end_step()
        trial.tell_many([0, 1], [0, 0], [0.5, 0.5])
        assert trial.regular == regular


def test_rewards_in_bulk_are_rounded_half_even() -> None:
    trial = fp.Principal(fp.rules.Passive()).start(arms=2, agents=1, horizon=9)
    for reward, unit in [(2.0**-31, 0), (1.5 * 2.0**-30, 2), (2.5 * 2.0**-30, 2), (0.1, 107374182), (1, 2**30)]:
        before = int(trial.record.sums[0, 0])
        trial.tell_many([0], [0], [reward])
        assert trial.record.sums[0, 0] - before == unit


class Own(fp.rules.Rule):
    """A rule of a user's own, which knows nothing of slices."""

    delta = None

    def start(self, setting: Any, record: Any) -> Any:
        return OwnState(setting, record)


class OwnState(RuleState):
    proven, title = False, "a rule of one's own"

    def __init__(self, setting: Any, record: Any) -> None:
        super().__init__(setting, record)
        self.seen: list[tuple[int, int, int, int]] = []

    def observe(self, agent: int, arm: int, reward: int) -> None:
        self.seen.append((agent, arm, reward, int(self.record.pulls[agent, arm])))

    def evaluate(self, incentivizing: bool) -> None:
        self.active[1] = self.active[1] and len(self.seen) < 60

    def wants(self, payable: Any) -> list[Want]:
        return [Want(m, 0, 1) for m, can in enumerate(payable) if can][::-1]

    def missing(self) -> list[list[float]]:
        return [[1.0] * self.setting.arms] * self.setting.agents

    def bounds(self) -> list[float]:
        return [0.0] * self.setting.arms


def test_a_rule_of_ones_own_needs_none_of_it_but_cannot_be_saved() -> None:
    principal = fp.Principal(Own(), observe=fp.observe.Adaptive(4.0), offers="each", budget=2.0)
    trial = principal.start(arms=2, agents=3, horizon=20)
    trial.tell_many([2, 2, 0], [1, 1, 0], [0.5, 1.0, 0.0])
    assert trial.rule.seen == [(2, 1, 2**29, 1), (2, 1, 2**30, 2), (0, 0, 0, 1)]  # type: ignore[attr-defined]
    while trial.kappa is None:
        trial.end_step(at_once=False)
        trial.tell(1, 1, 0.5)
        assert trial.work()
    assert trial.kappa == 12  # one agent misses two pulls: 20 − t ≤ 4·2
    assert [trial.wanted(m) for m in range(3)] == [None, 0, 0]
    with pytest.raises(InvalidInput) as problem:
        trial.state()
    assert assert_sentence(problem).startswith("the state of a trial under OwnState cannot be saved")


def test_a_closing_that_was_begun_is_done_before_the_next_begins() -> None:
    one, other = (
        fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0)).start(arms=2, agents=2) for _ in range(2)
    )
    for trial in (one, other):
        trial.tell_many([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 0.0, 1.0, 0.0])
    one.end_step(at_once=False)
    one.end_step(at_once=False)
    assert one.closing
    assert one.work()
    other.end_step()
    other.end_step()
    assert one.state() == other.state()
    assert one.work()
    assert not one.closing
