"""Idempotency-Key: an admin's POST that was answered is answered the same again, for a day.

Names of agents can be erased, so they are not stored here: whom a campaign waits for is left out of an answer's copy.
Tokens are secrets, so a request that makes some is not kept at all.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from freepull.campaigns.stores.serving import ReplyStore, StoredReply
from freepull.server import problems
from freepull.server.auth import CHANGING, earliest, latest
from freepull.server.middleware import Middleware, again, messages
from freepull.server.problems import Refused

KEPT = 86_400 * 10**6
LONGEST_KEY = 200


class Idempotency(Middleware):
    """Runs a request once for its key; the answer is kept in the store, so that a restart does not forget it."""

    def __init__(self, store: Callable[[], ReplyStore]) -> None:
        self._store = store
        self._going_on: set[bytes] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        state = scope["state"]
        key, visitor = state["headers"].get(b"idempotency-key"), state["visitor"]
        changes = visitor is not None and visitor.scope in CHANGING
        if key is None or not changes or scope["method"] != "POST" or scope["path"].endswith("/tokens"):
            await self.next(scope, receive, send)
            return
        if not 0 < len(key) <= LONGEST_KEY:
            raise Refused(422, f"Idempotency-Key must have 1 to {LONGEST_KEY} characters.", "Send a shorter one.")
        id = hashlib.sha256(f"{visitor.id}\0{key.decode('latin-1')}".encode()).digest()
        if id in self._going_on:
            wait = {"retry-after": "1"}
            raise Refused(409, "a request with this Idempotency-Key is going on.", "Wait for its answer.", wait)
        self._going_on.add(id)
        try:
            reply, before = await self._once(id, scope)
        finally:
            self._going_on.discard(id)
        kind = problems.MEDIA_TYPE if reply.status >= 400 else "application/json"
        more = [(b"idempotent-replayed", b"true")] if before else []
        for message in messages(reply.status, kind, reply.body, more):
            await send(message)

    async def _once(self, id: bytes, scope: Any) -> tuple[StoredReply, bool]:
        """Return the reply to a request, and whether it was answered before."""
        body = scope["state"]["body"]
        request = scope["path"].encode("utf-8", "surrogatepass") + b"\0" + scope["query_string"] + b"\0" + body
        content, store = hashlib.sha256(request).digest(), self._store()
        known = await asyncio.to_thread(store.find_reply, id, earliest() - KEPT)
        if known is not None:
            if known.request != content:
                raise Refused(
                    422, "this Idempotency-Key was used for another request.", "Take a new key for a new request."
                )
            return known, True
        status, parts = 500, list[bytes]()

        async def catch(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await self.next(scope, again(body, None), catch)
        reply = StoredReply(content, status, b"".join(parts))
        if status < 300:
            kept = reply._replace(body=_nameless(reply.body))
            await asyncio.to_thread(self._store().keep_reply, id, kept, latest(), earliest() - KEPT)
        return reply, False


def _nameless(body: bytes) -> bytes:
    told = msgspec.json.decode(body or b"null")
    named = isinstance(told, dict) and told.get("awaited")
    return msgspec.json.encode(told | {"awaited": []}) if named else body
