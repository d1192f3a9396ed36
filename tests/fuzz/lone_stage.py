"""A whole server in one process behind hostile clients: bytes, client manager, commands, message manager, journal,
answers, frames. An honest client beside them must get its messages through.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz.client_cases import Case, Dial, HangUp, Known, Restart, Say, Snapshot, Wait
from tests.fuzz.client_source import ClientSource
from tests.fuzz.engine import Broken, Machine, Target
from tests.fuzz.weighing import weight

from tocsin.model.errors import ProtocolError
from tocsin.model.limits import MIB
from tocsin.testing.disk import SimulatedDisk
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.frames import Frame, FrameType
from tocsin.wire.reader import FrameReader

HONEST = "queue:honest"
GROWN_MAX = 2_000
"""Objects that a client manager may hold more when all hostile clients are gone than before they came."""
HONEST_EVERY = 4
"""After so many cases the honest client sends something; at the end of a life always."""
_GRACE_SECONDS = 30.0


class HostileEars:
    """Understands what a server says to a hostile client, which must be whole frames, as far as the next case needs."""

    def __init__(self, known: Known) -> None:
        self._known, self._reader = known, FrameReader()
        self._reader.logged_in()

    def hear(self, data: bytes) -> None:
        try:
            frames = list(self._reader.feed(data))
        except ProtocolError as error:
            raise Broken(f"The server sent what is no frame: {error}") from error
        for frame in frames:
            if frame.type is FrameType.WELCOME:
                fields = frame.fields()
                self._known.identity, self._known.token = fields["connection"], fields["token"]
            elif frame.type is FrameType.REPLY and frame.session:
                self._replied(frame)
            elif frame.type is FrameType.FAILURE:
                text = frame.fields()["text"]
                if not text or "Traceback" in text:
                    raise Broken(f"A client is told {text!r}.")

    def _replied(self, frame: Frame) -> None:
        producer_id = frame.fields().get("producer_id")
        if isinstance(producer_id, bytes):
            self._known.producer_ids[frame.session] = producer_id


class HostileEnd(ScriptedClient):
    """A hostile client's end of its connection to the driver; it listens when the server has spoken."""

    def __init__(self, driver: Driver, number: int, known: Known) -> None:
        super().__init__(driver, number)
        self._ears = HostileEars(known)
        self._said: list[bytes] = []

    def feed(self, data: bytes) -> None:
        self._said.append(data)

    def listen(self) -> None:
        said, self._said = self._said, []
        self._ears.hear(b"".join(said))


class TimedDriver(Driver):
    machine: Machine[Any] | None = None

    def turn(self) -> bool:
        more: bool = super().turn() if self.machine is None else self.machine.timed(super().turn)
        return more

    def receive(self, connection: int, data: bytes) -> None:
        if self.machine is None:
            super().receive(connection, data)
            return
        self.machine.timed(self.broker.received, connection, data)
        self.settle()

    def _next(self, disk: SimulatedDisk) -> Driver:
        for client in self.clients.values():
            client.open = False
        return TimedDriver(self.setup, disk, self.clock, self.boot + 1)


class Neighbour:
    """Sends one message and receives it, again and again."""

    def __init__(self, driver: Driver) -> None:
        self._client = driver.connect()
        session = self._client.session()
        self._producer, self._consumer = session.producer(HONEST), session.consumer(HONEST)
        self._sent = 0

    def works(self) -> None:
        if not self._client.open:
            raise Broken("The honest client was hung up on.")
        self._sent += 1
        body = f"honest {self._sent}"
        self._producer.send(body)
        messages = self._consumer.take()
        if body not in [message.body.decode() for message in messages]:
            raise Broken(f"The honest client did not get {body!r}, but {messages}.")
        self._consumer.ack(*messages)
        self._consumer.deliveries.clear()
        self._client.frames.clear()
        self._client.answered.clear()


class LoneStage(Machine[Case]):
    def __init__(self) -> None:
        self._driver: Driver = TimedDriver(Setup(segment_bytes=2 * MIB))
        self._watch()
        self._known: dict[int, Known] = {}
        self._ends: dict[int, HostileEnd] = {}
        self._played = 0
        self._neighbour = Neighbour(self._driver)
        self._neighbour.works()
        self._weight = weight(self._driver.broker.clients)

    def _watch(self) -> None:
        assert isinstance(self._driver, TimedDriver)
        self._driver.machine = self

    def play(self, case: Case) -> None:
        match case:
            case Dial(slot):
                self._hang_up(slot)
                self._dial(slot)
            case HangUp(slot):
                self._hang_up(slot)
            case Say():
                self._say(case)
            case Wait(seconds):
                self._driver.advance(seconds)
            case Snapshot():
                self._driver.snapshot()
            case Restart():
                self._restart()
        for end in self._ends.values():
            end.listen()
        self._played += 1
        if self._played % HONEST_EVERY == 0:
            self._neighbour.works()

    def _dial(self, slot: int) -> None:
        number = self._driver.dial().number
        end = HostileEnd(self._driver, number, self._known.setdefault(slot, Known()))
        self._driver.clients[number] = self._ends[slot] = end

    def _hang_up(self, slot: int) -> None:
        end = self._ends.pop(slot, None)
        if end is not None and end.open:
            self._driver.hang_up(end)

    def _say(self, case: Say) -> None:
        if case.slot not in self._ends or not self._ends[case.slot].open:
            self._dial(case.slot)
        known = self._known[case.slot]
        data = b"".join(map(known.encode, case.frames))
        self._ends[case.slot].send(data[: len(data) - case.held_back])

    def _restart(self) -> None:
        self._ends.clear()
        self._driver = self._driver.crash()
        self._watch()
        self._neighbour = Neighbour(self._driver)

    def finish(self) -> None:
        for slot in list(self._ends):
            self._hang_up(slot)
        self._driver.advance(_GRACE_SECONDS)
        self._neighbour.works()
        grown = weight(self._driver.broker.clients) - self._weight
        if grown > GROWN_MAX:
            raise Broken(f"The client manager holds {grown} objects more when all hostile clients are gone.")
        self._driver.stop()


def _source(chance: Random) -> ClientSource:
    return ClientSource(chance, restarts=True, lists=20)


LONE = Target("lone", LoneStage, _source, 500)
