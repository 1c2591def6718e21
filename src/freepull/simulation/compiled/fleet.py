"""Trials that somebody steers from outside, many at once on compiled lanes: each with a clock and a seed of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull.compiling import jit
from freepull.errors import AgentError, InvalidInput
from freepull.game import Game
from freepull.numerics import TABLE, fill_keys
from freepull.principal.record import UNITS
from freepull.simulation.compiled.coding import code
from freepull.simulation.compiled.formulas import note_paid
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.offering import takes
from freepull.simulation.compiled.playing import pick_one, pull_one
from freepull.simulation.compiled.state import BANNED_UNTIL, LANE, OFFER, PLACE, REFUSALS, Block, Ints
from freepull.simulation.experiment import Experiment

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
                pull_one(lanes, None, None, lane, terms.K)


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
