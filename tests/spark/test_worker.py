"""What a Python worker of Spark does before its first task, and never in a process of the user's."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pyspark import TaskContext

from tocsin.spark import worker


class Process:
    """What was asked of the garbage collector and of the C library."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def collect(self) -> None:
        self.calls.append("collect")

    def freeze(self) -> None:
        self.calls.append("freeze")

    def mallopt(self, option: int, value: int) -> int:
        self.calls.append((option, value))
        return 1


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    process = Process()
    monkeypatch.setattr(worker, "gc", process)
    monkeypatch.setattr(worker, "ctypes", SimpleNamespace(CDLL=lambda name: process))
    done_once = (worker._leave_imports_alone, worker._keep_memory)
    for each in done_once:
        each.cache_clear()
    yield process
    for each in done_once:
        each.cache_clear()


@pytest.fixture
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "get", classmethod(lambda cls: object()))


@pytest.mark.usefixtures("in_a_task")
def test_the_first_task_of_a_worker_leaves_imports_alone_and_keeps_its_memory(process: Process) -> None:
    for _ in range(3):
        worker.settle_worker()
    kept = [(worker._MMAP_THRESHOLD, 32 << 20), (worker._TRIM_THRESHOLD, 128 << 20)]
    assert process.calls == ["collect", "freeze", *kept]


@pytest.mark.usefixtures("in_a_task")
def test_another_c_library_is_left_alone(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "ctypes", SimpleNamespace(CDLL=lambda name: object()))
    worker.settle_worker()
    assert process.calls == ["collect", "freeze"]


def test_outside_of_a_task_nothing_happens(process: Process) -> None:
    before = gc.get_freeze_count()
    worker.settle_worker()
    assert process.calls == []
    assert gc.get_freeze_count() == before
