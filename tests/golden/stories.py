"""Campaigns that live through a bit of everything, the same every time: what a version of freepull leaves behind."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import freepull as fp

HOUR = 3600 * 10**6
MEANS = [0.9, 0.5, 0.2]


class Clock:
    """Time that passes only when a story says so."""

    def __init__(self) -> None:
        self.now = 1_900_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_hours(self, hours: float) -> None:
        self.now += round(hours * HOUR)


def live(campaign: fp.Campaign, clock: Clock, pulls: int, seed: int, takes: float = 0.8) -> None:
    """Let agents come at random, take most offers, and act."""
    chance = random.Random(seed)
    names = [campaign.core.register.shown(m) for m in range(campaign.core.register.enrolled)]
    for _ in range(pulls):
        clock.pass_hours(0.01)
        agent = chance.choice(names)
        offer, arm = campaign.ask(agent), chance.randrange(3)
        if offer is not None and chance.random() < takes:
            arm = campaign.settings.arms.index(offer.arm)
        reward = float(chance.random() < MEANS[arm])
        with_event = None if chance.random() < 0.5 else f"event {chance.getrandbits(60)}"
        campaign.tell(agent, campaign.settings.arms[arm], reward, event=with_event)
        if campaign.status().status == "stopped":
            return


def act_once_a_round(campaign: fp.Campaign, clock: Clock, rounds: int, seed: int) -> None:
    """Let everybody act once a round."""
    chance = random.Random(seed)
    names = [campaign.core.register.shown(m) for m in range(campaign.core.register.enrolled)]
    for _ in range(rounds):
        for agent in names:
            clock.pass_hours(0.01)
            offer, arm = campaign.ask(agent), chance.randrange(3)
            if offer is not None and chance.random() < 0.9:
                arm = campaign.settings.arms.index(offer.arm)
            campaign.tell(agent, campaign.settings.arms[arm], float(chance.random() < MEANS[arm]))


def principal(rule: fp.rules.Rule, **more: Any) -> fp.Principal:
    """Return a principal that pays everybody from the third step on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen: dict[str, Any] = {"observe": fp.observe.Steps(2), "offers": "each"}
        return fp.Principal(rule, **chosen | more)


def made(url: str, clock: Clock, name: str, rule: fp.rules.Rule, **settings: Any) -> fp.Campaign:
    """Make a campaign of three arms and six agents, and start it."""
    chosen: dict[str, Any] = {"arms": ["A", "B", "C"], "agents": [f"user-{m}" for m in range(6)], "price": "0.50 EUR"}
    more = settings.pop("principal", {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        campaign = fp.Campaign.create(
            url, name=name, principal=principal(rule, **more), clock=clock, **chosen | settings
        )
    campaign.start(by="somebody")
    return campaign


def certified(url: str, clock: Clock) -> fp.Campaign:
    """Undecided: pauses, a changed budget, a snapshot in the middle, refusals, a late joiner who is only observed."""
    campaign = made(url, clock, "certified", fp.rules.Certified(1e-9), principal={"protocol": fp.protocols.BanAfter(3)})
    live(campaign, clock, 120, 1)
    campaign.pause(by="ann")
    live(campaign, clock, 10, 2)
    campaign.resume(by="ann")
    campaign.budget("500 EUR", by="ann")
    campaign.snapshot()
    campaign.add_agents(["late"], by="ann")
    live(campaign, clock, 80, 3)
    return campaign


def decided(url: str, clock: Clock) -> fp.Campaign:
    """Decided and stopped, with weights and names erased."""
    weights = [1.0, 2.0, 1.0, 0.5, 0.0, 1.5]
    campaign = made(url, clock, "decided", fp.rules.Certified(0.4, gap=0.3), weights=weights)
    live(campaign, clock, 900, 4, takes=1.0)
    campaign.stop("it is decided", by="ann")
    campaign.erase_names(["user-3"], by="ann", anyway=True)
    return campaign


def withdrawn(url: str, clock: Clock) -> fp.Campaign:
    """Late joiners who count, then an arm that is withdrawn, and somebody leaves."""
    campaign = made(url, clock, "withdrawn", fp.rules.Comparisons(1e-6), withdrawal=True, late_joiners="count")
    live(campaign, clock, 100, 5)
    campaign.add_agents(["late"], by="ann")
    live(campaign, clock, 60, 6)
    campaign.withdraw("C", by="ann")
    live(campaign, clock, 60, 7)
    campaign.leave("user-2", by="ann")
    stay(campaign, clock, 60, 9, ["user-2"])
    return campaign


def independent(url: str, clock: Clock) -> fp.Campaign:
    """One agent leaves, another lets three offers expire."""
    campaign = made(
        url,
        clock,
        "independent",
        fp.rules.Certified(0.05),
        leavers="independent",
        principal={"observe": fp.observe.Steps(0)},
    )
    stay(campaign, clock, 60, 10, ["user-5"])
    campaign.leave("user-1", by="ann")
    stay(campaign, clock, 30, 11, ["user-1", "user-5"])
    for _ in range(3):
        campaign.ask("user-5")
        clock.pass_hours(26)
        stay(campaign, clock, 12, 12, ["user-1", "user-5"])
    stay(campaign, clock, 30, 13, ["user-1", "user-5"])
    return campaign


def stay(campaign: fp.Campaign, clock: Clock, pulls: int, seed: int, without: list[str]) -> None:
    """Let all but some agents act."""
    chance = random.Random(seed)
    names = [f"user-{m}" for m in range(6) if f"user-{m}" not in without]
    for _ in range(pulls):
        clock.pass_hours(0.01)
        agent = chance.choice(names)
        offer, arm = campaign.ask(agent), chance.randrange(3)
        if offer is not None:
            arm = campaign.settings.arms.index(offer.arm)
        campaign.tell(agent, campaign.settings.arms[arm], float(chance.random() < MEANS[arm]))


def rounds(url: str, clock: Clock) -> fp.Campaign:
    """The paper's rule and clock, with bans, one of which is lifted, and a horizon."""
    campaign = made(url, clock, "rounds", fp.rules.Paper(0.1, "finite_time"), mode="rounds", horizon=60)
    act_once_a_round(campaign, clock, 20, 14)
    for ban in campaign.bans()[:1]:
        campaign.unban(ban.agent, by="ann")
    act_once_a_round(campaign, clock, 5, 15)
    return campaign


def population(url: str, clock: Clock) -> fp.Campaign:
    """A claim about a population, not yet looked at."""
    campaign = made(url, clock, "population", fp.rules.Population(0.05, pulls=30))
    live(campaign, clock, 150, 16)
    return campaign


def people(url: str, clock: Clock) -> fp.Campaign:
    """What a campaign does unless told otherwise: comparisons, asks in the log, checks, and somebody who joins late."""
    chosen: dict[str, Any] = {"arms": ["A", "B", "C"], "agents": [f"user-{m}" for m in range(6)], "price": "0.50 EUR"}
    campaign = fp.Campaign.create(url, name="people", horizon=60, late_joiners="count", clock=clock, **chosen)
    campaign.start(by="somebody")
    live(campaign, clock, 120, 17, takes=0.6)
    campaign.add_agents(["late"], by="ann")
    live(campaign, clock, 60, 18)
    return campaign


STORIES: dict[str, Callable[[str, Clock], fp.Campaign]] = {
    "certified": certified,
    "decided": decided,
    "withdrawn": withdrawn,
    "independent": independent,
    "rounds": rounds,
    "population": population,
    "people": people,
}
