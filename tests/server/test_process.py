"""The service as a process: what it writes, what it loads before it is ready, and what it does without descriptors."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from freepull.server.auth import Tokens
from load.tls import certificate
from load.traffic import Process
from support.program import command
from support.running import Service

pytestmark = pytest.mark.slow


def test_a_process_is_ready_when_it_has_loaded_what_its_rules_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, loaded = threading.Event(), list[str]()

    def slowly(rule: object) -> None:
        loaded.append(type(rule).__name__)
        assert loading.wait(60)

    monkeypatch.setattr("freepull.server.hosting._WARM", set())
    monkeypatch.setattr("freepull.server.hosting.warm_up", slowly)
    service = Service(f"sqlite:///{tmp_path}/trial.db")
    seen: list[Any] = []

    def look() -> None:
        while not hasattr(service, "http"):
            time.sleep(0.01)
        time.sleep(1.0)
        seen.extend([service.http.get("/healthz").status_code, service.http.get("/readyz")])
        loading.set()

    looking = threading.Thread(target=look)
    looking.start()
    with service:
        looking.join()
        assert (seen[0], seen[1].status_code, seen[1].json()["detail"]) == (
            *(200, 503),
            "this process is still getting ready.",
        )
        assert loaded[0] == "Comparisons"
        service.create()  # Certified
        loading.set()
        service.restart()
        limit = time.monotonic() + 20
        while len(set(loaded)) < 5 and time.monotonic() < limit:
            time.sleep(0.05)
        assert len(set(loaded)) == len(loaded) == 5, "each once in a process"


def test_a_process_without_descriptors_goes_on(tmp_path: Path) -> None:
    """Whoever takes all connections there are keeps out others, but the service and its campaigns live."""
    store = f"sqlite:///{tmp_path}/trial.db"
    tokens = Tokens(store)
    admin = tokens.new("admin")[0]
    tokens.close()
    process = Process(store)
    lines = []
    try:
        body = {"name": "c0", "arms": 2, "agents": 2, "price": "1 EUR", "horizon": 9}
        process.ask(admin, "POST", "/campaigns", body)
        process.ask(admin, "POST", "/campaigns/c0/start")
        resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE, (140, 140))
        time.sleep(1.2)
        for _ in range(300):
            lines.append(socket.create_connection(("127.0.0.1", process.port)))
        time.sleep(1.0)
        for line in lines:
            line.close()
        time.sleep(0.5)
        for i in range(6):
            rows = [{"agent": f"#{i % 2}", "arm": "arm 0", "reward": 0.5}]
            told = process.ask(admin, "POST", "/campaigns/c0/observations:batch", {"observations": rows})
            assert told["results"][0]["error"] is None
        assert process.ask(admin, "GET", "/campaigns/c0")["step"] == 3
        assert process.ask(admin, "POST", "/campaigns", body | {"name": "c1"})["name"] == "c1"
    finally:
        assert process.end() == 0


NOISE = """
import logging, sys, threading, warnings
from freepull.server.server import log_everything, write_log
log_everything()
write_log("serving", address="x")
logging.getLogger("uvicorn.error").warning("Invalid HTTP request\\nreceived %s.", "twice")
logging.getLogger("asyncio").error("%d", "not a number")
warnings.warn("old\\nwords")
try:
    1 / 0
except ZeroDivisionError:
    logging.exception("failed")
thread = threading.Thread(target=lambda: [].pop())
thread.start()
thread.join()
raise SystemError("the end")
"""


def test_every_line_of_the_log_is_json_whoever_writes_it() -> None:
    done = subprocess.run([sys.executable, "-c", NOISE], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["what"] for line in lines] == ["serving", "log", "log", "log", "log", "error", "error"]
    assert all(line["at"] for line in lines)
    assert lines[1]["text"] == "Invalid HTTP request received twice."
    assert "old words" in lines[3]["text"]
    assert lines[4]["error"].startswith("ZeroDivisionError")
    assert lines[6]["error"] == "SystemError: the end"


def test_tls_that_is_never_agreed_on_is_given_up_and_the_log_stays_json(tmp_path: Path) -> None:
    pem, key = certificate(tmp_path)
    with tempfile.TemporaryFile("w+") as log:
        words = command("serve", "--store", f"sqlite:///{tmp_path}/trial.db", "--port", 0)
        process = subprocess.Popen([*words, "--certificate", str(pem), "--key", str(key)], stderr=log)
        try:
            for _ in range(600):
                time.sleep(0.1)
                log.seek(0)
                if lines := log.read().splitlines():
                    break
            port = int(json.loads(lines[0])["address"].rpartition(":")[2])
            silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
            with socket.create_connection(("127.0.0.1", port)) as plain:
                plain.settimeout(20)
                plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                with contextlib.suppress(ConnectionResetError):
                    assert not plain.recv(1000).startswith(b"HTTP")
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as line:
                line.settimeout(20)
                line.sendall(b"\x00\x01\r\n\r\n")
                assert line.recv(1000).startswith(b"HTTP/1.1 400")
            begun = time.monotonic()
            for it in silent:
                it.settimeout(20)
                with contextlib.suppress(ConnectionResetError):
                    while it.recv(1000):
                        pass
                it.close()
            assert time.monotonic() - begun < 15
        finally:
            process.terminate()
            assert process.wait(60) == 0
        log.seek(0)
        for written in log.read().splitlines():
            assert json.loads(written)["what"]
