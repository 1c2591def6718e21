"""The population rule: looks at first rewards only, at every n or once, and how often it speaks."""

from __future__ import annotations

import base64
import math
import random
import zlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import freepull as fp
from freepull import registry
from freepull.errors import InvalidInput
from freepull.principal import saving
from freepull.principal.record import UNITS
from freepull.principal.rules.population import PopulationState, look, winner
from freepull.principal.rules.rounds import smallest_gap
from freepull.simulation import facade
from support.drive import RISK, assert_sentence

LAMBDAS, PI = [0.99, 0.8, 0.5, 0.25, 0.12], [0.4, 0.2, 0.15, 0.15, 0.1]


def trial_of(arms: int, agents: int, pulls: int | None = 2, **more: Any) -> fp.Trial:
    settings = {name: more.pop(name) for name in ("offers", "budget") if name in more}
    principal = fp.Principal(fp.rules.Population(0.3, pulls), observe=fp.observe.Steps(0), **settings)
    return principal.start(arms=arms, agents=agents, **more)


def tell(trial: fp.Trial, *rewards: list[float], agents: range | None = None) -> None:
    """Let agents pull every arm once."""
    for row in rewards:
        for m in agents or range(trial.setting.agents):
            for k, x in enumerate(row):
                trial.tell(m, k, x)


def evidence_of(state: Any) -> NDArray[np.float64]:
    assert isinstance(state, PopulationState)
    return state.claims


def test_the_evidence_by_hand() -> None:
    trial = trial_of(2, 3, pulls=2)
    rewards = [[[0.5, 0.0], [1.0, 0.25]], [[0.5, 0.5], [0.0, 0.0]], [[1.0, 1.0], [0.5, 0.0]]]
    for m, rows in enumerate(rewards):
        for row in rows:
            for k, x in enumerate(row):
                trial.tell(m, k, x)
    trial.end_step()
    D = [0.625, 0.0, 0.25]
    for j, k, sign in [(0, 1, 1), (1, 0, -1)]:
        by_hand = sum(p * math.prod(1 + sign * a * d for d in D) for p, a in zip(PI, LAMBDAS, strict=True))
        assert evidence_of(trial.rule)[j, k] == pytest.approx(math.log(by_hand), abs=1e-12)
        assert trial.rule.bounds()[k] == pytest.approx(by_hand)


def test_one_arm_above_all_others_decides() -> None:
    trial = trial_of(3, 8)
    tell(trial, [0.0, 1.0, 0.25], [0.25, 1.0, 0.0])
    assert trial.active == [0, 1, 2]
    trial.end_step()
    verdict = trial.verdict()
    assert (trial.active, verdict.arm, verdict.certified) == ([1], 1, True)
    assert verdict.why.startswith("it was claimed above every other arm by the population rule")
    assert verdict.rests_on.target == "the population from which the 8 agents of the panel were drawn"
    assert "nobody is missing because of rewards, or of which arms they like" in verdict.rests_on.assumptions


def test_every_claim_needs_the_rivals_share_of_delta() -> None:
    trial = trial_of(3, 8, pulls=1)
    tell(trial, [0.8, 0.4, 0.5])
    trial.end_step()
    evidence = np.exp(evidence_of(trial.rule))
    assert evidence[0, 1] > 2 / 0.3 > evidence[0, 2] > 1 / 0.3
    assert trial.active == [0, 1, 2]


def test_above_some_is_not_enough_and_there_is_no_second_look() -> None:
    trial = trial_of(3, 8, offers="each")
    tell(trial, [1.0, 1.0, 0.0], [1.0, 1.0, 0.0])
    trial.end_step()
    assert trial.active == [0, 1, 2]
    before = evidence_of(trial.rule).copy()
    tell(trial, *[[1.0, 0.0, 0.0]] * 20)
    trial.end_step()
    assert np.array_equal(evidence_of(trial.rule), before)
    assert trial.decided_at is None
    assert [trial.wanted(m) for m in range(8)] == [None] * 8
    assert "claimed no arm above all others, and there is no second" in trial.verdict().why
    assert not any(trial.rule.awaits(m) for m in range(8))


