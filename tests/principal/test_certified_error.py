"""How often the certified rule errs, by simulation: the evidence against a best arm has mean 1 or less."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from support.drive import RISK

STEPS, RUNS, CAP = [20, 60, 200, 400], 3000, 20.0
TIES = [[0.9, 0.1, 0.3], [0.1, 0.9, 0.3]]
"""Two best arms, each the favourite of one agent, who hardly pulls the other."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "agents", "rule", "observe"),
    [
        (fp.Game(TIES), fp.agents.AlphaUCB(), fp.rules.Certified(0.05), fp.observe.Share(0.5)),
        (
            fp.Game(TIES, rewards=fp.rewards.Beta(2.0)),
            fp.agents.Greedy(),
            fp.rules.Certified(0.3, design=fp.rules.Design(2, 1, growth=0.3, neyman=0.1, forecast=fp.rules.Forecast())),
            fp.observe.Steps(0),
        ),
        (fp.Game([[0.98, 0.98]]), fp.agents.AlphaUCB(0.1), fp.rules.Certified(0.1, gap=0.02), fp.observe.Adaptive()),
    ],
)
def test_the_evidence_against_a_best_arm_has_mean_1_or_less(
    game: fp.Game, agents: Any, rule: Any, observe: Any
) -> None:
    principal = fp.Principal(rule, observe=observe, offers="each", protocol=fp.protocols.NeverBan())
    result = fp.simulate(game, agents=agents, principal=principal, horizon=400, runs=RUNS, seed=9, trace=STEPS)
    assert result.trace is not None
    log = math.log(2 * len(STEPS) / RISK)  # for all steps and both arms
    for step in STEPS:
        for arm in (0, 1):
            rows = result.trace.filter((result.trace["step"] == step) & (result.trace["arm"] == arm))
            evidence = np.minimum(rows["bound"].to_numpy(), CAP)  # of mean ≤ 1, and so of variance ≤ CAP
            assert len(evidence) == RUNS
            assert step < STEPS[-1] or evidence.std() > 0.1, "there are bets"
            assert evidence.mean() <= 1 + math.sqrt(2 * CAP * log / RUNS) + CAP * log / (3 * RUNS)
            gone = 1 - float(rows["active"].mean())  # type: ignore[arg-type]
            assert gone <= rule.delta + math.sqrt(2 * rule.delta * log / RUNS) + log / (3 * RUNS)


def test_a_clear_difference_is_found_and_never_the_wrong_way_round() -> None:
    game = fp.Game([[0.9, 0.2, 0.5], [0.7, 0.6, 0.3]])  # .8, .4, .4
    principal = fp.Principal(fp.rules.Certified(1e-6), observe=fp.observe.Share(0.2))
    frame = fp.simulate(game, principal=principal, horizon=2_000, runs=100, seed=1).frame
    assert frame["certified"].all()
    assert (frame["arm"] == 0).all()
