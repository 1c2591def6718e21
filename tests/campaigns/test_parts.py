"""The small parts: money, durations, segments, and what a campaign asks of a trial beyond the paper."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull import errors, registry
from freepull.campaigns.journal import events as segments
from freepull.campaigns.journal.events import RECORD, pulls
from freepull.campaigns.settings import Settings, lasting, moment, shown
from freepull.errors import Corrupt, InvalidInput, NewerVersion
from freepull.money import Money
from freepull.principal.rules.base import RULES
from support.staging import Clock, create


@pytest.mark.parametrize(
    ("text", "minor", "back"),
    [
        ("0.50 EUR", 50, "0.50 EUR"),
        ("12EUR", 1200, "12.00 EUR"),
        ("7.1 USD", 710, "7.10 USD"),
        ("1250 JPY", 1250, "1250 JPY"),
        ("1.234 KWD", 1234, "1.234 KWD"),
        ("1.230 EUR", 123, "1.23 EUR"),
    ],
)
def test_money_is_whole_minor_units(text: str, minor: int, back: str) -> None:
    money = Money.parse("price", text)
    assert (money.minor, str(money)) == (minor, back)


@pytest.mark.parametrize(
    "text", ["1.5 JPY", "0.505 EUR", "EUR", "1 eur", "-1 EUR", "1e3 EUR", "١ EUR", 1.5, None, "1 €"]
)
def test_wrong_money_is_refused(text: Any) -> None:
    with pytest.raises(InvalidInput, match="price must"):
        Money.parse("price", text)


def test_durations_and_times() -> None:
    assert lasting("x", "90 seconds") == lasting("x", timedelta(minutes=1.5)) == 90 * 10**6
    assert lasting("x", "2 weeks") == 14 * lasting("x", "1 day")
    for wrong in ("0 days", "-1 day", "1 fortnight", "day", 5, "1e9 days", timedelta(0)):
        with pytest.raises(InvalidInput, match="x must be a duration"):
            lasting("x", wrong)
    assert shown(moment("x", "2030-01-31T12:00+00:00")) == datetime(2030, 1, 31, 12, tzinfo=UTC)
    for other in ("2030-01-31T12:00", datetime(2030, 1, 1), 5, "soon"):
        with pytest.raises(InvalidInput, match="x must be a time with a time zone"):
            moment("x", other)


def test_a_segment_comes_back_as_it_was() -> None:
    records = pulls([1, 2**32 - 1], [0, 65_535], [0, 1 << 30], -5)
    data, checksum = segments.pack(3, 100, records, {1: {"by": "é", "n": [1, None]}}, 77)
    segment = segments.unpack(data, 3, 100, 77)
    assert np.array_equal(segment.records, records)
    assert (segment.more, segment.checksum, RECORD.itemsize) == ({1: {"by": "é", "n": [1, None]}}, checksum, 24)


def test_every_flipped_bit_and_every_other_place_is_found() -> None:
    data, _ = segments.pack(3, 100, pulls([1, 2], [0, 1], [5, 6], 7), {0: {"x": 1}}, 77)
    rng = random.Random(0)
    for place in range(len(data)):
        broken = bytearray(data)
        broken[place] ^= 1 << rng.randrange(8)
        with pytest.raises(Corrupt, match="segment 3 of the log"):
            segments.unpack(bytes(broken), 3, 100, 77)
    for cut in range(len(data)):
        with pytest.raises(Corrupt):
            segments.unpack(data[:cut], 3, 100, 77)
    for number, first, before in ((4, 100, 77), (3, 101, 77), (3, 100, 78)):
        with pytest.raises(Corrupt, match="is not the one that followed"):
            segments.unpack(data, number, first, before)


def test_a_segment_of_a_newer_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(segments, "VERSION", 2)
        data, _ = segments.pack(0, 0, pulls([1], [0], [5], 7), {}, 0)
    with pytest.raises(NewerVersion, match="has format 2, this freepull knows 1"):
        segments.unpack(data, 0, 0, 0)


@pytest.mark.parametrize(
    "principal",
    [
        fp.Principal(),
        fp.Principal(fp.rules.Certified(0.01, gap=0.1, design=fp.rules.Design(forecast=fp.rules.Forecast()))),
        fp.Principal(fp.rules.Certified(0.1, epsilon=0.02), fp.observe.KnownGap(0.1)),
        fp.Principal(fp.rules.Paper(0.1, "simplified", 0.1), fp.observe.Adaptive(2.0), fp.protocols.BanFor(3)),
        fp.Principal(fp.rules.Population(0.1)),
        fp.Principal(fp.rules.Population(0.1, pulls=7), fp.observe.Root(), fp.protocols.BanAfter(2), budget=3.5),
        fp.Principal(fp.rules.Passive(), fp.observe.Steps(4), fp.protocols.NeverBan(), "each", 2.0, 10),
    ],
)
def test_a_principal_comes_back_as_it_was(principal: fp.Principal) -> None:
    assert registry.build("principal", registry.encode(principal, own=False), "principal") == principal


def test_settings_of_newer_rules_are_refused() -> None:
    with pytest.raises(NewerVersion, match=f"was created under rules of version {RULES + 1}"):
        Settings.decode({"name": "x", "rules": RULES + 1})


EACH = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="each", budget=2)
ONE = fp.Principal(fp.rules.Certified(0.05), observe=fp.observe.Steps(0), offers="one")


@pytest.mark.parametrize("takes", [True, False])
def test_a_recalled_offer_is_paid_if_taken_no_refusal_if_not_and_keeps_its_money(takes: bool) -> None:
    trial = EACH.start(arms=2, agents=3)
    offer = trial.ask(0)
    assert offer is not None
    trial.recall(0)
    assert trial.ask(0) is None
    assert trial.ask(1) is not None
    assert trial.ask(2) is None
    assert trial.tell(0, offer.arm if takes else 1 - offer.arm, 0.5) == ("paid" if takes else None)
    trial.end_step()
    assert (trial.refused, trial.banned, trial.paid_total) == (0, 0, int(takes))


def test_a_recalled_offer_does_not_take_the_one_place() -> None:
    trial = ONE.start(arms=2, agents=2)
    assert trial.ask(0) is not None
    trial.end_step()
    assert trial.ask(1) is None
    trial.recall(0)
    trial.end_step()
    assert trial.ask(1) is not None


def test_cancelling_a_recalled_offer_leaves_nothing_behind() -> None:
    trial = EACH.start(arms=2, agents=1)
    trial.ask(0)
    trial.recall(0)
    trial.cancel(0)
    trial.end_step()
    offer = trial.ask(0)
    assert offer is not None
    assert trial.tell(0, 1 - offer.arm, 0.5) == "refused"


def test_whoever_rests_gets_no_new_offer() -> None:
    trial = EACH.start(arms=2, agents=2)
    trial.resting = {0}
    trial.end_step()
    assert (trial.ask(0), trial.ask(1) is None) == (None, False)
    trial.resting = set()
    trial.end_step()
    assert trial.ask(0) is not None


def test_a_ban_can_be_lifted_and_a_budget_changed() -> None:
    trial = EACH.start(arms=2, agents=2)
    offer = trial.ask(0)
    assert offer is not None
    trial.tell(0, 1 - offer.arm, 0.5)
    trial.end_step()
    assert trial.ask(0) is None
    trial.unban(0)
    trial.end_step()
    assert trial.ask(0) is not None
    trial.afford(1)
    assert trial.ask(1) is None
    trial.afford(None)
    assert trial.ask(1) is not None


@pytest.mark.parametrize(
    ("rule", "withdrawal", "goes"),
    [
        (fp.rules.Certified(0.05), False, 20.0),
        (fp.rules.Comparisons(0.05), True, 120.0),
        (fp.rules.Population(0.05), False, 40.0),
        (fp.rules.Passive(), False, None),
    ],
)
def test_the_number_on_the_screen_is_the_one_that_stops_the_trial(
    rule: fp.rules.Rule, withdrawal: bool, goes: float | None
) -> None:
    trial = fp.Principal(rule, observe=fp.observe.Steps(0)).start(arms=3, agents=2, withdrawal=withdrawal)
    assert trial.rule.goes_at == (None if goes is None else pytest.approx(goes))


def test_what_could_never_work_is_refused_before_it_is_made(sqlite: str, clock: Clock) -> None:
    for more, told in (
        ({"ends": "2020-01-01T00:00+00:00"}, "ends must be a time to come"),
        ({"price": "1000000000 JPY", "principal": fp.Principal(budget=10**8)}, "budget must be at most"),
        ({"arms": ["A", "'B"]}, "begin with an apostrophe"),
    ):
        with pytest.raises(errors.InvalidInput, match=told):
            create(sqlite, clock, **more)
    with create(sqlite, clock) as campaign, pytest.raises(errors.InvalidInput, match="observations must be a list"):
        campaign.tell_many(5)  # type: ignore[arg-type]
    with pytest.raises(errors.StoreError, match="is closed"):
        campaign.ledger()
