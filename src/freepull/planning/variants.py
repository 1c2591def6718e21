"""A variant of a trial as a row of a table, beside the plan."""

from __future__ import annotations

from freepull.planning import words
from freepull.planning.answer import Plan
from freepull.planning.curves import Point

COLUMNS = ("spend", "than the plan", "9 of 10 trials", "certified", "runs")


def cells(plan: Plan, point: Point) -> tuple[str, ...]:
    """Return where the variant lies, and the columns."""
    found = point.forecast
    more = "" if point.planned or plan.forecast is None else words.signed(*found.against(plan.forecast))
    return (
        f"{point.x:,g}",
        plan.money(found.mean),
        more,
        words.between(*found.range(0.9)),
        words.percent(found.chance[0]),
        f"{found.runs:,}",
    )
