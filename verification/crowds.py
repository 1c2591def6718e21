"""The rule for people as they are: how often it says something false, what it costs, how long an act takes.

What the engine can play is played by it, all else by a driver of the suite's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

import freepull as fp
from benchmarks import street
from benchmarks.timing import Sample

from .costs import Cost
from .crowd_driver import ARMS, CROWDS, DELTA, SEED, UNAWARE, run, run_sharp
from .found import THREADS
from .judging import Bars, Rate
from .picks import Ints

LOOSE = 0.2
"""At K = 4, K(K−1)/.2 = (K−1)/.05."""
COSTS = "costs, people as they are"


@dataclass(frozen=True)
class Told:
    """How often something false was said, and how often an arm fell at all."""

    rate: Rate
    fell: int


def told(name: str, one: Callable[[int], Ints], runs: int) -> Told:
    """Play many runs on all cores, and count those in which something was false."""
    with ThreadPoolExecutor(THREADS) as pool:
        found = np.array(list(pool.map(one, range(runs))))
    false, fell = (found > 0).sum(axis=0).tolist()
    return Told(Rate(name, runs, false, DELTA), fell)


def principal(rule: fp.rules.Rule, pricing: fp.pricing.Pricing | None = None) -> fp.Principal:
    """Who plays all of these."""
    return fp.Principal(rule, fp.observe.Share(0.1), fp.protocols.NeverBan(), offers="each", pricing=pricing)


def tied(
    name: str, panel: fp.panels.Panel, epsilon: float, runs: int, seed: int, pricing: fp.pricing.Pricing | None = None
) -> Told:
    """All arms tie for everybody, in the engine: an arm that is out is false; what ε allows to name is not."""
    rule, game = fp.rules.Comparisons(DELTA, epsilon), fp.Game(np.full((500, ARMS), 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fp.simulate(
            replace(panel, game=game), principal=principal(rule, pricing), runs=runs, seed=seed, engine="compiled",
            trace=[panel.horizon], progress=False,
        )  # fmt: skip
    assert result.trace is not None
    out = result.trace.filter(~result.trace["active"])["run"].n_unique()
    return Told(Rate(name, runs, out, DELTA), out)


def false_elimination(scale: float) -> list[Told]:
    """How often anything false was said, case by case."""
    runs = max(100, int(1_000 * scale))
    people, ideal = fp.panels.street(), fp.panels.ideal()
    found = [
        tied("exact ties, street panel", people, 0.0, runs, SEED),
        tied("exact ties, street panel, ε = .02", people, 0.02, runs, SEED + 1),
        tied("exact ties, ideal people", ideal, 0.0, runs, SEED + 2),
        tied("exact ties, ideal people, ε = .02", ideal, 0.02, runs, SEED + 3),
    ]
    found += [told(crowd.name, partial(run, crowd, SEED + 10 + i), runs) for i, crowd in enumerate(CROWDS)]
    return [*found, told("an adversary who sees all evidence, K = 2", partial(run_sharp, SEED + 50), 15 * runs // 2)]


def unaware(scale: float) -> Told:
    """How often late reports mislead a rule that is not told of them."""
    return told(UNAWARE.name, partial(run, UNAWARE, SEED + 60), max(100, int(200 * scale)))


@dataclass(frozen=True)
class Case:
    """A panel, a rule, and what is asked of it there."""

    setting: str
    rule: str
    panel: fp.panels.Panel
    plays: fp.rules.Rule
    runs: int
    seed: int
    certified: float | None = None
    mean: float | None = None
    median: float | None = None


def _cases() -> list[Case]:
    people, many, ideal = fp.panels.street(), fp.panels.street(2_000), fp.panels.ideal()
    refusing = replace(ideal, answers=fp.answers.WithProbability(0.95))
    found = [
        _case("street", people, e, 200, 9_100, *bars)
        for e, *bars in ((0.0, 0.5, 3_500.0), (0.02, 0.85, 2_300.0), (0.05, 0.99, 500.0))
    ]
    found += [
        _case("street", people, e, 200, 9_100, bar, delta=LOOSE) for e, bar in ((0.0, 0.8), (0.02, 0.95), (0.05, 0.99))
    ]
    found += [_case("street of 2,000", many, e, 60, 9_101, bar) for e, bar in ((0.0, 0.95), (0.02, 0.99))]
    found += [_case("ideal", ideal, e, 400, 9_102, 0.99, most, 0.0) for e, most in ((0.0, 250.0), (0.02, 40.0))]
    found.append(_case("ideal, 5 % refusals", refusing, 0.02, 400, 9_103, 0.97))
    found.append(Case("street", "Certified", people, fp.rules.Certified(DELTA), 20, 9_100))
    return found


def _case(
    setting: str, panel: fp.panels.Panel, epsilon: float, runs: int, seed: int, certified: float,
    mean: float | None = None, median: float | None = None, delta: float = DELTA,
) -> Case:  # fmt: skip
    level = f", δ = {delta:g} (not certified at .05)" if delta != DELTA else ""
    rule = fp.rules.Comparisons(delta, epsilon)
    return Case(setting, f"ε = {epsilon:g}{level}", panel, rule, runs, seed, certified, mean, median)


CASES = _cases()


@dataclass
class Crowds:
    """What was found."""

    told: list[Told] = field(default_factory=list)
    unaware: list[Told] = field(default_factory=list)
    costs: list[tuple[Case, Cost]] = field(default_factory=list)
    speed: tuple[Sample, Sample] = (Sample(()), Sample(()))
    """Nanoseconds for an act under the rule, and under the paper's, measured in turn."""


