"""One-sentence checks of parameters: which one, what it must be, what it got."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from freepull.errors import InvalidInput, InvalidReward, UnknownName

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def shown(value: Any) -> str:
    """Return a value as it stands in a message: on one line, and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 200 else text[:197] + "..."


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Return ``value`` as an int, if it is a whole number in [least, most]."""
    allowed = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    try:
        number = operator.index(int(value) if isinstance(value, float) and value.is_integer() else value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least or (most is not None and number > most):
        raise InvalidInput(f"{name} must be {allowed}, got {shown(value)}.")
    return number


def is_index(value: Any, size: int) -> bool:
    """Say whether ``value`` is one of the whole numbers 0…size−1."""
    try:
        return not isinstance(value, bool) and 0 <= operator.index(value) < size
    except TypeError:
        return False


def index(name: str, value: Any, size: int) -> None:
    """Refuse what is not one of the whole numbers 0…size−1."""
    if not is_index(value, size):
        raise InvalidInput(f"{name} must be a whole number from 0 to {size - 1}, got {shown(value)}.")


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
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    inside = (low < number or (not open_low and low == number)) and (
        number < high or (not open_high and number == high)
    )
    if not (math.isfinite(number) and inside):
        raise InvalidInput(f"{name} must be {_interval(low, high, open_low, open_high)}, got {shown(value)}.")
    return number


def reward(value: Any) -> float:
    """Return a reward, a number in [0, 1], or refuse it."""
    try:
        return real("reward", value, 0.0, 1.0)
    except InvalidInput as error:
        raise InvalidReward(str(error)) from None


def told(value: Any) -> Any:
    """Return a reward that can be sent in JSON, on whatever scale: a finite number, yes or no; or refuse it."""
    try:
        return value if isinstance(value, (bool, str)) else real("reward", value)
    except InvalidInput:
        return reward(value)  # which says what is allowed where there is no scale


class Limits(NamedTuple):
    """Between which numbers a field must lie, or which words it may be."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    words: tuple[str, ...] = ()


_NOTES: ContextVar[dict[tuple[type, str], Limits] | None] = ContextVar("notes", default=None)


@contextmanager
def noting() -> Iterator[dict[tuple[type, str], Limits]]:
    """Note what the fields of dataclasses are held to, by class and field, while some are made."""
    notes: dict[tuple[type, str], Limits] = {}
    before = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(before)


def _note(owner: Any, name: str, limits: Limits) -> None:
    notes = _NOTES.get()
    if notes is not None:
        notes.setdefault((type(owner), name), limits)


def keep_whole(owner: Any, name: str, least: int, most: int | None = None) -> None:
    """Check a field of a dataclass as `whole` does, and store it as an int."""
    _note(owner, name, Limits(least, math.inf if most is None else most))
    object.__setattr__(owner, name, whole(name, getattr(owner, name), least, most))


def keep_word(owner: Any, name: str, allowed: Iterable[str]) -> None:
    """Check a field of a dataclass as `one_of` does."""
    words = tuple(allowed)
    _note(owner, name, Limits(words=words))
    one_of(name, getattr(owner, name), words)


class Ends(TypedDict, total=False):
    """Which ends of an interval are not in it."""

    open_low: bool
    open_high: bool


def keep_real(owner: Any, names: str, low: float = -math.inf, high: float = math.inf, **ends: Unpack[Ends]) -> None:
    """Check fields of a dataclass as `real` does, and store them as floats; an int stays as it was written.

    These limits are the field's own. What follows from other fields is checked apart from them.
    """
    for name in names.split():
        _note(owner, name, Limits(low, high, **ends))
        value = getattr(owner, name)
        number = real(name, value, low, high, **ends)
        object.__setattr__(owner, name, value if type(value) is int else number)


def _interval(low: float, high: float, open_low: bool, open_high: bool) -> str:
    if math.isfinite(low) and math.isfinite(high):
        return f"a number in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
    if math.isfinite(low):
        return f"a number {'above' if open_low else 'of at least'} {low:g}"
    return "a finite number"


def one_of(name: str, value: Any, allowed: Iterable[str], error: type[UnknownName] = UnknownName) -> str:
    """Return ``value``, if it is one of the allowed names; otherwise say which one was perhaps meant."""
    choices = list(allowed)
    if isinstance(value, str) and value in choices:
        return value
    close = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise error(f"{name} must be one of {', '.join(choices)}; got {shown(value)}{hint}")


def instance(name: str, value: Any, kind: type | tuple[type, ...], example: str) -> None:
    """Refuse a value of the wrong kind, with an example of a right one."""
    if not isinstance(value, kind):
        got = f"the class {value.__name__}" if isinstance(value, type) else shown(value)
        raise InvalidInput(f"{name} must be {example}, got {got}.")


def numbers(name: str, value: Any) -> NDArray[np.float64]:
    """Return ``value`` as an array of floats, if it is one."""
    import numpy as np  # here, because clients check what they send, and have no use for it

    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be numbers, with rows of equal length, got {shown(value)}.") from None


FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet takes for a formula."""


def harmless(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula.

    >>> harmless("=1+1"), harmless("plain")
    ("'=1+1", 'plain')
    """
    return "'" + text if text[:1] in FORMULAS else text
