"""A store of one's own keeps the promises, and is served like any other."""

from __future__ import annotations

import json
import time

import httpx
import pytest
from memory_store import CampaignsOnly, Memory, MemoryStore

import freepull as fp
from freepull.errors import InvalidInput
from freepull.server.auth import Tokens
from freepull.testing import STORE_CHECKS
from support.running import Service


@pytest.mark.parametrize("promise", STORE_CHECKS)
def test_it_keeps_the_promises(promise: str) -> None:
    memory = Memory()
    STORE_CHECKS[promise](lambda: MemoryStore(memory, 0.5))


@pytest.mark.slow
def test_a_campaign_on_it_is_served_from_creation_to_verdict() -> None:
    memory = Memory()
    with Service(lambda: MemoryStore(memory)) as service:
        path, key = service.create(), {"idempotency-key": "k"}
        tokens = service.tokens(path, "ann", "bob")
        offer = service.send("POST", f"{path}/me/offer", token=tokens["ann"]).json()["offer"]
        pull = {"arm": offer["arm"], "reward": 0.5, "event": "e1"}
        told = service.send("POST", f"{path}/me/observations", pull, tokens["ann"]).json()
        assert told["outcome"] == "paid"
        assert service.send("POST", f"{path}/me/observations", pull, tokens["ann"]).json() == told
        (entry,) = service.send("GET", f"{path}/ledger").json()
        assert (entry["agent"], entry["arm"], entry["offer"]) == ("ann", offer["arm"], offer["id"])
        paused = service.send("POST", f"{path}/pause", headers=key)
        again = service.send("POST", f"{path}/pause", headers=key)
        assert (paused.status_code, again.json()) == (200, paused.json())
        assert [it["action"] for it in service.send("GET", f"{path}/audit?last=2").json()] == ["started", "paused"]
        assert service.send("POST", f"{path}/agents/bob/revoke").status_code == 204
        before = service.send("GET", path).json()
        service.restart()
        assert service.send("GET", path).json() == before
        assert service.send("GET", f"{path}/me", token=tokens["ann"]).json()["pulls"].count(1) == 1
        assert service.send("GET", f"{path}/me", token=tokens["bob"]).status_code == 401
        assert service.send("POST", f"{path}/pause", headers=key).headers["idempotent-replayed"] == "true"
        made = service.send("POST", "/tokens", {"scope": "read", "campaign": "onboarding"}).json()
        assert service.send("GET", path, token=made["token"]).status_code == 200
        assert service.send("DELETE", f"/tokens/{made['id']}").status_code == 204
        assert service.send("GET", path, token=made["token"]).status_code == 401
        assert service.send("GET", "/exports/backup.db").status_code == 409
        headers = {"authorization": f"Bearer {service.reader}"}
        with httpx.stream("GET", f"{service.at}/v1{path}/stream?screen=true", headers=headers, timeout=20) as stream:
            screen = json.loads(next(line for line in stream.iter_lines() if line.startswith("data: "))[6:])
        assert screen["status"] == before
        assert screen["ledger"] == [entry]
        assert "/readyz" in service.http.get("/metrics").text


@pytest.mark.slow
def test_its_campaigns_are_taken_over_when_another_owner_is_gone() -> None:
    memory = Memory()
    principal = fp.Principal(observe=fp.observe.Steps(0), offers="each")
    campaign = fp.Campaign.create(MemoryStore(memory), name="c", arms=2, agents=2, price="1 EUR", principal=principal)
    campaign.close()
    other = MemoryStore(memory, seconds=3.0)
    other.claim("c", "http://other.example:80 1")
    with Service(lambda: MemoryStore(memory)) as service:
        found = service.send("GET", "/campaigns/c")
        assert (found.status_code, found.json()["owner"]) == (421, "http://other.example:80")
        limit = time.monotonic() + 20
        while service.send("GET", "/campaigns/c").status_code == 421 and time.monotonic() < limit:
            time.sleep(0.1)
        assert service.send("POST", "/campaigns/c/start").json()["status"] == "running"


def test_a_store_that_keeps_no_tokens_is_not_served() -> None:
    with pytest.raises(InvalidInput, match=r"also keep tokens.*add that to CampaignsOnly"):
        Tokens(lambda: CampaignsOnly(Memory()))
