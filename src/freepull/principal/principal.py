"""Principals: a rule, when to watch, how to pay; and one for every agent, where each wants its own best arm."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from freepull import validation
from freepull.errors import InvalidInput
from freepull.game import TIE, normalised
from freepull.principal import saving
from freepull.principal.pricing import Fixed, Pricing
from freepull.principal.protocols import BanProtocol, NeverBan, TakeOrBan
from freepull.principal.rules import Certified, Comparisons, Rule
from freepull.principal.rules.base import RULES, Setting
from freepull.principal.schedules import Adaptive, Schedule, Share, Steps
from freepull.principal.trial import Trial
from freepull.principal.verdict import Checks
from freepull.registry import part

if TYPE_CHECKING:
    from freepull.principal.trial import Trial


OFFERS = ("one", "each")
LEAVERS = ("wait", "independent")
MOST_ARMS = 1 << 16
"""Rules compare every arm with every other."""
MOST_STREAMS = 1 << 32
"""Streams have numbers of 32 bits."""
MOST_UNITS = (1 << 32) - 1


@part("principal", "principal", nested=("rule", "observe", "protocol", "pricing"))
@dataclass(frozen=True)
class Principal:
    """Observe-then-Incentivize (Algorithm 1 of the paper), every part replaceable.

    Parameters
    ----------
    rule
        Who is still in, and which pull is missing: `rules.Certified` at δ = 0.05 by default, `Comparisons` for people
        who come and go, `Population`, `Paper`, `Passive`.
    observe
        When to stop observing: `observe.Share`, `Root`, `Steps`, `KnownGap`, or `Adaptive`, which pays late, and under
        rules other than `Certified` too early.
    protocol
        Who may still be paid after a refusal: `protocols.TakeOrBan`, `BanFor`, `BanAfter`, `NeverBan`.
    offers
        "one" offer a step, as in the paper, or "each": up to one per agent and step.
    bonus
        What an accepted offer pays, in units of reward; below 1, the reward range, Lemma 1 no longer holds.
    budget
        The most that may be spent, in units of reward.
    pricing
        What an offer pays: `pricing.Fixed`, `Compensate`, `BeyondNatural`, `Quota`, `Capped`, `Posted`; None stands for
        ``Fixed(bonus)``.
    futility
        Make no offers while a verdict within the horizon and the budget is forecast to be less likely than this
        (`Certified` only); 0: never stop.
    """

    rule: Rule = field(default_factory=Certified)
    observe: Schedule = field(default_factory=Share)
    protocol: BanProtocol = field(default_factory=TakeOrBan)
    offers: str = "one"
    bonus: float = 1.0
    budget: float | None = None
    pricing: Pricing | None = None
    futility: float = 0.0

    def __post_init__(self) -> None:
        validation.instance("rule", self.rule, Rule, "a rule such as freepull.rules.Certified(delta=0.01)")
        validation.instance("observe", self.observe, Schedule, "a schedule such as freepull.observe.Share(0.5)")
        if isinstance(self.protocol, type):
            raise InvalidInput(
                f"protocol must be a protocol such as TakeOrBan(), got the class {self.protocol.__name__}."
            )
        validation.instance("protocol", self.protocol, BanProtocol, "a protocol such as TakeOrBan()")
        validation.keep_word(self, "offers", OFFERS)
        validation.keep_real(self, "bonus", 0.0, open_low=True)
        if self.budget is not None:
            validation.keep_real(self, "budget", 0.0)
        if self.pricing is not None:
            self._keep_pricing(self.pricing)
        validation.keep_real(self, "futility", 0.0, 1.0, open_high=True)
        if self.futility > 0.0 and not self.rule.forecasts:
            raise InvalidInput(
                f"futility must be 0 with rules.{type(self.rule).__name__}, got {self.futility:g}; only "
                "rules.Certified forecasts how likely a verdict is."
            )
        if self.bonus < 1.0:
            warnings.warn(
                f"bonus = {self.bonus:g} is below the reward range 1, so Lemma 1 (taking every offer is optimal) "
                "no longer holds.",
                stacklevel=3,
            )
        if isinstance(self.observe, Adaptive) and not self.rule.forecasts:
            warnings.warn(
                f"observe.Adaptive starts paying too early under rules.{type(self.rule).__name__}, once and for good, "
                "which costs money and no certainty; take observe.Share(0.5).",
                stacklevel=3,
            )

    def _keep_pricing(self, pricing: Pricing) -> None:
        """Check the pricing; one price for all is kept as the bonus."""
        if isinstance(pricing, type):
            raise InvalidInput(f"pricing must be a pricing such as Compensate(), got the class {pricing.__name__}.")
        validation.instance("pricing", pricing, Pricing, "a pricing such as freepull.pricing.Compensate()")
        if self.bonus != 1.0:
            raise InvalidInput(
                f"bonus must be left out where there is a pricing, got {self.bonus:g}; drop one of them."
            )
        if type(pricing) is Fixed:  # whoever extends it has a price of its own
            object.__setattr__(self, "bonus", pricing.amount)
            object.__setattr__(self, "pricing", None)

    @property
    def priced(self) -> Pricing:
        """The pricing, also where it is given as the bonus."""
        return Fixed(self.bonus) if self.pricing is None else self.pricing

    def start(
        self,
        *,
        arms: int,
        agents: int,
        horizon: int | None = None,
        weights: Any = None,
        leavers: str = "wait",
        withdrawal: bool = False,
        rules: int = RULES,
        checks: Checks | None = None,
        unit: int | None = None,
    ) -> Trial:
        """Begin a trial on a panel of agents, driven by ask, tell and end_step.

        Parameters
        ----------
        arms, agents, horizon
            K (at most 65,536), M, and T, which some rules and schedules can do without.
        weights
            p_m, if the average over agents is not a plain one; they are divided by their sum. An agent of weight 0 is
            not part of the panel.
        leavers
            What becomes of agents who leave: "wait" for them, or "independent" (speak of those who stayed; right if
            leaving has nothing to do with rewards). `rules.Comparisons` waits for nobody, and is right for any leaving.
        withdrawal
            Whether arms may be withdrawn later (`rules.Comparisons`).
        rules
            The version of what decides; an older one (1) is for trials that began under it and are told again.
        checks
            The checks of assumptions that run beside it; None: none.
        unit
            Where a ``pricing`` makes bonuses differ and they are money: how many minor units a bonus of 1 has; every
            bonus is a whole number of them, one at least. 100 for a bonus of 1 that stands for 1.00 EUR. None: they are
            no money, and whole numbers of 2⁻³⁰.
        """
        from freepull.principal.trial import Trial

        frame = self.frame(
            arms=arms, agents=agents, horizon=horizon, weights=weights, leavers=leavers, withdrawal=withdrawal,
            rules=rules, unit=unit,
        )  # fmt: skip
        if checks is not None:
            validation.instance("checks", checks, Checks, "settings such as freepull.Checks(), or None")
        return Trial(self, frame, checks)

    def frame(
        self,
        *,
        arms: int,
        agents: int,
        horizon: int | None,
        weights: Any,
        leavers: str = "wait",
        withdrawal: bool = False,
        rules: int = RULES,
        unit: int | None = None,
    ) -> Setting:
        """Return the frame of a trial that `start` would begin, or say what is wrong with it."""
        arms, agents = validation.whole("arms", arms, 2, MOST_ARMS), validation.whole("agents", agents, 1)
        if arms * agents >= MOST_STREAMS:
            most = (MOST_STREAMS - 1) // arms
            raise InvalidInput(
                f"agents must be at most {most:,} with {arms} arms, got {agents:,}; take a part of them."
            )
        if horizon is not None:
            horizon = validation.whole("horizon", horizon, 1)
            if horizon < arms:
                raise InvalidInput(f"horizon must be at least {arms}, the number of arms, got {horizon}.")
        p = normalised(weights, agents)
        weighted = weights is not None and bool(p.max() - p.min() > TIE)
        name = type(self.rule).__name__
        if leavers not in self.rule.policies:
            if leavers == "worst_case":
                raise InvalidInput(
                    "leavers must be one of wait, independent, got 'worst_case', which there is no longer; take "
                    "rules.Comparisons, which is right whatever makes people leave."
                )
            validation.one_of("leavers", leavers, LEAVERS)
            allowed = " or ".join(repr(policy) for policy in self.rule.policies)
            raise InvalidInput(f"leavers must be {allowed} with rules.{name}, got {leavers!r}.")
        if withdrawal and not self.rule.withdrawals:
            raise InvalidInput(f"withdrawal must be False with rules.{name}; only rules.Comparisons provides for it.")
        if self.futility > 0.0 and horizon is None:
            raise InvalidInput("horizon must be a number of steps where there is a futility, got None; give one.")
        version = validation.whole("rules", rules, 1, RULES)
        unit = None if unit is None else validation.whole("unit", unit, 1, MOST_UNITS)
        return Setting(arms, agents, horizon, p, weighted, self.offers, None, leavers, bool(withdrawal), version, unit)

    def restore(self, state: saving.Bytes) -> Trial:
        """Return the trial that gave this `Trial.state`, to go on with bit for bit.

        The principal must be the one that started it. ``state`` may also be a memoryview or a mapped file.

        >>> principal = Principal(Certified(0.05), Share())
        >>> trial = principal.start(arms=2, agents=3, horizon=10)
        >>> trial.tell(1, arm=0, reward=0.5)
        >>> principal.restore(trial.state()).record.pulls.tolist()
        [[0, 0], [1, 0], [0, 0]]
        """
        from freepull.principal.trial import Trial

        parts = saving.unpack(state)
        saving.check_principal(parts["principal"], self)
        frame, panel = {"rules": 1} | saving.part_of(parts, "setting"), saving.part_of(parts, "panel")
        if frame["rules"] > RULES:
            raise InvalidInput(
                f"state must be of a trial under rules of version {RULES} or before, got {frame['rules']}; install a "
                "newer freepull."
            )
        settings = parts.get("checks.settings")
        checks = None if settings is None else Checks(**settings)
        trial = Trial(self, Setting(weights=panel["weights"].copy(), weighted=panel["weighted"], **frame), checks)
        saving.put_back(trial, parts)
        return trial


def for_people(horizon: int | None = None) -> Principal:
    """Return what a campaign does unless told otherwise: what was measured to be best for people as they are.

    `Comparisons` waits for nobody and may stop at an arm that is best up to 0.02; a tenth of the time is only watched;
    everybody may have an offer, and nobody is banned, because people refuse. `Principal()` is the paper's instead.
    """
    observe: Schedule = Steps(0) if horizon is None else Share(0.1)
    return Principal(Comparisons(0.05, epsilon=0.02), observe, NeverBan(), offers="each")


def personal_weights(agents: int, agent: int, beta: float) -> NDArray[np.float64]:
    """Return p_m (docs/certified.md, personalised): β = 0 is the plain average, β = 1 the agent alone.

    >>> personal_weights(4, 1, 0.6).round(3).tolist()
    [0.1, 0.7, 0.1, 0.1]
    """
    M = validation.whole("agents", agents, 1)
    validation.whole("agent", agent, 0, M - 1)
    beta = validation.real("beta", beta, 0.0, 1.0)
    weights = np.full(M, (1 - beta) / M)
    weights[agent] += beta
    return weights


def personalised(
    principal: Principal, named: Sequence[int], beta: float, *, arms: int, agents: int, **frame: Any
) -> dict[int, Trial]:
    """Start a trial for every named agent, each at δ/n for n of them, so that all verdicts hold together at 1 − δ.

    Name the agents before the first reward that counts, and tell every pull to every trial. The trials know nothing of
    each other's offers: in a step, ``ask`` only one of them for an agent, or it may be offered two arms, and taking one
    refuses the other. A budget is each trial's own. ``frame`` is passed on to `Principal.start`.
    """
    rule = principal.rule
    if rule.delta is None or not is_dataclass(rule):
        raise InvalidInput(f"principal must have a rule with a delta, got {validation.shown(rule)}.")
    if np.ndim(named) != 1 or len(named) == 0 or len(set(named)) < len(named):
        raise InvalidInput(f"named must be a list of different agents, at least one, got {validation.shown(named)}.")
    if "weights" in frame:
        raise InvalidInput("weights must be left out, because they follow from the named agents and beta.")
    each = replace(principal, rule=replace(rule, delta=rule.delta / len(named)))
    weights = {int(agent): personal_weights(agents, agent, beta) for agent in named}
    return {agent: each.start(arms=arms, agents=agents, weights=p, **frame) for agent, p in weights.items()}
