"""A topic that is written to, its copy, and whether the two are equal: seen by the plain client, without Spark."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import tocsin

PATIENCE = 240.0
"""Seconds until a copy moves on: a driver that starts anew on a busy machine takes many of them."""
BATCH = 40
PAUSE_SECONDS = 0.2
LOOK_SECONDS = 0.1
QUIET_SECONDS = 5.0


class Feed:
    """Writes numbered messages with keys to a topic until it is told to stop. What it has sent is confirmed."""

    def __init__(self, url: str, topic: str) -> None:
        self.sent = 0
        self.error: BaseException | None = None
        self._url, self._topic = url, topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed")

    def _run(self) -> None:
        try:
            with tocsin.connect(self._url) as connection, connection.session() as session:
                producer = session.producer(session.topic(self._topic))
                while not self._over.wait(PAUSE_SECONDS):
                    numbers = range(self.sent, self.sent + BATCH)
                    producer.send_many(session.message(body_of(number), key=key_of(number)) for number in numbers)
                    self.sent += BATCH
        except BaseException as error:
            self.error = error

    def stop(self) -> int:
        """How many messages there are in all."""
        self._over.set()
        self._thread.join(PATIENCE)
        if self.error is not None:
            raise self.error
        return self.sent


def body_of(number: int) -> bytes:
    return b"message %08d" % number


def key_of(number: int) -> str:
    return f"key {number % 7}"


@contextmanager
def feeding(url: str, topic: str) -> Iterator[Feed]:
    feed = Feed(url, topic)
    feed._thread.start()
    try:
        yield feed
    finally:
        feed._over.set()
        feed._thread.join(PATIENCE)


class Copy:
    """How far a copy is, and what is in it."""

    def __init__(self, connection: tocsin.Connection, topic: str, checkpoint: Path) -> None:
        self._connection = connection
        self._topic = topic
        self._checkpoint = checkpoint

    @property
    def length(self) -> int:
        return self._connection.offsets(f"topic:{self._topic}").end

    @property
    def epochs(self) -> int:
        """How many Spark has written down as done."""
        return len([each for each in self._checkpoint.glob("commits/*") if each.name.isdigit()])

    def wait_for(self, condition: Callable[[], bool], what: str, check: Callable[[], object]) -> None:
        """`check` raises when there is nothing to wait for any more."""
        end = time.monotonic() + PATIENCE
        while not condition():
            check()
            assert time.monotonic() < end, f"waited {PATIENCE:g} s in vain until {what}"
            time.sleep(LOOK_SECONDS)

    def content(self) -> Counter[tuple[str, bytes]]:
        """Keys and bodies, and how often each is there."""
        return read_topic(self._connection, self._topic, self.length)


def read_topic(connection: tocsin.Connection, topic: str, length: int) -> Counter[tuple[str, bytes]]:
    """From the first message to the last; there must be so many."""
    found: Counter[tuple[str, bytes]] = Counter()
    with connection.session() as session, session.replay(session.topic(topic), start=0) as replay:
        for _ in range(length):
            message = replay.receive(timeout=QUIET_SECONDS)
            assert message is not None, f"{topic} says that it has {length} messages, but {found.total()} came."
            found[str(message.key), message.body] += 1
    return found


def expected(count: int) -> Counter[tuple[str, bytes]]:
    return Counter((key_of(number), body_of(number)) for number in range(count))
