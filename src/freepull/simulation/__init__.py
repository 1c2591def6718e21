"""Simulation: the readable engine, the facade, and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from freepull.simulation.facade import simulate
    from freepull.simulation.results import Result

__all__ = ["Result", "simulate"]


def __getattr__(name: str) -> Any:
    """Load the facade and Polars, which results are made of, when they are first used."""
    if name not in __all__:
        raise AttributeError(f"freepull.simulation has no {name!r}.")
    from freepull.simulation import facade, results

    globals().update(simulate=facade.simulate, Result=results.Result)
    return globals()[name]
