"""The readable engine: Algorithm 1 step by step, in the order of docs/mechanics.md. It is the truth.

The compiled engine must agree with it path by path; a user's own agents run here, in several processes if asked for.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from freepull import registry, validation
from freepull.agents import Agent, Mind, OnTable, View
from freepull.agents.answers import Situation
from freepull.disturbances import own_key
from freepull.errors import AgentError, FreepullError, InvalidInput
from freepull.game import Game
from freepull.principal import Offer, Trial
from freepull.principal.record import UNITS, units
from freepull.randomness import (
    ACTIVITY,
    ANSWER,
    ANSWER_COIN,
    ANSWER_LOT,
    CHOICE,
    LEAVING,
    PRESENCE,
    REPORT,
    REWARD,
    WORLD,
    key,
    uniform,
    word,
)
from freepull.simulation.experiment import Experiment, start
from freepull.simulation.results import Checkpoint, Outcome, regret_by_arm

Watch = Callable[[int, int, int, float, bool], None]
"""Called as watch(t, agent, arm, reward, paid) for every pull."""


class Standing(NamedTuple):
    """What an agent may know of the trial."""

    step: int
    phase: str | None
    banned_until: int


class Seat:
    """One agent at its own bandit: when it is there, strategy, way of answering, and its stacks of rewards."""

    def __init__(self, experiment: Experiment, game: Game, run: int, number: int) -> None:
        self.number, self.game = number, game
        self.answer = copy.deepcopy(experiment.answers[number])
        self.strategy: Agent | Mind = copy.deepcopy(experiment.agents[number])
        self.mind = self.strategy if isinstance(self.strategy, Mind) else None
        self.hears_of_bonuses = registry.hears_of_bonuses(self.strategy)
        self.horizon = experiment.horizon
        self.activity, self.leaving = experiment.activity[number], experiment.leaving[number]
        purposes = (REWARD, CHOICE, ANSWER, PRESENCE, ACTIVITY, LEAVING)
        self.reward_key, choice_key, self.answer_key, self.presence_key, self.activity_key, self.leaving_key = (
            key(experiment.seed, run, number, purpose) for purpose in purposes
        )
        begin = getattr(self.strategy, "start", None)
        if begin is not None:
            begin(game.arms, choice_key)
        self.pulls = [0] * game.arms
        self.sums = [0.0] * game.arms
        self.paid = [0.0] * game.arms
        self.offer: Offer | None = None
        """The offer that it acts on."""
        self.offers = self.acts = 0
        self.lot = uniform(word(self.answer_key, ANSWER_LOT, 1))
        self.losses: list[float] = game.losses[number].tolist()
        self.reports, self.report_key = experiment.reports, key(experiment.seed, run, number, REPORT)
        common = key(experiment.seed, run, 0, WORLD)
        self.disturbances = [(it, own_key(common, i)) for i, it in enumerate(experiment.disturbances)]
        self.until = self.leaving.until(self.leaving_key, experiment.horizon)
        """The last step in which it may act."""

    def is_there(self, t: int) -> bool:
        """Say whether the agent acts in step t."""
        if t > self.until:
            return False
        chance = self.activity.chance(self.activity_key, t)
        if not 0.0 <= chance <= 1.0:
            must = f"{type(self.activity).__name__}.chance({t}) must return a number in [0, 1]"
            raise AgentError(f"{must}, got {validation.shown(chance)} for agent {self.number}.")
        return chance == 1.0 or uniform(word(self.presence_key, 0, t)) < chance

    def choose(self, offer: Offer | None, standing: Standing | None = None) -> int:
        """Answer the offer, if there is one; pick for oneself without one or after refusing it.

        An agent goes by its own clock: t is the number of its acts, this one included. One with a mind of its own also
        sees its standing.
        """
        t, self.offer = self.acts + 1, offer
        self.offers += offer is not None
        if self.mind is not None:
            return self._checked(self.mind.act(self._view(t, standing)), f"act(view) at t = {t}")
        if offer is not None:
            coin = uniform(word(self.answer_key, ANSWER_COIN, t))
            seen = tuple(self.pulls), tuple(self.sums)
            drawn = coin, self.lot, self.losses[offer.arm]
            if self.answer.takes(Situation(t, offer.arm, offer.bonus, self.offers, *seen, *drawn)):
                return offer.arm
        return self._checked(cast(Agent, self.strategy).pick(t), f"pick({t})")

    def _checked(self, arm: int, called: str) -> int:
        """Return an arm that an agent has chosen, if there is such an arm."""
        if not validation.is_index(arm, self.game.arms):
            must = f"{type(self.strategy).__name__}.{called} must return an arm from 0 to {self.game.arms - 1}"
            raise AgentError(f"{must}, got {validation.shown(arm)} from agent {self.number}.")
        return int(arm)

    def _view(self, t: int, standing: Standing | None) -> View:
        """Return what an agent with one mind sees."""
        told = standing or Standing(t, None, 0)
        return View(
            t=t,
            step=told.step,
            horizon=self.horizon,
            offer=None if self.offer is None else OnTable(self.offer.arm, self.offer.bonus),
            phase=told.phase,
            banned_until=told.banned_until,
            pulls=tuple(self.pulls),
            sums=tuple(self.sums),
            paid=tuple(self.paid),
            offers=self.offers,
            coin=uniform(word(self.answer_key, ANSWER_COIN, t)),
        )

    def pull(self, arm: int, step: int = 0) -> float:
        """Take the next reward from the arm's stack, learn from it, and leave or stay; the step is for disturbances."""
        self.acts += 1
        self.pulls[arm] += 1
        taken = self.offer is not None and self.offer.arm == arm
        drawn = word(self.reward_key, arm, self.pulls[arm])
        x = units(self.game.streams.draw(self.number, arm, drawn, self._shift(arm, step, taken))) / UNITS
        self.sums[arm] += x
        paid = self.offer.bonus if self.offer is not None and taken else 0.0
        self.paid[arm] += paid
        self._learn(arm, x, paid)
        if self.leaving.leaves(self.leaving_key, self.acts, x):
            self.until = 0
        return x

    def _shift(self, arm: int, step: int, paid: bool) -> float:
        """Return by how much disturbances move the mean of this pull."""
        shift = 0.0
        for it, own in self.disturbances:
            shift += it.shift(arm, step, self.horizon, paid, own)
        return shift

    def delay(self, step: int) -> int:
        """Return how many steps late the pull of this step is told, −1 for never; an answer to an offer never is."""
        return 0 if self.reports is None or self.offer is not None else self.reports.delay(step, self.report_key)

    def _learn(self, arm: int, x: float, paid: float) -> None:
        """Let the agent learn, and hear of the bonus if it asks for that."""
        if self.hears_of_bonuses:
            cast(Mind, self.strategy).learn(arm, x, paid=paid)
        else:
            cast(Agent, self.strategy).learn(arm, x)


