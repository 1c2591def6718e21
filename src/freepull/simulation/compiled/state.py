"""The state of one block: several runs side by side, every agent of every run a lane.

Lanes lie in chunks of sixteen that follow one strategy. Numbers of one arm lie together over the lanes of a chunk:
position (chunk·K + arm)·16 + lane. The kernels see a few named tuples of arrays; `Block` builds them and reads
them out.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from freepull import rewards
from freepull.agents.answers import WorthAtLeast
from freepull.numerics import fill_keys
from freepull.principal.pricing import GROUPS, Posted
from freepull.principal.record import UNITS
from freepull.simulation.compiled.coding import ALPHA_UCB, Coded, is_formula
from freepull.simulation.compiled.few import FEW_ARMS
from freepull.simulation.compiled.formulas import formulas_of
from freepull.simulation.compiled.lanes import WIDTH
from freepull.simulation.compiled.world import history_of, presence_of, world_of
from freepull.simulation.experiment import Experiment

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Number = TypeVar("Number", np.float64, np.int64, np.uint64)
NEVER = 1 << 62
MOST_COUNTED = (1 << 16) - 1
"""Offers to an agent of one arm, between two times at which they are entered."""

LANE, PLACE, BANNED_UNTIL, REFUSALS, OFFERS, OFFER = range(6)
"""Columns of ``seats``, one row per (run, agent); PLACE is where its arm 0 lies, the next arm 16 further on; OFFERS are
counted, OFFER is the arm of the one in this step while agents act one by one, −1 otherwise."""
SEAT, ARM, NEED = range(3)
"""Columns of ``offers``: who has one for the coming step, for which arm, how urgently; a run uses OPEN rows."""
KAPPA, DECIDED_AT, QUIET_UNTIL, UNSEEN, OPEN, REFUSED, PAID, DECLARED, WAITS, FUTILE = range(10)
"""Columns of ``trials``, one row per run; DECIDED_AT is 0 while undecided, nothing is eliminated before QUIET_UNTIL,
UNSEEN streams were never pulled, OPEN counts the coming step's offers, DECLARED is an arm that was named while others
were still in, −1 if none; nothing is offered while an adaptive schedule WAITS, or a verdict is FUTILE to hope for."""
INVERSES, MEANS, UNPULLED, ACTIVE = range(4)
"""Columns of ``arms``, one row per (run, arm): Σ⌊2⁴⁰/N⌋, Σ⌊2⁴⁰·S/N⌋, agents who never pulled it, still in or not."""
KIND, ROW = range(2)
"""Columns of ``chunks``: the strategy, and its row in the table of s_t."""
REWARDS, CHOICES, ANSWERS = range(3)
"""Rows of ``keys``; there are three more where not everybody acts in every step."""


class Streams(NamedTuple):
    """What the agents have seen, by position, and what they draw from, by lane."""

    mean: Floats
    """S/N of each stream, infinite while unpulled."""
    cells: Words
    """Two words per stream. Coins: N with S in the upper half, then the threshold. Other laws: N, then S."""
    keys: Words
    laws: Any
    """None where rewards are coins, otherwise the kind of law, its parameters by lane and arm, levels and values."""
    history: Any
    """Rewards as they were told, a `world.History`."""


class Lanes(NamedTuple):
    """What the lanes pick and pull with."""

    streams: Streams
    root: Floats
    """1/√N by position, 0 while unpulled."""
    arm: Ints
    """What each lane pulls in this step."""
    words: Words
    work: Floats
    """The cells of one chunk while they are drawn for; counts and sums on their way to its statistics; KL indices, and
    the means and pulls that these are computed from."""
    there: Any
    """Who is there, a `world.Presence`; None where everybody acts in every step, to the end."""
    formulas: Any
    """What agents see who pick or answer by a formula, a `formulas.Formulas`."""
    world: Any
    """What disturbs them, a `world.World`."""
    told: Streams
    told_root: Floats
    """What the principal knows of the streams: the same, unless reports come late or never."""
    desk: Any
    """Where cells and thresholds lie apart while few arms are played; empty where arms are many, or agents disturbed or
    not always there, None where rewards are no coins."""
    wanted: Ints
    lacks: Ints
    """Where each may have an offer: what a lane would be offered, and how many pulls it lacks of that."""


class Strategies(NamedTuple):
    """How the lanes of each chunk pick."""

    chunks: Ints
    settings: Floats
    tables: Floats
    """s_t by row and step."""
    deep: Any
    """Lines above KL-UCB's indices: heights and slopes; None where nobody plays KL-UCB or Thompson sampling."""


