"""Two processes, one database: the owner is killed under load, the other takes over; nothing acknowledged is lost."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass

from traffic import Process

from freepull.errors import FreepullError
from freepull.service.access import Access
from freepull.service.agent_client import AgentClient
from freepull.service.client import Client

AGENTS = 8


@dataclass
class Findings:
    """What was acknowledged, and what the survivor has."""

    told: int = 0
    lost: int = 0
    paid: int = 0
    twice: int = 0
    failed: int = 0
    gap: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.told:,} acknowledged, {self.lost} lost; {self.paid:,} paid, {self.twice} twice; longest silence "
            f"{self.gap:.1f} s; {self.failed} requests given up"
        )


def kill_the_owner(url: str, seconds: float = 10.0) -> Findings:
    """Run agents against two processes, kill the owner in the middle, and compare."""
    access = Access(url)
    admin = access.new("admin")[0]
    access.close()
    processes = [Process(url, "--agent-rate", "1000000") for _ in range(2)]
    names, found, replies = [f"a{i}" for i in range(AGENTS)], Findings(), dict[str, int | None]()
    moments: list[float] = []
    with Client(processes[0].address, admin) as client:
        principal = {"observe": {"part": "Steps", "n": 0}, "offers": "each"}
        client.create(name="shared", arms=2, agents=names, price="0.01 EUR", principal=principal)
        client.start("shared")
        tokens = client.agent_tokens("shared", names)
        rows = {row["name"]: row["owner"] for row in client.campaigns()}
    owner = next(it for it in processes if it.address == rows["shared"])
    other = next(it for it in processes if it is not owner)
    end = time.monotonic() + seconds

    def agent(name: str, number: int) -> None:
        with AgentClient(other.address, "shared", tokens[name], retries=30) as me:
            for i in range(1, 1_000_000):
                if time.monotonic() > end:
                    return
                event = f"{name}-{i}"
                try:
                    offer = me.ask()
                    told = me.tell(offer.arm if offer else f"arm {(i + number) % 2}", 0.5, event)
                except FreepullError:
                    found.failed += 1
                    continue
                replies[event] = told.event
                moments.append(time.monotonic())

    threads = [threading.Thread(target=agent, args=(name, n)) for n, name in enumerate(names)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 2)
    owner.kill()
    for thread in threads:
        thread.join()
    with Client(other.address, admin, retries=30) as client:
        status, entries, after = client.status("shared"), list[int](), 0
        while page := client.ledger("shared", after):
            entries += [entry.offer for entry in page]
            after = page[-1].entry
        places = {it for it in replies.values() if it is not None}
        found.told, found.paid, found.twice = len(replies), len(entries), len(entries) - len(set(entries))
        found.lost = len(replies) - len(places) + max(0, len(replies) - status.observations)
        assert status.paid == len(entries)
        assert status.spent.minor == len(entries)
    found.gap = max((b - a for a, b in itertools.pairwise(moments)), default=0.0)
    other.end()
    return found
