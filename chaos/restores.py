"""kill -9 while a backup is restored, an old write-ahead log beside the store: what is left is old or new."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from freepull.campaigns.files import restore
from freepull.campaigns.journal.recovery import Report, verify
from freepull.errors import FreepullError

from .outcome import Finding, finding
from .world import AGENTS, NAME, create, pull

CALLS = ("link", "unlink", "rename", "fsync", "open", "stat", "chmod")
"""Functions of the operating system at which a restore is killed."""
STEPS = 60
"""It makes fewer such calls than this."""
BEFORE, AFTER = 80, 60
"""Pulls in the backup, and pulls that the store has more."""


def run(restores: int = 200) -> Finding:
    """Kill most restores at one call after the other, the rest at random moments; then let them end."""
    with finding(f"{restores} restores, killed") as found, tempfile.TemporaryDirectory() as folder:
        scene, rng, left = Path(folder) / "scene", random.Random(2), Counter[str]()
        old, new = _prepare(scene)
        restored = 0
        for turn in range(restores):
            place = Path(folder) / f"{turn}"
            shutil.copytree(scene, place)
            url, backup = f"sqlite:///{place}/trial.db", place / "backup.db"
            _killed(url, backup, turn * 7 % STEPS if turn % 4 else None, rng.uniform(0.0, 0.3))
            after = verify(url, NAME)
            left["old" if after == old else "new" if after == new else "mixed"] += 1
            with suppress(FreepullError):
                restored += restore(url, backup).campaigns == [new] and verify(url, NAME) == new
            kept = sorted(place.glob("trial.db.before-*"))
            found.demand(
                all(verify(f"sqlite:///{it}", NAME) in (old, new) for it in kept),
                f"restore {turn}: what is kept is lost",
            )
            found.demand(backup.read_bytes() == (scene / "backup.db").read_bytes(), f"restore {turn}: another backup")
            shutil.rmtree(place)
        found.demand(left["mixed"] == 0, f"{left['mixed']} kills left a mixture")
        found.demand(restored == restores, f"only {restored} of {restores} backups were restored in the end")
        found.demand(left["old"] > 0 and left["new"] > 0, "every kill came before or after the change; kill elsewhere")
        found.figures |= {"killed and old": left["old"], "killed or done and new": left["new"], "mixed": left["mixed"]}
        found.figures["restored in the end"] = restored
        return found


def _prepare(scene: Path) -> tuple[Report, Report]:
    """Make a backup, and a store that has gone on and crashed; return what each of them has."""
    live, rng = scene / "live", random.Random(1)
    live.mkdir(parents=True)
    campaign = create(f"sqlite:///{live}/trial.db")
    for number in range(BEFORE + AFTER):
        if number == BEFORE:
            campaign.backup(scene / "backup.db")
        campaign.tell(*pull(rng, None, number, rng.randrange(AGENTS)))
    for file in live.iterdir():
        shutil.copy(file, scene / file.name)
    campaign.close()
    shutil.rmtree(live)
    with tempfile.TemporaryDirectory() as other:
        shutil.copytree(scene, Path(other) / "x")
        return verify(f"sqlite:///{other}/x/trial.db", NAME), verify(f"sqlite:///{other}/x/backup.db", NAME)


def _killed(url: str, backup: Path, step: int | None, seconds: float) -> None:
    """Restore in a process of its own, which is killed at its nth call of the system, or after some seconds."""
    child = os.fork()
    if child == 0:
        try:
            if step is not None:
                _die_at(step)
            restore(url, backup)
        finally:
            os._exit(0)
    if step is None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _die_at(step: int) -> None:
    left = step

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **more)

        return run

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
