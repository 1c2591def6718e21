"""freepull: incentivized exploration with learning agents.

A principal wants to know which of K arms is best on average over M self-interested agents. She watches them learn,
then pays small bonuses for the pulls that are still missing, and names the best arm: the probability that such a trial
ends with a wrong certified verdict is at most δ.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from freepull.version import __version__ as __version__

if TYPE_CHECKING:
    from freepull import agents, charts, disturbances, envs, errors, instances, pages, panels, rewards, studies
    from freepull.agents import activity, answers, leaving
    from freepull.campaigns import AsyncCampaign, Campaign
    from freepull.client.client import (
        AgentClient,
        AsyncAgentClient,
        AsyncClient,
        AsyncRemoteCampaign,
        Client,
        RemoteCampaign,
    )
    from freepull.game import Game
    from freepull.messages import (
        CampaignOffer,
        CampaignVerdict,
        Check,
        Grounds,
        LedgerEntry,
        Move,
        Observation,
        Status,
        Told,
    )
    from freepull.money import Money
    from freepull.payouts import FilePayer, HttpPayer, Payer, Payment, Payout, Receipt, payout
    from freepull.planning import Plan, plan
    from freepull.principal import Checks, Offer, Principal, Trial, Verdict, personalised, pricing, protocols, rules
    from freepull.principal import schedules as observe
    from freepull.simulation import Comparison, Result, baselines, compare, simulate
    from freepull.strategic import BestResponse, best_response

_HOME = {
    "agents": "freepull.agents",
    "activity": "freepull.agents.activity",
    "answers": "freepull.agents.answers",
    "baselines": "freepull.simulation.baselines",
    "charts": "freepull.charts",
    "disturbances": "freepull.disturbances",
    "envs": "freepull.envs",
    "errors": "freepull.errors",
    "instances": "freepull.instances",
    "leaving": "freepull.agents.leaving",
    "pages": "freepull.pages",
    "panels": "freepull.panels",
    "rewards": "freepull.rewards",
    "observe": "freepull.principal.schedules",
    "pricing": "freepull.principal.pricing",
    "protocols": "freepull.principal.protocols",
    "rules": "freepull.principal.rules",
    "AgentClient": "freepull.client.client:AgentClient",
    "AsyncAgentClient": "freepull.client.client:AsyncAgentClient",
    "AsyncClient": "freepull.client.client:AsyncClient",
    "AsyncRemoteCampaign": "freepull.client.client:AsyncRemoteCampaign",
    "Client": "freepull.client.client:Client",
    "RemoteCampaign": "freepull.client.client:RemoteCampaign",
    "AsyncCampaign": "freepull.campaigns:AsyncCampaign",
    "Campaign": "freepull.campaigns:Campaign",
    "studies": "freepull.studies",
    "Game": "freepull.game:Game",
    "CampaignOffer": "freepull.messages:CampaignOffer",
    "CampaignVerdict": "freepull.messages:CampaignVerdict",
    "Check": "freepull.messages:Check",
    "Checks": "freepull.principal:Checks",
    "Grounds": "freepull.messages:Grounds",
    "LedgerEntry": "freepull.messages:LedgerEntry",
    "Money": "freepull.money:Money",
    "Move": "freepull.messages:Move",
    "FilePayer": "freepull.payouts:FilePayer",
    "HttpPayer": "freepull.payouts:HttpPayer",
    "Payer": "freepull.payouts:Payer",
    "Payment": "freepull.payouts:Payment",
    "Payout": "freepull.payouts:Payout",
    "Receipt": "freepull.payouts:Receipt",
    "payout": "freepull.payouts:payout",
    "Observation": "freepull.messages:Observation",
    "Status": "freepull.messages:Status",
    "Told": "freepull.messages:Told",
    "Offer": "freepull.principal:Offer",
    "Principal": "freepull.principal:Principal",
    "Trial": "freepull.principal:Trial",
    "Verdict": "freepull.principal:Verdict",
    "personalised": "freepull.principal:personalised",
    "Plan": "freepull.planning:Plan",
    "plan": "freepull.planning:plan",
    "BestResponse": "freepull.strategic:BestResponse",
    "best_response": "freepull.strategic:best_response",
    "Comparison": "freepull.simulation:Comparison",
    "Result": "freepull.simulation:Result",
    "compare": "freepull.simulation:compare",
    "simulate": "freepull.simulation:simulate",
}

__all__ = [
    "AgentClient",
    "AsyncAgentClient",
    "AsyncCampaign",
    "AsyncClient",
    "AsyncRemoteCampaign",
    "BestResponse",
    "Campaign",
    "CampaignOffer",
    "CampaignVerdict",
    "Check",
    "Checks",
    "Client",
    "Comparison",
    "FilePayer",
    "Game",
    "Grounds",
    "HttpPayer",
    "LedgerEntry",
    "Money",
    "Move",
    "Observation",
    "Offer",
    "Payer",
    "Payment",
    "Payout",
    "Plan",
    "Principal",
    "Receipt",
    "RemoteCampaign",
    "Result",
    "Status",
    "Told",
    "Trial",
    "Verdict",
    "activity",
    "agents",
    "answers",
    "baselines",
    "best_response",
    "charts",
    "compare",
    "disturbances",
    "envs",
    "errors",
    "instances",
    "leaving",
    "observe",
    "pages",
    "panels",
    "payout",
    "personalised",
    "plan",
    "pricing",
    "protocols",
    "rewards",
    "rules",
    "simulate",
    "studies",
]


def __getattr__(name: str) -> Any:
    """Load a part when it is first used, so that ``import freepull`` stays light."""
    if name not in _HOME:
        from freepull.validation import one_of

        try:
            one_of("name", name, __all__)
        except ValueError as error:
            hint = str(error).partition("; did you mean")[2]
            raise AttributeError(f"freepull has no {name!r}" + (f"; did you mean{hint}" if hint else ".")) from None
    module, _, attribute = _HOME[name].partition(":")
    loaded = importlib.import_module(module)
    value = getattr(loaded, attribute) if attribute else loaded
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
