"""What admins change: campaigns, their status, budget, agents and arms."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from litestar import delete, get, patch, post
from litestar.params import Body as In

from freepull.errors import FreepullError
from freepull.live.replies import Status
from freepull.service.decoding import Strict
from freepull.service.openapi import Keyed
from freepull.service.principals import read_principal
from freepull.service.routes.common import (
    ADMIN,
    BEARER,
    READ,
    READER,
    WRITE,
    Asked,
    InPath,
    agent_number,
    arm_number,
    by,
    find,
    hosting_of,
    needs,
    visitor_of,
)
from freepull.service.schemas import Budget, CampaignRow, Enrolled, NewAgents, NewCampaign, Snapshot, Stop

CHANGE: dict[str, Any] = {"before_request": needs(*ADMIN), "responses": WRITE, "security": BEARER, "return_dto": None}
POST = CHANGE | {"operation_class": Keyed}


@get("/campaigns", before_request=needs(*READER, lists=True), responses=READ, security=BEARER, tags=["campaigns"])
async def campaigns(request: Asked) -> list[CampaignRow]:
    """List the campaigns that the token is for."""
    hosting, only = hosting_of(request), visitor_of(request).campaign
    here = hosting.here()
    rows = []
    for name, owner in await hosting.names():
        if only in ("", name):
            status = None
            with suppress(FreepullError):  # its writer may end at this moment; the others are listed all the same
                status = await here[name].campaign.status() if name in here else None
            told = (None, None) if status is None else (status.status, status.decided)
            rows.append(CampaignRow(name, owner, status is not None, *told))
    return rows


@post("/campaigns", dto=Strict[NewCampaign], tags=["campaigns"], **POST)
async def create(request: Asked, data: Annotated[NewCampaign, In()]) -> Status:
    """Make a campaign; agents can enrol until it starts."""
    settings = msgspec.structs.asdict(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings["principal"] = read_principal(data.principal)
        found = await hosting_of(request).create(**settings, by=by(request))
    return await found.campaign.status()


@get("/campaigns/{campaign:str}", before_request=needs(*READER), responses=READ, security=BEARER, tags=["campaigns"])
async def status(request: Asked, campaign: InPath) -> Status:
    """Say how a campaign stands."""
    return await (await find(request, campaign)).campaign.status()


@post("/campaigns/{campaign:str}/start", status_code=200, tags=["campaigns"], **POST)
async def start(request: Asked, campaign: InPath) -> Status:
    """Close the panel and begin."""
    found = (await find(request, campaign)).campaign
    await found.start(by(request))
    return await found.status()


@post("/campaigns/{campaign:str}/pause", status_code=200, tags=["campaigns"], **POST)
async def pause(request: Asked, campaign: InPath) -> Status:
    """Make no offers until it is resumed; pulls still count."""
    found = (await find(request, campaign)).campaign
    await found.pause(by(request))
    return await found.status()


@post("/campaigns/{campaign:str}/resume", status_code=200, tags=["campaigns"], **POST)
async def resume(request: Asked, campaign: InPath) -> Status:
    """Make offers again."""
    found = (await find(request, campaign)).campaign
    await found.resume(by(request))
    return await found.status()


@post("/campaigns/{campaign:str}/stop", status_code=200, dto=Strict[Stop], tags=["campaigns"], **POST)
async def stop(request: Asked, campaign: InPath, data: Annotated[Stop, In()]) -> Status:
    """End a campaign for good."""
    found = (await find(request, campaign)).campaign
    await found.stop(data.why, by(request))
    return await found.status()


@patch("/campaigns/{campaign:str}/budget", dto=Strict[Budget], tags=["campaigns"], **CHANGE)
async def budget(request: Asked, campaign: InPath, data: Annotated[Budget, In()]) -> Status:
    """Change the most that may be spent."""
    found = (await find(request, campaign)).campaign
    await found.budget(data.budget, by(request))
    return await found.status()


@post("/campaigns/{campaign:str}/agents", dto=Strict[NewAgents], tags=["agents"], **POST)
async def enrol(request: Asked, campaign: InPath, data: Annotated[NewAgents, In()]) -> Enrolled:
    """Add agents; from the start on they are late joiners."""
    found = (await find(request, campaign)).campaign
    return Enrolled(await found.add_agents(data.agents, data.weights, by(request)))


@post("/campaigns/{campaign:str}/agents/{agent:str}/unban", status_code=200, tags=["agents"], **POST)
async def unban(request: Asked, campaign: InPath, agent: InPath) -> Status:
    """End an agent's ban."""
    found = await find(request, campaign)
    await found.campaign.unban(agent_number(found, agent), by(request))
    return await found.campaign.status()


@post("/campaigns/{campaign:str}/agents/{agent:str}/leave", status_code=200, tags=["agents"], **POST)
async def leave(request: Asked, campaign: InPath, agent: InPath) -> Status:
    """Note that an agent has left."""
    found = await find(request, campaign)
    await found.campaign.leave(agent_number(found, agent), by(request))
    return await found.campaign.status()


@post("/campaigns/{campaign:str}/arms/{arm:str}/withdraw", status_code=200, tags=["campaigns"], **POST)
async def withdraw(request: Asked, campaign: InPath, arm: InPath) -> Status:
    """Take an arm out, if that was provided for."""
    found = await find(request, campaign)
    await found.campaign.withdraw(arm_number(found, arm), by(request))
    return await found.campaign.status()


@delete("/campaigns/{campaign:str}/agents/{agent:str}/name", tags=["agents"], **CHANGE)
async def erase_name(request: Asked, campaign: InPath, agent: InPath) -> None:
    """Erase an agent's name for good; the log and the tables know its number only."""
    found = await find(request, campaign)
    await found.campaign.erase_names([agent_number(found, agent)], by(request))


@post("/campaigns/{campaign:str}/snapshot", status_code=200, tags=["campaigns"], **POST)
async def snapshot(request: Asked, campaign: InPath) -> Snapshot:
    """Take a snapshot, so that the next start is faster; answered when it is stored."""
    return Snapshot(await (await find(request, campaign)).campaign.snapshot())


HANDLERS = [
    *(campaigns, create, status, start, pause, resume, stop, budget, enrol, unban, leave, withdraw),
    *(erase_name, snapshot),
]
