"""A budget is money: where a campaign is made, where it is changed, and where it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import freepull as fp
from freepull import errors
from support.staging import EACH, Clock, create, reopen


def test_a_campaign_is_made_with_a_budget_in_money(url: str, clock: Clock) -> None:
    campaign = create(url, clock, budget="0.75 EUR")
    assert str(campaign.status().budget) == "0.75 EUR"
    assert campaign.ask("ann") is not None
    assert campaign.ask("bob") is None  # a second bonus of 0.50 EUR would be too much
    campaign = reopen(campaign, url, clock)
    assert str(campaign.status().budget) == "0.75 EUR"
    assert campaign.audit()[0].detail["budget"] == "0.75 EUR"


def test_it_is_given_once_in_the_currency_of_the_price(sqlite: str, clock: Clock) -> None:
    for budget, words in (("5 USD", "in EUR, as the price is"), ("five", "budget must be an amount"), (5, "an amount")):
        with pytest.raises(errors.InvalidInput, match=words):
            create(sqlite, clock, budget=budget)
    principal = fp.Principal(EACH.rule, observe=EACH.observe, offers="each", budget=10)
    with pytest.raises(errors.InvalidInput, match="must be given once"):
        create(sqlite, clock, budget="5 EUR", principal=principal)


def test_a_shell_keeps_every_cent_of_it(tmp_path: Path) -> None:
    from freepull.cli.campaign_data import app

    url = f"sqlite:///{tmp_path}/trial.db"
    new = ["new", url, "x", "--arms", "A,B", "--agents", "2", "--price", "0.50 EUR", "--budget", "30.25 EUR"]
    made = CliRunner().invoke(app, new, env={"COLUMNS": "300"})
    assert made.exit_code == 0, made.output
    assert "it may spend 30.25 EUR" in made.output
