"""The SDK against a real service: admins, gateways, agents; blocking and asyncio; again after failures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import freepull as fp
from freepull import errors
from freepull.client import talks
from freepull.client.transport import Attempt, Call
from freepull.commands import AddAgents, Command, ReadStatus, Start, Stop
from freepull.messages import Observation, Told
from freepull.money import Money
from support.running import Service

PRINCIPAL = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each")


def make(client: fp.Client) -> fp.RemoteCampaign:
    campaign = client.create(
        name="c", arms=["A", "B"], agents=["ann", "bob"], price="0.50 EUR", principal=PRINCIPAL, horizon=90
    )
    campaign.start()
    return campaign


def sent(command: Command[Any], campaign: str = "c") -> Call[Any]:
    """Return the first request that is sent for a command."""
    return next(talks.talk(campaign, command))


def test_an_admin_runs_a_campaign(service: Service, tmp_path: Path) -> None:
    with fp.Client(service.at, service.admin) as client:
        campaign = make(client)
        assert campaign.add_agents(["cy"]) == [2]
        told = campaign.tell_each([("ann", "A", 0.5), Observation("bob", "B", 1, "e"), ("nobody", "A", 0.5)])
        assert [getattr(it, "event", None) for it in told[:2]] == [4, 5]
        assert isinstance(told[2], errors.UnknownAgent)
        told = campaign.tell_each([("ann", "A", float("nan")), ("ann", "A", 0.5, "f"), ("bob", "A", "x")])
        assert [type(it) for it in told] == [errors.InvalidReward, Told, errors.InvalidReward]
        assert [type(it) for it in campaign.tell_each([("ann", "A", 2)])] == [errors.InvalidReward]
        for unknown, ask in ((errors.UnknownAgent, campaign.unban), (errors.UnknownArm, campaign.withdraw)):
            with pytest.raises(unknown):
                ask("nobody")
        status = campaign.status()
        assert (status.observations, status.spent, status.horizon) == (3, Money(0, "EUR"), 90)
        campaign.pause()
        assert campaign.status().status == "paused"
        campaign.resume()
        assert campaign.status().status == "running"
        campaign.budget("7 EUR")
        assert campaign.status().budget == Money(700, "EUR")
        campaign.leave("bob")
        assert campaign.status().absent == 1
        assert campaign.verdict().decided is False
        assert [row.name for row in campaign.agents()] == ["ann", "bob", "cy"]
        assert (campaign.ledger(), campaign.offers(), campaign.bans()) == ([], [], [])
        assert campaign.audit()[0].action == "created"
        assert campaign.export(tmp_path / "all.csv") == 3
        assert (tmp_path / "all.csv").read_text().count("\n") == 4
        (tmp_path / "one more.csv").write_text("agent,arm,reward\nann,A,1\n")
        assert campaign.import_observations(tmp_path / "one more.csv") == 1
        made = client.new_token("read", label="wall")
        assert [row.label for row in client.tokens()][-1] == "wall"
        client.revoke_token(made.id)
        with (
            fp.Client(service.at, made.token, retries=0) as gone,
            pytest.raises(errors.ServiceError, match="expired or revoked") as refused,
        ):
            gone.campaign("c").status()
        assert refused.value.status == 401
        campaign.stop("done")
        assert campaign.status().why == "done"
        with pytest.raises(errors.WrongMoment):
            campaign.stop()
        with pytest.raises(errors.UnknownCampaign):
            client.campaign("none").status()
        with pytest.raises(errors.CampaignExists):
            client.create(name="c", arms=2, price="1 EUR")


def test_an_agent_asks_acts_and_tells(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        campaign = make(client)
        token = campaign.agent_tokens(["ann"])["ann"]
        with fp.AgentClient(service.at, "c", token, strategy=fp.agents.AlphaUCB()) as me:
            offer = me.ask()
            assert offer is not None
            assert me.tell(offer.arm, 0.5).paid == Money(50, "EUR")
            told = me.tell("A", 0.25, event="mine")
            assert me.tell("A", 0.25, event="mine") == told
            with pytest.raises(errors.EventConflict):
                me.tell("A", 0.5, event="mine")
            with pytest.raises(errors.EventGap) as gap:
                me.tell("A", 0.5, event=3)
            assert gap.value.expected == 1
            pulled: list[str] = []

            def pull(arm: str) -> float:
                pulled.append(arm)
                return float(arm == "A")

            for _ in range(4):
                me.act(pull)
            assert sum(me.me().pulls) == 6
            assert set(pulled) == {"A", "B"}


def test_the_same_on_asyncio(service: Service) -> None:
    async def run() -> int:
        async with fp.AsyncClient(service.at, service.admin) as client:
            campaign = await client.create(name="c", arms=["A", "B"], agents=9, price="0.50 EUR", principal=PRINCIPAL)
            await campaign.start()
            tokens = await campaign.agent_tokens(list(range(9)))

            async def agent(token: str) -> None:
                async with fp.AsyncAgentClient(service.at, "c", token, strategy=fp.agents.Thompson()) as me:
                    for _ in range(3):
                        await me.act(lambda arm: 0.5)

            await asyncio.gather(*(agent(token) for token in tokens.values()))
            return (await campaign.status()).observations

    assert asyncio.run(run()) == 27


def test_what_is_sent_again_after_a_restart_counts_once(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        campaign = make(client)
        token = campaign.agent_tokens(["ann"])["ann"]
        with fp.AgentClient(service.at, "c", token) as me:
            told = me.tell("A", 0.5, event="once")
            service.restart()
            assert me.tell("A", 0.5, event="once") == told
        assert campaign.status().observations == 1


def test_an_address_where_nobody_is_gets_a_sentence() -> None:
    with (
        fp.Client("http://127.0.0.1:9", "x", retries=0) as client,
        pytest.raises(
            errors.ServiceError, match=r"^the service at http://127.0.0.1:9 cannot be reached \(.*\); check the address"
        ),
    ):
        client.campaigns()
    with pytest.raises(errors.InvalidInput, match="url must begin with http"):
        fp.Client("127.0.0.1", "x")
    with pytest.raises(errors.InvalidInput, match="token must be the text"):
        fp.AgentClient("http://127.0.0.1:9", "c", "é")


@pytest.mark.parametrize(
    ("home", "owner", "followed"),
    [
        ("http://a", "http://b", True),
        ("http://a", "https://b", True),
        ("https://a", "https://b", True),
        ("https://a", "http://b", False),
        ("http://a", "file:///b", False),
    ],
)
def test_a_token_that_came_with_tls_is_never_sent_without(home: str, owner: str, followed: bool) -> None:
    attempt = Attempt(sent(ReadStatus(), "c"), home, "secret", retries=3, owners={})
    assert attempt.answered(421, f'{{"owner": "{owner}"}}'.encode(), None) is not None
    assert attempt.url == (owner if followed else home)


def test_a_request_that_is_still_going_on_is_waited_for() -> None:
    attempt = Attempt(sent(Start(), "c"), "http://a", "secret", retries=1, owners={})
    assert attempt.answered(409, b"{}", "1") is not None
    with pytest.raises(errors.ServiceError):
        attempt.answered(409, b"{}", "1")
    with pytest.raises(errors.ServiceError):
        Attempt(sent(Start(), "c"), "http://a", "secret", retries=1, owners={}).answered(409, b"{}", None)


def test_a_client_remembers_who_has_a_campaign_until_that_one_is_silent() -> None:
    owners: dict[str, str] = {}
    moved = b'{"owner": "http://b"}'
    first = Attempt(sent(ReadStatus(), "x"), "http://a", "t", 3, owners)
    assert first.answered(421, moved, None) == 0.0
    second = Attempt(sent(Stop(), "x"), "http://a", "t", 3, owners)
    assert second.arguments() == ("POST", "http://b/v1/campaigns/x/stop")
    assert Attempt(sent(ReadStatus(), "y"), "http://a", "t", 3, owners).url == "http://a"
    second.failed(OSError("gone"))
    assert Attempt(sent(ReadStatus(), "x"), "http://a", "t", 3, owners).url == "http://a"


def test_an_admin_s_change_is_sent_again_with_the_same_key_and_counts_once(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        campaign = make(client)
        attempt = Attempt(sent(AddAgents(2)), service.at, service.admin, retries=1)
        found = [client.connection.http.request(*attempt.arguments(), **attempt.options).json() for _ in range(2)]
        assert found == [{"numbers": [2, 3]}] * 2
        assert campaign.add_agents(1) == [4]
