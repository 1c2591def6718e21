"""Studies: simulations over a grid of parameters, described by a file, resumable, on one machine or many."""

from freepull.studies.cells import read
from freepull.studies.runner import Report, run
from freepull.studies.store import Changed, Store, chart, frame, result, summary
from freepull.studies.study import Cell, Study, shipped

__all__ = [
    "Cell",
    "Changed",
    "Report",
    "Store",
    "Study",
    "chart",
    "frame",
    "read",
    "result",
    "run",
    "shipped",
    "summary",
]
