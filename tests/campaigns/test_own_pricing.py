"""A pricing of one's own in a campaign: named in the log, made again from it, refused where it could not be."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import freepull as fp
from freepull import errors, registry
from freepull.campaigns.journal.recovery import segments, verify
from freepull.campaigns.settings import Settings
from freepull.client import talks
from freepull.money import Money
from freepull.server.problems import problem
from support.staging import OPENED, Clock, reopen, same_after_reopening

AGENTS = ["ann", "bob", "cy", "dan"]
MINE = """
from dataclasses import dataclass

from freepull.principal.pricing import Compensate, Fixed, Posted

MADE = []


@dataclass(frozen=True)
class ByPulls:
    base: float = 0.303
    steps: tuple[float, ...] = (0.1, 0.2)

    def price(self, quote):
        return self.base + self.steps[quote.arm % 2] / (1 + quote.pulls[quote.arm])


class Kept:
    def __init__(self, amount, more=None):
        self.amount, self.more = amount, more

    def price(self, quote):
        return self.amount


class Kind(Compensate):
    def price(self, quote):
        return super().price(quote) + 0.01


class Forgetful:
    def __init__(self, amount):
        self.amount = amount
        self.shown = amount

    def price(self, quote):
        return self.shown


class LessLater:
    def __init__(self, amount):
        self.amount = amount
        self.later = 0.1

    def price(self, quote):
        return self.amount if quote.taken == 0 else self.later


class Counting:
    def __init__(self):
        self.asked = 0

    def price(self, quote):
        self.asked += 1
        return self.asked / 10


class Lost:
    def __init__(self, amount):
        self._amount = amount

    def price(self, quote):
        return self._amount


class Sometimes:
    def price(self, quote):
        if sum(quote.pulls) > 45 and quote.pulls[0] > 40:
            raise KeyError("nobody knows")
        return 0.2


class Dear:
    def price(self, quote):
        return 2e7 if sum(quote.pulls) > 45 and quote.pulls[0] > 40 else 0.2


class Outer:
    class Inner:
        def price(self, quote):
            return 0.2


class Dearer(Fixed):
    def price(self, quote):
        return 2 * self.amount


class Rising(Posted):
    def price(self, quote):
        return 0.7


class Moody:
    moods = []

    def price(self, quote):
        return self.moods.pop() if self.moods else 0.2


class Loud:
    def price(self, quote):
        return 0.2

    def __repr__(self):
        raise ValueError("no\\nwords.")


class Leaving:
    def price(self, quote):
        if sum(quote.pulls) > 45 and quote.pulls[0] > 40:
            raise SystemExit(3)
        return 0.2


class Trap:
    def __init__(self, words):
        MADE.append(words)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "shop_prices.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("shop_prices")
    sys.modules.pop("shop_prices", None)


def principal(pricing: Any, **more: Any) -> fp.Principal:
    parts: dict[str, Any] = {"observe": fp.observe.Steps(0), "protocol": fp.protocols.NeverBan(), "offers": "each"}
    return fp.Principal(fp.rules.Certified(0.05), pricing=pricing, **parts | more)


def create(url: str, clock: Clock, pricing: Any, name: str = "onboarding", **more: Any) -> fp.Campaign:
    campaign = fp.Campaign.create(
        url, name=name, arms=["A", "B", "C"], agents=AGENTS, price="0.50 EUR", principal=principal(pricing, **more),
        horizon=100, clock=clock,
    )  # fmt: skip
    OPENED.append(campaign)
    campaign.start()
    return campaign


def play(campaign: fp.Campaign, rounds: int) -> list[Money]:
    """Let everybody take what is offered; return what was paid."""
    paid = []
    for _ in range(rounds):
        for agent in AGENTS:
            offer = campaign.ask(agent)
            arm = "A" if offer is None else offer.arm
            told = campaign.tell(agent, arm, [0.9, 0.4, 0.1]["ABC".index(arm)])
            assert told.paid == (None if offer is None else offer.bonus)
            paid += [] if offer is None else [offer.bonus]
    return paid


def forget() -> None:
    """Let a module be as in a process that has not imported it."""
    sys.modules.pop("shop_prices", None)


