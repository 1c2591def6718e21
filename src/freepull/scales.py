"""Scales: rewards as people have them, such as 1 to 5 stars, an amount, or yes and no; a rule sees [0, 1]."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.errors import InvalidInput, InvalidReward

_FORM = re.compile(r"(-?\d{1,12}(?:\.\d{1,6})?) ?\.\. ?(-?\d{1,12}(?:\.\d{1,6})?)(?: ([^\W\d]\w{0,19}|%))?")
YES_NO = "yes/no"
WORDS = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
USUAL = ((0, 1), (1, 5), (0, 5), (1, 7), (0, 10), (1, 10), (0, 100))
"""Scales that a log is likely to have, the smallest first."""


@dataclass(frozen=True)
class Scale:
    """From what to what rewards run, and in which unit.

    >>> stars, amount = Scale.parse("scale", "1..5"), Scale.parse("scale", "0..50 EUR")
    >>> stars.read(4), amount.read(60.0), stars.mean(0.75), amount.effect(0.1)
    ((0.75, False), (1.0, True), 4.0, 5.0)
    """

    text: str
    low: float
    high: float
    unit: str = ""
    """What rewards are counted in; those beyond an end of such a scale count as that end."""

    @classmethod
    def parse(cls, name: str, text: Any) -> Scale:
        """Read a scale such as "1..5", "0..50 EUR" or "yes/no"."""
        if text == YES_NO:
            return cls(YES_NO, 0.0, 1.0)
        found = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None or not float(found[1]) < float(found[2]):
            raise InvalidInput(
                f"{name} must be from what to what rewards run, such as '1..5' or '0..50 EUR', or 'yes/no', got "
                f"{validation.shown(text)}."
            )
        unit = found[3] or ""
        return cls(f"{found[1]}..{found[2]} {unit}".strip(), float(found[1]), float(found[2]), unit)

    @property
    def width(self) -> float:
        """What 1 is on this scale."""
        return self.high - self.low

    @property
    def _such(self) -> float:
        """A reward that is on this scale."""
        return math.floor(self.low + 0.75 * self.width) if self.width >= 2 else self.low + 0.75 * self.width

    @property
    def clips(self) -> bool:
        """Whether what lies outside counts as the end that is nearer."""
        return bool(self.unit)

    def read(self, reward: Any) -> tuple[float, bool]:
        """Return a reward in [0, 1], and whether it lay outside."""
        if self.text == YES_NO:
            return self._coin(reward), False
        try:
            given = validation.real("reward", reward)
        except InvalidInput:
            quotes = ", without quotes" if isinstance(reward, str) else ""
            raise InvalidReward(
                f"reward must be a number from {self.low:g} to {self.high:g}, such as {self._such:g}{quotes}, got "
                f"{validation.shown(reward)}."
            ) from None
        if self.low <= given <= self.high:
            return (given - self.low) / self.width, False
        if not self.clips:
            raise InvalidReward(
                f"reward must be a number from {self.low:g} to {self.high:g}, as the scale is, got "
                f"{validation.shown(reward)}."
            )
        return float(given > self.high), True

    def _coin(self, reward: Any) -> float:
        given = WORDS.get(reward.strip().lower()) if isinstance(reward, str) else reward
        with suppress(InvalidInput):
            found = validation.real("reward", float(given) if isinstance(given, bool) else given)
            if found in (0.0, 1.0):
                return found
        raise InvalidReward(f"reward must be yes or no, as the scale is, got {validation.shown(reward)}.")

    def read_many(self, rewards: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
        """Return many rewards in [0, 1], and which lay outside; None if one of them has to be refused."""
        given = rewards
        inside = (given >= self.low) & (given <= self.high)
        if self.text == YES_NO or not (inside.all() or (self.clips and np.isfinite(given).all())):
            return None
        return np.clip((given - self.low) / self.width, 0.0, 1.0), ~inside

    def mean(self, x: float) -> float:
        """Return a mean in [0, 1] on this scale."""
        return self.low + self.width * x

    def effect(self, x: float) -> float:
        """Return a difference of means in [0, 1] on this scale."""
        return self.width * x

    def shown(self, x: float) -> str:
        """Return a mean in [0, 1] on this scale, in words."""
        return f"{self.mean(x):.10g} {self.unit}".rstrip()

    def words(self, text: str) -> str:
        """Return a sentence of a verdict whose numbers, which are in [0, 1], are on this scale.

        >>> Scale.parse("scale", "0..50 EUR").words("A was better than B on average, by 0.1000 or more")
        'A was better than B on average, by 5.0000 EUR or more'
        """
        for before, after in SAID:
            text = re.sub(f"(?<={before}){NUMBER}(?={after})", lambda it: self._said(it[0]), text)
        return text.replace("rewards lie in [0, 1]", f"rewards lie in {self.text}")

    def _said(self, number: str) -> str:
        form = ".4f" if len(number.partition(".")[2]) == 4 else "g"
        return f"{self.effect(float(number)):{form}} {self.unit}".rstrip()


NUMBER = r"\d[\d.]*(?:e-\d+)?"
SAID = (
    ("on average, by ", " or more"),
    ("was at most ", " worse"),
    ("ε = ", ""),
    ("by more than ± ", ""),
)
"""Where sentences of verdicts have differences of means: what stands before and behind."""


def likely(rewards: Iterable[float]) -> str:
    """Say which scale some rewards probably have.

    >>> likely([1, 3, 5]), likely([0, 7, 2]), likely([12.5, 310])
    ('1..5', '0..10', '0..400')
    """
    given = [it for it in rewards if math.isfinite(it)]
    low, high = min(given, default=0.0), max(given, default=1.0)
    for first, last in USUAL:
        if first <= low and high <= last:
            return f"{first}..{last}"
    unit = 10.0 ** math.floor(math.log10(max(abs(high), abs(low), 1.0)))
    return f"{min(0.0, math.floor(low / unit) * unit):.0f}..{max(1.0, math.ceil(high / unit) * unit):.0f}"
