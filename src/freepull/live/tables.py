"""The tables of a campaign as people read them: names instead of numbers, dates, money."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from freepull.live.batches import Register
from freepull.live.rows import Row
from freepull.live.stores import Store
from freepull.live.times import shown
from freepull.messages import AuditEntry, BanRow, LedgerEntry, OfferRow
from freepull.money import Money
from freepull.principal.protocols import FOREVER


def ledger(store: Store, register: Register, after: int = 0) -> Iterator[LedgerEntry]:
    """Return what was paid, from behind an entry on."""
    for entry, offer, agent, arm, amount, currency, at in store.read(register.campaign, "ledger", (after,)):
        yield LedgerEntry(entry, offer, register.shown(agent), register.arms[arm], Money(amount, currency), shown(at))


def offers(store: Store, register: Register, after: int = 0) -> Iterator[OfferRow]:
    """Return all offers, from behind an offer on."""
    for row in store.read(register.campaign, "offers", (after,)):
        yield offer_row(register, row)


def offer_row(register: Register, row: Row) -> OfferRow:
    """Return one offer as people read it."""
    offer, agent, arm, step, at, deadline, recalled, ending, ended = row
    return OfferRow(
        offer=offer,
        agent=register.shown(agent),
        arm=register.arms[arm],
        step=step,
        at=shown(at),
        expires=shown(deadline),
        recalled=bool(recalled),
        ending=ending,
        ended=None if ended is None else shown(ended),
    )


def bans(store: Store, register: Register, after: int = -1) -> Iterator[BanRow]:
    """Return all bans, from behind one on."""
    for _, agent, offer, step, until, at, lifted in store.read(register.campaign, "bans", (after,)):
        end = None if lifted is None else shown(lifted)
        yield BanRow(register.shown(agent), offer, step, _until(until), shown(at), end)


def audit(store: Store, register: Register, after: int = -1) -> Iterator[AuditEntry]:
    """Return who did what, from behind an event on."""
    for event, at, author, action, detail in store.read(register.campaign, "audit", (after,)):
        yield AuditEntry(event, shown(at), author, action, _named(register, msgspec.json.decode(detail)))


def _named(register: Register, detail: dict[str, Any]) -> dict[str, Any]:
    """Return a detail of the audit, which the log has in numbers, as people read it."""
    arms = register.arms
    read: dict[str, Callable[[Any], Any]] = {
        "agent": register.shown,
        "arm": lambda arm: arms[arm],
        "eliminated": lambda out: [arms[arm] for arm in out],
        "returned": lambda back: [arms[arm] for arm in back],
        "bans": lambda rows: [
            {"agent": register.shown(agent), "offer": offer, "until": _until(until)} for agent, offer, until in rows
        ],
        "decided": lambda told: told | {"arm": arms[told["arm"]]},
        "budget": lambda minor: None if minor is None else str(Money(minor, register.currency)),
    }
    return {name: read[name](value) if name in read else value for name, value in detail.items()}


def _until(step: int) -> int | None:
    """Return the step that a ban ends with, None if it is for ever."""
    return None if step >= FOREVER else step
