"""A byte turns on the disk of a real server, and of a member of a real cluster."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.system.cluster_load import running_cluster
from tests.system.processes import ServerProcess, run_command, until

import tocsin
from tocsin import errors
from tocsin.cli.bench.cluster import OwnCluster, shaped
from tocsin.model.batch import Column
from tocsin.model.columns import column_values

MESSAGES, EACH = 12_000, 50
SMALL: dict[str, Any] = {"segment_bytes": 640 * 1024, "max_message_bytes": 32 * 1024, "cache_bytes": 0}


def fill(connection: tocsin.Connection, folder: Path) -> Path:
    """A retained topic in files of its own; returns the first of them."""
    connection.create_destination("readings", "topic", retained=True)
    with connection.session() as session:
        producer = session.producer(session.topic("readings"))
        for first in range(0, MESSAGES, EACH):
            producer.send_many([f"{number:0200}" for number in range(first, first + EACH)])
        session.producer(session.queue("orders")).send("an order")
    until(lambda: len(list(folder.glob("streams/*/*.seg"))) > 1, "the topic has files of its own")
    return min(folder.glob("streams/*/*.seg"))


def turn_a_bit(file: Path) -> None:
    with open(file, "r+b") as opened:
        opened.seek(100_000)
        value = opened.read(1)[0]
        opened.seek(100_000)
        opened.write(bytes((value ^ 4,)))


def numbers(found: tocsin.RangeBlock) -> list[int]:
    bodies = column_values(found.block, Column.BODY) or []
    return [int(bodies[index]) for start, end in found.ranges for index in range(start, end)]


def read_all(session: tocsin.Session, start: int = 0, **how: Any) -> tuple[list[int], str]:
    """What a reader of the range gets, and what it is told then."""
    found: list[int] = []
    try:
        for block in session.read_range(session.topic("readings"), start, MESSAGES, **how):
            found += numbers(block)
    except errors.DataDamaged as error:
        return found, str(error)
    return found, ""


def goes_on_at(said: str) -> tuple[int, int]:
    match = re.search(r"Offsets (\d+) to (\d+) of (?:topic:readings|queue:orders) cannot be read", said)
    assert match is not None and said.endswith(f"go on at offset {match[2]}."), said
    return int(match[1]), int(match[2])


def lost(said: str) -> int:
    first, end = goes_on_at(said)
    return end - first


@pytest.mark.timeout(90)
def test_a_server_tells_who_reads_what_is_damaged_and_goes_on_with_all_else(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, **SMALL) as server:
        with tocsin.connect(server.url) as connection:
            file = fill(connection, server.data)
        turn_a_bit(file)
        for _ in range(2):
            check_readers(server)
            server.kill()
            server.start()
        check_readers(server)
        assert server.stop() == 0
        server.check_log()


def check_readers(server: ServerProcess) -> None:
    with tocsin.connect(server.url) as connection, connection.session() as session:
        before, said = read_all(session, local=False)
        first, end = goes_on_at(said)
        assert before == list(range(first)) and first < end <= first + EACH
        assert read_all(session, end, local=False) == (list(range(end, MESSAGES)), "")
        assert read_all(session, local=True) == (before, said), "who maps the file is told the same"
        assert read_all(session, skip_removed=True) == ([*range(first), *range(end, MESSAGES)], "")
        replay = session.replay(session.topic("readings"))
        replayed = [replay.receive(10) for _ in range(first)]
        assert [int(message.body) for message in replayed if message is not None] == before
        with pytest.raises(errors.DataDamaged):
            replay.receive(10)
        with session.browser(session.queue("orders")) as browser:
            assert [message.body for message in browser] == ["an order"]
    shown = run_command("destinations", "show", "topic:readings", "--url", server.url)
    assert shown.returncode == 0 and f"damaged\t[[{first}, {end}]]" in shown.stdout.decode()
    assert f"The batch at offset {first} of topic:readings cannot be read" in server.log()


@pytest.mark.timeout(90)
def test_a_consumer_is_told_once_and_gets_all_the_rest(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, **SMALL) as server, tocsin.connect(server.url) as connection:
        with connection.session() as session:
            producer = session.producer(session.queue("orders"))
            for first in range(0, MESSAGES, EACH):
                producer.send_many([f"{number:0200}" for number in range(first, first + EACH)])
        turn_a_bit(min(server.data.glob("journal/*.seg")))
        with connection.session() as session:
            consumer = session.consumer(session.queue("orders"), prefetch=100)
            got: list[int] = []
            told: list[str] = []
            while not told or len(got) < MESSAGES - lost(told[0]):
                try:
                    message = consumer.receive(10)
                except errors.DataDamaged as error:
                    told.append(str(error))
                    continue
                assert message is not None and not message.redelivered
                got.append(int(message.body))
        assert len(told) == 1 and len(set(got)) == MESSAGES - lost(told[0])
        assert server.stored("orders") == lost(told[0])
        server.check_log()


@pytest.mark.timeout(120)
def test_a_member_is_mended_by_another_ones_copy_and_readers_get_every_row(tmp_path: Path) -> None:
    with running_cluster(tmp_path, shaped(1, 2, "fast"), **SMALL) as cluster, tocsin.connect(cluster.url) as connection:
        fill(connection, folder_of_primary(cluster))
        file = min(folder_of_primary(cluster).glob("streams/*/*.seg"))
        whole = file.read_bytes()
        turn_a_bit(file)
        assert file.read_bytes() != whole
        with connection.session() as session:
            assert read_all(session, local=False) == (list(range(MESSAGES)), "")
        assert file.read_bytes()[: len(whole)] == whole
        cluster.wait_until_well()


def folder_of_primary(cluster: OwnCluster) -> Path:
    primary = cluster.primary()
    assert primary is not None
    return cluster.member_folder(primary)
