"""The rule for people as they are: what counts as a sample, what is proven from it, and what is said of it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import freepull as fp
from freepull import observe, protocols, rules
from freepull.principal import Principal, Trial
from freepull.principal.rules.comparisons import book as books
from freepull.principal.rules.comparisons.book import BLOCKS, MASS, OPENED, READ, READERS, WIDTH
from freepull.principal.rules.comparisons.rule import ComparisonsState
from support.comparisons_reference import Plain, log_a


def start(agents: int = 3, arms: int = 3, horizon: int | None = None, **frame: object) -> Trial:
    rule = frame.pop("rule", rules.Comparisons(0.05))
    principal = Principal(rule, observe=observe.Steps(0), protocol=protocols.NeverBan(), offers="each")  # type: ignore[arg-type]
    return principal.start(arms=arms, agents=agents, horizon=horizon, **frame)  # type: ignore[arg-type]


def state_of(trial: Trial) -> ComparisonsState:
    assert isinstance(trial.rule, ComparisonsState)
    return trial.rule


@pytest.mark.parametrize("coins", [True, False])
@pytest.mark.parametrize("weights", [None, [1.0, 0.5, 0.25, 0.0, 1.0]])
def test_evidence_is_what_the_page_says(coins: bool, weights: list[float] | None) -> None:
    rng = np.random.default_rng([7, coins, weights is None])
    state = state_of(start(agents=5, arms=3, weights=weights))
    plain, looks = Plain(state), 0
    for step in range(1, 120):
        for agent in rng.permutation(5)[: rng.integers(1, 6)].tolist():
            if rng.random() < 0.9:
                plain.ask(agent)
            for _ in range(int(rng.integers(0, 3))):
                reward = float(rng.random() < 0.6) if coins else float(rng.random())
                plain.tell(agent, int(rng.integers(3)), reward)
        state.step = step
        state.evaluate(incentivizing=True)
        book = state.book
        assert book.counts[0, OPENED] == len(plain.comparisons)
        n = int(book.counts[0, READ])
        if n == 0 or book.counts[0, books.NEWS] > 0:
            continue
        looks += 1
        assert book.counts[0, READERS] == plain.people(n)
        assert book.counts[0, MASS] / 2**30 == pytest.approx(sum(c.weight for c in plain.comparisons[:n]), abs=1e-8 * n)
        for j, k in itertools.permutations([k for k, alive in enumerate(state.active) if alive], 2):
            for x in (-0.1, 0.0, 0.3):
                found = books.log_evidence(book, 0, j, k, x)
                assert found == pytest.approx(plain.log_evidence(j, k, x, n), abs=1e-6)
    assert looks > 20


def test_the_evidence_that_an_arm_is_better_has_mean_at_most_1_exactly() -> None:
    """All outcomes of two comparisons of two agents with coins, the second opened only if the first disappoints."""
    for means in ([[0.5, 0.5], [0.5, 0.5]], [[0.9, 0.1], [0.1, 0.9]], [[0.3, 0.6], [0.8, 0.5]]):
        total = 0.0
        for outcome in itertools.product([0, 1], repeat=4):
            chance = math.prod(m if x else 1 - m for x, m in zip(outcome, itertools.chain(*means), strict=True))
            first, second = outcome[:2], outcome[2:]
            log = [factor(first, means[0], bet) for bet in books.BETS]
            if first[0] < first[1]:
                log = [a + factor(second, means[1], bet) for a, bet in zip(log, books.BETS, strict=True)]
            total += chance * float(np.dot(books.SHARES, np.exp(log)))
        assert total <= 1 + 1e-12
        assert total > 0.9


def factor(samples: tuple[int, ...], means: list[float], bet: float) -> float:
    return log_a(samples[0], bet, 0.4) + log_a(samples[1], -bet, 0.7) - bet * (means[0] - means[1])


def test_a_pull_that_nobody_asked_for_fills_nothing() -> None:
    trial = start()
    trial.ask(0)
    trial.tell(0, 0, 1.0)
    trial.tell(0, 1, 1.0)
    assert state_of(trial).book.lacks[0].tolist() == [0, 1, 1]
    trial.ask(0)
    trial.tell(0, 1, 1.0)
    assert state_of(trial).book.lacks[0].tolist() == [0, 0, 1]


def test_nothing_is_opened_while_a_pull_may_be_under_way() -> None:
    trial = start(arms=2)
    opened = state_of(trial).book.openings
    trial.tell(1, 0, 1.0)
    trial.ask(1)
    assert opened[1] == 1
    for arm in (0, 1):
        trial.tell(1, arm, 1.0)
        if arm == 0:
            trial.ask(1)
    trial.ask(1)
    trial.ask(1)
    assert opened[1] == 2
    state_of(trial).book.place[1] = books.NONE  # as if it could open another
    trial.ask(1)
    assert opened[1] == 2


def test_only_the_first_pull_of_an_arm_counts() -> None:
    trial = start(agents=1, arms=3)
    for reward in (0.0, 1.0):
        trial.ask(0)
        trial.tell(0, 2, reward)
    assert state_of(trial).book.sums[0, 0].tolist() == [0, 0, 0]
    assert state_of(trial).book.came[0, 0, 2] == 2**30


def test_blocks_that_are_put_together_keep_what_they_had() -> None:
    trial = start(agents=1, arms=2)
    state, rng = state_of(trial), np.random.default_rng(3)
    for n in range(BLOCKS * 2 + 5):
        for arm in (0, 1):
            trial.ask(0)
            trial.tell(0, arm, float(rng.integers(2)))
        assert state.book.counts[0, OPENED] == n + 1
    width = int(state.book.counts[0, WIDTH])
    assert width == 4
    assert state.book.mass[0].sum() == (BLOCKS * 2 + 5) * 2**30
    assert state.book.mass[0, 0] == width * 2**30
    pulls, sums = state.record.pulls[0], state.record.sums[0]
    assert state.book.came[0].sum(axis=0).tolist() == [int(n) * 2**30 for n in pulls]
    assert state.book.sums[0].sum(axis=0).tolist() == sums.tolist()


def decided(rule: rules.Comparisons, seed: int = 1, gap: float = 0.4) -> Trial:
    trial = start(agents=30, arms=3, horizon=200, rule=rule, withdrawal=True)
    rng = np.random.default_rng(seed)
    means = [0.7, 0.7 - gap, 0.2]
    for _ in range(200):
        for agent in range(30):
            trial.ask(agent)
            arm = int(rng.integers(3))
            trial.tell(agent, arm, float(rng.random() < means[arm]))
        trial.end_step()
        if trial.phase == "decided":
            return trial
    raise AssertionError("undecided")


def test_an_arm_that_is_best_up_to_epsilon_is_so_over_comparisons() -> None:
    alone, after = (decided(rules.Comparisons(0.05, epsilon=epsilon), gap=0.0) for epsilon in (0.6, 0.3))
    for trial, left, opened in ((alone, 3, " comparisons opened"), (after, 2, "")):
        n, people = state_of(trial).extent
        assert sum(state_of(trial).active) == left
        assert f"over the first {n:,}{opened}, of {people:,} agents, arm 1 was at most" in trial.verdict().why


def test_a_verdict_says_over_which_comparisons_of_how_many_people_and_by_how_much() -> None:
    trial = decided(rules.Comparisons(0.05))
    verdict, state = trial.verdict(), state_of(trial)
    assert (verdict.arm, verdict.certified) == (0, True)
    by, n, people = state.book.fell[0, 1].tolist()
    margin = state.book.margins[0, 1, 0]
    assert (
        f"over the first {n:,} comparisons opened, of {people:,} agents, arm {by} was better than arm 1" in verdict.why
    )
    assert 0 < margin < 0.4
    assert f"{math.floor(1e4 * margin) / 1e4:.4f} or more" in verdict.why, "rounded down"
    assert verdict.survives == pytest.approx(min(state.book.margins[0, 1:, 0]) / 2)
    assert verdict.rests_on.assumptions[-1] == "whoever asks has told of every pull made before"


def test_up_to_epsilon_one_of_two_equal_arms_is_named() -> None:
    trial = decided(rules.Comparisons(0.05, epsilon=0.2), gap=0.0)
    verdict = trial.verdict()
    assert verdict.arm in (0, 1)
    assert verdict.certified
    assert "at most 0.2 worse than any other arm still in" in verdict.why


def test_bounds_of_differences_hold_the_truth_and_shrink() -> None:
    widths = []
    for agents in (5, 40):
        trial = start(agents=agents, arms=2, horizon=100)
        rng = np.random.default_rng(5)
        for _ in range(30):
            for agent in range(agents):
                trial.ask(agent)
                arm = int(rng.integers(2))
                trial.tell(agent, arm, float(rng.random() < (0.5, 0.45)[arm]))
            trial.end_step()
        (found,) = state_of(trial).differences()
        truth = 0.05 if found.arm == 0 else -0.05
        assert found.low <= truth <= found.high
        assert found.seen is not None
        assert found.low < found.seen < found.high
        widths.append(found.high - found.low)
    assert widths[1] < 0.6 * widths[0]


def test_early_and_late_comparisons_that_disagree_are_shown() -> None:
    said = []
    for early, late in (((0.7, 0.3), (0.7, 0.3)), ((0.8, 0.2), (0.55, 0.45))):
        trial = start(agents=20, arms=2, horizon=400, rule=rules.Comparisons(1e-100))
        rng = np.random.default_rng(4)
        for step in range(60):
            for agent in range(20):
                trial.ask(agent)
                arm = (step + agent) % 2
                trial.tell(agent, arm, float(rng.random() < (early if step < 30 else late)[arm]))
            trial.end_step()
        said.append("early and late comparisons disagree" in state_of(trial).claim())
    assert said == [False, True]


def test_a_saved_trial_goes_on_bit_for_bit() -> None:
    trial = start(agents=4, arms=3, horizon=50)
    rng = np.random.default_rng(9)

    def play(on: Trial, seed: int) -> list[object]:
        rng = np.random.default_rng(seed)
        seen: list[object] = []
        for _ in range(10):
            for agent in range(4):
                seen.append(on.ask(agent))
                seen.append(on.tell(agent, int(rng.integers(3)), float(rng.random())))
            on.end_step()
        return [*seen, on.rule.bounds(), state_of(on).differences()]

    play(trial, 1)
    trial.ask(int(rng.integers(4)))
    other = trial.principal.restore(trial.state())
    assert play(trial, 2) == play(other, 2)
    assert trial.state() == other.state()


def test_asks_during_a_closing_come_after_it_in_order_with_pulls() -> None:
    slow, fast = (start(agents=4, arms=2, horizon=50) for _ in range(2))
    for trial in (slow, fast):
        for agent in range(4):
            trial.ask(agent)
            trial.tell(agent, 0, 1.0)
    slow.end_step(at_once=False)
    fast.end_step()
    for trial in (slow, fast):
        trial.ask(2)
        trial.tell(2, 1, 0.0)
        trial.ask(2)
        trial.tell(2, 1, 0.0)
    slow.work()
    for name, found in state_of(slow).book._asdict().items():
        assert np.array_equal(found, getattr(state_of(fast).book, name)), name


def test_where_outcomes_come_late_an_ask_while_one_is_owed_ends_the_comparison() -> None:
    trial = start(agents=1, arms=2, rule=rules.Comparisons(0.05, late=True))
    book = state_of(trial).book
    trial.ask(0)
    assert book.openings[0] == 1
    trial.ask(0)  # a pull may be under way
    assert book.place[0] == books.NONE
    trial.tell(0, 0, 1.0)
    trial.ask(0)
    trial.tell(0, 1, 1.0)
    assert (book.openings[0], book.counts[0, books.SAMPLES]) == (1, 0)
    trial.pass_over(0)
    trial.ask(0)
    assert book.openings[0] == 2
    trial.tell(0, 1, 1.0)
    assert book.counts[0, books.SAMPLES] == 1
    assert trial.verdict().rests_on.assumptions[-1] == "whoever acts has asked first, once for every pull"


def test_outcomes_that_come_late_on_purpose_prove_nothing() -> None:
    """Failures of arm 0 are told at once and its successes a week later, of arm 1 the other way round."""
    trial = start(agents=30, arms=2, rule=rules.Comparisons(0.05, late=True))
    rng, waiting = np.random.default_rng(1), list[tuple[int, int, int, float]]()
    for day in range(60):
        for agent in range(30):
            trial.ask(agent)
            arm, reward = int(rng.integers(2)), float(rng.integers(2))
            waiting.append((day + 7 * (reward == 1 - arm), agent, arm, reward))
        for told in sorted(it for it in waiting if it[0] <= day):
            waiting.remove(told)
            trial.tell(*told[1:])
        trial.end_step()
    assert trial.active == [0, 1]


def test_a_verdict_never_names_an_arm_that_was_withdrawn() -> None:
    trial = start(agents=2, arms=2, withdrawal=True)
    trial.withdraw(0)
    trial.end_step()
    assert trial.verdict().arm == 1
    for difference in state_of(trial).differences():
        assert 0 not in (difference.arm, difference.than)


def test_openings_go_on_after_an_arm_that_nobody_tried_was_withdrawn() -> None:
    trial = start(agents=50, arms=3, withdrawal=True)
    trial.withdraw(0)
    for agent in range(50):
        trial.ask(agent)
    assert state_of(trial).book.counts[0, OPENED] == 50


def test_an_arm_can_be_withdrawn_unless_another_fell_to_it() -> None:
    trial = start(agents=2, arms=3, withdrawal=True)
    trial.withdraw(1)
    assert trial.active == [0, 2]
    trial.ask(0)
    assert state_of(trial).book.lacks[0].tolist() == [1, 0, 1]
    state_of(trial).book.fell[0, 2, 0] = 0
    with pytest.raises(fp.errors.InvalidInput, match="because arm 2 fell to it"):
        trial.withdraw(0)


def test_cap_bounds_how_many_comparisons_one_agent_has() -> None:
    trial = start(agents=2, arms=2, rule=rules.Comparisons(0.05, cap=3))
    for _ in range(20):
        trial.ask(0)
        trial.tell(0, 0, 1.0)
        trial.ask(0)
        trial.tell(0, 1, 1.0)
    assert state_of(trial).book.openings.tolist() == [3, 0]


@pytest.mark.parametrize(
    ("given", "said"), [({"delta": 1.0}, "delta"), ({"epsilon": -0.1}, "epsilon"), ({"cap": 0}, "cap")]
)
def test_wrong_parameters_are_named(given: dict[str, float], said: str) -> None:
    with pytest.raises(fp.errors.InvalidInput, match=said):
        rules.Comparisons(**given)  # type: ignore[arg-type]
