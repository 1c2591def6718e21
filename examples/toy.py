"""The paper's game of 2 agents and 3 arms under four principals, side by side: a table, and a picture in out/."""

from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import freepull as fp
from freepull import charts

RUNS, HORIZON, SEED = 100, 100_000, 1

PRINCIPALS = {
    "passive": fp.rules.Passive(),
    "paper": fp.rules.Paper(delta=0.01, bound="equation"),
    "authors": fp.rules.Paper(delta=0.01, bound="simplified", scale=0.1),
    "certified": fp.rules.Certified(delta=0.01),
}


def main(runs: int = RUNS, out: Path = Path("out")) -> None:
    """Simulate, print, draw."""
    console = Console(highlight=False)
    game = fp.instances.toy()
    console.print(
        f"{game}, global means {game.global_means.round(2).tolist()}; α-UCB agents, T = {HORIZON:,}, {runs} runs"
    )
    results = {
        name: fp.simulate(game, principal=fp.Principal(rule), horizon=HORIZON, runs=runs, seed=SEED)
        for name, rule in PRINCIPALS.items()
    }
    table = Table("principal", "right arm", "decided", "certified", "paid", "what it rests on")
    for name, result in results.items():
        rows = {row["quantity"]: row["mean"] for row in result.summary().iter_rows(named=True)}
        rates = (f"{100 * rows[rate]:.0f} %" for rate in ("correct", "decided", "certified"))
        table.add_row(name, *rates, f"{rows['paid']:,.0f}", result.provenance["parameters"]["rule"])
    console.print(table)

    figure = Figure(figsize=(12, 3.4), layout="constrained", dpi=150)
    left, middle, right = figure.subplots(1, 3)
    charts.accuracy(results, ax=left).set_title("Does she name the best arm?")
    charts.spend(results, ax=middle).set_title("What does it cost?")
    charts.payments(results["certified"], ax=right).set_title("Who is paid for what? (certified)")
    out.mkdir(exist_ok=True)
    figure.savefig(out / "toy.png")
    console.print(f"picture: {out / 'toy.png'}")


if __name__ == "__main__":
    main()
