"""What is to be simulated, checked once, before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from freepull import registry, validation
from freepull.agents import Agent, Mind
from freepull.agents.activity import Activity, EveryStep
from freepull.agents.answers import Answer
from freepull.agents.base import forget_changed
from freepull.agents.leaving import Leaving, Stays
from freepull.compiling import plainly
from freepull.disturbances import Disturbance, Drift, Reports
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.principal import Checks, Grounds, Principal, Trial
from freepull.principal.rules.base import Setting

if TYPE_CHECKING:
    from freepull.simulation.baselines import Mechanism

GameMaker = Callable[["np.random.Generator"], Game]
UNTIL = ("horizon", "decided")
AGENTS_HAVE = "with methods pick(t) and learn(arm, reward), or act(view) and learn(arm, reward, paid)"
LONGEST = 1 << 31
MOST = 10**9
LAST = (1 << 62) - 1
"""The largest number of a run."""
_GAME_STREAM = 0x67616D65
FEW_STREAMS = 1_000
"""The trial of so many is begun without machine code where only its settings are wanted."""


@dataclass(frozen=True)
class Experiment:
    """One checked set of parameters; a run is a function of it and the run's number alone."""

    game: Game | GameMaker
    agents: tuple[Agent | Mind, ...]
    answers: tuple[Answer, ...]
    principal: Principal
    horizon: int
    runs: tuple[int, ...]
    seed: int
    until: str
    checkpoints: tuple[int, ...]
    shape: tuple[int, int]
    """(M, K)."""
    law: type
    """The kind of reward law."""
    setting: Setting
    """What the principal knows before the first pull, with κ; of the first run where games are drawn."""
    grounds: Grounds
    """What a verdict rests on: the rule in words, with "proven" or "heuristic", the target, the assumptions."""
    futile: str | None
    """Why no run can be decided, if that is known beforehand."""
    activity: tuple[Activity, ...]
    leaving: tuple[Leaving, ...]
    disturbances: tuple[Disturbance, ...] = ()
    margins: bool = False
    """Whether it is kept how far every verdict survives."""
    checks: Checks | None = None
    """The checks of assumptions that run beside every trial, if they are kept."""
    baseline: Mechanism | None = None
    """The mechanism of others that is played instead of the principal's, with agents of its own kind."""

    @property
    def always_there(self) -> bool:
        """Whether everybody acts in every step, to the end."""
        return {type(it) for it in (*self.activity, *self.leaving)} == {EveryStep, Stays}

    @property
    def reports(self) -> Reports | None:
        """How reports come, where that is not always at once."""
        return next((it for it in self.disturbances if isinstance(it, Reports)), None)

    def game_of(self, run: int) -> Game:
        """Return the game of one run: the given one, or a fresh one drawn for this run."""
        if isinstance(self.game, Game):
            return self.game
        game = _drawn(self.game, self.seed, run)
        if game.means.shape != self.shape:
            raise InvalidInput(
                f"game must return games of one size, got {game.agents} × {game.arms} in run {run} "
                f"and {self.shape[0]} × {self.shape[1]} before."
            )
        if type(game.rewards) is not self.law:
            raise InvalidInput(
                f"game must return games with one reward law, got {type(game.rewards).__name__} in run {run} "
                f"and {self.law.__name__} before."
            )
        return game

    def setting_of(self, game: Game) -> Setting:
        """Return what the principal knows before the first pull of a game; weights that are drawn are checked here."""
        if isinstance(self.game, Game) or not (game.weighted or self.setting.weighted):
            return self.setting
        return start(self.principal, game, self.horizon).setting

    def describe(self) -> dict[str, Any]:
        """Return what provenance records."""
        named = self.game.describe() if isinstance(self.game, Game) else {"drawn": _named(self.game)}
        return {
            "game": named,
            **(self._played() if self.baseline is None else self.baseline.describe()),
            "horizon": self.horizon,
            "runs": ranges(self.runs),
            "seed": self.seed,
            "until": self.until,
            **({"trace": _steps(self.checkpoints, self.horizon)} if self.checkpoints else {}),
        }

    def _played(self) -> dict[str, Any]:
        """Who plays what under which principal."""
        return {
            "agents": _short(self.agents),
            "answers": _short(self.answers),
            **({} if self.always_there else {"activity": _short(self.activity), "leaving": _short(self.leaving)}),
            **({"disturbances": [registry.encode(it) for it in self.disturbances]} if self.disturbances else {}),
            "principal": registry.brief(registry.encode(self.principal)),
            "rule": self.grounds.rule,
            "target": self.grounds.target,
            "assumptions": list(self.grounds.assumptions),
        }


