"""
More people, less money
=======================

The more people take part, the less each of them has to show. With enough of them, what they do anyway is all the
evidence that is needed, and the trial is free: this is what the paper calls *almost free*.
"""

import matplotlib.pyplot as plt

import freepull as fp

CROWDS = [25, 50, 100, 200, 400, 800]
principal = fp.Principal(fp.rules.Certified(delta=0.05), offers="each")
results = [
    fp.simulate(fp.panels.ideal(agents=M, gap=0.1), principal=principal, runs=50, until="decided") for M in CROWDS
]

figure, ax = plt.subplots(figsize=(6, 3.3), layout="constrained")
for share, colour in ((0.1, "0.85"), (0.25, "0.7")):
    low = [result.frame["paid"].quantile(share) for result in results]
    high = [result.frame["paid"].quantile(1 - share) for result in results]
    ax.fill_between(CROWDS, low, high, color=colour, label=f"{1 - 2 * share:.0%} of trials")  # type: ignore[arg-type]
ax.plot(CROWDS, [result.frame["paid"].median() for result in results], "o-", label="median")  # type: ignore[arg-type]
for M, result in zip(CROWDS, results, strict=True):
    told = f"{result.frame['decided'].sum() * 2} %"
    ax.text(M, 0.97, told, transform=ax.get_xaxis_transform(), fontsize=8, color="0.4", ha="center")
ax.set(xscale="log", xlabel="people", ylabel="bonuses a trial", xticks=CROWDS, xticklabels=CROWDS, ylim=(-20, 800))
ax.minorticks_off()
ax.set_title("Bonuses, and above them how many trials were decided in time", fontsize=10)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="center right")
plt.show()
