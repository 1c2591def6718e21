"""What must not change when code moves, written down: paths, the OpenAPI document, and what commands print as JSON.

``python tests/golden/make.py paths openapi commands`` writes the JSON files beside this one anew; do that only for a
change that is meant, and say so in the changelog. ``release`` writes what this version leaves behind, one file in
`releases`: a store with a campaign for every story, how they stood, and a study. A release adds its file and nothing
else; files of released versions are never written again.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import itertools
import json
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import stories

import freepull as fp

HERE = Path(__file__).parent
RELEASES = HERE / "releases"
ONCE = {"spent": "bonus"}
"""What columns were called when the paths were written down."""
MEANS = [[0.9, 0.4, 0.1], [0.2, 0.5, 0.8], [0.3, 0.6, 0.3], [0.5, 0.5, 0.9], [0.1, 0.2, 0.15]]
GAMES: list[Any] = [
    fp.Game(MEANS),
    fp.Game(MEANS, rewards=fp.rewards.Beta(3)),
    fp.Game(MEANS, rewards=fp.rewards.TruncatedNormal(0.1)),
    fp.Game(MEANS, weights=[3, 1, 1, 2, 1]),
    fp.instances.Family(agents=5, means=[0.4, 0.5, 0.6], gap=None),
]
AGENTS: list[Any] = [
    fp.agents.AlphaUCB(),
    fp.agents.KLUCB(),
    fp.agents.Thompson(),
    fp.agents.EpsilonGreedy(),
    [fp.agents.Greedy(), fp.agents.RoundRobin(), fp.agents.AlphaUCB(1.0), fp.agents.Thompson(), fp.agents.KLUCB(2.0)],
]
ANSWERS: list[fp.answers.Answer] = [
    fp.answers.Always(),
    fp.answers.WithProbability(0.7),
    fp.answers.HoldOut(2),
    fp.answers.IfWorthIt(),
]
RULES: list[fp.rules.Rule | None] = [
    fp.rules.Paper(0.05, "simplified", 0.02),
    fp.rules.Paper(0.3, "finite_time"),
    fp.rules.Paper(0.3, "simplified", 0.05, pay="uniform"),
    fp.rules.Certified(0.2),
    fp.rules.Certified(0.05, gap=0.2, design=fp.rules.Design(4, 2, 0.2, 0.1, 0.5, forecast=fp.rules.Forecast())),
    None,  # where rules stood that there are no longer: the others keep their games, seeds and all
    None,
    fp.rules.Population(0.3, pulls=4),
    fp.rules.Passive(),
]
OBSERVE: list[fp.observe.Schedule] = [
    fp.observe.Share(0.3),
    fp.observe.Steps(0),
    fp.observe.Root(),
    fp.observe.Adaptive(slack=3.0),
]
PROTOCOLS: list[fp.protocols.BanProtocol] = [
    fp.protocols.TakeOrBan(),
    fp.protocols.BanFor(3),
    fp.protocols.BanAfter(2),
    fp.protocols.NeverBan(),
]
ENGINES = ("readable", "compiled")


def experiments() -> list[dict[str, Any]]:
    """Return experiments, of sixty that were drawn: every rule with everything else at random."""
    chance = np.random.default_rng(2021)
    found = []
    for number, rule in zip(range(60), itertools.cycle(RULES), strict=False):
        drawn = fp.rules.Passive() if rule is None else rule
        games = GAMES[:3] if isinstance(rule, fp.rules.Paper | fp.rules.Population) else GAMES
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            principal = fp.Principal(
                drawn,
                observe=OBSERVE[chance.integers(len(OBSERVE))],
                protocol=PROTOCOLS[chance.integers(len(PROTOCOLS))],
                offers=("one", "each")[chance.integers(2)],
                bonus=(1.0, 0.25)[chance.integers(2)],
                budget=(None, 20.0)[chance.integers(2)],
            )
        experiment = {
            "game": games[chance.integers(len(games))],
            "agents": AGENTS[chance.integers(len(AGENTS))],
            "answers": ANSWERS[chance.integers(len(ANSWERS))],
            "principal": principal,
            "horizon": int(chance.integers(100, 400)),
            "until": ("horizon", "decided")[chance.integers(2)],
            "seed": number,
        }
        found += [] if rule is None else [experiment]
    return found


def path_of(experiment: dict[str, Any], engine: str) -> str:
    """Return a digest of everything that two runs of an experiment leave behind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fp.simulate(**experiment, runs=2, engine=engine, workers=1, keep="agents", trace=50, progress=False)
    hashed = hashlib.sha256()
    assert found.trace is not None
    for frame in (found.frame, found.agents, found.trace.drop("pulls", "regret")):  # which traces have had only later
        assert frame is not None
        names = [ONCE.get(name, name) for name in frame.columns]
        hashed.update(json.dumps([names, frame.rows()], default=str).encode())
    hashed.update(json.dumps(found.paid.tolist()).encode())
    return hashed.hexdigest()[:16]


