"""Parts: agents, answers, activities, ways to leave, schedules, protocols, reward laws and rules.

Each is declared once, in its own file, by `part`. Everything that names parts reads these declarations: commands
(`alpha-ucb:alpha=2`), study files (the same text, or a table), the API, the log of a campaign, the provenance of
results and the saved states of trials. As plain data a part is always `{"part": "AlphaUCB", "alpha": 2.0}`. The
spellings of version 0.1 are read too: "kind" for "part", and either of a part's two names, `alpha-ucb` and `AlphaUCB`.
A part of one's own is named `package.module:Class`, where whoever writes it also runs it: in study files and commands,
never over HTTP, and in a log only a pricing.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

from freepull import validation
from freepull.errors import FreepullError, InvalidInput

Table = dict[str, Any]
"""A part as plain data."""
Class = TypeVar("Class", bound=type)
KEYS = ("part", "kind")
"""Under which a table may say which part it is; the first is ours, the second that of studies of version 0.1."""
LOGGED = {"pricing": "price"}
"""Of which kinds a log may name a part of its maker's own, and the method without which none is made."""
MOST_TOLD = 10_000
"""A parameter of more numbers is not written into provenance."""
WRITABLE = {"int", "float", "str", "bool", "None"}
"""What a parameter may be to be written in a text."""
_OWN = re.compile(r"([A-Za-z_][\w.]*:[A-Z]\w*)(?::(.*))?", re.DOTALL)


class Kind(NamedTuple):
    """One kind of part; it is named as the parameter where such a part stands."""

    word: str
    home: str
    """The module that declares all of them when it is imported."""


KINDS = {
    "agents": Kind("an agent", "freepull.agents"),
    "answers": Kind("an answer", "freepull.agents.answers"),
    "activity": Kind("an activity", "freepull.agents.activity"),
    "leaving": Kind("a way to leave", "freepull.agents.leaving"),
    "rewards": Kind("a reward law", "freepull.rewards"),
    "disturbances": Kind("a disturbance", "freepull.disturbances"),
    "observe": Kind("a schedule", "freepull.principal.schedules"),
    "protocol": Kind("a protocol", "freepull.principal.protocols"),
    "pricing": Kind("a pricing", "freepull.principal.pricing"),
    "rule": Kind("a rule", "freepull.principal.rules"),
    "design": Kind("a design", "freepull.principal.rules"),
    "forecast": Kind("a forecast", "freepull.principal.rules"),
    "blocks": Kind("blocks", "freepull.principal.rules"),
    "principal": Kind("a principal", "freepull.principal"),
}


class Parameter(NamedTuple):
    """One parameter of a part."""

    name: str
    default: Any
    """As it is given to the class; MISSING where there is none."""
    types: frozenset[str]
    """The words of its annotation; none for a class of one's own that does not say."""

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is MISSING

    @property
    def several(self) -> bool:
        """Whether it may be a list."""
        return bool(self.types & {"Sequence", "list", "tuple"})

    @property
    def plain(self) -> Any:
        """The default as plain data, None where there is none."""
        return None if self.required else _plain(self.default)


@dataclass(frozen=True)
class Part:
    """What is declared of a part."""

    kind: str
    made: type
    written: str
    """Its name in commands and study files."""
    nested: tuple[str, ...] = ()
    """The parameters that hold a part themselves, or a list of them, of the kind of that name."""
    kernel: int | None = None
    """Its number in the compiled engine, of its own among agents and among answers; None: it is not compiled."""
    most_arms: int | None = None
    """A rule: the most arms that a campaign may have, so that comparing every two of them takes a gigabyte or so."""
    late_joiners: bool = False
    """A rule: whether it can begin again with agents who joined late."""
    retired: str = ""
    """Of a part that there is no longer: what to take instead. Only logs and saved states may still name it."""

    @property
    def own(self) -> bool:
        """Whether it is a user's own."""
        return self.made.__module__.partition(".")[0] != __package__

    @property
    def name(self) -> str:
        """Its name in plain data."""
        return f"{self.made.__module__}:{self.made.__qualname__}" if self.own else self.made.__name__

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters: fields of the dataclass, or arguments of a class of one's own."""
        if not is_dataclass(self.made):
            return _arguments(self.made)
        found = {}
        for field in fields(self.made):
            if field.init:
                factory = field.default_factory
                default = field.default if factory is MISSING else factory()
                found[field.name] = Parameter(field.name, default, _types(field.type))
        return found

    @cached_property
    def limits(self) -> dict[str, validation.Limits]:
        """What each parameter is held to, whatever the others are, as the part itself checks it when it is made."""
        needed = {name: 1 for name, it in self.parameters.items() if it.required}
        left_out = [name for name, it in self.parameters.items() if it.default is None and it.types & {"int", "float"}]
        with validation.noting() as notes, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for given in ({}, *({name: 1} for name in left_out)):
                with suppress(InvalidInput):
                    self.made(**needed, **given)
        return {name: limits for (made, name), limits in notes.items() if made is self.made}

    @property
    def writable(self) -> dict[str, Parameter]:
        """The parameters that a text can give: numbers, words, true and false."""
        return {name: it for name, it in self.parameters.items() if name not in self.nested and it.types <= WRITABLE}


