"""The data directory on a real file system, and the port's promises on every implementation of it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tocsin.model.errors import ConfigError, DataDirectoryInUse, StorageFailed, StorageFull
from tocsin.runtime.disk import Disk, SystemClock, SystemRandom, lock_directory
from tocsin.runtime.ports import Buffer, Clock, File, Files, Random
from tocsin.testing.clock import VirtualClock
from tocsin.testing.disk import SeededRandom, SimulatedDisk


@pytest.fixture(params=["disk", "simulated"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "disk":
        return Disk(tmp_path / "data")
    return SimulatedDisk()


# What the port promises.


def test_a_new_file_is_zero_and_of_its_size(files: Files) -> None:
    file = files.create("file", 1000)
    assert (file.size(), file.read(0, 2000)) == (1000, bytes(1000))
    file.close()


def test_writing_and_reading_at_positions(files: Files) -> None:
    file = files.create("file", 0)
    file.write(5, [b"abc", bytearray(b"def"), memoryview(b"_ghi_")[1:4]])
    assert file.read(0, 100) == bytes(5) + b"abcdefghi"
    file.write(6, [b"X"])
    assert file.read(5, 3) == b"aXc"
    assert file.read(14, 5) == b""
    file.sync()
    file.close()
    again = files.open("file")
    assert again.read(5, 3) == b"aXc"
    again.close()


def test_very_many_parts(files: Files) -> None:
    parts = [b"%d," % number for number in range(5000)]
    parts[2500] = b"L" * 200_000
    file = files.create("file", 0)
    file.write(3, parts)
    assert file.read(3, 1 << 20) == b"".join(parts)
    file.close()


def test_truncating(files: Files) -> None:
    file = files.create("file", 100)
    file.truncate(10)
    assert file.size() == 10
    file.close()
    file.close()


def test_names(files: Files) -> None:
    assert files.list("folder") == ()
    files.make_folder("folder")
    files.make_folder("folder")
    for name in ("folder/b", "folder/a", "top"):
        files.create(name, 0).close()
    assert files.list("folder") == ("a", "b")
    assert files.list("") == ("folder", "top")
    files.rename("folder/a", "folder/c")
    assert files.list("folder") == ("b", "c")
    files.remove("folder/b")
    files.remove("folder/c")
    files.sync_directory("folder")
    files.remove("folder")
    assert files.list("") == ("top",)
    files.sync_directory("")


def test_a_taken_name_and_missing_names(files: Files) -> None:
    files.create("file", 0).close()
    with pytest.raises(FileExistsError):
        files.create("file", 0)
    with pytest.raises(FileNotFoundError):
        files.open("missing")
    with pytest.raises(FileNotFoundError):
        files.remove("missing")
    with pytest.raises(FileNotFoundError):
        files.rename("missing", "other")


def test_an_open_file_survives_replacing_and_removing_its_name(files: Files) -> None:
    old = files.create("file", 0)
    old.write(0, [b"old"])
    new = files.create("new", 0)
    new.write(0, [b"new"])
    files.rename("new", "file")
    assert old.read(0, 3) == b"old"
    files.remove("file")
    assert (old.read(0, 3), new.read(0, 3)) == (b"old", b"new")
    old.close()
    new.close()


def test_a_folder_that_is_not_empty_stays(files: Files) -> None:
    files.make_folder("folder")
    files.create("folder/file", 0).close()
    with pytest.raises(StorageFailed):
        files.remove("folder")


def test_free_room(files: Files) -> None:
    assert files.free_bytes() > 0


@pytest.mark.parametrize("clock", [SystemClock(), VirtualClock()], ids=["system", "virtual"])
def test_clocks(clock: Clock) -> None:
    first = clock.now()
    assert clock.now() >= first
    assert clock.wall() > 900_000_000


_AWAY = 5_000


def test_time_goes_on_while_the_machine_is_suspended() -> None:
    """In a time namespace the clock that counts sleep is ahead, as after a suspension."""
    program = "from tocsin.runtime.disk import SystemClock; import time; print(SystemClock().now() - time.monotonic())"
    command = ["unshare", "--time", "--boottime", str(_AWAY), sys.executable, "-c", program]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if done.returncode:
        pytest.skip(f"no time namespace may be made: {done.stderr}")
    assert float(done.stdout) > _AWAY - 1


@pytest.mark.parametrize("random", [SystemRandom(), SeededRandom(3)], ids=["system", "seeded"])
def test_randomness(random: Random) -> None:
    assert len({random.bytes(16) for _ in range(10)}) == 10
    assert len(random.bytes(5)) == 5


# The real disk alone.


def fails_with(code: int) -> Callable[..., int]:
    def call(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


CALLS: list[tuple[str, Callable[[Files, File], object]]] = [
    ("pwritev", lambda files, file: file.write(0, [b"x"])),
    ("fdatasync", lambda files, file: file.sync()),
    ("ftruncate", lambda files, file: file.truncate(1)),
    ("pread", lambda files, file: file.read(0, 1)),
    ("posix_fallocate", lambda files, file: files.create("other", 100)),
    ("fsync", lambda files, file: files.sync_directory("")),
    ("replace", lambda files, file: files.rename("file", "other")),
    ("unlink", lambda files, file: files.remove("file")),
]


@pytest.mark.parametrize(("call", "action"), CALLS, ids=[call for call, _ in CALLS])
@pytest.mark.parametrize(
    ("code", "error"),
    [(errno.ENOSPC, StorageFull), (errno.EDQUOT, StorageFull), (errno.EIO, StorageFailed)],
    ids=["no room", "quota", "input/output error"],
)
def test_errors_of_the_system_become_ours(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    action: Callable[[Files, File], object],
    code: int,
    error: type[Exception],
) -> None:
    files = Disk(tmp_path)
    file = files.create("file", 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, fails_with(code))
        with pytest.raises(error):
            action(files, file)
    file.close()
    assert files.list("") == ("file",), "a file that could not be allocated is gone again"


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def short(descriptor: int, parts: Sequence[Buffer], position: int) -> int:
        return real(descriptor, [b"".join(parts)[:7]], position)

    file = Disk(tmp_path).create("file", 0)
    monkeypatch.setattr(os, "pwritev", short)
    file.write(2, [b"hello ", b"wide ", b"world"])
    assert file.read(2, 100) == b"hello wide world"
    file.close()


def test_files_are_private_and_allocated(tmp_path: Path) -> None:
    files = Disk(tmp_path / "new" / "data")
    files.create("file", 1 << 20).close()
    status = (tmp_path / "new" / "data" / "file").stat()
    assert status.st_mode & 0o077 == 0
    assert status.st_blocks * 512 >= 1 << 20
    assert (tmp_path / "new" / "data").stat().st_mode & 0o077 == 0


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that have been synced."""
    names: list[str] = []
    sync = os.fsync

    def noting(descriptor: int) -> None:
        names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    return names


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("begin", [Disk, lambda path: lock_directory(path).release()], ids=["disk", "lock"])
def test_a_new_data_directory_is_durable_with_those_above_it(
    tmp_path: Path, synced: list[str], begin: Callable[[Path], object]
) -> None:
    begin(tmp_path / "var" / "lib" / "data")
    assert {str(tmp_path), str(tmp_path / "var"), str(tmp_path / "var" / "lib")} <= set(synced)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_directory_that_an_earlier_start_made_is_durable_too(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "data").mkdir()
    Disk(tmp_path / "data")
    assert str(tmp_path) in synced


def test_a_disk_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("nothing")
    for path in (tmp_path / "file", tmp_path / "file" / "data", tmp_path / "link"):
        with pytest.raises(ConfigError, match=f"{path} cannot be a directory"):
            Disk(path)


def test_a_missing_right_is_no_failure_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", fails_with(errno.EACCES))
    with pytest.raises(
        StorageFailed, match=rf"The user {os.geteuid()}, as whom .* Give the data directory to that user"
    ):
        Disk(tmp_path)


HOLD = """
import sys
from tocsin.runtime.disk import lock_directory
lock = lock_directory(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_second_server_is_told_who_has_the_directory(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(DataDirectoryInUse, match=f"{tmp_path} is in use by process {holder.pid};"):
            lock_directory(tmp_path)
        holder.kill()
    lock_directory(tmp_path).release()


def test_a_lock_can_be_released_and_taken_again(tmp_path: Path) -> None:
    lock = lock_directory(tmp_path / "data")
    with pytest.raises(DataDirectoryInUse, match=f"process {os.getpid()};"):
        lock_directory(tmp_path / "data")
    lock.release()
    lock.release()
    lock_directory(tmp_path / "data").release()
