"""Charts, one a function; each takes ``ax=`` and returns the axes."""

from freepull.charts.bars import accuracy, spend
from freepull.charts.floors import floors
from freepull.charts.grouped import grouped
from freepull.charts.payments import payments
from freepull.charts.plans import chance_by_budget, spend_by_agents, spend_by_horizon, spend_by_observing
from freepull.charts.style import plain
from freepull.charts.sweeps import against

__all__ = [
    "accuracy",
    "against",
    "chance_by_budget",
    "floors",
    "grouped",
    "payments",
    "plain",
    "spend",
    "spend_by_agents",
    "spend_by_horizon",
    "spend_by_observing",
]
