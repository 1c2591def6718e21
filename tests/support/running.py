"""A real service on a free port, in a thread of its own, and short ways to talk to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

import httpx
from typer.testing import CliRunner, Result

from freepull.campaigns.journal import recovery
from freepull.campaigns.stores import Where
from freepull.cli.service import app as token_app
from freepull.server.auth import Limits, Tokens
from freepull.server.server import Server, listen
from freepull.server.webhooks import Target

NEW: dict[str, Any] = {
    "name": "onboarding",
    "arms": ["A", "B", "C"],
    "agents": ["ann", "bob", "cy"],
    "price": "0.50 EUR",
    "principal": {"observe": {"part": "Steps", "n": 0}, "rule": {"part": "Certified", "delta": 0.05}},
}


class Service:
    """Runs while it is entered; `restart` ends it and begins again on the same port and store."""

    def __init__(self, url: Where, targets: Sequence[Target] = (), **limits: Any) -> None:
        self.url, self.targets, self.limits = url, targets, Limits(**{"agent_rate": 1e6} | limits)
        tokens = Tokens(url)
        scopes = ("admin", "read", "gateway")
        self.admin, self.reader, self.gateway = (tokens.new(scope, by="the test")[0] for scope in scopes)
        tokens.close()
        self.port = 0
        self.log: Callable[..., None] = lambda *_, **__: None
        """Is told what the service logs."""

    def __enter__(self) -> Service:
        listening = listen("127.0.0.1", self.port)
        self.port = listening.getsockname()[1]
        self.at = f"http://127.0.0.1:{self.port}"
        recovery.known_as(self.at)
        more: dict[str, Any] = {"targets": self.targets} if self.targets else {}
        self.server = Server(
            self.url, "127.0.0.1", self.port, self.limits, lambda *it, **about: self.log(*it, **about), **more
        )

        def serve() -> None:
            with asyncio.Runner(loop_factory=self.server.config.get_loop_factory()) as runner:
                self.loop = runner.get_loop()
                runner.run(self.server.serve(sockets=[listening]))

        self.thread = threading.Thread(target=serve)
        self.thread.start()
        self.http = httpx.Client(base_url=self.at, trust_env=False, verify=False, timeout=120)
        for _ in range(6000):  # what is not kept compiled yet takes a minute or two
            with suppress(httpx.TransportError):
                if self.http.get("/readyz").status_code == 200:
                    return self
            self.thread.join(0.05)
        raise RuntimeError("the service did not begin")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()

    @property
    def store(self) -> Any:
        """The store that it serves."""
        return self.server.application.hosting.tokens.store

    def restart(self) -> None:
        self.__exit__(None, None, None)
        self.__enter__()

    def send(self, method: str, path: str, body: Any = None, token: str | None = None, **more: Any) -> httpx.Response:
        """Send a request, as an admin unless a token is given; "" is none at all."""
        headers = dict(more.pop("headers", {}))
        token = self.admin if token is None else token
        if token:
            headers["authorization"] = f"Bearer {token}"
        if body is not None:
            more["json"] = body
        return self.http.request(method, f"/v1{path}", headers=headers, **more)

    def create(self, start: bool = True, **settings: Any) -> str:
        """Make a campaign; return the beginning of its paths."""
        made = self.send("POST", "/campaigns", NEW | settings)
        assert made.status_code == 201, made.text
        path = f"/campaigns/{made.json()['name']}"
        if start:
            assert self.send("POST", f"{path}/start").status_code == 200
        return path

    def tokens(self, path: str, *agents: str) -> dict[str, str]:
        """Make tokens for agents."""
        made = self.send("POST", f"{path}/tokens", {"agents": list(agents)})
        assert made.status_code == 201, made.text
        return {it["agent"]: it["token"] for it in made.json()["tokens"]}


def is_problem(found: Any) -> bool:
    """Say whether an answer is a problem with a sentence and a remedy."""
    told = found.json()
    return bool(
        found.headers["content-type"] == "application/problem+json"
        and told["status"] == found.status_code
        and told["detail"].endswith((".", "?"))
        and told["remedy"]
    )


def token_command(*words: str, **environment: str) -> Result:
    """Run `freepull token …` here, which is faster than a process of its own."""
    return CliRunner().invoke(token_app, words, env=environment, catch_exceptions=False)
