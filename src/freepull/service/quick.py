"""An agent's ask and tell, which are nearly all of the requests: answered without the framework, which takes longer.

`routes.agents` describes them, and calls the same functions.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from freepull.service.access import Visitor
from freepull.service.bodies import Pull, decode, json_only
from freepull.service.guards import check
from freepull.service.house import House
from freepull.service.metrics import Metrics
from freepull.service.rates import Rates
from freepull.service.replies import OfferReply, ToldReply, told_reply

PATH = re.compile("/v1/campaigns/([^/]+)/me/(offer|observations)")
TEMPLATE = "/v1/campaigns/{campaign}/me/"


class Quick:
    """The short way."""

    def __init__(self, house: House, rates: Rates, metrics: Metrics) -> None:
        self._house, self._rates, self._metrics = house, rates, metrics

    async def answer(self, scope: Any, headers: dict[bytes, bytes], visitor: Visitor, body: bytes) -> bytes | None:
        """Answer an ask or a tell; return None if it is neither."""
        found = PATH.fullmatch(scope["path"])
        if found is None:
            return None
        campaign, what = found.groups()
        scope["path_template"] = TEMPLATE + what
        check(visitor, campaign, ("agent",), False, self._rates)
        if what == "offer":
            return msgspec.json.encode(await offer(self._house, visitor, campaign))
        json_only(headers.get(b"content-type", b"").decode("latin-1"))
        return msgspec.json.encode(await observe(self._house, self._metrics, visitor, campaign, decode(body, Pull)))


async def offer(house: House, visitor: Visitor, campaign: str) -> OfferReply:
    """Return the offer for an agent."""
    assert visitor.agent is not None
    return OfferReply(await (await house.find(campaign)).campaign.ask(visitor.agent))


async def observe(house: House, metrics: Metrics, visitor: Visitor, campaign: str, pull: Pull) -> ToldReply:
    """Tell a pull of an agent."""
    assert visitor.agent is not None
    found = await house.find(campaign)
    told = await found.campaign.tell(visitor.agent, pull.arm, pull.reward, pull.event)
    metrics.observations(1)
    return told_reply(told)
