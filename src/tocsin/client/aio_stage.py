"""A stage of an asyncio session."""

from __future__ import annotations

import secrets

from tocsin.client.aio_line import AioLine
from tocsin.client.core_sessions import SessionState
from tocsin.client.staging import StageBase, StagedColumns, StageReceipt
from tocsin.model.destination import Destination
from tocsin.model.identity import NO_ID


class Stage(StageBase):
    """See tocsin.client.staging."""

    def __init__(self, session: SessionState, line: AioLine, destination: Destination, seconds: float) -> None:
        super().__init__(session, destination, seconds, secrets.token_bytes(len(NO_ID)))
        self._line = line

    async def append(self, content: StagedColumns) -> None:
        """Puts a block on its way; waits only while the server holds this session back."""
        await self._line.run(self._append_steps(content))

    async def close(self, timeout: float | None = None) -> StageReceipt:
        """Waits until everything is stored durably. The messages stay unseen until the receipt is committed."""
        return await self._line.run(self._close_steps(), timeout)

    async def drop(self) -> None:
        """Gives up all of it."""
        await self._line.run(self._drop_steps())


async def open_stage(session: SessionState, line: AioLine, destination: Destination, seconds: float) -> Stage:
    stage = Stage(session, line, destination, seconds)
    await line.run(stage._open_steps())
    return stage
