"""Bodies and answers of the service, as OpenAPI describes them, and how bodies are read.

Unknown fields, fields given twice, and numbers in quotes are refused, with what to do.
"""

from __future__ import annotations

import json
import math
import re
from typing import Annotated, Any, TypeVar

import msgspec
from litestar.dto import AbstractDTO
from litestar.typing import FieldDefinition
from msgspec import Meta

from freepull import commands, registry, validation
from freepull.campaigns.settings import LATE_JOINERS, LONGEST, PAY_ON, UNITS
from freepull.commands import AGENT_NAME, AMOUNT, ARM_NAME, LONGEST_NAME, MOST_AGENTS, PRINTABLE, Command
from freepull.errors import FreepullError
from freepull.messages import CampaignOffer, Mode, Outcome, Scope, Told, one_of
from freepull.money import MOST_PRICE, Money, below, pattern
from freepull.principal import Principal, for_people
from freepull.principal.principal import LEAVERS
from freepull.server.problems import Problem, Refused, problem

Sent = TypeVar("Sent")
NESTED = "Nest less deeply."
REMEDIES = (
    ("missing required field", "Add this field."),
    ("unknown field", "Leave this field out."),
    ("twice", "Give every field once."),
    ("Expected", "Send a body of this kind."),
    ("truncated", "Send the whole body."),
    ("utf-8", "Encode the body in UTF-8."),
    ("byte", "Change what is at this byte; JSON has no NaN, no Infinity and no comments."),
    ("recursion", NESTED),
    ("nested", NESTED),
    ("", "Send a body in JSON."),
)
"""What to do, by what is in the sentence."""


class Strict(AbstractDTO[Sent]):
    """Decodes bodies as they are meant, where Litestar alone would be lenient."""

    def decode_bytes(self, value: bytes) -> Any:
        """Decode a body."""
        json_only(self.asgi_connection.headers.get("content-type", ""))
        return decode(value, self.model_type)

    def decode_builtins(self, value: Any) -> Any:
        """Refuse forms."""
        raise Refused(415, "the body must be application/json.", "Set the header Content-Type.")

    @classmethod
    def create_for_field_definition(cls, field_definition: Any, handler_id: str, backend_cls: Any = None) -> None:
        """Need nothing of Litestar's own machinery."""

    @classmethod
    def create_openapi_schema(cls, field_definition: FieldDefinition, handler_id: str, schema_creator: Any) -> Any:
        """Describe the body as the type it has."""
        return schema_creator.for_field_definition(field_definition)


def json_only(kind: str) -> None:
    """Refuse another kind of body than JSON."""
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "the body must be application/json.", "Set the header Content-Type.")


def decode(value: bytes, kind: Any) -> Any:
    """Decode JSON into a type, or say in a sentence what is wrong."""
    try:
        found = msgspec.json.decode(value, type=kind)
        if not _plain_to_see(value, found):
            json.loads(value, object_pairs_hook=_once)
    except msgspec.ValidationError as error:
        raise Refused(422, f"the body is not as it must be: {_plain(error)}.", _remedy(error)) from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Refused(400, f"the body is no JSON: {_plain(error)}.", _remedy(error)) from None
    return found


def _plain_to_see(value: bytes, found: Any) -> bool:
    """Say whether it is plain to see that no field of a pull is given twice, which is so for nearly all of them.

    Every pull has its required fields, so as many names as pulls means one each; an event may be missing.
    """
    pulls = found.observations if isinstance(found, Batch) else [found] if isinstance(found, Pull) else []
    if not pulls or b"\\" in value:
        return False
    events = value.count(b'"event"')
    if events and (events != len(pulls) or any(it.event is None for it in pulls)):
        return False
    if not value.count(b'"arm"') == value.count(b'"reward"') == len(pulls):
        return False
    return found is pulls[0] or (value.count(b'"agent"') == len(pulls) and value.count(b'"observations"') == 1)


def _once(pairs: list[tuple[str, Any]]) -> None:
    names = set[str]()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"the field {name!r} is given twice")
        names.add(name)


def _plain(error: Exception) -> str:
    words = " ".join(str(error).split()).removeprefix("JSON is malformed: ")
    return words[:200].rstrip(".") or "it is nested too deeply"


def _remedy(error: Exception) -> str:
    """Return what to do, as the library's words suggest."""
    words = _plain(error)
    if place := re.search(r"at `\$\.?(.+)`$", words):
        return f"Change {place[1]}."
    return next(remedy for part, remedy in REMEDIES if part in words)


