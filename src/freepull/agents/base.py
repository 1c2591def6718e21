"""What an agent is: it picks an arm, then learns from the reward. Everything else is its own affair.

An agent that is a formula, an `Indexed` or a `Remembering` one, is written once, as plain functions of numbers, and
runs on both engines: the compiled one makes machine code of these functions, a user's own included.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.compiling import Asks, adapted, digest
from freepull.errors import InvalidInput
from freepull.randomness import CHOICE_COIN, uniform, word

_NUMBERS = "f8[::1]"
LARGEST = sys.float_info.max
"""What an index counts as at most, so that an arm that was never pulled comes first."""
INDEX = {
    "pulls": "f8", "total": "f8", "squares": "f8", "mean": "f8", "root": "f8", "arm": "i8", "t": "i8",
    "arms": "i8", "params": _NUMBERS,
}  # fmt: skip
CHOICE = {"memory": _NUMBERS, "t": "i8", "arms": "i8", "coin": "f8", "params": _NUMBERS}
NOTE = {"memory": _NUMBERS, "arm": "i8", "reward": "f8", "paid": "f8", "t": "i8", "arms": "i8", "params": _NUMBERS}
ACCEPTS = {
    "t": "i8", "arm": "i8", "bonus": "f8", "nth": "i8", "pulls": _NUMBERS, "sums": _NUMBERS, "coin": "f8", "lot": "f8",
    "loss": "f8", "params": _NUMBERS,
}  # fmt: skip
ASKED = {"index": INDEX, "choice": CHOICE, "note": NOTE, "accepts": ACCEPTS}
"""What these functions of agents and answers may ask for."""


@runtime_checkable
class Agent(Protocol):
    """The contract for every agent, built in or a user's own.

    The simulator copies the object it was given once for every agent and run, so an agent may keep any state. If it
    has a method ``start(arms, key)``, that is called first, with the number of arms and a 64-bit key of its own from
    which it may draw (see `freepull.randomness`).
    """

    def pick(self, t: int) -> int:
        """Return the arm to pull at step t = 1, 2, …; called only when no offer was taken."""
        ...

    def learn(self, arm: int, reward: float) -> None:
        """Take note of a pull, paid ones included; the bonus is never part of the reward.

        With a third argument of the name ``paid`` it is told the bonus as well, 0 if there was none.
        """
        ...


class OnTable(NamedTuple):
    """An offer that an agent may take by pulling its arm."""

    arm: int
    bonus: float


@dataclass(frozen=True)
class View:
    """All that an agent with one mind may know when it acts."""

    t: int
    """Its own clock: 1 at its first act."""
    step: int
    """The step of the trial."""
    horizon: int
    offer: OnTable | None
    """What is on the table; whoever pulls its arm has taken it."""
    phase: str | None
    """"observing", "incentivizing", "decided" or "over", as the principal announces it; None where nobody does."""
    banned_until: int
    """The last step of its ban; 0 if it was never banned."""
    pulls: tuple[int, ...]
    sums: tuple[float, ...]
    """Its own pulls and rewards, by arm…"""
    paid: tuple[float, ...]
    """…and bonuses."""
    offers: int
    """How many offers it has had, this one included."""
    coin: float
    """A number in [0, 1) drawn for this agent and t."""

    @property
    def banned(self) -> bool:
        """Whether it is banned in this step."""
        return self.step <= self.banned_until


@runtime_checkable
class Mind(Protocol):
    """The contract for an agent with one mind, which sees offers, bans and payments and decides everything itself.

    What answers say does not matter for it. It is copied and may have ``start(arms, key)``, as an `Agent` may.
    """

    def act(self, view: View) -> int:
        """Return the arm to pull; the arm of the offer on the table takes it, any other one refuses it."""
        ...

    def learn(self, arm: int, reward: float, paid: float) -> None:
        """Take note of a pull and of the bonus that came with it, 0 if none did."""
        ...


@dataclass
class Learner:
    """An agent that keeps the pulls N and the reward sums S of its own arms."""

    pulls: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
    sums: list[float] = field(default_factory=list, init=False, repr=False, compare=False)
    key: int = field(default=0, init=False, repr=False, compare=False)

    def start(self, arms: int, key: int = 0) -> None:
        """Forget everything and prepare for this many arms."""
        self.pulls, self.sums, self.key = [0] * arms, [0.0] * arms, key

    def learn(self, arm: int, reward: float) -> None:
        """Count the pull and add up its reward."""
        self.pulls[arm] += 1
        self.sums[arm] += reward


@dataclass
class TriesAllFirst(Learner):
    """A learner that pulls every arm once, the lowest first, before it chooses."""

    def pick(self, t: int) -> int:
        """An unpulled arm, or the agent's choice."""
        return self.pulls.index(0) if 0 in self.pulls else self.choose(t)

    def choose(self, t: int) -> int:
        """Return the arm to pull at step t, when every arm was pulled."""
        raise NotImplementedError


def first_largest(values: list[float]) -> int:
    """Return the position of the largest value; of several, the lowest."""
    return values.index(max(values))


_KEPT: dict[tuple[type, str, bool], tuple[str, Any]] = {}
"""Formulas by class, name, and whether they are compiled, with the digest of what they were made of."""


