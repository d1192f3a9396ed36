"""The message manager: commands of client managers in, answers and disk work out.

Every destination is its own flow of control: an inbox, served round-robin with a work budget, so a slow one (a long
scan, a cold read) never stalls another. The machine has no clock and does no I/O: times are arguments, journal records
are queued in the journal's facade, cold reads leave as effects. `congested` bounds the inboxes: who brings commands
stops reading while it is set.
"""

from __future__ import annotations

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
    GrantCredit,
    OpenConsumer,
    OpenProducer,
    PauseSession,
    Publish,
    Reply,
    SettledTo,
    SettleMessages,
)  # fmt: skip
from tocsin.message_manager.administration import Administration
from tocsin.message_manager.agenda import Agenda
from tocsin.message_manager.attaching import Attachment, attach, claim_held, detach, resume
from tocsin.message_manager.destination import DestinationState, Options
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.dispatch import Step, dispatch
from tocsin.message_manager.ledger import DropStream, Ledger, ReadBlocks, Records
from tocsin.message_manager.readers import serve_readers
from tocsin.message_manager.records import RecordKind, stored_block, write_map, write_reserve
from tocsin.message_manager.refusing import refusal
from tocsin.message_manager.removals import process_removals
from tocsin.message_manager.settlement import settle
from tocsin.message_manager.storing import committed, publish, release_due
from tocsin.message_manager.timers import next_wake, on_time
from tocsin.message_manager.view import View
from tocsin.model.batch import Block, DeliveryMode
from tocsin.model.destination import Destination
from tocsin.model.errors import IllegalState, InvalidDestination, TocsinError
from tocsin.model.limits import CACHE_BYTES_DEFAULT, COMMANDS_PER_TURN, INBOX_COMMANDS_MAX, LEASE_SECONDS, ROWS_PER_STEP
from tocsin.model.values import Bytes

_STEPS_PER_RUN = 2
"""How many full steps one run does; turns that find little to do are as good as free."""


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


