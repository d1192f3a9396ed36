"""Retained topics lose many files at once: after a power loss in the middle of that the server starts all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.crash.watched import WatchedDisk, fates

from tocsin.model.limits import KIB
from tocsin.testing.clock import VirtualClock
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient

SETUP = Setup(segment_bytes=8 * KIB)
TOPIC = "topic:kept"


def filled(disk: WatchedDisk) -> ScriptedClient:
    """A retained topic with several files of its own."""
    client = Driver(SETUP, disk, VirtualClock()).connect()
    client.request("destination.create", destination=TOPIC, retained=True)
    producer = client.session().producer(TOPIC)
    for number in range(40):
        producer.send(b"%03d" % number + b"x" * 800)
    folders = [name for name in disk.list("streams") if name.isdecimal()]
    assert len([name for name in disk.list(f"streams/{folders[0]}") if name.endswith(".seg")]) >= 3
    return client


def purge(client: ScriptedClient) -> None:
    client.request("destination.purge", destination=TOPIC)


def delete(client: ScriptedClient) -> None:
    client.request("destination.delete", destination=TOPIC)


@pytest.mark.parametrize("drop", [purge, delete])
def test_a_crash_while_files_are_dropped_leaves_all_or_nothing(drop: Callable[[ScriptedClient], None]) -> None:
    disk = WatchedDisk()
    client = filled(disk)
    outcomes = set()

    def watch() -> None:
        for random in fates(disk.operations, 8):
            driver = Driver(SETUP, disk.crash(random), VirtualClock(), boot=2)
            if not driver.manager.directory.has("kept"):
                outcomes.add("gone")
                continue
            reader = driver.connect().session().consumer(TOPIC, mode="replay", start={"at": "earliest"})
            found = [message.offset for message in reader.take()]
            assert found in ([], list(range(40))), found
            outcomes.add("empty" if not found else "whole")

    disk.watch = watch
    drop(client)
    assert outcomes == ({"whole", "empty"} if drop is purge else {"whole", "gone"})