EXAMPLE = {
    "rule": {"part": "Certified", "delta": 0.05},
    "observe": {"part": "Steps", "n": 10},
    "protocol": {"part": "TakeOrBan"},
    "offers": "each",
    "bonus": 1.0,
    "budget": 500,
}


def read_principal(plain: dict[str, Any] | None, horizon: int | None = None) -> Principal:
    """Make the principal that JSON describes; offers go to each agent unless it says otherwise.

    Where it names no rule, what is left out is as in `for_people`.
    """
    told = plain or {}
    given = registry.table("principal", {"offers": "each"} | told, "principal")
    best = {} if "rule" in told else registry.encode(for_people(horizon), own=False)
    found: Principal = registry.build("principal", best | given, "principal")
    return found


MOST_OBSERVATIONS = 1000


def _durations() -> str:
    """Return a pattern of all durations up to the longest."""
    ways = []
    for unit, seconds in UNITS.items():
        most = LONGEST // 10**6 // seconds
        whole = "[0-9]{1,9}" if most >= 10**9 else below(most)
        ways.append(rf"0*{whole}(\.[0-9]{{1,6}})? *{unit}s?")
    return f"^(?=[0-9]{{1,9}}[^0-9])(?=.*[1-9])({'|'.join(ways)})$"


def _described(about: registry.Part) -> dict[str, Any]:
    """Describe the parameters of a part, with the limits that the part itself holds each to."""
    fields = {}
    for name, it in about.parameters.items():
        limits = about.limits.get(name, validation.Limits())
        ways = [PLAIN[word] | _limited(word, limits) for word in PLAIN if word in it.types]
        ways += [{"type": "array"}] * it.several
        if name in about.nested:
            ways += [_named(part) for part in registry.parts(name)]
        fields[name] = {"anyOf": ways} if ways else {}
    return {"type": "object", "properties": fields, "additionalProperties": False}


def _limited(word: str, limits: validation.Limits) -> dict[str, Any]:
    """Say in the words of a schema what a parameter is held to."""
    if word == "str":
        return {"enum": list(limits.words)} if limits.words else {}
    low, high = (
        "exclusiveMinimum" if limits.open_low else "minimum",
        "exclusiveMaximum" if limits.open_high else "maximum",
    )
    ends = {low: limits.low, high: limits.high} if word in ("int", "float") else {}
    return {name: end for name, end in ends.items() if math.isfinite(end)}


def _named(about: registry.Part) -> dict[str, Any]:
    """Describe a part that says its name."""
    found = _described(about)
    found["properties"] = {"part": {"const": about.name}} | found["properties"]
    return found | {"required": ["part", *(name for name, it in about.parameters.items() if it.required)]}


