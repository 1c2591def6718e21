"""Webhooks: what happens in a campaign is told to addresses that whoever runs the service has listed in a file.

Events are read from the log, in its order, and only what is durable is told; how far a target has got is kept in the
store, under the lease of the campaign, so one process delivers at a time. A target is told at least once: until it
answers with 2xx, nothing that comes later is sent to it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import socket
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.campaigns.core import Core
from freepull.campaigns.journal.events import (
    ENDINGS,
    HEADER,
    OF_AGENTS,
    OF_ARMS,
    OUTCOME,
    PAID,
    PULLS,
    STEPS,
    Kind,
    Records,
    Segment,
    unpack,
)
from freepull.campaigns.people import payment_key
from freepull.campaigns.settings import shown
from freepull.client.reach import origin, trusted
from freepull.errors import FreepullError, InvalidInput
from freepull.messages import SETTLEMENTS, DeliveryRow, TargetRow, Tried
from freepull.money import Money
from freepull.server.problems import Refused

if TYPE_CHECKING:
    import httpx

    from freepull.server.hosting import Open

AT_ONCE = 100
"""Events in one request."""
PATIENCE = 10.0
"""Seconds for a target to answer, as a whole."""
FIRST, LONGEST = 1.0, 300.0
"""Seconds between two attempts: at first, and at most; each time twice as long."""
LOOKING, KEEPING, STUCK = 0.25, 1.0, 30.0
"""Seconds between two looks at the log, between two notes of how far a target has got, and at whether it is stuck."""
QUIET = (Kind.CREATED, Kind.ENROLLED, Kind.ASKED, Kind.PASSED, Kind.NOTED, Kind.JOINED)
"""Events of which nobody is told."""
ANSWERS = (*PULLS, Kind.CAME)
"""Events of which nobody is told unless they end an offer, as their flags say."""
ENDS = {Kind.DECLINED: "refused", Kind.LAPSED: "expired", Kind.NEVER_CAME: "cancelled"}
"""Events that are told by what they make of an offer."""
MADE = ("paid", "refused", "eliminated", "decided", "alarmed", "stuck", "unstuck")
"""What is told beside the events of the log by their own names."""
KINDS = (*(it.name.lower() for it in Kind if it not in (*QUIET, *ANSWERS, *STEPS, *ENDS)), *MADE)
"""All that a target can be told."""
LEAST_SECRET, MOST_SECRETS = 16, 3
SIGNATURE = "freepull-signature"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
MAPPED = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True)
class Target:
    """An address that is told what happens."""

    name: str
    url: str
    secrets: tuple[Path, ...]
    """Files; every request is signed with each of them, so that one can be exchanged while the other still counts."""
    events: tuple[str, ...] = ()
    """What it is told; empty: everything."""
    campaigns: tuple[str, ...] = ()
    """Of which campaigns; empty: of all."""
    private: bool = False
    """Whether it may be at an address that is not public."""

    def keys(self) -> list[bytes]:
        """Read the secrets, each time anew: a file that is replaced counts from the next request on."""
        found = []
        for path in self.secrets:
            try:
                held = path.read_bytes().strip()
            except OSError as error:
                raise InvalidInput(
                    f"the secret of webhook {self.name} cannot be read from {path} ({error.strerror}); mend the file."
                ) from None
            if len(held) < LEAST_SECRET:
                raise InvalidInput(
                    f"the secret of webhook {self.name} in {path} must have at least {LEAST_SECRET} characters."
                )
            found.append(held)
        return found


def read_targets(path: Path) -> list[Target]:
    """Read a TOML file of targets, a table for each; what is wrong is said before anything is served."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no TOML"
        raise InvalidInput(f"--webhooks {path} could not be read: {why}; mend it, or choose another file.") from None
    return [_target(path, name, table) for name, table in told.items()]


