"""The OpenAPI document says everything: words for every operation and field, limits, kinds of problems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from freepull import errors
from support.every_route import ADMIN_ROUTES, AGENT_ROUTES
from support.running import NEW, Service


@pytest.fixture
def document(service: Service) -> Any:
    return service.http.get("/v1/openapi.json").json()


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def used(document: Any, found: Any) -> Iterator[str]:
    """Yield the schemas that something refers to, and those that these refer to."""
    if isinstance(found, dict):
        name = str(found.get("$ref", "")).rpartition("/")[2]
        if name:
            yield name
            yield from used(document, document["components"]["schemas"][name])
        for more in found.values():
            yield from used(document, more)
    elif isinstance(found, list):
        for more in found:
            yield from used(document, more)


def test_every_operation_parameter_and_field_is_described(document: Any) -> None:
    assert document["info"]["description"]
    for method, path, operation in operations(document):
        assert operation["summary"], (method, path)
        assert operation["description"], (method, path)
        for parameter in operation.get("parameters", []):
            assert parameter["description"], (method, path, parameter["name"])
    schemas = document["components"]["schemas"]
    assert set(used(document, document["paths"])) == set(schemas)
    for name, schema in schemas.items():
        assert schema["description"], name
        for field, found in schema["properties"].items():
            assert found["description"], (name, field)


def test_words_and_limits_are_in_the_schemas(document: Any) -> None:
    schemas = {name: it["properties"] for name, it in document["components"]["schemas"].items()}
    for name in (
        "NewCampaign",
        "NewAgents",
        "NewToken",
        "Pull",
        "Batch",
        "AgentPull",
        "Deed",
        "Result",
        "Answer",
        "Budget",
        "Stop",
    ):
        assert document["components"]["schemas"][name]["additionalProperties"] is False
    assert schemas["Status"]["status"]["enum"] == ["enrolling", "running", "paused", "stopped"]
    assert "decided" in str(schemas["Status"]["phase"])
    assert "'enum': ['paid', 'refused', 'cancelled']" in str(schemas["ToldReply"]["outcome"])
    assert "parked" in schemas["AgentRow"]["state"]["enum"]
    assert schemas["NewToken"]["scope"]["enum"] == ["admin", "operator", "read", "gateway", "payer"]
    assert {"mode", "leavers", "late_joiners", "pay_on"} == {
        it for it, found in schemas["NewCampaign"].items() if "enum" in found
    }
    for name in ("Pull", "AgentPull", "Result"):  # which numbers and words, the campaign's scale says
        assert [it["type"] for it in schemas[name]["reward"]["anyOf"]] == ["number", "boolean", "string"]
        assert "from 0 to 1" in schemas[name]["reward"]["description"]
        assert "scale" in schemas[name]["reward"]["description"]
    assert "'maxLength': 200" in str(schemas["Pull"]["event"])
    assert "'minItems': 2" in str(schemas["NewCampaign"]["arms"])
    assert "'minimum': 2" in str(schemas["NewCampaign"]["arms"])
    assert schemas["Batch"]["observations"]["maxItems"] == 1000
    stream = document["paths"]["/v1/campaigns/{campaign}/stream"]["get"]["responses"]["200"]
    assert set(used(document, stream)) >= {"Status", "AuditEntry"}
    assert "`audit`" in stream["description"]


def test_every_status_that_is_answered_is_documented(service: Service, document: Any) -> None:
    path = service.create()
    tokens = [service.admin, service.reader, service.gateway, "wrong", service.tokens(path, "ann")["ann"]]
    known = {
        (method, path.replace("{campaign}", "onboarding")): set(operation["responses"])
        for method, path, operation in operations(document)
    }
    seen = 0
    for method, route, body in ADMIN_ROUTES + AGENT_ROUTES:
        for where in (path, "/campaigns/none"):
            for given in (body, None, {"more": 1}):
                template = "/v1" + route.replace("{c}", path)
                for name, value in (
                    ("bob", "agent"),
                    ("A", "arm"),
                    ("ledger.csv", "file"),
                    ("abc", "id"),
                    ("shop", "target"),
                ):
                    template = template.replace(f"/{name}", f"/{{{value}}}")
                for token in () if route.endswith("/stream") else tokens:
                    found = service.send(method, route.replace("{c}", where), given, token)
                    assert str(found.status_code) in known[method.lower(), template], (method, route, found.text)
                    seen += 1
    assert seen > 1000


def test_every_type_of_problem_is_explained(service: Service) -> None:
    path = service.create()
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.FreepullError)
    ]
    for kind in kinds:
        assert service.http.get(f"/problems/{kind.__name__}").text == f"{kind.__doc__}\n"
    for method, route, body, token in (
        ("GET", "/campaigns", None, "wrong"),
        ("GET", "/nothing", None, service.admin),
        ("PUT", path, None, service.admin),
        ("GET", f"{path}/ledger?limit=x", None, service.admin),
        ("POST", f"{path}/pause", None, service.reader),
        ("POST", "/campaigns", NEW, service.admin),
        ("POST", "/campaigns", {}, service.admin),
    ):
        found = service.send(method, route, body, token)
        assert found.status_code >= 400
        assert service.http.get(found.json()["type"]).status_code == 200, found.text
    assert service.http.get("/problems/Nothing").status_code == 404
    assert service.http.get("/problems/annotations").status_code == 404