_PARTS: dict[type, Part] = {}
"""All that is declared, in that order."""


def part(
    kind: str,
    written: str,
    *,
    nested: tuple[str, ...] = (),
    kernel: int | None = None,
    most_arms: int | None = None,
    late_joiners: bool = False,
    retired: str = "",
) -> Callable[[Class], Class]:
    """Declare a class to be a part; what the arguments mean stands in `Part`."""

    def declare(made: Class) -> Class:
        _PARTS[made] = Part(kind, made, written, nested, kernel, most_arms, late_joiners, retired)
        return made

    return declare


def parts(kind: str) -> list[Part]:
    """Return all parts of a kind that there are."""
    return [it for it in _ever(kind) if not it.retired]


def _ever(kind: str) -> list[Part]:
    """Return all parts of a kind, also those that there are no longer."""
    importlib.import_module(KINDS[kind].home)
    return [it for it in _PARTS.values() if it.kind == kind]


def declared(made: type) -> Part | None:
    """Return what is declared of a class; nothing is inherited."""
    return _PARTS.get(made)


def find(kind: str, name: str) -> Part | None:
    """Return the part that has this name, written or of its class, also one that there is no longer."""
    return next((it for it in _ever(kind) if name in (it.written, it.name)), None)


def still(kind: str, name: str, where: str, names: Iterable[str]) -> Part | None:
    """Return the part that has this name; refuse one that there is no longer, with those that there are."""
    about = find(kind, name)
    if about is not None and about.retired:
        raise InvalidInput(
            f"{where} must be one of {', '.join(names)}, got {name!r}, which there is no longer; take {about.retired}."
        )
    return about


def choices(kind: str) -> str:
    """Return the names that a text can give, with their first parameters and those that must be given, for help texts.

    >>> choices("activity")
    'every-step, rate:rate, lognormal:median,sigma=…'
    >>> choices("protocol")
    'take-or-ban, ban-for:rounds, ban-after:refusals, never-ban'
    """
    needed = {it: [f",{name}=…" for name, p in list(it.writable.items())[1:] if p.required] for it in _textual(kind)}
    return ", ".join(":".join([it.written, *list(it.writable)[:1]]) + "".join(more) for it, more in needed.items())


def _textual(kind: str) -> list[Part]:
    """Return the parts that a text can give in full."""
    return [it for it in parts(kind) if all(p.name in it.writable for p in it.parameters.values() if p.required)]


def encode(thing: Any, *, own: bool = True, logged: bool = False) -> Table:
    """Return a part as plain data, all its parameters included; a part of one's own is refused where that is not right.

    ``logged`` says that it is for a log, which may name some parts of one's own (`LOGGED`) where others are refused.

    >>> from freepull.principal.schedules import Share
    >>> encode(Share(0.25))
    {'part': 'Share', 'rho': 0.25}
    """
    about = declared(type(thing)) or Part("", type(thing), "")
    if about.own and not own:
        named = "a pricing aside, because a campaign's log has" if logged else "because messages have"
        raise InvalidInput(
            f"principal must be made of freepull's own parts, {named} to name them, got {type(thing).__name__}."
        )
    names = list(about.parameters)
    if "part" in names or not all(hasattr(thing, name) for name in names):  # a class of one's own, in its own way
        custom = vars(object)["__repr__"] is not type(thing).__repr__
        return {"part": about.name} | ({"shown": shown(thing)} if custom else {})
    told: Table = {"part": about.name}
    for name in names:
        value = getattr(thing, name)
        theirs = logged and not own and name in LOGGED and value is not None and declared(type(value)) is None
        told[name] = _for_log(name, value) if theirs else _plain(value, own, name in about.nested, logged)
    return told


def is_own(kind: str, given: Any) -> bool:
    """Say whether plain data name a part that is not one of ours; nothing is imported for it."""
    spelt = next((given[key] for key in KEYS if key in given), None) if isinstance(given, Mapping) else None
    return isinstance(spelt, str) and find(kind, spelt) is None


