"""The certified rule at work: samples fill the round or wait for a later one, and full rounds are evaluated.

A stream takes 36 bytes here, and a sample that waits 8. A round is closed in slices, whose sizes change nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from freepull.numerics import zeros
from freepull.principal.record import BATCH, STREAMS, Record, Words, Work, finish, pieces, tiles
from freepull.principal.rules.base import STACKS, Setting, Wanted
from freepull.principal.rules.certified import evaluation as steps
from freepull.principal.rules.certified.books import MARGINS, ROUNDS, Fill, Floats, blank, fresh, survives, worse_by
from freepull.principal.rules.certified.design import add_spreads, rebalance, set_worth, size
from freepull.principal.rules.certified.samples import (
    OWING,
    Queues,
    Stage,
    Waiting,
    fill_most_owed,
    fill_owed,
    fill_sums,
    refill,
    see,
    take,
)
from freepull.principal.rules.rounds import (
    HALVINGS,
    MOST_RATIO,
    Ints,
    OwingState,
    add_owed,
    chance_of,
    fill_needed,
    fill_ratios,
    smallest_gap,
)

if TYPE_CHECKING:
    from freepull.principal.rules.certified.rule import Certified

BETS = 1 << 18
"""Bets that one slice looks at."""
NEAR_BOOKS = ("near", "reached", "aims")
"""What there is of a round only with an ε."""


class CertifiedState(OwingState):
    """The books of one trial, and the samples that wait."""

    assumptions = STACKS

    def __init__(self, rule: Certified, setting: Setting, record: Record) -> None:
        super().__init__(setting, record)
        K, M = setting.arms, setting.agents
        self.delta, self.epsilon = rule.delta, float(rule.epsilon)
        self.declared: int | None = None
        """The arm that was declared best up to ε, if that has stopped the trial."""
        self.title = f"the certified rule at δ = {rule.delta:g} (proven)"
        self.constants, prior = rule.constants(setting, MARGINS if setting.margins else np.zeros(0))
        self.used, self.coming = fresh(K, M, self.constants, prior, counts=np.uint32)
        self.errors: Floats = zeros((K, M), np.float64)
        """Σ(X − x̂)² of the samples of the coming round that are there."""
        self.measure = blank(K, self.constants)
        self._waiting = Waiting(K, M)
        self._shown: tuple[list[float], list[float]] | None = None
        """What the evidence proved before the rounds that are being closed."""
        finish(self._begin_round())

    @property
    def decided(self) -> bool:
        """Whether one arm is left, or one is proven to be best up to ε."""
        return self.declared is not None or super().decided

    @property
    def target(self) -> str:
        """The panel, and up to which ε."""
        return super().target + (f"; the best arm up to ε = {self.epsilon:g}" if self.epsilon > 0 else "")

    def claim(self, arm: Callable[[int], str] = "arm {}".format) -> str:
        """Say what has decided the trial."""
        if self.declared is None:
            return super().claim(arm)
        return f"it is at most ε = {self.epsilon:g} worse than the best arm by {self.title}"

    def leader(self) -> int:
        """Return the arm that was declared, or else the active one with the largest global sample mean."""
        return super().leader() if self.declared is None else self.declared

    @property
    def owing(self) -> int:
        """Streams that have not given all that the coming round needs."""
        return int(self._waiting.tally[OWING])

    @property
    def have(self) -> Ints:
        """Samples of the coming round that are there, by arm and agent."""
        return np.asarray(self.coming.blocks.astype(np.int64) - self.owed_by(slice(None)).T)

    @property
    def waiting(self) -> dict[tuple[int, int], array[int]]:
        """Samples beyond the coming round by arm and agent, in units of 2⁻³⁰, unread."""
        return self._waiting.streams()

    def observe(self, agent: int, arm: int, reward: int) -> None:
        """Put a sample into the coming round, or let it wait."""
        self._waiting.make_room()
        see(self._stage, agent, arm, reward)

    @property
    def _stage(self) -> Stage:
        used, record = self.used, self.record
        books = used.pulls, used.sums, used.arms, self.coming.blocks, self.errors
        return Stage(*books, self._waiting.queues, record.pulls, record.sums)

    def take(self, streams: Words, rewards: Words) -> None:
        """Enter pulls into the record and see them, in their order."""
        record, done = self.record, 0
        while done < len(streams):
            batch = slice(done, done + BATCH)
            done += take(self._stage, record.changes, streams[batch], rewards[batch])
            record.note(0, record.arms)
            self._waiting.make_room()

    def _begin_round(self) -> Work[None]:
        """Design the coming round, and let the samples enter that have waited for it."""
        used, coming, constants, K, M = self.used, self.coming, self.constants, self.setting.arms, self.setting.agents
        set_worth(used, coming, constants)
        if used.course[ROUNDS] > 0:
            for first, last in self._some_arms():
                rebalance(used, coming, constants, first, last)
                yield
        for first, last in pieces(M, STREAMS // K):
            size(used, coming, constants, first, last)
            yield
        for tile in tiles(K, M, STREAMS):
            refill(self._stage, tile)
            yield

    def _some_arms(self) -> Any:
        K, bets = self.setting.arms, self.coming.capital[:, 0].size
        return pieces(K, BETS // bets)

    def evaluate(self, incentivizing: bool) -> None:
        """Evaluate every round that is full."""
        finish(self.evaluation(incentivizing))

    def evaluation(self, incentivizing: bool) -> Work[None]:
        """Evaluate every round that is full, in slices."""
        if self.owing == 0 and not self.decided:
            self._shown = self.evidence(), self.worse_by()
        while self.owing == 0 and not self.decided:
            yield from self._evaluate_round()
            steps.eliminate(self.used, self.coming, self.constants)
            self.active = (self.used.active == 1).tolist()
            self._declare()
            if self.decided:
                self._end()
            else:
                yield from self._begin_round()
        self._shown = None

    def _declare(self) -> None:
        """Note the arm that is best up to ε, while others are still in."""
        named = int(steps.best_up_to(self.used, self.coming, self.constants))
        if named >= 0 and sum(self.active) > 1:
            self.declared = named

    def _evaluate_round(self) -> Work[None]:
        """Do what `evaluation.evaluate` does."""
        used, coming, measure, constants = self.used, self.coming, self.measure, self.constants
        size = self.setting.arms, self.setting.agents, STREAMS
        steps.clear(measure)
        for tile in tiles(*size):
            steps.measure_streams(used, coming, self._filled(tile), measure, constants, tile)
            yield
        for first, last in self._some_arms():
            steps.pay_out(used, coming, measure, constants, first, last)
            yield
        steps.note_round(used, coming, measure)
        for tile in tiles(*size):
            steps.absorb(used, coming, self._filled(tile), measure, tile)
            yield
        steps.note_errors(used, measure)
        for tile in tiles(*size):
            steps.describe(used, coming, measure, constants, tile)
            yield
        for tile in tiles(*size) if constants.shrink else ():
            steps.spread(used, coming, measure, tile)
            yield
        steps.note_description(used, measure, constants)

    def _filled(self, tile: tuple[int, int, int, int]) -> Fill:
        """Return the fresh samples of a tile of streams."""
        first, last, left, right = tile
        sums = np.zeros((last - first, right - left))
        fill_sums(sums, self._stage, tile)
        return Fill(sums, self.errors[first:last, left:right])

    def _end(self) -> None:
        """One arm is left: nobody owes anything, and nothing waits."""
        self._waiting.end()
        self.coming = self.coming._replace(blocks=np.zeros_like(self.coming.blocks))

    def owed_by(self, agents: Any) -> Ints:
        """Return what streams still owe to the coming round; nothing while that is being evaluated."""
        recorded = self.record.pulls[agents]
        owed = np.zeros(recorded.shape, np.int64)
        if self._shown is None:
            blocks, used = (np.ascontiguousarray(book[:, agents]) for book in (self.coming.blocks, self.used.pulls))
            fill_owed(owed, blocks, recorded, used)
        return owed

    def _most(self, payable: NDArray[np.bool_]) -> Work[tuple[Ints, Wanted]]:
        """Find it without a table of what everybody owes."""
        M, K = self.setting.agents, self.setting.arms
        books = self.coming.blocks, self.record.pulls, self.used.pulls
        most, arms = np.zeros(M, np.int64), np.zeros(M, np.int32)
        for first, last in pieces(M, STREAMS // K):
            fill_most_owed(most, arms, *books, payable, first, last)
            yield
        return most, arms

    def parts(self) -> dict[str, Any]:
        """Return the books and the pool of waiting samples."""
        return {f"{book}.{name}": part for book, kept in self._books().items() for name, part in kept.items()}

    def _books(self) -> dict[str, dict[str, Any]]:
        coming = self.coming._asdict()
        if self.epsilon == 0.0:  # trials without an ε are saved as they always were
            coming = {name: part for name, part in coming.items() if name not in NEAR_BOOKS}
        books = {"used": self.used._asdict(), "coming": coming, "fill": {"errors": self.errors}}
        return books | {"waiting": self._waiting.queues._asdict()}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        self._waiting.restore(*(parts[f"waiting.{name}"] for name in Queues._fields))
        for book, kept in self._books().items():
            for name, part in kept.items():
                np.copyto(part, parts[f"{book}.{name}"])
        self.active = (self.used.active == 1).tolist()
        self._declare()

    def needed(self) -> Work[Floats]:
        """n_k from the sample means so far (`fill_needed`) with β = log(1/δ) + 3."""
        K, M = self.setting.arms, self.setting.agents
        spreads, needed = np.zeros(K), np.zeros(K)
        for tile in tiles(K, M, STREAMS):
            add_spreads(self.used, self.constants, spreads, tile)
            yield
        means = yield from self.means()
        smallest = smallest_gap(self.setting, self.delta)
        beta, margin = self.constants.confidence + 3.0, self.constants.aim
        fill_needed(needed, means, self.used.active, spreads, beta, smallest, margin)
        return needed

    @property
    def forecasts(self) -> bool:
        """Trials that began under the first rules pay as they did then."""
        return self.setting.rules > 1

    def still_owed(self) -> Work[float]:
        """What is owed by the z-scores so far (`look_ahead`, `fill_ratios`)."""
        ratios = np.zeros(self.setting.arms)
        fill_ratios(ratios, self._outlook(), self.used.active)
        return (yield from self._owed_with(ratios, 0.0))[0]

    def chance(self, left: int, bonuses: float) -> Work[float]:
        """How likely the most that can be had in time, and for so many bonuses, suffices (`chance_of`)."""
        least, most, pace = 0.0, MOST_RATIO, float(left) / float(max(self.step, 1))
        for _ in range(HALVINGS):
            middle = 0.5 * (least + most)
            owed, unpaid = yield from self._owed_with(np.full(self.setting.arms, middle), pace)
            least, most = (middle, most) if owed <= float(left) and unpaid <= bonuses else (least, middle)
        return float(chance_of(self._outlook(), self.used.active, least))

    def _outlook(self) -> Floats:
        outlook = np.zeros((self.setting.arms, 2))
        steps.look_ahead(self.used, self.coming, self.constants, outlook)
        return outlook

    def _owed_with(self, ratios: Floats, pace: float) -> Work[tuple[float, float]]:
        """Find what is owed until every arm has so many times its used samples again, and what of it has to be paid."""
        found, books = np.zeros(3), (self.used.pulls, self.coming.blocks, self.record.pulls)
        for first, last in pieces(self.setting.agents, STREAMS // self.setting.arms):
            add_owed(found, ratios, *books, pace, first, last)
            yield
        return float(found[1 if self.setting.offers == "each" else 0]), float(found[2])

    def evidence(self) -> list[float]:
        """W_k(2γ) against every arm: an arm goes when it reaches 1/δ, and stays as it was then."""
        if self._shown is not None:
            return list(self._shown[0])
        return [float(steps.evidence(self.coming, self.constants.decides, k)) for k in range(self.setting.arms)]

    def worse_by(self) -> list[float]:
        """Return for every arm the largest x for which max_j μ_j − μ_k > x is proven, 0 if none is.

        Each holds at all times with probability 1 − δ; not all of them together.
        """
        if self._shown is not None:
            return list(self._shown[1])
        return worse_by(self.coming.peaks, self.constants)

    def survives(self) -> float | None:
        """γ*: half of the margin by which every arm that is out is proven to be worse; what was asked for, with ε."""
        return self.constants.margin / 2 if self.declared is not None else survives(self.worse_by(), self.active)

    @property
    def goes_at(self) -> float:
        """1/δ."""
        return self.constants.threshold

    def bounds(self) -> list[float]:
        """Return the evidence against every arm."""
        return self.evidence()
