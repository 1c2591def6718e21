"""The game as environments for reinforcement learning: the agents' side (PettingZoo), and the principal's (Gymnasium).

Same seed, same bits: a reset with a seed begins run 0 of that seed, and every reset without one the next run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.agents import Agent, AlphaUCB, Mind
from freepull.agents.answers import Always, Answer
from freepull.compiling import jit
from freepull.errors import InvalidInput, MissingExtra
from freepull.game import Game
from freepull.numerics import mix, reward_units
from freepull.principal import Offer, Principal, rules
from freepull.principal.offers import Bans
from freepull.principal.protocols import BanProtocol, TakeOrBan
from freepull.principal.record import UNITS, finish
from freepull.randomness import ARM, REWARD, STEP, key
from freepull.simulation.experiment import Experiment, GameMaker, check, start
from freepull.simulation.readable import Seat, Standing

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise MissingExtra("environments need PettingZoo; install freepull with pip install 'freepull[envs]'.") from error

__all__ = ["AgentsEnv", "PrincipalEnv", "PrincipalVectorEnv", "parallel_env"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Seen = NDArray[np.float32]
_ARM, _STEP = np.uint64(ARM), np.uint64(STEP)


class _Luck:
    """Which seed and run an environment is at."""

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.run = seed, -1

    def turn(self, seed: int | None) -> None:
        """Begin the first run of a seed, or the next run."""
        if seed is None:
            self.run += 1
        else:
            self.seed, self.run = validation.whole("seed", seed, 0, (1 << 64) - 1), 0


def _means(pulls: NDArray[Any], sums: NDArray[Any]) -> Floats:
    """Return S/N, sums in units of 2⁻³⁰; ½ where nothing was pulled."""
    return np.where(pulls > 0, sums / UNITS / np.maximum(pulls, 1), 0.5)


@jit
def _draw(keys: Any, kind: int, parameters: Any, levels: Any, values: Any, arms: Any, pulls: Any, units: Any) -> None:
    """Take the next reward from the stack of everybody's arm, in units of 2⁻³⁰, and count the pull."""
    for m in range(arms.shape[0]):
        arm = arms[m]
        pulls[m, arm] += 1
        word = mix(keys[m] + _ARM * np.uint64(arm) + _STEP * np.uint64(pulls[m, arm]))
        units[m] = np.int64(reward_units(kind, parameters[m, arm], levels, values, word))


def parallel_env(game: Game | GameMaker, principal: Principal, horizon: int, *, offers_known: bool = True) -> AgentsEnv:
    """Return the agents' side as a PettingZoo environment: every agent is somebody else's, the principal is ours.

    Parameters
    ----------
    game
        A game, or a function that draws one for every run.
    principal
        Her settings; she makes her offers by the same rules as in `simulate`.
    horizon
        T; an episode is truncated there, and terminated before it when the principal has decided.
    offers_known
        Whether agents see the offer that is on the table; without it they are paid by surprise.
    """
    return AgentsEnv(game, principal, horizon, offers_known=offers_known)