def check(
    game: Any,
    agents: Any,
    answers: Any,
    principal: Any,
    horizon: Any,
    runs: Any,
    seed: Any,
    until: Any,
    trace: Any,
    *,
    activity: Any = EveryStep(),  # noqa: B008
    leaving: Any = Stays(),  # noqa: B008
    disturbances: Any = (),
) -> Experiment:
    """Check every parameter and return the experiment, or raise a sentence that names the wrong one."""
    validation.instance("principal", principal, Principal, "a freepull.Principal(...)")
    seed = validation.whole("seed", seed, 0, (1 << 64) - 1)
    if _several(runs):
        numbers = tuple(validation.whole("runs", run, 0, LAST) for run in runs)
        if not numbers or len(set(numbers)) < len(numbers):
            raise InvalidInput(
                f"runs must be a number of runs, or a list of different run numbers, got {validation.shown(runs)}."
            )
    else:
        if validation.whole("runs", runs, 1) > MOST:
            raise InvalidInput(f"runs must be at most {MOST:,}, got {validation.shown(runs)}.")
        numbers = tuple(range(validation.whole("runs", runs, 1)))
    if isinstance(game, Game):
        first = game
    elif callable(game):
        _check_maker(game)
        first = _drawn(game, seed, numbers[0])
    else:
        must = "game must be a freepull.Game, or a function that takes a generator and returns one"
        raise InvalidInput(f"{must}, got {validation.shown(game)}.")
    M, K = first.means.shape
    horizon = validation.whole("horizon", horizon, 1)
    if not K <= horizon <= LONGEST:
        raise InvalidInput(f"horizon must be at least {K}, the number of arms, and at most {LONGEST:,}, got {horizon}.")
    with plainly(M * K <= FEW_STREAMS), np.errstate(all="ignore"):
        trial = start(principal, first, horizon)
    agents = _for_each("agents", agents, M, (Agent, Mind), AGENTS_HAVE)
    answers = _for_each("answers", answers, M, Answer, "with a method takes(offer)")
    _check_learn(agents)
    for made in {type(it) for it in (*agents, *answers)}:
        forget_changed(made)
    return Experiment(
        game=game,
        agents=agents,
        answers=answers,
        principal=principal,
        horizon=horizon,
        runs=numbers,
        seed=seed,
        until=validation.one_of("until", until, UNTIL),
        checkpoints=_checkpoints(trace, horizon),
        shape=(M, K),
        law=type(first.rewards),
        setting=trial.setting,
        grounds=trial.panel.grounds(),
        futile=principal.rule.futile(trial.setting),
        activity=_for_each("activity", activity, M, Activity, "with a method chance(key, t)"),
        leaving=_for_each(
            "leaving", leaving, M, Leaving, "with methods until(key, horizon) and leaves(key, acts, reward)"
        ),
        disturbances=_disturbances(disturbances, K),
    )


def _disturbances(given: Any, arms: int) -> tuple[Disturbance, ...]:
    several = isinstance(given, Sequence) and not isinstance(given, (str, bytes))
    found = tuple(given) if several else (given,)
    for it in found:
        if not isinstance(it, Disturbance):
            raise InvalidInput(
                f"disturbances must be such as freepull.disturbances.Drift(0.1), got {validation.shown(it)}."
            )
        if isinstance(it, Drift) and it.arm >= arms:
            raise InvalidInput(f"disturbances must name arms from 0 to {arms - 1}, or −1 for all, got {it}.")
    if sum(isinstance(it, Reports) for it in found) > 1:
        raise InvalidInput("disturbances must have Reports once, because a report has one fate; put them together.")
    return found


def start(principal: Principal, game: Game, horizon: int, checks: Checks | None = None, margins: bool = False) -> Trial:
    """Start the trial of a game, which does not keep what is not asked for: by how much arms that go are worse."""
    weights = game.weights if game.weighted else None
    frame = principal.frame(arms=game.arms, agents=game.agents, horizon=horizon, weights=weights)
    return Trial(principal, replace(frame, margins=margins), checks)


