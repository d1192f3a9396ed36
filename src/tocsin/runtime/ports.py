"""What the layers above may ask of the world. Small on purpose: the simulated disk and clock implement the
same.

Ownership. A `File` belongs to whoever created or opened it, is used by one thread at a time, and is closed by
its owner. Several `File`s may be open on one name, also across threads; a file that is renamed over or
removed stays readable through the handles that are already open. `Files` itself may be called from several
threads.

Names are relative to the data directory, parts joined by "/", and "" is the directory itself. They are made
by tocsin, never taken from a client.

Errors. A missing name raises FileNotFoundError and a name that is taken FileExistsError: callers expect
those. No room left raises StorageFull. Any other failure of the disk raises StorageFailed; after a failed
write or sync the state of the file is unknown, so it must not be retried: the kernel may drop the pages and
report success next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    """One open file, addressed by position; there is no cursor."""

    def write(self, position: int, parts: Sequence[Buffer]) -> None:
        """Write all parts, one after another, from `position` on. Not durable before `sync`."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""

    def start_writing(self, position: int, length: int) -> None:
        """A hint: this much will be synced in a moment, so the disk may begin with it now. Does not wait."""

    def sync(self) -> None:
        """Make all that was written, and the size, durable. The file's name is not covered: see
        `sync_directory`.
        """

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes. Durable after `sync`."""

    def size(self) -> int:
        """Length in bytes, including preallocated room."""

    def close(self) -> None:
        """Give the handle back; a second call does nothing."""


class Files(Protocol):
    """One data directory."""

    def list(self, folder: str) -> tuple[str, ...]:
        """Names of the files and folders directly in `folder`, sorted; none when there is no such folder."""

    def create(self, name: str, size: int) -> File:
        """A new file of `size` zero bytes whose room is allocated for good; the name must be free.

        When there is no room the name is removed again and StorageFull raised.
        """

    def open(self, name: str) -> File:
        """An existing file, for reading and writing."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name in its folder, replacing what had it. Durable after `sync_directory`."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder that is empty. Durable after `sync_directory` of the parent."""

    def sync_directory(self, folder: str) -> None:
        """Make creations, renames and removals in `folder` durable."""

    def make_folder(self, folder: str) -> None:
        """Create `folder` if it is missing; its parent must exist. Durable after `sync_directory` of the
        parent.
        """

    def free_bytes(self) -> int:
        """Room that is left for new data."""

    def real_path(self, name: str) -> str | None:
        """Where other processes of this host find a file; None when it exists for this one alone."""


class Clock(Protocol):
    """Time. Only `now` may decide anything; `wall` is for people and for expiry that clients asked for."""

    def now(self) -> float:
        """Seconds that never go back; the zero point means nothing."""

    def wall(self) -> float:
        """Seconds since 1970 UTC, as the system believes."""


class Random(Protocol):
    """Randomness, so that a simulation can replay it."""

    def bytes(self, count: int) -> bytes:
        """`count` unpredictable bytes."""
