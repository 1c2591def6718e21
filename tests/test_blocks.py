"""Every block of code in the README and the pages does what it shows: Python runs, commands too, files are read."""

from __future__ import annotations

import doctest
import json
import re
import shlex
from contextlib import chdir, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
import yaml

import freepull as fp
from freepull import registry, studies
from freepull.cli.service import command as service_command
from freepull.cli.service import read_file
from support.program import inside
from support.running import Service

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))
SOURCES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", *PAGES]
SHOWN = {"text", "math", "{eval-rst}", "{image}", "{toctree}", "{include}", "{literalinclude}"}
"""Kinds of blocks that are looked at, not run; files that are shown are examples, which are run as such."""
SERVED = "http://127.0.0.1:8000"
LONG = "fp.plan(arms=4, agents=500, horizon=60, gap=0.05, delta=0.05)"
SHORT = "fp.plan(arms=3, agents=40, horizon=60, gap=0.1, runs=40, curves=False)"
FEWER = {"plan": ["--quick"], "study": []}
"""Commands that are run, and what is added to make them quick; of others, the options must be there."""


class Block(NamedTuple):
    """A block of a page."""

    source: str
    kind: str
    text: str


def blocks() -> list[Block]:
    fence = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [
        Block(source, (kind.split() or [""])[0], text)
        for source in SOURCES
        for kind, text in fence.findall((ROOT / source).read_text(encoding="utf-8"))
    ]


ALL = blocks()


def of(kind: str, source: str | None = None) -> list[Block]:
    return [block for block in ALL if block.kind == kind and source in (None, block.source)]


def test_every_block_says_what_it_is_and_is_tried_here() -> None:
    assert {block.kind for block in ALL} - SHOWN == {"console", "python", "toml", "json", "yaml"}


@pytest.mark.parametrize("source", sorted({block.source for block in of("python")}))
def test_the_python_of_a_page_runs_from_top_to_bottom(source: str, tmp_path: Path) -> None:
    served = any(SERVED in block.text or "Client(url" in block.text for block in of("python", source))
    names: dict[str, Any] = {"try_it": lambda arm: 1.0}
    with Service(f"sqlite:///{tmp_path}/served.db") if served else nullcontext() as service, chdir(tmp_path):
        if service is not None:
            names |= {"url": service.at, "admin_token": service.admin, "token": "of the bank"}
            with fp.Client(service.at, service.admin) as client:
                client.create(name="slots", arms=["A", "B"], agents=["user-17"], price="0.50 EUR", horizon=60).start()
                scopes = ("gateway", "payer")
                names |= {f"{scope}_token": client.new_token(scope, campaign="slots").token for scope in scopes}
        for number, block in enumerate(of("python", source)):
            code = block.text.replace(SERVED, names.get("url", SERVED)).replace(LONG, SHORT)
            if code.startswith(">>>"):
                test = doctest.DocTestParser().get_doctest(code, names, source, source, 0)
                found = doctest.DocTestRunner(verbose=False).run(test, clear_globs=False)
                assert found.failed == 0
                names.update(test.globs)
            else:
                exec(compile(code, f"{source}, block {number}", "exec"), names)


def commands() -> list[Any]:
    lines = [
        (block.source, line.removeprefix("$ "))
        for block in of("console")
        for line in block.text.replace("\\\n", "").splitlines()
    ]
    return [pytest.param(source, line, id=line[:60]) for source, line in lines if not line.startswith("#")]


def test_the_plan_that_is_made_shorter_is_still_on_a_page() -> None:
    assert any(LONG in block.text for block in of("python"))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that commands of the pages name."""
    folder = tmp_path_factory.mktemp("desk")
    rows = [f"user-{m},{arm},{float((m + n + arm) % 3 > 0)}" for m in range(30) for arm in range(3) for n in range(4)]
    (folder / "past.csv").write_text("\n".join(["agent,arm,reward", *rows]))
    return folder


@pytest.mark.parametrize(("source", "line"), commands())
def test_a_command_of_a_page_runs_or_is_one_that_exists(source: str, line: str, desk: Path) -> None:
    program, *words = shlex.split(line, comments=True)
    if program == "make":
        targets = re.findall(r"^(\w+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[0] in targets, source
    elif program == "freepull" and words[0] in FEWER and "--scheduler" not in words:
        done = inside(*words, *FEWER[words[0]], cwd=desk)
        assert done.returncode == 0, done.stderr
    elif program == "freepull":
        group = words[0] in ("study", "token", "campaign")
        told = inside(*words[: 1 + group], "--help").stdout
        assert [word for word in words if word.startswith("--") and word not in told] == []
    else:
        assert program in ("pip", "docker", "install", "head", "python", "git"), source


def test_study_files_of_the_pages_are_read(tmp_path: Path) -> None:
    whole, sweep, grid = of("toml", "docs/studies.md")
    (tmp_path / "grid.toml").write_text(grid.text)
    assert len(studies.read(tmp_path / "grid.toml").cells) == 6
    (tmp_path / "study.toml").write_text(whole.text)
    assert len(studies.read(tmp_path / "study.toml").cells) == 12
    table, rest = whole.text.split("[agents]")[0], whole.text.partition("alpha = 2.0\n")[2]
    (tmp_path / "named.toml").write_text(table + rest.split("[sweep]")[0] + sweep.text)
    assert {"bold", "mixed"} == {cell.coordinates["agents"] for cell in studies.read(tmp_path / "named.toml").cells}


@pytest.mark.parametrize("block", of("toml", "docs/operations.md"), ids=["serving", "logging in"])
def test_settings_of_the_pages_are_read(block: Block, tmp_path: Path) -> None:
    (tmp_path / "freepull.toml").write_text(block.text)
    alone = typer.Typer()
    alone.command("serve")(service_command)
    context = typer.Context(typer.main.get_command(alone))
    assert read_file(context, tmp_path / "freepull.toml") == tmp_path / "freepull.toml"
    assert context.default_map is not None


def test_a_principal_in_json_is_a_principal() -> None:
    (block,) = of("json")
    told = json.loads(block.text)
    parts = {kind: registry.build(kind, told.pop(kind), kind) for kind in ("rule", "observe", "protocol")}
    assert fp.Principal(**parts, **told).offers == "each"


def test_yaml_of_the_pages_is_yaml() -> None:
    assert [type(yaml.safe_load(block.text)) for block in of("yaml")] == [dict]
