"""Prices: what each pricing asks, what is counted and kept, and that both engines agree path by path."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal.offers import PAID, Offer
from freepull.principal.pricing import Quote
from freepull.principal.record import UNITS
from support.examples import cases

GAME = fp.instances.Family(agents=8, means=[0.4, 0.5, 0.6], sd=0.1)
ANSWERS: list[fp.answers.Answer] = [
    fp.answers.WorthAtLeast(0.0, 0.1),
    fp.answers.IfWorthIt(),
    fp.answers.Always(),
    fp.answers.WithProbability(0.7),
] * 2


class Half:
    """A pricing of one's own."""

    def price(self, quote: Quote) -> float:
        """Half of what the agent has earned with the arm on average."""
        return 0.5 * quote.sums[quote.arm] / max(quote.pulls[quote.arm], 1)


def principal(pricing: Any, rule: fp.rules.Rule | None = None, **more: Any) -> fp.Principal:
    """One who pays from the 11th step on and bans nobody."""
    parts: dict[str, Any] = {
        "observe": fp.observe.Steps(10),
        "protocol": fp.protocols.NeverBan(),
        "offers": "each",
    } | more
    return fp.Principal(rule or fp.rules.Certified(0.1), pricing=pricing, **parts)


BOTH = [fp.rules.Certified(0.1), fp.rules.Population(0.1), fp.rules.Comparisons(0.1), fp.rules.Paper(0.1, "simplified")]


@pytest.mark.parametrize("rule", cases(BOTH, 2))
def test_both_engines_pay_the_same_to_the_last_bit(rule: fp.rules.Rule) -> None:
    pricings: list[Any] = [
        fp.pricing.Compensate(),
        fp.pricing.Compensate(0.0, 1.0, 0.05, 0.6),
        fp.pricing.Posted(start=0.3),
    ]
    pricings += [fp.pricing.Posted(start=0.3), fp.pricing.BeyondNatural(0.8, share=0.7)]
    pricings += [fp.pricing.Quota(15, 0.8), fp.pricing.Capped(4, 0.3)]
    for i, pricing in enumerate(pricings):
        for offers, budget in (("one", None), ("each", 7.3)):
            told: dict[str, Any] = {
                "principal": principal(pricing, rule, offers=offers, budget=budget),
                "answers": ANSWERS,
                "activity": fp.activity.Rate(0.4) if i == 1 else None,
                "horizon": 120,
                "runs": 2,
                "seed": i,
                "keep": "agents",
                "progress": False,
            }
            readable, compiled = (fp.simulate(GAME, engine=engine, **told) for engine in ("readable", "compiled"))
            assert readable.frame.equals(compiled.frame)
            assert readable.agents is not None
            assert compiled.agents is not None
            assert readable.agents.equals(compiled.agents)
            assert readable.frame["paid"].min() > 0  # type: ignore[operator]
            if budget is not None:
                assert budget - 1 < readable.frame["spent"].max() <= budget  # type: ignore[operator]


