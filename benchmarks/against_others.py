"""The engine beside the readable one, a plain compiled loop and other libraries; and what slower strategies cost."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import freepull as fp
from freepull.agents import Agent

from . import limit, ours, peers, plain
from .cases import INCENTIVIZING_LARGE, INCENTIVIZING_SMALL, OBSERVING_LARGE, OBSERVING_SMALL, PAPER, Case
from .findings import Effort, Findings, Timed, ns
from .timing import Sample, in_turn

SCALAR, END_OF_A_STEP = 5.0, 9.0
STRATEGIES: dict[str, tuple[Agent, float]] = {
    "KL-UCB": (fp.agents.KLUCB(), 45.0),
    "Thompson": (fp.agents.Thompson(), 135.0),
}


def scalar_loop(found: Findings, effort: Effort) -> None:
    """How many times as fast as a plain loop."""
    for case in (OBSERVING_SMALL, OBSERVING_LARGE):
        our, its = in_turn([partial(ours.measure, case), partial(plain.measure, case)], effort.few)
        part, detail = "times as fast as a plain compiled loop", f"{ns(our.median)} beside {ns(its.median)}"
        if case is OBSERVING_LARGE:
            found.at_least(part, case.name, its.ratio(our), SCALAR, "×", detail)
        else:
            found.plain(part, case.name, f"{its.ratio(our):.3g}×", detail)
        found.timed.append(Timed(case.arms, "plain compiled loop", case.phase, its))


def readable(found: Findings, effort: Effort) -> None:
    """How many times as fast as the readable engine, which takes every step in Python."""
    for case in (OBSERVING_SMALL, INCENTIVIZING_SMALL, OBSERVING_LARGE, INCENTIVIZING_LARGE):
        our, its = in_turn([partial(ours.measure, case), partial(_readable, case)], effort.few, warm_up=False)
        detail = f"{ns(our.median)} beside {ns(its.median)}"
        found.plain("times as fast as the readable engine", case.name, f"{its.ratio(our):,.0f}×", detail)
        found.timed.append(Timed(case.arms, "readable engine", case.phase, its))
    (own,) = in_turn([_end_of_a_step], effort.few)
    found.at_most(
        "the readable engine, two agents", "the end of a step while observing", own.median, END_OF_A_STEP, " µs"
    )


def _end_of_a_step() -> float:
    """Microseconds that `Trial.end_step` takes while nobody is paid."""
    steps, seconds = 2_000, 0.0
    principal = fp.Principal(PAPER, observe=fp.observe.Steps(steps))
    trial = principal.start(agents=2, arms=3, horizon=steps)
    for t in range(1, steps + 1):
        for agent in range(2):
            trial.ask(agent)
            trial.tell(agent, t % 3, 0.5)
        began = time.thread_time()
        trial.end_step()
        seconds += time.thread_time() - began
    return seconds / steps * 1e6


def _readable(case: Case) -> float:
    """ns per agent-step of a short run."""
    steps = 2_000 if case.arms == 3 else 200
    watched = steps if case.phase == "observing" else case.arms
    principal = replace(case.principal, observe=fp.observe.Steps(watched))
    began = time.thread_time()
    fp.simulate(case.game, principal=principal, horizon=steps, runs=1, engine="readable", progress=False)
    return (time.thread_time() - began) / (steps * case.agents) * 1e9


def libraries(found: Findings, effort: Effort, out: Path) -> None:
    """How many times as fast as UCB agents of other libraries."""
    answer = peers.run(out / "peers", install=not effort.quick)
    if isinstance(answer, str):
        found.notes.append(answer)
        return
    for name, measured in answer.items():
        if "error" in measured:
            found.notes.append(f"{name} could not be measured: {measured['error']}.")
            continue
        found.versions[name] = measured["version"]
        for arms in (3, 30):
            its = Sample(tuple(measured["ns"][str(arms)]))
            our = next(t.sample for t in found.timed if t.ours and t.arms == arms and t.phase == "observing")
            detail = f"{ns(our.median)} beside {ns(its.median)}"
            ratio = f"{its.median / our.median:,.0f}×"
            found.plain("times as fast as other libraries, UCB agents", f"{name}, K = {arms}", ratio, detail)
            found.timed.append(Timed(arms, name, "observing", its))


def strategies(found: Findings, effort: Effort, built: limit.Built | None) -> None:
    """The strategies that need more arithmetic, as multiples of the C program's α-UCB."""
    case = replace(OBSERVING_LARGE, runs=1)
    for name, (agent, bar) in STRATEGIES.items():
        mine, what = partial(ours.measure, case, agents=agent), f"{name}, {case.name}"
        if built is None:
            (our,) = in_turn([mine], effort.few)
            found.plain("other strategies", what, ns(our.median))
        else:
            our, its = in_turn([mine, partial(built.measure, OBSERVING_LARGE)], effort.few)
            part = "other strategies, times the C program's α-UCB"
            found.at_most(part, what, our.ratio(its), bar, "×", f"{ns(our.median)} beside {ns(its.median)}")
        found.timed.append(Timed(case.arms, f"freepull, {name}", case.phase, our, ours=True))
