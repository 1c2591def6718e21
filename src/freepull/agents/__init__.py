"""How agents pick arms. One algorithm, one file; a user's own agent is any class with `pick` and `learn`."""

from freepull.agents.base import Agent
from freepull.agents.greedy import EpsilonGreedy, Greedy
from freepull.agents.round_robin import RoundRobin
from freepull.agents.thompson import Thompson
from freepull.agents.ucb import KLUCB, AlphaUCB

__all__ = ["KLUCB", "Agent", "AlphaUCB", "EpsilonGreedy", "Greedy", "RoundRobin", "Thompson"]
