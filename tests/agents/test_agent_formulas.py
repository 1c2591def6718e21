"""Agents and answers that are formulas: each against its own numbers, and what a user may get wrong."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from scipy import stats

import freepull as fp
from freepull import studies
from freepull.agents.base import Indexed, Remembering, formula, parameters
from freepull.errors import AgentError, InvalidInput
from freepull.numerics import beta_upper
from freepull.randomness import CHOICE, key
from freepull.simulation.compiled.coding import code
from freepull.simulation.experiment import check
from freepull.testing import check_agent
from support.drive import assert_average, assert_sentence

GAME = fp.Game([[0.2, 0.8, 0.5], [0.7, 0.1, 0.5]])


def index(agent: Any, pulls: float, total: float, squares: float, t: int, arms: int = 3) -> float:
    told = float(pulls), total, squares, total / pulls, 1 / math.sqrt(pulls), 0, t, arms
    return float(formula(type(agent), "index")(*told, parameters(agent)))


def test_ucb_v_is_audiberts_bound() -> None:
    spread = 1.5 * math.log(50) / 10
    expected = 0.6 + math.sqrt(2 * (0.4 - 0.36) * spread) + 3 * 0.5 * spread
    assert index(fp.agents.UCBV(zeta=1.5, c=0.5), 10, 6.0, 4.0, 50) == pytest.approx(expected, rel=1e-13)


def test_ucb1_tuned_caps_the_variance_at_a_quarter() -> None:
    spread = math.log(50) / 10
    assert index(fp.agents.UCB1Tuned(), 10, 6.0, 4.0, 50) == pytest.approx(0.6 + math.sqrt(spread * 0.25), rel=1e-13)
    few = math.log(50) / 1e4
    expected = 0.6 + math.sqrt(few * (0.04 + math.sqrt(2 * few)))
    assert index(fp.agents.UCB1Tuned(), 1e4, 6e3, 4e3, 50) == pytest.approx(expected, rel=1e-13)


def test_moss_knows_the_horizon_or_goes_by_the_clock() -> None:
    known = 0.6 + math.sqrt(math.log(1000 / 30) / 10)
    assert index(fp.agents.MOSS(horizon=1000), 10, 6.0, 4.0, 50) == pytest.approx(known, rel=1e-13)
    unknown = 0.6 + math.sqrt(1.175 * math.log(50 / 30) / 10)
    assert index(fp.agents.MOSS(), 10, 6.0, 4.0, 50) == pytest.approx(unknown, rel=1e-13)
    assert index(fp.agents.MOSS(), 40, 24.0, 4.0, 50) == 0.6  # more than its share: no bonus


@pytest.mark.parametrize("a", [1.0, 1.5, 7.0, 300.25, 5e4])
@pytest.mark.parametrize("b", [1.0, 2.25, 40.0, 2e4])
@pytest.mark.parametrize("t", [2, 17, 1000, 10**6])
def test_the_upper_quantile_of_a_beta_variate_is_scipys(a: float, b: float, t: int) -> None:
    assert beta_upper(a, b, -math.log(t)) == pytest.approx(stats.beta.isf(1 / t, a, b), rel=1e-9)


def test_bayes_ucb_is_a_quantile_of_the_belief() -> None:
    tail = 1 / (50 * math.log(50) ** 2)
    assert index(fp.agents.BayesUCB(c=2.0), 10, 6.0, 0.0, 50) == pytest.approx(stats.beta.isf(tail, 7, 5), rel=1e-9)


def test_exp3_draws_by_exponential_weights() -> None:
    losses, rate = np.array([2.0, 0.5, 1.0]), 0.8 * math.sqrt(math.log(3) / (40 * 3))
    weights = np.exp(-rate * losses)
    picks = []
    for run in range(4_000):
        agent = fp.agents.EXP3(eta=0.8)
        agent.start(3, key(1, run, 0, CHOICE))
        agent.memory[:] = type(agent.memory)("d", losses.tolist())
        picks.append(agent.pick(40))
    for arm, chance in enumerate(weights / weights.sum()):
        assert_average(np.array([pick == arm for pick in picks], float), chance, chance * (1 - chance))


def test_exp3_learns_from_what_it_drew_and_not_from_what_it_was_paid_for() -> None:
    agent = fp.agents.EXP3()
    agent.start(2, 1)
    agent.learn(0, 0.25)
    assert agent.memory.tolist() == pytest.approx([0.75 * 2, 0.0])
    agent.learn(1, 0.0, paid=1.0)
    assert agent.memory.tolist() == pytest.approx([0.75 * 2, 0.0])
    rate = math.sqrt(math.log(2) / (3 * 2))
    agent.learn(1, 0.5)
    assert agent.memory[1] == pytest.approx(0.5 * (1 + math.exp(-1.5 * rate)))
    assert agent.pulls == [1, 2]


@dataclass
class Jitted(Indexed):
    """A user's own index, compiled by the user."""

    alpha: float = 2.0

    @staticmethod
    @numba.njit
    def index(pulls: float, total: float, t: int, params: Any) -> float:
        return total / pulls + math.sqrt(params.alpha * math.log(t)) * (1.0 / math.sqrt(pulls))


