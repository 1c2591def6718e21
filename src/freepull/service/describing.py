"""The OpenAPI document: Litestar's routes, and schemas with every limit, word and docstring that the types have."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any

import msgspec

from freepull import messages
from freepull.service import bodies, history, problems, replies
from freepull.service.routes import watch

MODULES = (bodies, replies, messages, history, watch, problems)
PLACE = "#/components/schemas/{name}"
IN_PATHS: dict[str, dict[str, Any]] = {
    "campaign": {"description": "The campaign's name; a slash in it is written %2F."},
    "agent": {"description": "The agent's name, or # (written %23) and its number."},
    "arm": {"description": "The arm's name."},
    "id": {"description": "The token's id."},
    "file": {"description": "Which file."},
    "kind": {"description": "The end of a problem's type."},
}


def described(document: dict[str, Any]) -> dict[str, Any]:
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
        if parent.__module__.startswith("freepull") and parent not in bodies.BODIES.values():
            lines = ast.parse(textwrap.dedent(inspect.getsource(parent))).body[0].body  # type: ignore[attr-defined]
            for field, below in pairwise(lines):
                if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                    found[field.target.id] = inspect.cleandoc(below.value.value)  # type: ignore[attr-defined, union-attr]
    return found
