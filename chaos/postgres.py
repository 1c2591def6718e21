"""PostgreSQL killed under load, connections cut around a commit: what is in doubt is resolved by reading the log."""

from __future__ import annotations

import asyncio
import random
import tempfile
import threading
import time
from pathlib import Path

import freepull as fp
from freepull.errors import StoreError

from .outcome import Finding, finding
from .postgres_server import PostgresServer
from .proxy import Proxy
from .world import AGENTS, NAME, PAYING, Answer, Pull, create, lost, pull, right


def run(kills: int = 30, cuts: int = 30) -> Finding:
    """Kill the server, then cut the wire."""
    with finding(f"PostgreSQL kill -9 × {kills}, connection cut × {cuts}") as found, PostgresServer() as server:
        create(server.url, principal=PAYING).close()
        _killed(server, kills, found)
        _cut(server, cuts, found)
        return found


def _killed(server: PostgresServer, kills: int, found: Finding) -> None:
    rng, answers, doubtful, sent = random.Random(5), list[Answer](), dict[str, Pull](), 0
    for turn in range(kills):
        later = threading.Timer(rng.uniform(0.05, 0.6), server.kill)
        later.start()
        sent += asyncio.run(_work(server.url, turn, doubtful, answers))
        later.join()
        server.start()
    with fp.Campaign.open(server.url, NAME, wait=30.0) as campaign:
        answers += [Answer(it, campaign.tell(*it)) for it in doubtful.values()]
        status, ledger = campaign.status(), campaign.ledger()
    missing, wrong = lost(server.url, answers), right(server.url)
    twice = len(ledger) - len({entry.offer for entry in ledger})
    found.demand(not missing and not wrong and not twice, f"{len(missing)} lost, {twice} paid twice; {wrong}")
    found.demand(status.observations == sent, f"{status.observations} pulls in the log, {sent} were sent")
    found.figures |= {"answered": len(answers), "lost": len(missing), "paid twice": twice, "payments": len(ledger)}


async def _work(url: str, turn: int, doubtful: dict[str, Pull], answers: list[Answer]) -> int:
    """Repeat what is in doubt, then act until the server dies; return how many new pulls were sent."""
    sent = 0
    try:
        campaign = await fp.AsyncCampaign.open(url, NAME, wait=30.0)
    except StoreError:  # it died while the log was read
        return sent

    async def tell(pulled: Pull) -> None:
        doubtful[pulled.event] = pulled
        answers.append(Answer(pulled, await campaign.tell(*pulled)))
        del doubtful[pulled.event]

    async def act(agent: int) -> None:
        nonlocal sent
        rng = random.Random(f"{turn}:{agent}")
        for number in range(10**9):
            offer = await campaign.ask(agent)
            offered = None if offer is None else campaign.settings.arms.index(offer.arm)
            pulled = pull(rng, offered, f"{turn}:{number}", agent)
            sent += 1
            await tell(pulled)

    async def all_of_it() -> None:
        for pulled in list(doubtful.values()):
            await tell(pulled)
        await asyncio.gather(*(act(agent) for agent in range(AGENTS)))

    try:
        await all_of_it()
    except StoreError:
        await asyncio.sleep(0.1)
    await campaign.close()
    return sent


def _cut(server: PostgresServer, cuts: int, found: Finding) -> None:
    """Cut the wire before or after a commit arrives; telling again must count once either way."""
    resolved = {"before": [0, 0], "after": [0, 0]}
    with tempfile.TemporaryDirectory() as folder:
        proxy = Proxy(server.sockets, Path(folder))
        for turn in range(cuts):
            when = ("before", "after")[turn % 2]
            campaign = fp.Campaign.open(proxy.url, NAME, wait=30.0)
            before = campaign.status().observations
            pulled = Pull(turn % AGENTS, 0, 0.5, f"cut {turn}")
            proxy.cut = when
            try:
                campaign.tell(*pulled)
                found.demand(False, f"cut {turn}: answered, although the commit was cut")
            except StoreError:
                pass
            campaign.close()
            time.sleep(0.05)
            with fp.Campaign.open(server.url, NAME, wait=30.0) as campaign:
                there = campaign.status().observations - before
                resolved[when][there] += 1
                campaign.tell(*pulled)
                campaign.tell(*pulled)
                found.demand(campaign.status().observations == before + 1, f"cut {turn}: not counted once")
        found.demand(proxy.cuts == cuts, f"only {proxy.cuts} commits were cut")
        proxy.close()
    found.demand(resolved["before"][1] == 0, "a commit that never arrived is there")
    found.demand(cuts < 2 or resolved["after"][1] > 0, "no commit was in doubt and there")
    found.demand(right(server.url) == "", "the campaign is not right after the cuts")
    found.figures |= {"in doubt and there": resolved["after"][1], "in doubt and not there": resolved["before"][0]}
