"""Results: one row per run, a summary that hides nothing, and files that know their origin."""

from __future__ import annotations

import json
import math
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freepull import showing, validation
from freepull.errors import InvalidInput, ResultError
from freepull.game import Game
from freepull.principal.offers import cost
from freepull.principal.record import UNITS
from freepull.simulation.experiment import Experiment, ranges
from freepull.version import __version__

Counts = NDArray[np.int64]
RATES = ("correct", "decided", "certified")
MEANS = ("paid", "spent", "offered", "refused", "banned", "free_pulls", "reward", "regret")
_KEY, _PART = "freepull", "freepull_part"
SCHEMA = {
    "run": pl.Int64, "arm": pl.Int64, "correct": pl.Boolean, "decided": pl.Boolean, "certified": pl.Boolean,
    "decided_at": pl.Int64, "paid": pl.Int64, "offered": pl.Int64, "refused": pl.Int64, "banned": pl.Int64,
    "free_pulls": pl.Int64, "reward": pl.Float64, "spent": pl.Float64, "regret": pl.Float64,
}  # fmt: skip
BEFORE = {"bonus": "spent"}
"""What columns were called in files of version 0.1."""
ACTS_SCHEMA = {"acts": pl.Int64}
MARGIN_SCHEMA = {"survives": pl.Float64}
CHECKS_SCHEMA = {"common_shock": pl.Float64, "drift": pl.Float64}
AGENT_SCHEMA = {
    "run": pl.Int64, "agent": pl.Int64, "pulls": pl.List(pl.Int64), "reward": pl.Float64, "bonus": pl.Float64,
    "regret": pl.Float64,
}  # fmt: skip
TRACE_SCHEMA = {
    "run": pl.Int64, "step": pl.Int64, "arm": pl.Int64, "active": pl.Boolean, "mean": pl.Float64, "bound": pl.Float64,
    "paid": pl.Int64, "pulls": pl.Int64, "regret": pl.Float64,
}  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """One arm at the end of one traced step."""

    step: int
    arm: int
    active: bool
    mean: float
    bound: float
    paid: int
    """Of all arms together."""
    pulls: int
    regret: float
    """Of all agents' pulls of this arm."""


@dataclass
class Outcome:
    """The raw end of a run: counts are exact, so both engines agree to the last bit."""

    run: int
    game: Game
    arm: int
    correct: bool
    decided: bool
    certified: bool
    decided_at: int | None
    offered: int
    refused: int
    banned: int
    pulls: Counts
    """N_km."""
    sums: Counts
    """Rewards S_km in units of 2⁻³⁰."""
    paid: Counts
    """Bonuses paid per agent and arm."""
    received: Counts | None = None
    """What each agent was paid, in units of 2⁻³⁰; None where all bonuses are the same."""
    trace: list[Checkpoint] = field(default_factory=list)
    survives: float | None = None
    """γ* of the verdict, if margins are kept."""
    evidence: tuple[float, ...] = ()
    """Of the checks for common shocks and drift, if they are kept."""

    def rewards(self) -> NDArray[np.float64]:
        """ΣX of every agent, bonuses not counted."""
        return np.asarray(self.sums.sum(axis=1) / UNITS)

    def regrets(self) -> NDArray[np.float64]:
        """Σ_t (μ_{*,m} − μ_{π_m(t),m}) of every agent, from the true means."""
        return np.asarray((self.pulls * self.game.losses).sum(axis=1))


def regret_by_arm(game: Game, pulls: Counts) -> list[float]:
    """What all agents lost by their pulls of every arm."""
    return [math.fsum(column) for column in (pulls * game.losses).T.tolist()]