@dataclass
class Plain(Indexed):
    """The same in plain Python."""

    alpha: float = 2.0

    @staticmethod
    def index(pulls: float, total: float, t: int, params: Any) -> float:
        return total / pulls + math.sqrt(params.alpha * math.log(t)) * (1.0 / math.sqrt(pulls))


@dataclass
class NotANumber(Indexed):
    @staticmethod
    def index(pulls: float) -> float:
        return math.nan if pulls < 3.0 else 1.0


@dataclass
class Boundless(Indexed):
    """Has an infinite index after one pull."""

    @staticmethod
    def index(pulls: float, mean: float) -> float:
        return mean + 1.0 / (pulls - 1.0)


@dataclass
class Counting(Remembering):
    """Remembers two numbers: what it was paid, and how often it acted."""

    @staticmethod
    def numbers_kept(arms: int) -> int:
        return 2

    @staticmethod
    def choice(memory: Any, t: int, arms: int, coin: float) -> int:
        return int(memory[0] * 7.0 + memory[1] + t + coin * 2.0) % arms

    @staticmethod
    def note(memory: Any, paid: float, reward: float) -> None:
        memory[0] += paid
        memory[1] += 1.0 if reward > 0.5 else 2.0


@dataclass(frozen=True)
class Moody(fp.answers.Formula):
    """Asks for everything."""

    courage: float = 0.7

    @staticmethod
    def accepts(
        t: int,
        arm: int,
        bonus: float,
        nth: int,
        pulls: Any,
        sums: Any,
        coin: float,
        lot: float,
        loss: float,
        params: Any,
    ) -> bool:
        seen = (sums[arm] + 0.1 * pulls[0]) * 0.01
        return bool(coin + 0.1 * lot + seen + 0.1 * loss + 0.01 * (t % 3) < params.courage * bonus * (1.0 + 0.1 * nth))


@pytest.mark.slow
@pytest.mark.parametrize("agent", [Jitted(), Plain(1.0), NotANumber(), Counting(), fp.agents.EXP3(), fp.agents.UCBV()])
def test_a_formula_keeps_every_promise_on_both_engines(agent: Any) -> None:
    check_agent(agent, answers=Moody())


def test_a_users_index_gives_what_the_built_in_one_gives() -> None:
    settings: dict[str, Any] = {"principal": fp.Principal(), "horizon": 400, "runs": 3, "seed": 3}
    found = [fp.simulate(GAME, agents=agent, **settings) for agent in (fp.agents.AlphaUCB(), Jitted(), Plain())]
    assert {it.provenance["engine"] for it in found} == {"compiled"}
    assert found[0].frame.equals(found[1].frame)
    assert found[0].frame.equals(found[2].frame)


SIGN = 1.0


@dataclass
class Signed(Indexed):
    """Reads a number of this module."""

    @staticmethod
    def index(mean: float) -> float:
        return SIGN * mean


