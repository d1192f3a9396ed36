"""Members at the same LSN have the same hash, and whatever differs between them shows in it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from tests.message_manager.dialogue import server, session_of
from tests.message_manager.test_recovery import busy_life

from tocsin.journal.reader import BlockReader
from tocsin.journal.snapshot import Snapshot
from tocsin.message_manager.destination import Options
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.machine import Settings
from tocsin.message_manager.recovery import Recovery
from tocsin.message_manager.snapshots import destination_section, directory_section
from tocsin.message_manager.state_hash import describe_destination, describe_directory, state_hash
from tocsin.model.batch import DeliveryMode
from tocsin.model.destination import Kind, parse_destination
from tocsin.model.identity import Lsn
from tocsin.testing.driver import Driver, Setup
from tocsin.wire.frames import Outcome


class Standby:
    """Applies the records of a primary's journal, and nothing else."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.applied = driver, 0
        self.directory = Directory(Options())
        self.recovery = Recovery(self.directory, 0.0)

    def follow(self) -> None:
        journal = self.driver.storage.recovered.journal
        locations = [journal.locate(Lsn(lsn)) for lsn in range(self.applied + 1, journal.last_lsn + 1)]
        reader = BlockReader(self.driver.disk)
        for kind, _, payload in reader.read_records([where for where in locations if where is not None]):
            self.applied += 1
            self.recovery.apply(self.applied, kind, payload)
        reader.close()
        assert self.applied == journal.last_lsn


def compare(primary: Directory, standby: Directory) -> None:
    """The hashes; the descriptions first, because they say where the difference is."""
    assert describe_directory(primary) == describe_directory(standby)
    for state in primary:
        assert describe_destination(state) == describe_destination(standby.by_id[state.id])
    assert state_hash(primary) == state_hash(standby)


