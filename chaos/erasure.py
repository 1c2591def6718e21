"""Names that are erased, after pages were split, joined and used again: none is left in the file or beside it."""

from __future__ import annotations

import random
import re
import tempfile
import time
from pathlib import Path

import freepull as fp

from .outcome import Finding, finding
from .world import ASKING

CAMPAIGNS, BATCHES = 4, 25


def run(names: int = 130_000) -> Finding:
    """Let people enrol in several campaigns by turns, erase most of them bit by bit, and look for their names."""
    with finding(f"{names:,} names, most of them erased") as found, tempfile.TemporaryDirectory() as folder:
        url, rng, longest = f"sqlite:///{folder}/chaos.db", random.Random(4), 0.0
        campaigns = [
            fp.Campaign.create(url, name=f"campaign {c}", arms=2, price="1 EUR", principal=ASKING)
            for c in range(CAMPAIGNS)
        ]
        there: list[list[str]] = [[] for _ in campaigns]
        erased = set[str]()
        for _ in range(BATCHES):
            for campaign, known in zip(campaigns, there, strict=True):
                new = [_name(rng) for _ in range(names // CAMPAIGNS // BATCHES)]
                campaign.add_agents(new)
                known += new
                gone = rng.sample(known, len(known) // rng.choice((3, 5, 50)))
                begun = time.perf_counter()
                campaign.erase_names(gone)
                longest = max(longest, time.perf_counter() - begun)
                erased.update(gone)
                known[:] = [name for name in known if name not in erased]
        left = _found(Path(folder))
        kept = {name[:16] for known in there for name in known}
        traces = {name for name in erased if name[:16] in left}
        found.demand(not traces, f"{len(traces)} names that were erased are still there")
        found.demand(kept <= left, f"{len(kept - left)} names that were not erased are gone")
        for campaign in campaigns:
            campaign.close()
        again = _found(Path(folder))
        found.demand(again == left, "closing the file has changed which names are in it")
        found.figures |= {"erased": len(erased), "still found": len(traces), "kept": len(kept)}
        found.figures["seconds for the longest erasure"] = longest
        return found


def _name(rng: random.Random) -> str:
    return f"{rng.getrandbits(64):016x}@{'é' * rng.randrange(60)}"


def _found(folder: Path) -> set[str]:
    """Return the first halves of all names in all files."""
    return {it.decode() for file in folder.iterdir() for it in re.findall(rb"[0-9a-f]{16}(?=@)", file.read_bytes())}
