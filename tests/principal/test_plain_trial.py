"""What serves large trials changes nothing: pulls in bulk and closings in slices, beside a plain trial."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import freepull as fp
from support.examples import examples
from support.plain_trial import PlainTrial
from support.random_trials import Driver, apply, trials


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
