"""Agents who come late, leave or want to be forgotten, and arms that are withdrawn."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.stores.sqlite import SqliteStore
from support.staging import Clock, contents, create, picture, reopen

COMPARISONS = fp.Principal(fp.rules.Comparisons(0.05), observe=fp.observe.Steps(0), offers="each")


def offered(campaign: fp.Campaign, agent: str) -> fp.CampaignOffer:
    """Let an agent pull one arm until it is offered another."""
    for _ in range(20):
        offer = campaign.ask(agent)
        if offer is not None:
            return offer
        campaign.tell(agent, "A", 0.9)
    raise AssertionError("no offer")


def test_agents_enrol_until_the_start_and_are_observed_only_afterwards(url: str, clock: Clock) -> None:
    campaign = create(url, clock, started=False)
    assert campaign.add_agents(["dan"], by="ops") == [3]
    with pytest.raises(errors.InvalidInput, match="agents must be new, got 'ann'"):
        campaign.add_agents(["eve", "ann"])
    campaign.start()
    with pytest.raises(errors.WrongMoment, match="has started already"):
        campaign.start()
    assert campaign.add_agents(["late"]) == [4]
    assert campaign.ask("late") is None
    assert campaign.ask("dan") is not None
    campaign.tell_many([("late", "A", 1.0), ("late", "A", 1.0), ("late", "A", 1.0, "x"), ("late", "A", 1.0)])
    campaign = reopen(campaign, url, clock)
    status = campaign.status()
    assert (status.agents, status.late_joiners, status.observations, status.observed_only) == (4, 1, 0, 4)
    assert (status.step, status.in_step) == (0, 0)
    campaign.close()


def test_agents_without_names_are_known_by_number(url: str, clock: Clock) -> None:
    campaign = create(url, clock, agents=3)
    offer = campaign.ask(1)
    assert offer is not None
    assert offer.agent == "#1"
    assert campaign.ask("#1") == offer
    campaign.tell("#1", offer.arm, 0.5)
    assert [entry.agent for entry in campaign.ledger()] == ["#1"]
    campaign.close()


@pytest.mark.parametrize("given", ["#3", "#-1", "#", "#1.0", "#" + "0" * 19 + "9", f"#{2**32 + 1}", "#" + "0" * 5000])
def test_a_number_that_nobody_has_is_nobody(sqlite: str, clock: Clock, given: str) -> None:
    campaign = create(sqlite, clock)
    before = contents(campaign)
    for event in (None, 1, "e"):
        with pytest.raises(errors.UnknownAgent, match="from #0 to #2"):
            campaign.tell(given, "A", 0.5, event)
    assert contents(campaign) == before


def test_names_can_be_erased_without_touching_the_log(url: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(url, clock, agents=["Ann Example", "Bob Example", "Cy Example"])
    offer = campaign.ask("Ann Example")
    assert offer is not None
    campaign.tell("Ann Example", offer.arm, 0.5, event="Ann Example's visit")
    before = {table: rows for table, rows in contents(campaign).items() if table not in ("names", "segments", "audit")}
    assert campaign.ledger()[0].agent == "Ann Example"
    campaign.erase_names(["Ann Example"], by="dpo", anyway=True)
    assert campaign.ledger()[0].agent == "#0"
    with pytest.raises(errors.UnknownAgent):
        campaign.ask("Ann Example")
    campaign = reopen(campaign, url, clock)
    assert [name for _, name in contents(campaign)["names"]] == ["Bob Example", "Cy Example"]
    campaign.erase_names(anyway=True)
    assert contents(campaign)["names"] == []
    after = {table: rows for table, rows in contents(campaign).items() if table in before}
    assert after == before
    told = repr(contents(campaign))
    assert "Example" not in told
    campaign.tell("#0", "A", 0.5)
    campaign.close()
    for file in tmp_path.iterdir():
        assert b"Example" not in file.read_bytes()


def test_whoever_leaves_is_awaited_by_default(url: str, clock: Clock) -> None:
    campaign = create(url, clock)
    offer = campaign.ask("ann")
    assert offer is not None
    campaign.leave("ann", by="ops")
    campaign.leave("ann")
    status = campaign.status()
    assert (status.absent, status.cancelled, status.open_offers, status.awaited) == (1, 1, 0, ["ann"])
    assert campaign.ask("ann") is None
    campaign = reopen(campaign, url, clock)
    assert campaign.status().awaited == ["ann"]
    assert campaign.tell("ann", offer.arm, 0.5).outcome is None
    assert campaign.status().absent == 0
    campaign.close()


def test_independent_leavers_are_dropped_and_cannot_be_told_of(url: str, clock: Clock) -> None:
    campaign = create(url, clock, leavers="independent")
    campaign.leave("ann")
    before = contents(campaign)
    with pytest.raises(errors.AgentHasLeft, match="agent ann has left, so its pulls no longer count"):
        campaign.tell("ann", "A", 0.5)
    assert contents(campaign) == before
    campaign.tell_many([("bob", "A", 0.5), ("cy", "A", 0.5), ("cy", "B", 0.5)])
    picture_before = picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == picture_before
    assert "2 agents" in campaign.verdict().rests_on.target
    campaign.leave("bob")
    with pytest.raises(errors.InvalidInput, match="the last agent with a weight cannot leave"):
        campaign.leave("cy")
    assert campaign.status().absent == 2
    campaign.close()


@pytest.mark.parametrize("leavers", ["wait", "independent"])
def test_whoever_is_parked_rests_and_has_not_left(url: str, clock: Clock, leavers: str) -> None:
    campaign = create(url, clock, leavers=leavers, offer_lasts="1 hour", cool_down="1 hour")
    for _ in range(3):
        assert campaign.ask("ann") is not None
        clock.pass_hours(2)
        campaign.tell_many([("bob", "A", 0.5), ("cy", "A", 0.5), ("cy", "B", 0.5)])
    campaign.snapshot()
    for arm in "ABC" * 3:
        campaign.tell_many([("bob", arm, 0.5), ("cy", arm, 0.5)] * 3)
    before = picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    status, trial = campaign.status(), campaign.core.writer.decider.state.trial
    assert (status.absent, status.awaited) == (1, ["ann"])  # the rule waits for it
    assert campaign.ask("ann") is None
    assert trial.panel.left == [False] * 3
    assert (trial.panel.number, trial.setting.weights.tolist()) == (1, [1 / 3] * 3)
    assert "not certified" not in campaign.verdict().why
    campaign.budget("5 EUR")  # everything is planned anew
    assert campaign.ask("ann") is None
    campaign.tell("ann", "A", 0.5)
    assert (campaign.status().absent, campaign.status().in_step) == (0, 1)
    campaign.budget("6 EUR")
    assert campaign.ask("ann") is not None
    campaign.close()
    verify(url, campaign.name)


def test_whoever_is_parked_can_be_said_to_have_left(url: str, clock: Clock) -> None:
    campaign = create(url, clock, leavers="independent", offer_lasts="1 hour", cool_down="1 hour")
    for _ in range(3):
        assert campaign.ask("ann") is not None
        clock.pass_hours(2)
        campaign.tell_many([("bob", "A", 0.5), ("cy", "A", 0.5), ("cy", "B", 0.5)])
    campaign.leave("ann", by="ops")
    with pytest.raises(errors.AgentHasLeft):
        campaign.tell("ann", "A", 0.5)
    campaign.tell_many([("bob", "A", 0.5), ("cy", "A", 0.5), ("cy", "B", 0.5)])
    assert "ann left; panel 2, tested at δ/6" in campaign.verdict().rests_on.leavers
    before = picture(campaign)
    campaign = reopen(campaign, url, clock)
    assert picture(campaign) == before
    assert campaign.status().absent == 1
    campaign.close()


def test_in_rounds_the_round_closes_without_whoever_is_parked_and_takes_it_back(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, leavers="independent", mode="rounds", round_lasts="1 hour", cool_down="1 minute")
    for _ in range(3):
        assert campaign.ask("ann") is not None
        campaign.tell_many([("bob", "A", 0.5), ("cy", "A", 0.5)])
        clock.pass_hours(1.5)
        campaign.status()
    step = campaign.status().step
    assert (step, campaign.status().absent) == (3, 1)
    campaign.tell_many([("bob", "A", 0.5), ("cy", "A", 0.5)])
    assert campaign.status().step == 4
    campaign.tell_many([("bob", "A", 0.5), ("ann", "A", 0.5)])
    assert (campaign.status().step, campaign.status().absent) == (4, 0)
    campaign.tell("cy", "A", 0.5)
    assert campaign.status().step == 5
    before = picture(campaign)
    assert picture(reopen(campaign, sqlite, clock)) == before


def test_an_arm_can_be_withdrawn_if_that_was_provided_for(url: str, clock: Clock) -> None:
    campaign = create(url, clock, principal=COMPARISONS, withdrawal=True)
    offer = offered(campaign, "ann")
    campaign.withdraw(offer.arm, by="ops")
    campaign = reopen(campaign, url, clock)
    with pytest.raises(errors.InvalidInput, match="is out already"):
        campaign.withdraw(offer.arm)
    with pytest.raises(errors.UnknownArm):
        campaign.withdraw("Z")
    assert campaign.tell("ann", offer.arm, 0.5).outcome == "paid"
    assert [arm.name for arm in campaign.status().arms if not arm.active] == [offer.arm]
    assert f"(withdrawn: {offer.arm})" in campaign.verdict().rests_on.target
    campaign.close()


def test_withdrawing_without_provision_is_refused(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    before = contents(campaign)
    with pytest.raises(errors.InvalidInput, match="withdrawing an arm must be provided for"):
        campaign.withdraw("A")
    assert contents(campaign) == before
    campaign.close()


def test_weights_are_for_all_agents_or_none(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, started=False, weights=[1, 1, 2])
    with pytest.raises(errors.InvalidInput, match="weights must be given for all agents"):
        campaign.add_agents(["dan"])
    campaign.add_agents(["dan"], weights=[4])
    campaign.start()
    assert campaign.core.writer.decider.state.trial.setting.weights.tolist() == [0.125, 0.125, 0.25, 0.5]
    with pytest.raises(errors.InvalidInput, match="weights must be left out after the start"):
        campaign.add_agents(["eve"], weights=[1])
    campaign.close()


def test_the_audit_is_read_in_names_and_money_and_kept_in_numbers(url: str, clock: Clock) -> None:
    campaign = create(url, clock, principal=COMPARISONS, withdrawal=True, leavers="wait")
    offer = offered(campaign, "ann")
    other = next(arm for arm in "ABC" if arm != offer.arm)
    campaign.tell("ann", other, 0.5)
    campaign.tell("bob", "A", 0.5)
    campaign.tell("cy", "A", 0.5)
    campaign.budget("5.25 EUR")
    campaign.budget(None)
    campaign.leave("bob")
    campaign.unban("ann")
    campaign.withdraw("B")
    found = {entry.action: entry.detail for entry in campaign.audit()}
    assert found["step_ended"]["bans"] == [{"agent": "ann", "offer": offer.id, "until": None}]
    assert [entry.detail for entry in campaign.audit() if entry.action == "budget"] == [
        {"budget": "5.25 EUR"},
        {"budget": None},
    ]
    assert (found["left"], found["unbanned"], found["withdrawn"]) == ({"agent": "bob"}, {"agent": "ann"}, {"arm": "B"})
    campaign.erase_names(["bob"])
    assert next(entry.detail for entry in campaign.audit() if entry.action == "left") == {"agent": "#1"}
    assert not any('"ann"' in str(row) for row in contents(campaign)["audit"])
    campaign.close()


def _traces(folder: Path, names: Iterable[str]) -> list[str]:
    data = b"".join(file.read_bytes() for file in folder.iterdir())
    return [name for name in names if name.encode() in data]


@pytest.mark.slow
def test_nothing_of_an_erased_name_is_left_in_free_space(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    """Pages that are split keep copies of what moves to the new one."""
    campaigns = [create(sqlite, clock, name=name, agents=[], started=False) for name in ("one", "two")]
    for batch in range(10):
        for campaign in campaigns:
            campaign.add_agents([f"{batch}.{i}.{campaign.name}@example.org" for i in range(100)])
    gone = [f"{batch}.{i}.one@example.org" for batch in range(10) for i in range(0, 100, 2)]
    assert _traces(tmp_path, gone) == gone
    campaigns[0].erase_names(gone)
    assert _traces(tmp_path, gone) == []
    kept = [f"{batch}.{i}.two@example.org" for batch in range(10) for i in range(100)]
    campaigns[1].erase_names()
    assert _traces(tmp_path, kept) == []
    assert campaigns[0].core.register.agent("3.1.one@example.org") == 301
    campaign = reopen(campaigns[0], sqlite, clock)
    assert len(campaign.core.register.numbers) == 500
    campaign.add_agents(["after@example.org"])


def test_the_first_erasure_in_a_file_of_an_older_version_writes_it_anew(
    sqlite: str, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = create(sqlite, clock)
    store = campaign.core.store
    assert isinstance(store, SqliteStore)
    with store.transaction() as do:
        do.run("PRAGMA secure_delete = OFF")
        do.run("DELETE FROM secrets")
        do.run("CREATE TABLE old (name TEXT)")
        do.many("INSERT INTO old VALUES (?)", [(f"trace {i}",) for i in range(2000)])
        do.run("DROP TABLE old")
    campaign = reopen(campaign, sqlite, clock)
    assert _traces(tmp_path, ["trace 1700"]) == ["trace 1700"]
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(errors.WrongMoment, match=r"takes [0-9,]+ bytes on its disk; make room, and erase them again"):
        campaign.erase_names(["ann"])
    monkeypatch.undo()
    campaign.tell("ann", "A", 0.5)
    campaign.erase_names(["ann"])
    assert _traces(tmp_path, ["trace 1700", "trace 1", "ann"]) == []
    campaign.tell("bob", "A", 0.5)
    campaign.close()
    verify(sqlite, "onboarding")
