"""The principal's settings: what is refused, what is warned of, and what a verdict says."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest

import freepull as fp
from freepull.errors import InvalidInput, UnknownName
from support.drive import assert_sentence, paper, step


def test_a_bonus_below_the_reward_range_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"bonus = 0\.5 is below the reward range 1, so Lemma 1 .* no longer holds\.$"):
        fp.Principal(paper(), bonus=0.5)


def test_a_schedule_that_pays_too_early_is_warned_of_once() -> None:
    with pytest.warns(UserWarning, match=r"^observe\.Adaptive starts paying too early.*; take observe\.Share") as told:
        principal = fp.Principal(paper(), observe=fp.observe.Adaptive())
    assert (len(told), told[0].filename) == (1, __file__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fp.simulate(fp.Game([[0.9, 0.1]]), principal=principal, horizon=20, runs=2, progress=False)


@pytest.mark.parametrize("bonus", [1.0, 1, 2.5])
def test_a_bonus_of_the_reward_range_is_not(bonus: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fp.Principal(paper(), bonus=bonus).bonus == bonus


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"rule": "Paper"}, "rule must be a rule such as"),
        ({"rule": fp.rules.Paper}, "the class Paper"),
        ({"observe": 0.5}, "observe must be a schedule such as"),
        ({"observe": fp.observe.Share}, "the class Share"),
        ({"protocol": "TakeOrBan"}, "protocol must be a protocol such as"),
        ({"protocol": fp.protocols.TakeOrBan}, "protocol must be a protocol such as"),
        ({"bonus": 0.0}, "bonus must be a number above 0"),
        ({"bonus": "1"}, "bonus must be a number above 0"),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        fp.Principal(**({"rule": paper()} | more))
    assert said in assert_sentence(problem)


def test_a_misspelt_manner_of_offering_is_guessed() -> None:
    with pytest.raises(UnknownName) as problem:
        fp.Principal(paper(), offers="eech")
    assert assert_sentence(problem).endswith("did you mean 'each'?")


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ({"arms": 1, "agents": 2, "horizon": 10}, "arms must be"),
        ({"arms": 10**9, "agents": 2}, "arms must be a whole number from 2 to 65536, got 1000000000."),
        ({"arms": 2, "agents": 0, "horizon": 10}, "agents must be"),
        ({"arms": 3, "agents": 1, "horizon": 2}, "horizon must be "),
        ({"arms": 2, "agents": 2, "horizon": 10, "weights": [1.0]}, "weights must be"),
    ],
)
def test_a_trial_of_an_impossible_size_is_refused_with_a_sentence(size: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        fp.Principal(paper()).start(**size)
    assert assert_sentence(problem).startswith(said)


def test_whole_floats_are_as_good_as_ints() -> None:
    trial = fp.Principal(paper()).start(arms=2.0, agents=1.0, horizon=10.0)  # type: ignore[arg-type]
    assert trial.kappa == 5


def test_a_principal_prints_as_it_is_written_and_can_be_pickled() -> None:
    principal = fp.Principal(
        fp.rules.Paper(delta=0.01, bound="simplified", scale=0.1),
        observe=fp.observe.KnownGap(0.1),
        protocol=fp.protocols.BanFor(3),
        offers="each",
        bonus=2.0,
        budget=100.0,
    )
    names = vars(fp.rules) | vars(fp.observe) | vars(fp.protocols) | {"Principal": fp.Principal}
    assert eval(repr(principal), names) == principal
    assert pickle.loads(pickle.dumps(principal)) == principal


def decided(bound: str, horizon: int = 1000) -> fp.Verdict:
    trial = fp.Principal(fp.rules.Paper(0.5, bound), observe=fp.observe.Steps(0)).start(
        arms=2, agents=1, horizon=horizon
    )
    while trial.steps < horizon and trial.phase != "decided":
        offer = trial.ask(0)
        assert offer is not None
        trial.tell(0, offer.arm, 1.0 - offer.arm)
        trial.end_step()
    return trial.verdict()


@pytest.mark.parametrize("bound", ["equation", "finite_time", "simplified"])
def test_a_decision_is_certified_if_its_bound_is_proven(bound: str) -> None:
    verdict = decided(bound)
    assert (verdict.arm, verdict.decided) == (0, True)
    assert verdict.certified is (bound != "simplified")
    assert verdict.spent == verdict.at == verdict.paid.sum()
    standing = "certified" if verdict.certified else "decided, not certified"
    assert str(verdict).startswith(f"arm 0 ({standing} at step {verdict.at}, {verdict.spent:g} spent): every other arm")


def test_an_undecided_verdict_names_the_largest_mean_and_is_not_certified() -> None:
    trial = fp.Principal(fp.rules.Paper(0.01, "finite_time")).start(arms=3, agents=1, horizon=20)
    for arm, reward in ((0, 0.2), (1, 0.9), (2, 0.9)):
        step(trial, (arm, reward))
    verdict = trial.verdict()
    assert (verdict.arm, verdict.decided, verdict.certified, verdict.at) == (1, False, False, None)
    assert str(verdict).startswith("arm 1 (undecided, 0 spent): 3 arms are still in")


def test_the_passive_principal_weighs_and_claims_nothing() -> None:
    trial = fp.Principal(fp.rules.Passive(), observe=fp.observe.Steps(0)).start(arms=2, agents=2, weights=[3.0, 1.0])
    assert step(trial, (0, 0.5), (0, 0.5)) == [None, None]
    step(trial, (1, 0.25), (1, 1.0))  # plain .625 against .5, but weighted .4375
    verdict = trial.verdict()
    assert (verdict.arm, verdict.decided, verdict.certified, verdict.spent) == (0, False, False, 0.0)
