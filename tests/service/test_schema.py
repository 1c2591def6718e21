"""Schemathesis: requests made from our own OpenAPI document, with real tokens, find no failure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from running import Service
from schemathesis.checks import CHECKS, load_all_checks

load_all_checks()
NAMES = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("schema")
    with Service(f"sqlite:///{folder}/trial.db") as running:
        running.create()
        yield running


def test_requests_made_from_the_schema_find_no_failure(service: Service) -> None:
    document = service.http.get("/v1/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    schema.config.base_url = service.at
    agent = service.tokens("/campaigns/onboarding", "ann")["ann"]
    checks = CHECKS.get_by_names(NAMES)
    asked = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path.endswith("/stream"):
            continue

        @given(case=operation.as_strategy())
        @settings(
            max_examples=12,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def test(case: schemathesis.Case) -> None:
            nonlocal asked
            asked += 1
            if "campaign" in (case.path_parameters or {}):
                case.path_parameters["campaign"] = "onboarding"
            token = agent if "/me" in case.operation.path else service.admin
            case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=checks)

        test()
    assert asked > 200
