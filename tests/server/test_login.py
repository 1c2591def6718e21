"""Logging in with an OpenID provider: who gets in as what, and every answer of a provider that must not count."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from freepull.campaigns.stores.serving import StoredToken, TokenNote
from freepull.errors import InvalidInput
from freepull.server import auth, oidc
from freepull.server.app import Application
from freepull.server.oidc import Provider
from support.provider import CLIENT, SECRET, OpenIdProvider, elliptic

HOME = "https://freepull.example"
SESSION = "__Host-freepull-session"
ALLOWED = {"admin": ("owners",), "operator": ("staff",), "read": ("guests",)}
HOUR = 3600


class Desk:
    """A service, a provider beside it, and a browser."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.provider = OpenIdProvider()
        chosen: dict[str, Any] = {"secret": SECRET, "allowed": ALLOWED, "address": HOME}
        self.logged: list[dict[str, Any]] = []
        asked = Provider("https://id.example", CLIENT, **chosen | more)
        url = f"sqlite:///{folder}/trial.db"
        self.app = Application(url, log=lambda what, **it: self.logged.append({"what": what} | it), provider=asked)
        self.app.login.transport = httpx.MockTransport(self.provider.handle)
        self.tokens = self.app.hosting.tokens
        self.browser = self.another()

    def another(self) -> httpx.AsyncClient:
        """Return another browser."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=HOME)

    async def begin(self) -> str:
        """Go to the provider; return where it sends the browser back to."""
        sent = await self.browser.get("/login")
        assert sent.status_code == 303, sent.text
        return self.provider.let_in(sent.headers["location"])

    async def log_in(self) -> httpx.Response:
        return await self.browser.get(await self.begin())

    async def scope(self) -> str:
        """Return what the browser may do, nothing if it is not logged in."""
        found = await self.browser.get("/v1/token")
        return str(found.json()["scope"]) if found.status_code == 200 else ""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    def all_of_it(test: Callable[[Desk], Coroutine[Any, Any, None]], **more: Any) -> None:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Desk]:
            desk = Desk(tmp_path, **more)
            try:
                yield desk
            finally:
                await desk.browser.aclose()
                desk.tokens.close()

        async def main() -> None:
            async with opened() as desk:
                await test(desk)

        asyncio.run(main())

    return all_of_it


Run = Callable[..., None]


def test_who_logs_in_gets_a_session_with_the_scope_of_the_claim(run: Run) -> None:
    async def test(desk: Desk) -> None:
        assert await desk.scope() == ""
        done = await desk.log_in()
        assert (done.status_code, done.headers["location"]) == (303, "/")
        (cookie,) = (it for it in done.headers.get_list("set-cookie") if it.startswith(SESSION))
        words = {it.strip().lower() for it in cookie.split(";")[1:]}
        assert words >= {"httponly", "secure", "samesite=lax", "path=/", "max-age=28800"}
        assert not any(it.startswith("domain") for it in words)
        assert await desk.scope() == "operator"
        (row,) = desk.tokens.rows()
        assert (row.id[0], row.scope, row.label) == ("s", "operator", "ann@example.org")
        assert row.expires is not None
        assert (row.expires - row.made).total_seconds() == pytest.approx(8 * HOUR, abs=5)
        desk.provider.claims["groups"] = ["owners"]
        assert await desk.scope() == "operator"  # until the next login
        await desk.log_in()
        assert await desk.scope() == "admin"
        assert [(it.scope, it.revoked is None) for it in desk.tokens.rows()] == [("operator", False), ("admin", True)]

    run(test)


@pytest.mark.parametrize(
    ("claims", "more", "scope"),
    [
        ({"groups": "guests"}, {}, "read"),
        ({"groups": ["guests", "owners", "staff"]}, {}, "admin"),
        ({"groups": ["others"]}, {}, ""),
        ({"groups": None}, {}, ""),
        ({"groups": 7}, {}, ""),
        ({"groups": {"owners": True}}, {}, ""),
        ({"groups": [["owners"], 3]}, {}, ""),
        ({"groups": ["others"]}, {"allowed": {"read": ("*",)}}, "read"),
        ({"realm": {"roles": ["owners"]}}, {"claim": "realm.roles"}, "admin"),
        ({"https://a.example/roles": ["owners"]}, {"claim": "https://a.example/roles"}, "admin"),
        ({"email_verified": True}, {"claim": "email", "allowed": {"admin": ("ann@example.org",)}}, "admin"),
        ({"email_verified": False}, {"claim": "email", "allowed": {"admin": ("ann@example.org",)}}, ""),
        ({}, {"claim": "email", "allowed": {"admin": ("ann@example.org",)}}, ""),
    ],
)
def test_claims_stand_for_scopes(claims: dict[str, Any], more: dict[str, Any], scope: str) -> None:
    chosen: dict[str, Any] = {"allowed": ALLOWED, "address": HOME}
    asked = Provider("https://id.example", CLIENT, **chosen | more)
    assert (asked.scope(OpenIdProvider().claims | claims) or "") == scope


def test_who_stands_for_no_scope_is_not_let_in(run: Run) -> None:
    async def test(desk: Desk) -> None:
        desk.provider.claims["groups"] = ["others"]
        done = await desk.log_in()
        assert (done.status_code, "You may not use this service" in done.text) == (403, True)
        assert await desk.scope() == ""

    run(test)


NOT_FOR_US: list[tuple[dict[str, Any], str]] = [
    ({"nonce": "another"}, "another login"),
    ({"nonce": None}, "another login"),
    ({"iss": "https://evil.example"}, "InvalidIssuer"),
    ({"iss": "https://id.example/"}, "InvalidIssuer"),
    ({"iss": None}, "MissingRequiredClaim"),
    ({"aud": "another"}, "InvalidAudience"),
    ({"aud": [CLIENT, "another"]}, "another client"),
    ({"azp": "another"}, "another client"),
    ({"exp": 1_000_000}, "ExpiredSignature"),
    ({"exp": None}, "MissingRequiredClaim"),
    ({"iat": 99_999_999_999}, "ImmatureSignature"),
    ({"iat": None}, "MissingRequiredClaim"),
    ({"sub": None}, "MissingRequiredClaim"),
]


def test_an_id_token_that_is_not_for_this_login_counts_nothing(run: Run) -> None:
    async def test(desk: Desk) -> None:
        for changed, said in NOT_FOR_US:
            desk.provider.changed = changed
            desk.logged.clear()
            done = await desk.log_in()
            assert done.status_code == 502, changed
            assert said in str(desk.logged)
            assert "Not logged in" in done.text
            assert SESSION not in done.headers.get("set-cookie", "")
            assert await desk.scope() == ""
            assert desk.tokens.rows() == []

    run(test)


def test_forged_signatures_are_refused(run: Run) -> None:
    async def test(desk: Desk) -> None:
        for forge in ("none", "HS256"):
            desk.provider.forge = forge
            assert (await desk.log_in()).status_code == 502
            assert await desk.scope() == ""

    run(test)


def test_keys_may_change_and_only_those_of_the_provider_count(run: Run) -> None:
    async def test(desk: Desk) -> None:
        assert (await desk.log_in()).status_code == 303
        desk.provider.keys, desk.provider.signs = {"two": elliptic()}, "two"
        assert (await desk.log_in()).status_code == 303
        desk.provider.signs = "one"  # an old key, which is no longer shown
        assert (await desk.log_in()).status_code == 502
        desk.provider.keys = {"two": elliptic()}
        real, desk.provider.signs = desk.provider.keys, "two"
        token = desk.provider.id_token
        desk.provider.id_token = lambda nonce: token(nonce)[:-8] + "AAAAAAAA"  # type: ignore[method-assign]
        assert (await desk.log_in()).status_code == 502
        desk.provider.id_token = token  # type: ignore[method-assign]
        desk.provider.keys, desk.provider.signs = {"a": elliptic(), "b": elliptic()}, ""
        assert (await desk.log_in()).status_code == 502
        desk.provider.keys, desk.provider.signs = real, "two"
        assert (await desk.log_in()).status_code == 303

    run(test)


def test_a_login_counts_once_and_only_in_the_browser_that_began_it(run: Run) -> None:
    async def test(desk: Desk) -> None:
        back = await desk.begin()
        kept = dict(desk.browser.cookies)
        async with desk.another() as victim:  # what an attacker began, a victim's browser must not finish
            done = await victim.get(back)
            assert done.status_code == 403
            assert "not begun in this browser" in done.text
            await victim.get("/login")
            assert (await victim.get(back)).status_code == 403
        assert (await desk.browser.get(back)).status_code == 303
        async with desk.another() as again:
            again.cookies.update(kept)
            done = await again.get(back)
            assert (done.status_code, "is over" in done.text) == (403, True)
        assert desk.provider.asked.count("/token") == 1
        assert len(desk.tokens.rows()) == 1

    run(test)


def test_a_login_ends_after_ten_minutes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(desk: Desk) -> None:
        back, now = await desk.begin(), auth.latest()
        monkeypatch.setattr(oidc, "latest", lambda: now + oidc.BEGUN + 1)
        assert (await desk.browser.get(back)).status_code == 403
        cookie = desk.browser.cookies.get("__Host-freepull-login")
        assert not cookie
        desk.browser.cookies.set("__Host-freepull-login", f"{now + 10**12}.x")  # longer by hand is another login
        assert "not begun" in (await desk.browser.get(back)).text

    run(test)


def test_a_refusal_of_the_provider_is_a_page_that_quotes_nothing(run: Run) -> None:
    async def test(desk: Desk) -> None:
        for error, shown in (("access_denied", True), ("<script>", False)):
            back = await desk.begin()
            state = parse_qs(urlsplit(back).query)["state"][0]
            done = await desk.browser.get("/login/done", params={"state": state, "error": error})
            assert done.status_code == 403
            assert (error in done.text) is shown
            assert done.headers["content-type"].startswith("text/html")
        back = await desk.begin()
        done = await desk.browser.get(back.replace("id.example", "evil.example"))
        assert (done.status_code, "Another provider" in done.text) == (403, True)

    run(test)


def test_nobody_is_sent_anywhere_else(run: Run) -> None:
    async def test(desk: Desk) -> None:
        sent = await desk.browser.get("/login?next=https://evil.example&redirect_uri=https://evil.example")
        assert urlsplit(sent.headers["location"]).hostname == "id.example"
        asked = parse_qs(urlsplit(sent.headers["location"]).query)
        assert asked["redirect_uri"] == [f"{HOME}/login/done"]
        back = desk.provider.let_in(sent.headers["location"])
        done = await desk.browser.get(f"{back}&next=https://evil.example", headers={"host": "evil.example"})
        assert done.headers["location"] == "/"

    run(test)


BODIES: dict[str, dict[str, Any]] = {
    "no json": {"content": b"<html>"},
    "no object": {"json": [1]},
    "without an end": {"content": b" " * (oidc.MOST + 1)},
    "a redirect": {"status_code": 302, "headers": {"location": "https://evil.example"}},
    "no token": {"json": {}},
    "no text": {"json": {"id_token": 7}},
    "no keys": {"json": {"keys": "x"}},
    "a key of nothing": {"json": {"keys": [{"kty": "RSA", "kid": "one"}, 3]}},
}


def test_whatever_a_provider_answers_is_a_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(desk: Desk) -> None:
        for path in ("/.well-known/openid-configuration", "/token", "/keys"):
            for body, answer in BODIES.items():
                desk.provider.answers = {path: httpx.Response(**{"status_code": 200} | answer)}
                done = await (desk.browser.get("/login") if path.startswith("/.") else desk.log_in())
                assert done.status_code == 502, (path, body, done.text)
                assert "Tell whoever runs the service" in done.text

    monkeypatch.setattr(oidc, "RESTING", 0.0)
    run(test)


def test_a_wrong_description_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(desk: Desk) -> None:
        for described in (
            {"issuer": "https://evil.example"},
            {"token_endpoint": "http://id.example/token"},
            {"jwks_uri": None},
            {"authorization_endpoint": "javascript:alert(1)"},
            {"jwks_uri": "http://[::1"},
        ):
            desk.provider.described = described
            assert (await desk.browser.get("/login")).status_code == 502

    monkeypatch.setattr(oidc, "RESTING", 0.0)
    run(test)


def test_a_provider_that_is_down_is_asked_seldom_and_keeps_nobody_out_for_good(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(desk: Desk) -> None:
        desk.provider.down = True
        for _ in range(50):
            found = await desk.browser.get("/login")
            assert (found.status_code, "cannot be reached" in found.text) == (503, True)
        assert len(desk.provider.asked) == 1
        desk.provider.down = False
        monkeypatch.setattr(oidc, "RESTING", 0.0)
        assert (await desk.log_in()).status_code == 303
        back = await desk.begin()
        desk.provider.down = True
        assert (await desk.browser.get(back)).status_code == 503
        assert await desk.scope() == "operator"  # who is in stays in
        monkeypatch.setattr(oidc, "FRESH", 0.0)
        assert (await desk.browser.get("/login")).status_code == 303  # where it is, is still known
        assert (await desk.browser.get("/healthz")).status_code == 200

    run(test)


def test_a_provider_that_hangs_holds_up_few(run: Run) -> None:
    async def test(desk: Desk) -> None:
        going_on = asyncio.Event()

        async def hang(_: httpx.Request) -> httpx.Response:
            await going_on.wait()
            raise httpx.ReadTimeout("hung")

        desk.app.login.transport = httpx.MockTransport(hang)
        waiting = [asyncio.create_task(desk.browser.get("/login")) for _ in range(oidc.AT_ONCE)]
        while not any(it.done() for it in waiting) and desk.app.login.waiting < oidc.AT_ONCE:
            await asyncio.sleep(0)
        found = await desk.browser.get("/login")
        assert (found.status_code, "Too many" in found.text) == (503, True)
        going_on.set()
        assert {it.status_code for it in await asyncio.gather(*waiting)} == {503}

    run(test)


SITES: list[tuple[dict[str, str], int]] = [
    ({"origin": HOME}, 201),
    ({"origin": HOME, "sec-fetch-site": "same-origin"}, 201),
    ({}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "https://evil.example"}, 403),
    ({"origin": "http://freepull.example"}, 403),
    ({"origin": "https://freepull.example.evil"}, 403),
    ({"origin": HOME, "sec-fetch-site": "same-site"}, 403),
    ({"origin": HOME, "sec-fetch-site": "cross-site"}, 403),
]


def test_a_cookie_counts_only_for_what_our_own_pages_send(run: Run) -> None:
    async def test(desk: Desk) -> None:
        desk.provider.claims["groups"] = ["owners"]
        for headers, status in SITES:
            await desk.log_in()
            done = await desk.browser.post("/v1/tokens", json={"scope": "read"}, headers=headers)
            assert done.status_code == status, headers
            out = await desk.browser.post("/logout", headers=headers)
            assert out.status_code == (204 if status == 201 else 403)
            assert await desk.scope() == ("" if status == 201 else "admin")
            seen = await desk.browser.get("/v1/token", headers={"sec-fetch-site": "cross-site"})
            assert seen.status_code in (401, 403)

    run(test)


def test_logging_out_ends_a_session_everywhere(run: Run) -> None:
    async def test(desk: Desk) -> None:
        await desk.log_in()
        kept = dict(desk.browser.cookies)
        out = await desk.browser.post("/logout", headers={"origin": HOME})
        assert "Max-Age=0" in out.headers["set-cookie"]
        desk.browser.cookies.update(kept)  # a copy that somebody kept
        ended = await desk.browser.get("/v1/token")
        assert (ended.status_code, ended.json()["detail"]) == (401, "the session has ended.")
        assert [it.action for it in desk.tokens.audit()] == ["made", "revoked"]
        assert (await desk.browser.post("/logout", headers={"origin": HOME})).status_code == 204

    run(test)


def test_a_session_ends_by_itself_and_other_tokens_are_no_cookies(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(desk: Desk) -> None:
        token, _ = desk.tokens.new("admin")
        desk.browser.cookies.set(SESSION, token)
        assert await desk.scope() == ""
        desk.browser.cookies.clear()
        await desk.log_in()
        assert await desk.scope() == "operator"
        sent = f"{SESSION}={desk.browser.cookies[SESSION]}"
        async with desk.another() as doubled:
            assert (await doubled.get("/v1/token", headers={"cookie": f"{sent}; {sent}"})).status_code == 401
            assert (await doubled.get("/v1/token", headers={"cookie": sent})).status_code == 200
        given = {"authorization": f"Bearer {token}"}  # a token that is sent counts before the cookie
        assert (await desk.browser.get("/v1/token", headers=given)).json()["scope"] == "admin"
        now = auth.latest()
        monkeypatch.setattr(auth, "latest", lambda: now + 8 * HOUR * 10**6 + 10**6)
        assert await desk.scope() == ""

    run(test)


def test_old_sessions_are_forgotten_and_their_notes_stay(run: Run) -> None:
    async def test(desk: Desk) -> None:
        store = desk.tokens.store
        for id, expires in (("s0", 10), ("abc", 10), ("s1", 40 * 86_400 * 10**6)):
            store.add_token(StoredToken(id, b"x", "read", "", "", 1, expires), TokenNote(1, "", "made", id, "", "", ""))
        now = 41 * 86_400 * 10**6
        new = StoredToken("s2", b"x", "read", "", "", now, now + 1)
        store.add_token(new, TokenNote(1, "", "made", "s2", "", "", ""))
        assert sorted(it.id for it in store.tokens()) == ["abc", "s1", "s2"]
        assert len(store.token_notes(0, 100)) == 4

    run(test)


def test_providers_that_want_the_secret_otherwise_and_clients_without_one(run: Run) -> None:
    async def test(desk: Desk) -> None:
        desk.provider.described = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
        assert (await desk.log_in()).status_code == 303

    run(test)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"issuer": "http://id.example"}, "--oidc-issuer must begin with https"),
        ({"issuer": "id.example"}, "--oidc-issuer must begin with https"),
        ({"address": "http://freepull.example"}, "--address must begin with https"),
        ({"client": ""}, "--oidc-client must be given"),
        ({"asks": "email"}, "must have openid"),
        ({"allowed": {}}, "must say who may log in"),
        ({"allowed": {"admin": ("*",)}}, "name who may change something"),
        ({"lasts": "30 days"}, "from 1 minute to 7 days"),
        ({"lasts": "soon"}, "--oidc-lasts must be"),
    ],
)
def test_settings_that_would_not_be_safe_are_refused(settings: dict[str, Any], said: str) -> None:
    chosen = {"issuer": "https://id.example", "client": "x", "allowed": ALLOWED, "address": HOME} | settings
    with pytest.raises(InvalidInput, match=said):
        Provider(**chosen)


def test_a_loopback_address_needs_no_tls(run: Run) -> None:
    async def test(desk: Desk) -> None:
        sent = await desk.browser.get("/login")
        words = sent.headers["set-cookie"].lower()
        assert "secure" not in words
        assert words.startswith("freepull-login=")

    run(test, address="http://127.0.0.1:8000")


def test_the_secret_is_not_shown() -> None:
    assert SECRET not in repr(Provider("https://id.example", "x", SECRET, allowed=ALLOWED))


@pytest.mark.slow
def test_nothing_of_it_is_loaded_where_it_is_off() -> None:
    import subprocess

    extras = "{'jwt', 'cryptography', 'opentelemetry'}"
    words = f"import sys, freepull.server.server; print({extras} & {{it.split('.')[0] for it in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
