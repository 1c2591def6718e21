"""Everything that was measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from .checked import Alarms
from .costs import Cost
from .crowds import Crowds
from .displayed import Displayed
from .elimination import Row
from .judging import Rate
from .money import Money


@dataclass
class Results:
    """Parts (a), (b) and (c)."""

    rows: list[Row] = field(default_factory=list)
    freezing: list[Row] = field(default_factory=list)
    contest: dict[str, list[Rate]] = field(default_factory=dict)
    moved: dict[str, list[Rate]] = field(default_factory=dict)
    """Means that are moved by γ: with `robust` = γ, and plain."""
    near: list[Rate] = field(default_factory=list)
    """With an ε: how often an arm that is ε worse than the best could have been named."""
    population: list[tuple[str, str, Rate]] = field(default_factory=list)
    """Panel, rule, and how often a best arm of the population lost."""
    leavers: dict[str, Rate] = field(default_factory=dict)
    ignoring: dict[str, Rate] = field(default_factory=dict)
    false_alarms: list[Alarms] = field(default_factory=list)
    seen: list[Alarms] = field(default_factory=list)
    """Checks of assumptions where these hold, and where they do not."""
    displayed: list[Displayed] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)
    costs: list[Cost] = field(default_factory=list)
    forecasts: list[tuple[str, Cost, Cost]] = field(default_factory=list)
    crowds: Crowds = field(default_factory=Crowds)
    money: Money = field(default_factory=Money)

    def cost(self, setting: str, rule: str) -> Cost | None:
        """One of them."""
        return next((cost for cost in self.costs if (cost.setting, cost.rule) == (setting, rule)), None)
