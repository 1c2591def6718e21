"""A backend of your own: users choose a time slot, some are offered a bonus, and webhooks say what became of it.

The service runs elsewhere; this is what a shop adds to its own code. One gateway's token speaks for all users. Any
framework will do: this one is the service's own.
"""

import hashlib
import hmac
import json
import time
from typing import Any

from litestar import Litestar, Request, Response, get, post
from litestar.params import FromPath, JSONBody

import freepull as fp


def is_genuine(body: bytes, header: str, secrets: list[bytes]) -> bool:
    """Say whether a webhook comes from our service, and was not sent before by somebody who listened."""
    parts = [part.partition("=") for part in header.split(",")]
    at = next((int(value) for name, _, value in parts if name == "t" and value.isdecimal()), 0)
    ours = [hmac.new(secret, b"%d." % at + body, hashlib.sha256).hexdigest() for secret in secrets]
    theirs = [value for name, _, value in parts if name == "v1"]
    genuine = any(hmac.compare_digest(mine, it) for mine in ours for it in theirs)
    return genuine and abs(time.time() - at) <= 300


def backend(url: str, token: str, campaign: str, secrets: list[bytes]) -> Litestar:
    """Return the shop's application."""
    client = fp.AsyncClient(url, token)
    slots = client.campaign(campaign)
    seen: dict[str, dict[str, Any]] = {}

    @get("/users/{user:str}/slots")
    async def choose(user: FromPath[str]) -> dict[str, Any]:
        """What the user sees before choosing: perhaps a bonus for one of the slots."""
        offer = await slots.ask(user)
        return {"bonus": None if offer is None else f"{offer.bonus} for {offer.arm}"}

    @post("/users/{user:str}/visits")
    async def visit(user: FromPath[str], data: JSONBody[dict[str, Any]]) -> dict[str, Any]:
        """The user came, and has said how it was: one to five stars. With the visit's id it counts once."""
        told = await slots.tell(user, data["slot"], (data["stars"] - 1) / 4, event=data["visit"])
        return {"paid": None if told.paid is None else str(told.paid)}

    @post("/hooks/freepull", status_code=200)
    async def hook(request: Request[Any, Any, Any]) -> Response[None]:
        """What happens in the campaign; the same event may come again, and counts once."""
        body = await request.body()
        if not is_genuine(body, request.headers.get("freepull-signature", ""), secrets):
            return Response(None, status_code=401)
        for event in json.loads(body)["events"]:
            seen.setdefault(event["id"], event)
        return Response(None, status_code=200)

    @get("/owed")
    async def owed() -> dict[str, int]:
        """What users have earned, in cents, as webhooks have said."""
        found: dict[str, int] = {}
        for event in seen.values():
            if event["kind"] == "paid":
                found[event["agent"]] = found.get(event["agent"], 0) + event["amount"]["minor"]
        return found

    return Litestar([choose, visit, hook, owed], on_shutdown=[client.close], logging_config=None)
