"""A real PostgreSQL for tests, from pip or the system: started in a folder of its own, killed; also by root."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

PATIENCE = 60.0


class PostgresServer:
    """One server with one database, reachable through a socket."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="freepull-pg-"))
        self.data, self.sockets = self.root / "data", self.root / "s"
        self.as_user: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses root
            nobody = pwd.getpwnam("nobody")
            self.as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            self.root.chmod(0o755)
        self.programs = self._from_pip() or self._of_the_system()
        for folder in (self.data, self.sockets):
            folder.mkdir(mode=0o700)
            if self.as_user:
                os.chown(folder, self.as_user["user"], self.as_user["group"])
        made = [
            str(self.programs / "initdb"),
            "-D",
            str(self.data),
            *["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"],
        ]
        subprocess.run(made, check=True, capture_output=True, cwd=self.root, **self.as_user)
        self.process: subprocess.Popen[bytes] | None = None

    def _from_pip(self) -> Path | None:
        """Return the folder of the programs that pip installed; it has none for Python 3.13 and later."""
        installed = find_spec("pgserver")
        if installed is None or installed.origin is None:
            return None
        package = Path(installed.origin).parent
        if self.as_user:  # nobody else may be able to read our packages
            for part in package.parent.glob(f"{package.name}*"):
                shutil.copytree(part, self.root / part.name, symlinks=True)
            package = self.root / package.name
        return package / "pginstall" / "bin"

    @staticmethod
    def _of_the_system() -> Path:
        """Return the folder of the newest programs that the system has, where Debian and others put them."""
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4]))
        on_path = shutil.which("initdb")
        assert found or on_path, "pip install pgserver, or install a PostgreSQL"
        return found[-1].parent if found else Path(str(on_path)).parent

    @property
    def url(self) -> str:
        """How to connect."""
        return f"postgresql://postgres@/postgres?host={self.sockets}"

    def start(self, *options: str) -> None:
        """Start, however long the one that was killed takes to die, and wait until it answers."""
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            command = [
                str(self.programs / "postgres"),
                "-D",
                str(self.data),
                "-k",
                str(self.sockets),
                "-c",
                "listen_addresses=",
            ]
            with (self.root / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    [*command, *options], stdout=log, stderr=log, cwd=self.root, **self.as_user
                )
            while self.process and self.process.poll() is None and time.monotonic() < limit:
                with contextlib.suppress(psycopg.OperationalError):
                    psycopg.connect(self.url, connect_timeout=2).close()
                    return
                time.sleep(0.02)
            time.sleep(0.1)
        raise RuntimeError((self.root / "log").read_text()[-2000:])

    def settle(self) -> None:
        """Wait until nothing is under way any more for clients that were killed."""
        others = (
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        with psycopg.connect(self.url, autocommit=True) as connection:
            while connection.execute(others).fetchone() != (0,):
                time.sleep(0.005)

    def kill(self) -> None:
        """Kill it and all of its processes at once, as a crash would."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        theirs = children.read_text().split() if children.exists() else []  # elsewhere they notice, and die
        self.process.kill()
        for child in theirs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Kill it and remove everything."""
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
