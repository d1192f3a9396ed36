"""A node that has the secret and says anything: it may end what it says, and nothing else."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from tests.node.group_stage import CM, CONNECTION, GROUP, SESSION, Seat, Stage
from tests.node.hostile_messages import command_samples, commands, extremes, group_samples

from tocsin.cluster.envelope import GroupBytes
from tocsin.cluster.envelope import encode as encode_envelope
from tocsin.cluster.register_messages import Heartbeat
from tocsin.model.errors import BrokenInvariant, JournalDamaged, TocsinError
from tocsin.node.group_member import GroupMember
from tocsin.replication.codec import encode as encode_group
from tocsin.replication.messages import Fence, GroupMessage, Nack, Order, OrderEntry
from tocsin.replication.roles import Role

KINDS = [type(message).__name__ for message in group_samples(1, 1, Stage().elect().member.config, 1)]  # type: ignore[arg-type]


def sealed(message: GroupMessage) -> bytes | None:
    """None when no sender could put that into bytes."""
    with suppress(struct.error, TocsinError, OverflowError, ValueError):
        return b"".join(encode_envelope(GroupBytes(encode_group(message))))
    return None


def ready_stage() -> tuple[Stage, int]:
    stage = Stage(members=2, witnesses=1)
    stage.elect()
    stage.client.open_producer()
    stage.client.publish(1, "one", "two")
    return stage, stage.primary().member.epoch


def is_well(stage: Stage, epoch: int) -> bool:
    serving = [seat.member.serving for seat in stage.seats.values() if not seat.witness]
    return any(serving) and all(
        seat.member.epoch == epoch and seat.member.role is not Role.STOPPED
        for seat in stage.seats.values()
        if not seat.witness
    )


def samples(stage: Stage, sender: int) -> dict[str, GroupMessage]:
    leader = stage.primary().member
    assert leader.config is not None
    found = group_samples(leader.epoch, sender, leader.config, leader.committed)
    return {type(message).__name__: message for message in found}


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_of_a_message_between_members_ends_a_node(kind: str) -> None:
    """From the other member, a witness and a client manager, to the primary, the backup and the witness."""
    stage, epoch = ready_stage()
    count = 0
    for part in ("primary", "backup", "witness"):
        for role in ("member", "witness", "client manager"):
            sender = {"member": None, "witness": 20, "client manager": CM}[role]
            number = 0
            while True:
                if not is_well(stage, epoch):
                    stage, epoch = ready_stage()
                receiver = receiver_of(stage, part)
                named = sender or next(node for node in (1, 2) if node != receiver.node)
                cases = [each for each in map(sealed, extremes(samples(stage, named)[kind])) if each is not None]
                if number >= len(cases):
                    break
                # As many as it takes for one to change the group's life; the rest on another one.
                for payload in cases[number:]:
                    number += 1
                    count += 1
                    if not survives(stage, receiver, named, payload, epoch):
                        break
            with suppress(BrokenInvariant, JournalDamaged):
                stage.advance(0.2)
    assert count > 50


def survives(stage: Stage, receiver: Seat, sender: int, payload: bytes, epoch: int) -> bool:
    """False when the group is another one afterwards. Only a record that nobody could apply may stop a member."""
    assert receiver.host is not None
    try:
        receiver.host.received(sender, 1, payload)
        stage.settle()
        if not is_well(stage, epoch):
            stage.advance(0.5)
    except (BrokenInvariant, JournalDamaged) as error:
        assert str(error).startswith("Record ")
        return False
    return is_well(stage, epoch)


def receiver_of(stage: Stage, part: str) -> Seat:
    leader = next(s for s in stage.seats.values() if isinstance(s.host, GroupMember) and s.host.serving is not None)
    if part == "witness":
        return stage.seats[20]
    return leader if part == "primary" else next(s for s in stage.seats.values() if not s.witness and s is not leader)


def test_what_a_client_manager_says_for_a_member_is_not_heard() -> None:
    """All kinds, as they are: the log, the votes and the lease stay what they were."""
    stage, epoch = ready_stage()
    leader = stage.primary().member
    assert leader.config is not None
    stage.advance(0.5)
    before = [(seat.member.epoch, seat.member.committed, seat.member.replica) for seat in members(stage)]
    for message in group_samples(epoch + 64, CM, leader.config, 99):
        if type(message).__name__ == "CommitSeen":
            continue
        payload = sealed(message)
        assert payload is not None
        for seat in stage.seats.values():
            assert seat.host is not None
            malformed = seat.host.malformed
            seat.host.received(CM, 1, payload)
            assert seat.host.malformed == malformed + 1 or seat.witness, type(message)
        stage.settle()
    stage.advance(1.0)
    assert before == [(seat.member.epoch, seat.member.committed, seat.member.replica) for seat in members(stage)]


def members(stage: Stage) -> list[Seat]:
    return [seat for seat in stage.seats.values() if not seat.witness]


@pytest.mark.makes_mistakes
def test_no_field_of_a_command_ends_a_primary() -> None:
    """Commands that no client manager would send: each is refused or does what it says, on all members."""
    stage, _ = ready_stage()
    client = stage.client
    client.open_consumer()
    for command in command_samples(SESSION, CONNECTION, 1):
        for other in extremes(command):
            with suppress(struct.error, TocsinError, OverflowError, UnicodeEncodeError, AttributeError, TypeError):
                encode_envelope(commands(client.epoch, client.link, client.number, other))
                client.send(other)
            if not client.replies:
                client.relink()
                client.open_consumer()
    client.relink()
    client.open_producer("queue:after", session=b"another session!")
    assert is_well(stage, stage.primary().member.epoch)


def test_numbers_of_commands_at_their_extremes_end_nothing() -> None:
    stage, _ = ready_stage()
    client = stage.client
    command = command_samples(SESSION, CONNECTION, 1)[0]
    for other in extremes(commands(client.epoch, client.link, client.number, command)):
        with suppress(struct.error, TocsinError, OverflowError, UnicodeEncodeError, TypeError):
            payload = b"".join(encode_envelope(other))
            for seat in stage.seats.values():
                assert seat.host is not None
                seat.host.received(CM, 7, payload)
            stage.settle()
    client.relink()
    client.open_producer("queue:after", session=b"another session!")


def test_bytes_of_messages_changed_at_random_end_nothing() -> None:
    stage, epoch = ready_stage()
    random = Random(16)
    for turn in range(3_000):
        if not is_well(stage, epoch):
            stage, epoch = ready_stage()
        receiver = receiver_of(stage, random.choice(("primary", "backup", "witness")))
        sender = random.choice([node for node in (1, 2, 20, CM) if node != receiver.node])
        payload = sealed(random.choice(list(samples(stage, sender).values())))
        assert payload is not None and receiver.host is not None
        changed = bytearray(payload)
        for _ in range(random.choice((1, 1, 2, 8))):
            changed[random.randrange(len(changed))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        length = random.choice((len(changed), random.randrange(len(changed))))
        if not survives(stage, receiver, sender, bytes(changed[:length]), epoch):
            stage, epoch = ready_stage()
        elif turn % 50 == 0:
            stage.advance(0.1)


@pytest.mark.makes_mistakes
def test_an_error_that_changed_nothing_is_counted_and_the_member_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, _ = ready_stage()
    backup = stage.backup().member

    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("a mistake")

    handlers: dict[type, object] = {**backup.member._handlers, Order: broken}
    monkeypatch.setattr(backup.member, "_handlers", handlers)
    payload = sealed(Order(backup.epoch, backup.epoch, 99, 1, (OrderEntry(9, b"", None),)))
    assert payload is not None
    backup.received(stage.primary().node, 1, payload)
    assert stage.manager.faults.count == 1
    stage.advance(0.5)
    assert backup.role is Role.FOLLOWER


@pytest.mark.makes_mistakes
def test_an_error_behind_a_change_of_the_log_stops_the_node_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, _ = ready_stage()
    backup = stage.backup().member
    original = backup.member._handlers[Order]

    def half_done(sender: int, message: object, now: float) -> None:
        original(sender, message, now)
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(backup.member, "_handlers", {**backup.member._handlers, Order: half_done})
    last = backup.status().last
    payload = sealed(Order(backup.epoch, backup.epoch, last + 1, 1, (OrderEntry(9, b"", None),)))
    assert payload is not None
    with pytest.raises(BrokenInvariant, match=f"changed the log or a promise of group {GROUP}"):
        backup.received(stage.primary().node, 1, payload)


@pytest.mark.parametrize("kind", ["Heartbeat", "Fence", "Nack"])
@pytest.mark.parametrize("epoch", [(1 << 32) - (1 << 16) - 64, (1 << 32) - (1 << 16), (1 << 32) - 64, (1 << 32) - 1])
@pytest.mark.parametrize("part", ["primary", "backup"])
def test_an_epoch_near_the_end_of_its_bits_ends_nobody(kind: str, epoch: int, part: str) -> None:
    """A member may claim it; those who would come after it have numbers left, or nobody leads any more."""
    stage, _ = ready_stage()
    receiver = receiver_of(stage, part)
    sender = next(node for node in (1, 2) if node != receiver.node)
    heartbeat = samples(stage, sender)["Heartbeat"]
    assert isinstance(heartbeat, Heartbeat)
    # Of the rank of the sender, or nobody would believe it.
    own = epoch | sender - 1
    said: dict[str, GroupMessage] = {
        "Nack": Nack(epoch),
        "Fence": Fence(own),
        "Heartbeat": replace(heartbeat, epoch=own),
    }
    payload = sealed(said[kind])
    assert payload is not None and receiver.host is not None
    receiver.host.received(sender, 1, payload)
    stage.advance(5.0)
    for seat in members(stage):
        assert seat.member.status().epoch < 1 << 32
    assert stage.manager.faults.count == 0
