"""Making room on a disk without a free byte: what removes data needs none, and nothing of it stops the server."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tocsin.journal.stream_spare import SPARE
from tocsin.model.limits import KIB
from tocsin.testing.clock import VirtualClock
from tocsin.testing.disk import SimulatedDisk
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient

SETUP = Setup(segment_bytes=8 * KIB, snapshot_bytes=32 * KIB)
TOPIC, RING, QUEUE = "topic:kept", "topic:ring", "queue:work"


class GreedyDisk(SimulatedDisk):
    """From the operation `greedy_from` on somebody else takes every byte that is free, also those that come back."""

    greedy_from = 1 << 60

    def _operation(self, action: str, name: str) -> bool:
        if self.operations >= self.greedy_from:
            self.capacity = self._used(self._root)
        return super()._operation(action, name)


def used(disk: SimulatedDisk, folder: str) -> int:
    return sum(
        disk.open(f"{folder}/{name}").size() if "." in name or name == SPARE else used(disk, f"{folder}/{name}")
        for name in disk.list(folder)
    )


def filled(disk: SimulatedDisk) -> tuple[Driver, ScriptedClient]:
    """Topics with files of their own, and a queue: each segment has something of all of them."""
    driver = Driver(SETUP, disk, VirtualClock())
    client = driver.connect()
    client.request("destination.create", destination=TOPIC, retained=True)
    client.request("destination.create", destination=RING, retained=True, max_age_ms=60_000)
    session = client.session()
    producers = [session.producer(name) for name in (TOPIC, RING, QUEUE)]
    for number in range(40):
        for producer in producers:
            producer.send(b"%03d" % number + b"x" * 400)
    driver.advance(1)
    assert used(disk, "streams") > 16 * KIB
    return driver, client


def purge_topic(driver: Driver, client: ScriptedClient) -> None:
    client.request("destination.purge", destination=TOPIC)


def purge_queue(driver: Driver, client: ScriptedClient) -> None:
    client.request("destination.purge", destination=QUEUE)


def delete(driver: Driver, client: ScriptedClient) -> None:
    client.request("destination.delete", destination=TOPIC)


def retain(driver: Driver, client: ScriptedClient) -> None:
    driver.advance(120)


REMOVALS = (purge_topic, purge_queue, delete, retain)


def operations_of(removal: Callable[[Driver, ScriptedClient], None]) -> tuple[int, int]:
    disk = GreedyDisk()
    driver, client = filled(disk)
    before = disk.operations
    removal(driver, client)
    driver.advance(5)
    return before, disk.operations


@pytest.mark.parametrize("removal", REMOVALS)
def test_without_a_free_byte_from_any_step_on(removal: Callable[[Driver, ScriptedClient], None]) -> None:
    first, end = operations_of(removal)
    for operation in range(first, end + 1, 1 + (end - first) // 40):
        disk = GreedyDisk()
        driver, client = filled(disk)
        before = used(disk, "streams")
        disk.greedy_from = operation
        removal(driver, client)
        driver.advance(5)
        if removal is not purge_queue:
            assert used(disk, "streams") < before * 3 // 4, operation
        disk.greedy_from, disk.capacity = 1 << 60, None
        again = driver.crash(Random(operation))
        kept = removal is purge_queue
        assert (again.manager.directory.has("kept") and again.show(TOPIC)["messages"] > 0) is (
            kept or removal is retain
        )
        assert again.show(QUEUE)["messages"] == (40 if removal is not purge_queue else 0)
        again.connect().session().producer(QUEUE).send("the server goes on")


def test_a_stream_of_an_earlier_release_gets_its_room_later() -> None:
    """It has no spare, and there is none to be had: its files go as soon as there is some."""
    disk = SimulatedDisk()
    driver, _ = filled(disk)
    driver = driver.stop()
    for stream in disk.list("streams"):
        disk.remove(f"streams/{stream}/{SPARE}")
    disk.capacity = disk._used(disk._root)
    driver = Driver(SETUP, disk, driver.clock, boot=9)
    names = disk.list("streams")
    client = driver.connect()
    client.request("destination.purge", destination=TOPIC)
    driver.advance(2)
    disk.capacity = None
    driver.advance(2)
    assert min(used(disk, f"streams/{stream}") for stream in names) <= 160
    assert driver.crash(Random(1)).show(TOPIC)["messages"] == 0
