"""`freepull serve`: the live principal over HTTP, for all campaigns of a store."""

from __future__ import annotations

from typing import Annotated

import typer

from freepull.cli.screen import sentence_errors

HELP = """Serve all campaigns of a store over HTTP, with a dashboard at /.

Example: freepull serve --store sqlite:///trial.db --port 8000"""


@sentence_errors
def command(
    store: Annotated[str, typer.Option(help="sqlite:///file.db or postgresql://…")],
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.", min=0, max=65535)] = 8000,
    host: Annotated[str, typer.Option(help="Where to listen; behind a proxy leave it as it is.")] = "127.0.0.1",
    address: Annotated[
        str | None,
        typer.Option(help="How others reach this process, such as https://a.example; by default host and port."),
    ] = None,
    waiting: Annotated[int, typer.Option(help="Requests at a time; more get 503.", min=1)] = 256,
    agent_rate: Annotated[float, typer.Option(help="Requests a second of one agent; more get 429.", min=0.01)] = 20.0,
    certificate: Annotated[str | None, typer.Option(help="TLS: a PEM file; with --key.")] = None,
    key: Annotated[str | None, typer.Option(help="TLS: the certificate's private key.")] = None,
    first_token: Annotated[
        bool, typer.Option("--first-token", help="If the store has no token, make an admin's, and print it once.")
    ] = False,
) -> None:
    """See HELP."""
    from pathlib import Path

    from freepull.errors import InvalidInput
    from freepull.server.auth import Limits
    from freepull.server.server import run

    for name, file in (("--certificate", certificate), ("--key", key)):
        if (certificate is None) != (key is None) or (file is not None and not Path(file).is_file()):
            raise InvalidInput(f"{name} must be a PEM file that exists, and --certificate and --key go together.")
    if certificate is not None and key is not None:
        _check_tls(certificate, key)
    limits = Limits(waiting=waiting, agent_rate=agent_rate)
    tls = {"ssl_certfile": certificate, "ssl_keyfile": key}
    raise typer.Exit(run(store, host, port, address, limits, first_token, **tls))


def _check_tls(certificate: str, key: str) -> None:
    """Refuse files that TLS cannot use, before anything is served."""
    import ssl

    from freepull.errors import InvalidInput

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"--certificate and --key must be a certificate and its private key, in PEM and not encrypted ({error}); "
            "choose other files."
        ) from None
