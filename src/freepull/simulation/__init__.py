"""Simulation: the readable engine, the facade, and results."""

from freepull.simulation.facade import simulate
from freepull.simulation.results import Result

__all__ = ["Result", "simulate"]
