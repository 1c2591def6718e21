"""Environments: the official kits pass, the same seed gives the same bits, and the two forms of one side agree."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test, parallel_seed_test

import freepull as fp
from freepull import envs
from freepull.errors import InvalidInput
from support.drive import assert_sentence

GAME = fp.Game([[0.9, 0.4, 0.1], [0.2, 0.5, 0.8], [0.3, 0.6, 0.3]])
PRINCIPAL = fp.Principal(fp.rules.Paper(0.3, "simplified", 0.05), observe=fp.observe.Steps(5), offers="each")


def parallel(horizon: int = 60) -> envs.AgentsEnv:
    return envs.parallel_env(GAME, PRINCIPAL, horizon)


def test_pettingzoos_kits_pass() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parallel_api_test(parallel(), num_cycles=200)
        parallel_seed_test(parallel, num_cycles=40)


def test_gymnasiums_kit_passes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(envs.PrincipalEnv(GAME, 40), skip_render_check=True)


@dataclass
class Replays:
    """Does what an agent did in an environment."""

    arms: tuple[int, ...] = ()

    def act(self, view: fp.agents.View) -> int:
        return self.arms[view.t - 1]

    def learn(self, arm: int, reward: float, paid: float) -> None:
        pass


def test_the_agents_side_is_a_trial_of_simulate() -> None:
    env, chance = parallel(), np.random.default_rng(3)
    env.reset(seed=5)
    chosen: list[list[int]] = [[], [], []]
    earned = np.zeros(3)
    while env.agents:
        arms = chance.integers(0, 3, 3).tolist()
        for own, arm in zip(chosen, arms, strict=True):
            own.append(arm)
        seen, rewards, ended, cut, _ = env.step(dict(zip(env.agents, arms, strict=True)))
        earned += list(rewards.values())
        assert all(env.observation_space(name).contains(it) for name, it in seen.items())
    steps = len(chosen[0])
    assert set(ended.values()) | set(cut.values()) == {True, False}
    played = fp.simulate(
        GAME, principal=PRINCIPAL, agents=[Replays((*own, *[0] * 60)) for own in chosen], horizon=60, runs=1, seed=5,
        engine="readable", until="decided", keep="agents",
    )  # fmt: skip
    assert played.agents is not None
    assert [sum(pulls) for pulls in played.agents["pulls"].to_list()] == [steps] * 3
    assert earned.tolist() == pytest.approx((played.agents["reward"] + played.agents["bonus"]).to_list())
    assert played.frame["paid"][0] > 0


def test_what_an_agent_sees_is_its_own_record_and_the_table() -> None:
    env = parallel()
    seen, _ = env.reset(seed=1)
    assert seen["agent_0"].tolist() == [0, 0, 0, 0.5, 0.5, 0.5, 0, 0, 0, 0, 0, 0]
    for _ in range(5):
        seen, _, _, _, infos = env.step({"agent_0": 1, "agent_1": 0, "agent_2": 2})
    offer = env._offers[1]
    assert offer is not None
    assert seen["agent_1"][0] == np.float32(5 / 60)
    assert seen["agent_1"][6] == np.float32(5 / 60)
    assert seen["agent_1"][7 + offer.arm] == 1.0
    assert seen["agent_1"][10] == 1.0
    assert infos["agent_0"]["reward"] in (0.0, 1.0)


def test_wrong_actions_change_nothing() -> None:
    env = parallel()
    env.reset(seed=1)
    for actions, said in (({"agent_0": 1}, "for each of 3"), (dict.fromkeys(env.agents, 3), "from 0 to 2")):
        with pytest.raises(InvalidInput) as problem:
            env.step(actions)
        assert said in assert_sentence(problem)
    assert env.trial.steps == 0


UCB, BAN, WORTH = fp.agents.AlphaUCB(), fp.protocols.BanFor(2), fp.answers.WorthAtLeast(0.0, 0.3)


def drawn(rng: np.random.Generator) -> fp.Game:
    return fp.Game(rng.random((3, 3)))


def graded(rng: np.random.Generator) -> fp.Game:
    return fp.Game(rng.uniform(0.2, 0.8, (3, 3)), rewards=fp.rewards.Beta(3.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "more"),
    [
        (GAME, {"protocol": fp.protocols.NeverBan(), "most": 0.5, "prize": 7.0}),
        (drawn, {"agents": [fp.agents.KLUCB(), fp.agents.Thompson(), UCB], "answers": fp.answers.IfWorthIt()}),
        (graded, {"agents": [fp.agents.EXP3(), UCB, fp.agents.UCBV()], "answers": WORTH, "protocol": BAN}),
    ],
)
def test_the_vector_form_equals_the_single_one_lane_by_lane(game: Any, more: dict[str, Any]) -> None:
    many = envs.PrincipalVectorEnv(game, 12, 5, **more)
    single = [envs.PrincipalEnv(game, 12, **more) for _ in range(5)]
    many.action_space.seed(4)
    seen, _ = many.reset(seed=9)
    for i, env in enumerate(single):
        assert np.array_equal(seen[i], env.reset(seed=9 + i)[0])
    ended, paid = np.zeros(5, bool), 0.0
    for step in range(40):
        actions = many.action_space.sample()
        actions["stop"] = (np.random.default_rng(step).random(5) < 0.04).astype(np.int64)
        seen, rewards, terminated, truncated, told = many.step(actions)
        for i, env in enumerate(single):
            if ended[i]:
                expected: Any = (env.reset()[0], 0.0, False, False, {})
            else:
                expected = env.step({name: values[i] for name, values in actions.items()})
            assert np.array_equal(seen[i], expected[0]), (step, i)
            assert (rewards[i], terminated[i], truncated[i]) == expected[1:4], (step, i)
            if expected[4]:
                assert (told["arm"][i], told["correct"][i]) == (expected[4]["arm"], expected[4]["correct"])
        ended = terminated | truncated
        paid += float(rewards.sum())
    assert paid != 0.0


def test_the_vector_form_says_what_it_cannot_run() -> None:
    with pytest.raises(InvalidInput) as problem:
        envs.PrincipalVectorEnv(GAME, 12, 2, agents=Replays())  # type: ignore[arg-type]
    assert "Replays is an agent of your own" in assert_sentence(problem)


def test_lanes_without_a_seed_have_luck_of_their_own() -> None:
    many = envs.PrincipalVectorEnv(GAME, 40, 3)
    many.reset()
    nothing = {"arm": np.full((3, 3), 3), "price": np.zeros((3, 3)), "stop": np.zeros(3, np.int64)}
    for _ in range(20):
        seen = many.step(nothing)[0]
    single = envs.PrincipalEnv(GAME, 40)
    for lane in range(3):
        own = single.reset(seed=lane)[0]
        for _ in range(20):
            own = single.step({name: values[lane] for name, values in nothing.items()})[0]
        assert np.array_equal(seen[lane], own)
    assert not np.array_equal(seen[0], seen[1])


def test_a_price_that_is_not_a_number_changes_nothing() -> None:
    single, many = envs.PrincipalEnv(GAME, 40), envs.PrincipalVectorEnv(GAME, 40, 1)
    before = single.reset(seed=1)[0], many.reset(seed=1)[0]
    wrong: dict[str, Any] = {"arm": np.zeros(3, np.int64), "price": np.full(3, np.nan), "stop": 0}
    for env, actions in ((single, wrong), (many, {name: np.array([value]) for name, value in wrong.items()})):
        with pytest.raises(InvalidInput) as problem:
            env.step(actions)
        assert "price" in assert_sentence(problem)
    assert np.array_equal(single._seen(), before[0])
    assert np.array_equal(many._seen(), before[1])


NOTHING: dict[str, Any] = {"arm": np.full(3, 3), "price": np.zeros(3), "stop": 0}


def test_a_trial_is_stepped_from_its_reset_to_its_end_and_has_one_prize() -> None:
    single, many = envs.PrincipalEnv(GAME, 3), envs.PrincipalVectorEnv(GAME, 3, 1)
    for env, actions in ((single, NOTHING), (many, {name: np.array([value]) for name, value in NOTHING.items()})):
        with pytest.raises(InvalidInput) as problem:
            env.step(actions)
        assert "after reset" in assert_sentence(problem)
    single.reset(seed=1)
    assert [single.step(NOTHING)[3] for _ in range(3)] == [False, False, True]
    with pytest.raises(InvalidInput) as problem:
        single.step(NOTHING)
    assert "not after the trial's end" in assert_sentence(problem)
    single.reset()
    assert single.step(NOTHING | {"stop": 1})[2]
    with pytest.raises(InvalidInput, match="not after the trial's end"):
        single.step(NOTHING)


@pytest.mark.parametrize("arm", [4, -1])
def test_an_offer_of_an_arm_that_is_not_there_changes_nothing(arm: int) -> None:
    single, many = envs.PrincipalEnv(GAME, 40), envs.PrincipalVectorEnv(GAME, 40, 1)
    before = single.reset(seed=1)[0], many.reset(seed=1)[0]
    wrong = NOTHING | {"arm": np.array([arm, 3, 3])}
    for env, actions in ((single, wrong), (many, {name: np.array([value]) for name, value in wrong.items()})):
        with pytest.raises(InvalidInput) as problem:
            env.step(actions)
        assert "arm must be numbers from 0 to 3, 3 for no offer" in assert_sentence(problem)
    assert np.array_equal(single._seen(), before[0])
    assert np.array_equal(many._seen(), before[1])


def test_an_agent_with_one_mind_sees_its_ban() -> None:
    seen = []

    class Refuses:
        def act(self, view: fp.agents.View) -> int:
            seen.append(view.banned)
            return 0

        def learn(self, arm: int, reward: float, paid: float) -> None: ...

    env = envs.PrincipalEnv(fp.Game([[0.5, 0.5]]), 9, agents=Refuses(), protocol=fp.protocols.BanFor(2))
    env.reset(seed=1)
    for _ in range(4):
        env.step({"arm": [1], "price": [0.5], "stop": 0})
    assert seen == [False, True, True, False]
