"""Reaching a service: at which addresses, until when, and what is said when that fails or the answer is odd."""

from __future__ import annotations

import inspect
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from freepull import errors, validation
from freepull.errors import FreepullError, InvalidInput, ServiceError

HUNG_SECONDS = 5.0
"""How long a process that gave no answer is not asked, unless it renews its lease meanwhile."""
TAKEOVER_SECONDS = 20.0
"""How long other processes are asked first, until one of them has the campaign of a process that gave no answer."""
STEADY = 0.05
"""Seconds by which clocks may go apart while a lease lasts."""


class Addresses:
    """Where a service is: the addresses that were given, who has which campaign, and who gave no answer lately.

    A token is sent nowhere else. What an answer names is looked up here, and never used as it is.
    """

    def __init__(self, url: Any, owners: Any = ()) -> None:
        if isinstance(owners, str):
            raise InvalidInput(f"owners must be a list of addresses, got {owners!r}.")
        self.all = [_address("url", url), *(_address("each of owners", it) for it in owners)]
        self._known = {origin(it): it for it in reversed(self.all)}
        self._owners: dict[str, str] = {}
        self._silent: dict[str, float] = {}
        """Since when nothing more came from an address."""
        self._leases: dict[str, float] = {}
        """Until when a campaign was its owner's at the most, as was first heard after the owner had been silent."""
        if self.all[0].startswith("https:") and not all(it.startswith("https:") for it in self.all):
            raise InvalidInput("owners must begin with https:// where url does; tokens do not leave TLS.")

    def of(self, campaign: str) -> str:
        """Return whom to ask: the owner, or the first of those who were not silent lately."""
        wanted = [*([self._owners[campaign]] if campaign in self._owners else []), *self.all]
        return min(wanted, key=lambda it: self._silent.get(it, 0.0) if self.hung(it, TAKEOVER_SECONDS) else 0.0)

    def known(self, owner: Any) -> str | None:
        """Return the address that was given for the owner that an answer names, if one was."""
        try:
            return self._known.get(origin(owner)) if isinstance(owner, str) else None
        except ValueError:
            return None

    def follow(self, campaign: str, owner: str) -> None:
        """Ask the owner of a campaign from now on."""
        self._owners[campaign] = owner

    def failed(self, campaign: str, address: str) -> None:
        """Take note that no answer came."""
        self._silent[address] = time.monotonic()
        self._owners.pop(campaign, None)
        self._leases.pop(campaign, None)

    def answered(self, address: str) -> None:
        """Take note that one came."""
        self._silent.pop(address, None)

    def hung(self, address: str, seconds: float = HUNG_SECONDS) -> bool:
        """Say whether somebody gave no answer within the last seconds."""
        since = self._silent.get(address)
        return since is not None and time.monotonic() < since + seconds

    def renewed(self, campaign: str, asked: float, left: float) -> bool:
        """Say whether a silent owner has renewed its lease, of which so many seconds were left after a time of asking.

        However long that answer took, the lease then ends later than it could have when this was first heard.
        """
        return asked + left > self._leases.setdefault(campaign, time.monotonic() + left) + STEADY


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address.

    >>> origin("https://A.example/x") == origin("https://a.example:443")
    True
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or not url.isprintable():
        raise ValueError(url)
    parts.hostname.encode("idna")  # a UnicodeError, which is a ValueError, where nobody could look it up
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}[parts.scheme]


def _address(name: str, url: Any) -> str:
    """Check an address."""
    try:
        origin(url)
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput(
            f"{name} must begin with http:// or https:// and name a host, got {validation.shown(url)}."
        ) from None
    return str(url).rstrip("/")


def told(content: bytes) -> dict[str, Any]:
    """Return the problem that an answer describes."""
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}


def odd(what: str, status: int = 0) -> ServiceError:
    """Return the error for an answer that no service of ours gives."""
    words = "".join(letter if letter.isprintable() else " " for letter in what[:300])
    return ServiceError(
        f"the answer cannot be used, because {' '.join(words.split())}; check the address, what stands in between, and "
        "both versions of freepull.",
        status,
    )