def _for_log(kind: str, thing: Any) -> Table:
    """Return a part of one's own as a log may name it: whoever reads it can import it and make it again."""
    about = Part(kind, type(thing), "")
    if not _OWN.fullmatch(about.name) or about.made.__module__ == "__main__":
        raise InvalidInput(
            f"{kind} must be of a class Name at the top of a module that can be imported, because a campaign's log has "
            f"to name it, got {about.name}; move it there."
        )
    if _imported(kind, about.name, kind).made is not about.made:
        raise InvalidInput(
            f"{kind} must be of the class that {about.name} is when it is imported, because a campaign's log has to "
            "name it, got another one of that name; make it anew."
        )
    for name in about.parameters:
        if not _is_plain(getattr(thing, name, about)):
            got = validation.shown(getattr(thing, name)) if hasattr(thing, name) else f"no attribute {name}"
            raise InvalidInput(
                f"{kind} {about.name} must keep its parameter {name} as an attribute that is a number of at most 64 "
                "bits, a text, true, false, None or a list of these, because a campaign's log has to have it, got "
                f"{got}."
            )
    return encode(thing)


def _is_plain(value: Any) -> bool:
    """Say whether a value can be written down and read back."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and _is_plain(name) for name in value) and all(map(_is_plain, value.values()))
    if type(value) is str:
        return value.encode(errors="ignore").decode() == value
    return value is None or type(value) in (bool, float) or (type(value) is int and -(1 << 63) <= value < 1 << 64)


def _plain(value: Any, own: bool = True, nested: bool = False, logged: bool = False) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if (nested and not isinstance(value, list | tuple)) or (is_dataclass(value) and not isinstance(value, type)):
        return encode(value, own=own, logged=logged)
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, own, logged=logged) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, own, nested, logged) for inner in value]
    return value.tolist() if hasattr(value, "tolist") else shown(value)  # NumPy's arrays and numbers have it


def brief(plain: Any) -> Any:
    """Return plain data without parameters that hold very many numbers, for provenance."""
    if not isinstance(plain, dict):
        return plain
    return {name: brief(value) for name, value in plain.items() if _size(value) <= MOST_TOLD}


def _size(value: Any) -> int:
    return sum(map(_size, value)) if isinstance(value, list) else 1


def shown(thing: Any) -> str:
    """Return anything as text, without the addresses of what prints with one."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def table(kind: str, given: Any, where: str, *, own: bool = False, logged: bool = False) -> Table:
    """Return a part as plain data, with the parameters that were given.

    ``own`` says that whoever writes it also runs it: then it may be a text, and a part of the writer's own. ``logged``
    says that it is from a log: then it may be one that there is no longer, or a pricing of its maker's own.
    """
    if isinstance(given, str) and own:
        return _from_text(kind, given.strip(), where)
    if not isinstance(given, Mapping):
        raise _no_part(kind, given, where, own)
    key = next((key for key in KEYS if key in given), KEYS[0])
    alone = parts(kind)[0] if len(parts(kind)) == 1 else None
    spelt = given.get(key, alone and alone.name)
    if not isinstance(spelt, str):
        raise _no_part(kind, given, where, own)
    names = [it.written if own else it.name for it in parts(kind)]
    about = _named(kind, spelt, f"{where}.{key}", own, names, logged)
    values = {name: value for name, value in given.items() if name != key}
    known(f"the parameter of {where if about is alone else f'{where} {spelt}'}", values, about.parameters)
    for name in set(about.nested) & set(values):
        default = about.parameters[name].default
        if isinstance(values[name], list) and about.parameters[name].several:
            held = enumerate(values[name])
            values[name] = [table(name, it, f"{where}.{name}.{i}", own=own, logged=logged) for i, it in held]
        elif isinstance(values[name], Mapping | str if own else Mapping) and values[name] != default:
            values[name] = table(name, values[name], f"{where}.{name}", own=own, logged=logged)
        elif values[name] != default:
            raise _no_part(name, values[name], f"{where}.{name}", own, default)
    return {"part": about.name, **values}


def _from_text(kind: str, given: str, where: str) -> Table:
    name, _, rest = given.partition(":")
    textual, found = {it.written: it for it in _textual(kind)}, _OWN.fullmatch(given)
    if still(kind, name.strip(), where, textual) is None and found is not None:
        about, rest = _imported(kind, found[1], where), found[2] or ""
    else:
        about = textual[validation.one_of(where, name.strip(), textual)]
    return {"part": about.name, **read(f"{where} {about.written}", about.writable, rest)}


