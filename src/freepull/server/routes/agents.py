"""What agents and gateways do: ask for an offer, tell pulls. Most of it is hot, see `hot`.

A hot route is declared once, by its types; its handler reads the body and answers without the framework's work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, get_type_hints

import msgspec
from litestar import get, post
from litestar.params import Body as In

from freepull.errors import FreepullError
from freepull.messages import Accepted, Me, Noted
from freepull.server.auth import RateLimit, Visitor, check
from freepull.server.hosting import Hosting
from freepull.server.middleware import Metrics, Middleware, messages, name_in
from freepull.server.problems import described
from freepull.server.routes.common import BEARER, READ, WRITE, Asked, InPath, find, hosting_of, needs, visitor_of
from freepull.server.schemas import (
    Answer,
    Batch,
    BatchReply,
    Deed,
    NoPull,
    OfferReply,
    Pull,
    Result,
    Strict,
    ToldReply,
    decode,
    json_only,
    told_reply,
)

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


@hot("me/offer", "agent", responses=WRITE, tags=["agents"])
async def offer(visit: Visit) -> OfferReply:
    """Is there an offer for me? Asking again returns the same one while it is open."""
    found = await visit.hosting.find(visit.campaign)
    return OfferReply(await found.campaign.ask(visit.visitor.own_number))


@hot("me/observations", "agent", responses=WRITE, tags=["agents"])
async def observe(visit: Visit, data: Pull) -> ToldReply:
    """Tell one pull of mine; with an event it is safe to repeat."""
    found = await visit.hosting.find(visit.campaign)
    told = await found.campaign.tell(visit.visitor.own_number, data.arm, data.reward, data.event)
    visit.metrics.observations(1)
    return told_reply(told)


@hot("me/pass-over", "agent", responses=WRITE, tags=["agents"])
async def pass_over(visit: Visit, data: NoPull) -> Me:
    """I have asked and made no pull; with an event it is safe to repeat. My open offer stands."""
    found, number = await visit.hosting.find(visit.campaign), visit.visitor.own_number
    await found.campaign.pass_over(number, event=data.event)
    return await found.view.me(number)


@hot("me/accept", "agent", responses=WRITE, tags=["agents"])
async def accept(visit: Visit, data: Answer) -> Accepted:
    """I will act on my offer: it stands longer then. Sending it again changes nothing."""
    found = await visit.hosting.find(visit.campaign)
    return Accepted(await found.campaign.accept(visit.visitor.own_number, offer=data.offer))


@hot("me/decline", "agent", responses=WRITE, tags=["agents"])
async def decline(visit: Visit, data: Answer) -> Me:
    """I do not want my offer; with its number, sending it again changes nothing."""
    found, number = await visit.hosting.find(visit.campaign), visit.visitor.own_number
    await found.campaign.decline(number, offer=data.offer)
    return await found.view.me(number)


@hot("me/acts", "agent", responses=WRITE, tags=["agents"])
async def act(visit: Visit, data: Deed) -> Noted:
    """I have made a pull, and its outcome is to come; sending it again is safe."""
    found = await visit.hosting.find(visit.campaign)
    told = await found.campaign.act(visit.visitor.own_number, data.arm, data.event)
    visit.metrics.observations(1)
    return Noted(*told)


@hot("me/outcomes", "agent", responses=WRITE, tags=["agents"])
async def outcome(visit: Visit, data: Result) -> Noted:
    """This came of an earlier act of mine, by its event; sending it again is safe."""
    found = await visit.hosting.find(visit.campaign)
    return Noted(*await found.campaign.outcome(visit.visitor.own_number, data.event, data.reward))


@hot("observations:batch", "admin", "gateway", responses=WRITE, tags=["gateway"])
async def batch(visit: Visit, data: Batch) -> BatchReply:
    """Tell pulls of many agents, in one commit; each has a result of its own."""
    found = await visit.hosting.find(visit.campaign)
    rows = [(it.agent, it.arm, it.reward, it.event) for it in data.observations]
    told = await found.campaign.tell_each(rows, by=f"token {visit.visitor.id}")
    visit.metrics.observations(sum(not isinstance(it, FreepullError) for it in told))
    return BatchReply([told_reply(it) for it in told])


@get(
    CAMPAIGN + "me",
    before_request=needs("agent"),
    responses=READ | described(429),
    security=BEARER,
    return_dto=None,
    tags=["agents"],
)
async def me(request: Asked, campaign: InPath) -> Me:
    """What I may know: the campaign's status, my pulls, my open offer."""
    return await (await find(request, campaign)).view.me(visitor_of(request).own_number)


HOT = [offer, accept, decline, act, outcome, observe, pass_over, batch]
HANDLERS = [*(it.handler() for it in HOT), me]
