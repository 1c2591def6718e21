"""Outcomes that come late: every ask counts until it is told of, or passed over because nothing was done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull import commands, errors
from freepull.campaigns import state
from freepull.campaigns.commands import Decider
from freepull.campaigns.journal.events import Kind
from freepull.campaigns.journal.recovery import verify
from freepull.principal.rules.comparisons.book import OPENED, SAMPLES, UNCOUNTED, Book
from support.staging import EACH, Clock, contents, create, kinds, picture, reopen


def late(**settings: Any) -> fp.Principal:
    """A principal whose rule counts asks."""
    rule = fp.rules.Comparisons(0.05, late=True, **settings)
    return fp.Principal(rule, observe=fp.observe.Steps(0), protocol=fp.protocols.NeverBan(), offers="each")


def book_of(campaign: fp.Campaign) -> Book:
    rule: Any = campaign.core.writer.decider.state.trial.rule
    book: Book = rule.book
    return book


def opened(campaign: fp.Campaign) -> int:
    return int(book_of(campaign).counts[0, OPENED])


def test_who_asked_and_made_no_pull_takes_part_again_once_that_is_said(url: str, clock: Clock) -> None:
    campaign = create(url, clock, principal=late())
    campaign.ask("ann")
    campaign.ask("ann")  # so its comparison ends, because two pulls may be under way
    campaign.tell("ann", "A", 1.0)
    campaign.ask("ann")
    assert (opened(campaign), int(book_of(campaign).owed[0])) == (1, 2)
    campaign.pass_over("ann")
    campaign.pass_over("ann")
    campaign.ask("ann")
    assert opened(campaign) == 2
    campaign.tell("ann", "B", 1.0)
    assert int(book_of(campaign).counts[0, SAMPLES]) == 1
    assert kinds(campaign).count(Kind.PASSED) == 2
    rows, before = contents(campaign), picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert (picture(campaign), contents(campaign)) == (before, rows)
    campaign.close()
    verify(url, campaign.name)


@pytest.mark.parametrize("event", ["visit 1", 1])
def test_passing_over_with_an_event_counts_once(url: str, clock: Clock, event: str | int) -> None:
    campaign = create(url, clock, principal=late())
    for _ in range(3):
        campaign.ask("ann")
    for _ in range(3):
        campaign.pass_over("ann", event=event)
    assert int(book_of(campaign).owed[0]) == 2
    campaign = reopen(campaign, url, clock)
    campaign.pass_over("ann", event=event)
    assert int(book_of(campaign).owed[0]) == 2
    with pytest.raises(errors.EventConflict):
        campaign.tell("ann", "A", 0.0, event=event)
    campaign.tell("ann", "A", 0.0, event="visit 2" if event == "visit 1" else 2)
    with pytest.raises(errors.EventConflict):
        campaign.pass_over("ann", event="visit 2" if event == "visit 1" else 2)
    assert int(book_of(campaign).owed[0]) == 1
    campaign.close()
    verify(url, campaign.name)


def test_numbers_go_on_from_pulls_to_no_pulls_and_back(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=late())
    campaign.tell("ann", "A", 0.5, event=1)
    campaign.ask("ann")
    campaign.pass_over("ann", event=2)
    with pytest.raises(errors.EventGap, match="number 3, got 4"):
        campaign.pass_over("ann", event=4)
    assert campaign.tell("ann", "A", 0.5, event=3).event is not None
    campaign.pass_over("ann", event=2)  # an old one counts nothing
    assert kinds(campaign).count(Kind.PASSED) == 1


def test_an_open_offer_stands_and_can_still_be_taken(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=late())
    offer = None
    for arm in "ABC" + "A" * 20:
        offer = campaign.ask("ann")
        if offer is not None:
            break
        campaign.tell("ann", arm, float(arm == "A"))
    assert offer is not None
    campaign.pass_over("ann")
    status = campaign.status()
    assert (status.open_offers, status.cancelled, status.absent) == (1, 0, 0)
    samples = int(book_of(campaign).counts[0, SAMPLES])
    assert campaign.ask("ann") == offer
    assert campaign.tell("ann", offer.arm, 1.0).outcome == "paid"
    assert int(book_of(campaign).counts[0, SAMPLES]) == samples + 1


def test_nothing_that_was_asked_for_is_awaited_once_it_is_passed_over(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=late())
    for name in ("ann", "bob"):
        campaign.ask(name)
    campaign.pass_over("ann")
    reporting = campaign.status().checks[-1]
    assert (reporting.name, reporting.missing) == ("reporting", 0.5)
    assert "and 1 are awaited" in reporting.why
    campaign.tell("ann", "A", 1.0)
    campaign.ask("ann")
    campaign.tell("ann", "A", 1.0)
    assert "1 came without an ask" in campaign.status().checks[-1].why


def test_it_is_refused_before_the_start_and_after_the_end(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=late(), started=False)
    with pytest.raises(errors.WrongMoment, match="has not started"):
        campaign.pass_over("ann")
    campaign.start()
    campaign.pause()
    campaign.pass_over("ann")
    campaign.stop()
    with pytest.raises(errors.WrongMoment, match="has stopped"):
        campaign.pass_over("ann")
    with pytest.raises(errors.UnknownAgent):
        campaign.pass_over("nobody")
    with pytest.raises(errors.InvalidInput, match="event must be"):
        campaign.pass_over("ann", event="")


@pytest.mark.parametrize("principal", [EACH, late()])
def test_where_it_changes_nothing_it_is_kept_and_replayed(sqlite: str, clock: Clock, principal: fp.Principal) -> None:
    campaign = create(sqlite, clock, principal=principal)
    campaign.add_agents(["dan"])  # who is only observed
    for name in ("ann", "dan"):
        campaign.pass_over(name, event=1)
    campaign.tell_many([("ann", "A", 0.5, 2), ("dan", "B", 0.5, 2)])
    status = campaign.status()
    assert (status.observations, status.observed_only, status.in_step) == (1, 1, 1)
    before = picture(campaign)
    campaign = reopen(campaign, sqlite, clock)
    assert picture(campaign) == before


def test_who_says_it_for_somebody_else_is_in_the_audit(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=late())
    for _ in range(2):
        campaign.pass_over("ann", by="carl", event="v1")
    noted = [row for row in campaign.audit() if row.action == "noted"]
    assert [(row.who, row.detail) for row in noted] == [("carl", {"passed_over": "ann"})]


def test_while_a_step_is_closed_in_slices_it_is_replayed_in_its_place(
    sqlite: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "SMALL", 0)
    monkeypatch.setattr(state, "SLICE", 0.0)
    campaign = create(sqlite, clock, principal=late())
    busy = 0

    def ask(decider: Decider, at: int) -> None:
        nonlocal busy
        busy += decider.busy
        for m in range(3):
            decider.ask(m, at)

    for i in range(40):
        told = campaign.core.tell_all([(m, (i + m) % 3, m / 2) for m in range(3)], strict=True)
        asked, passed = campaign.core.do(ask), campaign.core.handle(commands.PassOver(i % 3))
        told.result(), asked.result(), passed.result()
    assert busy
    while campaign.core.do(lambda decider, at: decider.busy).result():
        pass
    before = picture(campaign)
    campaign = reopen(campaign, sqlite, clock)
    assert picture(campaign) == before


def test_asks_beyond_counting_are_never_counted_down() -> None:
    trial = late().start(arms=3, agents=1)
    for _ in range(UNCOUNTED + 45):
        trial.ask(0)
    for _ in range(UNCOUNTED // 2):
        trial.pass_over(0)
        trial.tell(0, 0, 1.0)
    trial.pass_over(0)
    trial.ask(0)
    rule: Any = trial.rule
    assert rule.book.counts[0, OPENED] == 1  # 45 pulls may still be under way


def test_a_shell_can_say_it(tmp_path: Path, clock: Clock) -> None:
    from typer.testing import CliRunner

    from freepull.cli.campaign_data import app

    url = f"sqlite:///{tmp_path}/trial.db"
    create(url, clock, principal=late()).close()
    for _ in range(2):
        told = CliRunner().invoke(app, ["pass-over", url, "onboarding", "ann", "--event", "v1", "--by", "carl"])
        assert (told.exit_code, told.output.strip()) == (0, "ann asked and made no pull")
    with fp.Campaign.open(url, "onboarding") as campaign:
        assert kinds(campaign).count(Kind.PASSED) == 1
        assert np.count_nonzero([row.action == "noted" for row in campaign.audit()]) == 1
