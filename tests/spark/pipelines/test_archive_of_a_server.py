"""Archive, history, verify and replay against a server, as a user runs them."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.tables import fill, numbers

import tocsin
from tocsin.model.errors import DataDirectoryInUse, DataLost, PipelineFailed
from tocsin.spark.pipelines import archive, replay
from tocsin.spark.pipelines.archive import ArchiveOptions
from tocsin.spark.pipelines.archive_folder import LocalFolder
from tocsin.spark.pipelines.archive_store import ArchiveStore
from tocsin.spark.pipelines.causes import cause_of
from tocsin.spark.pipelines.history import history, next_offsets
from tocsin.spark.pipelines.replay import ReplayOptions
from tocsin.spark.pipelines.verify import Verdict, VerifyOptions, verify
from tocsin.spark.pipelines.watching import QUIET, Watched, Watcher


class Lake:
    """An archive of the topic prices, and what one does with it."""

    def __init__(self, spark: SparkSession, url: str, path: Path) -> None:
        self.spark, self.url, self.path = spark, url, path

    def archive(self, **options: Any) -> dict[str, Any]:
        given = {"url": self.url, "to": str(self.path), "topics": ("prices",), **options}
        return dict(archive.run(self.spark, ArchiveOptions(**given), QUIET).values)

    def verify(self, **options: Any) -> Verdict:
        given = {"url": self.url, "topic": "prices", "archive": str(self.path), **options}
        return verify(self.spark, VerifyOptions(**given))

    def history(self, **options: Any) -> list[int]:
        found: list[int] = numbers(history(self.spark, str(self.path), self.url, "prices", **options))
        return found

    def files(self) -> list[Path]:
        return sorted(self.path.glob("topic=*/*/*.parquet"))


@pytest.fixture
def lake(spark: SparkSession, server: tocsin.Server, tmp_path: Path) -> Lake:
    return Lake(spark, server.url, tmp_path / "lake")


def test_a_topic_is_archived_in_steps_and_nothing_comes_twice(lake: Lake, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 50)
    assert lake.archive(max_rows=20)["rows"] == 50
    assert lake.archive()["rows"] == 0
    fill(connection, "prices", 30, start=50)
    found = lake.archive()
    assert found["topics"]["prices"] == {"first": 0, "end": 80, "rows": 80, "gaps": []}
    assert numbers(archive.read(lake.spark, str(lake.path))) == list(range(80))
    assert numbers(lake.spark.read.parquet(str(lake.path))) == list(range(80))
    verdict = lake.verify(complete=True)
    assert verdict.equal and verdict.comparison.first.rows == 80 and lake.verify(offline=True).equal


def test_history_has_neither_gap_nor_overlap(lake: Lake, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 40)
    lake.archive()
    assert lake.history() == list(range(40))
    fill(connection, "prices", 25, start=40)
    assert lake.history() == list(range(65))
    assert next_offsets(lake.spark, str(lake.path)) == '{"prices": {"0": 40}}'
    assert lake.verify().behind == 25 and lake.verify().equal
    late = lake.verify(complete=True)
    assert not late.equal and "25 messages behind" in str(late.sentence())


def test_a_topic_that_was_made_again_is_noticed(lake: Lake, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 10)
    lake.archive()
    connection.delete_destination("topic:prices")
    fill(connection, "prices", 15)
    with pytest.raises(DataLost, match="The topic prices was deleted and made again"):
        lake.history()
    assert lake.history(fail_on_data_loss=False) == list(range(10))
    with pytest.raises(PipelineFailed, match="prices"):
        lake.archive()


@pytest.mark.long
def test_every_planted_fault_of_an_archive_is_found(lake: Lake, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 60)
    lake.archive(max_rows=20)
    files = lake.files()
    assert lake.verify().equal and len(files) >= 3
    kept = files[1].read_bytes()
    files[1].unlink()
    assert "is not there" in str(lake.verify(offline=True).sentence())
    shutil.copyfile(files[0], files[1])
    doubled = lake.verify()
    assert doubled.comparison.differences.doubled > 0 and doubled.gaps
    assert not lake.verify(offline=True).equal
    files[1].write_bytes(kept)
    assert lake.verify().equal and lake.verify(offline=True).equal


def test_a_changed_byte_in_an_archive_is_found(lake: Lake, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 20)
    lake.archive()
    path = lake.files()[0]
    rows = lake.spark.read.parquet(str(path)).collect()
    changed = [
        tuple(b"7" if row["offset"] == 13 and name == "value" else row[name] for name in row.asDict()) for row in rows
    ]
    table = lake.spark.createDataFrame(changed, lake.spark.read.parquet(str(path)).schema)
    rewritten = lake.path.parent / "rewritten"
    table.coalesce(1).write.parquet(str(rewritten))
    shutil.copyfile(next(rewritten.glob("*.parquet")), path)
    for stale in path.parent.glob(".*.crc"):
        stale.unlink()
    found = lake.verify().comparison.differences
    assert (found.changed, found.missing, found.extra, found.doubled) == (1, 0, 0, 0)
    assert found.examples == ("changed: 13",)


def test_an_archive_that_follows_ends_when_it_is_told_to(lake: Lake, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 30)
    stop = threading.Event()

    def show(watched: Watched) -> None:
        if watched.rows == 30:
            fill(connection, "prices", 10, start=30)
        if watched.rows == 40:
            stop.set()

    options = ArchiveOptions(url=lake.url, to=str(lake.path), topics=("prices",), follow=True, every=0.1, group="lake")
    archive.run(lake.spark, options, Watcher(show=once_per_count(show), stop=stop))
    assert lake.verify(complete=True).equal
    holds = connection.show_destination("topic:prices")["holds"]
    assert [each["name"] for each in holds] == ["spark:lake"]


def once_per_count(show: Callable[[Watched], None]) -> Callable[[Watched], None]:
    seen: set[int] = set()

    def shown(watched: Watched) -> None:
        if watched.rows not in seen:
            seen.add(watched.rows)
            show(watched)

    return shown


def test_a_second_archive_into_the_folder_is_refused(lake: Lake, connection: tocsin.Connection, tmp_path: Path) -> None:
    fill(connection, "prices", 10)
    lake.archive()
    with pytest.raises(DataDirectoryInUse, match=r"is written by query .* go on behind what is there with takeover"):
        lake.archive(checkpoint=str(tmp_path / "another"))
    with (
        LocalFolder(lake.path).lock(archive.LOCK, "held"),
        pytest.raises(DataDirectoryInUse, match="Another archive is running into"),
    ):
        lake.archive()
    fill(connection, "prices", 5, start=10)
    lake.archive(checkpoint=str(tmp_path / "another"), takeover=True)
    assert lake.verify(complete=True).equal


def test_small_files_are_joined(lake: Lake, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 60)
    lake.archive(max_rows=10)
    before = len(lake.files())
    found = lake.archive(topics=(), compact=True, grace=0.0)
    assert found["compacted"] == before and found["files"] < before
    assert len(lake.files()) == found["files"]
    assert lake.verify(complete=True).equal and lake.verify(offline=True).equal
    assert numbers(lake.spark.read.parquet(str(lake.path))) == list(range(60))
    assert ArchiveStore(LocalFolder(lake.path)).state.hidden == {}


class TestReplay:
    def run(self, lake: Lake, **options: Any) -> dict[str, Any]:
        given = {"url": lake.url, "id": "r1", "topic": "prices", "to": "again", **options}
        return dict(replay.run(lake.spark, ReplayOptions(**given), QUIET).values)

    def target(self, lake: Lake) -> list[int]:
        table = lake.spark.read.format("tocsin").option("url", lake.url).option("subscribe", "again").load()
        found: list[int] = numbers(table)
        return found

    @pytest.fixture(autouse=True)
    def topics(self, connection: tocsin.Connection) -> None:
        fill(connection, "prices", 50)
        connection.create_destination("again", "topic", retained=True)

    def test_a_topic_is_sent_again_in_order_and_once(self, lake: Lake) -> None:
        assert self.run(lake, chunk_rows=20)["sent"] == 50
        assert self.run(lake, chunk_rows=20)["sent"] == 0
        assert self.target(lake) == list(range(50))
        assert lake.verify(archive=None, target="again").equal

    def test_a_range_of_an_archive(self, lake: Lake) -> None:
        lake.archive()
        self.run(lake, archive=str(lake.path), from_offset=10, to_offset=30, chunk_rows=7)
        assert self.target(lake) == list(range(10, 30))
        assert lake.verify(archive=None, target="again", from_offset=10, to_offset=30).equal
        wrong = lake.verify(archive=None, target="again")
        assert not wrong.equal and wrong.comparison.differences.missing == 30

    def test_an_archive_keeps_key_and_properties(self, lake: Lake, connection: tocsin.Connection) -> None:
        fill(connection, "prices", 1, start=50, properties={"region": "EU"})
        lake.archive()
        self.run(lake, archive=str(lake.path), from_offset=50)
        with connection.session() as session, session.replay(session.topic("again"), start="earliest") as reader:
            message = reader.receive(timeout=5)
        assert message is not None and message.key == "k50" and message.properties["region"] == "EU"

    def test_it_goes_on_where_it_was_stopped(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        sent = replay.send
        calls: list[int] = []

        def dies_at_the_third(*given: Any) -> int:
            calls.append(1)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return sent(*given)

        monkeypatch.setattr(replay, "send", dies_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            self.run(lake, chunk_rows=15)
        assert self.target(lake) == list(range(30))
        found = self.run(lake, chunk_rows=8)
        assert found["sent"] == 20 and found["complete"]
        assert self.target(lake) == list(range(50))

    def test_two_live_runs_that_cut_the_range_differently_send_nothing_twice(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sent = replay.send
        chunks: list[tuple[Any, ...]] = []
        refusals: list[str] = []

        def by_the_first(*given: Any) -> int:
            if given[3] < 30:
                return sent(*given)
            chunks.append(given)
            monkeypatch.setattr(replay, "send", by_the_second)
            assert self.run(lake, chunk_rows=20)["sent"] == 35
            return 15

        def by_the_second(*given: Any) -> int:
            """It knows how far the first run has come; just now that one sends its next chunk."""
            monkeypatch.setattr(replay, "send", sent)
            try:
                sent(*chunks[0])
            except Exception as error:
                refusals.append(cause_of(error))
            return sent(*given)

        monkeypatch.setattr(replay, "send", by_the_first)
        with suppress(tocsin.errors.Fenced):
            self.run(lake, chunk_rows=15)
            pytest.fail(f"The first run noticed nothing of the second one, and there is {self.target(lake)}.")
        assert self.target(lake) == list(range(50))
        assert "has taken over" in refusals[0]

    def test_a_range_by_time(self, lake: Lake, connection: tocsin.Connection) -> None:
        time.sleep(0.01)
        later = datetime.now(UTC).isoformat()
        fill(connection, "prices", 5, start=50)
        self.run(lake, from_time=later)
        lake.archive()
        assert self.target(lake) == list(range(50, 55))
        self.run(lake, id="r2", archive=str(lake.path), to_time=later)
        assert self.target(lake) == [*range(50, 55), *range(50)]

    def test_a_rate_is_kept(self, lake: Lake) -> None:
        began = time.monotonic()
        assert self.run(lake, rate=10.0, from_offset=20)["sent"] == 30
        # The first chunk of two seconds' worth goes at once, and nothing is waited for behind the last.
        assert time.monotonic() - began >= 2.0
        assert self.target(lake) == list(range(20, 50))

    def test_what_is_not_there_gets_a_sentence(self, lake: Lake) -> None:
        lake.archive()
        with pytest.raises(DataLost, match="has prices from offset 0 to 50, and no more"):
            self.run(lake, archive=str(lake.path), to_offset=60)
        with pytest.raises(tocsin.errors.ConfigError, match="prices ends at offset 50"):
            self.run(lake, to_offset=60)


def test_a_target_is_compared_by_an_expression(lake: Lake, connection: tocsin.Connection) -> None:
    fill(connection, "prices", 20)
    fill(connection, "clean", 20, start=5)
    found = lake.verify(archive=None, target="clean", by="cast(key as string)").comparison.differences
    assert (found.missing, found.extra, found.doubled, found.changed) == (5, 5, 0, 0)
