from __future__ import annotations

from pathlib import Path

import pytest

import tocsin
from tocsin.model.errors import ConfigError
from tocsin.spark.connections import close_connections
from tocsin.spark.pipelines.definition import PipelineOptions
from tocsin.spark.pipelines.live_topics import moment
from tocsin.spark.pipelines.replay import Pace, Place, ReplayOptions, destination_of, replay_name


def options(**given: object) -> ReplayOptions:
    return ReplayOptions(**{"id": "r1", "topic": "prices", "to": "again", **given})  # type: ignore[arg-type]


def test_a_rate_is_kept_from_chunk_to_chunk() -> None:
    pace = Pace(100.0, now=0.0)
    assert pace.after(50, began=0.0, now=0.1) == pytest.approx(0.4)
    assert pace.after(50, began=0.5, now=0.8) == pytest.approx(0.2)


def test_time_that_was_lost_is_not_made_up_for() -> None:
    pace = Pace(100.0, now=0.0)
    assert pace.after(50, began=0.0, now=9.0) == 0.0
    assert pace.after(50, began=9.0, now=9.1) == pytest.approx(0.4)


def test_without_a_rate_nothing_waits() -> None:
    assert Pace(None, now=0.0).after(1_000_000, began=0.0, now=0.0) == 0.0


def test_chunks_are_small_where_the_rate_is_low() -> None:
    assert options().rows_at_once == 200_000
    assert options(rate=1000.0).rows_at_once == 2000
    assert options(rate=0.1).rows_at_once == 1
    assert options(rate=1e9, chunk_rows=500).rows_at_once == 500


def test_a_replay_is_another_application_for_each_topic() -> None:
    names = {replay_name("r1", "prices", "a"), replay_name("r1", "prices", "b"), replay_name("r1", "orders", "a")}
    assert len(names) == 3 and replay_name("r1", "prices", "a") in names
    assert len(replay_name("r" * 64, "t" * 255, "a").encode()) < 255


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"id": ""}, "1 to 64 characters"),
        ({"to": "prices"}, "from prices to itself would never end"),
        ({"rate": 0.0}, "rate is a number of messages per second"),
        ({"chunk_rows": 0}, "chunk_rows is from 1"),
        ({"from_offset": 1, "from_time": "2026-11-15"}, "Give from_offset or from_time"),
        ({"to_time": "yesterday"}, "'yesterday' is no time"),
    ],
)
def test_options_that_make_no_sense_get_a_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        options(**given)


def test_a_topic_may_go_to_its_name_on_another_server() -> None:
    assert options(to="prices", to_url="tocsin://elsewhere:7177").to == "prices"


def test_times_without_a_zone_are_utc() -> None:
    assert moment("2026-11-15T08:30:00") == moment("2026-11-15T08:30:00+00:00") == moment("2026-11-15T09:30:00+01:00")


@pytest.mark.parametrize("name", ["again", "queue:again"])
def test_a_target_that_is_not_there_is_made(tmp_path: Path, name: str) -> None:
    with tocsin.Server(tmp_path / "data") as server, tocsin.connect(server.url) as connection:
        place = Place(PipelineOptions(url=server.url), destination_of(name), "replay:r1")
        assert place.take_over() < place.take_over()
        assert place.position() == -1
        assert connection.show_destination(place.destination)["messages"] == 0
        close_connections()
