"""A copy of the whole store, taken from a running service, and who may take it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

import freepull as fp
from freepull.campaigns.journal.recovery import verify
from freepull.cli.campaign_data import app
from freepull.errors import FreepullError, InvalidInput, ServiceError
from support.running import NEW, Service

pytestmark = pytest.mark.slow


def test_a_running_service_is_backed_up_and_the_copy_is_right(service: Service, tmp_path: Path) -> None:
    with fp.Client(service.at, service.admin) as client:
        campaign = client.create(**NEW)
        campaign.start()
        campaign.tell_each([("ann", "A", 0.5), ("bob", "B", 1.0)])
        client.backup(tmp_path / "copy.db")
        assert verify(f"sqlite:///{tmp_path}/copy.db", "onboarding").events == campaign.status().events
        with pytest.raises(InvalidInput, match="does not exist yet"):
            client.backup(tmp_path / "copy.db")
        campaign.tell_each([("cy", "C", 0.5)])  # it goes on

    async def again() -> None:
        async with fp.AsyncClient(service.at, service.admin) as client:
            await client.backup(tmp_path / "again.db")

    asyncio.run(again())
    with fp.Campaign.open(f"sqlite:///{tmp_path}/again.db", "onboarding") as copy:
        assert copy.status().observations == 3


def test_only_an_admin_of_all_campaigns_takes_it(service: Service, tmp_path: Path) -> None:
    with fp.Client(service.at, service.admin) as client:
        client.create(**NEW)
        body = {"scope": "admin", "campaign": "onboarding"}
    headers = {"authorization": f"Bearer {service.admin}"}
    one = service.http.post("/v1/tokens", json=body, headers=headers).json()["token"]
    for token in (one, service.reader, service.gateway):
        with fp.Client(service.at, token) as client, pytest.raises(ServiceError):
            client.backup(tmp_path / "copy.db")
    assert list(tmp_path.glob("copy.db*")) == []


def test_postgresql_has_backups_of_its_own(postgres: str, tmp_path: Path) -> None:
    with (
        Service(postgres) as service,
        fp.Client(service.at, service.admin) as client,
        pytest.raises(FreepullError, match="backups of its own"),
    ):
        client.backup(tmp_path / "copy.db")


def test_the_commands_say_what_to_do_with_a_service(service: Service, tmp_path: Path) -> None:
    run, env = CliRunner(), {"FREEPULL_TOKEN": service.admin}
    with fp.Client(service.at, service.admin) as client:
        client.create(**NEW)
    assert run.invoke(app, ["backup", service.at, str(tmp_path / "copy.db")], env=env).exit_code == 0
    assert run.invoke(app, ["verify", f"sqlite:///{tmp_path}/copy.db", "onboarding"]).exit_code == 0
    for words in (["verify", service.at, "onboarding"], ["copy", service.at, "onboarding", "sqlite:///other.db"]):
        refused = run.invoke(app, words, env=env)
        assert refused.exit_code == 2
        assert "freepull campaign backup" in refused.stderr
