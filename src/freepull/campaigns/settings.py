"""What a campaign is created with, and its times."""

from __future__ import annotations

import re
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from freepull import registry, validation
from freepull.commands import LONGEST_NAME, MOST_AGENTS
from freepull.errors import InvalidInput, InvalidReward, NewerVersion, OwnPartError, WrongMoment
from freepull.money import MOST, Money
from freepull.principal import Checks, Principal
from freepull.principal.offers import affordable, units_of
from freepull.principal.principal import MOST_ARMS
from freepull.principal.rules.base import RULES
from freepull.scales import Scale

Clock = Callable[[], int]
"""Returns the time in microseconds since 1970, UTC."""
UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
LONGEST = 100 * 366 * 86_400 * 10**6
_FORM = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) *(second|minute|hour|day|week)s?", re.ASCII)
_START = datetime(1970, 1, 1, tzinfo=UTC)


def system_clock() -> int:
    """Return the time of this machine."""
    return time.time_ns() // 1000


def lasting(name: str, text: Any) -> int:
    """Read a duration such as "1 day" or "90 seconds", or a timedelta, as microseconds above 0.

    >>> lasting("offer_lasts", "1.5 hours")
    5400000000
    """
    if isinstance(text, timedelta):
        length = text // timedelta(microseconds=1)
    else:
        found = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
        length = 0 if found is None else round(float(found[1]) * UNITS[found[2]] * 10**6)
    if not 0 < length <= LONGEST:
        raise InvalidInput(
            f"{name} must be a duration such as '1 day' or '90 minutes', or a timedelta, got {validation.shown(text)}."
        )
    return length


def long(length: int) -> str:
    """Return a duration as people read it.

    >>> long(lasting("offer_lasts", "36 hours")), long(lasting("offer_lasts", "2 days"))
    ('36 hours', '2 days')
    """
    seconds = length // 10**6
    unit = next((name for name in ("day", "hour", "minute") if seconds and seconds % UNITS[name] == 0), "second")
    count = length / 10**6 / UNITS[unit]
    return f"{count:g} {unit}{'' if count == 1 else 's'}"


def moment(name: str, value: Any) -> int:
    """Read a point in time: a datetime with a time zone, or its ISO text."""
    try:
        given = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(given, datetime) and given.tzinfo is not None:
            return (given - _START) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(
        f"{name} must be a time with a time zone such as '2030-01-31T12:00+00:00', got {validation.shown(value)}."
    )


def shown(at: int) -> datetime:
    """Return a point in time as people read it."""
    return _START + timedelta(microseconds=at)


MODES = ("free", "rounds")
LATE_JOINERS = ("observe", "count")
PARKED_AFTER = 3
"""After this many offers in a row that expire, the agent is parked."""
MOST_STREAMS = 2 * MOST_AGENTS
"""Pairs of an agent and an arm; each takes fifty bytes of memory or more."""


@dataclass(frozen=True)
class Settings:
    """All that is agreed before the first event. Times are in microseconds, money in minor units."""

    name: str
    arms: tuple[str, ...]
    principal: Principal
    mode: str
    price: Money
    budget: int | None
    horizon: int | None
    ends: int | None
    leavers: str
    withdrawal: bool
    late_joiners: str
    offer_lasts: int
    cool_down: int
    round_lasts: int | None
    remembers: int
    """How long event ids are remembered."""
    rules: int = RULES
    """The version of what decides; it is pinned when a campaign is created."""
    checks: Checks | None = None
    """The checks of assumptions beside the trial; campaigns that were created before there were any have none."""
    accept_within: int | None = None
    """How long an offer stands that is not accepted; None: as long as one that is."""
    pay_on: str = "act"
    """Whether a bonus is paid for the act, or for its outcome."""
    outcome_within: int | None = None
    """How long the outcome of an act is waited for; None: as long as event ids are remembered."""
    if_no_outcome: float | str | None = None
    """What counts if it has not come by then: a reward in [0, 1], or "missing"; None: nothing was said."""
    scale: str | None = None
    """From what to what rewards run, as they are told; None: from 0 to 1."""

    @property
    def early(self) -> bool:
        """Whether the campaign was created under version 1 of the rules."""
        return self.rules < 2

    def encode(self) -> dict[str, Any]:
        """Return plain data."""
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "checks"}
        plain = {name: value for name, value in plain.items() if name not in LATER or value != LATER[name]}
        if self.checks is not None:
            plain["checks"] = asdict(self.checks)
        principal = registry.encode(self.principal, own=False, logged=True)
        return plain | {"price": str(self.price), "arms": list(self.arms), "principal": principal}

    @classmethod
    def decode(cls, plain: dict[str, Any]) -> Settings:
        """Read what `encode` wrote; a campaign under newer rules is refused."""
        if plain.get("rules", 0) > RULES:
            raise NewerVersion(
                f"campaign {plain.get('name')!r} was created under rules of version {plain['rules']}, this freepull "
                f"knows {RULES}; install a newer freepull."
            )
        price, principal = Money.parse("price", plain["price"]), _principal(plain["principal"], plain.get("name"))
        checks = None if plain.get("checks") is None else Checks(**plain["checks"])
        read = {"price": price, "arms": tuple(plain["arms"]), "principal": principal, "checks": checks}
        return cls(**{"rules": 1} | plain | read)

    @property
    def on(self) -> Scale | None:
        """The scale of rewards; None: [0, 1]."""
        return None if self.scale is None else Scale.parse("scale", self.scale)

    def shown_reward(self, reward: float) -> str:
        """Return a reward in [0, 1] as it would be told."""
        return f"{reward:g}" if self.on is None else self.on.shown(reward)

    @property
    def awaits(self) -> int:
        """How long the outcome of an act is waited for."""
        return self.outcome_within or self.remembers

    @property
    def without_outcome(self) -> float | None:
        """The reward that counts for an act whose outcome has not come in time; None: it is missing."""
        return self.if_no_outcome if isinstance(self.if_no_outcome, float) else None

    def check_acts(self) -> None:
        """Refuse acts whose outcomes come later, if nothing was said of what a missing one counts as."""
        rule = self.principal.rule
        if self.if_no_outcome is None and not rule.designates:
            raise WrongMoment(
                f"campaign {self.name!r} takes no acts before their outcomes, because rules.{type(rule).__name__} "
                "needs every reward and the campaign was made without if_no_outcome, the reward that counts where "
                "none comes; tell pulls with their rewards."
            )

    def check_agents(self, count: int) -> None:
        """Refuse more agents in all than there is room for."""
        most = MOST_STREAMS // len(self.arms)
        if count > most:
            raise InvalidInput(
                f"agents must be at most {most:,} in all with {len(self.arms)} arms, got {count:,}; take fewer."
            )

    @property
    def priced(self) -> bool:
        """Whether offers differ in what they pay; the price is then that of a bonus of 1."""
        return self.principal.pricing is not None

    def affordable(self, budget: int | None) -> int | None:
        """Return what the trial may spend: how many bonuses or, where they differ, minor units."""
        return budget if budget is None or self.priced else budget // self.price.minor

    def first_budget(self) -> int | None:
        """Return the principal's budget, which is in units of reward, in money."""
        budget, price = self.principal.budget, self.price
        if budget is not None and self.priced:
            minor = units_of(budget, price.minor)
            if minor > MOST:
                raise InvalidInput(
                    f"budget must be at most {Money(MOST, price.currency)}, got {budget:,g} times {price}."
                )
            return minor
        bonuses = affordable(budget, self.principal.bonus)
        if bonuses is None:
            return None
        if bonuses * self.price.minor > MOST:
            raise InvalidInput(
                f"budget must be at most {Money(MOST, self.price.currency)}, got {bonuses:,} bonuses of {self.price}."
            )
        return bonuses * self.price.minor


