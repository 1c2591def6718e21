"""What commands share: where a campaign is, and how results, answers and errors are shown."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from freepull.errors import FreepullError, InvalidInput
from freepull.messages import AuditEntry, CampaignVerdict, Check, Difference, Status
from freepull.money import Money

if TYPE_CHECKING:
    from freepull.commands import CampaignVerbs
    from freepull.simulation import Result


PREFIX = "FREEPULL_"
MOST = 1 << 16
"""Bytes of a file with a secret."""
console = Console(highlight=False, emoji=False)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Command = TypeVar("Command", bound=Callable[..., Any])


def sentence_errors(command: Command) -> Command:
    """Turn freepull's own errors, and those of disk and memory, into one sentence on standard error and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except FreepullError as error:
            said = str(error)
        except MemoryError:
            said = "this needs more memory than there is; ask for less, or take a larger machine."
        except OSError as error:
            said = f"{error.filename or 'a file'} could not be read or written: {error.strerror or error}."
        Console(stderr=True, highlight=False, emoji=False, soft_wrap=True).print(f"[red]error:[/red] {escape(said)}")
        raise typer.Exit(2)

    return cast(Command, wrapped)


def show_result(result: Result) -> None:
    """Print the summary and the payment matrix."""
    from freepull.simulation.results import RATES

    told = result.provenance
    finished, seconds = told["finished"], told["seconds"]
    console.print(f"[bold]{told['parameters']['rule']}[/bold]")
    console.print(f"about {told['parameters']['target']}")
    if result.interrupted:
        console.print("interrupted: only the runs that were finished are counted")
    console.print(
        f"{finished} runs of {told['parameters']['horizon']:,} steps in {seconds:.3g} s ({told['engine']} engine)"
    )
    table = Table("", "mean", "95 % interval", "runs")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, mean, low, high, runs in result.summary().iter_rows():
        show = percent if name in RATES else number
        table.add_row(name, show(mean), f"{show(low)} … {show(high)}" if low == low else "–", str(runs))
    console.print(table)
    if result.paid.any():
        console.print(payments(result))


def payments(result: Result) -> Table:
    """Return the mean number of bonuses per agent and arm; the ten agents who got most, if there are many."""
    agents, arms = result.paid.shape
    table = Table("paid to", *(f"arm {k}" for k in range(arms)) if arms <= 8 else ("all arms",))
    for column in table.columns[1:]:
        column.justify = "right"
    most = sorted(range(agents), key=lambda m: (-result.paid[m].sum(), m))[:10]
    for m in sorted(most):
        cells = result.paid[m] if arms <= 8 else [result.paid[m].sum()]
        table.add_row(f"agent {m}", *(number(float(x)) for x in cells))
    if agents > 10:
        table.add_row(f"{agents - 10} others", *([""] * (len(table.columns) - 1)))
    return table


def number(value: float) -> str:
    """Show a number so that people can read it."""
    if value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def percent(value: float) -> str:
    """Show a rate."""
    return "–" if value != value else f"{100 * value:.1f} %"


def check_target(option: str, target: Path, suffix: str) -> None:
    """Refuse a target that cannot be written, in one sentence."""
    if target.suffix != suffix or target.is_dir():
        raise InvalidInput(f"{option} must be a file that ends in {suffix}, got {str(target)!r}.")
    if not target.parent.is_dir():
        raise InvalidInput(
            f"{option} cannot be written to {target}, because there is no folder {target.parent}; make it first."
        )
    there = target.exists()
    try:
        target.open("a").close()
        if not there:
            target.unlink()
    except OSError as error:
        raise InvalidInput(
            f"{option} cannot be written to {target}, because you may not write there ({error.strerror}); choose "
            "another place."
        ) from None


WIDE = 1000
"""Columns of a table that no terminal shows, but another program."""
LONGEST = 160
"""Characters of a detail in a table; --json has all of it."""
Url = Annotated[
    str, typer.Argument(help="sqlite:///file.db, postgresql://…, or a running service, http://…, with FREEPULL_TOKEN.")
]
StoreUrl = Annotated[
    str, typer.Argument(help="sqlite:///file.db or postgresql://…; of a running service, a backup of its file.")
]
FileUrl = Annotated[
    str, typer.Argument(help="sqlite:///file.db, or a running service on one, http://…, with FREEPULL_TOKEN.")
]
Name = Annotated[str, typer.Argument(help="The campaign's name.")]
By = Annotated[str, typer.Option(help="Who does it, for the audit.")]
WAIT = 10.0
"""Seconds to wait for a lease that has not run out; a file that is open elsewhere is refused at once."""