class State(NamedTuple):
    """Where the trials of a block stand."""

    seats: Ints
    offers: Ints
    trials: Ints
    arms: Ints
    paid: Ints
    """By seat and arm."""
    frozen: Ints
    """Pulls and sums at the decision, where runs end there."""
    priced: Any
    """What is paid and asked, a `Priced`; None where all bonuses are the same."""
    losses: Any
    """True gaps by seat and arm, where an agent answers by them; None otherwise."""
    cells: Words
    """Those of the streams, told or not."""


class Priced(NamedTuple):
    """Prices that differ, in units of 2⁻³⁰."""

    received: Ints
    """What every seat was paid."""
    spent: Ints
    """What was paid, by run."""
    asked: Ints
    """The same, with all offers of this step, taken or not."""
    levels: Floats
    """Posted prices in this step, by run, group and arm…"""
    later: Floats
    """…and after the answers up to now."""
    answers: Ints
    """How many there were."""
    means: Floats
    """To work in: what one agent has seen of every arm."""


class Sums(NamedTuple):
    """What it takes to keep the sums over agents up to date, pull by pull."""

    fixed: Ints
    """⌊2⁴⁰·S/N⌋ of each stream, kept up while a rule looks at every step."""
    owner: Ints
    """The first row of a lane's run in ``arms``; lanes that nobody plays have rows of their own at the end."""
    inverses: Ints
    """⌊2⁴⁰/N⌋ for N = 0…T + 1, 0 for N = 0."""
    arms: Ints
    trials: Ints


class Together(NamedTuple):
    """What it takes to play sixteen runs at once under the paper's rule; empty where these are not.

    A group of sixteen runs has one chunk for each agent, so that a run has the same place in all of them.
    """

    arm: Ints
    agent: Ints
    """What is offered in this step, and whom, −1 for nobody, by run."""
    counted: Words
    """How many offers each lane had since they were entered, sixteen bits for each arm."""
    barred: Floats
    """By group, arm and place: 0 for arms that may be offered, −∞ otherwise."""
    due: Ints
    """The step after which some run of the group has to be evaluated, by group."""
    ready: bool = False
    """Whether every agent has pulled every arm, so that it may begin."""


