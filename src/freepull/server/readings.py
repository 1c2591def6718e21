"""What monitors are told: how campaigns stand, for Prometheus, and traces of requests and writes, for OpenTelemetry.

Whoever scrapes sees the last reading of each campaign, a few seconds old at most unless its writer is busy; nothing is
read while nobody asks. Campaigns have names, so this is for tokens that may look. Traces need an extra, and where they
are off nothing of them is loaded or passed through.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from freepull.campaigns.journal.events import ManyRows
from freepull.campaigns.stores import Lease, Store, Where, connect
from freepull.errors import FreepullError, InvalidInput, MissingExtra
from freepull.messages import Status
from freepull.money import Money
from freepull.server.middleware import Middleware

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

    from freepull.server.hosting import Open

MOST = 200
"""This many campaigns are shown; those that are over are left out first."""
FRESH = 2.0
"""Seconds for which a reading is not made anew."""
PATIENCE = 2.0
"""Seconds to wait for new readings; then the last ones are shown."""
STATUSES = ("enrolling", "running", "paused", "stopped")
ABSENT = ("left", "parked", "banned", "silent")
ENDINGS = ("paid", "refused", "expired", "lapsed", "cancelled")
Series = Iterator[tuple[dict[str, str], float | str]]


@dataclass(frozen=True)
class Reading:
    """How a campaign stood at one moment."""

    status: Status
    absent: Counter[str]
    """Of those for whom it waits, at most ten, how many are not there for which reason."""
    at: float


class Readings:
    """The last reading of every campaign that is open here."""

    def __init__(self) -> None:
        self._last: dict[str, Reading] = {}
        self._going_on: dict[str, asyncio.Task[None]] = {}

    async def text(self, here: Mapping[str, Open], only: str = "") -> str:
        """Return what Prometheus reads of the campaigns that are open here, or of one of them."""
        for name in self._last.keys() - here.keys():
            del self._last[name]
        wanted = [name for name in here if only in ("", name)]
        shown = sorted(wanted, key=lambda name: (self._over(name), name))[:MOST]
        for name in shown:
            if name not in self._going_on and (name not in self._last or self._age(name) > FRESH):
                self._going_on[name] = asyncio.create_task(self._read(name, here[name]))
        waited = [self._going_on[name] for name in shown if name in self._going_on]
        if waited:
            await asyncio.wait(waited, timeout=PATIENCE)
        lines = [
            line for metric in METRICS for line in metric.lines(self._last[it] for it in shown if it in self._last)
        ]
        left_out = Metric(
            "campaigns_left_out", "gauge", "Open campaigns that are not shown here, because they are many."
        )
        return "\n".join([*lines, *left_out.head(), f"{left_out.full} {len(wanted) - len(shown)}"]) + "\n"

    def _over(self, name: str) -> bool:
        return name in self._last and self._last[name].status.status == "stopped"

    def _age(self, name: str) -> float:
        return time.time() - self._last[name].at

    async def _read(self, name: str, found: Open) -> None:
        try:
            with suppress(FreepullError):  # its writer may end at this moment; then the last reading stands
                status, absent = await found.view.standing()
                self._last[name] = Reading(status, Counter(absent), time.time())
        finally:
            del self._going_on[name]


class Metric(NamedTuple):
    """A number of every campaign, or several with further labels."""

    name: str
    kind: str
    help: str
    values: Callable[[Reading], Series] = lambda _: iter(())

    @property
    def full(self) -> str:
        """The name that Prometheus knows."""
        return f"freepull_{self.name}"

    def head(self) -> list[str]:
        """Return what stands before the numbers."""
        return [f"# HELP {self.full} {self.help}", f"# TYPE {self.full} {self.kind}"]

    def lines(self, readings: Iterable[Reading]) -> Iterator[str]:
        """Return the lines of all campaigns."""
        yield from self.head()
        for reading in readings:
            for more, value in self.values(reading):
                labels = {"campaign": reading.status.name} | more
                told = ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items())
                yield f"{self.full}{{{told}}} {value if isinstance(value, str) else format(value, '.17g')}"


def escaped(text: str) -> str:
    r"""Return a label's value as Prometheus writes it.

    >>> escaped('a "b"')
    'a \\"b\\"'
    """
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _money(amount: Money | None) -> Series:
    if amount is not None:
        value, currency = str(amount).split()
        yield {"currency": currency}, value


def _price(it: Reading) -> Series:
    spent, paid = it.status.spent, it.status.paid
    if not it.status.pricing:
        return _money(it.status.price)
    return _money(Money(round(spent.minor / paid), spent.currency) if paid else None)


def _one(value: float) -> Series:
    yield {}, value


def _statuses(it: Reading) -> Series:
    return (({"status": word}, it.status.status == word) for word in STATUSES)


def _endings(it: Reading) -> Series:
    return (({"ending": word}, getattr(it.status, word)) for word in ENDINGS)


def _absent(it: Reading) -> Series:
    return (({"why": word}, it.absent[word]) for word in ABSENT)


def _alarms(it: Reading) -> Series:
    return (({"check": check.name}, check.alarmed) for check in it.status.checks)


METRICS = (
    Metric("campaign_status", "gauge", "1 for the status that the campaign has.", _statuses),
    Metric("campaign_spent_total", "counter", "Money that was paid.", lambda it: _money(it.status.spent)),
    Metric("campaign_reserved", "gauge", "Money that open offers may cost.", lambda it: _money(it.status.reserved)),
    Metric("campaign_budget", "gauge", "The most that may be spent, if limited.", lambda it: _money(it.status.budget)),
    Metric("campaign_price", "gauge", "What one bonus costs; where they differ, on average up to now.", _price),
    Metric("campaign_offers_total", "counter", "Offers that have ended, by how.", _endings),
    Metric("campaign_offers_open", "gauge", "Offers that are open.", lambda it: _one(it.status.open_offers)),
    Metric("campaign_observations_total", "counter", "Pulls that count.", lambda it: _one(it.status.observations)),
    Metric("campaign_events_total", "counter", "Entries of the log.", lambda it: _one(it.status.events)),
    Metric("campaign_step", "gauge", "Steps that have ended.", lambda it: _one(it.status.step)),
    Metric("campaign_agents", "gauge", "Agents who count.", lambda it: _one(it.status.agents)),
    Metric("campaign_arms_active", "gauge", "Arms still in.", lambda it: _one(sum(a.active for a in it.status.arms))),
    Metric("campaign_decided", "gauge", "1 if the rule has decided.", lambda it: _one(it.status.decided)),
    Metric("campaign_certified", "gauge", "1 if the verdict is certified.", lambda it: _one(it.status.certified)),
    Metric(
        "campaign_awaited",
        "gauge",
        "Agents without whom nothing goes on, at most ten, by why they are not there.",
        _absent,
    ),
    Metric("campaign_alarmed", "gauge", "1 if a check of an assumption has raised an alarm.", _alarms),
    Metric(
        "campaign_changed_timestamp_seconds",
        "gauge",
        "When the last event of the log happened.",
        lambda it: _one(it.status.at.timestamp()),
    ),
    Metric(
        "campaign_read_timestamp_seconds", "gauge", "When these numbers were read.", lambda it: _one(round(it.at, 3))
    ),
)


EXPORTERS = "opentelemetry_traces_exporter"
"""Under this name packages say which exporters they bring along."""


def traced_by(name: str) -> TracerProvider:
    """Return what sends traces through an exporter that is installed; its own settings are OpenTelemetry's."""
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:  # pragma: no cover - the extra is there where tests run
        raise MissingExtra("traces need OpenTelemetry; install freepull with pip install 'freepull[otel]'.") from error
    found = {it.name: it for it in entry_points(group=EXPORTERS)}
    if name not in found:
        raise InvalidInput(
            f"--traces must name an exporter that is installed, of which there are {', '.join(sorted(found))}, got "
            f"{name!r}; for otlp, pip install opentelemetry-exporter-otlp."
        )
    provider = TracerProvider(resource=Resource.create({"service.name": "freepull"}))
    provider.add_span_processor(BatchSpanProcessor(found[name].load()()))
    return provider


