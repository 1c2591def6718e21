"""The options that describe a principal, the same for every command that needs one."""

from __future__ import annotations

from typing import Annotated

import typer

from freepull.cli.parts import build, choices
from freepull.cli.rules import OWN, build_rule
from freepull.principal import Principal
from freepull.principal.rules.paper import BOUNDS

PRINCIPAL = "The principal"


def _option(help: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(help=help, rich_help_panel=PRINCIPAL)
    return option


RuleName = Annotated[str, _option(f"{', '.join(OWN)}; 'certified' is proven at every time.")]
Delta = Annotated[float, _option("The most that the probability of a wrong certified verdict may be.")]
Gap = Annotated[float | None, _option("certified, pairwise: a planned gap.")]
Robust = Annotated[
    float | None, _option("certified: verdicts must stand if payment, drift and the like move every mean by so much.")
]
Epsilon = Annotated[float | None, _option("pairwise: stop when the leader is best up to ε.")]
Pulls = Annotated[
    int | None, _option("population: look once, after so many pulls of every stream; after every number by default.")
]
Bound = Annotated[
    str | None, _option(f"paper: {', '.join(BOUNDS)} ('simplified' is a heuristic); 'equation' by default.")
]
Scale = Annotated[float | None, _option("paper: factor of 'simplified'; the authors' code has 0.1.")]
Observe = Annotated[str, _option(f"{choices('observe')}.")]
Protocol = Annotated[str, _option(f"{choices('protocol')}.")]
Offers = Annotated[str, _option("one offer a step, or each: up to one an agent.")]
Bonus = Annotated[float, _option("What an accepted offer pays, in units of reward.")]
Budget = Annotated[
    float | None,
    _option("The most that may be spent, in units of reward, as --bonus is: with a bonus of 1, how many bonuses."),
]


def build_principal(
    *,
    rule: str,
    delta: float,
    observe: str,
    protocol: str,
    offers: str,
    bonus: float,
    budget: float | None,
    **own: float | str | None,
) -> Principal:
    """Make the principal that the options describe; ``own`` are the options that belong to certain rules."""
    from freepull import checks
    from freepull.principal import OFFERS

    checks.one_of("--offers", offers, OFFERS)
    return Principal(
        rule=build_rule(rule, delta, **own),
        observe=build("observe", observe),
        protocol=build("protocol", protocol),
        offers=offers,
        bonus=bonus,
        budget=budget,
    )
