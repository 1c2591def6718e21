"""The certified rule: rounds, and one betting account against every arm (docs/certified.md)."""

from freepull.principal.rules.certified.designs import Design, Forecast
from freepull.principal.rules.certified.rule import Certified

__all__ = ["Certified", "Design", "Forecast"]
