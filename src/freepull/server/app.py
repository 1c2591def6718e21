"""The application: the middleware, routes under /v1, health, the dashboard, and one way to say what went wrong."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Litestar, Request, Response, Router, get, route
from litestar.datastructures import State
from litestar.enums import MediaType
from litestar.exceptions import HTTPException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.params import FromPath

from freepull import messages
from freepull.campaigns import view
from freepull.campaigns.stores import Where
from freepull.errors import FreepullError
from freepull.server import problems, schemas
from freepull.server.auth import Limits, RateLimit, check
from freepull.server.hosting import Hosting
from freepull.server.middleware import (
    Auth,
    Bodies,
    Idempotency,
    Log,
    Metrics,
    Overload,
    Parse,
    Places,
    Problems,
    RequestLog,
    TimeLimits,
    chain,
    sent_token,
)
from freepull.server.problems import Refused, described
from freepull.server.readings import Readings, Traces, with_traces
from freepull.server.routes import READER, agents, campaigns, reading
from freepull.server.routes.agents import HotRoutes
from freepull.server.webhooks import Target
from freepull.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from freepull.server.oidc import Provider

MODULES = (schemas, messages, view, problems)
PLACE = "#/components/schemas/{name}"
IN_PATHS: dict[str, dict[str, Any]] = {
    "campaign": {"description": "The campaign's name; a slash in it is written %2F."},
    "agent": {"description": "The agent's name, or # (written %23) and its number."},
    "arm": {"description": "The arm's name."},
    "id": {"description": "The token's id."},
    "target": {"description": "The name of a webhook."},
    "file": {"description": "Which file."},
    "kind": {"description": "The end of a problem's type."},
}
Asked = Request[Any, Any, Any]
HEALTH: dict[str, Any] = {"http_method": ["GET", "HEAD"], "tags": ["health"], "responses": described(500, 503)}
ABOUT = """Live campaigns of incentivized exploration, see docs/service.md.

Errors are application/problem+json, as the schema Problem has it; on a path or with a method that is not here, 404 or
405. Whatever the path, what is no HTTP or can be read in two ways gets 400, an address of more than 16 kB 414, and more
than 100 headers or 64 kB of them 431; then the connection ends. 422 is also for what no schema can say: names with
characters that are not printable, whole numbers written as 1.0, arms and agents that are not there, more or fewer
weights than agents. Amounts are whole minor units of a currency; times are RFC 3339."""


class Application:
    """The ASGI application for a store."""

    def __init__(
        self,
        where: Where,
        limits: Limits | None = None,
        log: Log = lambda *_, **__: None,
        provider: Provider | None = None,
        tracer: Tracer | None = None,
        targets: Iterable[Target] = (),
    ) -> None:
        limits, metrics = limits or Limits(), Metrics()
        rate_limit = RateLimit(limits.agent_rate, limits.gateway_rate)
        where = where if tracer is None else with_traces(where, tracer)
        self.hosting = Hosting(where, log, targets)
        credentials, pages = sent_token, dashboard(login=provider is not None)
        if provider is not None:
            from freepull.server.oidc import Login

            self.login = Login(provider, self.hosting.tokens, log)
            credentials, pages = self.login.credentials, pages + self.login.handlers
        self._litestar = _routes(self.hosting, metrics, rate_limit, log, pages)
        self._http = chain(
            [
                Parse(),
                Overload(limits.waiting, metrics, log),
                *([] if tracer is None else [Traces(tracer)]),
                RequestLog(metrics, log),
                Problems(log),
                TimeLimits(limits),
                Auth(self.hosting.tokens, credentials),
                Bodies(limits),
                Places(limits.waiting, metrics),
                Idempotency(lambda: self.hosting.tokens.store),
                HotRoutes(agents.HOT, self.hosting, metrics, rate_limit),
            ],
            self._litestar,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request, or begin and end."""
        await (self._http if scope["type"] == "http" else self._litestar)(scope, receive, send)


