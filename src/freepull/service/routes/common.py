"""What routes share: where campaigns are, how names in paths are looked up, and which errors are documented."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request
from litestar.params import FromPath, QueryParameter

from freepull.errors import UnknownAgent, UnknownArm
from freepull.service.guards import visitor_of
from freepull.service.house import House, Open
from freepull.service.problems import Refused, described

Asked = Request[Any, Any, Any]
READ = described(400, 401, 403, 404, 421, 500, 503)
READ_OR_NOT_NOW = described(400, 401, 403, 404, 409, 421, 500, 503)
WRITE = described(400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 500, 503)
ACT = described(400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 429, 500, 503)
BEARER = [{"bearer": list[str]()}]
ADMIN, READER = ("admin",), ("admin", "read")
PAGE = 1000
InPath = FromPath[str]
Only = Annotated[bool, QueryParameter(description="Only the open ones.")]
After = Annotated[int, QueryParameter(ge=-1, lt=1 << 62, description="Only what comes behind this one.")]
Last = Annotated[
    int | None, QueryParameter(ge=1, le=PAGE, description="Only the last so many, still the oldest first.")
]
Limit = Annotated[int, QueryParameter(ge=1, le=PAGE, description="At most so many.")]


def house_of(request: Asked) -> House:
    """Return all campaigns."""
    house: House = request.app.state.house
    return house


async def find(request: Asked, campaign: str) -> Open:
    """Return a campaign that is open here."""
    return await house_of(request).find(campaign)


def by(request: Asked) -> str:
    """Return who asks, for the audit."""
    return f"token {visitor_of(request).id}"


AGENTS, ARMS = (f"Look at GET /v1/campaigns/{{campaign}}/{what}." for what in ("agents", "arms"))


def agent_number(found: Open, agent: str) -> int:
    """Return the number of an agent that a path names."""
    try:
        return found.campaign.blocking.core.register.agent(agent)
    except UnknownAgent as error:
        raise Refused(404, str(error), AGENTS, kind="UnknownAgent") from None


def arm_number(found: Open, arm: str) -> int:
    """Return the number of an arm that a path names."""
    try:
        return found.campaign.blocking.core.register.arm(arm)
    except UnknownArm as error:
        raise Refused(404, str(error), ARMS, kind="UnknownArm") from None
