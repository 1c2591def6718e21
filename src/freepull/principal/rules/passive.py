"""The passive principal: she only watches, and at the end names the largest global sample mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from freepull.principal.record import Record, Work
from freepull.principal.rules.base import Rule, RuleState, Want
from freepull.principal.setting import Setting
from freepull.registry import part


@part("rule", "passive", kernel=4)
@dataclass(frozen=True)
class Passive(Rule):
    """Pay for nothing, eliminate nothing, claim nothing: the paper's "without incentives"."""

    waits: ClassVar[bool] = False

    delta: None = field(default=None, init=False, repr=False)

    def start(self, setting: Setting, record: Record) -> PassiveState:
        """Begin to watch."""
        return PassiveState(setting, record)


class PassiveState(RuleState):
    """Nothing to keep beyond the record."""

    proven = False
    title = "the passive principal, who claims nothing"

    def evaluate(self, incentivizing: bool) -> None:
        """Do nothing."""

    def wants(self, payable: Sequence[bool]) -> list[Want]:
        """Return no pull."""
        return []

    def missing(self) -> list[list[float]]:
        """Nothing is missing to somebody who decides nothing."""
        return [[0.0] * self.setting.arms for _ in range(self.setting.agents)]

    def lacking(self) -> Work[tuple[float, float]]:
        """Nothing."""
        yield
        return 0.0, 0.0

    def parts(self) -> dict[str, Any]:
        """Nothing changes but the record."""
        return {}

    def restore(self, parts: dict[str, Any]) -> None:
        """Do nothing."""

    def bounds(self) -> list[float]:
        """No bound is used."""
        return [float("inf")] * self.setting.arms
