"""Simulation: the readable engine, the facade, results, and comparisons of principals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from freepull.simulation.facade import Comparison, compare, simulate
    from freepull.simulation.results import Result

__all__ = ["Comparison", "Result", "compare", "simulate"]


def __getattr__(name: str) -> Any:
    """Load the facade and Polars, which results are made of, when they are first used."""
    if name not in __all__:
        raise AttributeError(f"freepull.simulation has no {name!r}.")
    from freepull.simulation import facade, results

    globals().update(Result=results.Result, Comparison=facade.Comparison)
    globals().update(compare=facade.compare, simulate=facade.simulate)
    return globals()[name]
