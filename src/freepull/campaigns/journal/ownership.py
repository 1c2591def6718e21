"""Whose a campaign is: how this process is known to stores, and that it opens a campaign once."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from freepull.campaigns.stores import Lease, ServedStore, Store, connect
from freepull.errors import CampaignBusy, FreepullError

Opened = TypeVar("Opened")
_TOKEN = uuid.uuid4().hex[:8]
_ADDRESS = socket.gethostname()
_HERE: set[tuple[str, str]] = set()
_GUARD = threading.Lock()


def known_as(address: str) -> None:
    """Be known to stores by an address, so that whoever finds a campaign taken learns where to ask."""
    global _ADDRESS
    _ADDRESS = address


def owner() -> str:
    """Return how this process is known to stores: where it is, and something that no other process has."""
    return f"{_ADDRESS} {_TOKEN}:{os.getpid()}"


class Here:
    """Sees to it that a campaign is open once in this process, and that a store is closed if it cannot be opened."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.entry, self.kept = store, (store.url, name), False

    def __enter__(self) -> Here:
        with _GUARD:
            if self.entry in _HERE:
                self.store.close()
                raise CampaignBusy(
                    f"campaign {self.entry[1]!r} is open in this process already; use that one, or close it."
                )
            _HERE.add(self.entry)
        return self

    def keep(self, opened: Opened) -> Opened:
        """Leave the campaign open."""
        self.kept = True
        return opened

    def __exit__(self, *_: object) -> None:
        if not self.kept:
            forget(*self.entry)
            self.store.close()


def forget(url: str, name: str) -> None:
    """Take note that a campaign is open here no longer."""
    with _GUARD:
        _HERE.discard((url, name))


@contextmanager
def owned(url: str | Store, name: str, wait: float = 0.0) -> Iterator[tuple[Store, Lease]]:
    """Own a campaign for a while without running it."""
    store = connect(url)
    with Here(store, name):
        lease = claim(store, name, wait)
        try:
            yield store, lease
        finally:
            with suppress(FreepullError):
                store.release(lease)


def check_free(store: ServedStore, name: str) -> None:
    """Raise if there is no such campaign or another process has it; this costs less than trying to claim it."""
    found = store.holders(name)
    if not found:
        raise store.unknown(name)
    if found[0].held and found[0].owner != owner():
        raise CampaignBusy(f"campaign {name!r} is held by {found[0].owner}.", found[0].owner)


def claim(store: Store, name: str, wait: float) -> Lease:
    """Take a campaign over; wait this many seconds for another owner to let go."""
    limit = time.monotonic() + wait
    while True:
        try:
            return store.claim(name, owner())
        except CampaignBusy:
            if time.monotonic() >= limit:
                raise
        time.sleep(0.05)