def test_it_opens_verifies_restores_and_continues_as_if_it_had_never_been_closed(
    url: str, clock: Clock, mine: Any
) -> None:
    campaign = create(url, clock, mine.ByPulls(0.123))
    paid = play(campaign, 4)
    assert len(set(paid)) > 1, "prices differ"
    campaign = same_after_reopening(campaign, url, clock)
    paid += play(campaign, 3)
    forget()
    campaign = reopen(campaign, url, clock)
    paid += play(campaign, 2)
    kept = campaign.settings.principal.pricing
    assert (type(kept).__name__, registry.encode(kept)) == (
        "ByPulls",
        {"part": "shop_prices:ByPulls", "base": 0.123, "steps": [0.1, 0.2]},
    )
    assert [it.amount for it in campaign.ledger()] == paid
    spent = Money(sum(it.minor for it in paid), "EUR")
    assert campaign.status().spent == spent
    assert campaign.status().pricing.startswith("ByPulls(base=0.123")
    campaign.close()
    forget()
    assert verify(url, "onboarding").spent == spent
    uninterrupted = create(url, clock, importlib.import_module("shop_prices").ByPulls(0.123), "another")
    assert play(uninterrupted, 9) == paid


def test_the_log_names_the_class_with_its_parameters(sqlite: str, clock: Clock, mine: Any) -> None:
    campaign = create(sqlite, clock, mine.Kept(0.3, {"a": [1, None]}))
    (first,) = (it.more[0]["principal"] for it in segments(campaign.core.store, "onboarding") if it.number == 0)
    assert first["pricing"] == {"part": "shop_prices:Kept", "amount": 0.3, "more": {"a": [1, None]}}
    assert registry.encode(Settings.decode(campaign.settings.encode()).principal.pricing) == first["pricing"]


def test_prices_are_rounded_up_to_a_cent_and_the_budget_caps_the_sum_to_the_cent(
    sqlite: str, clock: Clock, mine: Any
) -> None:
    campaign = create(sqlite, clock, mine.Kept(0.303), budget=2.0)
    assert set(play(campaign, 9)) == {Money(math.ceil(0.303 * 50), "EUR")}
    status = campaign.status()
    assert status.budget == Money(100, "EUR")
    assert status.spent == Money(96, "EUR")
    campaign.budget("1.11 EUR")
    assert not play(reopen(campaign, sqlite, clock), 3), "the next would need 1.12 EUR"
    OPENED[-1].budget("1.12 EUR")
    assert play(OPENED[-1], 3) == [Money(16, "EUR")]
    free = create(sqlite, clock, mine.Kept(0.0), "free")
    assert set(play(free, 2)) == {Money(1, "EUR")}


def test_one_that_extends_a_pricing_of_ours_is_ones_own(sqlite: str, clock: Clock, mine: Any) -> None:
    campaign = create(sqlite, clock, mine.Kind(margin=0.02, most=0.5))
    paid = play(campaign, 4)
    forget()
    campaign = reopen(campaign, sqlite, clock)
    assert type(campaign.settings.principal.pricing).__name__ == "Kind"
    assert [it.amount for it in campaign.ledger()] == paid


@pytest.mark.parametrize(("name", "cents"), [("Dearer", 30), ("Rising", 35)])
def test_one_that_extends_what_the_engines_know_has_its_own_prices(
    sqlite: str, clock: Clock, mine: Any, name: str, cents: int
) -> None:
    made = mine.Dearer(0.3) if name == "Dearer" else mine.Rising()
    campaign = create(sqlite, clock, made)
    assert set(play(campaign, 3)) == {Money(cents, "EUR")}
    same_after_reopening(campaign, sqlite, clock)


def test_what_fits_the_budget_is_what_is_offered_whatever_the_pricing_says_next(
    sqlite: str, clock: Clock, mine: Any
) -> None:
    campaign = create(sqlite, clock, mine.Moody(), budget=0.5)  # 0.25 EUR
    mine.Moody.moods[:] = [0.9, 0.9, 0.3]
    offer = campaign.ask("ann")
    status = campaign.status()
    assert offer is not None
    assert offer.bonus == status.reserved == Money(15, "EUR")
    assert campaign.ask("bob") is None, "0.9 does not fit"
    mine.Moody.moods.clear()


def test_a_class_that_was_changed_is_named_when_the_log_has_other_prices(url: str, clock: Clock, mine: Any) -> None:
    campaign = create(url, clock, mine.Kept(0.3))
    play(campaign, 2)
    campaign.close()
    price, mine.Kept.price = mine.Kept.price, lambda self, quote: 0.4
    said = r"^event \d+ of campaign 'onboarding' cannot be replayed .* pays 20 .* not 15; bring shop_prices:Kept back"
    for look in (lambda: fp.Campaign.open(url, "onboarding", clock=clock), lambda: verify(url, "onboarding")):
        with pytest.raises(errors.OwnPartError, match=said) as caught:
            look()
        assert problem(caught.value).remedy == "Install or mend that part on the server."
    mine.Kept.price = price
    assert verify(url, "onboarding").entries == 8


