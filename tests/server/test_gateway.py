"""One token for a backend that asks and tells for all of its users."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import freepull as fp
from freepull import errors
from freepull.money import Money
from support.running import Service, is_problem


def gateway(service: Service, campaign: str = "onboarding") -> str:
    token: str = service.send("POST", "/tokens", {"scope": "gateway", "campaign": campaign}).json()["token"]
    return token


def test_a_backend_asks_and_tells_for_its_users_with_one_token(both: Service) -> None:
    both.create()
    with fp.Client(both.at, gateway(both)) as client:
        slots = client.campaign("onboarding")
        offer = slots.ask("ann")
        assert offer is not None
        assert (offer.agent, offer.bonus) == ("ann", Money(50, "EUR"))
        assert slots.ask("ann") == offer  # asking again is the same offer
        told = slots.tell("ann", offer.arm, 0.8, event="visit-1")
        assert (told.outcome, told.paid) == ("paid", Money(50, "EUR"))
        assert slots.tell("ann", offer.arm, 0.8, event="visit-1") == told
        with pytest.raises(errors.EventConflict):
            slots.tell("ann", offer.arm, 0.7, event="visit-1")
        slots.pass_over("bob", event="none-1")
        slots.tell(1, 0, 0.25)  # by numbers, as everywhere
        assert slots.agent("bob").pulls == [1, 0, 0]
        for wrong, kind in ((("nobody", "A", 0.5), errors.UnknownAgent), (("ann", "Z", 0.5), errors.UnknownArm)):
            with pytest.raises(kind):
                slots.tell(*wrong)
        with pytest.raises(errors.InvalidReward):
            slots.tell("ann", "A", 2.0)
        with pytest.raises(
            errors.ServiceError, match=r"cannot do this\. Use a token of scope read, operator or admin\.$"
        ):
            slots.status()
    status = both.send("GET", "/campaigns/onboarding").json()
    assert (status["observations"], status["paid"]) == (2, 1)


def test_rewards_are_told_on_the_campaign_s_scale_and_arms_by_number_in_every_way(service: Service) -> None:
    service.create(scale="1..5", principal={"observe": {"part": "Steps", "n": 0}})
    with fp.Client(service.at, gateway(service)) as client:
        stars = client.campaign("onboarding")
        stars.tell("ann", 0, 4)
        stars.act("ann", 0, "v1")
        stars.outcome("ann", "v1", 2)
        told = stars.tell_each([("ann", 0, 3, None), ("bob", 1, 6, None), ("nobody", 0, 3, None), ("bob", 7, 3, None)])
        kinds = [type(it) for it in told]
        assert kinds == [fp.Told, errors.InvalidReward, errors.UnknownAgent, errors.UnknownArm]
        for wrong in (6, "4", float("nan"), None):
            with pytest.raises(errors.InvalidReward):
                stars.tell("ann", "A", wrong)  # type: ignore[arg-type]
    arm, *_ = service.send("GET", "/campaigns/onboarding").json()["arms"]
    assert (arm["pulls"], arm["mean"]) == (3, 3.0)


def test_it_works_the_same_on_asyncio(service: Service) -> None:
    service.create()

    async def run() -> list[Any]:
        async with fp.AsyncClient(service.at, gateway(service)) as client:
            slots = client.campaign("onboarding")
            offers = await asyncio.gather(*(slots.ask(name) for name in ("ann", "bob", "cy")))
            return [await slots.tell(it.agent, it.arm, 0.5) for it in offers if it is not None]

    assert [it.outcome for it in asyncio.run(run())] == ["paid"] * 3


def test_a_gateway_reaches_its_campaign_alone_and_agents_keep_their_own_tokens(service: Service) -> None:
    path, other = service.create(), service.create(name="second")
    token = gateway(service)
    pull = {"arm": "A", "reward": 0.5}
    assert service.send("POST", f"{path}/agents/ann/offer", token=token).status_code == 200
    for verb, body in (("offer", None), ("observations", pull), ("pass-over", {})):
        found = service.send("POST", f"{other}/agents/ann/{verb}", body, token)
        assert (found.status_code, is_problem(found)) == (403, True)
        mine = service.tokens(path, "ann")["ann"]
        assert service.send("POST", f"{path}/agents/bob/{verb}", body, mine).status_code == 403
        assert service.send("POST", f"{path}/me/{verb}", body, mine).status_code == 200
        for scope in (service.reader, ""):
            assert service.send("POST", f"{path}/agents/bob/{verb}", body, scope).status_code in (401, 403)
    missing = service.send("POST", f"{path}/agents/nobody/offer", token=token)
    assert (missing.status_code, missing.json()["type"]) == (404, "/problems/UnknownAgent")
    assert service.send("POST", f"{path}/agents/%231/offer", token=token).json()["offer"]["agent"] == "bob"


def test_who_acts_for_agents_is_in_the_audit_once_and_not_with_every_pull(service: Service) -> None:
    path, token = service.create(), gateway(service)
    for number in range(5):
        service.send("POST", f"{path}/agents/ann/observations", {"arm": "A", "reward": 0.5, "event": number + 1}, token)
    rows = [it for it in service.send("GET", f"{path}/audit").json() if it["action"] == "noted"]
    assert [(it["who"], it["detail"]) for it in rows] == [(f"token {token.split('_')[1]}", {"acts_for": "agents"})]


def test_agents_and_gateways_are_limited_each_by_their_own_rate(service: Service) -> None:
    path, token = service.create(), gateway(service)
    rates = service.server.application.hosting  # the running service's own limits
    assert rates is not None
    limit = service.server.application._litestar.state["rate_limit"]
    limit.rates["agent"] = 1.0
    answers = [service.send("POST", f"{path}/agents/ann/offer", token=token) for _ in range(4)]
    assert [it.status_code for it in answers] == [200, 200, 429, 429]
    assert "an agent may ask 1 times a second" in answers[-1].json()["detail"]
    assert service.send("POST", f"{path}/agents/bob/offer", token=token).status_code == 200
    limit.rates.update(agent=1e6, gateway=2.0)
    answers = [service.send("POST", f"{path}/agents/cy/offer", token=token) for _ in range(6)]
    assert {it.status_code for it in answers} == {200, 429}
    assert "a gateway may ask 2 times a second" in answers[-1].json()["detail"]


def test_a_repeated_answer_has_no_name_that_could_not_be_erased(service: Service) -> None:
    path = service.create()
    first, again = (
        service.send("POST", f"{path}/agents/ann/offer", headers={"idempotency-key": "k"}) for _ in range(2)
    )
    assert first.json()["offer"]["agent"] == "ann"
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["offer"] == first.json()["offer"] | {"agent": ""}
