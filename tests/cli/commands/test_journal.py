"""`tocsin journal` on the files of a server that has stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.shell import Shell

from tocsin.cli.bench.server import OwnServer
from tocsin.cli.commands.journal import _bytes_to_read
from tocsin.runtime.local import SOCKET_NAME

SHELL = Shell("tocsin://127.0.0.1:1")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a server that stored three messages and was killed."""
    server = OwnServer(tmp_path_factory.mktemp("stopped"))
    server.start()
    try:
        server.wait_until_listening()
        Shell(server.url).ok("send", "orders", "first", "second", "third")
        server.kill()
        yield server.folder / "data"
    finally:
        server.stop()


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def records(folder: Path, *more: str) -> list[dict[str, Any]]:
    lines = SHELL.ok("journal", "dump", str(folder), "--json", *more).splitlines()
    return [json.loads(line) for line in lines]


def test_a_sound_journal_passes_and_nothing_is_changed(stopped: Path) -> None:
    before = contents(stopped)
    assert SHELL.json("journal", "check", str(stopped))["damaged"] is False
    done = SHELL.run("journal", "check", str(stopped))
    assert (done.returncode, done.stdout) == (0, b"")
    SHELL.ok("journal", "list", str(stopped))
    SHELL.ok("journal", "dump", str(stopped))
    assert contents(stopped) == before


def test_list_names_each_segment(stopped: Path) -> None:
    (segment,) = [info for info in SHELL.json("journal", "list", str(stopped)) if info["kind"] == "segment"]
    assert segment["first_lsn"] == 1
    assert segment["records"] >= 4
    (row,) = [
        line.split("\t")
        for line in SHELL.ok("journal", "list", str(stopped)).decode().splitlines()
        if line.startswith("segment")
    ]
    assert row[1] == segment["file"]


def test_the_bar_counts_what_is_read_and_not_what_is_set_aside(tmp_path: Path) -> None:
    sizes = {"journal/01.seg": 100, "snapshots/02.snap": 20, "streams/7/03.seg": 3}
    beside = {"journal/reserve.seg": 1000, "snapshots/spare": 1000, "journal/01.idx": 1000, "meta": 1000, "boot": 1000}
    for name, size in (sizes | beside).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    assert _bytes_to_read(tmp_path) == 123


def test_dump_shows_what_was_published(stopped: Path) -> None:
    shown = records(stopped, "--payload")
    assert [record["lsn"] for record in shown] == list(range(1, len(shown) + 1))
    assert [record["kind"] for record in shown].count("publish") == 3
    (second,) = records(stopped, "--first-lsn", "2", "--last-lsn", "2")
    assert second["lsn"] == 2
    assert "payload" not in second


def test_a_flipped_byte_is_found(stopped: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(stopped, damaged, ignore=shutil.ignore_patterns(SOCKET_NAME))
    first = records(damaged)[0]
    path = damaged / first["file"]
    content = bytearray(path.read_bytes())
    content[first["position"] + 4] ^= 1
    path.write_bytes(content)
    done = SHELL.run("journal", "check", str(damaged))
    assert done.returncode == 1
    assert done.stdout.split(b"\t")[:2] == [b"damage", first["file"].encode()]
    assert done.stderr == b"1 damaged place was found.\n"
    result = json.loads(SHELL.run("journal", "check", str(damaged), "--json").stdout)
    assert result["damaged"] is True
    assert result["findings"][0]["file"] == first["file"]


def test_a_directory_without_a_journal_is_a_sentence(tmp_path: Path) -> None:
    assert "holds no journal" in SHELL.fails(1, "journal", "check", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_data_directory_of_a_node_is_no_dead_end(tmp_path: Path) -> None:
    (tmp_path / "group-1").mkdir()
    assert "the folder of a group" in SHELL.fails(1, "journal", "check", str(tmp_path))
