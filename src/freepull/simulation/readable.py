"""The readable engine: Algorithm 1 step by step, in the order of docs/mechanics.md. It is the truth.

The compiled engine must agree with it path by path; a user's own agents run here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from freepull import validation
from freepull.agents import Agent
from freepull.agents.answers import Situation
from freepull.errors import AgentError
from freepull.game import Game
from freepull.principal import Offer, Trial
from freepull.principal.record import UNITS, units
from freepull.randomness import ANSWER, CHOICE, REWARD, key, uniform, word
from freepull.simulation.experiment import Experiment, start
from freepull.simulation.results import Checkpoint, Outcome

Watch = Callable[[int, int, int, float, bool], None]
"""Called as watch(t, agent, arm, reward, paid) for every pull."""


class Seat:
    """One agent at its own bandit: strategy, way of answering, and its stacks of rewards."""

    def __init__(self, experiment: Experiment, game: Game, run: int, number: int) -> None:
        self.number, self.game = number, game
        self.answer = copy.deepcopy(experiment.answers[number])
        self.strategy: Agent = copy.deepcopy(experiment.agents[number])
        self.reward_key, choice_key, self.answer_key = (
            key(experiment.seed, run, number, purpose) for purpose in (REWARD, CHOICE, ANSWER)
        )
        begin = getattr(self.strategy, "start", None)
        if begin is not None:
            begin(game.arms, choice_key)
        self.pulls = [0] * game.arms
        self.sums = [0.0] * game.arms
        self.offers = 0

    def choose(self, t: int, offer: Offer | None) -> int:
        """Answer the offer, if there is one; pick for oneself without one or after refusing it."""
        if offer is not None:
            self.offers += 1
            coin = uniform(word(self.answer_key, 0, t))
            seen = tuple(self.pulls), tuple(self.sums)
            if self.answer.takes(Situation(t, offer.arm, offer.bonus, self.offers, *seen, coin)):
                return offer.arm
        arm = self.strategy.pick(t)
        if not validation.is_index(arm, self.game.arms):
            must = f"{type(self.strategy).__name__}.pick({t}) must return an arm from 0 to {self.game.arms - 1}"
            raise AgentError(f"{must}, got {validation.shown(arm)} from agent {self.number}.")
        return int(arm)

    def pull(self, arm: int) -> float:
        """Take the next reward from the arm's stack, and learn from it."""
        self.pulls[arm] += 1
        x = units(self.game.streams.draw(self.number, arm, word(self.reward_key, arm, self.pulls[arm]))) / UNITS
        self.sums[arm] += x
        self.strategy.learn(arm, x)
        return x


def play(experiment: Experiment, run: int, watch: Watch | None = None) -> Outcome:
    """Play one run from the first step to the last."""
    game = experiment.game_of(run)
    seats = [Seat(experiment, game, run, m) for m in range(game.agents)]
    trial = start(experiment.principal, game, experiment.horizon, experiment.checks)
    checkpoints, trace = set(experiment.checkpoints), list[Checkpoint]()
    for t in range(1, experiment.horizon + 1):
        if trial.phase == "decided" and experiment.until == "decided":
            break
        offers = [trial.ask(m) for m in range(game.agents)]
        arms = [seat.choose(t, offer) for seat, offer in zip(seats, offers, strict=True)]
        rewards = [seat.pull(arm) for seat, arm in zip(seats, arms, strict=True)]
        for m, (arm, reward) in enumerate(zip(arms, rewards, strict=True)):
            settled = trial.tell(m, arm, reward)
            if watch is not None:
                watch(t, m, arm, reward, settled == "paid")
        trial.end_step()
        if t in checkpoints:
            trace.extend(_checkpoint(trial, t))
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
        pulls=trial.record.pulls.astype(np.int64),
        sums=trial.record.sums,
        paid=trial.paid,
        trace=trace,
        survives=verdict.survives if experiment.margins else None,
        evidence=tuple(check.e_value for check in verdict.checks if check.e_value is not None),
    )


def _checkpoint(trial: Trial, t: int) -> list[Checkpoint]:
    rule, bounds = trial.rule, trial.rule.bounds()
    return [
        Checkpoint(t, k, rule.active[k], rule.mean(k), bounds[k], trial.paid_total) for k in range(trial.setting.arms)
    ]
