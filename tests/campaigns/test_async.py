"""The same campaign on asyncio: many wait at once, and share commits."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.journal import writer as waking
from freepull.campaigns.rehearsal import play
from support.staging import EACH, Clock, create


def test_everything_can_be_awaited(url: str, clock: Clock, tmp_path: Path) -> None:
    async def act() -> None:
        campaign = await fp.AsyncCampaign.create(
            url, name="x", arms=["A", "B"], agents=["ann"], principal=EACH, price="1 EUR", clock=clock
        )
        assert await campaign.add_agents(["bob"]) == [1]
        await campaign.start()
        offer = await campaign.ask("ann")
        assert offer is not None
        assert (await campaign.tell("ann", offer.arm, 0.5, event="e")).outcome == "paid"
        replies = await campaign.tell_each([("bob", "A", 0.5), ("dan", "A", 0.5)])
        assert isinstance(replies[1], errors.UnknownAgent)
        with pytest.raises(errors.UnknownAgent):
            await campaign.tell("dan", "A", 0.5)
        await campaign.budget("20 EUR")
        await campaign.leave("bob")
        await campaign.pause()
        await campaign.resume()
        await campaign.snapshot()
        with pytest.raises(errors.WrongMoment):
            await campaign.unban("ann")
        with pytest.raises(errors.InvalidInput):
            await campaign.withdraw("A")
        assert (await campaign.status()).paid == 1
        assert len(await campaign.ledger()) == len(await campaign.offers()) == 1
        assert await campaign.bans() == []
        assert (await campaign.audit())[-1].action == "resumed"
        assert await campaign.export(tmp_path / "o.csv") == 2
        await campaign.import_observations(tmp_path / "o.csv")
        await campaign.erase_names(["bob"])
        await campaign.stop("done")
        assert (await campaign.verdict()).arm in ("A", "B")
        assert (campaign.name, campaign.settings.mode) == ("x", "free")
        await campaign.close()
        async with await fp.AsyncCampaign.open(url, "x") as again:
            assert (await again.status()).status == "stopped"

    asyncio.run(act())


def test_requests_that_wait_together_share_commits(sqlite: str) -> None:
    async def act() -> tuple[int, int]:
        campaign = await fp.AsyncCampaign.create(
            sqlite, name="x", arms=2, agents=200, principal=EACH, price="1 EUR", late_joiners="observe"
        )
        await campaign.start()
        told = await asyncio.gather(*(campaign.tell(m, m % 2, 0.5, event=1) for m in range(200)))
        asked = await asyncio.gather(*(campaign.ask(m) for m in range(200)))
        assert len({reply.event for reply in told}) == 200
        segments = list(campaign.blocking.core.store.read("x", "segments"))
        await campaign.close()
        return len(segments), sum(offer is not None for offer in asked)

    segments, offers = asyncio.run(act())
    assert offers == 200
    assert segments < 200


def test_fifty_pulls_on_one_offer_pay_once_and_a_hundred_asks_keep_the_budget(url: str) -> None:
    async def act() -> None:
        principal = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each", budget=7)
        campaign = await fp.AsyncCampaign.create(
            url, name="x", arms=2, agents=100, principal=principal, price="0.10 EUR"
        )
        await campaign.start()
        offers = await asyncio.gather(*(campaign.ask(m) for m in range(100)))
        given = [offer for offer in offers if offer is not None]
        assert len(given) == 7
        assert (await campaign.status()).reserved.minor == 70
        told = await asyncio.gather(*(campaign.tell(given[0].agent, given[0].arm, 0.5) for _ in range(50)))
        assert [reply.outcome for reply in told].count("paid") == 1
        assert len(await campaign.ledger()) == 1
        await campaign.close()

    asyncio.run(act())


def test_an_overloaded_campaign_says_so_and_recovers(sqlite: str) -> None:
    async def act() -> None:
        campaign = await fp.AsyncCampaign.create(sqlite, name="x", arms=2, agents=2, principal=EACH, price="1 EUR")
        await campaign.start()
        campaign.blocking.core.writer._most = 10
        replies = await asyncio.gather(*(campaign.tell(0, 0, 0.5) for _ in range(500)), return_exceptions=True)
        refused = [reply for reply in replies if isinstance(reply, errors.Overloaded)]
        assert 0 < len(refused) < 500
        assert (await campaign.status()).observations == 500 - len(refused)
        await campaign.close()

    asyncio.run(act())


def test_loops_that_have_ended_are_forgotten(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)

    async def look() -> int:
        return (await fp.AsyncCampaign(campaign).status()).agents

    gc.collect()
    before = len(waking._LOOPS)
    assert [asyncio.run(look()) for _ in range(5)] == [3] * 5
    gc.collect()
    assert len(waking._LOOPS) <= before + 1, "all but the one that the writer answered last"


def test_a_rehearsal_is_closed_to_real_agents_here_too(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    agents, answers = fp.agents.AlphaUCB(), fp.answers.Always()
    play(campaign, fp.Game([[0.9, 0.1, 0.1]] * 3), agents=agents, answers=answers, steps=2)

    async def act() -> None:
        awaiting = fp.AsyncCampaign(campaign)
        for told in (awaiting.tell("ann", "A", 0.5), awaiting.tell_many([("ann", "A", 0.5)]), awaiting.ask("ann")):
            with pytest.raises(errors.WrongMoment, match="is a rehearsal"):
                await told

    asyncio.run(act())