def measure_cost(case: Case, runs: int) -> Cost:
    """Play until it is decided."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fp.simulate(
            case.panel, principal=principal(case.plays), runs=runs, seed=case.seed, engine="compiled", until="decided",
            progress=False,
        )  # fmt: skip
    frame = result.frame
    right = int((frame["decided"] & frame["correct"]).sum())
    paid = frame["paid"].to_numpy().astype(float)
    return Cost(case.setting, case.rule, paid, int(frame["certified"].sum()), right)


def measure(scale: float, say: Callable[[str], None]) -> Crowds:
    """Do all of it, with this share of the runs."""
    say("people as they are: errors")
    found = Crowds(false_elimination(scale), [unaware(scale)])
    say("people as they are: costs")
    found.costs = [(case, measure_cost(case, max(4, int(case.runs * scale)))) for case in CASES]
    found.speed = street.beside_paper(7 if scale == 1.0 else 2)
    return found


def judge_errors(bars: Bars, found: Crowds, part: str) -> None:
    """Hold what was false against δ."""
    bars.holds(part, "something false is said, Comparisons", [told.rate for told in found.told])
    bars.breaks(part, "late reports break Comparisons without `late`", [told.rate for told in found.unaware])


def judge_costs(bars: Bars, found: Crowds) -> None:
    """Hold money and time against their bars."""
    for case, cost in found.costs:
        what, share = f"{case.setting}, {case.rule}", cost.decided / cost.runs
        if case.certified is not None:
            bars.number(COSTS, f"{what}: certified", f"≥ {case.certified:.0%}", f"{share:.1%} of {cost.runs}",
                        share >= case.certified)  # fmt: skip
        if case.mean is not None:
            told = f"{cost.mean:,.0f} ± {cost.error:,.0f}"
            bars.number(COSTS, f"{what}: mean", f"≤ {case.mean:,.0f}", told, cost.mean <= case.mean)
        if case.median is not None:
            told = f"{cost.median:,.0f}"
            bars.number(COSTS, f"{what}: median", f"≤ {case.median:,.0f}", told, cost.median <= case.median)
    ours, theirs = found.speed
    ratio = ours.ratio(theirs)
    bars.number(COSTS, "time for an act, times the paper's rule", f"≤ {street.BAR:g}", f"{ratio:.2f}",
                ratio <= street.BAR)  # fmt: skip
