"""A disk in memory, with the faults of real ones. Implements the Files port.

Fault model. A write, truncation or allocation is volatile until the file's `sync`; a creation, rename or
removal until `sync_directory` of its folder (a sync of the file does not make its name durable). `crash`
gives the disk as it is after a power loss: of the volatile changes to each file, each is kept, lost, or, for
a write, torn at 512-byte sectors, in any combination, whatever the order they were made in; a sector arrives
as it was in memory after that write. Of the volatile changes to each folder likewise each is kept or lost, a
rename always as a whole. What never reached the disk reads as zero.

`restart` is the milder case: the process died, the machine did not, nothing is lost.

Every call that changes something counts as one operation. A test can have any operation crash the process
(SimulatedCrash; all later calls fail too), fail (EIO: StorageFailed) or find no room (StorageFull); let the
disk fill up (`capacity`); flip bits; or make the disk lie about syncs. A crash strikes while the operation is
under way: its effect is volatile.

A sync that fails does to a file what kernels do: of what it should have written nothing has reached the disk (or, with
FAIL_HALFWAY, some of it); all of it stays readable, also after `restart`; a later sync succeeds and does not write it,
unless it is written again; and a power loss takes it. Directories are the file system's own: after a failed sync a
later one works.

A write for which there is no room takes what is left before it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from random import Random
from typing import TypeAlias

from tocsin.model.errors import StorageFailed, StorageFull
from tocsin.runtime.ports import Buffer

SECTOR_BYTES = 512
_TRACE_MAX = 100_000


class Fault(Enum):
    CRASH = "the process dies"
    FAIL = "input/output error"
    FAIL_HALFWAY = "input/output error, after some of a sync"
    NO_ROOM = "no room left"


class SimulatedCrash(BaseException):
    """The process died here. Not an Exception, so that no handler of the code under test takes it for an
    error.
    """


class _Inode:
    """A file's content: what is durable, and what was done to it since."""

    __slots__ = ("changes", "content", "durable")

    def __init__(self, content: bytes = b"") -> None:
        self.content, self.durable = bytearray(content), bytearray(content)
        self.changes: list[tuple[int, bytes | None]] = []
        """(position, bytes) of a write, or (size, None) of a truncation or allocation."""

    def apply(self, target: bytearray, position: int, data: bytes | None) -> None:
        if data is None:
            del target[position:]
        if len(target) < position:
            target.extend(bytes(position - len(target)))
        if data is not None:
            target[position : position + len(data)] = data

    def change(self, position: int, data: bytes | None) -> None:
        self.apply(self.content, position, data)
        if data is not None:
            # A disk writes whole sectors, as they are in memory: what was written to them before goes along.
            end = position + len(data)
            position -= position % SECTOR_BYTES
            data = bytes(self.content[position : end + -end % SECTOR_BYTES])
        self.changes.append((position, data))

    def sync(self) -> None:
        for position, data in self.changes:
            self.apply(self.durable, position, data)
        self.changes.clear()

    def sync_failed(self, halfway: Random | None) -> None:
        """The changes count as written, and are not on disk, or some of them are."""
        if halfway is not None:
            self.durable = self.after_crash(halfway)
        self.changes.clear()

    def after_crash(self, random: Random) -> bytearray:
        content = bytearray(self.durable)
        for position, data in self.changes:
            fate = random.choice(("kept", "lost", "torn"))
            if fate == "kept" or (fate == "torn" and data is None and random.random() < 0.5):
                self.apply(content, position, data)
            elif fate == "torn" and data is not None:
                for start, sector in _sectors(position, data):
                    if random.random() < 0.5:
                        self.apply(content, start, sector)
        return content


def _sectors(position: int, data: bytes) -> list[tuple[int, bytes]]:
    """A write cut where the disk's sectors end."""
    pieces, begin = [], 0
    while begin < len(data):
        end = min(len(data), begin + SECTOR_BYTES - (position + begin) % SECTOR_BYTES)
        pieces.append((position + begin, data[begin:end]))
        begin = end
    return pieces


_Entry: TypeAlias = "_Inode | _Folder"