def test_only_the_first_rewards_count() -> None:
    trial = trial_of(2, 2, pulls=2)
    tell(trial, [1.0, 0.0], [1.0, 0.5], [0.0, 1.0], agents=range(1))
    tell(trial, [0.5, 0.5], agents=range(1, 2))
    trial.end_step()
    assert trial.rule.bounds() == [0.0, 0.0]  # agent 1 is awaited
    assert (trial.rule.awaits(0), trial.rule.awaits(1)) == (False, True)
    tell(trial, [0.5, 0.5], agents=range(1, 2))
    trial.end_step()
    assert math.exp(evidence_of(trial.rule)[0, 1]) == pytest.approx(
        sum(p * (1 + a * 0.75) for p, a in zip(PI, LAMBDAS, strict=True))
    )


@pytest.mark.parametrize("offers", ["one", "each"])
def test_the_stream_furthest_below_n_is_wanted(offers: str) -> None:
    trial = trial_of(2, 4, pulls=3, offers=offers, weights=[1, 1, 1, 0])
    for m, pulls in enumerate([(3, 2), (3, 3), (5, 0), (0, 0)]):
        for k, n in enumerate(pulls):
            for _ in range(n):
                trial.tell(m, k, 0.5)
    trial.end_step()
    wants = [(2, 1, 3), (0, 1, 1)]
    assert [tuple(want) for want in trial.rule.wants([True] * 4)] == (wants if offers == "each" else wants[:1])
    assert trial.rule.missing() == [[0.0, 1.0], [0.0, 0.0], [0.0, 3.0], [0.0, 0.0]]


def test_leavers_are_dropped_before_the_look_and_make_no_second_one_after_it() -> None:
    trial = trial_of(2, 3, leavers="independent")
    tell(trial, [1.0, 0.5], [0.5, 0.5], agents=range(2))
    trial.leave(2)
    trial.end_step()
    assert math.exp(evidence_of(trial.rule)[0, 1]) == pytest.approx(
        sum(p * (1 + a * 0.25) ** 2 for p, a in zip(PI, LAMBDAS, strict=True))
    )
    looked = trial.rule
    trial.leave(1)
    trial.end_step()
    assert trial.rule is looked


@pytest.mark.parametrize(("arms", "delta", "agents"), [(2, 0.05, 6), (3, 0.01, 9), (2, 0.9, 1), (65_536, 1e-100, 353)])
def test_the_fewest_agents_are_those_with_whom_the_clearest_rewards_decide(
    arms: int, delta: float, agents: int
) -> None:
    rule = fp.rules.Population(delta, pulls=1)
    assert rule.fewest_agents(arms) == agents
    for count in (agents - 1, agents):
        total = sum(p * (1 + a) ** count for p, a in zip(PI, LAMBDAS, strict=True))
        assert (total >= (arms - 1) / delta) == (count == agents)


def test_the_fewest_agents_do_decide_and_one_less_does_not() -> None:
    for agents, decided in ((2, False), (3, True)):
        trial = trial_of(2, agents, pulls=1)
        tell(trial, [1.0, 0.0])
        trial.end_step()
        assert trial.verdict().decided == decided


def test_a_verdict_says_that_there_are_too_few_agents() -> None:
    short = ", which can never decide with fewer than 3 agents;"
    assert short in trial_of(2, 2).verdict().why
    assert short in trial_of(2, 3, weights=[1, 0, 1]).verdict().why
    assert "never" not in trial_of(2, 3).verdict().why


