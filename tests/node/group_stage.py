"""A small group without a network: members, witnesses and a client manager that says what the test wants."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Any

from tocsin.bus.datagram import Stream
from tocsin.cluster.commands import (
    Administer,
    Answer,
    Command,
    Delivery,
    Failed,
    OpenConsumer,
    OpenProducer,
    Publish,
    Reply,
    SettledTo,
    SettleMessages,
    Stored,
)
from tocsin.cluster.envelope import Commands, GroupBytes, GroupStatus, Replies, Unlinked
from tocsin.cluster.envelope import decode as decode_envelope
from tocsin.cluster.envelope import encode as encode_envelope
from tocsin.cluster.group_config import first_config
from tocsin.cluster.register_messages import Heartbeat, Initialise
from tocsin.journal.jobs import WriteJob, Written
from tocsin.message_manager.machine import Settings
from tocsin.model.batch import BatchHeader, Block, BodyKind, Column, DeliveryMode, encode_block
from tocsin.model.columns import bytes_column, column_values
from tocsin.model.destination import parse_destination
from tocsin.model.identity import DestinationId
from tocsin.model.ranges import Range
from tocsin.node.group_member import GroupMember
from tocsin.node.outgoing import Outgoing
from tocsin.node.voter_host import VoterHost
from tocsin.replication.codec import decode as decode_group
from tocsin.replication.settings import GroupSettings
from tocsin.runtime.datagrams import Way, group_in
from tocsin.testing.clock import VirtualClock
from tocsin.testing.disk import SeededRandom, SimulatedDisk
from tocsin.testing.driver import DeferredWorkers
from tocsin.wire.frames import Outcome, Settle

GROUP = 3
CM = 40
SESSION = b"s" * 16
CONNECTION = b"c" * 16
TURNS_MAX = 2_000
STEP_SECONDS = 0.02


def _no_journal(job: WriteJob) -> Written:
    raise AssertionError(f"a witness has no journal to write {job} to")


class AheadClock:
    """Shows another time of day than the stage's, and goes on with it."""

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        self.now, self._clock, self._seconds = clock.now, clock, seconds

    def wall(self) -> float:
        return self._clock.wall() + self._seconds


class Seat:
    """A node with a member or only a voter, on its own disk."""

    def __init__(self, stage: Stage, node: int, *, witness: bool) -> None:
        self.stage, self.node, self.witness = stage, node, witness
        self.disk = SimulatedDisk()
        self.boot = 0
        self.host: GroupMember | VoterHost | None = None
        self.start()

    def start(self) -> None:
        stage = self.stage
        clock = AheadClock(stage.clock, stage.ahead.get(self.node, 0.0))
        self.boot += 1
        random = SeededRandom(100 * self.node + self.boot)
        if self.witness:
            self.host = VoterHost(GROUP, stage.settings, self.node, self.disk, clock, random)
            self.workers = DeferredWorkers(_no_journal)
        else:
            chance = Random(f"{self.node} {self.boot}").random
            self.host = GroupMember(
                GROUP, stage.settings, self.node, self.boot, self.disk, clock, random, chance, stage.manager,
                stage.segment_bytes, stage.snapshot_bytes, stage.client_managers,
            )  # fmt: skip
            self.workers = DeferredWorkers(self.host.write)
        self.host.attach(self.workers, lambda: None)

    def crash(self) -> None:
        """The process is gone and what was not synced with it."""
        self.host = None
        self.disk = self.disk.crash(Random(self.boot))

    @property
    def member(self) -> GroupMember:
        assert isinstance(self.host, GroupMember)
        return self.host