class Block:
    """A few runs of an experiment, in machine words."""

    def __init__(self, experiment: Experiment, coded: Coded, runs: tuple[int, ...]) -> None:
        self.experiment, self.coded, self.runs = experiment, coded, runs
        M, K = experiment.shape
        B = len(runs)
        self.games = [experiment.game_of(run) for run in runs]
        self.setting = experiment.setting_of(self.games[0])
        """What the principal knows beforehand; the runs of a block share their weights."""
        self.own: Any = None
        """What the rule's kernel keeps for itself."""
        self.t = 0
        """Steps played."""
        few = K <= FEW_ARMS and experiment.always_there and not experiment.disturbances
        together = coded.together and few and B >= WIDTH // 2
        lane_of, agent_of_chunk = _seat_together(B, M) if together else _seat(coded, B, M)
        C = len(agent_of_chunk)
        L = C * WIDTH
        keys: Words = in_lines(np.zeros((3 if coded.habits is None else 6, L), np.uint64))
        fill_keys(keys, np.uint64(experiment.seed), np.array(runs, np.uint64), lane_of)
        cells: Words = in_lines(np.zeros(L * K * 2, np.uint64))
        streams = Streams(
            in_lines(np.full(L * K, np.inf)), cells, keys, self._laws(cells, lane_of), history_of(experiment, L)
        )
        root, world = in_lines(np.zeros(L * K)), world_of(experiment, runs, lane_of, L)
        told, told_root = streams, root
        if world.defers:
            told, told_root = streams._replace(mean=streams.mean.copy(), cells=cells.copy()), root.copy()
        self.lanes = Lanes(
            streams, root=root,
            arm=in_lines(np.zeros(L, np.int64)), words=in_lines(np.zeros(2 * WIDTH, np.uint64)),
            work=in_lines(np.ones(3 * WIDTH)),
            there=coded.habits and presence_of(coded.habits, lane_of, keys, experiment.horizon),
            formulas=formulas_of(coded.picking, agent_of_chunk, K),
            world=world, told=told, told_root=told_root,
            desk=in_lines(np.zeros(L * K * 2 if few else 0, np.uint64)) if streams.laws is None else None,
            wanted=np.zeros(L, np.int64), lacks=np.zeros(L, np.int64),
        )  # fmt: skip
        self.strategies = Strategies(
            chunks=np.stack([coded.kind[agent_of_chunk], coded.row[agent_of_chunk]], axis=1),
            settings=coded.setting[agent_of_chunk],
            tables=coded.tables,
            deep=(np.full(L * K, np.inf), np.zeros(L * K)) if coded.deep else None,
        )
        seats: Ints = np.zeros((B * M, 6), np.int64)
        seats[:, LANE] = lane_of
        seats[:, PLACE] = lane_of // WIDTH * K * WIDTH + lane_of % WIDTH
        seats[:, OFFER] = -1
        trials: Ints = np.zeros((B, 10), np.int64)
        trials[:, DECLARED] = -1
        trials[:, UNSEEN] = M * K
        trials[:, KAPPA] = NEVER if self.setting.kappa is None else self.setting.kappa
        arms: Ints = np.zeros((B * K + K, 4), np.int64)
        arms[:, UNPULLED], arms[:, ACTIVE] = M, 1
        self.state = State(
            seats, np.zeros((B * M, 3), np.int64), trials, arms, paid=np.zeros((B * M, K), np.int64),
            frozen=np.zeros((B * M if experiment.until == "decided" else 0, K, 2), np.int64),
            priced=self._priced(), losses=self._losses(), cells=cells,
        )  # fmt: skip
        groups = C // M if together else 0
        self.together = None
        """Where sixteen runs can be played at once."""
        if coded.plain and streams.laws is None:
            self.together = Together(
                arm=in_lines(np.zeros(groups * WIDTH, np.int64)), agent=in_lines(np.zeros(groups * WIDTH, np.int64)),
                counted=in_lines(np.zeros(groups * M * WIDTH, np.uint64)),
                barred=in_lines(np.zeros(groups * K * WIDTH)), due=np.zeros(groups, np.int64),
            )  # fmt: skip
        owner = self.by_lane(np.arange(B) * K, B * K)
        self.sums = Sums(np.zeros(L * K, np.int64), owner, coded.inverses, arms, trials)

    def _priced(self) -> Priced | None:
        """Return prices before the first offer; None where they do not differ."""
        pricing, (M, K), B = self.experiment.principal.pricing, self.experiment.shape, len(self.runs)
        if pricing is None:
            return None
        shape = B, GROUPS, K
        level = pricing.start if isinstance(pricing, Posted) else 0.0
        received, (spent, asked) = np.zeros(B * M, np.int64), np.zeros((2, B), np.int64)
        return Priced(
            received, spent, asked, np.full(shape, level), np.full(shape, level), np.zeros(shape, np.int64), np.zeros(K)
        )

    def _losses(self) -> Floats | None:
        """Return the true gaps of everybody, if somebody answers by them."""
        if not any(type(it) is WorthAtLeast or is_formula(type(it)) for it in self.experiment.answers):
            return None
        return np.concatenate([game.losses for game in self.games])

    @property
    def shares_weights(self) -> bool:
        """Whether all runs have the weights of the first, as kernels take it."""
        return all(np.array_equal(self.setting.weights, self.experiment.setting_of(g).weights) for g in self.games)

    def by_lane(self, of_run: Ints, of_nobody: int) -> Ints:
        """Return a number for every lane: that of its run, or that of lanes which nobody plays."""
        found = np.full(len(self.lanes.arm), of_nobody, np.int64)
        found[self.state.seats[:, LANE]] = np.repeat(of_run, self.experiment.shape[0])
        return found

    def _laws(self, cells: Words, lane_of: Ints) -> Any:
        """Write the coins' thresholds into the cells and return None, or return the other law's parameters by lane."""
        M, K = self.experiment.shape
        streams: list[rewards.Streams] = [game.streams for game in self.games]
        stacked = np.stack([s.parameters for s in streams]).reshape(-1, K, 5)
        chunk, lane = lane_of // WIDTH, lane_of % WIDTH
        by_chunk = cells.reshape(-1, K, WIDTH, 2)
        if streams[0].kind == 0:
            by_chunk[chunk, :, lane, 1] = stacked[:, :, 0].astype(np.uint64)
            return None
        parameters = np.zeros((len(by_chunk) * WIDTH, K, 5))
        parameters[lane_of] = stacked
        if streams[0].kind == 3:
            starts = np.cumsum([0] + [len(s.values) for s in streams[:-1]])
            parameters[lane_of, :, :2] += np.repeat(starts, M)[:, None, None]
        levels, values = (np.concatenate([getattr(s, name) for s in streams]) for name in ("levels", "values"))
        return streams[0].kind, parameters, levels, values

    def lay_out(self) -> None:
        """Put cells and thresholds on the desk, where they lie while α-UCB plays few arms."""
        if (desk := self.lanes.desk) is not None and len(desk):
            K = self.experiment.shape[1]
            desk.reshape(-1, K, 2, WIDTH)[:] = np.swapaxes(self.lanes.streams.cells.reshape(-1, K, WIDTH, 2), 2, 3)

    def put_back(self) -> None:
        """Put the cells back to where they are kept."""
        if (desk := self.lanes.desk) is not None and len(desk):
            K, few = self.experiment.shape[1], self.strategies.chunks[:, KIND] == ALPHA_UCB
            cells = self.lanes.streams.cells.reshape(-1, K, WIDTH, 2)
            cells[few, :, :, 0] = desk.reshape(-1, K, 2, WIDTH)[few, :, 0]

    def begin_together(self) -> None:
        """Prepare to play sixteen runs at once."""
        assert self.together is not None
        self.lay_out()
        B, K = len(self.runs), self.experiment.shape[1]
        open, groups = self.state.trials[:, DECIDED_AT] == 0, len(self.together.due)
        barred, due = np.full((groups * WIDTH, K), -np.inf), np.full(groups * WIDTH, NEVER)
        barred[:B][open[:, None] & (self.state.arms[:-K, ACTIVE].reshape(B, K) == 1)] = 0.0
        due[:B][open] = self.state.trials[open, QUIET_UNTIL]
        self.together.barred[:] = barred.reshape(groups, WIDTH, K).swapaxes(1, 2).ravel()
        self.together.due[:] = due.reshape(groups, WIDTH).min(axis=1)

    def end_together(self) -> None:
        """Enter what was paid."""
        assert self.together is not None
        self.put_back()
        M, K = self.experiment.shape
        lanes = self.state.seats[:, LANE]
        paid = (self.together.counted[lanes, None] >> (16 * np.arange(K, dtype=np.uint64))) & np.uint64(MOST_COUNTED)
        self.together.counted[:] = 0
        self.state.paid[:] += paid.astype(np.int64)
        self.state.trials[:, PAID] += paid.astype(np.int64).reshape(-1, M * K).sum(axis=1)

    def counts(self, told: bool = False) -> tuple[Ints, Ints]:
        """Return pulls and reward sums (in units of 2⁻³⁰) as (run, agent, arm), as they are now or as told."""
        M, K = self.experiment.shape
        seated = self.state.seats[:, LANE]
        streams = self.lanes.told if told else self.lanes.streams
        cells = streams.cells.reshape(-1, K, WIDTH, 2)[seated // WIDTH, :, seated % WIDTH]
        if self.lanes.streams.laws is None:
            pulls, sums = cells[:, :, 0] & np.uint64(0xFFFFFFFF), (cells[:, :, 0] >> np.uint64(32)) * np.uint64(UNITS)
        else:
            pulls, sums = cells[:, :, 0], cells[:, :, 1]
        shape = (len(self.runs), M, K)
        return pulls.astype(np.int64).reshape(shape), sums.astype(np.int64).reshape(shape)

    def final_counts(self) -> tuple[Ints, Ints]:
        """Return the same at the end of each run, which may be its decision."""
        pulls, sums = self.counts()
        if self.state.frozen.size:
            frozen = self.state.frozen.reshape(*pulls.shape, 2)
            ended = (self.state.trials[:, DECIDED_AT] > 0)[:, None, None]
            pulls, sums = np.where(ended, frozen[..., 0], pulls), np.where(ended, frozen[..., 1], sums)
        return pulls, sums


def in_lines(array: NDArray[Number]) -> NDArray[Number]:
    """Return a copy that begins with a line of the cache, so that no vector lies in two.

    >>> in_lines(np.arange(3)).ctypes.data % 64
    0
    """
    room = np.empty(array.nbytes + 64, np.uint8)
    begin = -room.ctypes.data % 64
    found = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def _seat(coded: Coded, runs: int, agents: int) -> tuple[Ints, Ints]:
    """Give every (run, agent) a lane, so that a chunk follows one strategy; return that and an agent of each chunk."""
    lane_of = np.zeros(runs * agents, np.int64)
    agent_of_chunk: list[int] = []
    for group in coded.groups:
        seats = (np.arange(runs)[:, None] * agents + group[None, :]).ravel()
        lane_of[seats] = len(agent_of_chunk) * WIDTH + np.arange(len(seats))
        agent_of_chunk += [int(group[0])] * -(-len(seats) // WIDTH)
    return lane_of, np.array(agent_of_chunk, np.int64)


def _seat_together(runs: int, agents: int) -> tuple[Ints, Ints]:
    """Do the same, so that a chunk is one agent in sixteen runs, and the chunks of these runs lie together."""
    run, agent = np.divmod(np.arange(runs * agents), agents)
    chunk = run // WIDTH * agents + agent
    return chunk * WIDTH + run % WIDTH, np.tile(np.arange(agents), -(-runs // WIDTH))
