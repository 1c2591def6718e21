"""Built-in parts as numbers for the kernels, and the one list of what the compiled engine cannot run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull import agents, registry
from freepull.agents import activity, answers, leaving
from freepull.numerics import fill_exploration
from freepull.principal import pricing, protocols, schedules
from freepull.principal.offers import affordable, units_of
from freepull.principal.rules import Comparisons, Paper
from freepull.simulation.experiment import Experiment

if TYPE_CHECKING:
    from freepull.simulation.compiled.formulas import Answering, Picking

BY_INDEX, BY_MEMORY = 1000, 1001
"""The strategies of `Indexed` and of `Remembering` agents, beside the numbers that declarations give."""
BY_FORMULA = 1000
"""The same for answers."""


FORMULAS: dict[type, tuple[str, ...]] = {
    agents.Indexed: ("start", "pick", "choose", "learn"),
    agents.Remembering: ("start", "pick", "learn"),
    answers.Formula: ("takes",),
}
"""What formulas extend, and the methods that kernels take the place of."""


def is_formula(part: type) -> bool:
    """Say whether an agent or answer is one; not if it has a method of its own that no kernel would call."""
    kind = next((it for it in FORMULAS if issubclass(part, it)), None)
    return (
        kind is not None
        and not hasattr(part, "act")
        and all(getattr(part, name) is getattr(kind, name) for name in FORMULAS[kind])
    )


def kernel_of(part: type) -> int:
    """Return the number that the declaration of a part gives it."""
    about = registry.declared(part)
    assert about is not None
    assert about.kernel is not None
    return about.kernel


ALPHA_UCB, KL_UCB, THOMPSON = (kernel_of(it) for it in (agents.AlphaUCB, agents.KLUCB, agents.Thompson))
EPSILON_GREEDY, GREEDY, ROUND_ROBIN = (kernel_of(it) for it in (agents.EpsilonGreedy, agents.Greedy, agents.RoundRobin))
ALWAYS, WITH_PROBABILITY = (kernel_of(it) for it in (answers.Always, answers.WithProbability))
HOLD_OUT, IF_WORTH_IT = (kernel_of(it) for it in (answers.HoldOut, answers.IfWorthIt))
RELUCTANT, WORTH_AT_LEAST = (kernel_of(it) for it in (answers.Reluctant, answers.WorthAtLeast))
BEYOND_NATURAL, COMPENSATE, POSTED = (
    kernel_of(it) for it in (pricing.BeyondNatural, pricing.Compensate, pricing.Posted)
)
CAPPED, QUOTA = kernel_of(pricing.Capped), kernel_of(pricing.Quota)
RATE, LOGNORMAL = (kernel_of(it) for it in (activity.Rate, activity.Lognormal))
AT_RANDOM, AFTER_ACTS, IN_ANGER = (kernel_of(it) for it in (leaving.AtRandom, leaving.AfterActs, leaving.InAnger))
UNBOUNDED = 1 << 60
MOST_TABLES = 8
MOST_TOGETHER = 8
"""Agents of sixteen runs that are played at once."""
LONGEST_STREAM = 1 << 23
"""Sums of rewards other than coins are exact up to this many pulls of one stream."""


def unsupported(experiment: Experiment) -> str | None:
    """Say why the compiled engine cannot run this experiment; None if it can. Everything it cannot run is here."""
    principal = experiment.principal
    used: list[tuple[str, type]] = [
        *(("agents", type(agent)) for agent in experiment.agents),
        *(("answers", type(answer)) for answer in experiment.answers),
        *(("activity", type(it)) for it in experiment.activity),
        *(("leaving", type(it)) for way in experiment.leaving for it in (way, *_reasons(way))),
        ("protocol", type(principal.protocol)),
        ("pricing", type(principal.priced)),
        ("observe", type(principal.observe)),
        ("rewards", experiment.law),
        *(("disturbances", type(it)) for it in experiment.disturbances),
        ("rule", type(principal.rule)),
    ]
    for kind, part in dict.fromkeys(used):
        if is_formula(part):
            continue
        about = registry.declared(part)
        if about is None or about.own:
            return f"{part.__name__} is {registry.KINDS[kind].word} of your own"
        if about.kernel is None:
            return f"{part.__name__} is not compiled"
    if any(sum(type(it) is leaving.InAnger for it in _reasons(way)) > 1 for way in experiment.leaving):
        return "AnyOf with more than one InAnger is not compiled"
    if isinstance(principal.rule, Comparisons) and isinstance(principal.observe, schedules.Adaptive):
        return "Adaptive with Comparisons is not compiled"
    if experiment.horizon >= LONGEST_STREAM:
        return f"a horizon of {LONGEST_STREAM:,} steps or more is too long for its exact sums"
    return None


class Terms(NamedTuple):
    """What is agreed and does not change: how agents answer, offers, bans, money, time and size."""

    answers: tuple[NDArray[np.int64], NDArray[np.float64], Answering] | None
    """How each agent answers, its three parameters, and who answers by a formula; None if all take every offer."""
    pricing: Any
    """The kind of pricing, its parameters, and the most that may be spent, in units of 2⁻³⁰; None: all bonuses are…"""
    bonus: float
    """…this."""
    ban_after: int
    ban_length: int
    """A refusal bans from the ``ban_after``-th on, for ``ban_length`` steps."""
    affordable: int
    each: bool
    slack: float
    """The slack of an adaptive schedule, 0 otherwise."""
    futility: float
    """Nothing is offered while a verdict in time is less likely than this."""
    horizon: int
    agents: int
    K: np.uint64


class Habits(NamedTuple):
    """When each agent is there."""

    activity: NDArray[np.float64]
    """The number of its activity, and three parameters."""
    leaving: NDArray[np.float64]
    """The same of every reason to leave, with four parameters, by agent and reason."""
    several: NDArray[np.bool_]
    """Whether the reasons are those of an `AnyOf`, each with a key of its own."""


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
    """Agents that follow the same strategy with the same parameters."""
    deep: bool
    """Whether somebody plays KL-UCB or Thompson sampling."""
    inverses: NDArray[np.int64]
    """⌊2⁴⁰/N⌋ for N = 0…T + 1, 0 for N = 0."""
    habits: Habits | None
    """None where everybody acts in every step, to the end."""
    picking: Picking | None
    """How agents pick by formulas; None where nobody does."""
    plain: bool
    """Whether everybody acts in every step and takes every offer, all of which pay the same, and nobody keeps more of
    its past than counts and means."""
    together: bool
    """Whether sixteen runs may be played at once, too: the paper's rule pays some agents, who all follow α-UCB, without
    limit."""


def code(experiment: Experiment) -> Coded:
    """Translate an experiment that is supported."""
    M, K = experiment.shape
    from freepull.simulation.compiled.formulas import picking

    own = picking(experiment.agents, K)
    kind = np.array([_strategy(agent) for agent in experiment.agents])
    setting = np.array([0.0 if is_formula(type(agent)) else numbers_of(agent, 1)[0] for agent in experiment.agents])
    together: dict[tuple[Any, ...], list[int]] = {}
    for m in range(M):
        formula = () if own is None else (int(own.picks[m]), *own.numbers[m].tolist())
        together.setdefault((int(kind[m]), float(setting[m]), formula), []).append(m)
    alphas = sorted({float(setting[m]) for m in range(M) if kind[m] == ALPHA_UCB})
    rows = {alpha: i for i, alpha in enumerate(alphas)} if len(alphas) <= MOST_TABLES else {}
    terms, deep = _terms(experiment), bool({KL_UCB, THOMPSON} & set(kind.tolist()))
    plain = terms.answers is None and terms.pricing is None and experiment.always_there and own is None and not deep
    return Coded(
        terms=terms,
        kind=kind.astype(np.int64),
        setting=setting,
        row=np.array([rows.get(float(setting[m]), -1) for m in range(M)], np.int64),
        tables=_tables(list(rows), experiment.horizon),
        groups=[np.array(members, np.int64) for members in together.values()],
        deep=deep,
        inverses=np.concatenate([[0], (1 << 40) // np.arange(1, experiment.horizon + 2)]).astype(np.int64),
        habits=None if experiment.always_there else _habits(experiment),
        picking=own,
        plain=plain,
        together=plain and M <= MOST_TOGETHER and bool(np.all(kind == ALPHA_UCB)) and _pays(experiment, terms),
    )


def _pays(experiment: Experiment, terms: Terms) -> bool:
    """Say whether the paper's rule offers somebody the widest arm in every step after κ."""
    rule, unlimited = experiment.principal.rule, terms.affordable == UNBOUNDED
    return isinstance(rule, Paper) and rule.pay == "widest" and unlimited and not terms.each and terms.slack == 0.0


