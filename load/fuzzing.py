"""Schemathesis: requests made from our own OpenAPI document, with real tokens, find no failure.

What fits the document is accepted, but for what no schema can say; `docs/service.md` names all of that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS: Any = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
"""The last one is for bodies alone: parameters of an address that nobody knows are left out."""
REFUSED = (400, 413, 414, 415, 422, 431)
"""Answers that say that a request is wrong in itself."""
ARGUED = {
    "printable": r"must be (a )?printable (names|text)",
    "names that the campaign has": r"has no agent |^arm must be one of|agents must be new",
    "entries": r"^moves must (be of entries|name every entry once)",
    "decimal point": r"Expected `int.*, got `float`",
    "event ids": r"has used (this event id|number)|Idempotency-Key was used for another request",
    "scale": r"^reward must be ",
    "currency": r"^budget must be in ",
    "time to come": r"^ends must be ",
    "two fields": r"^(weights|round_lasts|leavers|late_joiners|withdrawal|checks|horizon|agents|arms) must",
    "two parameters": r"^((start|longest) must be a number in|most must be at least|scale must be 1 unless|"
    r"delta must be a number in .*, 1\),|futility must be 0 with|bonus must be left out|robust must be below)",
    "laid out": r"^design must be 'auto'",
    "files": r"cannot be read as|must have the columns|is compressed|the first line of",
}
"""What no schema can say, by a word of what `docs/service.md` says of it, and by the sentences that say so."""


@dataclass
class Fuzzed:
    """What came of it."""

    cases: int = 0
    accepted: int = 0
    """Of those that fit the document."""
    argued: Counter[str] = field(default_factory=Counter)
    """Refused, for what no schema can say."""
    stricter: Counter[str] = field(default_factory=Counter)
    """Refused, though the document has nothing against it."""

    def __str__(self) -> str:
        return (
            f"{self.cases:,} cases, 0 failures; of those that fit the document {self.accepted:,} were accepted, "
            f"{self.argued.total():,} refused for what no schema can say, {self.stricter.total()} for anything else"
        )

    def note(self, where: str, status: int, problem: Any) -> None:
        """Note how a request was answered that fits the document."""
        if status not in REFUSED:
            self.accepted += 1
            return
        detail = str(problem.get("detail"))
        why = next((word for word, form in ARGUED.items() if re.search(form, detail)), None)
        if why is None:
            self.stricter[f"{where}: {status} {detail}"[:200]] += 1
        else:
            self.argued[why] += 1


def fuzz(address: str, admin: str, agent: str, campaign: str, examples: int, seed: int = 1) -> Fuzzed:
    """Send so many requests to every route, as many again that must be refused; return what came of them."""
    document = httpx.get(f"{address}/v1/openapi.json", trust_env=False, timeout=60.0).json()
    schema: Any = schemathesis.openapi.from_dict(document)
    schema.config.base_url = address
    found = Fuzzed()
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path.endswith("/stream"):  # it has no end
            continue
        token = agent if "/me" in operation.path else admin
        for mode in GenerationMode:
            if mode == GenerationMode.POSITIVE or operation.body:
                _fuzz(operation, mode, examples, seed, partial(_send, campaign, token, mode, found))
    return found


def _fuzz(operation: Any, mode: GenerationMode, examples: int, seed: int, send: Callable[[Any], None]) -> None:
    """Send requests to one route, either those that fit the document or those that do not."""

    @seeded(seed)
    @given(case=operation.as_strategy(mode))
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def run(case: Any) -> None:
        send(case)

    run()


def _send(campaign: str, token: str, mode: GenerationMode, found: Fuzzed, case: Any) -> None:
    """Send one request, about a campaign that there is."""
    found.cases += 1
    if "campaign" in (case.path_parameters or {}):
        case.path_parameters["campaign"] = campaign
    wrong = case.meta.components.get(ParameterLocation.BODY)
    checks = CHECKS if wrong is not None and wrong.mode == GenerationMode.NEGATIVE else CHECKS[:-1]
    answer = case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=checks)
    if mode == GenerationMode.POSITIVE:
        problem = answer.json() if answer.status_code >= 400 else {}
        found.note(case.operation.label, answer.status_code, problem)
