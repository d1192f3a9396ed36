"""What a node keeps of itself in its data directory: its boot counter and its secret."""

from __future__ import annotations

from contextlib import suppress

from tocsin.journal.atomic_file import replace_file
from tocsin.journal.snapshot import SPARE
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
    that a restored backup has forgotten had lower numbers.
    """
    boot = int(_read(files, _BOOT) or b"0") + 1
    seconds = int(wall) - _START_OF_2020
    if seconds < _SECONDS_BELIEVED:
        boot = max(boot, seconds)
    _replace(files, _BOOT, str(boot).encode())
    return boot


def node_secret(files: Files, random: Random) -> bytes:
    """Under which the node signs resume tokens; made once."""
    secret = _read(files, _SECRET)
    if secret is None:
        secret = random.bytes(_SECRET_BYTES)
        _replace(files, _SECRET, secret)
    if len(secret) != _SECRET_BYTES:
        raise JournalDamaged("The file `secret` in the data directory has the wrong size; restore it or remove it.")
    return secret


def _read(files: Files, name: str) -> bytes | None:
    try:
        file = files.open(name)
    except FileNotFoundError:
        return None
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def _replace(files: Files, name: str, data: bytes) -> None:
    if replace_file(files, name, [data]):
        return
    # What was set aside for snapshots gives way: a server must start on a full disk, or nobody can empty its queues.
    with suppress(FileNotFoundError):
        files.remove(SPARE)
    if not replace_file(files, name, [data]):
        raise StorageFull("The disk is full: the server can't even note that it starts. Free some space.")
