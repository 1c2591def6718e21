"""Names with slashes and other odd characters, in paths."""

from __future__ import annotations

import pytest

import freepull as fp
from support.running import Service, is_problem

pytestmark = pytest.mark.slow

NAMES = ["a/b", "/", "//a//", "a%2Fb", "a b?c#d", "ж/ж", ".hidden/..", "name"]


@pytest.mark.parametrize("name", NAMES)
def test_whoever_can_be_enrolled_can_be_managed(service: Service, name: str) -> None:
    with fp.Client(service.at, service.admin, retries=0) as client:
        principal = fp.Principal(fp.rules.Comparisons(0.05), observe=fp.observe.Steps(0), offers="each")
        arms, agents = [name, "B", "C"], [name, "bob"]
        campaign = client.create(
            name=name, arms=arms, agents=agents, price="1 EUR", principal=principal, withdrawal=True
        )
        campaign.start()
        assert campaign.status().name == name
        with fp.AgentClient(service.at, name, campaign.agent_tokens([name])[name]) as me:
            me.ask()
            assert me.tell(name, 0.5).event is not None
        with pytest.raises(fp.errors.WrongMoment, match="not banned"):
            campaign.unban(name)
        campaign.revoke_agent(name)
        campaign.withdraw(name)
        assert campaign.status().arms[0].active is False
        campaign.leave(name)
        assert campaign.status().absent == 1
        campaign.erase_names([name])
        assert [row.name for row in campaign.agents()] == ["#0", "bob"]


@pytest.mark.parametrize("slash", ["%2F", "%2f"])
def test_an_encoded_slash_is_none_between_parts(service: Service, slash: str) -> None:
    path = service.create()
    for method, where in (
        ("GET", f"/v1{slash}campaigns"),
        ("GET", f"/{slash}v1/campaigns"),
        ("POST", f"/v1/campaigns/onboarding{slash}tokens"),
        ("POST", f"/v1{path}/tokens{slash}"),
        ("POST", f"/v1{path}/agents/ann{slash}revoke"),
        ("GET", f"/v1{path}/exports/ledger.csv{slash}"),
    ):
        for token in ("none", service.admin):
            headers = {"authorization": f"Bearer {token}", "idempotency-key": "k"}
            body = {"agents": ["ann"]} if method == "POST" else None
            found = service.http.request(method, service.at + where, headers=headers, json=body)
            assert found.status_code in (401, 404, 405), (where, found.text)
            assert found.json()["remedy"]
    assert "fpa_" not in str(service.store.query("SELECT body FROM answered", ()))


def test_slashes_of_names_keep_campaigns_of_tokens_apart(service: Service) -> None:
    service.create(name="a")
    service.create(name="a/b", start=False)
    only = service.send("POST", "/tokens", {"scope": "admin", "campaign": "a"}).json()["token"]
    assert service.send("GET", "/campaigns/a", token=only).status_code == 200
    assert service.send("GET", "/campaigns/a%2Fb", token=only).status_code == 403


@pytest.mark.parametrize("path", ["%00v1%00campaigns", "v1/campaigns%00", "v1/campaigns/a%00b", "%00", "healthz%00"])
def test_a_zero_byte_is_no_slash(service: Service, path: str) -> None:
    service.create(name="a/b", start=False)
    found = service.http.get(f"{service.at}/{path}", headers={"authorization": f"Bearer {service.admin}"})
    assert (found.status_code, is_problem(found)) == (400, True)


def test_allow_names_the_methods_of_every_path(service: Service) -> None:
    service.create()
    paths = service.http.get("/v1/openapi.json").json()["paths"]
    table = {path: {method.upper() for method in methods} for path, methods in paths.items()}
    table |= {path: {"GET"} for path in ("/", "/dashboard.css", "/icon.svg", "/plotly.js", "/v1/openapi.json")}
    values = {"campaign": "onboarding", "agent": "ann", "arm": "A", "id": "x", "file": "ledger.csv", "kind": "404"}
    values["target"] = "shop"
    headers = {"authorization": f"Bearer {service.admin}"}
    for path, methods in table.items():
        for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - methods:
            found = service.http.request(method, path.format(**values), headers=headers)
            assert found.status_code == (204 if method == "OPTIONS" else 405), (method, path)
            allowed = {it.strip() for it in found.headers["allow"].split(",")}
            assert allowed == methods | {"OPTIONS"}, (method, path)
