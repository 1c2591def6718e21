"""Two principals on the same luck: what one costs more than the other, in pairs, and the regret of their agents."""

from pathlib import Path

from matplotlib.figure import Figure

import freepull as fp


def main(runs: int = 40, horizon: int = 20_000, out: Path = Path("out")) -> fp.Comparison:
    """Compare on games that are drawn anew in every run, and draw the regret of all agents against time."""
    found = fp.compare(
        {
            "certified": fp.Principal(fp.rules.Certified(0.01)),
            "authors": fp.Principal(fp.rules.Paper(0.01, "simplified", 0.1)),
        },
        fp.instances.Family(agents=5, means=[0.3, 0.4, 0.5, 0.6, 0.7], sd=0.1, gap=None),
        horizon=horizon,
        runs=runs,
        seed=1,
        trace=horizon // 20,
    )
    out.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(6, 4), layout="constrained")
    fp.charts.regret(found.results, ax=figure.subplots())
    figure.savefig(out / "regret.png", dpi=150)
    return found


if __name__ == "__main__":
    comparison = main()
    print(comparison.differences().filter(quantity="spent"))
    print("picture: out/regret.png")
