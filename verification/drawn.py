"""Claims about a population from which the agents were drawn, and people who leave because of their rewards."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

import freepull as fp
from freepull.campaigns.commands import Decider
from freepull.campaigns.directory import Batch, Pull
from freepull.campaigns.journal.events import Log
from freepull.campaigns.state import State
from freepull.campaigns.telling import tell
from freepull.campaigns.trials import agree
from freepull.principal.record import UNITS
from freepull.randomness import key, uniform, word

from .found import THREADS
from .judging import Rate

DELTA, SEED, PULLS = 0.05, 5_000, 200
PANELS = [(30, 2, 0.1), (60, 2, 0.1), (120, 2, 0.1), (60, 3, 0.1), (60, 2, 0.5), (500, 3, 0.5)]
LEAVER_ARMS, LEAVER_AGENTS, LEAVER_STEPS = 2, 6, 60
LEFT: dict[str, tuple[fp.rules.Rule, str]] = {
    "Comparisons": (fp.rules.Comparisons(DELTA), "wait"),
    "Certified, wait": (fp.rules.Certified(DELTA), "wait"),
    "Certified, independent": (fp.rules.Certified(DELTA), "independent"),
}
"""Rules that people leave, with the policy."""
IGNORING, DAYS, DAY = 100, 150, 24 * 3600 * 10**6


@dataclass(frozen=True)
class Drawn:
    """Agents from a population in which all arms tie at ½; sd ½ stands for agents whose means are 0 or 1."""

    agents: int
    arms: int
    sd: float = 0.1

    @property
    def name(self) -> str:
        """The panel in words."""
        return f"{self.agents} agents, {self.arms} arms, " + (f"sd {self.sd:g}" if self.sd < 0.5 else "means 0 or 1")

    def __call__(self, rng: np.random.Generator) -> fp.Game:
        """Draw one panel; limits that lie symmetrically keep the mean of an arm at ½."""
        if self.sd >= 0.5:
            return fp.Game(rng.integers(0, 2, (self.agents, self.arms)).astype(float))
        return fp.Game(np.clip(rng.normal(0.5, self.sd, (self.agents, self.arms)), 0.0, 1.0))


def false_claims(panel: Drawn, rule: fp.rules.Population | fp.rules.Certified, pulls: int, runs: int, seed: int) -> int:
    """How often arm 0, a best one of the population, loses to another, whether or not the trial is decided."""
    horizon = pulls * panel.arms
    result = fp.simulate(
        panel, principal=fp.Principal(rule, observe=fp.observe.Share(1.0)), agents=fp.agents.RoundRobin(),
        horizon=horizon, runs=runs, seed=seed, trace=[horizon], progress=False,
    )  # fmt: skip
    assert result.trace is not None
    return int((~result.trace.filter(arm=0)["active"]).sum())


def populations(scale: float) -> list[tuple[str, str, Rate]]:
    """Every panel under the population rule, and under the panel's rule beside it."""
    found = []
    for i, shape in enumerate(PANELS):
        panel = Drawn(*shape)
        for name, rule, most in (
            ("Population", fp.rules.Population(DELTA), 4_000),
            ("Certified, which speaks of the panel", fp.rules.Certified(DELTA), 1_000),
        ):
            runs = max(20, int(most * scale))
            lost = false_claims(panel, rule, PULLS, runs, SEED + i)
            found.append((panel.name, name, Rate(panel.name, runs, lost, DELTA)))
    return found


def leavers(scale: float) -> dict[str, Rate]:
    """How often a tied arm falls though its lucky agents leave, by rule and policy.

    Six agents alike, two arms that tie at ½. An agent leaves for good once its mean of arm 0 is above ¾ after at
    least four pulls: who is pleased with arm 0 is gone. Played on `Trial` in Python.
    """
    runs = max(20, int(3_000 * scale))
    with ProcessPoolExecutor(THREADS, get_context("spawn")) as pool:
        return {
            name: Rate(name, runs, sum(pool.map(partial(_falls, *left), range(runs), chunksize=20)), DELTA)
            for name, left in LEFT.items()
        }


