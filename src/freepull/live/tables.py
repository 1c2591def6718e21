"""The tables of a campaign as people read them: names instead of numbers, dates, money."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from freepull.live.batches import Register
from freepull.live.money import Money
from freepull.live.replies import AuditEntry, BanRow, LedgerEntry, OfferRow
from freepull.live.rows import Row
from freepull.live.stores import Store
from freepull.live.times import shown
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
        end = None if until >= FOREVER else until
        yield BanRow(register.shown(agent), offer, step, end, shown(at), None if lifted is None else shown(lifted))


def audit(store: Store, register: Register, after: int = -1) -> Iterator[AuditEntry]:
    """Return who did what, from behind an event on."""
    for event, at, author, action, detail in store.read(register.campaign, "audit", (after,)):
        yield AuditEntry(event, shown(at), author, action, msgspec.json.decode(detail))
