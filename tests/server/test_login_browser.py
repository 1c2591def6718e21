"""Logging in with a provider in a real browser: there, back, pause, and out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from freepull.server.oidc import Provider
from freepull.server.server import Server
from support.provider import CLIENT, SECRET, listening
from support.running import Service

pytestmark = pytest.mark.slow


def test_a_browser_logs_in_changes_something_and_logs_out(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Server.__init__
    with listening() as id:
        allowed = {"operator": ("staff",)}

        def with_provider(self: Server, url: str, host: str, port: int, limits: Any, log: Any) -> None:
            asked = Provider(id.issuer, CLIENT, SECRET, allowed=allowed, address=f"http://{host}:{port}")
            begin(self, url, host, port, limits, log, asked)

        monkeypatch.setattr(Server, "__init__", with_provider)
        with Service(f"sqlite:///{tmp_path}/trial.db") as service:
            service.create(name="first")
            path = service.create(name="second")
            page.goto(f"{service.at}/#second")
            page.get_by_role("link", name="Log in with your organisation").click()
            page.wait_for_selector("body[data-drawn]")
            assert page.url == f"{service.at}/#second"
            assert page.locator("#stop").is_hidden()
            page.get_by_role("button", name="Pause").click()
            page.wait_for_selector("#stuck [data-helps=resume]")
            assert service.send("GET", path).json()["status"] == "paused"
            (note,) = (it for it in service.send("GET", f"{path}/audit").json() if it["action"] == "paused")
            assert note["who"].startswith("token s")
            page.reload()
            page.wait_for_selector("body[data-drawn]")
            page.get_by_role("button", name="Log out").click()
            page.wait_for_selector("#login:not([hidden])")
            assert page.context.cookies() == []
            page.goto(f"{service.at}/login/done?code=x&state=y")
            assert "Not logged in" in page.inner_text("main")
