"""What is said to a service for every command, and what is made of its replies; `transport` drives it either way."""

from __future__ import annotations

import operator
import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from freepull import commands, registry, validation
from freepull.client.reach import error_of, odd
from freepull.client.transport import Call, Talk, place, send
from freepull.commands import Command
from freepull.errors import FreepullError, InvalidInput, UnknownAgent, UnknownArm
from freepull.messages import (
    Accepted,
    AgentRow,
    AgentTokens,
    Arm,
    CampaignOffer,
    Imported,
    Me,
    Noted,
    Observation,
    Status,
    TokenEntry,
    Told,
)

Reply = TypeVar("Reply")
AT_ONCE = 1000
"""This many pulls are told in one request."""
LONG = ("agents", "snapshot", "imports")
"""Paths of requests that take long by their nature."""
MEDIA = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}


def within(campaign: str, *more: str) -> str:
    """Return the path of something of a campaign."""
    return place("campaigns", campaign, *more)


def event_id(event: str | int | None) -> str | int:
    """Return an event's id, a new one if it has none: then sending it again is safe."""
    return uuid.uuid4().hex if event is None else event


def named(agent: Any) -> str:
    """Return how an agent is named in requests: by its name, or by # and its number."""
    if isinstance(agent, str):
        return agent
    if validation.is_index(agent, 1 << 32):
        return f"#{operator.index(agent)}"
    raise UnknownAgent(
        f"agents are known by their names, or by their numbers from 0 on, got {validation.shown(agent)}."
    )


def nobody(by: str) -> None:
    """Refuse a name for the audit."""
    if by:
        raise InvalidInput("by must be left out with a service, because the audit names the token.")


def create(settings: dict[str, Any]) -> Call[Status]:
    """Make a campaign."""
    principal = settings.get("principal")
    if principal is not None and not isinstance(principal, dict):
        settings = settings | {"principal": registry.encode(principal, own=False)}
    return Call("POST", place("campaigns"), Status, settings, keyed=True, long=True)


class _Offered(msgspec.Struct):
    offer: CampaignOffer | None


class _Told(msgspec.Struct):
    event: int | None
    outcome: str | None
    offer: int | None
    paid: Any
    error: dict[str, Any] | None = None

    def told(self) -> Told:
        """Return it as a campaign does."""
        try:
            return msgspec.convert([self.event, self.outcome, self.offer, self.paid], Told)
        except msgspec.ValidationError as error:
            raise odd(str(error)) from None


class _Results(msgspec.Struct):
    results: list[_Told]


def agent_tokens(campaign: str, agents: Iterable[Any], lasts: str) -> Talk[dict[str, str]]:
    """Make agents' tokens; return them by name."""
    body = {"agents": [named(agent) for agent in agents], "lasts": lasts}
    made = yield from send(Call[AgentTokens]("POST", within(campaign, "tokens"), AgentTokens, body))
    found = {it.agent: it.token for it in made.tokens}
    if len(found) != len({*body["agents"]}) or not all(it.isascii() and it.isprintable() for it in found.values()):
        raise odd("it does not have the tokens that were asked for")
    return found


def my_offer(campaign: str) -> Talk[CampaignOffer | None]:
    """Return the offer for the agent whose token is sent."""
    found = yield from send(Call[_Offered]("POST", within(campaign, "me", "offer"), _Offered))
    return found.offer


def my_pull(campaign: str, arm: str, reward: float, event: str | int | None) -> Talk[Told]:
    """Tell a pull of the agent whose token is sent."""
    body = {"arm": arm, "reward": validation.told(reward), "event": event_id(event)}
    return (yield from send(Call[_Told]("POST", within(campaign, "me", "observations"), _Told, body))).told()


def my_answer(campaign: str, offer: int | None) -> Talk[CampaignOffer]:
    """Accept the offer of the agent whose token is sent."""
    found = yield from send(Call[Accepted]("POST", within(campaign, "me", "accept"), Accepted, {"offer": offer}))
    return found.offer


def my_refusal(campaign: str, offer: int | None) -> Talk[None]:
    """Decline the offer of the agent whose token is sent."""
    yield from send(Call[Me]("POST", within(campaign, "me", "decline"), Me, {"offer": offer}))


def my_act(campaign: str, arm: str, event: str | int) -> Talk[Told]:
    """Say that the agent whose token is sent has made a pull."""
    return _noted(campaign, "acts", {"arm": arm, "event": event})


