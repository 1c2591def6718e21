"""Little work needs no compiler, and comes to the same; what strategies leave out could not have mattered."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import freepull as fp
from freepull.compiling import plainly
from freepull.numerics import beta_draw, kl_index
from freepull.randomness import mix
from freepull.simulation import facade

PEOPLE: dict[str, Any] = {"game": fp.panels.street(agents=12, arms=3), "horizon": 50}
TOY: dict[str, Any] = {"game": fp.instances.toy(), "horizon": 150}
CASES: list[dict[str, Any]] = [
    TOY | {"rule": fp.rules.Paper(0.3, "simplified", 0.05), "agents": fp.agents.KLUCB()},
    TOY | {"rule": fp.rules.Paper(0.3, "finite_time", pay="uniform"), "offers": "each"},
    TOY | {"rule": fp.rules.Certified(0.2), "agents": fp.agents.Thompson()},
    TOY | {"rule": fp.rules.Certified(0.2, epsilon=0.1, robust=0.01), "observe": fp.observe.Adaptive(slack=3.0)},
    TOY | {"rule": fp.rules.Population(0.3)},
    TOY | {"rule": fp.rules.Comparisons(0.3), "pricing": fp.pricing.Posted(0.1, 1.0), "offers": "each"},
    TOY | {"rule": fp.rules.Passive(), "agents": fp.agents.EpsilonGreedy()},
    PEOPLE | {"rule": fp.rules.Comparisons(0.3, epsilon=0.1), "offers": "each"},
    PEOPLE | {"rule": fp.rules.Comparisons(0.3), "pricing": fp.pricing.Compensate(), "offers": "each"},
    TOY | {"game": fp.Game([[0.9, 0.4], [0.2, 0.5]], rewards=fp.rewards.Beta(3)), "rule": fp.rules.Certified(0.3)},
]
CODE = f"""\
import json, sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from simulation.test_little import CASES, rows
print(json.dumps([rows(case, "auto") for case in CASES]))
print("numba" in sys.modules)
"""


def rows(case: dict[str, Any], engine: str) -> dict[str, Any]:
    """What a simulation of two runs comes to."""
    told = dict(case)
    parts = {name: told.pop(name) for name in ("rule", "offers", "observe", "pricing") if name in told}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fp.simulate(**told, principal=fp.Principal(**parts), runs=2, engine=engine, progress=False)
    plain: dict[str, Any] = json.loads(json.dumps({"rows": found.frame.rows(), "paid": found.paid_sum.tolist()}))
    return plain | {"engine": found.provenance["engine"]}


@pytest.mark.slow
def test_little_work_needs_no_compiler_and_comes_to_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told, loaded = done.stdout.splitlines()
    assert loaded == "False"
    for case, plain in zip(CASES, json.loads(told), strict=True):
        assert plain.pop("engine") == "readable"
        compiled = rows(case, "compiled")
        assert compiled.pop("engine") == "compiled"
        assert plain == compiled, case


def test_what_python_refuses_is_played_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[None] = []

    def play(*_: Any) -> Any:
        tried.append(None)
        if len(tried) == 1:
            raise ZeroDivisionError
        return "played"

    monkeypatch.setattr(facade, "play", play)
    nothing: Any = None
    found: Any = facade._played_plainly(nothing, 0)
    assert found == "played"
    monkeypatch.setattr(facade, "play", lambda *_: fp.Game([[2.0]]))
    with pytest.raises(fp.errors.InvalidInput):
        facade._played_plainly(nothing, 0)


def test_no_draw_that_could_be_the_largest_is_left_out() -> None:
    from freepull.simulation.compiled import playing  # it loads the compiler
    from freepull.simulation.compiled.state import Streams

    chance = np.random.default_rng(7)
    skipped = 0
    with plainly(), np.errstate(all="ignore"):
        for number in range(3_000):
            N = int(10 ** chance.uniform(0, 4))
            S = int(chance.binomial(N, chance.uniform()))
            key = np.uint64(mix(number))
            cells = np.array([N + (S << 32), 0], np.uint64)
            streams = Streams(np.array([S / N]), cells, np.zeros((3, 1), np.uint64), None, None)
            deep = np.array([math.inf]), np.array([0.0])
            position = np.uint64(0)
            assert playing._may_exceed(streams, deep, position, key, 0.5), "nothing is known of it yet"
            draw = playing._belief(streams, deep, position, key)
            assert draw == beta_draw(1.0 + S, 1.0 + (N - S), key)
            assert playing._may_exceed(streams, deep, position, key, draw)
            assert playing._may_exceed(streams, deep, position, key, draw * 0.999)
            skipped += not playing._may_exceed(streams, deep, position, key, draw + 0.05 * (1.0 - draw))
    assert skipped > 2_000, "most others are"


@pytest.mark.parametrize("mean", [0.0, 1e-9, 0.01, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("pulls", [1.0, 3.0, 40.0, 1e3, 1e6])
def test_the_search_for_a_kl_index_begins_close_to_it(mean: float, pulls: float) -> None:
    from freepull import numerics

    with plainly():
        for budget in (0.7, 5.0, 15.0):
            index = kl_index(mean, pulls, budget)
            near, close = numerics._near_index(mean, budget / pulls, 0.0)
            assert abs(near - index) <= 2e-9 + 1e-2 * (1.0 - index), (budget, near, index)
            assert not close or abs(near - index) <= 1e-9
            for guess in (index, 0.5 * (index + mean), 0.9 * index + 0.1):
                assert numerics.kl_index_near(mean, pulls, budget, guess) == index
                assert abs(numerics.kl_index_about(mean, pulls, budget, guess) - index) <= 1e-9
            assert mean <= kl_index(1.0 - 1e-9, pulls, budget) <= 1.0
