"""Races for money: many pulls on one offer, many asks for the last bonus, pulls at the very deadline."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import datetime
from typing import Any

from traffic import call

PRINCIPAL = {"observe": {"part": "Steps", "n": 0}, "protocol": {"part": "NeverBan"}}


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


async def at_the_deadline(port: int, admin: str, name: str, agents: int = 100) -> tuple[int, int, int]:
    """Let pulls arrive around the deadline, ever closer; return how many were paid, in the ledger, and expired."""
    tokens = await _campaign(port, admin, name, agents, offer_lasts="2 seconds")
    path, chance = f"/campaigns/{name}/me", random.Random(name)

    async def act(token: str) -> Any:
        offer = (await call(port, "POST", f"{path}/offer", token))["offer"]
        early = 0.001 * 100 ** chance.random()  # a pull takes milliseconds to arrive, more when many do
        due = datetime.fromisoformat(offer["expires"]).timestamp() + 0.001 - early
        await asyncio.sleep(max(0.0, due - time.time()))
        return await call(port, "POST", f"{path}/observations", token, {"arm": offer["arm"], "reward": 0.5})

    told = await asyncio.gather(*(act(token) for token in tokens))
    await asyncio.sleep(0.1)
    ledger = await call(port, "GET", f"/campaigns/{name}/ledger", admin)
    endings = [row["ending"] for row in await call(port, "GET", f"/campaigns/{name}/offers", admin)]
    assert len(endings) == agents
    paid = sum(it["outcome"] == "paid" for it in told)
    assert endings.count("paid") == len({entry["offer"] for entry in ledger})
    assert set(endings) <= {"paid", "expired"}
    return paid, len(ledger), endings.count("expired")
