"""TLS: agents are served while others never agree on it, speak something else, or an old version of it."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .loads import closed_loop
from .traffic import Figures, Row, agent_tokens, hang_up, stage

SILENT, PLAIN, HALF, NOISE, OLD = 300, 100, 100, 100, 20
"""How many say nothing, speak HTTP, send half a greeting, send bytes, and speak TLS 1.1."""
GREETING = bytes.fromhex("16030102000100")
"""How a greeting begins that says that 512 bytes follow."""


def certificate(folder: Path, expired: bool = False) -> tuple[Path, Path]:
    """Make a certificate for this machine, and its key; it has expired where that is wanted and openssl can do it."""
    made = folder / "certificate.pem", folder / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(made[0]), "-keyout", str(made[1])]
    old = ["-not_before", "20200101000000Z", "-not_after", "20200102000000Z"]
    if not expired or subprocess.run(words + old, capture_output=True, check=False).returncode:
        subprocess.run([*words, "-days", "1"], capture_output=True, check=True)
    return made


async def _crowd(port: int) -> tuple[float, int]:
    """Let all of them come at once; return when the last one was sent away, and how many of the old were let in."""
    lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(SILENT + PLAIN + HALF + NOISE)]
    begun = time.monotonic()
    for i, (_, writer) in enumerate(lines[SILENT:]):
        kinds = [b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", GREETING, os.urandom(500)]
        writer.write(kinds[(i >= PLAIN) + (i >= PLAIN + HALF)])
    old, let_in = ssl.create_default_context(), 0
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    for _ in range(OLD):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=old)
            let_in += 1
            await hang_up(writer)

    async def sent_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while await reader.read(1 << 16):
                pass
        await hang_up(writer)

    async with asyncio.timeout(60):
        await asyncio.gather(*(sent_away(*line) for line in lines))
    return time.monotonic() - begun, let_in


def tls(url: str, seconds: float) -> Iterator[Row]:
    """Serve agents over TLS while all of them come."""
    with tempfile.TemporaryDirectory() as folder:
        pem, key = certificate(Path(folder))
        context = ssl.create_default_context(cafile=str(pem))
        process, admin, _ = stage(url, 200, options=("--certificate", str(pem), "--key", str(key)), tls=context)
        try:
            tokens, before = agent_tokens(process, admin, 200), process.memory

            async def at_once() -> tuple[Figures, float, int]:
                crowd = asyncio.create_task(_crowd(process.port))
                found = await closed_loop(process.port, tokens, 32, max(seconds, 14.0), context)
                return found, *await crowd

            found, closed, let_in = asyncio.run(at_once())
            counted = process.ask(admin, "GET", "/campaigns/c0")["observations"]
            grown = process.memory - before
        finally:
            code = process.end()
    words = f"{found}; sent away after {closed:.1f} s; {let_in} of {OLD} with TLS 1.1 let in; {grown:+.0f} MB"
    good = set(found.statuses) == {200} and found.events == counted and closed <= 15 and let_in == 0 and code == 0
    others = SILENT + PLAIN + HALF + NOISE + OLD
    bar = "no error, p99 ≤ 250 ms; sent away within 15 s; TLS 1.1 refused"
    yield f"TLS, 32 agents, {others} who do not agree on it", bar, words, good and found.p(0.99) <= 250
