"""`tocsin serve`: a server in this process, until a signal ends it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli import options


class Sync(StrEnum):
    ALWAYS = "always"
    INTERVAL = "interval"


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="0 takes any free one.", show_default="7177")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where everything is stored.", show_default="./tocsin-data")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file; options given here win over it.")] = None,
    sync: Annotated[
        Sync | None, typer.Option(help="always: on disk before it is confirmed.", show_default="always")
    ] = None,
    users: Annotated[Path | None, typer.Option(help="Users file, see `tocsin user`.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate with its chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key, PEM.")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="Let in only clients with a certificate from this authority, PEM.")
    ] = None,
    log_json: Annotated[bool, options.flag("--log-json", help="One JSON object a log line.")] = False,
) -> None:
    """Start a server. SIGTERM and Ctrl-C end it cleanly; SIGHUP reads users and certificates anew."""
    from tocsin.node.config import load_config
    from tocsin.node.process import run_server

    settings = load_config(
        config,
        {
            "host": host,
            "port": port,
            "data_dir": data_dir,
            "sync": None if sync is None else sync.value,
            "users_file": users,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
            "tls_client_ca": tls_client_ca,
        },
    )
    raise typer.Exit(run_server(settings, log_json=log_json))