def _routes(hosting: Hosting, metrics: Metrics, rate_limit: RateLimit, log: Log, pages: list[Any]) -> Litestar:
    """Return the routes, and what they answer when something is wrong."""
    written: dict[str, Any] = {}
    readings = Readings()

    @asynccontextmanager
    async def open_campaigns(_: Litestar) -> AsyncIterator[None]:
        async with hosting:
            yield

    @route("/healthz", media_type=MediaType.TEXT, **HEALTH)
    async def healthz() -> str:
        """Say that this process runs."""
        return "ok\n"

    @route("/readyz", media_type=MediaType.TEXT, **HEALTH)
    async def readyz() -> str:
        """Say whether this process can serve."""
        await hosting.ready()
        return "ready\n"

    @get("/metrics", media_type=MediaType.TEXT, tags=["health"], responses=described(401, 403, 500, 503))
    async def counters(request: Asked) -> str:
        """Return counters for Prometheus; with a token that may look, also how campaigns stand."""
        here = hosting.here()
        counted = metrics.text(
            campaigns_owned=len(here),
            campaigns_broken=hosting.broken,
            viewers=sum(found.streams.count for found in here.values()),
            store_errors_total=hosting.store_errors,
        )
        header = request.headers.get("authorization")
        if header is None:
            return counted
        visitor = hosting.tokens.visitor(header)
        check(visitor, "", READER, True, rate_limit)
        return counted + await readings.text(here, visitor.campaign)

    @get("/problems/{kind:str}", media_type=MediaType.TEXT, tags=["health"], responses=described(404, 500, 503))
    async def explanation(kind: FromPath[str]) -> str:
        """Say what a kind of problem is."""
        found = problems.explained(kind)
        if found is None:
            raise Refused(404, "there is no problem of this kind.", "Take the type of a problem as it is.")
        return found + "\n"

    @get("/v1/openapi.json", include_in_schema=False)
    async def document(request: Asked) -> dict[str, Any]:
        """Return the OpenAPI document."""
        nonlocal written
        written = written or completed(request.app.openapi_schema.to_schema())
        return written

    def unexpected(request: Asked, error: Exception) -> Response[bytes]:
        """Say nothing of the inside, but log it."""
        log("error", **problems.traced(error))
        return _problem(problems.make(500, "something went wrong inside.", "Tell whoever runs the service."), error)

    def known(request: Asked, error: FreepullError) -> Response[bytes]:
        """Say what is wrong; what is wrong with the store is said in full only in the log."""
        found = problems.problem(error)
        if found.status >= 500 and not isinstance(error, problems.Refused):
            log("error", error=str(error))
        return _problem(found, error)

    async def allow(message: Any, scope: Any) -> None:
        """Name all methods of a path; the framework's own answer names those of its first handler alone."""
        if scope.get("method") == "OPTIONS" and message["type"] == "http.response.start" and message["status"] == 204:
            others = [it for it in message["headers"] if it[0].lower() != b"allow"]
            message["headers"] = [*others, (b"allow", methods[scope["path_template"]])]

    handlers = [module.HANDLERS for module in (campaigns, agents, reading)]
    app = Litestar(
        route_handlers=[
            Router("/v1", route_handlers=[it for group in handlers for it in group]),
            *(healthz, readyz, counters, explanation, document, *pages),
        ],
        state=State({"hosting": hosting, "metrics": metrics, "rate_limit": rate_limit}),
        lifespan=[open_campaigns],
        exception_handlers={FreepullError: known, HTTPException: _http, Exception: unexpected},
        openapi_config=OpenAPIConfig(
            title="freepull",
            version=__version__,
            description=ABOUT,
            use_handler_docstrings=True,
            path="/v1/schema",
            render_plugins=[JsonRenderPlugin(path="/openapi.json")],
            components=Components(
                security_schemes={"bearer": SecurityScheme(type="http", scheme="bearer", description="A token.")}
            ),
        ),
        before_send=[allow],
        logging_config=None,
        request_max_body_size=None,
    )
    methods = {it.path_format: ", ".join(sorted(it.methods)).encode() for it in app.routes}
    return app


def _http(request: Asked, error: HTTPException) -> Response[bytes]:
    """Say what Litestar found wrong."""
    extra = error.extra
    first = extra[0] if isinstance(extra, list) and extra else None
    detail = f"{' '.join(str(error.detail).split())[:300].rstrip('.').lower()}."
    remedy = "See /v1/openapi.json for what there is."
    if isinstance(first, dict):
        name, words = first.get("key"), str(first.get("message")).rstrip(".")
        detail, remedy = f"the parameter {name} is not as it must be: {words}.", f"Change {name}, or leave it out."
        if name == "data":  # how the framework calls the body
            detail, remedy = "the request has no body.", "Send what /v1/openapi.json describes."
    response = _problem(problems.make(error.status_code, detail, remedy), error)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def _problem(found: problems.Problem, error: Exception) -> Response[bytes]:
    return Response(
        problems.encode(found),
        status_code=found.status,
        media_type=problems.MEDIA_TYPE,
        headers=problems.headers(found, error),
    )


def completed(document: dict[str, Any]) -> dict[str, Any]:
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
        if parent.__module__.startswith("freepull") and parent not in schemas.MADE:
            lines = ast.parse(textwrap.dedent(inspect.getsource(parent))).body[0].body  # type: ignore[attr-defined]
            for field, below in pairwise(lines):
                if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                    found[field.target.id] = inspect.cleandoc(below.value.value)  # type: ignore[attr-defined, union-attr]
    return found


HERE = "freepull.server"
DAY, FRESH = {"cache-control": "public, max-age=86400"}, {"cache-control": "no-cache"}
Make = Callable[[bytes], bytes]


def dashboard(login: bool = False) -> list[Any]:
    """Return all files of the dashboard; its page says whether one can also log in with a provider."""
    page = "dashboard/index.html"
    return [_page("/", HERE, page, "text/html; charset=utf-8", FRESH, _with_login if login else bytes), *PAGES]


def _page(path: str, package: str, name: str, kind: str, headers: dict[str, str], make: Make = bytes) -> Any:
    async def page() -> Response[bytes]:
        return Response(make(_read(package, name)), media_type=kind, headers=headers)

    page.__doc__ = f"Return {name}."
    handler: Callable[[], Coroutine[Any, Any, Response[bytes]]] = page
    return get(path, include_in_schema=False, name=path)(handler)


@cache
def _read(package: str, name: str) -> bytes:
    return files(package).joinpath(name).read_bytes()


def _with_login(page: bytes) -> bytes:
    return page.replace(b"<html", b"<html data-login", 1)


PAGES = [
    _page("/dashboard.css", HERE, "dashboard/dashboard.css", "text/css; charset=utf-8", FRESH),
    *(
        _page(f"/{name}", HERE, f"dashboard/{name}", "text/javascript; charset=utf-8", FRESH)
        for name in sorted(file.name for file in files(HERE).joinpath("dashboard").iterdir())
        if name.endswith(".js")
    ),
    _page("/icon.svg", HERE, "dashboard/icon.svg", "image/svg+xml", DAY),
    _page("/plotly.js", "plotly.package_data", "plotly.min.js", "text/javascript; charset=utf-8", DAY),
]
"""The scripts and the style, which are the same for everybody, and plotly from the installed package."""