class _Folder:
    """Names: those that are durable, and what was done since. A change removes one name and sets another."""

    __slots__ = ("changes", "durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, _Entry] = {}
        self.durable: dict[str, _Entry] = {}
        self.changes: list[tuple[str | None, str | None, _Entry | None]] = []

    @staticmethod
    def apply(entries: dict[str, _Entry], gone: str | None, name: str | None, entry: _Entry | None) -> None:
        if gone is not None:
            entries.pop(gone, None)
        if name is not None and entry is not None:
            entries[name] = entry

    def change(self, gone: str | None, name: str | None, entry: _Entry | None) -> None:
        self.apply(self.entries, gone, name, entry)
        self.changes.append((gone, name, entry))

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.changes.clear()

    def after_crash(self, random: Random) -> _Folder:
        survivors = dict(self.durable)
        for gone, name, entry in self.changes:
            if random.random() < 0.5:
                self.apply(survivors, gone, name, entry)
        folder = _Folder()
        for name, entry in sorted(survivors.items()):
            if isinstance(entry, _Folder):
                folder.entries[name] = entry.after_crash(random)
            else:
                folder.entries[name] = _Inode(bytes(entry.after_crash(random)))
        folder.durable = dict(folder.entries)
        return folder


class SimulatedDisk:
    """See the module for what it simulates. `operations` counts the changes so far; `faults` maps a count to
    its fault.
    """

    def __init__(self, *, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.faults: dict[int, Fault] = {}
        self.operations = 0
        self.lies = False
        """Syncs report success and do nothing."""
        self.dead = False
        self.trace: list[str] = []
        """What each operation was, up to a bound, for people who look for the one that broke a test."""
        self._root = _Folder()

    # Faults.

    def crash(self, random: Random) -> SimulatedDisk:
        """The disk that the machine finds after a power loss; this one stays as it is, so a test can draw
        again.
        """
        disk = SimulatedDisk(capacity=self.capacity)
        disk._root = self._root.after_crash(random)
        return disk

    def restart(self) -> None:
        """A new process begins on the same machine: it sees everything that the old one wrote."""
        self.dead = False
        self.faults.clear()

    def flip(self, name: str, bit: int) -> None:
        """Turn one bit of a file, in memory and on disk, as rot does."""
        inode = self._inode(name)
        for content in (inode.content, inode.durable):
            if bit // 8 < len(content):
                content[bit // 8] ^= 1 << bit % 8

    def synced(self, name: str) -> None:
        """A file has become durable; for a disk that tells."""

    def _operation(self, action: str, name: str) -> bool:
        """Count an operation and meet its fault; True when the process dies in the middle of it."""
        self._check_alive()
        number, self.operations = self.operations, self.operations + 1
        if number < _TRACE_MAX:
            self.trace.append(f"{number} {action} {name}")
        fault = self.faults.get(number)
        if fault is Fault.FAIL or fault is Fault.FAIL_HALFWAY:
            raise StorageFailed(f"The disk failed to {action} {name}: simulated error.")
        if fault is Fault.NO_ROOM:
            raise StorageFull(f"No room left on the disk to {action} {name}: simulated.")
        if fault is Fault.CRASH:
            self.dead = True
        return self.dead

    def _check_alive(self) -> None:
        if self.dead:
            raise SimulatedCrash("the process is dead")

    @staticmethod
    def _die_if(crashed: bool) -> None:
        if crashed:
            raise SimulatedCrash("the process dies here")

    def _need_room(self, missing: int, action: str, name: str) -> None:
        if missing > 0:
            raise StorageFull(f"No room left on the disk to {action} {name}; free some space.")

    # The Files port.

    def list(self, folder: str) -> tuple[str, ...]:
        self._check_alive()
        try:
            return tuple(sorted(self._folder(folder).entries))
        except FileNotFoundError:
            return ()

    def create(self, name: str, size: int) -> SimulatedFile:
        crashed = self._operation("create", name)
        folder, last = self._parent(name)
        if last in folder.entries:
            raise FileExistsError(name)
        self._need_room(size - self._free_bytes(), "create", name)
        inode = _Inode()
        folder.change(None, last, inode)
        if size:
            inode.change(size, None)
        self._die_if(crashed)
        return SimulatedFile(self, inode, name)

    def open(self, name: str) -> SimulatedFile:
        self._check_alive()
        return SimulatedFile(self, self._inode(name), name)

    def rename(self, old: str, new: str) -> None:
        crashed = self._operation("rename", f"{old} to {new}")
        folder, last = self._parent(old)
        new_folder, new_last = self._parent(new)
        assert folder is new_folder, "a rename across folders is not one durable step"
        if last not in folder.entries:
            raise FileNotFoundError(old)
        folder.change(last, new_last, folder.entries[last])
        self._die_if(crashed)

    def remove(self, name: str) -> None:
        crashed = self._operation("remove", name)
        folder, last = self._parent(name)
        entry = folder.entries.get(last)
        if entry is None:
            raise FileNotFoundError(name)
        if isinstance(entry, _Folder) and entry.entries:
            raise StorageFailed(f"The disk failed to remove {name}: the folder is not empty.")
        folder.change(last, None, None)
        self._die_if(crashed)

    def sync_directory(self, folder: str) -> None:
        self._die_if(self._operation("sync directory", folder or "."))
        if not self.lies:
            self._folder(folder).sync()

    def make_folder(self, folder: str) -> None:
        self._check_alive()
        parent, last = self._parent(folder)
        if last in parent.entries:
            return
        crashed = self._operation("make folder", folder)
        parent.change(None, last, _Folder())
        self._die_if(crashed)

    def free_bytes(self) -> int:
        self._check_alive()
        return self._free_bytes()

    def _free_bytes(self) -> int:
        if self.capacity is None:
            return 1 << 60
        return max(0, self.capacity - self._used(self._root))

    def real_path(self, name: str) -> None:
        """It is in memory."""

    # Names.

    def _used(self, folder: _Folder) -> int:
        return sum(
            self._used(entry) if isinstance(entry, _Folder) else len(entry.content) for entry in folder.entries.values()
        )

    def _parent(self, name: str) -> tuple[_Folder, str]:
        head, _, last = name.rpartition("/")
        return self._folder(head), last

    def _folder(self, name: str) -> _Folder:
        folder = self._root
        for part in name.split("/") if name else ():
            entry = folder.entries.get(part)
            if not isinstance(entry, _Folder):
                raise FileNotFoundError(name)
            folder = entry
        return folder

    def _inode(self, name: str) -> _Inode:
        folder, last = self._parent(name)
        entry = folder.entries.get(last)
        if not isinstance(entry, _Inode):
            raise FileNotFoundError(name)
        return entry


class SimulatedFile:
    """The File port on an inode; it stays readable when the name is removed or given to another file."""

    __slots__ = ("_disk", "_inode", "_name")

    def __init__(self, disk: SimulatedDisk, inode: _Inode, name: str) -> None:
        self._disk, self._inode, self._name = disk, inode, name

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        crashed = self._disk._operation("write", self._name)
        data = b"".join(parts)
        fits = len(self._inode.content) + self._disk._free_bytes() - position
        if fits > 0:
            self._inode.change(position, data[:fits])
        self._disk._need_room(len(data) - fits, "write", self._name)
        self._disk._die_if(crashed)

    def read(self, position: int, length: int) -> bytes:
        self._disk._check_alive()
        return bytes(self._inode.content[position : position + length])

    def start_writing(self, position: int, length: int) -> None:
        """What a crash finds of it is as uncertain as before."""
        self._disk._check_alive()

    def sync(self) -> None:
        try:
            self._disk._die_if(self._disk._operation("sync", self._name))
        except StorageFailed:
            number = self._disk.operations - 1
            self._inode.sync_failed(Random(number) if self._disk.faults.get(number) is Fault.FAIL_HALFWAY else None)
            raise
        if not self._disk.lies:
            self._inode.sync()
            self._disk.synced(self._name)

    def truncate(self, size: int) -> None:
        crashed = self._disk._operation("truncate", self._name)
        self._inode.change(size, None)
        self._disk._die_if(crashed)

    def size(self) -> int:
        self._disk._check_alive()
        return len(self._inode.content)

    def close(self) -> None:
        """Nothing to give back."""


class SeededRandom:
    """The Random port from a seed, so that a simulation can be replayed."""

    __slots__ = ("_random",)

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)
