"""One-sentence checks of parameters: which one, what it must be, what it got."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

from freepull.errors import InvalidInput, UnknownName


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return ``value`` as an int, if it is a whole number in [least, most]."""
    allowed = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    is_whole = not isinstance(value, bool) and (
        isinstance(value, int) or (hasattr(value, "__index__")) or (isinstance(value, float) and value.is_integer())
    )
    if not is_whole or int(value) < least or (most is not None and int(value) > most):
        raise InvalidInput(f"{name} must be {allowed}, got {value!r}.")
    return int(value)


def real(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return ``value`` as a float, if it is a finite number between the limits."""
    try:
        number = math.nan if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    inside = (low < number or (not open_low and low == number)) and (
        number < high or (not open_high and number == high)
    )
    if not (math.isfinite(number) and inside):
        raise InvalidInput(f"{name} must be {_interval(low, high, open_low, open_high)}, got {value!r}.")
    return number


def _interval(low: float, high: float, open_low: bool, open_high: bool) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f"a number in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
    if math.isfinite(low):
        return f"a number {'above' if open_low else 'of at least'} {low:g}"
    return "a finite number"


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return ``value``, if it is one of the allowed names; otherwise say which one was perhaps meant."""
    choices = list(allowed)
    if isinstance(value, str) and value in choices:
        return value
    close = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise UnknownName(f"{name} must be one of {', '.join(choices)}; got {value!r}{hint}")


def instance(name: str, value: Any, kind: type, example: str) -> None:
    """Refuse a value of the wrong kind, with an example of a right one."""
    if not isinstance(value, kind):
        got = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
        raise InvalidInput(f"{name} must be {example}, got {got}.")
