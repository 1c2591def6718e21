"""Few arms: all streams of sixteen lanes are loaded and stored as vectors, and nothing is gathered lane by lane.

While steps are played, the cells lie on a *desk* (`state.Block.lay_out`): sixteen of them side by side, then their
sixteen thresholds. A step is written out for every number of arms, so that what is chosen among is in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from freepull.compiling import jit
from freepull.randomness import ARM
from freepull.simulation.compiled.lanes import (
    DOUBLES,
    INT,
    INTS,
    NATIVE,
    PARTS,
    WIDTH,
    data,
    doubles,
    ints,
    load,
    load_ints,
    loop,
    quotients,
    splat,
    store,
    toss,
)

FEW_ARMS = 4
"""So many arms are few."""
_W = np.uint64(WIDTH)
LIFTED = 2.0**40 * (1.0 + 2.0**-49)
"""What makes ⌊2⁴⁰/N⌋ of the square of 1/√N, rounded down."""


def _added(builder: Any, *terms: Any) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = builder.add(total, ir.Constant(INT, term) if isinstance(term, int) else term)
    return total


def _first_largest(builder: Any, values: list[Any], others: list[list[Any]]) -> list[Any]:
    """The largest value of each lane, and what of the others goes with the first that has it."""
    best = [values[0], *(column[0] for column in others)]
    for k in range(1, len(values)):
        more = builder.fcmp_ordered(">", values[k], best[0])
        rivals = [values[k], *(column[k] for column in others)]
        best = [builder.select(more, new, old) for new, old in zip(rivals, best, strict=True)]
    return best


def _step_of(arms: int) -> Any:
    """Return what plays a step of α-UCB for the lanes of a chunk, with so many arms of coins."""

    @intrinsic  # type: ignore[misc, unused-ignore]
    def step(
        typing: Any,
        mean: Any,
        root: Any,
        desk: Any,
        keys: Any,
        offers: Any,
        at: Any,
        lane: Any,
        run: Any,
        m: Any,
        s: Any,
    ) -> Any:
        """What `step_few` says."""
        place = types.uint64
        signature = types.void(mean, root, desk, keys, offers, place, place, place, place, types.float64)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            mean, root, desk, keys = (data(context, builder, signature.args[i], args[i]) for i in range(4))
            kind, (at, lane, run, m, s) = signature.args[4], args[5:]
            scale, offered = splat(builder, s, DOUBLES), not isinstance(kind, types.NoneType)
            for part in PARTS:
                here = [_added(builder, at, part, WIDTH * k) for k in range(arms)]
                there = [_added(builder, at, at, part, 2 * WIDTH * k) for k in range(arms)]
                own = builder.add(lane, part)
                means, roots = ([load(builder, it, place) for place in here] for it in (mean, root))
                cells = [load_ints(builder, desk, place) for place in there]
                thresholds = [load_ints(builder, desk, _added(builder, place, WIDTH)) for place in there]
                widths = [builder.fmul(scale, it) for it in roots]
                indices = [builder.fadd(it, width) for it, width in zip(means, widths, strict=True)]
                if offered:
                    arm, agent, counted = (
                        data(context, builder, kind.types[i], builder.extract_value(args[4], i)) for i in range(3)
                    )
                    indices = _overruled(builder, indices, arm, agent, builder.add(run, part), m, counted, own)
                numbers = [ints(k * ARM % (1 << 64)) for k in range(arms)]
                _, number, cell, threshold = _first_largest(builder, indices, [numbers, cells, thresholds])
                key = builder.add(load_ints(builder, keys, own), number)
                cell, n, total = toss(builder, cell, threshold, key)
                inverse, quotient = quotients(builder, n, total)
                for k in range(arms):
                    chosen = builder.icmp_unsigned("==", number, numbers[k])
                    store(builder, builder.select(chosen, quotient, means[k]), mean, here[k])
                    store(builder, builder.select(chosen, inverse, roots[k]), root, here[k])
                    store(builder, builder.select(chosen, cell, cells[k]), desk, there[k])
            return context.get_dummy_value()

        return signature, generate

    return step


_step_2, _step_3, _step_4 = _step_of(2), _step_of(3), _step_of(4)


def _overruled(
    builder: Any, indices: list[Any], arm: Any, agent: Any, run: Any, m: Any, counted: Any, lane: Any
) -> list[Any]:
    """Let the index of an offered arm be infinite, and count the offer."""
    offered = builder.icmp_signed("==", load_ints(builder, agent, run), splat(builder, m, INTS))
    wanted, count = load_ints(builder, arm, run), load_ints(builder, counted, lane)
    bit = builder.select(offered, builder.shl(ints(1), builder.shl(wanted, ints(4))), ints(0))
    store(builder, builder.add(count, bit), counted, lane)
    wanted = builder.select(offered, wanted, ints(-1))
    return [
        builder.select(builder.icmp_signed("==", wanted, ints(k)), doubles(float("inf")), index)
        for k, index in enumerate(indices)
    ]


@jit
def step_few(
    mean: Any, root: Any, desk: Any, keys: Any, offers: Any, chunk: Any, K: Any, run: Any, m: Any, s: float
) -> None:
    """Play a step of α-UCB for the lanes of a chunk.

    ``offers`` is None, or a `state.Together`: then the chunk is agent m in the sixteen runs from ``run`` on, and takes
    what it is offered. Sixteen bits of a word count the offers of an arm.
    """
    at, lane = chunk * K * _W, chunk * _W
    if K == 3:
        _step_3(mean, root, desk, keys, offers, at, lane, run, m, s)
    elif K == 2:
        _step_2(mean, root, desk, keys, offers, at, lane, run, m, s)
    else:
        _step_4(mean, root, desk, keys, offers, at, lane, run, m, s)


def _offers_of(arms: int) -> Any:
    """Return what chooses the offers of sixteen runs, with so many arms."""

    @intrinsic  # type: ignore[misc, unused-ignore]
    def offer(
        typing: Any, root: Any, barred: Any, arm: Any, agent: Any, at: Any, row: Any, run: Any, agents: Any
    ) -> Any:
        """What `offer_few` says."""
        place = types.uint64
        signature = types.void(root, barred, arm, agent, place, place, place, place)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            root, barred, arm, agent = (data(context, builder, signature.args[i], args[i]) for i in range(4))
            at, row, run, agents = args[4:]
            bars = [
                [load(builder, barred, _added(builder, row, part, WIDTH * k)) for k in range(arms)] for part in PARTS
            ]
            for part, (wanted, asked) in zip(PARTS, _chosen(builder, root, at, bars, agents), strict=True):
                store(builder, wanted, arm, builder.add(run, part))
                store(builder, asked, agent, builder.add(run, part))
            return context.get_dummy_value()

        return signature, generate

    return offer


def _chosen(builder: Any, root: Any, at: Any, bars: list[list[Any]], agents: Any) -> list[tuple[Any, Any]]:
    """The widest arm, and the agent who has pulled it least, −1 if all arms are barred, by vector."""
    arms = len(bars[0])

    def roots(m: Any) -> list[list[Any]]:
        first = builder.add(at, builder.mul(m, ir.Constant(INT, WIDTH * arms)))
        return [[load(builder, root, _added(builder, first, part, WIDTH * k)) for k in range(arms)] for part in PARTS]

    def add(m: Any, totals: list[Any]) -> list[Any]:
        inverses = [_inverse(builder, own) for part in roots(m) for own in part]
        return [builder.fadd(total, own) for total, own in zip(totals, inverses, strict=True)]

    totals = loop(builder, 0, agents, [bar for part in bars for bar in part], add)
    numbers = [ints(k) for k in range(arms)]
    widest = [_first_largest(builder, totals[j : j + arms], [numbers]) for j in range(0, len(totals), arms)]
    is_arm = [[builder.icmp_signed("==", arm, number) for number in numbers] for _, arm in widest]

    def compare(m: Any, best: list[Any]) -> list[Any]:
        found, this = [], splat(builder, m, INTS)
        for j, (own, *others) in enumerate(roots(m)):
            for chosen, other in zip(is_arm[j][1:], others, strict=True):
                own = builder.select(chosen, other, own)
            more = builder.fcmp_ordered(">", own, best[2 * j])
            found += [builder.select(more, own, best[2 * j]), builder.select(more, this, best[2 * j + 1])]
        return found

    least = loop(builder, 0, agents, [doubles(0.0), ints(0)] * len(PARTS), compare)[1::2]
    return [
        (arm, builder.select(builder.fcmp_ordered(">", largest, doubles(0.0)), agent, ints(-1)))
        for (largest, arm), agent in zip(widest, least, strict=True)
    ]


def _inverse(builder: Any, root: Any) -> Any:
    """⌊2⁴⁰/N⌋ of 1/√N, and 0 of 0.

    The square is off by less than one part in 2⁵⁰. Lifted by one in 2⁴⁹ it is not below 2⁴⁰/N, and above it by less
    than 2⁻⁸/N; to the next whole number it is 1/N at least.
    """
    insert: Any = cgutils.get_or_insert_function
    floor = insert(builder.module, ir.FunctionType(DOUBLES, [DOUBLES]), f"llvm.floor.v{NATIVE}f64")
    return builder.call(floor, [builder.fmul(builder.fmul(root, root), doubles(LIFTED))])


_offer_2, _offer_3, _offer_4 = _offers_of(2), _offers_of(3), _offers_of(4)


@jit
def offer_few(root: Any, barred: Any, arm: Any, agent: Any, at: Any, K: Any, row: Any, run: Any, agents: Any) -> None:
    """Write what the paper's rule offers in each of sixteen runs, and whom, −1 for nobody.

    The chunk of the first agent begins with a position, those of the others follow. The widest arm has the largest sum
    of ⌊2⁴⁰/N⌋ and ``barred``, which is −∞ for arms that are out; who has pulled it least has the largest 1/√N.
    """
    if K == 3:
        _offer_3(root, barred, arm, agent, at, row, run, agents)
    elif K == 2:
        _offer_2(root, barred, arm, agent, at, row, run, agents)
    else:
        _offer_4(root, barred, arm, agent, at, row, run, agents)
