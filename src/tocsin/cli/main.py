"""The entry point `tocsin`: the tree of commands, and errors as one sentence with the right exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from tocsin.cli import exits
from tocsin.cli.commands import (
    bench,
    browse,
    cluster,
    destinations,
    journal,
    node,
    pipeline,
    receive,
    send,
    serve,
    user,
)
from tocsin.cli.output import PipeClosed, abandon_output, note
from tocsin.model.errors import TocsinError

app = typer.Typer(
    name="tocsin",
    help="A message server with queues and topics, and the delivery rules of JMS.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.command("send")(send.send)
app.command("receive")(receive.receive)
app.command("browse")(browse.browse)
app.command("bench")(bench.bench)
app.command("node")(node.node)
app.add_typer(cluster.app, name="cluster")
app.add_typer(destinations.app, name="destinations")
app.add_typer(user.app, name="user")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(journal.app, name="journal")


def _show_version(asked: bool) -> None:
    if asked:
        # Not `tocsin.__version__`: that loads the client, which takes longer than everything else here.
        from importlib.metadata import version

        print(f"tocsin {version('tocsin')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and says with which code the process should end."""
    try:
        app(list(arguments), prog_name="tocsin")
    except SystemExit as end:
        return _flushed(end.code)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except (PipeClosed, BrokenPipeError):
        abandon_output()
        return exits.OK
    except TocsinError as error:
        note(f"tocsin: {error}")
        return exits.FAILED
    except OSError as error:
        note(f"tocsin: {_sentence(error)}")
        return exits.FAILED
    except Exception as error:
        if os.environ.get("TOCSIN_TRACEBACK"):
            raise
        note(
            f"tocsin: An error that should not happen, {type(error).__name__}: {error}. TOCSIN_TRACEBACK=1 shows where."
        )
        return exits.FAILED
    return exits.OK


def _flushed(code: object) -> int:
    """The last lines may still be on their way when the reader goes."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_output()
    return code if isinstance(code, int) else exits.OK


def _sentence(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}."


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
