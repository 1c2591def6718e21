"""What agents and gateways do: ask for an offer, tell pulls. Most of it is hot, see `hot`.

A hot route is declared once, by its types; its handler reads the body and answers without the framework's work. What
an agent does under ``me/…``, a gateway does for it under ``agents/{agent}/…``: the same function answers both.
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
from freepull.server.hosting import Hosting, Open
from freepull.server.middleware import Metrics, Middleware, messages, name_in
from freepull.server.problems import described
from freepull.server.routes import (
    BEARER,
    READ,
    READER,
    WRITE,
    Asked,
    InPath,
    agent_number,
    describe,
    find,
    hosting_of,
    needs,
    visitor_of,
)
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


OWN, FOR_ANOTHER = "me/", "agents/{agent:str}/"
"""How paths begin on which an agent speaks for itself, and on which a gateway speaks for it."""
ACTING = ("admin", "gateway")
"""Who may speak for agents."""


class Visit(NamedTuple):
    """Who asks, about which campaign, and for which agent if not for itself."""

    hosting: Hosting
    metrics: Metrics
    rate_limit: RateLimit
    visitor: Visitor
    campaign: str
    agent: str | None = None

    async def find(self) -> tuple[Open, int]:
        """Return the campaign, and the number of the agent whom this is about."""
        found = await self.hosting.find(self.campaign)
        if self.agent is None:
            return found, self.visitor.own_number
        number = agent_number(found, self.agent)
        self.rate_limit.take(f"{self.campaign}#{number}")
        await found.note_acting(f"token {self.visitor.id}")
        return found, number


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

    def for_another(self) -> HotRoute:
        """Return the same for whoever speaks for an agent."""
        options = self.options | {"tags": ["gateway"]}
        scopes = options.pop("others", ACTING)
        return HotRoute(FOR_ANOTHER + self.tail.removeprefix(OWN), scopes, self.answer, options)

    @property
    def body(self) -> Any:
        """The type of the body, None if there is none."""
        return get_type_hints(self.answer).get("data")

    def handler(self) -> Any:
        """Return the framework's handler."""

        async def handle(request: Asked, campaign: str, agent: str | None = None, data: Any = None) -> Any:
            visit = _visit(request, campaign, agent)
            return await (self.answer(visit) if self.body is None else self.answer(visit, data))

        another = self.tail.startswith(FOR_ANOTHER)
        hints: dict[str, Any] = {"request": Asked, "campaign": InPath, **({"agent": InPath} if another else {})}
        if self.body is not None:
            hints["data"] = Annotated[self.body, In()]
        describe(handle, hints, get_type_hints(self.answer)["return"])
        handle.__name__ = f"{self.answer.__name__}_for" if another else self.answer.__name__
        handle.__doc__ = self.answer.__doc__
        options = {name: it for name, it in self.options.items() if name != "others"}
        options |= {"before_request": needs(*self.scopes), "security": BEARER, "return_dto": None}
        if self.body is not None:
            strict: Any = Strict
            options["dto"] = strict[self.body]
        return post(CAMPAIGN + self.tail, status_code=200, **options)(handle)


def hot(tail: str, *scopes: str, **options: Any) -> Callable[[Callable[..., Awaitable[Any]]], HotRoute]:
    """Declare a hot route; the types of the function say what is sent and answered."""
    return lambda answer: HotRoute(tail, scopes, answer, options)


def _visit(request: Asked, campaign: str, agent: str | None) -> Visit:
    state = request.app.state
    return Visit(hosting_of(request), state.metrics, state.rate_limit, visitor_of(request), campaign, agent)


