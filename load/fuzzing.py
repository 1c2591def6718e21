"""Schemathesis: requests made from our own OpenAPI document, with real tokens, find no failure."""

from __future__ import annotations

from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from schemathesis.checks import not_a_server_error
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


def fuzz(address: str, admin: str, agent: str, campaign: str, examples: int, seed: int = 1) -> int:
    """Send so many requests to every route, whole cases included that must be refused; return how many in all."""
    document = httpx.get(f"{address}/v1/openapi.json", trust_env=False).json()
    schema: Any = schemathesis.openapi.from_dict(document)
    schema.config.base_url = address
    asked = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path.endswith("/stream"):  # it has no end
            continue

        @seeded(seed)
        @given(case=operation.as_strategy())
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def run(case: Any) -> None:
            nonlocal asked
            asked += 1
            if "campaign" in (case.path_parameters or {}):
                case.path_parameters["campaign"] = campaign
            token = agent if "/me" in case.operation.path else admin
            case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=CHECKS)

        run()
    return asked