def my_outcome(campaign: str, event: str | int, reward: float) -> Talk[Told]:
    """Tell what came of an act of the agent whose token is sent."""
    return _noted(campaign, "outcomes", {"event": event, "reward": validation.told(reward)})


def _noted(campaign: str, what: str, body: dict[str, Any]) -> Talk[Told]:
    return told_of((yield from send(Call[Noted]("POST", within(campaign, "me", what), Noted, body))))


def told_of(found: Noted) -> Told:
    """Return the reply to an act or an outcome as a campaign does."""
    return Told(*msgspec.structs.astuple(found))


def no_pull(campaign: str, event: str | int | None) -> Talk[None]:
    """Say that the agent whose token is sent has asked and made no pull."""
    yield from send(Call[Me]("POST", within(campaign, "me", "pass-over"), Me, {"event": event_id(event)}))


def pages(path: str, kind: Any, after: int, key: str, *only: tuple[str, Any]) -> Talk[list[Any]]:
    """Return all rows of a table, after a given one; or only some of them."""
    rows: list[Any] = []
    last = after
    while found := (yield from send(Call[list[Any]]("GET", path, kind, query=(("after", last), *only)))):
        rows += found
        before, last = last, getattr(found[-1], key) if key else after + len(rows)
        if last <= before:
            raise odd("a page of the table does not go on behind the one before")
    return rows


def agents(campaign: str, after: int) -> Talk[list[AgentRow]]:
    """Return agents as they stand."""
    return pages(within(campaign, "agents"), list[AgentRow], after, "number")


def token_audit(after: int) -> Talk[list[TokenEntry]]:
    """Return who has made and revoked which tokens."""
    return pages(place("tokens", "audit"), list[TokenEntry], after, "entry")


def talk(campaign: str, command: Command[Reply]) -> Talk[Reply]:
    """Return what is said for a command."""
    nobody(getattr(command, "by", ""))
    own = OWN.get(type(command))
    return _as_declared(campaign, command) if own is None else own(campaign, command)


def _as_declared(campaign: str, it: Command[Any]) -> Talk[Any]:
    """Send a command to its route."""
    route = it.route
    if route is None:
        raise InvalidInput(f"{it.verb} cannot be asked of a service; open the campaign itself for it.")
    names = {name: named(getattr(it, name)) for name in route.names if name == "agent"}
    if "arm" in route.names:
        names["arm"] = yield from _arm(campaign, getattr(it, "arm"))  # noqa: B009 - not every command has one
    path = within(campaign, *(part.format(**names) for part in route.path.split("/") if part))
    if hasattr(it, "after"):
        only = [(name, told) for name in it.__struct_fields__ if name != "after" and (told := getattr(it, name))]
        return (yield from pages(path, route.reply, it.after, route.key, *only))
    values = {field.name: _plain(getattr(it, field.name)) for field in it.body()}
    keyed, long = route.method == "POST", route.path in LONG
    call = Call[Any](route.method, path, route.reply, values or None, keyed=keyed, long=long)
    found = yield from send(call)
    if route.field == "*":
        return told_of(found)
    return getattr(found, route.field) if route.field else found if route.method == "GET" else None


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float)) else list(value)


def _arm(campaign: str, arm: Any) -> Talk[str]:
    """Return the name of an arm, which may be known by its number."""
    if isinstance(arm, str):
        return arm
    return _nth([it.name for it in (yield from send(Call[list[Arm]]("GET", within(campaign, "arms"), list[Arm])))], arm)


def _nth(arms: list[str], arm: Any) -> str:
    if validation.is_index(arm, len(arms)):
        return arms[operator.index(arm)]
    return validation.one_of("arm", arm, arms[:20], UnknownArm)


def for_agent(campaign: str, agent: Any, verb: str, kind: Any, body: Any = None) -> Talk[Any]:
    """Say something for an agent, with a token that may."""
    return send(Call[Any]("POST", within(campaign, "agents", named(agent), verb), kind, body))


def one_agent(campaign: str, agent: Any) -> Talk[Me]:
    """Return what an agent may know."""
    return send(Call("GET", within(campaign, "agents", named(agent)), Me))


def _arm_of(campaign: str, agent: Any, arm: Any) -> Talk[str]:
    """Return the name of an arm, which whoever speaks for an agent may know."""
    return arm if isinstance(arm, str) else _nth((yield from one_agent(campaign, agent)).arms, arm)


def _ask(campaign: str, it: commands.Ask) -> Talk[CampaignOffer | None]:
    found: _Offered = yield from for_agent(campaign, it.agent, "offer", _Offered)
    return found.offer


