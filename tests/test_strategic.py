"""Best responses: what is found beats honesty on new luck, its parts add up, and who is strategic may be several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import freepull as fp
from freepull.agents import Withholding
from freepull.errors import InvalidInput
from freepull.strategic import _World
from support.drive import assert_sentence

GAME = fp.Game([[0.8, 0.55, 0.1], [0.1, 0.55, 0.8]])
PRINCIPAL = fp.Principal(fp.rules.Paper(0.01, "simplified", 0.1))


@pytest.mark.slow
def test_a_strategist_gains_by_withholding_and_the_parts_add_up() -> None:
    found = fp.best_response(GAME, principal=PRINCIPAL, horizon=1_500, runs=40, workers=1)
    assert found.gain.mean > 3 * found.gain.error > 0
    assert found.bonuses.mean > 0
    assert found.gain.mean == pytest.approx(found.rewards.mean + found.bonuses.mean)
    assert found.added.mean == pytest.approx(found.gain.mean - found.alone.mean)
    assert found.tried == 6 * 10 * 6
    assert "bonuses" in found._repr_html_()
    both = fp.best_response(GAME, principal=PRINCIPAL, horizon=300, agent=[0, 1], runs=10, workers=1)
    assert both.runs == 10


def test_the_same_is_played_without_a_principal_whatever_her_settings() -> None:
    principal = fp.Principal(PRINCIPAL.rule, observe=fp.observe.KnownGap(0.2))
    world = _World(GAME, principal, 50, [0], fp.agents.AlphaUCB(), fp.answers.Always(), 0, 1)
    found = world.judged((Withholding(1, 50), fp.answers.Always()), range(2), 1)
    assert found.added.mean == pytest.approx(found.gain.mean - found.alone.mean)


def test_one_interruption_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []

    def interrupted(*args: Any, **settings: Any) -> fp.Result:
        played.append(settings)
        found = fp.simulate(*args, **settings)
        return replace(found, provenance=found.provenance | {"interrupted": True})

    monkeypatch.setattr("freepull.strategic.simulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fp.best_response(GAME, principal=PRINCIPAL, horizon=100)
    assert len(played) == 1


def test_an_agent_that_withholds_leaves_its_arm_alone() -> None:
    found = fp.simulate(
        GAME, principal=fp.Principal(fp.rules.Passive()), agents=Withholding(arm=1, until=200), horizon=300, runs=1,
        trace=[200, 300], engine="readable",
    )  # fmt: skip
    assert found.trace is not None
    assert found.trace.filter(arm=1)["pulls"].to_list()[0] == 2
    assert found.trace.filter(arm=1)["pulls"].to_list()[1] > 2


@pytest.mark.parametrize(
    ("more", "said"),
    [({"agent": 2}, "agent must be numbers from 0 to 1"), ({"agent": []}, "agent must be numbers from 0 to 1"),
     ({"agent": None}, "agent must be numbers from 0 to 1"),
     ({"game": lambda rng: GAME}, "game must be a freepull.Game")],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(more: dict[str, Any], said: str) -> None:
    told: dict[str, Any] = {"game": GAME, "principal": PRINCIPAL, "horizon": 100}
    with pytest.raises(InvalidInput) as problem:
        fp.best_response(**(told | more))
    assert assert_sentence(problem).startswith(said)
