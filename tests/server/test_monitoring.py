"""What Prometheus reads, and the board and the rules that are made for it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from freepull.server import readings
from freepull.server.readings import METRICS
from support.running import NEW, Service

DEPLOY = Path(__file__).parents[2] / "deploy"
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "freepull.json").read_text())
RULES: dict[str, Any] = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())
LINE = re.compile(r'(\w+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\})? (-?[\d.]+(?:e[+-]?\d+)?|\+Inf)')


def expressions() -> list[str]:
    asked = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", [])]
    told = [it["query"]["query"] for it in BOARD["templating"]["list"] if it["type"] == "query"]
    return asked + told + [rule["expr"] for group in RULES["groups"] for rule in group["rules"]]


def scraped(service: Service, token: str | None = None) -> dict[str, dict[str, float]]:
    """Return what /metrics prints: for every metric its labels and values."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    found = service.http.get("/metrics", headers=headers)
    assert found.status_code == 200, found.text
    seen: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    for line in found.text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            part = LINE.fullmatch(line)
            assert part is not None, line
            seen.setdefault(part[1], {})[part[2] or ""] = float(part[3])
    for name, kind in kinds.items():
        assert (kind == "counter") == name.endswith("_total"), name
    return seen


def test_every_campaign_is_read_for_whom_may_look(service: Service) -> None:
    path = service.create(principal=None, horizon=100)
    service.create(name='second "one" \\ here', start=False)
    for _ in range(3):
        for agent, token in service.tokens(path, "ann", "bob").items():
            service.send("POST", f"{path}/me/offer", token=token)
            pull = {"arm": "A" if agent == "ann" else "B", "reward": 1.0}
            assert service.send("POST", f"{path}/me/observations", pull, token).status_code == 200
    service.send("PATCH", f"{path}/budget", {"budget": "12.50 EUR"})
    time.sleep(readings.FRESH)
    seen = scraped(service, service.reader)
    mine = 'campaign="onboarding"'
    assert seen["freepull_campaign_observations_total"][mine] == 6
    assert seen["freepull_campaign_budget"] == {f'{mine},currency="EUR"': 12.5}
    assert seen["freepull_campaign_price"][f'{mine},currency="EUR"'] == 0.5
    assert seen["freepull_campaign_status"][f'{mine},status="running"'] == 1
    assert seen["freepull_campaign_alarmed"][f'{mine},check="drift"'] == 0
    second = r'campaign="second \"one\" \\ here"'
    assert seen["freepull_campaign_status"][f'{second},status="enrolling"'] == 1
    assert seen["freepull_campaigns_owned"] == {"": 2}
    assert abs(seen["freepull_campaign_read_timestamp_seconds"][mine] - time.time()) < 5
    printed = set(seen) | {"up"}
    named = {name for text in expressions() for name in re.findall(r"\bfreepull_\w+|\bup\b", text)}
    assert len(named) > 20
    assert named <= printed
    assert {it.full for it in METRICS} <= printed


def test_where_prices_differ_a_bonus_costs_what_was_paid_on_average(service: Service) -> None:
    principal = NEW["principal"] | {"pricing": {"part": "Posted", "start": 0.2}, "offers": "each"}
    path = service.create(principal=principal, price="1.00 EUR", budget="2 EUR")
    assert not scraped(service, service.reader).get("freepull_campaign_price"), "nobody knows yet"
    for token in service.tokens(path, "ann", "bob").values():  # bob is paid less, because ann took hers
        offer = service.send("POST", f"{path}/me/offer", token=token).json()["offer"]
        service.send("POST", f"{path}/me/observations", {"arm": offer["arm"], "reward": 1.0}, token)
    time.sleep(readings.FRESH)
    seen = scraped(service, service.reader)
    assert set(seen["freepull_campaign_spent_total"].values()) == {0.38}
    assert set(seen["freepull_campaign_price"].values()) == {0.19}, "and not 1, below which nobody would be paid"


