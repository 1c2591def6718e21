"""
Mechanisms of others on the same game
=====================================

Two agents like different arms, and the arm that is best on average is the first choice of neither. Compensation for
myopic players (Wang and Huang 2018) costs little, and is often wrong about that arm, which it was never meant to find.
The search for the least prices (Scheid et al. 2024) finds it, and pays for every pull to the end.
Observe-then-Incentivize names it with a guarantee, and stops paying then.
"""

import matplotlib.pyplot as plt

import freepull as fp

mechanisms: dict[str, fp.Principal | fp.baselines.Mechanism] = {
    "Observe-then-Incentivize, certified": fp.Principal(fp.rules.Certified(0.05)),
    "compensation, Thompson": fp.baselines.Compensation(fp.agents.Thompson()),
    "search for prices": fp.baselines.PriceSearch(),
}
game = fp.Game([[0.8, 0.55, 0.1], [0.1, 0.55, 0.6]])
found = {T: fp.compare(mechanisms, game, horizon=T, runs=60, seed=1) for T in (1_000, 3_000, 10_000, 30_000)}
rows = fp.charts.gathered(found, "horizon")
print(rows.filter(horizon=30_000).select("principal", "spent", "decided", "correct", "regret"))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
fp.charts.sweep(rows, "horizon", "spent", ax=left, logy=True, legend=False)
fp.charts.sweep(rows, "horizon", "error", ax=right)
plt.show()
