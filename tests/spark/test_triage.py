"""Dead messages by reason and origin, and back to where they came from."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.topics import dead_messages
from tests.system.clusters import ClusterProcesses
from tests.system.processes import until

import tocsin
from tocsin.model.errors import ConfigError
from tocsin.spark.pipelines.triage import SAMPLE_BYTES, TriageOptions, parts, ranges, run, sample_text
from tocsin.spark.pipelines.watching import QUIET

_NUMBERS = count(1)


@pytest.fixture
def queue(server: Any) -> str:
    """A queue that no other test uses, whose messages die at the first refusal."""
    name = f"triage.{next(_NUMBERS)}"
    with tocsin.connect(server.url) as connection:
        connection.create_destination(name, "queue", redelivery_limit=1)
    return name


def kill(url: str, queue: str, bodies: list[str], reason: str) -> None:
    with tocsin.connect(url) as connection, connection.session(ack="client") as session:
        producer = session.producer(session.queue(queue))
        for body in bodies:
            producer.send(body)
        consumer = session.consumer(session.queue(queue))
        for _ in bodies:
            message = consumer.receive(timeout=10)
            assert message is not None
            message.nack(reason=reason)
    wait_for_dead(url, queue, reason, len(bodies))


def wait_for_dead(url: str, queue: str, reason: str, number: int) -> None:
    """Until the server has moved them; a browser waits for nothing."""
    for _ in range(1000):
        found = dead_messages(url, f"queue:{queue}")
        if sum(message.properties["JMS_tocsin_reason"] == reason for message in found) >= number:
            return
    raise AssertionError("messages did not die")


def test_groups_by_reason_and_origin(spark: SparkSession, server: Any, queue: str) -> None:
    kill(server.url, queue, ["one", "two", "three", "four"], "no such part")
    kill(server.url, queue, ["five"], "too heavy")
    options = TriageOptions(url=server.url, origin=f"queue:{queue}", samples=2)
    report = run(spark, options, QUIET)
    first, second = report.values["groups"]
    assert (first["reason"], first["messages"], first["samples"]) == ("no such part", 4, ["one", "two"])
    assert (second["reason"], second["messages"], second["samples"]) == ("too heavy", 1, ["five"])
    assert first["origin"] == second["origin"] == f"queue:{queue}"
    assert first["first"] <= first["last"] <= second["last"]
    assert [len(row) for row in report.tables[0].rows] == [len(report.tables[0].columns)] * 2
    narrow = run(spark, replace(options, reason="heavy"), QUIET)
    assert [group["group"] for group in narrow.values["groups"]] == [second["group"]]
    assert run(spark, replace(options, group=first["group"]), QUIET).values["messages"] == 4


def test_a_chosen_group_goes_back(spark: SparkSession, server: Any, queue: str) -> None:
    kill(server.url, queue, ["a", "b"], "no such part")
    kill(server.url, queue, ["c"], "too heavy")
    kill(server.url, queue, ["d"], "no such part")
    options = TriageOptions(url=server.url, origin=f"queue:{queue}", reason="no such part", resend=True)
    assert run(spark, options, QUIET).values == {"resent": 3}
    with tocsin.connect(server.url) as connection, connection.session() as session:
        consumer = session.consumer(session.queue(queue))
        back = [consumer.receive(timeout=10) for _ in range(3)]
    assert sorted(message.body for message in back if message is not None) == ["a", "b", "d"]
    assert [message.body for message in dead_messages(server.url, f"queue:{queue}")] == ["c"]
    assert run(spark, options, QUIET).values == {"resent": 0}


def test_nothing_is_dead(spark: SparkSession, server: Any) -> None:
    report = run(spark, TriageOptions(url=server.url, origin="queue:triage.never"), QUIET)
    assert report.values == {"messages": 0, "groups": []}
    assert report.notes == ["There are no such messages in _DMQ."]


@pytest.mark.parametrize("change", [{"resend": True}, {"samples": -1}])
def test_options_that_make_no_sense(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        TriageOptions(**change)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (b"plain", "plain"),
        ("größe".encode(), "größe"),
        (b"two\nlines", "two\\nlines"),
        (b"\xff\x00", "ff 00"),
        (b"x" * 100, "x" * 57 + "..."),
        (("ö" * SAMPLE_BYTES).encode()[:SAMPLE_BYTES], "ö" * 57 + "..."),
    ],
)
def test_samples_are_for_eyes(value: bytes | None, text: str) -> None:
    assert sample_text(value) == text


def test_offsets_as_ranges() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == [(1, 4), (7, 8), (9, 11)]
    assert ranges([]) == []
    many = [(2 * number, 2 * number + 1) for number in range(5000)]
    assert [len(part) for part in parts(many)] == [4096, 904]


def test_dead_messages_of_all_groups_of_a_cluster(spark: SparkSession, tmp_path: Path) -> None:
    shape = ("--client-managers", "1", "--groups", "2", "--members", "1")
    with ClusterProcesses(tmp_path / "cluster", *shape) as cluster:
        # Names are spread over the groups by what each group has, and the directory of names by their slots.
        origins = [f"orders{number}" for number in range(2)]
        with tocsin.connect(cluster.url) as connection:
            for origin in origins:
                connection.create_destination(origin, "queue", redelivery_limit=1)
                kill(cluster.url, origin, [f"of {origin}"], "no such part")
                _wait_until_told(connection)
        report = run(spark, TriageOptions(url=cluster.url), QUIET)
        assert [group["origin"] for group in report.values["groups"]] == [f"queue:{origin}" for origin in origins]
        resend = TriageOptions(url=cluster.url, everything=True, resend=True)
        assert run(spark, resend, QUIET).values == {"resent": 2}
        with tocsin.connect(cluster.url) as connection, connection.session() as session:
            for origin in origins:
                back = session.consumer(session.queue(origin)).receive(timeout=10)
                assert back is not None and back.body == f"of {origin}"


def _wait_until_told(connection: tocsin.Connection) -> None:
    """Until the client manager knows that some group has messages: then the next name goes to the other one."""
    until(
        lambda: any(group["live_bytes"] for group in connection.cluster_status()["groups"]),
        "the groups have said what they have",
    )
