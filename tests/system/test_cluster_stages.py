"""Stages in a cluster of real processes: primaries and a client manager are killed between append and commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.system.clusters import ClusterProcesses

import tocsin
from tocsin.client.staging import StagedColumns, StageReceipt
from tocsin.model.batch import BodyKind, Column
from tocsin.model.columns import bytes_column

TOPICS = [f"topic:t{number}" for number in range(4)]
BLOCKS, ROWS = 6, 500
APP = "a query"


def stage(connection: tocsin.Connection, topic: str, epoch: int) -> StageReceipt:
    with connection.session() as session:
        stage = session.stage(topic)
        for block in range(BLOCKS):
            bodies = [f"{epoch}/{block}/{row}".encode() for row in range(ROWS)]
            stage.append(StagedColumns(ROWS, BodyKind.BYTES, [bytes_column(Column.BODY, bodies)]))
        return stage.close(timeout=60)


def expected(epoch: int) -> list[bytes]:
    return [f"{epoch}/{block}/{row}".encode() for block in range(BLOCKS) for row in range(ROWS)]


def content(connection: tocsin.Connection, topic: str) -> list[bytes]:
    _, end = connection.offset_range(topic)
    bodies: list[bytes] = []
    with connection.session() as session:
        reader = session.replay(session.topic(topic.partition(":")[2]))
        while len(bodies) < end:
            message = reader.receive(timeout=20)
            assert message is not None
            bodies.append(message.body)
    return bodies


@pytest.mark.timeout(180)
def test_an_epoch_outlives_whoever_is_killed_and_is_there_once(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path / "cluster") as cluster:
        # One connection stays at a client manager that lives; the other goes to whichever it finds.
        with tocsin.connect(cluster.url) as connection, tocsin.connect(cluster.url_of("cm-2")) as steady:
            for topic in TOPICS:
                connection.create_destination(topic.partition(":")[2], "topic", retained=True)
            # Nodes tell their status now and then, so what was created a moment ago need not be in it yet.
            cluster.wait_for(
                lambda status: all(group["destinations"] for group in status["groups"]), "both groups have topics"
            )
            first = [stage(connection, topic, 0) for topic in TOPICS]
            killed = [cluster.group(number)["primary"] for number in (1, 2)]
            for node in killed:
                cluster.command("kill", node)
            assert connection.commit_stages(APP, 0, first) in (True, False)
            assert connection.last_epoch(APP, TOPICS) == 0
            second = [stage(connection, topic, 1) for topic in TOPICS]
            # The client manager that is killed next is a voter: without it and a member a group would have no majority.
            for node in killed:
                cluster.command("start", node)
            cluster.wait_for(lambda seen: all(len(group["in_sync"]) == 2 for group in seen["groups"]), "all are back")
            cluster.command("kill", "cm-1")
            assert connection.commit_stages(APP, 1, second) in (True, False)
            for epoch, receipts in ((1, second), (0, first)):
                assert steady.commit_stages(APP, epoch, receipts) is False
            # The whole epoch once more, as after a crash of which nobody knows the outcome.
            assert steady.commit_stages(APP, 1, [stage(steady, topic, 1) for topic in TOPICS]) is False
            assert steady.drop_stages([*first, *second]) == 0
            for topic in TOPICS:
                assert content(steady, topic) == expected(0) + expected(1)
                assert steady.show_destination(topic)["staged"] == 0
        cluster.check_logs()
