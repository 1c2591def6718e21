"""What an act takes on a street panel, where most people are idle in most steps, beside the paper's rule."""

from __future__ import annotations

import time
import warnings
from functools import partial

import freepull as fp
from freepull.simulation.compiled.engine import Player
from freepull.simulation.compiled.state import Block
from freepull.simulation.experiment import check

from .timing import Sample, in_turn

BAR = 3.0
STRICT = 1e-90
"""Nothing is decided at this δ: all arms stay in, the most work."""


def measure(rule: fp.rules.Rule, runs: int = 16) -> float:
    """Return ns per act, idle steps included, on one thread; what prepares a run does not count."""
    panel = fp.panels.street()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        principal = fp.Principal(rule, fp.observe.Share(0.1), fp.protocols.NeverBan(), offers="each")
        experiment = check(
            panel.game, panel.agents, panel.answers, principal, panel.horizon, runs, 9_104, "horizon", None,
            activity=panel.activity, leaving=panel.leaving,
        )  # fmt: skip
    player = Player(experiment)
    block = Block(experiment, player.coded, experiment.runs)
    player._begin(block)
    began = time.thread_time()
    player._advance(block, panel.horizon)
    seconds = time.thread_time() - began
    player._take_stock(block)
    pulls, _ = block.final_counts()
    return seconds / float(pulls.sum()) * 1e9


def beside_paper(times: int) -> tuple[Sample, Sample]:
    """`Comparisons` and the paper's rule, in turn."""
    rules = (fp.rules.Comparisons(STRICT), fp.rules.Paper(STRICT, "simplified"))
    ours, theirs = in_turn([partial(measure, rule) for rule in rules], times)
    return ours, theirs
