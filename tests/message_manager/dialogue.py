"""What the dialogue tests share: servers with small settings, and a look at the whole state of a message manager."""

from __future__ import annotations

from typing import Any

from tocsin.message_manager.destination import DestinationState, Options
from tocsin.message_manager.drains import drain_fields
from tocsin.message_manager.machine import MessageManager, Settings
from tocsin.message_manager.view import QUEUE_VIEW, View
from tocsin.model.destination import parse_destination
from tocsin.model.ranges import Range, RangeSet
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.testing.scripted_session import ScriptedConsumer, ScriptedProducer, ScriptedSession

NOTHING_CACHED = 1
"""A cache that holds the newest block alone: every other one is read back from disk."""


def server(*, limit: int = 3, backoff_ms: int = 0, lease: float = 30.0, cache_bytes: int = 1 << 20) -> Driver:
    options = Options(redelivery_limit=limit, backoff_ms=backoff_ms)
    return Driver(Setup(manager=Settings(lease=lease, cache_bytes=cache_bytes, defaults=options)))


def ends(driver: Driver, destination: str = "queue:orders") -> tuple[ScriptedProducer, ScriptedConsumer]:
    """A producer and a consumer of one session."""
    session = driver.connect().session()
    return session.producer(destination), session.consumer(destination)


def session_of(driver: Driver, client_id: str | None = None) -> ScriptedSession:
    return driver.connect(client_id).session()


def now_ms(driver: Driver) -> int:
    return int(driver.clock.wall() * 1000)


def state_of(driver: Driver, destination: str = "queue:orders") -> DestinationState:
    return driver.manager.directory.find(parse_destination(destination))


def drain(driver: Driver, destination: str = "queue:orders", **terms: Any) -> list[str]:
    """Takes and acknowledges everything that a new consumer gets."""
    session = driver.connect().session()
    consumer = session.consumer(destination, **terms)
    messages = consumer.take()
    consumer.ack(*messages)
    session.close()
    return [message.body.decode() for message in messages]


def take(client: ScriptedClient, after: int, name: str = "d", queue: str = "queue:orders", **more: Any) -> list[Range]:
    """What the drain holds under the number behind `after`; nothing: an empty list."""
    taken = client.request("drain.take", destination=queue, drain=name, after=after, **more)
    assert taken["take"] == (after + 1 if taken["messages"] else after)
    ranges = [(first, end) for first, end in taken["ranges"]]
    assert taken["messages"] == sum(end - first for first, end in ranges)
    return ranges


def dump(manager: MessageManager) -> dict[str, Any]:
    """Everything that must be the same after a restart, in a form that can be compared."""
    return {
        "next_id": manager.directory.next_id,
        "names": (manager.directory.names.next_incarnation, manager.directory.names.entries),
        "deleted": sorted(manager.directory.deleted.items()),
        "epochs": manager.directory.epochs.fields(),
        "destinations": {state.address.name: _destination(state) for state in manager.directory},
        "durable": sorted((str(key), state.id, view.id) for key, (state, view) in manager.directory.durable.items()),
    }


def _destination(state: DestinationState) -> dict[str, Any]:
    log = state.log
    rows = [
        (log.firsts[index], log.lsns[index], log.sizes[index], log.append_times[index], log.priorities[index],
         log.flags[index], log.needed[index])
        for index in range(len(log))
        if log.needed[index] or state.options.retained
    ]  # fmt: skip
    return {
        "id": state.id,
        "incarnation": state.incarnation,
        "options": state.options.fields(),
        "next_offset": log.next_offset,
        "live_bytes": log.live_bytes,
        "rows": rows,
        "views": {view.id: _view(state, view) for view in state.views.values()},
        "producers": {key: (row.last, row.epoch) for key, row in state.producers.rows.items()},
        "delayed": [(batch, batch.left_out) for batch in state.delayed.all()],
        "stages": {identity: stage.fields() for identity, stage in state.stages.open.items()},
        "drains": {name: drain_fields(drain) for name, drain in state.drains.items()},
        "removals": sorted((removal.start, removal.end, removal.attempts) for removal in state.removals),
    }


def _view(state: DestinationState, view: View) -> dict[str, Any]:
    known = view.subscription
    waiting = [*view.ready, *(entry for _, entry in view.later)]
    start = state.log.first_offset
    return {
        "start": view.start,
        "born": view.born,
        "filtered_from": view.filtered_from,
        "suspect_below": view.suspect_below,
        "subscription": None if known is None else repr(known),
        "unfinished": view.finished.missing(max(view.start, start), state.log.next_offset),
        "attempts": sorted((entry.start, entry.end, entry.attempts) for entry in waiting if entry.attempts),
    }


def queue_view(driver: Driver, destination: str = "queue:orders") -> View:
    return state_of(driver, destination).views[QUEUE_VIEW]


def check(manager: MessageManager) -> None:
    """What must hold at every moment: counts agree with views, and an offset is in one state only."""
    for state in manager.directory:
        log = state.log
        for row in range(log.base, log.end):
            first, end = log.span(row)
            expected = sum(
                1 for view in state.views.values() if first >= view.start and not view.finished.covers(first, end)
            )
            assert log.needed[row - log.base] == expected, f"{state.address} row {row} [{first}, {end})"
        rows = zip(log.sizes, log.needed, strict=True)
        assert log.live_bytes == sum(size for size, needed in rows if needed or state.options.retained)
        for view in state.views.values():
            _check_view(state, view)


def _check_view(state: DestinationState, view: View) -> None:
    finished, locked, waiting = RangeSet(view.finished), RangeSet(), RangeSet()
    for lock in view.locks:
        locked.add(lock.start, lock.end)
    entries = [*view.ready, *(entry for _, entry in view.later), *view.unreadable]
    parts = [(entry.start, entry.end) for entry in entries]
    parts += [part for consumer in view.consumers for part in consumer.reserved]
    parts += [(removal.start, removal.end) for removal in state.removals if removal.view is view]
    for start, end in parts:
        assert not waiting.within(start, end), f"{state.address}: [{start}, {end}) waits twice"
        waiting.add(start, end)
    assert list(waiting) == list(view.set_aside)
    low = state.log.first_offset
    for start, end in [*locked, *waiting]:
        assert not finished.within(max(low, start), end), f"{state.address}: [{start}, {end}) is finished and alive"
    for start, end in locked:
        assert not waiting.within(start, end), f"{state.address}: [{start}, {end}) is locked and waits"
    drained = RangeSet(part for drain in state.drains.values() for take in drain.takes.values() for part in take.held)
    assert list(drained) == list(view.drained or ())
    for start, end in drained:
        others = [*finished.within(start, end), *locked.within(start, end), *waiting.within(start, end)]
        assert not others, f"{state.address}: [{start}, {end}) is drained and something else"