def test_opening_without_the_class_is_a_sentence_and_harms_nothing(
    url: str, clock: Clock, mine: Any, tmp_path: Path
) -> None:
    campaign = create(url, clock, mine.ByPulls())
    paid = play(campaign, 2)
    campaign.close()
    forget()
    (tmp_path / "shop_prices.py").rename(tmp_path / "elsewhere.py")
    said = (
        r"^campaign 'onboarding' cannot be read: principal.pricing.part shop_prices:ByPulls cannot be imported "
        r"\(ModuleNotFoundError: No module named 'shop_prices'\); it must be installed, or its folder be in "
        r"PYTHONPATH\.$"
    )
    for look in (lambda: fp.Campaign.open(url, "onboarding", clock=clock), lambda: verify(url, "onboarding")):
        with pytest.raises(errors.OwnPartError, match=said) as caught:
            look()
        told = problem(caught.value)
        assert told.status == 500
        assert "shop_prices" not in told.detail
    (tmp_path / "shop_prices.py").write_text(MINE.replace("def price", "def cost"))
    with pytest.raises(errors.OwnPartError, match=r"must be a class with a method price, got shop_prices:ByPulls"):
        fp.Campaign.open(url, "onboarding", clock=clock)
    forget()
    (tmp_path / "shop_prices.py").write_text(MINE.replace("base: float", "start: float").replace("self.base", "0.3"))
    importlib.invalidate_caches()
    with pytest.raises(errors.OwnPartError, match=r"cannot be read: the parameter of principal.pricing .* got 'base'"):
        fp.Campaign.open(url, "onboarding", clock=clock)
    forget()
    (tmp_path / "shop_prices.py").write_text(MINE)
    importlib.invalidate_caches()
    campaign = fp.Campaign.open(url, "onboarding", clock=clock)
    OPENED.append(campaign)
    assert [it.amount for it in campaign.ledger()] == paid


def test_a_log_has_nothing_else_made(sqlite: str, clock: Clock, mine: Any) -> None:
    plain = create(sqlite, clock, mine.Kept(0.3)).settings.encode()
    with pytest.raises(errors.OwnPartError, match="must be a class with a method price, got shop_prices:Trap"):
        Settings.decode(
            plain | {"principal": plain["principal"] | {"pricing": {"part": "shop_prices:Trap", "words": 1}}}
        )
    assert mine.MADE == []
    trap: dict[str, Any] = {"part": "not_there:Trap"}
    for name in ("rule", "observe", "protocol"):
        with pytest.raises(errors.InvalidInput, match="because a campaign's log has to name it, got 'not_there:Trap'"):
            Settings.decode(plain | {"principal": plain["principal"] | {name: trap}})


def test_a_log_names_no_module_of_pythons_and_no_program(sqlite: str, clock: Clock, mine: Any, tmp_path: Path) -> None:
    plain = create(sqlite, clock, mine.Kept(0.3)).settings.encode()
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__main__.py").write_text("raise KeyboardInterrupt")
    for module in ("this", "idlelib.idle", "shop.__main__", "freepull.__main__"):
        sys.modules.pop(module, None)
        named = {"pricing": {"part": f"{module}:Prices"}}
        with pytest.raises(errors.OwnPartError, match=f"none of Python's and no program, got {module}:Prices"):
            Settings.decode(plain | {"principal": plain["principal"] | named})
        assert module not in sys.modules


def test_a_module_that_leaves_when_it_is_imported_takes_nobody_along(
    sqlite: str, clock: Clock, mine: Any, tmp_path: Path
) -> None:
    create(sqlite, clock, mine.Kept(0.3)).close()
    forget()
    (tmp_path / "shop_prices.py").write_text("import sys\nsys.exit(2)")
    importlib.invalidate_caches()
    with pytest.raises(errors.OwnPartError, match=r"shop_prices:Kept cannot be imported \(SystemExit: 2\); it must be"):
        fp.Campaign.open(sqlite, "onboarding", clock=clock)


