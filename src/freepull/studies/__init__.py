"""Studies: simulations over a grid of parameters, described by a file, resumable, on one machine or many."""

from freepull.studies.reading import read, shipped
from freepull.studies.runner import Report, run
from freepull.studies.store import Changed, Store, chart, frame, result, summary
from freepull.studies.study import Cell, Study

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
