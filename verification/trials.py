"""Plays a case many times under the certified rule, and notes the most that each account ever held."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from cases import BUILT_IN, Case
from driver import IN_ANGER, Seen, Terms, play
from picks import ALPHA_UCB, EPSILON_GREEDY, FREEZER, THOMPSON, Floats, Ints, Own, World

import freepull as fp
from freepull.numerics import fill_keys
from freepull.principal.rules.certified.books import Fill, Measure, fresh
from freepull.simulation.compiled import engine
from freepull.simulation.compiled.state import ACTIVE, PAID, Block
from freepull.simulation.experiment import check
from freepull.simulation.outcome import Checkpoint, Outcome

KINDS = {"α-UCB": ALPHA_UCB, "Thompson": THOMPSON, "ε-greedy": EPSILON_GREEDY, "freezers": FREEZER}
LEAVERS = 3
"""How many agents leave, at most."""
THREADS = os.cpu_count() or 1


@dataclass(frozen=True)
class Found:
    """What was seen of the runs of a case."""

    peaks: Floats
    """The most evidence ever held against the tested arm, by run (1 where the rule keeps none)."""
    gone: Ints
    """1 if the tested arm was eliminated."""
    rounds: float
    """Rounds closed, on average."""
    paid: float
    margins: Floats
    """The peaks of all margins and arms (runs × margins × arms), and the same at a random step, from the driver."""
    halfway: Floats


class Peeking(engine.Player):
    """The compiled engine, which lets us look into the rule's books at the end of every run."""

    def __init__(self, experiment: Any, tested: int) -> None:
        super().__init__(experiment)
        self.tested, self.lock = tested, threading.Lock()
        self.seen: list[tuple[int, float, int, float, int]] = []

    def _outcomes(self, block: Block, traces: list[list[Checkpoint]]) -> list[Outcome]:
        K = self.experiment.shape[1]
        active = block.arms[:-K, ACTIVE].reshape(-1, K)[:, self.tested]
        books = block.own
        with self.lock:
            for i, run in enumerate(block.runs):
                peak = float(books.coming.peaks[i, 0, self.tested]) if hasattr(books, "coming") else 1.0
                rounds = float(books.used.course[i, 1]) if hasattr(books, "coming") else 0.0
                self.seen.append((run, peak, int(1 - active[i]), rounds, int(block.trials[i, PAID])))
        return []


def by_engine(case: Case, rule: Any, runs: int, seed: int) -> Found:
    """Play with built-in agents on the compiled engine."""
    answers = fp.answers.Always() if case.answers == "take" else fp.answers.WithProbability(0.7)
    experiment = check(
        case.game(), [BUILT_IN[name] for name in case.strategies()], answers, case.principal(rule), case.horizon, runs,
        seed, "decided", None,
    )  # fmt: skip
    player = Peeking(experiment, case.tested)
    size = max(1, min(engine.LANES // case.agents, runs // THREADS))
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(player.play, [experiment.runs[at : at + size] for at in range(0, runs, size)]))
    player.seen.sort()
    peaks, gone, rounds, paid = (np.array(column) for column in list(zip(*player.seen, strict=True))[1:])
    none = np.zeros((0, 0, 0))
    return Found(peaks, gone, float(rounds.mean()), float(paid.mean()), none, none)


class Start(NamedTuple):
    """The books before the first round."""

    arms: Floats
    capital: Floats


def by_driver(
    case: Case, rule: fp.rules.Certified, runs: int, seed: int, first_look: int = 0, peeks: int = 0,
    margins: Floats | None = None,
) -> Found:  # fmt: skip
    """Play on our own driver, which has freezers and leavers."""
    parts = [np.arange(runs)[at::THREADS] for at in range(min(THREADS, runs))]
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda part: _drive(case, rule, part, seed, first_look, peeks, margins), parts))
    peaks, halfway = (np.concatenate([getattr(seen, name) for seen in found]) for name in ("peaks", "halfway"))
    order = np.argsort(np.concatenate(parts), kind="stable")
    rounds, paid, gone = (np.concatenate([getattr(s, n) for s in found]) for n in ("rounds", "paid", "gone"))
    return Found(
        peaks[order, 0, case.tested], gone[order], float(rounds.mean()), float(paid.mean()), peaks[order], halfway[order]
    )


def leaving(case: Case, numbers: Ints, seed: int) -> Ints:
    """When every agent of every run leaves; 0 for never."""
    leaves = np.zeros((len(numbers), case.agents), np.int64)
    for row, number in zip(leaves, numbers, strict=True):
        rng = np.random.default_rng([seed, int(number)])
        who = rng.choice(case.agents, size=min(LEAVERS, case.agents // 2), replace=False)
        if case.leavers != "none":
            row[who] = IN_ANGER if case.leavers == "in anger" else rng.integers(case.horizon // 2, case.horizon + 1, size=len(who))
    return leaves


def world_of(case: Case) -> World:
    """The game and the agents as the driver wants them."""
    game = case.game()
    streams = game.streams
    return World(
        np.array([KINDS[name] for name in case.strategies()]), np.ascontiguousarray(game.means.T),
        np.sqrt(np.ascontiguousarray(game.variances.T)), streams.kind, streams.parameters, streams.levels,
        streams.values, case.tested,
    )  # fmt: skip


def own_of(case: Case) -> Own:
    """What the agents of a run keep, still empty."""
    K, M = case.arms, case.agents
    ints = np.zeros((K, M), np.int64)
    return Own(ints, np.zeros((K, M)), np.zeros((K, M, case.horizon)), np.zeros(M, np.int64), np.zeros(M, np.int64))


def keys_of(case: Case, numbers: Ints, seed: int) -> Any:
    """The same keys as the engines' for these runs, by purpose and (run, agent)."""
    keys = np.zeros((3, len(numbers) * case.agents), np.uint64)
    fill_keys(keys, np.uint64(seed), numbers.astype(np.uint64), np.arange(keys.shape[1]))
    return keys


def _drive(
    case: Case, rule: fp.rules.Certified, numbers: Ints, seed: int, first_look: int, peeks: int, margins: Floats | None
) -> Seen:
    game, K, M, runs = case.game(), case.arms, case.agents, len(numbers)
    weights = game.weights if game.weighted else None
    trial = case.principal(rule).start(arms=K, agents=M, horizon=case.horizon, weights=weights)
    constants, prior = rule.constants(trial.setting, np.zeros(1) if margins is None else margins)
    used, coming = fresh(K, M, constants, prior)
    books = (used, coming, Fill(np.zeros((K, M)), np.zeros((K, M))), Measure(np.zeros((K, 3)), np.zeros((K, 10))),
             constants)  # fmt: skip
    take = 1.0 if case.answers == "take" else 0.7
    assert trial.kappa is not None
    terms = Terms(case.horizon, trial.kappa, case.offers == "each", take, first_look, peeks)
    X = len(constants.margins)
    seen = Seen(np.ones((runs, X, K)), np.ones((runs, X, K)), *(np.zeros(runs, np.int64) for _ in range(3)))
    marks = np.array([np.random.default_rng([seed, int(n), 1]).integers(1, case.horizon + 1) for n in numbers])
    play(
        world_of(case), own_of(case), terms, books, Start(used.arms.copy(), coming.capital.copy()),
        keys_of(case, numbers, seed), leaving(case, numbers, seed), marks, np.zeros(M, np.int64),
        np.zeros(M, np.int64), seen,
    )  # fmt: skip
    return seen
