"""The first start: a way in, options that are checked before anything is served, and tokens that leave no traces."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from freepull.server.server import address_of
from load.traffic import Process
from support.program import command, freepull, inside
from support.running import Service, token_command


def begin(store: str, *options: str) -> tuple[list[str], str]:
    """Start a service, wait until it can be used, end it; return its log and what it printed."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command("serve", "--store", store, "--port", 0, *options), stdout=subprocess.PIPE, stderr=log, text=True
        )
        for _ in range(600):
            time.sleep(0.1)
            log.seek(0)
            if lines := log.read().splitlines():
                break
        address = json.loads(lines[0])["address"]
        while httpx.get(f"{address}/readyz", trust_env=False, timeout=60).status_code != 200:
            time.sleep(0.1)
        process.terminate()
        printed, _ = process.communicate(timeout=60)
        log.seek(0)
        return log.read().splitlines(), printed


@pytest.mark.slow
def test_a_new_store_says_how_to_come_in(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/trial.db"
    log, printed = begin(store)
    (hint,) = [json.loads(line) for line in log if "no token" in line]
    assert ("freepull token new" in hint["remedy"], "--first-token" in hint["remedy"], printed) == (True, True, "")
    log, printed = begin(store, "--first-token")
    token = printed.split()[-1]
    assert token.startswith("fp_")
    assert not any("no token" in line or token in line for line in log)
    with Service(store) as service:
        assert service.send("GET", "/token", token=token).json()["scope"] == "admin"
    assert begin(store, "--first-token")[1] == ""


@pytest.mark.parametrize("address", ["foo", "ftp://a.example", "http://", "//a.example", "https://a b", "http://a:x"])
def test_an_address_must_be_one(address: str, tmp_path: Path) -> None:
    done = inside("serve", "--store", f"sqlite:///{tmp_path}/trial.db", "--port", "0", "--address", address)
    assert (done.returncode, done.stderr.count("\n"), "--address must" in done.stderr) == (2, 1, True), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_whoever_listens_everywhere_is_reached_by_name() -> None:
    for host in ("0.0.0.0", "::"):
        assert address_of(host, 8009, tls=False) == f"http://{socket.gethostname()}:8009"
    assert address_of("127.0.0.1", 8009, tls=False) == "http://127.0.0.1:8009"


@pytest.mark.slow
def test_a_bad_certificate_is_refused_before_serving(tmp_path: Path) -> None:
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"
    for file in files:
        file.write_text("-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n")
    tls = ["--certificate", str(files[0]), "--key", str(files[1])]
    done = freepull("serve", "--store", f"sqlite:///{tmp_path}/trial.db", "--port", "0", *tls)
    assert (done.returncode, done.stderr.count("\n"), "in PEM and not encrypted" in done.stderr) == (2, 1, True)
    assert not (tmp_path / "trial.db").exists()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_load_balancers_may_ask_with_head(service: Service, method: str) -> None:
    for path, text in (("/healthz", "ok\n"), ("/readyz", "ready\n")):
        found = service.http.request(method, path)
        assert (found.status_code, found.text) == (200, text if method == "GET" else "")
        assert found.headers["content-length"] == str(len(text))
    assert 'route="/healthz",method="HEAD"' in service.http.get("/metrics").text or method == "GET"


def test_a_csv_says_its_charset_once(service: Service) -> None:
    found = service.send("GET", f"{service.create()}/exports/ledger.csv")
    assert found.headers["content-type"] == "text/csv; charset=utf-8"


def test_a_token_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/trial.db"
    for words in (
        ["new", "--scope", "everything"],
        ["new", "--lasts", "long"],
        ["new", "--label", "a\nb"],
        ["new", "--campaign", "typo"],
        ["new", "--campaign", "typo", "--agent", "ann"],
        ["list"],
        ["revoke", "none"],
    ):
        done = token_command(*words, "--store", store)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), (words, done.stderr)
        assert list(tmp_path.iterdir()) == [], words


def test_a_token_is_for_a_campaign_that_there_is(service: Service, tmp_path: Path) -> None:
    assert token_command("new", "--store", f"sqlite:///{tmp_path}/own.db").exit_code == 0
    done = token_command("new", "--store", f"sqlite:///{tmp_path}/own.db", "--campaign", "typo")
    assert (done.exit_code, "has no campaign 'typo'" in done.stderr) == (2, True)
    service.create(name="there")
    for name, status in (("typo", 404), ("there", 201)):
        assert service.send("POST", "/tokens", {"scope": "read", "campaign": name}).status_code == status


@pytest.mark.slow
def test_a_store_that_a_service_holds_is_asked_through_it(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/trial.db"
    process = Process(store)
    try:
        for words in (["new"], ["list"], ["revoke", "x"]):
            done = token_command(*words, "--store", store)
            assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
            assert "as --server instead of --store" in done.stderr
            assert "or stop it first" in done.stderr
    finally:
        assert process.end() == 0
