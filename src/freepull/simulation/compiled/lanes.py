"""Sixteen agents at once, in vector instructions: the arm with the largest index, and the pull of a coin.

A *lane* is one agent of one run. The state of sixteen lanes lies side by side, so that one instruction serves four or
eight of them. LLVM's own vectoriser gives up on these loops or makes them slow (masked stores, split masks), so the few
instructions they need are written out here.
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
_W = np.uint64(WIDTH)
_ROOT_OF_HALF, _LOG_2 = np.int64(0x3FE6A09E667F3BCD), math.log(2.0)
"""The bits of √½, and log 2."""


def _native() -> int:
    features = llvmlite.binding.get_host_cpu_features()
    return 8 if features.get("avx512f") else 4 if features.get("avx") else 2


NATIVE = _native()
"""Doubles in one vector register of this machine; it changes the speed, never a bit."""
_DOUBLE, _INT, _INT32 = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_DOUBLES, _INTS = ir.VectorType(_DOUBLE, NATIVE), ir.VectorType(_INT, NATIVE)


def _pointer(builder: Any, base: Any, offset: Any, kind: Any) -> Any:
    return builder.bitcast(builder.gep(base, [offset]), kind.as_pointer())


def _load(builder: Any, base: Any, offset: Any) -> Any:
    loaded = builder.load(_pointer(builder, base, offset, _DOUBLES))
    loaded.align = 8
    return loaded


def _store(builder: Any, vector: Any, base: Any, offset: Any) -> None:
    builder.store(vector, _pointer(builder, base, offset, vector.type)).align = 8


def _splat(builder: Any, value: Any, kind: Any) -> Any:
    empty = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(_INT32, NATIVE), [0] * NATIVE))


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value).data


def _load_ints(builder: Any, base: Any, offset: Any) -> Any:
    loaded = builder.load(_pointer(builder, base, offset, _INTS))
    loaded.align = 8
    return loaded


def _ints(value: int) -> Any:
    return ir.Constant(_INTS, [value] * NATIVE)


def _doubles(value: float) -> Any:
    return ir.Constant(_DOUBLES, [value] * NATIVE)


def _divide(builder: Any, n: Any, s: Any, work: Any, at: int) -> None:
    """Write 1/√N and S/N of one vector of lanes to the two halves of work."""
    root, mean = _quotients(builder, n, s)
    _store(builder, root, work, ir.Constant(_INT, at))
    _store(builder, mean, work, ir.Constant(_INT, WIDTH + at))


def _quotients(builder: Any, n: Any, s: Any) -> tuple[Any, Any]:
    """1/√N and S/N."""
    insert: Any = cgutils.get_or_insert_function
    root = insert(builder.module, ir.FunctionType(_DOUBLES, [_DOUBLES]), f"llvm.sqrt.v{NATIVE}f64")
    return builder.fdiv(_doubles(1.0), builder.call(root, [n])), builder.fdiv(s, n)


@intrinsic  # type: ignore[misc, unused-ignore]
def _divide_chunk(typing: Any, work: Any) -> Any:
    """work holds 16 counts N and 16 sums S; they become 1/√N and S/N."""
    signature = types.void(work)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        base = _data(context, builder, signature.args[0], args[0])
        for at in range(0, WIDTH, NATIVE):
            n, s = (_load(builder, base, ir.Constant(_INT, offset)) for offset in (at, WIDTH + at))
            _divide(builder, n, s, base, at)
        return context.get_dummy_value()

    return signature, generate


def _toss(builder: Any, cell: Any, threshold: Any, key: Any, arm: Any) -> tuple[Any, Any, Any]:
    """One vector of coins: the cells moved on by a pull, and N and S of them as doubles.

    A cell is S·2³² + N. The random word is `randomness.word` of the lane's key, its arm and the new N; without a
    branch, S grows by the sign of (its first 53 bits − threshold).
    """
    low, exponent = _ints(0xFFFFFFFF), _ints(0x4330000000000000)

    def double(small: Any) -> Any:
        """A whole number below 2⁵², written into the mantissa of 2⁵²."""
        return builder.fsub(builder.bitcast(builder.or_(small, exponent), _DOUBLES), _doubles(2.0**52))

    cell = builder.add(cell, _ints(1))
    n = builder.and_(cell, low)
    random = builder.add(key, builder.mul(n, _ints(STEP)))
    random = builder.add(random, builder.mul(builder.and_(arm, low), _ints(ARM)))
    for shift, factor in ((30, MIX_FACTORS[0]), (27, MIX_FACTORS[1])):
        random = builder.mul(builder.xor(random, builder.lshr(random, _ints(shift))), _ints(factor))
    random = builder.xor(random, builder.lshr(random, _ints(31)))
    heads = builder.lshr(builder.sub(builder.lshr(random, _ints(11)), threshold), _ints(63))
    cell = builder.add(cell, builder.shl(heads, _ints(32)))
    return cell, double(n), double(builder.lshr(cell, _ints(32)))


@intrinsic  # type: ignore[misc, unused-ignore]
def _toss_chunk(typing: Any, words: Any, keys: Any, arm: Any, first: Any, work: Any) -> Any:
    """Sixteen coins: words holds 16 cells and 16 thresholds; cells move on by a pull, work becomes 1/√N and S/N."""
    signature = types.void(words, keys, arm, types.uint64, work)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, keys, arm, work = (_data(context, builder, signature.args[i], args[i]) for i in (0, 1, 2, 4))
        for at in range(0, WIDTH, NATIVE):
            here, lane = ir.Constant(_INT, at), builder.add(args[3], ir.Constant(_INT, at))
            cell, threshold = (_load_ints(builder, words, ir.Constant(_INT, offset)) for offset in (at, WIDTH + at))
            cell, n, s = _toss(
                builder, cell, threshold, _load_ints(builder, keys, lane), _load_ints(builder, arm, lane)
            )
            _store(builder, cell, words, here)
            _divide(builder, n, s, work, at)
        return context.get_dummy_value()

    return signature, generate


_PARTS = [ir.Constant(_INT, j * NATIVE) for j in range(WIDTH // NATIVE)]
"""Where the vectors of a chunk begin."""


def _search(builder: Any, at: Any, arms: Any, first: int, tops: list[Any], value: Any, larger: Any) -> Any:
    """Go through the arms from ``first`` on; return the largest values by vector, and the lowest arm that has each.

    ``tops`` are what a value must exceed at the beginning, ``value`` gives that of the lanes at a position.
    """
    before = builder.block
    test, body, end = (builder.append_basic_block(name) for name in ("arms.test", "arms.body", "arms.end"))
    builder.branch(test)

    builder.position_at_end(test)
    k = builder.phi(_INT)
    top, which = [builder.phi(it.type) for it in tops], [builder.phi(_INTS) for _ in tops]
    k.add_incoming(ir.Constant(_INT, first), before)
    for j, it in enumerate(tops):
        top[j].add_incoming(it, before)
        which[j].add_incoming(_ints(0), before)
    builder.cbranch(builder.icmp_unsigned("<", k, arms), body, end)

    builder.position_at_end(body)
    row, this = builder.add(at, builder.mul(k, ir.Constant(_INT, WIDTH))), _splat(builder, k, _INTS)
    for j, part in enumerate(_PARTS):
        found = value(builder.add(row, part))
        more = larger(">", found, top[j])
        top[j].add_incoming(builder.select(more, found, top[j]), body)
        which[j].add_incoming(builder.select(more, this, which[j]), body)
    k.add_incoming(builder.add(k, ir.Constant(_INT, 1)), body)
    builder.branch(test)
    builder.position_at_end(end)
    return top, which


@intrinsic  # type: ignore[misc, unused-ignore]
def _first_largest(typing: Any, mean: Any, root: Any, at: Any, arms: Any, s: Any, out: Any, to: Any) -> Any:
    """out[to + l] = argmax_k mean[at + 16k + l] + s·root[at + 16k + l] for the lanes l = 0…15; ties: the lowest arm.

    Multiplication and addition are rounded each on its own.
    """
    signature = types.void(mean, root, types.uint64, types.uint64, types.float64, out, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mean, root, out = (_data(context, builder, signature.args[i], args[i]) for i in (0, 1, 5))
        at, arms, s, to = args[2], args[3], args[4], args[6]
        scale = _splat(builder, s, _DOUBLES)

        def index(offset: Any) -> Any:
            bonus = builder.fmul(scale, _load(builder, root, offset))
            return builder.fadd(_load(builder, mean, offset), bonus)

        firsts = [index(builder.add(at, part)) for part in _PARTS]
        _, which = _search(builder, at, arms, 1, firsts, index, builder.fcmp_ordered)
        for arm, part in zip(which, _PARTS, strict=True):
            _store(builder, arm, out, builder.add(to, part))
        return context.get_dummy_value()

    return signature, generate


def _shuffled(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT32, NATIVE), places))


@intrinsic  # type: ignore[misc, unused-ignore]
def _step_chunk(
    typing: Any, mean: Any, root: Any, cells: Any, keys: Any, at: Any, arms: Any, s: Any, arm: Any, to: Any
) -> Any:
    """`first_largest` and the pull of that coin in one, for few arms: all of a chunk's streams are loaded and stored.

    Nothing is gathered lane by lane, so that nothing is stored in pieces and loaded again as a vector.
    """
    signature = types.void(
        mean, root, cells, keys, types.uint64, types.uint64, types.float64, arm, types.uint64
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = [_data(context, builder, signature.args[i], args[i]) for i in (0, 1, 2, 3, 7)]
        mean, root, cells, keys, arm = data
        at, arms, s, to = args[4], args[5], args[6], args[8]
        scale, count = _splat(builder, s, _DOUBLES), range(NATIVE)

        def row(k: Any, part: Any) -> Any:
            return builder.add(builder.add(at, builder.mul(k, ir.Constant(_INT, WIDTH))), part)

        def words(here: Any) -> tuple[Any, Any]:
            """The cells and the thresholds of a vector of lanes, which lie in turn."""
            twice = builder.add(here, here)
            low, high = (_load_ints(builder, cells, builder.add(twice, ir.Constant(_INT, i))) for i in (0, NATIVE))
            return _shuffled(builder, low, high, [2 * i for i in count]), _shuffled(
                builder, low, high, [2 * i + 1 for i in count]
            )

        def seen(k: Any, part: Any) -> list[Any]:
            """The index, the arm, the cell and the threshold."""
            here = row(k, part)
            index = builder.fadd(_load(builder, mean, here), builder.fmul(scale, _load(builder, root, here)))
            return [index, _splat(builder, k, _INTS), *words(here)]

        def loop(first: int, state: list[Any], step: Any) -> list[Any]:
            """Go through the arms from ``first`` on; ``step`` makes a state of the one before."""
            before = builder.block
            test, body, end = (builder.append_basic_block(name) for name in ("arms.test", "arms.body", "arms.end"))
            builder.branch(test)
            builder.position_at_end(test)
            k, kept = builder.phi(_INT), [builder.phi(it.type) for it in state]
            k.add_incoming(ir.Constant(_INT, first), before)
            builder.cbranch(builder.icmp_unsigned("<", k, arms), body, end)
            builder.position_at_end(body)
            after = step(k, kept)
            for phi, old, new in zip(kept, state, after, strict=True):
                phi.add_incoming(old, before)
                phi.add_incoming(new, body)
            k.add_incoming(builder.add(k, ir.Constant(_INT, 1)), body)
            builder.branch(test)
            builder.position_at_end(end)
            return kept

        def better(k: Any, kept: list[Any]) -> list[Any]:
            after = []
            for j, part in enumerate(_PARTS):
                own, rival = kept[4 * j : 4 * j + 4], seen(k, part)
                more = builder.fcmp_ordered(">", rival[0], own[0])
                after += [builder.select(more, new, old) for new, old in zip(rival, own, strict=True)]
            return after

        best = loop(1, [it for part in _PARTS for it in seen(ir.Constant(_INT, 0), part)], better)
        new = []
        for j, part in enumerate(_PARTS):
            _, which, cell, threshold = best[4 * j : 4 * j + 4]
            lane = builder.add(to, part)
            cell, n, total = _toss(builder, cell, threshold, _load_ints(builder, keys, lane), which)
            _store(builder, which, arm, lane)
            new.append((which, cell, *_quotients(builder, n, total)))

        def put(k: Any, _: list[Any]) -> list[Any]:
            for part, (which, cell, inverse, quotient) in zip(_PARTS, new, strict=True):
                here = row(k, part)
                chosen = builder.icmp_unsigned("==", which, _splat(builder, k, _INTS))
                for values, value in ((root, inverse), (mean, quotient)):
                    _store(builder, builder.select(chosen, value, _load(builder, values, here)), values, here)
                old, threshold = words(here)
                now, twice = builder.select(chosen, cell, old), builder.add(here, here)
                for half in range(2):
                    places = [i // 2 + half * NATIVE // 2 + (i % 2) * NATIVE for i in count]
                    word = _shuffled(builder, now, threshold, places)
                    _store(builder, word, cells, builder.add(twice, ir.Constant(_INT, half * NATIVE)))
            return []

        loop(0, [], put)
        return context.get_dummy_value()

    return signature, generate


@intrinsic  # type: ignore[misc, unused-ignore]
def _most_owed(typing: Any, goals: Any, cells: Any, at: Any, arms: Any, arm: Any, most: Any, to: Any) -> Any:
    """most[to + l] = max_k goals[at + 16k + l] − N of the same position, at least 0, and arm[to + l] the lowest such k.

    N is the lower half of the first of a position's two words in ``cells``.
    """
    signature = types.void(goals, cells, types.uint64, types.uint64, arm, most, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        goals, cells, arm, most = (_data(context, builder, signature.args[i], args[i]) for i in (0, 1, 4, 5))
        at, arms, to = args[2], args[3], args[6]
        every_other = ir.Constant(ir.VectorType(_INT32, NATIVE), list(range(0, 2 * NATIVE, 2)))

        def owed(here: Any) -> Any:
            twice = builder.add(here, here)
            words = (_load_ints(builder, cells, builder.add(twice, ir.Constant(_INT, i))) for i in (0, NATIVE))
            pulls = builder.and_(builder.shuffle_vector(*words, every_other), _ints(0xFFFFFFFF))
            return builder.sub(_load_ints(builder, goals, here), pulls)

        top, which = _search(builder, at, arms, 0, [_ints(0) for _ in _PARTS], owed, builder.icmp_signed)
        for j, part in enumerate(_PARTS):
            _store(builder, which[j], arm, builder.add(to, part))
            _store(builder, top[j], most, builder.add(to, part))
        return context.get_dummy_value()

    return signature, generate


first_largest: Any = _first_largest
most_owed: Any = _most_owed
divide_chunk: Any = _divide_chunk
toss_chunk: Any = _toss_chunk
step_chunk: Any = _step_chunk


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
