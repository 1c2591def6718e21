"""Plan before you pay: a forecast, a page for the person who signs, and then the trial, to see whether it held."""

from pathlib import Path

import numpy as np

import freepull as fp

AGENTS, HORIZON = 300, 50
OUT = Path("out")


def people(rng: np.random.Generator) -> fp.Game:
    """Draw the truth, which no planner knows: four options, and people who differ more than was thought."""
    likes = np.array([0.52, 0.46, 0.41, 0.33])
    return fp.Game(np.clip(rng.normal(likes, 0.14, (AGENTS, 4)), 0, 1))


def main(runs: int | None = None, out: Path = OUT) -> tuple[fp.Plan, fp.Result]:
    """Plan with guesses, then run one trial on the truth."""
    plan = fp.plan(arms=4, agents=AGENTS, horizon=HORIZON, gap=0.05, spread=0.1, price="0.50 EUR", runs=runs)
    print(plan)
    out.mkdir(exist_ok=True)
    (out / "plan.html").write_text(fp.pages.plan_page(plan), encoding="utf-8")
    trial = fp.simulate(people, principal=fp.Principal(offers="each"), horizon=HORIZON, runs=1, seed=5)
    return plan, trial


if __name__ == "__main__":
    plan, trial = main()
    paid, arm = trial.frame["paid"][0], trial.frame["arm"][0]
    print(f"\nThe trial paid {paid} bonuses and named arm {arm}; the page is {OUT / 'plan.html'}.")
