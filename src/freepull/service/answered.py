"""Idempotency-Key: an admin's POST that was answered is answered the same again, for a day.

Names of agents can be erased, so they are not stored here: whom a campaign waits for is left out of an answer's copy.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import msgspec

from freepull.live.times import system_clock
from freepull.service.access import Access
from freepull.service.problems import Refused

KEPT = 86_400 * 10**6
LONGEST_KEY = 200


class Answered:
    """What was answered to which key; kept in the store, so that a restart does not forget it."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._going_on: set[bytes] = set()

    async def once(
        self, who: str, key: str, request: bytes, run: Callable[[], Awaitable[tuple[int, bytes]]]
    ) -> tuple[int, bytes, bool]:
        """Run a request once for a key; return status, body, and whether it was answered before."""
        if not 0 < len(key) <= LONGEST_KEY:
            raise Refused(422, f"Idempotency-Key must have 1 to {LONGEST_KEY} characters.", "Send a shorter one.")
        id = hashlib.sha256(f"{who}\0{key}".encode()).digest()
        content = hashlib.sha256(request).digest()
        if id in self._going_on:
            wait = {"retry-after": "1"}
            raise Refused(409, "a request with this Idempotency-Key is going on.", "Wait for its answer.", wait)
        self._going_on.add(id)
        try:
            known = await asyncio.to_thread(self._find, id)
            if known is not None:
                if known[0] != content:
                    raise Refused(
                        422, "this Idempotency-Key was used for another request.", "Take a new key for a new request."
                    )
                return known[1], known[2], True
            status, body = await run()
            if status < 300:
                await asyncio.to_thread(self._keep, id, content, status, body)
            return status, body, False
        finally:
            self._going_on.discard(id)

    def _find(self, id: bytes) -> tuple[bytes, int, bytes] | None:
        sql, since = "SELECT request, status, body FROM answered WHERE id = ? AND at >= ?", system_clock() - KEPT
        rows = self._access.store.query(sql, (id, since))
        return (bytes(rows[0][0]), int(rows[0][1]), bytes(rows[0][2])) if rows else None

    def _keep(self, id: bytes, request: bytes, status: int, body: bytes) -> None:
        now = system_clock()
        with self._access.store.transaction() as do:
            do.run("DELETE FROM answered WHERE at < ?", (now - KEPT,))
            row = (id, request, status, _nameless(body), now)
            do.run("INSERT INTO answered VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row)


def _nameless(body: bytes) -> bytes:
    told = msgspec.json.decode(body or b"null")
    named = isinstance(told, dict) and told.get("awaited")
    return msgspec.json.encode(told | {"awaited": []}) if named else body
