"""How agents pick arms, by family; a user's own has `pick` and `learn`, or `act` and `learn`."""

from freepull.agents.base import Agent, Indexed, Mind, OnTable, Remembering, View
from freepull.agents.classics import EXP3, EpsilonGreedy, Greedy, RoundRobin, Thompson
from freepull.agents.ucb import KLUCB, MOSS, UCBV, AlphaUCB, BayesUCB, UCB1Tuned, Withholding

__all__ = [
    "EXP3", "KLUCB", "MOSS", "UCBV", "Agent", "AlphaUCB", "BayesUCB", "EpsilonGreedy", "Greedy", "Indexed",
    "Mind", "OnTable", "Remembering", "RoundRobin", "Thompson", "UCB1Tuned", "View", "Withholding",
]  # fmt: skip
