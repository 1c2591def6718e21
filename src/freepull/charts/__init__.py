"""Charts, one a function; each takes ``ax=`` and returns the axes."""

from freepull.charts.bars import accuracy, spend
from freepull.charts.payments import payments

__all__ = ["accuracy", "payments", "spend"]
