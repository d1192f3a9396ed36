"""What is made of Spark's reports, and how a query is stopped; with a query that is played."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from tocsin.model.errors import PipelineFailed
from tocsin.spark.pipelines import watching
from tocsin.spark.pipelines.watching import Watched, Watcher, positions, take_progress


def offset(**places: int) -> str:
    return json.dumps({"d": {name: {"0": place, "id": "x"} for name, place in places.items()}, "v": 1})


class Report(dict[str, Any]):
    """What Spark says about a batch: a dict with some of its values as attributes too."""

    @property
    def batchId(self) -> int:
        return int(self["batchId"])


def report(batch: int, rows: int, end: int = 0, latest: int = 0, **more: Any) -> Report:
    source = {"numInputRows": rows, "endOffset": offset(prices=end), "latestOffset": offset(prices=latest)}
    return Report(batchId=batch, sources=[source], durationMs={"triggerExecution": 500}, observedMetrics={}, **more)


class PlayedQuery:
    """Goes on to the next report each time somebody waits, and ends with the last one or with an error."""

    def __init__(self, reports: list[Report], steps: int = 1, error: Exception | None = None) -> None:
        self._reports = reports
        self._steps = steps
        self._error = error
        self._shown = 0
        self.isActive = True
        self.busy = False
        self.stops = 0

    def awaitTermination(self, timeout: float) -> bool:
        self._shown = min(self._shown + self._steps, len(self._reports))
        if self._shown == len(self._reports):
            if self._error is not None:
                self.isActive = False
                raise self._error
            self.isActive = False
        return not self.isActive

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": self.busy}

    @property
    def lastProgress(self) -> Report | None:
        return self._reports[self._shown - 1] if self._shown else None

    @property
    def recentProgress(self) -> list[Report]:
        return self._reports[: self._shown]

    def stop(self) -> None:
        self.isActive = False
        self.stops += 1


def test_rows_rate_and_lag() -> None:
    watched = Watched()
    take_progress(watched, report(0, 1000, end=1000, latest=1500))
    assert (watched.rows, watched.batches, watched.rows_per_second) == (1000, 1, 2000.0)
    assert watched.lag == {"prices": 500}
    take_progress(watched, report(1, 500, end=1500, latest=1500))
    assert (watched.rows, watched.lag) == (1500, {"prices": 0})


def test_rows_that_were_counted_on_the_way_win_over_those_that_were_read() -> None:
    watched = Watched()
    # A source that is read for good and for bad rows reports each row twice.
    seen = report(0, 20)
    seen["observedMetrics"] = {"tocsin_good": {"rows": 7}, "tocsin_bad": {"rows": 3}, "other": {"rows": 99}}
    take_progress(watched, seen)
    assert watched.rows == 10
    assert watched.observed == {"good": 7, "bad": 3}


@pytest.mark.parametrize("text", [None, "", "null", "5", "[1]", '{"d": 5}', '{"files": {}}', '{"d": {"a": {}}}'])
def test_offsets_of_other_sources_say_nothing(text: str | None) -> None:
    assert positions(text) == {}


def test_batches_between_two_looks_are_counted() -> None:
    query: Any = PlayedQuery([report(number, 10) for number in range(7)], steps=3)
    shown: list[int] = []
    watched = Watcher(lambda each: shown.append(each.rows)).watch(query)
    assert (watched.rows, watched.batches) == (70, 7)
    assert shown[-1] == 70 and shown == sorted(shown)


def test_a_query_that_fails_is_told_in_a_sentence() -> None:
    query: Any = PlayedQuery([report(0, 10)], error=StreamingQueryException("[STREAM_FAILED] The disk is full"))
    with pytest.raises(PipelineFailed, match=r"^The disk is full\.$"):
        Watcher().watch(query)


def test_to_stop_is_asked_for() -> None:
    stop = threading.Event()
    query: Any = PlayedQuery([report(number, 10) for number in range(100)])
    watcher = Watcher(lambda watched: stop.set() if watched.batches == 3 else None, stop=stop)
    heard = [watcher.listening]
    watched = watcher.watch(query)
    assert [*heard, watcher.listening] == [False, True]
    assert (query.stops, watched.batches) == (1, 3)


def test_the_batch_under_way_may_end_before_the_stop() -> None:
    stop = threading.Event()
    query: Any = PlayedQuery([report(number, 10) for number in range(100)])
    query.busy = True
    watched = Watcher(lambda watched: stop.set() if watched.batches == 3 else None, stop=stop).watch(query)
    assert (query.stops, watched.batches) == (1, 4)


def test_a_batch_that_takes_long_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "FINISH_SECONDS", 0.0)
    stop = threading.Event()
    query: Any = PlayedQuery([report(number, 10) for number in range(100)])
    query.busy = True
    watched = Watcher(lambda watched: stop.set() if watched.batches == 3 else None, stop=stop).watch(query)
    assert (query.stops, watched.batches) == (1, 3)


def test_an_interrupt_leaves_no_query_behind() -> None:
    def interrupt(watched: Watched) -> None:
        raise KeyboardInterrupt

    query: Any = PlayedQuery([report(number, 10) for number in range(100)])
    with pytest.raises(KeyboardInterrupt):
        Watcher(interrupt).watch(query)
    assert query.stops == 1


def test_rows_of_other_work_add_up() -> None:
    shown: list[int] = []
    watcher = Watcher(lambda each: shown.append(each.rows))
    watcher.rows(5)
    watcher.rows(6)
    assert shown == [5, 11]
