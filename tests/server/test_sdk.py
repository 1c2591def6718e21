"""The SDK against a real service: admins, gateways, agents; blocking and asyncio; again after failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import freepull as fp
from freepull import errors
from freepull.client import talks
from freepull.client.reach import Addresses
from freepull.client.transport import SOON, Answer, Attempt, Call
from freepull.commands import AddAgents, Command, ReadStatus, Start, Stop
from freepull.messages import Observation, Told
from freepull.money import Money
from support.running import Service

PRINCIPAL = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each")


def make(client: fp.Client) -> fp.RemoteCampaign:
    campaign = client.create(
        name="c", arms=["A", "B"], agents=["ann", "bob"], price="0.50 EUR", principal=PRINCIPAL, horizon=90,
        if_no_outcome=0.0,
    )  # fmt: skip
    campaign.start()
    return campaign


class Heard(fp.agents.Greedy):
    """A strategy that remembers what it learned."""

    def learn(self, arm: int, reward: float) -> None:
        HEARD.append((arm, reward))
        super().learn(arm, reward)


HEARD = list[tuple[int, float]]()


class Counting(fp.agents.Greedy):
    """A strategy that asks what it was paid."""

    def learn(self, arm: int, reward: float, paid: float = 0.0) -> None:
        PAID.append((arm, paid))
        super().learn(arm, reward)


PAID = list[tuple[int, float]]()


def test_a_strategy_is_told_its_bonuses_if_it_asks_for_them(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        campaign = make(client)
        tokens = campaign.agent_tokens(["ann"])
        PAID.clear()
        with fp.AgentClient(service.at, "c", tokens["ann"], strategy=Counting(), retries=0) as ann:
            told = [ann.act(lambda arm: 0.5) for _ in range(12)]
            assert [paid for _, paid in PAID] == [0.5 if it.paid else 0.0 for it in told]
            assert {paid for _, paid in PAID} == {0.0, 0.5}


def test_a_strategy_learns_from_a_pull_that_could_not_be_told(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        campaign = make(client)
        tokens = campaign.agent_tokens(["ann"])
        PAID.clear()

        def after(happens: Callable[[], Any]) -> Callable[[str], float]:
            def pull(arm: str) -> float:
                happens()
                return 0.5

            return pull

        with fp.AgentClient(service.at, "c", tokens["ann"], strategy=Counting(), retries=0) as ann:
            with pytest.raises(errors.InvalidReward):
                ann.act(lambda arm: 7.0)
            assert PAID == [], "that was no reward"
            with pytest.raises(errors.ServiceError):
                ann.act(after(lambda: campaign.revoke_agent("ann")))
        assert [paid for _, paid in PAID] == [0.0]
        rounds = client.create(name="r", arms=["A", "B"], agents=["ann", "bob"], price="1 EUR", mode="rounds")
        rounds.start()
        token = rounds.agent_tokens(["ann"])["ann"]
        ann = fp.AgentClient(service.at, "r", token, strategy=Counting(), retries=0)
        with ann, pytest.raises(errors.OutOfTurn):
            ann.act(after(lambda: ann.tell("A", 0.5)))
        assert [paid for _, paid in PAID] == [0.0, 0.0]


def test_strategies_learn_in_the_unit_interval_whatever_the_scale(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        campaign = client.create(name="stars", arms=["A", "B"], agents=["ann"], price="1 EUR", scale="1..5")
        campaign.start()
        with fp.AgentClient(service.at, "stars", campaign.agent_tokens(["ann"])["ann"], strategy=Heard()) as me:
            assert (me.me().scale, me.me().range) == ("1..5", (1.0, 5.0))
            HEARD.clear()
            me.act(lambda arm: 4.0)
            assert [reward for _, reward in HEARD] == [0.75]


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
            for _ in range(2):
                me.pass_over(event=1)
            assert me.me().next_number == 2
            assert me.acted("A", event=2).event is not None
            assert me.outcome(2, 0.5) == me.outcome(2, 0.5)
            with pytest.raises(errors.WrongMoment):
                me.decline(offer=99)
            with pytest.raises(errors.WrongMoment):
                me.accept(offer=99)
            pulled: list[str] = []

            def pull(arm: str) -> float:
                pulled.append(arm)
                return float(arm == "A")

            for _ in range(4):
                me.act(pull)
            assert sum(me.me().pulls) == 7
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
    with fp.Client("http://xn--a", "x") as client, pytest.raises(errors.ServiceError, match="check the address"):
        client.campaigns()
    with pytest.raises(errors.InvalidInput, match="url must begin with http"):
        fp.Client("127.0.0.1", "x")
    with pytest.raises(errors.InvalidInput, match="token must be the text"):
        fp.AgentClient("http://127.0.0.1:9", "c", "é")


@pytest.mark.parametrize(
    ("home", "owners", "named", "followed"),
    [
        ("http://a", ["http://b"], "http://b", "http://b"),
        ("http://a", ["http://b/at"], "http://B:80/other", "http://b/at"),
        ("http://a", ["https://b"], "https://b", "https://b"),
        ("https://a", ["https://b"], "http://b", None),
        ("http://a", [], "http://b", None),
        ("http://a", ["http://b"], "http://b.evil", None),
        ("http://a", ["http://b"], "http://b@evil", None),
        ("http://a", ["http://b"], "http://b:81", None),
        ("http://a", ["http://b"], "file:///b", None),
        ("http://a", ["http://b"], "http://[", None),
        ("http://a", ["http://b"], "http://b\\n", None),
        ("http://a", ["http://b"], 7, None),
    ],
)
def test_a_token_is_sent_only_to_addresses_that_were_given(
    home: str, owners: list[str], named: Any, followed: str | None
) -> None:
    attempt = Attempt(sent(ReadStatus(), "c"), Addresses(home, owners), "secret", retries=3)
    answer = Answer(421, msgspec.json.encode({"owner": named}))
    if followed is None:
        with pytest.raises(errors.ServiceError, match="only to addresses that were given; ask there, or give it"):
            attempt.answered(answer)
        assert attempt.url == home
    else:
        assert attempt.answered(answer) is not None
        assert attempt.url == followed


def test_addresses_are_checked() -> None:
    with pytest.raises(errors.InvalidInput, match="owners must begin with https"):
        fp.Client("https://a", "t", owners=["http://b"])
    for wrong in ("b", "http://", "http://[", "http://a@b", "http://a..b", "http://" + 70 * "a", 7):
        with pytest.raises(errors.InvalidInput, match="each of owners must begin with http"):
            fp.AgentClient("http://a", "c", "t", owners=[wrong])  # type: ignore[list-item]
    with pytest.raises(errors.InvalidInput, match="owners must be a list"):
        fp.Client("http://a", "t", owners="http://b")
    with pytest.raises(errors.InvalidInput, match="seconds must be"):
        fp.Client("http://a", "t", seconds=0)


def test_a_request_that_is_still_going_on_is_waited_for() -> None:
    where = Addresses("http://a")
    attempt = Attempt(sent(Start(), "c"), where, "secret", retries=1)
    assert attempt.answered(Answer(409, b"{}", after="1")) is not None
    with pytest.raises(errors.ServiceError):
        attempt.answered(Answer(409, b"{}", after="1"))
    with pytest.raises(errors.ServiceError):
        Attempt(sent(Start(), "c"), where, "secret", retries=1).answered(Answer(409, b"{}"))


@pytest.mark.parametrize("after", ["86400", "9" * 400, "-1", "soon", "", "1e9", "Wed, 21 Oct 2099 07:28:00 GMT", "٣"])
def test_nobody_makes_a_client_sleep_for_long(after: str) -> None:
    attempt = Attempt(sent(Start(), "c"), Addresses("http://a"), "secret", retries=9)
    for _ in range(9):
        wait = attempt.answered(Answer(503, b"{}", after=after))
        assert wait is not None
        assert 0 < wait <= 10


def test_a_client_remembers_who_has_a_campaign_until_that_one_is_silent() -> None:
    where = Addresses("http://a", ["http://b"])
    moved = Answer(421, b'{"owner": "http://b"}')
    first = Attempt(sent(ReadStatus(), "x"), where, "t", 3)
    assert first.answered(moved) == 0.0
    second = Attempt(sent(Stop(), "x"), where, "t", 3)
    assert second.arguments() == ("POST", "http://b/v1/campaigns/x/stop")
    assert Attempt(sent(ReadStatus(), "y"), where, "t", 3).url == "http://a"
    assert second.failed(OSError("gone")) == 0.0, "the other one is asked at once"
    assert Attempt(sent(ReadStatus(), "x"), where, "t", 3).url == "http://a"
    assert second.answered(moved) == SOON, "who is hung is not asked again, but whoever may take over"
    assert second.url == "http://a"


def test_without_other_addresses_the_same_one_is_asked_again_later() -> None:
    attempt = Attempt(sent(ReadStatus(), "x"), Addresses("http://a"), "t", 2)
    assert attempt.failed(OSError("gone")) > 0.0
    assert attempt.url == "http://a"
    attempt.failed(OSError("gone"))
    with pytest.raises(errors.ServiceError, match="cannot be reached"):
        attempt.failed(OSError("gone"))


def test_an_admin_s_change_is_sent_again_with_the_same_key_and_counts_once(service: Service) -> None:
    with fp.Client(service.at, service.admin) as client:
        campaign = make(client)
        attempt = Attempt(sent(AddAgents(2)), Addresses(service.at), service.admin, retries=1)
        found = [client.connection.http.request(*attempt.arguments(), **attempt.options).json() for _ in range(2)]
        assert found == [{"numbers": [2, 3]}] * 2
        assert campaign.add_agents(1) == [4]
