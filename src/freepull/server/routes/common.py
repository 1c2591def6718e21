"""What routes share: who may use them, where campaigns are, names in paths, documented errors, and repeated requests.

Idempotency-Key: an admin's POST that was answered is answered the same again, for a day. Names of agents can be erased,
so they are not stored here: whom a campaign waits for is left out of an answer's copy. Tokens are secrets, so a request
that makes some is not kept at all.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from litestar import Request
from litestar.params import FromPath, QueryParameter

from freepull.campaigns.stores.serving import ReplyStore, StoredReply
from freepull.errors import UnknownAgent, UnknownArm
from freepull.server import problems
from freepull.server.auth import CHANGING, Visitor, check, earliest, latest
from freepull.server.hosting import Hosting, Open
from freepull.server.middleware import Middleware, again, messages, name_in
from freepull.server.problems import Refused, described

Asked = Request[Any, Any, Any]
READ = described(400, 401, 403, 404, 421, 500, 503)
READ_OR_NOT_NOW = described(400, 401, 403, 404, 409, 421, 500, 503)
WRITE = described(400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 429, 500, 503)
BEARER = [{"bearer": list[str]()}]
ADMIN, OPERATOR, READER = ("admin",), ("admin", "operator"), ("admin", "operator", "read")
PAGE = 1000
InPath = FromPath[str]
Screens = Annotated[
    bool, QueryParameter(description="Send all that a screen shows, as `screen`, instead of `status` and `audit`.")
]
Only = Annotated[bool, QueryParameter(description="Only the open ones.")]
After = Annotated[int, QueryParameter(ge=-1, lt=1 << 62, description="Only what comes after this one.")]
Last = Annotated[
    int | None, QueryParameter(ge=1, le=PAGE, description="Only this many of the last, still the oldest first.")
]
Limit = Annotated[int, QueryParameter(ge=1, le=PAGE, description="At most this many.")]


def needs(*scopes: str, lists: bool = False) -> Callable[[Asked], Awaitable[None]]:
    """Return what lets only these scopes pass; one for a campaign passes only there, and in lists.

    It is run before the request: Litestar's own guards would copy the handler each time.
    """

    async def check_scope(request: Asked) -> None:
        params = {name: name_in(part) for name, part in request.path_params.items()}
        request.scope["path_params"] = params
        check(visitor_of(request), params.get("campaign", ""), scopes, lists, request.app.state.rate_limit)

    return check_scope


def visitor_of(request: Asked) -> Visitor:
    """Return who asks, as `middleware.Auth` has found."""
    visitor: Visitor = request.scope["state"]["visitor"]
    return visitor


def hosting_of(request: Asked) -> Hosting:
    """Return all campaigns."""
    hosting: Hosting = request.app.state.hosting
    return hosting


async def find(request: Asked, campaign: str) -> Open:
    """Return a campaign that is open here."""
    return await hosting_of(request).find(campaign)


def by(request: Asked) -> str:
    """Return who asks, for the audit."""
    return f"token {visitor_of(request).id}"


AGENTS, ARMS = (f"Look at GET /v1/campaigns/{{campaign}}/{what}." for what in ("agents", "arms"))


def agent_number(found: Open, agent: str) -> int:
    """Return the number of an agent that a path names."""
    try:
        return found.view.agent(agent)
    except UnknownAgent as error:
        raise Refused(404, str(error), AGENTS, kind="UnknownAgent") from None


def arm_number(found: Open, arm: str) -> int:
    """Return the number of an arm that a path names."""
    try:
        return found.view.arm(arm)
    except UnknownArm as error:
        raise Refused(404, str(error), ARMS, kind="UnknownArm") from None


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
