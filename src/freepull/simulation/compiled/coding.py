"""Built-in parts as numbers for the kernels, and the one list of what the compiled engine cannot run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull import agents, answers, rewards
from freepull.numerics import fill_exploration
from freepull.principal import protocols, rules, schedules
from freepull.principal.budget import affordable
from freepull.simulation.experiment import Experiment

ALPHA_UCB, KL_UCB, THOMPSON, EPSILON_GREEDY, GREEDY, ROUND_ROBIN = range(6)
ALWAYS, NEVER, WITH_PROBABILITY, HOLD_OUT, IF_WORTH_IT = range(5)
UNBOUNDED = 1 << 60
MOST_TABLES = 8
LONGEST_STREAM = 1 << 23
"""Sums of rewards other than coins are exact up to this many pulls of one stream."""
_AGENTS = {
    agents.AlphaUCB: ALPHA_UCB, agents.KLUCB: KL_UCB, agents.Thompson: THOMPSON,
    agents.EpsilonGreedy: EPSILON_GREEDY, agents.Greedy: GREEDY, agents.RoundRobin: ROUND_ROBIN,
}  # fmt: skip
_ANSWERS = {
    answers.Always: ALWAYS, answers.Never: NEVER, answers.WithProbability: WITH_PROBABILITY,
    answers.HoldOut: HOLD_OUT, answers.IfWorthIt: IF_WORTH_IT,
}  # fmt: skip
_PROTOCOLS = (protocols.TakeOrBan, protocols.BanFor, protocols.BanAfter, protocols.NeverBan)
_SCHEDULES = (schedules.Share, schedules.Root, schedules.Steps, schedules.KnownGap, schedules.Adaptive)
_LAWS = (rewards.Bernoulli, rewards.Beta, rewards.TruncatedNormal, rewards.Categorical, rewards.Empirical)
_RULES = (rules.Certified, rules.Pairwise, rules.Paper, rules.Passive, rules.Population)


def unsupported(experiment: Experiment) -> str | None:
    """Say why the compiled engine cannot run this experiment; None if it can. Everything it cannot run is here."""
    for agent in experiment.agents:
        if type(agent) not in _AGENTS:
            return f"{type(agent).__name__} is an agent of your own"
    for answer in experiment.answers:
        if type(answer) not in _ANSWERS:
            return f"{type(answer).__name__} is an answer of your own"
    if type(experiment.principal.protocol) not in _PROTOCOLS:
        return f"{type(experiment.principal.protocol).__name__} is a protocol of your own"
    if type(experiment.principal.observe) not in _SCHEDULES:
        return f"{type(experiment.principal.observe).__name__} is a schedule of your own"
    if experiment.law not in _LAWS:
        return f"{experiment.law.__name__} is a reward law of your own"
    if type(experiment.principal.rule) not in _RULES:
        return f"{type(experiment.principal.rule).__name__} is a rule of your own"
    if experiment.horizon >= LONGEST_STREAM:
        return f"a horizon of {LONGEST_STREAM:,} steps or more is too long for its exact sums"
    return None


class Terms(NamedTuple):
    """What is agreed and does not change: how agents answer, offers, bans, money, time and size."""

    answers: tuple[NDArray[np.int64], NDArray[np.float64]] | None
    """How each agent answers, and its parameter; None if all take every offer."""
    bonus: float
    ban_after: int
    ban_length: int
    """A refusal bans from the ``ban_after``-th on, for ``ban_length`` steps."""
    affordable: int
    each: bool
    slack: float
    """The slack of an adaptive schedule, 0 otherwise."""
    horizon: int
    agents: int
    K: np.uint64


@dataclass(frozen=True)
class Coded:
    """An experiment's parts as numbers."""

    terms: Terms
    kind: NDArray[np.int64]
    setting: NDArray[np.float64]
    row: NDArray[np.int64]
    tables: NDArray[np.float64]
    """s_t = √(α·log t), one row for each α; none where there are many α, which compute it (row −1)."""
    groups: list[NDArray[np.int64]]
    """Agents that follow the same strategy with the same parameter."""
    deep: bool
    """Whether somebody plays KL-UCB or Thompson sampling."""
    inverses: NDArray[np.int64]
    """⌊2⁴⁰/N⌋ for N = 0…T + 1, 0 for N = 0."""


def code(experiment: Experiment) -> Coded:
    """Translate an experiment that is supported."""
    M = experiment.shape[0]
    kind = np.array([_AGENTS[type(agent)] for agent in experiment.agents])
    setting = np.array([float(getattr(a, "alpha", getattr(a, "c", 0.0))) for a in experiment.agents])
    together: dict[tuple[int, float], list[int]] = {}
    for m in range(M):
        together.setdefault((int(kind[m]), float(setting[m])), []).append(m)
    alphas = sorted({float(setting[m]) for m in range(M) if kind[m] == ALPHA_UCB})
    rows = {alpha: i for i, alpha in enumerate(alphas)} if len(alphas) <= MOST_TABLES else {}
    return Coded(
        terms=_terms(experiment),
        kind=kind.astype(np.int64),
        setting=setting,
        row=np.array([rows.get(float(setting[m]), -1) for m in range(M)], np.int64),
        tables=_tables(list(rows), experiment.horizon),
        groups=[np.array(members, np.int64) for members in together.values()],
        deep=bool({KL_UCB, THOMPSON} & set(kind.tolist())),
        inverses=np.concatenate([[0], (1 << 40) // np.arange(1, experiment.horizon + 2)]).astype(np.int64),
    )


def _terms(experiment: Experiment) -> Terms:
    principal, replies, (M, K) = experiment.principal, experiment.answers, experiment.shape
    room = affordable(principal.budget, principal.bonus)
    after, length = _bans(principal.protocol)
    return Terms(
        answers=None if all(type(a) is answers.Always for a in replies) else _answers(replies),
        bonus=float(principal.bonus),
        ban_after=after,
        ban_length=length,
        affordable=UNBOUNDED if room is None else min(room, UNBOUNDED),
        each=principal.offers == "each",
        slack=float(principal.observe.slack) if isinstance(principal.observe, schedules.Adaptive) else 0.0,
        horizon=experiment.horizon,
        agents=M,
        K=np.uint64(K),
    )


def _answers(replies: tuple[answers.Answer, ...]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    settings = [float(min(getattr(answer, "p", getattr(answer, "n", 0.0)), UNBOUNDED)) for answer in replies]
    return np.array([_ANSWERS[type(answer)] for answer in replies], np.int64), np.array(settings)


def _tables(alphas: list[float], horizon: int) -> NDArray[np.float64]:
    tables = np.zeros((max(1, len(alphas)), horizon + 1))
    for alpha, table in zip(alphas, tables, strict=False):
        fill_exploration(alpha, table)
    return tables


def _bans(protocol: object) -> tuple[int, int]:
    if isinstance(protocol, protocols.BanFor):
        return 1, min(int(protocol.rounds), UNBOUNDED)
    if isinstance(protocol, protocols.BanAfter):
        return min(int(protocol.refusals), UNBOUNDED), UNBOUNDED
    return (UNBOUNDED, 0) if isinstance(protocol, protocols.NeverBan) else (1, UNBOUNDED)
