"""
Patience or money
=================

Whoever watches longer pays less, until no time is left to buy what is still missing.
"""

import matplotlib.pyplot as plt

import freepull as fp

SHARES = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9]
panel = fp.panels.ideal(agents=200, gap=0.07)
results = [
    fp.simulate(
        panel, principal=fp.Principal(fp.rules.Certified(0.05), fp.observe.Share(rho), offers="each"), runs=50,
        until="decided",
    ).frame
    for rho in SHARES
]  # fmt: skip

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(SHARES, [frame["paid"].sum() / 50 for frame in results], "o-", color=fp.charts.COLOURS[5])
left.set(xlabel="watching, share of the time", ylabel="bonuses a trial")
right.plot(SHARES, [100 * frame["decided"].sum() / 50 for frame in results], "o-", color=fp.charts.COLOURS[0])
right.set(xlabel="watching, share of the time", ylabel="trials decided, %", ylim=(-3, 104))
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
