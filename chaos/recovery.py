"""Recovery of ten million events: from the log alone, and from a snapshot and the last tenth of it."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import numpy as np

import freepull as fp
from freepull.campaigns.journal.recovery import pieces_of

from .outcome import Finding, finding
from .world import NAME, create

AGENTS, ARMS, BATCH = 10_000, 4, 20_000
FROM_LOG, FROM_SNAPSHOT, RATE = 10.0, 5.0, 50_000.0


def run(events: int = 10_000_000, bars: bool = True) -> Finding:
    """Tell so many pulls, durably, then open the campaign in both ways; ``bars`` says whether speed matters."""
    with finding(f"recovery of {events:,} events") as found, tempfile.TemporaryDirectory() as folder:
        url, rng = f"sqlite:///{Path(folder)}/chaos.db", np.random.default_rng(random.Random(4).getrandbits(64))
        campaign = create(url, agents=AGENTS, arms=ARMS, snapshot_every=10**12)
        told, busy = 0, 0.0
        for share in (0.9, 1.0):
            while told < share * events:
                busy += _tell(campaign, rng)
                told += BATCH
            if share < 1.0:
                campaign.snapshot()
        before = _picture(campaign)
        campaign.close()
        found.figures |= {"pulls told": told, "durable pulls/s": told / busy}
        for title, snapshots, bar in (("from the log", False, FROM_LOG), ("from a snapshot", True, FROM_SNAPSHOT)):
            begun = time.monotonic()
            campaign = fp.Campaign.open(url, NAME, snapshots=snapshots)
            seconds = time.monotonic() - begun
            found.figures[f"{title} (s)"] = seconds
            found.demand(seconds <= bar or not bars, f"{title}: {seconds:.1f} s, the bar is {bar:g} s")
            found.demand(_picture(campaign) == before, f"{title}: another state")
            campaign.close()
        found.demand(told / busy >= RATE or not bars, f"{told / busy:,.0f} durable pulls/s, the bar is {RATE:,.0f}")
        return found


def _tell(campaign: fp.Campaign, rng: np.random.Generator) -> float:
    """Tell a batch; return how long that took."""
    agents, arms = rng.integers(0, AGENTS, BATCH).tolist(), rng.integers(0, ARMS, BATCH).tolist()
    pulls = list(zip(agents, arms, rng.random(BATCH).tolist(), strict=True))
    begun = time.monotonic()
    campaign.tell_many(pulls)
    return time.monotonic() - begun


def _picture(campaign: fp.Campaign) -> bytes:
    decider = campaign.core.writer.decider
    return pieces_of(decider.state, decider.log)
