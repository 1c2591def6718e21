"""`fp.plan` and its answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from freepull import showing, validation
from freepull.agents import Agent
from freepull.agents.activity import Activity
from freepull.agents.answers import Answer
from freepull.agents.leaving import Leaving
from freepull.data import read
from freepull.errors import InvalidInput
from freepull.fitting import DAY, Habits
from freepull.game import Game
from freepull.money import Money
from freepull.panels import Panel
from freepull.planning import words
from freepull.planning.forecast import SHARES, Forecast, telling
from freepull.planning.formulas import HEURISTIC, POWER, First, check_rule, first
from freepull.planning.question import ONE_IN, Case, beliefs_from, people_from, question
from freepull.planning.search import CHANCE, FIRST, Curve, Point, Simulated, Work, simulated
from freepull.planning.words import sentences
from freepull.principal import Principal, for_people
from freepull.principal.rules import Certified, Comparisons
from freepull.rewards import Law
from freepull.version import __version__

if TYPE_CHECKING:
    from freepull.strategic import BestResponse

FORMULA = "formula"
CAMPAIGN = for_people(horizon=1)
"""The principal for people as they are, unless another is given: what campaigns do."""
STRATEGIC_RUNS = 50
FEW = 20
"""Fewer decisions than this have no range."""


class Row(NamedTuple):
    """One figure: what it is, in words, and where it comes from."""

    what: str
    value: str
    source: str


@dataclass(frozen=True, repr=False)
class Plan:
    """What a trial will cost, how long it will take, how many agents it needs, and whether it would be free."""

    question: Mapping[str, Any]
    """What was asked: arms, agents, horizon, the principal and what is believed of the game."""
    first: First
    """What formulas say at once."""
    forecast: Forecast | None
    """What simulation says of the trial; None if only the first answer was asked for."""
    curves: Mapping[str, Curve]
    """The same against agents, horizon, observing, delta, epsilon and cap."""
    agents_needed: int | None
    """The least number of agents found with a 95 % chance of a certified answer."""
    agents_free: int | None
    """The least number of agents found with a 95 % chance of a certified answer for nothing."""
    sentences: tuple[str, ...]
    """What a reader must know, most important first."""
    provenance: Mapping[str, Any]
    price: Money | None = None
    habits: Habits | None = None
    """What a log with times says of its people."""
    strategic: BestResponse | None = None
    """What one person in 25 could gain by a strategy, if that was asked for; all of them together."""

    def chance(self, budget: float) -> float:
        """Return the probability of a certified answer for at most ``budget``, in bonuses of 1."""
        if self.forecast is None:
            raise InvalidInput("chance needs a simulated plan; leave quick out.")
        return self.forecast.within(validation.real("budget", budget, 0.0))

    def rows(self) -> list[Row]:
        """Return the figures as they are shown."""
        return [*self._simulated(), *self._by_formula()]

    def _simulated(self) -> list[Row]:
        found = self.forecast
        if found is None:
            return []
        source, horizon = found.source, self.question["horizon"]
        rate, low, high = found.chance
        rows = [Row("expected spend", self._expected(found), source)]
        for share in SHARES:
            rows.append(Row(f"{100 * share:g} % range", words.between(*found.range(share), self.price), source))
        rows.append(Row("certified for nothing", words.percent(found.free), source))
        chance = f"{words.percent(rate)} ({words.percent(low)} to {words.percent(high)})"
        rows.append(Row(f"certified by step {horizon:,}", chance, source))
        rows.append(Row("decided at", _when(found), source))
        budget = found.budget(CHANCE)
        enough = "none is enough" if budget is None else self.money(budget)
        rows.append(Row(f"budget, {100 * CHANCE:g} % chance", enough, source))
        return [*rows, *self._strategic(), *self._panels(), *self._instead()]

    def _strategic(self) -> list[Row]:
        """What a strategic user could extract."""
        found = self.strategic
        if found is None:
            return []
        few = -(-self.question["agents"] // ONE_IN)
        each = f"{found.added.mean / few:+,.2g} ± {1.96 * found.added.error / few:.2g} units of reward each"
        source = f"the best of {found.tried} strategies, {found.runs} runs"
        return [Row(f"if one in {ONE_IN} is strategic", f"{each}, the bill {found.cost}", source)]

    def _panels(self) -> list[Row]:
        if "agents" not in self.curves:
            return []
        points = self.curves["agents"].points
        most, one = max(point.x for point in points), len(points) == 1
        source = f"simulation, {len(points)} panel{'' if one else 's'}"
        missing = "not looked for, there was no time" if one else f"not found up to {most:,.0f}"
        named = (
            (f"agents, {100 * CHANCE:g} % chance", self.agents_needed),
            (f"agents, free in {100 * CHANCE:g} %", self.agents_free),
        )
        return [Row(what, f"about {words.rounded(agents):,}" if agents else missing, source) for what, agents in named]

    def _instead(self) -> list[Row]:
        """What the next longer observing phase, the next smaller δ and the next larger ε would make of it."""
        beside = [
            ("watching to {:g}·T", self.curves["observing"].after() if "observing" in self.curves else None),
            ("δ = {:g}", self.curves["delta"].before() if "delta" in self.curves else None),
        ]
        if "epsilon" in self.curves:
            points = self.curves["epsilon"].points
            own = max((point.x for point in points if point.planned), default=0.0)
            beside.append(("best up to ε = {:.2g}", next((point for point in points if point.x > own), None)))
        return [self._variant(told.format(point.x), point) for told, point in beside if point is not None]

    def _variant(self, what: str, point: Point) -> Row:
        found, plan = point.forecast, self.forecast
        more = "" if plan is None else f"{words.signed(*found.against(plan))}, "
        return Row(f"if {what}", f"{more}certified {words.chance(*found.chance)}", found.source)

    def _expected(self, found: Forecast) -> str:
        error = f" ± {words.count(found.margin)}" if found.margin > 0 else ""
        return f"{words.count(found.mean)}{error}" + (f" ({self.price.times(found.mean):,})" if self.price else "")

    def _by_formula(self) -> list[Row]:
        at = self.first
        rows = []
        if self.forecast is None and at.known:
            told = f"not shown: {at.doubt}"
            if at.spend is not None and at.range is not None:
                told = f"{self.money(at.spend)} ({words.between(*at.range)}, as the guesses are off)"
            rows.append(Row("spend", told, HEURISTIC))
            rows.append(Row("agents: enough time", words.agents(at.agents_needed), HEURISTIC))
        if at.known:
            rows.append(Row("pulls needed, by arm", words.pulls(at.needed), HEURISTIC))
            rows.append(Row(f"free by step {at.kappa:,}, by arm", words.pulls(at.natural), HEURISTIC))
        if not math.isnan(at.lower_bound):
            rows.append(Row("lower bound, if certified", self.money(at.lower_bound), FORMULA))
        if not math.isnan(at.lower_money):
            rows.append(Row("lower bound, if compensated", self.money(at.lower_money), FORMULA))
        if not math.isnan(at.fixed_test):
            rows.append(Row(f"fixed A/B test, power {100 * POWER:g} %", self.money(at.fixed_test), FORMULA))
        rows.append(Row("randomised test, no bonuses", self.randomised, HEURISTIC))
        return rows

    @property
    def randomised(self) -> str:
        """What a test needs that assigns options and pays nothing, in words."""
        asked, pulls = self.question, self.first.randomised
        a_step = asked["agents"] * asked["acts"] / asked["horizon"]
        return words.randomised(pulls, pulls / a_step if a_step > 0 else math.inf, asked["horizon"])

    def money(self, bonuses: float) -> str:
        """Return a number of bonuses in words, with its price if there is one."""
        return words.spend(bonuses, self.price)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data; what is unknown or infinite is null."""
        found = self.forecast
        told: dict[str, Any] = {
            "question": dict(self.question),
            "sentences": list(self.sentences),
            "first": {name: value for name, value in vars(self.first).items() if name != "agents_free"},
            "forecast": None if found is None else _forecast(found),
            "agents_needed": self.agents_needed,
            "agents_free": self.agents_free,
            **({} if self.strategic is None else {"strategic": asdict(self.strategic)}),
            "curves": {
                name: {"complete": c.complete, "points": [_point(point) for point in c.points]}
                for name, c in self.curves.items()
            },
            "provenance": dict(self.provenance),
        }
        plain: dict[str, Any] = _plain(told)
        return plain

    def __str__(self) -> str:
        width = max((len(row.what) for row in self.rows()), default=0)
        lines = [*self.sentences, ""]
        lines += [f"{row.what:<{width}}  {row.value}  [{row.source}]" for row in self.rows()]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        return showing.table("", ("", "", "from"), self.rows(), self.sentences)


