"""What is refused: bad bodies, wrong names, wrong moments; always with a sentence and a remedy, never a 5xx."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.rehearsal import play
from load.hostile import answers, bad_bodies
from support.running import NEW, Service, is_problem

pytestmark = pytest.mark.slow

CSV = {"content-type": "text/csv"}
DEEP: dict[str, Any] = {"part": "Certified", "delta": 0.05}
for _ in range(400):
    DEEP = {"part": "Certified", "delta": DEEP}


def test_bad_bodies_are_refused_and_change_nothing(service: Service) -> None:
    path = service.create()
    token = service.tokens(path, "ann")["ann"].encode()
    before = service.send("GET", path).json()
    routes = [("POST", f"{path}/me/observations", token)]
    admin = service.admin.encode()
    routes += [("POST", route, admin) for route in ("/campaigns", f"{path}/agents", f"{path}/observations:batch")]
    routes += [("POST", "/tokens", admin), ("PATCH", f"{path}/budget", admin), ("POST", f"{path}/stop", admin)]
    requests = (
        (method, route, body, headers | {"authorization": b"Bearer " + who})
        for i, (body, headers) in enumerate(bad_bodies(900))
        for method, route, who in [routes[i % len(routes)]]
    )
    found = asyncio.run(answers(service.port, requests))
    assert set(found) <= {0, 400, 413, 415, 422}
    assert min(found[status] for status in (400, 415, 422)) > 0
    assert service.send("GET", path).json() == before
    assert len(service.send("GET", "/campaigns").json()) == 1
    for body in (b"null", b"[]", b"7", b'"text"', b"{}", b'{"arm": "Z", "reward": 0.5}', b'{"arm": 0, "reward": 0.5}'):
        headers = {"content-type": "application/json"}
        answer = service.send("POST", f"{path}/me/observations", token=token.decode(), content=body, headers=headers)
        assert (answer.status_code, is_problem(answer)) == (422, True), body


@pytest.mark.parametrize(
    ("status", "method", "route", "body"),
    [
        (404, "GET", "/campaigns/none", None),
        (404, "GET", "/nothing", None),
        (405, "PUT", "{c}", None),
        (404, "POST", "{c}/agents/nobody/unban", None),
        (404, "POST", "{c}/arms/Z/withdraw", None),
        (404, "DELETE", "/tokens/none", None),
        (409, "POST", "{c}/start", None),
        (409, "POST", "{c}/resume", None),
        (409, "POST", "/campaigns", NEW),
        (422, "POST", "{c}/arms/A/withdraw", None),
        (422, "PATCH", "{c}/budget", {"budget": "9 USD"}),
        (422, "PATCH", "{c}/budget", {"budget": "much"}),
        (422, "POST", "{c}/agents", {"agents": ["ann"]}),
        (422, "POST", "{c}/tokens", {"agents": ["nobody"]}),
        (422, "POST", "/tokens", {"scope": "everything"}),
        (422, "POST", "/campaigns", NEW | {"name": "a\nb"}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "price": "free"}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "principal": {"rule": {"part": "Magic"}}}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "principal": {"rule": {"part": "Certified", "delta": "x"}}}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "principal": {"rule": {"part": "Certified", "beta": 1}}}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "principal": {"rule": {"delta": 1}}}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "principal": {"rule": DEEP}}),
        (422, "POST", "/campaigns", NEW | {"name": "x", "mode": "chaos"}),
        (400, "GET", "{c}/ledger?after=x", None),
        (400, "GET", "{c}/ledger?limit=0", None),
    ],
)
def test_every_refusal_has_its_status(service: Service, status: int, method: str, route: str, body: Any) -> None:
    path = service.create()
    found = service.send(method, route.replace("{c}", path), body)
    assert (found.status_code, is_problem(found)) == (status, True), found.text


def test_what_is_wrong_with_the_store_is_said_in_the_log_alone(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = service.create()

    def fail(*_: Any) -> None:
        raise errors.StoreError(f"{tmp_path}/trial.db cannot be read.")

    monkeypatch.setattr(service.store, "query", fail)
    found = [service.send("GET", f"{path}/ledger?last=1"), service.send("GET", "/campaigns/none")]
    assert [(it.status_code, it.json()["detail"]) for it in found] == [(503, "the store failed.")] * 2


def test_events_conflict_gap_and_stop(service: Service) -> None:
    path = service.create()
    token = service.tokens(path, "ann")["ann"]

    def tell(**pull: Any) -> Any:
        return service.send("POST", f"{path}/me/observations", {"arm": "A", "reward": 0.5} | pull, token)

    assert tell(event="e").status_code == 200
    assert tell(event="e", reward=0.6).status_code == 422
    gap = tell(event=5)
    assert (gap.status_code, gap.json()["expected"]) == (409, 1)
    service.send("POST", f"{path}/stop", {})
    assert tell(event="f").status_code == 409


def test_logs_have_no_secret_and_no_name(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    from freepull.server.server import write_log

    service.log = write_log
    path = service.create()
    token = service.tokens(path, "ann")["ann"]
    service.send("POST", f"{path}/me/observations", {"arm": "Z", "reward": 0.5}, token)
    service.send("POST", f"{path}/agents/ann/unban", headers={"idempotency-key": "hush-hush"})
    service.send("GET", path, token=token + "x")
    told = capsys.readouterr().err
    assert '"status":422' in told
    for secret in (token, service.admin, service.admin.split("_", 2)[2], "ann", "hush-hush"):
        assert secret not in told


def test_a_rehearsal_is_closed_to_real_agents(service: Service) -> None:
    path = service.create()
    ann = service.tokens(path, "ann")["ann"]
    service.__exit__(None, None, None)
    with fp.Campaign.open(service.url, "onboarding") as campaign:
        agents, answers = fp.agents.AlphaUCB(), fp.answers.Always()
        play(campaign, fp.Game([[0.9, 0.1, 0.1]] * 3), agents=agents, answers=answers, steps=2)
        assert campaign.core.ask_for("ann", simulated=True).result() is not None  # an offer that ann must not see
    service.__enter__()
    pull = {"arm": "A", "reward": 0.5}
    for found in (
        service.send("POST", f"{path}/me/offer", token=ann),
        service.send("POST", f"{path}/me/observations", pull, token=ann),
        service.send("POST", f"{path}/imports", content=b"agent,arm,reward\nann,A,0.5\n", headers=CSV),
    ):
        assert found.status_code == 409
        assert is_problem(found)
        assert "is a rehearsal, played by simulated agents" in found.json()["detail"]
    batch = service.send("POST", f"{path}/observations:batch", {"observations": [pull | {"agent": "ann"}]})
    assert "is a rehearsal" in str(batch.json())
    assert service.send("GET", f"{path}/me", token=ann).json()["offer"] is None
    status = service.send("GET", path).json()
    assert (status["rehearsal"], status["observations"]) == (True, 6)
