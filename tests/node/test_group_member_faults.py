"""Members with real state under crashes, cuts and hand-overs: what is confirmed is there, what is settled is gone."""

from __future__ import annotations

from random import Random

import pytest
from tests.node.group_stage import CM, SESSION, Stage, bodies, publish

from tocsin.cluster.commands import (
    Answer,
    Command,
    Delivery,
    OpenConsumer,
    OpenProducer,
    Reply,
    SettledTo,
    SettleMessages,
    Stored,
)
from tocsin.cluster.envelope import Commands
from tocsin.message_manager.state_hash import state_hash
from tocsin.model.destination import parse_destination
from tocsin.model.ranges import RangeSet, unpack_ranges
from tocsin.node.group_member import GroupMember
from tocsin.wire.frames import Outcome, Settle

QUEUE = parse_destination("queue:orders")
READER = b"r" * 16
CONNECTION = b"c" * 16
STEPS = 120
OPENINGS = 1 << 20
"""Requests of the consumer are numbered from here."""


class Life:
    """A group, a producer that repeats what is not confirmed, and faults."""

    def __init__(self, seed: int, members: int, witnesses: int) -> None:
        self.random = Random(seed)
        self.stage = Stage(members, witnesses, snapshot_bytes=6 * 1024, segment_bytes=16 * 1024, cache_bytes=1 << 14)
        self.sent = self.confirmed = self.requests = 0
        self.linked = (0, 0)
        self.destination = 0
        self.publishing = True
        self.down: list[int] = []
        self.promotions: set[int] = set()
        self.reader = Reader()

    # ---- the producer

    def work(self) -> None:
        """What a client manager does: begins a link when there is a new primary, repeats, sends more."""
        client = self.stage.client
        self._take_replies()
        if client.unlinked:
            client.unlinked.clear()
            client.relink()
        if (client.epoch, client.link) != self.linked:
            self.linked = client.epoch, client.link
            self.destination = 0
            self.requests += 1
            self._send(OpenProducer(self.requests, SESSION, 1, QUEUE, CONNECTION))
            self._send(*self.reader.again())
        elif self.publishing and self.destination and self.sent - self.confirmed < 10:
            self.sent += 1
            self._send(publish(self.destination, self._body(self.sent), first=self.sent))
        elif self.destination and self.random.random() < 0.5:
            self._send(*self.reader.settle(self.random))

    def _body(self, sequence: int) -> str:
        return f"{sequence} " + "x" * (100 + 37 * sequence % 1500)

    def _take_replies(self) -> None:
        client = self.stage.client
        replies, client.replies = client.replies, []
        for reply in replies:
            self.reader.take(reply)
            if isinstance(reply, Stored):
                self.confirmed = max(self.confirmed, reply.sequence)
            elif isinstance(reply, Answer) and reply.request == self.requests and "destination" in reply.fields:
                self.destination = reply.fields["destination"]
                assert reply.fields["last_sequence"] >= self.confirmed, "a confirmed message is lost"
                for sequence in range(self.confirmed + 1, self.sent + 1):
                    self._send(publish(self.destination, self._body(sequence), first=sequence))

    def _send(self, *commands: Command) -> None:
        client = self.stage.client
        if not commands:
            return
        client.send_raw(Commands(client.epoch, client.link, client.number, list(commands)))
        client.number += 1

    # ---- faults

    def strike(self) -> None:
        stage, random = self.stage, self.random
        kind = random.choice(("crash", "crash", "start", "start", "cut", "mend", "mend", "hand over"))
        nodes = [node for node, seat in stage.seats.items() if seat.host is not None]
        if kind == "crash" and nodes:
            node = random.choice(nodes)
            stage.seats[node].crash()
            self.down.append(node)
        elif kind == "start" and self.down:
            stage.seats[self.down.pop(0)].start()
        elif kind == "cut":
            stage.cut_off = {random.choice([*stage.seats, CM])}
        elif kind == "mend":
            self._mend()
        elif kind == "hand over":
            for seat in stage.seats.values():
                if isinstance(seat.host, GroupMember):
                    seat.host.hand_over()

    def _mend(self) -> None:
        """The bus tells that something was lost for good: a client manager then begins a new link."""
        if self.stage.cut_off:
            self.stage.cut_off = set()
            self.stage.client.relink()

    def step(self) -> None:
        stage, random = self.stage, self.random
        for _ in range(random.randrange(6)):
            self.work()
            stage.turn()
        if random.random() < 0.3:
            self.strike()
        stage.advance(random.choice((0.02, 0.1, 0.5, 1.5)))
        self.promotions.add(stage.client.epoch)

    def heal(self) -> None:
        stage, self.publishing = self.stage, False
        self._mend()
        while self.down:
            stage.seats[self.down.pop()].start()
        for _ in range(200):
            self.work()
            stage.advance(0.1)
            if self.confirmed == self.sent and self.reader.finished == self.sent > 0 and self.is_well():
                return
        counts = f"{self.sent} sent, {self.confirmed} confirmed, {self.reader.finished} finished"
        raise AssertionError(f"{counts}: {self.describe()}")

    def members(self) -> list[GroupMember]:
        return [seat.host for seat in self.stage.seats.values() if isinstance(seat.host, GroupMember)]

    def is_well(self) -> bool:
        hosts = self.members()
        served = [host for host in hosts if host.serving is not None]
        level = len({state_hash(host.manager.directory) for host in hosts}) == 1
        return level and len(served) == 1 and len(served[0].in_sync) == len(hosts)

    def describe(self) -> str:
        return str(
            [(host.role, host.applied, host.member.committed, host.in_sync, host.alarm) for host in self.members()]
        )