def _check_maker(maker: GameMaker) -> None:
    try:
        inspect.signature(maker).bind(None)
    except TypeError:
        raise InvalidInput(
            f"game must be a function that takes one generator, got {validation.shown(maker)}."
        ) from None
    except ValueError:
        pass  # some built-in functions have no signature to look at


def _drawn(maker: GameMaker, seed: int, run: int) -> Game:
    game = maker(np.random.default_rng([seed, run, _GAME_STREAM]))
    if not isinstance(game, Game):
        raise InvalidInput(f"game must return a freepull.Game, got {validation.shown(game)}.")
    return game


def _for_each(name: str, given: Any, count: int, kind: Any, contract: str) -> tuple[Any, ...]:
    """Return one object an agent: the given one for all, or the given sequence of M."""
    several = isinstance(given, Sequence) and not isinstance(given, (str, bytes))
    items = list(given) if several else [given]
    if several and len(items) != count:
        raise InvalidInput(
            f"{name} must be one object for all or a sequence of {count}, one per agent, got {len(items)}."
        )
    made = [_object(name, item) for item in items]
    for item in made:
        if not isinstance(item, kind):
            raise InvalidInput(f"{name} must be objects {contract}, got {validation.shown(item)}.")
    return tuple(made) if several else tuple(made) * count


def _check_learn(agents: Sequence[Agent | Mind]) -> None:
    """Check that agents can be told of a pull, before the first one."""
    for it in {type(it): it for it in agents}.values():
        try:
            inspect.signature(it.learn).bind(0, 0.0, **({"paid": 0.0} if registry.hears_of_bonuses(it) else {}))
        except TypeError as error:
            must = "agents must have learn(arm, reward), or learn(arm, reward, paid) to hear of bonuses"
            raise InvalidInput(f"{must}; {type(it).__name__}.learn is wrong: {error}.") from None
        except ValueError:
            pass  # some built-in functions have no signature to look at


def _object(name: str, item: Any) -> Any:
    """Return the object itself, or make one of a class that needs no arguments."""
    if not isinstance(item, type):
        return item
    try:
        inspect.signature(item).bind()
    except TypeError as error:
        raise InvalidInput(
            f"{name} must be objects, or classes without arguments, got {item.__name__}: {error}."
        ) from None
    return item()


def _several(given: Any) -> bool:
    """Say whether these are several numbers: a sequence, or an array of one dimension."""
    return not isinstance(given, (str, bytes)) and (isinstance(given, Sequence) or np.ndim(given) == 1)


def _checkpoints(trace: Any, horizon: int) -> tuple[int, ...]:
    """Return the steps to record: every n-th for a number n, or the given ones."""
    if trace is None:
        return ()
    if _several(trace):
        return tuple(sorted({validation.whole("trace", step, 1, horizon) for step in trace}))
    every = validation.whole("trace", trace, 1, horizon)
    return tuple(range(every, horizon + 1, every))


def _steps(checkpoints: tuple[int, ...], horizon: int) -> Any:
    """Return n where every n-th step is recorded, otherwise the list of steps."""
    return checkpoints[0] if checkpoints == _checkpoints(checkpoints[0], horizon) else list(checkpoints)


def _short(items: tuple[Any, ...]) -> Any:
    """Return one part as plain data where all are the same, otherwise the list of them."""
    told = {name: registry.brief(registry.encode(item)) for name, item in {id(item): item for item in items}.items()}
    found = [told[id(item)] for item in items]
    return found[0] if all(part == found[0] for part in told.values()) else found


def _named(maker: GameMaker) -> str:
    """Return a text that is the same in every process: a name where the object would print its address."""
    named: Any = maker if inspect.isroutine(maker) else type(maker)
    if named is maker or named.__repr__ is object.__repr__:
        return f"{named.__module__}.{named.__qualname__}"
    return registry.shown(maker)


def ranges(runs: tuple[int, ...]) -> Any:
    """Return the number of runs where they are 0…n−1, otherwise their list."""
    return len(runs) if runs == tuple(range(len(runs))) else list(runs)
