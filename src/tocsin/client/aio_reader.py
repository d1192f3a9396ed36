"""The reader of a range for asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from tocsin.client import reading
from tocsin.client.core_reading import RangeBlock, RangeState
from tocsin.model.destination import Destination

if TYPE_CHECKING:
    from tocsin.client.aio_session import Session


class RangeReader:
    """Hands out the blocks of a range, in the order of their offsets, to one task at a time; it ends with the range.

    A connection that is lost on the way is taken up again behind the last block that came.
    """

    def __init__(self, session: Session, state: RangeState) -> None:
        self._line = session._line
        self._owner = session
        """Kept as long as there is somebody who reads."""
        self._state = state

    @property
    def destination(self) -> Destination:
        return self._state.spec.destination

    def __aiter__(self) -> RangeReader:
        return self

    async def __anext__(self) -> RangeBlock:
        found = self._state.take_block()
        if found is None:
            found = await self._line.run(reading.next_block(self._state))
        if found is None:
            await self.close()
            raise StopAsyncIteration
        return found

    async def close(self) -> None:
        """Before the end: the rest of the range is not read. May be called again."""
        await self._line.run(reading.close_range(self._state))

    async def __aenter__(self) -> RangeReader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
