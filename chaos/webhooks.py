"""kill -9 of a service that delivers webhooks to somebody who fails: everything arrives, in the log's order."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import freepull as fp
from freepull.server.auth import Tokens
from freepull.server.webhooks import Place, Reading
from load.traffic import Process

from .outcome import Finding, finding
from .receiving import receiving

KILLS, AGENTS = 10, 40
FAILS = 0.3
PRINCIPAL = {"rule": {"part": "Certified", "delta": 0.001}, "observe": {"part": "Steps", "n": 0}}


def run(kills: int = KILLS, seconds: float = 2.0) -> Finding:
    """Let a backend act through one token, kill the service again and again, and compare what came with the log."""
    with (
        finding(f"kill -9 × {kills} while webhooks are delivered") as found,
        tempfile.TemporaryDirectory() as name,
        receiving(Path(name)) as (receiver, target),
    ):
        folder, chance = Path(name), random.Random(5)
        receiver.answer = lambda number: chance.choice((500, 404, 302)) if chance.random() < FAILS else 200
        store, hooks = f"sqlite:///{folder}/chaos.db", folder / "hooks.toml"
        hooks.write_text(f'[backend]\nurl = "{target.url}"\nsecret_files = ["secret"]\nprivate = true\n')
        tokens = Tokens(store)
        admin, gateway = tokens.new("admin")[0], tokens.new("gateway")[0]
        tokens.close()
        service = _serve(store, hooks)
        agents = [f"user-{m}" for m in range(AGENTS)]
        body = {"name": "c0", "arms": 3, "agents": agents, "price": "0.10 EUR", "principal": PRINCIPAL}
        service.ask(admin, "POST", "/campaigns", body)
        service.ask(admin, "POST", "/campaigns/c0/start")
        for _ in range(kills):
            timer = threading.Timer(chance.uniform(0.2, 2 * seconds), service.kill)
            timer.start()
            with suppress(OSError, ValueError, HTTPException):  # it was killed
                for number in range(10**6):
                    _act(service, gateway, agents[number % AGENTS])
            timer.join()
            service = _serve(store, hooks)
        end = time.monotonic() + 120
        while service.ask(admin, "GET", "/webhooks")[0]["deliveries"][0]["behind"] and time.monotonic() < end:
            time.sleep(0.1)
        service.end()
        came = list(dict.fromkeys(it["id"] for it in receiver.events if "stuck" not in it["kind"]))
        with fp.Campaign.open(store, "c0") as campaign:
            reading, place, wanted = Reading(campaign.core), Place(), list[str]()
            while place.event < campaign.core.events:
                events, place = reading.next(place, ())
                wanted += [str(it["id"]) for it in events]
        found.demand(came == wanted, f"{len(came)} events came, {len(wanted)} are in the log, or in another order")
        found.figures |= {"events": len(wanted), "missing": len({*wanted} - {*came}), "in order": str(came == wanted)}
        repeated = len(receiver.events) - len({it["id"] for it in receiver.events})
        found.figures |= {"came again": repeated, "requests": len(receiver.requests)}
        return found


def _serve(store: str, hooks: Path) -> Process:
    return Process(store, "--agent-rate", "1000000", "--webhooks", str(hooks))


def _act(service: Process, gateway: str, agent: str) -> None:
    offer = service.ask(gateway, "POST", f"/campaigns/c0/agents/{agent}/offer")["offer"]
    arm = "arm 0" if offer is None else offer["arm"]
    service.ask(gateway, "POST", f"/campaigns/c0/agents/{agent}/observations", {"arm": arm, "reward": 0.5})
