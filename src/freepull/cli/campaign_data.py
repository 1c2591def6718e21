"""`freepull campaign`: ask, tell, look, and move data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from freepull.cli.campaign import Agent, number_or_word, verb
from freepull.cli.campaign import app as app
from freepull.cli.options import GAMES, build, build_game
from freepull.cli.screen import (
    AsJson,
    By,
    FileUrl,
    Name,
    StoreUrl,
    Url,
    answer,
    console,
    not_served,
    opened,
    secret,
    served,
    show_status,
    show_verdict,
    token,
    waits,
)
from freepull.errors import InvalidInput
from freepull.messages import Status, Told
from freepull.registry import choices

Found = TypeVar("Found")
DataFile = Annotated[Path, typer.Argument(help="A .parquet or .csv file.")]
Wait = Annotated[float, typer.Option(help="Seconds to wait for another process to let go of it.")]


@verb("Show the offer for an agent, if there is one.", "sqlite:///trial.db onboarding user-17")
def ask(url: Url, name: Name, agent: Agent, as_json: AsJson = False) -> None:
    """See the help."""
    with opened(url, name) as campaign:
        offer = campaign.ask(agent)
        none = "" if offer is not None or as_json else _no_offer(campaign.status())
    words = none if offer is None else f"{offer.bonus} for {offer.arm}, until {offer.expires:%Y-%m-%d %H:%M} UTC"
    answer(offer, as_json, words)


def _no_offer(status: Status) -> str:
    """Say that there is no offer, and why if that holds for everybody."""
    reasons = {
        "enrolling": f"{status.name} has not started",
        "paused": f"{status.name} is paused",
        "stopped": f"{status.name} has stopped",
        "decided": "it is decided",
        "over": "the horizon is reached",
        "observing": "nobody is paid yet, it only watches",
    }
    why = reasons.get(status.status) or reasons.get(status.phase or "")
    return f"no offer: {why}" if why else "no offer"


@verb("Tell a pull.", "sqlite:///trial.db onboarding user-17 B 0.8 --event v1")
def tell(
    url: Url,
    name: Name,
    agent: Agent,
    arm: Annotated[str, typer.Argument(help="The arm that was pulled.")],
    reward: Annotated[str, typer.Argument(help="The reward, in [0, 1] or on the campaign's scale.")],
    event: Annotated[str | None, typer.Option(help="An id that makes it safe to repeat.")] = None,
    number: Annotated[int | None, typer.Option(help="Or the agent's own number of the event: 1, 2, 3 …")] = None,
    as_json: AsJson = False,
) -> None:
    """See the help."""
    if event is not None and number is not None:
        raise InvalidInput("--event and --number must not both be given; one of them makes a pull safe to repeat.")
    with opened(url, name) as campaign:
        told = campaign.tell(agent, arm, _reward(reward), event if event is not None else number)
    answer(told, as_json, _noted(told))


@verb(
    "Say that an agent will act on its open offer, which stands longer then.", "sqlite:///trial.db onboarding user-17"
)
def accept(
    url: Url,
    name: Name,
    agent: Agent,
    offer: Annotated[int | None, typer.Option(help="The number of the offer that is meant.")] = None,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """See the help."""
    with opened(url, name) as campaign:
        found = campaign.accept(agent, by, offer)
    answer(found, as_json, f"{found.bonus} for {found.arm} stands until {found.expires:%Y-%m-%d %H:%M} UTC")


Event = Annotated[str, typer.Argument(help="The event id of the act.")]


@verb(
    "Say that a pull is made; its outcome is told later, by the same event.",
    "sqlite:///trial.db onboarding user-17 B visit-1",
)
def act(
    url: Url,
    name: Name,
    agent: Agent,
    arm: Annotated[str, typer.Argument(help="The arm that was pulled.")],
    event: Event,
    as_json: AsJson = False,
) -> None:
    """See the help."""
    with opened(url, name) as campaign:
        told = campaign.act(agent, arm, event)
    answer(told, as_json, _noted(told))


@verb("Tell the outcome of an act.", "sqlite:///trial.db onboarding user-17 visit-1 0.8")
def outcome(
    url: Url,
    name: Name,
    agent: Agent,
    event: Event,
    reward: Annotated[str, typer.Argument(help="The reward, in [0, 1] or on the campaign's scale.")],
    as_json: AsJson = False,
) -> None:
    """See the help."""
    with opened(url, name) as campaign:
        told = campaign.outcome(agent, event, _reward(reward))
    answer(told, as_json, _noted(told))


def _reward(given: str) -> float | str:
    """Return a reward as a number, or as the word that it is."""
    found = number_or_word(given)
    return given if found is None else found


def _noted(told: Told) -> str:
    """Say what became of a pull, an act or an outcome."""
    paid = f"; {told.paid} is paid" if told.paid else ""
    noted = "noted" if told.event is not None else "nothing noted, because this number was used before"
    waits = "; the bonus is paid with the outcome" if told.offer and told.outcome is None else ""
    return f"{noted}{paid}{waits}{'; the offer was refused' if told.outcome == 'refused' else ''}"


@verb("Show how the campaign stands.", "sqlite:///trial.db onboarding")
def status(url: Url, name: Name, as_json: AsJson = False) -> None:
    """See the help."""
    with opened(url, name) as campaign:
        found = campaign.status()
    _show(found, as_json, show_status)


@verb("Show which arm is best, and what that rests on.", "sqlite:///trial.db onboarding")
def verdict(url: Url, name: Name, as_json: AsJson = False) -> None:
    """See the help."""
    with opened(url, name) as campaign:
        found = campaign.verdict()
    _show(found, as_json, show_verdict)


def _show(found: Found, as_json: bool, show: Callable[[Found], None]) -> None:
    if as_json:
        answer(found, True, "")
    else:
        show(found)


@verb("Write observations or the ledger to a file.", "sqlite:///trial.db onboarding observations.parquet")
def export(
    url: Url,
    name: Name,
    path: DataFile,
    what: Annotated[str, typer.Option(help="observations or ledger.")] = "observations",
    as_json: AsJson = False,
) -> None:
    """See the help."""
    with opened(url, name) as campaign:
        rows = campaign.export(path, what)
    answer({"rows": rows, "path": str(path)}, as_json, f"{rows:,} rows are in {path}")


@verb(
    "Hand what is owed to a payer, and note what became of it; for every night, and safe to repeat at any time.",
    "sqlite:///trial.db onboarding --folder payouts",
)
def payout(
    url: Url,
    name: Name,
    folder: Annotated[Path | None, typer.Option(help="Write CSV files into this folder, for accounting.")] = None,
    to: Annotated[str | None, typer.Option(help="Or send every payment to this address, https://…")] = None,
    token_file: Annotated[Path | None, typer.Option(help="A file with the token that this address wants.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Try again what has failed before, under new keys.")] = False,
    as_json: AsJson = False,
) -> None:
    """See the help."""
    from freepull.payouts import FilePayer, HttpPayer, Payer
    from freepull.payouts import payout as pay

    if (folder is None) == (to is None):
        raise InvalidInput("a payout must have one payer; give --folder or --to, not both.")
    payer: Payer
    if folder is not None:
        payer = FilePayer(folder)
    else:
        payer = HttpPayer(to or "", "" if token_file is None else secret("--token-file", token_file))
    with opened(url, name) as campaign:
        found = pay(campaign, payer, failed=failed)
    told = {"paid": dict(found.paid), "left": dict(found.left), "complete": found.complete}
    answer(told, as_json, str(found))
    if not found.complete:
        raise typer.Exit(1)


@verb(
    "Say what became of payments: settled, failed, sent or open.",
    "sqlite:///trial.db onboarding settled --file payout-20270101T020000-001.csv",
)
def settle(
    url: Url,
    name: Name,
    state: Annotated[str, typer.Argument(help="settled, failed, sent, or open: nobody has it.")],
    entries: Annotated[str, typer.Option(help="Entries of the ledger, such as 1-20,25.")] = "",
    file: Annotated[Path | None, typer.Option(help="Or all that are in this file of a payout.")] = None,
    note: Annotated[str, typer.Option(help="What the payer calls it, or why it failed; no names.")] = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """See the help."""
    from freepull.messages import Move
    from freepull.payouts import first_key, read_payments

    if bool(entries) == (file is not None):
        raise InvalidInput("payments must be named by --entries, or be in a --file, but not both.")
    with opened(url, name) as campaign:
        failed = 0
        if file is None:
            numbers = _numbers(entries)
        else:
            rows = sorted({(int(row["entry"]), row["key"]) for row in read_payments(file)})
            known = {it.entry: it.key for it in campaign.ledger()}
            for entry, key in rows:
                if first_key(key) != first_key(known.get(entry, "")):
                    raise InvalidInput(f"--file must be of {name}, which has no payment {key}; choose another file.")
            numbers = [entry for entry, key in rows if key == known[entry]]
            failed = len(rows) - len(numbers)
        moved = campaign.settle([Move(entry, state, note) for entry in numbers], by=by)
    words = f"{moved:,} payments are {state} now; {len(numbers) - moved:,} were before"
    more = f"; {failed:,} are left out, which have failed since the file was written" if failed else ""
    answer({"moved": moved, "failed": failed}, as_json, words + more)


def _numbers(text: str) -> list[int]:
    """Read numbers such as 1-20,25."""
    found = list[int]()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        numbers = all(it.isascii() and it.isdigit() for it in (first, last or first))
        if not numbers or int(first) > int(last or first):
            raise InvalidInput(f"--entries must be numbers such as 1-20,25, got {text!r}.")
        if int(last or first) - int(first) >= 10_000:
            raise InvalidInput(f"--entries must be at most 10,000 at a time, got {part.strip()}; take fewer.")
        found += range(int(first), int(last or first) + 1)
    return found


@verb(
    "Tell the observations of a file, all or none; the columns are agent, arm, reward and perhaps event. They "
    "count as told now, so they take or refuse open offers. The same file counts once.",
    "sqlite:///trial.db onboarding pulls.csv",
    "import",
)
def import_file(
    url: Url,
    name: Name,
    path: DataFile,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """See the help."""
    with opened(url, name) as campaign:
        rows = campaign.import_observations(path, by)
    answer({"rows": rows}, as_json, f"{rows:,} new observations were told; whatever else the file has was known")


@verb("Replay the log and compare it with tables, ledger and snapshots.", "sqlite:///trial.db onboarding")
def verify(url: StoreUrl, name: Name, wait: Wait = 0.0, as_json: AsJson = False) -> None:
    """See the help."""
    from freepull.campaigns.journal.recovery import verify as check

    found = check(not_served(url), name, wait)
    words = f"{name} is right: {found.events:,} events, {found.entries:,} payments over {found.spent}"
    answer(found, as_json, words)


@verb(
    "Copy a campaign to another store, and compare every row.",
    "sqlite:///trial.db onboarding postgresql://user@host/trials",
)
def copy(
    url: StoreUrl,
    name: Name,
    target: Annotated[str, typer.Argument(help="The other store.")],
    wait: Wait = 0.0,
    as_json: AsJson = False,
) -> None:
    """See the help."""
    from freepull.campaigns.files import copy as copied

    rows = copied(not_served(url), target, name, wait)
    answer(rows, as_json, f"{name} is copied: {sum(rows.values()):,} rows, all of them compared")


@verb("List the campaigns.", "sqlite:///trial.db", "list")
def names(url: Url, as_json: AsJson = False) -> None:
    """See the help."""
    from contextlib import closing

    from freepull.campaigns.stores import connect

    if served(url):
        from freepull.client.client import Client

        with Client(url, token()) as client:
            found = [row.name for row in client.campaigns()]
    else:
        with closing(connect(url)) as store:
            found = store.campaigns()
    answer(found, as_json, "\n".join(found) or "none")


@verb("Copy the SQLite file; a service copies its own while campaigns go on.", "http://127.0.0.1:8000 backup.db")
def backup(
    url: FileUrl, path: Annotated[Path, typer.Argument(help="A file that does not exist yet.")], as_json: AsJson = False
) -> None:
    """See the help."""
    from contextlib import closing

    from freepull.campaigns.stores import connect

    if served(url):
        from freepull.client.client import Client

        with Client(url, token()) as client:
            client.backup(path)
    else:
        with closing(connect(url)) as store:
            store.backup(path)
    answer({"path": str(path)}, as_json, f"everything is in {path} as well")


@verb(
    "Put a backup in the place of a SQLite file that nobody has open, once all of it is verified; the old "
    "file is kept.",
    "sqlite:///trial.db backup.db",
)
def restore(
    url: Annotated[str, typer.Argument(help="sqlite:///file.db; the file may be damaged, or not there.")],
    path: Annotated[Path, typer.Argument(help="The backup, which stays as it is.")],
    as_json: AsJson = False,
) -> None:
    """See the help."""
    from freepull.campaigns.files import restore as restored

    if served(url):
        raise InvalidInput(
            f"url must be a store's, not a service's, got {url!r}; stop the service, restore its file with freepull "
            "campaign restore sqlite:///…, and start it again."
        )
    found = restored(url, path)
    events = sum(it.events for it in found.campaigns)
    kept = "there was no file before" if found.kept is None else f"what was there before is kept as {found.kept}"
    answer(found, as_json, f"{path} is restored: {len(found.campaigns):,} campaigns, {events:,} events; {kept}")


@verb(
    "Rehearse: let simulated agents play a campaign made for that. It starts if it has not, is closed to real "
    "agents, and its verdict is never certified.",
    "sqlite:///trial.db rehearsal --game toy --steps 500",
)
def play(
    url: StoreUrl,
    name: Name,
    game: Annotated[str, typer.Option(help=f"toy, a CSV file of means, one row per agent, or {GAMES}.")] = "toy",
    rewards: Annotated[str, typer.Option(help=f"Reward law: {choices('rewards')}.")] = "bernoulli",
    agents: Annotated[str | None, typer.Option(help=f"{choices('agents')}; alpha-ucb:2 by default.")] = None,
    answers: Annotated[str | None, typer.Option(help=f"{choices('answers')}; by default as the panel's.")] = None,
    steps: Annotated[int, typer.Option(help="How many steps.")] = 1000,
    seed: Annotated[int, typer.Option(help="Same seed, same bits.")] = 0,
    until: Annotated[str, typer.Option(help="Where it ends: at the horizon, or once decided.")] = "horizon",
    as_json: AsJson = False,
) -> None:
    """See the help."""
    from freepull.campaigns import Campaign
    from freepull.campaigns.rehearsal import play as rehearse

    if served(url):
        raise InvalidInput("a rehearsal must be in a store of its own; give sqlite:///… instead of a service.")
    with Campaign.open(url, name, wait=waits(url)) as campaign:
        if campaign.status().status == "enrolling":
            campaign.start()
        from freepull.simulation.facade import progress_bar

        with progress_bar("rehearsing", steps, False if as_json else None, "steps") as advance:
            rehearse(
                campaign,
                build_game(game, rewards, None),
                agents=None if agents is None else build("agents", agents),
                answers=None if answers is None else build("answers", answers),
                steps=steps,
                seed=seed,
                until=until,
                each_step=lambda t: advance(1),
            )
        found = campaign.status()
        said = campaign.verdict()
    if as_json:
        answer({"status": found, "verdict": said}, True, "")
    else:
        show_status(found)
        console.print(str(said), markup=False)
