"""Numbers as verdicts print them."""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal


def downwards(number: float) -> str:
    """Two digits of a number, rounded down."""
    exact = Decimal(repr(number))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 1), ROUND_DOWN)):g}"
