"""The message manager: commands of client managers in, answers and disk work out.

Every destination is its own flow of control: an inbox, served round-robin with a work budget, so a slow one (a long
scan, a cold read) never stalls another. The machine has no clock and does no I/O: times are arguments, journal records
are queued in the journal's facade, cold reads leave as effects. Who brings commands bounds what of each client is under
way, so that a full inbox holds up nobody but those who fill it; `congested` is the last bound, of all together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

from tocsin.cluster.commands import (
    Administer,
    Answer,
    CloseConnection,
    CloseConsumer,
    CloseProducer,
    CloseSession,
    Command,
    GrantCredit,
    OpenConsumer,
    OpenProducer,
    PauseSession,
    Publish,
    Reply,
    SettledTo,
    SettleMessages,
)  # fmt: skip
from tocsin.cluster.refusing import refusal
from tocsin.message_manager.administration import Administration
from tocsin.message_manager.agenda import Agenda
from tocsin.message_manager.answering import Answering
from tocsin.message_manager.attachments import Attachments
from tocsin.message_manager.budget import Step
from tocsin.message_manager.containing import Containment
from tocsin.message_manager.damage import take_block
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.dispatch import dispatch
from tocsin.message_manager.draining import resume_drains
from tocsin.message_manager.drains import NotYet
from tocsin.message_manager.leaving import Leave, Leaving
from tocsin.message_manager.ledger import DropStream, Ledger, ReadBlocks, Records
from tocsin.message_manager.removals import origin_of, process_removals
from tocsin.message_manager.reserves import begin_reserves, end_reserves
from tocsin.message_manager.services import Services
from tocsin.message_manager.sessions import Sessions
from tocsin.message_manager.settings import Settings as Settings
from tocsin.message_manager.storing import committed, open_producer, publish, release_due
from tocsin.message_manager.timers import next_wake, on_time
from tocsin.model.batch import DeliveryMode
from tocsin.model.destination import parse_destination
from tocsin.model.errors import IllegalState, InvalidDestination, JournalDamaged, TocsinError
from tocsin.model.limits import FAULT_PAUSE_SECONDS, INBOX_COMMANDS_MAX, REMOVALS_PER_TURN, ROWS_PER_STEP
from tocsin.model.values import Bytes

_SHOWING = "showing what is durable"


class MessageManager:
    """One member of a message manager group."""

    def __init__(self, journal: Records, settings: Settings) -> None:
        self.settings = settings
        self.ledger = Ledger(journal, settings.cache_bytes)
        self.directory = Directory(settings.defaults, settings.cluster, settings.host)
        self._administration = Administration(self.directory, self.ledger, self._empty_inbox, settings.most_copies)
        self._answering = Answering(self._administration, self.ledger)
        self.attachments = Attachments(self.directory, self.ledger, settings.lease)
        self.sessions = Sessions()
        self._services = Services(self.directory, self.sessions, self.ledger, self._changed)
        self._leaving = Leaving(self.sessions, self.attachments, self.directory, self.ledger, self._enqueue)
        # Until then nothing is delivered, or None.
        self._held_until: float | None = None
        self._agenda = Agenda()
        self._containment = Containment(self.ledger, settings.faults)
        # Commands that wait because the journal has no room.
        self._backlog: deque[tuple[str, Command]] = deque()
        self._queued = 0

    # ---- events

    def handle(self, origin: str, command: Command, now: float, wall: float) -> None:
        """Takes a command in; `run` does the work."""
        self.ledger.clock(now, wall)
        if self.attachments.grants.merges(command):
            return
        if self._backlog or not self.ledger.has_room:
            self._backlog.append((origin, command))
        else:
            self._take(origin, command)

    def _take(self, origin: str, command: Command) -> None:
        self.ledger.work.pay(1)
        last = self.ledger.last_lsn()
        try:
            self._route(origin, command)
        except TocsinError as error:
            self._refuse(origin, command, error)
        except Exception as error:
            self._refuse(origin, command, self._containment.fault(f"taking in {type(command).__name__}", error, last))

    @property
    def congested(self) -> bool:
        """More commands wait than should: whoever brings them had better wait for a while."""
        return self.waiting > INBOX_COMMANDS_MAX

    @property
    def waiting(self) -> int:
        """Commands that were taken in and not carried out yet."""
        return len(self._backlog) + self._queued + len(self._answering.waiting)

    def durable(self, now: float, wall: float) -> None:
        """Journal records have reached the disk."""
        self.ledger.clock(now, wall)
        lsn = int(self.ledger.journal.durable_lsn)
        self.ledger.durable(lsn)
        for destination in self._agenda.durable(lsn):
            state = self.directory.by_id.get(destination)
            if state is not None:
                self._containment.run(_SHOWING, None, committed, state, self.ledger)
                if state.busy:
                    self._agenda.add(destination)
        self._agenda.room()

    def resume(self) -> None:
        """After recovery: look at every destination once, for what is due."""
        for state in self.directory:
            begin_reserves(state, self.ledger)
            resume_drains(state, self.ledger.now)
            self._agenda.add(state.id)

    def take_blocks(self, destination: int, blocks: Sequence[tuple[int, Bytes | JournalDamaged | None]]) -> None:
        """Cold reads have come back; None for a record that is not there any more."""
        state = self.directory.by_id.get(destination)
        # The one that was asked for comes first, and is put into the cache last: the others must not push it out.
        for lsn, payload in reversed(blocks):
            take_block(state, lsn, payload, self.ledger)
        if state is not None:
            for view in state.views.values():
                view.idle = False
            self._agenda.add(destination)

    def tick(self, now: float, wall: float) -> None:
        """Time has passed: wake the destinations whose deadline it is."""
        self.ledger.clock(now, wall)
        if self._held_until is not None and self._held_until <= now:
            self.release_deliveries()
        self._containment.run("ending those who have vanished", None, self._end_departures, now)
        for destination in self._agenda.due(now):
            state = self.directory.by_id.get(destination)
            if state is not None and not self._containment.run("doing what was due", False, self._on_time, state):
                self._pause(state)

    def _on_time(self, state: DestinationState) -> bool:
        on_time(state, self.ledger)
        self._agenda.add(state.id)
        return True

    def _pause(self, state: DestinationState) -> None:
        """What failed would fail again at once: others have their turns first."""
        self._agenda.add_at(self.ledger.now + FAULT_PAUSE_SECONDS, state.id)

    def next_deadline(self) -> float | None:
        times = (self._agenda.next_time(), self.sessions.next_deadline(), self._held_until)
        return min((time for time in times if time is not None), default=None)

    # ---- what the host knows

    def origin_gone(self, prefix: str, now: float) -> None:
        """A client manager is gone ("node/boot/"), or one of its links is over ("node/boot/link").

        What came from there waits for the grace, paused: who opens it from elsewhere goes on with it.
        """
        consumers = self.attachments.pause_all_of(prefix)
        self.sessions.gone(prefix, consumers, now + self.settings.grace)

    def adopt_temporary(self, now: float) -> None:
        """After a promotion: temporary destinations stay, if somebody speaks for their connections within the grace."""
        owners = {state.connection: None for state in self.directory if state.connection is not None}
        self.sessions.awaited(owners, now + self.settings.grace)

    def hold_deliveries(self, now: float) -> None:
        """After a promotion: first all client managers say what their consumers hold, then others get the rest.

        Ends with `release_deliveries`, or by itself after the grace.
        """
        self._held_until = now + self.settings.grace
        self._administration.drains.held_up = True

    def release_deliveries(self) -> None:
        self._held_until = None
        self._administration.drains.held_up = False
        self._look_at_all()

    def spare(self, origins: frozenset[str]) -> None:
        """These client managers take what they get slowly: until others are named, nothing is delivered to them."""
        fewer = not self.ledger.spared <= origins
        self.ledger.spared = origins
        if fewer:
            self._look_at_all()

    def _look_at_all(self) -> None:
        """Consumers may get what they could not get before."""
        for state in self.directory:
            if state.in_use() or state.postponed:
                self._agenda.add(state.id)

    def run(self, turns: int = 64) -> bool:
        """Serves destinations that have work, each once; True when there is more to do.

        Ends early when the turns were long ones, so that the loop can attend to its sockets.
        """
        ledger, work = self.ledger, self.ledger.work
        ledger.delivered_bytes = 0
        work.begin()
        while self._backlog and ledger.has_room and not work.is_over:
            self._take(*self._backlog.popleft())
        for _ in range(min(turns, len(self._agenda))):
            destination = self._agenda.take()
            state = self.directory.by_id.get(destination)
            if state is None:
                continue
            if self._serve(state):
                self._agenda.add(destination)
            if work.is_over:
                break
        more = self._answering.resume(self._take) or len(self._agenda) > 0
        return more or (bool(self._backlog) and ledger.has_room)

    def settle_reserves(self) -> None:
        """Before a clean stop: note exactly what was delivered, so that nothing else is called redelivered (D3)."""
        for state in self.directory:
            end_reserves(state, self.ledger)

    def take_replies(self) -> list[tuple[str, Reply]]:
        out, self.ledger.out = self.ledger.out, []
        return out

    def take_reads(self) -> list[ReadBlocks]:
        reads, self.ledger.reads = self.ledger.reads, []
        return reads

    def take_drops(self) -> list[DropStream]:
        drops, self.ledger.drops = self.ledger.drops, []
        return drops

    def take_name_changes(self) -> list[str]:
        """Names whose entry has changed: client managers that remember it must be told."""
        changed, self._services.names.changed = self._services.names.changed, []
        return changed

    # ---- routing

    def _route(self, origin: str, command: Command) -> None:
        """Everything about a destination goes through its inbox, so that nothing overtakes what came before it."""
        match command:
            case Publish():
                self.sessions.check_speaker(origin, command.session)
                state = self.directory.by_id.get(command.destination)
                if state is None or state.inbox or self.ledger.work.is_over:
                    self._enqueue(state, origin, command)
                else:
                    self._publish_at_once(state, origin, command)
            case CloseProducer():
                self.sessions.check_speaker(origin, command.session)
                self._enqueue(self.directory.by_id.get(command.destination), origin, command)
            case SettleMessages() | GrantCredit() | CloseConsumer():
                self._enqueue(self.attachments.place_of(command.key), origin, command)
            case OpenProducer() | OpenConsumer():
                self.sessions.check(command, self.directory.session_epochs)
                state = self._place_for(command)
                if "/" in origin:
                    self.directory.note_session(command.session, command.epoch, self.ledger)
                self.sessions.arrived(origin, command, state.id)
                if isinstance(command, OpenConsumer):
                    self.attachments.opening[command.key] = state
                self._enqueue(state, origin, command)
            case Administer():
                self._route_request(origin, command)
            case _:
                self._route_ending(origin, command)

    def _place_for(self, command: OpenProducer | OpenConsumer) -> DestinationState:
        address = command.destination
        if command.incarnation:
            self._make_way(address.name, command.incarnation)
        # A replay reads what was stored: it does not create the topic that it was mistyped for.
        if isinstance(command, OpenConsumer) and command.mode == "replay":
            return self.directory.find(address)
        return self.directory.find_or_create(address, self.ledger, command.incarnation, user=command.user)

    def _make_way(self, name: str, incarnation: int) -> None:
        """An older destination of the name is gone, by the directory of names: what is left of it goes here too."""
        older = self.directory.outdated(name, incarnation, self.ledger)
        if older is not None:
            self._delete_destination(older)

    def _route_request(self, origin: str, command: Administer) -> None:
        operation, fields = command.operation, command.fields
        incarnation = fields.get("incarnation")
        if incarnation and isinstance(incarnation, int) and "destination" in fields:
            name = parse_destination(str(fields["destination"])).name
            # To delete what is deleted is done already.
            if operation != "destination.delete" or self.directory.has(name):
                self._make_way(name, incarnation)
        if self._services.answer(origin, command):
            return
        state = self._administration.concerns(operation, fields)
        if state is not None:
            self._enqueue(state, origin, command)
            return
        if operation == "temporary.create":
            self.sessions.connections[fields["connection"]] = origin
        self._answering.run_or_wait(origin, command)

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
                self._leaving.close(origin, command)
            case PauseSession():
                self._leaving.pause(origin, command)
            case CloseConnection():
                if self.sessions.closes(command.connection, origin):
                    self._delete_temporary({command.connection})
                if command.request:
                    self.ledger.reply(origin, Answer(command.request, {}), self.ledger.last_lsn())

    def _end_departures(self, now: float) -> None:
        if not self.congested:
            self._delete_temporary(self._leaving.end_departures(now))

    def _delete_temporary(self, connections: set[bytes]) -> None:
        for state in [state for each in connections for state in self.directory.temporaries_of(each)]:
            self._delete_destination(state)

    def _enqueue(self, state: DestinationState | None, origin: str, command: Command | Leave) -> None:
        if state is None:
            raise InvalidDestination("The destination has been deleted.")
        state.inbox.append((origin, command))
        self._queued += 1
        self._agenda.add(state.id)

    def _refuse(self, origin: str, command: Command | Leave, error: TocsinError) -> None:
        self.attachments.refused(command)
        if isinstance(command, Leave):
            self._leaving.left(command.countdown)
        answer = refusal(command, error)
        if answer is not None:
            # What the same client did before may still be on its way to the disk: no answer overtakes it.
            lsn = self.ledger.last_lsn() if isinstance(answer, SettledTo | Answer) else 0
            self.ledger.reply(origin, answer, lsn)

    # ---- one destination's turn

    def _serve(self, state: DestinationState) -> bool:
        ledger, work = self.ledger, self.ledger.work
        # Who is alone has the whole run.
        left = work.left - ROWS_PER_STEP if len(self._agenda) else min(0, work.left - ROWS_PER_STEP)
        last = ledger.last_lsn()
        self._containment.run(_SHOWING, None, committed, state, ledger)
        if state.postponed:
            self._queued += state.ask_again()
        while state.inbox and ledger.has_room and work.left > left:
            origin, command = state.inbox.popleft()
            self._queued -= 1
            self._carry_out(state, origin, command)
        if state.id not in self.directory.by_id:
            return False
        more = self._containment.run("giving out messages", None, self._give_out, state)
        if ledger.last_lsn() > last:
            self._agenda.add_when_durable(ledger.last_lsn(), state.id)
        if more is None:
            self._pause(state)
        if state.inbox and not ledger.has_room:
            self._agenda.add_when_room(state.id)
            return bool(more)
        return bool(more or state.inbox)

    def _give_out(self, state: DestinationState) -> bool:
        """What a turn does that is nobody's command; True when there is more of it."""
        ledger = self.ledger
        overdue = release_due(state, ledger)
        step = Step(self.settings.lease)
        more = dispatch(state, ledger, step) if self._held_until is None else False
        ledger.work.pay_step(step)
        if state.readers:
            more |= self.attachments.serve_readers(state)
        if state.removals:
            more |= self._process_removals(state)
        self._schedule(state)
        if (overdue or state.removals) and not ledger.has_room:
            self._agenda.add_when_room(state.id)
        return more or (overdue and ledger.has_room)

    def _carry_out(self, state: DestinationState, origin: str, command: Command | Leave) -> None:
        self.ledger.work.pay(1)
        last = self.ledger.last_lsn()
        try:
            self._execute(state, origin, command)
        except TocsinError as error:
            self._refuse(origin, command, error)
        except Exception as error:
            self._refuse(
                origin, command, self._containment.fault(f"carrying out {type(command).__name__}", error, last)
            )

    def _execute(self, state: DestinationState, origin: str, command: Command | Leave) -> None:
        ledger = self.ledger
        match command:
            case Publish():
                publish(state, origin, command, ledger)
            case SettleMessages():
                self._go_on(state, origin, self.attachments.settle(state, origin, command))
            case GrantCredit():
                self.attachments.grant(origin, command)
            case OpenProducer():
                open_producer(state, origin, command, ledger)
            case OpenConsumer():
                lsn = self.attachments.open(state, origin, command)
                if lsn:
                    self._agenda.add_when_durable(lsn, state.id)
            case CloseConsumer():
                self.attachments.close(origin, command)
            case Administer():
                try:
                    self._answering.run(origin, command)
                except NotYet:
                    state.postpone(origin, command)
            case _:
                self._execute_ending(state, origin, command)

    def _go_on(self, state: DestinationState, origin: str, rest: Command | Leave | None) -> None:
        """What is left of a long command comes before everything else, when others had their turn."""
        if rest is not None:
            state.inbox.appendleft((origin, rest))
            self._queued += 1

    def _execute_ending(self, state: DestinationState, origin: str, command: Command | Leave) -> None:
        match command:
            case CloseProducer():
                self._leaving.close_producer(state, command.session)
            case PauseSession():
                self.attachments.pause(command.session, state)
            case Leave():
                self._go_on(state, origin, self._leaving.leave(state, command))
            case _:
                raise IllegalState(f"{type(command).__name__} is not a command for a destination.")

    # ---- destinations that go

    def _delete_destination(self, state: DestinationState) -> None:
        self.attachments.end_all(state, InvalidDestination(f"{state.address} has been deleted."))
        self.directory.delete(state, self.ledger)
        self._empty_inbox(state)

    def _empty_inbox(self, state: DestinationState) -> None:
        """A destination is gone: whoever waits for it gets an answer."""
        self._agenda.forget(state.id)
        self._queued += state.ask_again() - len(state.inbox)
        while state.inbox:
            origin, command = state.inbox.popleft()
            self._refuse(origin, command, InvalidDestination(f"{state.address} has been deleted."))

    # ---- work that is nobody's command

    def _process_removals(self, state: DestinationState) -> bool:
        """True when there is more than one turn does."""
        dead = self.directory.dead_messages(self.ledger)
        targets: set[int] = {dead.id}
        moved = process_removals(state, dead, partial(origin_of, self.directory, self.ledger, targets), self.ledger)
        for target in targets if moved else ():
            self._agenda.add_when_durable(self.ledger.last_lsn(), target)
        return moved >= REMOVALS_PER_TURN

    def _changed(self, state: DestinationState) -> None:
        """Somebody else's request has changed a destination."""
        self._agenda.add_when_durable(self.ledger.last_lsn(), state.id)
        self._schedule(state)

    def _schedule(self, state: DestinationState) -> None:
        wake = next_wake(state, self.ledger)
        if wake is not None:
            self._agenda.add_at(wake, state.id)
