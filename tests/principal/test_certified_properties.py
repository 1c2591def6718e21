"""What holds for the certified rule whatever the rewards: it cannot peek, loses no capital, and ends with one arm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import freepull as fp
from freepull.principal.rules.certified.design import design
from freepull.principal.rules.certified.state import CertifiedState
from support.examples import examples

DESIGNS: list[fp.rules.Design | str] = [
    "auto",
    fp.rules.Design(2, 1, growth=0.5, stretch=1.0, held_back=0.5),
    fp.rules.Design(3, 2, growth=10.0, neyman=0.1, forecast=fp.rules.Forecast()),
    fp.rules.Design(1, 1, growth=3.0, held_back=0.0, rival_memory=0.0, gap_memory=0.0, shrink=False),
    fp.rules.Design(1, 9, growth=1.0, held_back=1.0, fitted=1.0, forecast=fp.rules.Forecast(3.0, 0.0, 100.0)),
]
Designs = st.sampled_from(DESIGNS)
Deltas = st.sampled_from([0.05, 0.5, 1 - 1e-9, 1e-100])
Weights = st.sampled_from([[1.0, 1.0], [5.0, 1.0], [0.0, 1.0], [1.0, 1e-12]])
LAWS: list[Any] = ["coins", "zeros", "ones", "halves", "flips", "near"]
Laws = st.sampled_from(LAWS)
Seeds = st.integers(0, 2**32)
M = 2


def start(design: Any, delta: float, weights: list[float], K: int) -> fp.Trial:
    principal = fp.Principal(fp.rules.Certified(delta, design=design), observe=fp.observe.Steps(40))
    return principal.start(arms=K, agents=M, horizon=200, weights=weights)


def state_of(trial: fp.Trial) -> CertifiedState:
    assert isinstance(trial.rule, CertifiedState)
    return trial.rule


def reward(law: str, arm: int, n: int, rng: np.random.Generator) -> float:
    """The n-th reward of an arm: arm 0 is the best but under constants, and where it flips."""
    if law == "coins":
        return float(rng.random() < 0.8 - 0.3 * arm)
    if law == "near":
        return 0.5 + (0.001 if arm == 0 else 0.0) * float(rng.random())
    if law == "flips":
        return 0.5 if n < 6 else float((arm == 0) == (n // 200 % 2 == 0))
    return {"zeros": 0.0, "ones": 1.0, "halves": 0.5}[law]


class Feeder:
    """Gives a trial the rest of its round, and sometimes more, from stacks that are a function of the seed."""

    def __init__(self, trial: fp.Trial, law: str, seed: int) -> None:
        self.trial, self.law, self.seed = trial, law, seed
        self.chance = np.random.default_rng(seed + 1)

    def tell(self, m: int, k: int, salt: int = 0) -> None:
        n = int(self.trial.record.pulls[m, k])
        self.trial.tell(m, k, reward(self.law, k, n, np.random.default_rng((self.seed, m, k, n, salt))))

    def owed(self, most: int = 200) -> list[tuple[int, int]]:
        state = state_of(self.trial)
        K = self.trial.setting.arms
        pulls = [(m, k) for m in range(M) for k in range(K) for _ in range(min(state.owed(m, k), most))]
        return [pulls[at] for at in self.chance.permutation(len(pulls))]

    def round(self) -> None:
        for m, k in self.owed():
            self.tell(m, k)
        self.trial.end_step()


def books(state: CertifiedState) -> tuple[Any, ...]:
    """The coming round, to the bit."""
    return tuple(part.tobytes() for part in (state.coming.blocks, state.coming.worth, state.coming.capital))


@examples(40)
@given(Designs, Weights, st.integers(2, 4), st.integers(0, 5), Seeds)
def test_a_round_depends_on_used_samples_alone(
    design: Any, weights: list[float], K: int, rounds: int, seed: int
) -> None:
    one, two = start(design, 0.05, weights, K), start(design, 0.05, weights, K)
    first, second = Feeder(one, "coins", seed), Feeder(two, "coins", seed)
    for _ in range(rounds):
        first.round()
    used = state_of(one).used.pulls
    prefix = [(m, k) for m in range(M) for k in range(K) for _ in range(int(used[k, m]))]
    for at in second.chance.permutation(len(prefix)):  # the same samples in another order, with other ends of steps
        second.tell(*prefix[at])
        if second.chance.random() < 0.1:
            two.end_step()
    two.end_step()
    assert books(state_of(one)) == books(state_of(two))
    if one.decided_at is not None:
        return
    streams = [(m, k) for m in range(M) for k in range(K) if state_of(one).owed(m, k)]
    kept = streams[int(second.chance.integers(len(streams)))]  # this one does not give what it owes
    extra = [s for s in [(m, k) for m in range(M) for k in range(K)] for _ in range(int(second.chance.integers(9)))]
    before = books(state_of(one))
    for at in second.chance.permutation(len(extra)):
        m, k = extra[at]
        if (m, k) != kept:
            second.tell(m, k, salt=1)  # other rewards than the first trial will see
            assert books(state_of(two)) == before, "fixed before its first sample"
    two.end_step()
    assert books(state_of(two)) == before
    assert state_of(two).evidence() == state_of(one).evidence()
    assert two.active == one.active


@examples(40)
@given(Designs, Deltas, Weights, Laws, st.integers(2, 4), Seeds)
def test_accounts_and_arms(design_: Any, delta: float, weights: list[float], law: str, K: int, seed: int) -> None:
    trial = start(design_, delta, weights, K)
    feeder, state = Feeder(trial, law, seed), state_of(trial)
    gone: dict[int, float] = {}
    for _ in range(7):
        held = state.evidence(), trial.active, state.worse_by()
        for m, k in feeder.owed():
            feeder.tell(m, k)
        assert (state.evidence(), trial.active, state.worse_by()) == held, "nothing changes but at the end of a step"
        trial.end_step()
        evidence = state.evidence()
        assert not np.isnan(state.coming.capital).any()
        assert (state.coming.capital >= 0).all()
        assert trial.active
        assert set(trial.active) <= set(held[1])
        for k in range(K):
            if k in gone:
                assert evidence[k] == gone[k]
            elif k not in trial.active:
                assert evidence[k] >= 1 / delta
                gone[k] = evidence[k]
            else:
                assert evidence[k] < 1 / delta or trial.decided_at is not None
            assert state.worse_by()[k] >= held[2][k]
        if law in ("zeros", "ones", "halves"):
            assert len(trial.active) == K
            assert max(evidence) <= 1 + 1e-12
        if trial.decided_at is None:
            assert_rebalancing_keeps_the_total(state)


def assert_rebalancing_keeps_the_total(state: CertifiedState) -> None:
    coming = state.coming._replace(capital=state.coming.capital.copy(), blocks=state.coming.blocks.copy())
    before = coming.capital.sum((2, 3))
    if state.used.course[1] == 0:
        np.testing.assert_allclose(before, 1.0, rtol=1e-12)
        return
    design(state.used, coming, state.constants)
    np.testing.assert_allclose(coming.capital.sum((2, 3)), before, rtol=1e-12)
    np.testing.assert_allclose(state.coming.capital.sum((2, 3))[0], state.evidence(), rtol=1e-12)
    for k in range(len(state.active)):
        if state.active[k]:
            out = [j for j in range(len(state.active)) if j == k or not state.active[j]]
            assert (coming.capital[:, k, out] == 0).all(), "nothing on eliminated rivals, and no cash"


def test_a_factor_that_overflows_makes_evidence_infinite_and_not_nan() -> None:
    layout = fp.rules.Design(300, 600, growth=10.0, held_back=0.0, gap_memory=0.0)
    rule = fp.rules.Certified(1e-100, design=layout)
    trial = fp.Principal(rule, observe=fp.observe.Steps(0)).start(arms=2, agents=1, horizon=200)
    for rewards, n in ((0.8, 0.5), 300), ((1.0, 0.0), 6000):
        for arm, x in enumerate(rewards):
            for _ in range(n):
                trial.tell(0, arm, x)
        trial.end_step()
        assert not np.isnan(state_of(trial).coming.capital).any()
    assert state_of(trial).evidence()[1] == math.inf  # e^1300: beyond the largest number
    assert (trial.active, state_of(trial).worse_by()) == ([0], [0.0, 0.4])