def complete(kind: str, given: Any, where: str, *, own: bool = False) -> Table:
    """Return a part as plain data with every parameter written out; None where one is still missing."""
    found = table(kind, given, where, own=own)
    about = _named(kind, found["part"], where, own, [])
    for name in set(about.nested) & set(found):
        found[name] = _inside(found[name], partial(complete, name), where=f"{where}.{name}", own=own)
    return {"part": about.name, **{name: it.plain for name, it in about.parameters.items()}, **found}


def build(kind: str, given: Any, where: str, *, own: bool = False, logged: bool = False) -> Any:
    """Make a part from its text or its plain data; what ``own`` and ``logged`` mean stands in `table`."""
    found = table(kind, given, where, own=own, logged=logged)
    about = _named(kind, found.pop("part"), where, own, [], logged)
    for name, parameter in about.parameters.items():
        if parameter.required and found.get(name) is None:
            example = (
                f"{about.written}:{name}=10" if isinstance(given, str) else f"{name} = …" if own else f'"{name}": …'
            )
            got = given if isinstance(given, str) else {key: it for key, it in given.items() if it is not None}
            raise InvalidInput(
                f"{where} {about.written if own else about.name} must be given {name}, as in {example}, "
                f"got {_shown(got, own)}."
            )
    for name in set(about.nested) & set(found):
        found[name] = _inside(found[name], partial(build, name), where=f"{where}.{name}", own=own, logged=logged)
    try:
        return about.made(**found)
    except FreepullError:
        raise
    except (Exception, SystemExit) as error:
        if not about.own:
            raise
        raise InvalidInput(f"{where} {about.name} cannot be made: {one_line(error)}; mend it.") from error


def _inside(held: Any, change: Callable[..., Any], **more: Any) -> Any:
    """Return a nested parameter with its part changed, or each of its parts; what is no part is left alone."""
    if isinstance(held, list):
        return [_inside(it, change, **more) for it in held]
    return change(held, **more) if isinstance(held, Mapping) else held


def short(kind: str, given: Mapping[str, Any]) -> Table:
    """Return plain data without what is as by default: two parts are the same if this is.

    Nothing is imported or made, so what a file says can be compared whoever wrote it.
    """
    spelt = next((given[key] for key in KEYS if key in given), None)
    about = find(kind, spelt) if isinstance(spelt, str) else None
    if about is None:
        return dict(given)
    left: Table = {"part": about.name}
    for name, value in given.items():
        parameter = about.parameters.get(name)
        default = MISSING if parameter is None else parameter.plain
        if name in about.nested:
            value, default = (_inside(it, partial(short, name)) for it in (value, default))
        if name not in KEYS and value != default:
            left[name] = value
    return left


