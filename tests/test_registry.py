"""One registry of parts: declared once, known everywhere, written in one way; parts of one's own where it is right."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import freepull as fp
from freepull import registry, studies
from freepull.errors import InvalidInput, ReadableEngine, StudyError
from freepull.simulation import facade
from freepull.simulation.compiled.coding import is_formula
from support.drive import assert_sentence
from support.program import ENVIRONMENT, check_refusal, command, freepull, inside

NEEDED: dict[str, dict[str, Any]] = {
    **{name: {"by": 0.1} for name in ("Drift", "Shocks", "PaidBias")},
    "Paper": {"delta": 0.2},
    "Steps": {"n": 3},
    "KnownGap": {"gap": 0.2},
    "BanFor": {"rounds": 2},
    "BanAfter": {"refusals": 2},
    "Reluctant": {"share": 0.2, "probability": 0.3},
    "Rate": {"rate": 0.1},
    "Lognormal": {"median": 0.1, "sigma": 0.5},
    "AtRandom": {"share": 0.1},
    "AfterActs": {"acts": 3},
    "InAnger": {"share": 0.1},
    "Categorical": {"values": [0.0, 1.0], "probabilities": [[[0.5, 0.5], [0.1, 0.9]]]},
    "Empirical": {"samples": [[[0.5], [0.25, 1.0]]]},
}
EVERY = [part for kind in registry.KINDS for part in registry.parts(kind) if part.made is not fp.leaving.AnyOf]
TOY = '''
"""An agent that stays with one arm."""
from dataclasses import dataclass

from freepull.agents.base import Learner
from freepull.registry import part


@part("agents", "stay-put")
@dataclass
class StayPut(Learner):
    """Pick one arm for ever."""

    arm: int = 0

    def pick(self, t: int) -> int:
        return self.arm
'''
MINE = '''
from dataclasses import dataclass

import freepull as fp
from freepull.principal.rules.paper import PassiveState


class Stubborn:
    """No dataclass, and nothing is annotated."""

    def __init__(self, arm=0, patience=2):
        self.arm, self.patience = arm, patience

    def pick(self, t):
        return self.arm

    def learn(self, arm, reward):
        pass


class Secret:
    def __init__(self, words):
        self.kept = words

    def __repr__(self):
        return f"Secret({self.kept!r})"

    pick = learn = lambda self, *_: 0


class Broken:
    def __init__(self):
        raise KeyError("what is this?")


@dataclass(frozen=True)
class Watch(fp.rules.Rule):
    """A rule with a δ that it does not use."""

    delta: float = 0.05
    name: str = "watch"
    patient: bool = False

    def start(self, setting, record):
        return PassiveState(setting, record)


nothing = 3
'''
STUDY = """\
horizon = 60
runs = 2
game = "toy"
agents = "mine:Stubborn:1"
principals.p.rule = { part = "mine:Watch", delta = 0.2 }
principals.p.observe = "share:0.5"
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type]:
    """A new agent: one file in the package, and one import."""
    (tmp_path / "stay_put.py").write_text(TOY)
    monkeypatch.setattr(fp.agents, "__path__", [*fp.agents.__path__, str(tmp_path)])
    monkeypatch.setattr(registry, "_PARTS", dict(registry._PARTS))
    yield importlib.import_module("freepull.agents.stay_put").StayPut
    del sys.modules["freepull.agents.stay_put"]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of a user's own."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(facade, "_SAID", set())
    yield importlib.import_module("mine")
    del sys.modules["mine"]


def test_names_are_unique_and_kernels_have_numbers_of_their_own() -> None:
    for kind in registry.KINDS:
        found = registry.parts(kind)
        assert found or kind == "blocks", kind  # there are none any more, but logs have them
        for names in ([it.written for it in found], [it.name for it in found]):
            assert len(set(names)) == len(found), kind
        if kind in ("agents", "answers", "activity", "leaving", "disturbances"):
            numbered = [it.kernel for it in found if not is_formula(it.made)]
            assert sorted(it for it in numbered if it is not None) == list(range(len(numbered)))
            assert all(it.kernel is None for it in found if is_formula(it.made))
    contracts = {"Agent", "Indexed", "Mind", "OnTable", "Remembering", "View"}
    assert {it.made.__name__ for it in registry.parts("agents")} == {*fp.agents.__all__} - contracts
    assert {it.made.__name__ for it in registry.parts("rule")} < {*fp.rules.__all__}


