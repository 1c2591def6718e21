"""What must not change when code moves: paths, the API, what commands print, and files of released versions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import make
import pytest
import stories

import freepull as fp
from freepull.campaigns.journal.recovery import verify
from support.examples import cases
from support.program import inside
from support.tiers import some_quick

RELEASES = sorted(make.RELEASES.glob("*.tar.gz"))
LEFT = [(release, name) for release in RELEASES for name in make.stood(release)]
EXPERIMENTS = list(make.experiments())
REMAKE = "if that is meant, run tests/golden/make.py and say so in the changelog"


def kept(name: str) -> Any:
    return json.loads((make.HERE / f"{name}.json").read_text())


@pytest.mark.parametrize("number", cases(some_quick(len(EXPERIMENTS), 3), 2))
def test_a_path_is_as_it_was(number: int) -> None:
    experiment = EXPERIMENTS[number]
    was = kept("paths")[number]
    assert was["rule"] == repr(experiment["principal"].rule)
    for engine in make.ENGINES:
        assert make.path_of(experiment, engine) == was["path"], f"{was['rule']}, {engine}: {REMAKE}"


def test_the_api_is_described_as_it_was() -> None:
    was, now = kept("openapi"), json.loads(json.dumps(make.openapi()))
    was["info"].pop("version")
    now["info"].pop("version")
    assert now == was, REMAKE


def test_commands_print_what_they_printed() -> None:
    now, was = json.loads(json.dumps(make.commands(inside))), kept("commands")
    assert sorted(now) == sorted(was)
    for name in was:
        assert now[name] == was[name], f"{name}: {REMAKE}"


@pytest.fixture(params=LEFT, ids=lambda it: f"{it[0].name.removesuffix('.tar.gz')}, {it[1]}")
def story(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, Any]:
    release, name = request.param
    return make.unpacked(release, tmp_path), name, make.stood(release)[name]


def test_every_version_of_the_changelog_has_left_a_file() -> None:
    changes = (make.HERE.parents[1] / "CHANGELOG.md").read_text()
    released = re.findall(r"^## \[(\d+\.\d+)", changes, re.MULTILINE)
    left = {path.name.removesuffix(".tar.gz") for path in RELEASES}
    assert "0.1" in left
    assert [it for it in released if not any(f"{name}.".startswith(f"{it}.") for name in left)] == []


@pytest.mark.slow
def test_this_version_can_leave_a_file_that_it_reads(tmp_path: Path) -> None:
    """What the next release does, so that it works on that day: all stories, one file, and it opens as it was left."""
    target = tmp_path / "next.tar.gz"
    make.release(target)
    url, left = make.unpacked(target, tmp_path), make.stood(target)
    assert set(left) == set(stories.STORIES)
    for name, was in left.items():
        verify(url, name)
        with fp.Campaign.open(url, name, clock=stories.Clock(), snapshots=False) as campaign:
            assert make.standing(campaign)["ledger"] == was["ledger"]
    assert (tmp_path / "study" / "manifest.json").exists()
    with pytest.raises(AssertionError, match="released"):
        make.release(target)


def test_a_campaign_of_a_released_version_opens_as_it_was_left(story: tuple[str, str, Any]) -> None:
    url, name, was = story
    for snapshots in (True, False):
        with fp.Campaign.open(url, name, clock=stories.Clock(), snapshots=snapshots) as campaign:
            now = make.standing(campaign)
        assert all(row.pop("bonus") == now["status"]["price"] for row in now["offers"]), "a column that is new since"
        for row in now["ledger"]:  # what became of a payment is kept since
            since = {name: row.pop(name) for name in ("settlement", "key", "payer", "note", "moved")}
            assert since.pop("key").endswith(f"-{row['entry']}")
            assert since == {"settlement": "open", "payer": "", "note": "", "moved": None}
        for arm in now["status"]["arms"]:
            del arm["compared"]  # means in comparisons are shown since
        for table in ("ledger", "offers", "bans", "audit"):
            assert now[table] == was[table], table
        for field in set(was["status"]) & set(now["status"]) - {"awaited"}:  # silent people are named since
            assert now["status"][field] == was["status"][field], field
        for field in ("arm", "decided", "step", "spent"):
            assert now["verdict"][field] == was["verdict"][field], field


@pytest.mark.slow
def test_a_campaign_of_a_released_version_verifies_and_goes_on(story: tuple[str, str, Any]) -> None:
    url, name, was = story
    clock = stories.Clock()
    clock.pass_hours(24 * 30)
    verify(url, name)
    with fp.Campaign.open(url, name, clock=clock) as campaign:
        before = campaign.status()
        if before.status != "stopped":
            going_on(campaign, clock)
            assert (
                campaign.status().observations + campaign.status().observed_only >= was["status"]["observations"] + 30
            )
    verify(url, name)


def going_on(campaign: fp.Campaign, clock: stories.Clock) -> None:
    """Let those act who may."""
    gone = {"worst case": ["user-2"], "independent": ["user-1", "user-5"]}.get(campaign.name, [])
    if campaign.name == "rounds":
        stories.act_once_a_round(campaign, clock, 5, 99)
    else:
        stories.stay(campaign, clock, 30, 99, gone)


@pytest.mark.parametrize("release", RELEASES, ids=lambda it: it.name)
def test_a_study_of_a_released_version_is_read_and_goes_on(release: Path, tmp_path: Path) -> None:
    make.unpacked(release, tmp_path)
    before = fp.studies.frame(fp.studies.Store.open(tmp_path / "study"))
    assert before.height == 16
    study = fp.studies.read(tmp_path / "study.toml")
    report = fp.studies.run(study, tmp_path / "study", workers=1, progress=False)
    assert (report.kept, report.new) == (16, 0)
