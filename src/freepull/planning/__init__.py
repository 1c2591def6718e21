"""Planning: what a trial will cost, and what it must cost at least."""

from freepull.planning.answer import Plan
from freepull.planning.facade import plan
from freepull.planning.lower_bound import lower_bound

__all__ = ["Plan", "lower_bound", "plan"]
