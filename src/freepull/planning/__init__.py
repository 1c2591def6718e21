"""Planning: what a trial must cost at least."""

from freepull.planning.lower_bound import lower_bound

__all__ = ["lower_bound"]
