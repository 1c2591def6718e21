"""A trial of 500 people over real HTTP: a service, an admin, and an agent client for each of them, to the verdict.

Run it, open the address that it prints, log in with the token beside it, and watch. The people prefer different options
for themselves; the principal wants to know which is best for all of them together.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

import freepull as fp
from freepull.live import Verdict
from freepull.service.access import Access

ARMS = ["free month", "lower price", "more storage"]


async def person(
    number: int,
    url: str,
    token: str,
    http: httpx.AsyncClient,
    line: asyncio.Semaphore,
    stop: asyncio.Event,
    pause: float,
) -> None:
    """Ask, take the offer or choose by UCB, try the option, tell how it was; then do something else for a while."""
    chance = random.Random(number)
    likes = [0.45 + 0.5 * (number % 2), 0.88, 0.95 - 0.5 * (number % 2)]  # alone, nobody likes the lower price best
    strategy = fp.agents.AlphaUCB(alpha=2.0)
    me = fp.AsyncAgentClient(url, "upgrade", token, strategy=strategy, http=http, retries=30)
    while not stop.is_set():
        async with line:
            await me.act(lambda option: float(chance.random() < likes[ARMS.index(option)]))
        await asyncio.sleep(pause * chance.random())


async def trial(url: str, admin: str, people: int, pause: float) -> Verdict:
    """Make the campaign, let everybody in, and wait for the verdict."""
    async with fp.AsyncClient(url, admin) as client:
        principal = fp.Principal(fp.rules.Certified(delta=0.05), observe=fp.observe.Steps(2), offers="each")
        names = [f"user-{m}" for m in range(people)]
        await client.create(name="upgrade", arms=ARMS, agents=names, principal=principal, price="0.50 EUR", horizon=60)
        await client.budget("upgrade", f"{2 * people} EUR")
        await client.start("upgrade")
        tokens = await client.agent_tokens("upgrade", names)
        limits = httpx.Limits(max_connections=64)
        async with httpx.AsyncClient(limits=limits, timeout=120, trust_env=False) as http:
            line, stop = asyncio.Semaphore(32), asyncio.Event()  # this one process speaks for all of them
            tasks = [
                asyncio.create_task(person(m, url, tokens[name], http, line, stop, pause))
                for m, name in enumerate(names)
            ]
            while not (status := await client.status("upgrade")).decided and status.step < 60:
                print(f"step {status.step}, {status.phase}, {status.observations:,} pulls, {status.spent} spent")
                await asyncio.sleep(1.0)
            stop.set()
            await asyncio.gather(*tasks)
        return await client.verdict("upgrade")


def main(people: int = 500, port: int = 0, pause: float = 2.0) -> Verdict:
    """Start the service in a process of its own, as `freepull serve` does, and run the trial against it."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'trial.db'}"
        access = Access(store)
        (admin, _), (reader, _) = access.new("admin"), access.new("read")
        access.close()
        command = [sys.executable, "-m", "freepull", "serve", "--store", store, "--port", str(port)]
        log = Path(folder) / "log"
        with log.open("w") as lines, subprocess.Popen(command, stderr=lines) as service:
            try:
                url = address(log, service)
                print(f"watch at {url} with the token {reader}")
                return asyncio.run(trial(url, admin, people, pause))
            finally:
                service.terminate()


def address(log: Path, service: subprocess.Popen[bytes]) -> str:
    """Wait until the service serves; return where."""
    while service.poll() is None:
        told = [json.loads(line) for line in log.read_text().splitlines()]
        found = [str(it["address"]) for it in told if it["what"] == "serving"]
        if found:
            return found[0]
        time.sleep(0.1)
    raise SystemExit(log.read_text())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=500)
    parser.add_argument("--port", type=int, default=8000)
    chosen = parser.parse_args()
    verdict = main(chosen.people, chosen.port)
    print(verdict)
    print(verdict.rests_on)