class MessageManager:
    """One member of a message manager group."""

    def __init__(self, journal: Records, settings: Settings) -> None:
        self.settings = settings
        self.ledger = Ledger(journal, settings.cache_bytes)
        self.directory = Directory(settings.defaults)
        self._administration = Administration(self.directory, self.ledger, self._empty_inbox)
        self._attachments: dict[ConsumerKey, Attachment] = {}
        # Consumers whose opening waits in an inbox: what comes behind it goes to the same place.
        self._opening: dict[ConsumerKey, DestinationState] = {}
        # Destinations that a session has producers or consumers at.
        self._sessions: dict[bytes, set[int]] = {}
        self._agenda = Agenda()
        # Commands that wait because the journal has no room.
        self._backlog: deque[tuple[str, Command]] = deque()
        self._queued = 0

    # ---- events

    def handle(self, origin: str, command: Command, now: float, wall: float) -> None:
        """Takes a command in; `run` does the work."""
        self.ledger.clock(now, wall)
        if self._backlog or not self.ledger.has_room:
            self._backlog.append((origin, command))
        else:
            self._take(origin, command)

    def _take(self, origin: str, command: Command) -> None:
        try:
            self._route(origin, command)
        except TocsinError as error:
            self._refuse(origin, command, error)

    @property
    def congested(self) -> bool:
        """More commands wait than should: whoever brings them had better stop reading for a while."""
        return len(self._backlog) + self._queued > INBOX_COMMANDS_MAX

    def durable(self, now: float, wall: float) -> None:
        """Journal records have reached the disk."""
        self.ledger.clock(now, wall)
        lsn = int(self.ledger.journal.durable_lsn)
        self.ledger.durable(lsn)
        for destination in self._agenda.durable(lsn):
            state = self.directory.by_id.get(destination)
            if state is not None:
                committed(state, self.ledger)
                if state.busy:
                    self._agenda.add(destination)
        self._agenda.room()

    def resume(self) -> None:
        """After recovery: look at every destination once, for what is due."""
        for state in self.directory:
            for view in state.views.values():
                if view.suspect_below > state.log.next_offset:
                    # What is sent from now on has certainly not been delivered before.
                    self._note_delivered(state, view, state.log.next_offset)
            self._agenda.add(state.id)

    def take_blocks(self, destination: int, blocks: list[tuple[int, Bytes | None]]) -> None:
        """Cold reads have come back; None for a record that is not there any more."""
        state = self.directory.by_id.get(destination)
        # The one that was asked for comes first, and is put into the cache last: the others must not push it out.
        for lsn, payload in reversed(blocks):
            if payload is not None:
                self.ledger.keep(lsn, Block(stored_block(payload)))
            if state is not None:
                state.reading.discard(lsn)
        if state is not None:
            for view in state.views.values():
                view.idle = False
            self._agenda.add(destination)

    def tick(self, now: float, wall: float) -> None:
        """Time has passed: wake the destinations whose deadline it is."""
        self.ledger.clock(now, wall)
        for destination in self._agenda.due(now):
            state = self.directory.by_id.get(destination)
            if state is not None:
                on_time(state, self.ledger)
                self._agenda.add(destination)

    def next_deadline(self) -> float | None:
        return self._agenda.next_time()

    def run(self, turns: int = 64) -> bool:
        """Serves destinations that have work, each once; True when there is more to do.

        Ends early when the turns were long ones, so that the loop can attend to its sockets.
        """
        while self._backlog and self.ledger.has_room:
            self._take(*self._backlog.popleft())
        rows = _STEPS_PER_RUN * ROWS_PER_STEP
        for _ in range(min(turns, len(self._agenda))):
            if rows <= 0:
                break
            destination = self._agenda.take()
            state = self.directory.by_id.get(destination)
            if state is None:
                continue
            step = Step(self.settings.lease)
            if self._serve(state, step):
                self._agenda.add(destination)
            rows -= ROWS_PER_STEP - step.rows
        return len(self._agenda) > 0

    def settle_reserves(self) -> None:
        """Before a clean stop: note exactly what was delivered, so that nothing else is called redelivered (D3)."""
        for state in self.directory:
            for view in state.views.values():
                delivered = view.delivered_end()
                if view.durable and delivered < view.requested:
                    self._note_delivered(state, view, delivered)
                    view.requested = view.reserved = delivered

    def _note_delivered(self, state: DestinationState, view: View, offset: int) -> None:
        parts = write_reserve(state.id, view.id, offset)
        state.lsn = self.ledger.append(RecordKind.RESERVE, parts)
        view.suspect_below = offset

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
        """Everything about a destination goes through its inbox, so that nothing overtakes what came before it."""
        match command:
            case Publish():
                state = self.directory.by_id.get(command.destination)
                if state is None or state.inbox or not self.ledger.has_room:
                    self._enqueue(state, origin, command)
                else:
                    self._publish_at_once(state, origin, command)
            case CloseProducer():
                self._enqueue(self.directory.by_id.get(command.destination), origin, command)
            case SettleMessages() | GrantCredit() | CloseConsumer():
                attachment = self._attachments.get(command.key)
                state = attachment.state if attachment is not None else self._opening.get(command.key)
                if state is None:
                    raise IllegalState("The consumer is closed.")
                self._enqueue(state, origin, command)
            case OpenProducer() | OpenConsumer():
                address = command.destination
                # A replay reads what was stored: it does not create the topic that it was mistyped for.
                replays = isinstance(command, OpenConsumer) and command.mode == "replay"
                state = self.directory.find(address) if replays else self.directory.find_or_create(address, self.ledger)
                self._sessions.setdefault(command.session, set()).add(state.id)
                if isinstance(command, OpenConsumer):
                    self._opening[command.key] = state
                self._enqueue(state, origin, command)
            case Administer():
                state = self._administration.concerns(command.operation, command.fields)
                if state is None:
                    self._administer(origin, command)
                else:
                    self._enqueue(state, origin, command)
            case _:
                self._route_ending(origin, command)

    def _publish_at_once(self, state: DestinationState, origin: str, command: Publish) -> None:
        """Nothing waits before it, and nobody sees it before it is durable: storing it needs no turn of its own."""
        last = self.ledger.last_lsn()
        publish(state, origin, command, self.ledger)
        if self.ledger.last_lsn() > last:
            self._agenda.add_when_durable(self.ledger.last_lsn(), state.id)
        block, options = command.block, state.options
        due = block.earliest_expiry or block.delivery_time or options.max_age_ms or options.max_bytes
        if due or not self._agenda.has_time(state.id):
            self._schedule(state)
        if block.delivery_mode is DeliveryMode.NON_PERSISTENT and state.busy:
            self._agenda.add(state.id)

    def _route_ending(self, origin: str, command: PauseSession | CloseSession | CloseConnection) -> None:
        match command:
            case CloseSession():
                states = self._states_of(command.session)
                self._sessions.pop(command.session, None)
                countdown = _Countdown(origin, command.request, len(states))
                if not states:
                    self.ledger.reply(origin, Answer(command.request, {}))
                for state in states:
                    self._enqueue(state, origin, _Leave(command.session, command.counted, countdown))
            case PauseSession():
                for state in self._states_of(command.session):
                    self._enqueue(state, origin, command)
            case CloseConnection():
                for state in self.directory:
                    if state.connection == command.connection:
                        self._delete_destination(state)

    def _states_of(self, session: bytes) -> list[DestinationState]:
        found = (self.directory.by_id.get(each) for each in self._sessions.get(session, ()))
        return [state for state in found if state is not None]

    def _administer(self, origin: str, command: Administer) -> None:
        fields, lsn = self._administration.run(command.operation, command.fields)
        self.ledger.reply(origin, Answer(command.request, fields), lsn)

    def _enqueue(self, state: DestinationState | None, origin: str, command: Command | _Leave) -> None:
        if state is None:
            raise InvalidDestination("The destination has been deleted.")
        state.inbox.append((origin, command))
        self._queued += 1
        self._agenda.add(state.id)

    def _refuse(self, origin: str, command: Command | _Leave, error: TocsinError) -> None:
        if isinstance(command, OpenConsumer):
            self._opening.pop(command.key, None)
        answer = refusal(command, error)
        if answer is not None:
            # What the same client did before may still be on its way to the disk: no answer overtakes it.
            lsn = self.ledger.last_lsn() if isinstance(answer, SettledTo | Answer) else 0
            self.ledger.reply(origin, answer, lsn)

    # ---- one destination's turn

    def _serve(self, state: DestinationState, step: Step) -> bool:
        ledger = self.ledger
        last = ledger.last_lsn()
        committed(state, ledger)
        for _ in range(COMMANDS_PER_TURN):
            if not state.inbox or not ledger.has_room:
                break
            origin, command = state.inbox.popleft()
            self._queued -= 1
            try:
                self._execute(state, origin, command)
            except TocsinError as error:
                self._refuse(origin, command, error)
        if state.id not in self.directory.by_id:
            return False
        overdue = release_due(state, ledger)
        more = dispatch(state, ledger, step)
        if state.readers:
            more |= self._serve_readers(state)
        if state.removals:
            self._process_removals(state)
        if ledger.last_lsn() > last:
            self._agenda.add_when_durable(ledger.last_lsn(), state.id)
        self._schedule(state)
        if (state.inbox or overdue or state.removals) and not ledger.has_room:
            self._agenda.add_when_room(state.id)
            return more
        return more or bool(state.inbox)

    def _serve_readers(self, state: DestinationState) -> bool:
        """Readers have a budget of their own: a busy queue does not hold its browsers up."""
        before = [reader.key for reader in state.readers]
        more = serve_readers(state, self.ledger, Step(self.settings.lease))
        left = {reader.key for reader in state.readers}
        for key in before:
            if key not in left:
                self._attachments.pop(key, None)
        return more

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
                if attachment is not None:
                    detach(self.directory, attachment, False, ledger)
                ledger.reply(origin, Answer(command.request, {}), ledger.last_lsn())
            case Administer():
                self._administer(origin, command)
            case _:
                self._execute_ending(state, command)

    def _execute_ending(self, state: DestinationState, command: Command | _Leave) -> None:
        match command:
            case CloseProducer():
                self._forget(state, command.session)
            case PauseSession():
                for key, attachment in self._attachments.items():
                    if key[0] == command.session and attachment.state is state:
                        attachment.consumer.paused = True
            case _Leave():
                self._leave(state, command)
            case _:
                raise IllegalState(f"{type(command).__name__} is not a command for a destination.")

    def _settle(self, state: DestinationState, origin: str, command: SettleMessages) -> None:
        attachment = self._attachments.get(command.key)
        if attachment is None or attachment.view is None:
            raise IllegalState("The consumer is closed, or holds nothing.")
        consumer = attachment.consumer
        lsn = settle(state, attachment.view, command.key, command.settle, self.settings.lease, self.ledger)
        # The answer covers all settlements before it too, so it waits for them.
        consumer.settled_lsn = max(consumer.settled_lsn, lsn)
        self.ledger.reply(origin, SettledTo(command.key, command.settle.number), consumer.settled_lsn)

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
        if known is not None:
            self._opening.pop(command.key, None)
            if known.state is not state or known.consumer.mode != command.mode:
                raise IllegalState(f"Consumer {command.consumer} is open already, for something else.")
            kept = resume(known, origin, command, self.settings.lease, self.ledger)
            self.ledger.reply(origin, Answer(command.request, {"kept": [list(each) for each in kept]}))
            return
        attachment = attach(self.directory, state, origin, command, self.ledger)
        self._attachments[command.key] = attachment
        self._opening.pop(command.key, None)
        fields: dict[str, object] = {}
        if command.held is not None:
            kept = claim_held(attachment, command.held, self.settings.lease, self.ledger)
            fields["kept"] = [list(each) for each in kept]
        # The answer comes before the first delivery: the client takes what comes behind it for new.
        lsn = attachment.consumer.opened_lsn = self.ledger.last_lsn()
        self._agenda.add_when_durable(lsn, state.id)
        self.ledger.reply(origin, Answer(command.request, fields), lsn)

    def _forget(self, state: DestinationState, producer_id: bytes) -> None:
        if state.producers.forget(producer_id):
            fields = {"destination": state.id, "producer": producer_id}
            state.lsn = self.ledger.append(RecordKind.FORGET, write_map(fields))

    # ---- sessions

    def _leave(self, state: DestinationState, command: _Leave) -> None:
        for key in [
            key for key, each in self._attachments.items() if key[0] == command.session and each.state is state
        ]:
            detach(self.directory, self._attachments.pop(key), command.counted, self.ledger)
        if not command.counted:
            self._forget(state, command.session)
        self._left(command.countdown)

    def _left(self, countdown: _Countdown) -> None:
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
        self._empty_inbox(state)

    def _empty_inbox(self, state: DestinationState) -> None:
        """A destination is gone: whoever waits for it gets an answer."""
        self._queued -= len(state.inbox)
        while state.inbox:
            origin, command = state.inbox.popleft()
            if isinstance(command, _Leave):
                self._left(command.countdown)
            else:
                self._refuse(origin, command, InvalidDestination(f"{state.address} has been deleted."))

    # ---- work that is nobody's command

    def _process_removals(self, state: DestinationState) -> None:
        dead = self.directory.dead_messages(self.ledger)
        targets: set[int] = {dead.id}

        def find(address: Destination) -> DestinationState:
            target = self.directory.find_or_create(address, self.ledger)
            targets.add(target.id)
            return target

        if process_removals(state, dead, find, self.ledger):
            for target in targets:
                self._agenda.add_when_durable(self.ledger.last_lsn(), target)

    def _schedule(self, state: DestinationState) -> None:
        wake = next_wake(state, self.ledger)
        if wake is not None:
            self._agenda.add_at(wake, state.id)
