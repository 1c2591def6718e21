"""The tables of the page, and what is said above them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .checked import CHECKS, Alarms
from .costs import Cost
from .crowds import Crowds
from .displayed import Displayed
from .elimination import OTHERS, Row
from .judging import LEVELS, Rate, percent
from .money import Money
from .results import Results
from .settings import AFTER, BEFORE, ORACLE

ABOUT_OTHERS = """\
How often the given best arm falls at δ = .05, in the cases with equal weights: under the paper's rule with each of its
bounds, and under a z-test at every step with the true variances, at δ/(K−1) a pair. `equation` and `finite_time` are
proven here; `simplified`, the authors' constant and the z-test are not."""
ABOUT_FREEZERS = """\
Exact ties of coins at ½, κ = T/2, an offer to each. The share of runs in which the given best arm falls at δ = .05
(`Certified`: evidence of at least 1/δ′, δ′ = .05, in a run at δ = .01). `simplified` at its full size
breaks too, where there are many agents."""
ABOUT_CONTEST = """\
Two arms that tie, nobody is paid, and the rule looks for the first time at T/2, when many samples wait. The honest
design sees used samples only. The first forbidden one looks at the rewards that wait and takes blocks of up to four
times the size, ending where they mislead most. The second takes all that waits, which is a look at real counts, and
counts tell what freezers have seen. Both designs exist in the suite only."""
ABOUT_MOVED = """\
All arms tie, but the mean of every sample is moved by γ: the tested best arm's down, the others' up, or, where it says
*follows*, the other way in rounds before which the tested arm was ahead. How often the tested arm falls, under
`Certified(robust=γ)`, which [allows for it](certified.md), and under `Certified`, which does not."""
ABOUT_NEAR = """\
`Certified(epsilon=.015)`, where all arms but one are exactly .015 worse than this one, so that none of them may be
named. The statistic is the largest evidence [against the best arm](certified.md) together with what was bet on one of
the others being at most ε worse: how often it reaches 1/δ′, with the upper limit. Some of the cases above."""
ABOUT_POPULATION = """\
Agents are drawn from a population in which all arms tie, 200 pulls a stream. How often a given best arm of the
*population* loses at any of the 200 looks, δ = .05. The certified rule speaks of the panel, and is right about it; read
as a claim about the population it is wrong far more often than δ."""
ABOUT_LEAVERS = """\
Six agents alike, two arms that tie, δ = .05, on `Trial`. An agent leaves for good once its mean of arm 0 is above ¾
after at least four pulls: those who liked it are gone. How often arm 0 falls, by rule and policy. `Comparisons` and
`wait` are proven for such leaving, `independent` is not."""
ABOUT_IGNORING = """\
A hundred agents alike, two arms that tie, the certified rule at δ = .05 in a campaign with `leavers="independent"`, 150
days. Everybody comes once a day, takes offers, and pulls its favourite without one. But whoever has at least ten pulls
of arm 1 with a mean below ½ ignores offers of it, and is parked after three. Offers go to streams that owe, so to arms
with bad luck: who is parked depends on rewards. How often arm 0 falls, certified. Parked people rest, and that is
proven. Dropping them by hand is leaving because of rewards, against what `independent` assumes, and the suite must see
it break."""
ABOUT_CHECKS = """\
500 α-UCB people, four arms, 60 steps of one act each, the [checks](checks.md) at 1 %, surprises with q = .2 until 500
bonuses are paid. Where the assumptions hold, with people who get offers of what had bad luck for them, who leave, come
seldom, or tell bad news late, alarms are false. *Pairing what is there* takes the first and second pull of a stream,
the third and fourth, and so on, as they come: whether a second one comes depends on the first. Payment is looked at in
four times as many runs of 15 steps, in which its coins are tossed. *Missing* is the share of pairs that were not
complete, for common shocks and for drift."""
ABOUT_SEEN = """\
The same where an assumption is wrong: how often each check raises an alarm."""
ABOUT_DISPLAYED = """\
`worse_by` of the certified rule: for some arm k, an x at or beyond the true max_j μ_j − μ_k had reached 1/δ′; the worst
arm is shown. It is looked at at a random step, and at whichever step of the run it claims most."""
ABOUT_COSTS = """\
All rules play the same games with the same luck; α-UCB agents, κ = T/2. The lower bound is the reference of
[Statistics](statistics.md), with the fluid natural pulls up to κ for free, averaged over the same games. It is 0 where
free pulls suffice, and then there is no ratio. *Oracle bets* have the rounds and blocks of `Certified`, but every
account lies on the true best rival at the true gap: better betting could save no more than what lies between the two.
*Before* stands for the designs from before capital sat out the first round. The authors' constant is not proven.
*Right* counts decided runs that name a best arm of the panel."""
ABOUT_MONEY = """\
What is spent, in units of reward, under other [prices](#prices) than 1 and at other [times](#adaptive), by `Certified`
on the same games as above. *At true gaps* is what the same pulls would have cost, had everybody been paid just what it
gives up, and *lower bound* [the least](#lower_bound) that anybody who knew the games would have had to spend at these
prices. The last column is the share of the bonuses that were paid in trials that ended undecided. People with
*reservations* take a price of at least their true gap and an amount drawn for each from [0, .1]. How little anybody
could pay who sees the future, and how little a rule to stop could waste, `python -m verification.hindsight` measures
([paying late](#adaptive), [futility](#futility))."""
ABOUT_CONDUCT = """\
[Lemma 1, extended](#prices), as an experiment: the two agents and the game of the [reproduction](reproduction.md), T =
10⁴, Take-or-Ban, `Compensate()`. Agent 2 follows; agent 1 follows, or deviates on the same luck. Gains are over
following, ± one standard error; *alone* is what the same conduct gains where nobody is ever paid. The lemma allows
refusals to gain what prices fall short of true gaps, Σ(gap − price)⁺, measured on agents who follow. It does not speak
of who withholds pulls."""
ABOUT_PRICED_ERRORS = """\
Exact ties, so that every arm that falls is false; with an ε all other arms are worse by ε, the least that must not be
named. `Certified` runs at δ = .01 and is judged at three levels as above, all other rules at δ = .05. Prices, answers,
bans, budgets and futility decide who is asked for what, and depend on rewards; none of that may matter."""
ABOUT_FORECASTS = """\
The forecast of natural pulls assumes learners like α-UCB. Others pull differently, and then it may cost money. It never
costs validity. The toy, and K = M = 30, σ = .1 with T = 2·10⁵."""

