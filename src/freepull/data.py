"""Past pulls: logs of pulls read from files and frames, and what is believed of the means after them."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.errors import InvalidInput, UnusableRows
from freepull.rewards import Bernoulli, Beta, Law
from freepull.scales import WORDS, YES_NO, Scale, likely

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
COLUMNS = ("agent", "arm", "reward")
WHEN = ("step", "at")
"""The column that says when: a number of steps, or a time; the first that is there."""
TAKEN, REFUSED = 1, 2
OUTCOMES = {"paid": TAKEN, "refused": REFUSED}
"""What the column outcome may say of an offer, as the exports of campaigns do."""
NAMED = 5
"""Unusable rows that a warning names."""
MOST_UNUSABLE = 0.1
"""With a larger share of rows that cannot be used, a log is refused: what is left would not speak for it."""
SEPARATORS = (";", "\t", "|")
"""What may stand between the cells of a CSV file instead of commas; its numbers may then have decimal commas."""
NOTHING = ("", "na", "n/a", "null", "none", "-")
"""Cells that hold no reward or time."""
DATES = ("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S")
"""How times may be written besides all of ISO 8601 and whole, milli-, micro- or nanoseconds since 1970."""


@dataclass(frozen=True)
class Acts:
    """The pulls of a log one by one, by agent and then by time; agents and arms by their numbers."""

    agent: Ints
    arm: Ints
    reward: Floats
    time: Floats
    """Steps, or days if the log has dates."""
    outcome: Ints
    """Whether the pull took or refused an offer, 0 if there was none."""
    joined: Floats
    """When every agent was enrolled, NaN where the log does not say."""
    dated: bool
    enrolled: bool
    """Whether the log names people who were enrolled, so that those who never came are known."""


@dataclass(frozen=True)
class Past:
    """What a log holds of every agent and arm, both in the order of their names (numbers by size)."""

    agents: tuple[str, ...]
    arms: tuple[str, ...]
    pulls: Ints
    """N_km, M×K."""
    sums: Floats
    squares: Floats
    """Sums of squared rewards, M×K."""
    coins: bool
    """Whether every reward is 0 or 1."""
    rows: int
    unusable: tuple[tuple[int, str], ...]
    """Where and why: the line of a CSV file (its header is line 1), the row of a frame or Parquet file (from 0)."""
    acts: Acts | None = None
    """The pulls in their order; None if the log does not say when they were made."""
    scale: str = ""
    """On which scale rewards were; empty: they were in [0, 1]."""

    def describe(self) -> dict[str, Any]:
        """Return what a plan records of it."""
        return {
            "rows": self.rows,
            "agents": len(self.agents),
            "arms": list(self.arms),
            "pulls": int(self.pulls.sum()),
            "unusable": [{"where": where, "why": why} for where, why in self.unusable],
        } | ({"scale": self.scale} if self.scale else {})


def read(log: Any, scale: str | None = None, columns: Any = None) -> Past:
    """Read a log: a CSV or Parquet file, or a polars frame, with the columns agent, arm and reward.

    ``scale`` says from what to what rewards run, if not from 0 to 1, and ``columns`` what the log calls a column: a
    mapping, or a text such as "agent=user_id,arm=slot,reward=stars". A column ``step`` or ``at`` says when, ``outcome``
    whether an offer was "paid" or "refused". With one of the former, a row that has neither arm nor reward says that
    somebody was enrolled. Rows without an agent, an arm, a reward in [0, 1] or on the scale, or a time where there is
    a column of them, are left out, and a warning says where they are; a log of which they are more than a tenth is
    refused.
    """
    if isinstance(log, Past):
        return log
    import polars as pl

    on = None if scale is None else Scale.parse("scale", scale)
    frame, place, decimal = (log, "row", False) if isinstance(log, pl.DataFrame) else _file(log)
    frame = _renamed(frame, columns)
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        remedy = f"name {' and '.join(missing)} in its header, or say what they are called, as in --columns agent=user"
        raise InvalidInput(
            f"the log must have the columns agent, arm and reward, got {', '.join(frame.columns) or 'none'}; {remedy}."
        )
    twice = [name for name in COLUMNS if f"{name}_duplicated_0" in frame.columns]
    if twice:
        raise InvalidInput(f"the log must have one column {twice[0]}, got two; rename one of them.")
    rows = _checked(frame, place, on, decimal)
    bad = rows.filter(pl.col("why").is_not_null())
    unusable = tuple(zip(bad["where"].to_list(), bad["why"].to_list(), strict=True))
    if len(unusable) > MOST_UNUSABLE * rows.height:
        raise _too_many(unusable, rows, place, on)
    if unusable:
        _warn(unusable, rows.height, place)
    good = rows.filter(pl.col("why").is_null())
    timed = next((column for column in WHEN if column in frame.columns), None)
    found = _gathered(good, rows.height, unusable, timed)
    return found if on is None else replace(found, scale=on.text)


def _renamed(frame: pl.DataFrame, columns: Any) -> pl.DataFrame:
    """Call columns as they are called here."""
    given = columns
    if isinstance(columns, str):
        parts = [part.partition("=") for part in columns.split(",")]
        given = {name.strip(): theirs.strip() for name, _, theirs in parts}
    known = (*COLUMNS, *WHEN, "outcome")
    if given is None:
        return frame
    if not isinstance(given, Mapping) or not all(given.values()) or not given.keys() <= {*known}:
        raise InvalidInput(
            f"columns must say what the log calls {', '.join(known)}, as in agent=user_id,arm=slot, got "
            f"{validation.shown(columns)}."
        )
    missing = [name for name in given.values() if name not in frame.columns]
    if missing:
        raise InvalidInput(f"columns must name columns of the log, {', '.join(frame.columns)}, got {missing[0]!r}.")
    rest = [name for name in frame.columns if name not in given or given[name] == name]
    return frame.select(
        *(name for name in rest if name not in given.values()),
        **{name: frame[theirs] for name, theirs in given.items()},
    )


def _too_many(
    unusable: tuple[tuple[int, str], ...], rows: pl.DataFrame, place: str, scale: Scale | None
) -> InvalidInput:
    """Say that too little of a log can be used, with the scale that its rewards probably have."""
    import polars as pl

    where, why = unusable[0]
    beyond = rows.filter(pl.col("why").str.contains(" is outside ").fill_null(False)).height
    words = rows.filter(pl.col("why").str.contains(f"^reward (?i:{'|'.join(WORDS)}) ").fill_null(False)).height
    told = rows["told"].drop_nulls().drop_nans()
    remedy = "put these rows right, or leave them out"
    if 2 * words > len(unusable):
        remedy = f"rewards are words: pass --scale {YES_NO}"
    elif 2 * beyond > len(unusable):
        values: list[float] = told.to_list()
        remedy = f"rewards run {min(values):g} to {max(values):g}: pass --scale {likely(values)}"
    return InvalidInput(
        f"the log must have at most one row in ten that cannot be used, got {len(unusable):,} of {rows.height:,}, such "
        f"as {place} {where} ({why}); {remedy}."
    )


def _file(log: Any) -> tuple[pl.DataFrame, str, bool]:
    """Return what a file holds, what its rows are called, and whether numbers may have decimal commas."""
    import polars as pl

    if not isinstance(log, str | Path):
        raise InvalidInput(f"the log must be a CSV or Parquet file or a polars frame, got {validation.shown(log)}.")
    path = Path(log)
    if not path.is_file():
        raise InvalidInput(f"the log must be a file that exists, got {str(log)!r}.")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pl.read_parquet(path, glob=False), "row", False
        mark = _separator(path)
        return pl.read_csv(path, infer_schema=False, glob=False, separator=mark), "line", mark != ","
    except (OSError, pl.exceptions.PolarsError) as error:
        if path.suffix.lower() == ".csv" and (line := _longer(path)) is not None:
            raise InvalidInput(
                f"line {line} of the log {log} has more cells than the header; quote cells that contain commas."
            ) from None
        told = " ".join(str(error).split())[:200]
        remedy = "write it as CSV in UTF-8, or as Parquet"
        raise InvalidInput(f"the log {log} cannot be read as CSV or Parquet: {told}; {remedy}.") from None


def _separator(path: Path) -> str:
    """Return what stands between the cells of a CSV file, by its first line."""
    with path.open(encoding="utf-8", errors="replace") as file:
        header = file.readline()
    return next((mark for mark in SEPARATORS if mark in header and "," not in header), ",")


def _longer(path: Path) -> int | None:
    """Return the first line of a CSV file that has more cells than its header."""
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        lines = csv.reader(file, delimiter=_separator(path))
        width = len(next(lines, []))
        return next((lines.line_num for cells in lines if len(cells) > width), None)


def _checked(frame: pl.DataFrame, place: str, scale: Scale | None, decimal: bool) -> pl.DataFrame:
    """Return where, agent, arm, reward, and why a row cannot be used (null if it can); blank lines are no rows.

    ``told`` is the reward as the log has it.
    """
    import polars as pl

    where = pl.int_range(pl.len(), dtype=pl.Int64)
    if place == "line":  # a quoted cell may run over several lines
        text = [pl.col(name).str.count_matches("\n", literal=True).fill_null(0) for name in frame.columns]
        where = where + 2 + (pl.sum_horizontal(text).cum_sum().shift(1).fill_null(0)).cast(pl.Int64)
    name = {column: _text(column) for column in COLUMNS}
    if frame.schema["reward"] == pl.Boolean:
        name["reward"] = pl.col("reward").cast(pl.Int8).cast(pl.String)
    name["reward"] = pl.when(~name["reward"].str.to_lowercase().is_in(NOTHING)).then(name["reward"])
    told = name["reward"].cast(pl.Float64, strict=False)
    if decimal:
        told = told.fill_null(name["reward"].str.replace(",", ".", literal=True).cast(pl.Float64, strict=False))
    number, least, most = told, 0.0, 1.0
    if scale is not None:
        if scale.text == YES_NO:
            words = name["reward"].str.to_lowercase().replace_strict(WORDS, default=None, return_dtype=pl.Float64)
            number = told = words.fill_null(pl.when(told.is_in([0.0, 1.0])).then(told))
        least, most = scale.low, scale.high
        number = (told.clip(least, most) if scale.clips else told) - least
    run = "[0, 1]" if scale is None else scale.text
    when = next((column for column in WHEN if column in frame.columns), None)
    time = pl.lit(None, pl.Float64) if when is None else _time(frame, when)
    joins = name["arm"].is_null() & name["reward"].is_null() & pl.lit(when is not None)
    why = (
        pl.when(name["agent"].is_null())
        .then(pl.lit("no agent"))
        .when(joins)
        .then(None)
        .when(time.is_null() & pl.lit(when is not None))
        .then(pl.lit(f"no {when} that can be read"))
        .when(name["arm"].is_null())
        .then(pl.lit("no arm"))
        .when(name["reward"].is_null())
        .then(pl.lit("no reward"))
        .when(told.is_null() | told.is_nan())
        .then(pl.format("reward {} is not a number", name["reward"]))
        .when(~number.is_between(0.0, most - least))
        .then(pl.format("reward {} is outside {}", name["reward"], pl.lit(run)))
    )
    number = number / (most - least)
    rows = frame.with_columns(where=where).filter(~pl.all_horizontal(pl.col(frame.columns).is_null()))
    outcome = _text("outcome") if "outcome" in frame.columns else pl.lit(None, pl.String)
    answer = outcome.replace_strict(OUTCOMES, default=0, return_dtype=pl.Int64)
    return rows.select(
        *("where", name["agent"].alias("agent"), name["arm"].alias("arm"), number.alias("reward"), told.alias("told")),
        *(time.alias("time"), answer.alias("outcome"), joins.alias("joins"), why.alias("why")),
    )


def _text(column: str) -> pl.Expr:
    import polars as pl

    return pl.col(column).cast(pl.String, strict=False).str.strip_chars().replace("", None)


def _time(frame: pl.DataFrame, column: str) -> pl.Expr:
    """Steps as they are; times in days."""
    import polars as pl

    if column == "step":
        number = _text(column).cast(pl.Float64, strict=False)
        return pl.when(number.is_finite()).then(number)
    moment = pl.col(column)
    if not frame.schema[column].is_temporal():
        moment = _moment(_text(column))
        try:
            readable = frame.select(moment.is_not_null().any()).item() or frame[column].is_null().all()
        except pl.exceptions.PolarsError:
            readable = False
        if not readable:
            shown = validation.shown(frame[column].drop_nulls()[0])
            raise InvalidInput(
                f"the log's column at must hold times such as 2026-05-01T09:30:00, 01.05.2026 09:30 or seconds since "
                f"1970, got {shown}; or name steps in a column step."
            )
    return moment.cast(pl.Datetime("us")).dt.timestamp("us") / 86_400e6


def _moment(text: pl.Expr) -> pl.Expr:
    """Times as they may be written; of several forms, each row has its own.

    A day before a month and a month before a day look alike, so only years come first, but for the forms of `DATES`.
    """
    import polars as pl

    kind = pl.Datetime("us", "UTC")
    ticks = text.cast(pl.Float64, strict=False)
    since: pl.Expr = pl.when(ticks > 1e8).then(ticks * 1e6)
    for least, unit in ((1e11, 1e3), (1e14, 1.0), (1e17, 1e-3)):
        since = pl.when(ticks > least).then(ticks * unit).otherwise(since)
    forms = [text.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False) for form in DATES]
    year_first = pl.when(text.str.contains(r"^\d{4}")).then(text)
    iso = year_first.str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
    written = [pl.when(ticks.is_null()).then(form) for form in forms]
    return pl.coalesce(since.cast(pl.Int64, strict=False).cast(kind), *written, iso)


def _warn(unusable: tuple[tuple[int, str], ...], rows: int, place: str) -> None:
    named = ", ".join(f"{place} {where} ({why})" for where, why in unusable[:NAMED])
    more = f" and {len(unusable) - NAMED:,} more" if len(unusable) > NAMED else ""
    left_out = f"{len(unusable):,} of {rows:,} rows of the log are left out"
    warnings.warn(f"{left_out}: {named}{more}.", UnusableRows, stacklevel=4)


def _gathered(found: pl.DataFrame, total: int, unusable: tuple[tuple[int, str], ...], timed: str | None) -> Past:
    import polars as pl

    rows = found.filter(~pl.col("joins"))
    agents, arms = _in_order(found["agent"].unique().to_list()), _in_order(rows["arm"].unique().to_list())
    if len(arms) < 2:
        raise InvalidInput(
            f"the log must have usable rows of at least 2 arms, got {len(arms)} in {rows.height} of {total} rows."
        )
    numbered = {
        name: pl.col(name).replace_strict(names, range(len(names)), return_dtype=pl.Int64)
        for name, names in (("agent", agents), ("arm", arms))
    }
    rows = rows.with_columns(**numbered)
    x = pl.col("reward")
    cells = rows.group_by("agent", "arm").agg(pulls=pl.len(), sums=x.sum(), squares=(x * x).sum())
    m, k = cells["agent"].to_numpy(), cells["arm"].to_numpy()
    pulls = np.zeros((len(agents), len(arms)), np.int64)
    sums, squares = np.zeros(pulls.shape), np.zeros(pulls.shape)
    for table, name in ((pulls, "pulls"), (sums, "sums"), (squares, "squares")):
        table[m, k] = cells[name].to_numpy()
    coins = bool(rows["reward"].is_in([0.0, 1.0]).all())
    joining = found.filter("joins").with_columns(agent=numbered["agent"])
    acts = None if timed is None else _acts(rows, joining, len(agents), timed)
    return Past(tuple(agents), tuple(arms), pulls, sums, squares, coins, total, unusable, acts)


def _acts(rows: pl.DataFrame, joining: pl.DataFrame, agents: int, timed: str) -> Acts:
    rows = rows.sort("agent", "time", maintain_order=True)
    joined = np.full(agents, np.nan)
    joined[joining["agent"].to_numpy()] = joining["time"].fill_null(np.nan).to_numpy()
    columns: dict[str, Any] = {name: rows[name].to_numpy() for name in ("agent", "arm", "reward", "time", "outcome")}
    return Acts(**columns, joined=joined, dated=timed != "step", enrolled=joining.height > 0)


def _in_order(names: list[str]) -> list[str]:
    try:
        return sorted(names, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(names)


_EDGES = 0.5 * (np.arange(61) / 60) ** 2
GRID, SPACING = 0.5 * (_EDGES[1:] + _EDGES[:-1]), np.diff(_EDGES)
"""Candidates of τ and ω, closer together near 0, and the width that each stands for."""
PRIOR_PULLS = 3.0
"""Pulls that the pooled variance counts for in the variance of one arm, as in the rules."""


class Posterior:
    """What a log says of everybody's means."""

    def __init__(self, past: Past) -> None:
        self.past = past
        self.noise = _noise(past)
        fits = [self._arms(tau) for tau in GRID]
        self._centre, self._error = np.array([fit[0] for fit in fits]), np.array([fit[1] for fit in fits])
        centre, among = self._centre[:, :, None], self._error[:, :, None] + GRID**2
        weight = 1.0 / among
        middle = (weight * centre).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)
        away = (weight * (centre - middle) ** 2).sum(axis=1)
        fit = np.array([fit[2] for fit in fits])[:, None]
        fit = fit - 0.5 * (np.log(among).sum(axis=1) + np.log(weight.sum(axis=1)) + away)
        joint = np.exp(fit - fit.max()) * SPACING[:, None] * SPACING
        self._joint = joint / joint.sum()

    def _arms(self, tau: float) -> tuple[Floats, Floats, float]:
        """Given τ: â_k, its variance, and the log-likelihood with a_k integrated out (a flat prior)."""
        n = np.maximum(self.past.pulls, 1)
        seen, own, variance = self.past.pulls > 0, self.past.sums / n, self.noise / n + tau**2
        weight = seen / variance
        total = weight.sum(axis=0)
        centre = (weight * own).sum(axis=0) / total
        away = (weight * (own - centre) ** 2).sum()
        fit = -0.5 * ((np.log(variance) * seen).sum() + np.log(total).sum() + away)
        return centre, 1.0 / total, float(fit)

    @cached_property
    def spread(self) -> float:
        """τ̂: how much agents differ, the posterior mean."""
        return float(GRID @ self._joint.sum(axis=1))

    @cached_property
    def arms_spread(self) -> float:
        """ω̂: how much arms differ, the posterior mean."""
        return float(GRID @ self._joint.sum(axis=0))

    def means(self) -> Floats:
        """μ̃_km of docs/planning.md, past: the fewer pulls, the closer to the arm's a_k."""
        centre, strength = self._arms(self.spread)[0], self.noise / self.spread**2
        return np.clip((self.past.sums + strength * centre) / (self.past.pulls + strength), 0.0, 1.0)

    @cached_property
    def law(self) -> Law:
        """Coins if every reward is 0 or 1, otherwise Beta rewards of the variance that was seen within streams."""
        if self.past.coins:
            return Bernoulli()
        mu, n = self.means(), self.past.pulls
        ratio = float((n * mu * (1 - mu)).sum() / (n * self.noise).sum())
        return Beta(float(np.clip(ratio - 1.0, 0.1, 1e4)))

    def draw(self, rng: np.random.Generator, agents: int | None = None) -> Floats:
        """Draw everybody's means: the logged agents', or those of ``agents`` others like them."""
        at = int(np.searchsorted(np.cumsum(self._joint.ravel()), rng.random()))
        i, j = np.unravel_index(min(at, self._joint.size - 1), self._joint.shape)
        tau, omega, s = GRID[i], GRID[j], self._error[i]
        weight = 1.0 / (s + omega**2)
        overall = rng.normal((weight * self._centre[i]).sum() / weight.sum(), weight.sum() ** -0.5)
        precision = 1.0 / s + 1.0 / omega**2
        arms = rng.normal((self._centre[i] / s + overall / omega**2) / precision, precision**-0.5)
        if agents is not None:
            return np.clip(rng.normal(arms, tau, (agents, len(arms))), 0.0, 1.0)
        precision = self.past.pulls / self.noise + 1.0 / tau**2
        own = (self.past.sums / self.noise + arms / tau**2) / precision
        return np.asarray(np.clip(rng.normal(own, precision**-0.5), 0.0, 1.0))


def _noise(past: Past) -> Floats:
    """W_k: squared deviations from own means, pooled over agents, and a little over arms; [0, 1] allows m(1−m)."""
    n = np.maximum(past.pulls, 1)
    squares = np.maximum(past.squares - past.sums**2 / n, 0.0).sum(axis=0)
    freedom = (n - 1).sum(axis=0)
    mean = past.sums.sum() / past.pulls.sum()
    pooled = (squares.sum() + PRIOR_PULLS * mean * (1 - mean)) / (freedom.sum() + PRIOR_PULLS)
    return np.asarray(np.clip((squares + PRIOR_PULLS * pooled) / (freedom + PRIOR_PULLS), 1e-4, 0.25))
