"""`freepull serve` and `freepull token`: the live principal over HTTP, and who may ask it.

A running service on SQLite has the file to itself; then tokens are made with --server.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from freepull.cli.configuration import from_environment, one_store, read_file, setting, use_password
from freepull.cli.screen import AsJson, By, answer, sentence_errors, show_rows, token
from freepull.errors import CampaignBusy, InvalidInput
from freepull.messages import TokenEntry, TokenRow

if TYPE_CHECKING:
    from freepull.client.client import Client
    from freepull.server.auth import Tokens

app = typer.Typer(help="Tokens for the service.", no_args_is_help=True, rich_markup_mode="rich")
Store = Annotated[str | None, typer.Option(help="sqlite:///file.db or postgresql://…, while no service has the file.")]
Where = Annotated[
    str | None, typer.Option(help="Or a running service, http://…; an admin's token in FREEPULL_TOKEN is sent.")
]
SCOPE = "admin; operator (starts, pauses, resumes, sees to people); read (looks only); or gateway (tells for agents)."
NEW = """Make a token. It is shown once.

Example: freepull token new --store sqlite:///trial.db --scope admin --label "ann's laptop"

Example: freepull token new --store sqlite:///trial.db --campaign onboarding --agent user-17"""


def _one(store: str | None, server: str | None, by: str = "") -> str | None:
    """Return the store, which the environment may name where the command line names neither."""
    if server is not None and by:
        raise InvalidInput("--by must be left out with --server, because the audit names the token.")
    if store is None and server is None:
        store = from_environment("STORE")
    if (store is None) == (server is None):
        raise InvalidInput(
            "tokens are in a store or with a running service; give --store or --server, not both, or FREEPULL_STORE."
        )
    return store


@contextmanager
def _tokens(store: str, new: bool = False) -> Iterator[Tokens]:
    from freepull.campaigns.stores.base import without_password
    from freepull.server.auth import Tokens

    try:
        tokens = Tokens(store, new)
    except CampaignBusy:
        raise CampaignBusy(
            f"{without_password(store)} is open in another process; if that is a service, give its address as --server "
            "instead of --store, with an admin's token in FREEPULL_TOKEN, or stop it first."
        ) from None
    try:
        yield tokens
    finally:
        tokens.close()


def _client(server: str) -> Client:
    from freepull.client.client import Client

    return Client(server, token())