class AgentsEnv(ParallelEnv):  # type: ignore[misc, unused-ignore]
    """Agents ``agent_0`` … who choose arms; see `parallel_env`.

    An action is an arm; pulling the arm of the offer on the table takes it. What an agent sees, 3·K + 3 numbers: its
    pulls of every arm as a share of T, its mean rewards (½ before the first), t/T, the arm on offer (one-hot, all 0
    without one), the bonus, and whether it is banned. Its reward is the arm's, and the bonus; the arm's alone stands in
    its info, ``reward``.
    """

    metadata = {"name": "freepull_v0", "render_modes": [], "is_parallelizable": True}  # noqa: RUF012

    def __init__(
        self, game: Game | GameMaker, principal: Principal, horizon: int, *, offers_known: bool = True
    ) -> None:
        self.experiment = _experiment(game, AlphaUCB(), Always(), principal, horizon)
        self.offers_known = offers_known
        M, K = self.experiment.shape
        self.possible_agents = [f"agent_{m}" for m in range(M)]
        self.agents: list[str] = []
        self.render_mode = None
        self._everybody = np.arange(M)
        high = np.ones(3 * K + 3, np.float32)
        high[3 * K + 1] = np.inf
        self.observation_spaces = {name: spaces.Box(np.zeros_like(high), high) for name in self.possible_agents}
        self.action_spaces = {name: spaces.Discrete(K) for name in self.possible_agents}
        self._luck = _Luck()

    def observation_space(self, agent: str) -> Any:
        """Return what an agent may see."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """Return what an agent may do."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Seen], dict[str, Any]]:
        """Begin a run."""
        self._luck.turn(seed)
        own = replace(self.experiment, seed=self._luck.seed)
        self.game = own.game_of(self._luck.run)
        self.trial = start(own.principal, self.game, own.horizon)
        M, K = own.shape
        keys = [key(self._luck.seed, self._luck.run, m, REWARD) for m in range(M)]
        self._keys = np.array(keys, np.uint64)
        self._pulls, self._sums = np.zeros((2, M, K), np.int64)
        self._units: Ints = np.zeros(M, np.int64)
        self._seen = np.zeros((M, 3 * K + 3), np.float32)
        self._seen[:, K : 2 * K] = 0.5
        self.agents = list(self.possible_agents)
        self._ask()
        return self._told(), {name: {} for name in self.agents}

    def _ask(self) -> None:
        """Let everybody ask, and write what is on the table."""
        M, K = self.experiment.shape
        self._offers = [self.trial.ask(m) for m in range(M)]
        seen = self._seen
        seen[:, 2 * K] = self.trial.steps / self.experiment.horizon
        seen[:, 2 * K + 1 : 3 * K + 2] = 0.0
        seen[:, 3 * K + 2] = self.trial.bans.until > self.trial.steps
        if self.offers_known:
            for m, offer in enumerate(self._offers):
                if offer is not None:
                    seen[m, 2 * K + 1 + offer.arm], seen[m, 3 * K + 1] = 1.0, offer.bonus

    def _told(self) -> dict[str, Seen]:
        seen = self._seen.copy()
        return dict(zip(self.agents, seen, strict=True))

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Let everybody pull an arm."""
        if not self.agents:
            return {}, {}, {}, {}, {}
        (_, K), streams, agents = self.experiment.shape, self.game.streams, self.agents
        if set(actions) != set(agents):
            raise InvalidInput(
                f"actions must have an arm for each of {len(agents)} agents, got {len(actions)} of them."
            )
        arms = np.array([actions[name] for name in agents], np.int64)
        if arms.min() < 0 or arms.max() >= K:
            raise InvalidInput(f"actions must be arms from 0 to {K - 1}, got {validation.shown(actions)}.")
        who, units = self._everybody, self._units
        _draw(self._keys, streams.kind, streams.parameters, streams.levels, streams.values, arms, self._pulls, units)
        self._sums[who, arms] += units
        rewards = units / UNITS
        settled = self.trial.tell_many(who, arms, rewards)
        gains = rewards.tolist()
        for m, end in enumerate(settled):
            offer = self._offers[m]
            if end == "paid" and offer is not None:
                gains[m] += offer.bonus
        self.trial.end_step()
        self._seen[who, arms] = self._pulls[who, arms] / self.experiment.horizon
        self._seen[who, K + arms] = self._sums[who, arms] / UNITS / self._pulls[who, arms]
        over, decided = self.trial.over, self.trial.phase == "decided"
        self._ask()
        seen = self._told()
        told: tuple[dict[str, Any], ...] = (
            seen, dict(zip(agents, gains, strict=True)), dict.fromkeys(agents, decided),
            dict.fromkeys(agents, over and not decided),
            {name: {"reward": own} for name, own in zip(agents, rewards.tolist(), strict=True)},
        )  # fmt: skip
        if over or decided:
            self.agents = []
        return told

    def render(self) -> None:
        """Nothing is drawn."""

    def close(self) -> None:
        """Nothing is held."""


def _experiment(game: Any, agents: Any, answers: Any, principal: Principal, horizon: int) -> Experiment:
    return check(game, agents, answers, principal, horizon, 1, 0, "horizon", None)


class _Side:
    """What both forms of the principal's side have in common: spaces, and what is seen and earned."""

    def __init__(
        self, game: Any, horizon: int, agents: Any, answers: Any, protocol: BanProtocol, most: float, prize: float,
        compiled: bool = False,
    ) -> None:  # fmt: skip
        principal = Principal(rules.Passive(), protocol=protocol)
        self.experiment = _experiment(game, agents, answers, principal, horizon)
        if compiled:
            from freepull.simulation.compiled.coding import unsupported

            if (reason := unsupported(self.experiment)) is not None:
                raise InvalidInput(f"agents and the rest must be compiled, but {reason}; use PrincipalEnv for these.")
        self.most = validation.real("most", most, 0.0, open_low=True)
        self.prize = validation.real("prize", prize)
        M, K = self.experiment.shape
        self.action_space = spaces.Dict(
            {
                "arm": spaces.MultiDiscrete(np.full(M, K + 1)),
                "price": spaces.Box(0.0, np.float32(self.most), (M,)),
                "stop": spaces.Discrete(2),
            }
        )
        self.observation_space = spaces.Box(0.0, 1.0, (M * (2 * K + 1) + 1,))

    def seen(self, pulls: Ints, sums: Ints, banned: NDArray[np.bool_], t: Ints) -> Seen:
        """Return what she sees of several trials."""
        n = len(pulls)
        parts = [pulls.reshape(n, -1) / self.experiment.horizon, _means(pulls, sums).reshape(n, -1), banned]
        return np.concatenate([*parts, t[:, None] / self.experiment.horizon], axis=1).astype(np.float32)

    def offers(self, arms: Any, prices: Any) -> tuple[Ints, Ints]:
        """Return the arms on offer, −1 for none, and their prices in units of 2⁻³⁰, rounded up."""
        K = self.experiment.shape[1]
        wanted = np.asarray(arms, np.int64)
        if (wanted < 0).any() or (wanted > K).any():
            raise InvalidInput(f"arm must be numbers from 0 to {K}, {K} for no offer, got {validation.shown(arms)}.")
        asked = np.clip(np.asarray(prices, np.float64), 0.0, self.most)
        if np.isnan(asked).any():
            raise InvalidInput(f"price must be numbers from 0 to {self.most:g}, got NaN.")
        return np.where(wanted < K, wanted, -1), np.ceil(asked * UNITS).astype(np.int64)

    def named(self, game: Game, pulls: Ints, sums: Ints) -> int:
        """Return the arm that she names: the largest global sample mean."""
        means = np.where(pulls > 0, sums / UNITS / np.maximum(pulls, 1), 0.0)
        return int(np.argmax((game.weights[:, None] * means).sum(axis=0)))


