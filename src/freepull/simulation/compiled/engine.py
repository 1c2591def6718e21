"""The compiled engine: blocks of runs on threads, in short slices; and trials that are steered from outside."""

from __future__ import annotations

import os
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numba.core import event
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.errors import AgentError, InvalidInput
from freepull.game import Game
from freepull.numerics import TABLE, fill_keys
from freepull.principal import rules
from freepull.principal.record import UNITS
from freepull.simulation import readable
from freepull.simulation.compiled.certified import CertifiedKernel
from freepull.simulation.compiled.coding import Coded, code
from freepull.simulation.compiled.comparisons import ComparisonsKernel
from freepull.simulation.compiled.formulas import note_paid
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import take_stock, takes
from freepull.simulation.compiled.paper import PaperKernel, PassiveKernel
from freepull.simulation.compiled.playing import observe, pick_one, pull_one
from freepull.simulation.compiled.rounds import PopulationKernel
from freepull.simulation.compiled.state import (
    ACTIVE,
    BANNED_UNTIL,
    DECIDED_AT,
    DECLARED,
    LANE,
    MEANS,
    OFFER,
    PAID,
    PLACE,
    REFUSALS,
    REFUSED,
    Block,
    Floats,
    Ints,
)
from freepull.simulation.experiment import Experiment
from freepull.simulation.results import Checkpoint, Outcome, regret_by_arm

SLICE = 0.2
"""Seconds that a kernel may run before it is asked whether to stop."""
PATIENCE = 5.0
"""Seconds for which threads are waited for that were asked to stop."""
Given = TypeVar("Given")
Made = TypeVar("Made")
LANES = 64
"""Lanes that a block should have at least, if there are enough runs."""
COMPILING = "compiling the engine for this machine: some ten seconds, once"


class Kernel(Protocol):
    """What a rule gives the engine: one class and its kernels, in one file."""

    proven: bool
    silent_until: int
    """The last step before whose end the rule does not look."""

    def begin(self, block: Block) -> None:
        """Look for the first time, at the end of the silent steps."""

    def advance(self, block: Block, until: int) -> int:
        """Play on under the rule, to a step at most; return the last one played."""

    def bounds(self, block: Block) -> Floats:
        """Return what stops the trial, per (run, arm)."""


KERNELS: dict[type, Callable[[Experiment, Coded], Kernel]] = {
    rules.Certified: CertifiedKernel,
    rules.Comparisons: ComparisonsKernel,
    rules.Paper: PaperKernel,
    rules.Passive: PassiveKernel,
    rules.Population: PopulationKernel,
}


class Stopped(Exception):
    """The user wants to stop."""


