"""Child processes that end with us, and what the kernel says of their CPU time and memory."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tocsin.model.errors import TocsinError

_SET_PARENT_DEATH_SIGNAL = 1
_ENDING = (signal.SIGTERM, signal.SIGINT)
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Loaded now: between fork and exec a child should find everything ready.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class BenchFailed(TocsinError):
    """A run that gives no number: something broke, was lost, came twice, or took too long."""


def start_module(
    module: str,
    arguments: Sequence[str],
    *,
    stdin: int,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes] | None,
    before: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    """`before python -m module arguments` as a child that the kernel kills when we are gone, however we went."""
    return subprocess.Popen(
        [*before, sys.executable, "-m", module, *arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        preexec_fn=_prepare_child,
    )


def _prepare_child() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    if _LIBC is not None:
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


@contextmanager
def ending_held() -> Iterator[None]:
    """No signal ends us in here: between the start of a child and the note of who it is, nobody could end the child."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Ends one child, politely first; it is gone when this returns."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def cpu_seconds(pid: int) -> float:
    """User and system time of the process with all its threads, without its children."""
    text = Path(f"/proc/{pid}/stat").read_text()
    # The second field is the program's name in parentheses and may contain anything.
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def resident_mib(pid: int, *, peak: bool = False) -> float:
    """Memory the process has now, or the most it ever had."""
    wanted = "VmHWM:" if peak else "VmRSS:"
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(wanted):
            return round(int(line.split()[1]) / 1024, 1)
    raise BenchFailed(f"The kernel does not tell the memory of process {pid}.")


def on_memory_disk(folder: Path) -> bool:
    """Whether files there live in memory, where a sync costs nothing and so says nothing."""
    best, kind = "", ""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, fs_type, *_ = line.split(" ")
        if folder.resolve().is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, fs_type
    return kind in ("tmpfs", "ramfs")
