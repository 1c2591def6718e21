"""The facade: `simulate` checks, chooses an engine, runs and gathers the result; `compare` does so on the same luck."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from freepull import showing, validation
from freepull.agents import Agent, Mind
from freepull.agents.activity import Activity
from freepull.agents.answers import Answer
from freepull.agents.leaving import Leaving
from freepull.compiling import plainly
from freepull.disturbances import Disturbance
from freepull.errors import FreepullError, InvalidInput, ReadableEngine
from freepull.game import Game
from freepull.panels import Panel
from freepull.principal import Checks, Principal, rules
from freepull.simulation.baselines import Mechanism
from freepull.simulation.experiment import Experiment, GameMaker, check
from freepull.simulation.readable import play, play_in_processes
from freepull.simulation.results import MEANS, RATES, Collector, Outcome, Result, interval

ENGINES = ("auto", "compiled", "readable")
KEEP = ("runs", "agents", "survives", "checks")
Wanted = bool | Callable[[int], None] | None
"""A bar, no bar, or a function that is told how many more runs are finished; None: if it is a terminal."""
LITTLE = 2_000
"""Agent-steps of a simulation that is over before the compiler would be loaded."""
_SAID: set[str] = set()
"""What was said already."""


def simulate(
    game: Game | GameMaker | Panel,
    *,
    principal: Principal | Mechanism,
    horizon: int | None = None,
    agents: Agent | Mind | type[Agent | Mind] | Sequence[Agent | Mind] | None = None,
    answers: Answer | type[Answer] | Sequence[Answer] | None = None,
    activity: Activity | type[Activity] | Sequence[Activity] | None = None,
    leaving: Leaving | type[Leaving] | Sequence[Leaving] | None = None,
    disturbances: Disturbance | Sequence[Disturbance] | None = None,
    runs: int | Sequence[int] = 100,
    seed: int = 0,
    workers: int | None = None,
    engine: str = "auto",
    until: str = "horizon",
    keep: str = "runs",
    trace: int | Sequence[int] | None = None,
    progress: Wanted = None,
) -> Result:
    """Simulate a principal and learning agents, run by run.

    Parameters
    ----------
    game
        A game, or a function from a NumPy generator to a game, called afresh for every run; or a panel such as
        `fp.panels.street()`, which says horizon, agents, answers, activity and leaving where you do not.
    principal
        The settings of the principal; or a mechanism of others (`fp.baselines`), which has agents of its own kind.
    horizon
        T, the number of steps of a run; a panel has its own.
    agents, answers
        How agents pick, and how they answer offers: one object for all (`AlphaUCB(2)` and `Always()` by default), or a
        sequence of M. An agent of your own needs `pick(t)` and `learn(arm, reward)`; or it is a formula, such as an
        `agents.Indexed`, which the compiled engine runs too; or it has one mind for all, `agents.Mind`: `act(view)` and
        `learn(arm, reward, paid)`.
    activity, leaving
        How often agents act, and when they leave for good, in the same way: `EveryStep()` and `Stays()` by default.
        An agent who is idle or has left is not asked, nothing is told of it, and its clock stands still.
    disturbances
        In which ways the world is not as proofs assume, one or several (`fp.disturbances`); none by default.
    runs
        How many runs (0…runs−1), or run numbers, in a list or an array: a run can be repeated alone.
    seed
        A run is a function of the parameters, the seed and its number; nothing else changes a bit of it.
    workers
        Threads of the compiled engine (all cores by default), or processes of the readable one (one by default).
    engine
        "compiled"; "readable", step by step, for any agent; "auto" takes the compiled one where it can, and says so
        once where it cannot.
    until
        "horizon": agents play on to T after the decision; "decided": the run ends there.
    keep
        "runs"; "agents" for one row per run and agent as well; "survives" for a column that says how far every verdict
        survives (`rules.Certified`, `Verdict.survives`), which takes up to three times as long; "checks" for the
        evidence of the checks for common shocks and drift (`Checks`), which only the readable engine runs.
    trace
        Record active arms, means, bounds and payments at these steps, or every so many steps.
    progress
        Show a bar; by default, if standard error is a terminal. Or a function, told how many more runs are finished.
    """
    validation.one_of("engine", engine, ENGINES)
    validation.one_of("keep", keep, KEEP)
    if workers is not None:
        workers = validation.whole("workers", workers, 1)
    given: dict[str, Any] = {
        "horizon": horizon,
        "agents": agents,
        "answers": answers,
        "activity": activity,
        "leaving": leaving,
        "disturbances": disturbances,
    }
    panel = game if isinstance(game, Panel) else Panel(game, horizon=cast(int, horizon))
    panel = replace(panel, **{name: value for name, value in given.items() if value is not None})
    baseline = principal if isinstance(principal, Mechanism) else None
    experiment = check(
        panel.game, panel.agents, panel.answers, principal if baseline is None else Principal(rules.Passive()),
        panel.horizon, runs, seed, until, trace,
        activity=panel.activity, leaving=panel.leaving, disturbances=panel.disturbances,
    )  # fmt: skip
    if baseline is not None:
        experiment = _with_baseline(experiment, baseline, given, keep)
    experiment = replace(experiment, margins=keep == "survives", checks=Checks() if keep == "checks" else None)
    _say_if_futile(experiment)
    chosen = _engine(engine, experiment)
    collector = Collector(experiment, keep)
    started = time.perf_counter()
    interrupted = False
    try:
        with progress_bar("simulating", len(experiment.runs), progress) as advance:
            for outcome in _outcomes(chosen, experiment, workers):
                collector.add(outcome)
                advance(1)
    except KeyboardInterrupt:
        interrupted = True
        kept = f"{len(collector.rows)} of {len(experiment.runs)} runs were finished and kept"
        warnings.warn(f"interrupted: {kept}.", stacklevel=2)
    seconds = time.perf_counter() - started
    return collector.result(engine=chosen, seconds=seconds, interrupted=interrupted)


def _with_baseline(experiment: Experiment, baseline: Mechanism, given: dict[str, Any], keep: str) -> Experiment:
    """Return the experiment with a mechanism of others; refuse what it has no place for."""
    for name in ("agents", "answers"):
        if given[name] is not None:
            raise InvalidInput(f"{name} must be left out with {type(baseline).__name__}, which has its own.")
    for name, wanted in (("activity and leaving", not experiment.always_there),
                         ("disturbances", bool(experiment.disturbances)),
                         ("until='decided'", experiment.until == "decided"),
                         (f"keep={keep!r}", keep in ("survives", "checks"))):  # fmt: skip
        if wanted:
            raise InvalidInput(
                f"{name} must be left out with {type(baseline).__name__}, whose agents act in every step to the end."
            )
    baseline.check(experiment.game_of(experiment.runs[0]), experiment.horizon)
    return replace(experiment, baseline=baseline)


def _say_if_futile(experiment: Experiment) -> None:
    if experiment.futile is not None:
        name = type(experiment.principal.rule).__name__
        _say_once(f"rules.{name} pays for pulls here, but can never decide, because {experiment.futile}.")


def _engine(wanted: str, experiment: Experiment) -> str:
    """Choose the engine; say so if the compiled one was to be expected and cannot be used."""
    if wanted == "readable":
        return wanted
    from freepull.simulation.compiled.coding import unsupported

    if experiment.baseline is not None:
        from freepull.simulation.compiled.baselines import unsupported as without_kernel

        reason = without_kernel(experiment.baseline) or unsupported(experiment)
    else:
        reason = unsupported(experiment) if experiment.checks is None else "only the readable one runs checks"
    if reason is None:
        return "readable" if wanted == "auto" and _is_little(experiment) else "compiled"
    if wanted == "compiled":
        raise InvalidInput(f"engine must be 'readable' or 'auto' here, because {reason}; got 'compiled'.")
    _say_once(f"using the readable engine, which is slower, because {reason}.", ReadableEngine)
    return "readable"


def _is_little(experiment: Experiment) -> bool:
    """Say whether it is not worth while to load the compiler, unless that has happened already."""
    steps = experiment.shape[0] * experiment.horizon * len(experiment.runs)
    return steps <= LITTLE and "numba" not in sys.modules


def _played_plainly(experiment: Experiment, run: int) -> Outcome:
    """Play a run without machine code: the same bits, unless Python refuses what a processor does, such as 1/0."""
    try:
        with plainly(), np.errstate(all="ignore"):
            return play(experiment, run)
    except FreepullError:
        raise
    except (ArithmeticError, ValueError):
        return play(experiment, run)


def _say_once(what: str, kind: type[Warning] = UserWarning) -> None:
    """Warn whoever called `simulate`, but not of the same thing again."""
    if what not in _SAID:
        _SAID.add(what)
        warnings.warn(what, kind, stacklevel=4)


def _outcomes(engine: str, experiment: Experiment, workers: int | None) -> Iterator[Outcome]:
    if engine == "readable":
        return _played(experiment, workers or 1)
    if experiment.baseline is not None:
        from freepull.simulation.compiled.baselines import play as play_baseline

        return play_baseline(experiment, workers)
    from freepull.simulation.compiled.engine import play as play_compiled

    return play_compiled(experiment, workers)


def _played(experiment: Experiment, workers: int) -> Iterator[Outcome]:
    if workers > 1:
        return play_in_processes(experiment, workers)
    little = _is_little(experiment)
    return (_played_plainly(experiment, run) if little else play(experiment, run) for run in experiment.runs)


@contextmanager
def progress_bar(title: str, total: int, wanted: Wanted, unit: str = "runs") -> Iterator[Callable[[int], None]]:
    """Yield a function that moves the bar on; ``wanted`` None means: if standard error is a terminal."""
    if callable(wanted):
        yield wanted
        return
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    left = TextColumn(f"{unit}, left")
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), left, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda n: bar.advance(task, n)


DIFFERENCES = {
    "quantity": pl.String, "principal": pl.String, "against": pl.String, "difference": pl.Float64, "low": pl.Float64,
    "high": pl.Float64, "width": pl.Float64, "runs": pl.Int64,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` found: the result of every principal, and the differences between them, run by run."""

    results: Mapping[str, Result]
    """By name; run 17 of one met the same game, agents and rewards as run 17 of another."""
    against: str
    """Whom the others are compared with."""

    def differences(self, against: str | None = None) -> pl.DataFrame:
        """Return how much more of everything each principal has than one of them, with paired 95 % intervals.

        ``width`` is the standard error as a share of what it would be without pairs, from as many runs with luck of
        their own. ``decided_at`` is over the runs that both have decided. All intervals are Student's: those of rates
        need many runs, and are points where no run differs.
        """
        other = self.against if against is None else validation.one_of("against", against, self.results)
        rows = []
        for name in self.results:
            if name != other:
                for quantity in (*RATES, *MEANS, "decided_at"):
                    one, two = self._paired(name, other, quantity)
                    rows.append((quantity, name, other, *interval(one - two), _narrower(one, two), len(one)))
        return pl.DataFrame(rows, schema=DIFFERENCES, orient="row")

    def _paired(self, one: str, two: str, quantity: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a quantity of the runs that both have."""
        frames = [self.results[name].frame.select("run", pl.col(quantity).cast(pl.Float64)) for name in (one, two)]
        both = frames[0].join(frames[1], on="run", suffix="_other").drop_nulls().sort("run")
        return both[quantity].to_numpy(), both[f"{quantity}_other"].to_numpy()

    def summary(self) -> pl.DataFrame:
        """Return what each principal has by itself, as `Result.summary`, with a column for its name."""
        each = [result.summary().with_columns(pl.lit(name).alias("principal")) for name, result in self.results.items()]
        return pl.concat(each).select("principal", pl.exclude("principal"))

    def __repr__(self) -> str:
        with pl.Config(tbl_rows=-1):
            return f"Comparison({', '.join(self.results)})\n{self.summary()}\n{self.differences()}"

    def _repr_html_(self) -> str:
        """Return tables for a notebook."""
        own, between = self.summary(), self.differences()
        runs = max(result.frame.height for result in self.results.values())
        return showing.table(f"{runs:,} runs, the same luck for all", own.columns, own.rows()) + showing.table(
            f"differences from {self.against}, in pairs", between.columns, between.rows()
        )


def _narrower(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """Return the standard error of pairs as a share of that without pairs; NaN where both are 0."""
    if len(one) < 2:
        return math.nan
    apart = math.sqrt(float(np.var(one, ddof=1) + np.var(two, ddof=1)))
    return float(np.std(one - two, ddof=1)) / apart if apart > 0 else math.nan


def compare(
    principals: Mapping[str, Principal | Mechanism],
    game: Game | GameMaker | Panel,
    *,
    against: str | None = None,
    **settings: Any,
) -> Comparison:
    """Simulate several principals on the same luck: run by run the same game, agents, rewards, coins and absences.

    What they have in common cancels in the differences of pairs, so that fewer runs say as much.

    Parameters
    ----------
    principals
        At least two of them, by name; among them mechanisms of others (`fp.baselines`), which have agents of their own
        kind: ``agents`` and ``answers`` are those of the principals.
    game
        As for `simulate`; a function that draws one draws the same for all in a run.
    against
        Whom the others are compared with: the first, unless another is named.
    settings
        All else that `simulate` takes: horizon, agents, answers, runs, seed, trace …

    >>> import freepull as fp
    >>> rules = {"sure": fp.Principal(fp.rules.Certified(0.01)), "passive": fp.Principal(fp.rules.Passive())}
    >>> found = compare(rules, fp.instances.toy(), horizon=400, runs=5, progress=False)
    >>> found.differences().filter(quantity="offered")["difference"].to_list()[0] < 0
    True
    """
    if not isinstance(principals, Mapping) or len({str(name) for name in principals}) < max(2, len(principals)):
        raise InvalidInput(f"principals must be two or more, by names that differ, got {validation.shown(principals)}.")
    for name, one in principals.items():
        what = "a freepull.Principal(...), or one of freepull.baselines"
        validation.instance(f"principals[{name!r}]", one, (Principal, Mechanism), what)
    first = next(iter(principals))
    other = first if against is None else validation.one_of("against", against, principals)
    own = {name: value for name, value in settings.items() if name not in ("agents", "answers")}
    results = {
        str(name): simulate(game, principal=it, **(own if isinstance(it, Mechanism) else settings))
        for name, it in principals.items()
    }
    return Comparison(results, str(other))