class PrincipalEnv(gymnasium.Env):  # type: ignore[misc, type-arg, unused-ignore]
    """The principal's side of one trial, for Gymnasium.

    An action is a dictionary: ``arm``, what to offer each agent, K for nothing; ``price``, at which price; ``stop``, 1
    to name the best arm now, without another step. What she sees, M·(2·K + 1) + 1 numbers: everybody's pulls as a share
    of T and mean rewards (½ before the first), who is banned, and t/T. Her reward is minus what she pays; at the end,
    when she stops (terminated) or at the horizon (truncated), the prize is added if the arm that she names is a best
    one. She names the one with the largest global sample mean.

    Parameters
    ----------
    game
        A game, or a function that draws one for every run.
    horizon
        T.
    agents, answers, protocol
        Who plays against her, as in `simulate`, and what follows a refusal.
    most
        The largest price.
    prize
        What the right arm is worth to her.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012
    render_mode = None

    def __init__(
        self,
        game: Game | GameMaker,
        horizon: int,
        *,
        agents: Agent | Mind | Sequence[Agent | Mind] = AlphaUCB(),  # noqa: B008
        answers: Answer | Sequence[Answer] = Always(),  # noqa: B008
        protocol: BanProtocol = TakeOrBan(),  # noqa: B008
        most: float = 1.0,
        prize: float = 100.0,
    ) -> None:
        self._side = _Side(game, horizon, agents, answers, protocol, most, prize)
        self.action_space, self.observation_space = self._side.action_space, self._side.observation_space
        self._luck, self._protocol, self._over = _Luck(), protocol, True

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Seen, dict[str, Any]]:
        """Begin a run."""
        super().reset(seed=seed)
        self._luck.turn(seed)
        own = replace(self._side.experiment, seed=self._luck.seed)
        self.game, self._t = own.game_of(self._luck.run), 0
        self._seats = [Seat(own, self.game, self._luck.run, m) for m in range(self.game.agents)]
        self._bans, self._over = Bans(self._protocol, self.game.agents), False
        return self._seen(), {}

    def _record(self) -> tuple[Ints, Ints]:
        pulls = np.array([seat.pulls for seat in self._seats], np.int64)
        sums = np.array([seat.sums for seat in self._seats])
        return pulls, np.rint(sums * UNITS).astype(np.int64)

    def _seen(self) -> Seen:
        pulls, sums = self._record()
        seen = self._side.seen(pulls[None], sums[None], (self._bans.until > self._t)[None], np.array([self._t]))
        return np.asarray(seen[0])

    def step(self, action: Any) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Make offers and let everybody act, or stop."""
        if self._over:
            raise InvalidInput("step must come after reset, which begins a trial, and not after the trial's end.")
        stopped, paid = bool(action["stop"]), 0
        if not stopped:
            arms, prices = self._side.offers(action["arm"], action["price"])
            paid = self._play(arms.tolist(), prices.tolist())
        ended = not stopped and self._t >= self._side.experiment.horizon
        reward, told = -paid / UNITS, {}
        if stopped or ended:
            arm = self._side.named(self.game, *self._record())
            told = {"arm": arm, "correct": self.game.is_best(arm)}
            reward += self._side.prize * told["correct"]
            self._over = True
        return self._seen(), float(reward), stopped, ended, told

    def _play(self, arms: list[int], prices: list[int]) -> int:
        """Play a step; return what was paid."""
        self._t += 1
        paid, chosen = 0, []
        for m, seat in enumerate(self._seats):
            offer = None
            if arms[m] >= 0 and self._bans.until[m] < self._t:
                offer = Offer(m, arms[m], prices[m] / UNITS)
            arm = seat.choose(offer, Standing(self._t, None, int(self._bans.until[m])))
            chosen.append(arm)
            if offer is not None and arm == offer.arm:
                paid += prices[m]
            elif offer is not None:
                self._bans.refusing.append(m)
        for seat, arm in zip(self._seats, chosen, strict=True):
            seat.pull(arm)
        finish(self._bans.enact(self._t))
        return paid


