"""The soak's model: it agrees with a service that does what it must, and finds what one does not do that lies."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from freepull.campaigns import AsyncCampaign
from freepull.campaigns.view import CampaignView
from freepull.messages import LedgerEntry, Told
from load.soak import AGENTS, NEW, Model, Soak, Traffic, compare
from support.running import Service

pytestmark = pytest.mark.slow


def soaked(service: Service, folder: Path) -> list[str]:
    """Let agents and gateways act for a moment; return what does not fit."""
    path, found, model = service.create(**NEW), Soak(seconds=1.0), Model()
    made = service.send("POST", f"{path}/tokens", {"agents": list(range(AGENTS))}).json()
    own = [it["token"] for it in made["tokens"]]
    traffic = Traffic(lambda: [service.port], model, found, own, service.gateway, 400.0)
    for _ in range(30):
        if sum(it == 1 for it in model.outcomes) < 3:
            asyncio.run(traffic.run(time.monotonic() + 1.0, lambda: True))
    compare([service.at], folder, service.admin, model, found)
    assert found.events > 50
    assert found.paid >= 3
    return found.problems


def test_the_soak_s_model_agrees_with_a_service(service: Service, tmp_path: Path) -> None:
    assert soaked(service, tmp_path) == []


def test_the_soak_s_model_finds_a_lost_pull_and_a_payment_that_was_made_twice(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, ledger, events = AsyncCampaign.tell, CampaignView.ledger, list[str]()

    async def forgets(self: AsyncCampaign, agent: Any, arm: Any, reward: float, event: Any = None) -> Told:
        events.append(event)
        return Told(7) if event == events[0] else await tell(self, agent, arm, reward, event)

    async def pays_twice(self: CampaignView, *args: Any) -> list[LedgerEntry]:
        rows = await ledger(self, *args)
        return [*rows, replace(rows[-1], entry=rows[-1].entry + 1)] if rows else rows

    monkeypatch.setattr(AsyncCampaign, "tell", forgets)
    monkeypatch.setattr(CampaignView, "ledger", pays_twice)
    problems = soaked(service, tmp_path)
    assert any(it.startswith("1 answers are not in the log") for it in problems), problems
    assert "1 offers were paid twice" in problems
    assert any("cents" in it for it in problems), problems