@pytest.mark.parametrize("seed", range(6))
def test_a_primary_and_a_standby_have_the_same_hash(seed: int) -> None:
    driver = server(limit=3)
    standby = Standby(driver)
    for part in range(12):
        busy_life(driver, 100 * seed + part, 6, snapshots=False, drains=seed % 2 == 1)
        standby.follow()
        compare(driver.manager.directory, standby.directory)
        for client in list(driver.clients.values()):
            driver.hang_up(client)
        driver.advance(seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_state_that_came_with_a_snapshot_has_the_same_hash(seed: int) -> None:
    driver = server(limit=3)
    busy_life(driver, seed, 60, snapshots=False, drains=seed % 2 == 1)
    lsn = int(driver.storage.recovered.journal.last_lsn)
    directory = driver.manager.directory
    sections = [directory_section(directory, lsn), *(destination_section(state, lsn) for state in directory)]
    loaded = Directory(Options())
    Recovery(loaded, 0.0).load(Snapshot(Lsn(lsn), tuple(sections)))
    compare(directory, loaded)


def test_a_restart_changes_the_hash_only_by_what_it_records() -> None:
    driver = server(limit=3)
    busy_life(driver, 3, 60, snapshots=True)
    again = driver.crash(Random(3))
    standby = Standby(again)
    standby.follow()
    compare(again.manager.directory, standby.directory)


# ---- what must show


def lively(driver: Driver) -> None:
    driver.connect("me").request("destination.create", destination="topic:kept", retained=True)
    session = session_of(driver, "other")
    session.producer("queue:orders").send("a", "b", "c")
    session.producer("topic:kept").send("d")
    session.consumer("topic:t", subscription="d", durable=True)


def send(driver: Driver) -> None:
    session_of(driver).producer("queue:orders").send("more")


def settle(driver: Driver) -> None:
    consumer = session_of(driver).consumer("queue:orders")
    consumer.ack(consumer.take()[0])


def refuse(driver: Driver) -> None:
    consumer = session_of(driver).consumer("queue:orders")
    consumer.settle(Outcome.NACK, [consumer.take()[0]], 0, "")


def subscribe(driver: Driver) -> None:
    session_of(driver, "third").consumer("topic:t", subscription="e", durable=True)


def subscribe_otherwise(driver: Driver) -> None:
    session_of(driver, "third").consumer("topic:t", subscription="e", durable=True, selector="n > 1")


def delay(driver: Driver) -> None:
    session_of(driver).producer("queue:orders").send("later", due=int(driver.clock.wall() * 1000) + 60_000)


def create(driver: Driver) -> None:
    driver.connect().request("destination.create", destination="queue:new")


def create_another(driver: Driver) -> None:
    driver.connect().request("destination.create", destination="queue:other")


def set_options(driver: Driver) -> None:
    driver.connect().request("destination.create", destination="queue:new", redelivery_limit=17)


def delete(driver: Driver) -> None:
    driver.connect().request("destination.delete", destination="topic:kept")


def purge(driver: Driver) -> None:
    driver.connect().request("destination.purge", destination="topic:kept")


def assign_name(driver: Driver, group: int = 2) -> None:
    fields = {"name": "far", "kind": int(Kind.QUEUE), "group": group, "incarnation": 1}
    driver.manager.directory.names.apply_assign(fields)


def assign_name_elsewhere(driver: Driver) -> None:
    assign_name(driver, 3)


def remove_name(driver: Driver) -> None:
    assign_name(driver)
    driver.manager.directory.names.apply_remove({"name": "far", "incarnation": 1})


def adopt(driver: Driver) -> None:
    driver.manager.directory.find(parse_destination("queue:orders")).incarnation = 7


def drain(driver: Driver, messages: int = 2) -> None:
    driver.connect().request("drain.take", destination="queue:orders", drain="d", after=0, messages=messages)


def drain_more(driver: Driver) -> None:
    drain(driver, 3)


def finish_drain(driver: Driver) -> None:
    drain(driver)
    driver.connect().request("drain.finish", destination="queue:orders", drain="d", upto=1)


def release_drain(driver: Driver) -> None:
    drain(driver)
    driver.connect().request("drain.release", destination="queue:orders", drain="d")


def let_producers_expire(driver: Driver) -> None:
    for client in list(driver.clients.values()):
        driver.hang_up(client)
    driver.advance(2 * 24 * 3600)


def nothing(driver: Driver) -> None:
    pass


CHANGES: tuple[Callable[[Driver], None], ...] = (
    nothing,
    send,
    settle,
    refuse,
    subscribe,
    subscribe_otherwise,
    delay,
    create,
    create_another,
    set_options,
    delete,
    purge,
    assign_name,
    assign_name_elsewhere,
    remove_name,
    adopt,
    drain,
    drain_more,
    finish_drain,
    release_drain,
    let_producers_expire,
)


def hash_after(change: Callable[[Driver], None]) -> bytes:
    driver = Driver(Setup(manager=Settings(defaults=Options())))
    lively(driver)
    change(driver)
    return state_hash(driver.manager.directory)


def test_every_change_shows() -> None:
    hashes = {change.__name__: hash_after(change) for change in CHANGES}
    assert len(set(hashes.values())) == len(CHANGES), hashes
    assert hash_after(nothing) == hashes["nothing"]


def test_what_no_restart_survives_does_not_show() -> None:
    driver = server()
    lively(driver)
    session = session_of(driver)
    consumer = session.consumer("queue:orders")
    before = state_hash(driver.manager.directory)
    session.consumer("topic:kept")
    session.consumer("queue:orders", mode="browse")
    held = consumer.take()
    consumer.settle(Outcome.RELEASE, held, None, "")
    assert state_hash(driver.manager.directory) == before
    rows = driver.manager.directory.by_id
    session.producer("queue:orders").send("gone soon", mode=DeliveryMode.NON_PERSISTENT)
    described = [describe_destination(state) for state in rows.values() if state.address.name == "orders"]
    assert [row[:2] for row in described[0]["rows"]] == [(0, 3)]
    assert described[0]["views"][0]["unfinished"] == [(0, 3)]
