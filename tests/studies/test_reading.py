"""A study file says what it means: anything else gets one sentence, with the line and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

import freepull as fp
from freepull import registry, studies
from freepull.errors import StudyError
from freepull.studies.cells import arguments
from freepull.studies.study import key, line_of
from support.sample import STUDY, written


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("runs = 6", "rnus = 6", 4, ["'rnus'", "did you mean 'runs'?"]),
        ("runs = 6", "runs = 'x'", 4, ["runs must be a whole number", "'x'"]),
        ("runs = 6", "runs = 0", 4, ["runs", "from 1", "got 0"]),
        ("horizon = 600", "horizon = true", 5, ["horizon must be a whole number", "True"]),
        ('title = "Small"', "title = 3", 2, ["title must be a text", "got 3"]),
        ('kind = "toy"', 'kind = "toi"', 8, ["toy, family, means, file, street, ideal", "did you mean 'toy'?"]),
        ('kind = "toy"', "", 7, ["game", "kind"]),
        ('kind = "toy"', 'kind = "toy"\nwieghts = [1, 1]', 9, ["'wieghts'", "did you mean 'weights'?"]),
        ('kind = "toy"', 'kind = "toy"\nweights = [1]', 9, ["weights must be 2 numbers"]),
        ('kind = "toy"', 'kind = "toy"\nweights = [1, 2]', 9, ["weights must be equal with rules.Paper"]),
        ('kind = "toy"', 'kind = "toy"\nrewards = "bta:3"', 9, ["game.rewards", "did you mean 'beta'?"]),
        ('kind = "toy"', 'kind = "toy"\nrewards = {kind = "beta", concentration = -1}', 9, ["concentration", "-1"]),
        ('kind = "toy"', 'kind = "family"', 7, ["must be given agents"]),
        ('kind = "toy"', 'kind = "family"\nagents = 0', 9, ["agents", "at least 1", "got 0"]),
        ('kind = "toy"', 'kind = "means"\nmeans = [[0.1, 0.2], [0.3]]', 9, ["means", "equal length"]),
        ('kind = "toy"', 'kind = "file"\npath = "no.csv"', 9, ["no.csv", "No such file"]),
        ("alpha = 2.0", "alpha = -1", 12, ["alpha must be a number above 0", "-1"]),
        ("alpha = 2.0", "alpah = 1", 12, ["'alpah'", "did you mean 'alpha'?"]),
        ('[agents]\nkind = "alpha-ucb"\nalpha = 2.0', '[[agents]]\nkind = "greedy"', 10, ["a sequence of 2", "got 1"]),
        (
            '[agents]\nkind = "alpha-ucb"\nalpha = 2.0',
            '[[agents]]\nkind = "greedy"\n[[agents]]\nkind = "tompson"',
            13,
            ["agents.1.kind", "did you mean 'thompson'?"],
        ),
        ("delta = 0.05 }", "dleta = 0.05 }", 15, ["'dleta'", "did you mean 'delta'?"]),
        ('observe = "share:0.5"', 'observe = "shar:0.5"', 16, ["principals.authors.observe", "did you mean 'share'?"]),
        ('observe = "share:0.5"', "observe = 3", 16, ["must be a text or a table", "got 3"]),
        ('observe = "share:0.5"', 'observe = "steps"', 16, ["must be given n"]),
        ('observe = "share:0.5"', 'ofers = "one"', 16, ["'ofers'", "did you mean 'offers'?"]),
        ('observe = "share:0.5"', 'offers = "two"', 16, ["offers must be one of one, each", "'two'"]),
        ('observe = "share:0.5"', "budget = -1", 16, ["budget", "at least 0"]),
        ('observe = "share:0.5"', "futility = 0.1", 16, ["futility must be 0 with rules.Paper", "got 0.1"]),
        ('observe = "share:0.5"', 'pricing = "compensat"', 16, ["principals.authors.pricing", "'compensate'?"]),
        ('observe = "share:0.5"', "pricing = 3", 16, ["pricing must be a text or a table", "got 3"]),
        ('observe = "share:0.5"', 'bonus = 2\npricing = "posted"', 16, ["bonus must be left out where", "got 2"]),
        ("[0.01, 0.05]", "[0.01, 1.5]", 22, ["delta must be a number in [1e-100, 1]", "1.5"]),
        ("[0.01, 0.05]", "[]", 22, ["at least one value"]),
        ("[0.01, 0.05]", "[0.01, 0.01]", 22, ["different values"]),
        ("[0.01, 0.05]", "0.01", 22, ["a list of values"]),
        ("  400,", "  2,", 23, ["horizon must be at least 3", "got 2"]),
        ("*.rule.delta", "*.rule.detla", 22, ["did you mean 'principals.*.rule.delta'?"]),
        ("*.rule.delta", "nobody.rule.delta", 22, ["there is no principals.nobody.rule.delta"]),
        ('"principals.*.rule.delta"', "agents.alpha", 22, ["agents.alpha must be in quotes"]),
        ('"principals.*.rule.delta"', "zzz", 22, ["there is no zzz to sweep"]),
        ("[sweep]", "[swep]", 21, ["did you mean 'sweep'?"]),
        ("[sweep]", "[sweep", 21, ["not TOML"]),
        ('"alpha-ucb"', '"alpha-ucb', 11, ["not TOML"]),
    ],
)
def test_what_is_wrong_gets_a_sentence_with_its_line(
    old: str, new: str, line: int, words: list[str], tmp_path: Path
) -> None:
    assert old in STUDY
    with pytest.raises(StudyError) as caught:
        studies.read(written(tmp_path, STUDY.replace(old, new)))
    said = str(caught.value)
    assert said.startswith(f"small.toml, line {line}: "), said
    assert "\n" not in said
    for word in words:
        assert word in said, said


def test_what_must_be_there_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"^small.toml: game must be given"):
        studies.read(written(tmp_path, "horizon = 10"))
    with pytest.raises(StudyError, match=r"line 2: principals must name at least one"):
        studies.read(written(tmp_path, 'game = "toy"\n[principals]'))
    with pytest.raises(StudyError, match=r"horizon must be a whole number of at least 1, got None"):
        studies.read(written(tmp_path, 'game = "toy"\nprincipals.a.rule = "passive"'))
    with pytest.raises(StudyError, match=r"^the study must be a TOML file that exists, or one of agents, baselines"):
        studies.read("paper-2x")


def test_a_line_is_where_the_statement_begins() -> None:
    text = "a = 1\n# word\n[b]\n\nc = [\n  1,\n  2,\n]\nd.e = {f = '''\nx'''}\n"
    assert [line_of(text, path) for path in (["a"], ["b"], ["b", "c"], ["b", "d", "e", "f"])] == [1, 3, 5, 9]
    assert line_of(text, ["b", "zzz"]) == 3
    assert line_of(text, ["zzz"]) is None


@pytest.mark.parametrize("name", sorted(studies.shipped()))
def test_shipped_studies_can_be_read(name: str) -> None:
    study = studies.read(name)
    principals = {cell.principal for cell in study.cells}
    assert principals >= (
        {"authors", "certified"} if name.startswith("baselines") else {"paper", "authors", "certified"}
    )
    assert {cell.runs for cell in study.cells} == {100}
    assert {cell.parameters["horizon"] for cell in study.cells} == {100_000}


def test_another_seed_takes_the_place_of_the_files(tmp_path: Path) -> None:
    study = studies.read("paper-2c", seed=9)
    assert {cell.parameters["seed"] for cell in study.cells} == {9}
    assert "seed = 9" in study.texts["study.toml"]
    plain = written(tmp_path, 'game = "toy"\nhorizon = 10\nprincipals.a.rule = "passive"')
    assert studies.read(plain, seed=3).cells[0].parameters["seed"] == 3


STREET = """
game = "street:40"
runs = 2

