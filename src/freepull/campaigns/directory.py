"""Pulls as they come in: names become numbers, rewards fixed-point integers, event ids short hashes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.campaigns.journal.events import Kind
from freepull.errors import FreepullError, InvalidInput, UnknownAgent, UnknownArm, UnknownName
from freepull.messages import Observation
from freepull.money import Money
from freepull.principal.record import many_units, units
from freepull.scales import Scale

LONGEST_ID = 200
NAMED = 20
"""This many arms are named in a sentence."""
NO_NEW_ARMS = "no arm can join later, because nothing was compared with it, so make a new campaign for a new one"
LONGEST_NUMBER = 11
"""Characters of an agent's number, with its "#"; there are fewer than 2³² agents."""


class Pull(NamedTuple):
    """One pull, checked as far as that is possible without looking at the campaign."""

    agent: int = 0
    arm: int = 0
    value: int = 0
    """The reward in units of 2⁻³⁰."""
    id: bytes | None = None
    """What its event id is remembered by."""
    number: int | None = None
    """The agent's own number of it."""
    clipped: bool = False
    """Whether the reward lay outside the scale."""


@dataclass
class Batch:
    """Some pulls, in columns."""

    agents: NDArray[np.int64]
    arms: NDArray[np.int64]
    values: NDArray[np.int64]
    """Rewards in units of 2⁻³⁰."""
    ids: list[bytes | None]
    """What event ids are remembered by; empty if no pull has one."""
    numbers: list[int | None]
    """The agents' own numbers; empty if no pull has one."""
    errors: dict[int, FreepullError] = field(default_factory=dict)
    """What is wrong, by position."""
    simulated: bool = False
    """Whether simulated agents made them, in a rehearsal."""
    clipped: NDArray[np.bool_] | None = None
    """Which rewards lay outside the scale; None: none of them."""
    kind: Kind = Kind.TOLD
    """TOLD; ACTED, if outcomes are to come; or PASSED, if they are none: the agents have asked and made no pull."""

    @classmethod
    def of(cls, pulls: list[Pull], errors: dict[int, FreepullError] | None = None) -> Batch:
        """Put pulls into columns; those with errors are only placeholders."""
        agents, arms, values = np.array([pull[:3] for pull in pulls], np.int64).reshape(-1, 3).T
        ids, numbers = [pull.id for pull in pulls], [pull.number for pull in pulls]
        made = cls(agents, arms, values, ids if any(ids) else [], numbers if any(numbers) else [], errors or {})
        if any(pull.clipped for pull in pulls):
            made.clipped = np.array([pull.clipped for pull in pulls])
        return made

    @classmethod
    def joined(cls, parts: list[Batch]) -> Batch:
        """Put batches one behind the other."""
        agents, arms, values = (
            np.concatenate([getattr(part, name) for part in parts] or [np.zeros(0, np.int64)])
            for name in ("agents", "arms", "values")
        )
        ids = [key for part in parts for key in part.ids or [None] * len(part)]
        numbers = [number for part in parts for number in part.numbers or [None] * len(part)]
        made = cls(agents, arms, values, ids if any(ids) else [], numbers if any(numbers) else [])
        if any(part.clipped is not None for part in parts):
            none = [np.zeros(len(part), bool) if part.clipped is None else part.clipped for part in parts]
            made.clipped = np.concatenate(none)
        return made

    def __len__(self) -> int:
        return len(self.agents)

    def known(self) -> list[bytes]:
        """Return the ids that may have been used before."""
        return [key for key in self.ids if key is not None]


