"""Children that end with us, and what the kernel says of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tocsin.cli.bench.process import cpu_seconds, end, on_memory_disk, resident_mib, start_module

# A parent that starts a child through us, says its number, and waits.
PARENT = """
import subprocess, sys
from tocsin.cli.bench.process import start_module
child = start_module("http.server", ["0", "--bind", "127.0.0.1"], stdin=subprocess.DEVNULL,
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(child.pid, flush=True)
child.wait()
"""

HOLDING = """
import os, signal, subprocess
from tocsin.cli.bench.process import end, ending_held, start_module
child = None
try:
    with ending_held():
        os.kill(os.getpid(), signal.SIGINT)
        child = start_module("http.server", ["0", "--bind", "127.0.0.1"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
except KeyboardInterrupt:
    print("interrupted")
end(child, patience_s=10)
print(child.returncode)
"""
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
signal.pause()
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_does_not_outlive_a_parent_that_was_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
    deadline = time.monotonic() + 10
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(child)


def test_end_leaves_nothing_running_even_if_asked_in_vain() -> None:
    child = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    end(child, patience_s=0.05)
    assert child.returncode == -signal.SIGKILL
    assert child.stdout.closed


def test_a_module_runs_with_its_arguments() -> None:
    child = start_module("base64", ["-t"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=None)
    output, _ = child.communicate(timeout=20)
    assert child.returncode == 0
    assert b"Aladdin" in output


def test_a_signal_waits_until_the_child_is_known() -> None:
    """In a process of its own, because only a process without other threads can hold a signal back."""
    done = subprocess.run([sys.executable, "-c", HOLDING], capture_output=True, text=True, timeout=30)
    # The child itself hears signals as usual.
    assert done.stdout.split() == ["interrupted", str(-signal.SIGTERM)]


def test_cpu_time_and_memory_of_this_process() -> None:
    before = cpu_seconds(os.getpid())
    burn_until = time.process_time() + 0.1
    while time.process_time() < burn_until:
        pass
    assert 0.05 <= cpu_seconds(os.getpid()) - before < 5
    assert 5 < resident_mib(os.getpid()) <= resident_mib(os.getpid(), peak=True)


def test_memory_disks_are_recognised() -> None:
    assert on_memory_disk(Path("/dev/shm")) or not Path("/dev/shm").exists()
    assert not on_memory_disk(Path("/proc"))
