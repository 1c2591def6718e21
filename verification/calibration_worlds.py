"""The worlds in which plans are tried: a true game, and what a planner is told of it, with errors.

None of them is drawn by the code that plans draw from: agents' means are uniform, truncated normal or Beta, not normal,
arms stand at other distances, and logs come from learners.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

import freepull as fp
from freepull import agents as strategies

ERROR = 0.25
"""How far off planners' guesses are, and how far off they say they may be."""
Rng = np.random.Generator


@dataclass(frozen=True)
class World:
    """One setting: the truth, and the question that is put to `plan`."""

    family: str
    game: fp.Game
    horizon: int
    principal: fp.Principal
    told: dict[str, Any]
    """What the planner knows."""
    strategies: tuple[Any, ...] = field(default_factory=lambda: (fp.agents.AlphaUCB(),))
    answers: Any = field(default_factory=fp.answers.Always)
    activity: Any = field(default_factory=fp.activity.EveryStep)
    leaving: Any = field(default_factory=fp.leaving.Stays)

    @property
    def picks(self) -> Any:
        """How the true agents pick: all alike, or one after the other as drawn."""
        return self.strategies[0] if len(self.strategies) == 1 else list(self.strategies)


def _off(rng: Rng) -> float:
    return math.exp(ERROR * rng.normal())


def _between(rng: Rng, low: float, high: float) -> float:
    """Log-uniform."""
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _guess(rng: Rng, game: fp.Game, arms_known: bool = False) -> dict[str, Any]:
    """The gap, the level and the spread of the true panel, each with an error of its own."""
    best = float(game.global_means.max())
    odds = best / (1 - best) * _off(rng)
    level = min(max(odds / (1 + odds), 0.1), 0.9)
    gaps = np.sort(np.delete(game.gaps, game.best))
    known = [float(gap) * _off(rng) for gap in gaps] if arms_known else [float(gaps[0]) * _off(rng)]
    spread = float(game.means.std(axis=0, ddof=1).mean()) * _off(rng)
    return {
        "arms": game.arms,
        "agents": game.agents,
        "gap": [min(gap, level - 0.02) for gap in known],
        "level": level,
        "spread": min(spread, 0.5),
        "error": ERROR,
    }


def _centres(rng: Rng, arms: int, gap: float, level: float) -> Any:
    """The arms' means: the next one ``gap`` behind, the others at uniform distances behind that."""
    further = gap * np.cumsum(rng.uniform(0.2, 1.8, arms - 2))
    return np.maximum(rng.permutation(np.concatenate([[level, level - gap], level - gap - further])), 0.05)


def _panel(means: Any, centres: Any) -> fp.Game:
    """Move agents' means so that the panel's are the centres."""
    for _ in range(50):
        means = np.clip(means + (centres - means.mean(axis=0)), 0.0, 1.0)
    return fp.Game(means)


def toy_like(rng: Rng) -> World:
    """Few agents who disagree widely."""
    M, K = int(rng.integers(2, 7)), int(rng.integers(3, 5))
    T, centres = int(_between(rng, 4_000, 16_000)), _centres(rng, K, _between(rng, 0.03, 0.12), rng.uniform(0.45, 0.6))
    game = _panel(centres + rng.uniform(0.1, 0.4) * rng.uniform(-1, 1, (M, K)), centres)
    principal = fp.Principal(
        fp.rules.Certified(float(rng.choice([0.01, 0.05]))), offers=str(rng.choice(["one", "each"]))
    )
    return World("few agents, toy-like", game, T, principal, _guess(rng, game, bool(rng.random() < 0.5)))


def many_arms(rng: Rng) -> World:
    """The paper's family of games with up to 30 arms, scaled to short horizons."""
    K, M = int(rng.choice([10, 20, 30])), int(rng.integers(5, 16))
    step = _between(rng, 0.01, 0.03)
    means = tuple(0.5 + step * (k - (K - 1) / 2) for k in range(K))
    family = fp.instances.Family(M, means=means, sd=float(rng.choice([0.01, 0.03, 0.1])), gap=(0.7 * step, 1.4 * step))
    game, T = family(rng), int(_between(rng, 3_000, 9_000))
    principal = fp.Principal(fp.rules.Certified(float(rng.choice([0.01, 0.05]))), offers="each")
    return World("many arms, the paper's family", game, T, principal, _guess(rng, game))


def _people(rng: Rng) -> tuple[fp.Game, int]:
    M, K, T = int(_between(rng, 100, 800)), int(rng.integers(2, 6)), int(_between(rng, 20, 80))
    centres = _centres(rng, K, _between(rng, 0.02, 0.1), rng.uniform(0.4, 0.7))
    return _panel(_drawn_people(rng, centres, rng.uniform(0.05, 0.2), M), centres), T