@contextmanager
def opened(url: str, name: str) -> Iterator[CampaignVerbs]:
    """Open a campaign for one command, or ask the service that has it."""
    if served(url):
        from freepull.client.client import Client

        with Client(url, token()) as client:
            yield client.campaign(name)
        return
    from freepull.campaigns import Campaign

    with Campaign.open(url, name, wait=waits(url)) as campaign:
        yield campaign


@contextmanager
def created(url: str, by: str, **settings: Any) -> Iterator[CampaignVerbs]:
    """Make a campaign in a store, or with a service."""
    if served(url):
        from freepull.client.client import Client
        from freepull.client.talks import nobody

        nobody(by)
        with Client(url, token()) as client:
            yield client.create(**settings)
        return
    from freepull.campaigns import Campaign

    with Campaign.create(url, by=by, **settings) as campaign:
        yield campaign


def waits(url: str) -> float:
    """Return how many seconds to wait for another owner to let go."""
    return 0.0 if url.startswith("sqlite") else WAIT


def not_served(url: str) -> str:
    """Return the URL of a store; a service's is none."""
    if served(url):
        raise InvalidInput(
            f"url must be a store's, not a service's, got {url!r}; take a backup with freepull campaign backup {url} "
            "copy.db, and give sqlite:///copy.db."
        )
    return url


def served(url: str) -> bool:
    """Say whether a URL is that of a service."""
    return url.startswith(("http://", "https://"))


def token() -> str:
    """Return the token that commands send."""
    found = from_environment("TOKEN")
    if found is None:
        raise InvalidInput(
            "FREEPULL_TOKEN must hold a token of the service that may do this, or FREEPULL_TOKEN_FILE name a file that "
            "does; freepull token new makes one."
        )
    return found


def plain(value: Any) -> Any:
    """Return an answer as plain data: money and times as text."""
    if isinstance(value, Money):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not -1e308 < value < 1e308 else value


def answer(value: Any, as_json: bool, words: str) -> None:
    """Print an answer: JSON, or words for people."""
    if as_json:
        typer.echo(msgspec.json.encode(plain(value)).decode())
    else:
        console.print(escape(words))


def show_rows(rows: Iterable[Any], kind: type, as_json: bool) -> None:
    """Print rows: JSON, one per line, or a table."""
    if as_json:
        for row in rows:
            typer.echo(msgspec.json.encode(plain(row)).decode())
        return
    names = [field.name for field in fields(kind)]
    table = Table()
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name == "id")  # an id is copied
    for row in rows:
        table.add_row(*(escape(_cell(getattr(row, name)) or _nobody(row)) for name in names))
    (console if console.is_terminal else Console(width=WIDE)).print(table)


def _nobody(row: Any) -> str:
    """Say who did what nobody put a name to; other cells stay empty."""
    return ("the campaign" if row.its_own else "not said, --by was left out") if isinstance(row, AuditEntry) else ""


def _cell(given: Any) -> str:
    if isinstance(given, datetime):
        return f"{given:%Y-%m-%d %H:%M:%SZ}"
    value = plain(given)
    if isinstance(value, dict):
        text = msgspec.json.encode(value).decode()
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return "–" if value is None else str(value)


