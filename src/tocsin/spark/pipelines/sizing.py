"""How much there is to do, asked before Spark starts: Java has settings for runs of seconds and for longer ones."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.model.errors import TocsinError
from tocsin.spark.pipelines.definition import PipelineOptions

SHORT_MESSAGES = 200_000
"""So many are read in about the time in which Java's second compiler would begin to pay."""


def is_short(options: PipelineOptions, destinations: Sequence[str]) -> bool:
    """Whether a run that reads these is one of seconds. Who can't tell says no: what is wrong, the run itself says."""
    if not destinations or getattr(options, "follow", False):
        return False
    from tocsin.spark.server_options import ServerOptions

    server = ServerOptions(options.url, options.user, options.password, options.tls_ca, connect_timeout=2.0)
    try:
        with server.connect() as connection:
            shown = [connection.show_destination(each) for each in destinations]
    except TocsinError:
        return False
    messages: int = sum(each["latest"] - each["earliest"] for each in shown)
    return messages < SHORT_MESSAGES
