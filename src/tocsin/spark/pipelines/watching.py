"""Waits for a streaming query: tells how fast it is and how far behind, and stops it when that is asked for."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tocsin.model.errors import PipelineFailed
from tocsin.spark.pipelines.causes import cause_of

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

LOOK_SECONDS = 0.25
FINISH_SECONDS = 5.0
_FINISH_LOOK_SECONDS = 0.05
OBSERVED = "tocsin_"
"""How the names of observations begin that pipelines make to count rows."""


@dataclass(slots=True)
class Watched:
    """What is known of a query so far."""

    batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    """Of the last batch."""
    lag: Mapping[str, int] = field(default_factory=dict)
    """Messages between what the last batch has read and what there was at that time, by destination."""
    observed: Counter[str] = field(default_factory=Counter)
    """Rows by the name of the observation that counted them, without the common beginning."""
    seconds: float = 0.0

    def values(self) -> dict[str, Any]:
        return {"rows": self.rows, "batches": self.batches, "seconds": round(self.seconds, 3), "lag": dict(self.lag)}


class Watcher:
    """The Progress that the command line and tests use. `show` is told whenever there is news."""

    def __init__(
        self,
        show: Callable[[Watched], None] = lambda watched: None,
        note: Callable[[str], None] = lambda sentence: None,
        stop: threading.Event | None = None,
    ) -> None:
        self._show = show
        self.note = note
        self._stop = threading.Event() if stop is None else stop
        self._batch_rows = Watched()
        self.listening = False
        """Whether somebody looks at `stopping`, so that asking is enough to stop the run."""

    @property
    def stopping(self) -> bool:
        self.listening = True
        return self._stop.is_set()

    def rows(self, count: int) -> None:
        self._batch_rows.rows += count
        self._show(self._batch_rows)

    def watch(self, query: StreamingQuery) -> Watched:
        watched = Watched()
        began = time.monotonic()
        last_batch = -1
        try:
            ended = False
            while not ended and not self.stopping:
                ended = bool(query.awaitTermination(LOOK_SECONDS))
                last_batch = self._look(query, watched, last_batch)
                watched.seconds = time.monotonic() - began
                self._show(watched)
            if not ended:
                _let_finish(query, last_batch)
        except Exception as error:
            raise PipelineFailed(cause_of(error)) from error
        finally:
            # An interrupt, too, must not leave a query behind.
            if query.isActive:
                query.stop()
        self._look(query, watched, last_batch)
        return watched

    def _look(self, query: StreamingQuery, watched: Watched, last_batch: int) -> int:
        newest = query.lastProgress
        if newest is None or newest.batchId <= last_batch:
            return last_batch
        missed = newest.batchId - last_batch > 1
        for progress in query.recentProgress if missed else [newest]:
            if progress.batchId > last_batch:
                take_progress(watched, progress)
                last_batch = progress.batchId
        return last_batch


def _let_finish(query: StreamingQuery, last_batch: int) -> None:
    """Waits for the batch that is under way, if it ends soon: broken off, it would have to be done again."""
    deadline = time.monotonic() + FINISH_SECONDS
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        newest = query.lastProgress
        if newest is not None and newest.batchId > last_batch:
            return
        query.awaitTermination(_FINISH_LOOK_SECONDS)


def take_progress(watched: Watched, progress: Mapping[str, Any]) -> None:
    """Adds what Spark says about one batch."""
    watched.batches += 1
    counted = 0
    for name, row in (progress.get("observedMetrics") or {}).items():
        if name.startswith(OBSERVED):
            counted += row["rows"]
            watched.observed[name.removeprefix(OBSERVED)] += row["rows"]
    # Where a source is read twice, as for good and bad rows, Spark counts its rows twice.
    rows = counted or _input_rows(progress)
    watched.rows += rows
    duration = (progress.get("durationMs") or {}).get("triggerExecution", 0)
    watched.rows_per_second = 1000.0 * rows / duration if duration else 0.0
    watched.lag = {}
    for source in progress.get("sources") or ():
        end, latest = positions(source.get("endOffset")), positions(source.get("latestOffset"))
        watched.lag |= {name: max(0, latest.get(name, place) - place) for name, place in end.items()}


def _input_rows(progress: Mapping[str, Any]) -> int:
    return sum(source.get("numInputRows") or 0 for source in progress.get("sources") or ())


def positions(offset: object) -> dict[str, int]:
    """The next offset of each destination, out of what a source of ours says; empty for other sources."""
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
        return {name: int(place["0"]) for name, place in found["d"].items()}  # type: ignore[index]
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


QUIET = Watcher()
"""For Python users who call a pipeline's function themselves, and for tests."""
