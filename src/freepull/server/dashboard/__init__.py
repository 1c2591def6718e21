"""The dashboard's files: one page, its scripts and style, and plotly from the installed package."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import cache
from importlib.resources import files
from typing import Any

from litestar import Response, get

DAY = {"cache-control": "public, max-age=86400"}
Make = Callable[[bytes], bytes]
FRESH = {"cache-control": "no-cache"}


@cache
def _read(package: str, name: str) -> bytes:
    return files(package).joinpath(name).read_bytes()


def _page(path: str, package: str, name: str, kind: str, headers: dict[str, str], make: Make = bytes) -> Any:
    async def page() -> Response[bytes]:
        return Response(make(_read(package, name)), media_type=kind, headers=headers)

    page.__doc__ = f"Return {name}."
    handler: Callable[[], Coroutine[Any, Any, Response[bytes]]] = page
    return get(path, include_in_schema=False, name=path)(handler)


def _with_login(page: bytes) -> bytes:
    return page.replace(b"<html", b"<html data-login", 1)


HERE = __name__
PAGES = [
    _page("/dashboard.css", HERE, "dashboard.css", "text/css; charset=utf-8", FRESH),
    *(
        _page(f"/{name}", HERE, name, "text/javascript; charset=utf-8", FRESH)
        for name in sorted(file.name for file in files(HERE).iterdir() if file.name.endswith(".js"))
    ),
    _page("/icon.svg", HERE, "icon.svg", "image/svg+xml", DAY),
    _page("/plotly.js", "plotly.package_data", "plotly.min.js", "text/javascript; charset=utf-8", DAY),
]


def pages(login: bool = False) -> list[Any]:
    """Return all files; the page says whether one can also log in with a provider."""
    return [_page("/", HERE, "index.html", "text/html; charset=utf-8", FRESH, _with_login if login else bytes), *PAGES]