def _falls(rule: fp.rules.Rule, policy: str, run: int) -> bool:
    principal = fp.Principal(rule, observe=fp.observe.Steps(LEAVER_STEPS))
    trial = principal.start(arms=LEAVER_ARMS, agents=LEAVER_AGENTS, leavers=policy)
    keys = [key(SEED, run, m, 1) for m in range(LEAVER_AGENTS)]
    pulls, sums = np.zeros((2, LEAVER_AGENTS), int), np.zeros((2, LEAVER_AGENTS))
    here = set(range(LEAVER_AGENTS))
    for t in range(LEAVER_STEPS):
        for m in sorted(here):
            k = t % 2
            trial.ask(m)
            pulls[k, m] += 1
            x = float(uniform(word(keys[m], k, int(pulls[k, m]))) < 0.5)
            sums[k, m] += x
            trial.tell(m, k, x)
        for m in sorted(here):
            if pulls[0, m] >= 4 and sums[0, m] > 0.75 * pulls[0, m] and len(here) > 1:
                here.remove(m)
                trial.leave(m)
        trial.end_step()
        if trial.decided_at is not None:
            return 0 not in trial.active
    return 0 not in trial.active


def ignoring(scale: float) -> dict[str, Rate]:
    """How often a tied arm falls, certified, though people ignore offers of the other arm if it disappointed them.

    A hundred agents alike, two arms that tie at ½, a campaign with ``leavers="independent"``. Whoever has at least ten
    pulls of arm 1 with a mean below ½ ignores offers of it, and is parked after three. Those who are parked rest; or
    the operator takes them for gone, which drops them because of their rewards.
    """
    found = {}
    with ProcessPoolExecutor(THREADS, get_context("spawn")) as pool:
        for name, gone, most in (("parked", False, 200), ("parked, then dropped by hand", True, 60)):
            runs = max(20, int(most * scale))
            fell = pool.map(partial(ignored, gone=gone), range(runs), chunksize=5)
            found[name] = Rate(name, runs, sum(fell), DELTA)
    return found


def ignored(run: int, gone: bool, days: int = DAYS, least: int = 10) -> bool:
    """Play one campaign in memory; say whether arm 0 fell and that is certified."""
    principal = fp.Principal(fp.rules.Certified(DELTA), observe=fp.observe.Steps(0), offers="each")
    settings = agree(
        name="ignored", arms=2, principal=principal, price="1 EUR", mode="free", horizon=None, ends=None,
        leavers="independent", withdrawal=False, late_joiners="observe", offer_lasts="1 hour", cool_down="1 hour",
        round_lasts=None, remembers="1 day",
    )  # fmt: skip
    decider = Decider(State(settings), Log())
    state, people = decider.state, decider.state.people
    decider.enrol(IGNORING, None, DAY, "")
    decider.start(DAY, "")
    keys = [[key(SEED, run, m, purpose) for purpose in (0, 1)] for m in range(IGNORING)]
    pulls, sums = np.zeros((2, IGNORING, 2), int)
    for day in range(2, days + 2):
        at, told = day * DAY, list[Pull]()
        decider.tick(at)
        for m in sorted(people.parked) if gone else ():
            if len(people.left) < IGNORING - 1:
                decider.leave(m, at, "")
        for m in sorted(set(range(IGNORING)) - people.left):
            offer = decider.ask(m, at)
            k = _favourite(pulls[m], sums[m], word(keys[m][0], 0, day)) if offer is None else offer.arm
            if offer is not None and k == 1 and pulls[m, 1] >= least and 2 * sums[m, 1] < pulls[m, 1]:
                continue
            pulls[m, k] += 1
            x = int(uniform(word(keys[m][1], k, int(pulls[m, k]))) < 0.5)
            sums[m, k] += x
            told.append(Pull(m, k, x * UNITS))
        tell(decider, Batch.of(told), at, {}, strict=True)
        if state.decision is not None:
            return bool(state.decision["arm"] == 1 and state.decision["certified"])
    return False


def _favourite(pulls: Any, sums: Any, chance: int) -> int:
    """The arm with the larger mean; both have to be tried, and one visit in ten is to any."""
    if pulls.min() == 0 or chance % 10 == 0:
        return int(pulls.argmin()) if pulls.min() == 0 else chance // 10 % 2
    return int(sums[1] * pulls[0] > sums[0] * pulls[1])
