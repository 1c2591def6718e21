"""The appendix's discussion of κ, and the milder protocols of section 6."""

from __future__ import annotations

import math

from freepull.fluid import natural_pulls
from freepull.instances import toy
from freepull.reproduction.gathering import Found, Request, gather
from freepull.reproduction.section import Finding, Section, mean, outcome, percent, share, spend_bars, together, told
from freepull.reproduction.toy import OWN_BEST
from freepull.simulation import Result

HORIZON = 100_000


def observing(request: Request) -> Section:
    """How long to observe."""
    found = gather("paper-kappa", request)
    rows = found.rows()
    measured = {
        name: "; ".join(
            f"{cell.coordinates['observe']}: {told(mean(result, 'bonus'))}, {percent(share(result, 'decided'))} decided"
            for cell, result in found if cell.principal == name
        )
        for name in found.principals()
    }  # fmt: skip
    return Section(
        "kappa", "The appendix: how long to observe",
        "The toy game: κ = √T, T/4, T/2, .9 T, the κ of a known gap, and the adaptive schedule, which starts to "
        "pay when the time left falls to three times what is missing. For a known gap of .02 the paper's formula "
        "leaves no time to observe at T = 10⁵: κ = 0.",
        (Finding("The free pulls that different κ provide do not differ much.", measured,
                 f"{_natural()} {_spread(found)}"),),
        spend_bars(rows, "observe", 4.6),
        "Bars: bonuses by κ and setting, with 95 % intervals and the share of runs decided.", rows,
    )  # fmt: skip


def _natural() -> str:
    """Tell what agent 1 has pulled of arm 2, which is nobody's best, by κ: the fluid count."""
    steps = {"√T": math.isqrt(HORIZON), "T/4": HORIZON // 4, "T/2": HORIZON // 2, ".9 T": 9 * HORIZON // 10}
    counts = (f"{natural_pulls(toy().means, t)[0, 1]:.0f} by {name}" for name, t in steps.items())
    return (
        f"An α-UCB agent will have pulled arm 2 about {together(counts)}: from T/4 on they hardly differ. What is paid:"
    )


def _spread(found: Found) -> str:
    sentences = []
    for name in found.principals():
        cells = [
            (str(cell.coordinates["observe"]), mean(result, "bonus")[0], share(result, "decided"))
            for cell, result in found
            if cell.principal == name
        ]
        settled = [(where, paid) for where, paid, (decided, of) in cells if decided >= 0.9 * of]
        if len(settled) < 2:
            sentences.append(f"{name}: hardly anything is decided, and the cost is the time that is left after κ.")
            continue
        low, high = min(settled, key=lambda one: one[1]), max(settled, key=lambda one: one[1])
        late = [where for where, _, (decided, of) in cells if decided < 0.9 * of]
        tail = f" With {together(late)} more than a tenth of the runs is not decided in time." if late else ""
        sentences.append(f"{name}: from {low[1]:,.0f} ({low[0]}) to {high[1]:,.0f} ({high[0]}) bonuses.{tail}")
    return " ".join(sentences)


def protocols(request: Request) -> Section:
    """Milder protocols."""
    found = gather("paper-protocols", request)
    rows = found.rows()
    findings = []
    for protocol in rows["protocol"].unique(maintain_order=True):
        cells = {cell.principal: result for cell, result in found if cell.coordinates["protocol"] == protocol}
        decided = [f"{name} {share(result, 'decided')[0]}" for name, result in cells.items()]
        truth = f"Decided, of {max(result.frame.height for result in cells.values())} runs: {', '.join(decided)}."
        banned = max(mean(result, "banned")[0] for result in cells.values())
        truth += f" {banned:.2g} of 2 agents are banned at least once, at most. {_wasted(cells)}"
        findings.append(Finding(protocol, {name: outcome(result) for name, result in cells.items()}, truth))
    return Section(
        "protocols", "Milder protocols",
        "The paper expects that banning for a while, or after some refusals, serves as well. The toy game, "
        "agents who take an offer with probability 0.8. Under Take-or-Ban the first refusal ends all payments to "
        "an agent, so such agents are soon banned. While one is banned, the paper's rule goes on paying the other for "
        "what is left, its own best arm, which it pulls anyway. The certified rule waits.",
        tuple(findings), spend_bars(rows, "protocol", 3.8),
        "Bars: bonuses by protocol and setting, with 95 % intervals and the share of runs decided.",
        rows,
    )  # fmt: skip


def _wasted(cells: dict[str, Result]) -> str:
    """Tell how much goes to agents for what they like best: all that is left to buy while the other is banned."""
    own = [
        f"{name} {100 * sum(float(result.paid[m, k]) for m, k in enumerate(OWN_BEST)) / float(result.paid.sum()):.0f} %"
        for name, result in cells.items()
        if result.paid.sum() > 0
    ]
    return f"Of the bonuses, this went to agents for their own best arm: {', '.join(own)}." if own else ""
