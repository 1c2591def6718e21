"""What a store is: durable tables for campaigns, each of which has one owner at a time.

**Durability.** When `write` returns, the rows survive a crash of the process and of the machine. If it raises, they may
or may not be there; whoever wrote them must look again from the start, and must not write them a second time.
**Atomicity.** All rows of one `write` are there, or none.
**Ownership.** `claim` gives a lease to one owner; `write` and `renew` with an older lease raise `Fenced` and change
nothing. A segment's number is its key, so even without the lease no two writers could both add the same one.
**Threads.** Every method may be called from any thread.
A store of your own implements these methods; `freepull.testing.check_store` tells whether it keeps the promises. With
those of `serving` as well, it can be served.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol
from weakref import WeakSet

from freepull import validation
from freepull.campaigns.journal.events import KEYS, ManyRows, Row
from freepull.errors import CampaignBusy, CampaignError, InvalidInput, UnknownCampaign


def steady() -> float:
    """Return seconds on a clock that never jumps, and goes on while the machine sleeps where it can."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class OfOneProcess(Protocol):
    """Something that must not be used by a process that was forked off."""

    def forked(self) -> None:
        """Let go of it, in the process that was forked off, before anything else happens there."""


_OURS: WeakSet[OfOneProcess] = WeakSet()


def of_this_process(it: OfOneProcess, holds: bool = True) -> None:
    """Call its `forked` in every process that is forked off from now on, or no longer."""
    (_OURS.add if holds else _OURS.discard)(it)


def opened_here() -> list[OfOneProcess]:
    """Return everything that is this process's own."""
    return list(_OURS)


def _forked() -> None:
    for it in opened_here():
        it.forked()
    _OURS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Inherited:
    """Stands for a connection in a process that was forked off: its parent's, so every use of it is refused.

    The connection itself stays in memory for good, because closing it would change the parent's files and sockets.
    """

    def __init__(self, url: str, connection: object) -> None:
        self._url = url
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))

    def __getattr__(self, name: str) -> NoReturn:
        raise inherited(self._url)


def inherited(what: str) -> CampaignBusy:
    """Return the error for what belongs to the process that this one was forked from."""
    return CampaignBusy(
        f"{what} is open in the process that this one was forked from, which goes on with it; ask there, or start this "
        "process before it is opened or without forking (multiprocessing's 'spawn')."
    )


@dataclass
class Lease:
    """The right to write to a campaign."""

    campaign: int
    """The store's own number of the campaign."""
    name: str
    epoch: int
    """Grows with every owner."""
    seconds: float
    """How long it holds without being renewed; infinite where a lock guards it."""
    until: float
    """When it runs out, on the `steady` clock."""

    @property
    def holds(self) -> bool:
        """Whether it holds for certain."""
        return steady() < self.until


class Store(ABC):
    """Durable tables for campaigns (what it promises stands above; the tables are in `journal.events.TABLES`)."""

    url: str
    """How to find it again, for messages."""
    reopens: bool = True
    """Whether, once it has failed, the same process can open it again."""

    @abstractmethod
    def campaigns(self) -> list[str]:
        """Return the names of all campaigns, sorted."""

    @abstractmethod
    def create(self, name: str, owner: str, rows: ManyRows) -> Lease:
        """Make a campaign with its first rows, owned by ``owner``; raise `CampaignExists` if the name is taken."""

    @abstractmethod
    def claim(self, name: str, owner: str) -> Lease:
        """Take a campaign over; raise `UnknownCampaign`, or `CampaignBusy` while another owner has it."""

    @abstractmethod
    def renew(self, lease: Lease) -> None:
        """Prolong a lease, or raise `Fenced`."""

    @abstractmethod
    def release(self, lease: Lease) -> None:
        """Give a lease back, so that the next owner need not wait; does nothing if it is lost."""

    @abstractmethod
    def write(self, lease: Lease, rows: ManyRows) -> None:
        """Add rows, durably and all at once, and prolong the lease; rows of `CHANGING` tables replace their like."""

    @abstractmethod
    def read(self, name: str, table: str, after: Row = ()) -> Iterator[Row]:
        """Return a table's rows in the order of its key, after the key ``after``."""

    def before_last(self, name: str, table: str, count: int) -> Row:
        """Return the key after which a table's last rows begin; empty if it has no more than this many."""
        behind = deque((row[: KEYS[table]] for row in self.read(name, table)), count + 1)
        return behind[0] if len(behind) > count else ()

    @abstractmethod
    def find_events(self, lease: Lease, ids: Iterable[bytes]) -> dict[bytes, tuple[int, bytes]]:
        """Return those of the event ids that are known, with the number of the event and its record."""

    @abstractmethod
    def snapshots(self, name: str) -> list[tuple[int, int, int]]:
        """Return for every snapshot its event, how many of its parts are there, and how many there should be."""

    @abstractmethod
    def remove(self, lease: Lease, table: str, column: str, below: int, most: int) -> int:
        """Remove some rows whose column is less than a number, old event ids or old snapshots; return how many."""

    @abstractmethod
    def erase_names(self, lease: Lease, agents: Iterable[int] | None) -> None:
        """Erase the names of some agents, or of all."""

    @abstractmethod
    def totals(self, name: str) -> tuple[int, int]:
        """Return how many entries the ledger has, and their sum."""

    def head(self, name: str) -> tuple[int, int] | None:
        """Return the number of the last segment and its checksum, as noted apart from it; None where none is."""
        return None

    def check(self) -> None:
        """Raise `Corrupt` if something is damaged that belongs to no campaign, as far as the store can tell."""
        return

    def unknown(self, name: str) -> CampaignError:
        """Return the error for a campaign that is not there."""
        there = ", ".join(self.campaigns()[:10])
        return UnknownCampaign(f"{self.url} has no campaign {name!r}; it has {there or 'none at all'}.")

    def backup(self, path: str | Path) -> None:
        """Copy everything to a new file, where the store can do that itself."""
        raise InvalidInput(f"{self.url} has backups of its own; use its tools, for example pg_dump.")

    @abstractmethod
    def close(self) -> None:
        """Close the store."""


_SECRETS = re.compile(r"(?<=://)([^:@/\s]*):.*@|((?:ssl)?password=)[^&\s]*", re.DOTALL)


def without_password(url: str) -> str:
    """Return a URL as messages may show it.

    >>> without_password("postgresql://ann:secret@db/freepull?sslpassword=more&a=1")
    'postgresql://ann:…@db/freepull?sslpassword=…&a=1'
    """
    return _SECRETS.sub(lambda found: f"{found[2]}…" if found[2] else f"{found[1]}:…@", url)


Where = str | Store | Callable[[], Store]
"""The URL of a store, a store, or what opens one: a function, or a class of your own."""


def connect(url: Where, new: bool = False) -> Store:
    """Open the store of a URL: ``sqlite:///file.db`` (a path from here; made if ``new``) or ``postgresql://…``."""
    if isinstance(url, Store):
        return url
    if callable(url):
        return url()
    if not isinstance(url, str):
        raise InvalidInput(f"url must be a text such as 'sqlite:///trial.db', or a store, got {validation.shown(url)}.")
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        from freepull.campaigns.stores.sqlite import SqliteStore

        return SqliteStore.shared(url.removeprefix("sqlite:///"), new)
    if url.startswith(("postgresql://", "postgres://")):
        from freepull.campaigns.stores.postgres import PostgresStore

        return PostgresStore(url)
    raise InvalidInput(
        "url must begin with 'sqlite:///' and a file or with 'postgresql://', got "
        f"{validation.shown(without_password(url))}."
    )
