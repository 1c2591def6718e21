"""What admins change: campaigns, their status, budget, agents and arms, as commands declare it; and tokens."""

from __future__ import annotations

import asyncio
import re
import warnings
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from litestar import delete, get, post
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler
from litestar.params import Body as In
from litestar.params import QueryParameter

from freepull.commands import (
    COMMANDS,
    AddAgents,
    Available,
    Command,
    EraseNames,
    Leave,
    Pause,
    Resume,
    Settle,
    Start,
    TakeSnapshot,
    Unavailable,
    Unban,
)
from freepull.errors import FreepullError, UnknownName
from freepull.messages import (
    SCOPES,
    AgentToken,
    AgentTokens,
    CampaignRow,
    DeliveryRow,
    MadeToken,
    Me,
    OverviewRow,
    Status,
    TargetRow,
    TokenEntry,
    TokenRow,
    Tried,
)
from freepull.server.problems import Refused
from freepull.server.routes import (
    ADMIN,
    BEARER,
    OPERATOR,
    PAGE,
    PAYER,
    READ,
    READER,
    WRITE,
    After,
    Asked,
    InPath,
    Keyed,
    Limit,
    agent_number,
    arm_number,
    by,
    describe,
    find,
    hosting_of,
    needs,
    visitor_of,
)
from freepull.server.routes.agents import HOT
from freepull.server.schemas import BODIES, Mine, NewAgentTokens, NewCampaign, NewToken, Replay, Strict, read_principal

CHANGE: dict[str, Any] = {"before_request": needs(*ADMIN), "responses": WRITE, "security": BEARER, "return_dto": None}
POST = CHANGE | {"operation_class": Keyed}
OPERATED = (Start, Pause, Resume, AddAgents, Leave, Unban, TakeSnapshot)
"""What operators may do too: nothing of it changes what may be spent, or cannot be undone by more pulls."""
SPEAKING = ("admin", "operator", "gateway")
"""Who may say what is available to agents."""
Anyway = Annotated[bool, QueryParameter(description="Also of who is still owed something.")]


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


@get("/overview", before_request=needs(*READER, lists=True), responses=READ, security=BEARER, tags=["campaigns"])
async def overview(request: Asked) -> list[OverviewRow]:
    """Every campaign in short: which arm, how sure, what was spent, whether it is stuck; stuck ones first."""
    hosting, only = hosting_of(request), visitor_of(request).campaign
    here, rows = hosting.here(), list[OverviewRow]()
    for name, owner in await hosting.names():
        if only in ("", name):
            row = OverviewRow(name, owner, False)
            with suppress(FreepullError):  # its writer may end at this moment
                row = await here[name].overview() if name in here else row
            row.owner = owner
            rows.append(row)
    return sorted(rows, key=lambda it: (it.status == "stopped", it.decided, not it.stuck, it.name))


