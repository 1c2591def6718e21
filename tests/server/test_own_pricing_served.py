"""A campaign with a pricing of its maker's own, made in Python, behind the service."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import freepull as fp
from freepull.money import Money
from support.running import NEW, Service

pytestmark = pytest.mark.slow
MINE = """
class Flat:
    def __init__(self, amount):
        self.amount = amount

    def price(self, quote):
        return self.amount
"""


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A store with such a campaign that has started."""
    (tmp_path / "flat_prices.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    pricing = importlib.import_module("flat_prices").Flat(0.303)
    principal = fp.Principal(fp.rules.Certified(0.05), fp.observe.Steps(0), fp.protocols.NeverBan(), "each",
                             pricing=pricing)  # fmt: skip
    found = f"sqlite:///{tmp_path}/trial.db"
    with fp.Campaign.create(found, **NEW | {"principal": principal}) as campaign:
        campaign.start()
    yield found
    sys.modules.pop("flat_prices", None)


def test_it_is_served_as_any_other(url: str) -> None:
    with Service(url) as service, fp.Client(service.at, service.admin) as client:
        campaign = client.campaign("onboarding")
        offer = campaign.ask("ann")
        assert offer is not None
        assert offer.bonus == Money(16, "EUR")
        assert campaign.tell("ann", offer.arm, 0.5).paid == Money(16, "EUR")
        status = campaign.status()
        assert (status.spent, status.pricing) == (Money(16, "EUR"), "<flat_prices.Flat object>")


def test_without_its_class_that_campaign_is_not_opened_and_the_log_says_why(url: str, tmp_path: Path) -> None:
    (tmp_path / "flat_prices.py").unlink()
    sys.modules.pop("flat_prices")
    importlib.invalidate_caches()
    service, said = Service(url), list[str]()
    service.log = lambda event, **about: said.append(f"{event}: {about.get('error', '')}")
    with service:
        answer = service.send("GET", "/campaigns/onboarding")
        told = answer.json()
        assert (answer.status_code, told["type"]) == (500, "/problems/OwnPartError")
        assert told["remedy"] == "Install or mend that part on the server."
        assert "flat_prices" not in answer.text
        assert service.create(name="another") == "/campaigns/another"
    assert any(it.startswith("broken: campaign 'onboarding' cannot be read: ") and "flat_prices" in it for it in said)


def test_a_module_that_leaves_when_it_is_imported_stops_its_campaign_and_no_service(url: str, tmp_path: Path) -> None:
    (tmp_path / "flat_prices.py").write_text("raise SystemExit(3)")
    sys.modules.pop("flat_prices")
    importlib.invalidate_caches()
    with Service(url) as service:
        assert service.send("GET", "/campaigns/onboarding").json()["type"] == "/problems/OwnPartError"
        assert service.create(name="another") == "/campaigns/another"


def test_nobody_can_make_one_over_http(url: str) -> None:
    sys.modules.pop("flat_prices")
    with Service(url.replace("trial.db", "other.db")) as service:
        principal = {"pricing": {"part": "flat_prices:Flat", "amount": 0.3}}
        made = service.send("POST", "/campaigns", NEW | {"principal": principal})
        assert made.status_code == 422
        assert "principal.pricing.part must be one of Fixed, Compensate," in made.json()["detail"]
        assert "flat_prices" not in sys.modules
