"""Paying out what campaigns owe: payers, and the nightly run that hands them what is unsettled.

Nobody is paid twice: an entry of the ledger is noted as sent, durably, before it leaves, every payment has a key that
stays the same however often it is sent, and what one payer has sent no other one sends. Nobody is forgotten: what was
sent and not answered is sent again, with its key, by the next run.
"""

from __future__ import annotations

import csv
import io
import os
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from freepull import validation
from freepull.client.reach import Deadline, origin
from freepull.client.transport import httpx
from freepull.commands import CampaignVerbs
from freepull.errors import InvalidInput, ServiceError
from freepull.messages import LedgerEntry, Move
from freepull.money import Money


@dataclass(frozen=True)
class Payment:
    """What a payer is asked to pay."""

    key: str
    """Sent as often as the payment is, always the same: with one key, pay once."""
    campaign: str
    """The campaign's name."""
    entry: int
    """The entry of its ledger."""
    agent: str
    """Who is paid, by name; # and a number where the name was erased."""
    amount: Money
    """How much."""
    at: datetime
    """When it was earned."""


@dataclass(frozen=True)
class Receipt:
    """What a payer says of a payment."""

    entry: int
    """Which one."""
    state: str
    """settled: it arrived. failed: it did not, and never will under this key. sent: not known yet, ask again."""
    note: str = ""
    """What the payer calls it, or why it failed; at most 200 characters, and no names."""


class Payer(Protocol):
    """Whoever pays people: a bank, a wallet, a file for accounting. Your own has a name and one method."""

    @property
    def name(self) -> str:
        """How the ledger calls it; another name is another payer, who leaves alone what this one has sent."""
        ...

    def pay(self, payments: Sequence[Payment]) -> Iterable[Receipt]:
        """Pay, each key once however often it is asked; say what became of each. What is left out is asked again."""
        ...


@dataclass
class Payout:
    """What a run has done."""

    paid: Counter[str] = field(default_factory=Counter)
    """How many payments are settled, failed, or sent and not known yet."""
    left: Counter[str] = field(default_factory=Counter)
    """How many were left alone: failed before, or sent by another payer."""
    amounts: Counter[str] = field(default_factory=Counter)
    """Minor units that were settled, by currency."""

    @property
    def complete(self) -> bool:
        """Whether nothing has failed, and nothing is another payer's."""
        return not self.paid["failed"] and not self.left.total()

    def __str__(self) -> str:
        money = ", ".join(str(Money(minor, currency)) for currency, minor in sorted(self.amounts.items()))
        words = f"{self.paid['settled']:,} payments settled{f' ({money})' if money else ''}"
        words += f", {self.paid['sent']:,} sent and not known yet, {self.paid['failed']:,} failed"
        left = [f"{count:,} {why}" for why, count in sorted(self.left.items())]
        return f"{words}; left alone: {', '.join(left)}" if left else words


SAID = ("settled", "failed", "sent")
"""What a payer may say of a payment."""
AT_ONCE = 100
"""Payments that a payer is given together, unless it says otherwise."""
FAILED_BEFORE, SENT_ELSEWHERE = "failed before", "sent by another payer"


def payout(campaign: CampaignVerbs, payer: Payer, *, failed: bool = False) -> Payout:
    """Hand a payer everything that is owed, and note what became of it; killed at any moment, run it again.

    Parameters
    ----------
    campaign
        A `Campaign`, or one of a running service with the token of a payer or an admin.
    payer
        Who pays.
    failed
        Whether to try again what has failed, under new keys.
    """
    found, due = Payout(), list[LedgerEntry]()
    for entry in campaign.ledger(settlement="unsettled"):
        if entry.settlement == "failed" and not failed:
            found.left[FAILED_BEFORE] += 1
        elif entry.settlement == "sent" and entry.payer != payer.name:
            found.left[SENT_ELSEWHERE] += 1
        else:
            due.append(entry)
    at_once = getattr(payer, "at_once", AT_ONCE)
    for begin in range(0, len(due), at_once):
        _pay(campaign, payer, due[begin : begin + at_once], found)
    return found


