"""`tocsin journal`: looks into the files of a stopped, crashed or damaged server, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli import exits, options
from tocsin.cli.output import LineWriter, counted, note, print_json, print_table, size
from tocsin.cli.progress import progress_bar
from tocsin.model.errors import ConfigError

if TYPE_CHECKING:
    from tocsin.cli.files import ReadOnlyFiles
    from tocsin.journal.inspect import DumpedEntry, DumpedRecord, Finding

app = typer.Typer(help="Look into a data directory: list, check, dump. Nothing is changed.", no_args_is_help=True)

Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", exists=True, file_okay=False, help="Data directory of a server.", show_default=False),
]


@app.command("list")
def list_files(directory: Directory, json: options.Json = False) -> None:
    """List segments, snapshots and files of retained topics with their ranges."""
    from tocsin.journal import inspect

    with _opened(directory, "Reading") as files:
        found = list(inspect.list_files(files))
    if json:
        print_json([{"kind": _kind(info), **_object(info)} for info in found])
        return
    columns = ("kind", "file", "size", "first", "last", "records", "state")
    print_table(columns, map(_row, found))


@app.command()
def check(directory: Directory, json: options.Json = False) -> None:
    """Verify every record of every file; exit code 1 when something is damaged."""
    from tocsin.journal.inspect import Severity
    from tocsin.journal.inspect import check as find

    with _opened(directory, "Checking") as files:
        findings = list(find(files))
    damaged = sum(finding.severity is Severity.DAMAGE for finding in findings)
    if json:
        print_json({"damaged": bool(damaged), "findings": [_object(finding) for finding in findings]})
    else:
        columns = ("severity", "file", "position", "lsn", "finding")
        if findings:
            print_table(columns, [tuple(_object(finding).values()) for finding in findings])
        note(
            f"{counted(damaged, 'damaged place was', 'damaged places were')} found."
            if damaged
            else "Everything that was written can be read."
        )
    if damaged:
        raise typer.Exit(exits.FAILED)


@app.command()
def dump(
    directory: Directory,
    first_lsn: Annotated[int, typer.Option(min=1, help="Begin with this record.")] = 1,
    last_lsn: Annotated[int | None, typer.Option(min=1, help="End with this record.")] = None,
    stream: Annotated[
        int | None, typer.Option(min=0, help="The blocks of this retained topic instead of the records.")
    ] = None,
    payload: Annotated[bool, options.flag("--payload", help="Content too, in base64.")] = False,
    json: options.Json = False,
) -> None:
    """Write each record on a line: where it is, its LSN, kind, epoch and length."""
    from tocsin.journal import inspect

    with _opened(directory) as files, LineWriter() as out:
        found: Iterator[DumpedRecord | DumpedEntry | Finding] = (
            inspect.dump(files, first_lsn=first_lsn, last_lsn=last_lsn)
            if stream is None
            else inspect.dump_stream(files, stream)
        )
        for item in found:
            shown = _object(item, payload=payload)
            if isinstance(item, inspect.Finding):
                # A line of another shape would spoil a table; JSON readers tell it by its keys.
                if not json:
                    note(f"{item.severity.value}: {item.file} at {item.position}: {item.text}")
                    continue
            elif isinstance(item, inspect.DumpedRecord):
                shown["kind"] = _record_kind(item.kind)
            if json:
                out.json(shown)
            else:
                out.line("\t".join(map(str, shown.values())).encode())


@contextmanager
def _opened(directory: Path, what: str | None = None) -> Iterator[ReadOnlyFiles]:
    """The files of a data directory; with `what`, a bar shows how much of them was read."""
    from tocsin.cli.files import ReadOnlyFiles
    from tocsin.journal.meta import META
    from tocsin.journal.segment import SEGMENT_FOLDER

    files = ReadOnlyFiles(directory)
    if META not in files.list("") and not files.list(SEGMENT_FOLDER):
        raise ConfigError(
            f"{directory} holds no journal; name the data directory of a server, or in that of a node the folder of a"
            " group, such as nodes/mm-1a/data/group-1."
        )
    if what is None:
        yield files
        return
    with progress_bar(what, _bytes_to_read(directory), in_bytes=True) as advance:
        yield ReadOnlyFiles(directory, advance)


def _bytes_to_read(directory: Path) -> int:
    """Of the numbered files alone: what is set aside for later is not read, and the rest is small."""
    kinds = (".seg", ".snap")
    found = (path for path in directory.rglob("*") if path.stem.isdecimal() and path.suffix in kinds)
    return sum(path.stat().st_size for path in found)


def _object(item: Any, *, payload: bool = False) -> dict[str, Any]:
    """The fields of a finding or record; its content only when asked for."""
    shown = {field.name: getattr(item, field.name) for field in fields(item)}
    for name, value in list(shown.items()):
        if isinstance(value, Enum):
            shown[name] = value.value
        elif isinstance(value, memoryview):
            if payload:
                from base64 import b64encode

                shown[name] = b64encode(value).decode()
            else:
                del shown[name]
    return shown


def _kind(info: object) -> str:
    return type(info).__name__.removesuffix("Info").removesuffix("File").lower()


def _row(info: Any) -> tuple[object, ...]:
    """Segments count LSNs, streams offsets; a snapshot is of one moment."""
    kind = _kind(info)
    shown = _object(info)
    first, last, records = {
        "segment": ("first_lsn", "last_lsn", "records"),
        "snapshot": ("lsn", "lsn", "sections"),
        "stream": ("first_offset", "end_offset", "entries"),
    }[kind]
    return kind, info.file, size(info.bytes), shown[first], shown[last], shown[records], info.state


def _record_kind(number: int) -> str:
    from tocsin.message_manager.records import RecordKind

    try:
        return RecordKind(number).name.lower()
    except ValueError:
        # The journal itself gives kinds no meaning, and a newer release may know more.
        return str(number)
