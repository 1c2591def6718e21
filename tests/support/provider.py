"""A small OpenID provider: it lets everybody in, and can be told to answer wrongly in every way that matters."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

CLIENT, SECRET = "freepull", "a secret of ours"
RSA = rsa.generate_private_key(65537, 2048)


class OpenIdProvider:
    """Answers what a provider is asked; what is wrong with its answers is set from outside."""

    def __init__(self, issuer: str = "https://id.example") -> None:
        self.issuer = issuer
        self.keys: dict[str, Any] = {"one": RSA}
        self.signs = "one"
        self.claims: dict[str, Any] = {"sub": "1", "email": "ann@example.org", "groups": ["staff"]}
        self.changed: dict[str, Any] = {}
        """What is put into ID tokens instead of the right claims; None leaves one out."""
        self.described: dict[str, Any] = {}
        self.forge = ""
        """"none" or "HS256", for tokens that nobody must believe."""
        self.down = False
        self.answers: dict[str, httpx.Response] = {}
        """What paths are answered with instead."""
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []

    def let_in(self, address: str) -> str:
        """Return where a browser is sent that was sent to this address."""
        told = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert told["response_type"] == "code"
        assert told["code_challenge_method"] == "S256"
        assert "openid" in told["scope"].split()
        code = f"code {len(self.codes)}"
        self.codes[code] = told
        return f"{told['redirect_uri']}?{httpx.QueryParams(code=code, state=told['state'], iss=self.issuer)}"

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        path = request.url.path
        self.asked.append(path)
        if self.down:
            raise httpx.ConnectError("down")
        if path in self.answers:
            return self.answers[path]
        if path == "/.well-known/openid-configuration":
            parts = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            ends = {name: f"{self.issuer}/{end}" for name, end in parts.items()}
            return httpx.Response(200, json={"issuer": self.issuer} | ends | self.described)
        if path == "/keys":
            return httpx.Response(200, json={"keys": [public(id, key) for id, key in self.keys.items()]})
        if path == "/authorize":
            return httpx.Response(302, headers={"location": self.let_in(str(request.url))})
        assert (path, request.method) == ("/token", "POST")
        form = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        begun = self.codes.pop(form["code"], None)
        basic = b64encode(f"{CLIENT}:{SECRET.replace(' ', '+')}".encode()).decode()
        known = request.headers.get("authorization") == f"Basic {basic}" or form.get("client_secret") == SECRET
        challenge = urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        if begun is None or not known or challenge != begun["code_challenge"]:
            return httpx.Response(400, json={"error": "invalid_grant"})
        assert form["redirect_uri"] == begun["redirect_uri"]
        return httpx.Response(200, json={"id_token": self.id_token(begun["nonce"]), "access_token": "x"})

    def id_token(self, nonce: str) -> str:
        """Return an ID token for a login."""
        now = int(time.time())
        right = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce}
        claims = {name: it for name, it in (right | self.claims | self.changed).items() if it is not None}
        if self.forge == "none":
            return jwt.encode(claims, "", algorithm="none")
        if self.forge == "HS256":  # signed with what everybody knows, as if it were a secret
            parts = ({"alg": "HS256", "kid": "one"}, claims)
            body = b".".join(urlsafe_b64encode(json.dumps(it).encode()).rstrip(b"=") for it in parts)
            mac = hmac.digest(json.dumps(public("one", self.keys["one"])).encode(), body, "sha256")
            return f"{body.decode()}.{urlsafe_b64encode(mac).decode().rstrip('=')}"
        key = self.keys.get(self.signs) or RSA
        kind = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        return jwt.encode(claims, key, algorithm=kind, headers={"kid": self.signs} if self.signs else None)


def public(id: str, key: Any) -> dict[str, Any]:
    """Return the public half of a key, as providers show it."""
    algorithm: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return dict(json.loads(algorithm.to_jwk(key.public_key()))) | {"kid": id, "use": "sig"}


def elliptic() -> Any:
    """Return a key for ES256."""
    return ec.generate_private_key(ec.SECP256R1())


@contextmanager
def listening() -> Iterator[OpenIdProvider]:
    """Run a provider that browsers can reach."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            asked = httpx.Request(self.command, f"{found.issuer}{self.path}", headers=dict(self.headers), content=body)
            answer = found.handle(asked)
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.content)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = OpenIdProvider(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield found
        server.shutdown()
        thread.join()