def _target(path: Path, name: str, table: Any) -> Target:
    where = f"webhook {name} in {path}"
    if not re.fullmatch(r"[a-z0-9-]{1,40}", name) or not isinstance(table, dict):
        raise InvalidInput(f"{where} must be a table whose name has small letters, digits and dashes only.")
    for key in table:
        validation.one_of(f"a setting of {where}", key, ("url", "secret_files", "events", "campaigns", "private"))
    lists = {key: table.get(key, []) for key in ("secret_files", "events", "campaigns")}
    for key, given in lists.items():
        if not isinstance(given, list) or not all(isinstance(it, str) for it in given):
            raise InvalidInput(f"{key} of {where} must be a list of texts.")
    for kind in lists["events"]:
        validation.one_of(f"events of {where}", kind, KINDS)
    private = table.get("private", False)
    if not isinstance(private, bool):
        raise InvalidInput(f"private of {where} must be true or false.")
    url = table.get("url", "")
    try:
        scheme, _, _ = origin(url)
    except (ValueError, TypeError, AttributeError):
        scheme = ""
    if scheme != "https" and not (private and scheme == "http"):
        raise InvalidInput(
            f"url of {where} must begin with https:// and name a host, without a password; http:// is for private ones."
        )
    if not 1 <= len(lists["secret_files"]) <= MOST_SECRETS:
        raise InvalidInput(f"secret_files of {where} must name from 1 to {MOST_SECRETS} files.")
    secrets = tuple(path.parent / it for it in lists["secret_files"])
    target = Target(name, url, secrets, tuple(lists["events"]), tuple(lists["campaigns"]), private)
    target.keys()
    return target


def sign(keys: Iterable[bytes], at: int, body: bytes) -> str:
    """Return the header that proves who sends a body, and when: an HMAC-SHA256 of both with every key.

    >>> sign([b"secret"], 1700000000, b"{}")[:30]
    't=1700000000,v1=b8569b78799ff9'
    """
    macs = (hmac.digest(key, b"%d." % at + body, hashlib.sha256).hex() for key in keys)
    return ",".join((f"t={at}", *(f"v1={it}" for it in macs)))


