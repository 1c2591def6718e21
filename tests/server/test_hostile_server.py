"""The SDK against a server that means no good: whatever it answers, a client gets a reply or a ServiceError, soon."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import freepull as fp
from freepull.errors import FreepullError, ServiceError
from load.strangers import CALLS, ODD, Hostile, says
from load.tls import certificate

pytestmark = pytest.mark.slow


@pytest.fixture(params=ODD)
def hostile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hostile]:
    monkeypatch.setattr("freepull.client.transport.MOST_REPLY", 8 << 20)
    with Hostile(ODD[request.param]) as running:
        yield running


def refused(ask: Callable[[], Any]) -> None:
    begun = time.monotonic()
    with pytest.raises(FreepullError) as found:
        ask()
    assert time.monotonic() - begun < 5
    assert isinstance(found.value, (ServiceError, fp.errors.EventGap)), repr(found.value)
    assert len(str(found.value)) < 2000
    assert str(found.value).isprintable()


def test_blocking_clients_get_a_service_error(hostile: Hostile, tmp_path: Path) -> None:
    with (
        fp.Client(hostile.at, "secret", retries=0, seconds=0.25) as client,
        fp.AgentClient(hostile.at, "c", "secret", retries=0, seconds=0.25) as agent,
    ):
        for call in CALLS.values():
            refused(partial(call, client, client.campaign("c"), agent))
        with fp.Client(hostile.at, "secret", retries=0, seconds=0.004) as hasty:
            refused(lambda: hasty.backup(tmp_path / "copy.db"))
            refused(lambda: hasty.campaign("c").export(tmp_path / "all.csv"))
    assert list(tmp_path.iterdir()) == []


def test_clients_on_asyncio_get_a_service_error(hostile: Hostile) -> None:
    async def run() -> None:
        async with (
            fp.AsyncClient(hostile.at, "secret", retries=0, seconds=0.25) as client,
            fp.AsyncAgentClient(hostile.at, "c", "secret", retries=0, seconds=0.25) as agent,
        ):

            async def one(ask: Callable[[Any, Any, Any], Any]) -> FreepullError:
                with pytest.raises(FreepullError) as found:
                    await ask(client, client.campaign("c"), agent)
                return found.value

            begun = time.monotonic()
            found = await asyncio.gather(*(one(ask) for ask in CALLS.values()))
            assert time.monotonic() - begun < 5
            assert all(isinstance(it, (ServiceError, fp.errors.EventGap)) for it in found)

    asyncio.run(run())


def test_a_token_goes_nowhere_that_was_not_given() -> None:
    with Hostile(says(b"{}")) as elsewhere:
        for status, more in (("421 Misdirected", ()), ("307 Redirect", (f"location: {elsewhere.at}/v1/campaigns",))):
            moved = says(f'{{"owner": "{elsewhere.at}"}}'.encode(), status, "application/json", *more)
            with Hostile(moved) as home, fp.Client(home.at, "secret", retries=3) as client:
                with pytest.raises(ServiceError):
                    client.campaign("c").status()
                assert len(home.asked) == 1
        assert elsewhere.asked == []


def test_a_table_that_never_ends_is_noticed() -> None:
    row = b'[{"name": "a", "number": 5, "state": "active", "pulls": [], "offer": null, "banned": null, "left": null}]'
    with Hostile(says(row)) as home, fp.Client(home.at, "secret", retries=0) as client, pytest.raises(ServiceError):
        client.campaign("c").agents()


def test_an_expired_certificate_is_said_at_once(tmp_path: Path) -> None:
    pem, key = certificate(tmp_path, expired=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)

    def agree(line: socket.socket) -> None:
        with contextlib.suppress(OSError):
            context.wrap_socket(line, server_side=True).close()

    home = Hostile(agree)
    home.first = False
    begun = time.monotonic()
    expected = r"^the certificate of https://.* is not valid \(.*\); put it right there"
    with (
        home,
        fp.Client(home.at.replace("http", "https"), "secret") as client,
        pytest.raises(ServiceError, match=expected),
    ):
        client.campaigns()
    assert time.monotonic() - begun < 5
