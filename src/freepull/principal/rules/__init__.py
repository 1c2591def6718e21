"""The rules by which a principal eliminates arms and chooses what to pay for."""

from typing import Any

from freepull.principal.rules.base import Rule
from freepull.principal.rules.certified import Certified, Design, Forecast
from freepull.principal.rules.comparisons import Comparisons
from freepull.principal.rules.pairwise import INSTEAD
from freepull.principal.rules.paper import Paper, Passive
from freepull.principal.rules.population import Population

__all__ = [
    "Certified",
    "Comparisons",
    "Design",
    "Forecast",
    "Paper",
    "Passive",
    "Population",
    "Rule",
]


def __getattr__(name: str) -> Any:
    if name in ("Pairwise", "Blocks"):
        raise AttributeError(f"rules.{name} is there no longer; take {INSTEAD}.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
