"""What runs the service elsewhere: the image, the compose file, the systemd unit, as far as they can be tried here."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from freepull.cli import service
from freepull.server.server import notify

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
UNIT = (ROOT / "deploy" / "freepull.service").read_text()


def packages(*names: str) -> str:
    command = [sys.executable, str(ROOT / "deploy" / "packages.py"), *names]
    done: subprocess.CompletedProcess[str] = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def pinned(lock: str) -> set[str]:
    return set(re.findall(r"^[\w.-]+==\S+", lock, re.MULTILINE))


@pytest.mark.slow
def test_an_image_has_what_the_lock_has_for_the_service_and_no_more() -> None:
    lock, found = (ROOT / "requirements.txt").read_text(), packages("live")
    assert pinned(found) < pinned(lock)
    names = {re.sub(r"==.*", "", pin) for pin in pinned(found)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(it for e in ("client", "live") for it in project["optional-dependencies"][e])]
    named = {re.split(r"[\[><;= ]", it)[0] for it in wanted} - {"freepull"}
    assert named <= names
    assert {"psycopg-binary", "h11", "llvmlite", "uvloop"} <= names  # what these need in turn
    assert not {"pytest", "ruff", "sphinx", "playwright", "hypothesis", "schemathesis"} & names
    assert found.count("--hash=sha256:") > len(names)
    assert "://" not in found


def test_the_dockerfile_runs_the_script_that_is_tried_and_nothing_as_root() -> None:
    script = (ROOT / "deploy" / "image.sh").read_text()
    steps = re.findall(r"RUN sh deploy/image\.sh /opt/freepull (\w+)", DOCKERFILE)
    assert steps == ["packages", "freepull", "kernels"]
    assert all(f"  {step})" in script for step in steps)
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert last.index("USER 10001:10001") < last.index("ENTRYPOINT")
    for word in (
        "HEALTHCHECK",
        "VOLUME /var/lib/freepull",
        "STOPSIGNAL SIGTERM",
        "NUMBA_CACHE_DIR=/opt/freepull/kernels",
    ):
        assert word in last
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    ignored = (ROOT / ".dockerignore").read_text()
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
        assert f"!{name}\n" in ignored, name
    environment = set(re.findall(r"FREEPULL_[A-Z_]+(?==)", last))
    assert environment <= {it.envvar for it in _options()}


def _options() -> list[Any]:
    from inspect import signature

    hints = (it.annotation for it in signature(service.command, eval_str=True).parameters.values())
    return [it.__metadata__[0] for it in hints if hasattr(it, "__metadata__")]


@pytest.mark.slow
def test_hadolint_finds_nothing() -> None:
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_compose_file_waits_for_a_healthy_database_and_has_no_secret() -> None:
    ours, theirs = COMPOSE["services"]["freepull"], COMPOSE["services"]["postgres"]
    assert ours["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert "pg_isready" in theirs["healthcheck"]["test"]
    secret = "/run/secrets/postgres_password"
    assert ours["environment"]["FREEPULL_PASSWORD_FILE"] == theirs["environment"]["POSTGRES_PASSWORD_FILE"] == secret
    assert ours["secrets"] == theirs["secrets"] == list(COMPOSE["secrets"])
    assert COMPOSE["secrets"]["postgres_password"]["file"].startswith("./deploy/secrets/")
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text()
    assert ours["read_only"] is True
    assert (ours["cap_drop"], ours["tmpfs"]) == (["ALL"], ["/tmp"])
    assert all(port.startswith("127.0.0.1:") for port in ours["ports"])
    assert "ports" not in theirs
    named = {it.split(":")[0] for it in theirs["volumes"]}
    assert named <= set(COMPOSE["volumes"])
    for it in COMPOSE["services"].values():
        assert set(it["networks"]) <= set(COMPOSE["networks"])
    environment = {name for name in ours["environment"] if name.startswith("FREEPULL_")}
    assert environment <= {it.envvar for it in _options()}


def settings(unit: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_is_closed_and_has_its_secret_as_a_credential() -> None:
    told = settings(UNIT)
    for name in ("NoNewPrivileges", "DynamicUser", "PrivateTmp", "ProtectHome", "RestrictNamespaces"):
        assert told[name] == ["yes"], name
    assert told["ProtectSystem"] == ["strict"]
    assert told["StateDirectory"] == ["freepull"]
    assert told["LoadCredential"] == ["store:/etc/freepull/store"]
    assert "FREEPULL_STORE_FILE=%d/store" in told["Environment"]
    assert (told["Type"], told["Restart"]) == (["notify"], ["on-failure"])
    assert told["ExecStart"] == ["/opt/freepull/bin/freepull serve"]


def test_under_the_unit_a_forecast_may_give_way_and_does_not_take_the_service_along() -> None:
    told = settings(UNIT)
    assert told["SystemCallFilter"].index("setpriority") > told["SystemCallFilter"].index("~@privileged @resources")
    assert told["OOMPolicy"] == ["continue"]


@pytest.mark.slow
def test_systemd_can_read_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "freepull.service"
    unit.write_text(UNIT.replace("/opt/freepull/bin/freepull serve", shutil.which("true") or ""))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_systemd_is_told_when_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (str(tmp_path / "notify"), f"@freepull-{os.getpid()}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.bind(place.replace("@", "\0"))
            monkeypatch.setenv("NOTIFY_SOCKET", place)
            notify("READY=1")
            assert line.recv(100) == b"READY=1"
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify("READY=1")


@pytest.mark.slow
def test_what_the_script_makes_serves_as_somebody_else_from_folders_that_are_read_only(tmp_path: Path) -> None:
    """All steps of the Dockerfile need a quarter of an hour and the network: FREEPULL_IMAGE names a folder that
    ``deploy/image.sh FOLDER packages``, ``freepull`` and ``kernels`` have filled. Without it, the last two steps of
    the way are taken with this installation: another user, a store of its own, and the health check.
    """
    made = os.environ.get("FREEPULL_IMAGE")
    program = [f"{made}/bin/freepull"] if made else [sys.executable, "-m", "freepull"]
    python = f"{made}/bin/python" if made else sys.executable
    somebody: dict[str, Any] = {}
    if made and os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        somebody = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(tmp_path, nobody.pw_uid, nobody.pw_gid)
        for folder in tmp_path.parents:
            if folder.is_relative_to("/tmp/") and folder != Path("/tmp"):
                folder.chmod(0o755)
    environment = {
        "PATH": os.environ["PATH"],
        "FREEPULL_STORE": f"sqlite:///{tmp_path}/freepull.db",
        "HOME": "/nonexistent",
    }
    if made:
        environment |= {"NUMBA_CACHE_DIR": f"{made}/kernels", "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    else:
        environment |= {name: os.environ[name] for name in ("NUMBA_CACHE_DIR", "PYTHONPATH") if name in os.environ}
    more: dict[str, Any] = {"env": environment, "cwd": tmp_path, **somebody}
    token = subprocess.run(
        [*program, "token", "new", "--scope", "admin", "--json"], capture_output=True, text=True, check=False, **more
    )
    assert token.returncode == 0, token.stderr
    if made:
        warm = subprocess.run([*program, "warm", "--json"], capture_output=True, text=True, check=False, **more)
        assert warm.returncode == 0, warm.stderr
        assert set(json.loads(warm.stdout)["compiled"].values()) == {0}
    process = subprocess.Popen([*program, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True, **more)
    try:
        assert process.stderr is not None
        address = json.loads(process.stderr.readline())["address"]
        command = re.search(r'CMD \["python", "-c", "(.*)"\]', DOCKERFILE)
        assert command is not None
        check = command[1].replace(r"\"", '"')
        environment["FREEPULL_PORT"] = address.rpartition(":")[2]
        for _ in range(100):
            done = subprocess.run([python, "-c", check], capture_output=True, check=False, **more)
            if done.returncode == 0:
                break
        assert done.returncode == 0, done.stderr
    finally:
        process.terminate()
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    gone = subprocess.run([python, "-c", check], capture_output=True, check=False, **more)
    assert gone.returncode != 0
