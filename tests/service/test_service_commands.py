"""`freepull serve` and `freepull token`, as people type them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from running import Service
from traffic import Process

SRC = Path(__file__).parents[2] / "src"


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "freepull", *words]
    environment = os.environ | {"PYTHONPATH": str(SRC)} | more
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_tokens_are_made_listed_and_revoked_in_a_store(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/trial.db"
    made = json.loads(run("token", "new", "--store", store, "--scope", "admin", "--label", "me", "--json").stdout)
    assert made["token"].startswith(f"fp_{made['id']}_")
    listed = run("token", "list", "--store", store, "--json").stdout
    assert json.loads(listed)["label"] == "me"
    assert made["token"].rpartition("_")[2] not in listed
    assert run("token", "revoke", made["id"], "--store", store).returncode == 0
    assert json.loads(run("token", "list", "--store", store, "--json").stdout)["revoked"] is not None
    bad = run("token", "revoke", "none", "--store", store)
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)
    assert run("token", "new").returncode == 2


def test_a_running_service_makes_tokens_over_http_and_ends_gracefully(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/trial.db"
    admin = json.loads(run("token", "new", "--store", store, "--scope", "admin", "--json").stdout)["token"]
    process = Process(store)
    try:
        busy = run("token", "list", "--store", store)
        assert (busy.returncode, "open in another process" in busy.stderr) == (2, True)
        body = {"name": "c", "arms": 2, "agents": ["ann"], "price": "1 EUR", "horizon": 9}
        process.ask(admin, "POST", "/campaigns", body)
        where = ["--server", process.address]
        token = run("token", "new", *where, "--campaign", "c", "--agent", "ann", FREEPULL_TOKEN=admin).stdout.strip()
        assert process.ask(token, "GET", "/campaigns/c/me")["agent"] == "ann"
        other = run("serve", "--store", store, "--port", "0")
        assert (other.returncode, other.stderr.count("error:")) == (2, 1)
        taken = run("serve", "--store", f"sqlite:///{tmp_path}/b.db", "--port", str(process.port))
        assert (taken.returncode, "cannot listen" in taken.stderr) == (2, True)
    finally:
        assert process.end() == 0


def test_streams_end_when_the_service_is_told_to_end(service: Service) -> None:
    path = service.create()
    headers = {"authorization": f"Bearer {service.reader}"}
    with service.http.stream("GET", f"/v1{path}/stream", headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        service.server.should_exit = True
        assert any("status" in line for line in lines)
    service.thread.join(10)
    assert not service.thread.is_alive()


@pytest.mark.parametrize("missing", ["litestar", "uvicorn", "httptools"])
def test_without_the_extra_one_sentence_says_what_to_install(missing: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from freepull.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", "--store", f"sqlite:///{tmp_path}/trial.db"]
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'freepull[live]'" in done.stderr
