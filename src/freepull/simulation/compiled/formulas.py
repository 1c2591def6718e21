"""Agents and answers that are formulas (`Indexed`, `Remembering`, `answers.Formula`), as machine code for kernels.

Kernels are compiled once, whatever the formulas are: they get their addresses as numbers. An index is computed for all
sixteen lanes and all arms in one call, so that what does not depend on the arm is computed once, and the rest in vector
instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, errors, types
from numba.core.typing import templates
from numba.extending import intrinsic
from numpy.typing import NDArray

from freepull.agents import Indexed, Remembering
from freepull.agents.answers import Formula
from freepull.agents.base import INDEX, LARGEST, formula, parameters
from freepull.compiling import Asks, address_of, jit, jit_alone
from freepull.numerics import mix, uniform
from freepull.randomness import ARM, CHOICE_COIN, STEP
from freepull.simulation.compiled.coding import BY_INDEX, is_formula
from freepull.simulation.compiled.lanes import NATIVE, WIDTH, first_largest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_W, _STEP = np.uint64(WIDTH), np.uint64(STEP)
_COIN = np.uint64(ARM * CHOICE_COIN % (1 << 64))
_ONE, _32, _LOW = np.uint64(1), np.uint64(32), np.uint64(0xFFFFFFFF)
_ARRAY, _INT, _FLOAT = types.Array(types.float64, 1, "C"), types.int64, types.float64
typed: Any = templates.signature
_INDICES = typed(types.void, *[_ARRAY] * 5, *[_INT] * 5, *[_ARRAY] * 2)
_CHOICE = typed(_INT, _ARRAY, _INT, _INT, _FLOAT, _ARRAY)
_NOTE = typed(types.void, _ARRAY, _INT, _FLOAT, _FLOAT, _INT, _INT, _ARRAY)
_ACCEPTS = typed(_INT, _INT, _INT, _FLOAT, _INT, _ARRAY, _ARRAY, _FLOAT, _FLOAT, _FLOAT, _ARRAY)


NOTHING, SUMS, SQUARES = 0, 1, 2
"""What is kept of a stream for a formula, beside its mean and root: nothing, N and S, or these and ΣX²."""


class Formulas(NamedTuple):
    """What formulas see, beside what the lanes have anyway; by chunk, by position, by lane."""

    picks: Ints
    """Where the index or the choice of a chunk lies; 0 where it follows another strategy, and nothing else is kept."""
    notes: Ints
    """Where its note lies; 0 where it has none."""
    keeps: Ints
    """What a chunk's formula wants to be kept of streams: `NOTHING`, `SUMS`, or `SQUARES` as well."""
    numbers: Floats
    """The parameters of a chunk."""
    pulls: Floats
    totals: Floats
    squares: Floats
    """N, S and ΣX² of a stream."""
    values: Floats
    """The indices of one chunk."""
    memory: Floats
    kept: Ints
    """How many numbers of its memory a chunk has."""
    paid: Floats
    """What a lane is paid in this step."""
    acts: Ints
    strayed: Ints
    """One number: 1 once somebody has chosen an arm that there is not."""
    seen: Floats
    """N and S of one agent, for its answer."""


class Answering(NamedTuple):
    """How agents answer who do so by a formula, by agent."""

    accepts: Ints
    numbers: Floats


class Picking(NamedTuple):
    """How agents pick who do so by a formula, by agent."""

    picks: Ints
    notes: Ints
    keeps: Ints
    numbers: Floats
    kept: Ints
    """How many numbers they remember."""


def _call(result: Any, expected: Any) -> Any:
    """Return an intrinsic that calls what lies at an address, with a tuple of arguments."""
    code: Any = cgutils

    @intrinsic  # type: ignore[misc, unused-ignore]
    def call(typing: Any, address: Any, arguments: Any) -> Any:
        kinds = tuple(arguments.types)
        if kinds != tuple(expected.args):
            raise errors.TypingError(f"a formula is called with {kinds}, but takes {expected.args}")

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            convention = context.call_conv
            pointer = builder.inttoptr(args[0], convention.get_function_type(result, kinds).as_pointer())
            unpacked = code.unpack_tuple(builder, args[1], len(kinds))
            status, value = convention.call_function(builder, pointer, result, kinds, unpacked)
            with code.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return context.get_dummy_value() if result is types.void else value

        return result(address, arguments), generate

    return call


