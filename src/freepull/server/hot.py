"""Hot routes: asks and tells, which are nearly all of the requests. Each is declared once, as a function.

From that declaration come both how it is answered, without the framework, which takes longer, and the framework's own
handler, which describes it in the OpenAPI document and would answer the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, get_type_hints

import msgspec
from litestar import post
from litestar.params import Body as In

from freepull.server.auth import Visitor, check
from freepull.server.decoding import Strict, decode, json_only
from freepull.server.hosting import Hosting
from freepull.server.limits import RateLimit
from freepull.server.middleware import Metrics, Middleware, messages, name_in
from freepull.server.routes.common import BEARER, Asked, InPath, hosting_of, needs, visitor_of

CAMPAIGN = "/campaigns/{campaign:str}/"
JSON = "application/json"


class Visit(NamedTuple):
    """Who asks, and about which campaign."""

    hosting: Hosting
    metrics: Metrics
    visitor: Visitor
    campaign: str


@dataclass(frozen=True)
class HotRoute:
    """A POST below a campaign that is answered with 200 and JSON."""

    tail: str
    """The end of its path, after the campaign's."""
    scopes: tuple[str, ...]
    answer: Callable[..., Awaitable[Any]]
    """Takes a `Visit`, and ``data`` if the request has a body."""
    options: dict[str, Any]
    """What else the OpenAPI document says."""

    @property
    def body(self) -> Any:
        """The type of the body, None if there is none."""
        return get_type_hints(self.answer).get("data")

    def handler(self) -> Any:
        """Return the framework's handler."""
        if self.body is None:

            async def handle(request: Asked, campaign: InPath) -> Any:
                return await self.answer(_visit(request, campaign))
        else:

            async def handle(request: Asked, campaign: InPath, data: Any) -> Any:  # type: ignore[misc]
                return await self.answer(_visit(request, campaign), data)

            handle.__annotations__["data"] = Annotated[self.body, In()]
        handle.__name__, handle.__doc__ = self.answer.__name__, self.answer.__doc__
        handle.__annotations__["return"] = get_type_hints(self.answer)["return"]
        options = self.options | {"before_request": needs(*self.scopes), "security": BEARER, "return_dto": None}
        if self.body is not None:
            strict: Any = Strict
            options["dto"] = strict[self.body]
        return post(CAMPAIGN + self.tail, status_code=200, **options)(handle)


def hot(tail: str, *scopes: str, **options: Any) -> Callable[[Callable[..., Awaitable[Any]]], HotRoute]:
    """Declare a hot route; the types of the function say what is sent and answered."""
    return lambda answer: HotRoute(tail, scopes, answer, options)


def _visit(request: Asked, campaign: str) -> Visit:
    return Visit(hosting_of(request), request.app.state.metrics, visitor_of(request), campaign)


class HotRoutes(Middleware):
    """Answers the hot routes."""

    def __init__(self, routes: Iterable[HotRoute], hosting: Hosting, metrics: Metrics, rate_limit: RateLimit) -> None:
        self._routes = {it.tail: (it, it.body, f"/v1/campaigns/{{campaign}}/{it.tail}") for it in routes}
        self._hosting, self._metrics, self._rate_limit = hosting, metrics, rate_limit

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        parts = scope["path"].split("/", 4)
        found = None
        if len(parts) == 5 and parts[1] == "v1" and parts[2] == "campaigns" and scope["method"] == "POST":
            found = self._routes.get(parts[4])
        if found is None:
            await self.next(scope, receive, send)
            return
        route, body, scope["path_template"] = found
        state, campaign = scope["state"], name_in(parts[3])
        check(state["visitor"], campaign, route.scopes, False, self._rate_limit)
        visit = Visit(self._hosting, self._metrics, state["visitor"], campaign)
        if body is None:
            reply = await route.answer(visit)
        else:
            json_only(state["headers"].get(b"content-type", b"").decode("latin-1"))
            reply = await route.answer(visit, decode(state["body"], body))
        for message in messages(200, JSON, msgspec.json.encode(reply)):
            await send(message)
