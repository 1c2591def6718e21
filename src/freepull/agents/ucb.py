"""Optimists: agents that pick the largest upper confidence bound, one class an algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from freepull import validation
from freepull.agents.base import Indexed, TriesAllFirst, first_largest
from freepull.numerics import beta_upper, exploration, kl_budget, kl_index
from freepull.registry import part


@part("agents", "alpha-ucb", kernel=0)
@dataclass
class AlphaUCB(TriesAllFirst):
    """Pick the arm with the largest upper confidence bound (docs/mechanics.md, agents), an unpulled arm first.

    Parameters
    ----------
    alpha
        How much it explores; the paper uses 2, its theorem needs at least 3/2.

    References
    ----------
    Bubeck and Cesa-Bianchi, *Regret analysis of stochastic and nonstochastic multi-armed bandit problems*, 2012;
    Auer, Cesa-Bianchi and Fischer, *Finite-time analysis of the multiarmed bandit problem*, 2002 (α = 2).

    >>> agent = AlphaUCB(alpha=2.0)
    >>> agent.start(arms=2)
    >>> for t, reward in [(1, 1.0), (2, 0.0)]:
    ...     agent.learn(agent.pick(t), reward)
    >>> agent.pulls, agent.pick(3)
    ([1, 1], 0)
    """

    alpha: float = 2.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "alpha", 0.0, open_low=True)

    def choose(self, t: int) -> int:
        """S/N + s_t·(1/√N), each operation rounded on its own."""
        s = exploration(self.alpha, t)
        return first_largest([S / N + s * (1.0 / math.sqrt(N)) for S, N in zip(self.sums, self.pulls, strict=True)])


@part("agents", "kl-ucb", kernel=1)
@dataclass
class KLUCB(TriesAllFirst):
    """Pick the arm with the largest upper bound by divergence (docs/mechanics.md, agents), an unpulled arm first.

    kl is that of two coins, which is valid for any reward in [0, 1].

    Parameters
    ----------
    c
        Weight of the log log term (0 for t < 3); 0 works best in practice, the theory asks for 3.

    References
    ----------
    Garivier and Cappé, *The KL-UCB algorithm for bounded stochastic bandits and beyond*, COLT 2011.

    >>> agent = KLUCB()
    >>> agent.start(arms=2)
    >>> agent.learn(0, 1.0); agent.learn(1, 0.0)
    >>> agent.pick(3)
    0
    """

    c: float = 0.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "c", 0.0)

    def choose(self, t: int) -> int:
        """The arm with the largest index."""
        budget = kl_budget(self.c, t)
        return first_largest([kl_index(S / N, float(N), budget) for S, N in zip(self.sums, self.pulls, strict=True)])


@part("agents", "ucb-v")
@dataclass
class UCBV(Indexed):
    """Pick the largest upper bound by the sample variance (docs/mechanics.md, agents), an unpulled arm first.

    Parameters
    ----------
    zeta
        How much it explores: ζ·log t takes the place of log t; the theory needs more than 1.
    c
        Weight of the term for rare rewards; 1 by default.

    References
    ----------
    Audibert, Munos and Szepesvári, *Exploration-exploitation tradeoff using variance estimates in multi-armed bandits*,
    Theoretical Computer Science 2009.

    >>> agent = UCBV()
    >>> agent.start(arms=2)
    >>> for _ in range(40):
    ...     agent.learn(0, 0.5); agent.learn(1, 0.4)
    >>> agent.pick(81)
    0
    """

    zeta: float = 1.2
    c: float = 1.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "zeta", 0.0, open_low=True)
        validation.keep_real(self, "c", 0.0)

    @staticmethod
    def index(squares: float, mean: float, root: float, t: int, params: Any) -> float:
        """S/N + √(2·V·ζ·log t/N) + 3·c·ζ·log t/N, V being the sample variance, and 1/N the square of 1/√N."""
        variance = max(squares * (root * root) - mean * mean, 0.0)
        spread = params.zeta * math.log(float(t)) * (root * root)
        return float(mean + math.sqrt(2.0 * variance * spread) + 3.0 * params.c * spread)


@part("agents", "ucb1-tuned")
@dataclass
class UCB1Tuned(Indexed):
    """Pick the largest upper bound with a capped sample variance (docs/mechanics.md, agents), an unpulled arm first.

    It has no proof, and does well in practice.

    References
    ----------
    Auer, Cesa-Bianchi and Fischer, *Finite-time analysis of the multiarmed bandit problem*, 2002, section 4.

    >>> agent = UCB1Tuned()
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3)
    1
    """

    @staticmethod
    def index(squares: float, mean: float, root: float, t: int) -> float:
        """S/N + √(log t/N·min(¼, V + √(2·log t/N))), V being the sample variance, and 1/N the square of 1/√N."""
        variance = max(squares * (root * root) - mean * mean, 0.0)
        spread = math.log(float(t)) * (root * root)
        return mean + math.sqrt(spread * min(0.25, variance + math.sqrt(2.0 * spread)))


ANYTIME = 1.175
"""(1 + α)/2 with α = 1.35, which Degenne and Perchet use where the horizon is not known."""


@part("agents", "moss")
@dataclass
class MOSS(Indexed):
    """Pick the largest minimax upper bound (docs/mechanics.md, agents), an unpulled arm first.

    Parameters
    ----------
    horizon
        How many pulls the agent will make; 0, if it does not know: then its clock t takes the place.

    References
    ----------
    Audibert and Bubeck, *Minimax policies for adversarial and stochastic bandits*, COLT 2009;
    Degenne and Perchet, *Anytime optimal algorithms in stochastic multi-armed bandits*, ICML 2016 (without a horizon).

    >>> agent = MOSS()
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3)
    1
    """

    horizon: int = 0

    def __post_init__(self) -> None:
        validation.keep_whole(self, "horizon", 0)

    @staticmethod
    def index(pulls: float, mean: float, root: float, t: int, arms: int, params: Any) -> float:
        """S/N + √(log⁺(T/(K·N)))·(1/√N); without T, S/N + √(1.175·log⁺(t/(K·N)))·(1/√N)."""
        time, weight = (params.horizon, 1.0) if params.horizon > 0.0 else (float(t), ANYTIME)
        return mean + math.sqrt(weight * max(math.log(time / (float(arms) * pulls)), 0.0)) * root


@part("agents", "bayes-ucb")
@dataclass
class BayesUCB(Indexed):
    """Pick the largest upper quantile of Beta(1 + S, 1 + N − S); S may be fractional. An unpulled arm comes first.

    Parameters
    ----------
    c
        Weight of the log log term in the level, which is 1 − 1/(t·(log t)^c), where the paper has the logarithm of the
        horizon; 0 works best in practice, the theory asks for 5.

    References
    ----------
    Kaufmann, Cappé and Garivier, *On Bayesian upper confidence bounds for bandit problems*, AISTATS 2012.

    >>> agent = BayesUCB()
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3)
    1
    """

    c: float = 0.0

    def __post_init__(self) -> None:
        validation.keep_real(self, "c", 0.0)

    @staticmethod
    def index(pulls: float, total: float, t: int, params: Any) -> float:
        """The q that the belief exceeds with probability 1/(t·(log t)^c); log t counts as 1 at least."""
        log_t = math.log(float(t))
        tail = -log_t - params.c * math.log(max(log_t, 1.0))
        return float(beta_upper(1.0 + total, 1.0 + (pulls - total), tail))


@part("agents", "withholding")
@dataclass
class Withholding(Indexed):
    """α-UCB, but for arms that it does not pull of its own accord up to some step, once it has tried them.

    Lemma 1 of the paper is silent on this: what an agent does not pull by itself, the principal pays for.

    Parameters
    ----------
    arm
        The arm; −1 for none.
    until
        The last step, by its own clock, in which it withholds.
    alpha
        How much it explores otherwise; little is a way of withholding too.
    but
        Withhold all arms but this one, too; −1 for none.

    >>> agent = Withholding(arm=1, until=10)
    >>> agent.start(arms=2)
    >>> agent.learn(0, 0.0); agent.learn(1, 1.0)
    >>> agent.pick(3), agent.pick(11)
    (0, 1)
    """

    arm: int = -1
    until: int = 0
    alpha: float = 2.0
    but: int = -1

    def __post_init__(self) -> None:
        validation.keep_whole(self, "arm", -1)
        validation.keep_whole(self, "but", -1)
        validation.keep_whole(self, "until", 0)
        validation.keep_real(self, "alpha", 0.0, open_low=True)

    @staticmethod
    def index(mean: float, root: float, arm: int, t: int, params: Any) -> float:
        """S/N + √(α·log t)·(1/√N), and −∞ for what is withheld."""
        held = float(arm) == params.arm or (params.but >= 0.0 and float(arm) != params.but)
        if held and float(t) <= params.until:
            return -math.inf
        return float(mean + math.sqrt(params.alpha * math.log(float(t))) * root)