@dataclass(frozen=True)
class Result:
    """What a simulation found."""

    frame: pl.DataFrame
    """One row per run: run, arm, correct, decided, certified, decided_at, paid, offered, refused, banned, free_pulls,
    reward, spent, regret; the last three are sums over agents. Where not everybody acts in every step also acts, with
    keep="survives" also survives, with keep="checks" common_shock and drift."""
    paid_sum: Counts
    """Bonuses paid per agent and arm, M×K, added up over runs."""
    paid_squares: Counts
    """Their squares, added up over runs."""
    provenance: dict[str, Any]
    agents: pl.DataFrame | None = None
    """One row per run and agent, if asked for by keep="agents"; ``pulls`` is a list, one number per arm."""
    trace: pl.DataFrame | None = None
    """One row per run, traced step and arm, if asked for by trace=…: whether the arm is active, its mean and bound, the
    bonuses paid for all arms, all agents' pulls of this one, and what they lost by them against their own best arms."""

    @property
    def paid(self) -> NDArray[np.float64]:
        """Mean number of bonuses paid per agent and arm, M×K."""
        return np.asarray(self.paid_sum / max(self.frame.height, 1))

    @property
    def paid_error(self) -> NDArray[np.float64]:
        """Its standard error, M×K (NaN for a single run)."""
        n = self.frame.height
        if n < 2:
            return np.full(self.paid_sum.shape, np.nan)
        variance = (self.paid_squares - self.paid_sum * self.paid) / (n - 1)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0) / n))

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
        for name in (*MEANS, *(name for name in ACTS_SCHEMA if name in self.frame.columns), "decided_at"):
            values = self.frame[name].drop_nulls().to_numpy()
            rows.append((name, *interval(values), len(values)))
        return pl.DataFrame(rows, schema=["quantity", "mean", "low", "high", "runs"], orient="row")

    @classmethod
    def concat(cls, results: Sequence[Result]) -> Result:
        """Put results of different runs of one experiment together, as if one `simulate` had played all of them.

        Frames, sums and therefore means and errors are those of that one result, bit for bit. Results of other
        parameters, and results that share a run, are refused; that two functions which draw games have one name is
        taken for their being one function.
        """
        results = list(results)
        if not results or not all(isinstance(result, Result) for result in results):
            raise InvalidInput(f"results must be a list of one or more Results, got {validation.shown(results)}.")
        first = results[0]
        for other in results[1:]:
            differs = _difference(first, other)
            if differs is not None:
                raise InvalidInput(f"results must be of one experiment, but {differs}.")
        numbers = Counter(run for result in results for run in result.frame["run"].to_list())
        for run, times in numbers.most_common(1):
            if times > 1:
                raise InvalidInput(f"results must have no run in common, but run {run} is in {times} of them.")
        return join(results)

    def save(self, path: str | Path) -> Path:
        """Write the runs to a Parquet file with full provenance; agents and trace go beside it."""
        target = Path(path)
        if target.suffix.lower() not in ("", ".parquet"):
            raise InvalidInput(
                f"path must end in .parquet, got {validation.shown(str(path))}; other formats can be written from "
                ".frame."
            )
        return self.write(target)

    def write(self, target: Path) -> Path:
        """Write as `save` does, under any name."""
        arrays = {"paid_sum": self.paid_sum.tolist(), "paid_squares": self.paid_squares.tolist()}
        told = {_KEY: json.dumps({"provenance": self.provenance, **arrays})}
        try:
            self.frame.write_parquet(target, metadata=told)
            for name, part in (("agents", self.agents), ("trace", self.trace)):
                beside = _beside(target, name)
                if part is not None:
                    part.write_parquet(beside, metadata=told | {_PART: name})
                elif beside.exists() and pl.read_parquet_metadata(beside).get(_PART) == name:
                    beside.unlink()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ResultError(f"{target} cannot be written: {error}; give a path in a folder that exists.") from None
        return target

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read what `save` wrote."""
        source = Path(path)
        told, frame = _read(source)
        frame = frame.rename(BEFORE, strict=False)
        try:
            head = json.loads(told or "")
        except ValueError:
            raise ResultError(f"{source} holds no freepull result; give a file written by Result.save.") from None
        parts: dict[str, Any] = {}
        for name in ("agents", "trace"):
            if _beside(source, name).exists():
                same, parts[name] = _read(_beside(source, name))
                if same != told:
                    raise ResultError(f"{_beside(source, name)} belongs to another result; remove it, or save again.")
        return cls(frame, *_sums(head, frame.height), head["provenance"], **parts)

    def __repr__(self) -> str:
        with pl.Config(tbl_rows=-1):
            return f"Result({self.frame.height} runs)\n{self.summary()}"

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        told, shown = self.provenance["parameters"], self.summary()
        after = ", interrupted" if self.interrupted else ""
        return showing.table(
            f"{self.frame.height:,} runs{after}, {told['horizon']:,} steps, {told['rule']}", shown.columns, shown.rows()
        )


def join(results: Sequence[Result]) -> Result:
    """Put results together that are known to be of one experiment and of different runs."""
    first = results[0]

    def together(part: str, *order: str) -> pl.DataFrame | None:
        frames = [getattr(result, part) for result in results]
        return None if frames[0] is None else pl.concat(frames).sort(order)

    frame = together("frame", "run")
    assert frame is not None
    told = [result.provenance for result in results]
    asked = sorted({run for one in told for run in _numbers(one["parameters"]["runs"])})
    provenance = first.provenance | {
        "parameters": first.provenance["parameters"] | {"runs": ranges(tuple(asked))},
        "freepull": ", ".join(sorted({one["freepull"] for one in told})),
        "engine": ", ".join(sorted({one["engine"] for one in told})),
        "finished": frame.height,
        "interrupted": frame.height < len(asked),
        "seconds": round(sum(one["seconds"] for one in told), 3),
        "at": max(one["at"] for one in told),
    }
    return Result(
        frame,
        np.sum([result.paid_sum for result in results], axis=0),
        np.sum([result.paid_squares for result in results], axis=0),
        provenance,
        together("agents", "run", "agent"),
        together("trace", "run", "step", "arm"),
    )


def _difference(a: Result, b: Result) -> str | None:
    """Say in what two results are not of one experiment."""
    one, two = a.provenance["parameters"], b.provenance["parameters"]
    for name in sorted((one.keys() | two.keys()) - {"runs"}):
        if json.dumps(one.get(name)) != json.dumps(two.get(name)):
            return (
                f"{name} is {validation.shown(one.get(name))} in one and {validation.shown(two.get(name))} in another"
            )
    kept = [(result.frame.columns, result.agents is None) for result in (a, b)]
    return None if kept[0] == kept[1] else "they were made with different keep=…"


def _numbers(runs: int | list[int]) -> Sequence[int]:
    """Return the run numbers that provenance names."""
    return range(runs) if isinstance(runs, int) else runs


def _sums(head: dict[str, Any], runs: int) -> tuple[Counts, Counts]:
    """Return Σ and Σ² of payments from a file's head; version 0.1 wrote the mean and its error, rounded once each."""
    if "paid_sum" in head:
        return np.array(head["paid_sum"], np.int64), np.array(head["paid_squares"], np.int64)
    mean, error = (np.array(head[name], float) for name in ("paid", "paid_error"))
    total = np.rint(mean * runs)
    squares = total**2 if runs < 2 else np.rint(error**2 * runs * (runs - 1) + total * mean)
    return total.astype(np.int64), squares.astype(np.int64)


