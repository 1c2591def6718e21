"""Charts, one a function; each takes ``ax=`` and returns the axes."""

from freepull.charts.bars import accuracy, spend
from freepull.charts.payments import payments
from freepull.charts.plans import chance_by_budget, spend_by_agents, spend_by_horizon, spend_by_observing

__all__ = [
    "accuracy",
    "chance_by_budget",
    "payments",
    "spend",
    "spend_by_agents",
    "spend_by_horizon",
    "spend_by_observing",
]
