"""What a refusal says: a title that fits, and what to do."""

from __future__ import annotations

import pytest

from support.running import Service

pytestmark = pytest.mark.slow

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status", "remedy"),
    [
        (b'{"arm": "A", "reward": NaN}', 400, "Change what is at this byte; JSON has no NaN"),
        (b'{"arm": "A", "reward": 0.5', 400, "Send the whole body."),
        (b'{"arm": "A", "reward": 0.5, "reward": 0.5}', 400, "Give every field once."),
        (b'{"arm": "\xff", "reward": 0.5}', 400, "Encode the body in UTF-8."),
        (b'{"arm": "A"}', 422, "Add this field."),
        (b'{"arm": "A", "reward": 0.5, "more": 1}', 422, "Leave this field out."),
        (b'{"arm": "A", "reward": null}', 422, "Change reward."),
        (b'{"arm": "A", "reward": "0.5"}', 422, "Send a reward from 0 to 1, or on the campaign's scale."),
        (b'{"arm": "A", "reward": true}', 422, "Send a reward from 0 to 1, or on the campaign's scale."),
        (b"[]", 422, "Send a body of this kind."),
        (b'{"arm": "A", "reward": 1.5}', 422, "Send a reward from 0 to 1, or on the campaign's scale."),
        (b'{"arm": "A", "reward": 1, "event": ""}', 422, "Change event, and send the request again."),
    ],
)
def test_a_remedy_says_what_to_do_with_a_body(service: Service, body: bytes, status: int, remedy: str) -> None:
    path = service.create()
    token = service.tokens(path, "ann")["ann"]
    found = service.send("POST", f"{path}/me/observations", token=token, content=body, headers=JSON)
    assert (found.status_code, found.json()["remedy"][: len(remedy)]) == (status, remedy)
    assert found.json()["title"] == {400: "Cannot be read", 422: "Not allowed"}[status]


@pytest.mark.parametrize(
    ("scale", "reward", "must"),
    [
        (None, "0.5", "a number in [0, 1], got '0.5'."),
        (None, 1.5, "a number in [0, 1], got 1.5."),
        ("1..5", 0.5, "a number from 1 to 5, as the scale is, got 0.5."),
        ("1..5", "4", "a number from 1 to 5, such as 4, without quotes, got '4'."),
        ("yes/no", "maybe", "yes or no, as the scale is, got 'maybe'."),
        ("yes/no", 0.5, "yes or no, as the scale is, got 0.5."),
    ],
)
def test_a_wrong_reward_is_told_the_scale(service: Service, scale: str | None, reward: object, must: str) -> None:
    path = service.create(scale=scale)
    token = service.tokens(path, "ann")["ann"]
    found = service.send("POST", f"{path}/me/observations", {"arm": "A", "reward": reward}, token)
    assert (found.status_code, found.json()["detail"]) == (422, f"reward must be {must}")
    assert found.json()["type"] == "/problems/InvalidReward"


def test_a_missing_body_is_called_so(service: Service) -> None:
    path = service.create()
    for method, where in (("POST", "/campaigns"), ("POST", f"{path}/agents"), ("PATCH", f"{path}/budget")):
        found = service.send(method, where, content=b"", headers=JSON)
        assert (found.status_code, found.json()["detail"]) == (400, "the request has no body.")


@pytest.mark.parametrize("query", ["ledger?limit=abc", "ledger?limit=99999", "offers?open_only=7", "stream?after=x"])
def test_a_wrong_parameter_is_named(service: Service, query: str) -> None:
    found = service.send("GET", f"{service.create()}/{query}").json()
    name = query.partition("?")[2].partition("=")[0]
    assert (found["status"], found["title"]) == (400, "Cannot be read")
    assert found["detail"].startswith(f"the parameter {name} is not as it must be: ")
    assert found["remedy"] == f"Change {name}, or leave it out."


@pytest.mark.parametrize("name", ["a.csv", "day 1 (new).v2", "größe.csv", "ж" * 60, "..", "%22"])
def test_imports_take_ordinary_names_of_files(service: Service, name: str) -> None:
    path, csv = service.create(), {"content-type": "text/csv"}
    rows = "agent,arm,reward\nann,A,7\n"
    bad = service.send("POST", f"{path}/imports", params={"name": name}, content=rows, headers=csv)
    assert (bad.status_code, name.removesuffix(".csv") + ".csv" in bad.json()["detail"]) == (422, True), bad.text
    rows = "agent,arm,reward\nann,A,1\n"
    done = service.send("POST", f"{path}/imports", params={"name": name}, content=rows, headers=csv)
    assert done.json() == {"observations": 1}
    for wrong in ("a/b", "", "x" * 61, "a\x00"):
        found = service.send("POST", f"{path}/imports", params={"name": wrong}, content=rows, headers=csv)
        assert (found.status_code, found.json()["title"]) == (400, "Cannot be read")


def test_a_remedy_names_the_tokens_that_would_do(service: Service) -> None:
    path = service.create()
    agent = service.tokens(path, "ann")["ann"]
    pulls = {"observations": [{"agent": "ann", "arm": "A", "reward": 0.5}]}
    for method, where, body, token, remedy in (
        ("POST", f"{path}/observations:batch", pulls, agent, "Use a token of scope gateway or admin."),
        ("GET", f"{path}/ledger", None, agent, "Use a token of scope payer, read, operator or admin."),
        ("GET", f"{path}/ledger", None, service.gateway, "Use a token of scope payer, read, operator or admin."),
        ("POST", f"{path}/pause", None, service.reader, "Use a token of scope operator or admin."),
        ("POST", f"{path}/me/offer", None, service.gateway, "Use the agent's own token."),
        ("GET", f"{path}/me", None, service.admin, "Use the agent's own token."),
    ):
        found = service.send(method, where, body, token)
        assert (found.status_code, found.json()["remedy"]) == (403, remedy)
