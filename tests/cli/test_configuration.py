"""Settings of `freepull serve`: what counts first, what is refused, and secrets that are never shown."""

from __future__ import annotations

import json
import os
import time
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import typer

from chaos.postgres_server import PostgresServer
from freepull.campaigns.stores import connect
from freepull.campaigns.stores.base import without_password
from freepull.cli import service
from freepull.cli.service import FLAG, KINDS, NUMBER, WHOLE
from freepull.errors import FreepullError
from load.traffic import Process
from support.program import check_refusal, inside

SECRET = "sesame-0815"
PLAIN: dict[Any, Any] = {int: WHOLE, float: NUMBER, bool: FLAG}
FIELDS = ("where", "host", "port", "address", "limits", "first_token", "provider", "traces", "targets")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `serve` would have served."""
    seen: list[dict[str, Any]] = []

    def serve(*given: Any, **more: Any) -> int:
        seen.append(dict(zip(FIELDS, given, strict=True)) | more)
        return 0

    monkeypatch.setattr("freepull.server.server.run", serve)
    for name in list(os.environ):
        if name.startswith(("FREEPULL_", "PGPASS")):
            monkeypatch.delenv(name)
    return seen


def parameters() -> list[tuple[str, Parameter]]:
    found = signature(service.command, eval_str=True).parameters.items()
    return [(name, it) for name, it in found if hasattr(it.annotation, "__metadata__")]


def options() -> list[typer.models.OptionInfo]:
    return [it.annotation.__metadata__[0] for _, it in parameters()]


def test_every_option_can_stand_in_the_environment() -> None:
    names = [it for it in signature(service.command).parameters if it != "context"]
    assert [it.envvar for it in options()] == [f"FREEPULL_{name.upper()}" for name in names]
    others = {name: it.annotation.__args__[0] for name, it in parameters() if it.annotation.__args__[0] in PLAIN}
    assert {name: PLAIN[kind] for name, kind in others.items()} == KINDS


def test_the_command_line_counts_before_the_environment_the_file_and_the_default(
    run: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "freepull.toml"
    file.write_text('store = "sqlite:///file.db"\nport = 1\nhost = "::1"\nwaiting = 3\nagent_rate = 4\n')
    assert inside("serve", "--config", file).returncode == 0
    monkeypatch.setenv("FREEPULL_CONFIG", str(file))
    monkeypatch.setenv("FREEPULL_PORT", "2")
    monkeypatch.setenv("FREEPULL_HOST", "127.0.0.2")
    monkeypatch.setenv("FREEPULL_FIRST_TOKEN", "1")
    assert inside("serve", "--host", "127.0.0.3").returncode == 0
    first, second = run
    assert (first["where"], first["port"], first["host"], first["first_token"]) == (
        "sqlite:///file.db",
        1,
        "::1",
        False,
    )
    assert (first["limits"].waiting, first["limits"].agent_rate, first["address"]) == (3, 4.0, None)
    assert (second["port"], second["host"], second["first_token"]) == (2, "127.0.0.3", True)
    assert (second["where"], second["limits"].waiting) == ("sqlite:///file.db", 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", ["'prot'", "must be one of address, agent_rate", "did you mean 'port'?"]),
        ("config = 'other.toml'", ["must be one of"]),
        ('port = "8000"', ["port in", "must be a whole number"]),
        ("port = true", ["must be a whole number"]),
        ("first_token = 1", ["must be true or false"]),
        ("store = 3", ["store in", "must be a text"]),
        ("[serve]\nport = 1", ["must be one of"]),
        (f'store = "postgresql://u:{SECRET}@h/d', ["must be TOML", "at end of document"]),
        (f'store = "a"\nstore = "{SECRET}"', ["must be TOML"]),
    ],
)
def test_a_file_with_something_else_is_refused(
    run: list[dict[str, Any]], tmp_path: Path, text: str, words: list[str]
) -> None:
    file = tmp_path / "freepull.toml"
    file.write_text(text)
    done = inside("serve", "--config", file, "--store", "sqlite:///a.db")
    check_refusal(done, words)
    assert SECRET not in done.stderr
    assert run == []


def test_a_file_that_is_not_there_is_refused(run: list[dict[str, Any]], tmp_path: Path) -> None:
    check_refusal(inside("serve", "--config", tmp_path / "no.toml"), ["--config", "could not be read"])
    check_refusal(inside("serve"), ["--store must be given", "FREEPULL_STORE", "--store-file"])


def test_the_store_may_stand_in_a_file_of_its_own(
    run: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "store"
    file.write_text("sqlite:///secret.db\n")
    monkeypatch.setenv("FREEPULL_STORE_FILE", str(file))
    assert inside("serve").returncode == 0
    assert inside("serve", "--store", "sqlite:///other.db").returncode == 0
    assert [it["where"] for it in run] == ["sqlite:///secret.db", "sqlite:///other.db"]
    check_refusal(inside("serve", "--store", "a", "--store-file", file), ["must not both be given"])
    for content in (b"", b"\n", b"a\nb\n", b"\xff", b"a" * 70_000):
        file.write_bytes(content)
        check_refusal(inside("serve"), ["--store-file must name a file that holds one line"])
    file.unlink()
    check_refusal(inside("serve"), ["--store-file must name a file that can be read"])


def test_a_provider_is_set_like_everything_else(
    run: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    file = tmp_path / "freepull.toml"
    file.write_text('store = "sqlite:///a.db"\noidc_issuer = "https://id.example"\noidc_admin = "owners, it"\n')
    monkeypatch.setenv("FREEPULL_OIDC_SECRET_FILE", str(tmp_path / "secret"))
    assert inside("serve", "--config", file, "--oidc-client", "trial").returncode == 0
    made = run[0]["provider"]("https://freepull.example")
    assert (made.issuer, made.client, made.secret) == ("https://id.example", "trial", SECRET)
    assert made.allowed == {"admin": ("owners", "it"), "operator": (), "read": ()}
    assert (made.claim, made.lasts, made.address) == ("groups", "8 hours", "https://freepull.example")
    check_refusal(inside("serve", "--store", "sqlite:///a.db"), ["--oidc-issuer must be given"])


def test_tokens_and_their_store_come_from_files_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").write_text(f"sqlite:///{tmp_path}/trial.db\n")
    (tmp_path / "token").write_text("fp_a_b\n")
    monkeypatch.setenv("FREEPULL_STORE_FILE", str(tmp_path / "store"))
    made = inside("token", "new", "--scope", "admin")
    assert (made.returncode, made.stdout.startswith("fp_")) == (0, True)
    assert inside("token", "list", "--json").stdout.count("admin") == 1
    monkeypatch.delenv("FREEPULL_TOKEN", raising=False)
    check_refusal(inside("token", "list", "--server", "http://127.0.0.1:9"), ["FREEPULL_TOKEN_FILE"])
    monkeypatch.setenv("FREEPULL_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("FREEPULL_TOKEN", "fp_c_d")
    check_refusal(inside("token", "list", "--server", "http://127.0.0.1:9"), ["must not both be set"])


def test_the_password_file_is_for_every_command_and_the_option_counts_first(
    run: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "")
    (tmp_path / "one").write_text("first one\n")
    (tmp_path / "two").write_text("second")
    monkeypatch.setenv("FREEPULL_PASSWORD_FILE", str(tmp_path / "one"))
    seen: list[str] = []

    def serve(*_: Any, **__: Any) -> int:
        seen.append(os.environ["PGPASSWORD"])
        return 0

    monkeypatch.setattr("freepull.server.server.run", serve)
    inside("serve", "--store", "postgresql://h/d")
    inside("serve", "--store", "postgresql://h/d", "--password-file", tmp_path / "two")
    assert seen == ["first one", "second"]
    (tmp_path / "one").unlink()
    check_refusal(inside("campaign", "list", "postgresql://h/d"), ["FREEPULL_PASSWORD_FILE must name a file"])


BAD_URLS = [
    f"postgre://ann:{SECRET}@db/freepull",
    f"postgresql://ann:{SECRET}@127.0.0.1:9/freepull",
    f"postgresql://ann:{SECRET}/@127.0.0.1:9/freepull",
    f"postgresql://ann:{SECRET}@127.0.0.1:x/freepull",
    f"postgresql://ann:{SECRET}/freepull",
    f"postgresql://ann:{SECRET}@[::1/freepull",
    f"postgresql://ann@127.0.0.1:9/freepull?password={SECRET}",
    f"postgresql://ann@127.0.0.1:9/freepull?password={SECRET}&nonsense=1",
    f"postgresql://ann:%zz{SECRET}@127.0.0.1:9/freepull",
    f"mysql://ann:{SECRET}@db?password={SECRET}",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_no_message_shows_a_password(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FreepullError) as found:
        connect(url)
    assert SECRET not in str(found.value)
    commands: list[tuple[Any, ...]] = [
        ("campaign", "list", url),
        ("campaign", "status", url, "c"),
        ("token", "list", "--store", url),
    ]
    for words in commands:
        done = inside(*words)
        assert (done.returncode, SECRET in done.stdout + done.stderr) == (2, False)


def test_a_url_is_shown_without_its_password() -> None:
    assert without_password("sqlite:///a@b.db") == "sqlite:///a@b.db"
    assert without_password("postgresql:///freepull") == "postgresql:///freepull"
    assert without_password(f"postgresql://a:{SECRET}@x@y/z") == "postgresql://a:…@y/z"


@pytest.mark.slow
def test_a_service_with_a_password_says_it_nowhere(server: PostgresServer, postgres: str, tmp_path: Path) -> None:
    """By a grep over all that a service prints, logs and answers, and over what others see of its process."""
    rules = server.data / "pg_hba.conf"
    rules.write_text("local all keeper scram-sha-256\n" + rules.read_text())
    with psycopg.connect(postgres, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"CREATE ROLE keeper LOGIN PASSWORD '{SECRET}'")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute(f'GRANT CREATE ON DATABASE "{name}" TO keeper')
    (tmp_path / "password").write_text(SECRET + "\n")
    url = without_user(postgres, "keeper")
    os.environ["FREEPULL_PASSWORD_FILE"] = str(tmp_path / "password")
    log = tmp_path / "log"
    try:
        admin = json.loads(inside("token", "new", "--store", url, "--scope", "admin", "--json").stdout)["token"]
        process = Process(url, log=log)
    finally:
        del os.environ["FREEPULL_PASSWORD_FILE"]
        os.environ.pop("PGPASSWORD", None)
    said = []
    try:
        at = Path(f"/proc/{process.process.pid}")
        said += [(at / "cmdline").read_text(), (at / "environ").read_text()]
        with httpx.Client(base_url=process.address, headers={"authorization": f"Bearer {admin}"}) as http:
            body = {"name": "c", "arms": 2, "agents": 2, "price": "1 EUR", "horizon": 9}
            said.append(http.post("/v1/campaigns", json=body).text)
            with psycopg.connect(postgres, autocommit=True) as connection:  # the store fails
                connection.execute("ALTER ROLE keeper NOLOGIN")
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper'")
            for _ in range(8):
                said += [http.get(path).text for path in ("/readyz", "/v1/campaigns", "/v1/campaigns/c", "/metrics")]
                time.sleep(0.5)
    finally:
        process.end()
    said.append(log.read_text())
    assert "keeper" in said[-1]
    assert not any(SECRET in text for text in said)


def without_user(url: str, user: str) -> str:
    """Return the same URL for another user."""
    found = psycopg.conninfo.conninfo_to_dict(url)
    host = str(found["host"]).replace("/", "%2F")
    return f"postgresql://{user}@/{found['dbname']}?host={host}"
