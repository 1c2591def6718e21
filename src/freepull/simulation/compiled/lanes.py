"""Sixteen agents at once, in vector instructions: the arm with the largest index, and the pull of a coin.

A *lane* is one agent of one run. The state of sixteen lanes lies side by side, so that one instruction serves four or
eight of them. LLVM's own vectoriser gives up on these loops or makes them slow (masked stores, split masks), so the few
instructions they need are written out here: loads, stores and coins first, then the intrinsics that are made of them.
"""

from __future__ import annotations

import math
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from freepull.compiling import jit
from freepull.randomness import ARM, MIX_FACTORS, STEP

WIDTH = 16
"""Lanes in a chunk."""


def _native() -> int:
    features = llvmlite.binding.get_host_cpu_features()
    return 8 if features.get("avx512f") else 4 if features.get("avx") else 2


NATIVE = _native()
"""Doubles in one vector register of this machine; it changes the speed, never a bit."""
DOUBLE, INT, INT32 = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
DOUBLES, INTS = ir.VectorType(DOUBLE, NATIVE), ir.VectorType(INT, NATIVE)


PARTS = [ir.Constant(INT, j * NATIVE) for j in range(WIDTH // NATIVE)]
"""Where the vectors of a chunk begin."""


def _pointer(builder: Any, base: Any, offset: Any, kind: Any) -> Any:
    return builder.bitcast(builder.gep(base, [offset]), kind.as_pointer())


def load(builder: Any, base: Any, offset: Any) -> Any:
    """A vector of doubles."""
    loaded = builder.load(_pointer(builder, base, offset, DOUBLES))
    loaded.align = 8
    return loaded


def store(builder: Any, vector: Any, base: Any, offset: Any) -> None:
    """Store a vector of doubles or whole numbers."""
    builder.store(vector, _pointer(builder, base, offset, vector.type)).align = 8


def splat(builder: Any, value: Any, kind: Any) -> Any:
    """The same number in all lanes."""
    empty = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(INT32, 0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(INT32, NATIVE), [0] * NATIVE))


def data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Where an array's numbers begin."""
    return context.make_array(kind)(context, builder, value).data


def load_ints(builder: Any, base: Any, offset: Any) -> Any:
    """A vector of whole numbers."""
    loaded = builder.load(_pointer(builder, base, offset, INTS))
    loaded.align = 8
    return loaded


def ints(value: int) -> Any:
    """A whole number, the same in all lanes."""
    return ir.Constant(INTS, [value] * NATIVE)


def doubles(value: float) -> Any:
    """A double, the same in all lanes."""
    return ir.Constant(DOUBLES, [value] * NATIVE)


def divide(builder: Any, n: Any, s: Any, work: Any, at: int) -> None:
    """Write 1/√N and S/N of one vector of lanes to the two halves of work."""
    root, mean = quotients(builder, n, s)
    store(builder, root, work, ir.Constant(INT, at))
    store(builder, mean, work, ir.Constant(INT, WIDTH + at))


def quotients(builder: Any, n: Any, s: Any) -> tuple[Any, Any]:
    """1/√N and S/N."""
    insert: Any = cgutils.get_or_insert_function
    root = insert(builder.module, ir.FunctionType(DOUBLES, [DOUBLES]), f"llvm.sqrt.v{NATIVE}f64")
    return builder.fdiv(doubles(1.0), builder.call(root, [n])), builder.fdiv(s, n)


def toss(builder: Any, cell: Any, threshold: Any, key: Any) -> tuple[Any, Any, Any]:
    """One vector of coins: the cells moved on by a pull, and N and S of them as doubles.

    A cell is S·2³² + N. The random word is `randomness.word` of the key, to which the arm was added, and the new N;
    without a branch, S grows by the sign of (its first 53 bits − threshold).
    """
    low, exponent = ints(0xFFFFFFFF), ints(0x4330000000000000)

    def double(small: Any) -> Any:
        """A whole number below 2⁵², written into the mantissa of 2⁵²."""
        return builder.fsub(builder.bitcast(builder.or_(small, exponent), DOUBLES), doubles(2.0**52))

    cell = builder.add(cell, ints(1))
    n = builder.and_(cell, low)
    random = builder.add(key, builder.mul(n, ints(STEP)))
    for shift, factor in ((30, MIX_FACTORS[0]), (27, MIX_FACTORS[1])):
        random = builder.mul(builder.xor(random, builder.lshr(random, ints(shift))), ints(factor))
    random = builder.xor(random, builder.lshr(random, ints(31)))
    heads = builder.lshr(builder.sub(builder.lshr(random, ints(11)), threshold), ints(63))
    cell = builder.add(cell, builder.shl(heads, ints(32)))
    return cell, double(n), double(builder.lshr(cell, ints(32)))


def of_arm(builder: Any, arm: Any) -> Any:
    """What arms add to the keys of their lanes."""
    return builder.mul(builder.and_(arm, ints(0xFFFFFFFF)), ints(ARM))


def loop(builder: Any, first: int, end: Any, state: list[Any], step: Any) -> list[Any]:
    """Go from ``first`` to below ``end``; ``step`` makes a list of values of the number and the list before."""
    before = builder.block
    test, body, after = (builder.append_basic_block(name) for name in ("loop.test", "loop.body", "loop.end"))
    builder.branch(test)
    builder.position_at_end(test)
    k, kept = builder.phi(INT), [builder.phi(it.type) for it in state]
    k.add_incoming(ir.Constant(INT, first), before)
    builder.cbranch(builder.icmp_unsigned("<", k, end), body, after)
    builder.position_at_end(body)
    new = step(k, kept)
    for phi, old, now in zip(kept, state, new, strict=True):
        phi.add_incoming(old, before)
        phi.add_incoming(now, builder.block)
    k.add_incoming(builder.add(k, ir.Constant(INT, 1)), builder.block)
    builder.branch(test)
    builder.position_at_end(after)
    return kept


_W = np.uint64(WIDTH)
_ROOT_OF_HALF, _LOG_2 = np.int64(0x3FE6A09E667F3BCD), math.log(2.0)
"""The bits of √½, and log 2."""


@intrinsic  # type: ignore[misc, unused-ignore]
def _divide_chunk(typing: Any, work: Any) -> Any:
    """work holds 16 counts N and 16 sums S; they become 1/√N and S/N."""
    signature = types.void(work)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = data(context, builder, signature.args[0], args[0])
        for at in range(0, WIDTH, NATIVE):
            n, s = (load(builder, base, ir.Constant(INT, offset)) for offset in (at, WIDTH + at))
            divide(builder, n, s, base, at)
        return context.get_dummy_value()

    return signature, generate


@intrinsic  # type: ignore[misc, unused-ignore]
def _toss_chunk(typing: Any, words: Any, keys: Any, arm: Any, first: Any, work: Any) -> Any:
    """Sixteen coins: words holds 16 cells and 16 thresholds; cells move on by a pull, work becomes 1/√N and S/N."""
    signature = types.void(words, keys, arm, types.uint64, work)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, keys, arm, work = (data(context, builder, signature.args[i], args[i]) for i in (0, 1, 2, 4))
        for at in range(0, WIDTH, NATIVE):
            here, lane = ir.Constant(INT, at), builder.add(args[3], ir.Constant(INT, at))
            cell, threshold = (load_ints(builder, words, ir.Constant(INT, offset)) for offset in (at, WIDTH + at))
            key = builder.add(load_ints(builder, keys, lane), of_arm(builder, load_ints(builder, arm, lane)))
            cell, n, s = toss(builder, cell, threshold, key)
            store(builder, cell, words, here)
            divide(builder, n, s, work, at)
        return context.get_dummy_value()

    return signature, generate


def _search(builder: Any, at: Any, arms: Any, first: int, tops: list[Any], value: Any, larger: Any) -> Any:
    """Go through the arms from ``first`` on; return the largest values by vector, and the lowest arm that has each.

    ``tops`` are what a value must exceed at the beginning, ``value`` gives that of the lanes at a position.
    """
    count = len(PARTS)

    def step(k: Any, kept: list[Any]) -> list[Any]:
        row, this = builder.add(at, builder.mul(k, ir.Constant(INT, WIDTH))), splat(builder, k, INTS)
        top, which = kept[:count], kept[count:]
        for j, part in enumerate(PARTS):
            found = value(builder.add(row, part))
            more = larger(">", found, top[j])
            top[j], which[j] = builder.select(more, found, top[j]), builder.select(more, this, which[j])
        return top + which

    best = loop(builder, first, arms, [*tops, *(ints(0) for _ in PARTS)], step)
    return best[:count], best[count:]


@intrinsic  # type: ignore[misc, unused-ignore]
def _first_largest(typing: Any, mean: Any, root: Any, at: Any, arms: Any, s: Any, out: Any, to: Any) -> Any:
    """out[to + l] = argmax_k mean[at + 16k + l] + s·root[at + 16k + l] for the lanes l = 0…15; ties: the lowest arm.

    Multiplication and addition are rounded each on its own.
    """
    signature = types.void(mean, root, types.uint64, types.uint64, types.float64, out, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mean, root, out = (data(context, builder, signature.args[i], args[i]) for i in (0, 1, 5))
        at, arms, s, to = args[2], args[3], args[4], args[6]
        scale = splat(builder, s, DOUBLES)

        def index(offset: Any) -> Any:
            bonus = builder.fmul(scale, load(builder, root, offset))
            return builder.fadd(load(builder, mean, offset), bonus)

        firsts = [index(builder.add(at, part)) for part in PARTS]
        _, which = _search(builder, at, arms, 1, firsts, index, builder.fcmp_ordered)
        for arm, part in zip(which, PARTS, strict=True):
            store(builder, arm, out, builder.add(to, part))
        return context.get_dummy_value()

    return signature, generate


@intrinsic  # type: ignore[misc, unused-ignore]
def _most_owed(typing: Any, goals: Any, cells: Any, at: Any, arms: Any, arm: Any, most: Any, to: Any) -> Any:
    """most[to + l] = max_k goals[at + 16k + l] − N of the same position, at least 0, and arm[to + l] the lowest such k.

    N is the lower half of the first of a position's two words in ``cells``.
    """
    signature = types.void(goals, cells, types.uint64, types.uint64, arm, most, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        goals, cells, arm, most = (data(context, builder, signature.args[i], args[i]) for i in (0, 1, 4, 5))
        at, arms, to = args[2], args[3], args[6]
        every_other = ir.Constant(ir.VectorType(INT32, NATIVE), list(range(0, 2 * NATIVE, 2)))

        def owed(here: Any) -> Any:
            twice = builder.add(here, here)
            words = (load_ints(builder, cells, builder.add(twice, ir.Constant(INT, i))) for i in (0, NATIVE))
            pulls = builder.and_(builder.shuffle_vector(*words, every_other), ints(0xFFFFFFFF))
            return builder.sub(load_ints(builder, goals, here), pulls)

        top, which = _search(builder, at, arms, 0, [ints(0) for _ in PARTS], owed, builder.icmp_signed)
        for j, part in enumerate(PARTS):
            store(builder, which[j], arm, builder.add(to, part))
            store(builder, top[j], most, builder.add(to, part))
        return context.get_dummy_value()

    return signature, generate


first_largest: Any = _first_largest
most_owed: Any = _most_owed
divide_chunk: Any = _divide_chunk
toss_chunk: Any = _toss_chunk


@jit
def _log(x: float) -> float:
    """Log x to about 2⁻⁵² (absolutely or relatively) without a call: over lanes it becomes vector instructions.

    With x = f·2ᵉ, f within √2 of 1, and s = (f − 1)/(f + 1), log f is 2·artanh s, whose series is cut after s²¹/21.
    """
    bits = np.float64(x).view(np.int64)
    exponent = (bits - _ROOT_OF_HALF) >> np.int64(52)
    f = np.int64(bits - (exponent << np.int64(52))).view(np.float64)
    s = (f - 1.0) / (f + 1.0)
    z = s * s
    series = 1.0 / 13.0 + z * (1.0 / 15.0 + z * (1.0 / 17.0 + z * (1.0 / 19.0 + z * (1.0 / 21.0))))
    series = 1.0 / 3.0 + z * (1.0 / 5.0 + z * (1.0 / 7.0 + z * (1.0 / 9.0 + z * (1.0 / 11.0 + z * series))))
    return float(exponent) * _LOG_2 + 2.0 * s * (1.0 + z * series)


@jit
def kl_indices_about(work: Any, budget: float) -> None:
    """Sixteen KL indices at once, as `numerics.kl_index_about` has them: work[16…] are means, work[32…] pulls.

    NaN where three of Newton's steps do not surely suffice, in the same sense as there.
    """
    for lane in range(_W):
        mean, bound = work[_W + lane], budget / work[_W + _W + lane]
        variance, target = mean * (1.0 - mean), math.sqrt(bound)
        r = math.sqrt(2.0 * variance) * target
        bent = (1.0 - 2.0 * mean) * r / (3.0 * variance)
        x = min(r + r * bent if bent > 0.0 else r / (1.0 - bent), 0.7071067811865476 * target)
        steep, step = x > 0.7 * (1.0 - mean), 1.0
        entropy = mean * _log(mean) + (1.0 - mean) * _log(1.0 - mean)
        for _ in range(3):
            q = mean + x
            root = math.sqrt(max(entropy - mean * _log(q) - (1.0 - mean) * _log(1.0 - q), 0.0))
            step = 2.0 * root * (root - target) * q * (1.0 - q) / x
            x = min(max(x - step, 0.1 * x), 0.5 * (x + 1.0 - mean))
        q = mean + x
        close = (not steep) & (abs(step) < 1e-6) & (step * step < 1e-10 * min(variance, q * (1.0 - q)))
        work[lane] = q if close else math.nan