def paths() -> Any:
    """Return the path of every experiment; both engines must take the same."""
    found = []
    for experiment in experiments():
        digests = {path_of(experiment, engine) for engine in ENGINES}
        assert len(digests) == 1, experiment
        found.append({"rule": repr(experiment["principal"].rule), "path": digests.pop()})
    return found


def openapi() -> Any:
    """Return the OpenAPI document."""
    from freepull.server.app import Application

    async def get(app: Any) -> Any:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return (await client.get("/v1/openapi.json")).json()

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(get(Application(f"sqlite:///{folder}/trial.db")))


COMMANDS = {
    "simulate": "simulate --horizon 300 --runs 3 --seed 5 --delta 0.1 --json",
    "simulate paper": "simulate --horizon 300 --runs 3 --rule paper --bound simplified --scale 0.1 --json",
    "plan": "plan --arms 3 --agents 40 --horizon 60 --gap 0.1 --quick --json",
    "campaign status": "campaign status STORE certified --json",
    "campaign verdict": "campaign verdict STORE decided --json",
    "campaign ledger": "campaign ledger STORE rounds --json",
    "campaign offers": "campaign offers STORE rounds --json",
    "campaign bans": "campaign bans STORE rounds --json",
    "campaign audit": "campaign audit STORE pairwise --json",
    "campaign list": "campaign list STORE --json",
    "campaign verify": "campaign verify STORE decided --json",
}
"""STORE is the store of version 0.1."""


Program = Callable[..., subprocess.CompletedProcess[str]]


def process(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the program."""
    return subprocess.run([sys.executable, "-m", "freepull", *words], capture_output=True, text=True, check=False)


def commands(freepull: Program = process) -> Any:
    """Return what commands print as JSON, on the store of version 0.1."""
    with tempfile.TemporaryDirectory() as folder:
        store = unpacked(RELEASES / "0.1.tar.gz", Path(folder))
        return {name: printed(freepull, words.replace("STORE", store)) for name, words in COMMANDS.items()}


def printed(freepull: Program, words: str) -> Any:
    """Return what a command prints as JSON, without what differs from run to run."""
    done = freepull(*words.split())
    assert done.returncode == 0, done.stderr
    return [stable(json.loads(line)) for line in done.stdout.splitlines()]


def stable(found: Any) -> Any:
    """Leave out times of day, durations, versions and places."""
    if isinstance(found, dict):
        left_out = ("seconds", "provenance", "url", "store", "created", "began")
        return {name: stable(value) for name, value in found.items() if name not in left_out}
    return [stable(value) for value in found] if isinstance(found, list) else found


def unpacked(release: Path, folder: Path) -> str:
    """Unpack what a released version has left behind; return the URL of its store."""
    with tarfile.open(release) as file:
        file.extractall(folder, filter="data")
    return f"sqlite:///{folder}/campaigns.db"


def stood(release: Path) -> Any:
    """Return how the campaigns of a released version stood when it left them, by name."""
    with tarfile.open(release) as file:
        found = file.extractfile("standing.json")
        assert found is not None
        return json.load(found)


def standing(campaign: fp.Campaign) -> Any:
    """Return what a campaign says of itself, as plain data."""
    told = {
        "status": campaign.status(),
        "verdict": campaign.verdict(),
        "ledger": campaign.ledger(),
        "offers": campaign.offers(),
        "bans": campaign.bans(),
        "audit": campaign.audit(),
    }
    return json.loads(msgspec.json.encode(told, enc_hook=str))


STUDY = """\
title = "A study"
seed = 3
runs = 4
horizon = 300
game = "toy"

[principals.authors]
rule = { kind = "paper", bound = "simplified", scale = 0.1, delta = 0.05 }

[principals.certified]
rule = { kind = "certified", delta = 0.1 }
observe = "share:0.5"

[sweep]
"principals.*.rule.delta" = [0.05, 0.1]
"""


def release(target: Path) -> None:
    """Write what this version leaves behind into one file."""
    assert not target.exists(), f"{target} is that of a released version"
    told = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, story in stories.STORIES.items():
            with story(f"sqlite:///{folder}/campaigns.db", stories.Clock()) as campaign:
                told[name] = standing(campaign)
        (folder / "standing.json").write_text(json.dumps(told, indent=1) + "\n")
        (folder / "study.toml").write_text(STUDY)
        fp.studies.run(fp.studies.read(folder / "study.toml"), folder / "study", workers=1, progress=False)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as file:
            for path in sorted(it for it in folder.rglob("*") if it.is_file()):
                info = tarfile.TarInfo(str(path.relative_to(folder)))
                info.size = path.stat().st_size
                with path.open("rb") as content:
                    file.addfile(info, content)
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def main(wanted: list[str]) -> None:
    """Write what is asked for."""
    if wanted == ["release"]:
        release(RELEASES / f"{fp.__version__}.tar.gz")
        return
    for name in wanted:
        made = {"paths": paths, "openapi": openapi, "commands": commands}[name]()
        (HERE / f"{name}.json").write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