class Stage:
    def __init__(
        self, members: int = 2, witnesses: int = 1, copies: int = 2, *, segment_bytes: int = 64 * 1024,
        snapshot_bytes: int = 1 << 30, cache_bytes: int = 1 << 20, eject_seconds: float = 2.0,
        client_managers: tuple[int, ...] = (), ahead: Mapping[int, float] | None = None,
    ) -> None:  # fmt: skip
        self.clock = VirtualClock()
        self.ahead = ahead or {}
        """By how many seconds the time of day of a node is ahead of the others'."""
        self.segment_bytes, self.snapshot_bytes = segment_bytes, snapshot_bytes
        self.client_managers = client_managers
        self.manager = Settings(cache_bytes=cache_bytes, most_copies=members)
        nodes = tuple(range(1, members + 1))
        others = tuple(range(20, 20 + witnesses))
        self.settings = GroupSettings(nodes, nodes + others, eject_seconds=eject_seconds)
        self.seats = {node: Seat(self, node, witness=False) for node in nodes}
        self.seats |= {node: Seat(self, node, witness=True) for node in others}
        self.client = ScriptedManager(self)
        self.cut_off: set[int] = set()
        self.carried: list[tuple[int, int]] = []
        """(sender, bytes) of every message so far."""
        self._mail: deque[tuple[int, int, Outgoing]] = deque()
        self._initialise(copies)
        self.settle()

    def _initialise(self, copies: int) -> None:
        members = [seat.member.replica for seat in self.seats.values() if not seat.witness]
        voters = [voter_of(seat).replica for seat in self.seats.values()]
        for seat in self.seats.values():
            voter_of(seat).asked(0, Initialise(first_config(members, voters, copies)))

    # ---- turns

    def settle(self) -> None:
        """Until nothing is left to do now."""
        for _ in range(TURNS_MAX):
            if not self.turn():
                return
        raise AssertionError("the group has work for ever")

    def turn(self) -> bool:
        """Everybody does a little; True when there was anything to do."""
        busy = False
        for seat in self.seats.values():
            if seat.host is not None:
                busy |= seat.host.pump()
                self._mail.extend((seat.node, seat.boot, each) for each in seat.host.take_out())
                busy |= seat.workers.settle()
        busy |= bool(self._mail)
        for _ in range(len(self._mail)):
            self._carry(*self._mail.popleft())
        return busy

    def advance(self, seconds: float) -> None:
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            self.clock.advance(min(STEP_SECONDS, end - self.clock.now() + 1e-9))
            for seat in self.seats.values():
                if seat.host is not None:
                    seat.host.tick()
            self.settle()

    def send(self, sender: int, boot: int, outgoing: Outgoing) -> None:
        self._mail.append((sender, boot, outgoing))

    def _carry(self, sender: int, boot: int, outgoing: Outgoing) -> None:
        address, payload = outgoing.address, b"".join(outgoing.parts)
        assert address.channel == GROUP
        self.carried.append((sender, len(payload)))
        for node in [*self.seats, CM]:
            seat = self.seats.get(node)
            hears_in = seat is not None and not seat.witness
            wanted = (
                node == address.node if address.way is Way.NODE else hears_in if address.way is Way.IN else not hears_in
            )
            if wanted and node != sender and (node in self.cut_off) == (sender in self.cut_off):
                if seat is None:
                    self.client.received(sender, payload)
                elif seat.host is not None:
                    seat.host.received(sender, boot, payload)

    # ---- looking

    def primary(self) -> Seat:
        """The one that serves and holds the lease."""
        found = [
            seat
            for seat in self.seats.values()
            if isinstance(seat.host, GroupMember)
            and seat.host.serving is not None
            and seat.host.member.may_deliver(self.clock.now())
        ]
        assert len(found) == 1, [(seat.node, seat.member.role) for seat in self.seats.values() if not seat.witness]
        return found[0]

    def backup(self) -> Seat:
        primary = self.primary()
        return next(
            seat for seat in self.seats.values() if not seat.witness and seat is not primary and seat.host is not None
        )

    def elect(self, seconds: float = 10.0) -> Seat:
        """Time passes until somebody serves."""
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            self.advance(0.1)
            for seat in self.seats.values():
                if isinstance(seat.host, GroupMember) and seat.node not in self.cut_off:
                    member = seat.host.member
                    if seat.host.serving is not None and member.may_deliver(self.clock.now()):
                        return seat
        roles = {seat.node: seat.host.role for seat in self.seats.values() if isinstance(seat.host, GroupMember)}
        raise AssertionError(f"nobody serves: {roles}")

    def in_sync(self) -> list[int]:
        primary = self.primary().member.member.primary
        assert primary is not None
        return [replica.node for replica in primary.config.in_sync]


def voter_of(seat: Seat) -> VoterHost:
    if isinstance(seat.host, VoterHost):
        return seat.host
    voter = seat.member.voter
    assert voter is not None
    return voter