def test_what_could_not_be_read_back_is_refused_when_the_campaign_is_made(
    sqlite: str, clock: Clock, mine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Local:
        def price(self, quote: Any) -> float:
            return 0.3

    script = ModuleType("__main__")
    exec("class Typed:\n    def price(self, quote):\n        return 0.3", vars(script))
    monkeypatch.setitem(sys.modules, "__main__", script)
    old = mine.Kept(0.2)
    forget()
    new = importlib.import_module("shop_prices")
    at_the_top = "must be of a class Name at the top of a module that can be imported"
    for pricing, said in (
        (Local(), f"{at_the_top}, .* got .*<locals>.Local; move it there"),
        (script.Typed(), f"{at_the_top}, .* got __main__:Typed; move it there"),
        (new.Outer.Inner(), f"{at_the_top}, .* got shop_prices:Outer.Inner; move it there"),
        (old, "must be of the class that shop_prices:Kept is when it is imported"),
        (new.Lost(0.2), "must keep its parameter amount as an attribute .* got no attribute amount"),
        (new.Kept(0.2, more=print), "must keep its parameter more as an attribute .* got <built-in function print>"),
        (new.Kept(0.2, more=[{1}]), r"must keep its parameter more as an attribute .* got \[\{1\}\]"),
        (new.Kept(0.2, more=1 << 64), "as an attribute that is a number of at most 64 bits"),
        (new.Kept(0.2, more="\ud800"), "must keep its parameter more as an attribute .* a text"),
        (new.Kept(0.2, more={"\ud800": 1}), "must keep its parameter more as an attribute"),
        (new.Loud(), "must be a pricing that can be shown, got ValueError: no words from Loud; mend its __repr__"),
        (new.Counting(), "must have the same price for the same quote whenever it is asked"),
        (new.Kept(-0.1), "Kept.price must be a number in "),
        (new.Kept(float("nan")), "Kept.price must be a number in "),
        (new.Kept("free"), "Kept.price must be a number in "),
        (new.Kept(1e6 + 1), "Kept.price must be a number in "),
    ):
        with pytest.raises(errors.InvalidInput, match=said):
            create(sqlite, clock, pricing)
    forgetful = new.Forgetful(0.2)
    forgetful.shown = 0.4
    with pytest.raises(errors.OwnPartError, match=r"made again from the log .* got 0\.20 EUR and then 0\.10 EUR"):
        create(sqlite, clock, forgetful)
    less = new.LessLater(0.2)
    less.later = 0.4
    with pytest.raises(errors.OwnPartError, match=r"got 0\.20 EUR and then 0\.05 EUR for Quote\(.*taken=[1-9]"):
        create(sqlite, clock, less)
    assert create(sqlite, clock, new.Forgetful(0.2)).status().pricing == "<shop_prices.Forgetful object>"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Sometimes", r"Sometimes\.price must return a number, got KeyError: 'nobody knows' for Quote\(agent=0, arm=1"),
        ("Leaving", r"Leaving\.price must return a number, got SystemExit: 3 for Quote\(agent=0, arm=1"),
        ("Dear", r"Dear\.price must be a number in \[0, 1e\+06\], got 20000000.0"),
    ],
)
def test_one_that_fails_later_fails_that_ask_and_nothing_else(
    sqlite: str, clock: Clock, mine: Any, name: str, said: str
) -> None:
    campaign = create(sqlite, clock, getattr(mine, name)(), observe=fp.observe.Steps(50))
    for t in range(60):
        for agent in AGENTS:
            if agent != "cy" or t < 40:
                campaign.tell(agent, "A" if agent in ("ann", "cy") or t % 2 else "BC"[t // 2 % 2], 0.5)
    for _ in range(2):
        with pytest.raises(errors.OwnPartError, match=said):
            campaign.ask("ann")
    before = campaign.status()
    assert (before.spent.minor, before.reserved.minor) == (0, 0)
    offer = campaign.ask("cy")
    assert offer is not None
    assert campaign.tell("cy", offer.arm, 0.5).paid == Money(10, "EUR")
    campaign = same_after_reopening(campaign, sqlite, clock)
    assert campaign.tell("ann", "B", 0.5).paid is None


def test_it_never_goes_over_http(mine: Any) -> None:
    with pytest.raises(errors.InvalidInput, match="freepull's own parts, because messages have to name them, got Kept"):
        talks.create({"principal": principal(mine.Kept(0.3))})
    forget()
    with pytest.raises(errors.InvalidInput, match=r"got 'shop_prices:Kept'; parts of your own are for simulations and"):
        registry.build("principal", {"pricing": {"part": "shop_prices:Kept", "amount": 0.3}}, "principal")
    assert "shop_prices" not in sys.modules
