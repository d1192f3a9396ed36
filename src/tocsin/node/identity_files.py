"""What a node keeps of itself in its data directory: its boot counter and its secret."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.journal.atomic_file import read_file, replace_file
from tocsin.journal.slot_file import load_slots, save_slots
from tocsin.journal.snapshot import give_up_spare
from tocsin.model.errors import JournalDamaged, StorageFull
from tocsin.runtime.ports import Files, Random

_BOOT = "boot"
_SECRET = "secret"
_SECRET_BYTES = 32
_START_OF_2020 = 1_577_836_800
_SECONDS_BELIEVED = 1 << 31
"""Until 2088. A clock that says more is wrong, and must not use up the counter, which has 32 bits."""


def next_boot(files: Files, wall: float) -> int:
    """The number of this start, written durably before any id of it can be given out.

    It counts up, so ids never repeat, whatever the clock says. It also begins at the seconds since 2020: the starts
    that a restored backup has forgotten had lower numbers. After the first time it needs no room on the disk.
    """
    try:
        text = load_slots(files, _BOOT)
    except FileNotFoundError:
        text = b"0"
    if not text.isdigit():
        raise JournalDamaged(
            "The file `boot` in the data directory is damaged, so ids might be given out twice. If the machine's clock"
            " is right, remove it: the next start takes its number from the clock."
        )
    boot = int(text) + 1
    seconds = int(wall) - _START_OF_2020
    if seconds < _SECONDS_BELIEVED:
        boot = max(boot, seconds)
    _note(files, lambda: save_slots(files, _BOOT, str(boot).encode()))
    return boot


def node_secret(files: Files, random: Random) -> bytes:
    """Under which the node signs resume tokens; made once."""
    try:
        secret = read_file(files, _SECRET)
    except FileNotFoundError:
        secret = random.bytes(_SECRET_BYTES)
        _note(files, lambda: replace_file(files, _SECRET, [secret]))
    if len(secret) != _SECRET_BYTES:
        raise JournalDamaged("The file `secret` in the data directory has the wrong size; restore it or remove it.")
    return secret


def _note(files: Files, write: Callable[[], bool]) -> None:
    if write():
        return
    give_up_spare(files)
    if not write():
        raise StorageFull("The disk is full: the server can't even note that it starts. Free some space.")
