"""Members of a group crash, lose their disks and are filled again, while messages come and go: nothing is lost."""

from __future__ import annotations

from random import Random

import pytest
from tests.node.group_stage import Stage, bodies, publish

from tocsin.journal import inspect
from tocsin.message_manager.state_hash import state_hash
from tocsin.model.limits import KIB
from tocsin.testing.disk import SimulatedDisk

KEPT_SESSION = b"k" * 16


class Life:
    """A group of three with a queue and a retained topic; `taken` messages of the queue are acknowledged."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.stage = Stage(3, 0, snapshot_bytes=random.choice((4, 8, 16)) * KIB, segment_bytes=16 * KIB)
        self.client = self.stage.client
        self.sent = self.kept = self.taken = self.filled = 0
        self.stage.elect()
        options = {"retained": True, "max_bytes": random.choice((0, 30_000))}
        self.client.administer("destination.create", destination="topic:kept", **options)
        self.attach()

    def attach(self) -> None:
        self.orders = int(self.client.open_producer()["destination"])
        self.topic = int(self.client.open_producer("topic:kept", session=KEPT_SESSION)["destination"])

    def send(self, count: int) -> None:
        for _ in range(count):
            self.sent += 1
            text = f"{self.sent} " + "x" * self.random.randrange(1200)
            assert [each.sequence for each in self.client.publish(self.orders, text, first=self.sent)] == [self.sent]
            if self.random.random() < 0.5:
                self.kept += 1
                text = "y" * self.random.randrange(1500)
                self.client.send(publish(self.topic, text, first=self.kept, name="topic:kept", session=KEPT_SESSION))

    def take(self) -> None:
        self.client.open_consumer()
        self.stage.advance(0.3)
        count = self.random.randrange(self.sent - self.taken + 1)
        if count:
            self.client.settle((self.taken, self.taken + count))
        self.taken += count

    def lose_a_disk(self) -> None:
        seat = self.stage.backup()
        seat.crash()
        seat.disk = SimulatedDisk()
        self.send(self.random.randrange(40))
        seat.start()
        self.filled += 1

    def restart_a_backup(self) -> None:
        seat = self.stage.backup()
        seat.crash()
        self.stage.advance(4 * self.random.random())
        seat.start()

    def restart_the_primary(self) -> None:
        seat = self.stage.primary()
        seat.crash()
        self.stage.elect()
        seat.start()

    def restart_all(self) -> None:
        for seat in self.stage.seats.values():
            seat.crash()
            seat.start()

    def recover(self) -> None:
        """All are in sync again, and have the same state on disks without damage."""
        stage = self.stage
        stage.elect(30)
        stage.advance(10)
        assert stage.in_sync() == [1, 2, 3]
        assert len({state_hash(seat.member.manager.directory) for seat in stage.seats.values()}) == 1
        for seat in stage.seats.values():
            assert [each for each in inspect.check(seat.disk) if each.severity is inspect.Severity.DAMAGE] == []
        self.client.relink()


@pytest.mark.parametrize("seed", range(4))
def test_what_was_confirmed_is_there_after_all_of_it(seed: int) -> None:
    life = Life(seed)
    accidents = [life.lose_a_disk, life.restart_a_backup, life.restart_the_primary, life.restart_all]
    life.random.shuffle(accidents)
    for accident in [*accidents, life.lose_a_disk, life.restart_all]:
        life.send(life.random.randrange(10, 40))
        life.take()
        accident()
        life.recover()
        life.attach()
    life.client.open_consumer(session=b"z" * 16, messages=100_000)
    life.stage.advance(0.5)
    assert life.filled == 2
    found = sorted(int(body.split()[0]) for body in bodies(life.client.replies))
    assert found == list(range(life.taken + 1, life.sent + 1))
