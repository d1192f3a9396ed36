"""The synchronous reader of a range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from tocsin.client import reading
from tocsin.client.consumer_spec import ConsumerSpec
from tocsin.client.core_reading import RangeBlock, RangeState
from tocsin.client.local_files import StoredFiles, ask_steps, local_blocks
from tocsin.model.destination import Destination
from tocsin.model.reading import of_destination

if TYPE_CHECKING:
    from tocsin.client.sync_session import Session


class RangeReader:
    """Hands out the blocks of a range, in the order of their offsets, to one thread at a time; it ends with the range.

    A connection that is lost on the way is taken up again behind the last block that came. Where the server's files can
    be read, blocks come out of them first; the server is asked for the others.
    """

    def __init__(self, session: Session, spec: ConsumerSpec, stored: StoredFiles | None = None) -> None:
        self._line = session._line
        self._owner = session
        """Kept as long as there is somebody who reads."""
        self._session = session._state
        self._spec = spec
        # The consumer that the server sends to; None while blocks come out of files.
        self._state: RangeState | None = None
        self._local: Iterator[RangeBlock] = iter(())
        self._position = self._end = 0
        if stored is None:
            self._state = self._open(spec)
        else:
            self._read_files(stored)

    def _open(self, spec: ConsumerSpec) -> RangeState:
        return self._line.run(reading.open_range(self._session, spec))

    def _read_files(self, stored: StoredFiles) -> None:
        # Whatever is asked for behind the first files must be of the same topic.
        spec = self._spec = replace(self._spec, start=of_destination(self._spec.start, stored.identity))
        line = self._line
        assert spec.start is not None
        self._position, self._end = spec.start["offset"], spec.start["end"]
        self._local = local_blocks(
            stored, lambda start: line.run(ask_steps(line.core, spec, start)), self._position, self._end
        )

    @property
    def destination(self) -> Destination:
        return self._spec.destination

    def __iter__(self) -> RangeReader:
        return self

    def __next__(self) -> RangeBlock:
        state = self._state
        if state is None:
            local = self._next_local()
            if local is not None:
                return local
            state = self._state = self._open_rest()
        found = state.take_block()
        if found is None:
            found = self._line.run(reading.next_block(state))
        if found is None:
            self.close()
            raise StopIteration
        return found

    def _next_local(self) -> RangeBlock | None:
        found = None if self._session.closed else next(self._local, None)
        if found is not None:
            self._position = found.offset + found.ranges[-1][1]
        return found

    def _open_rest(self) -> RangeState:
        """What the files do not have comes from the server."""
        if self._position >= self._end or self._session.closed:
            raise StopIteration
        return self._open(replace(self._spec, start={**(self._spec.start or {}), "offset": self._position}))

    def close(self) -> None:
        """Before the end: the rest of the range is not read. May be called again."""
        if self._state is not None:
            self._line.run(reading.close_range(self._state))
        else:
            self._position = self._end
            self._local = iter(())

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