def test_what_is_paid_is_the_sum_of_what_was_offered_and_taken() -> None:
    trial = principal(fp.pricing.Compensate(0.02), observe=fp.observe.Steps(0)).start(arms=2, agents=2, horizon=50)
    taken = 0.0
    for t in range(20):
        offers = [trial.ask(agent) for agent in range(2)]
        for agent, offer in enumerate(offers):
            arm = (t + agent) % 2
            if offer is not None and offer.arm == arm:
                taken += offer.bonus
            trial.tell(agent, arm, float((t // 3 + agent) % 2))
        trial.end_step()
        if t == 10:
            assert trial.ask(0) == trial.ask(0)
            trial = trial.principal.restore(trial.state())
    assert trial.spent == taken > 0
    assert trial.verdict().spent == taken
    received = trial.offers.payments().received()
    assert received is not None
    assert received.sum() / UNITS == taken


def test_a_compensation_makes_an_offer_worth_it_to_whoever_goes_by_the_same_record() -> None:
    told: dict[str, Any] = {"horizon": 150, "runs": 20, "progress": False}
    worth = fp.simulate(GAME, principal=principal(fp.pricing.Compensate(0.0)), answers=fp.answers.IfWorthIt(), **told)
    assert worth.frame["refused"].sum() == 0
    assert 0 < float(worth.frame["spent"].sum()) < 0.6 * float(worth.frame["paid"].sum())


def test_posted_prices_settle_where_the_share_accepts_and_one_s_own_answer_does_not_move_one_s_price() -> None:
    pricing = fp.pricing.Posted(accept=0.8, start=0.5)
    prices = principal(pricing).start(arms=2, agents=100, horizon=50).offers.prices
    assert prices is not None
    seen = prices.amount(1, 0, None, None)
    prices.answered(1, 0, taken=False)
    assert prices.amount(1, 0, None, None) == seen == prices.amount(3, 0, None, None)
    assert prices.amount(2, 0, None, None) > seen
    for n in range(20_000):  # reservation prices are even in [0, 1]: 80 % take 0.8
        reserved = (n * 0.618033988749895) % 1.0
        prices.answered(2, 1, taken=prices.amount(1, 1, None, None) / UNITS >= reserved)
    assert prices.amount(1, 1, None, None) / UNITS == pytest.approx(0.8, abs=0.03)


def test_posted_prices_rise_towards_the_end_and_a_restored_trial_goes_on_with_them() -> None:
    pricing = fp.pricing.Posted(start=0.25, gain=0.0, rush=0.5)
    trial = principal(pricing, observe=fp.observe.Steps(0)).start(arms=2, agents=2, horizon=40)
    seen = []
    for t in range(40):
        offer = trial.ask(0)
        if offer is not None:
            seen.append((t + 1, offer.bonus))
        trial.tell(0, t % 2, 0.5)
        trial.tell(1, t % 2, 0.5)
        trial.end_step()
        if t == 30:
            trial = trial.principal.restore(trial.state())
    assert {bonus for t, bonus in seen if t <= 20} == {0.25}
    late = [(t, bonus) for t, bonus in seen if t > 20]
    assert len(late) > 5
    assert all(bonus == pytest.approx(0.25 ** (1 - (t - 20) / 20), rel=1e-6) for t, bonus in late)
    endless = principal(pricing, observe=fp.observe.Steps(0)).start(arms=2, agents=2)
    first = endless.ask(0)
    assert first is not None
    assert first.bonus == 0.25


LEARNERS = [
    fp.agents.AlphaUCB(), fp.agents.KLUCB(), fp.agents.Thompson(), fp.agents.EpsilonGreedy(), fp.agents.UCBV(),
    fp.agents.MOSS(), fp.agents.RoundRobin(), fp.agents.Withholding(until=60),
]  # fmt: skip
DEFENCES = [(fp.pricing.Quota(pulls=25), None), (fp.pricing.Capped(bonuses=12), 12), (fp.pricing.BeyondNatural(), None)]


@pytest.mark.parametrize("agents", [fp.agents.AlphaUCB(), LEARNERS])
@pytest.mark.parametrize(("pricing", "most"), DEFENCES)
def test_a_defence_changes_what_is_paid_and_nothing_else(pricing: Any, most: int | None, agents: Any) -> None:
    told: dict[str, Any] = {"agents": agents, "horizon": 150, "runs": 6, "keep": "agents", "progress": False}
    plain = fp.simulate(GAME, principal=principal(None), **told)
    less = fp.simulate(GAME, principal=principal(pricing), **told)
    assert plain.frame.drop("spent").equals(less.frame.drop("spent"))
    assert 0 < float(less.frame["spent"].sum()) < float(plain.frame["spent"].sum())
    assert plain.agents is not None
    assert less.agents is not None
    full, own = plain.agents["bonus"].to_numpy(), less.agents["bonus"].to_numpy()
    assert (own <= full).all()
    if most is not None:
        assert (own == full.clip(max=most)).all()
        assert full.max() > most


def test_nobody_is_paid_for_the_first_pulls_of_an_arm_that_a_quota_asks_for() -> None:
    trial = principal(fp.pricing.Quota(6, 0.5), observe=fp.observe.Steps(0)).start(arms=2, agents=2, horizon=40)
    bonuses: dict[float, set[int]] = {0.0: set(), 0.5: set()}
    for t in range(30):
        for agent in range(2):
            offer = trial.ask(agent)
            arm = t % 2 if offer is None else offer.arm
            if offer is not None:
                bonuses[offer.bonus].add(int(trial.record.pulls[agent][arm]))
            trial.tell(agent, arm, float(t % 3 == 0))
        trial.end_step()
    assert max(bonuses[0.0]) == 5
    assert min(bonuses[0.5]) == 6


def test_a_cap_counts_what_is_paid_or_due_also_in_a_trial_that_is_restored() -> None:
    trial = principal(fp.pricing.Capped(bonuses=2), observe=fp.observe.Steps(0)).start(arms=2, agents=2, horizon=40)
    for t in range(3):
        offers = trial.offers
        if t == 2:
            assert offers.ask(0, 1) == Offer(0, 1, 0.0)
            assert offers.cancel(0) is not None
            offers.finish(1, paid=False)
            assert offers.ask(0, 1) == offers.cancel(0) == Offer(0, 1, 1.0)
            trial = trial.principal.restore(trial.state())
            assert trial.offers.ask(0, 1) == Offer(0, 1, 1.0)
            assert trial.offers.ask(1, 1) == Offer(1, 1, 1.0)
        else:
            assert offers.ask(0, 1) == Offer(0, 1, 1.0)
            assert offers.settle(0, 1, act=t) == PAID
            if t == 0:
                offers.finish(0, paid=True)
            trial = trial.principal.restore(trial.state())


def test_one_s_own_pricing_runs_on_the_readable_engine() -> None:
    with pytest.warns(UserWarning, match="Half is a pricing of your own"):
        result = fp.simulate(GAME, principal=principal(Half()), horizon=60, runs=2, progress=False)
    assert result.provenance["engine"] == "readable"
    assert 0 < float(result.frame["spent"].sum()) < 0.5 * float(result.frame["paid"].sum())


def test_fixed_is_the_bonus() -> None:
    with pytest.warns(UserWarning, match="Lemma 1"):
        short = fp.Principal(bonus=0.25)
    with pytest.warns(UserWarning, match="Lemma 1"):
        assert fp.Principal(pricing=fp.pricing.Fixed(0.25)) == short
    assert short.priced == fp.pricing.Fixed(0.25)
    assert math.isclose(fp.Principal().priced.price(Quote(0, 0, (), ())), 1.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fp.Principal(bonus=2.0, pricing=fp.pricing.Compensate()), "bonus must be left out where"),
        (lambda: fp.Principal(pricing=cast(Any, "cheap")), "pricing must be a pricing such as"),
        (lambda: fp.Principal(pricing=cast(Any, fp.pricing.Compensate)), "pricing must be .* got the class Compensate"),
        (lambda: fp.pricing.Compensate(least=0.5, most=0.2), "most must be at least 0.5"),
        (lambda: fp.pricing.Posted(start=2.0), "start must"),
        (lambda: fp.pricing.Quota(pulls=-1), "pulls must be a whole number of at least 0"),
        (lambda: fp.pricing.Capped(bonuses=cast(Any, 2.5)), "bonuses must be a whole number"),
        (lambda: fp.pricing.Capped(amount=0.0), "amount must be"),
        (lambda: fp.pricing.Posted(accept=0.0), "accept must"),
        (lambda: fp.Campaign.create("sqlite:///missing/trial.db", name="x", arms=["A", "B"], agents=2, horizon=50,
                                    price="9000000 EUR", principal=principal(fp.pricing.Compensate(most=4))),
         "price must be at most 5000000.00 EUR where bonuses go up to 4 times it, got 9000000.00 EUR."),
    ],
)  # fmt: skip
def test_what_is_not_allowed_gets_a_sentence(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        make()


def test_a_plan_forecasts_what_a_pricing_costs() -> None:
    told: dict[str, Any] = {"arms": 2, "agents": 30, "horizon": 60, "gap": 0.1, "runs": 40, "progress": False}
    full = fp.plan(principal=principal(None), price="0.50 EUR", **told)
    less = fp.plan(principal=principal(fp.pricing.Compensate()), price="0.50 EUR", **told)
    assert full.forecast is not None
    assert less.forecast is not None
    assert 0 < less.forecast.mean < 0.7 * full.forecast.mean
    assert "units of reward" in str(less)
    assert "EUR" in str(less)
    rounding = "A campaign rounds every offer up to whole amounts of 0.01 EUR"
    assert rounding in str(less)
    assert rounding not in str(full)
    assert less.first.spend is None, "formulas know one bonus for all"