@pytest.mark.parametrize("part", EVERY, ids=lambda it: it.name)
def test_every_part_comes_back_from_json_under_either_name(part: registry.Part) -> None:
    made = part.made(**NEEDED.get(part.name, {}))
    plain = registry.encode(made)
    assert list(plain) == ["part", *part.parameters]
    told = json.loads(json.dumps(plain))
    assert registry.build(part.kind, told, "here") == made
    rest = {name: value for name, value in told.items() if name != "part"}
    assert registry.build(part.kind, {"kind": part.written, **rest}, "here") == made
    assert registry.short(part.kind, {"kind": part.written, **rest}) == {"part": part.name} | NEEDED.get(part.name, {})
    said = registry.from_repr(repr(made))
    assert said is not None
    assert registry.short(part.kind, said) == registry.short(part.kind, plain)


def test_a_part_that_holds_a_list_of_parts_comes_back_from_json_and_from_texts() -> None:
    made = fp.leaving.AnyOf([fp.leaving.AtRandom(0.1, after=50), fp.leaving.InAnger(0.05)])
    plain = json.loads(json.dumps(registry.encode(made)))
    assert registry.build("leaving", plain, "here") == made
    texts = {"kind": "any-of", "leaving": ["at-random:0.1,after=50", "in-anger:0.05"]}
    assert registry.build("leaving", texts, "here", own=True) == made
    assert registry.encode(registry.build("leaving", registry.complete("leaving", texts, "x", own=True), "x")) == plain
    inside = [{"part": "AtRandom", "share": 0.1, "after": 50}, {"part": "InAnger", "share": 0.05}]
    assert registry.short("leaving", plain) == {"part": "AnyOf", "leaving": inside}
    for wrong, words in [
        ({"part": "AnyOf", "leaving": ["at-rando:0.1"]}, "leaving.leaving.0 must be one of stays, at-random"),
        (
            {"part": "AnyOf", "leaving": []},
            "leaving must be a list of one or more ways to leave, none of them AnyOf, got [].",
        ),
        ({"part": "AnyOf"}, "leaving any-of must be given leaving"),
    ]:
        with pytest.raises(InvalidInput) as problem:
            registry.build("leaving", wrong, "leaving", own=True)
        assert assert_sentence(problem).startswith(words)


def test_a_text_gives_numbers_words_and_nothing() -> None:
    def rule(text: str) -> Any:
        return registry.build("rule", text, "--rule", own=True)

    assert rule("paper:0.1,bound=simplified,scale=0.2") == fp.rules.Paper(0.1, "simplified", 0.2)
    assert rule("certified:delta=0.1,gap=none") == fp.rules.Certified(0.1)
    assert rule("population:pulls=7") == fp.rules.Population(pulls=7)
    steps = registry.build("observe", " steps : 20 ", "x", own=True)
    assert type(steps.n) is int
    for text, words in [
        ("paper:0.1,delta=0.2", "--rule paper takes delta once"),
        ("certified:half", "--rule certified: delta must be a number, got 'half'."),
        (
            "certified:design=3",
            "the parameter of --rule certified must be one of delta, gap, robust, epsilon; got 'design'",
        ),
        (
            "papr:0.1",
            "--rule must be one of certified, comparisons, paper, passive, population; got 'papr'; did you",
        ),
    ]:
        with pytest.raises(InvalidInput) as problem:
            rule(text)
        assert assert_sentence(problem).startswith(words)
    with pytest.raises(InvalidInput, match=r"^x must be one of bernoulli, beta, truncated-normal; got 'categorical'"):
        registry.build("rewards", "categorical", "x", own=True)


