"""Members with real state under crashes, cuts and hand-overs: nothing confirmed is lost, nothing is there twice."""

from __future__ import annotations

from random import Random

import pytest
from tests.node.group_stage import CM, SESSION, Stage, bodies, publish

from tocsin.cluster.commands import Answer, Delivery, OpenConsumer, OpenProducer, SettleMessages, Stored
from tocsin.cluster.envelope import Commands
from tocsin.message_manager.state_hash import state_hash
from tocsin.model.destination import parse_destination
from tocsin.node.group_member import GroupMember
from tocsin.wire.frames import Outcome, Settle

QUEUE = parse_destination("queue:orders")
READER = b"r" * 16
CONNECTION = b"c" * 16
STEPS = 120


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
        elif self.publishing and self.destination and self.sent - self.confirmed < 10:
            self.sent += 1
            self._send(publish(self.destination, self._body(self.sent), first=self.sent))

    def _body(self, sequence: int) -> str:
        return f"{sequence} " + "x" * (100 + 37 * sequence % 1500)

    def _take_replies(self) -> None:
        client = self.stage.client
        replies, client.replies = client.replies, []
        for reply in replies:
            if isinstance(reply, Stored):
                self.confirmed = max(self.confirmed, reply.sequence)
            elif isinstance(reply, Answer) and reply.request == self.requests and "destination" in reply.fields:
                self.destination = reply.fields["destination"]
                assert reply.fields["last_sequence"] >= self.confirmed, "a confirmed message is lost"
                for sequence in range(self.confirmed + 1, self.sent + 1):
                    self._send(publish(self.destination, self._body(sequence), first=sequence))

    def _send(self, *commands: object) -> None:
        client = self.stage.client
        client.send_raw(Commands(client.epoch, client.link, client.number, list(commands)))  # type: ignore[arg-type]
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
            if self.confirmed == self.sent and self.sent > 0 and self.is_well():
                return
        raise AssertionError(f"{self.confirmed} of {self.sent} confirmed: {self.describe()}")

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

    def consume(self) -> list[int]:
        """All that is in the queue, acknowledged piece by piece."""
        client, found, number = self.stage.client, [], 0
        self.stage.advance(6.0)
        client.replies = []
        self._send(OpenConsumer(10_000, READER, 1, QUEUE, CONNECTION, None, messages=1 << 30, bytes=1 << 40))
        for _ in range(400):
            self.stage.advance(0.02)
            replies, client.replies = client.replies, []
            deliveries = [reply for reply in replies if isinstance(reply, Delivery)]
            for delivery in deliveries:
                found += [int(body.split()[0]) for body in bodies([delivery])]
                ranges = [(delivery.offset + start, delivery.offset + end) for start, end, *_ in delivery.ranges]
                number += 1
                self._send(SettleMessages((READER, 1), Settle(1, Outcome.ACKNOWLEDGE, number, ranges)))
            if len(found) >= self.sent:
                break
        self.stage.advance(1.0)
        return found


@pytest.mark.parametrize(("members", "witnesses"), [(2, 1), (3, 0)])
@pytest.mark.parametrize("seed", range(4))
def test_confirmed_messages_are_there_once_and_in_order(seed: int, members: int, witnesses: int) -> None:
    life = Life(seed, members, witnesses)
    for _ in range(STEPS):
        life.step()
    life.heal()
    assert life.consume() == [*range(1, life.sent + 1)]
    assert life.sent > 20 and len(life.promotions) > 2
    life.stage.advance(2.0)
    assert life.is_well(), life.describe()
