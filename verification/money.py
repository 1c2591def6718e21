"""What verdicts cost in money: prices that differ, people who answer them, when to pay, and who gains by not following.

Beside that, how often a best arm falls where prices, ε, futility and budgets decide who is asked for what.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

import freepull as fp
from freepull.agents.answers import Answer
from freepull.principal.pricing import Compensate, Quote
from freepull.principal.record import UNITS
from freepull.reproduction import theory
from freepull.simulation.compiled import engine
from freepull.simulation.experiment import check
from freepull.simulation.results import Outcome
from freepull.theory import cost_of, lower_bound, natural_pulls

from . import crowds
from .by_engine import by_engine
from .covered import DESIGNS, EPSILON, PLAIN, Case
from .judging import LEVELS, Bars, Rate
from .picks import Floats
from .settings import SETTINGS, TOY, Setting, family

MONEY = "money"
SEED = 7_000
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
    bound: float
    """The lower bound in money: what anybody who knew the games would have had to spend at true gaps."""

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
    conduct: pl.DataFrame = field(default_factory=pl.DataFrame)
    """What agents gain by not following, where every offer compensates them."""
    short: tuple[float, float] = (math.nan, math.nan)
    """What the prices of an agent who follows fall short of its true gaps, Σ(gap − price)⁺ a run, and its error."""
    errors: list[tuple[str, Rate]] = field(default_factory=list)
    """How often a given best arm fell, with the rule."""

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
    gaps = np.array([float((one.paid * one.game.losses).sum()) for one in found])
    wrong = sum(one.decided and not one.correct for one in found)
    return Spending(
        setting.name, how, paid, spent, gaps, np.array([one.decided for one in found]), wrong, _bound(setting, found)
    )


def _bound(setting: Setting, found: list[Outcome]) -> float:
    """The lower bound at true gaps, averaged over the games, with the fluid natural pulls up to κ for free."""
    games = found[:1] if isinstance(setting.game, fp.Game) else found[:50]
    bounds = []
    for game in (one.game for one in games):
        cheapest = lower_bound(game, natural_pulls(game.means, setting.horizon // 2), setting.delta, game.losses)
        bounds.append(cost_of(cheapest, game.losses))
    return float(np.mean(bounds))


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
    say("money: following, or not")
    found.conduct = theory.deviations(FOLLOWED, COMPENSATING, _share(400, scale), SEED)
    found.short = falls_short(_share(20, scale))
    say("money: error rates")
    found.errors = errors(scale)
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


FOLLOWED = {"certified": theory.RULES["certified"], "authors": theory.RULES["authors"]}
COMPENSATING = {theory.COMPENSATED: theory.TERMS[theory.COMPENSATED]}


class Noted:
    """`Compensate`, with a note of what each offer to the first agent falls short of its true gap."""

    def __init__(self, loss: Floats) -> None:
        self.loss, self.pays, self.short = loss, Compensate(), dict[tuple[int, int], float]()

    def price(self, quote: Quote) -> float:
        """Return the compensation."""
        price = self.pays.price(quote)
        if quote.agent == 0:
            self.short[sum(quote.pulls), quote.arm] = max(float(self.loss[quote.arm]) - price, 0.0)
        return price


def falls_short(runs: int) -> tuple[float, float]:
    """Σ(gap − price)⁺ over all offers to an agent who follows, run by run: its mean and standard error."""
    game, found = fp.Game(theory.MEANS), []
    for run in range(runs):
        pricing = Noted(game.losses[0])
        fp.simulate(
            game, principal=fp.Principal(FOLLOWED["certified"], pricing=pricing), horizon=theory.LEMMA_1_HORIZON,
            runs=[run], seed=SEED, engine="readable", workers=1, progress=False,
        )  # fmt: skip
        found.append(math.fsum(pricing.short.values()))
    return float(np.mean(found)), float(np.std(found, ddof=1)) / math.sqrt(runs)


NEVER = fp.protocols.NeverBan()
TERMS: dict[str, dict[str, Any]] = {
    "Compensate, if worth it": {"pricing": Compensate(), "answers": fp.answers.IfWorthIt()},
    "Posted, reservations, nobody banned": {
        "pricing": fp.pricing.Posted(), "answers": fp.answers.WorthAtLeast(0.0, 0.1), "protocol": NEVER,
    },
    "Compensate, refusals, a budget": {
        "pricing": Compensate(0.0), "answers": fp.answers.WithProbability(0.7), "protocol": NEVER, "budget": 25.0,
    },
}  # fmt: skip
HOPING: dict[str, dict[str, Any]] = {
    "futility": {"futility": 0.2},
    "futility, Compensate, a budget": {"futility": 0.2, "pricing": Compensate(), "budget": 25.0},
    "Adaptive, futility": {"futility": 0.2, "observe": fp.observe.Adaptive()},
}
"""What only the certified rule knows."""
CASES = [
    replace(PLAIN, agents=2, arms=3), replace(PLAIN, agents=10, arms=3, panel="differ", design="nothing held back"),
    replace(PLAIN, agents=120, strategy="ε-greedy", design="long rounds"),
]  # fmt: skip
OTHERS: dict[str, fp.rules.Rule] = {
    "Population": fp.rules.Population(0.05),
    "Paper, finite_time": fp.rules.Paper(0.05, "finite_time"), "Paper, equation": fp.rules.Paper(0.05),
}  # fmt: skip


def errors(scale: float) -> list[tuple[str, Rate]]:
    """How often a given best arm falls: exact ties, for ε all others ε worse, the least that must not be named."""
    found: list[tuple[str, Rate]] = []
    runs, few = max(20, int(3_000 * scale)), max(20, int(1_000 * scale))
    for i, case in enumerate(CASES):
        for name, terms in (TERMS | HOPING).items():
            for epsilon in (0.0, EPSILON):
                one = replace(case, gap="ε worse") if epsilon else case
                rule = fp.rules.Certified(0.01, design=DESIGNS[case.design], epsilon=epsilon)
                seen = by_engine(one, rule, runs, SEED + 10 + i, **terms)
                counts = [int((seen.peaks >= 1 / level).sum()) for level in LEVELS]
                who = "Certified" + (f", ε = {epsilon:g}" if epsilon else "")
                found += [(who, Rate(_told(case, name), runs, *pair)) for pair in zip(counts, LEVELS, strict=True)]
        for name, terms in TERMS.items():
            for who, other in OTHERS.items():
                gone = by_engine(case, other, few, SEED + 20 + i, **terms).gone
                found.append((who, Rate(_told(case, name), few, int(gone.sum()), 0.05)))
    return found + _crowds(few)


def _told(case: Case, terms: str) -> str:
    return f"{case.agents}×{case.arms}, {case.strategy}, {case.panel}; {terms}"


def _crowds(runs: int) -> list[tuple[str, Rate]]:
    """Exact ties on a street panel under prices, by the rule for people as they are."""
    people, found = fp.panels.street(), []
    priced: list[tuple[fp.pricing.Pricing, Answer]] = [
        (Compensate(), fp.answers.IfWorthIt()), (fp.pricing.Posted(), fp.answers.WorthAtLeast(0.0, 0.1)),
    ]  # fmt: skip
    for i, (pricing, answers) in enumerate(priced):
        for epsilon in (0.0, 0.02):
            name = f"street panel; {type(pricing).__name__}, {type(answers).__name__}"
            tied = crowds.tied(name, replace(people, answers=answers), epsilon, runs, SEED + 30 + i, pricing)
            found.append(("Comparisons" + (f", ε = {epsilon:g}" if epsilon else ""), tied.rate))
    return found


def judge_errors(bars: Bars, found: Money, part: str) -> None:
    """Hold the error rates under prices against δ."""
    for rule in dict.fromkeys(rule.partition(",")[0] for rule, _ in found.errors):
        rates = [rate for name, rate in found.errors if name.partition(",")[0] == rule]
        bars.holds(part, f"prices, ε, futility, budgets: a given best arm falls, {rule}", rates)


def _judge_conduct(bars: Bars, found: Money) -> None:
    """Lemma 1, extended: taking every offer loses no more than what prices fall short of true gaps."""
    allowed = found.short[0]
    for row in found.conduct.iter_rows(named=True):
        limit = row["gain"] + QUANTILE * row["gain_error"]
        told = (
            f"{row['gain']:+.1f} (rewards {row['gain_reward']:+.1f}, bonuses {row['gain_bonus']:+.1f}), upper limit "
            f"{limit:+.1f}"
        )
        if row["conduct"] not in ("follow", theory.WITHHOLD):
            bars.number(MONEY, f"every offer compensated, {row['setting']}, {row['conduct']}: gain",
                        f"99 % limit ≤ {allowed:.1f}, what prices fall short by", told, limit <= allowed)  # fmt: skip


def judge(bars: Bars, found: Money) -> None:
    """Hold what was measured against its bars."""
    _judge_conduct(bars, found)
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
