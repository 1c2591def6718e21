"""What the service says of single pulls: the campaign's own sentences and types, one by one in a batch."""

from __future__ import annotations

from typing import Any

import pytest

import freepull as fp
from freepull import errors
from support.running import Service

pytestmark = pytest.mark.slow

GOOD = {"agent": "ann", "arm": "A", "reward": 0.5}


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"reward": 1.5}, "InvalidReward"),
        ({"reward": -1}, "InvalidReward"),
        ({"reward": "0.5"}, "InvalidReward"),
        ({"event": ""}, "InvalidInput"),
        ({"event": "x" * 201}, "InvalidInput"),
        ({"event": 0}, "InvalidInput"),
        ({"event": 1 << 62}, "InvalidInput"),
        ({"arm": ""}, "UnknownArm"),
        ({"agent": "x" * 201}, "UnknownAgent"),
    ],
)
def test_a_bad_pull_of_a_batch_is_refused_alone(service: Service, wrong: dict[str, Any], kind: str) -> None:
    path = service.create()
    body = {"observations": [GOOD, GOOD | wrong, GOOD | {"agent": "bob"}]}
    done = service.send("POST", f"{path}/observations:batch", body, service.gateway)
    assert done.status_code == 200, done.text
    first, bad, last = done.json()["results"]
    assert (first["error"], last["error"], bad["error"]["type"]) == (None, None, f"/problems/{kind}")
    assert service.send("GET", path).json()["observations"] == 2


def test_a_batch_that_is_typed_wrongly_is_refused_whole(service: Service) -> None:
    path = service.create()
    for wrong in ({"reward": None}, {"reward": [0.5]}, {"arm": 0}, {"event": 0.5}, {"more": 1}):
        body = {"observations": [GOOD, GOOD | wrong]}
        assert service.send("POST", f"{path}/observations:batch", body).status_code == 422
    assert service.send("GET", path).json()["observations"] == 0


def test_the_sdk_raises_what_a_campaign_raises(service: Service, tmp_path: Any) -> None:
    wrong: list[tuple[Any, ...]] = [("A", 1.8), ("A", float("nan")), ("Z", 0.5), ("A", 0.5, ""), ("A", 0.5, 0)]
    settings: dict[str, Any] = {"arms": ["A", "B", "C"], "agents": ["ann"], "price": "1 EUR", "horizon": 9}
    principal = fp.Principal(offers="each")
    url = f"sqlite:///{tmp_path}/own.db"
    with fp.Campaign.create(url, name="onboarding", principal=principal, **settings) as own:
        own.start()
        path = service.create()
        with fp.AgentClient(service.at, "onboarding", service.tokens(path, "ann")["ann"]) as ann:
            for pull in wrong:
                with pytest.raises(errors.FreepullError) as here:
                    own.tell("ann", *pull)
                with pytest.raises(errors.FreepullError) as there:
                    ann.tell(*pull)
                assert (type(there.value), str(there.value)) == (type(here.value), str(here.value))
