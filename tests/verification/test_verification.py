"""The verification suite in short: the same drivers and cases as `make verify`, with few runs and wide tolerances.

A rate that may be δ is held against the count that a rate of exactly δ exceeds with probability below 10⁻⁷, so that a
right program fails all of these together in less than one of a million repetitions.
"""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import freepull as fp
from freepull.principal.rules.certified.books import MARGINS
from freepull.reproduction import theory
from freepull.simulation.experiment import check
from freepull.simulation.readable import Seat
from verification import bars, money, page
from verification.by_driver import by_driver, paper_by_driver
from verification.by_engine import by_engine
from verification.costs import limit, measure, oracle
from verification.covered import DESIGNS, FACTORS, PLAIN, Case, cases, cover, possible
from verification.displayed import worse_by
from verification.drawn import ignored
from verification.judging import LEVELS, Rate, lower, upper
from verification.peeking_adversary import CHOOSES_SIZES, HONEST, TAKES_ALL
from verification.settings import AFTER, TOY, Setting

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-7
SEED = 77
FREEZERS = replace(PLAIN, agents=10, strategy="freezers", watched=0.5)
APART = {("freezers", "constants"), ("freezers", 0.1), ("refuse 30 %", "at random"), ("refuse 30 %", "in anger")}
SHORT = [
    replace(PLAIN, arms=3, design="long rounds"),
    replace(PLAIN, agents=10, law="coins .98", weights="90 % on one", design="Neyman", offers="one"),
    replace(PLAIN, agents=10, strategy="ε-greedy", panel="differ", gap="near tie", answers="refuse 30 %"),
    replace(FREEZERS, design="nothing held back"),
    replace(FREEZERS, arms=3, leavers="in anger", design="first block 8"),
    replace(PLAIN, agents=120, leavers="at random", design="long rounds"),
]


def most(delta: float, runs: int) -> int:
    """The count that a rate of δ exceeds with probability below 10⁻⁷."""
    return int(binom.isf(FALSE_ALARM, runs, delta))


def rule(case: Case) -> fp.rules.Certified:
    return fp.rules.Certified(0.01, design=DESIGNS[case.design])


@pytest.mark.parametrize(
    "case",
    [
        replace(PLAIN, agents=4, arms=3, panel="differ", offers="one"),
        replace(PLAIN, agents=4, arms=3, strategy="ε-greedy", answers="refuse 30 %", weights="90 % on one"),
        replace(PLAIN, agents=6, gap="near tie", design="Neyman", watched=0.5),
    ],
    ids=str,
)
def test_the_driver_plays_the_engine_s_paths(case: Case) -> None:
    ours, theirs = by_driver(case, rule(case), 12, SEED), by_engine(case, rule(case), 12, SEED)
    assert np.array_equal(ours.peaks, theirs.peaks)
    assert (ours.paid, ours.rounds) == (theirs.paid, theirs.rounds)
    near = replace(rule(case), epsilon=0.3)
    ours, theirs = by_driver(case, near, 12, SEED), by_engine(case, near, 12, SEED)
    assert np.array_equal(ours.peaks, theirs.peaks)
    assert (ours.paid, ours.rounds) == (theirs.paid, theirs.rounds)
    if case.weights == "equal":
        paper = fp.rules.Paper(0.5, "simplified", 0.02)
        assert np.array_equal(paper_by_driver(case, paper, 12, SEED).gone, by_engine(case, paper, 12, SEED).gone)


@pytest.mark.parametrize("case", SHORT, ids=str)
def test_a_best_arm_falls_no_more_often_than_promised(case: Case) -> None:
    runs = 600
    found = by_driver(case, rule(case), runs, SEED)
    assert found.rounds > 3
    for delta in LEVELS:
        assert (found.peaks >= 1 / delta).sum() <= most(delta, runs)


