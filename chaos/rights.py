"""Rights: whatever a user may not read or write is refused in a sentence, changes nothing, and can be mended."""

from __future__ import annotations

import json
import os
import random
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import freepull as fp
from freepull.campaigns.files import copy, restore
from freepull.campaigns.journal.recovery import verify
from freepull.campaigns.stores import connect

from .outcome import Finding, finding
from .world import ASKING, NAME, create, forked, right

NOBODY, TOLD = 65534, 5
BITS = range(8)
Files = dict[str, bytes]


def run(turns: int = 150) -> Finding:
    """Give files and their folder one combination of rights after the other, and let another user do everything."""
    with finding(f"{turns} combinations of rights") as found, tempfile.TemporaryDirectory() as folder:
        said = Counter[str]()
        Path(folder).chmod(0o755)
        _warm(Path(folder) / "warm")
        for turn in range(turns):
            _turn(Path(folder) / str(turn), random.Random(turn), found, said)
        found.figures |= dict(said.most_common())
        return found


def _acts(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return everything that can be done with a store, by its name."""
    url, mine = f"sqlite:///{folder}/store/trial.db", folder / "mine"

    def tell() -> None:
        with fp.Campaign.open(url, NAME) as campaign:
            campaign.ask(0)
            campaign.tell(0, 0, 0.5)

    def backup() -> None:
        with closing(connect(url)) as store:
            store.backup(mine / "copy.db")

    return {
        "tell": tell,
        "create": lambda: create(f"sqlite:///{folder}/store/new.db").close(),
        "verify": lambda: verify(url, NAME),
        "backup": backup,
        "restore": lambda: restore(url, folder / "good.db"),
        "restore elsewhere": lambda: restore(f"sqlite:///{mine}/trial.db", folder / "store" / "trial.db"),
        "copy": lambda: copy(url, f"sqlite:///{mine}/copied.db", NAME),
    }


def _stage(folder: Path, crashed: bool) -> None:
    """Make a store with a campaign, closed or left by a crash, a backup of it, and a folder that is anybody's."""
    (folder / "store").mkdir(parents=True)
    (folder / "mine").mkdir()
    (folder / "mine").chmod(0o777)
    folder.chmod(0o755)
    child = os.fork()
    if child == 0:
        try:
            campaign = create(f"sqlite:///{folder}/store/trial.db", principal=ASKING)
            for agent in range(TOLD):
                campaign.tell(agent, 0, 0.5)
            campaign.backup(folder / "good.db")
            (folder / "good.db").chmod(0o644)
            if not crashed:
                campaign.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _warm(folder: Path) -> None:
    """Load what the processes will call, which another user may not be able to read."""
    _stage(folder, crashed=True)
    for act in _acts(folder).values():
        act()


def _turn(folder: Path, rng: random.Random, found: Finding, said: Counter[str]) -> None:
    crashed, act = rng.random() < 0.5, rng.choice(list(_acts(folder)))
    _stage(folder, crashed)
    store = folder / "store"
    for it in (*store.iterdir(), store):
        bits = rng.choice([*BITS, 7, 7, 7])
        it.chmod(bits << 6 | bits if os.geteuid() else 0o600 | bits)
    before = _files(store)
    outcome = _as_another(folder, act)
    after = _files(store)
    kind = outcome.partition(":")[0]
    said[f"{act}: {kind}"] += 1
    where = f"{folder.name}, {act}, {'crashed' if crashed else 'closed'}: {outcome}"
    found.demand(kind == "done" or (kind == "refused" and outcome.endswith(".")), where)
    found.demand(
        kind == "done" or before == after, f"{where} changed {[k for k in before if before[k] != after.get(k)]}"
    )
    for it in (store, *store.iterdir()):
        it.chmod(0o777)
    wrong = right(f"sqlite:///{store}/trial.db")
    found.demand(not wrong, f"{where}, and then {wrong}")


def _files(folder: Path) -> Files:
    """Return every file; where even its owner may not look, nothing."""
    if os.geteuid():
        return {}
    return {it.name: it.read_bytes() for it in sorted(folder.iterdir())}


def _as_another(folder: Path, act: str) -> str:
    """Do something in a process that is nobody's; return what came of it."""

    def work(writing: int) -> None:
        warnings.simplefilter("ignore")
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        os.write(writing, json.dumps(_tried(_acts(folder)[act])).encode())

    child, reading = forked(work)
    with open(reading, "rb") as pipe:
        heard = pipe.read()
    os.waitpid(child, 0)
    return str(json.loads(heard or b'"died: without a word"'))


def _tried(act: Callable[[], Any]) -> str:
    try:
        act()
        return "done"
    except fp.errors.FreepullError as error:
        return f"refused: {error}"
    except BaseException as error:
        return f"raised: {type(error).__name__}: {error}"
