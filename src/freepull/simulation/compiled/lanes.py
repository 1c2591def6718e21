"""Sixteen agents at once, in vector instructions: the arm with the largest index, and the pull of a coin.

A *lane* is one agent of one run. The state of sixteen lanes lies side by side, so that one instruction serves four or
eight of them. LLVM's own vectoriser gives up on these loops or makes them slow (masked stores, split masks), so the few
instructions they need are written out here.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from freepull.randomness import ARM, MIX_FACTORS, STEP

WIDTH = 16
"""Lanes in a chunk."""


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
    insert: Any = cgutils.get_or_insert_function
    root = insert(builder.module, ir.FunctionType(_DOUBLES, [_DOUBLES]), f"llvm.sqrt.v{NATIVE}f64")
    _store(builder, builder.fdiv(_doubles(1.0), builder.call(root, [n])), work, ir.Constant(_INT, at))
    _store(builder, builder.fdiv(s, n), work, ir.Constant(_INT, WIDTH + at))


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


@intrinsic  # type: ignore[misc, unused-ignore]
def _toss_chunk(typing: Any, words: Any, keys: Any, arm: Any, first: Any, work: Any) -> Any:
    """Sixteen coins: words holds 16 cells and 16 thresholds; cells move on by a pull, work becomes 1/√N and S/N.

    A cell is S·2³² + N. The random word is `randomness.word` of the lane's key, its arm and the new N; without a
    branch, S grows by the sign of (its first 53 bits − threshold).
    """
    signature = types.void(words, keys, arm, types.uint64, work)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, keys, arm, work = (_data(context, builder, signature.args[i], args[i]) for i in (0, 1, 2, 4))
        low, exponent = _ints(0xFFFFFFFF), _ints(0x4330000000000000)

        def double(small: Any) -> Any:
            """A whole number below 2⁵², written into the mantissa of 2⁵²."""
            return builder.fsub(builder.bitcast(builder.or_(small, exponent), _DOUBLES), _doubles(2.0**52))

        for at in range(0, WIDTH, NATIVE):
            here, lane = ir.Constant(_INT, at), builder.add(args[3], ir.Constant(_INT, at))
            cell = builder.add(_load_ints(builder, words, here), _ints(1))
            n = builder.and_(cell, low)
            random = builder.add(_load_ints(builder, keys, lane), builder.mul(n, _ints(STEP)))
            random = builder.add(random, builder.mul(builder.and_(_load_ints(builder, arm, lane), low), _ints(ARM)))
            for shift, factor in ((30, MIX_FACTORS[0]), (27, MIX_FACTORS[1])):
                random = builder.mul(builder.xor(random, builder.lshr(random, _ints(shift))), _ints(factor))
            random = builder.xor(random, builder.lshr(random, _ints(31)))
            threshold = _load_ints(builder, words, ir.Constant(_INT, WIDTH + at))
            heads = builder.lshr(builder.sub(builder.lshr(random, _ints(11)), threshold), _ints(63))
            cell = builder.add(cell, builder.shl(heads, _ints(32)))
            _store(builder, cell, words, here)
            _divide(builder, double(n), double(builder.lshr(cell, _ints(32))), work, at)
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
