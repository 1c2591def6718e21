"""The examples run, and show what they say they show."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient

import freepull as fp
from chaos.receiving import SECRET, receiving
from freepull.campaigns.journal.recovery import verify
from freepull.server.webhooks import SIGNATURE, read_targets, sign
from support.running import Service

FOLDER = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested_here() -> None:
    names = {"toy", "own_agent", "by_hand", "plan", "campaign", "service", "own_formula", "compare"}
    names |= {"train_agent", "backend", "nightly_payout", "best_response"}
    assert {path.stem for path in FOLDER.glob("*.py")} == names


def test_the_toy_prints_four_principals_and_saves_the_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = load("toy")
    monkeypatch.setattr(toy, "HORIZON", 2000)
    toy.main(runs=4, out=tmp_path / "out")
    shown = capsys.readouterr().out
    for word in ("passive", "paper", "authors", "certified", "heuristic", "proven"):
        assert word in shown
    assert (tmp_path / "out" / "toy.png").stat().st_size > 20_000


def test_an_own_agent_runs_on_the_readable_engine_which_is_said() -> None:
    example = load("own_agent")
    with pytest.warns(fp.errors.ReadableEngine, match="Loyal is an agent of your own"):
        result = example.main(horizon=600, runs=2)
    assert result.provenance["engine"] == "readable"
    assert result.frame["paid"].min() > 0
    assert result.frame["free_pulls"].max() < 3 * 600


@pytest.mark.slow
def test_an_own_formula_runs_on_the_compiled_engine() -> None:
    result = load("own_formula").main(horizon=2_000, runs=2)
    assert result.provenance["engine"] == "compiled"
    assert result.frame.height == 2


@pytest.mark.slow
def test_principals_are_compared_on_the_same_luck(tmp_path: Path) -> None:
    found = load("compare").main(runs=20, horizon=2_000, out=tmp_path / "out")
    spent = found.differences().filter(quantity="spent")
    assert spent["width"][0] < 1
    assert (tmp_path / "out" / "regret.png").stat().st_size > 10_000


@pytest.mark.slow
def test_an_agent_is_trained() -> None:
    before, after = load("train_agent").main(rounds=2, pairs=2)
    assert 200 < before < 600
    assert 200 < after < 600


@pytest.mark.slow
def test_a_best_response_is_found_and_split() -> None:
    found = load("best_response").main(horizon=1_000, runs=20)
    assert found.gain.mean == pytest.approx(found.rewards.mean + found.bonuses.mean)


def test_a_trial_by_hand_ends_with_a_certified_verdict() -> None:
    verdict = load("by_hand").main()
    assert verdict.arm == 1
    assert verdict.certified
    assert 0 < verdict.spent <= 1_500
    assert verdict.paid.sum() == verdict.spent
    assert "assumes" in str(verdict.rests_on)


@pytest.mark.slow
def test_a_trial_over_http_goes_from_the_plan_to_a_certified_verdict_and_can_be_looked_at_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    example = load("service")
    example.LIKED[1] = 0.95  # so that few people are enough
    told = ""

    def look() -> None:
        nonlocal told
        told = capsys.readouterr().out
        address, token = re.findall(r"watch at (\S+) with the token (\S+)", told)[0]
        found = httpx.get(f"{address}/v1/campaigns/upgrade", headers={"authorization": f"Bearer {token}"})
        assert found.json()["decided"]

    monkeypatch.setattr(example, "until_ctrl_c", look)
    plan, verdict = example.main(people=40, rest=0.0, runs=64, admin=True, stay=True)
    assert plan.forecast is not None
    assert verdict.arm == "lower price"
    assert verdict.certified
    assert "pause and stop with the token fp_" in told
    assert told.index("Expect to pay") < told.index("watch at http://127.0.0.1:") < told.index("step 0")


@pytest.mark.slow
def test_a_plan_is_written_down_before_the_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, trial = load("plan").main(runs=40, out=tmp_path / "out")
    assert "EUR" in capsys.readouterr().out
    assert plan.forecast is not None
    assert plan.forecast.runs == 40
    assert 0 <= trial.frame["paid"][0] <= plan.forecast.paid.max()
    assert trial.frame["correct"][0]
    assert (tmp_path / "out" / "plan.html").stat().st_size > 50_000


@pytest.mark.slow
def test_the_campaign_is_opened_again_decides_and_has_a_right_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/trial.db"
    with load("campaign").main(url) as campaign:
        verdict, status, ledger = campaign.verdict(), campaign.status(), campaign.ledger()
    assert "opened again after 300 pulls" in capsys.readouterr().out
    assert (verdict.arm, verdict.certified) == ("friendly", True)
    assert sum(entry.amount.minor for entry in ledger) == status.spent.minor == 20 * status.paid > 0
    assert verify(url, "greetings").observations == status.observations


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Service]:
    with Service(f"sqlite:///{tmp_path}/trial.db") as running:
        yield running


def paying(service: Service) -> str:
    return service.create(name="slots", agents=["user-17", "user-18"], arms=["morning", "evening"])


@pytest.mark.slow
def test_a_backend_shows_offers_tells_visits_and_hears_of_payments(tmp_path: Path) -> None:
    with receiving(tmp_path) as (receiver, target), Service(f"sqlite:///{tmp_path}/trial.db", [target]) as service:
        paying(service)
        app = load("backend").backend(service.at, service.gateway, "slots", [SECRET.encode()])
        with TestClient(app) as shop:
            shown = shop.get("/users/user-17/slots").json()["bonus"]
            assert re.fullmatch("0.50 EUR for (morning|evening)", shown)
            visit = {"slot": shown.split()[-1], "stars": 4, "visit": "v1"}
            for _ in range(2):
                assert shop.post("/users/user-17/visits", json=visit).json() == {"paid": "0.50 EUR"}
            receiver.wait(lambda: "paid" in receiver.kinds())
            body = json.dumps(receiver.requests[-1]).encode()
            for _ in range(2):  # as the service would send it, twice
                header = sign([b"another one, too", SECRET.encode()], int(time.time()), body)
                assert shop.post("/hooks/freepull", content=body, headers={SIGNATURE: header}).status_code == 200
            late = sign([SECRET.encode()], int(time.time()) - 1000, body)
            for header in ("", "t=x,v1=", late):
                assert shop.post("/hooks/freepull", content=body, headers={SIGNATURE: header}).status_code == 401
            assert shop.get("/owed").json() == {"user-17": 50}


@pytest.mark.slow
def test_every_night_what_is_owed_is_handed_to_accounting_once(
    serving: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = paying(serving)
    for user in ("user-17", "user-18"):
        arm = serving.send("POST", f"{path}/agents/{user}/offer").json()["offer"]["arm"]
        serving.send("POST", f"{path}/agents/{user}/observations", {"arm": arm, "reward": 1.0})
    monkeypatch.setenv("FREEPULL_TOKEN", serving.send("POST", "/tokens", {"scope": "payer"}).json()["token"])
    (tmp_path / "payouts").mkdir()
    nightly = load("nightly_payout").main
    for _ in range(2):
        assert nightly(serving.at, "slots", tmp_path / "payouts").paid == {"sent": 2}
    assert len(list((tmp_path / "payouts").glob("payout-*.csv"))) == 1
    (tmp_path / "payouts" / "done.csv").write_text("entry,state,note\n1,settled,transfer 9\n2,failed,no account\n")
    assert nightly(serving.at, "slots", tmp_path / "payouts").left == {"failed before": 1}
    assert [it["settlement"] for it in serving.send("GET", f"{path}/ledger").json()] == ["settled", "failed"]
    assert "2 sent and not known yet" in capsys.readouterr().out


@pytest.mark.slow
def test_curl_alone_is_enough(serving: Service) -> None:
    environment = os.environ | {"URL": serving.at, "ADMIN": serving.admin}
    command = ["sh", str(FOLDER / "curl.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first, rows = done.stdout.split("\n", 1)
    assert re.fullmatch("user-17 is offered a bonus for [AB]", first)
    assert [(it["agent"], it["amount"]["minor"], it["settlement"]) for it in json.loads(rows)] == [
        ("user-17", 50, "open")
    ]


def blocks(page: str, language: str) -> list[str]:
    text = (FOLDER.parent / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_example_of_the_service_s_page_does_what_it_says(serving: Service, tmp_path: Path) -> None:
    at = {"url": serving.at, "fp": fp, "admin_token": serving.admin, "gateway_token": serving.gateway}
    gateway, sdk_, receiver = sorted(blocks("service.md", "python"), key=lambda it: ("hmac" in it, "create" in it))
    exec(sdk_.replace("http://127.0.0.1:8000", serving.at), at | {"try_it": lambda arm: 0.5})
    serving.create(name="slots", agents=["user-17"])
    exec(gateway, at)
    names: dict[str, Any] = {}
    exec(receiver, names)
    body, secrets = b'{"events": []}', [b"the old one, still good", b"the new one, good already"]
    for known in (secrets, secrets[:1], secrets[1:]):
        assert names["is_genuine"](body, sign(secrets, 1_700_000_000, body), known, 1_700_000_100)
    assert not names["is_genuine"](body, sign(secrets, 1_700_000_000, body), secrets, 1_700_000_500)
    assert not names["is_genuine"](body + b" ", sign(secrets, 1_700_000_000, body), secrets, 1_700_000_000)
    assert not names["is_genuine"](body, sign([b"somebody else's"], 1_700_000_000, body), secrets, 1_700_000_000)
    (principal,) = blocks("service.md", "json")
    serving.create(name="parts", horizon=60, principal=json.loads(principal))
    (hooks,) = blocks("service.md", "toml")
    (tmp_path / "hooks.toml").write_text(hooks)
    for name in ("hook-secret", "hook-secret-2"):
        (tmp_path / name).write_text("sixteen letters or more")
    assert [it.name for it in read_targets(tmp_path / "hooks.toml")] == ["backend"]
