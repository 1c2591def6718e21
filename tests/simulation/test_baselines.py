"""Mechanisms of others: both engines alike, what they pay by hand, and what their papers prove of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.errors import InvalidInput
from freepull.simulation.baselines import Compensation, Mechanism, PriceSearch

MEANS = [[0.9, 0.4, 0.1], [0.2, 0.5, 0.8], [0.3, 0.6, 0.3]]
MECHANISMS: list[Mechanism] = [
    Compensation(), Compensation(fp.agents.EpsilonGreedy(2.0)), Compensation(fp.agents.Thompson()), PriceSearch(),
    PriceSearch(known=True), PriceSearch(worth=[[0.1, 0.2, 0.9], [0.5, 0.5, 0.5], [0.7, 0.0, 0.3]]),
]  # fmt: skip


def played(game: Any, mechanism: Mechanism, horizon: int, **settings: Any) -> fp.Result:
    given: dict[str, Any] = {"runs": 3, "seed": 4, "keep": "agents", "progress": False} | settings
    return fp.simulate(game, principal=mechanism, horizon=horizon, **given)


def drawn(rng: np.random.Generator) -> fp.Game:
    return fp.Game(rng.uniform(0.3, 0.7, (3, 3)))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize(
    "game",
    [fp.Game(MEANS), drawn, fp.Game(MEANS, rewards=fp.rewards.Beta(0.4), weights=[1, 2, 3]),
     fp.Game(MEANS, rewards=fp.rewards.TruncatedNormal(0.1)), fp.Game([[0.0, 1.0, 0.5]] * 3)],
    ids=["coins", "drawn", "beta", "normal", "constant"],
)  # fmt: skip
def test_both_engines_play_the_same_to_the_bit(game: Any, mechanism: Mechanism) -> None:
    readable, compiled = (
        played(game, mechanism, 150, trace=[1, 40, 149], engine=engine) for engine in ("readable", "compiled")
    )
    for one, two in zip(*((it.frame, it.agents, it.trace) for it in (readable, compiled)), strict=True):
        assert one is not None
        assert two is not None
        assert one.equals(two)
    assert (readable.paid_sum == compiled.paid_sum).all()


def test_neither_the_number_of_workers_nor_other_runs_change_a_run() -> None:
    many = played(fp.Game(MEANS), Compensation(), 90, runs=6, workers=3, engine="compiled").frame
    alone = played(fp.Game(MEANS), Compensation(), 90, runs=[4], workers=1, engine="compiled").frame
    assert many.filter(run=4).equals(alone)


@pytest.mark.parametrize("policy", [fp.agents.AlphaUCB(), fp.agents.EpsilonGreedy(), fp.agents.Thompson()], ids=repr)
def test_compensated_players_pull_what_the_policy_would_by_itself(policy: Any) -> None:
    """Whoever is paid the gap obeys, so the pulls are those of agents of this kind on the same luck."""
    alone = fp.simulate(fp.Game(MEANS), principal=fp.Principal(fp.rules.Passive()), agents=policy, horizon=400, runs=3,
                        seed=4, keep="agents", progress=False)  # fmt: skip
    found = played(fp.Game(MEANS), Compensation(policy), 400)
    assert alone.agents is not None
    assert found.agents is not None
    assert found.agents["pulls"].to_list() == alone.agents["pulls"].to_list()
    assert found.agents["reward"].to_list() == alone.agents["reward"].to_list()


def test_a_player_is_paid_what_its_best_sample_mean_is_above_that_of_the_arm() -> None:
    """Constant rewards, arms in turn: an unpulled one counts as 0, so 0, .25 and 1, then .75, 0 and .5 a round."""
    game = fp.Game(rewards=fp.rewards.Categorical([0.25, 1.0, 0.5], [np.eye(3)]))
    for horizon, spent, paid in ((3, 1.25, 2), (4, 2.0, 3), (5, 2.0, 3), (6, 2.5, 4)):
        found = played(game, Compensation(fp.agents.RoundRobin()), horizon, runs=1, engine="readable").frame
        assert (found["spent"][0], found["paid"][0]) == (spent, paid)


def test_the_search_finds_every_price_to_one_in_the_horizon_and_pays_no_more() -> None:
    """Constant rewards: after K·⌈log₂ T⌉ steps a pull of arm k costs at most its loss, 1/T and 1/T²."""
    game = fp.Game(rewards=fp.rewards.Categorical([0.25, 1.0, 0.5], [np.eye(3)]))
    T, search = 1024, 30
    found = played(game, PriceSearch(), T, runs=1, trace=[search, T])
    known = played(game, PriceSearch(known=True), T - search, runs=1)
    assert found.agents is not None
    pulls = np.array(found.agents["pulls"][0].to_list())
    assert found.trace is not None
    before = np.array(found.trace.filter(step=search)["pulls"].to_list())
    least = float((pulls - before) @ [0.75, 0.0, 0.5])
    paid = found.frame["spent"][0]
    assert least < paid < least + (T - search) * (1 / T + 1 / T**2) + 10 * (0.75 + 0.0 + 0.5) + 3
    assert known.agents is not None
    assert known.frame["spent"][0] == pytest.approx(
        np.array(known.agents["pulls"][0].to_list()) @ [0.75, 0, 0.5], abs=1e-2
    )


def test_the_width_of_the_price_search_is_that_of_the_paper_and_narrower_for_the_average_of_many() -> None:
    """2·√(log T) for one agent with σ = 1, which is α = 4; an average of four agents is half as wide."""
    one, four = (PriceSearch(sigma=1.0).width(fp.Game([[0.5, 0.5]] * agents), 10_000) for agents in (1, 4))
    assert one == pytest.approx(2 * math.sqrt(math.log(10_000)))
    assert four == pytest.approx(one / 2)


def test_the_price_search_offers_what_is_best_for_all_with_prices() -> None:
    """Two agents who disagree: the arm in the middle is best on average, and each is paid its own loss for it."""
    game = fp.Game([[0.9, 0.6, 0.0], [0.0, 0.6, 0.9]])
    found = played(game, PriceSearch(), 6_000, runs=10)
    assert found.frame["correct"].all()
    assert found.paid.argmax(axis=1).tolist() == [1, 1]


def test_compensation_and_regret_grow_with_the_logarithm_of_the_horizon() -> None:
    """From T = 2,000 to 32,000 a logarithm grows 1.37 times, a root 4 times."""
    game = fp.Game([[0.9, 0.6, 0.3]])
    for policy, most in ((fp.agents.AlphaUCB(), 2.2), (fp.agents.Thompson(), 1.8)):
        frames = [played(game, Compensation(policy), T, runs=60, engine="compiled").frame for T in (2_000, 32_000)]
        for what in ("spent", "regret"):
            short, long = (frame[what].to_numpy() for frame in frames)
            error = long.std(ddof=1) / math.sqrt(len(long)) / short.mean()
            assert 1.0 < long.mean() / short.mean() < most + 4 * error


def test_a_mechanism_is_compared_on_the_same_luck_and_stays_apart_from_agents_of_the_principals() -> None:
    found = fp.compare(
        {"ours": fp.Principal(fp.rules.Certified(0.1)), "compensation": Compensation(), "prices": PriceSearch()},
        fp.Game([[0.9, 0.2], [0.3, 0.6]]), horizon=400, runs=3, agents=fp.agents.AlphaUCB(1.0), progress=False,
    )  # fmt: skip
    assert list(found.results) == ["ours", "compensation", "prices"]
    assert {row["principal"] for row in found.differences().iter_rows(named=True)} == {"compensation", "prices"}
    told = found.results["prices"].provenance["parameters"]
    assert told["baseline"] == {"part": "PriceSearch", "sigma": 0.5, "most": 1.0, "worth": None, "known": False}
    assert "agents" not in told


@dataclass
class Asks(fp.agents.AlphaUCB):
    """A policy that asks what was paid, as an agent may."""

    def learn(self, arm: int, reward: float, paid: float) -> None:  # type: ignore[override]
        assert paid == 0.0, "it pays itself, and is paid nothing"
        super().learn(arm, reward)


def test_a_policy_may_ask_what_it_was_paid() -> None:
    told = [
        played(fp.Game(MEANS), Compensation(it), 60, engine="readable").frame for it in (Asks(), fp.agents.AlphaUCB())
    ]
    assert told[0].equals(told[1])


class OutOfRange:
    def pick(self, t: int) -> int:
        return 7

    def learn(self, arm: int, reward: float) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("mechanism", "settings", "said"),
    [
        (Compensation(), {"agents": fp.agents.Greedy()}, "agents must be left out with Compensation"),
        (PriceSearch(), {"disturbances": fp.disturbances.Drift(0.1)}, "disturbances must be left out with PriceSearch"),
        (PriceSearch(), {"until": "decided"}, "until='decided' must be left out"),
        (PriceSearch(), {"activity": fp.activity.Rate(0.5)}, "activity and leaving must be left out"),
        (PriceSearch(most=0.5), {}, r"most must be at least 0.8, the largest loss of an agent here, got 0.5"),
        (PriceSearch(), {"horizon": 10}, "horizon must be at least 15 here"),
        (PriceSearch(worth=[[1.0, 0.0]]), {}, "worth must be a table of 3 agents × 3 arms"),
        (Compensation(fp.agents.Greedy()), {"engine": "compiled"}, "Greedy is no policy that the compiled one knows"),
        (Compensation(OutOfRange()), {"engine": "readable"}, r"policy.pick\(1\) must return an arm from 0 to 2, got 7"),
    ],
)  # fmt: skip
def test_what_has_no_place_is_refused_in_a_sentence(mechanism: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises((InvalidInput, fp.errors.AgentError), match=said):
        played(fp.Game(MEANS), mechanism, **({"horizon": 60} | settings))


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"policy must be an agent with methods pick\(t\) and learn"):
        Compensation("ucb")  # type: ignore[arg-type]
