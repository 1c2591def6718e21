"""What verdicts cost in money: prices that differ, people who answer them, when to pay, and who holds out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import freepull as fp
from freepull.agents.answers import Answer
from freepull.principal.record import UNITS
from freepull.simulation.compiled import engine
from freepull.simulation.experiment import check
from freepull.simulation.results import Outcome

from .judging import Bars
from .picks import Floats
from .settings import SETTINGS, TOY, Setting, family

MONEY = "money"
PEOPLE, CROWD = SETTINGS[1], SETTINGS[2]
ADAPTIVE, SHARE, HOPEFUL = "Adaptive()", "Share(0.5)", "Share(0.5), futility = .05"
HELD = 10
"""Every so many-th person holds out."""
QUANTILE = 2.326
"""Of the normal law at 99 %."""


@dataclass(frozen=True)
class Spending:
    """What was paid in one setting, run by run."""

    setting: str
    how: str
    paid: Floats
    spent: Floats
    gaps: Floats
    """What the same pulls would have cost at the true gaps of those who were paid."""
    decided: Any
    wrong: int

    @property
    def certain(self) -> float:
        """The share of runs that decided."""
        return float(self.decided.mean())

    @property
    def lost(self) -> float:
        """The share of the bonuses that were paid in trials that ended undecided."""
        return float(self.paid[~self.decided].sum() / max(self.paid.sum(), 1.0))


@dataclass
class Money:
    """All that was measured."""

    rows: list[Spending] = field(default_factory=list)
    gain: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    """What holding out brought, its standard error, and what honest people got, by run."""

    def of(self, setting: Setting, how: str) -> Spending | None:
        """One of the rows."""
        return next((row for row in self.rows if (row.setting, row.how) == (setting.name, how)), None)


def play(setting: Setting, principal: fp.Principal, answers: Any, runs: int) -> list[Outcome]:
    """Play a setting's games until they are decided, in the order of their numbers."""
    agents = fp.agents.AlphaUCB()
    experiment = check(setting.game, agents, answers, principal, setting.horizon, runs, setting.seed, "decided", None)
    return sorted(engine.play(experiment, None), key=lambda outcome: outcome.run)


def spending(setting: Setting, how: str, principal: fp.Principal, runs: int, answers: Any = None) -> Spending:
    """Measure one principal in one setting."""
    found = play(setting, principal, answers or fp.answers.Always(), runs)
    paid = np.array([float(one.paid.sum()) for one in found])
    spent = paid if principal.pricing is None else np.array([float(_received(one).sum()) for one in found])
    gaps = np.array([
        float((one.paid * (one.game.means.max(axis=1, keepdims=True) - one.game.means)).sum()) for one in found
    ])  # fmt: skip
    wrong = sum(one.decided and not one.correct for one in found)
    return Spending(setting.name, how, paid, spent, gaps, np.array([one.decided for one in found]), wrong)


def _received(outcome: Outcome) -> Floats:
    assert outcome.received is not None
    return np.asarray(outcome.received / UNITS)


def principal(setting: Setting, **more: Any) -> fp.Principal:
    """The setting's principal with other prices, bans or times to pay."""
    return fp.Principal(fp.rules.Certified(setting.delta), offers=setting.offers, **more)


COMPENSATED, WORTH, POSTED = "Compensate()", "Compensate(), people take what is worth it", "Posted(), reservations"


def measure(scale: float, say: Callable[[str], None]) -> Money:
    """Measure everything, with this share of the runs."""
    found, compensate, posted = Money(), fp.pricing.Compensate(), fp.pricing.Posted()
    for setting, runs in ((TOY, 200), (family(30, 0.1, 8), 8), (family(120, 0.1, 8), 8)):
        if scale < 1.0 and setting.agents == 120:
            continue
        say(f"money: {setting.name}")
        found.rows.append(spending(setting, COMPENSATED, principal(setting, pricing=compensate), _share(runs, scale)))
    say("money: people and prices")
    runs = _share(1_000, scale)
    worth = fp.answers.IfWorthIt()
    found.rows.append(spending(PEOPLE, WORTH, principal(PEOPLE, pricing=compensate), runs, worth))
    free = principal(PEOPLE, pricing=posted, protocol=fp.protocols.NeverBan())
    reserved = fp.answers.WorthAtLeast(0.0, 0.1)
    found.rows.append(spending(PEOPLE, POSTED, free, runs, reserved))
    found.gain = holding_out(free, reserved, runs)
    say("money: when to pay")
    for setting in (PEOPLE, CROWD):
        for how, own in (
            (SHARE, principal(setting)),
            (ADAPTIVE, principal(setting, observe=fp.observe.Adaptive())),
            (HOPEFUL, principal(setting, futility=0.05)),
        ):
            found.rows.append(spending(setting, how, own, runs))
    return found


