"""The facade: workers, interruption, when runs end, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest
from polars.testing import assert_frame_equal

import freepull as fp
from support.drive import paper

TOY = fp.instances.toy()
EASY = fp.Game([[0.9, 0.1], [0.9, 0.1]])


class Interrupts(fp.agents.Greedy):
    """An agent at which somebody presses Ctrl-C in the third run."""

    started = 0

    def start(self, arms: int, key: int = 0) -> None:
        super().start(arms, key)
        Interrupts.started += 1
        if Interrupts.started > 4:
            raise KeyboardInterrupt


def simulate(game: Any = TOY, **more: Any) -> fp.Result:
    told: dict[str, Any] = {"principal": fp.Principal(paper(5.0, arms=3)), "horizon": 60, "runs": 4, "seed": 2}
    return fp.simulate(game, **(told | {"engine": "readable"} | more))


def test_any_number_of_workers_gives_the_same_bits() -> None:
    told: dict[str, Any] = {"keep": "agents", "trace": 20, "answers": fp.answers.WithProbability(0.5), "runs": 5}
    alone, together = simulate(**told), simulate(**told, workers=2)
    for name in ("frame", "agents", "trace"):
        assert_frame_equal(getattr(alone, name), getattr(together, name), check_exact=True)
    assert (alone.paid == together.paid).all()


def test_runs_come_in_the_order_of_their_numbers_each_as_it_was() -> None:
    every, some = simulate(runs=6).frame, simulate(runs=[5, 0, 3]).frame
    assert some["run"].to_list() == [0, 3, 5]
    assert_frame_equal(every.filter(every["run"].is_in([0, 3, 5])), some, check_exact=True)


def test_other_seeds_give_other_runs() -> None:
    assert not simulate(seed=2).frame["reward"].equals(simulate(seed=3).frame["reward"])


def test_interrupted_runs_are_lost_and_finished_ones_kept() -> None:
    Interrupts.started = 0
    with pytest.warns(UserWarning, match=r"^interrupted: 2 of 4 runs were finished and kept\.$"):
        result = simulate(agents=Interrupts())
    assert result.interrupted
    assert result.frame["run"].to_list() == [0, 1]
    assert result.provenance["finished"] == 2
    assert not simulate().interrupted


@pytest.mark.parametrize("until", ["horizon", "decided"])
def test_agents_play_on_after_the_decision_or_the_run_ends_there(until: str) -> None:
    principal = fp.Principal(paper(0.05), observe=fp.observe.Steps(5))
    frame = simulate(EASY, principal=principal, until=until, horizon=100).frame
    assert frame["decided"].all()
    for row in frame.iter_rows(named=True):
        assert row["paid"] + row["free_pulls"] == 2 * (100 if until == "horizon" else row["decided_at"])


def test_ending_at_the_decision_changes_nothing_of_the_decision() -> None:
    principal = fp.Principal(paper(0.05), observe=fp.observe.Steps(5))
    on, ended = (
        simulate(EASY, principal=principal, until=until, horizon=100).frame for until in ("horizon", "decided")
    )
    names = ["run", "arm", "correct", "decided", "certified", "decided_at", "paid", "offered", "refused", "banned"]
    assert_frame_equal(on.select(names), ended.select(names))


def test_agents_and_trace_are_kept_if_asked_for() -> None:
    assert simulate().agents is None
    assert simulate().trace is None
    kept = simulate(keep="agents", trace=[10, 60])
    assert kept.agents is not None
    assert kept.trace is not None
    assert kept.agents.height == 4 * 2
    assert kept.trace.height == 4 * 2 * 3


def test_a_trace_shows_active_arms_means_bounds_and_payments() -> None:
    result = simulate(trace=[1, 30, 60], runs=1)
    assert result.trace is not None
    first = result.trace.filter(result.trace["step"] == 1)
    assert first["active"].all()
    assert first["bound"].is_finite().to_list() == [True, False, False]  # both agents began with arm 0
    assert result.trace["paid"].to_list() == [0] * 6 + [30] * 3
    last = result.trace.filter(result.trace["step"] == 60)
    assert ((last["mean"] >= 0) & (last["mean"] <= 1)).all()
    assert last["bound"].is_finite().all()


def test_a_trace_shows_the_state_after_the_step() -> None:
    principal = fp.Principal(paper(0.05), observe=fp.observe.Steps(0), bonus=2.0)
    agents, game = fp.agents.RoundRobin(), fp.Game([[1.0, 0.0]])
    trace = simulate(game, principal=principal, agents=agents, horizon=3, runs=1, trace=1).trace
    assert trace is not None
    assert trace["active"].to_list() == [True, True, True, False, True, False]  # decided at the end of step 2
    assert trace["mean"].to_list() == [1.0, 0.0] * 3
    assert trace["paid"].to_list() == [1, 1, 2, 2, 2, 2]  # in numbers of offers
    assert trace["bound"].is_finite().to_list() == [True, False, True, True, True, True]


def test_a_traced_payment_is_an_offer_taken() -> None:
    told: dict[str, Any] = {"answers": fp.answers.Never(), "agents": fp.agents.Greedy(), "runs": 1, "horizon": 9}
    principal = fp.Principal(paper(1000.0), observe=fp.observe.Steps(2))
    result = simulate(fp.Game([[1.0, 0.0]]), principal=principal, trace=[9], **told)
    assert result.trace is not None
    assert result.frame["offered"].to_list() == [2]
    assert result.trace["paid"].to_list() == [1, 1]


def test_the_defaults_are_the_papers() -> None:
    result = fp.simulate(TOY, principal=fp.Principal(fp.rules.Passive()), horizon=20, runs=2, engine="readable")
    told = result.provenance["parameters"]
    assert (told["agents"], told["answers"], told["seed"]) == (
        {"part": "AlphaUCB", "alpha": 2.0},
        {"part": "Always"},
        0,
    )


def test_a_progress_bar_is_drawn_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    simulate(runs=1, progress=False)
    assert capsys.readouterr().err == ""
    simulate(runs=1)
    assert capsys.readouterr().err == ""
    simulate(runs=1, progress=True)
    assert capsys.readouterr().out == ""
