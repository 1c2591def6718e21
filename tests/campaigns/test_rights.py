"""Files and folders that this user may not read or write are refused in a sentence, and nothing changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import json, os, sys, warnings
from pathlib import Path
import freepull as fp
from freepull.campaigns.files import restore
from freepull.campaigns.stores import replacing, sqlite
from support.staging import EACH
warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
url = f"sqlite:///{folder}/trial.db"
made = {"name": "x", "arms": 2, "agents": 2, "price": "1 EUR", "principal": EACH}
with fp.Campaign.create(url, **made) as campaign:
    campaign.backup(folder / "backup.db")
(folder / "mine").mkdir(mode=0o777)
(folder / "mine").chmod(0o777)
if os.geteuid() == 0:
    os.seteuid(65534)
said = {}

def tried(name, act, file=0o444, of=0o555):
    if os.geteuid() == 65534:
        os.seteuid(0)
    (folder / "trial.db").chmod(file)
    folder.chmod(of)
    if os.geteuid() == 0:
        os.seteuid(65534)
    before = {it: it.read_bytes() for it in folder.iterdir() if it.is_file()} if of & 4 and file & 4 else {}
    try:
        said[name] = f"done: {act()}"
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
    assert not before or before == {it: it.read_bytes() for it in folder.iterdir() if it.is_file()}, name

tried("file", lambda: fp.Campaign.open(url, "x"))
tried("folder", lambda: fp.Campaign.open(url, "x"), file=0o666)
tried("unreadable", lambda: fp.Campaign.open(url, "x"), file=0o000, of=0o777)
tried("closed folder", lambda: fp.Campaign.open(url, "x"), of=0o000)
tried("new", lambda: fp.Campaign.create(f"sqlite:///{folder}/new.db", **made))
tried("new in a closed folder", lambda: fp.Campaign.create(f"sqlite:///{folder}/new.db", **made), of=0o000)
tried("restore", lambda: restore(url, folder / "backup.db"))
tried("restore a new file", lambda: restore(f"sqlite:///{folder}/new.db", folder / "backup.db"))
tried("restore elsewhere", lambda: len(restore(f"sqlite:///{folder}/mine/x.db", folder / "backup.db").campaigns))
tried("restore from a closed folder", lambda: restore(f"sqlite:///{sys.argv[2]}/x.db", folder / "backup.db"), of=0o000)
print(json.dumps(said))
"""


def test_what_may_not_be_written_is_a_sentence(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder.name.startswith(("test_", "popen-", "pytest-")):
            folder.chmod(0o755)
    (tmp_path / "store").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other").chmod(0o777)
    place = [str(Path(__file__).parents[1])]
    code = f"import sys; sys.path[:0] = {place!r}\n{PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store"), str(tmp_path / "other")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    (tmp_path / "store").chmod(0o755)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said.pop("restore elsewhere") == "done: 1"
    assert said.pop("restore from a closed folder").endswith("x.db: Permission denied.")
    for what, sentence in said.items():
        assert sentence.startswith("StoreError: "), (what, sentence)
        assert "this user may not" in sentence, (what, sentence)
        assert sentence.endswith("."), (what, sentence)
