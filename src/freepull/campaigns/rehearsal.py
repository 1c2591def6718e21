"""A rehearsal: simulated agents play a campaign, through the same doors that real ones would use.

In rounds the path is that of `freepull.simulate` with the same seed and run, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from freepull import validation
from freepull.campaigns.campaign import Campaign
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.messages import CampaignOffer, Observation
from freepull.principal import Offer
from freepull.randomness import CHOICE, key, word
from freepull.simulation.experiment import check
from freepull.simulation.readable import Seat


def play(
    campaign: Campaign,
    game: Game,
    *,
    agents: Any,
    answers: Any,
    steps: int,
    seed: int = 0,
    run: int = 0,
    until: str = "horizon",
    each_step: Callable[[int], None] | None = None,
) -> int:
    """Let simulated agents act for this many steps, never where real ones have acted; return how many pulls they made.

    From then on the campaign is a rehearsal: real agents are refused, and no verdict of it is certified.
    In rounds everybody acts once a step. In free mode a step is as many visits as there are agents, each by an agent
    drawn at random, who counts its own pulls. A second rehearsal of the same campaign has new luck.
    """
    validation.instance("game", game, Game, "a freepull.Game")
    validation.whole("steps", steps, 1)
    settings, status = campaign.settings, campaign.status()
    if (game.agents, game.arms) != (status.agents, len(settings.arms)):
        raise InvalidInput(
            f"game must have {status.agents} agents and {len(settings.arms)} arms, as the campaign has, got "
            f"{game.agents} × {game.arms}."
        )
    horizon = max(steps, settings.horizon or 0, game.arms)
    experiment = check(game, agents, answers, settings.principal, horizon, [run], seed, until, None)
    run += campaign.core.rehearse({"rehearsal": steps, "seed": seed, "run": run}).result()
    seats = [Seat(experiment, game, run, m) for m in range(game.agents)]
    visits = _rounds(game.agents) if settings.mode == "rounds" else _drawn(game.agents, key(seed, run, 0, CHOICE))
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
    arms = campaign.settings.arms
    seen = None if offer is None else Offer(seat.number, arms.index(offer.arm), campaign.settings.principal.bonus)
    arm = seat.choose(seen)
    return Observation(seat.number, arm, seat.pull(arm))


def _rounds(agents: int) -> Iterator[list[list[int]]]:
    while True:
        yield [list(range(agents))]


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