class PrincipalVectorEnv(VectorEnv):  # type: ignore[misc, type-arg, unused-ignore]
    """Many trials of `PrincipalEnv` at once, on the compiled engine: lane i of seed s is `PrincipalEnv` of seed s + i.

    Parameters are those of `PrincipalEnv`, and ``num_envs``. Before the first seed, s is 0. A trial that has ended
    begins its next run with the next step, whose action for it is not looked at.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    render_mode = None

    def __init__(
        self,
        game: Game | GameMaker,
        horizon: int,
        num_envs: int,
        *,
        agents: Agent | Sequence[Agent] = AlphaUCB(),  # noqa: B008
        answers: Answer | Sequence[Answer] = Always(),  # noqa: B008
        protocol: BanProtocol = TakeOrBan(),  # noqa: B008
        most: float = 1.0,
        prize: float = 100.0,
    ) -> None:
        from freepull.simulation.compiled.engine import Fleet

        self._side = _Side(game, horizon, agents, answers, protocol, most, prize, compiled=True)
        self.num_envs = validation.whole("num_envs", num_envs, 1)
        self.single_action_space, self.single_observation_space = self._side.action_space, self._side.observation_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._fleet = Fleet(self._side.experiment, self.num_envs)
        self._luck = [_Luck(lane) for lane in range(self.num_envs)]
        self._ended, self._begun = np.zeros(self.num_envs, bool), False

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Seen, dict[str, Any]]:
        """Begin a run in every lane; ``seed`` is one for all, of which lane i takes seed + i, or a list of them."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        seeds = [None] * self.num_envs if seed is None else seed
        for i in range(self.num_envs):
            self._turn(i, seed + i if isinstance(seed, int) else seeds[i])
        self._begun = True
        return self._seen(), {}

    def _turn(self, lane: int, seed: int | None) -> None:
        self._luck[lane].turn(seed)
        self._fleet.begin(lane, self._luck[lane].seed, self._luck[lane].run)
        self._ended[lane] = False

    def _seen(self) -> Seen:
        return self._side.seen(*self._fleet.block.counts(), self._fleet.banned, self._fleet.clocks)

    def step(self, actions: Any) -> tuple[Seen, Floats, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Make offers in every lane and let everybody act, or stop."""
        if not self._begun:
            raise InvalidInput("step must come after reset, which begins a trial in every lane.")
        offers, begun = self._side.offers(actions["arm"], actions["price"]), self._ended.copy()
        for i in np.flatnonzero(begun).tolist():
            self._turn(i, None)
        stopped = (np.asarray(actions["stop"]) == 1) & ~begun
        playing = ~begun & ~stopped
        paid = self._fleet.step(playing, *offers)
        rewards = -paid / UNITS
        ended = playing & (self._fleet.clocks >= self._side.experiment.horizon)
        self._ended = stopped | ended
        told: dict[str, Any] = {}
        if self._ended.any():
            pulls, sums = self._fleet.block.counts()
            told = {"arm": np.full(self.num_envs, -1), "correct": np.zeros(self.num_envs, bool)}
            told |= {"_arm": self._ended, "_correct": self._ended}
            for i in np.flatnonzero(self._ended).tolist():
                game = self._fleet.games[i]
                told["arm"][i] = arm = self._side.named(game, pulls[i], sums[i])
                told["correct"][i] = game.is_best(arm)
            rewards = rewards + self._side.prize * told["correct"]
        return self._seen(), rewards, stopped, ended, told