@pytest.fixture
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing have been said before."""
    monkeypatch.setattr(facade, "_SAID", set())


@pytest.mark.usefixtures("unsaid")
@pytest.mark.parametrize("engine", ["compiled", "readable"])
@pytest.mark.parametrize(
    ("agents", "pulls", "why"),
    [
        (5, 10, "at least 6 agents are needed for 2 arms at δ = 0.05, and there are 5"),
        (6, 11, "2 × 11 pulls of every agent are needed, and the horizon is 20"),
    ],
)
def test_a_simulation_that_can_never_decide_says_so_once(engine: str, agents: int, pulls: int, why: str) -> None:
    game, principal = fp.Game([[1.0, 0.0]] * agents), fp.Principal(fp.rules.Population(0.05, pulls))
    with pytest.warns(UserWarning, match="rules.Population") as told:
        fp.simulate(game, principal=principal, horizon=20, runs=2, engine=engine)
    fp.simulate(game, principal=principal, horizon=20, runs=2, engine=engine)
    assert [str(one.message) for one in told] == [
        f"rules.Population pays for pulls here, but can never decide, because {why}."
    ]
    assert told[0].filename == __file__


@pytest.mark.usefixtures("unsaid")
def test_a_simulation_that_can_just_decide_says_nothing() -> None:
    principal = fp.Principal(fp.rules.Population(0.05, 10))
    found = fp.simulate(
        fp.Game([[1.0, 0.0]] * 6), principal=principal, agents=fp.agents.RoundRobin(), horizon=20, runs=1
    )
    assert found.frame["decided_at"].to_list() == [20]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fp.rules.Population(1.0), "delta must be"),
        (lambda: fp.rules.Population(0.1, pulls=0), "pulls must be"),
        (lambda: trial_of(2, 3, weights=[1, 2, 1]), "weights must be equal or 0 with rules.Population"),
        (lambda: trial_of(2, 3, leavers="worst_case"), "leavers must be one of wait, independent, got 'worst_case'"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(make: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as problem:
        make()
    assert assert_sentence(problem).startswith(said)


def by_hand(D: list[float]) -> float:
    return sum(p * math.prod(1 + a * d for d in D) for p, a in zip(PI, LAMBDAS, strict=True))


def test_every_n_is_looked_at_and_arms_fall_one_by_one() -> None:
    trial = trial_of(3, 6, pulls=None, offers="each")
    tell(trial, [1.0, 0.75, 0.0])
    trial.end_step()
    fell = by_hand([1.0] * 6)
    assert trial.rule.bounds() == pytest.approx([0.0, by_hand([0.25] * 6), fell])  # no arm did better than arm 0
    assert fell >= 2 / 0.3 > trial.rule.bounds()[1]
    assert trial.active == [0, 1]
    assert [trial.wanted(m) for m in range(6)] == [0] * 6, "nobody is wanted for an arm that is out"
    tell(trial, [1.0, 0.0, 1.0])  # what is out stays out, and keeps what it fell to
    trial.end_step()
    assert trial.rule.bounds() == pytest.approx([0.0, by_hand([0.625] * 6), fell])
    verdict = trial.verdict()
    assert (verdict.arm, verdict.decided, verdict.certified) == (0, True, True)
    assert verdict.why == "every other arm was eliminated by the population rule at δ = 0.3 (proven)"
    assert not any("one look" in assumption for assumption in verdict.rests_on.assumptions)
    assert not any(trial.rule.awaits(m) for m in range(6))


def test_every_n_counts_also_where_several_are_looked_at_in_one_step() -> None:
    trial = trial_of(2, 6, pulls=None)
    tell(trial, [1.0, 0.0], [0.0, 1.0], [0.0, 1.0])  # at n = 1 arm 1 falls, whatever comes later
    trial.end_step()
    assert trial.active == [0]
    assert trial.rule.bounds()[1] == pytest.approx(by_hand([1.0] * 6))


def test_rewards_beyond_the_look_wait_for_theirs() -> None:
    trial = trial_of(2, 2, pulls=None)
    tell(trial, [1.0, 0.5], [0.0, 1.0], [1.0, 0.0], agents=range(1))
    trial.end_step()
    assert trial.rule.bounds() == [0.0, 0.0]  # agent 1 is awaited
    assert (trial.rule.awaits(0), trial.rule.awaits(1)) == (False, True)
    tell(trial, [0.5, 0.25], agents=range(1, 2))
    trial.end_step()
    assert trial.rule.bounds() == pytest.approx([0.0, by_hand([0.5, 0.25])])
    tell(trial, [0.75, 0.0], [0.5, 0.5], agents=range(1, 2))
    trial.end_step()
    assert trial.rule.bounds() == pytest.approx([0.0, by_hand([0.5 / 3, 1 / 3])])


@pytest.mark.parametrize("offers", ["one", "each"])
def test_the_streams_that_the_next_look_lacks_are_wanted(offers: str) -> None:
    trial = trial_of(2, 5, pulls=None, offers=offers, weights=[1, 1, 1, 1, 0])
    for m, pulls in enumerate([(3, 2), (3, 3), (5, 2), (2, 2), (0, 0)]):
        for k, n in enumerate(pulls):
            for _ in range(n):
                trial.tell(m, k, 0.5)
    trial.end_step()
    wants = [(3, 0, 1), (0, 1, 1), (2, 1, 1)]
    assert [tuple(want) for want in trial.rule.wants([True] * 5)] == (wants if offers == "each" else wants[:1])


def test_how_many_pulls_are_likely_to_be_missing() -> None:
    trial = trial_of(3, 4, pulls=None, offers="each", horizon=1000)
    tell(trial, [0.5, 0.4, 0.1])
    trial.end_step()
    assert trial.active == [0, 1, 2]
    beta = math.log(2 / 0.3) + 2
    needed = [1.05 * 2 * beta * 2 * 0.25 / 4 / max(gap, smallest_gap(trial.setting, 0.3)) ** 2 for gap in (0.1, 0.4)]
    np.testing.assert_allclose(trial.rule.missing(), [[needed[0] - 1, *(n - 1 for n in needed)]] * 4, rtol=1e-6)


def test_who_leaves_is_dropped_and_all_looks_are_made_again_at_the_next_share_of_delta() -> None:
    trial = trial_of(2, 7, pulls=None, leavers="independent")
    tell(trial, [0.75, 0.25], agents=range(6))
    tell(trial, [0.0, 1.0], agents=range(6, 7))
    tell(trial, [0.5, 0.5], agents=range(7))
    trial.end_step()
    before = [0.25] * 6
    assert trial.rule.bounds() == pytest.approx([0.0, by_hand([*before, -0.5])])
    assert trial.rule.goes_at == pytest.approx(2 / 0.3)
    trial.leave(6)
    trial.end_step()
    assert trial.rule.goes_at == pytest.approx(6 / 0.3)
    assert trial.rule.bounds() == pytest.approx([0.0, by_hand(before)])
    assert by_hand([0.5] * 6) < 6 / 0.3


STATES = [
    "c-pO0+m6~W5T*Ba+lT#xh?iw06eW<tvTD?-AJDGUz9F<4k^!tWcH}sqUiKgRDgA@(*tuXf1!>h<43nHQo{Z1fUMR$@;M~)S0r$d_&a;jkKe`"
    "zQCc2j%Jt-y<mI0@??p6KLQw7KPO44-DOp0ELTtgiA!@g%y=JDXX@5y<NYJ>3?jal9kaX?t6q?U=~@mILP&*~$Ho{3y6Q04I%Lb5vRdvhs@J"
    "P!SU9*cB|I{qXDo_G6R*VgLiCL>ieY>*qsG9V;qkQ5V^VtNglU_nJSjKU?=tq9htK!S7Bnu(<kYF%e-pd|`zz{mktQnBw+?DEz`xeg<hSxMJ"
    "nIKrl)w!pMYZJA!B3bt0`1@PRIq%e^x^_eiU@H#JSWz%Rlxd@`s+b|3Rs_5A3Y?oz?Aet0|ada^rPlC}TYG(+8$%LLqgYkGgaxxUcv=vj6fF"
    "w3Q!<OqUmu<;#utOCtirk`s3z8BgIyD*QAgV}`q6RY%$o(y{<x1PoT9t~Z1QYx5qFB$-bTw=sqk1c^*}FcM^5!q8EeDBa8#I&3{jvL>-BKhd"
    "1>dZc(`rL$$y3wOckF`PG@8-JrnPkTJXp4fEZg^ndjYmF&g_P-B%{M9N<MP3*V1Qrn9P8s&X>bM$?h}<p113^bRjh3ZO-jXId##dfzG|KTm0"
    "udY_Yjk2y0i7z@-&#L8XUj)1Z5b(RqzpF>-4fzY7Xm5eZ##Yj+VttNiTtNqG%+4*5q9G-rIM{AuSne)_=py>WMM)U`h+dsWr+l<WoB3E5*Zb"
    "M?O@d)@h8<JbG+zBLZ5@sK|~=HKk4`hEAW{tv36xJC",
    "c-o~@PjAyO6yIRw&p@z`5cRNiQdPx`o2F=C)vh3z1h=Z1+{A6IrFP^vtN1gG%kKLM+z=PIaNa%u2M!Zof=|GK4ckdt(`ZZxtL}?`zvq|te$U"
    "R3V;rYZWC>1CWP#ORD@%I3sm2i^wED=BPn^(z#3+)h>Ta>9@ifBzE|c4lAdJ>R90}yx4X19Ykcr>itXpi5V19u87Xrsgjrz94V$K8$SmeJ%`"
    "}jHELA0hkheOO0e*>dnyivCXjHZbX8n%2)!x0w#Ge+@dwQf~)u8l-Rlo^5M4BAI=j3i{wkPrtX#Ni$i5_V@W$0M0FmzdxwmT-cFAav9~e4=7"
    "HCN#oSC=eRpm~rx&DS4<Y)gZDelu)XUs=-7U9puy$5n)nOBE}&{Q?2k2MTts@<ACw7L8#h=_mWg+)&s3p+l2tOo31A-2et=*=R(Knv^#aH<G"
    "_{&J<oCNPJbR`f)SlZaBb-YVXF<=bqhKj&xURb0AR}s+qT_tJlAcuZPy5pQq@u%s{K-3^;2wCZC11<n{bYDJWLaf+9oJ<$k3jOFhDf-ltL6>"
    "j3|y8Q%pu<p<N42aw3<D{^?KC$pEXKf*GVVFU3{owh=M5uS4etz@Shd$N^S+^4DfAdeJ|WzKC=5N=w<x&y!$Ls2aLOJZXBcFW=THw9}VCvnk"
    "YU-E#hL(2X&6&-h$3c@t^ILnC^jeT=UrV?;vZ&CQ&hi;kkCoVTV^Do9l3%+_REhh-YcOHcI)e>(srHW3`7iK&Qf(i~3_53i<Gixw1<*A<q0*"
    "i?0X?gUC6f&9Wv%px4EeE;x%_6=OR%HEVyeJ3k&-pFkw$16FvVyw-voEd8Y?&i3iuh*`@&kA1sU0ySaoNvi_H_t)kcU#U?qlP<j-ZN_a7yth"
    "s-?sm5OJi-pzPrX2e%69rGlOP|ecC!7e%v`aSvsp6Up`>(zn?zslI}ye+%5ReKR@u}lZ)*qU)C?a{y5(b9<T2;k1kFN{x{ao<tz",
]
"""Of one trial, before its look and after: version 0.1 wrote them, compressed, to base 85."""


def assert_same(now: bytes, was: bytes) -> None:
    """All that version 0.1 kept is there, to the bit; how it names the principal aside."""
    parts, kept = saving.unpack(now), saving.unpack(was)
    assert len(kept) > 20
    for name in kept:
        if name != "principal":
            assert np.array_equal(parts[name], kept[name]), name


def test_a_trial_of_the_first_version_looks_once_as_it_was_agreed() -> None:
    rule = registry.build("rule", {"part": "Population", "delta": 0.3, "pulls": 2}, "rule")
    principal = fp.Principal(rule, observe=fp.observe.Steps(0), offers="each")
    before, after = (zlib.decompress(base64.b85decode(state)) for state in STATES)
    assert_same(principal.restore(after).state(), after)
    trial, chance = principal.restore(before), random.Random(2)
    for _ in range(9):
        for m in range(4):
            offer = trial.ask(m)
            k = offer.arm if offer is not None else chance.randrange(3)
            trial.tell(m, k, 1.0 if k == 1 else chance.choice([0.0, 0.25]))
        trial.end_step()
    assert_same(trial.state(), after)
    assert trial.decided_at == 6, "a look at every n would have decided at step 5"


def claims(K: int, M: int, gap: float, delta: float, runs: int, n: int, seed: int) -> NDArray[np.int64]:
    """The winners of trials whose agents are drawn around means with a gap below the first, sd 0.1."""
    rng, evidence, rows = np.random.default_rng(seed), np.zeros((K, K)), np.zeros((11, K))
    centres = np.full(K, 0.5 - gap / 2)
    centres[0] += gap
    found = np.zeros(runs, np.int64)
    for run in range(runs):
        means = np.clip(rng.normal(centres, 0.1, (M, K)), 0, 1)
        sums = np.ascontiguousarray(rng.binomial(n, means).T) * UNITS
        look(evidence, rows, sums, np.full(K, n), np.full(M, 1 / M), n, True)
        found[run] = winner(evidence, math.log((K - 1) / delta))
    return found


@pytest.mark.parametrize(("M", "gap", "power"), [(30, 0.15, 0.68), (60, 0.1, 0.93), (120, 0.05, 0.74)])
def test_how_often_it_speaks(M: int, gap: float, power: float) -> None:
    runs = 1500
    spoke = float((claims(2, M, gap, 0.05, runs, 200, seed=1) == 0).mean())
    log = math.log(2 / RISK)  # Bernstein, and the figures are rounded to the percent from as many runs
    tolerance = math.sqrt(2 * power * (1 - power) * log / runs) + log / (3 * runs) + 0.015
    assert abs(spoke - power) <= tolerance


@pytest.mark.parametrize("K", [2, 4])
def test_how_seldom_it_is_wrong(K: int) -> None:
    delta, runs = 0.1, 2000
    wrong = float((claims(K, 20, 0.0, delta, runs, 20, seed=2) > 0).mean())  # arm 0 is as good as any
    assert wrong <= delta + math.sqrt(math.log(1 / RISK) / (2 * runs))


def drawn(M: int, K: int, gap: float, sd: float) -> Any:
    """Panels whose agents are drawn around means with a gap below the first; sd ½: their means are 0 or 1."""
    centres = np.full(K, 0.5 - gap / 2)
    centres[0] += gap
    if sd == 0.5:
        return lambda rng: fp.Game((rng.random((M, K)) < centres).astype(float))
    return lambda rng: fp.Game(np.clip(rng.normal(centres, sd, (M, K)), 0, 1))


def at_every_n(panel: Any, delta: float, most: int, runs: int, seed: int, **more: Any) -> fp.Result:
    principal = fp.Principal(fp.rules.Population(delta), observe=more.pop("observe", fp.observe.Share(1.0)))
    return fp.simulate(panel, principal=principal, horizon=most, runs=runs, seed=seed, trace=[most], **more)


def test_how_often_and_how_early_it_speaks_at_every_n() -> None:
    runs, power = 1500, 0.97
    frame = at_every_n(drawn(60, 2, 0.1, 0.1), 0.05, 400, runs, 1, agents=fp.agents.RoundRobin()).frame
    spoke = float((frame["decided"] & (frame["arm"] == 0)).to_numpy().mean())
    log = math.log(2 / RISK)
    assert abs(spoke - power) <= math.sqrt(2 * power * (1 - power) * log / runs) + log / (3 * runs) + 0.005
    half, slack = frame["decided_at"].to_numpy(), math.sqrt(log / (2 * runs))
    assert (half <= 2 * 5).mean() <= 0.5 + slack  # the median n is 6
    assert (half <= 2 * 7).mean() >= 0.5 - slack


@pytest.mark.parametrize("agents", [fp.agents.RoundRobin(), fp.agents.AlphaUCB()])
@pytest.mark.parametrize(("K", "sd"), [(2, 0.1), (4, 0.1), (3, 0.5)])
def test_how_seldom_it_is_wrong_at_any_n(K: int, sd: float, agents: Any) -> None:
    delta, runs = 0.3, 1000
    found = at_every_n(drawn(20, K, 0.0, sd), delta, 120, runs, 2, agents=agents, observe=fp.observe.Share(0.3))
    assert found.trace is not None
    fell = float((~found.trace.filter(arm=0)["active"]).to_numpy().mean())
    assert fell <= delta + math.sqrt(math.log(1 / RISK) / (2 * runs))
