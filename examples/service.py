"""A trial of 500 people over real HTTP, from the plan to the verdict: a service, an admin, a client for each person.

Run it, open the address that it prints, log in with the token beside it, and watch. The people prefer different options
for themselves; the principal wants to know which is best for all of them together. The dashboard stays until Ctrl-C.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

import freepull as fp
from freepull.server.auth import Tokens

ARMS = ["free month", "lower price", "more storage"]
LIKED = [
    0.95,
    0.83,
    0.55,
]  # by every other person in this order, by the rest backwards: nobody likes the lower price best
HORIZON, BONUS = 60, 0.50
PRINCIPAL = fp.Principal(
    fp.rules.Certified(delta=0.05), observe=fp.observe.Steps(8), protocol=fp.protocols.NeverBan(), offers="each"
)


def plan(people: int, runs: int | None) -> fp.Plan:
    """Forecast the trial from what a team may guess, before anybody is paid."""
    return fp.plan(
        arms=len(ARMS),
        agents=people,
        horizon=HORIZON,
        gap=0.08,
        level=0.8,
        spread=0.2,
        principal=PRINCIPAL,
        price=f"{BONUS:.2f} EUR",
        curves=False,
        runs=runs,
    )


@contextmanager
def service(port: int) -> Iterator[tuple[str, str, str]]:
    """Start a service in a process of its own; yield its address, an admin's token and one to look with."""
    with tempfile.TemporaryDirectory() as folder:
        store, log = f"sqlite:///{Path(folder) / 'trial.db'}", Path(folder) / "log"
        tokens = Tokens(store)
        (admin, _), (reader, _) = tokens.new("admin"), tokens.new("read")
        tokens.close()
        command = [sys.executable, "-m", "freepull", "serve", "--store", store, "--port", str(port)]
        with log.open("w") as lines, subprocess.Popen(command, stderr=lines) as process:
            try:
                while not (told := [json.loads(line) for line in log.read_text().splitlines() if "address" in line]):
                    if process.poll() is not None:
                        raise SystemExit(log.read_text())
                    time.sleep(0.1)
                yield told[0]["address"], admin, reader
            finally:
                process.terminate()


async def person(me: fp.AsyncAgentClient, m: int, line: asyncio.Semaphore, stop: asyncio.Event, rest: float) -> None:
    """Ask, take the offer or choose by UCB, try the option, tell how it was; then do something else for a while."""
    chance = random.Random(m)
    likes = [LIKED[0], LIKED[1], LIKED[2]] if m % 2 else [LIKED[2], LIKED[1], LIKED[0]]
    while not stop.is_set():
        async with line:
            await me.act(lambda option: float(chance.random() < likes[ARMS.index(option)]))
        await asyncio.sleep(rest * 2 * chance.random())


async def trial(url: str, admin: str, people: int, budget: float | None, rest: float) -> fp.CampaignVerdict:
    """Make the campaign, let everybody in, and wait for the verdict."""
    async with fp.AsyncClient(url, admin) as client:
        names = [f"user-{m}" for m in range(people)]
        price = f"{BONUS:.2f} EUR"
        campaign = await client.create(
            name="upgrade", arms=ARMS, agents=names, principal=PRINCIPAL, price=price, horizon=HORIZON
        )
        if budget is not None:
            await campaign.budget(f"{BONUS * budget:.2f} EUR")
        await campaign.start()
        tokens = await campaign.agent_tokens(names)
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            line, stop = asyncio.Semaphore(12), asyncio.Event()  # this one process speaks for all of them
            strategy = fp.agents.AlphaUCB(alpha=2.0)
            everybody = [
                fp.AsyncAgentClient(url, "upgrade", tokens[name], strategy=strategy, http=http, retries=30)
                for name in names
            ]
            async with asyncio.TaskGroup() as tasks:
                for m, me in enumerate(everybody):
                    tasks.create_task(person(me, m, line, stop, rest))
                while not (status := await campaign.status()).decided and status.step < HORIZON:
                    print(f"step {status.step}, {status.phase}, {status.observations:,} pulls, {status.spent} spent")
                    await asyncio.sleep(1.0)
                stop.set()
        return await campaign.verdict()


def until_ctrl_c() -> None:
    """Wait."""
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(60.0)


def main(
    people: int = 500,
    port: int = 0,
    rest: float = 2.0,
    runs: int | None = None,
    admin: bool = False,
    stay: bool = False,
) -> tuple[fp.Plan, fp.CampaignVerdict]:
    """Plan, start the service, run the trial with the budget of the plan, and return both."""
    planned = plan(people, runs)
    print(planned, end="\n\n")
    budget = None if planned.forecast is None else planned.forecast.budget(0.95)
    with service(port) as (url, secret, reader):
        print(f"watch at {url} with the token {reader}", flush=True)
        if admin:
            print(f"pause and stop with the token {secret}", flush=True)
        verdict = asyncio.run(trial(url, secret, people, budget, rest))
        print(f"\n{verdict}\n{verdict.rests_on}", flush=True)
        if stay:
            print(f"\nthe dashboard stays at {url} until you press Ctrl-C", flush=True)
            until_ctrl_c()
        return planned, verdict


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=500)
    parser.add_argument("--port", type=int, default=8000, help="0: any that is free")
    parser.add_argument("--rest", type=float, default=2.0, help="seconds between two pulls of a person, on average")
    parser.add_argument("--admin", action="store_true", help="print a token that may pause and stop, too")
    parser.add_argument("--then-stop", action="store_true", help="end at the verdict, as without a terminal")
    chosen = parser.parse_args()
    stay = sys.stdin.isatty() and not chosen.then_stop
    main(chosen.people, chosen.port, chosen.rest, admin=chosen.admin, stay=stay)