LATER: dict[str, Any] = {
    "accept_within": None,
    "pay_on": "act",
    "outcome_within": None,
    "if_no_outcome": None,
    "scale": None,
}
"""Settings that older versions did not know, and what they are where a log does not have them."""
PAY_ON = ("act", "outcome")
MISSING = "missing"


def no_outcome(given: Any, principal: Principal, scale: Scale | None) -> float | str | None:
    """Check what counts for an act whose outcome does not come; return a reward in [0, 1]."""
    if given is None or given == MISSING:
        if given is not None and not principal.rule.designates:
            raise InvalidInput(
                f"if_no_outcome must be a reward with rules.{type(principal.rule).__name__}, which needs every one; "
                "'missing', which counts at its worst, is for rules.Comparisons."
            )
        return None if given is None else MISSING
    if scale is not None:
        try:
            return scale.read(given)[0]
        except InvalidReward as error:
            raise InvalidInput(f"if_no_outcome, if it is not 'missing', is a {error}") from None
    if isinstance(given, str):
        raise InvalidInput(f"if_no_outcome must be a reward in [0, 1], or 'missing', got {validation.shown(given)}.")
    return float(validation.real("if_no_outcome", given, 0.0, 1.0))


def _principal(plain: Any, name: Any) -> Principal:
    """Read what is in the log; what was said when the campaign was created is not said again."""
    theirs = isinstance(plain, dict) and registry.is_own("pricing", plain.get("pricing"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: Principal = registry.build("principal", plain, "principal", logged=True)
    except InvalidInput as error:
        if not theirs:
            raise
        raise OwnPartError(f"campaign {name!r} cannot be read: {error}") from error
    return found


def arm_names(arms: Any) -> tuple[str, ...]:
    """Check the names of arms; a number stands for "arm 0", "arm 1" and so on."""
    if isinstance(arms, int) and not isinstance(arms, bool):
        return tuple(f"arm {k}" for k in range(validation.whole("arms", arms, 2, MOST_ARMS)))
    names = _names("arms", arms)
    if not 2 <= len(names) <= MOST_ARMS:
        raise InvalidInput(f"arms must be from 2 to {MOST_ARMS:,} names, got {len(names)}.")
    return tuple(names)


def agent_names(agents: Any) -> list[str] | int:
    """Check the names of agents; a number of agents stands for agents without names."""
    if isinstance(agents, int) and not isinstance(agents, bool):
        return validation.whole("agents", agents, 1, (1 << 32) - 1)
    names = _names("agents", agents)
    for name in names:
        if name.startswith("#"):
            raise InvalidInput(
                f"agents must not have names that begin with '#', which stands for a number, got {name!r}."
            )
    return names


def _names(kind: str, given: Any) -> list[str]:
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise InvalidInput(f"{kind} must be a list of names, or how many, got {validation.shown(given)}.")
    names = list(given)
    for name in names:
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise InvalidInput(
                f"{kind} must be printable names of at most {LONGEST_NAME} characters, got {validation.shown(name)}."
            )
        if name.startswith("'"):  # see `validation.harmless`
            raise InvalidInput(
                f"{kind} must not have names that begin with an apostrophe, got {validation.shown(name)}."
            )
    if len(set(names)) < len(names):
        raise InvalidInput(f"{kind} must be different names, got {Counter(names).most_common(1)[0][0]!r} twice.")
    return names
