"""What a strategic user could extract: the best strategy found, and its gain split into rewards and bonuses."""

import freepull as fp


def main(horizon: int = 10_000, runs: int = 100) -> fp.BestResponse:
    """Search for agent 0's best response while agent 1 is honest."""
    return fp.best_response(
        fp.Game([[0.8, 0.55, 0.1], [0.1, 0.55, 0.8]]),
        principal=fp.Principal(fp.rules.Certified(0.01)),
        horizon=horizon,
        runs=runs,
        seed=1,
    )


if __name__ == "__main__":
    found = main()
    print(f"best of {found.tried} strategies: {found.agent}, {found.answer}")
    print(f"gain {found.gain}: rewards {found.rewards}, bonuses {found.bonuses}")
    print(f"without a principal {found.alone}, so incentives add {found.added}; they cost her {found.cost} more")
