"""Logging in to the dashboard with an OpenID provider: authorization code with PKCE, and a session in a cookie.

A session is a token like any other, made at login with the scope that the provider's claim stands for, so it is
audited, ends by itself, and can be revoked; only its id begins with an s. One random value in a cookie ties a login to
the browser that began it: state, nonce and verifier are made from it, so none of them works anywhere else.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
import msgspec
from litestar import Request, Response, get, post
from litestar.datastructures import Cookie

from freepull import validation
from freepull.campaigns.settings import lasting
from freepull.campaigns.stores.serving import SESSION
from freepull.errors import InvalidInput, MissingExtra
from freepull.server.auth import Tokens, latest
from freepull.server.problems import Refused

try:
    import jwt
except ImportError as error:  # pragma: no cover - a test runs this in a process of its own
    raise MissingExtra("logging in needs PyJWT; install freepull with pip install 'freepull[oidc]'.") from error

SCOPES = ("admin", "operator", "read")
"""What a session may be, the first that fits."""
KEYS = {"RS256": ("RSA", None), "ES256": ("EC", "P-256")}
"""Signatures that count, and the keys they are made with; nothing else is believed, least of all none and HS256."""
SMALLEST = 2048
"""Bits of an RSA key."""
LEEWAY = 60.0
"""Seconds by which the provider's clock may differ."""
BEGUN = 600 * 10**6
"""Microseconds for somebody to log in at the provider."""
LONGEST = 7 * 86_400 * 10**6
PATIENCE = 10.0
"""Seconds for an answer of the provider, as a whole."""
FRESH, RESTING = 600.0, 5.0
"""Seconds for which the provider's description is not read again, and after which one that failed is."""
MOST = 1 << 20
"""Bytes of what a provider answers."""
AT_ONCE = 16
"""Logins that wait for the provider at a time."""
USED = 100_000
"""This many logins that were finished are remembered; each is over after ten minutes anyway."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
AGAIN = "Log in again."
Asked = Request[Any, Any, Any]


@dataclass(frozen=True)
class Provider:
    """Who is asked, and who may what."""

    issuer: str
    client: str
    secret: str | None = field(default=None, repr=False)
    asks: str = "openid email profile"
    """Scopes of OpenID, which are not ours."""
    claim: str = "groups"
    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which values of the claim stand for which of `SCOPES`; `*`, for read alone, is everybody."""
    lasts: str = "8 hours"
    address: str = "http://127.0.0.1:8000"
    """How browsers reach this service."""

    def __post_init__(self) -> None:
        for name, url in (("--oidc-issuer", self.issuer), ("--address", self.address)):
            if not secure(url):
                raise InvalidInput(
                    f"{name} must begin with https:// where a provider is asked, or be on this machine itself, got "
                    f"{validation.shown(url)}."
                )
        if not self.client:
            raise InvalidInput("--oidc-client must be given with --oidc-issuer: it is how the provider calls us.")
        if "openid" not in self.asks.split():
            raise InvalidInput(f"--oidc-asks must have openid among its words, got {validation.shown(self.asks)}.")
        if not any(self.allowed.values()):
            raise InvalidInput("--oidc-admin, --oidc-operator or --oidc-read must say who may log in; give one.")
        if any("*" in self.allowed.get(scope, ()) for scope in SCOPES[:2]):
            raise InvalidInput("* may stand for everybody in --oidc-read alone; name who may change something.")
        if not 60 * 10**6 <= lasting("--oidc-lasts", self.lasts) <= LONGEST:
            raise InvalidInput(f"--oidc-lasts must be from 1 minute to 7 days, got {self.lasts!r}.")

    def scope(self, claims: dict[str, Any]) -> str | None:
        """Return the highest scope that claims stand for."""
        found: Any = claims.get(self.claim)
        if found is None and "." in self.claim:
            found = claims
            for part in self.claim.split("."):
                found = found.get(part) if isinstance(found, dict) else None
        if self.claim == "email" and claims.get("email_verified") is not True:
            found = None
        values = found if isinstance(found, list) else [found]
        has = {it for it in values if isinstance(it, str)}
        for scope in SCOPES:
            wanted = set(self.allowed.get(scope, ()))
            if wanted & has or (scope == "read" and "*" in wanted):
                return scope
        return None


