"""What holds for a trial however it is driven: any pulls, any rewards, asked and told in any order."""

from __future__ import annotations

import pickle
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import freepull as fp
from freepull.principal.offers import affordable
from support.examples import examples
from support.worlds import PROVEN, RULES, principals

Principals = principals([*RULES, *PROVEN])


class Driver:
    """Drives a trial at random; an agent pulls an offered arm more often than not."""

    def __init__(self, principal: fp.Principal, agents: int, arms: int, horizon: int, seed: int) -> None:
        self.trial = principal.start(arms=arms, agents=agents, horizon=horizon)
        self.agents, self.arms, self.chance = agents, arms, random.Random(seed)

    def shuffled(self) -> list[int]:
        return self.chance.sample(range(self.agents), self.agents)

    def pull(self, offer: fp.Offer | None) -> tuple[int, float]:
        wilful = offer is None or self.chance.random() < 0.3
        arm = self.chance.randrange(self.arms) if wilful or offer is None else offer.arm
        return arm, self.chance.choice([0.0, 1.0, 0.25 * arm])

    def step(self) -> tuple[dict[int, fp.Offer], dict[int, int]]:
        """Play one step; return the offers and the arms that were pulled."""
        offers = {m: offer for m in self.shuffled() if (offer := self.trial.ask(m)) is not None}
        pulled = {}
        for m in self.shuffled():
            pulled[m], reward = self.pull(offers.get(m))
            settled = self.trial.tell(m, pulled[m], reward)
            assert settled == (None if m not in offers else "paid" if offers[m].arm == pulled[m] else "refused")
        self.trial.end_step()
        return offers, pulled


Drivers = st.builds(Driver, Principals, st.integers(1, 4), st.integers(2, 4), st.integers(4, 30), st.integers(0, 2**32))


def bans_after(protocol: Any, refusals: list[int]) -> set[int]:
    """The steps at which an agent with refusals at these steps may not be asked, up to step 100."""
    if isinstance(protocol, fp.protocols.BanFor):
        return {t + i for t in refusals for i in range(1, protocol.rounds + 1)}
    limit = {fp.protocols.TakeOrBan: 1, fp.protocols.NeverBan: 10**9}.get(type(protocol)) or protocol.refusals
    return set(range(refusals[limit - 1] + 1, 101)) if len(refusals) >= limit else set()


@examples(150)
@given(driver=Drivers)
def test_offers_keep_every_promise(driver: Driver) -> None:
    trial, principal = driver.trial, driver.trial.principal
    limit = affordable(principal.budget, principal.bonus)
    refused: dict[int, list[int]] = {m: [] for m in range(driver.agents)}
    paid = 0
    for t in range(1, (trial.setting.horizon or 0) + 1):
        active, observing = set(trial.active), trial.kappa is None or t <= trial.kappa
        decided = trial.decided_at is not None
        offers, pulled = driver.step()
        assert not (offers and (observing or decided)), "no offer while observing or after the decision"
        assert len(offers) <= (1 if principal.offers == "one" else driver.agents)
        assert limit is None or paid + len(offers) <= limit, "open offers are reserved"
        for m, offer in offers.items():
            assert offer.arm in active
            assert t not in bans_after(principal.protocol, refused[m]), "no offer to a banned agent"
            if pulled[m] == offer.arm:
                paid += 1
            else:
                refused[m].append(t)
        assert set(trial.active) <= active, "an eliminated arm never returns"
        assert trial.active
        assert trial.paid_total == paid == trial.paid.sum()
        assert trial.offered == trial.paid_total + trial.refused
        assert trial.refused == sum(map(len, refused.values()))
        assert (trial.decided_at is not None) == (len(trial.active) == 1)
    assert trial.record.pulls.sum() == driver.agents * trial.steps


@examples(60)
@given(driver=Drivers)
def test_wanting_changes_nothing_and_asking_twice_is_asking_once(driver: Driver) -> None:
    trial = driver.trial
    for _ in range(trial.setting.horizon or 0):
        before = pickle.dumps(trial)
        wanted = [trial.wanted(m) for m in range(driver.agents)]
        assert [trial.wanted(m) for m in range(driver.agents)] == wanted
        assert pickle.dumps(trial) == before
        for m in range(driver.agents):
            offer = trial.ask(m)
            once = pickle.dumps(trial)
            assert trial.ask(m) is offer
            assert trial.wanted(m) == (None if offer is None else offer.arm)
            assert pickle.dumps(trial) == once
            assert (None if offer is None else offer.arm) == wanted[m]
        driver.step()


@examples(60)
@given(driver=Drivers, seed=st.integers(0, 2**32))
def test_the_order_of_tells_does_not_matter(driver: Driver, seed: int) -> None:
    setting, chance = driver.trial.setting, random.Random(seed)
    one, two = (
        driver.trial,
        driver.trial.principal.start(arms=setting.arms, agents=setting.agents, horizon=setting.horizon),
    )
    for _ in range(setting.horizon or 0):
        pulls = {m: driver.pull(one.ask(m)) for m in range(driver.agents)}
        assert [two.ask(m) for m in range(driver.agents)] == [one.ask(m) for m in range(driver.agents)]
        for m in pulls:
            one.tell(m, *pulls[m])
        for m in chance.sample(sorted(pulls), len(pulls)):
            two.tell(m, *pulls[m])
        one.end_step()
        two.end_step()
        assert (one.active, one.banned_until, one.kappa) == (two.active, two.banned_until, two.kappa)
        assert one.record.mean_sums == two.record.mean_sums
        assert one.record.inverse_sums == two.record.inverse_sums
    assert str(one.verdict()) == str(two.verdict())
