"""
Watching is not enough
======================

People learn what they like themselves. The more they have learned, the less they show of everything else, so a
principal who only watches stays at a guess, however long she waits.
"""

import matplotlib.pyplot as plt

import freepull as fp

HORIZONS = [100, 300, 1_000, 3_000, 10_000]
rules = {"only watching": fp.rules.Passive(), "watching, then paying": fp.rules.Certified(delta=0.05)}

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, rule), colour in zip(rules.items(), fp.charts.COLOURS, strict=False):
    frames = [
        fp.simulate(fp.instances.toy(), principal=fp.Principal(rule), horizon=T, runs=200).frame for T in HORIZONS
    ]
    right = [100 * float(frame["correct"].to_numpy().mean()) for frame in frames]
    ax.plot(HORIZONS, right, marker="o", color=colour, label=name)
ax.set(xscale="log", xlabel="steps", ylabel="right, % of trials", ylim=(0, 104), title="Two people, three options")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
