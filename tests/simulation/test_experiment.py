"""Bad input to a simulation is refused before anything runs, in one sentence that names the parameter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull import registry
from freepull.errors import InvalidInput, UnknownName
from support.drive import assert_sentence, experiment, paper

TOY = fp.instances.toy()
PASSIVE = fp.Principal(fp.rules.Passive())


def simulate(game: Any = TOY, **more: Any) -> fp.Result:
    told: dict[str, Any] = {"principal": PASSIVE, "horizon": 10, "runs": 1, "engine": "readable"} | more
    return fp.simulate(game, **told)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"horizon": 2}, "horizon must be "),
        ({"horizon": 10.5}, "horizon must be a whole number"),
        ({"horizon": None}, "horizon must be a whole number"),
        ({"horizon": 2**32}, "horizon must be "),
        ({"runs": 0}, "runs must be a whole number of at least 1, got 0."),
        ({"runs": []}, "runs must be a number of runs"),
        ({"runs": [1, 1]}, "runs must be a number of runs"),
        ({"runs": [-1]}, "runs must be a whole number"),
        ({"runs": "3"}, "runs must be a whole number"),
        ({"runs": [2**63]}, "runs must be a whole number from 0 to 4611686018427387903, got 9223372036854775808."),
        ({"seed": -1}, "seed must be a whole number from 0 to"),
        ({"seed": 2**64}, "seed must be a whole number from 0 to"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"workers": 0}, "workers must be a whole number of at least 1, got 0."),
        ({"trace": 0}, "trace must be a whole number from 1 to 10"),
        ({"trace": [5, 11]}, "trace must be a whole number from 1 to 10"),
        ({"principal": fp.Principal}, "principal must be a freepull.Principal(...), got the class Principal."),
        ({"principal": None}, "principal must be a freepull.Principal(...), got None."),
    ],
)
def test_bad_parameters_are_refused_with_a_sentence(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        simulate(**more)
    assert assert_sentence(problem).startswith(said)


@pytest.mark.parametrize(
    ("name", "written", "meant"),
    [
        ("engine", "readble", "readable"),
        ("until", "decide", "decided"),
        ("keep", "agent", "agents"),
        ("until", "horizons", "horizon"),
    ],
)
def test_misspelt_names_are_guessed(name: str, written: str, meant: str) -> None:
    with pytest.raises(UnknownName) as problem:
        simulate(**{name: written})
    message = assert_sentence(problem)
    assert message.startswith(f"{name} must be one of ")
    assert message.endswith(f"got {written!r}; did you mean {meant!r}?")


@pytest.mark.parametrize("game", [None, "toy", [[0.1, 0.2]], np.array([[0.1, 0.2], [0.3, 0.4]])])
def test_what_is_no_game_is_refused_with_a_sentence(game: Any) -> None:
    with pytest.raises(InvalidInput) as problem:
        simulate(game)
    assert assert_sentence(problem).startswith("game must be a freepull.Game, or a function")


def test_a_function_must_return_games() -> None:
    with pytest.raises(InvalidInput) as problem:
        simulate(lambda rng: rng.random((2, 2)).tolist())
    assert assert_sentence(problem).startswith("game must return a freepull.Game, got [[")


def test_a_function_must_return_games_of_one_size() -> None:
    def growing(rng: np.random.Generator) -> fp.Game:
        return fp.Game(rng.random((2, int(rng.integers(2, 6)))))

    with pytest.raises(InvalidInput) as problem:
        simulate(growing, runs=20)
    assert assert_sentence(problem).startswith("game must return games of one size, got 2 × ")


def test_a_function_is_called_afresh_for_every_run_with_its_own_generator() -> None:
    def drawn(rng: np.random.Generator) -> fp.Game:
        return fp.Game(rng.random((2, 3)))

    checked = experiment(drawn, PASSIVE, 10, runs=3, seed=5)
    games = [checked.game_of(run).means for run in range(3)]
    assert (games[0] != games[1]).any()
    assert (games[1] == experiment(drawn, PASSIVE, 99, runs=[1], seed=5).game_of(1).means).all()
    assert (games[1] != experiment(drawn, PASSIVE, 10, runs=[1], seed=6).game_of(1).means).any()


def test_weights_are_refused_by_the_papers_rule_before_anything_runs() -> None:
    game = fp.Game(TOY.means, weights=[1, 2])
    with pytest.raises(InvalidInput) as problem:
        simulate(game, principal=fp.Principal(paper(arms=3)))
    assert assert_sentence(problem).startswith("weights must be equal with rules.Paper")
    assert simulate(game).frame.height == 1


def test_numbers_may_come_from_numpy() -> None:
    plain = simulate(horizon=12, seed=3, runs=[1, 2])
    fancy = simulate(horizon=np.int64(12), seed=np.uint64(3), runs=[np.int32(1), np.int64(2)])
    assert plain.frame.equals(fancy.frame)
    assert fancy.provenance["parameters"]["horizon"] == 12


def test_run_numbers_may_come_in_an_array() -> None:
    found = simulate(runs=np.arange(1, 3))
    assert found.frame.equals(simulate(runs=[1, 2]).frame)
    assert found.provenance["parameters"]["runs"] == [1, 2]
    for wrong in (np.ones((2, 2), int), np.array([0.5]), np.array([], int), np.array(["1"])):
        with pytest.raises(InvalidInput) as problem:
            simulate(runs=wrong)
        assert assert_sentence(problem).startswith("runs must be ")


@pytest.mark.parametrize(
    ("trace", "steps"),
    [(None, ()), (4, (4, 8)), (1, tuple(range(1, 11))), ([7, 3, 3], (3, 7)), (np.array([2, 10]), (2, 10))],
)
def test_checkpoints_are_every_so_many_steps_or_the_given_ones(trace: Any, steps: tuple[int, ...]) -> None:
    assert experiment(TOY, PASSIVE, 10, trace=trace).checkpoints == steps


def test_the_description_says_what_was_asked_for() -> None:
    principal = fp.Principal(fp.rules.Paper(0.01, "finite_time"), observe=fp.observe.Root())
    told = experiment(TOY, principal, 10, agents=[fp.agents.Greedy(), fp.agents.KLUCB()], runs=[4, 7]).describe()
    assert told["game"]["means"] == TOY.means.tolist()
    assert told["game"]["rewards"] == {"part": "Bernoulli"}
    assert told["agents"] == [{"part": "Greedy"}, {"part": "KLUCB", "c": 0.0}]
    assert told["answers"] == {"part": "Always"}
    assert registry.build("principal", told["principal"], "principal") == principal
    assert (told["horizon"], told["runs"], told["seed"], told["until"]) == (10, [4, 7], 0, "horizon")


class Mine:
    def pick(self, t: int) -> int:
        return 0

    def learn(self, arm: int, reward: float) -> None:
        pass


@dataclass
class Told(Mine):
    part: Any = None


class Lenient:
    def banned_until(self, t: int, refusals: int) -> int:
        return t


def drawn_game(rng: np.random.Generator, arms: int = 2) -> fp.Game:
    return fp.Game(rng.random((2, arms)))


def test_parts_of_ones_own_are_described_by_their_names_and_not_by_their_addresses() -> None:
    here, principal = __name__, fp.Principal(fp.rules.Passive(), protocol=Lenient())
    told = experiment(drawn_game, principal, 10, agents=[Mine(), Told(Mine())]).describe()
    assert told["game"] == {"drawn": f"{here}.drawn_game"}
    words = f"Told(part=<{here}.Mine object>)"
    assert told["agents"] == [{"part": f"{here}:Mine"}, {"part": f"{here}:Told", "shown": words}]
    assert told["principal"]["protocol"] == {"part": f"{here}:Lenient"}
    assert "0x" not in str(experiment(partial(drawn_game, arms=3), principal, 10).describe())
    assert experiment(TOY, PASSIVE, 10, agents=Mine()).describe()["agents"] == {"part": f"{here}:Mine"}


def test_a_law_of_many_numbers_is_named_but_not_written_out() -> None:
    for samples, told in (([[[0.5] * 9] * 2], True), ([[[0.5] * 6000] * 2], False)):
        law = fp.Game(rewards=fp.rewards.Empirical(samples)).describe()["rewards"]
        assert law["part"] == "Empirical"
        assert ("samples" in law) is told
    table = np.full((1, 2, 2), 0.5)
    law = fp.Game(rewards=fp.rewards.Categorical((0.0, 1.0), table)).describe()["rewards"]
    assert law == {"part": "Categorical", "values": [0.0, 1.0], "probabilities": table.tolist()}
