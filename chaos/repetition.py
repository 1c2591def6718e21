"""Every request one to five times, pulls out of order: the same campaign as if each had come once.

An ask is repeated before its agent acts; later it would be another question.
"""

from __future__ import annotations

import random
import tempfile
from itertools import groupby
from pathlib import Path

import freepull as fp
from freepull.campaigns.journal.events import Log
from freepull.campaigns.journal.recovery import pieces_of
from freepull.messages import LedgerEntry, Observation, OfferRow

from .outcome import Finding, finding
from .world import AGENTS, ARMS, PAYING, create

BATCH = 250
Request = Observation | int
"""A pull to tell, or an agent who asks."""
Sent = tuple[bytes, list[OfferRow], list[LedgerEntry], dict[object, object]]


class Clock:
    """Time that passes by requests that are new."""

    def __init__(self) -> None:
        self.now = 1_900_000_000_000_000

    def __call__(self) -> int:
        return self.now


def run(operations: int = 100_000) -> Finding:
    """Send requests once, and then again several times in another order, and compare."""
    with (
        finding(f"repetition and reordering, {operations:,} operations") as found,
        tempfile.TemporaryDirectory() as folder,
    ):
        batches, sent = _requests(operations, random.Random(11))
        once, often = (
            _send(f"sqlite:///{Path(folder)}/{name}.db", batches, repeated) for name, repeated in (("a", 0), ("b", 1))
        )
        for what, ours, theirs in zip(("state", "offers", "ledger", "replies"), once, often, strict=True):
            found.demand(ours == theirs, f"{what} differ")
        found.figures |= {"requests sent": sent, "payments": len(once[2])}
        return found


def _requests(operations: int, rng: random.Random) -> tuple[list[tuple[list[Request], list[Request]]], int]:
    """Return batches of new requests, each with what is repeated after it; and how many requests that makes."""
    numbers, past, batches, sent = [0] * AGENTS, list[Request](), list[tuple[list[Request], list[Request]]](), 0
    for begin in range(0, operations, BATCH):
        fresh: list[Request] = []
        for i in range(begin, min(begin + BATCH, operations)):
            agent = rng.randrange(AGENTS)
            if rng.random() < 0.2:
                fresh += [agent] * rng.randrange(1, 6)
            else:
                event: str | int = f"e{i}"
                if rng.random() < 0.5:
                    numbers[agent] += 1
                    event = numbers[agent]
                fresh.append(Observation(agent, rng.randrange(ARMS), rng.random(), event))
        pulls = [request for request in fresh if isinstance(request, Observation)]
        again: list[Request] = [request for request in pulls for _ in range(rng.randrange(5))]
        again += rng.sample(past, min(len(past), BATCH // 5))
        rng.shuffle(again)
        past += [request for request in pulls if rng.random() < 0.02]
        batches.append((fresh, again))
        sent += len(fresh) + len(again)
    return batches, sent


def _send(url: str, batches: list[tuple[list[Request], list[Request]]], repeated: int) -> Sent:
    """Send everything, repetitions only if they are wanted; return what became of the campaign."""
    clock = Clock()
    campaign, replies = create(url, principal=PAYING, clock=clock), dict[object, object]()
    for fresh, again in batches:
        clock.now += 10**6
        _each(campaign, fresh if repeated else [key for key, _ in groupby(fresh)], replies)
        if repeated:
            _each(campaign, again, replies)
    result = _essence(campaign), campaign.offers(), campaign.ledger(), replies
    campaign.close()
    return result


def _each(campaign: fp.Campaign, requests: list[Request], replies: dict[object, object]) -> None:
    """Send requests in their order, runs of pulls in one batch; an answer that was given before must be given again."""
    waiting: list[Observation] = []

    def tell() -> None:
        for pulled, reply in zip(waiting, campaign.tell_many(waiting), strict=True):
            known = replies.setdefault((pulled.agent, pulled.event), reply)
            old_number = isinstance(pulled.event, int) and reply.event is None
            assert reply == known or old_number, f"{pulled} was answered by {known}, and then by {reply}"
        waiting.clear()

    for request in requests:
        if isinstance(request, Observation):
            waiting.append(request)
        else:
            tell()
            campaign.ask(request)
    tell()


def _essence(campaign: fp.Campaign) -> bytes:
    """Return the state without its place among segments, which depends on how requests were grouped."""
    decider = campaign.core.writer.decider
    log = Log(0, decider.log.first, 0)
    return pieces_of(decider.state, log)
