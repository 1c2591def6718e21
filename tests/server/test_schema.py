"""Requests made from our own OpenAPI document, in a short form; `make load` sends thousands."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any

import pytest

import freepull as fp
from freepull import registry
from freepull.principal.rules.paper import BOUNDS, PAY
from freepull.server import schemas
from load.fuzzing import ARGUED, fuzz
from support.running import Service


@pytest.mark.slow
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


@pytest.mark.slow
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


KINDS = ("principal", "rule", "observe", "protocol", "pricing", "design", "forecast")
PARTS = [about for kind in KINDS for about in registry.parts(kind)]
SOME = {"n": 1, "gap": 0.5, "rounds": 1, "refusals": 1, "delta": 0.5}
"""What is given for parameters that must be given."""


@pytest.mark.parametrize("about", PARTS, ids=lambda it: it.name)
def test_the_document_has_the_limits_that_parts_keep(about: registry.Part) -> None:
    needed = {name: SOME[name] for name, it in about.parameters.items() if it.required}
    numbers = {name for name, it in about.parameters.items() if it.types & {"int", "float"}}
    assert numbers <= set(about.limits)
    for name in numbers:
        low, high, open_low, open_high, _ = about.limits[name]
        step = 1 if "int" in about.parameters[name].types else 1e-3
        said = next(it for it in described(about)[name]["anyOf"] if it["type"] in ("integer", "number"))
        ends = {
            "exclusiveMinimum" if open_low else "minimum": low,
            "exclusiveMaximum" if open_high else "maximum": high,
        }
        assert said.items() - {("type", "integer"), ("type", "number")} == {
            it for it in ends.items() if isfinite(it[1])
        }
        for wrong in (low if open_low else low - step, high if open_high else high + step):
            if isfinite(wrong):
                with pytest.raises(fp.errors.InvalidInput, match=rf"^{name} must be a (whole )?number"):
                    about.made(**needed | {name: wrong})


def test_the_document_has_the_words_that_parts_take() -> None:
    told = described(registry.parts("principal")[0])
    assert told["offers"] == {"anyOf": [{"type": "string", "enum": ["one", "each"]}]}
    paper = next(it for it in told["rule"]["anyOf"] if it["properties"]["part"] == {"const": "Paper"})
    for name, words in {"bound": BOUNDS, "pay": PAY}.items():
        assert paper["properties"][name] == {"anyOf": [{"type": "string", "enum": list(words)}]}


def described(about: registry.Part) -> dict[str, Any]:
    """What the document says of the parameters of a part, wherever it stands there."""
    whole = [schemas.PRINCIPAL]
    for it in whole:
        if it["properties"].get("part", {"const": "Principal"}) == {"const": about.name}:
            return dict(it["properties"])
        whole += [way for own in it["properties"].values() for way in own.get("anyOf", []) if "properties" in way]
    raise AssertionError(f"{about.name} is not in the document")
