from __future__ import annotations

import pytest
from tests.spark.pipelines.archives import topic_range

from tocsin.client.reading import Offsets
from tocsin.model.errors import ConfigError, DataLost
from tocsin.spark.pipelines.history import HistoryOptions, Seam, seam


def live(first: int, end: int, identity: str = "a") -> Offsets:
    return Offsets(first, end, identity, retained=True)


def test_the_topic_is_read_from_where_the_archive_ends() -> None:
    assert seam("prices", [topic_range(0, 10)], live(4, 15), True) == Seam("prices", "a", 0, 10, 10, 15)


def test_a_topic_that_has_nothing_new_adds_nothing() -> None:
    found = seam("prices", [topic_range(0, 10)], live(10, 10), True)
    assert found.live == found.end == 10


@pytest.mark.parametrize(
    ("known", "now", "sentence"),
    [
        ([topic_range(0, 10)], live(12, 15), "Retention has removed the offsets 10 to 12 of prices before"),
        ([topic_range(0, 10)], live(0, 15, "b"), "The topic prices was deleted and made again"),
        ([topic_range(0, 10)], live(0, 8), "The topic prices ends at offset 8, and the archive has it up to 10"),
        ([topic_range(0, 5), topic_range(7, 10)], live(0, 15), "The archive lacks the offsets 5 to 7 of prices"),
    ],
)
def test_a_gap_gets_a_sentence(known: list[object], now: Offsets, sentence: str) -> None:
    with pytest.raises(DataLost, match=sentence):
        seam("prices", known, now, True)  # type: ignore[arg-type]


def test_a_gap_may_be_accepted() -> None:
    assert seam("prices", [topic_range(0, 10)], live(12, 15), False).values() == {
        "first": 0,
        "archived": 10,
        "end": 15,
        "lost": 2,
    }
    again = seam("prices", [topic_range(0, 10)], live(0, 15, "b"), False)
    assert again.end == again.live == 10, "the new topic is another one"


def test_only_the_newest_topic_of_a_name_counts() -> None:
    known = [topic_range(0, 50), topic_range(3, 9, identity="b")]
    assert seam("prices", known, live(3, 12, "b"), True) == Seam("prices", "b", 3, 9, 9, 12)


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="at least one topic"):
        HistoryOptions(archive="lake", topics=())
    with pytest.raises(ConfigError, match="rows is a whole number from 0 on"):
        HistoryOptions(archive="lake", topics=("a",), rows=-1)