def test_those_who_are_awaited_are_counted_by_why(service: Service) -> None:
    path = service.create(name="waits")
    tokens = service.tokens(path, "ann", "bob")
    for _ in range(4):
        for token in tokens.values():
            for arm in "ABC":
                service.send("POST", f"{path}/me/observations", {"arm": arm, "reward": 0.5}, token)
    seen = scraped(service, service.reader)["freepull_campaign_awaited"]
    status = service.send("GET", path).json()
    assert status["awaited"] == ["cy"]
    assert seen == {f'campaign="waits",why="{why}"': float(why == "silent") for why in readings.ABSENT}


def test_without_a_token_no_campaign_is_shown(service: Service) -> None:
    service.create()
    service.create(name="second")
    assert not any(name.startswith("freepull_campaign_") for name in scraped(service))
    wrong = service.http.get("/metrics", headers={"authorization": "Bearer fp_a_b"})
    assert wrong.status_code == 401
    gateway = service.http.get("/metrics", headers={"authorization": f"Bearer {service.gateway}"})
    assert gateway.status_code == 403
    only = service.send("POST", "/tokens", {"scope": "read", "campaign": "second"}).json()["token"]
    assert set(scraped(service, only)["freepull_campaign_step"]) == {'campaign="second"'}


def test_there_are_never_too_many(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "MOST", 2)
    for name in "abc":
        service.create(name=name, start=False)
    service.send("POST", "/campaigns/a/stop", {"why": ""})
    scraped(service, service.reader)
    seen = scraped(service, service.reader)
    assert set(seen["freepull_campaign_step"]) == {'campaign="b"', 'campaign="c"'}
    assert seen["freepull_campaigns_left_out"] == {"": 1}


def test_a_writer_that_is_busy_holds_nobody_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.create()
    before = scraped(service, service.reader)
    monkeypatch.setattr(readings, "FRESH", -1.0)
    monkeypatch.setattr(readings, "PATIENCE", 0.05)
    view = service.server.application.hosting.here()["onboarding"].view

    async def never() -> Any:
        await asyncio.sleep(1000)

    monkeypatch.setattr(view, "standing", never)
    began = time.monotonic()
    seen = [scraped(service, service.reader) for _ in range(3)]
    assert time.monotonic() - began < 5
    for it in seen:
        same = "freepull_campaign_read_timestamp_seconds"
        assert it[same] == before[same]


def test_the_board_is_one_that_grafana_loads() -> None:
    assert BOARD["uid"] == "freepull"
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in BOARD["panels"]:
        if panel["type"] != "row":
            assert panel["title"]
            assert panel["description"].endswith(".")
            assert [it["refId"] for it in panel["targets"]] == list("ABCDEFG"[: len(panel["targets"])])
    taken = [(x, y) for it in BOARD["panels"] for x in _span(it, "x", "w") for y in _span(it, "y", "h")]
    assert len(set(taken)) == len(taken)


def _span(panel: dict[str, Any], begin: str, size: str) -> range:
    place = panel["gridPos"]
    return range(place[begin], place[begin] + place[size])


def test_every_rule_says_what_is_wrong_and_is_explained() -> None:
    page = (DEPLOY.parent / "docs" / "operations.md").read_text()
    for group in RULES["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("page", "ticket")
            assert rule["annotations"]["summary"].endswith(".")
            assert f"**{rule['alert']}**" in page, rule["alert"]


@pytest.mark.slow
def test_the_rules_fire_when_they_should() -> None:
    """As `promtool` says, which `make test` unpacks beside Python if the system has none."""
    told = yaml.safe_load((DEPLOY / "alerts_test.yaml").read_text())
    names = {rule["alert"] for group in RULES["groups"] for rule in group["rules"]}
    assert {it["alertname"] for test in told["tests"] for it in test["alert_rule_test"]} <= names
    program = shutil.which("promtool") or Path(sys.executable).with_name("promtool")
    for words in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        done = subprocess.run([program, *words], cwd=DEPLOY, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
