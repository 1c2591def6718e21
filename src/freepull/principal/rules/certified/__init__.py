"""The certified rule: rounds, and one betting account against every arm (docs/certified.md)."""

from freepull.principal.rules.certified.rule import Certified, Design, Forecast

__all__ = ["Certified", "Design", "Forecast"]
