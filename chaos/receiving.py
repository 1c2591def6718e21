"""Somebody who receives webhooks: checks signatures, keeps what came; fails, hangs or sends elsewhere when told to."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from freepull.server.webhooks import Target

SECRET = "a secret of the receiver's own"


class Receiver:
    """Takes webhooks on a port of its own."""

    def __init__(self) -> None:
        self.secret = SECRET
        self.requests: list[dict[str, Any]] = []
        """Every body that came, also those that were not taken."""
        self.events: list[dict[str, Any]] = []
        """Every event of bodies that were taken, repetitions included."""
        self.answer: Callable[[int], int] = lambda number: 200
        """Which status the n-th request is answered with; 0: none, ever."""
        self.news = threading.Condition()
        self.free = threading.Event()

    def take(self, body: bytes, signature: str) -> int:
        told = dict(part.split("=", 1) for part in reversed(signature.split(",")))
        macs = [part.removeprefix("v1=") for part in signature.split(",")[1:]]
        mine = hmac.new(self.secret.encode(), f"{told['t']}.".encode() + body, hashlib.sha256).hexdigest()
        if mine not in macs:
            return 401
        with self.news:
            self.requests.append(json.loads(body))
            status = self.answer(len(self.requests))
            if 200 <= status < 300:
                self.events += self.requests[-1]["events"]
            self.news.notify_all()
        if status == 0:
            self.free.wait(30)
        return status

    def wait(self, enough: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait until enough has come."""
        with self.news:
            assert self.news.wait_for(enough, seconds), [it["kind"] for it in self.events]

    def kinds(self) -> list[str]:
        return [it["kind"] for it in self.events]


@contextmanager
def receiving(folder: Path, **settings: Any) -> Iterator[tuple[Receiver, Target]]:
    """Serve a receiver; yield it, and the target that it is."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = receiver.take(body, self.headers["freepull-signature"])
            self.send_response(status or 500)
            if 300 <= status < 400:
                self.send_header("location", "http://127.0.0.1:9/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    (folder / "secret").write_text(SECRET + "\n")
    url = f"http://127.0.0.1:{server.server_port}/hooks"
    try:
        chosen: dict[str, Any] = {"name": "backend", "secrets": (folder / "secret",), "private": True}
        yield receiver, Target(url=url, **chosen | settings)
    finally:
        receiver.free.set()
        server.shutdown()
        thread.join()
        server.server_close()
