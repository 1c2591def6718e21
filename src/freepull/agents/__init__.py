"""How agents pick arms. One algorithm, one file; a user's own has `pick` and `learn`, or `act` and `learn`."""

from freepull.agents.alpha_ucb import AlphaUCB
from freepull.agents.base import Agent, Indexed, Mind, OnTable, Remembering, View
from freepull.agents.bayes_ucb import BayesUCB
from freepull.agents.epsilon_greedy import EpsilonGreedy
from freepull.agents.exp3 import EXP3
from freepull.agents.greedy import Greedy
from freepull.agents.kl_ucb import KLUCB
from freepull.agents.moss import MOSS
from freepull.agents.round_robin import RoundRobin
from freepull.agents.thompson import Thompson
from freepull.agents.ucb1_tuned import UCB1Tuned
from freepull.agents.ucb_v import UCBV
from freepull.agents.withholding import Withholding

__all__ = [
    "EXP3", "KLUCB", "MOSS", "UCBV", "Agent", "AlphaUCB", "BayesUCB", "EpsilonGreedy", "Greedy", "Indexed",
    "Mind", "OnTable", "Remembering", "RoundRobin", "Thompson", "UCB1Tuned", "View", "Withholding",
]  # fmt: skip