def from_repr(text: str) -> Table | None:
    """Return as plain data what a part of ours prints; None if it is something else. Version 0.1 saved states so.

    >>> from_repr("Certified(delta=0.05, gap=0.1)")
    {'part': 'Certified', 'delta': 0.05, 'gap': 0.1}
    """

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
            return {"part": node.func.id} | {str(it.arg): value(it.value) for it in node.keywords}
        return ast.literal_eval(node)

    try:
        found = value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def known(where: str, names: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse a name that is not among the allowed ones."""
    choices = list(allowed)
    for name in names:
        if not choices:
            raise InvalidInput(f"{where} must be left out, because it takes no parameter, got {name!r}.")
        validation.one_of(where, name, choices)


def read(where: str, parameters: Mapping[str, Parameter], given: str) -> Table:
    """Return the values of `value`, `parameter=value,…`; a value without a name is the first parameter's."""
    values: Table = {}
    for item in filter(None, (item.strip() for item in given.split(","))):
        left, equals, right = item.partition("=")
        if not parameters:
            raise InvalidInput(f"{where} takes no parameter, got {given!r}.")
        name = (
            validation.one_of(f"the parameter of {where}", left.strip(), parameters)
            if equals
            else next(iter(parameters))
        )
        if name in values:
            raise InvalidInput(f"{where} takes {name} once, got {given!r}.")
        values[name] = _value(f"{where}: {name}", parameters[name].types, (right if equals else left).strip())
    return values


def numeric(names: Iterable[str]) -> dict[str, Parameter]:
    """Return parameters that are numbers, for `read`."""
    return {name: Parameter(name, MISSING, frozenset({"float"})) for name in names}


def number(where: str, text: str) -> float:
    """Return a text as a number."""
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{where} must be a number, got {text.strip()!r}.") from None


def _value(where: str, types: frozenset[str], text: str) -> Any:
    """Return what a text says, as far as the types allow it; without types, what it looks like."""
    plain = {"none": None, "true": True, "false": False}.get(text.lower(), text)
    if plain is not text and (not types or type(plain).__name__.removesuffix("Type") in types):
        return plain
    if types and not types & {"int", "float"}:
        return text
    if "str" in types or not types:
        try:
            value = float(text)
        except ValueError:
            return text
    else:
        value = number(where, text)
    whole = "float" not in types if types else text.lstrip("+-").isdecimal()
    return int(value) if whole and value.is_integer() else value


def _named(kind: str, name: str, where: str, own: bool, names: list[str], logged: bool = False) -> Part:
    """Return the part of a name, or import one of the writer's own; refuse others, with those that there are."""
    about = find(kind, name) if logged else still(kind, name, where, names)
    if about is not None:
        return about
    if not _OWN.fullmatch(name):
        validation.one_of(where, name, names)
    if own:
        return _imported(kind, name, where)
    if logged and kind in LOGGED:
        words = name.partition(":")[0].split(".")
        if words[0] in sys.stdlib_module_names or "__main__" in words:  # nobody's pricing, but programs among them
            raise InvalidInput(
                f"{where} must be a class of a module of its maker's own, none of Python's and no program, got {name}; "
                "choose another module."
            )
        about = _imported(kind, name, where)
        if not callable(getattr(about.made, LOGGED[kind], None)):  # before it is made: a log must not run anything else
            raise InvalidInput(f"{where} must be a class with a method {LOGGED[kind]}, got {name}; mend it.")
        return about
    also = " and, in Python, for campaigns" if kind in LOGGED else ""
    raise InvalidInput(
        f"{where} must be one of {', '.join(names)}, because a campaign's log has to name it, got {name!r}; parts of "
        f"your own are for simulations{also}."
    )


def _imported(kind: str, name: str, where: str) -> Part:
    """Import a part of the writer's own."""
    module, _, attribute = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # a script without a guard may leave, and must not take a service along
        remedy = "it must be installed, or its folder be in PYTHONPATH"
        raise InvalidInput(f"{where} {name} cannot be imported ({one_line(error)}); {remedy}.") from error
    if not isinstance(made, type):
        raise InvalidInput(
            f"{where} must be a class, as in package.module:Class, got {name!r}, {validation.shown(made)}."
        )
    return declared(made) or Part(kind, made, name)


def _no_part(kind: str, given: Any, where: str, own: bool, default: Any = MISSING) -> InvalidInput:
    """Say how a part is written, and what may stand there instead."""
    about = parts(kind)[0]
    first = [it for it in about.parameters.values() if not it.required][:1]
    words = json.dumps({"part": about.name} | {it.name: it.plain for it in first})
    if own:
        words = f'"{about.written}" or {{ part = "{about.name}", … }}'
    if default is None or isinstance(default, str):
        words = f"{json.dumps(default)} or {words}"
    return InvalidInput(f"{where} must be a part such as {words}, got {_shown(given, own)}.")


def _shown(given: Any, own: bool) -> str:
    """Return what was given, as its writer wrote it: JSON over HTTP."""
    if own:
        return validation.shown(dict(given) if isinstance(given, Mapping) else given)
    text = json.dumps(given, ensure_ascii=False)
    return text if len(text) <= 200 else text[:197] + "..."


def one_line(error: BaseException) -> str:
    """Return what an error of somebody's own code says, on one line of a sentence."""
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")


def _arguments(made: type) -> dict[str, Parameter]:
    try:
        told = inspect.signature(made).parameters.values()
    except (ValueError, TypeError):
        return {}
    named = [it for it in told if it.kind in (it.POSITIONAL_OR_KEYWORD, it.KEYWORD_ONLY)]
    defaults = [MISSING if it.default is it.empty else it.default for it in named]
    return {
        it.name: Parameter(it.name, default, _types(it.annotation)) for it, default in zip(named, defaults, strict=True)
    }


def hears_of_bonuses(agent: Any) -> bool:
    """Say whether an agent's ``learn`` asks for what was paid."""
    try:
        return "paid" in inspect.signature(agent.learn).parameters
    except (TypeError, ValueError):
        return False


def _types(annotation: Any) -> frozenset[str]:
    if annotation is inspect.Parameter.empty:
        return frozenset()
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return frozenset(re.findall(r"\w+", text)) - {"typing", "Optional", "Union"}