@pytest.mark.parametrize("engine", ["readable", "compiled"])
def test_a_number_that_has_changed_since_is_seen(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def rewarded() -> Any:
        settings: dict[str, Any] = {"principal": fp.Principal(fp.rules.Passive()), "horizon": 200, "engine": engine}
        return fp.simulate(GAME, agents=Signed(), runs=2, **settings).frame["reward"].to_numpy().mean()

    before = rewarded()
    monkeypatch.setattr(f"{__name__}.SIGN", -1.0)
    assert rewarded() < before - 50
    monkeypatch.setattr(Signed, "index", staticmethod(lambda mean: mean))
    assert rewarded() == before


@pytest.mark.parametrize("engine", ["readable", "compiled"])
def test_every_arm_is_pulled_once_before_an_infinite_index_counts(engine: str) -> None:
    settings: dict[str, Any] = {"principal": fp.Principal(fp.rules.Passive()), "runs": 1, "keep": "agents"}
    found = fp.simulate(GAME, agents=Boundless(), horizon=3, engine=engine, **settings).agents
    assert found is not None
    assert found["pulls"].to_list() == [[1, 1, 1], [1, 1, 1]]


@dataclass
class Strict(Indexed):
    """Refuses what no mean can be."""

    @staticmethod
    def index(mean: float, root: float) -> float:
        if not (0.0 <= mean <= 1.0 and 0.0 < root <= 1.0):
            raise ValueError("this is no mean")
        return mean


def test_an_index_is_asked_only_of_means_that_there_can_be() -> None:
    settings: dict[str, Any] = {"principal": fp.Principal(), "agents": Strict(), "horizon": 60, "runs": 2}
    found = [fp.simulate(GAME, engine=engine, **settings) for engine in ("readable", "compiled")]
    assert found[0].frame.equals(found[1].frame)


@dataclass
class Astray(Remembering):
    """Chooses an arm that there is not."""

    arm: float = 99
    after: int = 3

    @staticmethod
    def choice(t: int, params: Any) -> Any:
        if params.arm == 98.0:
            return math.nan if t > params.after else 0.0
        return float(params.arm) if t > params.after else 0.0

    @staticmethod
    def note(memory: Any) -> None:
        memory[0] += 1.0


@pytest.mark.parametrize("arm", [3, -1, 10**15, 98, 10.0**300])
@pytest.mark.parametrize("engine", ["readable", "compiled"])
def test_an_arm_that_there_is_not_is_refused(engine: str, arm: int) -> None:
    with pytest.raises(AgentError) as problem:
        fp.simulate(GAME, principal=fp.Principal(), agents=Astray(arm), horizon=9, runs=2, engine=engine)
    must = "Astray.pick(4) must return an arm from 0 to 2"
    assert assert_sentence(problem).startswith(must)


def test_an_arm_that_there_is_not_is_refused_in_environments() -> None:
    envs = importlib.import_module("freepull.envs")
    many = envs.PrincipalVectorEnv(GAME, 9, 2, agents=Astray())
    many.reset(seed=1)
    nothing = {"arm": np.full((2, 2), 3), "price": np.zeros((2, 2)), "stop": np.zeros(2, np.int64)}
    for _ in range(3):
        many.step(nothing)
    with pytest.raises(AgentError) as problem:
        many.step(nothing)
    assert_sentence(problem)
    many.reset(seed=1)
    many.step(nothing)


def test_a_choice_that_is_not_made_because_of_an_offer_does_not_matter() -> None:
    principal = fp.Principal(fp.rules.Certified(0.3), observe=fp.observe.Steps(3), offers="each")
    settings: dict[str, Any] = {"principal": principal, "agents": Astray(after=3), "horizon": 5, "runs": 3}
    found = [fp.simulate(GAME, engine=engine, **settings) for engine in ("readable", "compiled")]
    assert found[0].frame.equals(found[1].frame)


@dataclass
class Measuring(Remembering):
    """Goes by how long its memory is."""

    numbers: int = 1

    def numbers_kept(self, arms: int) -> int:  # type: ignore[override]
        return self.numbers

    @staticmethod
    def choice(memory: Any, t: int, arms: int) -> int:
        return (t + len(memory) + int(memory[-1])) % arms

    @staticmethod
    def note(memory: Any, arm: int) -> None:
        memory[-1] += arm


def test_a_memory_is_as_long_as_its_own_class_wants_it() -> None:
    settings: dict[str, Any] = {"principal": fp.Principal(), "agents": [Measuring(1), Measuring(5)], "runs": 2}
    found = [fp.simulate(GAME, horizon=40, engine=engine, **settings) for engine in ("readable", "compiled")]
    assert found[0].frame.equals(found[1].frame)


@dataclass
class Stubborn(fp.agents.UCBV):
    """Picks as no index does."""

    def pick(self, t: int) -> int:
        return 2


@dataclass
class Contrary(Plain):
    """Learns the opposite of what it saw."""

    def learn(self, arm: int, reward: float) -> None:
        super().learn(arm, 1.0 - reward)


@dataclass
class Minded(Plain):
    """Has one mind, beside its index."""

    def act(self, view: fp.agents.View) -> int:
        return 0


@dataclass(frozen=True)
class Sulky(Moody):
    """Takes nothing, whatever its formula says."""

    def takes(self, offer: fp.answers.Situation) -> bool:
        return False


@pytest.mark.parametrize(
    "parts", [{"agents": Stubborn()}, {"agents": Contrary()}, {"agents": Minded()}, {"answers": Sulky()}]
)
def test_a_formula_with_methods_of_its_own_runs_where_they_are_called(parts: dict[str, Any]) -> None:
    with pytest.warns(fp.errors.ReadableEngine):
        found = fp.simulate(GAME, principal=fp.Principal(), horizon=1_200, runs=1, **parts)
    assert found.provenance["engine"] == "readable"


def test_agents_with_other_parameters_are_lanes_of_other_chunks() -> None:
    agents = [Jitted(1.0), Jitted(2.0)]
    coded = code(check(GAME, agents, fp.answers.Always(), fp.Principal(), 50, 1, 0, "horizon", None))
    assert [group.tolist() for group in coded.groups] == [[0], [1]]
    assert coded.picking is not None
    assert coded.picking.numbers.tolist() == [[1.0], [2.0]]


def test_a_formula_that_asks_for_what_there_is_not_is_refused_when_it_is_written() -> None:
    with pytest.raises(InvalidInput) as problem:

        class Wrong(Indexed):
            @staticmethod
            def index(pulls: float, weather: float) -> float:
                return pulls + weather

    said = assert_sentence(problem)
    assert said.startswith(
        "Wrong.index must take arguments named among pulls, total, squares, mean, root, arm, t, arms, params"
    )


@dataclass
class Uncompilable(Indexed):
    @staticmethod
    def index(pulls: float) -> float:
        return {"a": object()}[str(pulls)]  # type: ignore[return-value]


@dataclass
class Empty(Indexed):
    pass


@dataclass
class Wordy(Plain):
    word: str = "no number"


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (Uncompilable(), "Uncompilable.index must be a function of numbers that Numba can compile"),
        (Empty(), "Empty must have a static method index"),
        (Wordy(), "word must be a finite number"),
    ],
)
@pytest.mark.parametrize("engine", ["compiled", "readable"])
def test_what_cannot_be_a_formula_is_told_in_a_sentence(agent: Any, said: str, engine: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        fp.simulate(GAME, agents=agent, principal=fp.Principal(), horizon=50, runs=1, engine=engine)
    assert str(problem.value).startswith(said)


MINE = """
import math
from dataclasses import dataclass
from freepull.agents import Indexed

@dataclass
class Bold(Indexed):
    courage: float = 1.0
    @staticmethod
    def index(pulls, total, t, params):
        return total / pulls + params.courage * math.sqrt(math.log(t) / pulls)
"""


@pytest.mark.slow
def test_a_formula_runs_compiled_in_studies_and_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bold_agents.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    told = 'runs = 2\nhorizon = 60\ngame = "toy"\nagents = "bold_agents:Bold:courage=0.5"\n'
    (tmp_path / "study.toml").write_text(told + '[principals.one]\nrule = "certified:0.1"\n')
    studies.run(studies.read(tmp_path / "study.toml"), tmp_path / "out")
    store = studies.Store.open(tmp_path / "out")
    (cell,) = store.study.cells
    found = studies.result(store, cell)
    made = importlib.import_module("bold_agents").Bold(0.5)
    alone = fp.simulate(
        fp.instances.toy(), principal=fp.Principal(fp.rules.Certified(0.1)), agents=made, horizon=60, runs=2
    )
    assert alone.provenance["engine"] == "compiled"
    assert found.frame.equals(alone.frame)
    plan = fp.plan(gap=0.2, arms=2, agents=4, horizon=100, strategy=made, runs=40, curves=False, progress=False)
    assert plan.forecast is not None
