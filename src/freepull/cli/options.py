"""Games, principals and other parts from the command line, the same for every command that needs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from rich.markup import escape

from freepull import registry, validation
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.instances import Family, means_from_csv, toy
from freepull.money import Money
from freepull.panels import PANELS, Panel
from freepull.principal import OFFERS, Principal, for_people
from freepull.principal.rules import Rule
from freepull.principal.rules.paper import BOUNDS
from freepull.registry import choices

GAMES = ", ".join(f"{name}:agents=M,arms=K,gap=Δ" for name in PANELS)


def panel(title: str) -> Callable[..., typer.models.OptionInfo]:
    """Return what makes options that the help shows together, under a title."""

    def option(help: str, *flags: str) -> typer.models.OptionInfo:
        made: typer.models.OptionInfo = typer.Option(*flags, help=escape(help), rich_help_panel=title)
        return made

    return option


of_principal, of_runs, of_output = panel("The principal"), panel("The runs"), panel("Output")
RULES = ", ".join(rule.written for rule in registry.parts("rule"))
RuleName = Annotated[str, of_principal(f"{RULES}; 'certified' is proven at any time.")]
Delta = Annotated[float, of_principal("The most that the probability of a wrong certified verdict may be.")]
Gap = Annotated[float | None, of_principal("certified: the gap to plan for.")]
Robust = Annotated[
    float | None,
    of_principal("certified: verdicts must stand even if payment, drift and the like move every mean by this much."),
]
Epsilon = Annotated[float | None, of_principal("certified, comparisons: stop once an arm is within ε of the best.")]
Cap = Annotated[int | None, of_principal("comparisons: the most comparisons that one agent may have.")]
Late = Annotated[
    bool | None,
    of_principal("comparisons: outcomes may come late; say so of who asks and does nothing (pass-over).", "--late"),
]
Pulls = Annotated[
    int | None,
    of_principal("population: look once, after this many pulls of every stream; by default after each."),
]
Bound = Annotated[
    str | None, of_principal(f"paper: {', '.join(BOUNDS)} ('simplified' is a heuristic); 'equation' by default.")
]
Scale = Annotated[float | None, of_principal("paper: factor of 'simplified'; the authors' code has 0.1.")]
Observe = Annotated[str, of_principal(f"{choices('observe')}.")]
Protocol = Annotated[str, of_principal(f"{choices('protocol')}.")]
Offers = Annotated[str, of_principal("one offer a step, or each: up to one per agent.")]
Bonus = Annotated[float, of_principal("What an accepted offer pays, in units of reward.")]
Pricing = Annotated[str | None, of_principal(f"In place of --bonus: {choices('pricing')}.")]
Futility = Annotated[
    float, of_principal("certified: no offers while a verdict in time and budget is less likely than this; 0: never.")
]
Budget = Annotated[
    float | None,
    of_principal("The most that may be spent, in units of reward, as --bonus is: with a bonus of 1, how many bonuses."),
]
MoneyBudget = Annotated[
    str | None, of_principal('The most that may be spent, as in "100 EUR"; a plain number is in units of reward.')
]
Workers = Annotated[int | None, of_runs("How many runs at once; all cores by default.")]
AsJson = Annotated[bool, of_output("Print JSON and nothing else.", "--json")]


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
    """Make a game from `toy`, `family:agents=30,sd=0.005`, or a CSV file of means, one row per agent; or a panel."""
    name, _, given = text.partition(":")
    if name == "toy" and not given and law == "bernoulli" and weights is None:
        return toy()
    if name in ("family", *PANELS) and (law != "bernoulli" or weights is not None):
        raise InvalidInput(f"--rewards and --weights must be left out with --game {name}, whose games are drawn.")
    if name in PANELS:
        return build_panel(text, "--game")
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
                f"--game {text} cannot be read: {error}; give a CSV file of means, one row per agent."
            ) from None
    return Game(means, rewards=build("rewards", law), weights=p)


def build_panel(text: str, option: str = "--panel") -> Panel:
    """Make a panel from `street:agents=500,arms=4,gap=0.05` or `ideal`."""
    name, _, given = text.partition(":")
    validation.one_of(option, name, PANELS)
    return PANELS[name](**registry.read(f"{option} {name}", registry.numeric(["agents", "arms", "gap"]), given))


def build_principal(
    *,
    rule: str,
    delta: float,
    observe: str,
    protocol: str,
    offers: str,
    bonus: float,
    budget: float | None,
    pricing: str | None = None,
    futility: float = 0.0,
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
        pricing=None if pricing is None else build("pricing", pricing),
        futility=futility,
    )


def budget_of(budget: str | None, price: str) -> tuple[float | None, str | None]:
    """Return a budget that is given as a number, in units of reward, and one that is given as money."""
    if budget is None:
        return None, None
    try:
        return float(budget), None
    except ValueError:
        money, cost = Money.parse("--budget", budget), Money.price(price)
    if money.currency != cost.currency:
        raise InvalidInput(f"--budget must be in {cost.currency}, as the price is, got {money}.")
    return None, budget


def build_for_people(told: dict[str, Any], horizon: int | None) -> Principal:
    """Make the principal of a campaign: unless another rule is named, what is left out is as in `for_people`."""
    given = {name: value for name, value in told.items() if value is not None}
    usual: dict[str, Any] = {name: default for name, (_, default) in PRINCIPALS.items()}
    best = for_people(horizon)
    written = next(rule.written for rule in registry.parts("rule") if rule.made is type(best.rule))
    if given.get("rule", written) != written:
        return build_principal(**usual | given)
    own: dict[str, Any] = {name: getattr(best.rule, name) for name in PRINCIPALS if hasattr(best.rule, name)}
    made = build_principal(**usual | own | {"rule": written, "offers": best.offers} | given)
    kept = {name: getattr(best, name) for name in ("observe", "protocol") if name not in given}
    return replace(made, **kept)


PRINCIPALS = {
    "rule": (RuleName, "certified"),
    "delta": (Delta, 0.05),
    "gap": (Gap, None),
    "robust": (Robust, None),
    "epsilon": (Epsilon, None),
    "cap": (Cap, None),
    "late": (Late, None),
    "pulls": (Pulls, None),
    "bound": (Bound, None),
    "scale": (Scale, None),
    "observe": (Observe, "share:0.5"),
    "protocol": (Protocol, "take-or-ban"),
    "offers": (Offers, "each"),
    "bonus": (Bonus, 1.0),
    "budget": (Budget, None),
    "pricing": (Pricing, None),
    "futility": (Futility, 0.0),
}
"""The options of a principal, and their defaults."""


LEFT_OUT = ("rule", "delta", "observe", "protocol", "offers")
"""Options that campaigns need not be given, because there is a best for people."""


def describe_principal(people: bool = False, **defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command all options of a principal; it gets what they describe as its parameter ``principal``.

    Where it is for ``people`` and no other rule is named, what is left out is as in `for_people`; a budget that is
    money is then its parameter ``money``.
    """
    options = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            annotation=kind if not people else MoneyBudget if name == "budget" else _optional(kind),
            default=None if people and name in LEFT_OUT else defaults.get(name, usual),
        )
        for name, (kind, usual) in PRINCIPALS.items()
    ]

    def give(command: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            told = {name: given.pop(name) for name in PRINCIPALS}
            if people:
                told["budget"], given["money"] = budget_of(told["budget"], given["price"])
            made = build_for_people(told, given["horizon"]) if people else build_principal(**told)
            command(principal=made, **given)

        types = get_type_hints(command, include_extras=True)
        shown = (it for it in signature(command).parameters.values() if it.name != "money")
        own = [it.replace(annotation=types[it.name]) for it in shown]
        place = [it.name for it in own].index("principal")
        parameters = [*own[:place], *options, *own[place + 1 :]]
        made: Any = run
        made.__name__, made.__doc__, made.__signature__ = command.__name__, command.__doc__, Signature(parameters)
        made.__annotations__ = {it.name: it.annotation for it in parameters}
        return run

    return give


def _optional(kind: Any) -> Any:
    """Return the type of an option that may be left out."""
    own, *about = get_args(kind)
    return Annotated[own | None, *about]
