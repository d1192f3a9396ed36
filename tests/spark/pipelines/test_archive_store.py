from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.spark.pipelines.archives import FOLDER, append

from tocsin.model.errors import ArchiveDamaged, DataDirectoryInUse
from tocsin.spark.pipelines import archive_store
from tocsin.spark.pipelines.archive_compact import publish
from tocsin.spark.pipelines.archive_folder import LocalFolder
from tocsin.spark.pipelines.archive_log import Commit
from tocsin.spark.pipelines.archive_store import ArchiveStore, commit_name

HOUR = 3_600_000
EVERY = 4


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path)


def never(_: Commit) -> bool:
    return False


def staged(folder: LocalFolder, commit: Commit, content: bytes = b"rows") -> Commit:
    for each in commit.files:
        folder.create_once(each.staged, content)
    return commit


def committed(store: ArchiveStore, folder: LocalFolder, commit: Commit) -> Commit:
    done = store.commit(staged(folder, commit), never)
    store.roll_forward()
    return done


def test_a_commit_is_seen_by_the_next_who_opens(folder: LocalFolder) -> None:
    done = committed(ArchiveStore(folder), folder, append(7, 0, 10))
    state = ArchiveStore(folder).state
    assert done.number == state.number == 0
    assert list(state.files) == [f"{FOLDER}/{0:020d}-0000.snappy.parquet"]


def test_files_are_moved_after_the_commit_and_the_staging_goes(folder: LocalFolder, tmp_path: Path) -> None:
    store = ArchiveStore(folder)
    store.commit(staged(folder, append(0, 0, 10)), never)
    assert not (tmp_path / "topic=prices").exists()
    assert store.roll_forward() == 1
    assert [each.name for each in folder.files("topic=prices")] == list(store.state.files)
    assert folder.files("_staging") == []


def test_a_run_that_died_between_commit_and_move_is_finished_by_the_next(folder: LocalFolder) -> None:
    ArchiveStore(folder).commit(staged(folder, append(0, 0, 10)), never)
    after = ArchiveStore(folder)
    assert after.roll_forward() == 1
    assert folder.read(next(iter(after.state.files))) == b"rows"
    assert ArchiveStore(folder).roll_forward() == 1, "done again, it changes nothing"


def test_a_half_done_move_is_finished(folder: LocalFolder) -> None:
    commit = append(0, 0, 10)
    second = replace(commit.files[0], staged=f"_staging/s0/{FOLDER}/part-1.snappy.parquet")
    store = ArchiveStore(folder)
    done = store.commit(staged(folder, replace(commit, files=(commit.files[0], second))), never)
    folder.move(done.files[0].staged, done.files[0].path)
    ArchiveStore(folder).roll_forward()
    assert [each.name for each in folder.files("topic=prices")] == [each.path for each in done.files]


def test_a_file_that_is_nowhere_is_damage(folder: LocalFolder) -> None:
    ArchiveStore(folder).commit(append(0, 0, 10), never)
    with pytest.raises(ArchiveDamaged, match="has lost a file: it is neither at _staging/s0/"):
        ArchiveStore(folder).roll_forward()


def test_of_two_who_commit_at_once_the_second_is_refused(folder: LocalFolder) -> None:
    one, two = ArchiveStore(folder), ArchiveStore(folder)
    committed(one, folder, append(0, 0, 10, query="first"))
    with pytest.raises(DataDirectoryInUse, match=r"Another run has committed .* \(query first, run run\)"):
        two.commit(staged(folder, append(1, 0, 10, query="second")), never)
    assert ArchiveStore(folder).state.query == "first"


def test_a_commit_that_may_follow_another_gets_the_next_number(folder: LocalFolder) -> None:
    one, two = ArchiveStore(folder), ArchiveStore(folder)
    committed(one, folder, append(0, 0, 10))
    done = two.commit(staged(folder, append(1, 10, 20)), lambda other: True)
    assert done.number == 1 and done.files[0].path.endswith(f"{1:020d}-0000.snappy.parquet")


def test_who_commits_after_a_dead_run_finishes_its_move_first(folder: LocalFolder) -> None:
    ArchiveStore(folder).commit(staged(folder, append(0, 0, 10)), never)
    store = ArchiveStore(folder)
    store.commit(staged(folder, append(1, 10, 20)), never)
    assert folder.exists(f"{FOLDER}/{0:020d}-0000.snappy.parquet")


def test_readers_find_files_that_a_dead_run_has_not_moved(folder: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_store, "ARCHIVE_SETTLE_SECONDS", 0.0)
    committed(ArchiveStore(folder), folder, append(0, 0, 10))
    ArchiveStore(folder).commit(staged(folder, append(1, 10, 20)), never)
    reader = ArchiveStore(folder)
    first, second = reader.state.files_of()
    assert reader.locations([first, second]) == {"": [first.path], "_staging/s1": [second.staged]}