def _pay(campaign: Any, payer: Payer, due: list[LedgerEntry], found: Payout) -> None:
    """Note that payments are sent, send them, and note what became of them."""
    _settle(campaign, payer, [Move(it.entry, "sent", key=it.key) for it in due if it.settlement != "sent"])
    payments = {it.entry: Payment(it.key, campaign.name, it.entry, it.agent, it.amount, it.at) for it in due}
    receipts = dict[int, Receipt]()
    try:
        for receipt in payer.pay(list(payments.values())):
            if receipt.entry not in payments:
                raise InvalidInput(f"{payer.name} speaks of entry {receipt.entry}, which it was not asked to pay.")
            validation.one_of(f"the state of a receipt of {payer.name}", receipt.state, SAID)
            receipts[receipt.entry] = receipt
    finally:  # what is known is noted, also if the rest could not be asked
        for state in ("settled", "failed"):  # a key that has failed may not be the last one, and nothing is noted then
            known = [it for it in receipts.values() if it.state == state]
            keys = [payments[it.entry].key if state == "failed" else "" for it in known]
            moves = zip(known, keys, strict=True)
            _settle(campaign, payer, [Move(it.entry, state, _note(it.note), key) for it, key in moves])
    for entry, payment in payments.items():
        state = receipts[entry].state if entry in receipts else "sent"
        found.paid[state] += 1
        if state == "settled":
            found.amounts[payment.amount.currency] += payment.amount.minor


def _settle(campaign: Any, payer: Payer, moves: list[Move]) -> None:
    for begin in range(0, len(moves), AT_ONCE * 10):
        campaign.settle(moves[begin : begin + AT_ONCE * 10], payer=payer.name)


def _note(text: str) -> str:
    """Return what a payer says as the ledger can keep it."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text))[:200]


COLUMNS = ("key", "campaign", "entry", "agent", "minor_units", "currency", "amount", "at")
MARK = ".freepull-payer"


class FilePayer:
    """Writes payments into CSV files of a folder, for accounting or a bank; no key stands in two of them.

    A payment that is in a file is sent; say that it is settled with `Campaign.settle`, or ``freepull campaign settle``
    and the file.

    Parameters
    ----------
    folder
        Where the files are kept, all of them: what is removed from it is written again if it is not settled.
    """

    at_once = 10_000

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InvalidInput(f"folder must be a folder that exists, got {str(folder)!r}; make it first.")
        mark = self.folder / MARK
        if not mark.exists():
            _write(mark, secrets.token_hex(6).encode(), exclusive=True)
        self.name = f"file {mark.read_text().strip()}"
        """How the ledger calls it; the folder has it in a hidden file, so that it is known again."""

    def pay(self, payments: Sequence[Payment]) -> Iterator[Receipt]:
        """Write those payments into a new file that are in none yet."""
        with self._alone():
            known = {row["key"] for path in self.files() for row in read_payments(path)}
            new = [it for it in payments if it.key not in known]
            if new:
                _write(self._next(), _table(new))
        return (Receipt(it.entry, "sent") for it in payments)

    def files(self) -> list[Path]:
        """Return the files, the oldest first."""
        return sorted(self.folder.glob("payout-*.csv"))

    def _next(self) -> Path:
        name = f"payout-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        names = (f"{name}-{number:03}.csv" for number in range(1, 1000))
        return next(path for name in names if not (path := self.folder / name).exists())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other process write into the folder meanwhile."""
        with (self.folder / MARK).open("rb") as held:
            with suppress(ImportError):
                import fcntl

                fcntl.flock(held, fcntl.LOCK_EX)
            yield


def _table(payments: list[Payment]) -> bytes:
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow(COLUMNS)
    for it in payments:
        names = validation.harmless(it.campaign), it.entry, validation.harmless(it.agent)
        amount = it.amount.minor, it.amount.currency, str(it.amount)
        lines.writerow((it.key, *names, *amount, it.at.isoformat()))
    return text.getvalue().encode()


def _write(path: Path, content: bytes, exclusive: bool = False) -> None:
    """Write a file that appears all at once, and durably."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if exclusive:
            with suppress(FileExistsError):  # then another process was first, and its content counts
                os.link(part, path)
        else:
            part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_payments(path: str | os.PathLike[str]) -> list[dict[str, str]]:
    """Read a file of a `FilePayer`, or one of its form: the columns key and entry at least."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path} could not be read as CSV: {error}; choose another file.") from None
    if any(not row.get("key") or not str(row.get("entry")).isdecimal() for row in rows):
        raise InvalidInput(f"{path} must have a key and an entry in every row; take a file that payout has written.")
    return rows