class ScriptedManager:
    """A client manager: keeps its links, knows nothing of clients."""

    def __init__(self, stage: Stage, boot: int = 7) -> None:
        self._stage, self.boot = stage, boot
        self.epoch = self.link = self.number = self._request = 0
        self.primary = 0
        self.replies: list[Reply] = []
        self.unlinked: list[Unlinked] = []
        self.statuses: dict[int, GroupStatus] = {}
        self.stale = 0

    def received(self, sender: int, payload: bytes) -> None:
        envelope = decode_envelope(payload)
        match envelope:
            case GroupBytes():
                message = decode_group(envelope.parts[0])
                assert isinstance(message, Heartbeat)
                if message.epoch > self.epoch:
                    self.epoch, self.primary = message.epoch, sender
                    self.link, self.number = self.link + 1, 0
            case Replies():
                if (envelope.epoch, envelope.link) == (self.epoch, self.link):
                    self.replies += envelope.replies
                else:
                    self.stale += 1
            case Unlinked():
                self.unlinked.append(envelope)
            case GroupStatus():
                self.statuses[sender] = envelope
            case _:
                raise AssertionError(f"{envelope} is not for a client manager")

    def relink(self) -> None:
        self.link, self.number = self.link + 1, 0

    def send(self, *commands: Command) -> list[Reply]:
        """Sends one message and gives what was answered until everything was quiet."""
        self.replies = []
        message = Commands(self.epoch, self.link, self.number, list(commands))
        self.number += 1
        self.send_raw(message)
        self._stage.settle()
        return self.replies

    def send_raw(self, message: Commands) -> None:
        parts = [bytes(part) for part in encode_envelope(message)]
        self._stage.send(CM, self.boot, Outgoing(group_in(GROUP), parts, Stream.DATA))

    def request(self) -> int:
        self._request += 1
        return self._request

    # ---- commands

    def open_producer(self, name: str = "queue:orders", session: bytes = SESSION) -> dict[str, Any]:
        replies = self.send(OpenProducer(self.request(), session, 1, parse_destination(name), CONNECTION))
        return answer(replies)

    def publish(self, destination: int, *bodies: str, first: int = 1, session: bytes = SESSION) -> list[Stored]:
        replies = self.send(publish(destination, *bodies, first=first, session=session))
        return [reply for reply in replies if isinstance(reply, Stored)]

    def open_consumer(
        self,
        name: str = "queue:orders",
        held: list[Range] | None = None,
        session: bytes = SESSION,
        messages: int = 1000,
    ) -> list[Reply]:
        opened = OpenConsumer(
            self.request(), session, 1, parse_destination(name), CONNECTION, None, messages=messages, bytes=1 << 40,
            held=held,
        )  # fmt: skip
        return self.send(opened)

    def settle(self, *ranges: Range, number: int = 1) -> list[Reply]:
        command = SettleMessages((SESSION, 1), Settle(1, Outcome.ACKNOWLEDGE, number, list(ranges)))
        return [reply for reply in self.send(command) if isinstance(reply, SettledTo)]

    def administer(self, operation: str, **fields: Any) -> dict[str, Any]:
        return answer(self.send(Administer(self.request(), operation, fields)))


def answer(replies: list[Reply]) -> dict[str, Any]:
    for reply in replies:
        if isinstance(reply, Failed):
            raise reply.error
        if isinstance(reply, Answer):
            return reply.fields
    raise AssertionError(f"no answer among {replies}")


def publish(
    destination: int, *bodies: str, first: int = 1, session: bytes = SESSION, name: str = "queue:orders",
    mode: DeliveryMode = DeliveryMode.PERSISTENT,
) -> Publish:  # fmt: skip
    address = parse_destination(name)
    header = BatchHeader(
        address.name, address.kind, len(bodies), 0, BodyKind.BYTES, mode, 4, CONNECTION, session, 0, first, first, 1
    )
    block = encode_block(header, [bytes_column(Column.BODY, [body.encode() for body in bodies])])
    return Publish(session, 1, DestinationId(destination), Block(block), None)


def bodies(replies: list[Reply]) -> list[str]:
    """What was delivered, in order."""
    found: list[str] = []
    for reply in replies:
        if isinstance(reply, Delivery):
            block = Block(reply.block)
            texts = column_values(block, Column.BODY) or []
            for start, end, *_ in reply.ranges:
                found += [bytes(text).decode() for text in texts[start:end]]
    return found
