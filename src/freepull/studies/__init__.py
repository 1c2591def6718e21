"""Studies: simulations over a grid of parameters, described by a file, resumable, on one machine or many."""

from freepull.studies.runner import Report, run
from freepull.studies.store import Changed, Store, frame, result, summary
from freepull.studies.study import Cell, Study, read, shipped

__all__ = ["Cell", "Changed", "Report", "Store", "Study", "frame", "read", "result", "run", "shipped", "summary"]
