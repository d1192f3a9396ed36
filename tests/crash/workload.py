"""A client's life that touches everything which leaves records: one server, tiny segments, frequent snapshots."""

from __future__ import annotations

from typing import Any

from tests.crash.history import History, Line, Taken

from tocsin.client_manager.machine import Settings as ClientSettings
from tocsin.message_manager.destination import Options
from tocsin.message_manager.machine import Settings
from tocsin.model.limits import KIB
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_session import ScriptedConsumer, ScriptedSession

LIMIT = 2
RING_BYTES = 4_000
QUEUES = ("queue:work", "queue:later", "queue:short")
STAGED = "queue:staged"
SUBSCRIBED = "topic:events"
KEPT, RING = "topic:kept", "topic:ring"
VIEWS = (*QUEUES, STAGED, SUBSCRIBED)
APP = "the workload"


def setup(*, at_once: bool = False) -> Setup:
    return Setup(
        at_once=at_once,
        segment_bytes=8 * KIB,
        snapshot_bytes=7 * KIB,
        manager=Settings(lease=10_000.0, cache_bytes=4 * KIB, defaults=Options(redelivery_limit=LIMIT)),
        clients=ClientSettings(heartbeat=1e9, grace=10_000.0),
    )


def consume(session: ScriptedSession, view: str, **terms: Any) -> ScriptedConsumer:
    if view == SUBSCRIBED:
        terms |= {"subscription": "s", "durable": True}
    return session.consumer(view, **terms)


def begin(driver: Driver, history: History) -> None:
    client = history.client = driver.connect("me")
    client.request("destination.create", destination=KEPT, retained=True)
    client.request("destination.create", destination=RING, retained=True, max_bytes=RING_BYTES)
    session = history.session = client.session()
    for view in VIEWS:
        history.views[view] = Taken(consume(session, view))
    for name in (*VIEWS, KEPT, RING):
        history.lines[name] = Line(session.producer(name))


def go_on(driver: Driver, history: History, steps: int, first: int = 0) -> None:
    for step in range(first, first + steps):
        _send(driver, history, step)
        if step % 3 == 0:
            _commit_epoch(history, step)
        for view in VIEWS:
            _settle(history.views[view])
        driver.advance(0.4)


def _send(driver: Driver, history: History, step: int) -> None:
    lines, now = history.lines, int(driver.clock.wall() * 1000)
    lines["queue:work"].send(*[f"work-{step}-{number}" for number in range(1 + step % 3)])
    if step % 2:
        lines[SUBSCRIBED].send(f"events-{step}-0", f"events-{step}-1")
        lines[KEPT].send(f"kept-{step}")
    lines[RING].send(*[f"ring-{step}-{number}" for number in range(4)])
    if step % 4 == 0:
        lines["queue:later"].send(f"later-{step}", due=now + 900 * (1 + step % 3))
    if step % 5 == 0:
        lines["queue:short"].send(f"short-{step}-0", f"short-{step}-1", expiry=now + 1_500)
        lines[KEPT].send(f"kept-later-{step}", due=now + 1_300)


def _commit_epoch(history: History, step: int) -> None:
    """Two stages of some batches, and the commit; the history knows before the server what is about to be."""
    assert history.client is not None
    history.epoch, history.stages = step, []
    for part in range(2):
        entry: dict[str, Any] = {"destination": STAGED, "stage": f"{step:>14}/{part}".encode(), "messages": 0}
        history.stages.append(entry)
        history.client.request("stage.open", destination=STAGED, stage=entry["stage"])
        for number in range(1 + step % 2):
            entry["messages"] += 2
            bodies = [f"staged-{step}-{part}-{number}-{each}" for each in "ab"]
            history.lines[STAGED].send(*bodies, stage=entry["stage"])
    history.client.request("stage.commit", app=APP, epoch=step, stages=history.stages)


def _settle(taken: Taken) -> None:
    """Most are acknowledged, some refused until they are dead, some kept in hand."""
    done, bad = [], []
    for message in taken.take():
        fate = sum(message.body.split(b" ")[0]) % 7
        if fate == 0:
            bad.append(message)
        elif fate != 1:
            done.append(message)
    taken.ack(done)
    taken.nack(bad)