class Reader:
    """A consumer as its client manager sees it: what it has, what it has settled, and what of that is known."""

    def __init__(self) -> None:
        self.held: dict[int, int] = {}
        """Offsets to the sequence of their messages."""
        self.settling: dict[int, dict[int, int]] = {}
        """Settlements that are not confirmed, by their numbers."""
        self.done: set[int] = set()
        self._number = 0
        self._opened = 0

    @property
    def finished(self) -> int:
        return len(self.done)

    def again(self) -> list[Command]:
        """What is said at the start of a link."""
        offsets = [*self.held, *(offset for each in self.settling.values() for offset in each)]
        held = list(RangeSet((offset, offset + 1) for offset in offsets))
        self._opened += 1
        opening = OpenConsumer(
            OPENINGS + self._opened, READER, 1, QUEUE, CONNECTION, None, messages=1 << 30, bytes=1 << 40, held=held
        )
        return [opening, *(_settlement(number, each) for number, each in self.settling.items())]

    def settle(self, random: Random) -> list[Command]:
        chosen = {offset: sequence for offset, sequence in self.held.items() if random.random() < 0.7}
        if not chosen:
            return []
        self._number += 1
        self.settling[self._number] = chosen
        for offset in chosen:
            del self.held[offset]
        return [_settlement(self._number, chosen)]

    def take(self, reply: Reply) -> None:
        if isinstance(reply, Delivery):
            offsets = [reply.offset + index for start, end, *_ in reply.ranges for index in range(start, end)]
            for offset, body in zip(offsets, bodies([reply]), strict=True):
                sequence = int(body.split()[0])
                assert sequence not in self.done, f"message {sequence} comes again after it was acknowledged for good"
                self.held[offset] = sequence
        elif isinstance(reply, SettledTo):
            for number in [number for number in self.settling if number <= reply.number]:
                self.done.update(self.settling.pop(number).values())
        elif isinstance(reply, Answer) and reply.request == OPENINGS + self._opened and "kept" in reply.fields:
            kept = RangeSet(unpack_ranges(reply.fields["kept"]))
            self.held = {offset: each for offset, each in self.held.items() if kept.covers(offset, offset + 1)}


def _settlement(number: int, messages: dict[int, int]) -> SettleMessages:
    ranges = list(RangeSet((offset, offset + 1) for offset in messages))
    return SettleMessages((READER, 1), Settle(1, Outcome.ACKNOWLEDGE, number, ranges))


@pytest.mark.parametrize(("members", "witnesses"), [(2, 1), (3, 0)])
@pytest.mark.parametrize("seed", range(4))
def test_confirmed_messages_are_there_once_and_in_order(seed: int, members: int, witnesses: int) -> None:
    life = Life(seed, members, witnesses)
    for _ in range(STEPS):
        life.step()
    life.heal()
    assert life.reader.done == {*range(1, life.sent + 1)}
    assert life.sent > 20 and len(life.promotions) > 2
    life.stage.advance(2.0)
    assert life.is_well(), life.describe()