def _drawn_people(rng: Rng, centres: Any, sd: float, agents: int) -> Any:
    """Beta with these means and a standard deviation of about ``sd``."""
    strength = np.maximum(centres * (1 - centres) / sd**2 - 1, 0.5)
    return rng.beta(centres * strength, (1 - centres) * strength, (agents, len(centres)))


def people(rng: Rng) -> World:
    """Hundreds of people who act a few dozen times."""
    game, T = _people(rng)
    principal = fp.Principal(fp.rules.Certified(0.05), offers="each")
    return World("people", game, T, principal, _guess(rng, game, bool(rng.random() < 0.5)))


def mixed(rng: Rng) -> World:
    """People or few agents of several kinds, some of whom refuse; the planner knows the kinds, not who is which."""
    base = people(rng) if rng.random() < 0.6 else toy_like(rng)
    ways = [strategies.AlphaUCB(2.0), strategies.AlphaUCB(0.5), strategies.Thompson(), strategies.EpsilonGreedy()]
    chosen = [ways[i] for i in rng.permutation(np.arange(len(ways)))[: int(rng.integers(2, 4))]]
    true = tuple(chosen[i] for i in np.atleast_1d(rng.integers(0, len(chosen), base.game.agents)))
    principal: fp.Principal = base.principal
    answers: Any = fp.answers.Always()
    if rng.random() < 0.4:
        answers = fp.answers.WithProbability(float(rng.uniform(0.6, 0.95)))
        principal = fp.Principal(principal.rule, offers=principal.offers, protocol=fp.protocols.NeverBan())
    told = {**base.told, "strategy": chosen, "answers": answers}
    return World("mixed agents", base.game, base.horizon, principal, told, true, answers)


def logged(rng: Rng) -> World:
    """People of whom, or of whose like, there is a log."""
    M, K, T = int(_between(rng, 60, 400)), int(rng.integers(2, 6)), int(_between(rng, 20, 80))
    centres, sd = _centres(rng, K, _between(rng, 0.02, 0.1), rng.uniform(0.4, 0.7)), rng.uniform(0.05, 0.2)
    past = _drawn_people(rng, centres, sd, M)
    log = _log(rng, past, int(_between(rng, 5, 40)))
    told: dict[str, Any] = {"log": log}
    game = fp.Game(past)
    if rng.random() < 0.5:
        told["agents"] = int(_between(rng, 100, 800))
        game = fp.Game(_drawn_people(rng, centres, sd, told["agents"]))
    return World("planned from a log", game, T, fp.Principal(fp.rules.Certified(0.05), offers="each"), told)


def _log(rng: Rng, means: Any, steps: int) -> pl.DataFrame:
    """What ε-greedy people would have left behind."""
    (M, K), rows = means.shape, []
    pulls, sums = np.zeros(means.shape), np.zeros(means.shape)
    for _ in range(steps):
        greedy = np.argmax(np.where(pulls > 0, sums / np.maximum(pulls, 1), 1.0) + 1e-9 * rng.random((M, K)), axis=1)
        arm = np.where(rng.random(M) < 0.3, rng.integers(0, K, M), greedy)
        reward = (rng.random(M) < means[np.arange(M), arm]).astype(float)
        pulls[np.arange(M), arm] += 1
        sums[np.arange(M), arm] += reward
        rows.append(pl.DataFrame({"agent": np.arange(M), "arm": arm, "reward": reward}))
    return pl.concat(rows)


FAMILIES: tuple[Callable[[Rng], World], ...] = (toy_like, many_arms, people, mixed, logged)


STREET = "street panels"
FIRST_STREET = 1_000_000
"""Worlds from this number on are street panels."""