def is_public(address: str) -> bool:
    """Say whether an address is one of the public internet, whatever it is wrapped in.

    >>> [is_public(it) for it in ("93.184.216.34", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::a00:1")]
    [True, False, False, False, False]
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if found in MAPPED:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if found.is_site_local:
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def pinned(private: bool) -> httpx.AsyncClient:
    """Return a client that connects to the very address it has looked at, follows nothing, and reads no settings."""
    import httpcore
    import httpx

    class Backend(httpcore.AnyIOBackend):
        """Looks a host up once, refuses what is not public, and connects to what it has seen."""

        async def connect_tcp(self, host: str, port: int, *args: Any, **more: Any) -> httpcore.AsyncNetworkStream:
            try:
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as error:
                raise httpcore.ConnectError(f"{host} is not known ({error.strerror})") from None
            addresses = list(dict.fromkeys(str(it[4][0]) for it in found))
            if not private and not all(map(is_public, addresses)):
                raise httpcore.ConnectError(f"{host} is at an address that is not public")
            return await super().connect_tcp(addresses[0], port, *args, **more)

    transport = httpx.AsyncHTTPTransport(verify=trusted(), trust_env=False)
    transport._pool._network_backend = Backend()
    return httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, timeout=PATIENCE)


async def send(http: httpx.AsyncClient, target: Target, body: bytes) -> Tried:
    """Send one request, and say what came of it; of the answer, the status alone is read."""
    import httpx

    at = int(time.time())
    try:
        headers = {"content-type": "application/json", SIGNATURE: sign(target.keys(), at, body)}
        async with asyncio.timeout(PATIENCE), http.stream("POST", target.url, content=body, headers=headers) as found:
            status = found.status_code
    except TimeoutError:
        return Tried(False, f"no answer within {PATIENCE:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, FreepullError) as error:
        return Tried(False, " ".join(str(error).split())[:200] or type(error).__name__)
    return Tried(200 <= status < 300, f"status {status}")


class Place(NamedTuple):
    """How far a target has got."""

    event: int = 0
    """Events before this one are told."""
    segment: int = 0
    """The segment that this event is in, or will be."""
    paid: int = 0
    """Entries of the ledger before it."""
    stuck: str = ""
    """Of which reasons to be stuck it knows."""


class Reading:
    """Reads what is durable of a log, and says it as targets are told."""

    def __init__(self, core: Core) -> None:
        self.core, self.register = core, core.register

    def segments(self, number: int) -> Iterator[Segment]:
        """Read the log from a segment on, each of which says itself what came before it."""
        for has, first, _, data in self.core.store.read(self.core.name, "segments", (number - 1,)):
            yield unpack(data, has, first, HEADER.unpack_from(data)[7])

    def place(self, event: int) -> Place:
        """Return the place before an event."""
        number = paid = 0
        for it in self.segments(0):
            if it.first + len(it.records) > event:
                return Place(event, it.number, paid + int(_pays(it.records[: max(0, event - it.first)]).sum()))
            number, paid = it.number + 1, paid + int(_pays(it.records).sum())
        return Place(event, number, paid)

    def next(self, place: Place, wanted: tuple[str, ...]) -> tuple[list[dict[str, Any]], Place]:
        """Return some events after a place, and the place behind them."""
        found = list[dict[str, Any]]()
        for it in self.segments(place.segment):
            begin, records = max(0, place.event - it.first), it.records
            paid = place.paid + np.cumsum(_pays(records[begin:]), dtype=np.int64)
            for j in np.flatnonzero(_counts(records[begin:])).tolist():
                i = begin + j
                if len(found) >= AT_ONCE:
                    before = int(paid[j - 1]) if j else place.paid
                    return self._complete(found), place._replace(event=it.first + i, segment=it.number, paid=before)
                told = _told(records[i], it.more.get(i) or {}, it.first + i, int(paid[j]))
                found += [one for one in told if not wanted or one["kind"] in wanted]
            end = it.first + len(records)
            place = place._replace(event=end, segment=it.number + 1, paid=int(paid[-1]) if len(paid) else place.paid)
            if len(found) >= AT_ONCE:
                break
        return self._complete(found), place

    def _complete(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Put names and amounts in the place of numbers, and what tables know beside them."""
        offers = self._rows("offers", [it["offer"] for it in found if it["kind"] == "offered"])
        entries = self._rows("ledger", [it["entry"] for it in found if it["kind"] == "paid"])
        price, currency, id = self.register.price, self.register.currency, self.register.id
        for it in found:
            if it["kind"] == "offered":
                *_, deadline, _, _, _, amount = offers[it["offer"]]
                it |= {"bonus": price if amount is None else Money(amount, currency), "expires": shown(deadline)}
            elif it["kind"] == "paid":
                _, offer, _, _, amount, *_ = entries[it["entry"]]
                it |= {"offer": offer, "amount": Money(amount, currency), "key": payment_key(id, it["entry"], 1)}
            if "agent" in it:
                it["agent"] = self.register.shown(it["agent"])
            for name in ("arm", "arms"):
                if name in it:
                    names = [self.register.arms[k] for k in ([it[name]] if name == "arm" else it[name])]
                    it[name] = names[0] if name == "arm" else names
            it["id"] = f"{id}-{it['event']}-{it['kind']}"
        return found

    def _rows(self, table: str, keys: list[int]) -> dict[int, Any]:
        if not keys:
            return {}
        rows = self.core.store.read(self.core.name, table, (min(keys) - 1,))
        return {row[0]: row for row in takewhile(lambda row: row[0] <= max(keys), rows)}


def _pays(records: Records) -> NDArray[np.bool_]:
    """Say which events have paid a bonus."""
    found: NDArray[np.bool_] = np.isin(records["kind"], ANSWERS) & (records["flags"] & OUTCOME == PAID)
    return found


def _counts(records: Records) -> NDArray[np.bool_]:
    """Say of which events anybody is told."""
    kinds = records["kind"]
    nothing = np.isin(kinds, ANSWERS) & (records["flags"] & OUTCOME == 0)
    found: NDArray[np.bool_] = ~np.isin(kinds, QUIET) & ~nothing
    return found


