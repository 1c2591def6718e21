"""Requests made from our own OpenAPI document, in a short form; `make load` sends thousands."""

from __future__ import annotations

from pathlib import Path

import pytest

from load.fuzzing import ARGUED, fuzz
from support.running import Service

pytestmark = pytest.mark.slow


def test_requests_made_from_the_schema_find_no_failure(service: Service) -> None:
    path = service.create()
    agent = service.tokens(path, "ann")["ann"]
    found = fuzz(service.at, service.admin, agent, "onboarding", examples=4)
    assert found.cases > 200
    assert found.accepted > 50
    assert not found.stricter


def test_what_no_schema_can_say_is_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    said = page.partition("What no schema can say")[2].partition("\n## ")[0]
    assert [word for word in ARGUED if word not in said] == []


def test_the_document_describes_every_error_and_header(service: Service) -> None:
    paths = service.http.get("/v1/openapi.json").json()["paths"]
    assert {"/healthz", "/readyz", "/metrics"} < set(paths)
    for path, methods in paths.items():
        for method, operation in methods.items():
            known = set(operation["responses"])
            if path.startswith("/v1"):
                assert {"400", "401", "403", "404", "421", "500", "503"} <= known, path
                assert operation["security"] == [{"bearer": []}]
            if method in ("post", "patch", "delete") and path.startswith("/v1"):
                assert {"408", "409", "413", "415", "422"} <= known, path
            writes = method != "get" and path.startswith("/v1")
            limited = "{campaign}/me" in path or path.endswith(("/stream", "/agents/{agent}"))
            assert ("429" in known) == (writes or limited), path
            headers = {it["name"] for it in operation.get("parameters", []) if it["in"] == "header"}
            own = path.replace("/agents/{agent}/", "/me/")
            spoken = "/me/" in own and own in paths
            keyed = method == "post" and not (spoken or any(it in path for it in ("tokens", "revoke", ":batch")))
            assert headers == {
                *(["Idempotency-Key"] if keyed else []),
                *(["Last-Event-ID"] if "stream" in path else []),
            }
    assert set(paths["/v1/campaigns/{campaign}/imports"]["post"]["requestBody"]["content"]) == {
        "text/csv",
        "application/vnd.apache.parquet",
    }
