"""Who may do what: every route names the scopes it takes, and an agent acts only for itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from litestar import Request

from freepull.service.access import Visitor
from freepull.service.paths import name_in
from freepull.service.problems import Refused
from freepull.service.rates import Rates


def needs(*scopes: str, lists: bool = False) -> Callable[[Request[Any, Any, Any]], Awaitable[None]]:
    """Return what lets only these scopes pass; one for a campaign passes only there, and in lists.

    It is run before the request: Litestar's own guards would copy the handler each time.
    """

    async def guard(request: Request[Any, Any, Any]) -> None:
        params = {name: name_in(part) for name, part in request.path_params.items()}
        request.scope["path_params"] = params
        check(visitor_of(request), params.get("campaign", ""), scopes, lists, request.app.state.rates)

    return guard


def check(visitor: Visitor, campaign: str, scopes: tuple[str, ...], lists: bool, rates: Rates) -> None:
    """Refuse whoever may not do this here."""
    if visitor.scope not in scopes:
        own = scopes == ("agent",)
        remedy = "Use the agent's own token." if own else f"Use a token of scope {' or '.join(reversed(scopes))}."
        who = "an agent's token" if visitor.agent is not None else f"a token of scope {visitor.scope}"
        raise Refused(403, f"{who} cannot do this.", remedy)
    if visitor.agent is not None:
        if campaign != visitor.campaign:
            raise Refused(401, "the token is for another campaign.", "Use the token for this one.")
        rates.take(visitor.id)
    elif visitor.campaign and visitor.campaign != campaign and not lists:
        raise Refused(403, "the token is for one campaign only.", "Use one that is for this, or for all.")


def visitor_of(connection: Any) -> Visitor:
    """Return who asks, as the gate has found."""
    visitor: Visitor = connection.scope["state"]["visitor"]
    return visitor
