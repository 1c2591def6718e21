"""κ of every schedule: rounded down, kept within the horizon, and the looks of the adaptive one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal.rules.base import Setting
from freepull.principal.rules.rounds import reaching
from freepull.principal.schedules import Adaptive, KnownGap, Root, Schedule, Share, Steps
from support.drive import assert_sentence, paper, step


def setting(K: int = 3, M: int = 2, T: int | None = 100, offers: str = "one") -> Setting:
    return Setting(K, M, T, np.full(M, 1 / M), False, offers)


def kappa(schedule: Schedule, *, delta: float = 0.01, **size: Any) -> int | None:
    return schedule.kappa(setting(**size), fp.rules.Paper(delta))


@pytest.mark.parametrize(
    ("rho", "T", "expected"),
    [(0.5, 100, 50), (0.5, 101, 50), (0.0, 100, 0), (1.0, 100, 100), (1 / 3, 100, 33), (0.29, 100, 29), (0.999, 10, 9)],
)
def test_a_share_is_rounded_down(rho: float, T: int, expected: int) -> None:
    assert kappa(Share(rho), T=T) == expected


@pytest.mark.parametrize("T", [10**n for n in range(1, 10)])
@pytest.mark.parametrize("hundredths", [7, 29, 57, 58, 83])
def test_a_share_in_hundredths_is_exact_at_every_horizon(hundredths: int, T: int) -> None:
    assert kappa(Share(hundredths / 100), T=T) == hundredths * T // 100


def test_the_share_is_half_by_default() -> None:
    assert Share() == Share(0.5)
    assert isinstance(fp.Principal(paper()).observe, Share)


@pytest.mark.parametrize(("T", "expected"), [(100, 10), (99, 9), (101, 10), (100_000, 316)])
def test_the_root_is_rounded_down(T: int, expected: int) -> None:
    assert kappa(Root(), T=T) == expected


def test_steps_are_at_most_the_horizon() -> None:
    assert kappa(Steps(7), T=100) == 7
    assert kappa(Steps(700), T=100) == 100
    assert kappa(Steps(0), T=100) == 0
    assert kappa(Steps(700), T=None) == 700


@pytest.mark.parametrize(
    ("size", "delta", "gap", "expected"),
    [
        ((3, 2, 1_000_000), 0.01, 0.5, 991_688),  # 991688.22 by the formula
        ((2, 1, 5_000), 0.5, 1.0, 4_389),  # 4389.60
        ((30, 30, 1_000_000), 0.05, 0.9, 774_241),  # 774241.05
        ((3, 2, 100_000), 0.01, 0.02, 0),  # −4.7 million, clipped
    ],
)
def test_a_known_gap_leaves_what_the_theorem_asks(
    size: tuple[int, int, int], delta: float, gap: float, expected: int
) -> None:
    K, M, T = size
    assert kappa(KnownGap(gap), delta=delta, K=K, M=M, T=T) == expected


def test_a_known_gap_takes_delta_from_the_rule() -> None:
    with pytest.raises(InvalidInput) as problem:
        KnownGap(0.5).kappa(setting(), fp.rules.Passive())
    assert "needs a rule with a delta" in assert_sentence(problem)


@pytest.mark.parametrize(
    ("K", "T", "looks"),
    [
        (2, 50, list(range(5, 51))),
        (30, 100, list(range(30, 101))),
        (2, 55, list(range(6, 56))),  # T/10 = 5.5
        (2, 2_999, [*range(300, 2_999, 2), 2_999]),  # every ⌊2.999⌋ = 2 steps, from 299.9
        (2, 5_000, list(range(500, 5_001, 5))),
    ],
)
def test_the_adaptive_schedule_looks_every_thousandth_from_a_tenth_on_and_last(
    K: int, T: int, looks: list[int]
) -> None:
    assert [t for t in range(1, T + 1) if Adaptive().looks(t, setting(K=K, T=T))] == looks


def test_the_adaptive_schedule_looks_at_the_last_step_so_that_the_rule_does_too() -> None:
    assert Adaptive().looks(2_999, setting(K=2, T=2_999))
    trial = fp.Principal(paper(0.01, horizon=2_999), observe=Adaptive(1e-9)).start(arms=2, agents=1, horizon=2_999)
    for t in range(2_999):
        step(trial, (t % 2, 1.0 - t % 2))
    assert (trial.kappa, trial.decided_at, trial.offered) == (2_999, 2_999, 0)


def test_adaptive_starts_when_the_time_left_falls_to_slack_times_what_is_missing() -> None:
    missing = [[1.0, 2.0], [4.0, 1.0]]  # in all 8, the most for one agent 5
    one, each = setting(K=2, T=100), setting(K=2, T=100, offers="each")
    assert [Adaptive(3).starts(t, missing, one) for t in (75, 76, 77)] == [False, True, True]
    assert [Adaptive(3).starts(t, missing, each) for t in (84, 85, 86)] == [False, True, True]
    assert Adaptive() == Adaptive(3.0)
    assert not Adaptive().starts(99, [[0.0, 0.0]] * 2, one)
    assert kappa(Adaptive()) is None


@pytest.mark.parametrize(("offers", "expected"), [("one", 52), ("each", 76)])
def test_adaptive_finds_kappa_on_the_way_and_keeps_it(offers: str, expected: int) -> None:
    principal = fp.Principal(paper(1.0), observe=Adaptive(3.05), offers=offers)
    trial = principal.start(arms=2, agents=2, horizon=100)
    offered = [step(trial, (0, 0.5), (0, 0.5)) for _ in range(100)]
    # Δ̂ = ½ throughout, so n_k = 4/(2·¼) = 8: from step 8 on every agent misses 8 pulls of arm 1 and none of arm 0.
    # "one": 100 − t ≤ 3.05·16 from t = 52 on; "each": 100 − t ≤ 3.05·8 from t = 76 on
    assert trial.kappa == expected
    assert offered[:expected] == [[None, None]] * expected
    assert offered[expected] == ([1, None] if offers == "one" else [1, 1])


def test_adaptive_lets_the_rule_look_where_it_starts() -> None:
    trial = fp.Principal(paper(0.1, horizon=200), observe=Adaptive(200.0)).start(arms=2, agents=1, horizon=200)
    step(trial, (1, 0.05))
    for _ in range(18):
        assert trial.phase == "observing"
        step(trial, (0, 0.5))
    assert trial.active == [0, 1]
    step(trial, (0, 0.5))
    # the first look, at step 20: n_1 = .4/.45² = 1.98, so 180 ≤ 200·.98; and .05 + .316 < .5 − .073
    assert (trial.kappa, trial.decided_at, trial.active) == (20, 20, [0])


def test_adaptive_goes_on_observing_while_nothing_is_missing() -> None:
    trial = fp.Principal(paper(0.09, horizon=20), observe=Adaptive(1000.0)).start(arms=2, agents=1, horizon=20)
    step(trial, (0, 1.0))
    step(trial, (1, 0.375))  # n_k = .36/.625² < 1
    assert (trial.kappa, trial.phase, trial.active) == (None, "observing", [0, 1])


def test_under_certified_it_pays_only_while_time_is_short_and_from_half_of_it_on() -> None:
    T = setting(K=2, T=100)
    assert [Adaptive(3.0).pays(t, 12.0, T) for t in (49, 63, 64, 99)] == [False, False, True, True]
    assert not Adaptive(3.0).pays(49, 100.0, T)
    trial = fp.Principal(fp.rules.Certified(0.05), observe=Adaptive()).start(arms=2, agents=1, horizon=60)
    offered = [step(trial, (t % 2, 0.5)) for t in range(60)]  # a tie: everything is owed, so it pays from half time on
    assert offered[:30] == [[None]] * 30
    assert offered[30] != [None]
    assert (trial.kappa, trial.waits) == (30, False)


@pytest.mark.parametrize(
    ("reach", "score", "ratio"), [(3.0, 1.0, 2.0), (3.3, 0.0, 6.0), (2.9, 2.5, 0.1), (3.5, -1.0, 9.0)]
)
def test_a_forecast_is_how_often_z_scores_get_there_where_nothing_is_known_of_the_gap(
    reach: float, score: float, ratio: float
) -> None:
    runs, looks = 4_000, 400
    draw = np.random.default_rng(7).standard_normal
    gap, more = score + draw((runs, 1)), ratio / looks  # in units of the standard error so far
    times = more * np.arange(1, looks + 1)
    sums = score + gap * times + np.cumsum(math.sqrt(more) * draw((runs, looks)), axis=1)
    share = float((sums / np.sqrt(1 + times) >= reach).any(axis=1).mean())
    told = reaching(reach, score, ratio)
    assert abs(told - share) < 0.02 + 4 * math.sqrt(share * (1 - share) / runs)  # looks now and then, and the chord
    at_the_end = float((sums[:, -1] / math.sqrt(1 + ratio) >= reach).mean())
    assert at_the_end < share
    assert reaching(reach, reach, ratio) == 1.0


def test_without_hope_nothing_is_offered_and_the_verdict_says_so_until_hope_returns() -> None:
    principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), futility=0.3)
    trial = principal.start(arms=2, agents=1, horizon=60)
    said = "no offers for now, because a verdict in time is less likely than 30 %"
    for t in range(40):
        step(trial, (t % 2, 0.5))
    assert (trial.futile, trial.held) == (True, said)
    assert said in trial.verdict().why
    assert trial.ask(0) is None
    again = principal.restore(trial.state())
    assert (again.futile, again.wanted(0)) == (True, None)
    for t in range(14):
        step(again, (t % 2, float(t % 2)))
    assert (again.futile, again.held) == (False, None)


@pytest.mark.parametrize("pricing", [None, fp.pricing.Compensate(0.2)])
def test_a_budget_that_cannot_pay_for_what_is_missing_is_no_hope_until_it_is_raised(
    pricing: fp.pricing.Pricing | None,
) -> None:
    parts: dict[str, Any] = {"observe": fp.observe.Steps(0), "futility": 0.02, "pricing": pricing, "offers": "each"}

    def played(budget: float | None) -> fp.Trial:
        trial = fp.Principal(fp.rules.Certified(0.05), budget=budget, **parts).start(arms=2, agents=4, horizon=200)
        for t in range(150):  # arm 0 is a little better; what is offered is pulled
            offers = [trial.ask(m) for m in range(4)]
            for m, offer in enumerate(offers):
                arm = 0 if offer is None else offer.arm
                trial.tell(m, arm, float((7 * t + 3 * m) % 10 < 6 - arm))
            trial.end_step()
        return trial

    rich, poor = played(None), played(12.0)
    assert (rich.futile, rich.held) == (False, None)
    said = "no offers for now, because a verdict in time and within the budget is less likely than 2 %"
    assert (poor.futile, poor.held) == (True, said)
    assert poor.spent <= 12.0
    assert all(poor.wanted(m) is None for m in range(4))
    again = poor.principal.restore(poor.state())
    assert again.held == said
    limit = again.offers.limit
    assert limit is not None
    again.afford(100 * limit)  # at once, and not at the next look
    assert not again.futile
    assert any(again.wanted(m) is not None for m in range(4))


def test_futility_needs_a_rule_that_forecasts_and_a_horizon() -> None:
    with pytest.raises(InvalidInput) as problem:
        fp.Principal(fp.rules.Comparisons(0.05), futility=0.1)
    assert assert_sentence(problem).startswith("futility must be 0 with rules.Comparisons, got 0.1")
    with pytest.raises(InvalidInput) as problem:
        fp.Principal(fp.rules.Certified(0.05), fp.observe.Steps(0), futility=0.1).start(arms=2, agents=1)
    assert assert_sentence(problem).startswith("horizon must be a number of steps where there is a futility")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Share(1.1), "rho"),
        (lambda: Share(-0.1), "rho"),
        (lambda: Steps(-1), "n must"),
        (lambda: Steps(1.5), "n must"),  # type: ignore[arg-type]
        (lambda: KnownGap(0.0), "gap"),
        (lambda: KnownGap(1.5), "gap"),
        (lambda: Adaptive(0.0), "slack"),
    ],
)
def test_bad_parameters_are_refused_with_a_sentence(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        make()
    assert assert_sentence(problem).startswith(said)


@pytest.mark.parametrize("schedule", [Share(), Root(), KnownGap(0.1), Adaptive()])
def test_without_a_horizon_most_schedules_are_refused_with_a_sentence(schedule: Schedule) -> None:
    with pytest.raises(InvalidInput) as problem:
        kappa(schedule, T=None)
    assert f"observe.{type(schedule).__name__} needs it" in assert_sentence(problem)
