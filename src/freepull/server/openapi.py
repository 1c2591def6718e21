"""The OpenAPI document: what Litestar finds out, headers and files that it does not see, and schemas from the types.

Our own schemas have every limit, word and docstring that the types have; Litestar's leave most of that out.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
from litestar.openapi.spec import (
    OpenAPIFormat,
    OpenAPIMediaType,
    OpenAPIType,
    Operation,
    Parameter,
    RequestBody,
    Schema,
)

from freepull import messages
from freepull.campaigns import view
from freepull.client.talks import MEDIA
from freepull.server import problems, schemas
from freepull.server.middleware import LONGEST_KEY

MODULES = (schemas, messages, view, problems)
PLACE = "#/components/schemas/{name}"
IN_PATHS: dict[str, dict[str, Any]] = {
    "campaign": {"description": "The campaign's name; a slash in it is written %2F."},
    "agent": {"description": "The agent's name, or # (written %23) and its number."},
    "arm": {"description": "The arm's name."},
    "id": {"description": "The token's id."},
    "target": {"description": "The name of a webhook."},
    "file": {"description": "Which file."},
    "kind": {"description": "The end of a problem's type."},
}
KINDS = {kind: suffix for suffix, kind in MEDIA.items()}
KEY = Parameter(
    name="Idempotency-Key",
    param_in="header",
    required=False,
    description="With the same key the same request is answered once, and the same again for a day.",
    schema=Schema(type=OpenAPIType.STRING, min_length=1, max_length=LONGEST_KEY),
)
LAST_EVENT = Parameter(
    name="Last-Event-ID",
    param_in="header",
    required=False,
    description="The id of the last event that came through; the stream goes on behind it.",
    schema=Schema(type=OpenAPIType.STRING),
)


@dataclass
class Keyed(Operation):
    """An admin's POST, which takes an Idempotency-Key."""

    def __post_init__(self) -> None:
        self.parameters = [*(self.parameters or []), KEY]


@dataclass
class Resumable(Operation):
    """A stream, which takes a Last-Event-ID."""

    def __post_init__(self) -> None:
        self.parameters = [*(self.parameters or []), LAST_EVENT]


@dataclass
class Upload(Keyed):
    """A POST whose body is a file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        text = Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY)
        self.request_body = RequestBody(content={kind: OpenAPIMediaType(schema=text) for kind in KINDS}, required=True)


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """Return Litestar's document with our schemas instead of its own, which leave most of the limits out."""
    known = {name: kind for module in MODULES for name, kind in vars(module).items()}
    kinds = [known[name] for name in document["components"]["schemas"]]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=PLACE)
    for name, schema in schemas.items():
        words = docstrings(known[name])
        for field, found in schema.get("properties", {}).items():
            if field in words:
                found["description"] = words[field]
    document["components"]["schemas"] = schemas
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    for parameter in (it for operation in operations for it in operation.get("parameters", [])):
        if parameter["in"] == "path":
            parameter |= IN_PATHS[parameter["name"]]
    return document


def docstrings(kind: type) -> dict[str, str]:
    """Return what stands below the fields of a class, and of those it inherits from.

    >>> docstrings(messages.BanRow)["offer"]
    'The offer that was refused.'
    """
    found: dict[str, str] = {}
    for parent in reversed(kind.__mro__[:-1]):
        if parent.__module__.startswith("freepull") and parent not in schemas.MADE:
            lines = ast.parse(textwrap.dedent(inspect.getsource(parent))).body[0].body  # type: ignore[attr-defined]
            for field, below in pairwise(lines):
                if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                    found[field.target.id] = inspect.cleandoc(below.value.value)  # type: ignore[attr-defined, union-attr]
    return found
