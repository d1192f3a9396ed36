"""The boot counter and the secret: made once, durable before they are used, and there on a full disk."""

from __future__ import annotations

from random import Random

import pytest

from tocsin.journal.atomic_file import replace_file
from tocsin.journal.snapshot import SPARE
from tocsin.model.errors import JournalDamaged
from tocsin.node.identity_files import next_boot, node_secret
from tocsin.testing.disk import SeededRandom, SimulatedDisk

IN_2020 = 1_577_836_800.0 + 5_000
IN_2026 = 1_767_225_600.0
BEFORE_ALL_CLOCKS = 0.0
IN_2200 = 7_258_118_400.0


def test_boots_count_up_whatever_the_clock_says() -> None:
    disk = SimulatedDisk()
    clocks = [BEFORE_ALL_CLOCKS, BEFORE_ALL_CLOCKS, IN_2026, IN_2026, IN_2020, IN_2200]
    boots = [next_boot(disk, clock) for clock in clocks]
    assert boots[:2] == [1, 2]
    assert boots == sorted(set(boots)), "rising, without repeats"
    assert boots[-1] == boots[-2] + 1, "a clock that is mad does not use up the counter"


def test_a_restored_copy_does_not_repeat_the_starts_it_has_forgotten() -> None:
    disk = SimulatedDisk()
    next_boot(disk, IN_2026)
    backup = disk.crash(Random(0))
    since = [next_boot(disk, IN_2026 + hours * 3600) for hours in range(1, 50)]
    assert next_boot(backup, IN_2026 + 50 * 3600) > max(since)


def test_a_boot_is_durable_before_it_is_used() -> None:
    disk = SimulatedDisk()
    boot = next_boot(disk, BEFORE_ALL_CLOCKS)
    for seed in range(8):
        assert next_boot(disk.crash(Random(seed)), BEFORE_ALL_CLOCKS) == boot + 1


def test_a_boot_fits_into_an_id() -> None:
    assert next_boot(SimulatedDisk(), 1_577_836_800.0 + (1 << 31) - 1) < 1 << 32


def test_the_spare_gives_way_when_the_disk_is_full() -> None:
    disk = SimulatedDisk()
    disk.make_folder("snapshots")
    spare = disk.create(SPARE, 8192)
    spare.write(0, [bytes(8192)])
    spare.sync()
    disk.capacity = 8192
    assert next_boot(disk, BEFORE_ALL_CLOCKS) == 1


def test_later_starts_need_no_free_byte() -> None:
    disk = SimulatedDisk()
    boots = [next_boot(disk, BEFORE_ALL_CLOCKS)]
    disk.capacity = 0
    boots += [next_boot(disk, BEFORE_ALL_CLOCKS) for _ in range(3)]
    assert boots == [1, 2, 3, 4]


def test_the_number_of_an_earlier_release_goes_on() -> None:
    disk = SimulatedDisk()
    replace_file(disk, "boot", [b"41"])
    assert next_boot(disk, BEFORE_ALL_CLOCKS) == 42


def test_a_damaged_number_is_not_guessed() -> None:
    disk = SimulatedDisk()
    replace_file(disk, "boot", [b"4x"])
    with pytest.raises(JournalDamaged, match="boot"):
        next_boot(disk, BEFORE_ALL_CLOCKS)


def test_the_secret_is_made_once() -> None:
    disk = SimulatedDisk()
    secret = node_secret(disk, SeededRandom(1))
    assert len(secret) == 32
    assert node_secret(disk.crash(Random(0)), SeededRandom(2)) == secret


def test_a_secret_of_another_size_is_refused() -> None:
    disk = SimulatedDisk()
    disk.create("secret", 0).write(0, [b"short"])
    with pytest.raises(JournalDamaged, match="secret"):
        node_secret(disk, SeededRandom(1))
