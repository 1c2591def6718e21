"""How bodies are read: unknown fields, fields given twice, and numbers in quotes are refused, with what to do."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec
from litestar.dto import AbstractDTO
from litestar.typing import FieldDefinition

from freepull.server.problems import Refused
from freepull.server.schemas import Batch, Pull

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