class Register:
    """Who and what can be named: agents by name or number, arms by name or number; the price, and the scale."""

    def __init__(self, campaign: str, arms: Iterable[str], price: Money, scale: Scale | None = None) -> None:
        self.campaign, self.price, self.currency, self.scale = campaign, price, price.currency, scale
        self.id = ""
        """What tells the campaign from all others, for payers and receivers."""
        self.arms = list(arms)
        self._arm_numbers = {name: k for k, name in enumerate(self.arms)}
        self.enrolled = 0
        self.numbers: dict[str, int] = {}
        """Agents by name; agents without one are known by number alone."""
        self.names: list[str | None] = []

    def add(self, number: int, name: str) -> None:
        """Take note of a name."""
        self.names += [None] * (number + 1 - len(self.names))
        self.names[number] = name
        self.numbers[name] = number

    def forget(self, numbers: Iterable[int]) -> None:
        """Erase names."""
        for number in numbers:
            if number < len(self.names) and self.names[number] is not None:
                del self.numbers[self.names[number] or ""]
                self.names[number] = None

    def shown(self, agent: int) -> str:
        """Return how an agent is named on screen: its name, or "#" and its number."""
        return (self.names[agent] if agent < len(self.names) else None) or f"#{agent}"

    def agent(self, given: Any) -> int:
        """Return the number of an agent."""
        if type(given) is str:
            number = self.numbers.get(given)
            if number is not None:
                return number
            digits = given[1:] if given[:1] == "#" and len(given) <= LONGEST_NUMBER else ""
            if digits.isascii() and digits.isdigit() and int(digits) < self.enrolled:
                return int(digits)
        elif validation.is_index(given, self.enrolled):
            return int(given)
        raise UnknownAgent(
            f"campaign {self.campaign!r} has no agent {validation.shown(given)}; agents are known by their names, or "
            f"by their numbers from #0 to #{self.enrolled - 1}."
        )

    def arm(self, given: Any) -> int:
        """Return the number of an arm."""
        if type(given) is str and given in self._arm_numbers:
            return self._arm_numbers[given]
        if not isinstance(given, str) and validation.is_index(given, len(self.arms)):
            return int(given)
        try:
            return self.arms.index(validation.one_of("arm", given, self.arms[:NAMED]))
        except UnknownName as error:
            said = str(error)
            new = isinstance(given, str) and said.endswith(".")  # else another one was meant
            raise UnknownArm(f"{said[:-1]}; {NO_NEW_ARMS}." if new else said) from None

    def reward(self, given: Any, simulated: bool = False) -> tuple[float, bool]:
        """Return a reward in [0, 1], as which simulated agents tell it, and whether it lay outside the scale."""
        if self.scale is None or simulated:
            return validation.reward(given), False
        return self.scale.read(given)

    def batch(self, observations: Iterable[Any], simulated: bool = False) -> Batch:
        """Turn observations into a batch."""
        try:
            observations = list(observations)
        except TypeError:
            raise InvalidInput(
                f"observations must be a list of (agent, arm, reward, event), got {validation.shown(observations)}."
            ) from None
        usual = self._usual(observations, simulated)
        if usual is not None:
            return usual
        pulls, errors = list[Pull](), dict[int, FreepullError]()
        for i, given in enumerate(observations):
            try:
                pulls.append(self.pull(*Observation.of(given), simulated=simulated))
            except FreepullError as error:
                errors[i] = error
                pulls.append(Pull())
        return Batch.of(pulls, errors)

    def pull(self, agent: Any, arm: Any, reward: Any, event: Any, simulated: bool = False) -> Pull:
        """Check one observation."""
        number = self.numbers.get(agent) if type(agent) is str else None
        if number is None:
            number = self.agent(agent)
        arm, clipped = self.arm(arm), False
        if self.scale is not None or not (type(reward) is float and 0.0 <= reward <= 1.0):
            reward, clipped = self.reward(reward, simulated)
        key = (None, None) if event is None else identity(number, event)
        return Pull(number, arm, units(reward), *key, clipped)

    def _usual(self, observations: list[Any], simulated: bool) -> Batch | None:
        """Turn observations into a batch column by column, if there is nothing unusual about any of them."""
        try:
            names, arm_names, rewards, events = zip(*observations, strict=True)
            agents = [self.numbers[name] for name in names]
            arms = [self._arm_numbers[name] for name in arm_names]
            known = [(None, None) if it is None else identity(m, it) for m, it in zip(agents, events, strict=True)]
        except (KeyError, TypeError, ValueError, FreepullError):
            return None
        values = np.array(rewards) if all(type(reward) is float for reward in rewards) else np.full(1, np.nan)
        clipped: NDArray[np.bool_] | None = None
        if self.scale is not None and not simulated:
            scaled = self.scale.read_many(values)
            if scaled is None:
                return None
            values, clipped = scaled
        if not ((values >= 0.0) & (values <= 1.0)).all():
            return None
        ids, numbers = [key for key, _ in known], [number for _, number in known]
        return Batch(
            np.array(agents, np.int64),
            np.array(arms, np.int64),
            many_units(values),
            ids if any(ids) else [],
            numbers if any(numbers) else [],
            clipped=clipped if clipped is not None and clipped.any() else None,
        )


def act_identity(agent: int, event: Any) -> tuple[bytes, int | None]:
    """Return what an act is remembered by, so that its outcome finds it, and the agent's own number of it, if any."""
    key, number = identity(agent, event)
    if key is None:
        key = blake2b(f"{agent}:{number}".encode(), digest_size=16, person=b"number").digest()
    return key, number


def outcome_identity(act: bytes) -> bytes:
    """Return what the outcome of an act is remembered by, given what the act is."""
    return blake2b(act, digest_size=16, person=b"outcome").digest()


def identity(agent: int, event: Any) -> tuple[bytes | None, int | None]:
    """Return what an event id is remembered by, or the agent's own number of it."""
    if isinstance(event, str) and 0 < len(event) <= LONGEST_ID:
        text = event.encode(errors="surrogatepass")
        return blake2b(agent.to_bytes(4, "little") + text, digest_size=16).digest(), None
    if isinstance(event, int) and not isinstance(event, bool) and 0 < event < 1 << 62:
        return None, event
    raise InvalidInput(
        f"event must be an id of 1 to {LONGEST_ID} characters, or a number from 1 on, got {validation.shown(event)}."
    )