def show_status(status: Status) -> None:
    """Print how a campaign stands."""
    phase = (f", {status.phase}" if status.phase else "") + (", a rehearsal" if status.rehearsal else "")
    console.print(f"[bold]{escape(status.name)}[/bold]: {status.status}{phase}{escape(_because(status.why))}")
    step = f"step {status.step:,}" + (f" of {status.horizon:,}" if status.horizon else "")
    console.print(f"{step}, {status.observations:,} observations of {_acted(status)} agents, {status.mode} mode")
    budget = f" of {status.budget}" if status.budget is not None else ""
    console.print(f"spent {status.spent}{budget}, reserved {status.reserved}")
    console.print(
        f"offers: {status.offered:,} made, {status.open_offers:,} open, {status.paid:,} paid, "
        f"{status.refused:,} refused, {status.expired:,} expired, {status.cancelled:,} cancelled"
        f"{f', {status.lapsed:,} lapsed' if status.lapsed else ''}; "
        f"{status.banned:,} agents banned, {status.absent:,} absent"
    )
    if status.clipped:
        console.print(f"{status.clipped:,} rewards lay outside {status.scale}, and count as its ends")
    if status.open_acts or status.never_came:
        console.print(f"outcomes: {status.open_acts:,} to come, {status.never_came:,} that did not come in time")
    if status.held:
        console.print(status.held)
    for check in status.checks:
        if check.alarmed:
            console.print(f"[bold]alarm[/bold]: {escape(str(check))}")
    if status.awaited:
        console.print(f"waiting for {escape(', '.join(status.awaited))}; {escape(status.remedy)}")
    console.print(_arms(status))
    if status.comparisons is not None:
        console.print(
            f"{status.comparisons:,} comparisons were opened; the leader is the one with the largest mean in them"
        )
    show_differences(status.differences, status.decided)
    show_checks(status.checks)
    if status.survives is not None:
        from freepull.principal.verdict import tipping_point

        console.print(f"the verdict {tipping_point(status.survives)}")
    if status.threshold is not None:
        console.print(f"an arm goes when the evidence against it reaches {number(status.threshold)}")
    if status.within is not None and status.leader is not None:
        decides = "" if status.decided else f"; it is decided at {number(status.threshold or 0.0)}"
        console.print(
            f"that {escape(status.leader)} is at most ε = {status.epsilon:g} worse than every other arm that is in has "
            f"evidence {number(status.within)}{decides}"
        )


def _arms(status: Status) -> Table:
    """Return every arm as it stands; means are of agents' own means, and in comparisons where there are any."""
    compares = status.comparisons is not None
    bound = "bound" if status.threshold is None else "evidence"
    mean = f"mean per agent, {status.scale}" if status.scale else "mean per agent"
    table = Table("arm", "in", mean, *(["in comparisons"] if compares else []), bound, "pulls", "paid")
    for arm in status.arms:
        numbers = (arm.mean, *([arm.compared] if compares else []), arm.bound)
        known = (float("nan") if it is None else it for it in numbers)
        cells = *(number(it) if not it >= 1e300 else "∞" for it in known), f"{arm.pulls:,}", f"{arm.paid:,}"
        table.add_row(escape(arm.name), "yes" if arm.active else "withdrawn" if arm.withdrawn else "out", *cells)
    return table


def show_verdict(verdict: CampaignVerdict) -> None:
    """Print a verdict and what it rests on."""
    console.print(escape(str(verdict)))
    show_differences(verdict.differences, verdict.decided)
    show_checks(verdict.checks)
    console.print(escape(str(verdict.rests_on)))


def _acted(status: Status) -> str:
    """Say how many agents there are, and of how many something was heard, if not of all."""
    return f"{status.agents:,}" if status.acted == status.agents else f"{status.acted:,} of {status.agents:,}"


def show_differences(differences: list[Difference], decided: bool) -> None:
    """Print how much better arms are, where that is known; once it is decided, as it was then."""
    if differences and decided:
        console.print("as it was at the decision:")
    for it in differences:
        console.print(escape(str(it)))


def show_checks(checks: list[Check]) -> None:
    """Print how the checks of assumptions stand, where there are any."""
    for it in checks:
        console.print(f"check, {escape(str(it))}")


def _because(why: str) -> str:
    return f" ({why})" if why else ""


def secret(name: str, path: Path) -> str:
    """Return what a file holds, without the end of its line; messages name the file and never its content."""
    try:
        with path.open("rb") as file:
            held = file.read(MOST + 1)
    except OSError as error:
        raise InvalidInput(f"{name} must name a file that can be read, got {str(path)!r} ({error.strerror}).") from None
    try:
        text = held.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        text = ""
    if not text or len(held) > MOST or len(text.splitlines()) != 1:
        raise InvalidInput(f"{name} must name a file that holds one line of text, and {str(path)!r} does not.")
    return text


def from_environment(name: str) -> str | None:
    """Return a secret of the environment: FREEPULL_NAME, or what the file FREEPULL_NAME_FILE holds; not both."""
    given, file = os.environ.get(PREFIX + name, ""), os.environ.get(f"{PREFIX}{name}_FILE", "")
    if given and file:
        raise InvalidInput(f"{PREFIX}{name} and {PREFIX}{name}_FILE must not both be set; leave one of them out.")
    return secret(f"{PREFIX}{name}_FILE", Path(file)) if file else given or None


def use_password(path: Path, name: str = f"{PREFIX}PASSWORD_FILE") -> None:
    """Let PostgreSQL's library have the password of a file, for every connection whose URL has none.

    It goes by the environment of this process from here on, which neither `ps` nor /proc shows.
    """
    os.environ["PGPASSWORD"] = secret(name, path)
