"""What a plan says, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from freepull.agents.answers import Always
from freepull.money import Money
from freepull.planning import formulas
from freepull.planning.beliefs import Guess, Logged
from freepull.planning.forecast import Forecast
from freepull.planning.formulas import FREE, First
from freepull.planning.question import Case
from freepull.planning.search import CHANCE, Simulated
from freepull.principal.protocols import TakeOrBan
from freepull.scales import Scale


def count(value: float) -> str:
    """Show a number of pulls, agents or bonuses."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    if 0.0 < value < 0.05:
        return "< 0.1"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def percent(share: float) -> str:
    """Show a share of runs; 0 % and 100 % only if it was none of them, or all."""
    text = f"{100 * share:.1f}" if 0.0005 <= share < 0.1 or 0.9 < share <= 0.9995 else f"{100 * share:.0f}"
    if 0.0 < share < 0.0005:
        return "< 0.1 %"
    return "> 99.9 %" if 0.9995 < share < 1.0 else f"{text} %"


def chance(rate: float, low: float, high: float) -> str:
    """Show the share of few runs, with how far it may be off: half of Wilson's 95 % interval, rounded up."""
    return f"{percent(rate)} ± {math.ceil(50 * (high - low)):.0f}"


def signed(more: float, margin: float) -> str:
    """Show how much more is paid, with its error."""
    sign = "" if more == 0 else "−" if more < 0 else "+"
    return f"{sign}{count(abs(more))}" + (f" ± {count(margin)}" if margin > 0 else "")


def spend(bonuses: float, price: Money | None, unit: str = "") -> str:
    """Show a number of bonuses, with its price."""
    paid = "" if price is None or not math.isfinite(bonuses) else f" ({price.times(bonuses):,})"
    return f"{count(bonuses)}{unit}{paid}"


def between(low: float, high: float, price: Money | None = None) -> str:
    """Show a range of spends; bonuses are whole, so its ends are rounded outwards."""
    return f"{count(math.floor(low))} to {spend(math.ceil(high), price)}"


def randomised(pulls: float, steps: float, horizon: int) -> str:
    """Show what a randomised test needs."""
    if not math.isfinite(steps):
        return "none could tell the arms apart"
    late = "" if steps <= horizon else f", later than step {horizon:,}"
    return f"{count(pulls)} assigned pulls, over by step {math.ceil(steps):,}{late}"


def people(number: int) -> str:
    """Show a number of agents."""
    return f"{number:,} agent{'' if number == 1 else 's'}"


def rounded(value: float) -> int:
    """Return two significant digits, rounded up: no search is sharper."""
    if value < 10:
        return math.ceil(value)
    digits = int(10 ** (math.floor(math.log10(value)) - 1))
    return math.ceil(value / digits) * digits


def agents(value: float) -> str:
    """Show a number of agents that a formula gave."""
    return f"about {rounded(value):,}" if math.isfinite(value) else "no number"


def pulls(values: Sequence[float]) -> str:
    """Show pulls by arm, best arm first."""
    shown = [count(value) for value in values[:6]]
    return " / ".join(shown) + (" / …" if len(values) > 6 else "")


HOPELESS = 0.05
"""Below this chance of a certified answer a wish is called impossible."""
SAME_LOG = (
    "Do not import this log into the trial: a plan must be fixed before the first reward that counts, so the trial may "
    "use only what is observed after the plan."
)
BANNED = (
    "Agents who refuse an offer are banned, and pulls that only they could give are then missing: see whether another "
    "protocol, such as never-ban, does better."
)
SIMULATED = (
    "Simulation only: the formulas know the rule Certified, people who act in every step to the end, and "
    "one bonus for all."
)
NO_TIMES = (
    "The log does not say when people acted, so everybody is assumed to act in every step and to stay, and how they "
    "choose cannot be known; add a column step or at."
)
ASSUMED = (
    "The formulas take the agents for α-UCB learners who take every offer, which they are not all; the simulation does "
    "not."
)


def sentences(case: Case, at_once: First, found: Simulated, price: Money | None) -> tuple[str, ...]:
    """Return them, most important first."""
    told = []
    if found.forecast is not None:
        told.append(_headline(case, found.forecast, price))
        if found.forecast.chance[0] < CHANCE:
            told.append(_wish(case, at_once, found.forecast.chance[0], found))
            if isinstance(case.principal.protocol, TakeOrBan) and any(
                type(it) is not Always for it in case.people.answers
            ):
                told.append(BANNED)
    else:
        told += _by_formula(case, at_once, price)
    if price is not None and case.principal.pricing is not None:
        told.append(
            f"A campaign rounds every offer up to whole amounts of {Money(1, price.currency)}, also one that pays "
            "nothing, and this is not counted here: at most that much more for every bonus."
        )
    if not at_once.as_assumed and (found.forecast is None or at_once.lower_bound > 0):
        told.append(ASSUMED)
    if not at_once.known:
        told.append(SIMULATED)
    if not case.people.always_there:
        told.append(_campaign(case))
    if isinstance(case.beliefs, Logged):
        if case.people.habits is None and case.people.always_there:
            told.append(NO_TIMES)
        told += _scale(case.beliefs.posterior.past.scale, formulas.tolerance(case.principal.rule))
        told.append(SAME_LOG)
    if found.interrupted:
        told.append("The simulation was interrupted: what is missing was not simulated.")
    return tuple(told)


