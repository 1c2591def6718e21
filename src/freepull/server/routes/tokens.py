"""Tokens: made and ended by admins, shown once."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from litestar import delete, get, post
from litestar.params import Body as In

from freepull.errors import UnknownName
from freepull.messages import SCOPES, AgentToken, AgentTokens, MadeToken, TokenEntry, TokenRow
from freepull.server.problems import Refused
from freepull.server.routes.common import (
    ADMIN,
    BEARER,
    OPERATOR,
    PAGE,
    READ,
    WRITE,
    After,
    Asked,
    InPath,
    Limit,
    agent_number,
    by,
    find,
    hosting_of,
    needs,
    visitor_of,
)
from freepull.server.schemas import Mine, NewAgentTokens, NewToken, Strict

CHANGE: dict[str, Any] = {
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


@get("/tokens", **{**CHANGE, "responses": READ})
async def tokens(request: Asked) -> list[TokenRow]:
    """List tokens, without their secrets."""
    return hosting_of(request).tokens.rows()


@post("/tokens", dto=Strict[NewToken], **CHANGE)
async def new_token(request: Asked, data: Annotated[NewToken, In()]) -> MadeToken:
    """Make a token; it is shown here and never again."""
    new = hosting_of(request).tokens.new
    token, row = await asyncio.to_thread(new, data.scope, data.campaign, data.label, data.lasts, by(request))
    return MadeToken(row.id, token, row.scope, row.campaign, row.expires)


@delete("/tokens/{id:str}", **CHANGE)
async def revoke(request: Asked, id: InPath) -> None:
    """End a token for good."""
    try:
        await asyncio.to_thread(hosting_of(request).tokens.revoke, id, by(request))
    except UnknownName as error:
        raise Refused(404, str(error), "Look at GET /v1/tokens.") from None


@post("/campaigns/{campaign:str}/tokens", dto=Strict[NewAgentTokens], **CHANGE)
async def agent_tokens(request: Asked, campaign: InPath, data: Annotated[NewAgentTokens, In()]) -> AgentTokens:
    """Make tokens for agents, each for one agent of one campaign."""
    view, sign = (await find(request, campaign)).view, hosting_of(request).tokens.sign
    numbers = [view.agent(agent) for agent in data.agents]
    made = await asyncio.to_thread(sign, campaign, numbers, data.lasts, by(request))
    return AgentTokens([AgentToken(view.agent_name(m), token) for m, token in zip(numbers, made, strict=True)])


@post(
    "/campaigns/{campaign:str}/agents/{agent:str}/revoke",
    status_code=204,
    **CHANGE | {"before_request": needs(*OPERATOR)},
)
async def revoke_agent(request: Asked, campaign: InPath, agent: InPath) -> None:
    """End all tokens of an agent; new ones can be made."""
    number = agent_number(await find(request, campaign), agent)
    await asyncio.to_thread(hosting_of(request).tokens.revoke_agent, campaign, number, by(request))


@get("/tokens/audit", **{**CHANGE, "responses": READ})
async def audit(request: Asked, after: After = 0, limit: Limit = PAGE) -> list[TokenEntry]:
    """Who has made and revoked which tokens."""
    return await asyncio.to_thread(hosting_of(request).tokens.audit, after, limit)


HANDLERS = [token, tokens, audit, new_token, revoke, agent_tokens, revoke_agent]
