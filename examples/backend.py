"""A backend of your own: users choose a time slot, some are offered a bonus, and webhooks say what became of it.

The service runs elsewhere; this is what a shop adds to its own code, here written with FastAPI (`pip install fastapi
'freepull[client]'`). One gateway's token speaks for all users. Any other framework will do as well.
"""

import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

import freepull as fp


class Visit(BaseModel):
    """A user came, and said how it was."""

    visit: str
    """The visit's id: told again, it counts once."""
    slot: str
    stars: Annotated[int, Field(ge=1, le=5)]


def is_genuine(body: bytes, header: str, secrets: list[bytes]) -> bool:
    """Say whether a webhook comes from our service, and was not sent before by somebody who listened."""
    parts = [part.partition("=") for part in header.split(",")]
    at = next((int(value) for name, _, value in parts if name == "t" and value.isdecimal()), 0)
    ours = [hmac.new(secret, b"%d." % at + body, hashlib.sha256).hexdigest() for secret in secrets]
    theirs = [value for name, _, value in parts if name == "v1"]
    genuine = any(hmac.compare_digest(mine, it) for mine in ours for it in theirs)
    return genuine and abs(time.time() - at) <= 300


def backend(url: str, token: str, campaign: str, secrets: list[bytes]) -> FastAPI:
    """Return the shop's application."""
    client = fp.AsyncClient(url, token)
    slots = client.campaign(campaign)
    seen: dict[str, dict[str, Any]] = {}

    @asynccontextmanager
    async def open_until_the_end(_: FastAPI) -> AsyncIterator[None]:
        yield
        await client.close()

    app = FastAPI(lifespan=open_until_the_end)

    @app.get("/users/{user}/slots")
    async def choose(user: str) -> dict[str, str | None]:
        """What the user sees before choosing: perhaps a bonus for one of the slots."""
        offer = await slots.ask(user)
        return {"bonus": None if offer is None else f"{offer.bonus} for {offer.arm}"}

    @app.post("/users/{user}/visits")
    async def visit(user: str, came: Visit) -> dict[str, str | None]:
        """One to five stars, as a reward from 0 to 1."""
        told = await slots.tell(user, came.slot, (came.stars - 1) / 4, event=came.visit)
        return {"paid": None if told.paid is None else str(told.paid)}

    @app.post("/hooks/freepull")
    async def hook(request: Request) -> None:
        """What happens in the campaign; the same event may come again, and counts once."""
        body = await request.body()
        if not is_genuine(body, request.headers.get("freepull-signature", ""), secrets):
            raise HTTPException(401)
        for event in json.loads(body)["events"]:
            seen.setdefault(event["id"], event)

    @app.get("/owed")
    async def owed() -> dict[str, int]:
        """What users have earned, in cents, as webhooks have said."""
        found: dict[str, int] = {}
        for event in seen.values():
            if event["kind"] == "paid":
                found[event["agent"]] = found.get(event["agent"], 0) + event["amount"]["minor"]
        return found

    return app
