"""`freepull serve` and `freepull token`, as people type them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from freepull.cli.campaign_data import app
from freepull.server.server import ENDING_SECONDS
from load.traffic import Process
from support.program import freepull
from support.running import Service, token_command

pytestmark = pytest.mark.slow


def test_tokens_are_made_listed_and_revoked_in_a_store(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/trial.db"
    made = json.loads(token_command("new", "--store", store, "--scope", "admin", "--label", "me", "--json").stdout)
    assert made["token"].startswith(f"fp_{made['id']}_")
    listed = token_command("list", "--store", store, "--json").stdout
    assert json.loads(listed)["label"] == "me"
    assert made["token"].split("_", 2)[2] not in listed
    assert token_command("revoke", made["id"], "--store", store).exit_code == 0
    assert json.loads(token_command("list", "--store", store, "--json").stdout)["revoked"] is not None
    token_command("new", "--store", store, "--scope", "operator", "--by", "ann")
    told = [json.loads(line) for line in token_command("audit", "--store", store, "--json").stdout.splitlines()]
    assert [(it["who"], it["action"], it["scope"], it["id"] == made["id"]) for it in told] == [
        ("", "made", "admin", True),
        ("", "revoked", "admin", True),
        ("ann", "made", "operator", False),
    ]
    refused = token_command("new", "--server", "http://127.0.0.1:9", "--by", "ann")
    assert (refused.exit_code, "--by must be left out" in refused.stderr) == (2, True)
    bad = token_command("revoke", "none", "--store", store)
    assert (bad.exit_code, bad.stderr.count("\n")) == (2, 1)
    assert token_command("new").exit_code == 2


def test_a_running_service_makes_tokens_over_http_and_ends_gracefully(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/trial.db"
    admin = json.loads(token_command("new", "--store", store, "--scope", "admin", "--json").stdout)["token"]
    process = Process(store)
    try:
        busy = token_command("list", "--store", store)
        assert (busy.exit_code, "open in another process" in busy.stderr) == (2, True)
        body = {"name": "c", "arms": 2, "agents": ["ann"], "price": "1 EUR", "horizon": 9}
        process.ask(admin, "POST", "/campaigns", body)
        where = ["--server", process.address]
        token = token_command("new", *where, "--campaign", "c", "--agent", "ann", FREEPULL_TOKEN=admin).stdout.strip()
        assert process.ask(token, "GET", "/campaigns/c/me")["agent"] == "ann"
        token = token_command("new", *where, "--campaign", "c", "--agent", "#0", FREEPULL_TOKEN=admin).stdout.strip()
        assert process.ask(token, "GET", "/campaigns/c/me")["agent"] == "ann"
        other = freepull("serve", "--store", store, "--port", "0")
        assert (other.returncode, other.stderr.count("error:")) == (2, 1)
        taken = freepull("serve", "--store", f"sqlite:///{tmp_path}/b.db", "--port", str(process.port))
        assert (taken.returncode, "cannot listen" in taken.stderr) == (2, True)
    finally:
        assert process.end() == 0


def test_campaign_commands_go_through_a_running_service(service: Service, tmp_path: Path) -> None:
    def command(*words: str) -> Any:
        name, *rest = words
        runner = CliRunner()
        at = [] if name == "list" else ["c"]
        environment = {"FREEPULL_TOKEN": service.admin}
        done = runner.invoke(app, [name, service.at, *at, *rest, "--json"], env=environment, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    (tmp_path / "users.txt").write_text("ann\nbob\n")
    (made,) = command(
        *("new", "--arms", "A,B", "--agents", str(tmp_path / "users.txt"), "--price", "0.50 EUR"),
        *("--rule", "certified", "--observe", "steps:0"),
    )
    assert (made["status"], made["agents"]) == ("enrolling", 2)
    (tmp_path / "users.txt").write_text("cy\nd/e\n")
    assert command("enrol", str(tmp_path / "users.txt")) == [{"agents": [2, 3]}]
    assert command("start")[0]["status"] == "running"
    assert command("budget", "9 EUR")[0]["budget"] == "9.00 EUR"
    (offer,) = command("ask", "ann")
    assert command("tell", "ann", offer["arm"], "0.5", "--event", "e")[0]["paid"] == "0.50 EUR"
    assert command("pause")[0]["status"] == "paused"
    assert command("resume")[0]["status"] == "running"
    (tmp_path / "more.csv").write_text("agent,arm,reward\nbob,A,1\n")
    assert command("import", str(tmp_path / "more.csv")) == [{"rows": 1}]
    assert command("export", str(tmp_path / "all.csv"))[0]["rows"] == 2
    assert command("status")[0]["observations"] == 2
    assert command("verdict")[0]["decided"] is False
    assert command("ledger")[0]["agent"] == "ann"
    assert command("leave", "cy")[0]["absent"] == 1
    command("erase", "--all", "--anyway")
    assert [row["name"] for row in service.send("GET", "/campaigns/c/agents").json()] == ["#0", "#1", "#2", "#3"]
    assert command("stop", "--why", "over")[0]["why"] == "over"
    assert [row["action"] for row in command("audit")][-1] == "stopped"
    assert command("list") == [["c"]]


def test_a_service_is_not_asked_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FREEPULL_TOKEN", raising=False)
    done = CliRunner().invoke(app, ["status", "http://127.0.0.1:9", "c"])
    assert (done.exit_code, "FREEPULL_TOKEN must hold" in done.stderr) == (2, True)
    by = CliRunner().invoke(app, ["pause", "http://127.0.0.1:9", "c", "--by", "ann"], env={"FREEPULL_TOKEN": "x"})
    assert (by.exit_code, "by must be left out" in by.stderr) == (2, True)


def test_streams_end_when_the_service_is_told_to_end(service: Service) -> None:
    path = service.create()
    headers = {"authorization": f"Bearer {service.reader}"}
    with service.http.stream("GET", f"/v1{path}/stream", headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        assert any("status" in line for line in lines)
        service.server.should_exit = True
        list(lines)  # it ends well, and is not cut off
    service.thread.join(ENDING_SECONDS)
    assert not service.thread.is_alive()


@pytest.mark.parametrize("missing", ["litestar", "uvicorn", "httptools"])
def test_without_the_extra_one_sentence_says_what_to_install(missing: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from freepull.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", "--store", f"sqlite:///{tmp_path}/trial.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'freepull[live]'" in done.stderr