def bad_certificate(error: BaseException | None) -> str:
    """Return why a certificate was refused, if that is why there was no answer."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message or str(error)
        error = error.__cause__ or error.__context__
    return ""


def unreachable(url: str, error: Exception) -> ServiceError:
    """Return the error for a service that does not answer."""
    if why := bad_certificate(error):
        return ServiceError(f"the certificate of {url} is not valid ({why}); put it right there, or check the address.")
    what = " ".join(str(error).split()) or type(error).__name__
    hint = ", or begin it with https://" if url.startswith("http:") and "disconnected" in what else ""
    return ServiceError(
        f"the service at {url} cannot be reached ({what}); check the address{hint}, or try again later."
    )


def error_of(said: dict[str, Any]) -> FreepullError:
    """Return a problem as the exception that the campaign itself would raise, where there is one."""
    status, detail, expected = (said.get(name) for name in ("status", "detail", "expected"))
    status = status if isinstance(status, int) else 0
    words = " ".join(detail.split())[:1000] if isinstance(detail, str) else "the service gave no reason."
    kind = getattr(errors, str(said.get("type", "")).rpartition("/")[2], None)
    if kind is errors.EventGap:
        return errors.EventGap(words, expected if isinstance(expected, int) else 0)
    if inspect.isclass(kind) and issubclass(kind, FreepullError) and kind is not ServiceError:
        return kind(words)
    return ServiceError(words, status, " ".join(str(said.get("remedy") or "").split())[:1000])


@cache
def trusted() -> ssl.SSLContext:
    """Return the certificates that are trusted; reading them takes longer than all else of making a client."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


class Deadline:
    """Until when this thread waits for all of an answer.

    httpx alone has a limit for each read, and whoever drips meets all of those.
    """

    def __init__(self) -> None:
        self._here = threading.local()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Let everything that follows end within this many seconds."""
        self._here.end = time.monotonic() + seconds
        try:
            yield
        finally:
            self._here.end = None

    def left(self, timeout: float | None) -> float | None:
        """Return how long to wait for one thing: as asked, but not beyond the deadline."""
        end: float | None = getattr(self._here, "end", None)
        if end is None:
            return timeout
        left = max(1e-3, end - time.monotonic())
        return left if timeout is None else min(timeout, left)

    def passed(self) -> bool:
        """Say whether it is over."""
        end = getattr(self._here, "end", None)
        return end is not None and time.monotonic() >= end

    def transport(self) -> Any:
        """Return a transport of httpx whose connections keep this deadline."""
        import httpcore
        import httpx

        deadline = self

        class Stream(httpcore.NetworkStream):
            """A connection."""

            def __init__(self, inner: httpcore.NetworkStream) -> None:
                self._inner = inner

            def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
                if deadline.passed():
                    raise httpcore.ReadTimeout("the answer took too long")
                return self._inner.read(max_bytes, deadline.left(timeout))

            def write(self, buffer: bytes, timeout: float | None = None) -> None:
                if deadline.passed():
                    raise httpcore.WriteTimeout("the request took too long")
                self._inner.write(buffer, deadline.left(timeout))

            def close(self) -> None:
                self._inner.close()

            def start_tls(
                self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
            ) -> httpcore.NetworkStream:
                return Stream(self._inner.start_tls(ssl_context, server_hostname, deadline.left(timeout)))

            def get_extra_info(self, info: str) -> Any:
                return self._inner.get_extra_info(info)

        class Backend(httpcore.SyncBackend):
            """Makes connections."""

            def connect_tcp(
                self, host: str, port: int, timeout: float | None = None, *args: Any, **more: Any
            ) -> httpcore.NetworkStream:
                return Stream(super().connect_tcp(host, port, deadline.left(timeout), *args, **more))

        transport = httpx.HTTPTransport(verify=trusted(), trust_env=False)
        transport._pool._network_backend = Backend()
        return transport
