"""The rules by which a principal eliminates arms and chooses what to pay for."""

from freepull.principal.rules.base import Rule
from freepull.principal.rules.certified import Certified, Design, Forecast
from freepull.principal.rules.paper import Paper
from freepull.principal.rules.passive import Passive

__all__ = ["Certified", "Design", "Forecast", "Paper", "Passive", "Rule"]
