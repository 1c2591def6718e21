"""Builds the wheel and the sdist, and tries both where nothing else is: with the lowest and the newest dependencies.

`python deploy/try_package.py` (or `make package`) takes some minutes and leaves the files in out/package/dist. Tools
come into an environment of their own; nothing of this machine's packages is used.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "package"
EXTRAS = "client,live,oidc,otel,cluster"
TRIES = {"lowest": "lowest-direct", "newest": "highest"}
ALONE = """
import tempfile
import freepull as fp
from freepull import studies

result = fp.simulate(fp.instances.toy(), principal=fp.Principal(), horizon=200, runs=3, seed=1, engine="compiled")
assert result.frame.height == 3, result
assert result.provenance["engine"] == "compiled"
readable = fp.simulate(fp.instances.toy(), principal=fp.Principal(), horizon=200, runs=3, seed=1, engine="readable")
assert readable.frame.equals(result.frame), "the engines differ"
plan = fp.plan(arms=3, agents=40, horizon=60, gap=0.1, quick=True)
assert plan.sentences, plan
assert fp.pages.plan_page(plan).startswith("<!doctype html>")
assert len(studies.read("paper-2c").cells) == 33
with tempfile.TemporaryDirectory() as folder:
    figure = fp.charts.spend({"toy": result}).figure
    figure.savefig(f"{folder}/toy.png")
    assert fp.Result.load(result.save(f"{folder}/toy.parquet")).frame.equals(result.frame)
"""
LIVE = """
import tempfile
import freepull as fp
from freepull.campaigns.journal.recovery import verify

with tempfile.TemporaryDirectory() as folder:
    url = f"sqlite:///{folder}/trial.db"
    with fp.Campaign.create(url, name="x", arms=["A", "B"], agents=["ann", "bob"], price="0.50 EUR", horizon=60) as it:
        it.start()
        for visit in range(20):
            for agent in ("ann", "bob"):
                offer = it.ask(agent)
                it.tell(agent, "A" if visit % 2 else "B", float(visit % 3 > 0), event=visit + 1)
        assert it.status().observations == 40
    assert verify(url, "x").observations == 40
from freepull.server.app import *
import distributed
"""


def run(*command: object, **more: str) -> str:
    """Run a program, and show what it said if it fails."""
    words = [str(word) for word in command]
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(words, capture_output=True, text=True, cwd=OUT, env=clean | more, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(tools: Path) -> list[Path]:
    """Build both files from the sources, the wheel out of the sdist, and check what they say of themselves."""
    for old in (OUT / "dist").glob("*"):
        old.unlink()
    run(tools / "python", "-m", "build", "--outdir", OUT / "dist", ROOT)
    files = sorted((OUT / "dist").iterdir())
    run(tools / "twine", "check", "--strict", *files)
    return files


def attempt(tools: Path, name: str, file: Path, extras: str, code: str) -> None:
    """Install a file into an empty environment, and run what it is for."""
    began, home = time.perf_counter(), OUT / f"{name}-{file.suffix.strip('.')}{'-live' if extras else ''}"
    python = home / "bin" / "python"
    run(tools / "uv", "venv", "--quiet", "--clear", "--python", sys.executable, home)
    wanted = [word for extra in extras.split(",") if extra for word in ("--extra", extra)]
    chosen = run(
        *(tools / "uv", "pip", "compile", "--quiet", "--python", python, "--resolution", TRIES[name], *wanted),
        ROOT / "pyproject.toml",
    )
    (home / "chosen.txt").write_text(chosen)
    run(tools / "uv", "pip", "install", "--quiet", "--python", python, "--requirement", home / "chosen.txt")
    run(tools / "uv", "pip", "install", "--quiet", "--python", python, "--no-deps", file)
    run(tools / "uv", "pip", "check", "--quiet", "--python", python)
    kernels = str(home / "kernels")
    run(python, "-W", "error::DeprecationWarning:freepull", "-c", code, NUMBA_CACHE_DIR=kernels)
    run(home / "bin" / "freepull", "simulate", "--horizon", 100, "--runs", 1, NUMBA_CACHE_DIR=kernels)
    packages = run(tools / "uv", "pip", "freeze", "--quiet", "--python", python).splitlines()
    size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file() and "kernels" not in path.parts)
    took = time.perf_counter() - began
    print(f"{home.name:20} {len(packages):3} packages, {size / 1e6:4.0f} MB, runs ({took:.0f} s)", flush=True)


def main() -> None:
    """Build, install, try."""
    tools = OUT / "tools" / "bin"
    OUT.mkdir(parents=True, exist_ok=True)
    run(sys.executable, "-m", "venv", OUT / "tools")
    run(tools / "pip", "install", "--quiet", "--disable-pip-version-check", "build", "twine", "uv")
    sdist, wheel = sorted(build(tools), key=lambda path: path.suffix == ".whl")
    for file in (sdist, wheel):
        print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB", flush=True)
    for name in TRIES:
        attempt(tools, name, wheel, "", ALONE)
        attempt(tools, name, wheel, EXTRAS, LIVE)
    attempt(tools, "newest", sdist, "", ALONE)


if __name__ == "__main__":
    main()
