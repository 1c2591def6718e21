"""Results: a row a run, a summary that hides nothing, and files that say where they came from."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freepull.errors import ResultError
from freepull.simulation.experiment import Experiment
from freepull.simulation.outcome import Checkpoint, Outcome

RATES = ("correct", "decided", "certified")
MEANS = ("paid", "offered", "refused", "banned", "free_pulls", "reward", "bonus", "regret")
SCHEMA = {
    "run": pl.Int64, "arm": pl.Int64, "correct": pl.Boolean, "decided": pl.Boolean, "certified": pl.Boolean,
    "decided_at": pl.Int64, "paid": pl.Int64, "offered": pl.Int64, "refused": pl.Int64, "banned": pl.Int64,
    "free_pulls": pl.Int64, "reward": pl.Float64, "bonus": pl.Float64, "regret": pl.Float64,
}  # fmt: skip
_KEY = "freepull"


@dataclass(frozen=True)
class Result:
    """What a simulation found."""

    frame: pl.DataFrame
    """One row a run: run, arm, correct, decided, certified, decided_at, paid, offered, refused, banned, free_pulls,
    reward, bonus, regret; the last three are sums over agents."""
    paid: NDArray[np.float64]
    """Mean number of bonuses paid per agent and arm, M×K."""
    provenance: dict[str, Any]
    agents: pl.DataFrame | None = None
    """One row a run and agent, if asked for by keep="agents"; ``pulls`` is a list, one number an arm."""
    trace: pl.DataFrame | None = None
    """One row a run, traced step and arm, if asked for by trace=…"""

    @property
    def interrupted(self) -> bool:
        """Whether the simulation was stopped before all runs were done; the rows are the finished ones."""
        return bool(self.provenance.get("interrupted", False))

    def summary(self) -> pl.DataFrame:
        """Return means with 95 % intervals: Wilson's for rates, Student's for means.

        Every run counts in every row, undecided and wrong ones too; only ``decided_at`` is over the decided runs,
        whose number stands beside it.
        """
        rows = [(name, *wilson(int(self.frame[name].sum()), self.frame.height), self.frame.height) for name in RATES]
        for name in (*MEANS, "decided_at"):
            values = self.frame[name].drop_nulls().to_numpy()
            rows.append((name, *interval(values), len(values)))
        return pl.DataFrame(rows, schema=["quantity", "mean", "low", "high", "runs"], orient="row")

    def save(self, path: str | Path) -> Path:
        """Write the runs to a Parquet file with full provenance; agents and trace go beside it."""
        target = Path(path)
        told = {_KEY: json.dumps({"provenance": self.provenance, "paid": self.paid.tolist()})}
        try:
            self.frame.write_parquet(target, metadata=told)
            for name, part in (("agents", self.agents), ("trace", self.trace)):
                if part is not None:
                    part.write_parquet(_beside(target, name), metadata=told)
        except OSError as error:
            raise ResultError(f"{target} cannot be written: {error}; give a path in a folder that exists.") from None
        return target

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read what `save` wrote."""
        source = Path(path)
        try:
            told = pl.read_parquet_metadata(source).get(_KEY)
            frame = pl.read_parquet(source)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ResultError(f"{source} cannot be read: {error}; give a file written by Result.save.") from None
        if told is None:
            raise ResultError(f"{source} holds no freepull result; give a file written by Result.save.")
        parts = {name: pl.read_parquet(f) for name in ("agents", "trace") if (f := _beside(source, name)).exists()}
        head = json.loads(told)
        return cls(frame, np.array(head["paid"], float), head["provenance"], **parts)

    def __repr__(self) -> str:
        return f"Result({self.frame.height} runs)\n{self.summary()}"


def gather(
    experiment: Experiment, outcomes: Sequence[Outcome], *, keep: str, engine: str, seconds: float, interrupted: bool
) -> Result:
    """Turn finished runs into a result."""
    done = sorted(outcomes, key=lambda outcome: outcome.run)
    bonus = experiment.principal.bonus
    rows: list[tuple[Any, ...]] = []
    agents: list[tuple[Any, ...]] = []
    trace: list[tuple[Any, ...]] = []
    for outcome in done:
        rewards, regrets = outcome.rewards(), outcome.regrets(experiment.game_of(outcome.run))
        paid = int(outcome.paid.sum())
        rows.append(
            (outcome.run, outcome.arm, outcome.correct, outcome.decided, outcome.certified, outcome.decided_at, paid,
             outcome.offered, outcome.refused, outcome.banned, int(outcome.pulls.sum()) - paid,
             math.fsum(rewards), paid * bonus, math.fsum(regrets))
        )  # fmt: skip
        if keep == "agents":
            for m in range(experiment.shape[0]):
                received = float(outcome.paid[m].sum() * bonus)
                row = (outcome.run, m, outcome.pulls[m].tolist(), float(rewards[m]), received, float(regrets[m]))
                agents.append(row)
        trace.extend((outcome.run, *_row(point)) for point in outcome.trace)
    columns = ["run", "agent", "pulls", "reward", "bonus", "regret"]
    traced = ["run", "step", "arm", "active", "mean", "bound", "paid"]
    return Result(
        frame=pl.DataFrame(rows, schema=SCHEMA, orient="row"),
        paid=np.mean([outcome.paid for outcome in done], axis=0) if done else np.zeros(experiment.shape),
        provenance=_provenance(experiment, engine, seconds, interrupted, len(done)),
        agents=pl.DataFrame(agents, schema=columns, orient="row") if keep == "agents" else None,
        trace=pl.DataFrame(trace, schema=traced, orient="row") if experiment.checkpoints else None,
    )


def wilson(successes: int, trials: int, z: float = 1.959963984540054) -> tuple[float, float, float]:
    """Return a rate with Wilson's interval (95 % by default)."""
    if trials == 0:
        return math.nan, math.nan, math.nan
    rate = successes / trials
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    return rate, max(0.0, centre - half), min(1.0, centre + half)


def interval(values: NDArray[Any]) -> tuple[float, float, float]:
    """Return a mean with Student's 95 % interval; without two values there is no interval."""
    if len(values) < 2:
        mean = float(values[0]) if len(values) else math.nan
        return mean, math.nan, math.nan
    from scipy.special import stdtrit

    mean = float(np.mean(values))
    half = float(stdtrit(len(values) - 1, 0.975)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def _row(point: Checkpoint) -> tuple[Any, ...]:
    return point.step, point.arm, point.active, point.mean, point.bound, point.paid


def _beside(path: Path, name: str) -> Path:
    return path.with_name(f"{path.stem}.{name}{path.suffix}")


def _provenance(
    experiment: Experiment, engine: str, seconds: float, interrupted: bool, finished: int
) -> dict[str, Any]:
    return {
        "freepull": version("freepull"),
        "parameters": experiment.describe(),
        "seed": experiment.seed,
        "engine": engine,
        "finished": finished,
        "interrupted": interrupted,
        "seconds": round(seconds, 3),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "system": platform.platform(),
            "architecture": platform.machine(),
            "python": platform.python_version(),
        },
        "libraries": {name: version(name) for name in ("numpy", "numba", "polars", "scipy")},
    }
