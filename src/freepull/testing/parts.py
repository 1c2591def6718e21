"""Conformance kits for parts: whether an agent or a rule keeps the promises that engines and trials rely on.

Like the kit for stores, each has its checks by name; ``check_agent`` and ``check_rule`` run all of them.
"""

from __future__ import annotations

import copy
import math
import pickle
import random
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from freepull import registry
from freepull.agents import Agent, Mind, OnTable, View
from freepull.agents.activity import Activity, EveryStep, Rate
from freepull.agents.answers import Always, Answer
from freepull.agents.base import Indexed, Remembering, formula, parameters
from freepull.errors import InvalidInput
from freepull.game import Game
from freepull.principal import Principal, Trial, protocols, schedules
from freepull.principal.rules import Rule
from freepull.principal.rules.base import RuleState
from freepull.randomness import uniform, word
from freepull.rewards import Beta
from freepull.simulation import simulate

ARMS = (2, 3, 7)
STEPS = 120
AGENTS = 5
"""Of the trials that rules are put through."""
MEANS = (0.9, 0.5, 0.2)


def check_agent(agent: Agent | Mind, answers: Answer | None = None) -> None:
    """Check that an agent keeps its contract; an AssertionError names the first promise that is not kept.

    If the compiled engine can run the agent, both engines must take the same paths, step by step, and a formula must
    be what plain Python makes of it. With ``answers``, the paths are also compared where it answers in that way.

    >>> from freepull.agents import AlphaUCB
    >>> check_agent(AlphaUCB(alpha=1.5))
    """
    _run("agent", AGENT_CHECKS, agent)
    if answers is not None:
        _run("answer", {"both_engines_take_the_same_path": lambda it: _same_paths(agent, it)}, answers)


def check_rule(rule: Rule) -> None:
    """Check that a rule keeps its contract in trials made up at random, which differ in all that a rule may see.

    An AssertionError names the first promise that is not kept. What the rule claims, its error probability, no such
    check can show: prove it, and measure it on ties.

    >>> from freepull.principal.rules import Certified
    >>> check_rule(Certified(delta=0.3))
    """
    _run("rule", RULE_CHECKS, rule)


def _run(kind: str, checks: Mapping[str, Callable[[Any], None]], part: Any) -> None:
    for name, check in checks.items():
        try:
            check(part)
        except Exception as error:
            raise AssertionError(f"the {kind} does not keep a promise: {name} ({error!r}).") from error


