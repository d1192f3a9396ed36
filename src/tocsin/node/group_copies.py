"""Copies of damaged records between the members of a group: this one asks for them, and gives them."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.cluster.register_events import Send
from tocsin.journal.reader import StaleLocation
from tocsin.node.group_store import GroupStore
from tocsin.node.mending import Damaged
from tocsin.node.placing import locate, record_of_row, row_of_record
from tocsin.node.workers import Workers
from tocsin.replication.messages import CopyGiven, CopyWanted
from tocsin.replication.repairing import CopyFound, Repairing
from tocsin.replication.settings import GroupSettings
from tocsin.runtime.ports import Buffer, Clock

Got = Callable[[Buffer | None], None]


class GroupCopies:
    """Implements the Copies of `mending`, for as long as the member's files stay open."""

    def __init__(
        self,
        settings: GroupSettings,
        node: int,
        clock: Clock,
        store: GroupStore,
        workers: Workers,
        progress: Callable[[], None],
    ) -> None:
        self._clock, self._store, self._workers, self._progress = clock, store, workers, progress
        self._repairing = Repairing(settings.others(node), 2 * settings.fetch_seconds)
        self._got: dict[CopyWanted, Got] = {}
        self._out: list[Send[CopyWanted] | Send[CopyGiven]] = []

    def take_out(self) -> list[Send[CopyWanted] | Send[CopyGiven]]:
        for effect in self._repairing.take_out():
            if isinstance(effect, Send):
                self._out.append(effect)
            elif isinstance(effect, CopyFound):
                self._got[effect.wanted](effect.data)
            else:
                self._got.pop(effect.wanted)(None)
        out, self._out = self._out, []
        return out

    # ---- asking

    def want(self, damaged: Damaged, got: Got) -> None:
        wanted = _wanted(damaged)
        self._got[wanted] = got
        self._repairing.want(wanted, self._clock.now())
        self._progress()

    def want_another(self, damaged: Damaged) -> None:
        self._repairing.another(_wanted(damaged), self._clock.now())
        self._progress()

    def enough(self, damaged: Damaged) -> None:
        self._got.pop(_wanted(damaged), None)
        self._repairing.enough(_wanted(damaged), self._clock.now())

    def tick(self, now: float) -> None:
        self._repairing.tick(now)

    def next_deadline(self) -> float:
        return self._repairing.next_deadline()

    # ---- giving

    def received(self, sender: int, message: CopyWanted | CopyGiven) -> None:
        if isinstance(message, CopyGiven):
            self._repairing.given(sender, message, self._clock.now())
            return
        store = self._store
        lsn, destination, first = message.lsn, message.destination, message.first
        if destination == 0:
            destination, first = row_of_record(store, lsn)
        where = locate(store, destination, lsn or record_of_row(store, destination, first), first)

        def read() -> Buffer | None:
            try:
                payload = None if where is None else store.reader.read_each([where])[0]
            except StaleLocation:
                return None
            return None if isinstance(payload, Exception) else payload

        def answer(payload: Buffer | None) -> None:
            given = CopyGiven(message, payload is not None, b"" if payload is None else payload)
            self._out.append(Send((sender,), given))
            self._progress()

        self._workers.read(read, answer)


def _wanted(damaged: Damaged) -> CopyWanted:
    return CopyWanted(damaged.lsn, damaged.destination, damaged.first)
