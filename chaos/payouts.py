"""kill -9 in the middle of paying out, with a payer that fails, hangs and forgets to answer: nobody is paid twice."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import freepull as fp
from freepull.campaigns.journal.recovery import verify
from freepull.payouts import read_payments

from .outcome import Finding, finding
from .postgres_server import PostgresServer
from .world import AGENTS, NAME, PAYING, create, forked

KILLS = 50
FAILS, HANGS, BREAKS, REFUSES = 0.15, 0.02, 0.15, 0.05
"""How often the payer answers 500, hangs, cuts the line after it has paid, or refuses for good."""


class Paying(BaseHTTPRequestHandler):
    """A payer as they are: with one key it pays once, and whether it says so is another matter."""

    protocol_version = "HTTP/1.1"
    file = -1
    """Where every transfer is noted, a line each."""
    said: dict[str, tuple[int, dict[str, str]]]
    """What it has answered, or would have, by key."""
    chance: random.Random
    seen: Counter[str]

    def do_POST(self) -> None:
        body, length = b"", int(self.headers["content-length"])
        with suppress(OSError):
            body = self.rfile.read(length)
        if len(body) < length:  # whoever sent it was killed
            self.close_connection = True
            return
        payment, key = json.loads(body), self.headers["idempotency-key"]
        self.seen[key] += 1
        if key not in self.said:
            if self.chance.random() < FAILS:  # before anything was paid
                self._answer(500, {})
                return
            if self.chance.random() < REFUSES:
                self.said[key] = 422, {"reason": "the account is closed"}
            else:
                line = json.dumps([key, payment["entry"], payment["amount"]["minor"]])
                os.write(self.file, line.encode() + b"\n")
                self.said[key] = 200, {"reference": f"tr {len(self.said)}"}
        if self.seen[key] == 1:  # it has paid, or not, and the first answer may get lost
            if self.chance.random() < BREAKS:
                self.close_connection = True
                return
            if self.chance.random() < HANGS:
                time.sleep(1.0)
        self._answer(*self.said[key])

    def _answer(self, status: int, told: dict[str, str]) -> None:
        body = json.dumps(told).encode()
        with suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing: a connection ends when whoever had it is killed."""


def payer_at(file: Path, seed: int = 1) -> ThreadingHTTPServer:
    """Return a payer that notes its transfers in a file; it has to be served."""
    number = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    state = {"file": number, "said": {}, "chance": random.Random(seed), "seen": Counter()}
    return _Server(("127.0.0.1", 0), type("Payer", (Paying,), state))


@contextmanager
def _elsewhere(file: Path) -> Iterator[str]:
    """Serve a payer in a process of its own, which no kill reaches; yield its address."""
    server = payer_at(file)
    child = os.fork()
    if child == 0:
        try:
            server.serve_forever()
        finally:
            os._exit(0)
    server.server_close()
    try:
        yield f"http://127.0.0.1:{server.server_port}/pay"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def impatient(url: str) -> fp.HttpPayer:
    """Return a payer's client that soon tries again."""
    return fp.HttpPayer(url, "secret", seconds=0.3, tries=6, sleep=lambda _: None)


def _earn(campaign: fp.Campaign, turn: str, rounds: int) -> None:
    """Let people earn bonuses."""
    for number in range(rounds):
        for agent in range(AGENTS):
            offer = campaign.ask(agent)
            if offer is not None:
                campaign.tell(agent, offer.arm, 0.5, f"{turn}:{number}")


def _life(url: str, turn: int, payer: str | Path, seconds: float) -> int:
    """Let a process pay out and earn until it is killed; return how many payments were under way when it began."""

    def work(writing: int) -> None:
        campaign = fp.Campaign.open(url, NAME, wait=30.0, snapshot_every=200)
        who: fp.Payer = impatient(payer) if isinstance(payer, str) else fp.FilePayer(payer)
        os.write(writing, b"%08d" % len(campaign.ledger(settlement="sent")))
        for number in range(10**6):
            with suppress(fp.errors.ServiceError):  # it was silent for too long
                fp.payout(campaign, who, failed=(turn + number) % 2 == 1)
            _earn(campaign, f"{turn}:{number}", 1)

    child, reading = forked(work)
    with open(reading, "rb") as pipe:
        sent = int(pipe.read(8))
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return sent


def run(kills: int = KILLS, seconds: float = 0.4, url: str = "") -> Finding:
    """Kill payouts over HTTP and into files again and again, then let them end, and count."""
    place = "PostgreSQL" if url else "SQLite"
    with finding(f"kill -9 × {kills} while paying out, {place}") as found, tempfile.TemporaryDirectory() as folder:
        rng, transfers, files = random.Random(7), Path(folder) / "transfers", Path(folder) / "files"
        files.mkdir()
        store = url or f"sqlite:///{folder}/chaos.db"
        with _elsewhere(transfers) as address:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                campaign = create(store, principal=PAYING)
            _earn(campaign, "first", max(3, kills // 5))
            campaign.close()
            under_way = sum(_life(store, turn, address, rng.uniform(0.0, 2 * seconds)) > 0 for turn in range(kills))
            with fp.Campaign.open(store, NAME, wait=30.0) as campaign:
                for _ in range(100):
                    with suppress(fp.errors.ServiceError):
                        if fp.payout(campaign, impatient(address), failed=True).complete:
                            break
                ledger = campaign.ledger()
                _earn(campaign, "files", 2)
            for turn in range(kills, kills + max(2, kills // 5)):
                _life(store, turn, files, rng.uniform(0.0, seconds))
            with fp.Campaign.open(store, NAME, wait=30.0) as campaign:
                fp.payout(campaign, fp.FilePayer(files))
                written = campaign.ledger()[len(ledger) :]
        found.demand(under_way > 0, "no kill was in the middle of a payment; use a quieter machine")
        done = [json.loads(line) for line in transfers.read_text().splitlines()]
        times = Counter(entry for _, entry, _ in done)
        twice, never = sum(it > 1 for it in times.values()), sum(times[it.entry] == 0 for it in ledger)
        found.demand(twice == 0, f"{twice} entries were paid twice")
        found.demand(never == 0, f"{never} entries were never paid")
        unsettled = [it for it in ledger if it.settlement != "settled"]
        found.demand(not unsettled, f"{len(unsettled)} entries are not settled in the end, such as {unsettled[:1]}")
        paid, owed = sum(minor for _, _, minor in done), sum(it.amount.minor for it in ledger)
        found.demand(paid == owed, f"{paid} minor units were transferred, {owed} were owed")
        rows = Counter(row["key"] for path in sorted(files.glob("*.csv")) for row in read_payments(path))
        found.demand(max(rows.values(), default=1) == 1, "a payment is in two files")
        found.demand({*rows} == {it.key for it in written}, "the files have not exactly what was owed")
        report = verify(store, NAME, wait=30.0)
        found.figures |= {"kills with payments under way": under_way, "payments": len(ledger)}
        found.figures |= {"paid twice": twice, "forgotten": never}
        found.figures |= {"failed at first": sum(key.count("-") == 2 for key, _, _ in done)}
        found.figures |= {"in files": len(rows), "files": len(list(files.glob("*.csv"))), "events": report.events}
        return found


def on_postgres(kills: int = KILLS, seconds: float = 0.4) -> Finding:
    """Do the same on a PostgreSQL."""
    with PostgresServer() as server:
        return run(kills, seconds, server.url)
