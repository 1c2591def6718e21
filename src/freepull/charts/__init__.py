"""Charts, one per function; each takes ``ax=`` and returns the axes."""

from freepull.charts.plans import chance_by_budget, spend_by_agents, spend_by_horizon, spend_by_observing
from freepull.charts.simulations import accuracy, against, floors, grouped, payments, spend
from freepull.charts.style import plain

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
