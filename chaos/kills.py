"""kill -9 at random instants, also while a snapshot is written: nothing answered is lost, nothing is paid twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import freepull as fp
from freepull.campaigns import Money, Told
from freepull.campaigns.journal.events import Kind
from freepull.campaigns.journal.recovery import segments

from .outcome import Finding, finding
from .world import AGENTS, LATE, NAME, NO_PULL, PAYING, Answer, Pull, create, forked, lost, pull, right

CLIENTS = AGENTS
"""Agents that act at the same time."""
KILLS, RATE, SNAPSHOT_EVERY = 200, 1_000.0, 400
"""In full: so many kills, at so many events a second and more, offers included."""


def run(kills: int = KILLS, seconds: float = 0.5, principal: fp.Principal = PAYING) -> Finding:
    """Kill the same campaign again and again."""
    rule = type(principal.rule).__name__ + (", late outcomes" if principal == LATE else "")
    rule += ", prices that differ" if principal.pricing is not None else ""
    with finding(f"kill -9 × {kills} under load, {rule}") as found, tempfile.TemporaryDirectory() as folder:
        url, rng = f"sqlite:///{Path(folder)}/chaos.db", random.Random(1)
        create(url, principal=principal).close()
        answers, doubtful, sent, none = list[Answer](), dict[str, Pull](), set[str](), set[str]()
        busy = 0.0
        for turn in range(kills):
            lines, lasted = life(url, turn, list(doubtful.values()), rng.uniform(0.05, 2 * seconds), _work)
            busy += lasted
            for kind, *rest in lines:
                if kind == "sent":
                    doubtful[rest[3]] = Pull(*rest)
                    (none if rest[1] == NO_PULL else sent).add(rest[3])
                elif kind == "passed":
                    del doubtful[rest[0]]
                else:
                    event, outcome, offer, paid = rest[1:]
                    told = Told(event, outcome, offer, None if paid is None else Money(*paid))
                    answers.append(Answer(doubtful.pop(rest[0]), told))
            wrong = right(url) if turn % 10 == 9 or turn == kills - 1 else ""
            found.demand(not wrong, f"after kill {turn}: {wrong}")
        life(url, kills, list(doubtful.values()), 0.0, _work)
        missing = lost(url, answers)
        found.demand(not missing, f"{len(missing)} answers are not in the log")
        with fp.Campaign.open(url, NAME) as campaign:
            status, ledger = campaign.status(), campaign.ledger()
            logged = (it.records["kind"] == Kind.PASSED for it in segments(campaign.core.store, NAME))
            passed = sum(int(which.sum()) for which in logged)
        amounts = {entry.offer: entry.amount for entry in ledger}
        twice, spent = len(ledger) - len(amounts), sum(entry.amount.minor for entry in ledger)
        told_of = [answer.told for answer in answers if answer.told.paid is not None]
        other = sum(amounts.get(told.offer or 0) != told.paid for told in told_of)
        found.demand(other == 0, f"{other} payments are not what was answered")
        found.demand(spent == status.spent.minor, f"the ledger adds up to {spent}, the status says {status.spent}")
        found.demand(status.budget is None or spent <= status.budget.minor, f"{status.spent} exceed the budget")
        found.demand(status.observations == len(sent), f"{status.observations} pulls in the log, {len(sent)} were sent")
        found.demand(twice == 0, f"{twice} offers were paid twice")
        found.demand(passed == len(none), f"{passed} passes in the log, {len(none)} were sent")
        rate = status.events / busy
        found.demand(rate >= RATE or kills < KILLS, f"{rate:,.0f} events/s, which is no load; use a quieter machine")
        found.figures |= {"pulls answered": len(answers), "lost": len(missing), "paid twice": twice, "events/s": rate}
        found.figures |= {"payments": len(ledger), "snapshots due": status.events // SNAPSHOT_EVERY}
        found.figures |= {"passes": passed} if none else {}
        found.figures |= {"amounts": len(set(amounts.values()))} if principal.pricing is not None else {}
        return found


def life(
    url: str, turn: int, doubtful: list[Any], seconds: float, work: Callable[..., Coroutine[Any, Any, None]]
) -> tuple[list[list[Any]], float]:
    """Start a process that works on the campaign, kill it after some seconds, and return what it said."""
    child, reading = forked(lambda writing: asyncio.run(work(url, turn, doubtful, writing, only_repeat=seconds == 0.0)))
    lines, begun = list[list[Any]](), 0.0
    with open(reading, "rb") as pipe:
        for line in pipe:
            if line == b'"ready"\n':
                begun = time.monotonic()
                if seconds:
                    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
                    signal.setitimer(signal.ITIMER_REAL, seconds)
            elif line.endswith(b"\n"):
                lines.append(json.loads(line))
    _, status = os.waitpid(child, 0)
    if (os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0) != (signal.SIGKILL if seconds else 0):
        raise RuntimeError(f"the process ended by itself, with status {status}")
    return lines, time.monotonic() - begun


async def _work(url: str, turn: int, doubtful: list[Pull], writing: int, only_repeat: bool) -> None:
    """Repeat what is in doubt, then let all agents act, and say what is sent and answered."""
    campaign = await fp.AsyncCampaign.open(url, NAME, snapshot_every=SNAPSHOT_EVERY)

    def say(*words: object) -> None:
        os.write(writing, json.dumps(words[0] if len(words) == 1 else words).encode() + b"\n")

    async def tell(pulled: Pull) -> None:
        if pulled.arm == NO_PULL:
            await campaign.pass_over(pulled.agent, event=pulled.event)
            say("passed", pulled.event)
            return
        told = await campaign.tell(*pulled)
        paid = None if told.paid is None else (told.paid.minor, told.paid.currency)
        say("told", pulled.event, told.event, told.outcome, told.offer, paid)

    for pulled in doubtful:
        await tell(pulled)
    say("ready")

    async def act(agent: int) -> None:
        rng = random.Random(f"{turn}:{agent}")
        for number in range(10**9):
            offer = await campaign.ask(agent)
            offered = None if offer is None else campaign.settings.arms.index(offer.arm)
            pulled = pull(rng, offered, f"{turn}:{number}", agent)
            if campaign.settings.principal == LATE and rng.random() < 0.3:
                pulled = pulled._replace(arm=NO_PULL)
            say("sent", *pulled)
            await tell(pulled)

    if not only_repeat:
        await asyncio.gather(*(act(agent) for agent in range(CLIENTS)))
    await campaign.close()
