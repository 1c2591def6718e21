"""Two processes, one database: the owner is killed, or hangs, under load; the other takes over, and nothing is lost."""

from __future__ import annotations

import itertools
import signal
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

import freepull as fp
from freepull.errors import FreepullError
from freepull.server.auth import Tokens

from .traffic import Process

AGENTS = 8
PRINCIPAL = {
    "rule": {"part": "Certified", "delta": 0.05},
    "observe": {"part": "Steps", "n": 0},
    "protocol": {"part": "TakeOrBan"},
    "offers": "each",
}


@dataclass
class Findings:
    """What was acknowledged, and what the survivor has."""

    told: int = 0
    lost: int = 0
    paid: int = 0
    twice: int = 0
    unpaid: int = 0
    """Bonuses that were acknowledged, and are not in the ledger."""
    failed: int = 0
    gap: float = 0.0
    """The longest time for which an agent had no answer."""
    replies: dict[str, tuple[int | None, str, int | None]] = field(default_factory=dict)
    """Every acknowledged event: its place in the log, its agent, and the offer that was paid."""
    moments: dict[str, list[float]] = field(default_factory=dict)
    """When each agent's were acknowledged, around one kill."""

    def __str__(self) -> str:
        return (
            f"{self.told:,} acknowledged, {self.lost} lost; {self.paid:,} paid, {self.twice} twice, {self.unpaid} not; "
            f"longest silence of an agent {self.gap:.1f} s; {self.failed} requests given up"
        )


def kill_the_owner(url: str, seconds: float, kills: int = 1, hang: bool = False) -> Findings:
    """Let agents act, kill the owner a while after, so often; then compare what was acknowledged with what is there.

    An owner that hangs is stopped, and wakes up when another has its campaign: it must write nothing from then on, and
    be the next to take over.
    """
    store = Tokens(url)
    admin = store.new("admin")[0]
    store.close()
    owner, other = Process(url, *RATE), Process(url, *RATE)
    found = Findings()
    try:
        with fp.Client(owner.address, admin) as client:
            names = [f"a{i}" for i in range(AGENTS)]
            campaign = client.create(name="shared", arms=2, agents=names, price="0.01 EUR", principal=PRINCIPAL)
            campaign.start()
            tokens = campaign.agent_tokens(names)
        for kill in range(kills):
            end, homes = time.monotonic() + seconds, [other.address, owner.address]
            threads = [
                threading.Thread(
                    target=_agent, args=(homes[:: 1 - 2 * (i % 2)], name, tokens[name], end, f"{kill}", found)
                )
                for i, name in enumerate(names)
            ]
            for thread in threads:
                thread.start()
            time.sleep(seconds / 4)
            if hang:
                owner.process.send_signal(signal.SIGSTOP)
                time.sleep(seconds * 5 / 8)
                owner.process.send_signal(signal.SIGCONT)
            else:
                owner.kill()
            for thread in threads:
                thread.join()
            found.gap = max(found.gap, *(b - a for it in found.moments.values() for a, b in itertools.pairwise(it)))
            found.moments.clear()  # nobody acts while the next process starts
            if hang:
                owner, other = other, owner
            elif kill + 1 < kills:
                owner, other = other, Process(url, *RATE)
        if not hang:
            owner = other  # nobody else is left
        _compare(found, owner.address, admin)
    finally:
        for process in {owner, other}:
            process.kill()
    return found


RATE = ("--agent-rate", "1000000")


def _agent(homes: list[str], name: str, token: str, end: float, prefix: str, found: Findings) -> None:
    """Ask and tell until the time is over, first at a process that may not be the owner."""
    moments = found.moments.setdefault(name, [time.monotonic()])
    with fp.AgentClient(homes[0], "shared", token, owners=homes[1:], retries=30) as me:
        for i in itertools.count():
            if time.monotonic() > end:
                moments.append(time.monotonic())
                return
            event = f"{prefix}-{name}-{i}"
            try:
                offer = me.ask()
                told = me.tell(offer.arm if offer else f"arm {i % 2}", 0.5, event)
            except FreepullError:
                found.failed += 1
                continue
            found.replies[event] = told.event, name, told.offer if told.outcome == "paid" else None
            moments.append(time.monotonic())


def _compare(found: Findings, address: str, admin: str) -> None:
    with fp.Client(address, admin, retries=30) as client, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "all.parquet"
        campaign = client.campaign("shared")
        campaign.export(file)
        there = dict(pl.read_parquet(file).select("sequence", "agent").iter_rows())
        offers = [entry.offer for entry in campaign.ledger()]
        status = campaign.status()
    places = [(place, agent) for place, agent, _ in found.replies.values()]
    found.told, found.paid, found.twice = len(places), len(offers), len(offers) - len(set(offers))
    found.lost = sum(place is None or there.get(place) != agent for place, agent in places)
    found.lost += len(places) - len({place for place, _ in places})
    found.unpaid = len({offer for *_, offer in found.replies.values() if offer is not None} - set(offers))
    assert status.paid == status.spent.minor == len(offers)
