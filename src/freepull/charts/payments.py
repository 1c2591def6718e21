"""Who is paid for what (the paper's Fig. 2(b))."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from freepull.charts.style import COLOURS, HATCHES, axes
from freepull.simulation import Result


def payments(result: Result, ax: Axes | None = None, first: int = 0) -> Axes:
    """Mean bonuses per agent and arm, with 95 % error bars; the first of each has the number ``first``."""
    ax = axes(ax)
    agents, arms = result.paid.shape
    width = 0.8 / arms
    for k in range(arms):
        where = np.arange(agents) + (k - (arms - 1) / 2) * width
        bars = ax.bar(
            where, result.paid[:, k], 0.92 * width, label=f"arm {first + k}", color=COLOURS[k % 8], edgecolor="white"
        )
        for bar in bars:
            bar.set_hatch(HATCHES[k % 8])
        half = 1.96 * np.nan_to_num(result.paid_error[:, k])
        ax.errorbar(where, result.paid[:, k], half, fmt="none", color="black", capsize=2, linewidth=1)
    ax.set_xticks(range(agents), [f"agent {first + m}" for m in range(agents)])
    ax.set_ylabel("bonuses paid, mean of runs")
    ax.set_ylim(0, 1.35 * (result.paid.max() or 1.0))
    ax.legend(frameon=False, fontsize=8, ncols=min(arms, 4), loc="upper center")
    return ax
