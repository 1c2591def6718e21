"""Campaigns under `Pairwise`, a rule that there is no longer: they open, verify, show their verdict, go on and end.

The file was written when the rule was there; beside it stands what the campaigns said of themselves then.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import freepull as fp
from freepull import errors, registry
from freepull.campaigns.journal.recovery import verify
from freepull.principal.rules.pairwise import Blocks, Pairwise
from support.drive import assert_sentence
from support.staging import Clock, create, picture
from support.tiers import mostly_slow

DATA = Path(__file__).parent / "data"
STOOD = json.loads((DATA / "pairwise.json").read_text())
INSTEAD = "take Comparisons, or Certified with an epsilon."


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A copy of the file, which opening changes."""
    (tmp_path / "old.db").write_bytes(gzip.decompress((DATA / "pairwise.db.gz").read_bytes()))
    return f"sqlite:///{tmp_path}/old.db"


def said(campaign: fp.Campaign) -> Any:
    """What a campaign says of itself, as plain data."""
    told = {name: getattr(campaign, name)() for name in ("status", "verdict", "ledger", "offers", "bans", "audit")}
    return json.loads(msgspec.json.encode(told, enc_hook=str))


def of_then(now: Any, then: Any) -> Any:
    """Leave out of what is said now what nobody said then."""
    if isinstance(then, dict):
        return {name: of_then(now[name], value) for name, value in then.items()}
    if isinstance(then, list):
        return [of_then(*pair) for pair in zip(now, then, strict=True)]
    return now


@pytest.mark.parametrize("name", mostly_slow(*(name for name, stood in STOOD.items() if stood is not None)))
def test_it_opens_from_the_log_and_from_a_snapshot_as_it_was_left(url: str, name: str) -> None:
    verify(url, name)
    for snapshots in (False, True):
        with fp.Campaign.open(url, name, clock=lambda: 0, snapshots=snapshots) as campaign:
            assert of_then(said(campaign), STOOD[name]) == STOOD[name]
            campaign.snapshot()
    verify(url, name)


def test_one_that_has_not_started_can_start(url: str) -> None:
    with fp.Campaign.open(url, "enrolling", clock=lambda: 0) as campaign:
        campaign.start()
        campaign.tell("ann", "A", 1.0)
        assert campaign.status().observations == 1
    verify(url, "enrolling")


@pytest.mark.parametrize("name", mostly_slow("worst case", "pairwise", "independent"))
def test_it_goes_on_to_its_verdict_and_ends(url: str, name: str) -> None:
    clock = Clock()
    clock.now = 2 * 10**15
    gone = {"worst case": ["user-2"], "independent": ["user-1"]}.get(name, [])
    with fp.Campaign.open(url, name, clock=clock) as campaign:
        agents = [row for m in range(6) if (row := f"user-{m}") not in gone] + ["late"] * (name == "pairwise")
        arms = [arm.name for arm in campaign.status().arms if arm.active]
        offers = {agent: offer for agent in agents if (offer := campaign.ask(agent)) is not None}
        assert offers or name == "pairwise"  # who is banned, or owes nothing, gets none
        for agent, offer in offers.items():
            assert campaign.tell(agent, offer.arm, float(offer.arm == "A")).outcome == "paid"
        for _ in range(20):
            campaign.tell_many([(agent, arm, float(arm == "A")) for agent in agents for arm in arms])
        assert campaign.verdict().arm == "A"
        campaign.stop("that is it", by="ann")
        before = picture(campaign)
    verify(url, name)
    with fp.Campaign.open(url, name, clock=clock, snapshots=False) as campaign:
        assert picture(campaign) == before
        assert campaign.status().status == "stopped"


def test_nothing_new_may_name_it(sqlite: str, clock: Clock, tmp_path: Path) -> None:
    rules = "Certified, Comparisons, Paper, Passive, Population"
    with pytest.raises(errors.InvalidInput) as problem:
        create(sqlite, clock, principal=fp.Principal(Pairwise(0.05), observe=fp.observe.Steps(0), offers="each"))
    begins = f"principal.rule must be one of {rules}, got 'Pairwise', which there is no longer; {INSTEAD}"
    assert assert_sentence(problem) == begins
    with pytest.raises(errors.InvalidInput) as problem:
        registry.build("principal", {"rule": {"part": "Pairwise", "delta": 0.1}}, "principal")
    assert assert_sentence(problem) == begins.replace("rule must", "rule.part must")
    with pytest.raises(errors.InvalidInput) as problem:
        registry.build("rule", "pairwise:0.1", "--rule", own=True)
    assert assert_sentence(problem) == (
        "--rule must be one of certified, comparisons, paper, passive, population, got 'pairwise', which there is no "
        f"longer; {INSTEAD}"
    )
    study = tmp_path / "study.toml"
    study.write_text('horizon = 30\nruns = 1\ngame = "toy"\nprincipals.p.rule = "pairwise"\n')
    with pytest.raises(errors.StudyError, match=f"got 'pairwise', which there is no longer; {INSTEAD}$"):
        fp.studies.read(study)
    for name in ("Pairwise", "Blocks"):
        with pytest.raises(AttributeError, match=INSTEAD):
            getattr(fp.rules, name)
        assert name not in fp.rules.__all__


def test_a_log_names_it_with_all_its_parts() -> None:
    principal = fp.Principal(Pairwise(0.1, 0.02, 0.3, Blocks(4, 2, 0.2, 0.1)), fp.observe.KnownGap(0.1))
    plain = registry.encode(principal, own=False)
    assert registry.build("principal", plain, "principal", logged=True) == principal