def formula(made: type, name: str, compiled: bool = True) -> Any:
    """Return one of a class's functions as a function of all that it may ask for, compiled or in plain Python."""
    if (made, name, compiled) in _KEPT:
        return _KEPT[made, name, compiled][1]
    function, asks = getattr(made, name, None), Asks(ASKED[name], f"{made.__name__}.{name}")
    if function is None:
        told = ", ".join(asks.names)
        raise InvalidInput(
            f"{made.__name__} must have a static method {name}, which takes some of {told}; it has none."
        )
    named = [it.name for it in fields(cast(Any, made)) if it.init]
    found = adapted(function, asks, named, compiled)
    _KEPT[made, name, compiled] = _digest(made, name), found
    return found


def forget_changed(made: type) -> None:
    """Forget what was made of functions of a class that have changed since, or a number that they read.

    Machine code has numbers from around a function as they were when it was made.
    """
    for key, (made_of, _) in list(_KEPT.items()):
        if key[0] is made and made_of != _digest(made, key[1]):
            _KEPT.pop(key, None)


def _digest(made: type, name: str) -> str:
    function = getattr(made, name)
    return digest(getattr(function, "py_func", function))


def check_formulas(made: type) -> None:
    """Check what the functions of a class ask for, as soon as it is made."""
    for name, names in ASKED.items():
        if (found := getattr(made, name, None)) is not None and not isinstance(found, property):
            Asks(names, f"{made.__name__}.{name}").check(found)


def parameters(part: Any) -> NDArray[np.float64]:
    """Return a part's parameters as its functions see them: numbers, in the order of its fields."""
    named = {it.name: getattr(part, it.name) for it in fields(part) if it.init}
    return np.array([validation.real(name, value) for name, value in named.items()] or [0.0])


@dataclass
class Indexed(TriesAllFirst):
    """An agent that pulls the arm with the largest index, after it has pulled every arm once.

    The index is a static method of the class. It is a plain function of numbers, or one that Numba has compiled, and
    takes whichever of these it asks for by name: ``pulls`` N, ``total`` S and ``squares`` ΣX² of the arm, ``mean`` S/N
    and ``root`` 1/√N, which are at hand and save a division and a root, the arm's number ``arm``, the agent's clock
    ``t``, the number of ``arms``, and ``params``, which has the fields of the dataclass, all as numbers. Both engines
    run it, the compiled one at its own speed, unless the class has its own ``start``, ``pick``, ``choose`` or
    ``learn``. NaN is never the largest, and an infinite index counts as the largest finite number.

    >>> import math
    >>> @dataclass
    ... class Bold(Indexed):
    ...     courage: float = 1.0
    ...     @staticmethod
    ...     def index(mean, root, t, params):
    ...         return mean + params.courage * math.sqrt(math.log(t)) * root
    >>> agent = Bold(courage=0.5)
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3)
    1
    """

    index: ClassVar[Callable[..., float]]
    squares: list[float] = field(default_factory=list, init=False, repr=False, compare=False)

    def __init_subclass__(cls) -> None:
        check_formulas(cls)

    def start(self, arms: int, key: int = 0) -> None:
        """Forget everything and prepare for this many arms."""
        super().start(arms, key)
        self.squares = [0.0] * arms

    def learn(self, arm: int, reward: float) -> None:
        """Count the pull, and add up its reward and the square of it."""
        super().learn(arm, reward)
        self.squares[arm] += reward * reward

    def choose(self, t: int) -> int:
        """The arm with the largest index."""
        index, numbers, arms = formula(type(self), "index"), parameters(self), len(self.pulls)
        seen = enumerate(zip(self.pulls, self.sums, self.squares, strict=True))
        values = [index(float(N), S, Q, S / N, 1.0 / math.sqrt(N), k, t, arms, numbers) for k, (N, S, Q) in seen]
        return first_largest([min(value, LARGEST) if value == value else -math.inf for value in values])


@dataclass
class Remembering(Learner):
    """An agent with a memory of its own: so many numbers, of which two functions make what it does.

    ``choice`` returns the arm to pull, and ``note`` changes the memory after a pull; both are static methods, as
    `Indexed.index` is, and take what they ask for by name. For ``choice``: ``memory``, an array of `numbers_kept`
    numbers, all 0 at first, which it must leave as it is; ``t``, ``arms``, ``coin``, a number in [0, 1) drawn for this
    agent and t, and ``params``. For ``note``: ``memory``, ``arm``, ``reward``, ``paid``, the bonus that came with it or
    0, ``t``, ``arms`` and ``params``. `EXP3` is one.
    """

    choice: ClassVar[Callable[..., int]]
    note: ClassVar[Callable[..., None]]
    memory: array[float] = field(default_factory=lambda: array("d"), init=False, repr=False, compare=False)

    def __init_subclass__(cls) -> None:
        check_formulas(cls)

    @staticmethod
    def numbers_kept(arms: int) -> int:
        """How many numbers the memory has: one an arm, unless a class says otherwise."""
        return arms

    def start(self, arms: int, key: int = 0) -> None:
        """Forget everything and prepare for this many arms."""
        super().start(arms, key)
        self.memory = array("d", bytes(8 * self.numbers_kept(arms)))

    def pick(self, t: int) -> Any:
        """The arm that the memory and a coin make it choose."""
        coin = uniform(word(self.key, CHOICE_COIN, t))
        choice = formula(type(self), "choice")
        arm = choice(np.frombuffer(self.memory), t, len(self.pulls), coin, parameters(self))
        return int(arm) if 0 <= arm < len(self.pulls) else arm  # what is no arm is refused as it is

    def learn(self, arm: int, reward: float, paid: float = 0.0) -> None:
        """Count the pull, add up its reward, and change the memory."""
        super().learn(arm, reward)
        note = formula(type(self), "note")
        note(np.frombuffer(self.memory), arm, reward, paid, sum(self.pulls), len(self.pulls), parameters(self))
