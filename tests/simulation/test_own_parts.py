"""Parts of one's own never reach the compiled engine, and what they return stays within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull import charts
from freepull.simulation.results import wilson

TOY = fp.instances.toy()


@dataclass(frozen=True)
class Fixed(fp.observe.Schedule):
    at: int

    def kappa(self, setting: Any, rule: Any) -> int:
        return self.at


class Patient(fp.observe.Adaptive):
    pass


class OwnCoin(fp.rewards.Bernoulli):
    pass


def simulate(**more: Any) -> fp.Result:
    settings: dict[str, Any] = {"principal": fp.Principal(fp.rules.Paper(0.1)), "horizon": 100, "runs": 2}
    return fp.simulate(**({"game": TOY} | settings | more))


@pytest.mark.parametrize(("kappa", "paid"), [(10**6, 0), (150, 0), (-3, 100), (40, 60)])
def test_kappa_stays_within_the_horizon(kappa: int, paid: int) -> None:
    result = simulate(principal=fp.Principal(fp.rules.Paper(0.1), observe=Fixed(kappa)), engine="readable")
    assert result.frame["paid"].to_list() == [paid, paid]
    assert (result.frame["free_pulls"] == 200 - paid).all()


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"principal": fp.Principal(fp.rules.Paper(0.1), observe=Fixed(3))}, "Fixed"),
        ({"principal": fp.Principal(fp.rules.Paper(0.1), observe=Patient())}, "Patient"),
        ({"game": fp.Game(TOY.means, rewards=OwnCoin())}, "OwnCoin"),
    ],
)
def test_a_part_of_ones_own_runs_on_the_readable_engine(more: dict[str, Any], name: str) -> None:
    with pytest.warns(fp.errors.ReadableEngine, match=f"{name} is a .* of your own"):
        assert simulate(**more).provenance["engine"] == "readable"
    with pytest.raises(fp.errors.InvalidInput, match=f"because {name} is"):
        simulate(**more, engine="compiled")


def test_many_different_agents_give_the_same_path_without_tables() -> None:
    game = fp.Game(np.random.default_rng(1).random((12, 3)))
    agents = [fp.agents.AlphaUCB(0.5 + 0.1 * m) for m in range(12)]
    frames = [
        simulate(game=game, agents=agents, engine=engine, horizon=300).frame for engine in ("compiled", "readable")
    ]
    assert frames[0].equals(frames[1])


@pytest.mark.parametrize("runs", [1, 10, 300, 1999])
def test_an_interval_holds_its_own_rate(runs: int) -> None:
    assert wilson(0, runs)[:2] == (0.0, 0.0)
    assert wilson(runs, runs)[0] == wilson(runs, runs)[2] == 1.0
    for successes in range(0, runs + 1, max(1, runs // 7)):
        rate, low, high = wilson(successes, runs)
        assert 0 <= low <= rate <= high <= 1


def test_charts_can_be_drawn_for_any_number_of_runs() -> None:
    for runs in (3, 10, 13):
        charts.accuracy({"a": simulate(runs=runs), "b": simulate(runs=runs, seed=5)})


def test_saving_leaves_other_files_alone(tmp_path: Path) -> None:
    simulate().save(tmp_path / "y.agents.parquet")
    simulate().save(tmp_path / "y.parquet")
    assert (tmp_path / "y.agents.parquet").exists()


def test_acting_twice_in_one_step_is_not_certified() -> None:
    def decided(tells: int) -> fp.Verdict:
        principal = fp.Principal(fp.rules.Paper(0.5, "finite_time"), observe=fp.observe.Steps(0))
        trial = principal.start(arms=2, agents=1, horizon=1000)
        while trial.decided_at is None:
            for _ in range(tells):
                arm = int(trial.record.pulls[0].argmin())
                trial.tell(0, arm, 1.0 - arm)
            trial.end_step()
        return trial.verdict()

    assert decided(1).certified
    assert decided(2).decided
    assert not decided(2).certified
    assert "did not act once in each step" in decided(2).why


def test_an_open_offer_can_be_withdrawn() -> None:
    trial = fp.Principal(fp.rules.Paper(0.5), observe=fp.observe.Steps(0)).start(arms=2, agents=2, horizon=50)
    offer = trial.ask(0)
    assert offer is not None
    assert trial.cancel(0) == offer
    assert trial.cancel(0) is None
    assert trial.tell(0, 1 - offer.arm, 0.5) is None
    trial.end_step()
    assert (trial.refused, trial.banned, trial.spent) == (0, 0, 0.0)
