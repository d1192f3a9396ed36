from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.spark.pipelines.archives import append, data_file, topic_range

from tocsin.model.errors import ArchiveDamaged
from tocsin.spark.pipelines.archive_epochs import (
    Position,
    epoch_ranges,
    positions_after,
    query_id,
    starting_offsets,
)
from tocsin.spark.pipelines.archive_folder import LocalFolder
from tocsin.spark.pipelines.archive_log import ArchiveState, TopicRange

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"d": {"prices": {"0": 30, "id": "a"}}, "v": 1}'


def at(offset: int, identity: str = "a") -> dict[str, Position]:
    return {"prices": Position(identity, offset)}


@pytest.fixture
def checkpoint(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path)


def archived(end: int) -> ArchiveState:
    state = ArchiveState()
    state.apply(append(0, 0, end))
    return state


def test_a_checkpoint_tells_its_query_and_the_end_of_an_epoch(checkpoint: LocalFolder) -> None:
    assert query_id(checkpoint) is None
    checkpoint.create_once("metadata", b'{"id":"1234"}')
    checkpoint.create_once("offsets/3", OFFSETS.encode())
    assert query_id(checkpoint) == "1234"
    assert positions_after(checkpoint, 3) == at(30)
    assert positions_after(checkpoint, 2) == {} and positions_after(checkpoint, -1) == {}


def test_an_offset_that_is_a_text_in_json_is_read_too(checkpoint: LocalFolder) -> None:
    checkpoint.create_once("offsets/0", json.dumps(OFFSETS.splitlines()[2]).encode())
    assert positions_after(checkpoint, 0) == at(30)


def test_a_checkpoint_of_another_source_is_refused(checkpoint: LocalFolder) -> None:
    checkpoint.create_once("offsets/0", b'v1\n{"batchWatermarkMs":0}\n{"prices":{"0":3}}')
    with pytest.raises(ArchiveDamaged, match="says nothing about offsets in epoch 0"):
        positions_after(checkpoint, 0)


def test_an_epoch_begins_where_the_archive_ends() -> None:
    found = epoch_ranges(archived(10), at(12), at(30), [data_file(1, 12, 30)], may_lose=False)
    assert found == (TopicRange("prices", "a", 10, 30, 18),)


def test_what_may_be_lost_is_no_part_of_the_epoch() -> None:
    found = epoch_ranges(archived(10), at(12), at(30), [data_file(1, 12, 30)], may_lose=True)
    assert found == (topic_range(12, 30),)


def test_a_new_topic_begins_where_the_epoch_before_stood_or_with_its_first_row() -> None:
    files = [data_file(0, 7, 30)]
    assert epoch_ranges(ArchiveState(), at(5), at(30), files, may_lose=False)[0].first == 5
    assert epoch_ranges(ArchiveState(), {}, at(30), files, may_lose=False)[0].first == 7


def test_a_topic_without_news_has_no_range() -> None:
    assert epoch_ranges(archived(30), at(30), at(30), [], may_lose=False) == ()


def test_a_topic_that_was_made_again_begins_with_its_first_row() -> None:
    found = epoch_ranges(archived(10), at(10), at(4, "b"), [data_file(1, 0, 4)], may_lose=False)
    assert found == (topic_range(0, 4, identity="b"),)


def test_starting_offsets_go_on_at_the_end() -> None:
    text = starting_offsets({"prices": topic_range(0, 10)}, ["prices", "orders"])
    assert json.loads(text) == {"prices": {"0": 10}, "orders": {"0": -2}}
