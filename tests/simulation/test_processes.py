"""Runs in several processes: the same results, errors that say where they come from, and an end at any moment."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import freepull as fp
from freepull.errors import FreepullError

pytestmark = pytest.mark.slow
PASSIVE = fp.Principal(fp.rules.Passive())


def simulate(agents: Any = None, **more: Any) -> fp.Result:
    settings: dict[str, Any] = {"horizon": 30, "runs": 9, "engine": "readable", "workers": 2}
    return fp.simulate(fp.instances.toy(), principal=PASSIVE, agents=agents, **settings | more)


class Odd(Exception):
    """Cannot be sent."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")
        self.sum = lambda: one + two


class Failing(fp.agents.Greedy):
    """Does something else in the fifth step."""

    def __init__(self, do: str) -> None:
        super().__init__()
        self.do = do

    def pick(self, t: int) -> int:
        if t == 5:
            if self.do == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.do == "exit":
                sys.exit(3)
            raise ZeroDivisionError("by nothing") if self.do == "divide" else Odd(1, 2)
        return super().pick(t)


@pytest.mark.parametrize("workers", [2, 3, 50])
def test_any_number_of_processes_gives_the_same(workers: int) -> None:
    one, many = simulate(workers=1), simulate(workers=workers)
    assert one.frame.equals(many.frame)
    assert (one.paid_sum == many.paid_sum).all()


class Marking(fp.agents.Greedy):
    """Leaves the number of its process in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def pick(self, t: int) -> int:
        (self.folder / str(os.getpid())).touch()
        return super().pick(t)


def test_as_many_runs_as_processes_are_played_one_in_each(tmp_path: Path) -> None:
    simulate(Marking(tmp_path), runs=3, workers=3)
    assert len(list(tmp_path.iterdir())) == 3


def test_an_error_says_where_it_was_raised() -> None:
    with pytest.raises(ZeroDivisionError, match="by nothing") as caught:
        simulate(Failing("divide"))
    assert "in pick" in caught.value.__notes__[0]
    with pytest.raises(FreepullError, match=r"^Odd: 1 and 2") as ours:
        simulate(Failing("raise what cannot be sent"))
    assert "in pick" in ours.value.__notes__[0]
    with pytest.raises(SystemExit):
        simulate(Failing("exit"))


def test_a_process_that_is_killed_is_told_in_a_sentence() -> None:
    with pytest.raises(FreepullError, match=r"a worker process ended before .* exit code -9; memory may be short"):
        simulate(Failing("die"))


@pytest.mark.slow
def test_ctrl_c_ends_worker_processes(tmp_path: Path) -> None:
    script = (
        "import warnings, freepull as fp\n"
        "warnings.simplefilter('ignore')\n"
        "r = fp.simulate(fp.instances.toy(), principal=fp.Principal(fp.rules.Passive()), horizon=1500, runs=100000,\n"
        "                engine='readable', workers=2, progress=lambda n: print('run', flush=True))\n"
        "print(r.interrupted, r.frame.height, flush=True)\n"
    )
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "run\n"
    starting = time.monotonic() - began  # about two seconds, more on a busy machine
    os.killpg(child.pid, signal.SIGINT)
    asked = time.monotonic()
    out, _ = child.communicate(timeout=30)
    assert time.monotonic() - asked < max(2.0, starting)
    interrupted, kept = out.replace("run", "").split()
    assert interrupted == "True"
    assert int(kept) > 0


OFTEN = """
import random, signal, sys, warnings
import freepull as fp

def stop(*_):
    raise KeyboardInterrupt

def play(runs):
    return fp.simulate(fp.instances.toy(), principal=fp.Principal(fp.rules.Passive()), horizon=int(sys.argv[2]),
                       runs=runs, engine=sys.argv[4], workers=2, progress=False)

warnings.simplefilter("ignore")
play(2)
signal.signal(signal.SIGALRM, stop)
chance = random.Random(1)
for _ in range(int(sys.argv[1])):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.003 + 0.05 * chance.random())
        if not play(int(sys.argv[3])).interrupted:
            print("finished", flush=True)
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
"""


@pytest.mark.parametrize(("engine", "horizon", "runs"), [("readable", 20, 1_000), ("compiled", 100_000, 1_000)])
def test_ctrl_c_may_come_at_any_moment(engine: str, horizon: int, runs: int) -> None:
    words = [sys.executable, "-c", OFTEN, "20", str(horizon), str(runs), engine]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("finished") < 10, "most were stopped, or fork had swallowed it"


LONG = """
import os
import freepull as fp

class Loud(fp.agents.Greedy):
    def pick(self, t):
        if t == 1:
            os.write(1, b"begun\\n")
        return super().pick(t)

if __name__ == "__main__":
    fp.simulate(fp.instances.toy(), agents=Loud(), principal=fp.Principal(fp.rules.Passive()), horizon=10**6, workers=2)
"""


@pytest.mark.slow
def test_the_workers_of_a_killed_simulation_end_with_it(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(LONG)
    with subprocess.Popen([sys.executable, tmp_path / "long.py"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(4):  # two workers with two agents each
            assert process.stdout.readline() == "begun\n"
        process.kill()
        assert select.select([process.stdout], [], [], 20.0)[0]  # closed by all who had it
        assert process.stdout.read() == ""
