"""Traces: a span for each request and each write to the store, with nothing in them that is nobody's business."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from freepull.errors import InvalidInput
from freepull.server.app import Application
from freepull.server.readings import traced_by
from support.running import NEW

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_requests_and_writes_are_spans(tmp_path: Path) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    app = Application(f"sqlite:///{tmp_path}/trial.db", tracer=provider.get_tracer("test"))
    token, _ = app.hosting.tokens.new("admin")

    async def use() -> None:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x")
        client.headers["authorization"] = f"Bearer {token}"
        async with client:
            made = await client.post("/v1/campaigns", json=NEW)
            assert made.status_code == 201, made.text
            kept.clear()
            await client.post("/v1/campaigns/onboarding/start", headers={"traceparent": f"00-{TRACE}-{SPAN}-01"})
            rows = [{"agent": "ann", "arm": "A", "reward": 0.5}]
            await client.post("/v1/campaigns/onboarding/observations:batch", json={"observations": rows})
            await client.get("/v1/campaigns/no%2Fsuch", headers={"traceparent": "nonsense"})
        for it in app.hosting.here().values():
            await it.campaign.close()

    asyncio.run(use())
    app.hosting.tokens.close()
    spans: dict[str, Any] = {it.name: it for it in kept.get_finished_spans()}
    start = spans["POST /v1/campaigns/{campaign}/start"]
    assert start.kind is SpanKind.SERVER
    assert dict(start.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/campaigns/{campaign}/start",
        "http.response.status_code": 200,
        "freepull.scope": "admin",
    }
    assert [f"{it.context.trace_id:032x}" for it in start.links] == [TRACE]
    assert start.parent is None
    told = spans["POST /v1/campaigns/{campaign}/observations:batch"]
    assert (told.attributes["http.response.status_code"], told.links) == (200, ())
    assert spans["GET /v1/campaigns/{campaign}"].attributes["http.response.status_code"] == 404
    writes = [it for it in kept.get_finished_spans() if it.name == "store write"]
    assert len(writes) >= 2
    assert {it.attributes["freepull.campaign"] for it in writes if it.attributes} == {"onboarding"}
    assert "ann" not in "".join(it.to_json() for it in kept.get_finished_spans())
    assert token not in "".join(it.to_json() for it in kept.get_finished_spans())


def test_an_exporter_must_be_installed() -> None:
    with pytest.raises(InvalidInput, match=r"--traces must name an exporter .* console.* got 'smoke'"):
        traced_by("smoke")
    traced_by("console").shutdown()
