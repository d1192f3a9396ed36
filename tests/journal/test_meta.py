"""The identity file."""

from __future__ import annotations

import pytest

from tocsin.journal.meta import META, MetaState, create_meta, encode_meta, read_meta
from tocsin.journal.segment import FORMAT_VERSION, Identity
from tocsin.model.errors import StorageFull
from tocsin.testing.disk import SeededRandom, SimulatedDisk


def test_made_once_and_read_back() -> None:
    disk = SimulatedDisk()
    assert read_meta(disk) == (MetaState.MISSING, None)
    identity = create_meta(disk, SeededRandom(1))
    assert read_meta(disk) == (MetaState.GOOD, identity)
    assert identity.journal_id != identity.salt


def test_any_changed_byte_is_damage() -> None:
    disk = SimulatedDisk()
    create_meta(disk, SeededRandom(1))
    for byte in range(disk.open(META).size()):
        disk.flip(META, 8 * byte)
        assert read_meta(disk) == (MetaState.BAD, None)
        disk.flip(META, 8 * byte)
    disk.open(META).truncate(10)
    assert read_meta(disk) == (MetaState.BAD, None)


def test_a_newer_format_is_recognised() -> None:
    disk = SimulatedDisk()
    newer = encode_meta(Identity(b"j" * 16, b"s" * 16), FORMAT_VERSION + 1)
    disk.create(META, 0).write(0, [newer])
    assert read_meta(disk) == (MetaState.NEWER, None)


def test_no_room_for_it_is_said() -> None:
    with pytest.raises(StorageFull, match="begin a journal"):
        create_meta(SimulatedDisk(capacity=10), SeededRandom(1))