[principals.certified]
rule = "certified:0.3"

[sweep]
"activity.median" = [0.05, 0.2]
"""


def test_a_panel_says_what_the_file_does_not(tmp_path: Path) -> None:
    (tmp_path / "street.toml").write_text(STREET)
    first, second = studies.read(tmp_path / "street.toml").cells
    panel = fp.panels.street(40)
    for kind in ("agents", "answers", "leaving"):
        assert first.parameters[kind] == second.parameters[kind] == registry.encode(getattr(panel, kind))
    assert first.parameters["horizon"] == 600
    assert [cell.parameters["activity"]["median"] for cell in (first, second)] == [0.05, 0.2]
    more = 'horizon = 50\nleaving = ["stays", "after-acts:3"]\nanswers = "never"\n' + STREET.replace("40", "2")
    (tmp_path / "more.toml").write_text(more)
    told = studies.read(tmp_path / "more.toml").cells[0].parameters
    assert (told["horizon"], told["answers"]) == (50, {"part": "Never"})
    assert told["leaving"] == [{"part": "Stays"}, {"part": "AfterActs", "acts": 3}]


def test_a_study_of_a_panel_is_what_simulate_finds(tmp_path: Path) -> None:
    (tmp_path / "street.toml").write_text(STREET)
    study = studies.read(tmp_path / "street.toml")
    studies.run(study, tmp_path / "out")
    found = studies.result(studies.Store.open(tmp_path / "out"), study.cells[0]).frame
    principal = fp.Principal(fp.rules.Certified(0.3))
    assert found.equals(fp.simulate(fp.panels.street(40), principal=principal, runs=2).frame)


def test_a_cell_from_before_agents_could_be_idle_keeps_its_key(tmp_path: Path) -> None:
    cell = studies.read(written(tmp_path, STUDY)).cells[0]
    before = {name: it for name, it in cell.parameters.items() if name not in ("activity", "leaving")}
    assert key(cell.name, before) == cell.key
    assert arguments(before)["activity"] == fp.activity.EveryStep()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"street:40"', '"street:agents=0"', "agents must be a whole number of at least 1"),
        ('"street:40"', '"street:people=3"', "the parameter of game street must be one of agents, arms, gap"),
        ("runs = 2", 'activity = "lognormal:0.1"', "activity lognormal must be given sigma"),
        ("runs = 2", 'leaving = "at-rndom:0.1"', "did you mean 'at-random'?"),
    ],
)
def test_wrong_people_are_told_with_their_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    (tmp_path / "street.toml").write_text(STREET.replace(old, new))
    with pytest.raises(StudyError) as problem:
        studies.read(tmp_path / "street.toml")
    assert words in str(problem.value)
    assert f"line {2 if 'street' in new else 3}" in str(problem.value)
