"""Charts of simulations, sweeps and plans, one per function; each takes ``ax=`` and returns the axes.

They have one look, readable in print and by the colour-blind: Okabe and Ito's colours, hatches, markers.
"""

from freepull.charts.looks import COLOURS as COLOURS
from freepull.charts.looks import HATCHES as HATCHES
from freepull.charts.looks import MARKERS as MARKERS
from freepull.charts.looks import plain, save
from freepull.charts.plans import chance_by_budget, spend_by_agents, spend_by_horizon, spend_by_observing
from freepull.charts.plans import smoothed as smoothed
from freepull.charts.results import (
    accuracy,
    against,
    differences,
    floors,
    gathered,
    grouped,
    payments,
    regret,
    spend,
    sweep,
)

__all__ = [
    "accuracy",
    "against",
    "chance_by_budget",
    "differences",
    "floors",
    "gathered",
    "grouped",
    "payments",
    "plain",
    "regret",
    "save",
    "spend",
    "spend_by_agents",
    "spend_by_horizon",
    "spend_by_observing",
    "sweep",
]
