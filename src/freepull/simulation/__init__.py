"""Simulation: the readable engine, the facade, results, and comparisons of principals."""

from freepull.simulation.comparing import Comparison, compare
from freepull.simulation.facade import simulate
from freepull.simulation.results import Result

__all__ = ["Comparison", "Result", "compare", "simulate"]
