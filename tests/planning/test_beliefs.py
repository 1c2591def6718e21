"""What is believed: draws have the gaps, the spread and the errors that were said."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.data import Past, Posterior
from freepull.errors import InvalidInput
from freepull.planning.beliefs import Drawn, Guess, Known, Logged, described

DRAWS = 2_000


def drawn(guess: Guess, count: int = DRAWS) -> list[fp.Game]:
    rng = np.random.default_rng(8)
    return [guess(rng) for _ in range(count)]


def test_without_error_the_panel_has_exactly_what_was_said() -> None:
    for game in drawn(Guess(4, 30, (0.05, 0.07, 0.2), level=0.6, spread=0.15, error=0.0), 20):
        assert sorted(game.global_means.tolist()) == pytest.approx([0.4, 0.53, 0.55, 0.6])
    spreads = [game.means.std(axis=0, ddof=1).mean() for game in drawn(Guess(2, 30, (0.1,), spread=0.15, error=0.0))]
    assert np.mean(spreads) == pytest.approx(0.15, rel=0.03)


def test_the_arms_stand_in_any_order() -> None:
    best = [game.best for game in drawn(Guess(3, 2, (0.1,)), 300)]
    assert all(abs(best.count(k) - 100) < 5.5 * math.sqrt(300 * 2 / 9) for k in range(3))


def test_every_gap_and_the_spread_are_off_by_the_error() -> None:
    games = drawn(Guess(3, 400, (0.02, 0.03), spread=0.05, error=0.3))
    gaps = np.array([np.sort(game.global_means)[::-1][0] - game.global_means for game in games])
    known = np.sort(gaps, axis=1)[:, 1:]
    logs = np.log(known).sum(axis=1) - math.log(0.02 * 0.03)
    assert logs.mean() == pytest.approx(0.0, abs=5.5 * 0.3 * math.sqrt(2 / DRAWS))
    assert logs.std() == pytest.approx(0.3 * math.sqrt(2), rel=5.5 / math.sqrt(2 * DRAWS))
    spreads = np.log([game.means.std(axis=0, ddof=1).mean() / 0.05 for game in games])
    assert spreads.std() == pytest.approx(0.3, rel=0.1)


def test_the_level_is_off_too() -> None:
    levels = np.array([game.global_means.max() for game in drawn(Guess(2, 3, (0.01,), level=0.5, error=0.4))])
    odds = np.log(levels / (1 - levels))
    assert odds.mean() == pytest.approx(0.0, abs=5.5 * 0.4 / math.sqrt(DRAWS))
    assert odds.std() == pytest.approx(0.4, rel=5.5 / math.sqrt(2 * DRAWS))


def test_arms_behind_a_single_gap_lie_at_exponential_distances() -> None:
    ranked = np.array(
        [np.sort(g.global_means)[::-1] for g in drawn(Guess(4, 3, (0.02,), level=0.9, spread=0.0, error=0.1))]
    )
    first = ranked[:, 0] - ranked[:, 1]
    for j in (1, 2):
        ratio = (ranked[:, j] - ranked[:, j + 1]) / first
        assert ratio.mean() == pytest.approx(1.0, abs=5.5 / math.sqrt(DRAWS))
        assert ratio.std() == pytest.approx(1.0, rel=5.5 * math.sqrt(2 / DRAWS))


def test_means_stay_in_range_and_panels_keep_their_means_where_people_differ_widely() -> None:
    for game in drawn(Guess(2, 5, (0.1,), level=0.8, spread=0.45, error=0.0), 200):
        assert ((game.means >= 0) & (game.means <= 1)).all()
        assert game.minimum_gap == pytest.approx(0.1, abs=1e-6)


def test_one_agent_is_the_average() -> None:
    game = Guess(2, 1, (0.1,), spread=0.3, error=0.0)(np.random.default_rng(0))
    assert sorted(game.means[0].tolist()) == pytest.approx([0.4, 0.5])


def test_the_centre_is_the_guess_itself() -> None:
    guess = Guess(4, 7, (0.05,), error=0.5)
    assert sorted(guess.centre().global_means.tolist()) == pytest.approx([0.35, 0.4, 0.45, 0.5])
    assert (guess.centre().means == guess.centre().means).all()
    assert guess.sized(70).centre().agents == 70


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"arms": 1}, "arms"),
        ({"agents": 0}, "agents"),
        ({"gaps": (0.1, 0.2)}, "gap"),
        ({"gaps": (0.0,)}, "gap"),
        ({"gaps": (0.5,)}, "gap"),
        ({"gaps": (float("nan"),)}, "gap"),
        ({"level": 0.0}, "level"),
        ({"spread": 0.6}, "spread"),
        ({"error": -0.1}, "error"),
        ({"rewards": "coins"}, "rewards"),
        ({"rewards": fp.rewards.TruncatedNormal(0.1)}, "rewards"),
        ({"rewards": fp.rewards.Categorical([0, 1], [[[0.5, 0.5], [0.5, 0.5]]])}, "rewards"),
    ],
)
def test_bad_guesses_get_a_sentence(change: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{name} must "):
        Guess(**{"arms": 4, "agents": 3, "gaps": (0.1,), **change})


def test_a_known_game_has_its_agents_several_times() -> None:
    known = Known(fp.Game([[0.9, 0.1], [0.2, 0.3]], weights=[1, 3]))
    more = known.sized(6)
    assert more is not None
    assert more.game.means.tolist() == [[0.9, 0.1], [0.2, 0.3]] * 3
    assert more.game.global_means == pytest.approx(known.game.global_means)
    assert known.sized(5) is None
    assert known.sized(1) is None
    fixed = Known(fp.Game(rewards=fp.rewards.Categorical([0, 1], [[[0.5, 0.5], [0.2, 0.8]]])))
    assert fixed.sized(2) is None


def test_makers_that_know_their_size_can_be_resized() -> None:
    more = Drawn(fp.instances.Family(3, gap=None)).sized(5)
    assert more is not None
    assert more(np.random.default_rng(0)).agents == 5
    assert Drawn(lambda rng: fp.instances.toy()).sized(5) is None
    with pytest.raises(InvalidInput, match="game must be"):
        Drawn(lambda rng: 7)(np.random.default_rng(0))  # type: ignore[arg-type, return-value]


def test_logs_speak_of_the_logged_agents_or_of_others() -> None:
    n = np.full((4, 2), 50)
    past = Past(("a", "b", "c", "d"), ("x", "y"), n, n * 0.5, n * 0.5, True, 400, ())
    logged = Logged(Posterior(past))
    assert logged(np.random.default_rng(0)).agents == 4
    assert logged.centre().agents == 4
    assert logged.sized(9)(np.random.default_rng(0)).agents == 9
    assert logged.sized(9).centre().agents == 9
    spread = logged.sized(2_000).centre().means.std(axis=0)
    assert spread == pytest.approx(logged.posterior.spread, rel=5.5 / math.sqrt(2 * 2_000))
    assert "themselves" in logged.words()
    assert "others" in logged.sized(9).words()


def test_people_read_of_parts_by_name_with_numbers_to_four_digits() -> None:
    assert described(fp.activity.Lognormal(0.1 * 3, 0.8)) == "lognormal (median 0.3, sigma 0.8, silent 0)"
    told = described(fp.leaving.AnyOf([fp.leaving.AtRandom(0.34 - 0.24), fp.leaving.InAnger(0.05)]))
    assert told.startswith("any-of (at-random (share 0.1")
    assert "0.0999" not in told
    assert described(fp.agents.AlphaUCB(2)) == "alpha-ucb (alpha 2)"
