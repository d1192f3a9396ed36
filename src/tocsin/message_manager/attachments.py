"""All attached consumers of a message manager, and what their client managers ask for them.

A consumer listens to the client manager that opened it last: what a former one says late changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from tocsin.cluster.commands import (
    Answer,
    CloseConsumer,
    ConsumerEnded,
    ConsumerKey,
    GrantCredit,
    OpenConsumer,
    SettledTo,
    SettleMessages,
)
from tocsin.cluster.waiting_grants import WaitingGrants
from tocsin.message_manager.attaching import Attachment, attach, claim_held, detach, finished_of, resume
from tocsin.message_manager.attachment_table import AttachmentTable
from tocsin.message_manager.budget import Step
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.forfeits import Forfeits
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.readers import serve_readers
from tocsin.message_manager.sessions import is_of, same_manager
from tocsin.message_manager.settlement import settle
from tocsin.model.errors import IllegalState, ResourceExhausted, TocsinError
from tocsin.model.limits import HELD_RANGES_MAX, ROWS_PER_STEP, SETTLED_RANGES_PER_LOOK
from tocsin.model.ranges import Range, RangeSet, pack_ranges

_HELD_PER_ROW = 64
"""Looking for so many ranges that a consumer holds costs as much as looking at one row."""


class Attachments:
    __slots__ = ("_directory", "_forfeits", "_lease", "_ledger", "by_key", "grants", "opening")

    def __init__(self, directory: Directory, ledger: Ledger, lease: float) -> None:
        self._directory = directory
        self._ledger = ledger
        self._lease = lease
        self.by_key = AttachmentTable()
        self._forfeits = Forfeits()
        # Consumers whose opening waits in an inbox: what comes behind it goes to the same place.
        self.opening: dict[ConsumerKey, DestinationState] = {}
        # Credit that waits in an inbox, or before it.
        self.grants = WaitingGrants()

    def place_of(self, key: ConsumerKey) -> DestinationState:
        attachment = self.by_key.get(key)
        state = attachment.state if attachment is not None else self.opening.get(key)
        if state is None:
            raise IllegalState("The consumer is closed.")
        return state

    # ---- what a consumer's client manager asks for

    def open(self, state: DestinationState, origin: str, command: OpenConsumer) -> int:
        """Attaches or resumes, and answers; returns the LSN before which nothing is delivered, 0 for none."""
        # What is named twice is looked for once.
        held = RangeSet(command.held or ())
        self._ledger.work.pay(len(held) // _HELD_PER_ROW)
        known = self.by_key.get(command.key)
        if known is not None:
            self.opening.pop(command.key, None)
            if known.state is not state or known.consumer.mode != command.mode:
                raise IllegalState(f"Consumer {command.consumer} is open already, for something else.")
            kept = resume(known, origin, command, held, self._lease, self._ledger)
            fields = _whose(state, command) | _held_fields(known, held, kept, [])
            self._ledger.reply(origin, Answer(command.request, fields))
            return 0
        before = self._ledger.last_lsn()
        attachment = attach(self._directory, state, origin, command, self._ledger)
        self.by_key.add(command.key, attachment)
        self.opening.pop(command.key, None)
        fields = _whose(state, command)
        if command.durable and self._ledger.last_lsn() > before:
            fields["made"] = True
        if command.held is not None:
            kept = claim_held(attachment, held, self._lease, self._ledger)
            fields |= _held_fields(attachment, held, kept, self._forfeits.take(command.key))
        # The answer comes before the first delivery: the client takes what comes behind it for new. It comes before
        # the first confirmation of a settlement, too: who lost a message must not hear "settled" before it knows.
        lsn = attachment.consumer.opened_lsn = attachment.consumer.settled_lsn = self._ledger.last_lsn()
        self._ledger.reply(origin, Answer(command.request, fields), lsn)
        return lsn

    def settle(self, state: DestinationState, origin: str, command: SettleMessages) -> SettleMessages | None:
        """Settles, and answers when that was all; else returns what is left to be settled in another turn."""
        attachment = self.by_key.get(command.key)
        if attachment is not None and not _listens(attachment, origin):
            return None  # Its client says it again where it is now; an answer could be taken for the one to that.
        if attachment is None or attachment.view is None:
            raise IllegalState("The consumer is closed, or holds nothing.")
        consumer = attachment.consumer
        lsn, left = settle(state, attachment.view, command.key, command.settle, self._lease, self._ledger)
        # The answer covers all settlements before it too, so it waits for them.
        consumer.settled_lsn = max(consumer.settled_lsn, lsn)
        consumer.settled_ranges += len(command.settle.ranges) - len(left)
        if left:
            return SettleMessages(command.key, replace(command.settle, ranges=left))
        self._ledger.reply(origin, SettledTo(command.key, command.settle.number), consumer.settled_lsn)
        if consumer.settled_ranges >= SETTLED_RANGES_PER_LOOK:
            consumer.settled_ranges = 0
            held = RangeSet((lock.start, lock.end) for lock in attachment.view.locks.of(command.key))
            if len(held) > HELD_RANGES_MAX:
                self._end_scattered(attachment, origin, command.key)
        return None

    def _end_scattered(self, attachment: Attachment, origin: str, key: ConsumerKey) -> None:
        """Its settlements have left so many gaps that what it holds could not be named when it comes back."""
        self.by_key.remove(key)
        detach(self._directory, attachment, True, self._ledger)
        error = ResourceExhausted(
            f"The consumer holds messages in more than {HELD_RANGES_MAX} separate ranges, so it is closed and others"
            " get them. Settle messages in the order of their delivery, or hold fewer at a time."
        )
        self._ledger.reply(origin, ConsumerEnded(key, error), self._ledger.last_lsn())

    def refused(self, command: object) -> None:
        """A command is not carried out."""
        if isinstance(command, OpenConsumer):
            self.opening.pop(command.key, None)
        elif isinstance(command, GrantCredit):
            self.grants.taken(command)

    def grant(self, origin: str, command: GrantCredit) -> None:
        self.grants.taken(command)
        attachment = self.by_key.get(command.key)
        if attachment is None or not _listens(attachment, origin):
            return
        consumer = attachment.consumer
        consumer.messages_allowed = max(consumer.messages_allowed, command.messages)
        consumer.bytes_allowed = max(consumer.bytes_allowed, command.bytes)
        if attachment.view is not None:
            attachment.view.idle = False

    def close(self, origin: str, command: CloseConsumer) -> None:
        attachment = self.by_key.get(command.key)
        if attachment is not None and _listens(attachment, origin):
            self.by_key.remove(command.key)
            detach(self._directory, attachment, False, self._ledger)
        self._ledger.reply(origin, Answer(command.request, {}), self._ledger.last_lsn())

    # ---- what happens to them

    def pause(self, session: bytes, state: DestinationState) -> None:
        for _, attachment in self.by_key.of_session_at(session, state):
            attachment.consumer.paused = True

    def pause_all_of(self, prefix: str) -> list[tuple[ConsumerKey, str]]:
        """Their client manager is gone; returns who they are and what their origin is."""
        found: list[tuple[ConsumerKey, str]] = []
        for key, attachment in self.by_key.items():
            if is_of(attachment.consumer.origin, prefix):
                attachment.consumer.paused = True
                found.append((key, attachment.consumer.origin))
        return found

    def places_of(self, session: bytes, origin: str) -> list[DestinationState]:
        """Where the session has consumers of this origin."""
        found = {
            each.state.id: each.state for _, each in self.by_key.of_session(session) if each.consumer.origin == origin
        }
        return list(found.values())

    def leave(self, session: bytes, state: DestinationState, counted: bool, origin: str | None) -> bool:
        """A session's consumers go from a destination; with an origin, only those that still have it.

        So many of them go as one step allows; True when that were all.
        """
        going = (
            (key, attachment)
            for key, attachment in self.by_key.of_session_at(session, state)
            if origin in (None, attachment.consumer.origin)
        )
        work = self._ledger.work
        left = work.left - ROWS_PER_STEP
        for key, attachment in list(islice(going, ROWS_PER_STEP + 1)):
            if work.left <= left:
                return False
            work.pay(1)
            self.by_key.remove(key)
            if counted and attachment.view is not None:
                locks = attachment.view.locks.of(key)
                self._forfeits.note(key, ((lock.start, lock.end) for lock in locks))
            detach(self._directory, attachment, counted, self._ledger)
        return True

    def end_all(self, state: DestinationState, error: TocsinError) -> None:
        """The destination is gone: its consumers are told."""
        for key, attachment in self.by_key.of_state(state):
            self.by_key.remove(key)
            self._ledger.reply(attachment.consumer.origin, ConsumerEnded(key, error))

    def serve_readers(self, state: DestinationState) -> bool:
        """Readers have a budget of their own: a busy queue does not hold its browsers up."""
        before = [reader.key for reader in state.readers]
        step = Step(self._lease)
        more = serve_readers(state, self._ledger, step)
        self._ledger.work.pay_step(step)
        left = {reader.key for reader in state.readers}
        for key in before:
            if key not in left:
                self.by_key.remove(key)
        return more


def _held_fields(
    attachment: Attachment, held: RangeSet, kept: list[Range], forfeited: list[Range]
) -> dict[str, object]:
    fields: dict[str, object] = {"kept": pack_ranges(kept[:HELD_RANGES_MAX])}
    finished = finished_of(attachment, held, forfeited)
    if finished:
        fields["finished"] = pack_ranges(finished)
    return fields


def _whose(state: DestinationState, command: OpenConsumer) -> dict[str, object]:
    """To who begins at an offset: what it has to say when it comes back with one."""
    return {"identity": state.identity} if command.start is not None or command.mode == "replay" else {}


def _listens(attachment: Attachment, origin: str) -> bool:
    return same_manager(attachment.consumer.origin, origin)
