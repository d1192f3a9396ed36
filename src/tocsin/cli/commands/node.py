"""`tocsin node`: one node of a cluster in this process, until a signal ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli import options


def node(
    config: Annotated[Path, typer.Option(help="The node's TOML file, as `tocsin cluster init` writes it.")],
    log_json: Annotated[bool, options.flag("--log-json", help="One JSON object a log line.")] = False,
    unclean_promote: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP",
            help="Lead this group if nobody does, though this member is not in sync. What it lacks is lost.",
        ),
    ] = None,
) -> None:
    """Run one node of a cluster. SIGTERM and Ctrl-C hand its duties over, then end it; SIGHUP reads users anew."""
    from tocsin.node.cluster_process import run_node
    from tocsin.node.node_config import load_node_config

    raise typer.Exit(run_node(load_node_config(config), log_json=log_json, unclean_promote=unclean_promote))
