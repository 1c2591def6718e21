"""Sixteen agents at once: the arm with the largest index, for a chunk of lanes, in vector instructions.

A *lane* is one agent of one run. The state of sixteen lanes lies side by side, so that one instruction serves four or
eight of them. LLVM's own vectoriser gives up on this loop or makes it slow (masked stores, split masks), so the few
instructions it needs are written out here.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

WIDTH = 16
"""Lanes in a chunk."""


def _native() -> int:
    features = llvmlite.binding.get_host_cpu_features()
    return 8 if features.get("avx512f") else 4 if features.get("avx") else 2


NATIVE = _native()
"""Doubles in one vector register of this machine; it changes the speed, never a bit."""
_DOUBLE, _INT, _INT32 = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_DOUBLES, _INTS = ir.VectorType(_DOUBLE, NATIVE), ir.VectorType(_INT, NATIVE)


@intrinsic  # type: ignore[misc, unused-ignore]
def _first_largest(typing: Any, mean: Any, root: Any, at: Any, arms: Any, s: Any, out: Any, to: Any) -> Any:
    """out[to + l] = argmax_k mean[at + 16k + l] + s·root[at + 16k + l] for the lanes l = 0…15; ties: the lowest arm.

    Multiplication and addition are rounded each on its own.
    """
    signature = types.void(mean, root, types.uint64, types.uint64, types.float64, out, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mean, root, out = (context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 1, 5))
        at, arms, s, to = args[2], args[3], args[4], args[6]

        def address(base: Any, offset: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(base, [offset]), kind.as_pointer())

        def splat(value: Any, kind: Any) -> Any:
            empty = ir.Constant(kind, ir.Undefined)
            first = builder.insert_element(empty, value, ir.Constant(_INT32, 0))
            return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(_INT32, NATIVE), [0] * NATIVE))

        def index(offset: Any) -> Any:
            loaded = [builder.load(address(base, offset, _DOUBLES)) for base in (mean, root)]
            for load in loaded:
                load.align = 8
            return builder.fadd(loaded[0], builder.fmul(scale, loaded[1]))

        scale = splat(s, _DOUBLES)
        parts = [ir.Constant(_INT, j * NATIVE) for j in range(WIDTH // NATIVE)]
        before = builder.block
        firsts = [index(builder.add(at, part)) for part in parts]
        test, body, end = (builder.append_basic_block(name) for name in ("arms.test", "arms.body", "arms.end"))
        builder.branch(test)

        builder.position_at_end(test)
        k = builder.phi(_INT)
        best = [builder.phi(_DOUBLES) for _ in parts]
        arm = [builder.phi(_INTS) for _ in parts]
        k.add_incoming(ir.Constant(_INT, 1), before)
        for j, first in enumerate(firsts):
            best[j].add_incoming(first, before)
            arm[j].add_incoming(ir.Constant(_INTS, [0] * NATIVE), before)
        builder.cbranch(builder.icmp_unsigned("<", k, arms), body, end)

        builder.position_at_end(body)
        row = builder.add(at, builder.mul(k, ir.Constant(_INT, WIDTH)))
        this = splat(k, _INTS)
        for j, part in enumerate(parts):
            value = index(builder.add(row, part))
            larger = builder.fcmp_ordered(">", value, best[j])
            best[j].add_incoming(builder.select(larger, value, best[j]), body)
            arm[j].add_incoming(builder.select(larger, this, arm[j]), body)
        k.add_incoming(builder.add(k, ir.Constant(_INT, 1)), body)
        builder.branch(test)

        builder.position_at_end(end)
        for j, part in enumerate(parts):
            builder.store(arm[j], address(out, builder.add(to, part), _INTS)).align = 8
        return context.get_dummy_value()

    return signature, generate


first_largest: Any = _first_largest
