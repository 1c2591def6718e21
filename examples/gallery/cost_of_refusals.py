"""
What refusals cost
==================

People refuse an offer now and then. A rule that waits for everybody's share of every option, and bans whoever refuses,
decides few trials as soon as one offer in ten is refused. One that waits for nobody does not mind.
"""

import matplotlib.pyplot as plt

import freepull as fp

panel = fp.panels.ideal(agents=200, gap=0.05)
takes = [1.0, 0.95, 0.9, 0.7]
principals = {
    "Certified, bans": fp.Principal(fp.rules.Certified(0.05), offers="each"),
    "Comparisons, no bans": fp.Principal(
        fp.rules.Comparisons(0.05, epsilon=0.02), fp.observe.Share(0.1), fp.protocols.NeverBan(), offers="each"
    ),
}

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
for (name, principal), colour in zip(principals.items(), fp.charts.COLOURS, strict=False):
    found = [
        fp.simulate(panel, principal=principal, answers=fp.answers.WithProbability(p), runs=30, until="decided").frame
        for p in takes
    ]
    refused = [100 * (1 - p) for p in takes]
    left.plot(refused, [100 * frame["decided"].sum() / 30 for frame in found], marker="o", color=colour, label=name)
    right.plot(refused, [frame["paid"].sum() / 30 for frame in found], marker="o", color=colour, label=name)
left.set(xlabel="offers refused, %", ylabel="trials decided, %", ylim=(-3, 104))
right.set(xlabel="offers refused, %", ylabel="bonuses a trial")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
left.legend(frameon=False)
plt.show()
