"""What a Python worker of Spark does before its first task, and never in a process of the user's."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from pyspark import TaskContext

from tocsin.spark import worker


class Collector:
    """What was asked of the garbage collector."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def collect(self) -> None:
        self.calls.append("collect")

    def freeze(self) -> None:
        self.calls.append("freeze")


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    monkeypatch.setattr(worker, "gc", collector)
    worker._leave_imports_alone.cache_clear()
    yield collector
    worker._leave_imports_alone.cache_clear()


def test_the_first_task_of_a_worker_leaves_imports_alone(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "get", classmethod(lambda cls: object()))
    for _ in range(3):
        worker.settle_worker()
    assert collector.calls == ["collect", "freeze"]


def test_outside_of_a_task_nothing_happens(collector: Collector) -> None:
    before = gc.get_freeze_count()
    worker.settle_worker()
    assert collector.calls == []
    assert gc.get_freeze_count() == before
