"""
Plan a trial
============

You have four options, about 500 people, two months, and half a euro for each bonus. What will it cost to know which
option is best on average, how likely is an answer, and when would it be free? A plan answers before anybody is paid.
"""

# %%
# From guesses
# ------------
#
# Nobody knows the truth beforehand, but everybody has a guess of the *gap*: how far the best option is ahead of the
# next. A plan does not take your guess for the truth. Each of the trials that it simulates draws its own truth around
# the guesses (``error=0.25`` means that they are off by about a quarter), so the ranges contain that you may be wrong.

import matplotlib.pyplot as plt

import freepull as fp

plan = fp.plan(arms=4, agents=500, horizon=60, gap=0.05, delta=0.05, price="0.50 EUR", runs=100, curves=False)
print(plan)

# %%
# Without ``runs=100`` and ``curves=False`` it simulates for about 15 seconds, and also looks at other numbers of
# people, longer horizons and other δ.
#
# What budget is enough?
# ----------------------

figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
fp.charts.chance_by_budget(plan, ax=ax)
plt.show()

# %%

assert plan.forecast is not None
for bonuses in (0, 100, 1_000):
    print(f"at most {bonuses:>5,} bonuses: a certified answer in {plan.chance(bonuses):.0%} of trials")

# %%
# People as they are
# ------------------
#
# That plan took everybody to act in every step, and to accept every offer. Real people come now and then, some never,
# some leave, and some refuse. ``fp.panels.street`` is such a panel: 60 days of ten steps each, half an act a day for
# the person in the middle, a few who are there all the time.
#
# For such people the plan takes another rule, ``Comparisons``, which waits for nobody. It is also content with an
# option that is *best up to ε*: here, with one that is at most 0.02 worse than the best.

street = fp.plan(fp.panels.street(), principal=None, epsilon=0.02, price="0.50 EUR", runs=100, curves=False)
print(street)

# %%
# Did it hold?
# ------------
#
# Play 100 trials that the plan has never seen, with other luck, and count how many of them cost what was forecast.

low, high = street.forecast.range(0.9) if street.forecast else (0, 0)
principal = fp.Principal(
    fp.rules.Comparisons(delta=0.05, epsilon=0.02),
    observe=fp.observe.Share(0.1),
    protocol=fp.protocols.NeverBan(),
    offers="each",
)
trials = fp.simulate(fp.panels.street(), principal=principal, runs=100, seed=2026, until="decided")
inside = trials.frame["paid"].is_between(low, high).sum()
print(f"{inside} of 100 trials paid between {low:,.0f} and {high:,.0f} bonuses, the range for 90 %")
print(f"{trials.frame['certified'].sum()} of 100 ended with a certified answer")

# %%
# What to do with it
# ------------------
#
# - ``fp.pages.plan_page(plan)`` is the plan as one HTML page, for the person who signs; in a shell it is
#   ``freepull plan … --html plan.html``.
# - If you have a log of past behaviour, give it instead of guesses: ``fp.plan(log="past.csv", horizon=60)``. Never use
#   the rewards of that log in the trial itself.
# - If no budget is enough, the plan says so, and how many people would be. Believe it.
#
# Next: `run the trial with people <run_with_people.html>`_. All that a plan can be told is on the page
# `Planning <../planning.html>`_; how often plans were right, on `Calibration <../calibration.html>`_.
