"""Counter-based randomness: a random word is a fixed function of what it is for, and nothing has a state.

The reward of the n-th pull of arm k by agent m in run r is a function of (seed, r, m, k, n): a stack of rewards
written beforehand. An agent's own choices and answers are functions of (seed, r, m, purpose, t). So any split of the
work gives the same bits, and two principals compared on one seed see the same luck.

The generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), indexed by counter.
"""

from __future__ import annotations

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
"""Distance between the n-th and the (n+1)-th word of one stack."""
ARM = 0xD1342543DE82EF95
"""Distance between the stacks of two neighbouring arms of one agent."""
ATTEMPT = 0xF1357AEA2E62A9C5
"""Distance between two words drawn for the same (t, arm), as a rejection sampler needs them."""

MIX_FACTORS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

REWARD, CHOICE, ANSWER, PRESENCE, ACTIVITY, LEAVING, SURPRISE, WORLD, REPORT = 1, 2, 3, 4, 5, 6, 7, 8, 9
"""What a key is for: PRESENCE for the coins that decide who acts in a step, the next two for what parts draw, the last
two for disturbances: WORLD, of the first agent, for what all have in common, REPORT for an agent's reports."""
CHOICE_COIN, CHOICE_ARM = 0, 1
"""Which stack of an agent's own an ε-greedy choice is read from: whether to explore, and what."""
ANSWER_COIN, ANSWER_LOT = 0, 1
"""Which stack an answer is read from: coins, one an act, and what an agent is once and for all."""


def mix(word: int) -> int:
    """SplitMix64's finaliser: a bijection of 64-bit words that scatters neighbours."""
    word &= MASK
    word = ((word ^ (word >> 30)) * MIX_FACTORS[0]) & MASK
    word = ((word ^ (word >> 27)) * MIX_FACTORS[1]) & MASK
    return word ^ (word >> 31)


def key(seed: int, run: int, agent: int, purpose: int) -> int:
    """Return the key under which one agent of one run draws for one purpose."""
    word = mix(seed + STEP)
    for part in (run, agent, purpose):
        word = mix(word + STEP * mix(part + ARM))
    return word


def word(key: int, arm: int, n: int) -> int:
    """Return the n-th word (n = 1, 2, …) on the stack of an arm."""
    return mix(key + ARM * arm + STEP * n)


def uniform(word: int) -> float:
    """Return the word's first 53 bits as a number in [0, 1)."""
    return (word >> 11) * 2.0**-53
