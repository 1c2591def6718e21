"""Personalised targets: the weights of a named agent, and δ shared by all that are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.principal import personal_weights
from support.drive import assert_sentence, paper

PRINCIPAL = fp.Principal(fp.rules.Certified(0.06, gap=0.1), observe=fp.observe.Steps(7), offers="each", budget=3.0)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((4, 1, 0.6), [0.1, 0.7, 0.1, 0.1]),
        ((4, 3, 0.0), [0.25] * 4),
        ((3, 0, 1.0), [1.0, 0.0, 0.0]),
        ((1, 0, 0.3), [1.0]),
        ((2, np.int64(1), 0.5), [0.25, 0.75]),
    ],
)
def test_personal_weights(size: Any, expected: list[float]) -> None:
    assert personal_weights(*size) == pytest.approx(expected, abs=1e-15)
    assert personal_weights(*size).sum() == pytest.approx(1.0, abs=1e-15)


def test_every_named_agent_has_a_trial_at_its_share_of_delta() -> None:
    trials = fp.personalised(PRINCIPAL, [2, 0, 1], 0.5, arms=2, agents=4, horizon=50, leavers="independent")
    assert list(trials) == [2, 0, 1]
    for agent, trial in trials.items():
        assert trial.principal.rule == fp.rules.Certified(0.02, gap=0.1)
        assert (trial.principal.observe, trial.principal.offers, trial.principal.budget) == (
            fp.observe.Steps(7), "each", 3.0,
        )  # fmt: skip
        assert trial.setting.weights == pytest.approx(personal_weights(4, agent, 0.5))
        assert (trial.setting.horizon, trial.setting.leavers) == (50, "independent")
        assert trial.verdict().rests_on.target == "the panel: the weighted average over its 4 agents"
    assert fp.personalised(PRINCIPAL, (3,), 0.5, arms=2, agents=4, horizon=50)[3].principal.rule.delta == 0.06
    assert len(fp.personalised(PRINCIPAL, np.arange(4), 0.5, arms=2, agents=4, horizon=50)) == 4  # type: ignore[arg-type]


def test_different_agents_get_different_answers() -> None:
    trials = fp.personalised(fp.Principal(), [0, 1], 0.9, arms=2, agents=2, horizon=100)
    for _ in range(60):
        for trial in trials.values():
            for m in range(2):
                trial.tell(m, m, 0.9)
                trial.tell(m, 1 - m, 0.1)
    for trial in trials.values():
        trial.end_step()
    assert {agent: trial.verdict().arm for agent, trial in trials.items()} == {0: 0, 1: 1}
    assert all(trial.verdict().certified for trial in trials.values())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: personal_weights(0, 0, 0.5), "agents must be a whole number of at least 1, got 0."),
        (lambda: personal_weights(3, 3, 0.5), "agent must be a whole number from 0 to 2, got 3."),
        (lambda: personal_weights(3, -1, 0.5), "agent must"),
        (lambda: personal_weights(3, 0, 1.1), "beta must be a number in [0, 1], got 1.1."),
        (lambda: personal_weights(3, 0, -0.1), "beta must"),
        (
            lambda: fp.personalised(PRINCIPAL, [], 0.5, arms=2, agents=4),
            "named must be a list of different agents, at least one",
        ),
        (lambda: fp.personalised(PRINCIPAL, [1, 1], 0.5, arms=2, agents=4), "named must"),
        (lambda: fp.personalised(PRINCIPAL, [4], 0.5, arms=2, agents=4), "agent must be a whole number from 0 to 3"),
        (
            lambda: fp.personalised(fp.Principal(fp.rules.Passive()), [0], 0.5, arms=2, agents=4, horizon=9),
            "principal must have a rule with a delta, got Passive().",
        ),
        (
            lambda: fp.personalised(fp.Principal(paper()), [0], 0.5, arms=2, agents=4, horizon=9),
            "weights must",
        ),
    ],
)
def test_bad_input_is_refused_with_a_sentence(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        make()
    assert assert_sentence(problem).startswith(said)
