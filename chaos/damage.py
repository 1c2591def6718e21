"""Flipped bytes, and zeroed, swapped, old and missing pages, anywhere in a store's file: the truth, or `Corrupt`."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import polars as pl

import freepull as fp
from freepull.campaigns.journal.recovery import verify
from freepull.errors import Corrupt, FreepullError
from freepull.server.auth import Tokens
from freepull.server.hosting import Hosting

from .outcome import Finding, finding
from .world import ASKING, PAYING

NAMES = ("first", "second", "third")
AGENTS = ("ann", "bob", "cyé")
START = 1_800_000_000_000_000
Truth = dict[str, Any]


def run(flips: int = 500, pages: int = 150, page: int = 1024) -> Finding:
    """Damage a file of several campaigns in one place at a time, and look at all of it."""
    with finding(f"{flips:,} flipped bytes and {pages} damaged pages of a store") as found, World(page) as world:
        rng, seen = random.Random(11), Counter[str]()
        damages = [*_flips(world.file, flips, rng), *_pages(world, pages, rng)]
        for what, data in damages:
            for said in world.look(data):
                seen[said.partition(":")[0]] += 1
                found.demand(not said.startswith(("wrong", "raw")), f"{what}: {said}")
        found.figures |= {"damaged files": len(damages)} | dict(seen)
        found.demand(world.look(world.file) == ["true"], "the file is not right without damage")
        return found


class World:
    """A file with three campaigns and tokens, and what is true of it."""

    def __init__(self, page: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder, self.page = Path(self._folder.name), page
        self.path = self.folder / "store.db"
        self.url = f"sqlite:///{self.path}"
        with closing(apsw.Connection(str(self.path))) as database:
            database.pragma("page_size", page)
            database.execute("VACUUM")
        self.older = self._fill()
        self.file = self.path.read_bytes()
        self.truth = {name: self._told(name, repeat=False) for name in NAMES}
        self.path.write_bytes(self.file)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def _fill(self) -> bytes:
        """Let some things happen in every campaign; return the file as it was in the middle of that."""
        rng = random.Random(3)
        for name, principal in zip(NAMES, (PAYING, ASKING, PAYING), strict=True):
            chosen: dict[str, Any] = {"arms": ["A", "B"], "agents": AGENTS, "price": "0.25 EUR", "by": "ops"}
            with fp.Campaign.create(self.url, name=name, principal=principal, clock=_clock(), **chosen) as campaign:
                campaign.start()
                _act(campaign, rng, range(6))
        tokens = Tokens(self.url)
        tokens.new("admin", label="ops")
        tokens.revoke_agent(NAMES[0], 1)
        tokens.close()
        older = self.path.read_bytes()
        for name in NAMES:
            with fp.Campaign.open(self.url, name, clock=_clock()) as campaign:
                _act(campaign, rng, range(6, 9))
                if name != NAMES[2]:
                    campaign.snapshot()
                _act(campaign, rng, range(9, 12))
        return older

    def _told(self, name: str, repeat: bool) -> Truth:
        """Return everything that a campaign says."""
        target = self.folder / "export.csv"
        with fp.Campaign.open(self.url, name, clock=_clock()) as campaign:
            told: Truth = {"status": campaign.status(), "ledger": campaign.ledger(), "offers": campaign.offers()}
            told |= {"bans": campaign.bans(), "audit": campaign.audit()}
            campaign.export(target)
            told["observations"] = pl.read_csv(target, infer_schema=False).rows()
            if repeat:
                before = campaign.status().events
                try:
                    campaign.tell("ann", "A", 0.5, "ann 0")
                except FreepullError as error:
                    if not isinstance(error, Corrupt):
                        raise
                told["again"] = campaign.status().events - before
            return told

    def look(self, data: bytes) -> list[str]:
        """Verify, list, read, export, repeat and serve; return what came of it, once for each campaign."""
        for file in self.folder.iterdir():
            file.unlink()
        self.path.write_bytes(data)
        found = [self._one(name) for name in NAMES]
        self.path.write_bytes(data)
        served = self._serve()
        return sorted({*found, *([served] if served else [])})

    def _one(self, name: str) -> str:
        said: list[Any] = []
        for look in (lambda: verify(self.url, name) and None, lambda: self._told(name, repeat=True)):
            try:
                said.append(look())
            except FreepullError as error:
                said.append("Corrupt" if isinstance(error, Corrupt) else type(error).__name__)
            except BaseException as error:
                return f"raw: {type(error).__name__} {error}"
        verified, told = said
        if isinstance(told, dict):
            again = told.pop("again")
            different = [key for key in told if told[key] != self.truth[name][key]]
            if different:
                return f"wrong: {', '.join(different)} of {name}, verified as {verified or 'right'}"
            if again and verified is None:
                return f"wrong: a repeated event of {name} counted again"
            return "true" if verified is None else f"true, but verified as {verified}"
        if verified is None:
            return f"not opened, but verified as right, {told}"
        return str(told)

    def _serve(self) -> str:
        """Start a service; return what is wrong with that."""

        async def start() -> None:
            async with Hosting(self.url) as hosting:
                await hosting.names()

        try:
            asyncio.run(start())
        except FreepullError:
            return ""
        except BaseException as error:
            return f"raw: {type(error).__name__} {error} when served"
        return ""


def _clock() -> Callable[[], int]:
    return lambda: START


def _act(campaign: fp.Campaign, rng: random.Random, numbers: range) -> None:
    for number in numbers:
        for agent in AGENTS:
            offer = campaign.ask(agent)
            arm = offer.arm if offer is not None and rng.random() < 0.7 else rng.choice("AB")
            if agent == "ann" and number == 0:
                arm = "A"
            campaign.tell(agent, arm, 0.5 if number == 0 else round(rng.random(), 3), f"{agent} {number}")


def _flips(file: bytes, count: int, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    for place in sorted(rng.sample(range(len(file)), min(count, len(file)))):
        data = bytearray(file)
        data[place] ^= rng.choice([1 << rng.randrange(8), rng.randrange(1, 256)])
        yield f"byte {place} (page {place // 1024 + 1})", bytes(data)


def _pages(world: World, count: int, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Zero a page, put another one or an older one in its place, or cut the file."""
    size, file, older = world.page, world.file, world.older
    last = len(file) // size
    for _ in range(count):
        one, other = rng.randrange(last), rng.randrange(last)
        place, there = one * size, other * size
        page, another = file[place : place + size], file[there : there + size]
        kind = rng.choice(["zeroed", "swapped", "old", "cut"])
        data = bytearray(file)
        if kind == "zeroed":
            data[place : place + size] = bytes(size)
        elif kind == "swapped":
            data[place : place + size], data[there : there + size] = another, page
        elif kind == "old":
            data[place : place + size] = older[place : place + size] or page
        else:
            del data[rng.randrange(1, len(file)) :]
        if bytes(data) != file:
            yield f"page {one + 1} {kind} ({other + 1})", bytes(data)