def test_snapshots_take_the_place_of_old_commits(folder: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_store, "ARCHIVE_SNAPSHOT_COMMITS", EVERY)
    store = ArchiveStore(folder)
    for number in range(3 * EVERY + 1):
        committed(store, folder, append(number, number, number + 1))
        store.snapshot(grace_ms=-HOUR)
    assert not folder.exists(commit_name(0)) and folder.exists(commit_name(3 * EVERY))
    again = ArchiveStore(folder)
    assert again.state == store.state and again.state.end_of("prices") == store.state.end_of("prices")
    assert committed(again, folder, append(0, 13, 14)).number == 3 * EVERY + 1


def test_commits_within_the_grace_stay(folder: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_store, "ARCHIVE_SNAPSHOT_COMMITS", EVERY)
    store = ArchiveStore(folder)
    for number in range(3 * EVERY):
        committed(store, folder, append(number, number, number + 1))
        store.snapshot(grace_ms=HOUR)
    assert folder.exists(commit_name(0))


def test_a_log_without_its_beginning_is_damage(folder: LocalFolder) -> None:
    store = ArchiveStore(folder)
    for number in range(2):
        committed(store, folder, append(number, number, number + 1))
    folder.remove(commit_name(0))
    with pytest.raises(ArchiveDamaged, match="begins with commit 1"):
        ArchiveStore(folder)


def test_staged_files_of_dead_runs_go_after_the_grace(folder: LocalFolder, tmp_path: Path) -> None:
    store = ArchiveStore(folder)
    folder.create_once("_staging/dead/topic=prices/part-0.snappy.parquet", b"never committed")
    (tmp_path / "_staging" / "empty").mkdir()
    assert store.clean(grace_ms=HOUR) == 0
    assert store.clean(grace_ms=-HOUR) == 2
    assert folder.folders("_staging") == []


def test_staged_files_that_a_commit_needs_stay(folder: LocalFolder) -> None:
    store = ArchiveStore(folder)
    done = store.commit(staged(folder, append(0, 0, 10)), never)
    assert ArchiveStore(folder).clean(grace_ms=-HOUR) == 0
    assert folder.exists(done.files[0].staged)


class TestPublishing:
    """Compacted files in place of the old ones."""

    def compacted(self, folder: LocalFolder) -> ArchiveStore:
        store = ArchiveStore(folder)
        old = [committed(store, folder, append(number, number * 10, number * 10 + 10)) for number in range(2)]
        draft = replace(append(5, 0, 20), kind="compact", removes=tuple(each.files[0].path for each in old))
        store.commit(staged(folder, draft, b"both"), never)
        return store

    def visible(self, folder: LocalFolder) -> list[bytes | None]:
        return [folder.read(each.name) for each in folder.files("topic=prices")]

    def test_within_the_grace_plain_readers_see_the_old_ones_alone(self, folder: LocalFolder) -> None:
        store = self.compacted(folder)
        assert publish(store, "run", HOUR) == 0
        assert self.visible(folder) == [b"rows", b"rows"]
        assert store.locations(store.state.files_of()) == {"_staging/s5": [store.state.files_of()[0].staged]}

    def test_after_the_grace_they_see_the_new_ones_alone(self, folder: LocalFolder) -> None:
        store = self.compacted(folder)
        assert publish(store, "run", -1) == 1
        assert self.visible(folder) == [b"both"]
        new = store.state.files_of()[0]
        assert store.locations([new]) == {"": [new.path]}
        assert folder.read(new.staged) == b"both", "who reads it under its hidden name can go on"

    def test_the_hidden_name_goes_in_the_end(self, folder: LocalFolder) -> None:
        store = self.compacted(folder)
        publish(store, "run", -1)
        publish(store, "run", -1)
        store.clean(grace_ms=-HOUR)
        assert folder.folders("_staging") == [] and not store.state.retired
        assert self.visible(folder) == [b"both"]

    def test_a_run_that_died_while_publishing_is_finished(self, folder: LocalFolder) -> None:
        store = self.compacted(folder)
        for path in list(store.state.retired):
            folder.remove(path)
        again = ArchiveStore(folder)
        assert publish(again, "run", -1) == 1
        assert self.visible(folder) == [b"both"]

    def test_a_run_that_died_before_it_said_so_is_finished(self, folder: LocalFolder) -> None:
        store = self.compacted(folder)
        for path in list(store.state.retired):
            folder.remove(path)
        new = store.state.files_of()[0]
        folder.copy(new.staged, new.path)
        assert publish(ArchiveStore(folder), "run", -1) == 1
        assert self.visible(folder) == [b"both"]