class _Seated:
    """An agent with its own record; the rewards are a function of the step and the arm, and so are offers."""

    def __init__(self, agent: Any, arms: int, key: int = 5) -> None:
        self.agent, self.arms, self.key = copy.deepcopy(agent), arms, key
        self.start()

    def start(self) -> None:
        """Begin."""
        self.pulls, self.sums, self.paid = [0] * self.arms, [0.0] * self.arms, [0.0] * self.arms
        if hasattr(self.agent, "start"):
            self.agent.start(self.arms, self.key)

    def play(self, first: int, last: int) -> list[Any]:
        """Let it pick and learn; return what it picked."""
        picked = []
        for t in range(first, last):
            offer = OnTable(t % self.arms, 1.0) if t % 3 == 0 else None
            arm = self.agent.act(self._view(t, offer)) if isinstance(self.agent, Mind) else self.agent.pick(t)
            picked.append(arm)
            if not (isinstance(arm, int | np.integer) and 0 <= arm < self.arms):
                break
            reward, paid = uniform(word(3, int(arm), t)), float(offer is not None and offer.arm == arm)
            self.pulls[arm] += 1
            self.sums[arm] += reward
            self.paid[arm] += paid
            self.agent.learn(arm, reward, **({"paid": paid} if registry.hears_of_bonuses(self.agent) else {}))
        return picked

    def _view(self, t: int, offer: OnTable | None) -> View:
        seen = tuple(self.pulls), tuple(self.sums), tuple(self.paid)
        return View(t, t, STEPS, offer, "incentivizing", 0, *seen, t // 3, uniform(word(self.key, 0, t)))


def it_has_pick_and_learn(agent: Any) -> None:
    """It is an agent."""
    has = "an agent has the methods pick(t) and learn(arm, reward), or act(view) and learn(arm, reward, paid)"
    assert isinstance(agent, Agent | Mind), has
    assert not isinstance(agent, Mind) or registry.hears_of_bonuses(agent), has


def its_picks_are_arms(agent: Any) -> None:
    """A pick is a whole number from 0 to K − 1, for any K."""
    for arms in ARMS if hasattr(agent, "start") else ():
        for arm in _Seated(agent, arms).play(1, STEPS):
            assert isinstance(arm, int | np.integer), f"pick returned {arm!r}, which is no whole number"
            assert 0 <= arm < arms, f"pick returned {arm} of {arms} arms"


def a_copy_goes_its_own_way(agent: Any) -> None:
    """Engines copy the agent for every run: copies share no state."""
    one = _Seated(agent, 3)
    one.play(1, 30)
    two = copy.deepcopy(one)
    ahead = two.play(30, 60)
    assert one.play(30, 60) == ahead, "a deep copy changed what the agent does"


def a_pickle_goes_on_where_it_was(agent: Any) -> None:
    """Worker processes get the agent as a pickle."""
    one = _Seated(agent, 3)
    one.play(1, 30)
    assert pickle.loads(pickle.dumps(one)).play(30, 60) == one.play(30, 60), "a pickle does something else"


def the_same_key_gives_the_same_picks(agent: Any) -> None:
    """Chance comes from the key and the step alone."""
    first, again = (_Seated(agent, 3, key=99).play(1, STEPS) for _ in range(2))
    assert first == again, "the same key gave other picks"


def starting_again_forgets_everything(agent: Any) -> None:
    """``start`` begins anew."""
    if hasattr(agent, "start"):
        one = _Seated(agent, 3)
        first = one.play(1, 50)
        one.start()
        assert one.play(1, 50) == first, "start left something of what was learnt before"


def a_formula_is_what_plain_python_makes_of_it(agent: Any) -> None:
    """Machine code and Python agree on an index, up to rounding."""
    if not isinstance(agent, Indexed):
        return
    compiled, numbers = formula(type(agent), "index"), parameters(agent)
    plain = formula(type(agent), "index", compiled=False)
    for t in range(1, STEPS):
        pulls = 1 + word(1, 0, t) % t
        total = pulls * uniform(word(1, 1, t))
        told = float(pulls), total, 0.5 * total, total / pulls, 1.0 / math.sqrt(pulls), t % 3, t, 3
        one, two = compiled(*told, numbers), plain(*told, numbers)
        close = one == two or abs(one - two) <= 1e-9 * max(1.0, abs(two)) or (one != one and two != two)
        assert close, f"index gives {one}, but {two} in Python"


def both_engines_take_the_same_path(agent: Any) -> None:
    """Where the compiled engine can run the agent, it does what the readable one does."""
    _same_paths(agent, Always())


def _same_paths(agent: Any, answers: Any) -> None:
    means = [MEANS, MEANS[::-1], (0.4, 0.5, 0.6)]
    principal = Principal(offers="each", observe=schedules.Steps(20), protocol=protocols.BanFor(3))
    cases: list[tuple[Game, Activity]] = [(Game(means), EveryStep())]
    if isinstance(agent, Indexed | Remembering):
        cases.append((Game(means, rewards=Beta(3.0)), Rate(1.0)))
    for game, activity in cases:
        settings: dict[str, Any] = {"principal": principal, "agents": agent, "answers": answers, "activity": activity}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings |= {"horizon": STEPS, "runs": 3, "seed": 1, "progress": False, "trace": 1, "keep": "agents"}
            one = simulate(game, **settings, engine="readable")
            try:
                two = simulate(game, **settings, engine="compiled")
            except InvalidInput:  # it cannot run the agent
                return
        assert one.trace is not None
        assert two.trace is not None
        assert one.trace.equals(two.trace), "the compiled engine takes another path"
        assert one.frame.equals(two.frame), "the compiled engine ends elsewhere"


AGENT_CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check
    for check in (
        it_has_pick_and_learn,
        its_picks_are_arms,
        a_copy_goes_its_own_way,
        a_pickle_goes_on_where_it_was,
        the_same_key_gives_the_same_picks,
        starting_again_forgets_everything,
        a_formula_is_what_plain_python_makes_of_it,
        both_engines_take_the_same_path,
    )
}
"""What every agent must do, by name."""


