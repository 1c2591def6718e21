"""The life of an offer: accepted or declined, acted on, and the outcome told later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import freepull as fp
from freepull import errors
from freepull.campaigns.journal.events import Kind
from support.staging import EACH, Clock, create, kinds, reopen, same_after_reopening

COMPARING = fp.Principal(
    fp.rules.Comparisons(0.05), observe=fp.observe.Steps(0), offers="each", protocol=fp.protocols.NeverBan()
)
BANNING = fp.Principal(
    fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each", protocol=fp.protocols.TakeOrBan()
)
ORDERED: dict[str, Any] = {"principal": EACH, "if_no_outcome": 0.0}


def sums(campaign: fp.Campaign) -> list[list[float]]:
    """What the rule has been told of, by agent and arm."""
    record = campaign.core.writer.decider.state.trial.record
    found: list[list[float]] = (record.sums / 2.0**30).tolist()
    return found


def test_an_act_is_paid_and_its_outcome_counts_when_it_comes(url: str, clock: Clock) -> None:
    campaign = create(url, clock, **ORDERED)
    offer = campaign.ask("ann")
    assert offer is not None
    told = campaign.act("ann", offer.arm, "v1")
    assert (told.outcome, told.offer, str(told.paid)) == ("paid", offer.id, "0.50 EUR")
    status = campaign.status()
    assert (status.observations, status.open_acts, status.paid, status.open_offers) == (1, 1, 1, 0)
    assert sums(campaign)[0] == [0.0, 0.0, 0.0]
    campaign = same_after_reopening(campaign, url, clock)
    came = campaign.outcome("ann", "v1", 0.75)
    assert (came.outcome, came.paid) == (None, None)
    assert sums(campaign)[0][campaign.settings.arms.index(offer.arm)] == 0.75
    assert campaign.status().open_acts == 0
    assert kinds(campaign) == [Kind.OFFERED, Kind.ACTED, Kind.CAME]
    same_after_reopening(campaign, url, clock)


def test_an_id_whose_outcome_is_remembered_is_not_used_for_another_act(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, remembers="30 days", **ORDERED)
    campaign.act("ann", "A", "v1")
    clock.pass_hours(29 * 24)
    came = campaign.outcome("ann", "v1", 0.5)
    clock.pass_hours(2 * 24)
    for _ in range(2):  # the log's time goes on with its events
        campaign.tell("bob", "A", 0.5)
        clock.pass_hours(1)
    assert campaign.outcome("ann", "v1", 0.5) == came
    with pytest.raises(errors.EventConflict, match="give it a new id"):
        campaign.act("ann", "B", "v1")
    assert campaign.status().open_acts == 0
    campaign.act("ann", "B", "v2")
    campaign.outcome("ann", "v2", 0.5)
    same_after_reopening(campaign, sqlite, clock)


@pytest.mark.parametrize("event", ["v1", 1])
def test_acts_and_outcomes_are_safe_to_repeat(sqlite: str, clock: Clock, event: str | int) -> None:
    campaign = create(sqlite, clock, **ORDERED)
    first = campaign.act("ann", "A", event)
    assert campaign.act("ann", "A", event) == first
    with pytest.raises(errors.EventConflict):
        campaign.act("ann", "B", event)
    with pytest.raises(errors.EventConflict):
        campaign.tell("ann", "A", 0.0, event)
    came = campaign.outcome("ann", event, 0.5)
    campaign = reopen(campaign, sqlite, clock)
    assert campaign.outcome("ann", event, 0.5) == came
    assert campaign.act("ann", "A", event) == first
    with pytest.raises(errors.EventConflict, match="another outcome"):
        campaign.outcome("ann", event, 0.25)
    assert (campaign.status().observations, sums(campaign)[0][0]) == (1, 0.5)
    same_after_reopening(campaign, sqlite, clock)


def test_an_outcome_needs_an_act(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, **ORDERED)
    with pytest.raises(errors.UnknownAct, match="tell the act first"):
        campaign.outcome("ann", "v1", 0.5)
    campaign.tell("ann", "A", 0.5, "v1")
    with pytest.raises(errors.EventConflict, match="no outcome is awaited"):
        campaign.outcome("ann", "v1", 0.5)
    campaign.act("ann", "A", "v2")
    with pytest.raises(errors.UnknownAct):
        campaign.outcome("bob", "v2", 0.5)  # ids are each agent's own
    for wrong in (1.5, float("nan"), "much"):
        with pytest.raises(errors.InvalidReward):
            campaign.outcome("ann", "v2", wrong)
    with pytest.raises(errors.InvalidInput, match="event must be"):
        campaign.act("ann", "A", None)  # type: ignore[arg-type]
    with pytest.raises(errors.EventGap):
        campaign.act("ann", "A", 2)


def test_rewards_reach_a_rule_that_needs_it_in_the_order_of_acts(url: str, clock: Clock) -> None:
    """Outcomes in another order, with a tell in between, lead to the bits of a campaign that was told in order."""
    pulls = [("ann", "A", 0.25), ("ann", "B", 1.0), ("ann", "A", 0.75), ("bob", "A", 0.5)]
    campaign = create(url, clock, **ORDERED)
    for i in (0, 1):
        campaign.act(*pulls[i][:2], f"v{i}")
    campaign.tell(*pulls[2])
    campaign.tell(*pulls[3])
    assert sums(campaign) == [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]  # ann's tell waits behind her acts
    campaign.outcome("ann", "v1", 1.0)
    campaign = same_after_reopening(campaign, url, clock)
    assert sums(campaign)[0] == [0.0, 0.0, 0.0]
    campaign.outcome("ann", "v0", 0.25)
    plain = (
        create("sqlite:///" + str(Path(url.removeprefix("sqlite:///")).with_name("plain.db")), clock, **ORDERED)
        if url.startswith("sqlite")
        else create(url, clock, name="plain", **ORDERED)
    )
    for pull in pulls:
        plain.tell(*pull)
    ours, theirs = (it.core.writer.decider.state.trial.rule.parts() for it in (campaign, plain))
    assert repr(ours) == repr(theirs)


def test_a_late_outcome_leaves_todays_offer_alone(url: str, clock: Clock) -> None:
    campaign = create(url, clock, **ORDERED)
    campaign.act("ann", "C", "yesterday")
    for agent in ("bob", "cy"):
        campaign.tell(agent, "A", 0.5)
    clock.pass_hours(20)
    offer = campaign.ask("ann")
    assert offer is not None
    clock.pass_hours(2)
    campaign.outcome("ann", "yesterday", 1.0)
    assert campaign.ask("ann") == offer
    assert campaign.act("ann", offer.arm, "today").outcome == "paid"


def test_accepting_prolongs_a_short_reservation(url: str, clock: Clock) -> None:
    campaign = create(url, clock, accept_within="15 minutes", offer_lasts="1 day", **ORDERED)
    offer = campaign.ask("ann")
    assert offer is not None
    assert not offer.accepted
    clock.pass_hours(0.2)
    found = campaign.accept("ann", offer=offer.id)
    assert found.accepted
    assert (found.expires - offer.expires).total_seconds() == 86_400 - 180
    clock.pass_hours(10)
    assert campaign.accept("ann") == found  # another device, or again: nothing is prolonged twice
    campaign = same_after_reopening(campaign, url, clock)
    assert campaign.ask("ann") == found
    assert campaign.act("ann", offer.arm, "v1").outcome == "paid"
    with pytest.raises(errors.WrongMoment, match="no open offer"):
        campaign.accept("ann")


def test_who_does_not_accept_frees_the_budget_at_once_and_gains_nothing(url: str, clock: Clock) -> None:
    campaign = create(url, clock, accept_within="15 minutes", principal=COMPARING)
    for name in ("ann", "bob"):
        while campaign.ask(name) is None:
            campaign.tell(name, "A", 1.0)
    clock.pass_hours(0.25)
    assert (campaign.status().reserved.minor, campaign.status().lapsed) == (0, 2)
    campaign.budget("0.50 EUR")
    offer = campaign.ask("ann")
    assert offer is not None
    assert campaign.ask("bob") is None  # all of it is reserved
    clock.pass_hours(0.25)
    status = campaign.status()
    assert (status.reserved.minor, status.lapsed, status.expired, status.absent) == (0, 3, 0, 0)
    again = campaign.ask("ann")  # without a cool-down, the same arm for the same bonus
    assert again is not None
    assert (again.arm, again.bonus) == (offer.arm, offer.bonus)
    clock.pass_hours(0.25)
    assert campaign.ask("bob") is not None
    for _ in range(5):
        clock.pass_hours(0.3)
        campaign.ask("ann")
    assert campaign.status().absent == 0  # nobody is parked for looking
    assert {row.ending for row in campaign.offers()} <= {"expired", None}
    same_after_reopening(campaign, url, clock)


def test_an_offer_that_was_accepted_and_not_acted_on_expires_with_a_cool_down(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, accept_within="15 minutes", offer_lasts="2 hours", **ORDERED)
    campaign.ask("ann")
    campaign.accept("ann")
    clock.pass_hours(2)
    status = campaign.status()
    assert (status.expired, status.lapsed, status.reserved.minor) == (1, 0, 0)
    assert campaign.ask("ann") is None


def test_an_act_after_the_time_is_over_counts_and_is_not_paid(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, accept_within="15 minutes", **ORDERED)
    offer = campaign.ask("ann")
    assert offer is not None
    clock.pass_hours(0.25)
    told = campaign.act("ann", offer.arm, "v1")
    assert (told.outcome, told.paid) == (None, None)
    assert (campaign.status().observations, campaign.status().paid) == (1, 0)


@pytest.mark.parametrize(("principal", "banned"), [(BANNING, 1), (COMPARING, 0)])
def test_the_protocol_says_what_follows_a_decline(url: str, clock: Clock, principal: fp.Principal, banned: int) -> None:
    campaign = create(url, clock, principal=principal)
    offer = None
    while (offer := campaign.ask("ann")) is None:
        campaign.tell("ann", "A", 1.0)
    assert offer is not None
    campaign.decline("ann", offer=offer.id)
    campaign.decline("ann", offer=offer.id)  # again: nothing changes
    status = campaign.status()
    assert (status.refused, status.open_offers, status.reserved.minor) == (1, 0, 0)
    assert campaign.ask("ann") is None  # nor does declining bring another offer, before the agent has acted
    campaign = same_after_reopening(campaign, url, clock)
    with pytest.raises(errors.WrongMoment, match="no open offer"):
        campaign.decline("ann")
    while campaign.status().in_step:
        campaign.tell("bob", "A", 0.5)
    campaign.tell_many([(name, "A", 0.5) for name in ("bob", "cy", "bob")])
    assert campaign.status().banned == banned
    assert len(campaign.bans()) == banned


def test_what_comes_first_counts_acting_elsewhere_or_declining(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, **ORDERED)
    offer = campaign.ask("ann")
    assert offer is not None
    other = next(arm for arm in "ABC" if arm != offer.arm)
    assert campaign.act("ann", other, "v1").outcome == "refused"
    with pytest.raises(errors.WrongMoment):
        campaign.decline("ann", offer=offer.id)
    offer = campaign.ask("bob")
    assert offer is not None
    campaign.decline("bob", offer=offer.id)
    told = campaign.act("bob", offer.arm, "v1")  # he changed his mind too late
    assert (told.outcome, told.paid) == (None, None)
    assert campaign.status().refused == 2


def test_an_offer_that_was_taken_back_can_be_declined_without_consequence(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=BANNING, if_no_outcome=0.0)
    campaign.ask("ann")
    campaign.pause()
    with pytest.raises(errors.WrongMoment, match="was taken back"):
        campaign.accept("ann")
    campaign.decline("ann")
    assert (campaign.status().refused, campaign.status().cancelled) == (0, 1)


def test_a_bonus_may_wait_for_the_outcome(url: str, clock: Clock) -> None:
    campaign = create(url, clock, pay_on="outcome", outcome_within="2 days", **ORDERED)
    campaign.budget("1.00 EUR")
    offers = {name: campaign.ask(name) for name in ("ann", "bob")}
    for name, offer in offers.items():
        assert offer is not None
        told = campaign.act(name, offer.arm, "v1")
        assert (told.outcome, told.offer, told.paid) == (None, offer.id, None)
    status = campaign.status()
    assert (status.spent.minor, status.reserved.minor, status.open_offers) == (0, 100, 0)
    assert campaign.ask("cy") is None  # the budget is bound
    with pytest.raises(errors.BudgetTooSmall):
        campaign.budget("0.50 EUR")
    campaign = same_after_reopening(campaign, url, clock)
    came = campaign.outcome("ann", "v1", 0.5)
    assert (came.outcome, str(came.paid)) == ("paid", "0.50 EUR")
    assert campaign.outcome("ann", "v1", 0.5) == came
    clock.pass_hours(48)
    status = campaign.status()
    assert (status.spent.minor, status.reserved.minor, status.never_came, status.cancelled) == (50, 0, 1, 1)
    with pytest.raises(errors.WrongMoment, match="awaited for 2 days, and counts as 0"):
        campaign.outcome("bob", "v1", 0.5)
    assert [row.ending for row in campaign.offers()] == ["paid", "cancelled"]
    assert len(campaign.ledger()) == 1
    same_after_reopening(campaign, url, clock)


def test_a_tell_is_act_and_outcome_in_one_also_where_outcomes_are_paid(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, pay_on="outcome", **ORDERED)
    offer = campaign.ask("ann")
    assert offer is not None
    assert campaign.tell("ann", offer.arm, 0.5).outcome == "paid"


def test_what_was_agreed_counts_where_no_outcome_comes(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=EACH, if_no_outcome=0.25, outcome_within="1 hour")
    campaign.act("ann", "A", "v1")
    clock.pass_hours(1)
    assert campaign.status().never_came == 1
    assert sums(campaign)[0][0] == 0.25
    assert "does not come within 1 hour counts as 0.25" in str(campaign.verdict().rests_on)
    same_after_reopening(campaign, sqlite, clock)


def test_a_missing_outcome_stays_at_its_worst(url: str, clock: Clock) -> None:
    campaign = create(url, clock, principal=COMPARING, outcome_within="1 hour", if_no_outcome="missing")
    campaign.ask("ann")
    campaign.act("ann", "A", "v1")
    rule: Any = campaign.core.writer.decider.state.trial.rule
    plus, minus = rule.book.plus.copy(), rule.book.minus.copy()
    clock.pass_hours(1)
    assert campaign.status().never_came == 1
    assert (rule.book.plus == plus).all()
    assert (rule.book.minus == minus).all()
    assert rule.compared()[0] is None
    grounds = str(campaign.verdict().rests_on)
    assert "counts as its worst" in grounds
    assert "did not know its outcome yet" in grounds
    campaign.ask("ann")
    campaign.tell("ann", "A", 1.0)  # no replacement: the comparison has had its pull of A
    assert (rule.book.plus == plus).all()
    same_after_reopening(campaign, url, clock)


def test_under_comparisons_outcomes_may_come_in_any_order(url: str, clock: Clock) -> None:
    """Everybody asks, acts on every arm, and outcomes come last first: the book is that of pulls told at once."""
    late = create(url, clock, principal=COMPARING, agents=20, checks=False)
    prompt = create(url if url.startswith("postgres") else url + "2", clock, name="prompt", principal=COMPARING,
                    agents=20, checks=False)  # fmt: skip
    for lap in range(3):
        acts = []
        for agent in range(20):
            for arm in range(3):
                reward = float((agent + arm + lap) % 3 == 0)
                late.ask(agent)
                prompt.ask(agent)
                late.act(agent, arm, f"{lap}.{arm}")
                prompt.tell(agent, arm, reward)
                acts.append((agent, f"{lap}.{arm}", reward))
        late = reopen(late, url, clock)
        for act in reversed(acts):
            late.outcome(*act)
    ours, theirs = (it.core.writer.decider.state.trial.rule.book for it in (late, prompt))  # type: ignore[attr-defined]
    assert ours.counts[0, 0] == theirs.counts[0, 0] > 20  # as many were opened, though outcomes were under way
    assert (ours.came.sum(axis=1) == theirs.came.sum(axis=1)).all()
    assert (ours.sums.sum(axis=1) == theirs.sums.sum(axis=1)).all()


def test_nobody_is_paid_for_what_it_would_do_anyway_because_outcomes_are_late(sqlite: str, clock: Clock) -> None:
    """Whoever tries one arm after the other is not taken for somebody who repeats the first."""
    campaign = create(sqlite, clock, principal=COMPARING)
    for arm in "ABC":
        assert campaign.ask("ann") is None
        campaign.act("ann", arm, f"first {arm}")
    same_after_reopening(campaign, sqlite, clock)


def test_a_pull_made_before_an_opening_never_fills_it(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=COMPARING)
    rule: Any = campaign.core.writer.decider.state.trial.rule
    for arm in "ABC":  # the first comparison is complete when its pulls are made
        campaign.ask("ann")
        campaign.act("ann", arm, f"first {arm}")
    campaign.ask("ann")  # opens the second
    assert rule.opened == 2
    campaign.outcome("ann", "first A", 1.0)
    assert rule.book.lacks[0].tolist() == [1, 1, 1]
    assert rule.book.came[0, 0, 0] > 0
    assert rule.book.came[0, 1, 0] == 0


def test_checks_hear_nothing_of_who_has_an_outcome_under_way(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, principal=COMPARING)
    campaign.ask("ann")
    campaign.act("ann", "A", "v1")
    before = kinds(campaign).count(Kind.ASKED)
    for _ in range(3):
        campaign.ask("ann")
    assert kinds(campaign).count(Kind.ASKED) == before + 1  # the rule hears it, once
    campaign.tell("ann", "B", 0.0)
    campaign.outcome("ann", "v1", 1.0)
    why = campaign.status().checks[-1].why
    assert why.startswith("2 pulls were reported")
    assert "0 came without an ask" in why
    same_after_reopening(campaign, sqlite, clock)


def test_a_rule_that_needs_every_reward_says_so(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock)
    with pytest.raises(errors.WrongMoment, match="without if_no_outcome"):
        campaign.act("ann", "A", "v1")
    for settings, words in (
        ({"if_no_outcome": "missing"}, "must be a reward with rules.Certified"),
        ({"if_no_outcome": 2.0}, "if_no_outcome must be"),
        ({"if_no_outcome": "zero"}, "if_no_outcome must be a reward"),
        ({"pay_on": "never"}, "pay_on must be"),
        ({"outcome_within": "31 days"}, "at most as long as remembers"),
        ({"accept_within": "2 days"}, "at most as long as offer_lasts"),
    ):
        with pytest.raises(errors.InvalidInput, match=words):
            create(sqlite, clock, name="other", **settings)


def test_late_joiners_who_count_find_acts_as_they_were(url: str, clock: Clock) -> None:
    campaign = create(url, clock, late_joiners="count", **ORDERED)
    campaign.act("ann", "A", "v1")
    campaign.act("ann", "A", "v2")
    campaign.outcome("ann", "v2", 1.0)
    campaign.add_agents(["dan"])
    campaign.outcome("ann", "v1", 0.5)
    assert sums(campaign)[0][0] == 1.5
    same_after_reopening(campaign, url, clock)


def test_late_joiners_who_are_observed_may_act(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, **ORDERED)
    campaign.add_agents(["dan"])
    campaign.act("dan", "A", 1)
    campaign.outcome("dan", 1, 0.5)
    assert (campaign.status().observed_only, campaign.status().observations) == (1, 0)
    same_after_reopening(campaign, sqlite, clock)


def test_outcomes_of_who_has_left_are_paid_and_no_longer_count(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, leavers="independent", pay_on="outcome", **ORDERED)
    offer = campaign.ask("ann")
    assert offer is not None
    campaign.act("ann", offer.arm, "v1")
    campaign.leave("ann")
    assert campaign.outcome("ann", "v1", 0.5).outcome == "paid"
    with pytest.raises(errors.AgentHasLeft):
        campaign.act("ann", "A", "v2")
    same_after_reopening(campaign, sqlite, clock)


def test_after_the_end_outcomes_of_earlier_acts_are_still_told(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, pay_on="outcome", **ORDERED)
    offers = {name: campaign.ask(name) for name in ("ann", "bob")}
    ann, bob = offers["ann"], offers["bob"]
    assert ann is not None
    assert bob is not None
    campaign.act("ann", ann.arm, "v1")
    campaign.stop()
    campaign.act("bob", bob.arm, "v1")  # on its way, and still paid
    with pytest.raises(errors.WrongMoment, match="has stopped"):
        campaign.act("cy", "A", "v1")
    assert [campaign.outcome(name, "v1", 1.0).outcome for name in ("ann", "bob")] == ["paid", "paid"]
    same_after_reopening(campaign, sqlite, clock)


def test_in_rounds_an_act_takes_the_turn(sqlite: str, clock: Clock) -> None:
    campaign = create(sqlite, clock, mode="rounds", **ORDERED)
    campaign.act("ann", "A", "v1")
    with pytest.raises(errors.OutOfTurn):
        campaign.act("ann", "B", "v2")
    campaign.tell_many([("bob", "A", 0.5), ("cy", "A", 0.5)])
    assert campaign.status().step == 1
    campaign.outcome("ann", "v1", 0.5)
    same_after_reopening(campaign, sqlite, clock)


def test_exports_have_every_pull_with_the_reward_that_came(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    campaign = create(sqlite, clock, pay_on="outcome", outcome_within="1 hour", principal=EACH, if_no_outcome=0.125)
    offer = campaign.ask("bob")
    assert offer is not None
    campaign.act("ann", "A", "v1")
    clock.pass_hours(1)
    campaign.act("bob", offer.arm, "v1")
    campaign.act("cy", "B", "v1")
    campaign.tell("cy", "A", 0.75)
    campaign.outcome("bob", "v1", 0.5)
    assert campaign.export(tmp_path / "pulls.parquet") == 4
    frame = pl.read_parquet(tmp_path / "pulls.parquet")
    assert frame["reward"].to_list() == [0.125, 0.5, None, 0.75]
    assert frame["outcome"].to_list() == [None, "paid", None, None]


def test_a_rehearsal_is_closed_to_acts(sqlite: str, clock: Clock) -> None:
    from freepull.campaigns.rehearsal import play

    campaign = create(sqlite, clock, started=False, agents=2, arms=2, **ORDERED)
    campaign.start()
    play(campaign, fp.Game([[0.2, 0.8]] * 2), steps=3)
    with pytest.raises(errors.WrongMoment, match="rehearsal"):
        campaign.act(0, 0, "v1")
