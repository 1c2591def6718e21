"""What the tests of campaigns stage: a clock that stands still, campaigns, and a way to compare two of them."""

from __future__ import annotations

from typing import Any

import freepull as fp
from freepull.campaigns.journal.events import TABLES, Kind
from freepull.campaigns.journal.recovery import pieces_of, segments, verify
from freepull.campaigns.stores import Store

OPENED: list[fp.Campaign] = []
"""Campaigns to be closed when a test is over, however it ends."""
HOUR = 3600 * 10**6
EACH = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each")


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_900_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_hours(self, hours: float) -> None:
        self.now += round(hours * HOUR)


def create(url: str | Store, clock: Clock, *, started: bool = True, **settings: Any) -> fp.Campaign:
    """Make a campaign of three arms and three agents, everybody wanted from the first step on."""
    chosen: dict[str, Any] = {
        "name": "onboarding",
        "arms": ["A", "B", "C"],
        "agents": ["ann", "bob", "cy"],
        "principal": EACH,
        "price": "0.50 EUR",
    }
    campaign = fp.Campaign.create(url, clock=clock, **chosen | settings)
    OPENED.append(campaign)
    if started:
        campaign.start()
    return campaign


def reopen(campaign: fp.Campaign, url: str | Store, clock: Clock) -> fp.Campaign:
    """Close a campaign and read it back from its store."""
    campaign.close()
    OPENED.append(fp.Campaign.open(url, campaign.name, clock=clock))
    return OPENED[-1]


def contents(campaign: fp.Campaign) -> dict[str, list[Any]]:
    """Return every row of every table."""
    return {table: list(campaign.core.store.read(campaign.name, table)) for table in TABLES}


def kinds(campaign: fp.Campaign) -> list[Kind]:
    """Return what the log has after the start."""
    store: Store = campaign.core.store
    found = [Kind(kind) for it in segments(store, campaign.name) for kind in it.records["kind"].tolist()]
    return found[found.index(Kind.STARTED) + 1 :]


def picture(campaign: fp.Campaign) -> bytes:
    """Return everything that is in memory, down to the last bit."""
    decider = campaign.core.writer.decider
    return pieces_of(decider.state, decider.log)


def same_after_reopening(campaign: fp.Campaign, url: str, clock: Clock) -> fp.Campaign:
    """Read a campaign back: from its log, from a snapshot, and as `verify` does; nothing may differ."""
    before, rows = picture(campaign), contents(campaign)
    campaign = reopen(campaign, url, clock)
    assert (picture(campaign), contents(campaign)) == (before, rows)
    campaign.snapshot()
    campaign.close()
    verify(url, campaign.name)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    return campaign