def _strategy(agent: object) -> int:
    if not is_formula(type(agent)):
        return kernel_of(type(agent))
    return BY_INDEX if isinstance(agent, agents.Indexed) else BY_MEMORY


def _habits(experiment: Experiment) -> Habits:
    reasons = [_reasons(way) for way in experiment.leaving]
    coded = np.zeros((len(reasons), max(map(len, reasons)), 5))
    for m, own in enumerate(reasons):
        for i, reason in enumerate(own):
            coded[m, i] = [kernel_of(type(reason)), *numbers_of(reason, 4)]
    return Habits(
        activity=np.array([[kernel_of(type(it)), *numbers_of(it, 3)] for it in experiment.activity]),
        leaving=coded,
        several=np.array([isinstance(way, leaving.AnyOf) for way in experiment.leaving]),
    )


def _reasons(way: leaving.Leaving) -> Sequence[leaving.Leaving]:
    return way.leaving if isinstance(way, leaving.AnyOf) else (way,)


def _terms(experiment: Experiment) -> Terms:
    principal, replies, (M, K) = experiment.principal, experiment.answers, experiment.shape
    room = None if principal.pricing is not None else affordable(principal.budget, principal.bonus)
    after, length = _bans(principal.protocol)
    return Terms(
        answers=None if all(type(a) is answers.Always for a in replies) else _answers(replies),
        pricing=None if principal.pricing is None else _pricing(principal.pricing, principal.budget),
        bonus=float(principal.bonus),
        ban_after=after,
        ban_length=length,
        affordable=UNBOUNDED if room is None else min(room, UNBOUNDED),
        each=principal.offers == "each",
        slack=float(principal.observe.slack) if isinstance(principal.observe, schedules.Adaptive) else 0.0,
        futility=float(principal.futility),
        horizon=experiment.horizon,
        agents=M,
        K=np.uint64(K),
    )


def _answers(
    replies: tuple[answers.Answer, ...],
) -> tuple[NDArray[np.int64], NDArray[np.float64], Answering]:
    settings = [[0.0] * 3 if is_formula(type(answer)) else numbers_of(answer, 3) for answer in replies]
    kinds = [BY_FORMULA if is_formula(type(answer)) else kernel_of(type(answer)) for answer in replies]
    from freepull.simulation.compiled.formulas import answering

    return np.array(kinds, np.int64), np.array(settings), answering(replies)


def _pricing(priced: pricing.Pricing, budget: float | None) -> tuple[int, NDArray[np.float64], int]:
    most = UNBOUNDED if budget is None else min(units_of(budget), UNBOUNDED)
    return kernel_of(type(priced)), np.array(numbers_of(priced, 6)), most


def numbers_of(part: object, count: int) -> list[float]:
    """Return the values of a part's first parameters, however large they are, and 0 where it has no more."""
    about = registry.declared(type(part))
    assert about is not None
    found = [float(min(getattr(part, name), UNBOUNDED)) for name in about.parameters]
    return (found + [0.0] * count)[:count]


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
