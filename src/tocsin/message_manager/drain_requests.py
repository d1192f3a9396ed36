"""Requests about drains, by their name in the client protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.draining import finish, not_held, release, take
from tocsin.message_manager.drains import Drain, NotYet, Take
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.offsets import check_identity
from tocsin.message_manager.request_fields import NUMBER_MAX, number
from tocsin.message_manager.taking import Selection
from tocsin.message_manager.view import QUEUE_VIEW
from tocsin.model.destination import parse_destination
from tocsin.model.errors import InvalidDestination, ProtocolError, ResourceExhausted
from tocsin.model.limits import (
    DRAIN_ID_BYTES_MAX,
    DRAIN_RANGES_PER_ANSWER,
    DRAIN_SECONDS_DEFAULT,
    DRAIN_SECONDS_MAX,
    DRAIN_TAKES_MAX,
    DRAINS_PER_QUEUE_MAX,
)

Fields = dict[str, Any]
Result = tuple[Fields, int]

DRAIN_OPERATIONS = frozenset({"drain.take", "drain.list", "drain.finish", "drain.release"})


class DrainRequests:
    def __init__(self, directory: Directory, ledger: Ledger) -> None:
        self._directory = directory
        self._ledger = ledger
        # A new primary does not know yet what consumers hold: until it does, drains take nothing.
        self.held_up = False
        self.operations: dict[str, Callable[[Fields], Result]] = {
            "drain.take": self._take,
            "drain.list": self._list,
            "drain.finish": self._finish,
            "drain.release": self._release,
        }

    # ---- requests

    def _take(self, fields: Fields) -> Result:
        """The same number gets the same messages, however often it is asked for."""
        state, name = self._queue(fields), _name(fields)
        after = number(fields, "after", 0)
        drain = self._heard_of(state, name)
        if drain is not None:
            known = drain.takes.get(after + 1)
            if known is not None:
                return _shown(known) | {"more": False}, self._ledger.last_lsn()
            if after < drain.last:
                raise not_held(state, name, after + 1)
        seconds = _seconds(fields, drain)
        if self.held_up:
            raise NotYet
        selection = self._select(state, fields)
        if not selection.pieces:
            state.views[QUEUE_VIEW].cursors = selection.cursors
            return {"take": after, "messages": 0, "bytes": 0, "ranges": [], "more": selection.more}, 0
        self._make_room(state, drain)
        made = take(state, name, after, seconds, selection.size, selection.pieces, self._ledger)
        state.views[QUEUE_VIEW].cursors = selection.cursors
        return _shown(made) | {"more": selection.more}, state.lsn

    def _select(self, state: DestinationState, fields: Fields) -> Selection:
        messages = number(fields, "messages", NUMBER_MAX) or NUMBER_MAX
        size = number(fields, "bytes", NUMBER_MAX) or NUMBER_MAX
        selection = Selection(state, messages, size, self._ledger)
        selection.run()
        if selection.cold and not selection.pieces:
            raise NotYet
        return selection

    def _make_room(self, state: DestinationState, drain: Drain | None) -> None:
        if drain is not None:
            if len(drain.takes) >= DRAIN_TAKES_MAX:
                raise ResourceExhausted(
                    f"The drain {drain.name!r} of {state.address} has {DRAIN_TAKES_MAX} takes that are not finished, "
                    "which is the most; finish some."
                )
            return
        if len(state.drains) < DRAINS_PER_QUEUE_MAX:
            return
        idle = [each for each in state.drains.values() if not each.takes]
        if not idle:
            raise ResourceExhausted(
                f"{state.address} has {DRAINS_PER_QUEUE_MAX} drains, which is the most; finish or release some."
            )
        release(state, min(idle, key=lambda each: each.touched), self._ledger)

    def _list(self, fields: Fields) -> Result:
        """Takes that are still held, as many as one answer takes."""
        state, name = self._queue(fields), _name(fields)
        after, upto = number(fields, "after", 0), number(fields, "upto", NUMBER_MAX)
        drain = self._heard_of(state, name)
        if drain is None:
            return {"takes": [], "finished": 0, "more": False}, self._ledger.last_lsn()
        takes: list[Fields] = []
        room = DRAIN_RANGES_PER_ANSWER
        wanted = [each for each in drain.up_to(upto) if each.number > after]
        for each in wanted:
            room -= len(each.pieces) + 4
            if room < 0:
                break
            takes.append(_shown(each))
        more = len(takes) < len(wanted)
        return {"takes": takes, "finished": drain.finished, "more": more}, self._ledger.last_lsn()

    def _finish(self, fields: Fields) -> Result:
        state, name = self._queue(fields), _name(fields)
        drain = self._heard_of(state, name)
        messages, more = 0, False
        if drain is not None:
            messages, more = finish(state, drain, number(fields, "upto", 0), self._ledger)
        # Who asks again must not hear that it is done before it is durable.
        return {"messages": messages, "more": more}, self._ledger.last_lsn()

    def _release(self, fields: Fields) -> Result:
        state, name = self._queue(fields), _name(fields)
        drain = self._heard_of(state, name)
        messages, more = release(state, drain, self._ledger) if drain is not None else (0, False)
        return {"messages": messages, "more": more}, self._ledger.last_lsn()

    # ---- what they have in common

    def _queue(self, fields: Fields) -> DestinationState:
        state = self._directory.find(parse_destination(str(fields.get("destination"))))
        check_identity(state, fields.get("identity"))
        if QUEUE_VIEW not in state.views:
            raise InvalidDestination(f"{state.address} is a topic; only queues are drained, topics are replayed.")
        if state.connection is not None:
            raise InvalidDestination(f"{state.address} is temporary: it ends with its connection and can't be drained.")
        return state

    def _heard_of(self, state: DestinationState, name: str) -> Drain | None:
        drain = state.drains.get(name)
        if drain is not None:
            drain.touched = max(drain.touched, self._ledger.now)
        return drain


def show_drains(state: DestinationState, ledger: Ledger) -> list[Fields]:
    """For administrators: who holds what, and when it goes back by itself."""
    return [
        {"drain": drain.name, "takes": len(drain.takes), "messages": drain.messages, "last": drain.last,
         "finished": drain.finished, "expires": ledger.now_ms + round(1000 * (drain.deadline() - ledger.now))}
        for drain in state.drains.values()
    ]  # fmt: skip


def _shown(take: Take) -> Fields:
    return {
        "take": take.number, "messages": take.messages, "bytes": take.size,
        "ranges": [list(each) for each in take.ranges()],
    }  # fmt: skip


def _seconds(fields: Fields, drain: Drain | None) -> int:
    seconds = number(fields, "seconds", drain.seconds if drain is not None else int(DRAIN_SECONDS_DEFAULT))
    if not 0 < seconds <= DRAIN_SECONDS_MAX:
        raise ProtocolError(f"A drain's time to live is 1 to {DRAIN_SECONDS_MAX:.0f} seconds, not {seconds}.")
    return seconds


def _name(fields: Fields) -> str:
    name = fields.get("drain")
    if not isinstance(name, str) or not 0 < len(name.encode("utf-8", "replace")) <= DRAIN_ID_BYTES_MAX:
        raise ProtocolError(f"The field 'drain' of a request must be a text of 1 to {DRAIN_ID_BYTES_MAX} bytes.")
    return name