class _Driver:
    """Makes up what happens in a trial, from a seed and from what the trial answers."""

    def __init__(self, rule: Any, seed: int, offers: str = "each") -> None:
        self.chance = random.Random(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.principal = Principal(rule, observe=schedules.Steps(seed % 3), offers=offers)
        self.trial: Trial = self.principal.start(arms=len(MEANS), agents=AGENTS, horizon=400)

    def step(self, at_once: bool = True) -> None:
        """Let everybody act once, in any order, taking most offers."""
        for agent in self.chance.sample(range(AGENTS), AGENTS):
            offer = self.trial.ask(agent)
            arm = self.chance.randrange(len(MEANS))
            if offer is not None and self.chance.random() < 0.8:
                arm = offer.arm
            self.trial.tell(agent, arm, float(self.chance.random() < MEANS[arm]))
        self.trial.end_step(at_once)
        while not self.trial.work(0.0):
            pass


def it_wants_what_can_be_paid_for(rule: Any) -> None:
    """Wants are at most one per agent, of active arms, of agents who may be paid, the neediest first."""
    for seed in range(3):
        driver = _Driver(rule, seed)
        for _ in range(60):
            state = driver.trial.rule
            payable = [driver.chance.random() < 0.7 for _ in range(AGENTS)]
            wants = state.wants(payable) if driver.trial.decided_at is None else []
            agents = [want.agent for want in wants]
            assert len(set(agents)) == len(agents), "an agent is wanted twice"
            assert all(payable[agent] for agent in agents), "somebody is wanted who may not be paid"
            assert all(state.active[want.arm] for want in wants), "a pull of an eliminated arm is wanted"
            needs = [want.need for want in wants]
            assert needs == sorted(needs, reverse=True), "the neediest do not come first"
            driver.step()


def what_is_out_stays_out(rule: Any) -> None:
    """No arm comes back, and one is always left."""
    for seed in range(4):
        driver = _Driver(rule, seed)
        active = driver.trial.active
        for _ in range(STEPS):
            driver.step()
            assert driver.trial.active, "no arm is left"
            assert set(driver.trial.active) <= set(active), "an eliminated arm came back"
            active = driver.trial.active
            assert len(driver.trial.rule.bounds()) == len(MEANS), "bounds must have one number per arm"


def a_decision_names_an_active_arm(rule: Any) -> None:
    """A verdict can always be given, and is certified only if the rule is proven."""
    for seed in range(4):
        driver = _Driver(rule, seed)
        for _ in range(STEPS):
            driver.step()
        verdict = driver.trial.verdict()
        assert verdict.arm in driver.trial.active, "the named arm is not among the active ones"
        assert verdict.decided or not verdict.certified, "an undecided trial is certified"
        assert driver.trial.rule.proven or not verdict.certified, "a rule without a proof certifies"


def the_order_of_tells_within_a_step_changes_nothing(rule: Any) -> None:
    """Rules are evaluated at the end of steps, so the order in which agents are told of cannot matter."""
    trials = [_Driver(rule, 0).trial for _ in range(2)]
    chance = random.Random(1)
    for _ in range(STEPS):
        pulls = [(m, arm, float(chance.random() < MEANS[arm])) for m in range(AGENTS) for arm in [chance.randrange(3)]]
        for trial, order in zip(trials, (pulls, pulls[::-1]), strict=True):
            for pull in order:
                trial.tell(*pull)
            trial.end_step()
        assert trials[0].active == trials[1].active, "the order of agents within a step changed the active arms"
        assert trials[0].decided_at == trials[1].decided_at, "the order of agents within a step changed the decision"


def slices_change_nothing(rule: Any) -> None:
    """A step that is closed in slices ends as one that is closed at once."""
    whole, sliced = _Driver(rule, 2), _Driver(rule, 2)
    for _ in range(STEPS):
        whole.step()
        sliced.step(at_once=False)
        assert whole.trial.active == sliced.trial.active, "slices changed the active arms"
        assert whole.trial.rule.bounds() == sliced.trial.rule.bounds(), "slices changed the bounds"
        wanted = [[driver.trial.wanted(m) for m in range(AGENTS)] for driver in (whole, sliced)]
        assert wanted[0] == wanted[1], "slices changed who is wanted"


def a_saved_trial_goes_on(rule: Any) -> None:
    """Where the rule can be saved, what is restored goes on as the trial itself."""
    driver = _Driver(rule, 1)
    for _ in range(40):
        driver.step()
    if type(driver.trial.rule).parts is RuleState.parts:
        return  # it cannot be saved, and says so
    twin = _Driver(rule, 1)
    twin.chance.setstate(driver.chance.getstate())
    twin.trial = driver.principal.restore(driver.trial.state())
    for _ in range(40):
        driver.step()
        twin.step()
        assert twin.trial.active == driver.trial.active, "a restored trial has other active arms"
        assert twin.trial.rule.bounds() == driver.trial.rule.bounds(), "a restored trial has other bounds"


RULE_CHECKS: dict[str, Callable[[Any], None]] = {
    check.__name__: check
    for check in (
        it_wants_what_can_be_paid_for,
        what_is_out_stays_out,
        a_decision_names_an_active_arm,
        the_order_of_tells_within_a_step_changes_nothing,
        slices_change_nothing,
        a_saved_trial_goes_on,
    )
}
"""What every rule must do, by name."""
