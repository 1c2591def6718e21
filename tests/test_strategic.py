"""Best responses: what is found beats honesty on new luck, its parts add up, and who is strategic may be several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import freepull as fp
from freepull import strategic
from freepull.agents import Withholding
from freepull.errors import InvalidInput
from freepull.principal.pricing import Quote
from freepull.reproduction.theory import Sparing
from freepull.strategic import _World
from freepull.testing import check_agent
from support.drive import assert_sentence

GAME = fp.Game([[0.8, 0.55, 0.1], [0.1, 0.55, 0.8]])
PRINCIPAL = fp.Principal(fp.rules.Paper(0.01, "simplified", 0.1))


@pytest.mark.slow
def test_a_strategist_gains_by_withholding_and_the_parts_add_up() -> None:
    found = fp.best_response(GAME, principal=PRINCIPAL, horizon=1_500, runs=40, workers=1)
    assert found.gain.mean > 3 * found.gain.error > 0
    assert found.bonuses.mean > 0
    assert found.gain.mean == pytest.approx(found.rewards.mean + found.bonuses.mean)
    assert found.added.mean == pytest.approx(found.gain.mean - found.alone.mean)
    assert found.tried == 6 * 19 + 28 * 6
    assert "bonuses" in found._repr_html_()
    both = fp.best_response(GAME, principal=PRINCIPAL, horizon=300, agent=[0, 1], runs=10, workers=1)
    assert both.runs == 10


def test_the_same_is_played_without_a_principal_whatever_her_settings() -> None:
    principal = fp.Principal(PRINCIPAL.rule, observe=fp.observe.KnownGap(0.2))
    agents, answers = [fp.agents.AlphaUCB()] * 2, [fp.answers.Always()] * 2
    world = _World(GAME, principal, 50, [0], agents, answers, {}, 0, 1)
    found = world.judged((Withholding(1, 50), fp.answers.Always()), range(2), 1)
    assert found.added.mean == pytest.approx(found.gain.mean - found.alone.mean)


def test_one_interruption_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []

    def interrupted(*args: Any, **settings: Any) -> fp.Result:
        played.append(settings)
        found = fp.simulate(*args, **settings)
        return replace(found, provenance=found.provenance | {"interrupted": True})

    monkeypatch.setattr("freepull.strategic.simulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fp.best_response(GAME, principal=PRINCIPAL, horizon=100)
    assert len(played) == 1


def test_an_agent_that_withholds_leaves_its_arm_alone() -> None:
    found = fp.simulate(
        GAME, principal=fp.Principal(fp.rules.Passive()), agents=Withholding(arm=1, until=200), horizon=300, runs=1,
        trace=[200, 300], engine="readable",
    )  # fmt: skip
    assert found.trace is not None
    assert found.trace.filter(arm=1)["pulls"].to_list()[0] == 2
    assert found.trace.filter(arm=1)["pulls"].to_list()[1] > 2


def test_the_strategist_made_against_a_price_pulls_what_it_asks_for_and_no_more() -> None:
    agent, means, price = Sparing(0, 300, 1.0), (0.8, 0.55, 0.1), fp.pricing.BeyondNatural(share=1.0)
    agent.start(3, key=1)
    for t in range(1, 2_001):
        arm = int(agent.pick(t))
        agent.learn(arm, float((t * 0.618033988749895) % 1.0 < means[arm]))
        assert t not in (10, 300) or agent.pulls[1:] == [1, 1]
    for arm in (1, 2):
        some = [list(agent.pulls), list(agent.pulls)]
        some[0][arm] += 1
        some[1][arm] -= 2
        for pulls, paid in zip(some, (1.0, 0.0), strict=True):
            sums = [total * n / own for total, n, own in zip(agent.sums, pulls, agent.pulls, strict=True)]
            assert price.price(Quote(0, arm, pulls, sums)) == paid
    check_agent(Sparing(1, 40))


@pytest.mark.slow
def test_a_strategist_who_withholds_all_but_its_best_arm_is_paid_for_it_unless_natural_pulls_are_free() -> None:
    told: dict[str, Any] = {"horizon": 10_000, "runs": 60, "seed": 1 << 30, "keep": "agents", "workers": 1}
    answers, honest = fp.answers.Always(), fp.agents.AlphaUCB()
    agent = Withholding(but=0, until=7_500)
    for rule, bar in ((PRINCIPAL.rule, 158.0), (fp.rules.Certified(0.01), 175.0)):
        gains, spent = [], []
        for pricing in (None, fp.pricing.BeyondNatural()):
            principal = fp.Principal(rule, pricing=pricing)
            own = [
                fp.simulate(GAME, principal=principal, agents=[it, honest], answers=answers, **told)
                for it in (agent, honest)
            ]
            one, two = (it.agents.filter(agent=0).sort("run") for it in own if it.agents is not None)
            gain = (one["reward"] + one["bonus"] - two["reward"] - two["bonus"]).to_numpy()
            gains.append((gain.mean(), gain.std(ddof=1) / len(gain) ** 0.5))
            spent.append(own[1].frame.drop("spent"))
            assert own[1].frame["spent"].sum() <= own[1].frame["paid"].sum()
        assert spent[0].equals(spent[1]), "who takes every offer goes the same path"
        assert gains[0][0] > bar + 2 * gains[0][1]
        assert gains[1][0] + 3 * gains[1][1] < gains[0][0] / 5
    alone = [
        fp.simulate(GAME, principal=fp.Principal(fp.rules.Passive()), agents=[it, honest], **told)
        for it in (agent, honest)
    ]
    less = (alone[0].frame["reward"] - alone[1].frame["reward"]).to_numpy()
    assert abs(less.mean()) < 1.0, "where nobody is paid it catches up"


def test_the_search_is_among_what_it_is_given_and_honesty_gains_nothing() -> None:
    honest = (fp.agents.AlphaUCB(), fp.answers.Always())
    found = fp.best_response(GAME, principal=PRINCIPAL, horizon=200, strategies=[honest], runs=3, workers=1)
    assert (found.tried, found.gain.mean, found.added.mean, found.cost.mean) == (1, 0.0, 0.0, 0.0)
    with pytest.raises(InvalidInput, match="strategies must have at least one pair"):
        fp.best_response(GAME, principal=PRINCIPAL, horizon=200, strategies=[])


def test_a_plan_says_what_a_strategic_user_could_extract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategic, "ALPHAS", (2.0,))
    monkeypatch.setattr(strategic, "SHARES", (0.5,))
    plan = fp.plan(arms=2, agents=30, horizon=20, gap=0.2, runs=40, curves=False, strategic=True, progress=False)
    assert plan.strategic is not None
    [row] = [row for row in plan.rows() if row.what == "if one in 25 is strategic"]
    assert "units of reward each" in row.value
    assert plan.to_dict()["strategic"]["tried"] == plan.strategic.tried == 3 + 1 * 6


@pytest.mark.parametrize(
    ("more", "said"),
    [({"agent": 2}, "agent must be numbers from 0 to 1"), ({"agent": []}, "agent must be numbers from 0 to 1"),
     ({"agent": None}, "agent must be numbers from 0 to 1"),
     ({"strategies": [fp.agents.AlphaUCB()]}, "strategies must be pairs of an agent and an answer, got AlphaUCB"),
     ({"against": "envy"}, "against must be one of control, honesty")],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(more: dict[str, Any], said: str) -> None:
    told: dict[str, Any] = {"game": GAME, "principal": PRINCIPAL, "horizon": 100}
    with pytest.raises(InvalidInput) as problem:
        fp.best_response(**(told | more))
    assert assert_sentence(problem).startswith(said)
