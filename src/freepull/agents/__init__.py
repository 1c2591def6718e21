"""How agents pick arms. One algorithm, one file; a user's own agent is any class with `pick` and `learn`."""

from freepull.agents.alpha_ucb import AlphaUCB
from freepull.agents.base import Agent
from freepull.agents.epsilon_greedy import EpsilonGreedy
from freepull.agents.greedy import Greedy
from freepull.agents.kl_ucb import KLUCB
from freepull.agents.round_robin import RoundRobin
from freepull.agents.thompson import Thompson

__all__ = ["KLUCB", "Agent", "AlphaUCB", "EpsilonGreedy", "Greedy", "RoundRobin", "Thompson"]
