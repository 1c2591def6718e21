"""Games, principals and other parts from the command line, the same for every command that needs them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from freepull import registry, validation
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.instances import Family, means_from_csv, toy
from freepull.panels import PANELS
from freepull.principal import OFFERS, Principal
from freepull.principal.rules import Rule
from freepull.principal.rules.paper import BOUNDS
from freepull.registry import choices

PRINCIPAL = "The principal"
GAMES = ", ".join(f"{name}:agents=M,arms=K,gap=Δ" for name in PANELS)


def _option(help: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(help=help, rich_help_panel=PRINCIPAL)
    return option


RULES = ", ".join(rule.written for rule in registry.parts("rule"))
RuleName = Annotated[str, _option(f"{RULES}; 'certified' is proven at every time.")]
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


def build(kind: str, text: str, option: str | None = None) -> Any:
    """Make a part from its name and parameters: `name`, `name:value` or `name:parameter=value,…`.

    A part of one's own is named `package.module:Class`.
    """
    return registry.build(kind, text, f"--{option or kind}", own=True)


def build_rule(text: str, delta: float, **options: object) -> Rule:
    """Make a rule; an option that was given but belongs to another rule is refused."""
    told = registry.table("rule", text, "--rule", own=True)
    known = registry.complete("rule", told, "--rule", own=True)
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in known:
            name = text.partition(":")[0]
            theirs = " or ".join(rule.written for rule in registry.parts("rule") if option in rule.parameters)
            raise InvalidInput(f"--{option} must be left out with --rule {name}; it belongs to --rule {theirs}.")
        if option in told:
            raise InvalidInput(f"--{option} must be left out, because --rule {text} says {option} already.")
    first = {"delta": delta} if "delta" in known else {}
    found: Rule = registry.build("rule", first | told | given, "--rule", own=True)
    return found


def build_game(text: str, law: str, weights: str | None) -> Any:
    """Make a game from `toy`, `family:agents=30,sd=0.005`, or a CSV file of means, a row an agent; or a panel."""
    name, _, given = text.partition(":")
    if name == "toy" and not given and law == "bernoulli" and weights is None:
        return toy()
    if name in ("family", *PANELS) and (law != "bernoulli" or weights is not None):
        raise InvalidInput(f"--rewards and --weights must be left out with --game {name}, whose games are drawn.")
    if name in PANELS:
        return PANELS[name](**registry.read(f"--game {name}", registry.numeric(["agents", "arms", "gap"]), given))
    if name == "family":
        told = registry.read("--game family", registry.numeric(["agents", "sd"]), given)
        return Family(**{"agents": 30, **told})
    p = None if weights is None else [registry.number("--weights", part) for part in weights.split(",")]
    if name == "toy" and not given:
        means: Any = toy().means
    elif not Path(text).is_file():
        raise InvalidInput(
            f"--game must be toy, family:agents=M,sd=σ, {GAMES} or a CSV file of means that exists, got {text!r}."
        )
    else:
        try:
            means = means_from_csv(text, Path(text).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"--game {text} cannot be read: {error}; give a CSV file of means, a row an agent."
            ) from None
    return Game(means, rewards=build("rewards", law), weights=p)


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
    validation.one_of("--offers", offers, OFFERS)
    return Principal(
        rule=build_rule(rule, delta, **own),
        observe=build("observe", observe),
        protocol=build("protocol", protocol),
        offers=offers,
        bonus=bonus,
        budget=budget,
    )
