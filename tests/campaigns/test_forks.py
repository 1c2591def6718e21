"""A process that was forked off leaves the campaigns of its parent alone, and is told so in a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import freepull as fp
from freepull.campaigns.journal.recovery import verify

pytestmark = pytest.mark.slow

PARENT = """
import gc, json, multiprocessing, os, signal, subprocess, sys, warnings
import freepull as fp
from freepull.campaigns.stores.postgres import PostgresStore
warnings.simplefilter("ignore")
PostgresStore.__init__.__kwdefaults__["lease_seconds"] = 1.0  # the test waits until it has run out
url, how, folder = sys.argv[1:]
said = []

def act(*acts):
    for act in acts:
        try:
            said.append(repr(act()))
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")

def use(campaign):
    act(lambda: campaign.ask("ann"), lambda: campaign.tell("ann", "A", 0.5), campaign.status, campaign.ledger,
        lambda: campaign.export(f"{folder}/x.csv"), lambda: campaign.backup(f"{folder}/x.db"), campaign.snapshot,
        lambda: campaign.core.store.campaigns(), campaign.close, lambda: fp.Campaign.open(url, "onboarding"))

def child(campaign):
    use(campaign)
    print(json.dumps(said), flush=True)

campaign = fp.Campaign.create(url, name="onboarding", arms=["A", "B"], agents=["ann", "bob"], price="0.50 EUR",
                              principal=fp.Principal(offers="each", observe=fp.observe.Steps(0)))
campaign.start()
for number in range(20):
    campaign.tell("ann", "A", 0.5, f"before {number}")
if how == "multiprocessing":
    process = multiprocessing.get_context("fork").Process(target=child, args=[campaign])
    process.start()
    process.join()
elif how == "preexec":
    subprocess.run([sys.executable, "-c", "pass"], preexec_fn=lambda: child(campaign), check=True)
else:
    pid = os.fork()
    if pid == 0:
        if how == "exit":
            with campaign:
                child(campaign)
                sys.exit(0)
        if how == "close":
            campaign.close()
            act(lambda: campaign.ask("ann"))
        if how == "garbage":
            del campaign
            fp.campaigns.stores.base.connect("sqlite:///" + folder + "/other.db", new=True).close()
            gc.collect()
        if how == "threads":
            import threading
            with campaign:
                thread = threading.Thread(target=child, args=[campaign])
                thread.start()
                thread.join()
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
for number in range(20):
    campaign.tell("bob", "B", 0.5, f"after {number}")
print(json.dumps(["told"]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["exit", "close", "garbage", "threads", "multiprocessing", "preexec"])
def test_what_was_answered_after_a_fork_survives_a_crash(url: str, how: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PARENT, url, how, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1] == ["told"], done.stderr
    assert done.stderr == ""
    assert verify(url, "onboarding", wait=10).observations == 40
    with fp.Campaign.open(url, "onboarding") as campaign:
        assert campaign.status().observations == 40
    if len(lines) == 1:
        return
    *verbs, store, closed, opened = lines[0]
    assert len(verbs) == 7
    for said in verbs:
        assert said.startswith(
            "WriterEnded: campaign 'onboarding' is open in the process that this one was forked from"
        )
        assert said.endswith(".")
    assert "was forked from" in store
    assert closed == "None"
    assert ("was forked from" if url.startswith("sqlite") else "is held by") in opened
    assert not list(tmp_path.glob("x.*"))
