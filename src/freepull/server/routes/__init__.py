"""What routes share: who may use them, where campaigns are, names in paths, and what the OpenAPI document adds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import Parameter as Argument
from inspect import Signature
from typing import Annotated, Any

from litestar import Request
from litestar.openapi.spec import (
    OpenAPIFormat,
    OpenAPIMediaType,
    OpenAPIType,
    Operation,
    Parameter,
    RequestBody,
    Schema,
)
from litestar.params import FromPath, QueryParameter

from freepull.client.talks import MEDIA
from freepull.errors import UnknownAgent, UnknownArm
from freepull.messages import SETTLEMENTS
from freepull.server.auth import Visitor, check
from freepull.server.hosting import Hosting, Open
from freepull.server.middleware import LONGEST_KEY, name_in
from freepull.server.problems import Refused, described

Asked = Request[Any, Any, Any]
READ = described(400, 401, 403, 404, 421, 500, 503)
READ_OR_NOT_NOW = described(400, 401, 403, 404, 409, 421, 500, 503)
WRITE = described(400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 429, 500, 503)
BEARER = [{"bearer": list[str]()}]
ADMIN, OPERATOR, READER = ("admin",), ("admin", "operator"), ("admin", "operator", "read")
PAYER = ("admin", "payer")
PAGE = 1000
InPath = FromPath[str]
Screens = Annotated[
    bool, QueryParameter(description="Send all that a screen shows, as `screen`, instead of `status` and `audit`.")
]
Only = Annotated[bool, QueryParameter(description="Only the open ones.")]
After = Annotated[int, QueryParameter(ge=-1, lt=1 << 53, description="Only what comes after this one.")]
Last = Annotated[
    int | None, QueryParameter(ge=1, le=PAGE, description="Only this many of the last, still the oldest first.")
]
Settlement = Annotated[
    str,
    QueryParameter(
        pattern=f"^({'|'.join(('', 'unsettled', *SETTLEMENTS))})$",
        description="Only entries in this state, or all that are unsettled; empty: all.",
    ),
]
Limit = Annotated[int, QueryParameter(ge=1, le=PAGE, description="At most this many.")]
KINDS = {kind: suffix for suffix, kind in MEDIA.items()}
KEY = Parameter(
    name="Idempotency-Key",
    param_in="header",
    required=False,
    description="With the same key the same request is answered once, and the same again for a day.",
    schema=Schema(type=OpenAPIType.STRING, min_length=1, max_length=LONGEST_KEY),
)
LAST_EVENT = Parameter(
    name="Last-Event-ID",
    param_in="header",
    required=False,
    description="The id of the last event that came through; the stream goes on behind it.",
    schema=Schema(type=OpenAPIType.STRING),
)


@dataclass
class Keyed(Operation):
    """An admin's POST, which takes an Idempotency-Key."""

    def __post_init__(self) -> None:
        self.parameters = [*(self.parameters or []), KEY]


@dataclass
class Resumable(Operation):
    """A stream, which takes a Last-Event-ID."""

    def __post_init__(self) -> None:
        self.parameters = [*(self.parameters or []), LAST_EVENT]


@dataclass
class Upload(Keyed):
    """A POST whose body is a file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        text = Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY)
        self.request_body = RequestBody(content={kind: OpenAPIMediaType(schema=text) for kind in KINDS}, required=True)


def needs(*scopes: str, lists: bool = False) -> Callable[[Asked], Awaitable[None]]:
    """Return what lets only these scopes pass; one for a campaign passes only there, and in lists.

    It is run before the request: Litestar's own guards would copy the handler each time.
    """

    async def check_scope(request: Asked) -> None:
        params = {name: name_in(part) for name, part in request.path_params.items()}
        request.scope["path_params"] = params
        check(visitor_of(request), params.get("campaign", ""), scopes, lists, request.app.state.rate_limit)

    return check_scope


def visitor_of(request: Asked) -> Visitor:
    """Return who asks, as `middleware.Auth` has found."""
    visitor: Visitor = request.scope["state"]["visitor"]
    return visitor


def hosting_of(request: Asked) -> Hosting:
    """Return all campaigns."""
    hosting: Hosting = request.app.state.hosting
    return hosting


async def find(request: Asked, campaign: str) -> Open:
    """Return a campaign that is open here."""
    return await hosting_of(request).find(campaign)


def by(request: Asked) -> str:
    """Return who asks, for the audit."""
    return f"token {visitor_of(request).id}"


def describe(handler: Any, hints: dict[str, Any], reply: Any, **defaults: Any) -> None:
    """Give a handler that is made, not written, the parameters and the reply that the framework reads."""
    parameters = [
        Argument(name, Argument.KEYWORD_ONLY, annotation=hint, default=defaults.get(name, Argument.empty))
        for name, hint in hints.items()
    ]
    handler.__annotations__ = hints | {"return": reply}
    handler.__signature__ = Signature(parameters, return_annotation=reply)


AGENTS, ARMS = (f"Look at GET /v1/campaigns/{{campaign}}/{what}." for what in ("agents", "arms"))


def agent_number(found: Open, agent: str) -> int:
    """Return the number of an agent that a path names."""
    try:
        return found.view.agent(agent)
    except UnknownAgent as error:
        raise Refused(404, str(error), AGENTS, kind="UnknownAgent") from None


def arm_number(found: Open, arm: str) -> int:
    """Return the number of an arm that a path names."""
    try:
        return found.view.arm(arm)
    except UnknownArm as error:
        raise Refused(404, str(error), ARMS, kind="UnknownArm") from None
