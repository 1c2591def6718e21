"""Asks and tells, which are nearly all of the requests: answered without the framework, which takes longer.

`routes.agents` describes them, and calls the same functions.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from freepull.errors import FreepullError
from freepull.service.access import Visitor
from freepull.service.bodies import Batch, Pull
from freepull.service.decoding import decode, json_only
from freepull.service.guards import check
from freepull.service.house import House
from freepull.service.metrics import Metrics
from freepull.service.paths import name_in
from freepull.service.rates import Rates
from freepull.service.replies import BatchReply, OfferReply, ToldReply, told_reply

PATH = re.compile("/v1/campaigns/([^/]+)/(me/offer|me/observations|observations:batch)")
TEMPLATE = "/v1/campaigns/{campaign}/"
TELLERS = ("admin", "gateway")


class Quick:
    """The short way."""

    def __init__(self, house: House, rates: Rates, metrics: Metrics) -> None:
        self._house, self._rates, self._metrics = house, rates, metrics

    async def answer(self, scope: Any, headers: dict[bytes, bytes], visitor: Visitor, body: bytes) -> bytes | None:
        """Answer an ask or a tell; return None if it is neither."""
        found = PATH.fullmatch(scope["path"])
        if found is None:
            return None
        campaign, what = name_in(found[1]), found[2]
        scope["path_template"] = TEMPLATE + what
        check(visitor, campaign, TELLERS if what == "observations:batch" else ("agent",), False, self._rates)
        if what == "me/offer":
            return msgspec.json.encode(await offer(self._house, visitor, campaign))
        json_only(headers.get(b"content-type", b"").decode("latin-1"))
        where = self._house, self._metrics, visitor, campaign
        if what == "me/observations":
            return msgspec.json.encode(await observe(*where, decode(body, Pull)))
        return msgspec.json.encode(await tell_many(*where, decode(body, Batch)))


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


async def tell_many(house: House, metrics: Metrics, visitor: Visitor, campaign: str, batch: Batch) -> BatchReply:
    """Tell pulls of many agents."""
    found = await house.find(campaign)
    rows = [(it.agent, it.arm, it.reward, it.event) for it in batch.observations]
    told = await found.campaign.tell_each(rows, by=f"token {visitor.id}")
    metrics.observations(sum(not isinstance(it, FreepullError) for it in told))
    return BatchReply([told_reply(it) for it in told])
