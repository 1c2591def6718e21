"""Small helpers that tests share: drive a trial by hand, watch a run, and measure how far chance may stray."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import freepull as fp
from freepull.simulation.experiment import Experiment, check
from freepull.simulation.readable import play

RISK = 1e-8
"""How often a correct program may fail one statistical check."""


class Pull(NamedTuple):
    """One line of a run, as `freepull.simulation.readable.play` reports it to its watcher."""

    t: int
    agent: int
    arm: int
    reward: float
    paid: bool


def paper(theta: float = 0.1, *, arms: int = 2, horizon: int = 100, delta: float = 0.5) -> fp.rules.Paper:
    """Return the paper's rule with a bound scaled so that θ has this value at this size."""
    return fp.rules.Paper(delta, bound="simplified", scale=theta / math.log(arms * horizon / delta))


def step(trial: fp.Trial, *pulls: tuple[int, float]) -> list[int | None]:
    """Play one step, one (arm, reward) an agent, and return the arms that were offered."""
    offers = [trial.ask(m) for m in range(len(pulls))]
    for m, (arm, reward) in enumerate(pulls):
        trial.tell(m, arm, reward)
    trial.end_step()
    return [None if offer is None else offer.arm for offer in offers]


def experiment(game: Any, principal: fp.Principal, horizon: int, **more: Any) -> Experiment:
    """Return a checked experiment, with the defaults of `freepull.simulate`."""
    settings: dict[str, Any] = {"agents": fp.agents.AlphaUCB(), "answers": fp.answers.Always(), "runs": 1, "seed": 0}
    settings |= {"until": "horizon", "trace": None} | more
    return check(game, principal=principal, horizon=horizon, **settings)


def watched(trial: Experiment, run: int = 0) -> list[Pull]:
    """Play one run and return its pulls."""
    pulls: list[Pull] = []
    play(trial, run, lambda *line: pulls.append(Pull(*line)))
    return pulls


def stacks(pulls: Sequence[Pull]) -> dict[tuple[int, int], list[float]]:
    """Return the rewards of every (agent, arm), in the order of its pulls."""
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for pull in pulls:
        found[pull.agent, pull.arm].append(pull.reward)
    return found


def assert_follows(draws: NDArray[np.float64], distribution: Callable[[Any], Any]) -> None:
    """Compare draws with a distribution function, by the Dvoretzky-Kiefer-Wolfowitz inequality."""
    n = len(draws)
    tolerance = math.sqrt(math.log(2 / RISK) / (2 * n))
    points = np.quantile(draws, np.linspace(0.01, 0.99, 99))
    below = np.searchsorted(np.sort(draws), points, side="right") / n
    assert np.abs(below - distribution(points)).max() <= tolerance


def assert_average(draws: NDArray[np.float64], mean: float, variance: float) -> None:
    """Compare the average of draws from [0, 1] with their mean, by Bernstein's inequality."""
    n, log = len(draws), math.log(2 / RISK)
    assert abs(float(draws.mean()) - mean) <= math.sqrt(2 * variance * log / n) + log / (3 * n) + 2.0**-30


def assert_mean(draws: NDArray[np.float64], mean: float, variance: float) -> None:
    """Compare the average of very many draws of any size with their mean: six standard errors, 2 in 10⁹."""
    assert abs(float(draws.mean()) - mean) <= 6 * math.sqrt(variance / len(draws))


def assert_sentence(problem: pytest.ExceptionInfo[BaseException]) -> str:
    """Check that an error's message is one line that ends like a sentence, and return it."""
    message = str(problem.value)
    assert "\n" not in message, message
    assert message[-1] in ".?", message
    return message
