"""The security rows of what must be shown, over HTTP; the tests have them in a short form."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

from .fuzzing import fuzz
from .hostile import Request, answers, bad_bodies, wrong_tokens
from .races import AtTheDeadline, at_the_deadline, last_bonus, one_offer
from .traffic import Process, Row

OTHERS = {"{kind}": "404", "{target}": "shop"}
NAMES = {"{campaign}": "c0", "{agent}": "%230", "{arm}": "arm 0", "{id}": "none", "{file}": "ledger.csv"}


def routes(process: Process) -> list[tuple[str, str]]:
    """Return every route that is not an agent's own, from the document."""
    paths: dict[str, Any] = process.ask("", "GET", "/openapi.json")["paths"]
    found = []
    for path, methods in paths.items():
        if path.startswith("/v1") and "/me" not in path:
            for name, value in NAMES.items():
                path = path.replace(name, value.replace(" ", "%20"))
            found += [(method.upper(), path.removeprefix("/v1")) for method in methods]
    return found


def refused_wrongly(process: Process, admin: str) -> Iterator[str]:
    """Yield every method that a path has not, and that is not refused with the names of those that it has."""
    paths: dict[str, Any] = process.ask("", "GET", "/openapi.json")["paths"]
    for path, methods in paths.items():
        own, place = {it.upper() for it in methods}, path
        for name, value in (NAMES | OTHERS).items():
            place = place.replace(name, value.replace(" ", "%20"))
        for method in sorted({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - own):
            with closing(HTTPConnection("127.0.0.1", process.port, timeout=60)) as line:
                line.request(method, place, headers={"authorization": f"Bearer {admin}"})
                answer = line.getresponse()
                allowed = {it.strip() for it in answer.headers.get("allow", "").split(",")}
            right = answer.status == (204 if method == "OPTIONS" else 405) and allowed == own | {"OPTIONS"}
            if not right:
                yield f"{method} {path}: {answer.status}, {sorted(allowed)}"


def security(process: Process, admin: str, gateway: str, tokens: list[str], count: int) -> Iterator[Row]:
    """Yield rows: what was done, the bar, what came of it, and whether the bar was reached."""
    port = process.port
    before = process.ask(admin, "GET", "/campaigns/c0")
    known = routes(process)

    def as_agents() -> Iterator[Request]:
        for token in tokens[: max(3, count // 100)]:
            for method, path in known:
                yield method, path, b"{}", {"authorization": f"Bearer {token}".encode()}

    found = asyncio.run(answers(port, as_agents()))
    yield "agents' tokens on every other route", "all 403/404", _shown(found), set(found) <= {403, 404}

    process.ask(admin, "POST", "/campaigns/c0/agents/%231/revoke", raw=True)
    gone = [tokens[1]]
    body = {"name": "c9", "arms": 2, "agents": 2, "price": "1 EUR", "horizon": 9}
    process.ask(admin, "POST", "/campaigns", body)
    made = process.ask(admin, "POST", "/campaigns/c9/tokens", {"agents": [0]})
    old = process.ask(admin, "POST", "/campaigns/c0/tokens", {"agents": [0], "lasts": "0.001 seconds"})
    gone += [it["token"] for it in made["tokens"] + old["tokens"]]
    headers = wrong_tokens([tokens[0], admin, gateway], gone, count)
    found = asyncio.run(answers(port, (("GET", "/campaigns/c0/me", b"", {"authorization": it}) for it in headers)))
    yield "wrong tokens", "401, never 5xx", _shown(found), set(found) == {401}

    def bodies() -> Iterator[Request]:
        where = [("/campaigns/c0/me/observations", tokens[0]), ("/campaigns/c0/observations:batch", gateway)]
        where += [(path, admin) for path in ("/campaigns", "/campaigns/c0/agents", "/campaigns/c0/stop", "/tokens")]
        for i, (body, more) in enumerate(bad_bodies(count)):
            path, token = where[i % len(where)]
            yield "POST", path, body, more | {"authorization": f"Bearer {token}".encode()}

    found = asyncio.run(answers(port, bodies()))
    same = process.ask(admin, "GET", "/campaigns/c0") == before
    good = same and all(status == 0 or 400 <= status < 500 for status in found) and found[0] <= count / 100
    yield "bad bodies", "4xx, state unchanged", f"{_shown(found)}; unchanged: {same}", good

    zeros = ((method, f"{path}%00", b"{}", {"authorization": f"Bearer {admin}".encode()}) for method, path in known)
    found = asyncio.run(answers(port, zeros))
    yield "a zero byte in every path", "all 400", _shown(found), set(found) == {400}
    wrong = list(refused_wrongly(process, admin))
    yield "methods that paths have not", "405, Allow names the others", "; ".join(wrong[:3]) or "so it is", not wrong
    sums = ["20000000.01 EUR", "92233720368547758.07 EUR", f"{10**40} EUR"]
    dear = [json.dumps(body | {"name": f"dear {i}", "price": it}).encode() for i, it in enumerate(sums)]
    found = asyncio.run(
        answers(port, (("POST", "/campaigns", it, {"authorization": f"Bearer {admin}".encode()}) for it in dear))
    )
    yield "prices whose sums could not be kept", "all 422", _shown(found), set(found) == {422}

    rounds = max(1, count // 1000)
    once = [asyncio.run(one_offer(port, admin, f"one{i}")) for i in range(rounds)]
    yield (
        "50 parallel pulls on one offer",
        "one payment",
        f"{rounds} times, {max(n for _, n in once)} paid at most",
        all(it == (1, 1) for it in once),
    )
    last = [asyncio.run(last_bonus(port, admin, f"last{i}")) for i in range(rounds)]
    good = all(offers == 1 and used <= most for offers, used, most in last)
    yield (
        "100 asks for the last bonus",
        "never above budget",
        f"{rounds} times, {max(n for n, *_ in last)} offered",
        good,
    )
    late = sum((asyncio.run(at_the_deadline(port, admin, f"late{i}")) for i in range(rounds)), AtTheDeadline())
    bar = "paid before it, expired after it, ± 1 ms"
    yield "pulls at the deadline", bar, late, late.wrong == 0 and late.close >= 5 * rounds

    tried = fuzz(process.address, admin, tokens[2], "c0", examples=max(5, count // 80))
    bar = "≥ 5,000 cases, 0 failures, nothing refused that the document allows"
    words = "; ".join([str(tried), *(it for it, _ in tried.stricter.most_common(3))])
    yield "Schemathesis", bar, words, tried.cases >= count / 2 and not tried.stricter


def _shown(found: Counter[int]) -> str:
    return json.dumps({str(status): count for status, count in sorted(found.items())}).replace('"', "")
