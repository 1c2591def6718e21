"""
What a drift breaks
===================

A certificate assumes that means do not move. Let those of the best option fall over the trial: the principal, who does
not know, is soon sure of a wrong one far more often than δ allows. Large shocks that hit all at once do it too. Paid
pulls that are worth less do not in this game, whatever they cost.
"""

import matplotlib.pyplot as plt
import polars as pl

import freepull as fp

RUNS, SIZES = 60, [0.0, 0.1, 0.2, 0.3]
game = fp.Game([[0.75, 0.45, 0.4], [0.35, 0.5, 0.55], [0.55, 0.5, 0.4]])
principal = fp.Principal(fp.rules.Certified(0.05), fp.observe.Share(0.3), offers="each")
worlds: dict[str, list[fp.disturbances.Disturbance]] = {
    "the best option falls": [fp.disturbances.Drift(-by, arm=game.best) for by in SIZES],
    "shocks that all have in common": [fp.disturbances.Shocks(by, period=100) for by in SIZES],
    "paid pulls are worth less": [fp.disturbances.PaidBias(-by) for by in SIZES],
}

figure, ax = plt.subplots(figsize=(6, 3.3), layout="constrained")
for (name, ways), colour in zip(worlds.items(), fp.charts.COLOURS, strict=False):
    wrong = []
    for way in ways:
        frame = fp.simulate(game, principal=principal, horizon=3000, runs=RUNS, disturbances=way).frame
        wrong.append(100 * frame.filter("certified", ~pl.col("correct")).height / RUNS)
    ax.plot(SIZES, wrong, marker="o", color=colour, label=name)
ax.axhline(5, color="black", linewidth=0.8, linestyle="dashed")
ax.set(xlabel="how strong it is", ylabel="trials certified and wrong, %", ylim=(-3, 104))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
