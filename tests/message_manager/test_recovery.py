"""State after a restart is the state before it, by whatever way it is rebuilt."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tests.message_manager.dialogue import check, drain, dump, now_ms, server, session_of, state_of

from tocsin.message_manager.destination import Options
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.records import RecordKind, write_due, write_map, write_publish
from tocsin.message_manager.recovery import Recovery
from tocsin.model.batch import BatchHeader, DeliveryMode, encode_block
from tocsin.model.destination import Kind
from tocsin.model.errors import JournalDamaged
from tocsin.testing.driver import Driver
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.testing.scripted_session import ScriptedProducer
from tocsin.wire.frames import Outcome

Producers = dict[str, ScriptedProducer]
KINDS = (Outcome.ACKNOWLEDGE, Outcome.NACK, Outcome.RELEASE)


def random_headers(random: Random, driver: Driver, numbers: list[int]) -> dict[str, object]:
    headers: dict[str, object] = {"priority": random.choice((4, 4, 9)), "properties": {"n": numbers}}
    if random.random() < 0.2:
        headers["expiry"] = [random.choice((0, now_ms(driver) + random.randrange(20_000))) for _ in numbers]
    if random.random() < 0.2:
        headers["due"] = now_ms(driver) + random.randrange(1, 30_000)
    if random.random() < 0.2:
        headers["mode"] = DeliveryMode.NON_PERSISTENT
    if random.random() < 0.2:
        headers["groups"] = [random.choice(("g", "h", None)) for _ in numbers]
    return headers


def stage_something(
    random: Random, driver: Driver, client: ScriptedClient, names: Sequence[str], producers: Producers
) -> None:
    """Opens a stage or two and fills them; what becomes of them is left open, too."""
    stages: list[dict[str, object]] = []
    for _ in range(random.randrange(1, 3)):
        name, stage = random.choice(names), random.randbytes(16)
        client.request("stage.open", destination=name, stage=stage, seconds=random.choice((2, 3_600)))
        count = random.randrange(4)
        for number in range(count):
            due = now_ms(driver) + random.choice((-1_000, 5_000)) if random.random() < 0.2 else 0
            producers[name].send(b"%d" % number * 20, stage=stage, due=due, properties={"n": [number]})
        stages.append({"destination": name, "stage": stage, "messages": count})
    chance = random.random()
    if chance < 0.6:
        client.request("stage.commit", app=random.choice("xyz"), epoch=random.randrange(60), stages=stages)
    elif chance < 0.8:
        client.request("stage.drop", stages=stages)


def busy_drain(client: ScriptedClient, random: Random, queue: str) -> None:
    """A drain takes, finishes some of it, or gives it back."""
    drain: dict[str, Any] = {"destination": queue, "drain": random.choice("xy")}
    listed = client.request("drain.list", **drain)
    last = max([listed["finished"], *(each["take"] for each in listed["takes"])])
    action = random.random()
    if action < 0.5:
        client.request("drain.take", **drain, after=last, messages=random.randrange(1, 9), seconds=60)
    elif action < 0.8:
        client.request("drain.finish", **drain, upto=random.randint(0, last))
    else:
        client.request("drain.release", **drain)


def busy_life(driver: Driver, seed: int, steps: int, snapshots: bool, drains: bool = False) -> None:
    """A random mix of everything that leaves records."""
    random = Random(seed)
    client = driver.connect("me")
    session = client.session()
    if not driver.manager.directory.has("kept"):
        client.request("destination.create", destination="topic:kept", retained=True, max_bytes=20_000)
    names = ("queue:a", "queue:b", "topic:t", "topic:kept")
    producers = {name: session.producer(name) for name in names}
    consumers = [
        session.consumer("queue:a", messages=0),
        session.consumer("queue:b", messages=0, selector="n > 3"),
        session.consumer("topic:t", messages=0, subscription="d", durable=True, selector="n < 6"),
        session.consumer("topic:t", messages=0, subscription="l", durable=True, no_local=True),
        session.consumer("topic:t", messages=0),
        session.consumer("topic:kept", messages=0, subscription="k", durable=True, shared=True),
    ]
    granted = 0
    for step in range(steps):
        numbers = [random.randrange(8) for _ in range(random.randrange(1, 6))]
        producer = producers[random.choice(names)]
        producer.send(*[b"%d" % number * 40 for number in numbers], **random_headers(random, driver, numbers))
        for consumer in consumers:
            if random.random() < 0.3:
                granted += random.randrange(4)
                consumer.grant(granted)
            held = list(consumer.outstanding.values())
            if held and random.random() < 0.6:
                picked = [message for message in held if random.random() < 0.5]
                consumer.settle(random.choice(KINDS), picked, random.choice((None, 0, 5_000)), "")
        if random.random() < 0.2:
            driver.advance(random.random() * 4)
        if random.random() < 0.15:
            stage_something(random, driver, client, names, producers)
        if random.random() < 0.03:
            client.request("destination.purge", destination=random.choice(names))
        if drains and random.random() < 0.4:
            busy_drain(client, random, random.choice(("queue:a", "queue:b")))
        if snapshots and step % 20 == 7:
            driver.snapshot()
        check(driver.manager)


def after_restart(driver: Driver) -> dict[str, object]:
    check(driver.manager)
    return dump(driver.manager)


def without_snapshots(driver: Driver) -> Driver:
    """The server that comes up when nothing but the journal is left."""
    disk = driver.disk.crash(Random(0))
    names = disk.list("snapshots")
    assert names, "there is something to leave out"
    for name in names:
        disk.remove(f"snapshots/{name}")
    return Driver(driver.setup, disk, driver.clock, driver.boot + 1)


@pytest.mark.parametrize("seed", range(8))
def test_a_snapshot_with_the_records_behind_it_gives_what_all_records_give(seed: int) -> None:
    driver = server(limit=3)
    for part in range(2):
        busy_life(driver, 10 * seed + part, 60, snapshots=True, drains=seed % 2 == 1)
        assert after_restart(driver.crash(Random(seed))) == after_restart(without_snapshots(driver))
        driver = driver.crash(Random(seed))


@pytest.mark.parametrize("seed", range(8))
def test_recovering_twice_gives_the_same_and_so_does_a_clean_stop(seed: int) -> None:
    driver = server(limit=3)
    busy_life(driver, seed, 80, snapshots=seed % 2 == 0, drains=seed >= 4)
    first = driver.crash(Random(seed))
    again = first.crash(Random(seed + 1))
    assert after_restart(first) == after_restart(again)
    stopped = again.stop()
    assert after_restart(stopped) == after_restart(again)


@pytest.mark.parametrize("seed", range(4))
def test_live_state_and_recovered_state_agree_on_what_is_left(seed: int) -> None:
    driver = server(limit=3)
    busy_life(driver, seed, 80, snapshots=seed % 2 == 0)
    for client in list(driver.clients.values()):
        client.goodbye()
    driver.settle()
    live = {}
    for state in driver.manager.directory:
        state.forget_volatile()
        live[state.address.name] = [
            (view.id, view.finished.missing(max(view.start, state.log.first_offset), state.log.next_offset))
            for view in state.views.values()
        ]
    recovered = driver.crash(Random(seed))
    assert live == {
        state.address.name: [
            (view.id, view.finished.missing(max(view.start, state.log.first_offset), state.log.next_offset))
            for view in state.views.values()
        ]
        for state in recovered.manager.directory
    }
    for name in ("queue:a", "queue:b"):
        drain(recovered, name)
        assert state_of(recovered, name).log.live_bytes == 0


def test_nothing_stays_alive_in_the_journal_that_nobody_needs() -> None:
    """The count of live records that was kept in a long life is the one that a restart computes."""
    driver = server(limit=3)
    busy_life(driver, 5, 150, snapshots=False)
    kept = sum(index.live_records for index in driver.storage.recovered.journal._segments)
    needed = 0
    for state in driver.manager.directory:
        rows = zip(state.log.lsns, state.log.needed, strict=True)
        needed += sum(1 for _, need in rows if need or state.options.retained) + len(state.delayed.all())
        needed += len(list(state.stages.lsns()))
    assert kept == needed


# ---- records that contradict the state


def recovery() -> Recovery:
    it = Recovery(Directory(Options()), 0.0)
    fields = {"id": 1, "name": "orders", "kind": int(Kind.QUEUE), "connection": None, **Options().fields()}
    it.apply(1, RecordKind.CREATE, write_map(fields)[0])
    return it


def block() -> bytes:
    return encode_block(BatchHeader("orders", Kind.QUEUE, 2), [])


def test_a_batch_at_the_wrong_offset_is_damage() -> None:
    it = recovery()
    it.apply(2, RecordKind.PUBLISH, b"".join(write_publish(1, 0, 1000, block())))
    with pytest.raises(JournalDamaged, match="offset 5"):
        it.apply(3, RecordKind.PUBLISH, b"".join(write_publish(1, 5, 1000, block())))


def test_a_delayed_batch_that_is_not_there_is_damage() -> None:
    with pytest.raises(JournalDamaged, match="delayed"):
        recovery().apply(2, RecordKind.DUE, write_due(1, 99, 0, 1000)[0])


def test_an_unknown_kind_of_record_is_damage() -> None:
    with pytest.raises(JournalDamaged, match="unknown kind 99"):
        recovery().apply(2, 99, b"")


def test_records_of_a_destination_that_is_gone_are_passed_over() -> None:
    it = recovery()
    it.apply(2, RecordKind.DELETE, write_map({"id": 1})[0])
    it.apply(3, RecordKind.PUBLISH, b"".join(write_publish(1, 7, 1000, block())))
    it.apply(4, RecordKind.DUE, write_due(1, 99, 0, 1000)[0])
    assert list(it.finish({})) == []


def test_a_name_that_was_deleted_while_a_snapshot_was_taken_stays_deleted() -> None:
    """The snapshot has the directory from before, and of the destination nothing: it was gone when its turn came."""
    directory = Directory(Options())
    it = Recovery(directory, 0.0)
    gone = {"id": 3, "name": "orders", "incarnation": 5}
    it.apply(2, RecordKind.DELETE, write_map(gone)[0])
    assert directory.deleted == {"orders": 5}


def test_the_next_offset_survives_when_everything_was_consumed() -> None:
    driver = server()
    session = session_of(driver)
    session.producer("queue:orders").send("a", "b")
    assert drain(driver) == ["a", "b"]
    for _ in range(2):
        driver = driver.crash()
        assert state_of(driver).log.next_offset == 2
        driver.snapshot()