def _read(source: Path) -> tuple[str | None, pl.DataFrame]:
    try:
        return pl.read_parquet_metadata(source).get(_KEY), pl.read_parquet(source)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ResultError(f"{source} cannot be read: {error}; give a file written by Result.save.") from None


def wilson(successes: int, trials: int, z: float = 1.959963984540054) -> tuple[float, float, float]:
    """Return a rate with Wilson's interval (95 % by default)."""
    if trials == 0:
        return math.nan, math.nan, math.nan
    rate = successes / trials
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    return rate, 0.0 if successes == 0 else centre - half, 1.0 if successes == trials else centre + half


def interval(values: NDArray[Any]) -> tuple[float, float, float]:
    """Return a mean with Student's 95 % interval; without two values there is no interval."""
    if len(values) < 2:
        mean = float(values[0]) if len(values) else math.nan
        return mean, math.nan, math.nan
    from scipy.special import stdtrit

    mean = float(np.mean(values))
    half = float(stdtrit(len(values) - 1, 0.975)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def _beside(path: Path, name: str) -> Path:
    return path.with_name(f"{path.stem}.{name}{path.suffix}")


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
        rewards, regrets = outcome.rewards(), outcome.regrets()
        paid = int(outcome.paid.sum())
        pulls = int(outcome.pulls.sum())
        acts = () if self.experiment.always_there else (pulls,)
        margins = (outcome.survives,) if self.experiment.margins else ()
        self.rows.append(
            (outcome.run, outcome.arm, outcome.correct, outcome.decided, outcome.certified, outcome.decided_at, paid,
             outcome.offered, outcome.refused, outcome.banned, pulls - paid,
             math.fsum(rewards.tolist()), self._spent(outcome), math.fsum(regrets.tolist()), *acts, *margins,
             *outcome.evidence)
        )  # fmt: skip
        self.paid += outcome.paid
        self.paid_squared += outcome.paid**2
        if self.keep == "agents":
            received = self._received(outcome)
            for m, pulls in enumerate(outcome.pulls.tolist()):
                row = (outcome.run, m, pulls, float(rewards[m]), received[m], float(regrets[m]))
                self.agents.append(row)
        for point in outcome.trace:
            self.trace.append((outcome.run, *astuple(point)))

    def _spent(self, outcome: Outcome) -> float:
        """What was paid in all, in units of reward."""
        if outcome.received is not None:
            return int(outcome.received.sum()) / UNITS
        return cost(int(outcome.paid.sum()), self.experiment.principal.bonus)

    def _received(self, outcome: Outcome) -> list[float]:
        """What every agent was paid, in units of reward."""
        if outcome.received is not None:
            return [units / UNITS for units in outcome.received.tolist()]
        return [cost(count, self.experiment.principal.bonus) for count in outcome.paid.sum(axis=1).tolist()]

    def result(self, *, engine: str, seconds: float, interrupted: bool) -> Result:
        """Return everything collected so far."""
        acts = {} if self.experiment.always_there else ACTS_SCHEMA
        return Result(
            frame=_frame(self.rows, SCHEMA | acts | self._more(), "run"),
            paid_sum=self.paid,
            paid_squares=self.paid_squared,
            provenance=self._provenance(engine, seconds, interrupted),
            agents=_frame(self.agents, AGENT_SCHEMA, "run", "agent") if self.keep == "agents" else None,
            trace=_frame(self.trace, TRACE_SCHEMA, "run", "step", "arm") if self.experiment.checkpoints else None,
        )

    def _more(self) -> dict[str, Any]:
        """The columns that were asked for beside the usual ones."""
        if self.experiment.checks is not None:
            return CHECKS_SCHEMA
        return MARGIN_SCHEMA if self.experiment.margins else {}

    def _provenance(self, engine: str, seconds: float, interrupted: bool) -> dict[str, Any]:
        return {
            "freepull": __version__,
            "parameters": self.experiment.describe(),
            "seed": self.experiment.seed,
            "engine": engine,
            "finished": len(self.rows),
            "interrupted": interrupted,
            "seconds": round(seconds, 3),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {
                "system": platform.platform(),
                "architecture": platform.machine(),
                "python": platform.python_version(),
            },
            "libraries": dict(_libraries()),
        }


@cache
def _libraries() -> dict[str, str]:
    """Return the versions of what the figures come from; looking them up takes milliseconds."""
    return {name: version(name) for name in ("numba", "numpy", "polars", "scipy")}


def _frame(rows: list[tuple[Any, ...]], schema: dict[str, Any], *order: str) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row").sort(order)
