"""A program that publishes epoch after epoch through stages, as a Spark query does, and what must hold of them.

What an epoch holds is fixed when it begins, as if it stood in a checkpoint; how it is divided into stages is not. The
program may be killed at any time, may not know whether it has committed an epoch, commits again, and drops what it has
committed: whoever takes its place begins the same epoch again.

E1   an epoch is seen wholly or not at all: in each destination its messages are consecutive, and all of them are there
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from tocsin.client.core_sessions import SessionState
from tocsin.client.operations import open_session
from tocsin.client.pending import Pending
from tocsin.client.staging import (
    StageBase,
    StagedColumns,
    StageReceipt,
    commit_steps,
    drop_steps,
    last_steps,
)
from tocsin.model.batch import BodyKind, Column
from tocsin.model.columns import text_column
from tocsin.model.destination import parse_destination
from tocsin.model.errors import TocsinError
from tocsin.testing.clusters.client import Script, SimulatedClient
from tocsin.testing.clusters.history import Sent, ViewHistory
from tocsin.testing.clusters.workload import Workload
from tocsin.testing.simulation.register_checks import Violation

_APP = "query"
_PAUSE_SECONDS = 2.0


@dataclass(slots=True)
class Epoch:
    number: int
    messages: dict[str, list[Sent]]
    """By destination."""


class EpochWriter:
    """`run` is the program; only one of them is there at a time."""

    def __init__(self, workload: Workload, destinations: list[str]) -> None:
        self._workload, self._destinations = workload, destinations
        self._timeline = workload.timeline
        self._random = workload.timeline.random
        self.epochs: list[Epoch] = []
        self._current: Epoch | None = None

    def run(self, client: SimulatedClient) -> Script:
        session: SessionState | None = None
        while True:
            if self._current is None:
                yield _PAUSE_SECONDS * self._random.random()
                if self._workload.pace.peaceful:
                    return
                self._current = self._begin()
            try:
                if session is None:
                    session = yield from open_session(client.core, "auto", False)
                yield from self._publish(client, session, self._current)
            except TocsinError as error:
                self._workload.errors.append((self._timeline.time, client.number, error))
                session = None
                yield 0.5

    def _begin(self) -> Epoch:
        number = len(self.epochs)
        chosen = [each for each in self._destinations if self._random.random() < 0.6] or self._destinations[:1]
        messages: dict[str, list[Sent]] = {}
        for place, destination in enumerate(chosen):
            messages[destination] = []
            for index in range(self._random.randint(1, 6)):
                body = f"epoch {number}/{place}/{index}"
                # Each is a lane of its own: the order within an epoch is another each time that it is divided.
                sent = Sent(body, destination, body, self._timeline.time, persistent=True)
                self._workload.history.sends(sent)
                self._workload.unconfirmed[body] = sent
                messages[destination].append(sent)
        self.epochs.append(Epoch(number, messages))
        return self.epochs[-1]

    def _publish(
        self, client: SimulatedClient, session: SessionState, epoch: Epoch
    ) -> Generator[Pending | float, Any, None]:
        core, random = client.core, self._random
        if random.random() < 0.3:
            last = yield from last_steps(core, _APP, list(epoch.messages))
            if last >= epoch.number:
                self._done(epoch)
                return
        receipts: list[StageReceipt] = []
        for destination, messages in epoch.messages.items():
            for part in self._divided(messages):
                receipts.append((yield from self._stage(session, destination, part)))
        random.shuffle(receipts)
        yield 0.3 * random.random()
        for _ in range(random.choice((1, 1, 1, 2))):
            yield from commit_steps(core, _APP, epoch.number, receipts)
            self._workload.count()
        if random.random() < 0.3:
            yield from drop_steps(core, receipts)
        if random.random() < 0.8:
            self._done(epoch)

    def _divided(self, messages: list[Sent]) -> list[list[Sent]]:
        order = list(messages)
        self._random.shuffle(order)
        cut = self._random.randint(0, len(order))
        return [part for part in (order[:cut], order[cut:]) if part]

    def _stage(
        self, session: SessionState, destination: str, messages: list[Sent]
    ) -> Generator[Pending | float, Any, StageReceipt]:
        """Some messages in each block; now and then a stage is left to itself, and another one filled."""
        while True:
            identity = self._random.getrandbits(128).to_bytes(16, "little")
            stage = StageBase(session, parse_destination(destination), 3_600.0, identity)
            yield from stage._open_steps()
            size = self._random.randint(1, 3)
            for start in range(0, len(messages), size):
                bodies = [sent.body for sent in messages[start : start + size]]
                columns = [text_column(Column.BODY, bodies)]
                yield from stage._append_steps(StagedColumns(len(bodies), BodyKind.TEXT, columns))
                self._workload.count()
            receipt = yield from stage._close_steps()
            if self._random.random() < 0.9:
                return receipt

    def _done(self, epoch: Epoch) -> None:
        """Whoever knows that it is committed goes on with the next one."""
        self._current = None
        for messages in epoch.messages.values():
            for sent in messages:
                self._workload.unconfirmed.pop(sent.body, None)
                self._workload.history.confirms(sent, self._timeline.time)

    # ---- the end

    def check(self) -> None:
        for epoch in self.epochs:
            for destination, messages in epoch.messages.items():
                for view in self._workload.history.views.values():
                    if view.destination == destination:
                        self._check_view(epoch, messages, view)

    def _check_view(self, epoch: Epoch, messages: list[Sent], view: ViewHistory) -> None:
        offsets = [view.offsets[sent.body] for sent in messages if sent.body in view.offsets]
        if offsets and max(offsets) - min(offsets) >= len(messages):
            raise Violation(
                "E1", f"epoch {epoch.number} has {len(messages)} messages at {sorted(offsets)}: {view.name}"
            )
        # A subscription that began meanwhile may not have had time for all of it.
        expected = view.since is None or messages[0].at > view.since
        if expected and 0 < len(offsets) < len(messages):
            raise Violation("E1", f"{view.name} has {len(offsets)} of the {len(messages)} messages of {epoch.number}")
