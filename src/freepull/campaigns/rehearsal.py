"""A rehearsal: simulated agents play a campaign, through the same doors that real ones would use.

In rounds the path is that of `freepull.simulate` with the same seed and run, bit for bit.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from freepull import validation
from freepull.campaigns.campaign import Campaign
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.messages import CampaignOffer, Observation
from freepull.panels import Panel
from freepull.principal import Offer, Principal, rules
from freepull.principal.schedules import Steps
from freepull.randomness import CHOICE, key, word
from freepull.simulation.experiment import check
from freepull.simulation.readable import Seat


def play(
    campaign: Campaign,
    game: Game | Panel,
    *,
    agents: Any = None,
    answers: Any = None,
    steps: int,
    seed: int = 0,
    run: int = 0,
    until: str = "horizon",
    each_step: Callable[[int], None] | None = None,
) -> int:
    """Let simulated agents act for this many steps, never where real ones have acted; return how many pulls they made.

    From then on the campaign is a rehearsal: real agents are refused, and no verdict of it is certified.
    In rounds everybody acts once a step. In free mode a step is as many visits as there are agents, each by an agent
    drawn at random, who counts its own pulls; with a panel such as `fp.panels.street()`, in free mode only, a step is
    one of the panel's, in which whoever comes acts once. A second rehearsal of the same campaign has new luck.
    """
    if not isinstance(game, Panel):
        validation.instance("game", game, Game, "a freepull.Game, or a panel such as freepull.panels.street()")
    validation.whole("steps", steps, 1)
    panel = game if isinstance(game, Panel) else Panel(game, steps)
    agents, answers = agents or panel.agents, answers or panel.answers
    settings, status = campaign.settings, campaign.status()
    if isinstance(game, Panel) and settings.mode == "rounds":
        raise InvalidInput("game must be a freepull.Game in a campaign in rounds, which wait for everybody.")
    horizon = max(steps, settings.horizon or 0, len(settings.arms))
    presence = {"activity": panel.activity, "leaving": panel.leaving}
    experiment = check(panel.game, agents, answers, settings.principal, horizon, [run], seed, until, None, **presence)
    played = experiment.game_of(run)
    if (played.agents, played.arms) != (status.agents, len(settings.arms)):
        raise InvalidInput(
            f"game must have {status.agents} agents and {len(settings.arms)} arms, as the campaign has, got "
            f"{played.agents} × {played.arms}."
        )
    run += campaign.core.rehearse({"rehearsal": steps, "seed": seed, "run": run}).result()
    seats = [Seat(experiment, played, run, m) for m in range(played.agents)]
    visits = _rounds(played.agents) if settings.mode == "rounds" else _drawn(played.agents, key(seed, run, 0, CHOICE))
    if isinstance(game, Panel):
        visits = _coming(seats)
    pulls = 0
    for t in range(1, steps + 1):
        if until == "decided" and campaign.status().decided:
            break
        for group in next(visits):
            offers = [campaign.core.ask_for(m, simulated=True).result() for m in group]
            told = [_act(seats[m], offer, campaign) for m, offer in zip(group, offers, strict=True)]
            campaign.core.tell_all(told, strict=True, simulated=True).result()
            pulls += len(told)
        if each_step is not None:
            each_step(t)
    return pulls


def _act(seat: Seat, offer: CampaignOffer | None, campaign: Campaign) -> Observation:
    """Let an agent answer or pick, and pull."""
    settings = campaign.settings
    seen = None
    if offer is not None:
        bonus = settings.principal.bonus * offer.bonus.minor / settings.price.minor
        seen = Offer(seat.number, settings.arms.index(offer.arm), bonus)
    arm = seat.choose(seen)
    return Observation(seat.number, arm, seat.pull(arm))


def _rounds(agents: int) -> Iterator[list[list[int]]]:
    while True:
        yield [list(range(agents))]


def _coming(seats: list[Seat]) -> Iterator[list[list[int]]]:
    """Yield who comes in a step, each once."""
    t = 0
    while True:
        t += 1
        yield [[seat.number for seat in seats if seat.is_there(t)]]


def _drawn(agents: int, source: int) -> Iterator[list[list[int]]]:
    """Yield the visits of a step, in groups in which nobody comes twice."""
    n = 0
    while True:
        groups: list[list[int]] = [[]]
        for _ in range(agents):
            n += 1
            agent = word(source, 1, n) % agents
            if agent in groups[-1]:
                groups.append([])
            groups[-1].append(agent)
        yield groups


def warm_up(rule: rules.Rule) -> None:
    """Play a small campaign in a file of its own, so that all that campaigns under a rule call is compiled and loaded.

    Later that may fail: a process that has no descriptor left cannot read what is kept compiled.
    """
    weighted = isinstance(rule, rules.Certified)
    withdrawn = isinstance(rule, rules.Comparisons)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        url, principal = f"sqlite:///{folder}/trial.db", Principal(rule, observe=Steps(0), offers="each")
        with Campaign.create(
            url,
            name="trial",
            arms=3,
            agents=2,
            price="1 EUR",
            principal=principal,
            horizon=9,
            weights=[1.0, 2.0] if weighted else None,
            withdrawal=withdrawn,
        ) as campaign:
            campaign.start()
            for t in range(5):
                for agent in range(2):
                    offer = campaign.ask(agent)
                    campaign.tell(agent, t % 3 if offer is None else offer.arm, t % 3 / 2)
            if withdrawn:
                campaign.withdraw(2)
            campaign.tell_many([(0, 0, 0.5), (1, 1, 0.5)])
            campaign.snapshot()
            campaign.verdict()
        with Campaign.open(url, "trial") as campaign:
            campaign.status()
