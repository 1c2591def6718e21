"""`Paper(pay="uniform")`: every active arm of every agent in turn."""

from __future__ import annotations

import pytest

import freepull as fp
from freepull.errors import InvalidInput

RULE = fp.rules.Paper(0.01, pay="uniform")


def paid(rule: fp.rules.Paper, offers: str, agents: int = 3, arms: int = 2, steps: int = 12) -> list[list[int]]:
    """The arms that are offered, step by step, −1 for none, to agents who pull in turn and take all."""
    trial = fp.Principal(rule, observe=fp.observe.Steps(0), offers=offers).start(
        arms=arms, agents=agents, horizon=1000
    )  # fmt: skip
    table = []
    for t in range(steps):
        wanted = [trial.ask(m) for m in range(agents)]
        table.append([-1 if offer is None else offer.arm for offer in wanted])
        for m, offer in enumerate(wanted):
            trial.tell(m, t % arms if offer is None else offer.arm, 0.5)
        trial.end_step()
    return table


def test_one_offer_goes_round_arms_first_then_agents() -> None:
    table = paid(RULE, "one")
    pairs = [(m, row[m]) for row in table for m in range(3) if row[m] >= 0]
    assert pairs == [(m, k) for m in (0, 1, 2) for k in (0, 1)] * 2


def test_with_an_offer_to_each_everybody_goes_round_the_arms() -> None:
    table = paid(RULE, "each", steps=4)
    assert table == [[0, 1, 0], [1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_the_banned_are_passed_over() -> None:
    trial = fp.Principal(RULE, observe=fp.observe.Steps(0)).start(arms=2, agents=2, horizon=1000)
    assert trial.ask(0) is not None
    trial.tell(0, 1, 0.5)  # refuses arm 0
    trial.tell(1, 0, 0.5)
    trial.end_step()
    for _ in range(4):
        assert trial.wanted(0) is None
        offer = trial.ask(1)
        assert offer is not None
        trial.tell(0, 0, 0.5)
        trial.tell(1, offer.arm, 0.5)
        trial.end_step()


def test_it_pays_more_than_the_widest_bound_does() -> None:
    widest, uniform = (
        fp.simulate(fp.instances.toy(), principal=fp.Principal(fp.rules.Paper(0.01, "simplified", 0.1, pay)),
                    horizon=100_000, runs=40, seed=2, until="decided", progress=False).frame["paid"]
        for pay in ("widest", "uniform")
    )  # fmt: skip
    assert (uniform - widest).mean() > 5 * (uniform - widest).std() / 40**0.5  # type: ignore[operator]


def test_the_title_says_so_and_other_words_are_refused() -> None:
    trial = fp.Principal(RULE).start(arms=2, agents=2, horizon=1000)
    assert "paying uniformly" in trial.verdict().rests_on.rule
    with pytest.raises(InvalidInput, match=r"^pay must be one of widest, uniform"):
        fp.rules.Paper(0.01, pay="random")
