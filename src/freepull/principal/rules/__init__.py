"""The rules by which a principal eliminates arms and chooses what to pay for."""

from freepull.principal.rules.base import Rule
from freepull.principal.rules.certified import Certified, Design, Forecast
from freepull.principal.rules.comparisons import Comparisons
from freepull.principal.rules.pairwise import Blocks, Pairwise
from freepull.principal.rules.paper import Paper, Passive
from freepull.principal.rules.population import Population

__all__ = [
    "Blocks",
    "Certified",
    "Comparisons",
    "Design",
    "Forecast",
    "Pairwise",
    "Paper",
    "Passive",
    "Population",
    "Rule",
]
