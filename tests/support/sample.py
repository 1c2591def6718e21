"""A small study for tests, and the program to run it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import polars as pl

from benchmarks.cluster import wait_for as wait_for
from freepull import studies

from .program import ENVIRONMENT, command

STUDY = """\
# A small study.
title = "Small"
seed = 3
runs = 6
horizon = 600

[game]
kind = "toy"

[agents]
kind = "alpha-ucb"
alpha = 2.0

[principals.authors]
rule = { kind = "paper", bound = "simplified", scale = 0.1, delta = 0.05 }
observe = "share:0.5"

[principals.passive]
rule = "passive"

[sweep]
"principals.*.rule.delta" = [0.01, 0.05]
horizon = [
  400,
  600,
]
"""
LONG = """\
title = "Long enough to be killed"
runs = 30
horizon = 20_000
game = "toy"
principals.authors.rule = { kind = "paper", bound = "simplified", scale = 0.1, delta = 0.05 }
sweep.seed = [SEEDS]
""".replace("SEEDS", ", ".join(map(str, range(30))))


def written(folder: Path, text: str, name: str = "small.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def rows(folder: Path) -> pl.DataFrame:
    return studies.frame(studies.Store.open(folder))


def started(*args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def shards(folder: Path) -> dict[str, tuple[int, int]]:
    """The shards of a folder, with what changes if one is written again."""
    found = (path for path in (folder / "shards").glob("*.parquet"))
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}
