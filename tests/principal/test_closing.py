"""Steps that are closed in slices: what is found does not depend on them, and nobody sees it before it is done."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import freepull as fp
from freepull.principal.rules.certified import state as certified
from support.examples import examples
from support.random_trials import RULES, happen, live, trials


@contextmanager
def slices_of(streams: int) -> Iterator[None]:
    """Make slices so small that a trial of six agents has many."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("freepull.principal") and hasattr(module, "STREAMS"):
                patch.setattr(module, "STREAMS", streams)
        patch.setattr(certified, "BETS", 1)
        yield


@examples(60)
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


@pytest.mark.slow
@pytest.mark.parametrize("rule", [fp.rules.Paper(0.5, "simplified", 0.01), fp.rules.Passive(), *RULES])
@pytest.mark.parametrize("offers", ["one", "each"])
def test_closing_in_slices_is_closing_at_once(rule: fp.rules.Rule, offers: str) -> None:
    chance = random.Random(1)
    principal = fp.Principal(rule, observe=fp.observe.Adaptive(1.0), offers=offers, budget=30.0)
    weights = None if isinstance(rule, (fp.rules.Paper, fp.rules.Population)) else [1.0, 2.0, 0.0, 1.0]
    one, other = (principal.start(arms=3, agents=4, horizon=40, weights=weights) for _ in range(2))
    cuts = []
    for _ in range(40):
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
