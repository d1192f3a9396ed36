"""The message manager: commands of client managers in, answers and disk work out.

Every destination is its own flow of control: a bounded inbox, served round-robin with a work budget, so a slow one (a long
scan, a cold read) never stalls another. The machine has no clock and does no I/O: times are arguments, journal records are
queued in the journal's facade, cold reads leave as effects.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

from tocsin.cluster.commands import (
    Administer,
    Answer,
    CloseConnection,
    CloseConsumer,
    CloseProducer,
    CloseSession,
    Command,
    ConsumerEnded,
    ConsumerKey,
    Failed,
    GrantCredit,
    NotStored,
    OpenConsumer,
    OpenProducer,
    PauseSession,
    Publish,
    Reply,
    SettledTo,
    SettleMessages,
)  # fmt: skip
from tocsin.journal.journal import Journal
from tocsin.message_manager.administration import Administration
from tocsin.message_manager.attaching import Attachment, attach, claim_held, detach, resume
from tocsin.message_manager.destination import DestinationState, Options
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.dispatch import Step, dispatch
from tocsin.message_manager.ledger import DropStream, Ledger, ReadBlocks
from tocsin.message_manager.readers import serve_readers
from tocsin.message_manager.records import RecordKind, stored_block, write_map, write_reserve
from tocsin.message_manager.removals import process_removals
from tocsin.message_manager.settlement import settle
from tocsin.message_manager.storing import committed, publish, release_due
from tocsin.message_manager.timers import next_wake, on_time
from tocsin.model.batch import Block
from tocsin.model.errors import IllegalState, InvalidDestination, TocsinError
from tocsin.model.limits import CACHE_BYTES_DEFAULT, COMMANDS_PER_TURN, LEASE_SECONDS
from tocsin.model.values import Bytes


@dataclass(slots=True)
class Settings:
    lease: float = LEASE_SECONDS
    cache_bytes: int = CACHE_BYTES_DEFAULT
    defaults: Options = field(default_factory=Options)


@dataclass(slots=True)
class _Leave:
    """A session leaves one destination; the answer goes out when it has left all of them."""

    session: bytes
    counted: bool
    countdown: _Countdown


@dataclass(slots=True)
class _Countdown:
    origin: str
    request: int
    left: int
    lsn: int = 0


class MessageManager:
    """One member of a message manager group."""

    def __init__(self, journal: Journal, settings: Settings) -> None:
        self.settings = settings
        self.ledger = Ledger(journal, settings.cache_bytes)
        self.directory = Directory(settings.defaults)
        self._administration = Administration(self.directory, self.ledger)
        self._attachments: dict[ConsumerKey, Attachment] = {}
        # Destinations that a session has producers or consumers at.
        self._sessions: dict[bytes, set[int]] = {}
        self._ready: deque[int] = deque()
        self._in_ready: set[int] = set()
        self._uncommitted: deque[tuple[int, int]] = deque()
        self._wakes: list[tuple[float, int]] = []
        self._wake_of: dict[int, float] = {}

    # ---- events

    def handle(self, origin: str, command: Command, now: float, wall: float) -> None:
        """Takes a command in; `run` does the work."""
        self.ledger.clock(now, wall)
        try:
            self._route(origin, command)
        except TocsinError as error:
            self._refuse(origin, command, error)

    def durable(self, now: float, wall: float) -> None:
        """Journal records have reached the disk."""
        self.ledger.clock(now, wall)
        lsn = int(self.ledger.journal.durable_lsn)
        self.ledger.durable(lsn)
        while self._uncommitted and self._uncommitted[0][0] <= lsn:
            self._wake(self._uncommitted.popleft()[1])

    def resume(self) -> None:
        """After recovery: look at every destination once, for what is due."""
        for state in self.directory:
            self._wake(state.id)

    def take_blocks(self, destination: int, blocks: list[tuple[int, Bytes | None]]) -> None:
        """Cold reads have come back; None for a record that is not there any more."""
        state = self.directory.by_id.get(destination)
        for lsn, payload in blocks:
            if payload is not None:
                self.ledger.keep(lsn, Block(stored_block(payload)))
            if state is not None:
                state.reading.discard(lsn)
        if state is not None:
            for view in state.views.values():
                view.idle = False
            self._wake(destination)

    def tick(self, now: float, wall: float) -> None:
        """Time has passed: wake the destinations whose deadline it is."""
        self.ledger.clock(now, wall)
        while self._wakes and self._wakes[0][0] <= now:
            wake, destination = heapq.heappop(self._wakes)
            if self._wake_of.get(destination) == wake:
                del self._wake_of[destination]
                state = self.directory.by_id.get(destination)
                if state is not None:
                    on_time(state, self.ledger)
                    self._wake(destination)

    def next_deadline(self) -> float | None:
        return self._wakes[0][0] if self._wakes else None

    def run(self, turns: int = 64) -> bool:
        """Serves destinations that have work, each once; True when there is more to do."""
        for _ in range(min(turns, len(self._ready))):
            destination = self._ready.popleft()
            self._in_ready.discard(destination)
            state = self.directory.by_id.get(destination)
            if state is not None and self._serve(state):
                self._wake(destination)
        return bool(self._ready)

    def settle_reserves(self) -> None:
        """Before a clean stop: note exactly what was delivered, so that nothing else is called redelivered (D3)."""
        for state in self.directory:
            for view in state.views.values():
                delivered = view.delivered_end()
                if view.durable and delivered < view.requested:
                    parts = write_reserve(state.id, view.id, delivered)
                    state.lsn = self.ledger.append(RecordKind.RESERVE, parts)
                    view.requested = view.suspect_below = delivered

    def take_replies(self) -> list[tuple[str, Reply]]:
        out, self.ledger.out = self.ledger.out, []
        return out

    def take_reads(self) -> list[ReadBlocks]:
        reads, self.ledger.reads = self.ledger.reads, []
        return reads

    def take_drops(self) -> list[DropStream]:
        drops, self.ledger.drops = self.ledger.drops, []
        return drops

    # ---- routing

    def _route(self, origin: str, command: Command) -> None:
        match command:
            case Publish():
                self._enqueue(self.directory.by_id.get(command.destination), origin, command)
            case SettleMessages() | GrantCredit():
                attachment = self._attachments.get(command.key)
                if attachment is not None:
                    self._enqueue(attachment.state, origin, command)
                elif isinstance(command, SettleMessages):
                    self.ledger.reply(origin, SettledTo(command.key, command.settle.number))
            case CloseConsumer():
                attachment = self._attachments.get(command.key)
                if attachment is None:
                    self.ledger.reply(origin, Answer(command.request, {}))
                else:
                    self._enqueue(attachment.state, origin, command)
            case OpenProducer() | OpenConsumer():
                state = self.directory.find_or_create(command.destination, self.ledger)
                self._sessions.setdefault(command.session, set()).add(state.id)
                self._enqueue(state, origin, command)
            case CloseProducer():
                self._enqueue(self.directory.by_id.get(command.destination), origin, command)
            case CloseSession():
                self._close_session(origin, command)
            case PauseSession():
                for key, attachment in self._attachments.items():
                    if key[0] == command.session:
                        attachment.consumer.paused = True
            case CloseConnection():
                for state in self.directory:
                    if state.connection == command.connection:
                        self._delete_destination(state)
            case Administer():
                fields, lsn = self._administration.run(command.operation, command.fields)
                self.ledger.reply(origin, Answer(command.request, fields), lsn)
                self._wake_named(command)

    def _enqueue(self, state: DestinationState | None, origin: str, command: Command) -> None:
        if state is None:
            raise InvalidDestination("The destination has been deleted.")
        state.inbox.append((origin, command))
        self._wake(state.id)

    def _wake(self, destination: int) -> None:
        if destination not in self._in_ready:
            self._in_ready.add(destination)
            self._ready.append(destination)

    def _wake_named(self, command: Administer) -> None:
        if command.operation == "dead.resend":
            self._wake(self.directory.dead_messages(self.ledger).id)

    def _refuse(self, origin: str, command: Command, error: TocsinError) -> None:
        match command:
            case Publish():
                block = command.block
                last = block.first_sequence + block.count - 1
                answer: Reply = NotStored(command.session, command.producer, block.first_sequence, last, error)
                self.ledger.reply(origin, answer)
            case OpenProducer() | OpenConsumer() | CloseConsumer() | CloseSession() | Administer():
                self.ledger.reply(origin, Failed(command.request, error))
            case _:
                pass  # The others have no answer; what they were about is gone.

    # ---- one destination's turn

    def _serve(self, state: DestinationState) -> bool:
        ledger = self.ledger
        last = ledger.last_lsn()
        committed(state, ledger)
        room = ledger.journal.pending_limit
        for _ in range(COMMANDS_PER_TURN):
            if not state.inbox or ledger.journal.pending_bytes() >= room:
                break
            origin, command = state.inbox.popleft()
            try:
                self._execute(state, origin, command)
            except TocsinError as error:
                self._refuse(origin, command, error)
        more = bool(state.inbox)
        release_due(state, ledger)
        step = Step(self.settings.lease)
        more |= dispatch(state, ledger, step)
        if state.readers:
            more |= serve_readers(state, ledger, step)
        if state.removals:
            self._process_removals(state)
        if ledger.last_lsn() > last:
            self._uncommitted.append((ledger.last_lsn(), state.id))
        self._schedule(state)
        return more and (ledger.journal.pending_bytes() < room or not state.inbox)

    def _execute(self, state: DestinationState, origin: str, command: Command | _Leave) -> None:
        ledger = self.ledger
        match command:
            case Publish():
                publish(state, origin, command, ledger)
            case SettleMessages():
                self._settle(state, origin, command)
            case GrantCredit():
                self._grant(command)
            case OpenProducer():
                last = state.producers.last_sequence(command.session)
                fields = {"destination": state.id, "last_sequence": last}
                ledger.reply(origin, Answer(command.request, fields), ledger.last_lsn())
            case OpenConsumer():
                self._open_consumer(state, origin, command)
            case CloseConsumer():
                attachment = self._attachments.pop(command.key, None)
                lsn = detach(self.directory, attachment, False, ledger) if attachment else 0
                ledger.reply(origin, Answer(command.request, {}), max(lsn, ledger.last_lsn()))
            case CloseProducer():
                self._forget(state, command.session)
            case _Leave():
                self._leave(state, command)
            case _:
                raise IllegalState(f"{type(command).__name__} is not a command for a destination.")

    def _settle(self, state: DestinationState, origin: str, command: SettleMessages) -> None:
        attachment = self._attachments.get(command.key)
        lsn = 0
        if attachment is not None and attachment.view is not None:
            lsn = settle(state, attachment.view, command.key, command.settle, self.settings.lease, self.ledger)
            # The answer speaks for everything that this consumer settled before, too.
            lsn = attachment.consumer.settled_lsn = max(lsn, attachment.consumer.settled_lsn)
        self.ledger.reply(origin, SettledTo(command.key, command.settle.number), lsn)

    def _grant(self, command: GrantCredit) -> None:
        attachment = self._attachments.get(command.key)
        if attachment is None:
            return
        consumer = attachment.consumer
        consumer.messages_allowed = max(consumer.messages_allowed, command.messages)
        consumer.bytes_allowed = max(consumer.bytes_allowed, command.bytes)
        if attachment.view is not None:
            attachment.view.idle = False

    def _open_consumer(self, state: DestinationState, origin: str, command: OpenConsumer) -> None:
        known = self._attachments.get(command.key)
        fields: dict[str, object] = {}
        lsn = self.ledger.last_lsn()
        if known is not None:
            fields["kept"] = [list(each) for each in resume(known, origin, command, self.ledger)]
            attachment = known
        else:
            attachment = attach(self.directory, state, origin, command, self.ledger)
            self._attachments[command.key] = attachment
            lsn = self.ledger.last_lsn()
            if command.held:
                kept = claim_held(attachment, command.held, self.settings.lease, self.ledger)
                fields["kept"] = [list(each) for each in kept]
        # No delivery overtakes the answer, which says what the client keeps.
        attachment.consumer.opened_lsn = lsn
        self._uncommitted.append((lsn, state.id))
        self.ledger.reply(origin, Answer(command.request, fields), lsn)

    def _forget(self, state: DestinationState, producer_id: bytes) -> None:
        if state.producers.forget(producer_id):
            fields = {"destination": state.id, "producer": producer_id}
            state.lsn = self.ledger.append(RecordKind.FORGET, write_map(fields))

    # ---- sessions

    def _close_session(self, origin: str, command: CloseSession) -> None:
        states = [
            state
            for state in (self.directory.by_id.get(each) for each in self._sessions.pop(command.session, set()))
            if state is not None
        ]
        countdown = _Countdown(origin, command.request, len(states))
        if not states:
            self.ledger.reply(origin, Answer(command.request, {}))
        for state in states:
            state.inbox.append((origin, _Leave(command.session, command.counted, countdown)))  # type: ignore[arg-type]
            self._wake(state.id)

    def _leave(self, state: DestinationState, command: _Leave) -> None:
        countdown = command.countdown
        for key in [
            key for key, each in self._attachments.items() if key[0] == command.session and each.state is state
        ]:
            attachment = self._attachments.pop(key)
            countdown.lsn = max(countdown.lsn, detach(self.directory, attachment, command.counted, self.ledger))
        if not command.counted:
            self._forget(state, command.session)
        countdown.left -= 1
        if not countdown.left:
            self.ledger.reply(countdown.origin, Answer(countdown.request, {}), self.ledger.last_lsn())

    def _delete_destination(self, state: DestinationState) -> None:
        for key, attachment in list(self._attachments.items()):
            if attachment.state is state:
                del self._attachments[key]
                error = InvalidDestination(f"{state.address} has been deleted.")
                self.ledger.reply(attachment.consumer.origin, ConsumerEnded(key, error))
        self.directory.delete(state, self.ledger)

    # ---- work that is nobody's command

    def _process_removals(self, state: DestinationState) -> None:
        dead = self.directory.dead_messages(self.ledger)
        targets: set[int] = {dead.id}

        def find(address: object) -> DestinationState:
            target = self.directory.find_or_create(address, self.ledger)  # type: ignore[arg-type]
            targets.add(target.id)
            return target

        if process_removals(state, dead, find, self.ledger):
            for target in targets:
                self._uncommitted.append((self.ledger.last_lsn(), target))

    def _schedule(self, state: DestinationState) -> None:
        wake = next_wake(state, self.ledger)
        known = self._wake_of.get(state.id)
        if wake is not None and (known is None or wake < known):
            self._wake_of[state.id] = wake
            heapq.heappush(self._wakes, (wake, state.id))
