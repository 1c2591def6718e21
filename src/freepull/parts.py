"""Parts by the names that people type: `alpha-ucb`, `with-probability:0.8`, `{kind = "ban-for", rounds = 10}`.

Commands give a text, study files a text or a table; both become a table with a ``kind`` first, then the part.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from freepull import agents, answers, checks, rewards
from freepull.errors import InvalidInput
from freepull.principal import protocols, rules, schedules

Table = dict[str, Any]


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
    "rule": _by_name(rules.Certified, rules.Pairwise, rules.Population, rules.Paper, rules.Passive),
}
_UNWRITTEN = ("design", "blocks")
"""Parameters that are objects, and have no written form."""


def defaults(kind: str, name: str) -> Table:
    """Return the parameters of a part with their defaults; None where one must be given."""
    part = PARTS[kind][name]
    wanted = [field for field in fields(part) if field.init and field.name not in _UNWRITTEN]
    return {field.name: None if field.default is MISSING else field.default for field in wanted}


def choices(kind: str) -> str:
    """Return the known names of one kind, with their first parameters, for help texts."""
    return ", ".join(name + "".join(f":{p}" for p in list(defaults(kind, name))[:1]) for name in PARTS[kind])


def table(kind: str, given: str | Mapping[str, Any], where: str) -> Table:
    """Return a part as a table, with its kind and the parameters that were given."""
    if isinstance(given, str):
        name, _, rest = given.partition(":")
        name = checks.one_of(where, name.strip(), PARTS[kind])
        return {"kind": name, **parameters(f"{where} {name}", list(defaults(kind, name)), rest)}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{where} must be a name, or a table with a kind, got {checks.shown(given)}.")
    if "kind" not in given:
        raise InvalidInput(
            f"{where} must have a kind, one of {', '.join(PARTS[kind])}; got {checks.shown(dict(given))}."
        )
    name = checks.one_of(f"{where}.kind", given["kind"], PARTS[kind])
    known(f"the parameter of {where} {name}", (key for key in given if key != "kind"), defaults(kind, name))
    return dict(given)


def complete(kind: str, given: str | Mapping[str, Any], where: str) -> Table:
    """Return a part as a table with every parameter written out; None where one is still missing."""
    short = table(kind, given, where)
    return {"kind": short["kind"], **defaults(kind, short["kind"]), **short}


def build(kind: str, given: str | Mapping[str, Any], where: str) -> Any:
    """Make a part from its text or its table."""
    values = table(kind, given, where)
    name = values.pop("kind")
    part = PARTS[kind][name]
    for field in fields(part):
        if field.init and field.default is MISSING and values.get(field.name) is None:
            example = f"{name}:{field.name}=10" if isinstance(given, str) else f"{field.name} = …"
            got = given if isinstance(given, str) else {key: value for key, value in given.items() if value is not None}
            raise InvalidInput(f"{where} {name} must be given {field.name}, as in {example}, got {checks.shown(got)}.")
    return part(**values)


def known(where: str, names: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse a name that is not among the allowed ones."""
    choices = list(allowed)
    for name in names:
        if not choices:
            raise InvalidInput(f"{where} must be left out, because it takes no parameter, got {name!r}.")
        checks.one_of(where, name, choices)


def parameters(where: str, names: list[str], given: str) -> Table:
    """Return the numbers of `value`, `parameter=value,…`; a value without a name is the first parameter's."""
    values: Table = {}
    for item in filter(None, (item.strip() for item in given.split(","))):
        left, equals, right = item.partition("=")
        if not names:
            raise InvalidInput(f"{where} takes no parameter, got {given!r}.")
        name = checks.one_of(f"the parameter of {where}", left.strip(), names) if equals else names[0]
        if name in values:
            raise InvalidInput(f"{where} takes {name} once, got {given!r}.")
        values[name] = number(f"{where}: {name}", right if equals else left)
    return values


def number(where: str, text: str) -> float:
    """Return a text as a number."""
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{where} must be a number, got {text.strip()!r}.") from None


def means_from_csv(where: str, text: str) -> list[list[float]]:
    """Return the table of means that a CSV file holds, a row an agent."""
    rows = enumerate(csv.reader(text.splitlines()), 1)
    return [[number(f"{where} line {i}", cell) for cell in row] for i, row in rows if row]
