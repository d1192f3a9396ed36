"""The synchronous reader of a range."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from tocsin.client import reading
from tocsin.client.core_reading import RangeBlock, RangeState
from tocsin.model.destination import Destination

if TYPE_CHECKING:
    from tocsin.client.sync_session import Session


class RangeReader:
    """Hands out the blocks of a range, in the order of their offsets, to one thread at a time; it ends with the range.

    A connection that is lost on the way is taken up again behind the last block that came.
    """

    def __init__(self, session: Session, state: RangeState) -> None:
        self._line = session._line
        self._state = state

    @property
    def destination(self) -> Destination:
        return self._state.spec.destination

    def __iter__(self) -> RangeReader:
        return self

    def __next__(self) -> RangeBlock:
        found = self._state.take_block()
        if found is None:
            found = self._line.run(reading.next_block(self._state))
        if found is None:
            self.close()
            raise StopIteration
        return found

    def close(self) -> None:
        """Before the end: the rest of the range is not read. May be called again."""
        self._line.run(reading.close_range(self._state))

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
