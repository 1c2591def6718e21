"""Collecting runs as they finish: what is kept is a row a run, never the runs themselves."""

from __future__ import annotations

import math
import platform
from datetime import UTC, datetime
from typing import Any

import numba
import numpy as np
import polars as pl
import scipy

from freepull.principal.budget import cost
from freepull.simulation.experiment import Experiment
from freepull.simulation.outcome import Outcome
from freepull.simulation.results import Result
from freepull.version import __version__

SCHEMA = {
    "run": pl.Int64, "arm": pl.Int64, "correct": pl.Boolean, "decided": pl.Boolean, "certified": pl.Boolean,
    "decided_at": pl.Int64, "paid": pl.Int64, "offered": pl.Int64, "refused": pl.Int64, "banned": pl.Int64,
    "free_pulls": pl.Int64, "reward": pl.Float64, "bonus": pl.Float64, "regret": pl.Float64,
}  # fmt: skip
MARGIN_SCHEMA = {"survives": pl.Float64}
AGENT_SCHEMA = {
    "run": pl.Int64, "agent": pl.Int64, "pulls": pl.List(pl.Int64), "reward": pl.Float64, "bonus": pl.Float64,
    "regret": pl.Float64,
}  # fmt: skip
TRACE_SCHEMA = {
    "run": pl.Int64, "step": pl.Int64, "arm": pl.Int64, "active": pl.Boolean, "mean": pl.Float64, "bound": pl.Float64,
    "paid": pl.Int64,
}  # fmt: skip


class Collector:
    """Turns finished runs into a result; the order in which they finish changes nothing."""

    def __init__(self, experiment: Experiment, keep: str) -> None:
        self.experiment, self.keep = experiment, keep
        self.rows: list[tuple[Any, ...]] = []
        self.agents: list[tuple[Any, ...]] = []
        self.trace: list[tuple[Any, ...]] = []
        self.paid = np.zeros(experiment.shape, np.int64)
        self.paid_squared = np.zeros(experiment.shape, np.int64)

    def add(self, outcome: Outcome) -> None:
        """Take note of one run."""
        rewards, bonus = outcome.rewards(), self.experiment.principal.bonus
        regrets = outcome.regrets()
        paid = int(outcome.paid.sum())
        margins = (outcome.survives,) if self.experiment.margins else ()
        self.rows.append(
            (outcome.run, outcome.arm, outcome.correct, outcome.decided, outcome.certified, outcome.decided_at, paid,
             outcome.offered, outcome.refused, outcome.banned, int(outcome.pulls.sum()) - paid,
             math.fsum(rewards.tolist()), cost(paid, bonus), math.fsum(regrets.tolist()), *margins)
        )  # fmt: skip
        self.paid += outcome.paid
        self.paid_squared += outcome.paid**2
        if self.keep == "agents":
            received = [cost(count, bonus) for count in outcome.paid.sum(axis=1).tolist()]
            for m, pulls in enumerate(outcome.pulls.tolist()):
                row = (outcome.run, m, pulls, float(rewards[m]), received[m], float(regrets[m]))
                self.agents.append(row)
        for point in outcome.trace:
            self.trace.append((outcome.run, point.step, point.arm, point.active, point.mean, point.bound, point.paid))

    def result(self, *, engine: str, seconds: float, interrupted: bool) -> Result:
        """Return everything collected so far."""
        n = len(self.rows)
        mean = self.paid / max(n, 1)
        variance = (self.paid_squared - self.paid * mean) / (n - 1) if n > 1 else np.full(mean.shape, np.nan)
        return Result(
            frame=_frame(self.rows, SCHEMA | (MARGIN_SCHEMA if self.experiment.margins else {}), "run"),
            paid=mean,
            paid_error=np.sqrt(np.maximum(variance, 0.0) / max(n, 1)),
            provenance=self._provenance(engine, seconds, interrupted),
            agents=_frame(self.agents, AGENT_SCHEMA, "run", "agent") if self.keep == "agents" else None,
            trace=_frame(self.trace, TRACE_SCHEMA, "run", "step", "arm") if self.experiment.checkpoints else None,
        )

    def _provenance(self, engine: str, seconds: float, interrupted: bool) -> dict[str, Any]:
        machine = {
            "system": platform.platform(),
            "architecture": platform.machine(),
            "python": platform.python_version(),
        }
        return {
            "freepull": __version__,
            "parameters": self.experiment.describe(),
            "seed": self.experiment.seed,
            "engine": engine,
            "finished": len(self.rows),
            "interrupted": interrupted,
            "seconds": round(seconds, 3),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine,
            "libraries": {module.__name__: module.__version__ for module in (numba, np, pl, scipy)},
        }


def _frame(rows: list[tuple[Any, ...]], schema: dict[str, Any], *order: str) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row").sort(order)
