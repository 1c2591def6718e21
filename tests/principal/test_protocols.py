"""Protocols: from when to when a refusal bans, and that bans decide who is asked."""

from __future__ import annotations

from typing import Any

import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal.protocols import BanAfter, BanFor, BanProtocol, NeverBan, TakeOrBan
from support.drive import assert_sentence, paper, step


def offers_to_a_refuser(protocol: BanProtocol, steps: int, takes: tuple[int, ...] = ()) -> list[bool]:
    """One agent who pulls arm 1 whatever is offered, except at the steps where it takes: when is it asked?"""
    principal = fp.Principal(paper(1000.0), observe=fp.observe.Steps(0), protocol=protocol)
    trial = principal.start(arms=3, agents=1, horizon=100)
    asked = []
    for t in range(1, steps + 1):
        offer = trial.ask(0)
        asked.append(offer is not None)
        wrong = 1 if offer is None or offer.arm != 1 else 2
        trial.tell(0, offer.arm if offer is not None and t in takes else wrong, 0.5)
        trial.end_step()
    assert trial.offered == sum(asked)
    return asked


def test_take_or_ban_never_asks_again() -> None:
    assert offers_to_a_refuser(TakeOrBan(), 6) == [True] + [False] * 5


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_ban_for_covers_exactly_the_next_rounds(rounds: int) -> None:
    cycle = [True] + [False] * rounds
    assert offers_to_a_refuser(BanFor(rounds), 3 * len(cycle)) == cycle * 3


@pytest.mark.parametrize("refusals", [1, 2, 5])
def test_ban_after_bans_for_ever_at_that_refusal(refusals: int) -> None:
    assert offers_to_a_refuser(BanAfter(refusals), 10) == [True] * refusals + [False] * (10 - refusals)


def test_ban_after_counts_refusals_in_total_not_in_a_row() -> None:
    assert offers_to_a_refuser(BanAfter(2), 6, takes=(2, 3)) == [True, True, True, True, False, False]


def test_never_ban_asks_for_ever() -> None:
    assert offers_to_a_refuser(NeverBan(), 10) == [True] * 10


def test_a_taker_is_never_banned() -> None:
    assert offers_to_a_refuser(TakeOrBan(), 10, takes=tuple(range(1, 11))) == [True] * 10


def test_take_or_ban_is_ban_after_one_and_the_default() -> None:
    assert [TakeOrBan().banned_until(t, 1) for t in (1, 7)] == [BanAfter(1).banned_until(t, 1) for t in (1, 7)]
    assert fp.Principal(paper()).protocol == TakeOrBan()


def test_after_a_ban_the_offer_goes_to_another_agent() -> None:
    trial = fp.Principal(paper(), observe=fp.observe.Steps(0)).start(arms=2, agents=2, horizon=100)
    assert step(trial, (1, 0.5), (0, 0.5)) == [0, None]  # agent 0 refuses arm 0
    # only agent 0 has not pulled arm 0, and is banned: that arm is skipped, arm 1 goes to agent 1
    assert step(trial, (1, 0.5), (1, 0.5)) == [None, 1]
    # arm 1 is complete, arm 0 can only be completed by the banned agent; agent 1 goes on with arm 1
    assert step(trial, (1, 0.5), (1, 0.5)) == [None, 1]
    assert (trial.refused, trial.banned, trial.paid.tolist()) == (1, 1, [[0, 0], [0, 2]])


def test_after_a_ban_a_natural_pull_still_counts() -> None:
    trial = fp.Principal(paper(1000.0), observe=fp.observe.Steps(0)).start(arms=2, agents=2, horizon=100)
    step(trial, (1, 0.5), (0, 0.5))
    step(trial, (0, 0.5), (1, 0.5))  # the banned agent pulls arm 0 for itself
    assert trial.record.unpulled == [0, 0]
    # all streams have one pull but none of arm 0 belongs to a payable agent with fewer: lowest arm, agent 1
    assert step(trial, (0, 0.5), (0, 0.5)) == [None, 0]


def test_when_all_are_banned_nobody_is_asked_and_watching_goes_on() -> None:
    principal = fp.Principal(paper(0.1), observe=fp.observe.Steps(0), offers="each")
    trial = principal.start(arms=2, agents=2, horizon=100)
    assert step(trial, (1, 0.0), (1, 0.0)) == [0, 0]
    assert trial.banned == 2
    assert step(trial, (0, 1.0), (0, 1.0)) == [None, None]
    assert trial.verdict().decided
    assert trial.verdict().arm == 0
    assert trial.spent == 0.0


def test_banned_counts_agents_once() -> None:
    principal = fp.Principal(paper(1000.0), observe=fp.observe.Steps(0), protocol=BanFor(1))
    trial = principal.start(arms=2, agents=1, horizon=100)
    for _ in range(6):
        step(trial, (1, 0.5))
    assert trial.refused == 3
    assert trial.banned == 1


def test_a_refusal_that_bans_nobody_counts_as_refusal_only() -> None:
    principal = fp.Principal(paper(), observe=fp.observe.Steps(0), protocol=NeverBan())
    trial = principal.start(arms=2, agents=1, horizon=100)
    step(trial, (1, 0.5))
    assert (trial.refused, trial.banned) == (1, 0)


@pytest.mark.parametrize("make", [lambda: BanFor(0), lambda: BanFor(1.5), lambda: BanAfter(0), lambda: BanAfter("2")])  # type: ignore[arg-type]
def test_bad_parameters_are_refused_with_a_sentence(make: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        make()
    assert "must be a whole number of at least 1" in assert_sentence(problem)
