"""What serves large trials changes nothing: pulls in bulk and closings in slices, beside a plain trial."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import freepull as fp
from support.examples import examples
from support.plain_trial import HearingTrial, PlainTrial
from support.random_trials import Driver, apply, trials
from support.worlds import PROTOCOLS


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


@examples(150)
@given(made=trials(waits=True), seed=st.integers(0, 2**32), many=st.booleans(), sliced=st.booleans())
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


HEARING = [
    fp.rules.Comparisons(0.9, epsilon=0.2),
    fp.rules.Comparisons(0.9, cap=3),
    fp.rules.Comparisons(0.9, late=True),
]


@examples(60)
@given(
    rule=st.sampled_from(HEARING),
    protocol=st.sampled_from(PROTOCOLS),
    budget=st.sampled_from([None, None, 9.0]),
    horizon=st.sampled_from([None, 30]),
    seed=st.integers(0, 2**32),
)
def test_a_trial_that_hears_asks_is_the_plain_one(
    rule: fp.rules.Rule, protocol: Any, budget: float | None, horizon: int | None, seed: int
) -> None:
    principal = fp.Principal(rule, observe=fp.observe.Steps(2), protocol=protocol, offers="each", budget=budget)
    trial = principal.start(arms=3, agents=5, horizon=horizon)
    plain, chance = HearingTrial(principal, trial.setting), random.Random(seed)
    acts: list[int] = []
    for number in range(600):
        m, k, what = chance.randrange(5), chance.randrange(3), chance.random()
        x, offered = chance.choice([float(k == 0), 0.1 * chance.randint(0, 10)]), trial.wanted(m)
        k = offered if offered is not None and chance.random() < 0.5 else k
        if what < 0.4:
            offer = trial.ask(m)
            plain.hear(m)
            assert (None if offer is None else offer.arm) == plain.ask(m)
        elif what < 0.7:
            assert trial.tell(m, k, x) == plain.tell(m, k, x)
        elif what < 0.78:
            assert trial.act(m, k, number) == plain.act(m, k, number)
            acts.append(number)
        elif what < 0.84 and acts:
            one = acts.pop(chance.randrange(len(acts)))
            trial.outcome(one, x)
            plain.outcome(one, x)
        elif what < 0.86:
            trial.pass_over(m)
            plain.passed(m)
            plain.cancel(m)
        elif what < 0.88:
            assert trial.decline(m) == plain.decline(m)
        elif what < 0.90:
            for it in (trial, plain):
                apply(it, ("leave" if what < 0.885 else "lapse" if what < 0.893 else "recall", m))
        elif what < 0.92:
            trial.resting ^= {m}
            plain.resting ^= {m}
        elif what < 0.925:
            trial.unban(m)
            plain.unban(m)
        else:
            trial.end_step()
            plain.end_step()
        assert trial.asking.tolist() == plain.asking
        assert [trial.wanted(agent) for agent in range(5)] == [plain.wanted(agent) for agent in range(5)]
    assert trial.rule.bounds() == plain.rule.numbers()
    assert (trial.active, trial.decided_at, trial.steps) == (plain.active, plain.decided_at, plain.steps)
    assert (trial.offered, trial.refused, trial.banned_until) == (plain.offered, plain.refused, plain.until)
    assert (trial.record.pulls.tolist(), trial.offers.paid_total) == (plain.pulls(), len(plain.paid))