def _tell(campaign: str, it: commands.Tell) -> Talk[Told]:
    arm = yield from _arm_of(campaign, it.agent, it.arm)
    body = {"arm": arm, "reward": validation.told(it.reward), "event": event_id(it.event)}
    found: _Told = yield from for_agent(campaign, it.agent, "observations", _Told, body)
    return found.told()


def _tell_each(campaign: str, it: commands.TellEach) -> Talk[list[Told | FreepullError]]:
    left, told = iter(it.observations), list[Told | FreepullError]()
    while found := (yield from _tell_some(campaign, islice(left, AT_ONCE))):
        told += found
    return told


def _tell_some(campaign: str, observations: Iterator[Any]) -> Talk[list[Told | FreepullError]]:
    """Tell some pulls. What can be seen to be wrong is not sent, because JSON cannot say all of it."""
    body, wrong = list[dict[str, Any]](), dict[int, FreepullError]()
    arms = list[str]()
    for i, given in enumerate(observations):
        try:
            agent, arm, reward, event = Observation.of(given)
        except FreepullError as error:
            wrong[i] = error
            continue
        if not isinstance(arm, str) and not arms:
            arms = (yield from one_agent(campaign, agent)).arms
        try:
            arm = arm if isinstance(arm, str) else _nth(arms, arm)
            pull = {"agent": named(agent), "arm": arm, "reward": validation.told(reward), "event": event_id(event)}
        except FreepullError as error:
            wrong[i] = error
        else:
            body.append(pull)
    results = list[_Told]()
    if body:
        call = Call[_Results]("POST", within(campaign, "observations:batch"), _Results, {"observations": body})
        results = (yield from send(call)).results
    if len(results) != len(body):
        raise odd(f"it has {len(results)} results for {len(body)} pulls")
    told: list[Told | FreepullError] = [it.told() if it.error is None else error_of(it.error) for it in results]
    for i in sorted(wrong):
        told.insert(i, wrong[i])
    return told


def _pass_over(campaign: str, it: commands.PassOver) -> Talk[None]:
    """Give it an id, because sending it again must not count twice."""
    yield from for_agent(campaign, it.agent, "pass-over", Me, {"event": event_id(it.event)})


def _outcome(campaign: str, it: commands.TellOutcome) -> Talk[Told]:
    """Check the reward before it is sent, because JSON cannot say all that may be wrong with it."""
    return _as_declared(campaign, msgspec.structs.replace(it, reward=validation.told(it.reward)))


def _act(campaign: str, it: commands.Act) -> Talk[Told]:
    """Name the arm, which may be known by its number."""
    arm = yield from _arm_of(campaign, it.agent, it.arm)
    told: Told = yield from _as_declared(campaign, msgspec.structs.replace(it, arm=arm))
    return told


def _erase(campaign: str, it: commands.EraseNames) -> Talk[None]:
    """Erase everybody's names at once, or some one by one."""
    query = (("anyway", "true"),) if it.anyway else ()
    paths = [("names",)] if it.agents is None else [("agents", named(agent), "name") for agent in it.agents]
    for path in paths:
        yield from send(Call[None]("DELETE", within(campaign, *path), None, query=query))


def _export(campaign: str, it: commands.Export) -> Talk[int]:
    target = Path(it.path)
    content = yield from send(Call[bytes]("GET", within(campaign, "exports", it.what + target.suffix), bytes))
    target.write_bytes(content)
    status = yield from talk(campaign, commands.ReadStatus())
    return status.paid if it.what == "ledger" else status.observations + status.observed_only


def _import(campaign: str, it: commands.Import) -> Talk[int]:
    path = Path(it.path)
    kind, name = MEDIA.get(path.suffix, "application/octet-stream"), re.sub(r"[/\\\x00-\x1f]", "-", path.stem)[:60]
    query = (("name", name),)
    call = Call[Imported](
        "POST", within(campaign, "imports"), Imported, path.read_bytes(), kind, query, True, long=True
    )
    return (yield from send(call)).observations


OWN: dict[type[Command[Any]], Callable[[str, Any], Talk[Any]]] = {
    commands.Ask: _ask,
    commands.Tell: _tell,
    commands.TellEach: _tell_each,
    commands.PassOver: _pass_over,
    commands.Act: _act,
    commands.TellOutcome: _outcome,
    commands.EraseNames: _erase,
    commands.Export: _export,
    commands.Import: _import,
}
"""Commands for which a service has no request of the same kind."""
