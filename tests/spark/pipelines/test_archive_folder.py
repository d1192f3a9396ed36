from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tocsin.model.errors import ArchiveDamaged, DataDirectoryInUse
from tocsin.spark.pipelines.archive_folder import LocalFolder, local_path


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path / "lake")


def test_a_name_is_created_once(folder: LocalFolder) -> None:
    assert folder.create_once("_tocsin/commits/0.json", b"first")
    assert not folder.create_once("_tocsin/commits/0.json", b"second")
    assert folder.read("_tocsin/commits/0.json") == b"first"
    assert [each.name for each in folder.files("_tocsin")] == ["_tocsin/commits/0.json"], "no draft is left"


def test_one_of_many_creates_it(folder: LocalFolder) -> None:
    won: list[int] = []

    def attempt(number: int) -> None:
        if folder.create_once("name", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and folder.read("name") == b"%d" % won[0]


def test_a_move_may_be_done_again(folder: LocalFolder) -> None:
    folder.create_once("a/x", b"x")
    folder.move("a/x", "b/c/x")
    folder.move("a/x", "b/c/x")
    assert folder.read("b/c/x") == b"x" and not folder.exists("a/x")
    with pytest.raises(ArchiveDamaged, match="neither at a/y nor at b/y"):
        folder.move("a/y", "b/y")


def test_a_copy_takes_the_place_of_what_was_there(folder: LocalFolder) -> None:
    folder.create_once("a", b"new")
    folder.create_once("b", b"old")
    folder.copy("a", "b")
    assert folder.read("a") == folder.read("b") == b"new"


def test_nothing_there_is_no_error(folder: LocalFolder) -> None:
    assert folder.read("x") is None and folder.files("x") == [] and folder.folders("x") == []
    folder.remove("x")


def test_a_folder_goes_with_what_is_in_it(folder: LocalFolder) -> None:
    folder.create_once("a/b/c", b"1")
    assert [each.name for each in folder.folders("a")] == ["a/b"]
    folder.remove("a")
    assert not folder.exists("a")


def test_a_lock_keeps_the_second_out(folder: LocalFolder) -> None:
    with (
        folder.lock("lock", "Somebody is here."),
        pytest.raises(DataDirectoryInUse, match="Somebody is here"),
        folder.lock("lock", "Somebody is here."),
    ):
        pytest.fail("both hold the lock")
    with folder.lock("lock", "Somebody is here."):
        pass


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("lake", Path("lake")),
        ("a/b c", Path("a/b c")),
        ("file:///a/b", Path("/a/b")),
        ("file:/a/b", Path("/a/b")),
        ("hdfs://host/a", None),
        ("s3a://bucket/a", None),
        ("odd:name", Path("odd:name")),
    ],
)
def test_local_paths_are_told_from_others(path: str, expected: Path | None) -> None:
    assert local_path(path) == expected