def test_a_new_agent_is_one_file_and_one_import(toy: type, tmp_path: Path) -> None:
    assert "bayes-ucb:c, withholding:arm, stay-put:arm" in registry.choices("agents")
    made = registry.build("agents", "stay-put:2", "--agents", own=True)
    assert made == toy(arm=2)
    assert type(made.arm) is int
    assert registry.encode(made) == {"part": "StayPut", "arm": 2}
    file = tmp_path / "study.toml"
    file.write_text('horizon = 30\nruns = 1\ngame = "toy"\nagents = "stay-put:1"\nprincipals.p.rule = "passive"\n')
    study = studies.read(file)
    assert study.cells[0].parameters["agents"] == {"part": "StayPut", "arm": 1}
    with pytest.warns(ReadableEngine, match="because StayPut is not compiled"):
        report = studies.run(study, tmp_path / "out", workers=1, progress=False)
    assert report.new == 1
    told = studies.result(studies.Store.open(tmp_path / "out"), study.cells[0]).provenance
    assert told["parameters"]["agents"] == {"part": "StayPut", "arm": 1}
    with pytest.raises(InvalidInput, match=r"did you mean 'stay-put'\?"):
        registry.build("agents", "stay-putt", "--agents", own=True)


@pytest.mark.slow
def test_a_new_agent_stands_in_the_help_of_commands(toy: type, tmp_path: Path) -> None:
    script = (
        "import freepull.agents; freepull.agents.__path__.append('.'); import freepull.agents.stay_put\n"
        "from freepull.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "simulate", "--help"],
        capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT, check=True,
    )  # fmt: skip
    assert "stay-put:arm" in done.stdout


@pytest.mark.slow
def test_parts_of_ones_own_on_the_command_line(mine: Any, tmp_path: Path) -> None:
    python, *rest = command(
        "simulate", "--horizon", 40, "--runs", 2, "--agents", "mine:Stubborn:patience=3", "--rule",
        "mine:Watch:name=my own,patient=true", "--delta", 0.3, "--json",
    )  # fmt: skip
    script = [python, "-P", *rest]  # as the installed program, which does not have this folder in its path
    done = subprocess.run(script, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("because Stubborn is an agent of your own.\n")
    told = json.loads(done.stdout)["provenance"]["parameters"]
    assert told["agents"] == {"part": "mine:Stubborn", "arm": 0, "patience": 3}
    assert told["principal"]["rule"] == {"part": "mine:Watch", "delta": 0.3, "name": "my own", "patient": True}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--agents", "no.such:Agent"], ["--agents no.such:Agent cannot be imported", "PYTHONPATH"]),
        (["--agents", "mine:Stuborn"], ["--agents mine:Stuborn cannot be imported", "has no attribute"]),
        (["--agents", "mine:Stubborn:patence=3"], ["--agents mine:Stubborn", "did you mean 'patience'?"]),
        (["--agents", "mine:Secret"], ["--agents mine:Secret must be given words", "mine:Secret:words=10"]),
        (["--agents", "mine:Broken"], ["--agents mine:Broken cannot be made: KeyError: 'what is this?'; mend it."]),
        (["--agents", "mine:Watch"], ["agents must be objects with methods pick(t)"]),
        (
            ["--rule", "mine:Watch", "--gap", "0.1"],
            ["--gap", "left out with --rule mine", "--rule certified."],
        ),
        (["--rule", "certified:gap=0.1", "--gap", "0.1"], ["--gap must be left out", "says gap already"]),
    ],
)
def test_what_is_wrong_with_them_is_said_in_a_sentence(mine: Any, args: list[str], words: list[str]) -> None:
    done = inside("simulate", "--horizon", 40, "--runs", 1, *args, cwd=Path(mine.__file__).parent)
    check_refusal(done, words)


def test_a_name_of_ones_own_must_be_a_class(mine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mine, "Nothing", 3, raising=False)
    with pytest.raises(InvalidInput) as problem:
        registry.build("agents", {"part": "mine:Nothing"}, "agents", own=True)
    assert "must be a class, as in package.module:Class" in assert_sentence(problem)


