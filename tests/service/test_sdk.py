"""The SDK against a real service: admins, gateways, agents; blocking and asyncio; again after failures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from running import Service

import freepull as fp
from freepull import errors
from freepull.live import Money, Observation, Told
from freepull.service import calls
from freepull.service.sending import Attempt

PRINCIPAL = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each")


def make(client: fp.Client) -> None:
    client.create(name="c", arms=["A", "B"], agents=["ann", "bob"], price="0.50 EUR", principal=PRINCIPAL, horizon=90)
    client.start("c")


def test_an_admin_runs_a_campaign(service: Service, tmp_path: Path) -> None:
    with fp.Client(service.at, service.admin) as client:
        make(client)
        assert client.add_agents("c", ["cy"]) == [2]
        told = client.tell_many("c", [("ann", "A", 0.5), Observation("bob", "B", 1, "e"), ("nobody", "A", 0.5)])
        assert [getattr(it, "event", None) for it in told[:2]] == [4, 5]
        assert isinstance(told[2], errors.UnknownAgent)
        told = client.tell_many("c", [("ann", "A", float("nan")), ("ann", "A", 0.5, "f"), ("bob", "A", "x")])
        assert [type(it) for it in told] == [errors.InvalidReward, Told, errors.InvalidReward]
        assert [type(it) for it in client.tell_many("c", [("ann", "A", 2)])] == [errors.InvalidReward]
        for unknown, ask in ((errors.UnknownAgent, client.unban), (errors.UnknownArm, client.withdraw)):
            with pytest.raises(unknown):
                ask("c", "nobody")
        status = client.status("c")
        assert (status.observations, status.spent, status.horizon) == (3, Money(0, "EUR"), 90)
        assert client.pause("c").status == "paused"
        assert client.resume("c").status == "running"
        assert client.budget("c", "7 EUR").budget == Money(700, "EUR")
        assert client.leave("c", "bob").absent == 1
        assert client.verdict("c").decided is False
        assert [row["name"] for row in client.agents("c")] == ["ann", "bob", "cy"]
        assert (client.ledger("c"), client.offers("c"), client.bans("c")) == ([], [], [])
        assert client.audit("c")[0].action == "created"
        client.export("c", tmp_path / "all.csv")
        assert (tmp_path / "all.csv").read_text().count("\n") == 4
        (tmp_path / "one more.csv").write_text("agent,arm,reward\nann,A,1\n")
        assert client.import_file("c", tmp_path / "one more.csv") == 1
        made = client.new_token("read", label="wall")
        assert [row.label for row in client.tokens()][-1] == "wall"
        client.revoke_token(made["id"])
        with (
            fp.Client(service.at, made["token"], retries=0) as gone,
            pytest.raises(errors.ServiceError, match="expired or revoked") as refused,
        ):
            gone.status("c")
        assert refused.value.status == 401
        assert client.stop("c", "done").why == "done"
        with pytest.raises(errors.WrongMoment):
            client.stop("c")
        with pytest.raises(errors.UnknownCampaign):
            client.status("none")
        with pytest.raises(errors.CampaignExists):
            client.create(name="c", arms=2, price="1 EUR")


def test_an_agent_asks_acts_and_tells(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        make(client)
        token = client.agent_tokens("c", ["ann"])["ann"]
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
            assert sum(me.me()["pulls"]) == 6
            assert set(pulled) == {"A", "B"}


def test_the_same_on_asyncio(service: Service) -> None:
    async def run() -> int:
        async with fp.AsyncClient(service.at, service.admin) as client:
            await client.create(name="c", arms=["A", "B"], agents=9, price="0.50 EUR", principal=PRINCIPAL)
            await client.start("c")
            tokens = await client.agent_tokens("c", list(range(9)))

            async def agent(token: str) -> None:
                async with fp.AsyncAgentClient(service.at, "c", token, strategy=fp.agents.Thompson()) as me:
                    for _ in range(3):
                        await me.act(lambda arm: 0.5)

            await asyncio.gather(*(agent(token) for token in tokens.values()))
            return (await client.status("c")).observations

    assert asyncio.run(run()) == 27


def test_what_is_sent_again_after_a_restart_counts_once(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        make(client)
        token = client.agent_tokens("c", ["ann"])["ann"]
        with fp.AgentClient(service.at, "c", token) as me:
            told = me.tell("A", 0.5, event="once")
            service.restart()
            assert me.tell("A", 0.5, event="once") == told
        assert client.status("c").observations == 1


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
    attempt = Attempt(calls.look("c"), home, "secret", retries=3, owners={})
    assert attempt.answered(421, f'{{"owner": "{owner}"}}'.encode(), None) is not None
    assert attempt.url == (owner if followed else home)


def test_a_request_that_is_still_going_on_is_waited_for() -> None:
    attempt = Attempt(calls.change("c", "start"), "http://a", "secret", retries=1, owners={})
    assert attempt.answered(409, b"{}", "1") is not None
    with pytest.raises(errors.ServiceError):
        attempt.answered(409, b"{}", "1")
    with pytest.raises(errors.ServiceError):
        Attempt(calls.change("c", "start"), "http://a", "secret", retries=1, owners={}).answered(409, b"{}", None)


def test_a_client_remembers_who_has_a_campaign_until_that_one_is_silent() -> None:
    owners: dict[str, str] = {}
    moved = b'{"owner": "http://b"}'
    first = Attempt(calls.look("x"), "http://a", "t", 3, owners)
    assert first.answered(421, moved, None) == 0.0
    second = Attempt(calls.change("x", "stop"), "http://a", "t", 3, owners)
    assert second.arguments() == ("POST", "http://b/v1/campaigns/x/stop")
    assert Attempt(calls.look("y"), "http://a", "t", 3, owners).url == "http://a"
    second.failed(OSError("gone"))
    assert Attempt(calls.look("x"), "http://a", "t", 3, owners).url == "http://a"


def test_an_admin_s_change_is_sent_again_with_the_same_key_and_counts_once(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        make(client)
        attempt = Attempt(calls.enrol("c", 2, None), service.at, service.admin, retries=1, owners={})
        sent = [client._http.request(*attempt.arguments(), **attempt.options).json() for _ in range(2)]
        assert sent == [{"numbers": [2, 3]}] * 2
        assert client.add_agents("c", 1) == [4]