def _headline(case: Case, found: Forecast, price: Money | None) -> str:
    middle = found.decided(0.5) if found.chance[0] >= HOPELESS else None
    when = "" if middle is None else f", half of these by step {middle:,.0f}"
    epsilon = formulas.tolerance(case.principal.rule)
    what = f" (an arm that is best, or at most {epsilon:g} behind it)" if epsilon > 0 else ""
    return (
        f"Expect to pay {spend(found.mean, price, _bonuses(found.mean, case))}; 9 of 10 such trials pay "
        f"{between(*found.range(0.9), price)}. {percent(found.chance[0])} end with a certified answer{what} "
        f"within {case.horizon:,} steps{when}."
    )


def _campaign(case: Case) -> str:
    """Say how long a campaign of such people is in its own steps."""
    pulls = case.people.acts(case.horizon)
    return (
        f"These people act about {pulls:.2g} times each in {case.horizon:,} steps. A campaign in free mode counts as a "
        f"step as many pulls as there are agents, so give it --horizon {max(case.arms, round(pulls))}."
    )


def _scale(text: str, epsilon: float) -> list[str]:
    """Say what a difference is on the scale that people rate on."""
    on = Scale.parse("scale", text or "0..1")
    if on.width == 1.0:
        return []
    share = epsilon or 0.1
    amount = f"{on.effect(share):.3g} {on.unit}".strip()
    return [f"Rewards are on the scale {on.text}, and differences are shares of it: {share:g} of it is {amount}."]


def _bonuses(number: float, case: Case) -> str:
    if case.principal.pricing is not None:
        return " units of reward"
    return " bonus" if count(number) == "1" else " bonuses"


def _wish(case: Case, at_once: First, chance: float, found: Simulated) -> str:
    """Say what cannot be had, and with how many agents it could; by formulas, where the search did not get there."""
    needed = found.agents_needed
    whom, at = _wished(case), f"at δ = {case.principal.rule.delta:g}"
    if chance < HOPELESS:
        cannot = f"{whom} cannot be certified {at}" + (f" ({percent(chance)} of trials)" if chance else "")
        if needed is None and found.most_agents < at_once.agents_needed < formulas.MOST_AGENTS:
            return f"{cannot}; by the formulas about {rounded(at_once.agents_needed):,} agents could, perhaps."
        if needed is None and found.most_agents > case.agents:
            return f"{cannot}, and not by {found.most_agents:,.0f} agents either."
        return cannot + (f"; about {rounded(needed):,} agents could, in {100 * CHANCE:g} %." if needed else ".")
    rest = f"; about {rounded(needed):,} agents would make it {100 * CHANCE:g} %." if needed else "."
    return f"{whom} is certified {at} in {percent(chance)} of trials{rest}"


def _by_formula(case: Case, at_once: First, price: Money | None) -> list[str]:
    told: list[str] = []
    if at_once.possible < 0.5:
        could = at_once.agents_needed
        rest = f"; about {rounded(could):,} agents could, if the guesses hold" if could < formulas.MOST_AGENTS else ""
        at = f"at δ = {case.principal.rule.delta:g}"
        told.append(f"{_wished(case)} can hardly be certified {at}, by the formulas{rest}.")
    if at_once.doubt == FREE:
        told.append(
            "By the formulas most of the pulls needed come for free, and of the rest they know little: simulate it."
        )
    if at_once.spend is not None:
        told.append(
            f"The formulas put the spend at about {spend(at_once.spend, price, _bonuses(at_once.spend, case))}."
        )
    return told


def _wished(case: Case) -> str:
    how = f"acting {case.horizon:,} times" if case.people.always_there else f"in {case.horizon:,} steps"
    who = f"With {people(case.agents)} {how}"
    epsilon = formulas.tolerance(case.principal.rule)
    what = f"an arm that is best up to {epsilon:g}, at " if epsilon > 0 else ""
    if isinstance(case.beliefs, Guess):
        return f"{who}, {what}a gap of {min(case.beliefs.gaps):g}"
    return f"{who}, {what}a gap like that of {'the log' if isinstance(case.beliefs, Logged) else 'the game'}"