def play(experiment: Experiment, run: int, watch: Watch | None = None) -> Outcome:
    """Play one run from the first step to the last."""
    if experiment.baseline is not None:
        return experiment.baseline.play(experiment, run)
    game = experiment.game_of(run)
    seats = [Seat(experiment, game, run, m) for m in range(game.agents)]
    trial = start(experiment.principal, game, experiment.horizon, experiment.checks, experiment.margins)
    checkpoints, trace = set(experiment.checkpoints), list[Checkpoint]()
    late: dict[int, list[tuple[int, int, float]]] = {}
    minds = any(seat.mind is not None for seat in seats)
    for t in range(1, experiment.horizon + 1):
        if trial.phase == "decided" and experiment.until == "decided":
            break
        there = [seat for seat in seats if seat.is_there(t)]
        offers = [trial.ask(seat.number) for seat in there]
        standing = [Standing(t, trial.phase, until) for until in trial.banned_until] if minds else [None] * len(seats)
        arms = [seat.choose(offer, standing[seat.number]) for seat, offer in zip(there, offers, strict=True)]
        rewards = [seat.pull(arm, t) for seat, arm in zip(there, arms, strict=True)]
        for seat, arm, reward in zip(there, arms, rewards, strict=True):
            delay = seat.delay(t)
            if delay > 0:
                late.setdefault(t + delay, []).append((seat.number, arm, reward))
            settled = trial.tell(seat.number, arm, reward) if delay == 0 else None
            if watch is not None:
                watch(t, seat.number, arm, reward, settled == "paid")
        for report in late.pop(t, ()):
            trial.tell(*report)
        trial.end_step()
        if t in checkpoints:
            trace.extend(_checkpoint(trial, game, t, _pulls(seats)))
    verdict = trial.verdict()
    return Outcome(
        run=run,
        game=game,
        arm=verdict.arm,
        correct=game.is_best(verdict.arm),
        decided=verdict.decided,
        certified=verdict.certified,
        decided_at=verdict.at,
        offered=trial.offered,
        refused=trial.refused,
        banned=trial.banned,
        pulls=_pulls(seats),
        sums=np.array([[units(x) for x in seat.sums] for seat in seats], np.int64),
        paid=trial.paid,
        received=trial.offers.payments().received(),
        trace=trace,
        survives=verdict.survives if experiment.margins else None,
        evidence=tuple(check.e_value for check in verdict.checks if check.e_value is not None),
    )


