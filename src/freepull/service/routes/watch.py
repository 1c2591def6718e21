"""What a screen shows beyond tables: the stream, how it came about, and who pulls what."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import numpy as np
from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.response import Stream

from freepull.live.desk import Desk
from freepull.live.waking import awaited
from freepull.messages import AuditEntry, Status
from freepull.principal.rules.pairwise.state import PairwiseState
from freepull.service import viewers
from freepull.service.guards import needs
from freepull.service.history import Point
from freepull.service.operations import Resumable
from freepull.service.problems import Refused
from freepull.service.routes.common import BEARER, READ, READER, After, Asked, InPath, find, house_of

LOOK: dict[str, Any] = {"before_request": needs(*READER), "responses": READ, "security": BEARER, "tags": ["watch"]}
EVENTS = ResponseSpec(
    Status | AuditEntry,
    generate_examples=False,
    media_type="text/event-stream",
    description="Server-sent events: the data of `status` is a Status, that of `audit` an AuditEntry.",
)
SHOWN = 500
SAMPLE = 10_000
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


class Pulls(msgspec.Struct):
    """Who pulls what: quantiles of pulls over agents, and a sample of agents."""

    agents: int
    """How many agents count."""
    quantiles: list[list[float]]
    """For all arms together, then arm by arm: minimum, 10 %, 25 %, median, 75 %, 90 %, maximum."""
    sampled: bool
    """Whether only a sample was looked at."""
    names: list[str]
    """Some agents: all of them up to 500."""
    pulls: list[list[int]]
    """For each of the agents named, its pulls by arm."""


class Margins(msgspec.Struct):
    """By how much the leader is better than each arm, at least."""

    leader: str | None
    """The arm that is ahead; null before the start."""
    lower: list[float] | None
    """Lower confidence bounds, by arm; an arm goes above 0. Null where the rule has no such bounds."""


@get(
    "/campaigns/{campaign:str}/stream",
    before_request=needs(*READER),
    responses=READ | {200: EVENTS},
    security=BEARER,
    tags=["watch"],
    operation_class=Resumable,
)
async def stream(request: Asked, campaign: InPath, after: After = -1) -> Stream:
    """Server-sent events: `status` as things stand, `audit` for what was done; ids are places in the log.

    The header Last-Event-ID, or ``after``, goes on where a stream broke off.
    """
    found = await find(request, campaign)
    last = request.headers.get("last-event-id", "")
    if last.isascii() and last.isdigit() and len(last) < 19:
        after = int(last)
    if found.viewers.count >= viewers.MOST:
        raise Refused(503, f"{viewers.MOST} people watch already.", "Close a page, or try again later.")
    house, token = house_of(request), request.headers["authorization"]
    body = found.viewers.stream(after, house.closing, lambda: house.access.holds(token))
    return Stream(body, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


@get("/campaigns/{campaign:str}/history", **LOOK)
async def history(request: Asked, campaign: InPath) -> list[Point]:
    """How means, bounds, spend and active arms came about, in at most some hundred points."""
    return await (await find(request, campaign)).history.points()


@get("/campaigns/{campaign:str}/pulls", **LOOK)
async def pulls(request: Asked, campaign: InPath) -> Pulls:
    """Pulls per agent: quantiles, and a sample of at most 500 agents."""
    core = (await find(request, campaign)).campaign.blocking.core

    def copy(desk: Desk, at: int) -> tuple[int, Any, Any]:
        trial = desk.state.started
        if trial is None:
            return desk.state.panel, np.zeros(0, np.int64), np.zeros((0, len(core.register.arms)), np.uint32)
        chosen = np.unique(np.linspace(0, desk.state.panel - 1, min(desk.state.panel, SAMPLE)).astype(np.int64))
        return desk.state.panel, chosen, trial.record.pulls[chosen]

    def count(panel: int, chosen: Any, table: Any) -> Pulls:
        sums = [table.sum(axis=1), *table.T] if len(chosen) else []
        shares = [np.quantile(column, QUANTILES).tolist() for column in sums]
        few = np.unique(np.linspace(0, len(chosen) - 1, min(len(chosen), SHOWN)).astype(np.int64))
        names = [core.register.shown(int(m)) for m in chosen[few]]
        return Pulls(panel, shares, len(chosen) < panel, names, table[few].tolist())

    return await asyncio.to_thread(count, *await awaited(core.do(copy)))


@get("/campaigns/{campaign:str}/margins", **LOOK)
async def margins(request: Asked, campaign: InPath) -> Margins:
    """By how much the leader is better, at least, where the rule compares pairs."""
    core = (await find(request, campaign)).campaign.blocking.core

    def look(desk: Desk, at: int) -> Margins:
        rule = None if desk.state.started is None else desk.state.started.rule
        if rule is None:
            return Margins(None, None)
        leader, arms = rule.leader(), core.register.arms
        lower = [rule.lower(leader, k) for k in range(len(arms))] if isinstance(rule, PairwiseState) else None
        return Margins(arms[leader], lower)

    return await awaited(core.do(look))


HANDLERS = [stream, history, pulls, margins]