def first_key(key: str) -> str:
    """Return the key that a payment had before it failed for the first time.

    >>> first_key("c0ffee-17"), first_key("c0ffee-17-2")
    ('c0ffee-17', 'c0ffee-17')
    """
    return "-".join(key.split("-")[:2])


PATIENCE, TRIES = 10.0, 5
REFUSED = (400, 402, 406, 410, 413, 422)
"""Statuses that are the payer's last word on a payment."""
WRONG = (401, 403, 404, 405, 415)
"""Statuses that say that the address or the token is wrong, and nothing of a payment."""
SILENT = 3
"""Payments in a row without an answer that counts after which a run ends: the payer is down."""
MOST_REPLY = 64 << 10
"""Bytes of an answer."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class _Reply(msgspec.Struct):
    reference: str = ""
    reason: str = ""


class HttpPayer:
    """Sends every payment as a POST with its key as ``Idempotency-Key``, again until it is answered.

    200, 201 or 204 is settled, 202 is sent and asked again by the next run; 400, 402, 406, 410, 413 and 422 are failed.
    Anything else, and no answer in time, leaves the payment as sent, and after three of those the run ends. A JSON
    answer may have ``reference``, or ``reason``.

    Parameters
    ----------
    url
        Where, https:// unless it is on this machine; redirects are not followed.
    token
        Sent as ``Authorization: Bearer …``.
    seconds
        How long to wait for each answer.
    tries
        How often a payment is sent in one run; later tries wait for longer.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        seconds: float = PATIENCE,
        tries: int = TRIES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            scheme, host, _ = origin(url)
        except (ValueError, TypeError, AttributeError):
            scheme, host = "", ""
        if scheme != "https" and host not in LOOPBACK:
            raise InvalidInput(
                "url must begin with https://, or be on this machine itself, and name a host, without a password; give "
                "what lets you in as the token."
            )
        self.url, self._token = url, token
        self._seconds = validation.real("seconds", seconds, 0.0, 1e4, open_low=True)
        self._tries, self._sleep = validation.whole("tries", tries, 1, 100), sleep
        self.name = f"http {host}{urlsplit(url).path}"[:200]
        """How the ledger calls it: by host and path."""

    def pay(self, payments: Sequence[Payment]) -> Iterator[Receipt]:
        """Send payments one after the other."""
        silent, deadline = 0, Deadline()
        with httpx().Client(transport=deadline.transport(), trust_env=False, follow_redirects=False) as http:
            for payment in payments:
                receipt = self._one(http, payment, deadline)
                silent = silent + 1 if receipt is None else 0
                if silent == SILENT:
                    raise ServiceError(
                        f"the payer at {self.url} gave no answer that counts to {SILENT} payments, which stay sent; "
                        "run the payout again when it is well: they are sent again with their keys."
                    )
                yield receipt or Receipt(payment.entry, "sent")

    def _one(self, http: Any, payment: Payment, deadline: Deadline) -> Receipt | None:
        """Send one payment; return what became of it, None if there was no answer that counts."""
        headers = {"idempotency-key": payment.key, "content-type": "application/json", "accept-encoding": "identity"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        body = msgspec.json.encode(payment)
        for turn in range(self._tries):
            if turn:
                self._sleep(min(30.0, 0.25 * 2.0**turn) * random.uniform(0.5, 1.0))
            try:
                with deadline.within(self._seconds):
                    status, said = self._send(http, body, headers)
            except (httpx().HTTPError, UnicodeError):
                continue
            if status in (200, 201, 204):
                return Receipt(payment.entry, "settled", said.reference)
            if status in REFUSED:
                return Receipt(payment.entry, "failed", said.reason or f"status {status}")
            if status in WRONG:
                raise ServiceError(
                    f"the payer at {self.url} answered {status}, so the address or the token is wrong; put it right, "
                    "and run the payout again: what was sent is sent again with its key.",
                    status,
                )
            if status == 202:
                return Receipt(payment.entry, "sent")
        return None

    def _send(self, http: Any, body: bytes, headers: dict[str, str]) -> tuple[int, _Reply]:
        content = b""
        with http.stream("POST", self.url, content=body, headers=headers, timeout=self._seconds) as found:
            for piece in found.iter_raw():
                content += piece
                if len(content) > MOST_REPLY:
                    break
        try:
            return found.status_code, msgspec.json.decode(content, type=_Reply)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return found.status_code, _Reply()