def _told(record: Any, more: dict[str, Any], event: int, paid: int) -> Iterator[dict[str, Any]]:
    """Return what targets are told of an event of the log, agents and arms by number."""
    number, flags, arm, agent, value, offer, at = record.item()
    kind = Kind(number)
    base = {"event": event, "at": shown(at)}
    if kind in ANSWERS:
        entry = {"entry": paid} if flags & OUTCOME == PAID else {}
        yield {"kind": ENDINGS[flags & OUTCOME], **base, "agent": agent, "arm": arm, "offer": offer, **entry}
    elif kind in ENDS:
        offer = value if kind == Kind.NEVER_CAME else offer
        if offer:
            yield {"kind": ENDS[kind], **base, "agent": agent, "arm": arm, "offer": offer}
    elif kind in STEPS:
        if more.get("eliminated"):
            yield {"kind": "eliminated", **base, "arms": list(more["eliminated"]), "step": value}
        if more.get("alarms"):
            yield {"kind": "alarmed", **base, "checks": list(more["alarms"]), "step": value}
        if more.get("decided"):
            said = more["decided"]
            yield {"kind": "decided", **base, "step": value} | {it: said[it] for it in ("arm", "certified", "why")}
    elif kind == Kind.SETTLED:
        note: dict[str, Any] = {name: told for name, told in more.items() if name in ("payer", "note")}
        yield {"kind": "settled", **base, "entry": offer, "settlement": SETTLEMENTS[value], **note}
    elif kind not in QUIET:
        about: dict[str, Any] = {"agent": agent, "arm": arm, "offer": offer} if offer else {}
        about |= {"agent": agent} if kind in OF_AGENTS else {}
        about |= {"arm": arm} if kind in OF_ARMS else {}
        yield {"kind": kind.name.lower(), **base, **about}