class Traces(Middleware):
    """Makes a span of every request; one that names a trace of its own is linked to it, because anybody may send it."""

    def __init__(self, tracer: Tracer) -> None:
        from opentelemetry.trace import Link, SpanKind, StatusCode, get_current_span
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer, self._kind, self._error = tracer, SpanKind.SERVER, StatusCode.ERROR
        self._read, self._span, self._link = TraceContextTextMapPropagator().extract, get_current_span, Link

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request."""
        state, method, links = scope["state"], scope["method"], []
        if b"traceparent" in state["headers"]:
            theirs = self._span(self._read({"traceparent": state["headers"][b"traceparent"].decode("latin-1")}))
            links = [self._link(theirs.get_span_context())] if theirs.get_span_context().is_valid else []
        with self._tracer.start_as_current_span(method, kind=self._kind, links=links) as span:
            try:
                await self.next(scope, receive, send)
            finally:
                route, status = scope.get("path_template") or "none", state.get("status", 499)
                span.update_name(f"{method} {route}")
                span.set_attributes(
                    {"http.request.method": method, "http.route": route, "http.response.status_code": status}
                )
                if state["visitor"] is not None:
                    span.set_attribute("freepull.scope", state["visitor"].scope)
                if status >= 500:
                    span.set_status(self._error)


def with_traces(where: Where, tracer: Tracer) -> Callable[[], Store]:
    """Return what opens a store whose writes are spans; leases that are merely renewed are not."""

    def opened() -> Store:
        store = connect(where, new=True)
        plain = store.write
        if hasattr(plain, "traced"):  # the same one for all campaigns
            return store

        def write(lease: Lease, rows: ManyRows) -> None:
            if not rows:
                return plain(lease, rows)
            about: dict[str, Any] = {"freepull.campaign": lease.name, "freepull.tables": list(rows)}
            with tracer.start_as_current_span("store write", attributes=about):
                return plain(lease, rows)

        write.traced = True  # type: ignore[attr-defined]
        vars(store)["write"] = write
        return store

    return opened