ABOUT_CROWDS = """\
`Comparisons` at δ = .05, K = 4. Something *false* is any statement at any look that the truth contradicts: about two
arms that are in, over the comparisons that were opened, about an arm that fell, its margin included, or about the arm
that is named. With exact ties every arm that falls is false. Where people *differ*, each has one arm at .8 and the next
at .2, drawn for each, or chosen by who brings them in: what is true depends on who came and stayed. The adversary picks
who acts next so that the evidence meets θ with little to spare. Late reports break the rule if it is not told of them,
and the suite must see that."""
ABOUT_CROWD_COSTS = """\
The panels of [`fp.panels`](comparisons.md), an offer to each, nobody is banned, paying from a tenth of the horizon on.
δ = .2 has θ = (K−1)/.05: **not certified on such panels** at .05, only what assuming that who is compared does not
depend on rewards would bring. `Certified` waits for people who never come. *Best of the panel* counts
certified runs that name the panel's best arm; the claim itself is about comparisons that were opened, and up to ε."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _fell(rate: Rate) -> str:
    return f"{rate.failures} ({percent(rate.high)})"


def cases_table(rows: list[Row]) -> str:
    """Failures and upper limits, case by case."""
    heads = ("case", "T", "runs", "rounds", *(f"δ′ = {d:g}" for d in LEVELS))
    body = [
        (row.case.name, f"{row.case.horizon}", f"{row.runs:,}", f"{row.certified.rounds:.0f}",
         *(_fell(rate) for rate in row.rates()))
        for row in rows
    ]  # fmt: skip
    return "Runs in which the arm fell, with the upper limit.\n\n" + table(heads, body)


def others_table(rows: list[Row]) -> str:
    """The unproven beside the proven."""
    body = [
        (row.case.name, *(percent(row.others[name].share) for name in OTHERS)) for row in rows if row.others
    ]  # fmt: skip
    runs = next((rate.runs for row in rows for rate in row.others.values()), 0)
    return f"{runs} runs a case.\n\n" + table(("case", *OTHERS), body)


def freezing_table(rows: list[Row]) -> str:
    """All rules against freezers."""
    heads = ("agents × arms", "T", "runs", "Certified", *OTHERS)
    body = [
        (f"{row.case.agents}×{row.case.arms}", f"{row.case.horizon}", f"{row.runs:,}",
         percent(row.rates()[1].share),
         *(percent(row.others[name].share) for name in OTHERS))
        for row in rows
    ]  # fmt: skip
    return table(heads, body)


def contest_table(contest: dict[str, list[Rate]]) -> str:
    """Honest and forbidden designs."""
    body = [
        (name, rates[at].what, f"{rates[at].runs:,}", *(f"{percent(r.share)}" for r in rates[at : at + len(LEVELS)]))
        for name, rates in contest.items()
        for at in range(0, len(rates), len(LEVELS))
    ]
    return table(("design", "agents", "runs", *(f"fell at δ′ = {d:g}" for d in LEVELS)), body)


def moved_table(moved: dict[str, list[Rate]]) -> str:
    """Means that are moved, with and without an allowance."""
    names = {"robust": "`Certified(robust=γ)`", "plain": "`Certified`"}
    body = [
        (rates[at].what, names[name], f"{rates[at].runs:,}", *(_fell(r) for r in rates[at : at + len(LEVELS)]))
        for name, rates in moved.items()
        for at in range(0, len(rates), len(LEVELS))
    ]
    return table(("agents × arms, γ", "rule", "runs", *(f"fell at δ′ = {d:g}" for d in LEVELS)), body)


def near_table(rates: list[Rate]) -> str:
    """Arms that are ε worse."""
    body = [
        (rates[at].what, f"{rates[at].runs:,}", *(_fell(r) for r in rates[at : at + len(LEVELS)]))
        for at in range(0, len(rates), len(LEVELS))
    ]
    return table(("case", "runs", *(f"δ′ = {d:g}" for d in LEVELS)), body)


def population_table(rows: list[tuple[str, str, Rate]]) -> str:
    """Claims about the population."""
    body = [(panel, rule, f"{r.runs:,}", f"{r.failures}", percent(r.share), percent(r.high)) for panel, rule, r in rows]
    return table(("panel", "rule", "runs", "false", "", "upper limit"), body)


def leavers_table(rates: dict[str, Rate]) -> str:
    """Rules and policies for leavers."""
    body = [(name, f"{r.runs:,}", f"{r.failures}", percent(r.high)) for name, r in rates.items()]
    return table(("rule", "runs", "fell", "upper limit"), body)


def ignoring_table(rates: dict[str, Rate]) -> str:
    """What becomes of people who ignore offers."""
    body = [(name, f"{r.runs:,}", f"{r.failures}", percent(r.low), percent(r.high)) for name, r in rates.items()]
    return table(("they are", "runs", "fell", "lower limit", "upper limit"), body)


def alarms_table(rows: list[Alarms], limits: bool) -> str:
    """How often each check raised an alarm, with upper limits where these are false."""
    heads = ("people", "runs", *CHECKS, "pairing what is there", "missing: shock", "drift")
    body = [
        (row.world.name, f"{row.rates[0].runs:,}",
         *(_fell(rate) if limits else percent(rate.share) for rate in row.rates),
         *(percent(share) for share in row.missing[:2]))
        for row in rows
    ]  # fmt: skip
    return table(heads, body)


def displayed_table(rows: list[Displayed]) -> str:
    """False displays."""
    judged = [(d, Rate(d.game, d.runs, d.wrong, d.bound)) for d in rows]
    body = [
        (d.what, d.game, d.when, f"{d.bound:g}", f"{d.runs:,}", f"{d.wrong}", percent(rate.high)) for d, rate in judged
    ]
    return table(("bound", "game", "looked at", "δ", "runs", "false", "upper limit"), body)


def costs_table(found: Results) -> str:
    """All rules in all settings."""
    body = []
    for cost in found.costs:
        bound = found.limits[cost.setting]
        ratio = f"{cost.mean / bound:.2f}" if bound > 0 else "–"
        body.append((
            cost.setting, cost.rule, f"{cost.mean:,.0f} ± {cost.error:,.0f}", f"{cost.median:,.0f}",
            f"{cost.decided / cost.runs:.1%}", f"{cost.correct / cost.runs:.1%}", f"{cost.runs:,}",
            f"{bound:,.0f}", ratio,
        ))  # fmt: skip
    heads = ("setting", "rule", "paid, mean ± se", "median", "decided", "right", "runs", "lower bound", "÷ bound")
    ratios = [
        (name, f"{bound:,.0f}", *(f"{one.mean / bound:.2f}" for one in _compared(found, name)))
        for name, bound in found.limits.items()
        if bound > 0
    ]
    return "\n\n".join([
        "Cost ÷ lower bound:", table(("setting", "lower bound", "before", "after", ORACLE), ratios), table(heads, body)
    ])  # fmt: skip


def _compared(found: Results, name: str) -> list[Cost]:
    return [cost for rule in (BEFORE, AFTER, ORACLE) if (cost := found.cost(name, rule)) is not None]


def money_table(found: Money) -> str:
    """What was paid and spent."""
    body = [
        (row.setting, row.how, f"{row.paid.mean():,.0f}", f"{np.median(row.paid):,.0f}", f"{row.spent.mean():,.0f}",
         f"{row.gaps.mean():,.0f}", f"{row.bound:,.0f}", f"{row.certain:.1%}", f"{row.wrong}", f"{len(row.paid):,}",
         f"{row.lost:.1%}")
        for row in found.rows
    ]  # fmt: skip
    return table(
        ("setting", "pricing, time", "paid", "median", "spent", "at true gaps", "lower bound", "decided", "wrong",
         "runs", "lost"),
        body,
    )  # fmt: skip


def conduct_table(found: Money) -> str:
    """What agents gain by not following."""
    parts = ("gain", "gain_reward", "gain_bonus", "alone")
    body = [
        (row["setting"], row["conduct"], *(f"{row[part]:+.1f} ± {row[f'{part}_error']:.1f}" for part in parts),
         f"{row['bonus']:,.1f}", f"{row['spent']:,.0f}")
        for row in found.conduct.iter_rows(named=True)
    ]  # fmt: skip
    heads = ("rule", "agent 1", "gain", "from rewards", "from bonuses", "alone", "its bonuses", "spent in all")
    return (
        table(heads, body)
        + f"\n\nPrices fell short of true gaps by {found.short[0]:.1f} ± {found.short[1]:.1f} in a run, all offers to "
        "agent 1 together."
    )


def priced_errors_table(found: Money) -> str:
    """Which best arms fell, under each rule the worst of its cases."""
    rules = dict.fromkeys(rule for rule, _ in found.errors)
    body = []
    for rule in rules:
        rates = [rate for name, rate in found.errors if name == rule]
        worst = max(rates, key=lambda rate: rate.high / rate.bound)
        body.append((
            rule, f"{len(rates)}", f"{worst.runs:,}", worst.what, f"{worst.bound:g}", f"{worst.failures}",
            percent(worst.high),
        ))  # fmt: skip
    return table(("rule", "cases and levels", "runs each", "the worst of them", "δ", "fell", "upper limit"), body)


def forecasts_table(rows: list[tuple[str, Cost, Cost]]) -> str:
    """With and without a forecast."""
    heads = ("setting", "agents", "runs", "with forecast", "decided", "without", "decided", "with ÷ without")
    body = [
        (on.setting, agents, f"{on.runs}", f"{on.mean:,.0f} ± {on.error:,.0f}", f"{on.decided / on.runs:.1%}",
         f"{off.mean:,.0f} ± {off.error:,.0f}", f"{off.decided / off.runs:.1%}",
         f"{on.mean / off.mean:.2f}" if off.mean > 0 else "–")
        for agents, on, off in rows
    ]  # fmt: skip
    return table(heads, body)


def crowds_table(found: Crowds) -> str:
    """What was false, case by case."""
    body = [
        (one.rate.what, f"{one.rate.runs:,}", f"{one.fell:,}", f"{one.rate.failures:,}", percent(one.rate.high))
        for one in [*found.told, *found.unaware]
    ]
    return table(("people", "runs", "an arm fell", "something false", "upper limit"), body)


def crowd_costs_table(found: Crowds) -> str:
    """What it cost, and how often it was certified."""
    body = [
        (case.setting, case.rule, f"{cost.mean:,.0f} ± {cost.error:,.0f}", f"{cost.median:,.0f}",
         f"{cost.decided / cost.runs:.1%}", f"{cost.correct / cost.runs:.1%}", f"{cost.runs:,}")
        for case, cost in found.costs
    ]  # fmt: skip
    return table(("panel", "rule", "paid, mean ± se", "median", "certified", "best of the panel", "runs"), body)


def missed_by_crowds(found: Crowds) -> str:
    """Say plainly which panels miss what is asked of them, and what meeting it would cost."""
    rows = []
    for case, cost in found.costs:
        share, asked = cost.decided / cost.runs, []
        if case.certified is not None and share < case.certified:
            asked.append(f"{case.certified:.0%} certified")
        if case.mean is not None and cost.mean > case.mean:
            asked.append(f"a mean of {case.mean:,.0f} bonuses at most")
        if asked:
            rows.append(
                f"**{case.setting}, {case.rule}, misses {' and '.join(asked)}**: {share:.1%} at {cost.mean:,.0f}."
            )
    if not rows:
        return "All that is asked of these panels is met."
    return " ".join(rows) + (
        " More certainty costs more: nothing is paid while free samples are forecast to suffice, and some of these "
        "forecasts are wrong; who pays sooner is certified more often, and pays more ([choices](#comparisons_choices))."
    )


def speed_of_crowds(found: Crowds) -> str:
    """What an act takes."""
    ours, theirs = found.speed
    return (
        f"An act on a street panel takes {ours.median:,.0f} ns under `Comparisons` and {theirs.median:,.0f} ns under "
        "the paper's rule (simplified, an offer to each), idle steps included: the former is "
        f"{ours.ratio(theirs):.2f} times the latter, measured in turn."
    )
