"""`tocsin journal`: looks into the files of a stopped, crashed or damaged server, and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Look into a data directory: list, check, dump. Nothing is changed.", no_args_is_help=True)

Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", exists=True, file_okay=False, help="Data directory of a server.", show_default=False),
]
