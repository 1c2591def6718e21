"""`Pairwise`, a rule that there is no longer: trials and campaigns that began under it go on, to the bit.

Logs and saved states name it, nothing else may (`registry.Part.retired`). It is kept small, in plain Python: what its
campaigns need is to be read back, verified, shown and brought to their end. What it proves stands in
docs/certified.md, pairwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from freepull.errors import InvalidInput
from freepull.numerics import zeros
from freepull.principal.record import Record, Words, Work
from freepull.principal.rules.base import STACKS, Floats, Rule, Setting
from freepull.principal.rules.rounds import Ints, OwingState, fill_needed, smallest_gap
from freepull.registry import part

INSTEAD = "Comparisons, or Certified with an epsilon"
LONG = 30
"""Pulls of an arm by an agent from which a first block of 30 is a small part."""
ENOUGH = 1 << 40
"""Levels are laid out up to here; no stream gets so long."""
LARGEST, RATIO, BETS = 0.6, 1.5, 20
TYPICAL = 0.48
"""The spread of rewards for which a planned gap is turned into a bet."""
HIGH, LOW = range(2)
"""The two words of a sum: units of 2⁻¹⁶, and of 2⁻⁴⁶."""
SUM, WORST, SPREAD, ERRORS = range(4)
"""Columns of ``Books.ledger``: S_k, what leavers may have added to it at most, Σ q²·r·(errors per sample), and from
ERRORS on A_k,i."""
ROUNDS = 16
"""Rounds that there is room for at first."""
LARGEST_BLOCK = 2**32 - 1
"""No block is counted as larger; none of this size is ever filled."""
MOST = 700.0
"""Evidence is shown up to e⁷⁰⁰, which is a finite number."""


@part("blocks", "blocks", retired=INSTEAD)
@dataclass(frozen=True)
class Blocks:
    """How streams are cut: into blocks of at least r_c samples, r_c a share of all levels before it."""

    first_block: int = 1
    first_level: int = 1
    growth: float = 0.1
    neyman: float | None = None

    def levels(self) -> tuple[Ints, Ints]:
        """Return r_c and R_c, their sums, for c = 0, 1, …"""
        found, reached = [int(self.first_level)], [int(self.first_level)]
        while reached[-1] < ENOUGH:
            found.append(max(1, math.ceil(self.growth * reached[-1])))
            reached.append(reached[-1] + found[-1])
        return np.array(found, np.int64), np.array(reached, np.int64)


class Constants(NamedTuple):
    """What is fixed before the first sample: q_m = M·p_m (0 for agents who are no part of the panel), M, ℓ_i, log π_i,
    the log of (K−1)/δ or, where arms may be withdrawn, of K(K−1)/(2δ), and r_c and R_c."""

    weights: Floats
    agents: float
    bets: list[float]
    prior: list[float]
    threshold: float
    levels: Ints
    reached: Ints
    first_block: int
    neyman: float


@part("rule", "pairwise", nested=("blocks",), retired=INSTEAD)
@dataclass(frozen=True)
class Pairwise(Rule):
    """An e-process for every pair of arms: an arm goes when the evidence that some arm is better reaches (K−1)/δ."""

    policies: ClassVar[tuple[str, ...]] = ("wait", "independent", "worst_case")
    withdrawals: ClassVar[bool] = True

    delta: float = 0.05
    epsilon: float = 0.0
    gap: float | None = None
    blocks: Blocks | str = "auto"

    def constants(self, setting: Setting) -> Constants:
        """Return all that is fixed before the first sample."""
        blocks = self.blocks if isinstance(self.blocks, Blocks) else _auto(setting)
        K, M = setting.arms, int((setting.weights > 0).sum())
        weights = M * setting.weights
        bets = LARGEST / max(1.0, float(weights.max())) * RATIO ** -np.arange(BETS, dtype=float)
        claims = K * (K - 1) / 2 if setting.withdrawal else K - 1
        return Constants(
            weights, float(M), bets.tolist(), _prior(bets, self.gap, blocks.neyman).tolist(),
            math.log(claims / self.delta), *blocks.levels(), int(blocks.first_block), float(blocks.neyman or 0.0),
        )  # fmt: skip

    def start(self, setting: Setting, record: Record) -> PairwiseState:
        """Begin a trial."""
        return PairwiseState(self, setting, record)


def _auto(setting: Setting) -> Blocks:
    """Choose from K and κ: where an agent acts only a few dozen times, a first block of 30 is useless."""
    if (setting.expected_kappa or 0) < 10 * LONG * setting.arms:
        return Blocks()
    return Blocks(first_block=30, first_level=6, neyman=0.1)


def _prior(bets: Floats, gap: float | None, neyman: float | None) -> Floats:
    """Return log π_i: even, or falling off to both sides of the bet that suits a planned gap best."""
    if gap is None:
        return np.full(len(bets), -math.log(len(bets)))
    best = gap / (2 * TYPICAL * (neyman or TYPICAL))
    prior = np.exp(-np.abs(np.log(bets / best)) / math.log(RATIO) / 3)
    return np.asarray(np.log(prior / prior.sum()))


def _block_size(level: int, total: int, pulls: int, neyman: float) -> int:
    """b ≥ r: r·clip(√(p̂(1−p̂))/neyman, 1, ½/neyman), p̂ = (own sum + 1)/(own n + 2); r where neyman is 0."""
    if neyman == 0.0:
        return level
    p = (total * 2.0**-30 + 1.0) / (pulls + 2.0)
    return math.ceil(level * min(max(math.sqrt(p * (1.0 - p)) / neyman, 1.0), 0.5 / neyman))


class Filling(NamedTuple):
    """The block that each stream is filling, by arm and agent: its c, its size, how many samples it lacks, the sum of
    rewards before it in units of 2⁻³⁰, and its Σ(X − x̂)²."""

    number: Words
    sizes: Words
    missing: Words
    before: Ints
    errors: Floats


class Books(NamedTuple):
    """The sums of one trial, and what was concluded from them at its looks."""

    ledger: Ints
    """Indices arm, round, column, word; summed up over rounds where a round is complete."""
    rounds: Ints
    """C_k: rounds that all agents have completed."""
    evidence: Floats
    """log E_jk(c; 0) at the last round complete on both arms."""
    compared: Ints
    """How many rounds that comparison has."""
    beaten: Ints
    """1 where j (row) ever had enough against k (column)."""
    active: Ints
    withdrawn: Ints
    bounds: Floats
    """ψ(ℓ_i·w), and last the w that they are for."""


class PairwiseState(OwingState):
    """Streams of blocks, their books, and what the looks have concluded."""

    assumptions = STACKS

    def __init__(self, rule: Pairwise, setting: Setting, record: Record) -> None:
        super().__init__(setting, record)
        K, shape = setting.arms, (setting.arms, setting.agents)
        self.delta, self.epsilon = rule.delta, float(rule.epsilon)
        self.title = f"the pairwise rule at δ = {rule.delta:g} (proven)"
        self.constants = rule.constants(setting)
        first, rounds = self.constants.first_block, min(ROUNDS, len(self.constants.levels) - 1)
        self.filling = Filling(
            zeros(shape, np.uint32), np.full(shape, first, np.uint32), np.full(shape, first, np.uint32),
            zeros(shape, np.int64), zeros(shape, np.float64),
        )  # fmt: skip
        self.books = Books(
            np.zeros((K, rounds, ERRORS + BETS, 2), np.int64), np.zeros(K, np.int64), np.full((K, K), -np.inf),
            np.zeros((K, K), np.int64), np.zeros((K, K), np.int64), np.ones(K, np.int64), np.zeros(K, np.int64),
            bounds=np.full(BETS + 1, -1.0),
        )  # fmt: skip
        self.entered: Ints = np.zeros((K, rounds), np.int64)
        """Blocks that have entered each round."""
        self.stay: NDArray[np.bool_] = self.constants.weights > 0
        """Agents who are part of the panel and have not left."""
        self.panel = int(self.stay.sum())
        """Blocks that complete a round."""
        self.gone: list[int] = []
        """Agents who left and count by the worst case."""
        self.declared: int | None = None
        """The arm that was declared best up to ε, if that has stopped the trial."""

    @property
    def decided(self) -> bool:
        """Whether one arm is left, or the leader is proven to be best up to ε."""
        return self.declared is not None or sum(self.active) == 1

    @property
    def target(self) -> str:
        """The panel, and up to which ε."""
        return super().target + (f"; the best arm up to ε = {self.epsilon:g}" if self.epsilon > 0 else "")

    def claim(self, arm: Callable[[int], str] = "arm {}".format) -> str:
        """Say what has decided the trial."""
        if self.declared is not None:
            return f"it is at most ε = {self.epsilon:g} worse than the best arm by {self.title}"
        return super().claim(arm) + (", or withdrawn" if self.books.withdrawn.any() else "")

    def leader(self) -> int:
        """Return the arm that was declared, or else the active one with the largest global sample mean."""
        return super().leader() if self.declared is None else self.declared

    def observe(self, agent: int, arm: int, reward: int) -> None:
        """Put a sample into its block; a full block enters its round, and the next is sized."""
        it, at = self.filling, (arm, agent)
        c = int(it.number[at])
        if it.missing[at] <= 1 and c >= self.entered.shape[1]:
            self._add_rounds()
        if not self.stay[agent]:
            return
        total, n = int(self.record.sums[agent, arm]), int(self.record.pulls[agent, arm])
        error = reward * 2.0**-30 - (0.5 + (total - reward) * 2.0**-30) / n
        it.errors[at] += error * error
        it.missing[at] -= 1
        if it.missing[at] > 0:
            return
        own, size, errors = self.constants, float(it.sizes[at]), float(it.errors[at])
        q, r = float(own.weights[agent]), float(own.levels[c])
        given = (total - int(it.before[at])) * 2.0**-30
        self._enter(arm, c, q * r / size, errors, {SUM: q * r / size * given, SPREAD: q * q * r * errors / size})
        it.number[at], it.before[at], it.errors[at] = c + 1, total, 0.0
        it.sizes[at] = it.missing[at] = min(_block_size(int(own.levels[c + 1]), total, n, own.neyman), LARGEST_BLOCK)

    def _enter(self, k: int, c: int, w: float, errors: float, others: dict[int, float]) -> None:
        """Add a block to its round: ψ(ℓ_i·w) times its squared errors to A_k,i, and numbers to other columns."""
        bounds = self.books.bounds
        if bounds[BETS] != w:
            bounds[:BETS] = [-math.log1p(-bet * w) - bet * w for bet in self.constants.bets]
            bounds[BETS] = w
        row = np.zeros(ERRORS + BETS)
        row[ERRORS:] = bounds[:BETS] * errors
        for column, number in others.items():
            row[column] = number
        row *= 65536.0
        whole = np.floor(row)
        self.books.ledger[k, c, :, HIGH] += whole.astype(np.int64)
        self.books.ledger[k, c, :, LOW] += ((row - whole) * 2.0**30).astype(np.int64)
        self.entered[k, c] += 1

    def leave(self, agent: int) -> None:
        """Count all blocks that an agent has not filled by the worst case."""
        if self.stay[agent]:
            self.stay[agent] = False
            self.gone.append(agent)
            self._miss(agent, 0)

    def _miss(self, m: int, since: int) -> None:
        """Enter what a leaver will never give: 0 to S_k, q_m·r_c to what it might have been, ψ(ℓ_i·w)·b to A_k,i.

        A size that is not fixed yet is the least it could be, the worst case.
        """
        own, q = self.constants, float(self.constants.weights[m])
        for k in range(self.setting.arms):
            now = int(self.filling.number[k, m])
            for c in range(max(since, now), self.entered.shape[1]):
                r = float(own.levels[c])
                size = float(self.filling.sizes[k, m]) if c == now else r
                self._enter(k, c, q * r / size, size, {WORST: q * r})

    def _add_rounds(self) -> None:
        """Make room for as many rounds again, where those who left are missing from the start."""
        rounds = self.entered.shape[1]
        self._widen(min(rounds, len(self.constants.levels) - 1 - rounds))
        for m in self.gone:
            self._miss(m, rounds)

    def _widen(self, rounds: int) -> None:
        """Make room for more rounds."""
        K, ledger = self.setting.arms, self.books.ledger
        more = np.zeros((K, rounds, *ledger.shape[2:]), np.int64)
        self.books = self.books._replace(ledger=np.concatenate([ledger, more], axis=1))
        self.entered = np.concatenate([self.entered, np.zeros((K, rounds), np.int64)], axis=1)

    def withdraw(self, arm: int) -> None:
        """Take an arm out; arms that only withdrawn ones had enough against return."""
        books = self.books
        if books.withdrawn[arm]:
            raise InvalidInput("this arm is withdrawn already; withdraw another one, or none.")
        if sum(books.withdrawn) == self.setting.arms - 1:
            raise InvalidInput("the last arm cannot be withdrawn, because at least one must stay; end the trial.")
        books.withdrawn[arm], books.active[arm] = 1, 0
        stay = np.flatnonzero(books.withdrawn == 0)
        books.active[stay[~books.beaten[np.ix_(stay, stay)].any(axis=0)]] = 1
        if not books.active.any():
            books.active[stay[self._against()[stay].argmin()]] = 1
        self._note_active()

    def evaluate(self, incentivizing: bool) -> None:
        """Look at the rounds that were completed since the last look, if there are any."""
        for k, rounds in enumerate(self.books.rounds.tolist()):
            for c in range(rounds, self.entered.shape[1]):
                if self.entered[k, c] < self.panel or len(self.gone) == self.panel:
                    break
                if c > 0:  # from now on its sums are those of all rounds up to it
                    self.books.ledger[k, c] += self.books.ledger[k, c - 1]
                self.books.rounds[k] = c + 1
        if not self._compare():
            return
        left = self._eliminate()
        self._note_active()
        leader = super().leader()
        if left > 1 and self.epsilon > 0 and all(
            self._log_evidence(leader, j, -self.epsilon) >= self.constants.threshold
            for j in range(self.setting.arms) if self.active[j] and j != leader
        ):  # fmt: skip
            self.declared = leader

    def _compare(self) -> bool:
        """Bring the evidence of all pairs up to date; say whether some pair had a new round."""
        books = self.books
        together = np.minimum.outer(books.rounds, books.rounds)
        np.fill_diagonal(together, 0)
        found = np.argwhere(books.compared < together).tolist()
        for j, k in found:
            books.compared[j, k] = together[j, k]
            books.evidence[j, k] = self._log_evidence(j, k, 0.0)
            if books.evidence[j, k] >= self.constants.threshold:
                books.beaten[j, k] = 1
        return bool(found)

    def _log_evidence(self, j: int, k: int, x: float) -> float:
        """log E_jk(c; x), c the last round complete on both arms: the evidence against μ_j − μ_k ≤ x.

        E = Σ_i π_i·exp(ℓ_i·(S_j − S_k − R_c·M·x) − A_j,i − A_k,i); leavers' missing rewards count 0 for j and 1 for k.
        """
        own, c = self.constants, int(min(self.books.rounds[j], self.books.rounds[k])) - 1
        if c < 0:
            return -math.inf
        ours, theirs = self._sums(j, c), self._sums(k, c)
        ahead = ours[SUM] - theirs[SUM] - theirs[WORST]
        ahead -= float(own.reached[c]) * own.agents * x
        most, total = -math.inf, 0.0
        for prior, bet, a, b in zip(own.prior, own.bets, ours[ERRORS:], theirs[ERRORS:], strict=True):
            term = prior + bet * ahead - (a + b)
            if term > most:
                total = total * math.exp(most - term) + 1.0
                most = term
            else:
                total += math.exp(term - most)
        return most + math.log(total)

    def _sums(self, k: int, c: int) -> list[float]:
        """Read the columns of an arm's round."""
        high, low = self.books.ledger[k, c, :, HIGH], self.books.ledger[k, c, :, LOW]
        found: list[float] = ((high + (low >> 30)) * 2.0**-16 + (low & ((1 << 30) - 1)) * 2.0**-46).tolist()
        return found

    def _against(self) -> Floats:
        """The largest log evidence of any arm that was not withdrawn against every arm."""
        return np.asarray(np.where(self.books.withdrawn[:, None] == 1, -np.inf, self.books.evidence).max(axis=0))

    def _eliminate(self) -> int:
        """Let go the arms that some arm has enough against, if all have the one with least stays; count the rest."""
        against, active = self._against(), self.books.active
        going = (active == 1) & (against >= self.constants.threshold)
        left = int((active == 1).sum() - going.sum())
        if left == 0:
            going[np.where(active == 1, against, np.inf).argmin()] = False
        active[going] = 0
        return max(left, 1)

    def _note_active(self) -> None:
        self.active = [bool(alive == 1) for alive in self.books.active]

    def owed_by(self, agents: Any) -> Ints:
        """Return what streams lack of the lowest round that some active arm has not completed."""
        it, active = self.filling, np.array(self.active)
        lacks = (it.number[:, agents] <= self.books.rounds[active].min()) & active[:, None] & self.stay[agents]
        return np.asarray((it.missing[:, agents] * lacks).T.astype(np.int64))

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Agents who are part of the panel and have not left."""
        return self.stay

    def needed(self) -> Work[Floats]:
        """n_k from the sample means so far (`fill_needed`) with β = the log of the threshold + 2.

        s_k = Σ_m p_m²·σ²_km, σ² the mean squared prediction error of complete rounds and of one level of ¼ before.
        """
        own, K = self.constants, self.setting.arms
        squares, spreads, needed = float(np.cumsum(own.weights * own.weights)[-1]), np.zeros(K), np.zeros(K)
        for k, rounds in enumerate(self.books.rounds.tolist()):
            known = self._sums(k, rounds - 1)[SPREAD] if rounds > 0 else 0.0
            levels = float(own.reached[rounds - 1]) if rounds > 0 else 0.0
            spreads[k] = (known + 0.25 * squares) / (levels + 1.0) / (own.agents * own.agents)
        means = yield from self.means()
        smallest = smallest_gap(self.setting, self.delta)
        fill_needed(needed, means, self.books.active, spreads, own.threshold + 2.0, smallest)
        return needed

    def parts(self) -> dict[str, Any]:
        """Return the streams, their books, and what was declared."""
        kept = {"streams": self.filling._asdict(), "books": self.books._asdict()}
        named = {f"{book}.{name}": part for book, fields in kept.items() for name, part in fields.items()}
        return named | {"entered": self.entered, "stay": self.stay, "gone": self.gone, "declared": self.declared}

    def restore(self, parts: dict[str, Any]) -> None:
        """Go on from what `parts` returned."""
        self._widen(parts["entered"].shape[1] - self.entered.shape[1])
        for book, kept in (("streams", self.filling), ("books", self.books)):
            for name, array in kept._asdict().items():
                np.copyto(array, parts[f"{book}.{name}"])
        np.copyto(self.entered, parts["entered"])
        np.copyto(self.stay, parts["stay"])
        self.gone, self.declared = parts["gone"], parts["declared"]
        self._note_active()

    @property
    def goes_at(self) -> float:
        """(K−1)/δ, or K(K−1)/2δ where arms may be withdrawn."""
        return math.exp(min(self.constants.threshold, MOST))

    def bounds(self) -> list[float]:
        """The largest evidence against every arm, as a finite number."""
        return [math.exp(min(log, MOST)) for log in self._against().tolist()]