class HotRoutes(Middleware):
    """Answers the hot routes."""

    def __init__(self, routes: Iterable[HotRoute], hosting: Hosting, metrics: Metrics, rate_limit: RateLimit) -> None:
        self._routes = {
            it.tail: (it, it.body, f"/v1/campaigns/{{campaign}}/{it.tail.replace(':str', '')}") for it in routes
        }
        self._hosting, self._metrics, self._rate_limit = hosting, metrics, rate_limit

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        parts = scope["path"].split("/", 4)
        found = agent = None
        if len(parts) == 5 and parts[1] == "v1" and parts[2] == "campaigns" and scope["method"] == "POST":
            tail = parts[4]
            if tail.startswith("agents/") and tail.count("/") == 2:
                _, agent, verb = tail.split("/")
                tail, agent = FOR_ANOTHER + verb, name_in(agent)
            found = self._routes.get(tail)
        if found is None:
            await self.next(scope, receive, send)
            return
        route, body, scope["path_template"] = found
        state, campaign = scope["state"], name_in(parts[3])
        check(state["visitor"], campaign, route.scopes, False, self._rate_limit)
        visit = Visit(self._hosting, self._metrics, self._rate_limit, state["visitor"], campaign, agent)
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
    found, number = await visit.find()
    return OfferReply(await found.campaign.ask(number))


@hot("me/observations", "agent", responses=WRITE, tags=["agents"])
async def observe(visit: Visit, data: Pull) -> ToldReply:
    """Tell one pull of mine; with an event it is safe to repeat."""
    found, number = await visit.find()
    told = await found.campaign.tell(number, data.arm, data.reward, data.event)
    visit.metrics.observations(1)
    return told_reply(told)


@hot("me/pass-over", "agent", responses=WRITE, tags=["agents"], others=("admin", "operator", "gateway"))
async def pass_over(visit: Visit, data: NoPull) -> Me:
    """I have asked and made no pull; with an event it is safe to repeat. My open offer stands."""
    found, number = await visit.find()
    by = "" if visit.agent is None else f"token {visit.visitor.id}"
    await found.campaign.pass_over(number, by=by, event=data.event)
    return await found.view.me(number)


@hot("me/accept", "agent", responses=WRITE, tags=["agents"])
async def accept(visit: Visit, data: Answer) -> Accepted:
    """I will act on my offer: it stands longer then. Sending it again changes nothing."""
    found, number = await visit.find()
    return Accepted(await found.campaign.accept(number, offer=data.offer))


@hot("me/decline", "agent", responses=WRITE, tags=["agents"])
async def decline(visit: Visit, data: Answer) -> Me:
    """I do not want my offer; with its number, sending it again changes nothing."""
    found, number = await visit.find()
    await found.campaign.decline(number, offer=data.offer)
    return await found.view.me(number)


@hot("me/acts", "agent", responses=WRITE, tags=["agents"])
async def act(visit: Visit, data: Deed) -> Noted:
    """I have made a pull, and its outcome is to come; sending it again is safe."""
    found, number = await visit.find()
    told = await found.campaign.act(number, data.arm, data.event)
    visit.metrics.observations(1)
    return Noted(*told)


@hot("me/outcomes", "agent", responses=WRITE, tags=["agents"])
async def outcome(visit: Visit, data: Result) -> Noted:
    """This came of an earlier act of mine, by its event; sending it again is safe."""
    found, number = await visit.find()
    return Noted(*await found.campaign.outcome(number, data.event, data.reward))


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


@get(
    CAMPAIGN + "agents/{agent:str}",
    before_request=needs(*READER, "gateway"),
    responses=READ | described(429),
    security=BEARER,
    return_dto=None,
    tags=["gateway"],
)
async def agent(request: Asked, campaign: InPath, agent: InPath) -> Me:
    """What an agent may know: the campaign's status, its pulls, its open offer."""
    found = await find(request, campaign)
    return await found.view.me(agent_number(found, agent))


HOT = [offer, accept, decline, act, outcome, observe, pass_over, batch]
HOT += [it.for_another() for it in HOT if it.tail.startswith(OWN)]
HANDLERS = [*(it.handler() for it in HOT), me, agent]
