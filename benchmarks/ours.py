"""Measures freepull's compiled engine on a case: only what the kernels take, on prepared blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import freepull as fp
from freepull.agents import Agent
from freepull.simulation.compiled.engine import LANES, Player
from freepull.simulation.compiled.state import Block
from freepull.simulation.experiment import check

from .cases import Case
from .timing import Clock, Gate, no_gate


def blocks_of(case: Case, agents: Agent) -> list[Callable[[int], int]]:
    """Cut the runs into blocks as `simulate` does; a call plays a block to a step, and says how far it came.

    The only place in these benchmarks that knows the engine from inside; it does what `Player.play` does.
    """
    runs = tuple(range(case.runs))
    experiment = check(case.game, agents, fp.answers.Always(), case.principal, case.horizon, runs, 1, "horizon", None)
    player, size = Player(experiment), max(1, LANES // case.agents)

    def play(block: Block, until: int) -> int:
        silent = player.kernel.silent_until
        if silent == block.t == 0:
            player._begin(block)
        if block.t < silent:
            player._observe(block, min(until, silent))
            if block.t == silent:
                player._begin(block)
        if block.t < until:
            player._advance(block, until)
        return block.t

    cut = [runs[at : at + size] for at in range(0, case.runs, size)]
    return [partial(play, Block(experiment, player.coded, some)) for some in cut]


def measure(case: Case, clock: Clock = time.thread_time, agents: Agent | None = None) -> float:
    """Return ns per agent-step on one thread."""
    return _measure(case, blocks_of(case, fp.agents.AlphaUCB() if agents is None else agents), no_gate, clock)


def measure_two(case: Case) -> float:
    """Return ns per agent-step of the slower of two threads that start at the same moment, on different runs."""
    blocks = blocks_of(replace(case, runs=2 * case.runs), fp.agents.AlphaUCB())
    gate = threading.Barrier(2, timeout=120)
    with ThreadPoolExecutor(2) as pool:
        halves = [pool.submit(_measure, case, blocks[i::2], gate.wait, time.perf_counter) for i in range(2)]
        return max(half.result() for half in halves)


def _measure(case: Case, blocks: list[Callable[[int], int]], gate: Gate, clock: Clock) -> float:
    for play in blocks:
        play(case.first - 1)
    gate()
    began = clock()
    reached = [play(case.last) for play in blocks]
    seconds = clock() - began
    if min(reached) < case.last:
        raise ValueError(f"{case.name} was decided before step {case.last}; give its rule a smaller delta.")
    return seconds / case.agent_steps * 1e9