def _when(found: Forecast) -> str:
    middle, early, late = (found.decided(p) for p in (0.5, 0.05, 0.95))
    if middle is None:
        return "never"
    if found.decisions < FEW:
        return f"step {middle:,.0f} ({found.decisions} of {found.runs:,} runs)"
    return f"step {middle:,.0f} (90 %: {early:,.0f} to {late:,.0f})"


def _forecast(found: Forecast) -> dict[str, Any]:
    return {
        "source": found.source,
        "runs": found.runs,
        "spend": found.mean,
        "spend_margin": found.margin,
        "ranges": {f"{share:g}": found.range(share) for share in SHARES},
        "free": found.free,
        "certified": dict(zip(("rate", "low", "high"), found.chance, strict=True)),
        "decided_at": {f"{p:g}": found.decided(p) for p in (0.05, 0.5, 0.95)},
        "budget": found.budget(CHANCE),
    }


def _point(point: Point) -> dict[str, Any]:
    return {"x": point.x, "planned": point.planned, **_forecast(point.forecast)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


COLUMNS = ("spend", "than the plan", "9 of 10 trials", "certified", "runs")


def cells(plan: Plan, point: Point) -> tuple[str, ...]:
    """Return where the variant lies, and the columns."""
    found = point.forecast
    more = "" if point.planned or plan.forecast is None else words.signed(*found.against(plan.forecast))
    return (
        "any" if point.x == math.inf else f"{point.x:,g}",
        plan.money(found.mean),
        more,
        words.between(*found.range(0.9)),
        words.chance(*found.chance),
        f"{found.runs:,}",
    )


def plan(
    game: Game | Callable[[np.random.Generator], Game] | Panel | None = None,
    *,
    horizon: int | None = None,
    arms: int | None = None,
    agents: int | None = None,
    gap: float | Sequence[float] | None = None,
    means: Sequence[float] | None = None,
    level: float | None = None,
    spread: float | None = None,
    error: float | None = None,
    rewards: Law | None = None,
    log: Any = None,
    scale: str | None = None,
    columns: Any = None,
    day: int = DAY,
    delta: float | None = None,
    epsilon: float | None = None,
    principal: Principal | Callable[[bool], Principal] | None = None,
    strategy: Agent | Sequence[Agent] | None = None,
    answers: Answer | Sequence[Answer] | None = None,
    activity: Activity | Sequence[Activity] | None = None,
    leaving: Leaving | Sequence[Leaving] | None = None,
    price: str | None = None,
    quick: bool = False,
    curves: bool = True,
    strategic: bool = False,
    runs: int | None = None,
    seconds: float = 15.0,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
    on_first: Callable[[Plan], None] | None = None,
) -> Plan:
    """Forecast a trial before a bonus is paid (docs/planning.md).

    What is believed of the game comes from guesses (``gap`` or ``means``), from a ``log``, or from a ``game``.

    Parameters
    ----------
    horizon
        T, the number of steps; a panel has its own. Who acts in every step acts so often.
    arms, agents
        K and M. A log has its own arms, and is about the logged agents; with ``agents``, about others like them.
    gap
        How far the best arm is ahead of the next on average over the agents, or K − 1 gaps, one for every other arm.
    means
        Instead of gap: a guess of every arm's mean.
    level, spread, error
        The best arm's mean (0.5: most noise, so the safe side), how much agents differ (the standard deviation of their
        own means of an arm, 0.1), and how far off these guesses may be (0.25: by a quarter, give or take).
    rewards
        The reward law, `rewards.Bernoulli()` by default.
    log
        Past observations, as for `Game.from_log`. If it says when they were made, activity, leaving, answers and
        strategy are fitted to it, unless you give them.
    scale, columns
        On which scale the log's rewards are, if not in [0, 1], such as "1..5" or "0..50 EUR"; and what it calls its
        columns, such as "agent=user_id,arm=slot,reward=stars".
    day
        How many steps a day has, where a log has dates.
    game
        A game that is known, or a function that draws one from beliefs of your own; or a panel such as
        `fp.panels.street()`, which is taken as exact.
    delta, epsilon, principal
        δ and ε of the default principal; or another principal, or a function that makes one when it is told whether
        everybody acts in every step and takes every offer. For such people the default is `Certified(0.05)` with offers
        to each; for others, or with an ε, it is `Comparisons(0.05)` with `Share(0.1)`, `NeverBan()` and offers to each.
    strategy, answers, activity, leaving
        How agents pick (`AlphaUCB(2)`), answer offers (`Always()`), how often they act (`EveryStep()`) and when they
        leave (`Stays()`); of several, every agent has one, at random; M of them are one each. With guesses, the numbers
        in the last three may be off by ``error`` as well.
    price
        What one bonus costs, as in "0.50 EUR"; with a pricing, a bonus of 1. Spends are then in units of reward.
    quick
        Only the first answer: by formulas, or by 40 runs where these know nothing.
    curves
        Whether to look at other numbers of agents, horizons, observing phases, δ, ε and caps.
    strategic
        Whether to search for what a strategic user could extract, `best_response`: some more minutes with many people.
    runs, seconds
        This many runs; or as many as make the range tight, in about this many seconds.
    seed
        Same seed and same runs, same figures.
    workers, progress
        As for `simulate`.
    on_first
        Called with the first answer as soon as it is there.
    """
    began = time.perf_counter()
    panel = game if isinstance(game, Panel) else None
    guesses = {"gap": gap, "means": means, "level": level, "spread": spread, "error": error, "rewards": rewards}
    if log is None and (scale is not None or columns is not None):
        raise InvalidInput(f"{'columns' if scale is None else 'scale'} must be left out without a log.")
    past = None if log is None else partial(read, log, scale, columns)
    beliefs, size, count = beliefs_from(game if panel is None else panel.game, past, arms, agents, guesses)
    if panel is not None and horizon is None:
        horizon = panel.horizon
    if horizon is None:
        raise InvalidInput("horizon must be given: for how many steps the trial may go on.")
    horizon = validation.whole("horizon", horizon, 1)
    asked = {"strategies": strategy, "answers": answers, "activity": activity, "leaving": leaving}
    people = people_from(panel, beliefs, asked, horizon, day)
    if principal is None:
        principal = _usual(people.ideal, 0.05 if delta is None else delta, epsilon)
    elif delta is not None or epsilon is not None:
        given = "epsilon" if delta is None else "delta"
        raise InvalidInput(f"{given} must be left out with a principal, whose rule has one.")
    elif callable(principal):
        principal = principal(people.ideal)
    validation.instance("principal", principal, Principal, "a freepull.Principal(...)")
    check_rule(principal.rule)
    if horizon < count:
        raise InvalidInput(f"horizon must be at least {count}, the number of arms, got {horizon}.")
    seed = validation.whole("seed", seed, 0, (1 << 64) - 1)
    workers = workers if workers is None else validation.whole("workers", workers, 1)
    case = Case(beliefs, size, count, principal, horizon, people, seed, workers)
    cost = None if price is None else Money.price(price)
    work = Work(
        validation.real("seconds", seconds, 0.0, open_low=True),
        runs if runs is None else validation.whole("runs", runs, FIRST),
    )
    at_once = first(case)

    def made(found: Simulated) -> Plan:
        return Plan(
            question=question(case, log) | {"price": price},
            first=at_once,
            forecast=found.forecast,
            curves=found.curves,
            agents_needed=found.agents_needed,
            agents_free=found.agents_free,
            sentences=sentences(case, at_once, found, cost),
            provenance={
                "freepull": __version__,
                "seed": case.seed,
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                "seconds": round(time.perf_counter() - began, 3),
                "interrupted": found.interrupted,
            },
            price=cost,
            habits=people.habits,
        )

    early = Simulated()
    if not at_once.known and (quick or on_first is not None):
        try:
            early.forecast = work.first(case)
        except KeyboardInterrupt:
            early.interrupted = True
    if quick or early.interrupted:
        return made(early)
    if on_first is not None:
        on_first(made(early))
    with telling(seconds, progress) as work.tell:
        found = simulated(case, at_once, work, curves, early.forecast)
    if strategic and not found.interrupted:
        return replace(made(found), strategic=case.best_response(STRATEGIC_RUNS))
    return made(found)


def _usual(ideal: bool, delta: float, epsilon: float | None) -> Principal:
    """Return the principal that is taken where none is given."""
    if ideal and epsilon is None:
        return Principal(Certified(delta), offers="each")
    assert isinstance(CAMPAIGN.rule, Comparisons)
    return replace(CAMPAIGN, rule=Comparisons(delta, CAMPAIGN.rule.epsilon if epsilon is None else epsilon))