def street(rng: Rng) -> World:
    """People who come now and then, leave, or refuse; the planner is told so with errors, or has a log of others."""
    M, K = int(_between(rng, 200, 800)), int(rng.integers(2, 6))
    T, log_steps = (int(steps) for steps in rng.integers((300, 150), (701, 401)))
    centres, sd = _centres(rng, K, _between(rng, 0.03, 0.1), rng.uniform(0.4, 0.7)), rng.uniform(0.05, 0.2)
    activity = fp.activity.Lognormal(_between(rng, 0.02, 0.12), rng.uniform(0.4, 1.2), rng.uniform(0.01, 0.12))
    gone, after = (
        fp.leaving.AtRandom(rng.uniform(0.02, 0.25), after=int(rng.integers(0, 100))),
        int(rng.integers(3, 10)),
    )
    anger = fp.leaving.InAnger(rng.uniform(0.01, 0.1), after=after, probability=rng.uniform(0.05, 0.2))
    answers = fp.answers.Reluctant(rng.uniform(0.05, 0.4), rng.uniform(0.1, 0.5))
    strategy: Any = strategies.AlphaUCB(2.0) if rng.random() < 0.7 else strategies.Thompson()
    rule = fp.rules.Comparisons(0.05, float(rng.choice([0.0, 0.02, 0.05])))
    principal = fp.Principal(rule, observe=fp.observe.Share(0.1), protocol=fp.protocols.NeverBan(), offers="each")
    truth: dict[str, Any] = {"answers": answers, "activity": activity, "leaving": fp.leaving.AnyOf([gone, anger])}
    if rng.random() < 0.5:
        game = _panel(_drawn_people(rng, centres, sd, M), centres)
        told = _guess(rng, game, bool(rng.random() < 0.5)) | {
            "strategy": strategy,
            "answers": _told(rng, answers),
            "activity": _told(rng, activity),
            "leaving": fp.leaving.AnyOf([_told(rng, gone), _told(rng, anger)]),
        }
    else:
        past = fp.Game(_drawn_people(rng, centres, sd, int(_between(rng, 150, 500))))
        fewer = replace(gone, share=1 - (1 - gone.share) ** (log_steps / T))  # a log is shorter than the trial
        people = truth | {"leaving": fp.leaving.AnyOf([fewer, anger])}
        told = {"log": timed_log(past, log_steps, strategy, people, int(rng.integers(1 << 31))), "agents": M}
        game = fp.Game(_drawn_people(rng, centres, sd, M))
    return World(STREET, game, T, principal, told, (strategy,), **truth)


def _told(rng: Rng, part: Any) -> Any:
    """A part as a planner guesses it: every rate and the odds of every share off by a factor of its own."""
    known = {}
    for name, value in vars(part).items():
        if name in ("median", "sigma"):
            known[name] = value * _off(rng)
        elif name in ("share", "silent", "probability"):
            odds = value / (1 - value) * _off(rng)
            known[name] = odds / (1 + odds)
    return replace(part, **known)


def timed_log(game: fp.Game, steps: int, strategy: Any, people: dict[str, Any], seed: int) -> pl.DataFrame:
    """What such people would have left behind, everybody who was enrolled, and now and then an offer of any arm."""
    rng, M, K = np.random.default_rng(seed), game.agents, game.arms
    rows: list[tuple[Any, ...]] = []
    keys = rng.integers(1 << 62, size=(4, M)).tolist()
    activity, leaving, answers = people["activity"], people["leaving"], people["answers"]
    last = [leaving.until(key, steps) for key in keys[0]]
    agents = [deepcopy(strategy) for _ in range(M)]
    for agent, key in zip(agents, keys[1], strict=True):
        agent.start(K, key)
    chance = np.array([activity.chance(key, 1) for key in keys[2]])
    lots, acts = np.asarray(rng.random(M)), [0] * M
    for t in range(1, steps + 1):
        for m in np.flatnonzero(rng.random(size=M) < chance).tolist():
            if t > last[m]:
                continue
            acts[m] += 1
            arm, outcome = agents[m].pick(acts[m]), None
            if rng.random() < 0.1:
                refused = lots[m] < answers.share and rng.random() < answers.probability
                arm, outcome = (arm, "refused") if refused else (int(rng.integers(K)), "paid")
            reward = float(rng.random() < game.means[m, arm])
            agents[m].learn(arm, reward)
            last[m] = 0 if leaving.leaves(keys[0][m], acts[m], reward) else last[m]
            rows.append((t, m, arm, reward, outcome))
    rows += [(1, m, None, None, None) for m in range(M)]
    return pl.DataFrame(rows, ["step", "agent", "arm", "reward", "outcome"], orient="row", infer_schema_length=None)


PRICED = "prices that differ"
FIRST_PRICED = 2_000_000
"""Worlds from this number on have prices."""


def priced(rng: Rng) -> World:
    """People or few agents who are compensated, or are offered posted prices; the planner knows how they answer."""
    base = people(rng) if rng.random() < 0.6 else toy_like(rng)
    pricing: Any = fp.pricing.Compensate(margin=float(rng.uniform(0.0, 0.1)))
    answers: Any = fp.answers.Always()
    if rng.random() < 0.5:
        pricing = fp.pricing.Posted(accept=float(rng.uniform(0.8, 0.97)), start=float(rng.uniform(0.1, 0.5)))
        answers = fp.answers.WorthAtLeast(0.0, float(rng.uniform(0.0, 0.2)))
    principal = replace(base.principal, pricing=pricing, protocol=fp.protocols.NeverBan())
    told = {**base.told, "answers": answers}
    return replace(base, family=PRICED, principal=principal, told=told, answers=answers)


def world(seed: int, number: int) -> World:
    """The n-th world of a seed; families take turns, street panels and prices have numbers of their own."""
    make = FAMILIES[number % len(FAMILIES)]
    if number >= FIRST_STREET:
        make = street if number < FIRST_PRICED else priced
    return make(np.random.default_rng([seed, number]))
