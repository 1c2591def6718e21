"""Charts, one a function; each takes ``ax=`` and returns the axes."""

from freepull.charts.bars import accuracy, spend
from freepull.charts.payments import payments
from freepull.charts.sweeps import against

__all__ = ["accuracy", "against", "payments", "spend"]
