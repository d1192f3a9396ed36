"""The options of the source: what they mean, and what a mistake is told."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tocsin.model.errors import ConfigError, InvalidDestination
from tocsin.spark.server_options import ServerOptions
from tocsin.spark.source_options import SOURCE_OPTIONS, SourceOptions, read_source_options
from tocsin.spark.start_options import EARLIEST, LATEST, Where

URL = "tocsin://localhost:7177"


def read(streaming: bool | None = False, **options: Any) -> SourceOptions:
    given = {"url": URL, "subscribe": "prices", **{name: str(value) for name, value in options.items()}}
    return read_source_options({name: value for name, value in given.items() if value != "None"}, streaming=streaming)


def test_defaults() -> None:
    batch, stream = read(), read(streaming=True)
    assert (batch.starting, batch.ending) == (EARLIEST, LATEST)
    assert stream.starting == LATEST
    assert batch.names == ("prices",) and batch.pattern is None
    assert (batch.fail_on_data_loss, batch.include_headers, batch.pushdown, batch.filter) == (True, False, False, None)
    assert (batch.group_id, batch.hold, stream.max_offsets) == (None, None, 2_000_000)
    assert batch.local is None and read(localFiles="never").local is False


def test_names_have_no_case_and_lists_have_commas() -> None:
    found = read_source_options({"URL": URL, "SUBSCRIBE": "a, topic:b,queue:c"}, streaming=False)
    assert found.names == ("a", "topic:b", "queue:c")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"startingOffset": "latest"},
            "'startingOffset' is no option of the tocsin source; did you mean 'startingOffsets'",
        ),
        ({"maxoffsetpertrigger": "1"}, "did you mean 'maxOffsetsPerTrigger'"),
        ({"kafka.bootstrap.servers": "x"}, "is no option of the tocsin source"),
        ({"url": None}, "option url is missing"),
        ({"url": "http://localhost"}, "must begin with tocsin://"),
        ({"user": "ann"}, "user 'ann' needs a password"),
        ({"subscribe": None}, "Set one of the options subscribe"),
        ({"subscribePattern": "a.*"}, "Set one of the options subscribe"),
        ({"subscribe": None, "subscribePattern": "a["}, "no regular expression"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribe": "a,topic:a"}, "names a destination twice"),
        ({"startingOffsets": "latest"}, "a batch from the latest offset is empty"),
        ({"endingOffsets": "earliest"}, "up to the earliest offset there is nothing"),
        ({"startingOffsets": "middle"}, "is earliest, latest or JSON"),
        ({"startingOffsets": '{"prices": "7"}'}, "an offset is a whole number"),
        ({"startingOffsets": '{"prices": -3}'}, "an offset is a whole number"),
        ({"startingOffsets": '{"prices": {"1": 7}}'}, "the one partition 0"),
        ({"startingOffsets": "[]"}, "is earliest, latest or JSON"),
        ({"startingTimestamp": "noon"}, "milliseconds since 1970"),
        ({"startingTimestamp": "2026-11-15T08:00:00"}, "a time with its zone"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "is error or latest"),
        ({"maxOffsetsPerTrigger": "0"}, "whole number from 1 on"),
        ({"minPartitions": "many"}, "whole number, not 'many'"),
        ({"failOnDataLoss": "maybe"}, "is true or false"),
        ({"maxTriggerDelay": "soon"}, "a duration such as"),
        ({"holdSeconds": "-1"}, "greater than 0"),
        ({"prefetchBytes": "1"}, "whole number from"),
        ({"localFiles": "always"}, "option localFiles is auto or never"),
        ({"localFile": "auto"}, "did you mean 'localFiles'"),
        ({"prefetchBytes": "99999999999"}, "whole number up to"),
        ({"tlsKey": "key.pem"}, "needs tlsCertificate"),
    ],
)
def test_a_mistake_gets_a_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**options)


def test_a_bad_name_is_refused() -> None:
    with pytest.raises(InvalidDestination, match="contains ' '"):
        read(subscribe="two words")


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is for spark.read only"):
        read(streaming=True, **{name: '{"prices": 5}' if name != "endingTimestamp" else 5})


def test_offsets_by_name_in_both_spellings() -> None:
    found = read(subscribe="a,b", startingOffsets='{"b": {"0": 7}, "topic:a": -2}')
    assert found.starting == Where(offsets=(("a", -2), ("b", 7)))


def test_times_go_before_offsets_and_one_for_all_goes_first() -> None:
    at = datetime(2026, 11, 15, 8, tzinfo=UTC)
    milliseconds = int(at.timestamp() * 1000)
    by_name = f'{{"prices": {milliseconds}}}'
    assert read(startingTimestamp=at.isoformat(), startingOffsetsByTimestamp=by_name).starting == Where(
        time=milliseconds
    )
    assert read(startingOffsets="earliest", startingOffsetsByTimestamp=by_name).starting == Where(
        times=(("prices", milliseconds),)
    )
    assert read(endingTimestamp=milliseconds).ending == Where(time=milliseconds)


def test_durations_are_written_as_spark_does() -> None:
    assert read(maxTriggerDelay="500ms").max_delay == 0.5
    assert read(maxTriggerDelay="15m").max_delay == 900


def test_a_group_names_the_hold() -> None:
    assert read(groupId="nightly").hold == "spark:nightly"


def test_nothing_shows_the_password() -> None:
    server = ServerOptions("tocsin://ann:secret@a:1,b:2/?client_id=me", password="other secret")
    assert "secret" not in str(server) and "other" not in repr(server)
    assert str(server) == "tocsin://a:1,b:2"


def test_every_option_is_on_the_page() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
    missing = [name for name in SOURCE_OPTIONS if f"`{name}`" not in page]
    assert not missing, f"docs/spark.md does not explain {missing}"