PLAIN: dict[str, dict[str, Any]] = {
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "None": {"type": "null"},
}
DURATION, PRICE = _durations(), "^(?=.*[1-9])" + pattern(MOST_PRICE).removeprefix("^")
PRINCIPAL = _described(registry.parts("principal")[0])
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, extra_json_schema={"pattern": PRINTABLE})]
Reward = float | bool | str
Id = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200})]
Number = Annotated[int, Meta(extra_json_schema={"minimum": 1, "exclusiveMaximum": 1 << 62})]
"""These limits are the campaign's, which says in its own words what is wrong; here they are described only."""
Count = Annotated[int, Meta(ge=1, le=MOST_AGENTS)]
Lasting = Annotated[str, Meta(examples=["30 days", "90 seconds"], extra_json_schema={"pattern": DURATION})]
ArmName = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": LONGEST_NAME, "pattern": ARM_NAME})]
Weights = Annotated[
    list[Annotated[float, Meta(extra_json_schema={"minimum": 0})]], Meta(extra_json_schema={"minItems": 1})
]
AgentNumber = Annotated[int, Meta(extra_json_schema={"minimum": 0, "exclusiveMaximum": 1 << 32})]
NewArm = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, extra_json_schema={"pattern": ARM_NAME})]
NewAgent = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, extra_json_schema={"pattern": AGENT_NAME})]
ArmNames = Annotated[list[NewArm], Meta(extra_json_schema={"minItems": 2, "maxItems": 1 << 16, "uniqueItems": True})]
AgentNames = Annotated[list[NewAgent], Meta(extra_json_schema={"uniqueItems": True})]


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What all bodies have in common: no field that is not known."""


class NewCampaign(Body, kw_only=True):
    """A campaign to be made; the fields are those of `freepull.Campaign.create`."""

    name: Name
    """By which it is known; printable."""
    arms: ArmNames | Annotated[int, Meta(ge=2, le=1 << 16)]
    """What can be pulled: names, or how many."""
    price: Annotated[str, Meta(examples=["0.50 EUR"], extra_json_schema={"pattern": PRICE})]
    """What one bonus costs."""
    budget: Annotated[str, Meta(examples=["30 EUR"], extra_json_schema={"pattern": AMOUNT})] | None = None
    """The most that may be spent; null: as the principal's, or no limit."""
    agents: AgentNames | Count = []
    """Who takes part: names, or how many; more can be enrolled until the start."""
    principal: Annotated[dict[str, Any], Meta(examples=[EXAMPLE], extra_json_schema=PRINCIPAL)] | None = None
    """By which rule, after how much observing, and whom to pay: parts with their parameters, see docs/service.md.

    What is left out is as by default: as of `Principal` where a rule is named, else as is best for people. bonus and
    budget are in units of reward here: a budget of 30 with a bonus of 1 pays for 30 bonuses, whatever the price. The
    campaign's own budget is money.
    """
    horizon: Annotated[int, Meta(ge=1, lt=1 << 53)] | None = None
    """The last step; a step is a pull of everybody on average. Some parts can do without it."""
    ends: (
        Annotated[str, Meta(examples=["2030-01-31T12:00:00+00:00"], extra_json_schema={"format": "date-time"})] | None
    ) = None
    """When it stops by itself."""
    mode: Mode = "free"
    """free: everybody at their own pace; rounds: everybody once a round."""
    weights: Weights | None = None
    """How much each agent counts; null: all the same."""
    leavers: Annotated[str, one_of(*LEAVERS)] = "wait"
    """What becomes of agents who leave."""
    offer_lasts: Lasting = "1 day"
    """How long an offer stands."""
    cool_down: Lasting = "1 hour"
    """How long an agent gets no offer after it let one expire."""
    round_lasts: Lasting | None = None
    """After how long a round closes; only in the mode rounds."""
    late_joiners: Annotated[str, one_of(*LATE_JOINERS)] = "observe"
    """Whether those who join after the start count, or are only observed."""
    withdrawal: bool = False
    """Whether arms may be withdrawn later; with the rule Comparisons only."""
    remembers: Lasting = "30 days"
    """How long the ids of events are remembered."""
    accept_within: Lasting | None = None
    """How long an offer reserves its bonus unless it is accepted; null: as long as an accepted one."""
    pay_on: Annotated[str, one_of(*PAY_ON)] = "act"
    """Whether a bonus is paid when the pull is made, or when its outcome is told."""
    outcome_within: Lasting | None = None
    """How long the outcome of an act is waited for; null: as long as ids are remembered."""
    if_no_outcome: float | bool | str | None = None
    """What counts if it has not come by then: a reward, or missing: at its worst, with the rule Comparisons only."""
    scale: Annotated[str, Meta(examples=["1..5", "0..50 EUR", "yes/no"])] | None = None
    """From what to what rewards run as they are told, and in which unit; null: from 0 to 1."""
    checks: bool | None = None
    """Whether checks of assumptions run beside it, with the rule Comparisons only; null: where they can."""


class NewAgentTokens(Body, kw_only=True):
    """Agents who need a token."""

    agents: Annotated[list[Name | AgentNumber], Meta(min_length=1, max_length=10_000)]
    """Their names, or their numbers."""
    lasts: Lasting = "30 days"
    """For how long."""


class NewToken(Body, kw_only=True):
    """A token to be made."""

    scope: Scope
    """admin: everything; operator: all but money and tokens; read: looks only; gateway: asks and tells for agents;
    payer: reads the ledger, and says what was paid out."""
    campaign: Annotated[str, Meta(extra_json_schema={"maxLength": LONGEST_NAME, "pattern": PRINTABLE})] = ""
    """The only campaign it is for; empty: all."""
    label: Annotated[str, Meta(max_length=200, extra_json_schema={"pattern": PRINTABLE})] = ""
    """What it is for."""
    lasts: Lasting | None = None
    """For how long; null: until it is revoked."""


