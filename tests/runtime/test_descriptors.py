"""A descriptor that is not free now is waited for; connections leave a reserve to files."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from tocsin.model.entrance_limits import DESCRIPTOR_PAUSE_SECONDS, DESCRIPTOR_WAIT_SECONDS, DESCRIPTORS_RESERVED
from tocsin.model.errors import ConfigError, StorageFailed
from tocsin.model.limits import CONNECTIONS_MAX
from tocsin.runtime import descriptors
from tocsin.runtime.descriptors import connections_max, patiently
from tocsin.runtime.disk import Disk


class Crowded:
    """Answers "too many open files" for so many calls."""

    def __init__(self, failures: int, number: int = errno.EMFILE) -> None:
        self.failures, self.number, self.calls = failures, number, 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise OSError(self.number, os.strerror(self.number))
        return self.calls


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_what_finds_no_descriptor_is_tried_again(number: int) -> None:
    pauses: list[float] = []
    assert patiently(Crowded(3, number), pauses.append) == 4
    assert pauses == [DESCRIPTOR_PAUSE_SECONDS] * 3


def test_not_for_ever() -> None:
    pauses: list[float] = []
    with pytest.raises(OSError, match="Too many open files"):
        patiently(Crowded(1_000_000), pauses.append)
    assert sum(pauses) == pytest.approx(DESCRIPTOR_WAIT_SECONDS)


def test_other_errors_are_not_waited_for() -> None:
    with pytest.raises(OSError, match="Input/output error"):
        patiently(Crowded(1, errno.EIO), lambda _: pytest.fail("it waits"))


def no_descriptors(monkeypatch: pytest.MonkeyPatch, failures: int) -> None:
    opened, crowded = os.open, Crowded(failures)

    def open_later(path: str, flags: int, mode: int = 0o777) -> int:
        crowded()
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", open_later)
    monkeypatch.setattr(descriptors, "DESCRIPTOR_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(descriptors, "DESCRIPTOR_WAIT_SECONDS", 0.01)


def test_files_that_find_no_descriptor_are_no_failure_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path)
    with monkeypatch.context() as patch:
        no_descriptors(patch, 5)
        disk.create("a", 10).close()
        no_descriptors(patch, 5)
        disk.sync_directory("")
    with monkeypatch.context() as patch:
        no_descriptors(patch, 5)
        disk.open("a").close()


def test_a_wait_that_is_too_long_ends_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path)
    no_descriptors(monkeypatch, 1_000)
    with pytest.raises(StorageFailed, match="No file descriptor was free for a long time to create"):
        disk.create("a", 10)


def limit(monkeypatch: pytest.MonkeyPatch, soft: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))


def test_connections_leave_a_reserve_for_each_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, 4_096)
    lone, several = connections_max(1), connections_max(3)
    assert lone - several == 2 * DESCRIPTORS_RESERVED
    assert 4_096 - 2 * DESCRIPTORS_RESERVED - 512 < lone <= 4_096 - DESCRIPTORS_RESERVED
    limit(monkeypatch, 1_000_000)
    assert connections_max(1) == CONNECTIONS_MAX


def test_a_limit_that_leaves_no_room_for_clients_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, DESCRIPTORS_RESERVED)
    with pytest.raises(ConfigError, match=r"leaves no room for clients; allow at least \d+"):
        connections_max(1)
