"""
One trial with 500 people as they are
=====================================

Who comes, how the evidence grows, and what it costs: one trial on ``fp.panels.street``. It pays about as much as such
trials do on average; half of them pay nothing. The picture of the README is this one;
``python examples/gallery/street_panel.py street.png`` draws it.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import freepull as fp

STEPS = 10  # of a day on the street
PRICE = 0.50
principal = fp.Principal(
    fp.rules.Comparisons(delta=0.05, epsilon=0.02),
    observe=fp.observe.Share(0.1),
    protocol=fp.protocols.NeverBan(),
    offers="each",
)
trial = fp.simulate(fp.panels.street(), principal=principal, runs=[4], seed=1, keep="agents", trace=STEPS // 2)
(run,) = trial.frame.iter_rows(named=True)
assert trial.agents is not None
assert trial.trace is not None
decided = run["decided_at"] / STEPS

figure, (who, evidence, money) = plt.subplots(1, 3, figsize=(12, 3.3), layout="constrained", dpi=100)
for ax in (who, evidence, money):
    ax.spines[["top", "right"]].set_visible(False)
blue, orange = fp.charts.COLOURS[4], fp.charts.COLOURS[5]

pulls, paid = trial.agents["pulls"].list.sum().to_numpy(), trial.paid.sum(axis=1)
order = np.argsort(-pulls)
who.fill_between(np.arange(len(pulls)), pulls[order], step="mid", color=blue, label="free pulls")
who.fill_between(np.arange(len(pulls)), paid[order], step="mid", color=orange, label="paid for")
who.set(xlabel="500 people, the busiest first", ylabel="pulls in 60 days", title="Few come often, some never")
who.legend(frameon=False)

for arm, name in enumerate("ABCD"):
    seen = trial.trace.filter((trial.trace["arm"] == arm) & trial.trace["active"])
    seen = seen.filter(seen["step"] <= run["decided_at"])
    days, against = seen["step"].to_numpy() / STEPS, np.clip(seen["bound"].to_numpy(), 0.1, 240)
    evidence.plot(days, against, color=fp.charts.COLOURS[arm])
    evidence.text(days[-1] + 0.7, against[-1], name, color=fp.charts.COLOURS[arm], va="center", weight="bold")
evidence.axhline(240, color="0.4", linestyle="--", linewidth=1)
evidence.set(yscale="log", xlabel="day", ylabel="evidence against it", title="An option is out at the dashed line")

totals = trial.trace.filter(trial.trace["arm"] == 0)
days, spent = totals["step"].to_numpy() / STEPS, totals["paid"].to_numpy() * PRICE
money.fill_between(days, spent, color=orange)
money.set(xlabel="day", ylabel="EUR", title=f"{run['paid']} bonuses, {run['free_pulls']:,} free pulls")
for ax in (evidence, money):
    ax.axvline(6, color="0.8", linewidth=1)
    ax.axvline(decided, color="black", linewidth=1)
    ax.set_xlim(0, 60)
money.text(6.5, 0.5 * spent.max(), "may pay from here on", color="0.4")
money.text(decided - 0.7, 0.93 * spent.max(), f"{'ABCD'[run['arm']]} is certified", ha="right")
plt.show()

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