class Replay(Body, kw_only=True):
    """From where a webhook begins anew."""

    after: Annotated[int, Meta(ge=-1, lt=1 << 62)]
    """The last event of the log that it need not be told again; -1: it is told everything."""


class Pull(Body, kw_only=True):
    """One pull by the agent who sends it."""

    arm: ArmName
    """What was pulled."""
    reward: Reward
    """What came of it: a number from 0 to 1, or as the campaign's scale has it."""
    event: Id | Number | None = None
    """An id, or the agent's own number of the event: telling again with it is safe."""


class NoPull(Body, kw_only=True):
    """That an agent who asked made no pull."""

    event: Id | Number | None = None
    """An id, or the agent's own number of the event: sending it again is safe."""


class Answer(Body, kw_only=True):
    """What an agent says to its offer."""

    offer: Annotated[int, Meta(ge=1)] | None = None
    """The number of the offer that is meant; null: whichever is open."""


class Deed(Body, kw_only=True):
    """One pull that was made, its outcome to come."""

    arm: ArmName
    """What was pulled."""
    event: Id | Number
    """An id, or the agent's own number of the event, by which its outcome is told; sending it again is safe."""


class Result(Body, kw_only=True):
    """What came of an act."""

    event: Id | Number
    """The event by which the act was told; sending its outcome again is safe."""
    reward: Reward
    """What came of it: a number from 0 to 1, or as the campaign's scale has it."""


class AgentPull(Pull, kw_only=True):
    """One pull, sent by a gateway for an agent; what is wrong with its values is in its own result."""

    agent: str
    """Who pulled."""
    arm: str
    """What was pulled."""
    reward: Reward
    """What came of it, from 0 to 1 or on the campaign's scale."""
    event: str | int | None = None
    """An id of 1 to 200 characters, or the agent's own number of the event: telling again with it is safe."""


class Batch(Body, kw_only=True):
    """Pulls, sent by a gateway."""

    observations: Annotated[list[AgentPull], Meta(min_length=1, max_length=MOST_OBSERVATIONS)]
    """In the order in which they happened."""


def _body(name: str, command: type[Command[Any]]) -> type[msgspec.Struct]:
    """Make the body of a request from the fields of a command."""
    fields = [
        (field.name, field.type) if field.required else (field.name, field.type, field.default)
        for field in command.body()
    ]
    return msgspec.defstruct(
        name, fields, bases=(Body,), module=__name__, namespace={"__doc__": command.__doc__}, kw_only=True
    )


MADE = Stop, Budget, NewAgents, Settle, NotThere = (
    _body("Stop", commands.Stop),
    _body("Budget", commands.SetBudget),
    _body("NewAgents", commands.AddAgents),
    _body("Settle", commands.Settle),
    _body("NotThere", commands.Unavailable),
)
"""Bodies that have no source of their own."""
BODIES = {
    commands.Stop: Stop,
    commands.SetBudget: Budget,
    commands.AddAgents: NewAgents,
    commands.Settle: Settle,
    commands.Unavailable: NotThere,
}
"""The bodies of commands that have one."""


class ToldReply(msgspec.Struct):
    """The reply to a pull; the same again if it is told again."""

    event: int | None = None
    """The pull's place in the log; null if the number is an old one, whose reply is not kept."""
    outcome: Outcome | None = None
    """What became of the open offer: paid, refused, cancelled (it had been taken back), or null if there was none."""
    offer: int | None = None
    """The offer that this pull ended."""
    paid: Money | None = None
    """What was paid for this pull."""
    error: Problem | None = None
    """Why this one of a batch was not told."""


def told_reply(told: Told | FreepullError) -> ToldReply:
    """Return a reply to one pull."""
    return ToldReply(error=problem(told)) if isinstance(told, FreepullError) else ToldReply(*told)


class BatchReply(msgspec.Struct):
    """A reply for every pull, in their order."""

    results: list[ToldReply]
    """One for each, also for those that were refused."""


class OfferReply(msgspec.Struct):
    """The offer, or null if there is none now."""

    offer: CampaignOffer | None
    """A bonus on one arm, until a time."""


class Mine(msgspec.Struct):
    """What a token is good for."""

    id: str
    """By which it is listed and revoked."""
    scope: Scope
    """admin, operator, read, gateway or payer."""
    campaign: str
    """The only campaign it is for; empty: all."""
