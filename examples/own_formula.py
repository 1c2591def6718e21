"""UCB-V as a formula of your own: a few lines of arithmetic that run at compiled speed beside built-in agents."""

import math
from dataclasses import dataclass
from typing import Any

import numba

import freepull as fp
from freepull.testing import check_agent


@dataclass
class OwnUCBV(fp.agents.Indexed):
    """UCB-V: it explores less where rewards vary little. Fields are parameters, in studies and commands too."""

    zeta: float = 1.2

    @staticmethod
    @numba.njit
    def index(squares: float, mean: float, root: float, t: int, params: Any) -> float:
        """What to maximise; ask by name for what you need, all of one arm: pulls, total, squares, mean, root."""
        variance = max(squares * (root * root) - mean * mean, 0.0)
        spread = params.zeta * math.log(t) * (root * root)
        return float(mean + math.sqrt(2 * variance * spread) + 3 * spread)


@dataclass(frozen=True)
class Haggling(fp.answers.Formula):
    """Takes an offer once the bonus, raised by every earlier offer, is worth its loss, as it sees it."""

    patience: float = 0.1

    @staticmethod
    @numba.njit
    def accepts(arm: int, bonus: float, nth: int, pulls: Any, sums: Any, params: Any) -> bool:
        """Whether to take it; pulls and sums are of all arms."""
        best = 0.0
        for k in range(len(pulls)):
            best = max(best, sums[k] / max(pulls[k], 1.0))
        return bool(bonus * (1.0 + params.patience * nth) >= best - sums[arm] / max(pulls[arm], 1.0))


def main(horizon: int = 20_000, runs: int = 20) -> fp.Result:
    """Check both against plain Python and the readable engine, then simulate."""
    check_agent(OwnUCBV(), answers=Haggling())
    game = fp.Game([[0.8, 0.7, 0.1], [0.1, 0.8, 0.9], [0.4, 0.9, 0.1]], rewards=fp.rewards.Beta(20.0))
    return fp.simulate(
        game,
        agents=[OwnUCBV(), OwnUCBV(zeta=2.0), fp.agents.UCBV()],
        answers=Haggling(),
        principal=fp.Principal(fp.rules.Certified(0.05), protocol=fp.protocols.NeverBan()),
        horizon=horizon,
        runs=runs,
        seed=1,
    )


if __name__ == "__main__":
    result = main()
    print(result.summary())
    print("engine:", result.provenance["engine"])
