"""`freepull campaign`: make a campaign, and change it."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec
import typer

from freepull.cli import options
from freepull.cli.screen import AsJson, By, Name, Url, answer, created, opened, sentence_errors, show_rows
from freepull.commands import COMMANDS, Command, Shell
from freepull.errors import InvalidInput
from freepull.principal import Principal
from freepull.principal.schedules import Schedule, Share, Steps

Run = TypeVar("Run", bound=Callable[..., Any])
app = typer.Typer(
    help="Live campaigns: a trial made durable, with a log, a ledger and a verdict.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
Agent = Annotated[str, typer.Argument(help="The agent's name, or # and its number.")]
of_campaign = options.panel("The campaign")
NONE = "none"
"""Stands for nothing, such as no limit."""
NEW = """Make a campaign; agents can enrol until it starts.

Example: freepull campaign new sqlite:///trial.db onboarding --arms A,B,C --agents users.txt --price "0.50 EUR"
--horizon 60"""


@app.command("new", help=NEW)
@sentence_errors
@options.describe_principal(people=True)
def new(
    *,
    url: Url,
    name: Name,
    arms: Annotated[str, of_campaign("Names of the arms, such as A,B,C.")],
    price: Annotated[str, of_campaign('What one bonus costs, such as "0.50 EUR"; with --pricing, a bonus of 1.')],
    agents: Annotated[str, of_campaign("A file with one name per line, or how many agents without names.")] = "0",
    mode: Annotated[str, of_campaign("free, or rounds: everybody acts once a round, as in the paper.")] = "free",
    horizon: Annotated[int | None, of_campaign("T, in steps; some rules and schedules need it.")] = None,
    ends: Annotated[str | None, of_campaign("When it stops, such as 2030-01-31T12:00+00:00.")] = None,
    leavers: Annotated[str, of_campaign("What becomes of agents who leave: wait or independent.")] = "wait",
    offer_lasts: Annotated[str, of_campaign("How long an offer stands before it expires.")] = "1 day",
    cool_down: Annotated[str, of_campaign("For how long after an expired offer its agent gets no other.")] = "1 hour",
    round_lasts: Annotated[str | None, of_campaign("rounds: the longest that a round stays open.")] = None,
    late_joiners: Annotated[
        str, of_campaign("Agents who join after the start: observe them, or count them in a wider panel.")
    ] = "observe",
    withdrawal: Annotated[bool, of_campaign("comparisons: arms may be withdrawn.")] = False,
    remembers: Annotated[str, of_campaign("How long event ids are remembered.")] = "30 days",
    checks: Annotated[bool, of_campaign("comparisons: check assumptions beside the trial.")] = True,
    accept_within: Annotated[
        str | None, of_campaign("How long an offer holds its bonus unless it is accepted, such as 15 minutes.")
    ] = None,
    reward_scale: Annotated[
        str | None, of_campaign("From what to what rewards run: 1..5, 0..50 EUR (clipped) or yes/no [0..1].")
    ] = None,
    pay_on: Annotated[str, of_campaign("Whether the act is paid, or its outcome.")] = "act",
    outcome_within: Annotated[str | None, of_campaign("How long the outcome of an act is waited for.")] = None,
    if_no_outcome: Annotated[
        str | None, of_campaign("What counts if it never comes: a reward, or missing (comparisons), at its worst.")
    ] = None,
    principal: Principal,
    money: str | None = None,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """See NEW."""
    with created(
        url,
        name=name,
        principal=principal,
        price=price,
        arms=[arm.strip() for arm in arms.split(",")],
        agents=read_agents(agents),
        mode=mode,
        horizon=horizon,
        ends=ends,
        checks=None if checks else False,
        leavers=leavers,
        late_joiners=late_joiners,
        withdrawal=withdrawal,
        offer_lasts=offer_lasts,
        round_lasts=round_lasts,
        cool_down=cool_down,
        remembers=remembers,
        accept_within=accept_within,
        pay_on=pay_on,
        outcome_within=outcome_within,
        if_no_outcome=number_or_word(if_no_outcome),
        scale=reward_scale,
        budget=money,
        by=by,
    ) as campaign:
        status = campaign.status()
        limit = "no budget is set" if status.budget is None else f"it may spend {status.budget}"
        made = f"{name} is made, with {status.agents:,} agents; {limit}; {_watching(principal.observe, horizon, mode)}"
        answer(status, as_json, f"{made}; start it when they have enrolled")


def number_or_word(given: str | None) -> float | str | None:
    """Return a number if that is what was given."""
    try:
        return None if given is None else float(given)
    except ValueError:
        return given


def _watching(observe: Schedule, horizon: int | None, mode: str) -> str:
    """Say how long nobody is paid."""
    if isinstance(observe, Steps) and observe.n == 0:
        return "it does not watch first, but offers bonuses from the start" + ("" if horizon else " (no --horizon)")
    long = "a step is as many pulls as there are agents" if mode == "free" else "a step is a round"
    if isinstance(observe, Share) and horizon is not None:
        return f"the first {observe.rho:.3g} of its {horizon:,} steps are only watched, and {long}"
    return f"it watches first, by {observe!r}, and {long}"


def read_agents(given: str) -> list[str] | int:
    """Read agents: how many, or a file with one name per line."""
    if given.isascii() and given.isdigit():
        return int(given) if int(given) else []
    if not Path(given).is_file():
        raise InvalidInput(f"--agents must be a number, or a file with one name per line that exists, got {given!r}.")
    try:
        return [line.strip() for line in Path(given).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--agents {given} cannot be read: {error}.") from None


def verb(words: str, example: str, called: str = "") -> Callable[[Run], Run]:
    """Declare a verb: what it does, what an example of it is given, and its name, if not that of the function."""

    def declare(run: Run) -> Run:
        name, safe = called or run.__name__, sentence_errors(run)
        app.command(name, help=f"{words}\n\nExample: freepull campaign {name} {example}")(safe)
        return safe

    return declare


@verb("Add agents.", "sqlite:///trial.db onboarding more-users.txt")
def enrol(
    url: Url,
    name: Name,
    agents: Annotated[str, typer.Argument(help="A file with one name per line, or how many agents without names.")],
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """See the help."""
    with opened(url, name) as campaign:
        numbers = campaign.add_agents(read_agents(agents), by=by)
        answer({"agents": numbers}, as_json, f"{len(numbers):,} agents were added to {name}")


@verb("Erase agents' names for good.", "sqlite:///trial.db onboarding user-17")
def erase(
    url: Url,
    name: Name,
    agents: Annotated[list[str] | None, typer.Argument(help="The agents; all of them with --all.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Erase all names.")] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Also of those who are still owed something.")] = False,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """See the help."""
    if bool(agents) == everybody:
        raise InvalidInput("agents must be named, or all of them meant by --all, but not both.")
    with opened(url, name) as campaign:
        campaign.erase_names(None if everybody else agents, by, anyway)
        answer({"erased": agents}, as_json, "the names are erased; the log knows agents by number")


def _offer(command: type[Command[Any]], shell: Shell) -> None:
    """Make a shell's command of a campaign's: what must be given is an argument, the rest are options."""

    def run(url: str, name: str, as_json: bool, **given: Any) -> None:
        said = {field: None if value == NONE and field in optional else value for field, value in given.items()}
        with opened(url, name) as campaign:
            reply = campaign.do(command(**said))
            if reply is None:
                status = campaign.status()
                answer(status, as_json, shell.done.format(status=status, **given))
            else:
                show_rows(reply, get_args(command.replies())[0], as_json)

    optional = {name for name, kind in get_type_hints(command).items() if type(None) in get_args(kind)}
    fields = [_field(field) for field in msgspec.structs.fields(command)]
    parameters = [_parameter("url", Url), _parameter("name", Name), *fields, _parameter("as_json", AsJson, False)]
    own: Any = run
    own.__signature__ = Signature(parameters)
    own.__annotations__ = {it.name: it.annotation for it in parameters}
    words = (command.__doc__ or "").partition(";")[0].rstrip(".")
    called = command.verb.replace("_", "-")
    verb(f"{words}.", f"sqlite:///trial.db onboarding {shell.example}".rstrip(), called)(own)


def _field(field: msgspec.structs.FieldInfo) -> Parameter:
    kind, meta = get_args(field.type)
    made = (typer.Argument if field.required else typer.Option)(help=meta.description)
    default = Parameter.empty if field.required else field.default
    kinds = [it.__origin__ if hasattr(it, "__metadata__") else it for it in (kind, *get_args(kind))]
    whole = int in kinds and str not in kinds
    return _parameter(field.name, Annotated[int if whole else str, made], default)


def _parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


for _command in COMMANDS:
    if _command.shell is not None:
        _offer(_command, _command.shell)
