"""The verdict: the arm, whether the rule has spoken, whether that is proven, and what it cost; and the checks.

Checks run beside a trial and look at assumptions that it rests on: common shocks, drift, payment and reporting
(docs/checks.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freepull import randomness, showing, validation
from freepull.messages import Check, Difference
from freepull.messages import Grounds as Grounds
from freepull.principal import pairing
from freepull.principal.offers import Payments
from freepull.principal.record import Words
from freepull.principal.rules.base import Setting

SHOWN = 10
"""This many agents are named, the others counted."""


def listed(agents: Sequence[int], name: Callable[[int], str] = "agent {}".format) -> str:
    """Name agents, the first ten at most."""
    others = f" and {len(agents) - SHOWN} others" if len(agents) > SHOWN else ""
    return ", ".join(map(name, agents[:SHOWN])) + others


def tipping_point(survives: float) -> str:
    """Say how wrong the assumptions may be."""
    digits = 10 ** (1 - math.floor(math.log10(survives))) if survives > 0 else 1
    by = f"by more than ± {math.floor(survives * digits) / digits:g}" if survives > 0 else "at all"
    return f"stands as long as payment, drift and the like move no mean {by}"


@dataclass(frozen=True)
class Verdict:
    """What the principal says, and what it rests on."""

    arm: int
    decided: bool
    certified: bool
    why: str
    at: int | None
    """The step whose end decided it, None if undecided."""
    spent: float
    """In units of reward."""
    payments: Payments
    rests_on: Grounds
    survives: float | None = None
    """γ*: it stands as long as no mean is moved by more than this; None if it is not certified, or not known."""
    checks: tuple[Check, ...] = ()
    """How the checks of assumptions stand, if they run beside the trial."""
    differences: tuple[Difference, ...] = ()
    """How much better one arm is than another, where the rule bounds that: the leader first, then arms that went."""

    @property
    def paid(self) -> NDArray[np.int64]:
        """Bonuses paid per agent and arm."""
        return self.payments.table()

    def __str__(self) -> str:
        standing = "certified" if self.certified else "decided, not certified" if self.decided else "undecided"
        when = f" at step {self.at}" if self.at is not None else ""
        return f"arm {self.arm} ({standing}{when}, {self.spent:g} spent): {self.why}"

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        head = ("arm", "decided", "certified", "step", "spent", "survives")
        shown = self.arm, self.decided, self.certified, self.at, self.spent, self.survives
        return showing.table("verdict", head, [shown], [self.why, str(self.rests_on)])


MOST_GROUPS = 64
"""Groups in a period at most; they get larger where there are more agents."""
GAP = 20
"""Steps between the early and the late pulls of a block where there is no horizon."""
SHOCK, DRIFT, PAYMENT, REPORTING = "common shock", "drift", "payment", "reporting"
TESTS = {
    SHOCK: "no event hits many agents at once",
    DRIFT: "rewards of one agent and arm do not drift",
    PAYMENT: "a paid pull is worth as much as an unpaid one of the same agent and arm",
    REPORTING: "every pull is reported exactly once",
}
"""What each looks at."""
WRONG = {
    SHOCK: "events hit many agents at once",
    DRIFT: "rewards drift",
    PAYMENT: "payment changes rewards",
}
"""What an alarm says."""
COUNTED = (
    "ASKS", "REPORTS", "UNASKED", "IN_STEP", "SLOWEST", "REPEATED", "PAIRS", "PAIRED", "EARLY", "LATE", "COINS",
    "OUTCOMES",
)  # fmt: skip


@dataclass(frozen=True)
class Checks:
    """Which checks run beside a trial; each raises a false alarm with probability ``level`` at most.

    Parameters
    ----------
    level
        The most that the probability of a false alarm may be, for each check.
    period
        Steps that one event may hit together, such as a day; the first pull of a pair has to be told in the period of
        its ask.
    group
        The most pairs whose differences are added up to look for a common shock; two fifths of the agents if that is
        less, and more where there are more than 64 groups to a period.
    gap
        Steps between the early and the late pulls that are compared to look for a drift; None: a quarter of the
        horizon, or 20 without one.
    payment
        q, with which probability a free choice is paid by surprise (`Trial.chose`); 0: payment is not tested.
    bonuses
        The most that are paid for this test; None: any number.
    seed
        Of its coins; keep it to yourself, or agents can know them beforehand.

    >>> Checks(period=10)
    Checks(level=0.01, period=10, group=200, gap=None, payment=0.0, bonuses=None, seed=0)
    """

    level: float = 0.01
    period: int = 1
    group: int = 200
    gap: int | None = None
    payment: float = 0.0
    bonuses: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        validation.keep_real(self, "level", 0.0, 1.0, open_low=True, open_high=True)
        validation.keep_real(self, "payment", 0.0, 0.999)
        object.__setattr__(self, "payment", round(self.payment, 6))
        for name, least in (("period", 1), ("group", 2), ("gap", 2), ("bonuses", 0), ("seed", 0)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, validation.whole(name, getattr(self, name), least))

    def frame(self, arms: int, agents: int, horizon: int | None) -> Any:
        """Return the sizes that a trial's books have."""
        group = max(min(self.group, 2 * agents // 5), 2, -(-agents // MOST_GROUPS))
        gap = self.gap or (GAP if horizon is None else max(2, horizon // 4))
        coin = round(self.payment * 1_000_000)
        return np.array([self.period, group, -(-agents // group), gap, max(1, gap // 2), coin, arms], np.int64)


class Checking:
    """The checks at work: told of every ask and report, and of the ends of steps."""

    def __init__(self, checks: Checks, setting: Setting) -> None:
        self.checks = checks
        frame = checks.frame(setting.arms, setting.agents, setting.horizon)
        self.books = pairing.books(setting.agents, setting.arms, frame, checks.payment > 0)

    def asked(self, agent: int, step: int) -> None:
        """See an ask in the step after so many have ended, before anything is offered for it."""
        pairing.ask(self.books, agent, step)

    def hears(self, agent: int) -> bool:
        """Say whether an ask would change anything: not while an earlier one waits for its report."""
        return bool(self.books.asked[agent] <= 0)

    def passed_over(self, agent: int) -> None:
        """See that an agent who asked made no pull."""
        pairing.pass_over(self.books, agent)

    def told(self, agent: int, arm: int, reward: int, step: int) -> None:
        """See a report, its reward in units of 2⁻³⁰."""
        pairing.tell(self.books, agent, arm, reward, step)

    def told_many(self, streams: Words, rewards: Words, step: int) -> None:
        """See reports and asks in their order; a stream is agent·K + arm, and the reward of an ask is above 2³⁰."""
        pairing.tell_many(self.books, streams, rewards, step)

    def unheard(self, reports: int) -> None:
        """Note reports that are not looked at, because an outcome of their agent was to come when they were made."""
        self.books.counts[pairing.REPORTS] += reports

    def repeated(self) -> None:
        """Note a report that was told again and is not counted again."""
        self.books.counts[pairing.REPEATED] += 1

    def chosen(self, agent: int) -> bool:
        """Say whether a coin was tossed for the pull that an agent has under way."""
        return self.checks.payment > 0 and bool(self.books.coin_state[agent])

    def chose(self, agent: int, arm: int, room: int) -> bool:
        """Toss the coin of a free choice that was asked for; return whether it is paid, for which there is room."""
        counts, most = self.books.counts, self.checks.bonuses
        if not self.checks.payment or self.chosen(agent) or self.books.asked[agent] <= 0:
            return False
        if room < 1 or (most is not None and counts[pairing.BONUSES] >= most):
            return False
        key = randomness.key(self.checks.seed, 0, agent, randomness.SURPRISE)
        word = randomness.word(key, 0, int(counts[pairing.COINS]) + 1)
        coin = randomness.uniform(word) < int(self.books.frame[pairing.COIN]) / 1e6
        pairing.toss(self.books, agent, arm, int(coin))
        return coin

    def end_step(self, step: int) -> None:
        """Look at what there is at the end of a step, counted from 1."""
        pairing.end_step(self.books, step)

    @property
    def unasked(self) -> int:
        """How many reports came without an ask since the agent's last report."""
        return int(self.books.counts[pairing.UNASKED])

    def results(self, late: bool = False) -> tuple[Check, ...]:
        """Return how each check stands; ``late`` where the rule counts asks, so that reports may come later."""
        n = {name: int(self.books.counts[getattr(pairing, name)]) for name in COUNTED}
        found = [
            self._tested(SHOCK, pairing.SHOCK, n["PAIRS"], n["PAIRED"], "pairs of pulls"),
            self._tested(DRIFT, pairing.DRIFT, n["EARLY"], n["LATE"], "pairs of pulls"),
        ]
        if self.checks.payment:
            found.append(self._tested(PAYMENT, pairing.PAYMENT, n["COINS"], n["OUTCOMES"], "free choices"))
        waiting = int(np.count_nonzero(self.books.asked > 0))
        answered = n["REPORTS"] - n["UNASKED"]
        prompt = f"{n['IN_STEP'] / answered:.1%} of them" if answered else "none"
        again = f"{n['REPEATED']:,} were told again, " if n["REPEATED"] else ""
        cure = "" if late else "; for them there is late=True"
        such = f" (outcomes that come after the agent has asked again are such{cure})"
        unasked = f"{n['UNASKED']:,} came without an ask since the agent's last report{such if n['UNASKED'] else ''}"
        why = (
            f"{n['REPORTS']:,} pulls were reported, {prompt} in the step of their ask and the slowest after "
            f"{n['SLOWEST']:,} steps; {unasked}, {again}and {waiting:,} are awaited; "
            "this is shown, not tested"
        )
        missing = waiting / n["ASKS"] if n["ASKS"] else 0.0
        found.append(Check(REPORTING, TESTS[REPORTING], None, self.checks.level, False, n["REPORTS"], missing, why))
        return tuple(found)

    def alarmed(self) -> list[str]:
        """Return the names of the checks that have raised an alarm."""
        return [name for name, peak in zip(WRONG, self.books.peaks, strict=True) if peak >= 1.0 / self.checks.level]

    def alarm(self) -> str | None:
        """Say why a verdict cannot be certified; None while no check has raised an alarm."""
        if not self.alarmed():
            return None
        return "; ".join(check.why for check in self.results() if check.alarmed)

    def _tested(self, name: str, at: int, opened: int, complete: int, what: str) -> Check:
        """One test."""
        e_value, level = float(self.books.peaks[at]), self.checks.level
        alarmed, missing = e_value >= 1.0 / level, 1.0 - complete / opened if opened else 0.0
        said = f"not certified, because it was found that {WRONG[name]}" if alarmed else "no alarm"
        if opened == 0 and not alarmed:
            why = f"nothing could be checked yet: there were no {what}"
            return Check(name, TESTS[name], e_value, level, alarmed, opened, missing, why)
        why = (
            f"{said}: the evidence for a {name} effect has reached {e_value:.3g}, an alarm is raised at "
            f"{1.0 / level:g}, over {opened:,} {what} of which {missing:.1%} are missing"
        )
        return Check(name, TESTS[name], e_value, level, alarmed, opened, missing, why)

    def take_over(self, old: Checking) -> None:
        """Take over from a trial of fewer agents, of the same arms."""
        self.restore(old.parts())

    def parts(self) -> dict[str, Any]:
        """Return all that changes, and the settings."""
        return {"settings": asdict(self.checks)} | self.books._asdict()

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        kept = {name: np.array(parts[name]) for name in pairing.Books._fields if name not in pairing.AGENTS}
        self.books = self.books._replace(**kept)
        for name in pairing.AGENTS:
            getattr(self.books, name)[: len(parts[name])] = parts[name]
