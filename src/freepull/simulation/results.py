"""Results: a row a run, a summary that hides nothing, and files that say where they came from."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freepull import checks
from freepull.errors import InvalidInput, ResultError

RATES = ("correct", "decided", "certified")
MEANS = ("paid", "offered", "refused", "banned", "free_pulls", "reward", "bonus", "regret")
_KEY, _PART = "freepull", "freepull_part"


@dataclass(frozen=True)
class Result:
    """What a simulation found."""

    frame: pl.DataFrame
    """One row a run: run, arm, correct, decided, certified, decided_at, paid, offered, refused, banned, free_pulls,
    reward, bonus, regret; the last three are sums over agents. With keep="survives" also survives."""
    paid: NDArray[np.float64]
    """Mean number of bonuses paid per agent and arm, M×K."""
    paid_error: NDArray[np.float64]
    """Its standard error, M×K (NaN for a single run)."""
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
        if target.suffix.lower() not in ("", ".parquet"):
            raise InvalidInput(
                f"path must end in .parquet, got {checks.shown(str(path))}; other formats can be written from .frame."
            )
        return self.write(target)

    def write(self, target: Path) -> Path:
        """Write as `save` does, under any name."""
        arrays = {"paid": self.paid.tolist(), "paid_error": self.paid_error.tolist()}
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
        try:
            head = json.loads(told or "")
        except ValueError:
            raise ResultError(f"{source} holds no freepull result; give a file written by Result.save.") from None
        parts = {}
        for name in ("agents", "trace"):
            if _beside(source, name).exists():
                same, parts[name] = _read(_beside(source, name))
                if same != told:
                    raise ResultError(f"{_beside(source, name)} belongs to another result; remove it, or save again.")
        paid, spread = (np.array(head[name], float) for name in ("paid", "paid_error"))
        return cls(frame, paid, spread, head["provenance"], **parts)

    def __repr__(self) -> str:
        with pl.Config(tbl_rows=-1):
            return f"Result({self.frame.height} runs)\n{self.summary()}"


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
