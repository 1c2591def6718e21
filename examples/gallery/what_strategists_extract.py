"""
What a strategist extracts, and a defence
=========================================

An agent who pulls nothing but its best option until it is paid is paid for pulls that it would have made for nothing.
It gains that, and nothing where nobody pays. If the pulls that an honest learner makes by itself are asked for at a
price of nothing, little is left of the gain, and honest agents cost the same.
"""

import matplotlib.pyplot as plt

import freepull as fp

game, horizon = fp.Game([[0.8, 0.55, 0.1], [0.1, 0.55, 0.8]]), 4_000
always, steps = fp.answers.Always(), (2_000, 3_000, 4_000)
ways = [(fp.agents.Withholding(but=0, until=until, alpha=alpha), always) for until in steps for alpha in (2, 0.2)]
pricings = {
    "bonuses of 1": None,
    "compensation": fp.pricing.Compensate(),
    "nothing for natural pulls": fp.pricing.BeyondNatural(),
}

figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
for place, (name, pricing) in enumerate(pricings.items()):
    principal = fp.Principal(fp.rules.Certified(0.05), pricing=pricing)
    found = fp.best_response(game, principal=principal, horizon=horizon, strategies=ways, runs=60)
    ax.barh(place, found.added.mean, xerr=1.96 * found.added.error, color=fp.charts.COLOURS[place])
    print(f"{name}: {found.agent}, gain {found.gain}, of that bonuses {found.bonuses}; the bill {found.cost}")
ax.set(yticks=range(len(pricings)), yticklabels=list(pricings), xlabel="what incentives add to a strategist's gain")
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
plt.show()
