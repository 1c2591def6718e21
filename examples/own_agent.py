"""An agent of your own beside built-in ones: a class with `pick` and `learn`, and nothing else."""

import freepull as fp


class Loyal:
    """Tries every arm twice, then stays with what has paid best, and looks again every hundredth step."""

    def start(self, arms: int, key: int) -> None:
        """Called once before the first step, for every agent and run; leave it out if you need neither number."""
        self.pulls, self.sums = [0] * arms, [0.0] * arms

    def pick(self, t: int) -> int:
        """Which arm to pull at step t = 1, 2, …"""
        if min(self.pulls) < 2 or t % 100 == 0:
            return self.pulls.index(min(self.pulls))
        means = [s / n for s, n in zip(self.sums, self.pulls, strict=True)]
        return means.index(max(means))

    def learn(self, arm: int, reward: float) -> None:
        """What came of it; the bonus is never part of the reward."""
        self.pulls[arm] += 1
        self.sums[arm] += reward


def main(horizon: int = 4_000, runs: int = 4) -> fp.Result:
    """Two loyal users and one who plays UCB; offers go to all, and whoever refuses is not asked again for 50 steps."""
    game = fp.Game([[0.8, 0.7, 0.1], [0.1, 0.8, 0.9], [0.4, 0.9, 0.1]])
    principal = fp.Principal(
        fp.rules.Paper(delta=0.05, bound="finite_time"),
        observe=fp.observe.Share(0.3),
        protocol=fp.protocols.BanFor(50),
        offers="each",
    )
    return fp.simulate(
        game,
        agents=[Loyal(), Loyal(), fp.agents.AlphaUCB()],
        answers=[fp.answers.Always(), fp.answers.WithProbability(0.7), fp.answers.IfWorthIt()],
        principal=principal,
        horizon=horizon,
        runs=runs,
        seed=1,
    )


if __name__ == "__main__":
    result = main()
    print(result.summary())
    print("bonuses per agent and arm:", result.paid.round(1).tolist(), sep="\n")
