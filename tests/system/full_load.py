"""A load with one producer and consumer of each kind: what a campaign of faults puts a cluster under."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, ClassVar

from tests.system.ledger import Ledger, Reader, View, check_log
from tests.system.load import QUEUE, TOPIC, VIEWS, Lane, Load, Works
from tests.system.processes import PATIENCE

import tocsin
from tocsin import errors
from tocsin.model.batch import Column
from tocsin.model.columns import column_values
from tocsin.runtime.slewed_clock import FASTER

URGENT = "urgent"
LATER = "later"
RETAINED = "readings"
REQUESTS = "requests"
DEAD = "_DMQ"
DELAYS = (0.2, 0.7, 1.5)
TIMES_SECONDS = 0.01
"""Times are whole milliseconds. Who took over is behind by what a heartbeat took; when all start anew, nobody is."""
PRIORITIES = (4, 9, 0)
RETAINED_BYTES = 3 * 1024 * 1024
PADDING = {"padding": "." * 4_000}
"""Lets the retained topic fill files of its own soon."""
REQUEST_SECONDS = 10.0
REQUEST_PAUSE_SECONDS = 0.02


class FullLoad(Load):
    """Beside the two of `Load`: a shared durable subscription, priorities, delays, a retained topic, requests."""

    views: ClassVar[Sequence[View]] = (
        *VIEWS,
        View("shared", TOPIC, ("shared 1", "shared 2")),
        View("urgent", URGENT, ("urgent",)),
        View("later", LATER, ("later",)),
    )
    batched: ClassVar[Sequence[Lane]] = (Lane(QUEUE, "queue"), Lane(TOPIC, "topic"), Lane(RETAINED, "topic"))
    single: ClassVar[Sequence[Lane]] = (
        Lane(QUEUE, "queue"),
        Lane(TOPIC, "topic"),
        Lane(RETAINED, "topic", [{"properties": PADDING}]),
        Lane(URGENT, "queue", [{"priority": priority} for priority in PRIORITIES]),
        Lane(LATER, "queue", [{"delay": delay} for delay in DELAYS]),
    )
    producers: ClassVar[int] = 3

    def prepare(self) -> None:
        super().prepare()
        with self.connect() as connection, connection.session() as session:
            session.shared_durable_consumer(session.topic(TOPIC), "team").close()
            connection.create_destination(RETAINED, "topic", retained=True, max_bytes=RETAINED_BYTES)

    def works(self) -> Works:
        return [
            *super().works(),
            self._share_first,
            self._share_second,
            self._take_urgent,
            self._take_later,
            self._replay,
            self._serve,
            self._request,
        ]

    def before_single(self, body: str, way: Mapping[str, Any]) -> None:
        if "delay" in way:
            with self.ledger.changed:
                delay: float = way["delay"]
                self.ledger.due[body] = time.monotonic() + delay * (1 - FASTER) - TIMES_SECONDS

    def _share_first(self) -> None:
        self._share("shared 1")

    def _share_second(self) -> None:
        self._share("shared 2")

    def _share(self, name: str) -> None:
        with self.connect() as connection, connection.session(ack="client") as session:
            consumer = session.shared_durable_consumer(session.topic(TOPIC), "team", prefetch=64)
            self.read(Reader(self.ledger, "shared", name), session, consumer)

    def _take_urgent(self) -> None:
        self.take_queue(URGENT, "urgent", "urgent", 16)

    def _take_later(self) -> None:
        self.take_queue(LATER, "later", "later", 64)

    def _replay(self) -> None:
        """Follows the retained topic from its beginning."""
        with self.connect() as connection, connection.session() as session:
            consumer = session.replay(session.topic(RETAINED), start=0, prefetch=256)
            self.connected.wait()
            while not self.drained.is_set():
                message = consumer.receive(timeout=0.05)
                if message is None:
                    continue
                self.ledger.note_replayed(message.offset, str(message.body))

    def _serve(self) -> None:
        with self.connect() as connection, connection.session() as session:
            requests, answers = session.consumer(session.queue(REQUESTS), prefetch=4), session.producer()
            self.connected.wait()
            while not self.drained.is_set():
                request = requests.receive(timeout=0.05)
                if request is not None:
                    self._answer(request, answers)

    def _answer(self, request: tocsin.Message, answers: tocsin.Producer) -> None:
        body, asked = str(request.body).upper(), request.correlation_id
        try:
            answers.send(body, request.reply_to, correlation_id=asked, timeout=PATIENCE)
        except errors.TocsinError as error:
            # Who asked gives up after its own time, and its queue may be gone by then.
            self._count(f"could not be answered: {type(error).__name__}")

    def _request(self) -> None:
        """Each request is answered, or an error is raised in time."""
        numbers = count()
        first = True
        while first or not self.no_more.is_set():
            with self.connect() as connection, connection.session() as session:
                if first:
                    self.connected.wait()
                    first = False
                self._request_until_error(session, numbers)

    def _request_until_error(self, session: tocsin.Session, numbers: Any) -> None:
        queue = session.queue(REQUESTS)
        while self.goes_on():
            self.no_more.wait(REQUEST_PAUSE_SECONDS)
            body, began = f"request {next(numbers)}", time.monotonic()
            try:
                answer = session.request(queue, body, timeout=REQUEST_SECONDS).body
            except errors.TocsinError as error:
                self._count(type(error).__name__)
                if not isinstance(error, errors.TimedOut):
                    return
            else:
                self._count("answered")
                if answer != body.upper():
                    self._complain(f"{answer!r} to {body!r}")
            took = time.monotonic() - began
            if took > REQUEST_SECONDS + PATIENCE:
                self._complain(f"nothing to {body!r} for {took:.1f} s")

    def _count(self, what: str) -> None:
        with self.ledger.changed:
            self.ledger.answers[what] += 1
            self.ledger.changed.notify_all()

    def _complain(self, what: str) -> None:
        with self.ledger.changed:
            self.ledger.wrong_answers.append(what)

    def rest(self, patience_s: float = PATIENCE) -> None:
        super().rest(patience_s)
        ledger = self.ledger
        ledger.wait_for(
            lambda: ledger.confirmed[RETAINED] <= set(ledger.log.values()), "the replay has all", patience_s
        )


def check_accounts(load: FullLoad, patience_s: float) -> int:
    """When everything is drained the server has nothing left, too, and a range says what the replay said.

    Returns where the retained topic begins.
    """
    with load.connect() as connection:
        wait_until_empty(connection, patience_s)
        with connection.session() as session:
            check_log(load.ledger, RETAINED)
            return check_range(connection, session, load.ledger)


def wait_until_empty(connection: tocsin.Connection, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while left := messages_left(connection):
        assert time.monotonic() < deadline, f"still counted by the server: {left}"
        time.sleep(0.05)


def messages_left(connection: tocsin.Connection) -> dict[str, int]:
    counts = {name: int(connection.show_destination(f"queue:{name}")["messages"]) for name in (QUEUE, URGENT, LATER)}
    for each in connection.show_destination(f"topic:{TOPIC}")["subscriptions"]:
        counts[f"subscription {each['name']}"] = int(each["messages"])
    dead = [each for each in connection.destinations() if each.name == DEAD]
    counts[DEAD] = sum(int(each["messages"]) for each in dead)
    return {name: number for name, number in counts.items() if number}


def check_range(connection: tocsin.Connection, session: tocsin.Session, ledger: Ledger) -> int:
    """The same messages at the same offsets as the replay has seen, as far as they are still retained."""
    kept = connection.offsets(session.topic(RETAINED))
    assert kept.end == ledger.log_end, f"the log ends at {kept.end}, the replay is at {ledger.log_end}"
    offset = kept.first
    for found in session.read_range(session.topic(RETAINED), kept.first, kept.end, local=False):
        bodies = column_values(found.block, Column.BODY) or []
        for start, end in found.ranges:
            for index in range(start, end):
                assert found.offset + index == offset, f"the range goes from {offset - 1} to {found.offset + index}"
                body, seen = bytes(bodies[index]).decode(), ledger.log[offset]
                assert body == seen, f"offset {offset} is {body} in the range and {seen} in the replay"
                offset += 1
    assert offset == kept.end, f"the range ends at {offset}, not at {kept.end}"
    return int(kept.first)
