"""What the OpenAPI document says beyond what Litestar finds out: headers that the gate reads, and files as bodies."""

from __future__ import annotations

from dataclasses import dataclass

from litestar.openapi.spec import (
    OpenAPIFormat,
    OpenAPIMediaType,
    OpenAPIType,
    Operation,
    Parameter,
    RequestBody,
    Schema,
)

from freepull.client.talks import MEDIA
from freepull.service.answered import LONGEST_KEY

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
