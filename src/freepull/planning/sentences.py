"""What a reader of a plan must know first, in sentences."""

from __future__ import annotations

from freepull.planning import formulas, words
from freepull.planning.beliefs import Guess, Logged
from freepull.planning.curves import CHANCE
from freepull.planning.first import First
from freepull.planning.forecast import Case, Forecast
from freepull.planning.words import Price

HOPELESS = 0.05
"""Below this chance of a certified answer a wish is called impossible."""
SAME_LOG = (
    "Do not import this log into the trial: a plan must be fixed before the first reward that counts, so the trial may "
    "use only what is observed after the plan."
)


def sentences(
    case: Case, at_once: First, found: Forecast | None, needed: int | None, price: Price | None, interrupted: bool
) -> tuple[str, ...]:
    """Return them, most important first."""
    told = []
    if found is not None:
        told.append(_headline(case, found, price))
        if found.chance[0] < CHANCE:
            told.append(_wish(case, at_once, found.chance[0], needed))
    else:
        told += _by_formula(case, at_once, price)
    if not at_once.alpha_ucb and (found is None or at_once.lower_bound > 0):
        told.append("The formulas take the agents for α-UCB learners, which they are not all; the simulation does not.")
    if isinstance(case.beliefs, Logged):
        told.append(SAME_LOG)
    if interrupted:
        told.append("The simulation was interrupted: what is missing was not simulated.")
    return tuple(told)


def _headline(case: Case, found: Forecast, price: Price | None) -> str:
    middle = found.decided(0.5) if found.chance[0] >= HOPELESS else None
    when = "" if middle is None else f", half of these by step {middle:,.0f}"
    return (
        f"Expect to pay {words.spend(found.mean, price, ' bonuses')}; 9 of 10 such trials pay "
        f"{words.between(*found.range(0.9), price)}. {words.percent(found.chance[0])} end with a certified answer "
        f"within {case.horizon:,} steps{when}."
    )


def _wish(case: Case, at_once: First, chance: float, needed: int | None) -> str:
    """Say what cannot be had, and with how many agents it could; by formulas, where the search did not get there."""
    whom = f"With {words.people(case.agents)} acting {case.horizon:,} times, {_target(case)}"
    at = f"at δ = {case.principal.rule.delta:g}"
    if chance < HOPELESS:
        cannot = f"{whom} cannot be certified {at}" + (f" ({words.percent(chance)} of trials)" if chance else "")
        if needed is None and case.agents < at_once.agents_needed < formulas.MOST_AGENTS:
            return f"{cannot}; by the formulas about {words.rounded(at_once.agents_needed):,} agents could."
        return cannot + (f"; about {words.rounded(needed):,} agents could, in {100 * CHANCE:g} %." if needed else ".")
    rest = f"; about {words.rounded(needed):,} agents would make it {100 * CHANCE:g} %." if needed else "."
    return f"{whom} is certified {at} in {words.percent(chance)} of trials{rest}"


def _by_formula(case: Case, at_once: First, price: Price | None) -> list[str]:
    told = []
    if at_once.possible < 0.5:
        whom = f"With {words.people(case.agents)} acting {case.horizon:,} times, {_target(case)}"
        could = at_once.agents_needed
        rest = f"; about {words.rounded(could):,} agents could" if could < formulas.MOST_AGENTS else ""
        told.append(f"{whom} can hardly be certified at δ = {case.principal.rule.delta:g}, by the formulas{rest}.")
    if at_once.doubt == "near zero":
        told.append("The formulas put the spend close to zero, where they are unreliable: simulate it.")
    if at_once.spend is not None:
        told.append(f"The formulas put the spend at about {words.spend(at_once.spend, price, ' bonuses')}.")
    return told


def _target(case: Case) -> str:
    if isinstance(case.beliefs, Guess):
        return f"a gap of {min(case.beliefs.gaps):g}"
    return f"a gap like that of {'the log' if isinstance(case.beliefs, Logged) else 'the game'}"
