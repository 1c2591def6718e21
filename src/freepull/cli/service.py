"""`freepull serve` and `freepull token`: the live principal over HTTP, and who may ask it.

A running service on SQLite has the file to itself; then tokens are made with --server.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from freepull import validation
from freepull.cli.screen import (
    PREFIX,
    AsJson,
    By,
    answer,
    from_environment,
    secret,
    sentence_errors,
    show_rows,
    token,
    use_password,
)
from freepull.errors import CampaignBusy, InvalidInput
from freepull.messages import TokenEntry, TokenRow

if TYPE_CHECKING:
    from freepull.client.client import Client
    from freepull.server.auth import Tokens
    from freepull.server.oidc import Provider

Rows = TypeVar("Rows")
app = typer.Typer(help="Tokens for the service.", no_args_is_help=True, rich_markup_mode="rich")
Store = Annotated[str | None, typer.Option(help="sqlite:///file.db or postgresql://…, while no service has the file.")]
Where = Annotated[
    str | None, typer.Option(help="Or a running service, http://…; an admin's token in FREEPULL_TOKEN is sent.")
]
SCOPE = (
    "admin; operator (starts, pauses, resumes, sees to people); read (looks only); gateway (a backend that asks and "
    "tells for its users); or payer (reads the ledger, and says what was paid out)."
)
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


def _read(
    store: str | None, server: str | None, ours: Callable[[Tokens], Rows], theirs: Callable[[Client], Rows]
) -> Rows:
    """Return what is known of tokens, from a store or a running service."""
    store = _one(store, server)
    if store is not None:
        with _tokens(store) as tokens:
            return ours(tokens)
    with _client(server or "") as client:
        return theirs(client)


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
        register = Register(campaign, settings.arms, settings.price, settings.on)
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
    show_rows(_read(store, server, lambda it: it.rows(), lambda it: it.tokens()), TokenRow, as_json)


@app.command(
    "audit",
    help="Show who has made and revoked tokens.\n\nExample: freepull token audit --store sqlite:///trial.db",
)
@sentence_errors
def audit(store: Store = None, server: Where = None, as_json: AsJson = False) -> None:
    """See the help."""
    show_rows(_read(store, server, lambda it: it.audit(), lambda it: it.token_audit()), TokenEntry, as_json)


SOURCES = ("COMMANDLINE", "ENVIRONMENT", "DEFAULT_MAP")
"""Where a setting may come from, the one that counts first at the front, as Click calls them."""
WHOLE, NUMBER, FLAG = ((int,), "a whole number"), ((int, float), "a number"), ((bool,), "true or false")
KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "port": WHOLE,
    "waiting": WHOLE,
    "agent_rate": NUMBER,
    "gateway_rate": NUMBER,
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
    gateway_rate: Annotated[
        float, setting("Requests a second with one gateway's token; more get 429.", "gateway_rate", min=0.01)
    ] = 5000.0,
    certificate: Annotated[str | None, setting("TLS: a PEM file; with --key.", "certificate")] = None,
    key: Annotated[str | None, setting("TLS: the certificate's private key.", "key")] = None,
    first_token: Annotated[
        bool,
        setting("If the store has no token, make an admin's, and print it once.", "first_token", "--first-token"),
    ] = False,
    webhooks: Annotated[
        Path | None, setting("A TOML file of addresses that are told what happens.", "webhooks")
    ] = None,
    traces: Annotated[
        str | None, setting("Send traces through this exporter of OpenTelemetry, such as otlp.", "traces")
    ] = None,
    oidc_issuer: Annotated[
        str | None, setting("Let people log in to the dashboard with this OpenID provider, https://…", "oidc_issuer")
    ] = None,
    oidc_client: Annotated[str, setting("How the provider calls this service.", "oidc_client")] = "",
    oidc_secret_file: Annotated[
        Path | None, setting("A file with the secret that the provider has given it.", "oidc_secret_file")
    ] = None,
    oidc_asks: Annotated[
        str, setting("What the provider is asked for; some need groups.", "oidc_asks")
    ] = "openid email profile",
    oidc_claim: Annotated[str, setting("The claim that says who may what; or email.", "oidc_claim")] = "groups",
    oidc_admin: Annotated[str, setting("Values of it for admins, with commas between them.", "oidc_admin")] = "",
    oidc_operator: Annotated[str, setting("The same for operators.", "oidc_operator")] = "",
    oidc_read: Annotated[str, setting("The same for who only looks; *: everybody.", "oidc_read")] = "",
    oidc_lasts: Annotated[str, setting("How long a session lasts.", "oidc_lasts")] = "8 hours",
    config: Annotated[
        Path | None,
        setting("A TOML file with these settings.", "config", is_eager=True, callback=sentence_errors(read_file)),
    ] = None,
) -> None:
    """See HELP."""
    from freepull.server.auth import Limits
    from freepull.server.server import run
    from freepull.server.webhooks import read_targets

    where = one_store(context, store, store_file)
    if password_file is not None:
        use_password(password_file, "--password-file")
    for name, file in (("--certificate", certificate), ("--key", key)):
        if (certificate is None) != (key is None) or (file is not None and not Path(file).is_file()):
            raise InvalidInput(f"{name} must be a PEM file that exists, and --certificate and --key go together.")
    if certificate is not None and key is not None:
        _check_tls(certificate, key)
    limits = Limits(waiting=waiting, agent_rate=agent_rate, gateway_rate=gateway_rate)
    tls = {"ssl_certfile": certificate, "ssl_keyfile": key}
    scopes = {"admin": oidc_admin, "operator": oidc_operator, "read": oidc_read}
    if oidc_issuer is None and any((oidc_client, oidc_secret_file, *scopes.values())):
        raise InvalidInput("--oidc-issuer must be given with the other options of --oidc; name the provider.")
    asked = (oidc_client, oidc_secret_file, oidc_asks, oidc_claim, scopes, oidc_lasts)
    provider = None if oidc_issuer is None else _provider(oidc_issuer, *asked)
    told = [] if webhooks is None else read_targets(webhooks)
    raise typer.Exit(run(where, host, port, address, limits, first_token, provider, traces, told, **tls))


def _provider(
    issuer: str, client: str, file: Path | None, asks: str, claim: str, scopes: dict[str, str], lasts: str
) -> Callable[[str], Provider]:
    """Return what makes a provider, once it is known how this service is reached."""
    from freepull.server.oidc import Provider

    held = None if file is None else secret("--oidc-secret-file", file)
    allowed = {it: tuple(filter(None, map(str.strip, names.split(",")))) for it, names in scopes.items()}
    return lambda address: Provider(issuer, client, held, asks, claim, allowed, lasts, address)


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
