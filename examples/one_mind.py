"""An agent with one mind: it withholds an arm until it is paid for it, and says what that has brought."""

import warnings
from dataclasses import dataclass

import freepull as fp


@dataclass
class Withholding:
    """Learns as α-UCB does, but leaves one arm alone while the principal watches, so that it is paid for it later."""

    arm: int = 1

    def start(self, arms: int, key: int) -> None:
        """Called once before the first step."""
        self.own = fp.agents.AlphaUCB()
        self.own.start(arms, key)

    def act(self, view: fp.agents.View) -> int:
        """Take every offer; without one, the learner's pick among the other arms."""
        if view.offer is not None:
            return view.offer.arm
        pick = self.own.pick(view.t)
        if pick != self.arm or view.phase == "decided":
            return pick
        others = [k for k in range(len(view.pulls)) if k != self.arm]
        return max(others, key=lambda k: view.sums[k] / max(view.pulls[k], 1))

    def learn(self, arm: int, reward: float, paid: float) -> None:
        """What came of it, and the bonus."""
        self.own.learn(arm, reward)


def main(horizon: int = 4_000, runs: int = 10) -> tuple[float, float]:
    """Return what agent 0 gains by withholding, in rewards and in bonuses, against an honest twin with its luck."""
    warnings.simplefilter("ignore", fp.errors.ReadableEngine)
    principal = fp.Principal(fp.rules.Paper(0.05, "simplified", 0.1), observe=fp.observe.Share(0.5))
    means = {}
    for name, first in (("withholds", Withholding()), ("honest", fp.agents.AlphaUCB())):
        found = fp.simulate(
            fp.Game([[0.9, 0.7, 0.1], [0.1, 0.7, 0.9]]),
            agents=[first, fp.agents.AlphaUCB()],
            principal=principal,
            horizon=horizon,
            runs=runs,
            seed=1,
            keep="agents",
        )
        assert found.agents is not None
        own = found.agents.filter(agent=0)
        means[name] = own["reward"].to_numpy().mean(), own["bonus"].to_numpy().mean()
        print(f"{name:>10}: {means[name][0]:8.1f} in rewards, {means[name][1]:7.1f} in bonuses")
    reward, bonus = (float(means["withholds"][i] - means["honest"][i]) for i in (0, 1))
    return reward, bonus


if __name__ == "__main__":
    print("gain: {:+.1f} in rewards, {:+.1f} in bonuses".format(*main()))
