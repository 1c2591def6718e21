"""Trials at random: a principal and a frame, what happens in it, and a log of it that can be replayed."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

import freepull as fp
from freepull.errors import InvalidInput

from .worlds import PROTOCOLS

Event = tuple[str, Any]
RULES: list[fp.rules.Rule] = [
    fp.rules.Certified(0.5),
    fp.rules.Certified(0.3, design=fp.rules.Design(2, 1, growth=0.5, stretch=1.0, held_back=0.5)),
    fp.rules.Certified(0.1, design=fp.rules.Design(3, 2, growth=1.0, neyman=0.1, forecast=fp.rules.Forecast())),
    fp.rules.Certified(0.6, gap=0.3, design=fp.rules.Design(shrink=False)),
    fp.rules.Population(0.9, pulls=2),
    fp.rules.Population(0.9),
    fp.rules.Comparisons(0.9, epsilon=0.2),
    fp.rules.Comparisons(0.9, cap=3),
]


@st.composite
def trials(draw: st.DrawFn, least: int = 1, waits: bool | None = None) -> tuple[fp.Principal, dict[str, Any]]:
    """Draw a principal, and the frame of a trial; of all rules, or of those that wait for agents."""
    rule = draw(st.sampled_from([rule for rule in RULES if waits is None or rule.waits == waits]))
    principal = fp.Principal(
        rule,
        observe=fp.observe.Steps(draw(st.sampled_from([0, 0, 2, 9]))),
        protocol=draw(st.sampled_from(PROTOCOLS)),
        offers=draw(st.sampled_from(["one", "each"])),
        budget=draw(st.sampled_from([None, None, 2.0, 9.0])),
    )
    M, K = draw(st.integers(least, 6)), draw(st.integers(2, 4))
    frame: dict[str, Any] = {"arms": K, "agents": M, "leavers": draw(st.sampled_from(rule.policies))}
    frame["horizon"] = draw(st.sampled_from([None, 8, 40]))
    if frame["horizon"] is not None and frame["horizon"] < K:
        frame["horizon"] = None
    if not isinstance(rule, fp.rules.Population):
        weights = draw(st.sampled_from([None, [1.0, 2.0, 0.0, 0.5, 1.0, 3.0], [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]]))
        frame["weights"] = None if weights is None else weights[:M]
    frame["withdrawal"] = rule.withdrawals and draw(st.booleans())
    return principal, frame


class Driver:
    """Makes up what happens in a trial, from a seed and from what the trial answers."""

    def __init__(self, frame: dict[str, Any], seed: int) -> None:
        self.chance, self.M, self.K, self.frame = random.Random(seed), frame["agents"], frame["arms"], frame
        self.gone: set[int] = set()
        self.withdrawn: set[int] = set()

    def agents(self) -> list[int]:
        """Those who can be told of."""
        return [m for m in range(self.M) if self.frame["leavers"] == "wait" or m not in self.gone]

    def pulls(self, trial: fp.Trial, most: int) -> list[tuple[int, int, float]]:
        """Pulls of offered arms and of others; binary rewards, or in tenths."""
        found, agents = [], self.agents()
        for _ in range(self.chance.randint(0, most) if agents else 0):
            m = self.chance.choice(agents)
            offered = trial.wanted(m)
            k = offered if offered is not None and self.chance.random() < 0.7 else self.chance.randrange(self.K)
            found.append((m, k, self.chance.choice([float(k == 0), 0.1 * self.chance.randint(0, 10)])))
        return found

    def odd(self, trial: fp.Trial) -> tuple[str, int] | None:
        """Now and then somebody leaves, an offer is cancelled or an arm withdrawn."""
        what, m, k = self.chance.random(), self.chance.randrange(self.M), self.chance.randrange(self.K)
        staying = [a for a in range(self.M) if trial.setting.weights[a] > 0 and a not in self.gone and a != m]
        if what < 0.06 and staying:
            self.gone.add(m)
            return "leave", m
        if what < 0.12:
            return "cancel", m
        open_to_it = trial.setting.withdrawal and trial.decided_at is None and len(self.withdrawn) < self.K - 1
        if what < 0.15 and open_to_it and k not in self.withdrawn:
            self.withdrawn.add(k)
            return "withdraw", k
        return None


def apply(trial: Any, what: tuple[str, int]) -> Any:
    return getattr(trial, what[0])(what[1])


def happen(trial: fp.Trial, event: Event) -> Any:
    """Let one event of a log happen; return what was answered."""
    name, given = event
    if name == "end_step":
        return trial.end_step(at_once=False)
    if name == "closed":
        return trial.work()
    if name == "tell_many":
        return trial.tell_many(*zip(*given, strict=True))
    try:
        return apply(trial, event)
    except InvalidInput as refused:  # the step that it had to wait for has decided the trial
        if name != "withdraw" or trial.decided_at is None:
            raise
        return str(refused)


def live(principal: fp.Principal, frame: dict[str, Any], seed: int) -> tuple[fp.Trial, list[Event], list[Any]]:
    """Drive a trial whose steps are closed slice by slice while other things go on; return it, its log, its answers."""
    trial, driver = principal.start(**frame), Driver(frame, seed)
    log: list[Event] = []
    answers: list[Any] = []

    def note(*event: Any) -> None:
        was_closing = trial.closing
        answer = happen(trial, event)
        if was_closing and not trial.closing and event[0] != "closed":
            log.append(("closed", None))  # leaving and withdrawing end a closing before they begin
            answers.append(True)
        log.append(event)
        answers.append(answer)

    for _ in range(60):
        if not trial.closing and driver.chance.random() < 0.5:
            note("end_step", None)
        for _ in range(driver.chance.randint(0, 30)):
            if trial.closing and trial.work(0):
                log.append(("closed", None))
                answers.append(True)
        note("ask", driver.chance.randrange(driver.M))
        odd = driver.odd(trial)
        if odd is not None:
            note(*odd)
        pulls = driver.pulls(trial, 3 * driver.M)
        if pulls:
            note("tell_many", pulls)
    note("closed", None)
    return trial, log, answers
