"""Plays a case on the compiled engine, and looks into the rule's books at the end of every run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

import freepull as fp
from freepull.simulation.compiled import engine
from freepull.simulation.compiled.state import ACTIVE, PAID, Block
from freepull.simulation.experiment import Experiment, check
from freepull.simulation.results import Checkpoint, Outcome

from .covered import BUILT_IN, Case
from .found import THREADS, Found


class Peeking(engine.Player):
    """The compiled engine, with a note of every run's peak instead of its outcome."""

    def __init__(self, experiment: Experiment, tested: int) -> None:
        super().__init__(experiment)
        self.tested, self.lock = tested, threading.Lock()
        self.seen: list[tuple[int, float, int, float, int]] = []

    def _outcomes(self, block: Block, traces: list[list[Checkpoint]]) -> list[Outcome]:
        K = self.experiment.shape[1]
        active = block.state.arms[:-K, ACTIVE].reshape(-1, K)[:, self.tested]
        peaks, rounds = self._books(block)
        with self.lock:
            for i, run in enumerate(block.runs):
                paid = int(block.state.trials[i, PAID])
                self.seen.append((run, float(peaks[i]), int(1 - active[i]), float(rounds[i]), paid))
        return []

    def _books(self, block: Block) -> tuple[Any, Any]:
        """The peak of the evidence against the tested arm and the number of rounds, by run."""
        if isinstance(self.experiment.principal.rule, fp.rules.Certified):
            peaks = block.own.coming.peaks[:, 0, self.tested]
            if self.experiment.principal.rule.epsilon > 0:
                peaks = np.maximum(peaks, block.own.coming.reached[:, self.tested].max(axis=1))
            return peaks, block.own.used.course[:, 1]
        return np.ones(len(block.runs)), np.zeros(len(block.runs))


def by_engine(case: Case, rule: Any, runs: int, seed: int, answers: Any = None, **terms: Any) -> Found:
    """Play with built-in agents; ``terms`` are what else the principal agrees to, and ``answers`` how these are met."""
    if answers is None:
        answers = fp.answers.Always() if case.answers == "take" else fp.answers.WithProbability(0.7)
    experiment = check(
        case.game(), [BUILT_IN[name] for name in case.strategies()], answers, replace(case.principal(rule), **terms),
        case.horizon, runs, seed, "decided", None,
    )  # fmt: skip
    player = Peeking(experiment, case.tested)
    size = max(1, min(engine.LANES // case.agents, runs // THREADS))
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(player.play, [experiment.runs[at : at + size] for at in range(0, runs, size)]))
    peaks, gone, rounds, paid = (np.array(column) for column in list(zip(*sorted(player.seen), strict=True))[1:])
    return Found(peaks, gone, float(rounds.mean()), float(paid.mean()))
