"""What is sent: strict msgspec structs. Unknown fields, fields given twice, and numbers in quotes are refused."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, TypeVar

import msgspec
from litestar.dto import AbstractDTO
from litestar.typing import FieldDefinition
from msgspec import Meta

from freepull.service.problems import Refused

Sent = TypeVar("Sent")
MOST_OBSERVATIONS = 1000
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Reward = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
Id = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 200})]
Number = Annotated[int, Meta(extra_json_schema={"minimum": 1, "exclusiveMaximum": 1 << 62})]
"""These limits are the campaign's, which says in its own words what is wrong; here they are described only."""
Count = Annotated[int, Meta(ge=1, lt=1 << 32)]

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


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What all bodies have in common: no field that is not known."""


class NewCampaign(Body, kw_only=True):
    """A campaign to be made; the fields are those of `freepull.Campaign.create`."""

    name: Name
    arms: list[Name] | Annotated[int, Meta(ge=2, le=1 << 16)]
    price: Annotated[str, Meta(examples=["0.50 EUR"])]
    agents: list[Name] | Count = []
    principal: dict[str, Any] | None = None
    """A part has its name and its parameters: {"part": "Principal", "rule": {"part": "Certified", "delta": 0.05}}."""
    horizon: Annotated[int, Meta(ge=1, lt=1 << 53)] | None = None
    ends: str | None = None
    mode: str = "free"
    weights: list[float] | None = None
    leavers: str = "wait"
    offer_lasts: str = "1 day"
    cool_down: str = "1 hour"
    round_lasts: str | None = None
    late_joiners: str = "observe"
    withdrawal: bool = False
    remembers: str = "30 days"


class NewAgents(Body, kw_only=True):
    """Agents who join: their names, or how many without names."""

    agents: list[Name] | Count
    weights: list[float] | None = None


class NewAgentTokens(Body, kw_only=True):
    """Agents who need a token."""

    agents: Annotated[list[Name | int], Meta(min_length=1, max_length=10_000)]
    lasts: str = "30 days"


class NewToken(Body, kw_only=True):
    """A token to be made."""

    scope: str
    campaign: str = ""
    label: Annotated[str, Meta(max_length=200)] = ""
    lasts: str | None = None


class Stop(Body, kw_only=True):
    """Why a campaign is stopped."""

    why: Annotated[str, Meta(max_length=200)] = ""


class Budget(Body, kw_only=True):
    """The most that may be spent; null: no limit."""

    budget: str | None


class Pull(Body, kw_only=True):
    """One pull by the agent who sends it."""

    arm: str
    reward: Reward
    event: Id | Number | None = None
    """An id, or the agent's own number of the event: telling again with it is safe."""


class AgentPull(Pull, kw_only=True):
    """One pull, sent by a gateway for an agent; what is wrong with its values is in its own result."""

    agent: str
    reward: float
    """From 0 to 1."""
    event: str | int | None = None
    """An id of 1 to 200 characters, or the agent's own number of the event: telling again with it is safe."""


class Batch(Body, kw_only=True):
    """Pulls, sent by a gateway."""

    observations: Annotated[list[AgentPull], Meta(min_length=1, max_length=MOST_OBSERVATIONS)]


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
    names = (b'"arm"', b'"reward"', *([b'"agent"'] if isinstance(found, Batch) else []))
    return value.count(b'"observations"') <= 1 and all(value.count(name) == len(pulls) for name in names)


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