def _pulls(seats: list[Seat]) -> NDArray[np.int64]:
    """Return what was pulled, by agent and arm, told or not."""
    return np.array([seat.pulls for seat in seats], np.int64)


def _checkpoint(trial: Trial, game: Game, t: int, pulls: NDArray[np.int64]) -> list[Checkpoint]:
    rule, bounds, paid = trial.rule, trial.rule.bounds(), trial.paid_total
    regrets = regret_by_arm(game, pulls)
    return [
        Checkpoint(t, k, rule.active[k], rule.mean(k), bounds[k], paid, int(pulls[:, k].sum()), regrets[k])
        for k in range(game.arms)
    ]


def end_with_parent() -> None:
    """Let this process end once the one that began it is gone, however that ended: what is left would run for ever."""

    def follow(parent: Any) -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, args=(multiprocessing.parent_process(),), daemon=True).start()


def play_in_processes(experiment: Experiment, workers: int) -> Iterator[Outcome]:
    """Play all runs in so many processes, each with a pipe of its own; yield outcomes as they come.

    They share no lock and no queue, so Ctrl-C may come at any moment, and a process may end in the midst of an answer.
    """
    try:
        pickle.dumps(experiment)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidInput(
            f"workers must be 1 here, because a part cannot be sent to another process: {error}."
        ) from None
    runs, processes = iter(experiment.runs), dict[Connection, multiprocessing.Process]()
    try:
        for _ in range(min(workers, len(experiment.runs))):
            ours, theirs = multiprocessing.Pipe()
            processes[ours] = process = multiprocessing.Process(target=_play_what_comes, args=(theirs, experiment))
            process.start()
            theirs.close()
        for pipe, run in zip([*processes] * 2, runs, strict=False):  # two each, so that nobody waits for the next one
            with suppress(OSError):  # it has ended, as is found below
                pipe.send(run)
        left = len(experiment.runs)
        while left:
            for pipe in cast(list[Connection], wait(list(processes))):
                try:
                    found = pipe.recv()
                    for run in islice(runs, 1):
                        pipe.send(run)
                except (EOFError, OSError):
                    processes[pipe].join()
                    raise FreepullError(
                        f"a worker process ended before its runs were finished, with exit code "
                        f"{processes[pipe].exitcode}; memory may be short, so try fewer workers."
                    ) from None
                if isinstance(found, BaseException):
                    raise found
                left -= 1
                yield found
    finally:
        for pipe, process in processes.items():
            if process.pid is not None:
                process.kill()
                process.join()
            pipe.close()


def _play_what_comes(pipe: Connection, experiment: Experiment) -> None:
    """Play the runs that come through a pipe, in a process that others end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    while True:
        run = pipe.recv()
        try:
            found: Any = play(experiment, run)
        except BaseException as error:
            found = _sendable(error)
        pipe.send(found)


def _sendable(error: BaseException) -> BaseException:
    """Return an error with where it was raised, as one of ours if it cannot be sent to another process."""
    where = f"In a worker process:\n{''.join(traceback.format_exception(error))}"
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = FreepullError(f"{type(error).__name__}: {error}")
    error.add_note(where)
    return error
