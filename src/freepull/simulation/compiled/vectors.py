"""Vectors in the code that Numba hands to LLVM: loads, stores, and the pull of a coin. Intrinsics are made of these."""

from __future__ import annotations

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core import cgutils

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
