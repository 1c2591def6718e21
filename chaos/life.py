"""kill -9 between accept, act and outcome: every act and every outcome is there once, and every bonus is paid once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import freepull as fp
from freepull.campaigns.journal.events import Kind
from freepull.campaigns.journal.recovery import segments
from freepull.principal.record import UNITS

from .kills import CLIENTS, SNAPSHOT_EVERY, life
from .outcome import Finding, finding
from .world import ARMS, ASKING, NAME, PAYING, create, right

KILLS = 50
OPEN = 4
"""So many outcomes of an agent are under way at most; they come in any order."""


class Deed(NamedTuple):
    """An act, or its outcome."""

    what: str
    agent: int
    arm: int
    event: str

    @property
    def reward(self) -> float:
        """What comes of it, which follows from its event."""
        return zlib.crc32(self.event.encode()) % 1001 / 1000


def run(kills: int = KILLS, seconds: float = 0.5) -> Finding:
    """Kill campaigns again and again: outcomes in order, bonuses for outcomes; and in any order, bonuses for acts."""
    with finding(f"kill -9 × {2 * kills} between accept, act and outcome") as found:
        for principal, settings in ((PAYING, {"pay_on": "outcome", "if_no_outcome": 0.0}), (ASKING, {})):
            _lives(found, kills, seconds, principal, settings)
        return found


def _lives(found: Finding, kills: int, seconds: float, principal: fp.Principal, settings: dict[str, Any]) -> None:
    rule = type(principal.rule).__name__
    with tempfile.TemporaryDirectory() as folder:
        url, rng = f"sqlite:///{Path(folder)}/chaos.db", random.Random(3)
        create(url, principal=principal, accept_within="1 hour", **settings).close()
        acts, open_acts = dict[str, Deed](), dict[str, Deed]()
        doubtful, paid, answered, busy = dict[str, Deed](), set[int](), 0, 0.0

        def read(lines: list[list[Any]]) -> int:
            """Take note of what a life said; return how much of it was answered."""
            count = 0
            for kind, *rest in lines:
                if kind == "sent":
                    deed = Deed(*rest)
                    doubtful[deed.what + deed.event] = deed
                    acts.setdefault(deed.event, deed)
                else:
                    deed = doubtful.pop(rest[0])
                    count += 1
                    if deed.what == "act":
                        open_acts[deed.event] = deed
                    else:
                        del open_acts[deed.event]
                    if rest[1] == "paid":
                        paid.add(rest[2])
            return count

        for turn in range(kills):
            known = [*doubtful.values(), *(it._replace(what="open") for it in open_acts.values())]
            lines, lasted = life(url, turn, known, rng.uniform(0.05, 2 * seconds), _work)
            busy += lasted
            answered += read(lines)
            wrong = right(url) if turn % 10 == 9 or turn == kills - 1 else ""
            found.demand(not wrong, f"{rule}, after kill {turn}: {wrong}")
        for turn in (kills, kills + 1):  # what was in doubt may be acts whose outcomes are to come
            known = [*doubtful.values(), *(it._replace(what="open") for it in open_acts.values())]
            answered += read(life(url, turn, known, 0.0, _work)[0])
        found.demand(len(acts) > kills, f"{rule}: only {len(acts)} acts in {kills} lives, which tries nothing")
        _check(found, url, rule, acts, paid)
        found.figures[f"{rule}: acts"] = len(acts)
        found.figures[f"{rule}: bonuses"] = len(paid)
        found.figures[f"{rule}: acts and outcomes/s"] = answered / busy


def _check(found: Finding, url: str, rule: str, acts: dict[str, Deed], paid: set[int]) -> None:
    """Compare the log and the ledger with what was sent and answered."""
    with fp.Campaign.open(url, NAME) as campaign:
        status, ledger = campaign.status(), campaign.ledger()
        records = np.concatenate([it.records for it in segments(campaign.core.store, NAME)])
    made, came = np.flatnonzero(records["kind"] == Kind.ACTED), records[records["kind"] == Kind.CAME]
    told = sorted((int(records["agent"][i]), int(records["arm"][i])) for i in made)
    found.demand(told == sorted((it.agent, it.arm) for it in acts.values()), f"{rule}: not the acts that were sent")
    rewards = sorted((int(it["agent"]), int(it["value"])) for it in came)
    sent = sorted((it.agent, round(it.reward * UNITS)) for it in acts.values())
    found.demand(rewards == sent, f"{rule}: not the outcomes that were sent")
    once = len(np.unique(came["offer"])) == len(came) and np.isin(came["offer"], made).all()
    found.demand(bool(once), f"{rule}: an act has two outcomes, or an outcome no act")
    found.demand(status.open_acts == 0, f"{rule}: {status.open_acts} outcomes are still awaited")
    twice = len(ledger) - len({entry.offer for entry in ledger})
    found.demand(twice == 0, f"{rule}: {twice} offers were paid twice")
    entries = {entry.offer for entry in ledger}
    found.demand(entries == paid, f"{rule}: {len(entries ^ paid)} bonuses are answered or in the ledger, not both")
    due = sum(entry.amount.minor for entry in ledger)
    found.demand(status.spent.minor == due, f"{rule}: {status.spent} spent, but the ledger has {due} minor units")


async def _work(url: str, turn: int, known: list[Deed], writing: int, only_repeat: bool) -> None:
    """Repeat what is in doubt, then let all agents act, and say what is sent and answered."""
    campaign = await fp.AsyncCampaign.open(url, NAME, snapshot_every=SNAPSHOT_EVERY)

    def say(*words: object) -> None:
        os.write(writing, json.dumps(words[0] if len(words) == 1 else words).encode() + b"\n")

    async def do(deed: Deed) -> None:
        if deed.what == "act":
            told = await campaign.act(deed.agent, deed.arm, deed.event)
        else:
            told = await campaign.outcome(deed.agent, deed.event, deed.reward)
        say("done", deed.what + deed.event, told.outcome, told.offer)

    ready = False

    async def send(deed: Deed) -> None:
        nonlocal ready
        say("sent", *deed)
        await do(deed)
        if not ready:  # the machine code is loaded by now, so the time that is left is spent on acts
            ready = True
            say("ready")

    for deed in known:
        if deed.what != "open":
            await do(deed)
    again = {deed.event for deed in known if deed.what == "outcome"}
    left = [it._replace(what="outcome") for it in known if it.what == "open" and it.event not in again]

    async def act(agent: int) -> None:
        rng = random.Random(f"{turn}:{agent}")
        waiting = [it for it in left if it.agent == agent]
        number = 0
        while waiting or not only_repeat:
            if waiting and (only_repeat or len(waiting) == OPEN or rng.random() < 0.5):
                await send(waiting.pop(rng.randrange(len(waiting))))
                continue
            offer = await campaign.ask(agent)
            arm = rng.randrange(ARMS)
            if offer is not None and rng.random() < 0.8:
                arm = campaign.settings.arms.index((await campaign.accept(agent, offer=offer.id)).arm)
            deed, number = Deed("act", agent, arm, f"{turn}:{agent}:{number}"), number + 1
            await send(deed)
            waiting.append(deed._replace(what="outcome"))

    await asyncio.gather(*(act(agent) for agent in range(CLIENTS)))
    await campaign.close()