def secure(url: object) -> bool:
    """Say whether nobody on the way can read or change what an address is told.

    >>> secure("https://id.example"), secure("http://127.0.0.1:8000"), secure("http://id.example")
    (True, True, False)
    """
    try:
        parts = urlsplit(str(url))
        plain = parts.scheme == "http" and parts.hostname in LOOPBACK
        whole = isinstance(url, str) and url.isprintable() and " " not in url and not parts.username
        return whole and bool(parts.hostname) and not parts.fragment and (parts.scheme == "https" or plain)
    except ValueError:
        return False


class Login:
    """Lets people log in, knows them by their cookie, and lets them log out."""

    transport: httpx.AsyncBaseTransport | None = None
    """How the provider is reached, where that is not as usual."""
    waiting = 0
    """How many wait for the provider."""

    def __init__(self, provider: Provider, tokens: Tokens, log: Callable[..., None]) -> None:
        self._provider, self._tokens, self._log = provider, tokens, log
        parts = urlsplit(provider.address)
        usual = {"https": 443, "http": 80}[parts.scheme]
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        self._origin = f"{parts.scheme}://{host}{f':{parts.port}' if parts.port not in (None, usual) else ''}"
        self._secure = parts.scheme == "https"
        self.session, self.begun = (f"{'__Host-' if self._secure else ''}freepull-{it}" for it in ("session", "login"))
        """What cookies are called; browsers let nobody else set those that begin with __Host-."""
        self._back = f"{provider.address}/login/done"
        self._key = tokens.store.secret("logins", secrets.token_bytes(32))
        self._used: OrderedDict[str, int] = OrderedDict()
        self._described: tuple[float, dict[str, Any] | None] = (0.0, None)
        self._describing = asyncio.Lock()

    def credentials(self, scope: Any) -> str:
        """Return who asks, as an Authorization header; a cookie counts only for what our own pages send."""
        headers = scope["state"]["headers"]
        if b"authorization" in headers:
            return str(headers[b"authorization"].decode("latin-1"))
        token = self._session(headers)
        if not token:
            return ""
        self._check_origin(scope["method"], headers)
        if not self._tokens.holds(f"Bearer {token}"):
            raise Refused(401, "the session has ended.", AGAIN)
        return f"Bearer {token}"

    def _session(self, headers: dict[bytes, bytes]) -> str:
        token = cookie(headers, self.session)
        return token if token.startswith(f"fp_{SESSION}") else ""

    def _check_origin(self, method: str, headers: dict[bytes, bytes]) -> None:
        """Refuse what another site lets a browser send: cookies go along, whoever made the request."""
        site, origin = headers.get(b"sec-fetch-site", b"none"), headers.get(b"origin")
        own = origin == self._origin.encode() or (origin is None and method in ("GET", "HEAD", "OPTIONS"))
        if site not in (b"same-origin", b"none") or not own:
            raise Refused(
                403, "a session counts only for the dashboard's own requests.", f"Open {self._origin}, or use a token."
            )

    @property
    def handlers(self) -> list[Any]:
        """The routes."""

        @get("/login", include_in_schema=False)
        async def begin() -> Response[bytes]:
            """Send somebody to the provider."""
            try:
                return await self._begin()
            except Refused as error:
                return self._page(error)

        @get("/login/done", include_in_schema=False)
        async def done(request: Asked) -> Response[bytes]:
            """Let somebody in whom the provider has sent back."""
            try:
                told = {name: request.query_params[name] for name in request.query_params}
                return await self._done(request.scope["state"]["headers"], told)
            except Refused as error:
                self._log("login", status=error.status, error=str(error))
                return self._page(error)

        @post("/logout", include_in_schema=False, status_code=204)
        async def logout(request: Asked) -> Response[None]:
            """End a session."""
            token = self._session(request.scope["state"]["headers"])
            self._check_origin("POST", request.scope["state"]["headers"])
            if token and self._tokens.holds(f"Bearer {token}"):
                await self._end(token)
            return Response(None, status_code=204, cookies=[self._cookie(self.session, "", 0)])

        return [begin, done, logout]

    async def _end(self, token: str) -> None:
        id = token.split("_")[1]
        await asyncio.to_thread(self._tokens.revoke, id, f"token {id}")

    def _cookie(self, name: str, value: str, seconds: int) -> Cookie:
        more: dict[str, Any] = {"secure": self._secure, "httponly": True, "samesite": "lax", "path": "/"}
        return Cookie(name, value=value, max_age=seconds, **more)

    def _page(self, error: Refused) -> Response[bytes]:
        words = escape(f"{str(error)[:1].upper()}{str(error)[1:]} {error.remedy}")
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>freepull</title>'
            '<link rel="stylesheet" href="/dashboard.css"></head><body><main><h1>Not logged in</h1>'
            f'<p role="alert">{words}</p><p><a href="/">Back</a></p></main></body></html>'
        )
        kind = "text/html; charset=utf-8"
        cookies = [self._cookie(self.begun, "", 0)]
        return Response(page.encode(), status_code=error.status, media_type=kind, cookies=cookies)

    def _made(self, begun: str, what: str) -> str:
        """Return state, nonce or verifier of a login."""
        return _text(hmac.digest(self._key, f"freepull login 1\0{what}\0{begun}".encode(), "sha256"))

    async def _begin(self) -> Response[bytes]:
        async with self._place():
            known = await self._description()
        begun = f"{latest() + BEGUN}.{secrets.token_urlsafe(32)}"
        asked = {
            "response_type": "code",
            "client_id": self._provider.client,
            "redirect_uri": self._back,
            "scope": self._provider.asks,
            "state": self._made(begun, "state"),
            "nonce": self._made(begun, "nonce"),
            "code_challenge": _text(sha256(self._made(begun, "verifier").encode()).digest()),
            "code_challenge_method": "S256",
        }
        where = known["authorization_endpoint"]
        there = f"{where}{'&' if '?' in where else '?'}{urlencode(asked)}"
        cookies = [self._cookie(self.begun, begun, BEGUN // 10**6)]
        return Response(b"", status_code=303, headers={"location": there}, cookies=cookies)

    async def _done(self, headers: dict[bytes, bytes], told: dict[str, str]) -> Response[bytes]:
        begun = cookie(headers, self.begun)
        state, now = self._made(begun, "state"), latest()
        expires = begun.partition(".")[0]
        if not begun or not hmac.compare_digest(told.get("state", "").encode(), state.encode()):
            raise Refused(403, "this login was not begun in this browser.", f"Begin at {self._origin}.")
        if state in self._used or not expires.isdigit() or int(expires[:20]) <= now:
            raise Refused(403, "this login is over.", AGAIN)
        self._used[state] = now
        while len(self._used) > USED or next(iter(self._used.values())) < now - BEGUN:
            self._used.popitem(last=False)
        if told.get("iss", self._provider.issuer) != self._provider.issuer:
            raise Refused(403, "another provider has answered.", AGAIN)
        if "code" not in told:
            why = told.get("error", "")
            said = f" ({why})" if re.fullmatch("[a-z_]{1,40}", why) else ""
            raise Refused(403, f"the provider did not let you in{said}.", AGAIN)
        async with self._place():
            claims = await self._claims(told["code"], begun)
        scope = self._provider.scope(claims)
        if scope is None:
            raise Refused(403, "you may not use this service.", "Ask whoever runs it.")
        if (before := self._session(headers)) and self._tokens.holds(f"Bearer {before}"):
            await self._end(before)
        new, lasts = self._tokens.new, self._provider.lasts
        token, row = await asyncio.to_thread(new, scope, "", called(claims), lasts, "login", SESSION)
        self._log("login", who=row.id, scope=scope)
        session = self._cookie(self.session, token, lasting("lasts", lasts) // 10**6)
        cookies = [session, self._cookie(self.begun, "", 0)]
        return Response(b"", status_code=303, headers={"location": "/"}, cookies=cookies)

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Let few wait for the provider at a time, so that one that hangs takes no place from others' requests."""
        if self.waiting >= AT_ONCE:
            raise Refused(503, "too many people are logging in.", "Try again in a moment.")
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def _description(self) -> dict[str, Any]:
        """Return what the provider says of itself; it is asked seldom, however often people come."""
        async with self._describing:
            at, known = self._described
            age = time.monotonic() - at
            if known is not None and age < FRESH:
                return known
            if at and age < RESTING:
                if known is None:
                    raise _away()
                return known
            try:
                found = await self._ask("GET", f"{self._provider.issuer.rstrip('/')}/.well-known/openid-configuration")
                if found.get("issuer") != self._provider.issuer:
                    raise _wrong("it calls itself otherwise")
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                    if not secure(found.get(name)):
                        raise _wrong(f"its {name} is no https address")
                known = found
            except Refused as error:
                self._log("login", status=error.status, error=str(error))
                if known is None:
                    raise
            finally:
                self._described = time.monotonic(), known
            return known

    async def _claims(self, code: str, begun: str) -> dict[str, Any]:
        """Exchange a code for what the provider says of somebody, if it is the provider who says it, and to us."""
        it, known = self._provider, await self._description()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": self._back}
        form |= {"client_id": it.client, "code_verifier": self._made(begun, "verifier")}
        ways, basic = known.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"], None
        if it.secret is not None and "client_secret_basic" in ways:
            basic = httpx.BasicAuth(quote_plus(it.client), quote_plus(it.secret))
        elif it.secret is not None:
            form["client_secret"] = it.secret
        answer = await self._ask("POST", known["token_endpoint"], data=form, auth=basic)
        keys = (await self._ask("GET", known["jwks_uri"])).get("keys")
        try:
            claims = self._read(str(answer.get("id_token")), keys if isinstance(keys, list) else [])
        except jwt.PyJWTError as error:
            raise _wrong(f"{type(error).__name__}: {error}") from None
        if not hmac.compare_digest(str(claims.get("nonce")).encode(), self._made(begun, "nonce").encode()):
            raise _wrong("it answers another login")
        return claims

    def _read(self, token: str, keys: list[Any]) -> dict[str, Any]:
        """Return the claims of an ID token whose signature, issuer, audience and times are right."""
        head = jwt.get_unverified_header(token)
        alg, id = head.get("alg"), head.get("kid")
        if alg not in KEYS or "crit" in head:
            raise _wrong("its signature is of a kind that does not count here")
        kind, curve = KEYS[alg]
        fits = [
            it
            for it in keys
            if isinstance(it, dict)
            and (it.get("kty"), it.get("crv") if curve else None) == (kind, curve)
            and it.get("use", "sig") == "sig"
            and it.get("alg", alg) == alg
            and (id is None or it.get("kid") == id)
        ]
        if len(fits) != 1:
            raise _wrong(f"{len(fits)} of its keys fit the signature")
        key = jwt.PyJWK(fits[0], alg).key
        if getattr(key, "key_size", SMALLEST) < SMALLEST and kind == "RSA":
            raise _wrong("its key is too small")
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[alg],
            audience=self._provider.client,
            issuer=self._provider.issuer,
            leeway=LEEWAY,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self._provider.client) != self._provider.client:
            raise _wrong("it is for another client")
        return claims

    async def _ask(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        """Return the JSON object that the provider answers with; whatever else it does is its failure."""
        client = httpx.AsyncClient(transport=self.transport, timeout=PATIENCE, headers={"accept": "application/json"})
        try:
            async with asyncio.timeout(PATIENCE), client, client.stream(method, url, **more) as answer:
                body = b""
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > MOST:
                        raise _wrong("it answers without an end")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError):
            raise _away() from None
        if answer.status_code >= 500:
            raise _away()
        try:
            return msgspec.json.decode(body if answer.status_code == 200 else b"", type=dict[str, Any])
        except msgspec.MsgspecError:
            raise _wrong(f"it answered {answer.status_code}") from None


def called(claims: dict[str, Any]) -> str:
    """Return how the list of tokens calls somebody.

    >>> called({"sub": "1", "email": "ann@example.org"})
    'ann@example.org'
    """
    names = (claims.get(it) for it in ("email", "preferred_username", "name", "sub"))
    name = next((it for it in names if isinstance(it, str) and it), "somebody")
    return "".join(it for it in name if it.isprintable())[:100]


def cookie(headers: dict[bytes, bytes], name: str) -> str:
    """Return a cookie; nothing if it is not there, or there are two of them.

    >>> cookie({b"cookie": b"a=1; b=2; c=3; c=4"}, "b"), cookie({b"cookie": b"c=3; c=4"}, "c")
    ('2', '')
    """
    pairs = (it.strip().partition("=") for it in headers.get(b"cookie", b"").decode("latin-1").split(";"))
    found = [value for key, _, value in pairs if key == name]
    return found[0] if len(found) == 1 else ""


def _wrong(why: str) -> Refused:
    return Refused(502, f"what the provider answered does not count: {why}.", "Tell whoever runs the service.")


def _away() -> Refused:
    return Refused(503, "the provider cannot be reached.", "Try again later, or log in with a token.")


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