@post("/campaigns", dto=Strict[NewCampaign], tags=["campaigns"], **POST)
async def create(request: Asked, data: Annotated[NewCampaign, In()]) -> Status:
    """Make a campaign; agents can enrol until it starts."""
    settings = msgspec.structs.asdict(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings["principal"] = read_principal(data.principal, data.horizon)
        found = await hosting_of(request).create(**settings, by=by(request))
    return await found.campaign.status()


@get("/campaigns/{campaign:str}", before_request=needs(*READER), responses=READ, security=BEARER, tags=["campaigns"])
async def status(request: Asked, campaign: InPath) -> Status:
    """Say how a campaign stands."""
    return await (await find(request, campaign)).campaign.status()


@delete("/campaigns/{campaign:str}/names", tags=["agents"], **CHANGE)
async def erase_names(request: Asked, campaign: InPath, anyway: Anyway = False) -> None:
    """Erase everybody's names for good, all or none: none while somebody is owed something, unless anyway."""
    await (await find(request, campaign)).campaign.erase_names(by=by(request), anyway=anyway)


SPOKEN = {it.tail.replace(":str", "") for it in HOT}
"""What `agents` answers."""
NAMED = {"agent": agent_number, "arm": arm_number}
"""How what a path names is looked up."""


def change(command: type[Command[Any]]) -> HTTPRouteHandler:
    """Make the route of a command, as it says where it is and what it answers."""
    route, body = command.route, BODIES.get(command)
    assert route is not None
    fields = command.__struct_fields__
    scopes: tuple[str, ...] = OPERATOR if command in OPERATED else ADMIN
    scopes = PAYER if command is Settle else SPEAKING if command in (Unavailable, Available) else scopes

    async def handler(request: Asked, campaign: str, data: Any = None, anyway: bool = False, **named: str) -> Any:
        found = await find(request, campaign)
        given: dict[str, Any] = {} if data is None else msgspec.structs.asdict(data)
        given |= {"anyway": True} if anyway else {}
        for name, text in named.items():
            number = NAMED[name](found, text)
            given |= {name: number} if name in fields else {f"{name}s": [number]}
        if "by" in fields:
            given["by"] = by(request)
        reply = await found.campaign.do(command(**given))
        if route.reply is None:
            return None
        if route.field == "*":
            return route.reply(*reply)
        if route.reply is Me:
            return await found.view.me(given["agent"])
        return route.reply(reply) if route.field else await found.campaign.status()

    hints: dict[str, Any] = {"request": Asked, "campaign": InPath, **dict.fromkeys(route.names, InPath)}
    if body is not None:
        hints["data"] = Annotated[body, In()]
    if command is EraseNames:
        hints["anyway"] = Anyway
    own: Any = handler
    own.__name__, own.__doc__ = route.name or command.verb, command.__doc__
    describe(own, hints, route.reply, anyway=False)
    path = re.sub("{(.*?)}", r"{\1:str}", f"/campaigns/{{campaign}}/{route.path}")
    return HTTPRouteHandler(
        path,
        http_method=HttpMethod(route.method),
        status_code=route.status,
        dto=None if body is None else Strict[body],  # type: ignore[valid-type]
        tags=["agents" if route.path.startswith("agents") else "campaigns"],
        **(POST if route.method == "POST" else CHANGE) | {"before_request": needs(*scopes)},
    )(own)


TOKENS: dict[str, Any] = {
    "before_request": needs(*ADMIN),
    "responses": WRITE,
    "security": BEARER,
    "return_dto": None,
    "tags": ["tokens"],
}


@get("/token", before_request=needs(*SCOPES, lists=True), responses=READ, security=BEARER, tags=["tokens"])
async def token(request: Asked) -> Mine:
    """Say what the token that is sent is good for."""
    visitor = visitor_of(request)
    return Mine(visitor.id, visitor.scope, visitor.campaign)


@get("/tokens", **{**TOKENS, "responses": READ})
async def tokens(request: Asked) -> list[TokenRow]:
    """List tokens, without their secrets."""
    return hosting_of(request).tokens.rows()


@post("/tokens", dto=Strict[NewToken], **TOKENS)
async def new_token(request: Asked, data: Annotated[NewToken, In()]) -> MadeToken:
    """Make a token; it is shown here and never again."""
    new = hosting_of(request).tokens.new
    token, row = await asyncio.to_thread(new, data.scope, data.campaign, data.label, data.lasts, by(request))
    return MadeToken(row.id, token, row.scope, row.campaign, row.expires)


@delete("/tokens/{id:str}", **TOKENS)
async def revoke(request: Asked, id: InPath) -> None:
    """End a token for good."""
    try:
        await asyncio.to_thread(hosting_of(request).tokens.revoke, id, by(request))
    except UnknownName as error:
        raise Refused(404, str(error), "Look at GET /v1/tokens.") from None


@post("/campaigns/{campaign:str}/tokens", dto=Strict[NewAgentTokens], **TOKENS)
async def agent_tokens(request: Asked, campaign: InPath, data: Annotated[NewAgentTokens, In()]) -> AgentTokens:
    """Make tokens for agents, each for one agent of one campaign."""
    view, sign = (await find(request, campaign)).view, hosting_of(request).tokens.sign
    numbers = [view.agent(agent) for agent in data.agents]
    made = await asyncio.to_thread(sign, campaign, numbers, data.lasts, by(request))
    return AgentTokens([AgentToken(view.agent_name(m), token) for m, token in zip(numbers, made, strict=True)])


@post(
    "/campaigns/{campaign:str}/agents/{agent:str}/revoke",
    status_code=204,
    **TOKENS | {"before_request": needs(*OPERATOR)},
)
async def revoke_agent(request: Asked, campaign: InPath, agent: InPath) -> None:
    """End all tokens of an agent; new ones can be made."""
    number = agent_number(await find(request, campaign), agent)
    await asyncio.to_thread(hosting_of(request).tokens.revoke_agent, campaign, number, by(request))


@get("/tokens/audit", **{**TOKENS, "responses": READ})
async def audit(request: Asked, after: After = 0, limit: Limit = PAGE) -> list[TokenEntry]:
    """Who has made and revoked which tokens."""
    return await asyncio.to_thread(hosting_of(request).tokens.audit, after, limit)


@get("/webhooks", **{**TOKENS, "responses": READ, "tags": ["webhooks"]})
async def webhooks(request: Asked) -> list[TargetRow]:
    """List the addresses that are told what happens, and how far each has got."""
    return hosting_of(request).webhooks.rows()


@post("/webhooks/{target:str}/test", status_code=200, **{**POST, **TOKENS, "tags": ["webhooks"]})
async def test_webhook(request: Asked, target: InPath) -> Tried:
    """Send a signed event of the kind test to a target, once, and say what came of it."""
    return await hosting_of(request).webhooks.test(target)


@post(
    "/campaigns/{campaign:str}/webhooks/{target:str}/replay",
    status_code=200,
    dto=Strict[Replay],
    **{**POST, **TOKENS, "tags": ["webhooks"]},
)
async def replay_webhook(
    request: Asked, campaign: InPath, target: InPath, data: Annotated[Replay, In()]
) -> DeliveryRow:
    """Tell a target everything again that came after an event of the log."""
    await find(request, campaign)
    return hosting_of(request).webhooks.replay(campaign, target, data.after)


HANDLERS = [
    *(campaigns, overview, create, status, erase_names),
    *(webhooks, test_webhook, replay_webhook),
    *(change(it) for it in COMMANDS if it.route and it.route.method != "GET" and it.route.path not in SPOKEN),
    token,
    tokens,
    audit,
    new_token,
    revoke,
    agent_tokens,
    revoke_agent,
]