def _share(runs: int, scale: float) -> int:
    return max(4, int(runs * scale))


def holding_out(own: fp.Principal, others: Answer, runs: int) -> tuple[float, float, float]:
    """Every tenth person takes every offer, or refuses the first two: what they are paid, on the same games."""
    got = []
    for answer in (fp.answers.Always(), fp.answers.HoldOut(2)):
        answers = [answer if m % HELD == 0 else others for m in range(PEOPLE.agents)]
        got.append(np.array([float(_received(one)[::HELD].sum()) for one in play(PEOPLE, own, answers, runs)]))
    gain = got[1] - got[0]
    return float(gain.mean()), float(gain.std(ddof=1)) / math.sqrt(runs), float(got[0].mean())


def judge(bars: Bars, found: Money) -> None:
    """Hold what was measured against its bars."""
    for setting, most in ((TOY, 0.52), (family(30, 0.1, 8), 0.22), (family(120, 0.1, 8), 0.25)):
        row = found.of(setting, COMPENSATED)
        if row is not None:
            ratio = float(row.spent.sum() / row.paid.sum())
            told = f"{ratio:.3f} ({row.spent.mean():,.0f} for {row.paid.mean():,.0f}, {row.certain:.1%} decided)"
            bars.number(MONEY, f"{setting.name}, Compensate: spent ÷ paid", f"≤ {most:g}", told, ratio <= most)
    for how, most, least in ((WORTH, 125.0, 0.0), (POSTED, 115.0, 0.97)):
        row = found.of(PEOPLE, how)
        if row is not None:
            mean = float(row.spent.mean())
            told = f"{mean:,.0f}, {row.certain:.1%} decided, {row.gaps.mean():,.0f} at true gaps"
            asked = f"≤ {most:,.0f}" + (f", ≥ {least:.0%} decided" if least else "")
            bars.number(MONEY, f"{PEOPLE.name}, {how}: spent", asked, told, mean <= most and row.certain >= least)
    gain, error, honest = found.gain
    limit = gain + QUANTILE * error
    told = f"{gain:+.3f}, upper limit {limit:+.3f}, of {honest:.2f}"
    bars.number(MONEY, "holding out against Posted, NeverBan: gain", "99 % limit ≤ 5 %", told, limit <= 0.05 * honest)
    for setting, median in ((PEOPLE, 0.0), (CROWD, 60.0)):
        share, own = found.of(setting, SHARE), found.of(setting, ADAPTIVE)
        if share is None or own is None:
            continue
        mean, middle, fewer = float(own.paid.mean()), float(np.median(own.paid)), share.certain - own.certain
        name = f"{setting.name}, Adaptive"
        bars.number(MONEY, f"{name}: mean", "≤ Share(0.5)", f"{mean:,.0f}, {share.paid.mean():,.0f} with Share(0.5)",
                    mean <= share.paid.mean())  # fmt: skip
        bars.number(MONEY, f"{name}: median", f"≤ {median:,.0f}", f"{middle:,.0f}", middle <= median)
        bars.number(MONEY, f"{name}: decided less", "≤ 2 points", f"{100 * fewer:.1f} points", fewer <= 0.02)
    plain, own = found.of(CROWD, SHARE), found.of(CROWD, HOPEFUL)
    if plain is not None and own is not None:
        fewer = plain.certain - own.certain
        told = f"{own.lost:.1%}, {plain.lost:.1%} without; {100 * fewer:.1f} points fewer decided"
        met = own.lost <= 0.08 and fewer <= 0.01
        bars.number(MONEY, f"{CROWD.name}, futility: bonuses in undecided trials", "≤ 8 %, ≤ 1 point", told, met)