@app.command("new", help=NEW)
@sentence_errors
def new(
    store: Store = None,
    server: Where = None,
    scope: Annotated[str, typer.Option(help=SCOPE)] = "read",
    campaign: Annotated[str, typer.Option(help="The only campaign it is for; all if left out.")] = "",
    agent: Annotated[str | None, typer.Option(help="Make an agent's token, for this agent of --campaign.")] = None,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    lasts: Annotated[str | None, typer.Option(help="Such as '30 days'; an agent's lasts 30 days by default.")] = None,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """See NEW."""
    store = _one(store, server, by)
    if agent is not None and not campaign:
        raise InvalidInput("--agent must come with --campaign, because an agent's token is for one campaign.")
    made: dict[str, Any]
    if agent is not None:
        made = {"agent": agent, "token": _agent_token(store, server, campaign, agent, lasts or "30 days", by)}
    elif store is not None:
        from freepull.server.auth import check_new

        check_new(scope, label, lasts)  # before a file is made
        with _tokens(store, new=not campaign) as tokens:
            secret, row = tokens.new(scope, campaign, label, lasts, by)
            made = {"id": row.id, "token": secret}
    else:
        with _client(server or "") as client:
            made = msgspec.structs.asdict(client.new_token(scope, campaign=campaign, label=label, lasts=lasts))
    answer(made, as_json, made["token"])


def _agent_token(store: str | None, server: str | None, campaign: str, agent: str, lasts: str, by: str) -> str:
    if store is None:
        with _client(server or "") as client:
            (made,) = client.campaign(campaign).agent_tokens([agent], lasts).values()
            return made
    from freepull.campaigns.directory import Register
    from freepull.campaigns.journal.recovery import settings_of
    from freepull.campaigns.stores import connect

    with _tokens(store) as tokens, closing(connect(store)) as campaigns:
        settings = settings_of(campaigns, campaign)
        register = Register(campaign, settings.arms, settings.price.currency)
        register.enrolled = 1 << 32
        for number, name in campaigns.read(campaign, "names"):
            register.add(number, name)
        return tokens.sign(campaign, [register.agent(agent)], lasts, by)[0]


@app.command("revoke", help="End a token.\n\nExample: freepull token revoke 3f2a90c1d4e5 --store sqlite:///trial.db")
@sentence_errors
def revoke(
    id: Annotated[str, typer.Argument(help="The token's id, see freepull token list.")],
    store: Store = None,
    server: Where = None,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """See the help."""
    store = _one(store, server, by)
    if store is not None:
        with _tokens(store) as tokens:
            tokens.revoke(id, by)
    else:
        with _client(server or "") as client:
            client.revoke_token(id)
    answer({"revoked": id}, as_json, f"{id} is revoked")


@app.command("list", help="List tokens.\n\nExample: freepull token list --store sqlite:///trial.db")
@sentence_errors
def show(store: Store = None, server: Where = None, as_json: AsJson = False) -> None:
    """See the help."""
    store = _one(store, server)
    if store is not None:
        with _tokens(store) as tokens:
            rows = tokens.rows()
    else:
        with _client(server or "") as client:
            rows = client.tokens()
    show_rows(rows, TokenRow, as_json)


@app.command(
    "audit",
    help="Show who has made and revoked tokens.\n\nExample: freepull token audit --store sqlite:///trial.db",
)
@sentence_errors
def audit(store: Store = None, server: Where = None, as_json: AsJson = False) -> None:
    """See the help."""
    store = _one(store, server)
    if store is not None:
        with _tokens(store) as tokens:
            entries = tokens.audit()
    else:
        with _client(server or "") as client:
            entries = client.token_audit()
    show_rows(entries, TokenEntry, as_json)


HELP = """Serve all campaigns of a store over HTTP, with a dashboard at /.

Every option may also stand in the environment (FREEPULL_PORT) or in the TOML file of --config (port).
The command line counts first, then the environment, then the file.

Example: freepull serve --store sqlite:///trial.db --port 8000"""


@sentence_errors
def command(
    context: typer.Context,
    store: Annotated[str | None, setting("sqlite:///file.db or postgresql://…", "store")] = None,
    store_file: Annotated[
        Path | None, setting("Or a file that holds this URL, so that no password is seen.", "store_file")
    ] = None,
    password_file: Annotated[
        Path | None, setting("A file with the password of the PostgreSQL, if its URL has none.", "password_file")
    ] = None,
    port: Annotated[int, setting("The port; 0: any that is free.", "port", min=0, max=65535)] = 8000,
    host: Annotated[str, setting("Where to listen; behind a proxy leave it as it is.", "host")] = "127.0.0.1",
    address: Annotated[
        str | None,
        setting("How others reach this process, such as https://a.example; by default host and port.", "address"),
    ] = None,
    waiting: Annotated[int, setting("Requests at a time; more get 503.", "waiting", min=1)] = 256,
    agent_rate: Annotated[
        float, setting("Requests a second of one agent; more get 429.", "agent_rate", min=0.01)
    ] = 20.0,
    certificate: Annotated[str | None, setting("TLS: a PEM file; with --key.", "certificate")] = None,
    key: Annotated[str | None, setting("TLS: the certificate's private key.", "key")] = None,
    first_token: Annotated[
        bool,
        setting("If the store has no token, make an admin's, and print it once.", "first_token", "--first-token"),
    ] = False,
    config: Annotated[
        Path | None,
        setting("A TOML file with these settings.", "config", is_eager=True, callback=sentence_errors(read_file)),
    ] = None,
) -> None:
    """See HELP."""
    from freepull.server.auth import Limits
    from freepull.server.server import run

    where = one_store(context, store, store_file)
    if password_file is not None:
        use_password(password_file, "--password-file")
    for name, file in (("--certificate", certificate), ("--key", key)):
        if (certificate is None) != (key is None) or (file is not None and not Path(file).is_file()):
            raise InvalidInput(f"{name} must be a PEM file that exists, and --certificate and --key go together.")
    if certificate is not None and key is not None:
        _check_tls(certificate, key)
    limits = Limits(waiting=waiting, agent_rate=agent_rate)
    tls = {"ssl_certfile": certificate, "ssl_keyfile": key}
    raise typer.Exit(run(where, host, port, address, limits, first_token, **tls))


def _check_tls(certificate: str, key: str) -> None:
    """Refuse files that TLS cannot use, before anything is served."""
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"--certificate and --key must be a certificate and its private key, in PEM and not encrypted ({error}); "
            "choose other files."
        ) from None