@pytest.mark.parametrize(("strategy", "how"), [("α-UCB", CHOOSES_SIZES), ("freezers", TAKES_ALL)])
def test_a_design_that_looks_at_what_waits_is_seen(strategy: str, how: int) -> None:
    case, runs = replace(PLAIN, agents=120, strategy=strategy, design="long rounds", watched=1.0), 200
    honest, looking = (
        by_driver(case, rule(case), runs, SEED, first_look=case.horizon // 2, peeks=peeks) for peeks in (HONEST, how)
    )
    for delta in LEVELS:
        assert (honest.peaks >= 1 / delta).sum() <= most(delta, runs)
        assert lower(int((looking.peaks >= 1 / delta).sum()), runs) > delta


def test_freezers_break_the_authors_constant_and_not_the_proven_bound() -> None:
    runs = 300
    fell = {
        bound: int(paper_by_driver(FREEZERS, fp.rules.Paper(0.05, bound, scale), runs, SEED).gone.sum())
        for bound, scale in (("simplified", 0.1), ("finite_time", 1.0))
    }
    assert lower(fell["simplified"], runs) > 0.7
    assert fell["finite_time"] <= most(0.05, runs)


def test_people_who_ignore_offers_of_what_disappointed_them_and_are_parked_bring_no_best_arm_down() -> None:
    runs = 20  # dropping those who are parked lets 13 of these fall
    assert sum(ignored(run, gone=False, days=80, least=8) for run in range(runs)) <= most(0.05, runs)


def test_displayed_bounds_are_true() -> None:
    case, runs = replace(PLAIN, arms=3, gap="gap .105"), 400
    found = by_driver(case, rule(case), runs, SEED, margins=MARGINS)
    for delta in LEVELS:
        for when in ("random step", "worst moment"):
            assert max(worse_by(found, case, delta, when)) <= most(delta, runs)


def test_the_driver_displays_what_a_trial_displays() -> None:
    case = replace(PLAIN, agents=3, arms=3, law="coins .5", gap="gap .105", design="long rounds")
    peaks = by_driver(case, rule(case), 2, SEED, margins=MARGINS).margins
    assert peaks is not None
    for run in range(2):
        state = played(case, run).rule
        shown = [float(MARGINS[peaks[run, :, k] >= 100].max(initial=0.0)) for k in range(3)]
        assert state.worse_by() == shown
        assert state.evidence()[1] <= peaks[run, 0, 1]


def played(case: Case, run: int) -> Any:
    """Play a run on a trial in Python."""
    game, principal = case.game(), case.principal(rule(case))
    experiment = check(
        game, fp.agents.AlphaUCB(), fp.answers.Always(), principal, case.horizon, 5, SEED, "decided", None
    )
    seats = [Seat(experiment, game, run, m) for m in range(game.agents)]
    trial = principal.start(arms=game.arms, agents=game.agents, horizon=case.horizon)
    for _ in range(case.horizon):
        arms = [seat.choose(trial.ask(m)) for m, seat in enumerate(seats)]
        for m, (seat, arm) in enumerate(zip(seats, arms, strict=True)):
            trial.tell(m, arm, seat.pull(arm))
        trial.end_step()
        if trial.decided_at is not None:
            break
    return trial


@pytest.mark.parametrize("follows", [False, True])
def test_means_that_are_moved_break_the_rule_that_does_not_allow_for_it_and_no_other(follows: bool) -> None:
    case, gamma, runs = replace(PLAIN, agents=10, arms=3), 0.03, 300
    robust, plain = (
        by_driver(case, fp.rules.Certified(0.01, robust=allowed), runs, SEED, gamma=gamma, follows=follows)
        for allowed in (gamma, 0.0)
    )
    assert lower(int(plain.gone.sum()), runs) > 0.5
    for delta in LEVELS:
        assert (robust.peaks >= 1 / delta).sum() <= most(delta, runs)


@pytest.mark.parametrize("name", [*money.TERMS, *money.HOPING])
def test_under_prices_and_futility_a_best_arm_falls_no_more_often_than_promised(name: str) -> None:
    case, runs = money.CASES[1], 300
    found = by_engine(case, rule(case), runs, SEED, **(money.TERMS | money.HOPING)[name])
    assert found.paid > 0
    for delta in LEVELS:
        assert (found.peaks >= 1 / delta).sum() <= most(delta, runs)


def test_the_part_about_money_can_be_written_alone(tmp_path: Path) -> None:
    page_before = (Path(__file__).parents[2] / "docs" / "verification.md").read_text(encoding="utf-8")
    (tmp_path / "verification.md").write_text(page_before, encoding="utf-8")
    found = money.Money(
        rows=[money.spending(TOY, money.COMPENSATED, money.principal(TOY, pricing=fp.pricing.Compensate()), 2)],
        gain=(0.0, 1.0, 50.0), conduct=theory.deviations(money.FOLLOWED, money.COMPENSATING, 2, 1), short=(1.0, 0.5),
        errors=[("Certified", Rate("2×3", 3000, 0, 0.01)), ("Paper, equation", Rate("2×3", 3000, 3000, 0.05))],
    )  # fmt: skip
    judged = bars.judge_money(found)
    for _ in range(2):
        text = page.write_money(found, judged, tmp_path).read_text(encoding="utf-8")
        assert text.count("### Money\n") == text.count("#### Error rates under prices") == 1
        assert text.count("| toy, Compensate: spent ÷ paid |") == 1
        assert "a given best arm falls, Paper | upper limit ≤ δ | 3,000 of 3,000" in text
        assert text.count("\n## ") == page_before.count("\n## ")
    lines = [line for line in page_before.splitlines() if line.startswith("| a given best arm falls")]
    assert lines
    assert all(line in text for line in lines)
    told, count = map(int, re.findall(r"(\d+) of (\d+) bars are met", text)[0])
    assert told < count == text.count("| met |") + text.count("| **missed** |") + text.count("| **cannot tell** |")


def test_oracle_bets_cost_less_than_the_rule_and_more_than_the_lower_bound() -> None:
    """On the same games, to three standard errors of the difference."""
    runs = 100
    ours, theirs = measure(TOY, AFTER, TOY.rules()[AFTER], runs), oracle(TOY, runs)
    gain = ours.paid - theirs.paid
    assert theirs.decided == theirs.correct == runs
    assert gain.mean() > 3 * gain.std(ddof=1) / runs**0.5
    assert theirs.mean - 3 * theirs.error > limit(TOY, runs)


def test_an_arm_that_is_worse_by_no_more_than_the_rules_epsilon_is_no_error() -> None:
    game = fp.Game([[0.5, 0.52]] * 20)
    setting = Setting("ε", game, 20, 2, 400, "each", 0.9, fp.rules.Design(), 200, 1)
    for epsilon in (0.02, 0.01):
        rule = fp.rules.Certified(0.9, epsilon=epsilon)
        found = measure(setting, "up to ε", rule, 200)
        frame = fp.simulate(game, principal=setting.principal(rule), horizon=400, runs=200, seed=1, until="decided",
                            progress=False).frame  # fmt: skip
        best = int((frame["decided"] & frame["correct"]).sum())
        assert best < found.decided == int(frame["decided"].sum())
        assert found.correct == (found.decided if epsilon == 0.02 else best)
        assert found.paid.tolist() == frame["paid"].to_list()


def test_every_two_values_that_can_stand_together_do() -> None:
    rows = [asdict(case) for case in cover()]
    assert all(possible(row) for row in rows)
    for a, b in combinations(FACTORS, 2):
        left = set(product(FACTORS[a], FACTORS[b])) - {(row[a], row[b]) for row in rows}
        assert left <= APART, (a, b)
    assert len(cases()) > 30
    for case in cases():
        means = case.game().global_means
        assert means[case.tested] == pytest.approx(means.max(), abs=1e-12)


def test_the_limits_are_exact() -> None:
    assert upper(0, 3000) == pytest.approx(1 - 0.001 ** (1 / 3000))
    assert lower(50, 50) == pytest.approx(0.001 ** (1 / 50))
    for failures, runs in ((3, 100), (40, 600)):
        assert binom.cdf(failures, runs, upper(failures, runs)) == pytest.approx(0.001)
        assert binom.sf(failures - 1, runs, lower(failures, runs)) == pytest.approx(0.001)
    assert Rate("", 3000, 13, 0.01).holds
    assert not Rate("", 3000, 16, 0.01).holds
    assert Rate("", 3000, 60, 0.01).broken
