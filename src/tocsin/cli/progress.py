"""What is shown while something takes long: on standard error, on a terminal, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tocsin.cli.output import for_table

Advance = Callable[[int], None]


@contextmanager
def progress_bar(what: str, total: int | None = None, *, in_bytes: bool = False) -> Iterator[Advance]:
    """Yields a function to call with how much more was done; free of cost when nobody watches."""
    if not sys.stderr.isatty():
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    amount = DownloadColumn(binary_units=True) if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(for_table(what), total=total)
        done = 0

        def advance(more: int) -> None:
            # Some bytes are read twice: more than all of it would look like a mistake.
            nonlocal done
            done = done + more if total is None else min(done + more, total)
            progress.update(task, completed=done)

        yield advance