def test_parts_of_ones_own_in_a_study(mine: Any, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(STUDY)
    study = studies.read(tmp_path / "own.toml")
    told = study.cells[0].parameters
    assert told["agents"] == {"part": "mine:Stubborn", "arm": 1, "patience": 2}
    assert told["principal"]["rule"] == {"part": "mine:Watch", "delta": 0.2, "name": "watch", "patient": False}
    with pytest.warns(ReadableEngine):
        assert studies.run(study, tmp_path / "out", workers=1, progress=False).new == 2
    store = studies.Store.open(tmp_path / "out")
    assert {shard.frame.height for shard in store.shards["p"]} == {1}  # small chunks for the slow engine
    assert studies.run(studies.read(tmp_path / "own.toml"), tmp_path / "out", progress=False).kept == 2
    (tmp_path / "own.toml").write_text(STUDY.replace("mine:Stubborn", "mine:Stuborn"))
    with pytest.raises(StudyError, match=r"^own.toml, line 4: agents mine:Stuborn cannot be imported"):
        studies.read(tmp_path / "own.toml")


@pytest.mark.slow
def test_looking_at_a_study_imports_nothing_of_its_writers(mine: Any, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(STUDY)
    with pytest.warns(ReadableEngine):
        studies.run(studies.read(tmp_path / "own.toml"), tmp_path / "out", workers=1, progress=False)
    (tmp_path / "mine.py").write_text("raise SystemExit('imported')")
    done = freepull("study", "show", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_part_of_ones_own_is_encoded_by_its_path_and_shown_where_its_parameters_are_not_known(mine: Any) -> None:
    assert registry.encode(mine.Stubborn(1)) == {"part": "mine:Stubborn", "arm": 1, "patience": 2}
    assert registry.encode(mine.Secret("x")) == {"part": "mine:Secret", "shown": "Secret('x')"}
    assert registry.build("agents", "freepull.agents:Thompson", "x", own=True) == fp.agents.Thompson()


def test_none_of_them_gets_into_a_log_or_over_http(mine: Any, tmp_path: Path) -> None:
    done = inside(
        "campaign", "new", f"sqlite:///{tmp_path}/a.db", "x", "--arms", "A,B", "--price", "1 EUR", "--rule",
        "mine:Watch", "--observe", "steps:0", cwd=tmp_path,
    )  # fmt: skip
    words = ["principal must be made of freepull's own parts", "got Watch."]
    check_refusal(done, words)
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    with pytest.raises(InvalidInput, match="because a campaign's log has to name it, got 'trap:Rule'"):
        registry.build("principal", {"rule": {"part": "trap:Rule"}}, "principal")
    assert "trap" not in sys.modules


def test_a_design_may_be_written_in_a_study(tmp_path: Path) -> None:
    text = (
        'horizon = 50\ngame = "toy"\n[principals.p.rule]\nkind = "certified"\n'
        "design = { growth = 0.5, forecast = {} }\n"
        '[sweep]\n"principals.p.rule.design.growth" = [0.1, 0.2]\n"agents.kind" = ["greedy", "Thompson"]\n'
    )
    (tmp_path / "s.toml").write_text(text)
    study = studies.read(tmp_path / "s.toml")
    rule = study.cells[-1].parameters["principal"]["rule"]
    assert (rule["part"], rule["design"]["part"], rule["design"]["growth"]) == ("Certified", "Design", 0.2)
    assert rule["design"]["forecast"]["phi"] == 0.7
    assert [cell.parameters["agents"]["part"] for cell in study.cells] == ["Greedy", "Thompson"] * 2
    (tmp_path / "s.toml").write_text(text.replace("growth = 0.5", "growht = 0.5"))
    with pytest.raises(
        StudyError, match=r"line 5: the parameter of principals.p.rule.design must be .* mean 'growth'\?"
    ):
        studies.read(tmp_path / "s.toml")


def test_a_study_says_the_same_in_either_spelling(tmp_path: Path) -> None:
    text = 'horizon = 50\ngame = "toy"\nagents = {}\nprincipals.p = {{ rule = {}, observe = "share:0.5" }}\n'
    said = set()
    for agent, rule in [
        ('"alpha-ucb"', '"paper:0.1"'),
        ('{ kind = "alpha-ucb", alpha = 2 }', '{ kind = "paper", delta = 0.1, pay = "widest" }'),
        ('{ part = "AlphaUCB" }', '{ part = "Paper", delta = 0.1 }'),
    ]:
        (tmp_path / "s.toml").write_text(text.format(agent, rule))
        said.add(studies.read(tmp_path / "s.toml").identity)
    assert len(said) == 1
    (tmp_path / "s.toml").write_text(text.format('"alpha-ucb:3"', '"paper:0.1"'))
    assert studies.read(tmp_path / "s.toml").identity not in said
