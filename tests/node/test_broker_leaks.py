"""Clients that come, work and go leave nothing behind: after many of them a server holds what it held before."""

from __future__ import annotations

import types
from collections import deque
from typing import Any

from tests.client_manager.real_group import RealGroup
from tests.client_manager.scripted_groups import Cluster

from tocsin.testing.driver import Driver
from tocsin.testing.scripted_client import ScriptedClient

CYCLES = 150
SLACK = 100
"""What is thrown out now and then, not at once; a leak of one entry a cycle is beyond it."""


def held(root: object, but: tuple[object, ...]) -> dict[str, int]:
    """How many entries all containers have that can be reached from an object, by the way to them."""
    seen = {id(each) for each in but}
    found: dict[str, int] = {}
    waiting: deque[tuple[object, str]] = deque([(root, "")])
    while waiting:
        it, way = waiting.popleft()
        if id(it) in seen or isinstance(it, (str, bytes, int, float, type, types.ModuleType)):
            continue
        seen.add(id(it))
        if isinstance(it, (list, tuple, set, frozenset, deque, dict)):
            if not isinstance(it, tuple):
                found[way] = found.get(way, 0) + len(it)
            items: Any = it.values() if isinstance(it, dict) else it
            waiting.extend((each, f"{way}[]") for each in items)
            continue
        if isinstance(it, types.MethodType):
            waiting.append((it.__self__, way))
        waiting.extend((each, f"{way}.{name}") for name, each in getattr(it, "__dict__", {}).items())
        for slot in [slot for each in type(it).__mro__ for slot in getattr(each, "__slots__", ())]:
            waiting.append((getattr(it, slot, None), f"{way}.{slot}"))
    return found


def use(client: ScriptedClient, *, polite: bool) -> None:
    session = client.session()
    reply_to = client.request("temporary.create", kind="queue")["destination"]
    producer, consumer = session.producer(reply_to), session.consumer(reply_to)
    producer.send("question")
    consumer.ack(*consumer.take())
    shared = session.producer("queue:shared")
    shared.send("x")
    shared.close()
    if polite:
        client.goodbye()


def growth(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {way: size - before.get(way, 0) for way, size in after.items() if size > before.get(way, 0) + SLACK}


def test_a_lone_server_holds_nothing_of_clients_that_left() -> None:
    driver = Driver()
    consumer = driver.connect().session().consumer("queue:shared")
    sizes: list[dict[str, int]] = []
    for number in range(3 * CYCLES):
        client = driver.connect()
        use(client, polite=number % 4 > 0)
        if client.open:
            driver.hang_up(client)
        consumer.ack(*consumer.take())
        if number % CYCLES == CYCLES - 1:
            driver.advance(10)
            driver.snapshot()
            # Files are in memory here, and have their own bounds.
            sizes.append(held(driver.broker, (driver.disk, driver.storage)))
    assert growth(sizes[1], sizes[2]) == {}


def test_a_client_manager_and_a_group_hold_nothing_of_clients_that_left() -> None:
    group = RealGroup(1)
    cluster = Cluster([group])
    consumer = cluster.connect().session().consumer("queue:shared")
    sizes: list[dict[str, int]] = []
    for number in range(3 * CYCLES):
        client = cluster.connect()
        use(client, polite=True)
        consumer.ack(*consumer.take())
        if number % CYCLES == CYCLES - 1:
            group.driver.advance(10)
            group.messages.clear()
            group.taken.clear()
            ports = held(cluster.port, (group,))
            sizes.append({**ports, **held(group.driver.manager, (group.driver.disk, group.driver.storage))})
    assert growth(sizes[1], sizes[2]) == {}
