"""Requests that must all be refused: wrong tokens, and wrong bodies; `load.py` and the tests count the answers."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections import Counter
from collections.abc import Iterator, Sequence

from .traffic import Line

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.="
BOMB = gzip.compress(bytes(10_000_000))
TOO_LARGE, SELDOM = 20 << 20, 400
"""One body in so many is a large one."""
Request = tuple[str, str, bytes, dict[str, bytes]]


def wrong_tokens(right: Sequence[str], ended: Sequence[str], count: int, seed: int = 1) -> Iterator[bytes]:
    """Return headers that are no valid token: tampered with, ended, cut, not ASCII, of another kind."""
    chance = random.Random(seed)
    for i in range(count):
        token = chance.choice(right)
        place = chance.randrange(len(token))
        letter = chance.choice(LETTERS.replace(token[place], ""))
        kinds = [
            b"Bearer " + (token[:place] + letter + token[place + 1 :]).encode(),
            b"Bearer " + token[:place].encode(),
            b"Bearer " + (token + letter).encode(),
            b"Bearer " + token[:place].encode() + bytes([chance.randrange(128, 256)]) + token[place:].encode(),
            b"Bearer " + token[:4].encode() + bytes(chance.choices(LETTERS.encode(), k=chance.randrange(2500))),
            b"Basic " + token.encode(),
            b"Bearer " + chance.choice(ended).encode(),
        ]
        yield kinds[i % len(kinds)]


def bad_bodies(count: int, seed: int = 2) -> Iterator[tuple[bytes, dict[str, bytes]]]:
    """Return bodies that are no observation, and headers that go with them."""
    chance = random.Random(seed)
    good = b'{"arm": "A", "reward": 0.5, "event": "x"}'
    for i in range(count):
        place, digits = chance.randrange(1, len(good)), b"9" * chance.randrange(400, 5000)
        depth = chance.choice([500, 2_000, 200_000 if i % SELDOM < 20 else 5_000])
        number = b"%.9f" % chance.uniform(1.000001, 1e6)
        kinds = [
            good[:place],
            good.replace(b"0.5", chance.choice([b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999"])),
            good.replace(b"0.5", chance.choice([b"-", b""]) + number),
            good.replace(b"0.5", digits),
            good.replace(b'"x"', digits),
            good.replace(b'"x"', chance.choice([b"0", b"-1", b"1.5", b"[]", b"{}", b"true", b'""'])),
            good.replace(b"}", b', "reward": 0.5}'),
            good.replace(b"}", b', "\\u0061rm": "B"}'),
            good.replace(b"}", b', "x%d": 1}' % i),
            good.replace(b"0.5", b"[" * depth + b"]" * depth),
            b'{"a":' * depth,
            good.replace(b"A", bytes([chance.randrange(128, 256)]) + b"A"),
            good.replace(b"A", b"\\ud8%02x" % chance.randrange(256)),
            good.replace(b"0.5", chance.choice([b'"0.5"', b"true", b"null", b"[0.5]"])),
            good.replace(b"A", b"A" * chance.randrange(201, 5000)),
            good + bytes([chance.randrange(33, 256)]),
            bytes(chance.choices(range(256), k=chance.randrange(1, 300))),
            b"",
        ]
        if i % SELDOM == 0:
            yield b" " * TOO_LARGE, {}
        elif i % SELDOM == 1:
            yield BOMB, {"content_encoding": b"gzip"}
        else:
            yield kinds[i % len(kinds)], {}


async def answers(port: int, requests: Iterator[Request], connections: int = 8) -> Counter[int]:
    """Send requests on some connections; count the statuses, 0 for a connection that was closed without one."""
    found: Counter[int] = Counter()

    async def one() -> None:
        line = Line(port)
        for method, path, body, headers in requests:
            try:
                status, _ = await line.request(method, path, body, **headers)
            except (OSError, asyncio.IncompleteReadError):
                status = 0 if len(body) >= TOO_LARGE else 599  # who sends 20 MB may find the line closed
            found[status] += 1
        await line.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return found
