"""Files that are read and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.cli.files import ReadOnlyFiles


def test_reading_and_its_watcher(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "a").write_bytes(b"0123456789")
    read: list[int] = []
    files = ReadOnlyFiles(tmp_path, read.append)
    assert files.list("journal") == ("a",)
    assert files.list("snapshots") == ()
    file = files.open("journal/a")
    assert file.read(2, 3) == b"234"
    assert file.read(8, 100) == b"89"
    assert file.size() == 10
    file.close()
    file.close()
    assert read == [3, 2]


def test_nothing_can_be_changed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    files = ReadOnlyFiles(tmp_path)
    file = files.open("a")
    with pytest.raises(AssertionError):
        file.truncate(0)
    with pytest.raises(AssertionError):
        file.write(0, [b"y"])
    file.close()
    with pytest.raises(AssertionError):
        files.remove("a")
    assert (tmp_path / "a").read_bytes() == b"x"