def play(experiment: Experiment, workers: int | None, lanes: int = LANES) -> Iterator[Outcome]:
    """Play all runs and yield their outcomes as blocks finish; the number of workers changes no bit."""
    announce_compilation()
    player = Player(experiment)
    threads = workers or os.cpu_count() or 1
    most = lanes // experiment.shape[0]
    if player.coded.together and most >= WIDTH // 2:
        most = -(-most // WIDTH) * WIDTH
    size = max(1, min(most, -(-len(experiment.runs) // threads)))
    blocks = [experiment.runs[at : at + size] for at in range(0, len(experiment.runs), size)]
    for _, outcomes in in_threads(player.play, blocks, threads, player.stop.set):
        yield from outcomes


def in_threads(
    work: Callable[[Given], Made], items: Iterable[Given], threads: int, stop: Callable[[], None] = lambda: None
) -> Iterator[tuple[int, Made]]:
    """Do some work on threads; yield the number of each item and what came of it, in the order in which they end.

    Ctrl-C may come at any moment: the queues keep no lock then, as those of ``concurrent.futures`` may, which would
    wait for ever. Threads whose work is given up are asked to stop, and waited for in vain for some seconds at most.
    """
    left = enumerate(items)
    first = list(islice(left, 2 * threads))  # so that nobody waits for the next one
    if threads == 1 or len(first) < 2:
        yield from ((number, work(item)) for number, item in chain(first, left))
        return
    todo, done = SimpleQueue[tuple[int, Given] | None](), SimpleQueue[tuple[int, Made | None, BaseException | None]]()
    waiting = started = 0

    def serve() -> None:
        for number, item in iter(todo.get, None):
            try:
                done.put((number, work(item), None))
            except BaseException as error:
                done.put((number, None, error))
        done.put((-1, None, None))

    try:
        for _ in range(min(threads, len(first))):
            start_new_thread(serve, ())
            started += 1
        for one in first:
            todo.put(one)
            waiting += 1
        while waiting:
            number, found, error = done.get()
            waiting -= 1
            if error is not None:
                raise error
            for one in islice(left, 1):
                todo.put(one)
                waiting += 1
            yield number, cast(Made, found)
    except BaseException:
        stop()
        with suppress(Empty):
            while True:
                todo.get_nowait()
        raise
    finally:
        for _ in range(started):
            todo.put(None)
        with suppress(Empty):
            while started:
                started -= done.get(timeout=PATIENCE)[0] < 0


class Player:
    """Plays blocks of one experiment."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.coded = experiment, code(experiment)
        self.kernel: Kernel = KERNELS[type(experiment.principal.rule)](experiment, self.coded)
        self.stop = threading.Event()
        self.checkpoints = frozenset(experiment.checkpoints)

    def play(self, runs: tuple[int, ...]) -> list[Outcome]:
        """Play one block to its end; runs whose weights are their own are played one by one.

        If somebody chose an arm that there is not, the readable engine says so, or that it did not matter.
        """
        block = Block(self.experiment, self.coded, runs)
        if not block.shares_weights:
            return [outcome for run in runs for outcome in self.play((run,))]
        traces: list[list[Checkpoint]] = [[] for _ in runs]
        T, silent = self.experiment.horizon, self.kernel.silent_until
        stops = sorted({*self.experiment.checkpoints, silent, T})
        if silent == 0:
            self._begin(block)
        for stop in stops:
            while block.t < stop and not self._over(block):
                if block.t < silent or self._all_decided(block):
                    self._observe(block, stop)
                else:
                    self._advance(block, stop)
            if stop == silent and stop > 0:
                self._begin(block)
            if stop in self.checkpoints:
                self._trace(block, stop, traces)
        if block.lanes.formulas.strayed[0]:
            return [readable.play(self.experiment, run) for run in runs]
        return self._outcomes(block, traces)

    def _begin(self, block: Block) -> None:
        self._take_stock(block)
        self.kernel.begin(block)

    def _take_stock(self, block: Block) -> None:
        take_stock(block.lanes.told, block.state.seats, block.sums)

    def _all_decided(self, block: Block) -> bool:
        return bool((block.state.trials[:, DECIDED_AT] > 0).all())

    def _over(self, block: Block) -> bool:
        return self.experiment.until == "decided" and self._all_decided(block)

    def _observe(self, block: Block, until: int) -> None:
        b, steps = block, _first_steps(block)
        b.lay_out()
        while b.t < until:
            stop, began = min(until, b.t + steps), time.perf_counter()
            observe(b.lanes, b.strategies, self.coded.terms.K, b.t, stop)
            steps = self._next_steps(stop - b.t, began)
            b.t = stop
        b.put_back()

    def _advance(self, block: Block, until: int) -> None:
        steps = _first_steps(block)
        while block.t < until and not self._all_decided(block):
            stop = min(until, block.t + steps)
            began, before = time.perf_counter(), block.t
            block.t = self.kernel.advance(block, stop)
            steps = self._next_steps(block.t - before, began)

    def _next_steps(self, steps: int, began: float) -> int:
        """Return how many steps fit into a slice, from how long the last ones took."""
        if self.stop.is_set():
            raise Stopped
        return max(1, min(4 * steps, int(SLICE * steps / max(time.perf_counter() - began, 1e-6))))

    def _trace(self, block: Block, t: int, traces: list[list[Checkpoint]]) -> None:
        trials, arms, K = block.state.trials, block.state.arms, self.experiment.shape[1]
        self._take_stock(block)
        means, bounds, pulls = self._means(block), self.kernel.bounds(block), block.final_counts()[0]
        for run, trace in enumerate(traces):
            if self.experiment.until == "decided" and 0 < trials[run, DECIDED_AT] < t:
                continue
            regrets, paid = regret_by_arm(block.games[run], pulls[run]), int(trials[run, PAID])
            for k in range(K):
                active, own = bool(arms[run * K + k, ACTIVE]), int(pulls[run, :, k].sum())
                seen = float(means[run, k]), float(bounds[run, k])
                trace.append(Checkpoint(t, k, active, *seen, paid, own, regrets[k]))

    def _means(self, block: Block) -> Floats:
        """Global sample means per (run, arm), as `RuleState.mean` has them."""
        M, K = self.experiment.shape
        means = (block.state.arms[:-K, MEANS] * 2.0**-40 / M).reshape(-1, K)
        if any(game.weighted for game in block.games):
            pulls, sums = block.counts(told=True)
            for run, game in enumerate(block.games):
                if game.weighted:
                    means[run] = _weighted(game, pulls[run], sums[run])
        return means

    def _outcomes(self, block: Block, traces: list[list[Checkpoint]]) -> list[Outcome]:
        state, trials, (M, K) = block.state, block.state.trials, self.experiment.shape
        self._take_stock(block)
        pulls, sums = block.final_counts()
        active = state.arms[:-K, ACTIVE].reshape(-1, K) > 0
        leaders = np.argmax(np.where(active, self._means(block), -np.inf), axis=1)
        leaders = np.where(trials[:, DECLARED] >= 0, trials[:, DECLARED], leaders)
        paid = state.paid.reshape(-1, M, K)
        banned = (state.seats[:, BANNED_UNTIL].reshape(-1, M) > 0).sum(axis=1)
        stepwise, irregular = isinstance(self.experiment.principal.rule, rules.Paper), self._irregular(block)
        found = []
        for i, run in enumerate(block.runs):
            at, arm = int(trials[i, DECIDED_AT]), int(leaders[i])
            found.append(
                Outcome(
                    run=run,
                    game=block.games[i],
                    arm=arm,
                    correct=block.games[i].is_best(arm),
                    decided=at > 0,
                    certified=at > 0 and self.kernel.proven and not (stepwise and irregular[i]),
                    decided_at=at or None,
                    offered=int(trials[i, PAID] + trials[i, REFUSED]),
                    refused=int(trials[i, REFUSED]),
                    banned=int(banned[i]),
                    pulls=pulls[i],
                    sums=sums[i],
                    paid=paid[i],
                    received=None if state.priced is None else state.priced.received.reshape(-1, M)[i],
                    trace=traces[i],
                    survives=self._survives(block, i) if at > 0 and self.experiment.margins else None,
                )
            )
        return found

    def _irregular(self, block: Block) -> NDArray[np.bool_]:
        """Return in which runs somebody was told of twice in one step before the end, as `Trial.regular` has it."""
        twice = block.lanes.world.twice[block.state.seats[:, LANE]].reshape(len(block.runs), -1)
        decided = block.state.trials[:, DECIDED_AT]
        end = np.where((self.experiment.until == "decided") & (decided > 0), decided, self.experiment.horizon)
        return np.asarray(((twice > 0) & (twice <= end[:, None])).any(axis=1))

    def _survives(self, block: Block, run: int) -> float | None:
        """Return γ* of a run that is decided, if the rule has one."""
        return (
            self.kernel.survives(block, run) if isinstance(self.kernel, CertifiedKernel | ComparisonsKernel) else None
        )


def _first_steps(block: Block) -> int:
    """Return how many steps surely take much less than a slice; KL indices, Beta draws and formulas may take long."""
    nanoseconds = 20.0 + block.experiment.shape[1] * (
        100.0 if block.coded.deep or block.coded.picking is not None else 1.0
    )
    return max(1, int(2e7 / (nanoseconds * len(block.lanes.arm))))


def _weighted(game: Game, pulls: Ints, sums: Ints) -> Floats:
    """Σ_m p_m·μ̂_km, added up agent by agent as in `Record.weighted_mean`."""
    total = np.zeros(game.arms)
    for m in range(game.agents):
        total = total + game.weights[m] * np.where(pulls[m] > 0, sums[m] / UNITS / np.maximum(pulls[m], 1), 0.0)
    return np.asarray(total)


class _Notice(event.Listener):
    """Says so when the first compilation starts, on a terminal only."""

    said = False

    def on_start(self, event: Any) -> None:
        """A function is being compiled, not read from the cache."""
        if not self.said and sys.stderr.isatty():
            print(COMPILING, file=sys.stderr, flush=True)
        self.said = True

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


def announce_compilation() -> None:
    """From now on, say once that something is being compiled."""
    global _listener
    if _listener is None:
        _listener = _Notice()
        register: Any = event.register
        register("numba:compile", _listener)


_listener: _Notice | None = None


_UNITS = float(UNITS)


class Fleet:
    """Several trials of one experiment in which offers come from outside, and everybody acts in every step."""

    def __init__(self, experiment: Experiment, size: int) -> None:
        if experiment.game_of(0).streams.kind == TABLE and not isinstance(experiment.game, Game):
            raise InvalidInput("game must not be drawn where its rewards are values from a table; give one game.")
        self.experiment, self.coded = experiment, code(experiment)
        self.block = Block(experiment, self.coded, tuple(range(size)))
        self.clocks: Ints = np.zeros(size, np.int64)
        """Steps played, by trial."""
        self.games = list(self.block.games)
        M, K = experiment.shape
        seats = self.block.state.seats
        self._lanes = seats[:, LANE].reshape(size, M)
        self._positions = (seats[:, PLACE, None] + WIDTH * np.arange(K)).reshape(size, M, K)

    def begin(self, trial: int, seed: int, run: int) -> None:
        """Begin a trial anew, as run ``run`` of ``seed``."""
        own, b = replace(self.experiment, seed=seed), self.block
        game, (M, _) = own.game_of(run), own.shape
        lanes, at, streams = self._lanes[trial], self._positions[trial], b.lanes.streams
        fill_keys(streams.keys, np.uint64(seed), np.array([run], np.uint64), lanes)
        self.clocks[trial], self.games[trial] = 0, game
        streams.mean[at], b.lanes.root[at] = np.inf, 0.0
        streams.cells[2 * at] = 0
        parameters = game.streams.parameters
        streams.cells[2 * at + 1] = parameters[:, :, 0].astype(np.uint64) if streams.laws is None else 0
        if streams.laws is not None and game is not self.experiment.game:
            streams.laws[1][lanes] = parameters
        if b.strategies.deep is not None:
            b.strategies.deep[0][at], b.strategies.deep[1][at] = np.inf, 0.0
        b.lanes.arm[lanes] = 0
        seats = b.state.seats[trial * M : (trial + 1) * M]
        seats[:, BANNED_UNTIL:OFFER] = 0
        b.state.paid[trial * M : (trial + 1) * M] = 0
        if b.state.losses is not None:
            b.state.losses[trial * M : (trial + 1) * M] = game.losses
        formulas = b.lanes.formulas
        for kept in (formulas.memory, formulas.paid, formulas.acts):
            kept[lanes] = 0
        for kept in (formulas.pulls, formulas.totals, formulas.squares) if len(formulas.pulls) else ():
            kept[at] = 0.0

    def step(self, playing: NDArray[np.bool_], arms: Ints, prices: Ints) -> Ints:
        """Play a step of some of the trials; return what was paid in each.

        ``arms`` are those of offers, by trial and agent, −1 for none, and ``prices`` theirs, in units of 2⁻³⁰. Banned
        agents get no offer.
        """
        b, paid = self.block, np.zeros(len(self.clocks), np.int64)
        _step(b.lanes, b.strategies, b.state, self.coded.terms, self.clocks, playing, arms, prices, paid)
        if b.lanes.formulas.strayed[0]:
            b.lanes.formulas.strayed[0] = 0
            raise AgentError(f"agents must choose an arm from 0 to {self.experiment.shape[1] - 1}; mend their choice.")
        return paid

    @property
    def banned(self) -> NDArray[np.bool_]:
        """Who could get no offer now, by trial and agent."""
        until = self.block.state.seats[:, BANNED_UNTIL].reshape(self._lanes.shape)
        return np.asarray(until > self.clocks[:, None])


@jit
def _step(
    lanes: Any, strategies: Any, state: Any, terms: Any, clocks: Any, playing: Any, arms: Any, prices: Any, paid: Any
) -> None:
    """Let everybody act once, in the trials that are played."""
    for run in range(clocks.shape[0]):
        if playing[run]:
            clocks[run] += 1
            for m in range(terms.agents):
                seat = np.uint64(run * terms.agents + m)
                lane = np.uint64(state.seats[seat, LANE])
                pick_one(lanes, strategies, lane, terms.K, clocks[run])
                if arms[run, m] >= 0 and state.seats[seat, BANNED_UNTIL] < clocks[run]:
                    offered, units = np.uint64(arms[run, m]), prices[run, m]
                    paid[run] += _answered(lanes, state, terms, terms.answers, seat, lane, offered, units, clocks[run])
                pull_one(lanes, None, None, lane, terms.K, clocks[run])


@jit
def _answered(
    lanes: Any, state: Any, terms: Any, answers: Any, seat: Any, lane: Any, offered: Any, units: Any, t: int
) -> Any:
    """Let an agent answer an offer; return what it is paid."""
    price = float(units) / _UNITS
    if answers is None or takes(lanes, state, terms, answers, seat, seat % np.uint64(terms.agents), offered, price, t):
        lanes.arm[lane] = np.int64(offered)
    if lanes.arm[lane] == np.int64(offered):
        state.paid[seat, offered] += 1
        note_paid(lanes.formulas, lane, price)
        return units
    state.seats[seat, REFUSALS] += 1
    if state.seats[seat, REFUSALS] >= terms.ban_after:
        state.seats[seat, BANNED_UNTIL] = t + terms.ban_length
    return np.int64(0)
