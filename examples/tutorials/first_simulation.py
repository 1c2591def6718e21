"""
A first simulation
==================

A shop greets its visitors in one of three ways, and visitors may choose which one they get. The shop wants to know
which greeting is liked best *on average over everybody*. It may watch what people choose and how they like it, and it
may pay a small bonus to somebody who tries a greeting that few have tried.

Before anybody is paid, let us play this on a computer, where the truth is known.
"""

# %%
# The people
# ----------
#
# A game has a row for every person and a column for every option. A number is how often that person would like that
# greeting. Here are 12 regulars. Six of them love it formal and cannot bear jokes, six are the other way round, and all
# of them find the friendly greeting all right.

import matplotlib.pyplot as plt
import numpy as np

import freepull as fp

GREETINGS = ["formal", "friendly", "funny"]
rng = np.random.default_rng(1)
tastes = np.tile([[0.90, 0.53, 0.05], [0.05, 0.53, 0.90]], (6, 1))
game = fp.Game(np.clip(tastes + rng.normal(0, 0.04, tastes.shape), 0, 1))

favourites = np.bincount(game.means.argmax(axis=1), minlength=3)
for name, liked, people in zip(GREETINGS, game.global_means, favourites, strict=True):
    print(f"{name:8} is liked in {liked:.1%} of cases, and the favourite of {people} people")

# %%
# The friendly greeting is best on average, and nobody's favourite. People learn what *they* like, and soon choose
# little else. So counting what people choose does not tell what is best on average: whoever prefers the formal
# greeting hardly ever shows how they like the others.
#
# Only watching
# -------------
#
# A principal, as we call whoever runs the trial, can do nothing but watch. We let her do so in 200 trials of 1,000
# steps. In each step everybody picks a greeting; by default people pick as good learners do (``AlphaUCB``).

watching = fp.simulate(game, principal=fp.Principal(fp.rules.Passive()), horizon=1_000, runs=200, seed=1)
watching.summary().head(4)

# %%
# Every row is a mean over the 200 trials, with a 95 % interval. She never decides anything, because a passive principal
# has no rule that could tell her when she knows enough. The arm that she names is a guess.
#
# Watching, then paying
# ---------------------
#
# Now she watches for half of the time, and then pays for those pulls that are still missing. A *pull* is one person
# trying one option. She stops as soon as only one greeting is left that can be the best. With ``delta=0.05``, the
# probability that a trial ends with a wrong certified verdict is at most 5 %.

principal = fp.Principal(fp.rules.Certified(delta=0.05), observe=fp.observe.Share(0.5), offers="each")
paying = fp.simulate(game, principal=principal, horizon=1_000, runs=200, seed=1)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
both = {"only watching": watching, "watching, then paying": paying}
fp.charts.accuracy(both, ax=left).set_title("Does she name the best greeting?")
fp.charts.spend(both, ax=right).set_title("How many bonuses does she pay?")
plt.show()

# %%
# How many of all pulls were paid for?

rows = {row["quantity"]: row["mean"] for row in paying.summary().iter_rows(named=True)}
print(f"decided in {rows['decided']:.0%} of trials, right in {rows['correct']:.0%}")
print(f"{rows['paid']:.0f} bonuses a trial, beside {12 * 1_000:,} pulls that people make in it")

# %%
# One trial in slow motion
# ------------------------
#
# What happens inside? ``trace`` keeps what the principal knows at every tenth step. Against each greeting she collects
# evidence, and a greeting is out when the evidence reaches 1/δ = 20.

one = fp.simulate(game, principal=principal, horizon=1_000, runs=[0], seed=1, trace=10)
assert one.trace is not None

figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for arm, name in enumerate(GREETINGS):
    seen = one.trace.filter((one.trace["arm"] == arm) & one.trace["active"])
    ax.plot(seen["step"], seen["bound"], marker="o", markersize=3, label=name, color=fp.charts.COLOURS[arm])
ax.axhline(20, color="0.4", linestyle="--", linewidth=1)
ax.axvline(500, color="0.8", linewidth=1)
ax.text(505, 0.2, "paying begins", color="0.4", fontsize=8)
ax.set(yscale="log", xlabel="step", ylabel="evidence against it", title="A greeting is out at the dashed line")
ax.legend(frameon=False)
plt.show()

# %%
# What you have seen
# ------------------
#
# - What people choose is not what is best on average.
# - Most of the evidence is free; bonuses buy the rest.
# - A simulation knows the truth, so it can say how often a rule is right. A trial cannot: there, the certificate
#   counts.
#
# Next: `plan a trial <plan_a_trial.html>`_ with people whom you do not know yet. The words that were used here stand in
# the `glossary <../glossary.html>`_, and every part of a simulation in the `reference <../reference.html>`_.
