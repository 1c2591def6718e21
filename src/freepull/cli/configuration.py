"""Where `freepull serve` has its settings from, and secrets that stand on no command line.

The command line counts first, then FREEPULL_… of the environment, then the TOML file of --config, then the default.
Secrets are read from files: the URL of a store, the password of a PostgreSQL, and the token that commands send.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import typer

from freepull import validation
from freepull.errors import InvalidInput

PREFIX = "FREEPULL_"
MOST = 1 << 16
"""Bytes of a file with a secret."""
SOURCES = ("COMMANDLINE", "ENVIRONMENT", "DEFAULT_MAP")
"""Where a setting may come from, the one that counts first at the front, as Click calls them."""
WHOLE, NUMBER, FLAG = ((int,), "a whole number"), ((int, float), "a number"), ((bool,), "true or false")
KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "port": WHOLE,
    "waiting": WHOLE,
    "agent_rate": NUMBER,
    "first_token": FLAG,
}
"""What a file must have for an option; for any other, a text."""


def setting(help: str, name: str, *flags: str, **more: Any) -> Any:
    """Return an option that the environment can set as well."""
    return typer.Option(*flags, help=help, envvar=PREFIX + name.upper(), **more)


def read_file(context: typer.Context, path: Path | None) -> Path | None:
    """Take settings from a TOML file; a key that is no option is refused."""
    if path is None:
        return None
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"--config {path} could not be read: {error.strerror}; choose another file.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        place = str(error).partition(" (")[2].rstrip(")")  # what stands there may be a secret
        raise InvalidInput(f"--config {path} must be TOML, and is not ({place or 'no UTF-8'}); mend it.") from None
    options = sorted(str(it.name) for it in context.command.params if it.name not in ("config", "help"))
    for key, value in told.items():
        validation.one_of(f"a setting in {path}", key, options)
        kinds, words = KINDS.get(key, ((str,), "a text"))
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise InvalidInput(f"{key} in {path} must be {words}; change it, or leave it out.")
    context.default_map = told
    return path


def one_store(context: typer.Context, store: str | None, file: Path | None) -> str:
    """Return the URL of the store, from wherever it counts first."""
    places = {name: _place(context, name) for name, it in (("store", store), ("store_file", file)) if it is not None}
    if len(places) == 2 and places["store"] == places["store_file"]:
        raise InvalidInput("--store and --store-file must not both be given in one place; leave one of them out.")
    if not places:
        raise InvalidInput(
            "--store must be given, as sqlite:///file.db or postgresql://…; on the command line, as FREEPULL_STORE, in "
            "the file of --config, or in a file of its own that --store-file or FREEPULL_STORE_FILE names."
        )
    if min(places, key=lambda name: places[name]) == "store":
        return str(store)
    return secret("--store-file", file or Path())


def _place(context: typer.Context, name: str) -> int:
    source = context.get_parameter_source(name)
    return SOURCES.index(source.name) if source is not None and source.name in SOURCES else len(SOURCES)


def secret(name: str, path: Path) -> str:
    """Return what a file holds, without the end of its line; messages name the file and never its content."""
    try:
        with path.open("rb") as file:
            held = file.read(MOST + 1)
    except OSError as error:
        raise InvalidInput(f"{name} must name a file that can be read, got {str(path)!r} ({error.strerror}).") from None
    try:
        text = held.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        text = ""
    if not text or len(held) > MOST or len(text.splitlines()) != 1:
        raise InvalidInput(f"{name} must name a file that holds one line of text, and {str(path)!r} does not.")
    return text


def from_environment(name: str) -> str | None:
    """Return a secret of the environment: FREEPULL_NAME, or what the file FREEPULL_NAME_FILE holds; not both."""
    given, file = os.environ.get(PREFIX + name, ""), os.environ.get(f"{PREFIX}{name}_FILE", "")
    if given and file:
        raise InvalidInput(f"{PREFIX}{name} and {PREFIX}{name}_FILE must not both be set; leave one of them out.")
    return secret(f"{PREFIX}{name}_FILE", Path(file)) if file else given or None


def use_password(path: Path, name: str = f"{PREFIX}PASSWORD_FILE") -> None:
    """Let PostgreSQL's library have the password of a file, for every connection whose URL has none.

    It goes by the environment of this process from here on, which neither `ps` nor /proc shows.
    """
    os.environ["PGPASSWORD"] = secret(name, path)
