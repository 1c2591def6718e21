"""What the campaign commands share: where a campaign is, and how answers are shown."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from freepull.cli.screen import console, number
from freepull.commands import CampaignVerbs
from freepull.errors import InvalidInput
from freepull.messages import CampaignVerdict, Status
from freepull.money import Money
from freepull.principal.verdict import tipping_point

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
    found = os.environ.get("FREEPULL_TOKEN", "")
    if not found:
        raise InvalidInput("FREEPULL_TOKEN must hold an admin's token to ask a service; freepull token new makes one.")
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
        table.add_row(*(escape(_cell(getattr(row, name))) for name in names))
    (console if console.is_terminal else Console(width=WIDE)).print(table)


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
    console.print(f"{step}, {status.observations:,} observations of {status.agents:,} agents, {status.mode} mode")
    budget = f" of {status.budget}" if status.budget is not None else ""
    console.print(f"spent {status.spent}{budget}, reserved {status.reserved}")
    console.print(
        f"offers: {status.offered:,} made, {status.open_offers:,} open, {status.paid:,} paid, "
        f"{status.refused:,} refused, {status.expired:,} expired, {status.cancelled:,} cancelled; "
        f"{status.banned:,} agents banned, {status.absent:,} absent"
    )
    if status.awaited:
        console.print(f"waiting for {escape(', '.join(status.awaited))}")
    table = Table("arm", "in", "mean", "bound", "pulls", "paid")
    for arm in status.arms:
        mean, bound = (float("nan") if it is None else it for it in (arm.mean, arm.bound))
        cells = number(mean), number(bound) if bound < 1e300 else "∞", f"{arm.pulls:,}", f"{arm.paid:,}"
        table.add_row(escape(arm.name), "yes" if arm.active else "withdrawn" if arm.withdrawn else "out", *cells)
    console.print(table)
    if status.survives is not None:
        console.print(f"the verdict {tipping_point(status.survives)}")
    if status.threshold is not None:
        console.print(f"an arm goes when its bound, the evidence against it, reaches {number(status.threshold)}")


def show_verdict(verdict: CampaignVerdict) -> None:
    """Print a verdict and what it rests on."""
    console.print(escape(str(verdict)))
    console.print(escape(str(verdict.rests_on)))


def _because(why: str) -> str:
    return f" ({why})" if why else ""
