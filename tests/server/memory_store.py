"""A store of one's own, in memory: what somebody would write who wants campaigns elsewhere, and serve them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from freepull.campaigns.journal.events import CHANGING, KEYS, TABLES, ManyRows, Row
from freepull.campaigns.stores import Lease, Store
from freepull.campaigns.stores.base import steady
from freepull.campaigns.stores.serving import Holder, StoredReply, StoredToken, TokenNote
from freepull.errors import CampaignBusy, CampaignExists, Fenced

UNIQUE = {"ledger": 1, "names": 1}
"""The columns, beside the key, that no two rows share."""


@dataclass
class Kept:
    """One campaign."""

    number: int
    owner: str
    until: float
    epoch: int = 1
    tables: dict[str, dict[Row, Row]] = field(default_factory=lambda: {table: {} for table in TABLES})


class Memory:
    """What all who open the store share."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.campaigns: dict[str, Kept] = {}
        self.tokens: dict[str, StoredToken] = {}
        self.secrets: dict[str, bytes] = {}
        self.versions: dict[tuple[str, int], int] = {}
        self.notes: list[TokenNote] = []
        self.replies: dict[bytes, tuple[StoredReply, int]] = {}


class CampaignsOnly(Store):
    """Campaigns in dictionaries; they end with the process."""

    url = "memory"

    def __init__(self, memory: Memory, seconds: float = 5.0) -> None:
        self.memory, self.seconds = memory, seconds

    def campaigns(self) -> list[str]:
        with self.memory.lock:
            return sorted(self.memory.campaigns)

    def create(self, name: str, owner: str, rows: ManyRows) -> Lease:
        with self.memory.lock:
            if name in self.memory.campaigns:
                raise CampaignExists(f"there is a campaign {name!r} already.")
            until = steady() + self.seconds
            kept = Kept(len(self.memory.campaigns), owner, until)
            self._add(kept, rows)
            self.memory.campaigns[name] = kept
            return Lease(kept.number, name, 1, self.seconds, until)

    def claim(self, name: str, owner: str) -> Lease:
        with self.memory.lock:
            kept, now = self._kept(name), steady()
            if kept.until > now and kept.owner != owner:
                raise CampaignBusy(f"campaign {name!r} is held by {kept.owner}.", kept.owner)
            kept.epoch, kept.owner, kept.until = kept.epoch + 1, owner, now + self.seconds
            return Lease(kept.number, name, kept.epoch, self.seconds, kept.until)

    def renew(self, lease: Lease) -> None:
        self.write(lease, {})

    def release(self, lease: Lease) -> None:
        with self.memory.lock:
            kept = self._kept(lease.name)
            if kept.epoch == lease.epoch:
                kept.owner, kept.until = "", 0.0
            lease.until = 0.0

    def write(self, lease: Lease, rows: ManyRows) -> None:
        with self.memory.lock:
            kept = self._held(lease)
            self._add(kept, rows)
            lease.until = kept.until = steady() + self.seconds

    def read(self, name: str, table: str, after: Row = ()) -> Iterator[Row]:
        with self.memory.lock:
            rows = sorted(self._kept(name).tables[table].items())
        yield from (row for key, row in rows if key > after)

    def find_events(self, lease: Lease, ids: Iterable[bytes]) -> dict[bytes, tuple[int, bytes]]:
        with self.memory.lock:
            known = self._kept(lease.name).tables["event_ids"]
            return {id: known[id,][1:3] for id in ids if (id,) in known}

    def snapshots(self, name: str) -> list[tuple[int, int, int]]:
        found: dict[int, list[int]] = {}
        for event, _, parts, _ in self.read(name, "snapshots"):
            found.setdefault(event, []).append(parts)
        return [(event, len(parts), max(parts)) for event, parts in sorted(found.items())]

    def remove(self, lease: Lease, table: str, column: str, below: int, most: int) -> int:
        with self.memory.lock:
            rows, place = self._held(lease).tables[table], TABLES[table].index(column)
            old = [key for key, row in rows.items() if row[place] < below][:most]
            for key in old:
                del rows[key]
            return len(old)

    def erase_names(self, lease: Lease, agents: Iterable[int] | None) -> None:
        with self.memory.lock:
            names = self._held(lease).tables["names"]
            for key in list(names) if agents is None else [(agent,) for agent in agents]:
                names.pop(key, None)

    def totals(self, name: str) -> tuple[int, int]:
        amounts = [row[4] for row in self.read(name, "ledger")]
        return len(amounts), sum(amounts)

    def close(self) -> None:
        """Others may use the memory still."""

    def _kept(self, name: str) -> Kept:
        if name not in self.memory.campaigns:
            raise self.unknown(name)
        return self.memory.campaigns[name]

    def _held(self, lease: Lease) -> Kept:
        kept = self._kept(lease.name)
        if kept.epoch != lease.epoch:
            lease.until = 0.0
            raise Fenced(f"campaign {lease.name!r} was taken over.")
        return kept

    def _add(self, kept: Kept, rows: ManyRows) -> None:
        """Add all rows or none."""
        new = {table: dict(kept.tables[table]) for table in rows}
        for table, batch in rows.items():
            place = UNIQUE.get(table)
            taken = set() if place is None else {row[place] for row in new[table].values()}
            for row in batch:
                key = row[: KEYS[table]]
                if (key in new[table] and table not in CHANGING) or (place is not None and row[place] in taken):
                    raise Fenced(f"{table} has these rows already.")
                new[table][key] = row
                if place is not None:
                    taken.add(row[place])
        kept.tables.update(new)


class MemoryStore(CampaignsOnly):
    """The same, with what a service needs."""

    def holders(self, campaign: str | None = None) -> list[Holder]:
        with self.memory.lock:
            found = [Holder(name, it.owner, it.until > steady()) for name, it in sorted(self.memory.campaigns.items())]
        return [it for it in found if campaign in (None, it.campaign)]

    def secret(self, name: str, new: bytes) -> bytes:
        return self.memory.secrets.setdefault(name, new)

    def tokens(self) -> list[StoredToken]:
        return list(self.memory.tokens.values())

    def add_token(self, token: StoredToken, note: TokenNote) -> None:
        self.memory.tokens[token.id] = token
        self.add_note(note)

    def revoke_token(self, id: str, note: TokenNote) -> None:
        token = self.memory.tokens[id]
        if token.revoked is None:
            self.memory.tokens[id] = token._replace(revoked=note.at)
            self.add_note(note)

    def add_note(self, note: TokenNote) -> None:
        self.memory.notes.append(note)

    def token_notes(self, after: int, limit: int) -> list[tuple[int, TokenNote]]:
        return list(enumerate(self.memory.notes, 1))[after : after + limit]

    def versions(self) -> dict[tuple[str, int], int]:
        return dict(self.memory.versions)

    def raise_version(self, campaign: str, agent: int, note: TokenNote) -> None:
        with self.memory.lock:
            self.add_note(note)
            self.memory.versions[campaign, agent] = self.memory.versions.get((campaign, agent), 0) + 1

    def find_reply(self, id: bytes, since: int) -> StoredReply | None:
        reply, at = self.memory.replies.get(id, (None, 0))
        return reply if at >= since else None

    def keep_reply(self, id: bytes, reply: StoredReply, at: int, since: int) -> None:
        with self.memory.lock:
            kept = {key: it for key, it in self.memory.replies.items() if it[1] >= since}
            self.memory.replies = {id: (reply, at)} | kept
