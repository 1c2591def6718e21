"""Planning: what a trial will cost, and what it must cost at least."""

from freepull.planning.facade import Plan, plan
from freepull.theory import lower_bound

__all__ = ["Plan", "lower_bound", "plan"]
