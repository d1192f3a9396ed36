"""Sessions go: paused, closed, or vanished. Each destination they used lets go of them in its own turn.

Many may vanish at once, with their client manager: some of them go at a time, and everybody else has turns in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tocsin.cluster.commands import Answer, CloseSession, PauseSession
from tocsin.message_manager.attachments import Attachments
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.sessions import Sessions
from tocsin.message_manager.storing import forget_producer
from tocsin.model.limits import DEPARTURES_PER_TICK


@dataclass(slots=True)
class Countdown:
    """An answer that goes out when the session has left all of its destinations."""

    origin: str
    request: int
    left: int


@dataclass(slots=True)
class Leave:
    """A session leaves one destination."""

    session: bytes
    counted: bool
    countdown: Countdown | None = None
    origin: str | None = None
    """Only the consumers that still have this origin leave, and the session stays."""


class Leaving:
    __slots__ = ("_attachments", "_directory", "_enqueue", "_ledger", "_sessions")

    def __init__(
        self,
        sessions: Sessions,
        attachments: Attachments,
        directory: Directory,
        ledger: Ledger,
        enqueue: Callable[[DestinationState, str, Leave | PauseSession], None],
    ) -> None:
        self._sessions = sessions
        self._attachments = attachments
        self._directory = directory
        self._ledger = ledger
        self._enqueue = enqueue

    def pause(self, origin: str, command: PauseSession) -> None:
        if not self._sessions.outdated(origin, command.session, command.epoch):
            for state in self._states_of(command.session):
                # What waits may open a consumer of the session; else pausing it needs no turn.
                if state.inbox:
                    self._enqueue(state, origin, command)
                else:
                    self._attachments.pause(command.session, state)

    def close(self, origin: str, command: CloseSession) -> None:
        """Answered when all of it is done; a word that comes too late ends only what the session left behind."""
        only = None
        if self._sessions.outdated(origin, command.session, command.epoch):
            # Consumers that the client did not take along when it moved are nobody's.
            only = origin
            states = self._attachments.places_of(command.session, origin)
        else:
            states = self._states_of(command.session)
            self._sessions.known.pop(command.session, None)
        countdown = Countdown(origin, command.request, len(states))
        if not states:
            self._ledger.reply(origin, Answer(command.request, {}))
        for state in states:
            self._enqueue(state, origin, Leave(command.session, command.counted, countdown, only))

    def end_departures(self, now: float) -> set[bytes]:
        """Who has not come back within the grace has vanished: so many of them as one turn takes, the rest with the
        next tick, which is due at once. Returns the connections that are over.
        """
        departure = self._sessions.due(now, DEPARTURES_PER_TICK)
        if departure is None:
            return set()
        for session, origin in departure.sessions:
            states = self._states_of(session)
            del self._sessions.known[session]
            for state in states:
                self._enqueue(state, origin, Leave(session, counted=True))
        for key, origin in departure.consumers:
            attachment = self._attachments.by_key.get(key)
            if attachment is not None and attachment.consumer.origin == origin:
                self._enqueue(attachment.state, origin, Leave(key[0], counted=True, origin=origin))
        return {connection for connection, _ in departure.connections}

    def leave(self, state: DestinationState, command: Leave) -> Leave | None:
        """Returns the command when it is not done yet."""
        if not self._attachments.leave(command.session, state, command.counted, command.origin):
            return command
        if command.origin is None:
            state.producers.opened.pop(command.session, None)
            if not command.counted:
                forget_producer(state, command.session, self._ledger, for_good=True)
        self.left(command.countdown)
        return None

    def left(self, countdown: Countdown | None) -> None:
        if countdown is None:
            return
        countdown.left -= 1
        if not countdown.left:
            self._ledger.reply(countdown.origin, Answer(countdown.request, {}), self._ledger.last_lsn())

    def close_producer(self, state: DestinationState, producer_id: bytes) -> None:
        state.producers.opened.pop(producer_id, None)
        forget_producer(state, producer_id, self._ledger, for_good=True)

    def _states_of(self, session: bytes) -> list[DestinationState]:
        known = self._sessions.known.get(session)
        found = (self._directory.by_id.get(each) for each in (known.destinations if known is not None else ()))
        return [state for state in found if state is not None]
