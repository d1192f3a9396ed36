"""A disk that is really full: publishing is refused, everything else goes on, and nothing confirmed is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.system.cluster_load import check_logs
from tests.system.processes import PATIENCE, ServerProcess, until

import tocsin
from tocsin import errors
from tocsin.cli.bench.cluster import OwnCluster, shaped

MIB = 1024 * 1024
SETTINGS = {"segment_bytes": MIB, "max_message_bytes": 64 * 1024}
BODY = 20_000
SENDS_MAX = 16 * MIB // BODY


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 14 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=14m", "tmpfs", str(path)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small file system can't be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def fill_up(disk: Path) -> Path:
    """Somebody else takes all that is left, to the last byte."""
    ballast = disk / "ballast"
    with open(ballast, "ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return ballast


@pytest.fixture
def server(disk: Path) -> Iterator[ServerProcess]:
    with ServerProcess(disk / "server", **SETTINGS) as running:
        yield running
        running.check_log()


def fill(producer: tocsin.Producer) -> list[str]:
    """Sends until the server refuses; returns what was confirmed."""
    confirmed: list[str] = []
    for number in range(SENDS_MAX):
        body = f"{number:06}".ljust(BODY)
        try:
            producer.send(body, timeout=PATIENCE)
        except errors.StorageFull as refused:
            assert "disk" in str(refused)
            return confirmed
        confirmed.append(body)
    raise AssertionError("a disk of 14 MiB took 16 MiB of messages")


def take(consumer: tocsin.Consumer, count: int) -> list[str]:
    bodies = [consumer.receive_body(str, timeout=PATIENCE) for _ in range(count)]
    assert None not in bodies, "what was confirmed did not come"
    return [str(body) for body in bodies]


def can_send(producer: tocsin.Producer, body: str) -> bool:
    try:
        producer.send(body, timeout=PATIENCE)
    except errors.StorageFull:
        return False
    return True


def test_publishing_is_refused_and_comes_back_with_the_room(server: ServerProcess) -> None:
    with tocsin.connect(server.url) as connection, connection.session() as session:
        queue = session.queue("orders")
        producer = session.producer(queue)
        confirmed = fill(producer)
        assert len(confirmed) > 3 * MIB // BODY
        with pytest.raises(errors.StorageFull):
            producer.send_many(["x" * BODY] * 10)

        consumer = session.consumer(queue)
        taken = take(consumer, len(confirmed) // 2)
        consumer.close()
        assert server.stored("orders") == len(confirmed) - len(taken)
        assert connection.purge_destination(queue) == len(confirmed) - len(taken)
        assert taken == confirmed[: len(taken)]

        until(lambda: can_send(producer, "again"), "publishing works again")
        assert take(session.consumer(queue), 1) == ["again"]


def test_all_that_was_confirmed_is_there_after_a_kill_and_a_restart(server: ServerProcess) -> None:
    with tocsin.connect(server.url) as connection, connection.session() as session:
        confirmed = fill(session.producer(session.queue("orders")))
        server.kill()
        server.start()
        assert take(session.consumer(session.queue("orders")), len(confirmed)) == confirmed
        until(lambda: can_send(session.producer(session.queue("orders")), "again"), "publishing works again")
    assert server.stop() == 0
    assert server.stored_after_restart("orders") == 1


def test_others_fill_the_disk_to_the_last_byte(disk: Path, server: ServerProcess) -> None:
    """Acknowledgements still have room, because the next segment was set aside before the disk was full."""
    with tocsin.connect(server.url) as connection, connection.session(ack="client") as session:
        queue = session.queue("orders")
        producer = session.producer(queue)
        producer.send("first")
        ballast = fill_up(disk)
        confirmed = ["first", *fill(producer)]
        consumer = session.consumer(queue)
        for body in confirmed:
            message = consumer.receive(PATIENCE)
            assert message is not None and message.body == body
            session.acknowledge()
        assert server.is_running
        ballast.unlink()
        until(lambda: can_send(producer, "again"), "publishing works again")
    assert server.stop() == 0
    assert server.stored_after_restart("orders") == 1


def test_a_full_disk_does_not_keep_a_server_from_stopping_and_starting(disk: Path, server: ServerProcess) -> None:
    with tocsin.connect(server.url) as connection, connection.session() as session:
        confirmed = fill(session.producer(session.queue("orders")))
    assert server.stop() == 0
    server.start()
    with tocsin.connect(server.url) as connection, connection.session() as session:
        assert take(session.consumer(session.queue("orders")), len(confirmed)) == confirmed
    assert server.stop() == 0


def test_purging_a_retained_topic_needs_no_free_byte(disk: Path, server: ServerProcess) -> None:
    """Its files go, and with them comes the room for the next messages."""
    with tocsin.connect(server.url) as connection, connection.session() as session:
        topic = session.topic("prices")
        connection.create_destination("prices", "topic", retained=True)
        producer = session.producer(topic)
        confirmed = fill(producer)
        streams = server.data / "streams"
        until(lambda: any(streams.rglob("*.seg")), "blocks have moved to the topic's own files")
        fill_up(disk)
        assert connection.purge_destination(topic) == len(confirmed)
        until(lambda: can_send(producer, "again"), "publishing works again")
        assert server.is_running
    server.kill()
    server.start()
    with tocsin.connect(server.url) as connection:
        known = connection.offsets("topic:prices")
        assert (known.first, known.end) == (len(confirmed), len(confirmed) + 1)


def test_a_server_starts_and_a_group_fails_over_without_a_free_byte(disk: Path, tmp_path: Path) -> None:
    """Votes, promises and the number of a start are overwritten in place."""
    cluster = OwnCluster(disk, shaped(1, 2, "fast"), SETTINGS)
    for name in cluster.names:
        # The nodes' files fill the disk, not what they say about it.
        cluster.log_file(name).symlink_to(tmp_path / f"{name}.log")
    try:
        cluster.start()
        cluster.wait_until_well()
        primary = cluster.primary()
        assert primary is not None
        with tocsin.connect(cluster.url) as connection, connection.session() as session:
            producer = session.producer(session.queue("orders"))
            producer.send("before")
            ballast = fill_up(disk)
            cluster.kill(primary)
            fill_up(disk)
            producer.send("without it", timeout=PATIENCE)
            cluster.start(primary)
            producer.send("with it again", timeout=PATIENCE)
            ballast.unlink()
            cluster.wait_until_well()
            consumer = session.consumer(session.queue("orders"))
            assert take(consumer, 3) == ["before", "without it", "with it again"]
        cluster.check_alive()
        check_logs(cluster)
    finally:
        cluster.stop()
