"""Tasks connect for themselves, to any host of the URL: what was planned at one server is not read at another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.tables import fill, fill_queue
from tests.spark.test_source_options import read

import tocsin
from tocsin.model.errors import DataLost
from tocsin.spark.batch_source import BatchReader
from tocsin.spark.connections import close_connections
from tocsin.spark.schema import default_schema
from tocsin.spark.stream_source import StreamReader

SCHEMA = default_schema(include_headers=False)
Urls = tuple[str, str]


@pytest.fixture
def urls(tmp_path: Path) -> Iterator[Urls]:
    with tocsin.Server(tmp_path / "one") as one, tocsin.Server(tmp_path / "two") as two:
        for server in (one, two):
            with tocsin.connect(server.url) as connection:
                fill(connection, "prices", 20)
                fill_queue(connection, "jobs", 20)
        yield one.url, two.url
        close_connections()


def rows(reader: Any, partitions: Any) -> int:
    return sum(batch.num_rows for partition in partitions for batch in reader.read(partition))


def test_a_batch_that_was_planned_elsewhere_is_refused(urls: Urls) -> None:
    here, there = (BatchReader(read(url=url), SCHEMA) for url in urls)
    planned = here.partitions()
    assert rows(here, planned) == 20
    with pytest.raises(DataLost, match="another cluster"):
        rows(there, planned)


def test_a_stream_that_was_planned_elsewhere_is_refused(urls: Urls) -> None:
    here, there = (StreamReader(read(url=url, streaming=True, startingOffsets="earliest"), SCHEMA) for url in urls)
    start = here.initialOffset()
    end = here.latestOffset(start, here.getDefaultReadLimit())
    planned = here.partitions(start, end)
    assert rows(here, planned) == 20
    with pytest.raises(DataLost, match="another cluster"):
        rows(there, planned)
    with pytest.raises(DataLost, match="another cluster"):
        there.latestOffset(end, there.getDefaultReadLimit())
    with pytest.raises(DataLost, match="another cluster"):
        there.partitions(start, end)


def test_a_queue_that_is_drained_is_not_taken_for_another(urls: Urls) -> None:
    here, there = (StreamReader(read(url=url, streaming=True, subscribe="queue:jobs"), SCHEMA) for url in urls)
    start = here.initialOffset()
    end = here.latestOffset(start, here.getDefaultReadLimit())
    planned = here.partitions(start, end)
    assert rows(here, planned) == 20
    for ask in (
        lambda: there.latestOffset(end, there.getDefaultReadLimit()),
        lambda: there.partitions(start, end),
        lambda: rows(there, planned),
    ):
        with pytest.raises(DataLost, match="another cluster"):
            ask()


def test_without_fail_on_data_loss_another_queue_is_read_from_its_beginning(urls: Urls) -> None:
    options: dict[str, Any] = {"streaming": True, "subscribe": "queue:jobs"}
    here = StreamReader(read(url=urls[0], **options), SCHEMA)
    start = here.initialOffset()
    end = here.latestOffset(start, here.getDefaultReadLimit())
    there = StreamReader(read(url=urls[1], failOnDataLoss=False, **options), SCHEMA)
    again = there.latestOffset(end, there.getDefaultReadLimit())
    assert again["d"]["jobs"]["id"] != end["d"]["jobs"]["id"]
    last = there.latestOffset(again, there.getDefaultReadLimit())
    assert rows(there, there.partitions(again, last)) == 20


def test_offsets_can_say_which_topic_they_are_of(urls: Urls) -> None:
    with tocsin.connect(urls[0]) as connection:
        identity = connection.offsets("topic:prices").identity
    starting = json.dumps({"prices": {"0": 5, "id": identity}})
    here, there = (BatchReader(read(url=url, startingOffsets=starting), SCHEMA) for url in urls)
    assert rows(here, here.partitions()) == 15
    with pytest.raises(DataLost, match="another cluster"):
        there.partitions()