_call_indices, _call_choice = _call(types.void, _INDICES), _call(_INT, _CHOICE)
_call_note, _call_accepts = _call(types.void, _NOTE), _call(_INT, _ACCEPTS)


def _wide() -> Any:
    """Return an intrinsic by which LLVM makes loops of the widest vectors that there are.

    For some processors it prefers half of that. Built-in strategies use them anyway, so no clock is slower for it.
    """

    @intrinsic  # type: ignore[misc, unused-ignore]
    def widely(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            set.add(builder.function.attributes, f'"prefer-vector-width"="{64 * NATIVE}"')
            return context.get_dummy_value()

        return types.void(), generate

    return widely


_widely = _wide()


_KEPT: dict[tuple[Any, ...], tuple[int, int, Any]] = {}
"""Where the functions of parts lie, and the functions, so that they are not lost."""


def _addresses(part: type) -> tuple[int, int, Any]:
    """Return where a part's functions lie as machine code; 0 for a second one that it has not."""
    names = ("index",) if issubclass(part, Indexed) else ("choice", "note")
    if issubclass(part, Formula):
        names = ("accepts",)
    own = tuple(formula(part, name) for name in names)
    if (part, *own) not in _KEPT:
        _KEPT[part, *own] = _compiled(part, own)
    return _KEPT[part, *own]


def _compiled(part: type, own: tuple[Any, ...]) -> tuple[int, int, Any]:
    name = f"{part.__module__}_{part.__qualname__}".replace(".", "_")
    ours = part.__module__.partition(".")[0] == __package__.partition(".")[0]
    made: list[tuple[Callable[..., Any], str, Any]]
    if issubclass(part, Indexed):
        made = [(_indices(own[0], _wanted(part) != NOTHING), "indices", _INDICES)]
    elif issubclass(part, Remembering):
        made = [(_choice(own[0]), "choice", _CHOICE), (_note(own[1]), "note", _NOTE)]
    else:
        made = [(_accepts(own[0]), "accepts", _ACCEPTS)]
    kept = []
    for function, what, kinds in made:
        function.__qualname__ = f"{what}_of_{name}"
        compiled = (jit if ours else jit_alone)(function)
        kept.append((address_of(compiled, kinds), compiled))
    return kept[0][0], kept[1][0] if len(kept) > 1 else 0, kept


def _indices(index: Any, counted: bool) -> Callable[..., None]:
    """Return a function for all streams of a chunk, or of a lane; ``counted``, if their pulls are kept."""

    def indices(
        pulls: Any, totals: Any, squares: Any, means: Any, roots: Any, first: int, count: int, apart: int, t: int,
        arms: int, numbers: Any, values: Any,
    ) -> None:  # fmt: skip
        """The index of ``count`` streams, ``apart`` from each other: ∞ where one was never pulled, −∞ for NaN.

        Of one that was never pulled it is computed as after a reward of 0: numbers that a formula can live with.
        """
        _widely()
        start, many, stride = np.uint64(first), np.uint64(count), np.uint64(apart)
        if apart == 1:
            for i in range(many):
                at = start + i
                arm, N = np.int64(i // _W), max(pulls[at], 1.0)
                seen = pulls[at] > 0.0 if counted else means[at] < np.inf
                mean, root = (means[at], roots[at]) if seen else (0.0, 1.0)
                value = index(N, totals[at], squares[at], mean, root, arm, t, arms, numbers)
                value = min(value, LARGEST) if value == value else -np.inf
                values[i] = value if seen else np.inf
        else:
            for i in range(many):
                at = start + i * stride
                arm, N = np.int64(i), max(pulls[at], 1.0)
                seen = pulls[at] > 0.0 if counted else means[at] < np.inf
                mean, root = (means[at], roots[at]) if seen else (0.0, 1.0)
                value = index(N, totals[at], squares[at], mean, root, arm, t, arms, numbers)
                value = min(value, LARGEST) if value == value else -np.inf
                values[i] = value if seen else np.inf

    return indices


def _choice(choice: Any) -> Callable[..., int]:
    def choose(memory: Any, t: int, arms: int, coin: float, numbers: Any) -> int:
        arm = choice(memory, t, arms, coin, numbers)
        return int(arm) if 0 <= arm < arms else -1

    return choose


def _note(note: Any) -> Callable[..., None]:
    def enter(memory: Any, arm: int, reward: float, paid: float, t: int, arms: int, numbers: Any) -> None:
        note(memory, arm, reward, paid, t, arms, numbers)

    return enter


def _accepts(accepts: Any) -> Callable[..., int]:
    def answer(
        t: int, arm: int, bonus: float, nth: int, pulls: Any, sums: Any, coin: float, lot: float, loss: float,
        numbers: Any,
    ) -> int:  # fmt: skip
        return 1 if accepts(t, arm, bonus, nth, pulls, sums, coin, lot, loss, numbers) else 0

    return answer


def picking(agents: Sequence[Any], arms: int) -> Picking | None:
    """Return how agents pick by formulas; None if nobody does."""
    if not any(is_formula(type(it)) for it in agents):
        return None
    found = [_addresses(type(it)) if is_formula(type(it)) else (0, 0, None) for it in agents]
    kept = [it.numbers_kept(arms) if isinstance(it, Remembering) else 0 for it in agents]
    picks, notes = (np.array([each[i] for each in found], np.int64) for i in (0, 1))
    keeps = np.array([_wanted(type(it)) for it in agents], np.int64)
    return Picking(picks, notes, keeps, _stacked(agents), np.array(kept, np.int64))


def _wanted(part: type) -> int:
    """Return what is to be kept of streams for an agent: what its formula asks for."""
    if not is_formula(part):
        return NOTHING
    if not issubclass(part, Indexed):
        return SUMS
    asked = Asks(INDEX, part.__name__).check(part.index)
    return SQUARES if "squares" in asked else SUMS if {"pulls", "total"} & set(asked) else NOTHING


def answering(answers: Sequence[Any]) -> Answering:
    """Return how agents answer by formulas."""
    found = [_addresses(type(it))[0] if is_formula(type(it)) else 0 for it in answers]
    return Answering(np.array(found, np.int64), _stacked(answers))


def _stacked(parts: Sequence[Any]) -> Floats:
    """Return the parameters of all, one row each."""
    rows = [parameters(it) if is_formula(type(it)) else np.zeros(1) for it in parts]
    stacked = np.zeros((len(rows), max(map(len, rows))))
    for row, own in zip(stacked, rows, strict=True):
        row[: len(own)] = own
    return stacked


def formulas_of(picking: Picking | None, agent_of_chunk: Ints, K: int) -> Formulas:
    """Lay out what formulas see."""
    chunks, lanes = len(agent_of_chunk), len(agent_of_chunk) * WIDTH
    if picking is None:
        nothing = np.zeros(1, np.int64)
        picking = Picking(nothing, nothing, nothing, np.zeros((1, 1)), nothing)
        agent_of_chunk, streams = np.zeros(chunks, np.int64), 0
    else:
        streams = lanes * K
    return Formulas(
        picking.picks[agent_of_chunk], picking.notes[agent_of_chunk], picking.keeps[agent_of_chunk],
        picking.numbers[agent_of_chunk],
        pulls=np.zeros(streams), totals=np.zeros(streams), squares=np.zeros(streams), values=np.zeros(WIDTH * K),
        memory=np.zeros((lanes, picking.kept.max())), kept=picking.kept[agent_of_chunk], paid=np.zeros(lanes),
        acts=np.zeros(lanes, np.int64), strayed=np.zeros(1, np.int64), seen=np.zeros((2, K)),
    )  # fmt: skip


@jit
def pick_by_formula(lanes: Any, formulas: Any, kind: int, chunk: Any, K: Any, t: int) -> None:
    """Write what the lanes of a chunk pick, who do so by a formula."""
    base, first = chunk * K * _W, chunk * _W
    if kind == BY_INDEX:
        _call_indices(
            formulas.picks[chunk],
            (formulas.pulls, formulas.totals, formulas.squares, lanes.streams.mean, lanes.root, np.int64(base),
             np.int64(K * _W), np.int64(1), np.int64(t), np.int64(K), formulas.numbers[chunk], formulas.values),
        )  # fmt: skip
        first_largest(formulas.values, lanes.root, np.uint64(0), K, 0.0, lanes.arm, first)
    else:
        for lane in range(_W):
            lanes.arm[first + lane] = _chosen(lanes.streams.keys[1], formulas, chunk, first + lane, K, t)


@jit
def pick_one_by_formula(lanes: Any, formulas: Any, kind: int, lane: Any, at: Any, K: Any, t: int) -> None:
    """Write what one lane picks, as `pick_by_formula` does for sixteen."""
    chunk = lane // _W
    if kind == BY_INDEX:
        values = formulas.values
        _call_indices(
            formulas.picks[chunk],
            (formulas.pulls, formulas.totals, formulas.squares, lanes.streams.mean, lanes.root, np.int64(at),
             np.int64(K), np.int64(WIDTH), np.int64(t), np.int64(K), formulas.numbers[chunk], values),
        )  # fmt: skip
        best = np.int64(0)
        for k in range(1, np.int64(K)):
            best = np.int64(k) if values[k] > values[best] else best
        lanes.arm[lane] = best
    else:
        lanes.arm[lane] = _chosen(lanes.streams.keys[1], formulas, chunk, lane, K, t)


@jit
def _chosen(keys: Any, formulas: Any, chunk: Any, lane: Any, K: Any, t: int) -> Any:
    """What a lane with a memory chooses; 0 if there is no such arm."""
    coin = uniform(mix(keys[lane] + _COIN + _STEP * np.uint64(t)))
    memory, numbers = formulas.memory[lane, : formulas.kept[chunk]], formulas.numbers[chunk]
    arm = _call_choice(formulas.picks[chunk], (memory, np.int64(t), np.int64(K), coin, numbers))
    if 0 <= arm < np.int64(K):
        return arm
    formulas.strayed[0] = 1
    return np.int64(0)


@jit
def count_by_formula(formulas: Any, cells: Any, laws: Any, arm: Any, chunk: Any, K: Any) -> None:
    """Note the pulls of a chunk whose formula has no memory, as `learn_by_formula` does one by one."""
    first, base, squared = chunk * _W, chunk * K * _W, formulas.keeps[chunk] == SQUARES
    for lane in range(_W):
        position = base + np.uint64(arm[first + lane]) * _W + lane
        cell = cells[position + position]
        if laws is None:
            N, total = float(np.int64(cell & _LOW)), float(np.int64(cell >> _32))
        else:
            N, total = float(np.int64(cell)), float(np.int64(cells[position + position + _ONE])) * 2.0**-30
        if squared:
            reward = total - formulas.totals[position]
            formulas.squares[position] += reward * reward
        formulas.pulls[position], formulas.totals[position] = N, total


@jit
def learn_by_formula(formulas: Any, position: Any, lane: Any, arm: Any, K: Any, N: Any, units: Any) -> None:
    """Note the pull of a lane that picks by a formula: N and S of its stream now."""
    total, chunk = float(units) * 2.0**-30, lane // _W
    reward = total - formulas.totals[position]
    formulas.pulls[position] = float(N)
    formulas.totals[position] = total
    if formulas.keeps[chunk] == SQUARES:
        formulas.squares[position] += reward * reward
    if formulas.notes[chunk] != 0:
        formulas.acts[lane] += 1
        _call_note(
            formulas.notes[chunk],
            (formulas.memory[lane, : formulas.kept[chunk]], np.int64(arm), reward, formulas.paid[lane],
             formulas.acts[lane], np.int64(K), formulas.numbers[chunk]),
        )  # fmt: skip
        formulas.paid[lane] = 0.0


@jit
def note_paid(formulas: Any, lane: Any, price: float) -> None:
    """Keep what a lane is paid until it has pulled."""
    formulas.paid[lane] = price


@jit
def accepts_by_formula(
    formulas: Any, own: Any, m: Any, t: int, arm: Any, bonus: float, nth: int, coin: float, lot: float, loss: float
) -> bool:
    """Whether an agent takes an offer by its formula; N and S of its arms are in ``formulas.seen``."""
    seen = formulas.seen
    answer = _call_accepts(
        own.accepts[m],
        (np.int64(t), np.int64(arm), bonus, np.int64(nth), seen[0], seen[1], coin, lot, loss, own.numbers[m]),
    )
    return bool(answer != 0)
