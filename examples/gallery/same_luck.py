"""
Two principals on the same luck
===============================

Principals that are compared run by run, on the same games, rewards and coins, need far fewer runs: what both have in
common cancels. Beside it, the regret of all agents against time, with axes for a paper.
"""

import matplotlib.pyplot as plt

import freepull as fp

found = fp.compare(
    {
        "certified": fp.Principal(fp.rules.Certified(0.01)),
        "authors' constant": fp.Principal(fp.rules.Paper(0.01, "simplified", 0.1)),
    },
    fp.instances.Family(agents=5, means=[0.3, 0.4, 0.5, 0.6, 0.7], sd=0.1, gap=None),
    horizon=8_000,
    runs=30,
    seed=1,
    trace=400,
)
print(found.differences().select("quantity", "difference", "low", "high", "width"))

figure, ax = plt.subplots(figsize=(6, 3.3), layout="constrained")
fp.charts.regret(found.results, ax=ax)
plt.show()
