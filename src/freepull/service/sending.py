"""How requests are sent: with a token, again after a failure with the same event id, and to the campaign's owner."""

from __future__ import annotations

import inspect
import random
import uuid
from typing import TYPE_CHECKING, Any

import msgspec

from freepull import errors
from freepull.errors import FreepullError, InvalidInput, MissingExtra, ServiceError

if TYPE_CHECKING:
    from freepull.service.calls import Call

AGAIN = (408, 421, 429, 502, 503, 504)
"""After these the same request is sent again."""
SECONDS = 30.0


def httpx() -> Any:
    """Return the HTTP library."""
    try:
        import httpx as library
    except ImportError as error:  # pragma: no cover - a test runs this in a process of its own
        raise MissingExtra("clients need httpx; install freepull with pip install 'freepull[live]'.") from error
    return library


def event_id(event: str | int | None) -> str | int:
    """Return an event's id, a new one if it has none."""
    return uuid.uuid4().hex if event is None else event


class Attempt:
    """One request, sent until it is answered or patience is over."""

    def __init__(self, call: Call[Any], url: str, token: str, retries: int, owners: dict[str, str]) -> None:
        self.call, self._home, self._left, self._tries = call, url, retries, 0
        self._campaign, self._owners = "/".join(call.path.split("/")[:4]), owners
        self.url = owners.get(self._campaign, url)
        headers = {"authorization": f"Bearer {token}"}
        if call.keyed:
            headers["idempotency-key"] = uuid.uuid4().hex
        content = None
        if call.body is not None:
            headers["content-type"] = call.kind
            content = call.body if isinstance(call.body, bytes) else msgspec.json.encode(call.body)
        self.options: dict[str, Any] = {"headers": headers, "content": content, "params": dict(call.query) or None}

    def arguments(self) -> tuple[str, str]:
        """Return method and address."""
        return self.call.method, self.url + self.call.path

    def failed(self, error: Exception) -> float:
        """Take note that no answer came; return after how many seconds to try again, or raise."""
        self._go(None)
        if self._left <= 0:
            raise unreachable(self._home, error) from None
        return self._wait(None)

    def answered(self, status: int, content: bytes, after: str | None) -> float | None:
        """Take note of an answer; return None if it is good, or after how many seconds to try again, or raise."""
        if status < 400:
            return None
        said = told(content)
        waits = status in AGAIN or (status == 409 and after is not None)  # what was sent before is still going on
        if not waits or self._left <= 0:
            raise error_of(said | {"status": status})
        owner = said.get("owner") if status == 421 else None
        moved = isinstance(owner, str) and owner != self.url and self._may_follow(owner)
        self._go(str(owner) if moved else None)
        if moved and self._tries < 2:
            self._spend()
            return 0.0
        return self._wait(after)

    def _go(self, owner: str | None) -> None:
        """Send to a campaign's owner from now on, or home again."""
        if owner is None:
            self._owners.pop(self._campaign, None)
        else:
            self._owners[self._campaign] = owner
        self.url = owner or self._home

    def _may_follow(self, owner: str) -> bool:
        """Say whether a token may be sent there: never without TLS if it was given with TLS."""
        return owner.startswith("https://") or (owner.startswith("http://") and self._home.startswith("http://"))

    def _spend(self) -> None:
        self._left, self._tries = self._left - 1, self._tries + 1

    def _wait(self, after: str | None) -> float:
        self._spend()
        asked: float = float(after) if after and after.isascii() and after.isdigit() else 0.0
        return max(asked, 0.1 * 2.0 ** min(self._tries, 5)) * random.uniform(0.5, 1.0)


def told(content: bytes) -> dict[str, Any]:
    """Return the problem that an answer describes."""
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def unreachable(url: str, error: Exception) -> ServiceError:
    """Return the error for a service that does not answer."""
    what = " ".join(str(error).split()) or type(error).__name__
    return ServiceError(f"the service at {url} cannot be reached ({what}); check the address, or try again later.")


def error_of(said: dict[str, Any]) -> FreepullError:
    """Return a problem as the exception that the campaign itself would raise, where there is one."""
    status, detail = int(said.get("status", 0)), str(said.get("detail", "the service gave no reason."))
    kind = getattr(errors, str(said.get("type", "")).rpartition("/")[2], None)
    if kind is errors.EventGap:
        return errors.EventGap(detail, int(said.get("expected") or 0))
    if inspect.isclass(kind) and issubclass(kind, FreepullError) and kind is not ServiceError:
        return kind(detail)
    return ServiceError(detail, status, str(said.get("remedy", "")))


def checked(url: Any, token: Any) -> tuple[str, str]:
    """Check where to send, and with what."""
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise InvalidInput(f"url must begin with http:// or https://, got {url!r}.")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise InvalidInput("token must be the text that freepull token new has shown.")
    return url.rstrip("/"), token
