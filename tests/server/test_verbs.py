"""A campaign of a service and one in this process do the same for the same verbs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import freepull as fp
from freepull import errors
from freepull.commands import AsyncCampaignVerbs, CampaignVerbs, TellMany
from freepull.messages import Move
from support.running import Service

NOW = datetime(2030, 1, 1, tzinfo=UTC)
UNLIKE = {"told", "passed_over", "acts_for"}
"""What a service notes beside, because it knows who asks."""
SETTINGS: dict[str, Any] = {
    "name": "c",
    "arms": ["A", "B", "C"],
    "agents": ["ann", "bob"],
    "price": "0.50 EUR",
    "principal": fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each"),
    "if_no_outcome": 0.0,
}
PEOPLE = SETTINGS | {"name": "people", "principal": None, "withdrawal": True}


NOTED = {"told", "passed_over", "accepted", "declined"}
"""What only a service puts into the audit, with the token that did it."""


def refused(ask: Callable[[], Any]) -> tuple[type[Exception], str]:
    with pytest.raises(errors.FreepullError) as error:
        ask()
    return type(error.value), str(error.value)


def script(campaign: CampaignVerbs, folder: Path) -> list[Any]:
    """Do everything once; return all replies, without times and places in the log, which has more of a service."""
    (folder / "pulls.csv").write_text("agent,arm,reward,event\nbob,A,0.5,f1\nbob,B,1,f2\n")
    offers: list[fp.CampaignOffer | None] = []

    def ask(agent: str | int) -> str | None:
        offers.append(campaign.ask(agent))
        last = offers[-1]
        return None if last is None else last.arm

    def refuse(agent: str) -> tuple[Any, ...]:
        arm = "A" if ask(agent) == "B" else "B"
        return campaign.tell(agent, arm, 0.5, event="refused")[1:]

    return [
        campaign.add_agents(["cy", "d/e"]),
        campaign.add_agents(("eve",)),
        campaign.start(),
        refused(campaign.start),
        campaign.budget("9 EUR"),
        refused(lambda: campaign.budget("9 USD")),
        refused(lambda: campaign.budget("9.999 EUR")),
        ask("ann"),
        ask("ann"),
        campaign.tell("ann", "A", 0.5, event="e1")[1:],
        campaign.tell("ann", "A", 0.5, event="e1")[1:],
        refused(lambda: campaign.tell("ann", "A", 0.75, event="e1")),
        refused(lambda: campaign.tell("ann", "A", float("nan"), event="e2")),
        refused(lambda: campaign.tell("ann", "Z", 0.5, event="e2")),
        refused(lambda: campaign.tell(0, 3, 0.5, event="e2")),
        campaign.tell(0, 1, 0.5, event="e3")[1:],
        [
            (type(it), str(it)) if isinstance(it, Exception) else it[1:]
            for it in campaign.tell_each(
                [
                    ("bob", "A", 1, "b1"),
                    ("nobody", "A", 1, "b2"),
                    ("bob", "B"),
                    (1, 2, 0.25, "b3"),
                    ("bob", "A", 2.5, "b4"),
                ]
            )
        ],
        campaign.tell_each([]),
        ask(3),
        refuse("bob"),
        [(row.agent, row.offer, row.step, row.until) for row in campaign.bans()],
        [row.agent for row in campaign.bans(after=1)],
        campaign.unban("bob"),
        [row.lifted is None for row in campaign.bans()],
        refused(lambda: campaign.unban("nobody"))[0],
        refused(lambda: campaign.unban("cy")),
        refused(lambda: campaign.withdraw(2)),
        refused(lambda: campaign.withdraw("Z"))[0],
        campaign.unavailable("ann", 2),
        campaign.unavailable("bob", "C"),
        campaign.status().unavailable,
        refused(lambda: campaign.unavailable("bob", "C", lasts="soon")),
        refused(lambda: campaign.unavailable("nobody", "C"))[0],
        campaign.available("ann", "C"),
        campaign.available("bob", "C"),
        campaign.status().unavailable,
        campaign.pass_over("ann", event="p1"),
        campaign.pass_over("ann", event="p1"),
        refused(lambda: campaign.tell("ann", "A", 0.5, event="p1")),
        campaign.pass_over(1),
        refused(lambda: campaign.accept("ann")),
        refused(lambda: campaign.decline("ann", offer=1)),
        campaign.act("ann", 1, "act")[1:],
        campaign.act("ann", "B", "act")[1:],
        refused(lambda: campaign.act("ann", "A", "act")),
        refused(lambda: campaign.outcome("ann", "act", float("nan"))),
        refused(lambda: campaign.outcome("ann", "none", 0.5)),
        campaign.outcome("ann", "act", 0.5)[1:],
        campaign.outcome("ann", "act", 0.5)[1:],
        refused(lambda: campaign.outcome("ann", "act", 0.75)),
        ask("eve"),
        replace(campaign.accept("eve"), expires=NOW),
        campaign.decline("eve"),
        campaign.pause(),
        campaign.resume(),
        campaign.leave("cy"),
        campaign.leave(3),
        campaign.import_observations(folder / "pulls.csv"),
        campaign.import_observations(folder / "pulls.csv"),
        campaign.export(folder / "o.csv"),
        campaign.export(folder / "l.csv", "ledger"),
        len((folder / "l.csv").read_text().splitlines()),
        campaign.snapshot() > 0,
        campaign.erase_names(["cy"], anyway=True),
        refused(lambda: campaign.erase_names(["ann"])),
        refused(campaign.erase_names),
        campaign.settle([Move(1, "sent")], payer="bank"),
        campaign.settle([Move(1, "settled", "tr 1")], payer="bank"),
        refused(lambda: campaign.settle([Move(1, "failed")])),
        [(row.entry, row.key[16:]) for row in campaign.ledger(settlement="unsettled")],
        campaign.verdict(),
        [replace(row, at=NOW, moved=None, key="") for row in campaign.ledger()],
        [replace(row, at=NOW, moved=None, key="") for row in campaign.ledger(after=1)],
        [(row.offer, row.agent, row.arm, row.step, row.recalled, row.ending) for row in campaign.offers()],
        [(row.action, row.detail) for row in campaign.audit() if not (UNLIKE | NOTED) & row.detail.keys()],
        campaign.audit(after=campaign.audit()[2].event)[0].action,
        campaign.erase_names(),
        refused(lambda: campaign.ask("ann"))[0],
        campaign.stop("over"),
        refused(campaign.stop),
        replace(campaign.status(), at=NOW, events=0),
    ]


def test_a_service_s_campaign_does_what_one_s_own_does(service: Service, tmp_path: Path) -> None:
    with fp.Campaign.create(f"sqlite:///{tmp_path}/own.db", **SETTINGS) as campaign:
        own = script(campaign, tmp_path)
    with fp.Client(service.at, service.admin) as client:
        served = script(client.create(**SETTINGS), tmp_path)
    assert len(own) == len(served)
    for mine, theirs in zip(own, served, strict=True):
        assert mine == theirs
    assert (own[0], own[1], own[-1].why) == ([2, 3], [4], "over")
    assert [("bob", 3, 1, None)] in own  # there was a ban to be listed and lifted


def test_an_arm_is_withdrawn_from_a_service_s_campaign_as_from_one_s_own(service: Service, tmp_path: Path) -> None:
    def withdraw(campaign: CampaignVerbs) -> list[Any]:
        return [campaign.start(), campaign.withdraw(2), refused(lambda: campaign.withdraw("C")), campaign.status().arms]

    with fp.Campaign.create(f"sqlite:///{tmp_path}/own.db", **PEOPLE) as campaign:
        own = withdraw(campaign)
    with fp.Client(service.at, service.admin) as client:
        assert withdraw(client.create(**PEOPLE)) == own
    assert [arm.withdrawn for arm in own[-1]] == [False, False, True]


def test_the_asyncio_twins_do_the_same(service: Service, tmp_path: Path) -> None:
    async def act(campaign: AsyncCampaignVerbs) -> list[Any]:
        await campaign.start()
        told = await campaign.tell_each([("ann", "A", 0.5, "e1"), (1, 1, 1, "e2")])
        offer = await campaign.ask("ann")
        assert offer is not None
        await campaign.budget("5 EUR")
        status = await campaign.status()
        return [told, offer.arm, len(await campaign.offers()), status.budget, status.observations]

    async def both() -> tuple[list[Any], list[Any]]:
        async with await fp.AsyncCampaign.create(f"sqlite:///{tmp_path}/own.db", **SETTINGS) as campaign:
            own = await act(campaign)
        async with fp.AsyncClient(service.at, service.admin) as client:
            return own, await act(await client.create(**SETTINGS))

    own, served = asyncio.run(both())
    assert own == served


def test_tables_and_batches_are_whole_however_long(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        campaign = client.create(name="c", arms=2, agents=2_050, price="1 EUR", horizon=9)
        assert [row.number for row in campaign.agents()] == list(range(2_050))
        assert [row.number for row in campaign.agents(after=2_047)] == [2_048, 2_049]
        campaign.start()
        told = campaign.tell_each((m, m % 2, 0.5) for m in range(2_050))
        assert len({it.event for it in told if isinstance(it, fp.Told)}) == 2_050
        assert campaign.status().observations == 2_050


def test_who_does_it_is_known_by_the_token(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        campaign = client.create(**SETTINGS)
        with pytest.raises(errors.InvalidInput, match=r"^by must be left out with a service"):
            campaign.start(by="ann")
        with pytest.raises(errors.InvalidInput, match=r"^tell_many cannot be asked of a service"):
            campaign.do(TellMany([("ann", "A", 0.5)]))
        assert campaign.status().status == "enrolling"
