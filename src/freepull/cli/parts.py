"""The parts of a simulation by the names that people type: `alpha-ucb`, `with-probability:0.8`, `ban-for:rounds=10`."""

from __future__ import annotations

import csv
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from freepull import agents, answers, checks, rewards
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.instances import Family, toy
from freepull.principal import protocols, schedules


def _by_name(*classes: type) -> dict[str, type]:
    return {re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=KL)(?=UCB)", "-", part.__name__).lower(): part for part in classes}


PARTS: dict[str, dict[str, type]] = {
    "agents": _by_name(
        agents.AlphaUCB, agents.KLUCB, agents.Thompson, agents.EpsilonGreedy, agents.Greedy, agents.RoundRobin
    ),
    "answers": _by_name(answers.Always, answers.Never, answers.WithProbability, answers.HoldOut, answers.IfWorthIt),
    "observe": _by_name(schedules.Share, schedules.Root, schedules.Steps, schedules.KnownGap, schedules.Adaptive),
    "protocol": _by_name(protocols.TakeOrBan, protocols.BanFor, protocols.BanAfter, protocols.NeverBan),
    "rewards": _by_name(rewards.Bernoulli, rewards.Beta, rewards.TruncatedNormal),
}


def choices(kind: str) -> str:
    """Return the known names of one kind, with their parameters, for help texts."""
    return ", ".join(name + "".join(f":{p}" for p in _parameters(part)[:1]) for name, part in PARTS[kind].items())


def build(kind: str, text: str) -> Any:
    """Make a part from its name and parameters: `name`, `name:value` or `name:parameter=value,…`."""
    name, _, given = text.partition(":")
    part = PARTS[kind][checks.one_of(f"--{kind}", name.strip(), PARTS[kind])]
    values = _values(f"--{kind} {name}", _parameters(part), given)
    needed = [
        field.name for field in fields(part) if field.init and field.default is MISSING and field.name not in values
    ]
    if needed:
        raise InvalidInput(f"--{kind} {name} must be given {needed[0]}, as in {name}:{needed[0]}=10, got {text!r}.")
    return part(**values)


def build_game(text: str, law: str, weights: str | None) -> Any:
    """Make a game from `toy`, `family:agents=30,sd=0.005`, or a CSV file of means, one row an agent."""
    name, _, given = text.partition(":")
    if name == "toy" and not given and law == "bernoulli" and weights is None:
        return toy()
    if name == "family":
        if law != "bernoulli" or weights is not None:
            raise InvalidInput("--rewards and --weights must be left out with --game family, whose games are drawn.")
        return Family(**{"agents": 30, **_values("--game family", ["agents", "sd"], given)})
    p = None if weights is None else [_number("--weights", part) for part in weights.split(",")]
    if name == "toy" and not given:
        means: Any = toy().means
    elif not Path(text).is_file():
        raise InvalidInput(
            f"--game must be toy, family:agents=M,sd=σ or a CSV file of means that exists, got {text!r}."
        )
    else:
        try:
            rows = list(csv.reader(Path(text).read_text().splitlines()))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"--game {text} cannot be read: {error}; give a CSV file of means, a row an agent."
            ) from None
        means = [[_number(f"{text} line {i}", cell) for cell in row] for i, row in enumerate(rows, 1) if row]
    return Game(means, rewards=build("rewards", law), weights=p)


def _parameters(part: type) -> list[str]:
    return [field.name for field in fields(part) if field.init]


def _values(where: str, names: list[str], given: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in filter(None, (item.strip() for item in given.split(","))):
        left, equals, right = item.partition("=")
        if not names:
            raise InvalidInput(f"{where} takes no parameter, got {given!r}.")
        name = checks.one_of(f"the parameter of {where}", left.strip(), names) if equals else names[0]
        if name in values:
            raise InvalidInput(f"{where} takes {name} once, got {given!r}.")
        values[name] = _number(f"{where}: {name}", right if equals else left)
    return values


def _number(where: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{where} must be a number, got {text.strip()!r}.") from None