@dataclass
class Delivery:
    """Tells one target of one campaign, for as long as it is open here."""

    target: Target
    found: Open
    http: httpx.AsyncClient
    log: Callable[..., None]
    place: Place = field(default_factory=Place)
    failures: int = 0
    last: str = "nothing was sent yet"
    jump: int | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.core = self.found.campaign.blocking.core
        self.reading = Reading(self.core)
        self._kept, self._kept_at, self._looked = Place(), 0.0, 0.0

    def row(self) -> DeliveryRow:
        """Return how it stands."""
        behind = max(0, self.core.events - self.place.event)
        return DeliveryRow(self.core.name, self.place.event, behind, self.failures, self.last)

    async def run(self) -> None:
        """Deliver until the campaign is closed, or another process has it."""
        try:
            await self._load()
            while self.core.writer.ended is None:
                if self.jump is not None:
                    jump, self.jump = self.jump, None  # somebody may ask for another one meanwhile
                    self.place = await asyncio.to_thread(self.reading.place, jump)
                if not await self._step():
                    await self._keep(KEEPING)
                    await self._rest(LOOKING)
        except FreepullError as error:  # the campaign is closed, or another process has it
            self.log("webhook ended", target=self.target.name, campaign=self.core.name, error=str(error)[:300])
        except Exception as error:  # the campaign goes on; whoever looks at the log or at GET /v1/webhooks sees it
            self.last = f"ended by an error: {type(error).__name__}"
            self.log("error", error=f"webhook {self.target.name}: {type(error).__name__}: {error}"[:500])
        finally:
            with suppress(FreepullError):
                await self._keep(0.0)

    async def _load(self) -> None:
        rows = await asyncio.to_thread(lambda: list(self.core.store.read(self.core.name, "webhooks")))
        found = [Place(*row[1:]) for row in rows if row[0] == self.target.name]
        self.place = self._kept = found[0] if found else Place()

    async def _step(self) -> bool:
        """Deliver what is there; say whether there was anything."""
        if self.place.event < self.core.events:
            events, after = await asyncio.to_thread(self.reading.next, self.place, self.target.events)
            if events and not await self._deliver(events):
                return True
            moved, self.place = after.event > self.place.event, after
            await self._keep(KEEPING)
            if moved:
                return True
        if time.monotonic() - self._looked < STUCK:
            return False
        seen, reasons = await self.found.view.stuck()
        if seen > self.place.event:  # what led to it is told first
            return True
        self._looked = time.monotonic()
        word = ",".join(it.why for it in reasons)
        if word == self.place.stuck:
            return False
        kind, wanted = "stuck" if word else "unstuck", self.target.events
        event = {"kind": kind, "event": self.place.event, "at": shown(time.time_ns() // 1000), "reasons": reasons}
        event["id"] = f"{self.core.register.id}-{self.place.event}-{kind}"
        if (wanted and kind not in wanted) or await self._deliver([event]):
            self.place = self.place._replace(stuck=word)
        return True

    async def _deliver(self, events: list[dict[str, Any]]) -> bool:
        """Send events until they are taken; say whether they were, and not somebody asked to begin elsewhere."""
        body = msgspec.json.encode({"target": self.target.name, "campaign": self.core.name, "events": events})
        while self.jump is None and self.core.writer.ended is None:
            tried = await send(self.http, self.target, body)
            self.last = tried.detail
            if tried.delivered:
                self.failures = 0
                return True
            self.failures += 1
            if self.failures & (self.failures - 1) == 0:  # the 1st, 2nd, 4th, 8th … time
                self.log("webhook failed", target=self.target.name, times=self.failures, error=tried.detail)
            await self._rest(min(LONGEST, FIRST * 2.0 ** (self.failures - 1)))
        return False

    async def _rest(self, seconds: float) -> None:
        """Wait, unless somebody asks to begin elsewhere."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wake.wait()
        self.wake.clear()

    async def _keep(self, apart: float) -> None:
        """Note durably how far it has got, at most every so often: a commit for every request would be too many."""
        now = time.monotonic()
        if self.place != self._kept and now - self._kept_at >= apart:
            self._kept, self._kept_at = self.place, now
            await asyncio.to_thread(self.core.keep, {"webhooks": [(self.target.name, *self.place)]})


class Webhooks:
    """All targets, and the deliveries of the campaigns that are open here."""

    def __init__(self, targets: Iterable[Target], log: Callable[..., None]) -> None:
        self.targets, self._log = {it.name: it for it in targets}, log
        self._http: dict[str, httpx.AsyncClient] = {}
        self._going: dict[tuple[str, str], tuple[Delivery, asyncio.Task[None]]] = {}

    def follow(self, found: Open) -> None:
        """Begin to tell targets of a campaign that was opened; of a rehearsal, which pays nobody, nobody is told."""
        for it in () if found.campaign.blocking.core.rehearsal else self.targets.values():
            if not it.campaigns or found.campaign.name in it.campaigns:
                delivery = Delivery(it, found, self._client(it), self._log)
                self._going[found.campaign.name, it.name] = delivery, asyncio.create_task(delivery.run())

    def _client(self, target: Target) -> httpx.AsyncClient:
        if target.name not in self._http:
            self._http[target.name] = pinned(target.private)
        return self._http[target.name]

    async def close(self) -> None:
        """End all deliveries, and note how far they have got."""
        tasks = [task for _, task in self._going.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for http in self._http.values():
            await http.aclose()

    def rows(self) -> list[TargetRow]:
        """Return all targets, and how far they have got."""
        return [
            TargetRow(
                it.name,
                it.url,
                list(it.events),
                list(it.campaigns),
                [found.row() for (_, name), (found, _) in sorted(self._going.items()) if name == it.name],
            )
            for it in self.targets.values()
        ]

    async def test(self, name: str) -> Tried:
        """Send a target one event of no campaign, once."""
        target = self._named(name)
        events = [{"kind": "test", "event": 0, "at": shown(time.time_ns() // 1000), "id": f"test-{time.time_ns()}"}]
        body = msgspec.json.encode({"target": name, "campaign": "", "events": events})
        return await send(self._client(target), target, body)

    def replay(self, campaign: str, name: str, after: int) -> DeliveryRow:
        """Tell a target everything again that comes after an event."""
        self._named(name)
        if (campaign, name) not in self._going:
            raise Refused(404, f"webhook {name} is not told of this campaign.", "Look at GET /v1/webhooks.")
        delivery, _ = self._going[campaign, name]
        if after + 1 > delivery.core.events:
            raise InvalidInput(f"after must be an event of the log, below {delivery.core.events:,}, got {after:,}.")
        delivery.jump = after + 1
        delivery.wake.set()
        row = delivery.row()
        row.event, row.behind = after + 1, delivery.core.events - after - 1
        return row

    def _named(self, name: str) -> Target:
        if name not in self.targets:
            raise Refused(404, "there is no webhook of this name.", "Look at GET /v1/webhooks.")
        return self.targets[name]
