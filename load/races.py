"""Races for money: many pulls on one offer, many asks for the last bonus, pulls at the very deadline."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import random
import time
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from typing import Any

from .traffic import Line, call

PRINCIPAL = {
    "rule": {"part": "Certified", "delta": 0.05},
    "observe": {"part": "Steps", "n": 0},
    "protocol": {"part": "NeverBan"},
}
"""It has an offer for whoever asks first."""


async def _campaign(port: int, admin: str, name: str, agents: int, **more: Any) -> list[str]:
    """Start a campaign that offers at once; return the agents' tokens."""
    body = {"name": name, "arms": ["A", "B"], "agents": agents, "price": "1 EUR", "principal": PRINCIPAL} | more
    await call(port, "POST", "/campaigns", admin, body)
    await call(port, "POST", f"/campaigns/{name}/start", admin)
    made = await call(port, "POST", f"/campaigns/{name}/tokens", admin, {"agents": list(range(agents))})
    return [it["token"] for it in made["tokens"]]


async def one_offer(port: int, admin: str, name: str, pulls: int = 50) -> tuple[int, int]:
    """Tell many pulls of the offered arm at once; return how many were paid, and how many are in the ledger."""
    token, *_ = await _campaign(port, admin, name, 2)
    offer = (await call(port, "POST", f"/campaigns/{name}/me/offer", token))["offer"]
    pull = {"arm": offer["arm"], "reward": 0.5}
    path = f"/campaigns/{name}/me/observations"
    told = await asyncio.gather(*(call(port, "POST", path, token, pull | {"event": f"e{i}"}) for i in range(pulls)))
    ledger = await call(port, "GET", f"/campaigns/{name}/ledger", admin)
    assert (await call(port, "GET", f"/campaigns/{name}", admin))["observations"] == pulls
    return sum(it["outcome"] == "paid" for it in told), len(ledger)


async def last_bonus(port: int, admin: str, name: str, agents: int = 100, left: int = 1) -> tuple[int, int, int]:
    """Ask for everybody at once where the budget has room for one; return offers, what is reserved and the budget."""
    tokens = await _campaign(port, admin, name, agents)
    await call(port, "PATCH", f"/campaigns/{name}/budget", admin, {"budget": f"{left} EUR"})
    asked = await asyncio.gather(*(call(port, "POST", f"/campaigns/{name}/me/offer", token) for token in tokens))
    status = await call(port, "GET", f"/campaigns/{name}", admin)
    offers = sum(it["offer"] is not None for it in asked)
    return offers, status["spent"]["minor"] + status["reserved"]["minor"], status["budget"]["minor"]


@dataclass
class AtTheDeadline:
    """What became of pulls that came as an offer ran out."""

    close: int = 0
    """How many came within a millisecond of it."""
    paid: int = 0
    expired: int = 0
    wrong: int = 0
    """How many were paid although they came too late, or the other way round, or more than once."""

    def __add__(self, other: AtTheDeadline) -> AtTheDeadline:
        return AtTheDeadline(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return f"{self.paid} paid, {self.expired} expired, {self.wrong} wrongly; {self.close} came within 1 ms of it"


async def at_the_deadline(port: int, admin: str, name: str, agents: int = 100) -> AtTheDeadline:
    """Let one agent after the other pull as its offer runs out, and compare with the times in the log."""
    tokens = await _campaign(port, admin, name, agents, offer_lasts="2 seconds")
    path, chance, moment = f"/campaigns/{name}/me", random.Random(name), datetime.fromisoformat

    async def act(i: int, token: str) -> tuple[datetime, dict[str, Any]]:
        await asyncio.sleep(0.02 * i)  # one by one: many at once would wait for each other
        line = Line(port)
        offer = json.loads((await line.post(f"{path}/offer", token, b""))[1])["offer"]
        body = json.dumps({"arm": offer["arm"], "reward": 0.5}).encode()
        due = moment(offer["expires"]).timestamp() + 0.001 - chance.uniform(0, 0.005)  # it takes a while to arrive
        await asyncio.sleep(max(0.0, due - 0.005 - time.time()))
        while time.time() < due:
            await asyncio.sleep(0)
        _, answer = await line.post(f"{path}/observations", token, body)
        await line.close()
        return moment(offer["expires"]), json.loads(answer)

    told = await asyncio.gather(*(act(i, token) for i, token in enumerate(tokens)))
    await asyncio.sleep(0.1)
    line = Line(port)
    authorization = f"Bearer {admin}".encode()
    _, table = await line.request("GET", f"/campaigns/{name}/exports/observations.csv", authorization=authorization)
    await line.close()
    arrived = {int(row["sequence"]): moment(row["at"]) for row in csv.DictReader(io.StringIO(table.decode()))}
    ledger = await call(port, "GET", f"/campaigns/{name}/ledger", admin)
    endings = {row["offer"]: row["ending"] for row in await call(port, "GET", f"/campaigns/{name}/offers", admin)}
    found = AtTheDeadline(wrong=len(ledger) - len({entry["offer"] for entry in ledger}))
    for deadline, reply in told:
        late = arrived[reply["event"]] - deadline
        found.close += abs(late) <= timedelta(milliseconds=1)
        found.wrong += (reply["outcome"] == "paid") != (late < timedelta(0))
    found.paid, found.expired = (sum(it == ending for it in endings.values()) for ending in ("paid", "expired"))
    found.wrong += abs(found.paid - len(ledger)) + agents - found.paid - found.expired
    return found
