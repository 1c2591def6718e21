"""Checks of assumptions: against the definitions of docs/checks.md, written out, and in trials."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.principal import pairing
from freepull.principal.record import UNITS
from freepull.principal.verdict import Checking

RHOS, BETS, STAKES = (0.1, 0.3, 0.9), (0.24, 0.12, 0.06), (0.6, 0.3, 0.1)


@dataclass
class Pair:
    """A pair or a block as docs/checks.md has it; an arm of None is not known."""

    began: int
    arm: int | None = None
    early: list[float | None] = field(default_factory=lambda: [None])
    """None: a pull under way, or one whose report came too late."""
    late: list[float] = field(default_factory=list)
    standing: bool = True
    """Whether pulls may still count for it."""


class ByTheBook:
    """The checks for common shocks and drift, from their definitions, with no thought of speed."""

    def __init__(self, period: int, group: int, groups: int, gap: int, length: int) -> None:
        self.period, self.group, self.groups, self.gap, self.length = period, group, groups, gap, length
        self.pairs: list[tuple[int, Pair]] = []
        self.blocks: list[tuple[int, Pair]] = []
        self.under_way: dict[int, int] = {}
        self.shock = self.drift = 1.0

    def ask(self, m: int, step: int) -> None:
        if m in self.under_way:
            return
        self.under_way[m] = step
        now = step // self.period
        if self.of(self.pairs, m) < 2 and sum(p.began == now for _, p in self.pairs) < self.group * self.groups:
            self.pairs.append((m, Pair(now)))
        for who, block in self.blocks:
            if who == m and block.standing and block.began == step // self.length and len(block.early) < 4:
                block.early.append(None)
        if self.of(self.blocks, m) < 2:
            self.blocks.append((m, Pair(step // self.length)))

    @staticmethod
    def of(opened: list[tuple[int, Pair]], m: int) -> int:
        return sum(who == m and pair.standing for who, pair in opened)

    def tell(self, m: int, arm: int, x: float, step: int) -> None:
        if m not in self.under_way:
            return
        asked, x = self.under_way.pop(m), math.floor(x * 250) / 250
        for opened, size, gap in ((self.pairs, self.period, 0), (self.blocks, self.length, self.gap)):
            mine = [pair for who, pair in opened if who == m and pair.standing]
            held = any(pair.arm == arm for pair in mine)
            for pair in mine:
                in_time = step // size == pair.began
                if pair.early[-1] is None and not in_time:
                    pair.standing = False
                elif pair.arm is None:
                    pair.early, pair.standing = [] if held else [x], not held
                    pair.arm = None if held else arm
                elif pair.early[-1] is None:
                    pair.early[-1:] = [x] if pair.arm == arm else []
                elif pair.arm == arm and asked >= (pair.began + 1) * size + gap:
                    pair.late.append(x)
                    pair.standing = len(pair.late) < len(pair.early)

    def end_step(self, step: int) -> None:
        if step % self.period == 0:
            self.shock = max(self.shock, *(self.shock_after(n) for n in range(1, step // self.period + 1)))
        if step % self.length == 0:
            self.drift = max(self.drift, *(self.drift_after(n) for n in range(1, step // self.length + 1)))

    def shock_after(self, rounds: int) -> float:
        return sum(map(math.exp, self.shock_logs(rounds))) / len(RHOS)

    def drift_after(self, rounds: int) -> float:
        return sum(map(math.exp, self.drift_logs(rounds))) / (2 * len(BETS))

    def shock_logs(self, rounds: int) -> list[float]:
        """For every ρ the product over groups of 1 + ρ[(ΣD)² − ΣD²]/g, what is missing at its worst."""
        logs = [0.0] * len(RHOS)
        for r in range(rounds):
            places = [pair for _, pair in self.pairs if pair.began == r]
            for at in range(0, len(places), self.group):
                low = high = squares = 0.0
                for pair in places[at : at + self.group]:
                    if pair.early:
                        first, second = pair.early[0], pair.late[0] if pair.late else None
                        least = (0.0 if first is None else first) - (1.0 if second is None else second)
                        most = (1.0 if first is None else first) - (0.0 if second is None else second)
                        low, high = low + least, high + most
                        squares += max(least**2, most**2)
                smallest = 0.0 if low <= 0.0 <= high else min(low**2, high**2)
                for i, rho in enumerate(RHOS):
                    logs[i] += math.log(1 + rho * (smallest - squares) / self.group)
        return logs

    def drift_logs(self, rounds: int) -> list[float]:
        """For both signs and every λ the product over blocks of 1 ± λ·Σ(late − early), missing ones at their worst."""
        logs = [0.0] * (2 * len(BETS))
        for _, block in self.blocks:
            if block.began < rounds:
                missing = len(block.early) - len(block.late)
                rise = sum(block.late) - sum(1.0 if x is None else x for x in block.early)
                fall = sum(0.0 if x is None else x for x in block.early) - sum(block.late) - missing
                for i, bet in enumerate(BETS):
                    logs[i] += math.log(1 + bet * rise)
                    logs[i + len(BETS)] += math.log(1 + bet * fall)
        return logs


def checking(agents: int, horizon: int, **settings: Any) -> Checking:
    trial = fp.Principal().start(arms=3, agents=agents, horizon=horizon, checks=fp.Checks(**settings))
    assert trial.checking is not None
    return trial.checking


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_evidence_is_what_the_definitions_say_whatever_people_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    agents, steps = int(rng.integers(2, 9)), 50
    settings = {"period": int(rng.integers(1, 4)), "group": int(rng.integers(2, 5)), "gap": int(rng.integers(2, 9))}
    ours = checking(agents, steps, **settings)
    book = ByTheBook(*ours.books.frame[:5].tolist())
    moved, prompt = rng.choice([0.0, 0.4]), rng.choice([0.5, 1.0])
    waiting: dict[int, tuple[int, float]] = {}
    for step in range(steps):
        shift = moved * rng.choice([-1, 1])
        for m in rng.permutation(agents).tolist():
            if rng.random() < 0.8:
                ours.asked(m, step)
                book.ask(m, step)
            if m not in waiting and rng.random() < 0.9:
                waiting[m] = int(rng.integers(3)), float(rng.random() < 0.5 + shift) * rng.choice([1.0, 0.5])
            if m in waiting and rng.random() < prompt:
                arm, x = waiting.pop(m)
                ours.told(m, arm, round(x * UNITS), step)
                book.tell(m, arm, x, step)
        ours.end_step(step + 1)
        book.end_step(step + 1)
        assert ours.books.peaks[:2].tolist() == pytest.approx([book.shock, book.drift], rel=1e-6)
    blocks, (period, group) = ours.books.blocks, ours.books.frame[:2].tolist()
    for n in range(1, steps // int(ours.books.frame[pairing.LENGTH]) + 1):
        assert (blocks[:n, :6].sum(axis=0) / pairing.ONE).tolist() == pytest.approx(book.drift_logs(n), abs=1e-6)
    excess = np.array([[pairing._excess(one) for one in row] for row in ours.books.groups]) / (group * 250**2)
    for n in range(1, steps // period + 1):
        logs = [float(np.log(1 + rho * excess[:n]).sum()) for rho in RHOS]
        assert logs == pytest.approx(book.shock_logs(n), abs=1e-6)


def test_what_is_missing_can_only_make_evidence_larger_when_it_comes() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        group = np.zeros(4, np.int64)
        known, missing = rng.integers(-250, 251, 4), rng.integers(0, 251, 3)
        group[0], group[3] = known.sum(), (known**2).sum()
        for first in missing.tolist():
            pairing._missing(group, 1, first - 250, first)
        least = pairing._excess(group)
        came = np.append(known, missing - rng.integers(0, 251, 3))
        assert least <= came.sum() ** 2 - (came**2).sum() + 1e-9


def test_a_pull_that_was_not_asked_for_counts_for_nothing_that_is_opened_later() -> None:
    ours = checking(2, 40, group=2, gap=2)
    ours.told(0, 0, UNITS, 0)
    assert not ours.books.pair_place.any()
    ours.asked(0, 0)
    places = ours.books.pair_place.copy()
    ours.asked(0, 1)
    assert (ours.books.pair_place == places).all(), "a pull is under way"
    ours.told(0, 1, UNITS, 0)
    ours.told(0, 1, 0, 0)
    assert ours.books.pair_early[0, 0] == 250, "the second report answers no ask"


def test_a_first_pull_told_after_its_period_is_missing_for_ever() -> None:
    ours = checking(2, 40, group=2)
    for m, told in ((0, 0), (1, 1)):
        ours.asked(m, 0)
        ours.told(m, 0, UNITS, told)
    place = ours.books.groups[0, 0].tolist()
    assert place == [0, -250, 500, 2 * 250**2], "one early reward of 1, and one unknown pair"


def test_agents_take_at_most_40_bytes() -> None:
    for settings in ({}, {"payment": 0.2}):
        books = checking(1_000, 40, **settings).books
        assert sum(getattr(books, name).nbytes for name in pairing.AGENTS) <= 40 * 1_000


def drive(trial: Any, steps: int, seed: int, shock: float = 0.0, gain: float = 0.0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        shift = shock * rng.choice([-1, 1])
        for m in range(trial.setting.agents):
            offer = trial.ask(m)
            arm = offer.arm if offer else int(rng.integers(2))
            paid = trial.chose(m, arm) if offer is None else True
            mean = (0.7, 0.3)[arm] + shift + gain * paid
            trial.tell(m, arm, float(rng.random() < mean))
        trial.end_step()


def principal() -> fp.Principal:
    return fp.Principal(fp.rules.Certified(0.05), offers="each")


def test_an_alarm_takes_the_certificate_away_and_says_why() -> None:
    trials = [principal().start(arms=2, agents=60, horizon=40, checks=fp.Checks()) for _ in range(2)]
    drive(trials[0], 40, seed=1)
    drive(trials[1], 40, seed=1, shock=0.25)
    honest, shaken = (trial.verdict() for trial in trials)
    assert honest.decided
    assert honest.certified
    assert not any(check.alarmed for check in honest.checks)
    assert shaken.decided
    assert not shaken.certified
    assert shaken.survives is None
    alarm = next(check for check in shaken.checks if check.alarmed)
    assert alarm.name == "common shock"
    assert alarm.e_value is not None
    assert alarm.e_value >= 100
    assert "not certified, because it was found that events hit many agents at once" in shaken.why
    assert shaken.checks == trials[1].checks()


def test_without_checks_nothing_is_kept_of_them() -> None:
    trial = principal().start(arms=2, agents=3, horizon=10)
    drive(trial, 3, seed=0)
    assert trial.checks() == trial.verdict().checks == ()
    assert b"checks" not in trial.state()


@pytest.mark.parametrize("payment", [0.0, 0.3])
def test_a_saved_trial_goes_on_with_its_checks(payment: float) -> None:
    trial = principal().start(arms=2, agents=9, horizon=30, checks=fp.Checks(payment=payment, seed=4))
    drive(trial, 11, seed=2, shock=0.3)
    trial.ask(3)
    other = principal().restore(trial.state())
    assert other.state() == trial.state()
    for one in (trial, other):
        drive(one, 12, seed=3, shock=0.3)
    assert other.checks() == trial.checks()
    assert other.state() == trial.state()


def test_many_reports_at_once_are_seen_as_one_by_one() -> None:
    one, many = (principal().start(arms=2, agents=9, horizon=30, checks=fp.Checks()) for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(30):
        arms, rewards = rng.integers(0, 2, 9), rng.integers(0, 2, 9).astype(float)
        for trial in (one, many):
            for m in range(9):
                trial.ask(m)
        for m in range(9):
            one.tell(m, int(arms[m]), float(rewards[m]))
        many.tell_many(np.arange(9), arms, rewards)
        one.end_step()
        many.end_step()
    assert one.state() == many.state()


def test_surprises_are_paid_for_free_choices_with_probability_q_within_their_budget() -> None:
    trial = fp.Principal(observe=fp.observe.Steps(100)).start(
        arms=2, agents=50, horizon=100, checks=fp.Checks(payment=0.2, bonuses=100)
    )
    assert not trial.chose(0, 1), "without an ask"
    drive(trial, 40, seed=0)
    payment = next(check for check in trial.checks() if check.name == "payment")
    assert trial.paid_total == 100 == trial.spent
    assert abs(100 / payment.counted - 0.2) < 5 * math.sqrt(0.2 * 0.8 / payment.counted)
    assert payment.missing == 0.0


def test_no_offer_and_no_second_coin_while_a_chosen_pull_is_under_way() -> None:
    trial = fp.Principal(observe=fp.observe.Steps(0)).start(arms=2, agents=1, checks=fp.Checks(payment=0.999))
    trial.offers.arms_wanted[:] = -1
    trial.ask(0)
    assert trial.chose(0, 1)
    assert not trial.chose(0, 1)
    trial.offers.arms_wanted[:] = 0
    assert trial.ask(0) is None
    trial.tell(0, 1, 1.0)
    assert trial.ask(0) is not None
    assert not trial.chose(0, 0), "an offer is open"


def test_payment_that_changes_rewards_is_seen() -> None:
    trial = fp.Principal(observe=fp.observe.Steps(100)).start(
        arms=2, agents=100, horizon=100, checks=fp.Checks(payment=0.3)
    )
    drive(trial, 30, seed=0, gain=0.25)
    assert [check.name for check in trial.checks() if check.alarmed] == ["payment"]


def test_an_outcome_that_is_not_told_stands_at_its_worst() -> None:
    ours = checking(1, 40, payment=0.5)
    ours.asked(0, 0)
    ours.chose(0, 1, room=1)
    assert ours.books.coins.max() < 0
    ours.told(0, 2, UNITS, 0)
    assert ours.books.coins.max() < 0, "another arm"
    assert ours.books.counts[pairing.OUTCOMES] == 0


def test_reports_are_counted() -> None:
    ours = checking(3, 40)
    for m in range(3):
        ours.asked(m, 0)
    ours.told(0, 0, 0, 0)
    ours.told(1, 0, 0, 4)
    ours.told(1, 0, 0, 4)
    ours.repeated()
    report = ours.results()[-1]
    assert (report.name, report.e_value, report.counted, report.missing) == ("reporting", None, 3, 1 / 3)
    assert "50.0% of them in the step of their ask and the slowest after 4 steps" in report.why
    assert "1 came without an ask since the agent's last report" in report.why
    assert "for them there is late=True), 1 were told again, and 1 are awaited" in report.why


def test_rounds_are_closed_when_they_are_old_and_late_pulls_find_their_places_taken() -> None:
    ours = checking(2, 600, group=2, gap=2)
    for step in range(600):
        for m in range(2):
            ours.asked(m, step)
            ours.told(m, step % 3, UNITS * (step % 2), step)
        ours.end_step(step + 1)
    assert ours.books.counts[pairing.OLDEST_PAIRS] == 600 - pairing.WINDOW + 1
    assert ours.books.counts[pairing.OLDEST_BLOCKS] == 600 - pairing.BLOCK_ROUNDS + 1
    assert ours.books.folded_pairs.any()
    assert ours.books.folded_blocks.any()


def test_a_wider_trial_takes_the_checks_over() -> None:
    old, new = (principal().start(arms=2, agents=m, horizon=30, checks=fp.Checks()) for m in (6, 9))
    drive(old, 12, seed=0, shock=0.3)
    before = old.checks()
    new.take_over(old)
    assert new.checks() == before
    drive(new, 5, seed=1)
    assert new.checks()[0].counted > before[0].counted


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"level": 0}, "level must be"),
        ({"period": 0}, "period must be"),
        ({"group": 1}, "group must be"),
        ({"gap": 1}, "gap must be"),
        ({"payment": 1.0}, "payment must be"),
        ({"bonuses": -1}, "bonuses must be"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(fp.errors.InvalidInput, match=sentence):
        fp.Checks(**wrong)


def test_checks_must_be_checks() -> None:
    with pytest.raises(fp.errors.InvalidInput, match="checks must be"):
        fp.Principal().start(arms=2, agents=2, checks=0.01)  # type: ignore[arg-type]
