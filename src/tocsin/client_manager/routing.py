"""Commands to the groups that they are for, and answers back, with all that must be said again on a new link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tocsin.client_manager.dead_letters import group_of_part
from tocsin.client_manager.destination_requests import DestinationRequests
from tocsin.client_manager.group_link import GroupLink, LinkPhase
from tocsin.client_manager.merging import MERGES, merge_ended
from tocsin.client_manager.pending import Done, Gathering, Pending, numbered
from tocsin.client_manager.placement import Places
from tocsin.client_manager.stage_routing import StageRouting
from tocsin.client_manager.subscription_names import SubscriptionNames
from tocsin.client_manager.tracking import Book, TrackedConsumer, TrackedProducer
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
    Delivery,
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
    Stored,
    Unreadable,
)  # fmt: skip
from tocsin.cluster.slots import SlotTable
from tocsin.model.destination import DEAD_MESSAGES
from tocsin.model.errors import IllegalState, InvalidClientId, InvalidDestination, StaleName, TocsinError
from tocsin.model.identity import DestinationId
from tocsin.model.ranges import Range, unpack_ranges


@dataclass(frozen=True, slots=True)
class ClientSide:
    """Where answers go, and what clients must know after a new link began."""

    answer: Callable[[Reply], None]
    gone: Callable[[ConsumerKey, list[Range], list[Range]], None]
    """Messages are not a consumer's any more, and which messages are acknowledged."""
    moved: Callable[[bytes, int, DestinationId], None]
    """A producer's destination has this id now."""
    evict: Callable[[bytes, TocsinError], None]
    """Another connection has got this one's client id."""
    is_wanted: Callable[[int], bool]
    """Whether somebody still waits for the answer to a request; also True for those that are not of clients."""


class Router:
    def __init__(
        self, links: dict[int, GroupLink], slots: SlotTable, next_request: Callable[[], int],
        clients: ClientSide,
    ) -> None:  # fmt: skip
        self._links = links
        self._groups: Sequence[int] = sorted(links)
        self._next_request = next_request
        self._answer = clients.answer
        self._gone = clients.gone
        self._moved = clients.moved
        self._evict = clients.evict
        # Requests that open again what was open, on the link of now; the next link has its own.
        self._repeated: dict[int, dict[int, Done]] = {group: {} for group in links}
        self._book = Book()
        # Client ids, each with its connection, whose release the group has not answered yet.
        self._releasing: set[tuple[str, bytes]] = set()
        self._pending = Pending(self._send, clients.is_wanted)
        self.places = Places(slots, self._groups, self.ask)
        self._subscriptions = SubscriptionNames(self._groups, self.ask)
        self._stages = StageRouting(self.places, self.ask, self._answer)
        self._destinations = DestinationRequests(self.places, self._pending, self.ask, self._answer)

    def _send(self, group: int, command: Command) -> bool:
        return self._links[group].send(command)

    def ask(self, group: int, operation: str, fields: dict[str, Any], done: Callable[[Answer | Failed], None]) -> None:
        """A request of our own."""
        self._pending.ask(group, Administer(self._next_request(), operation, fields), done)

    # ---- commands of the client manager

    def route(self, command: Command) -> None:
        match command:
            case Publish():
                self._publish(command)
            case SettleMessages():
                self._settle(command)
            case GrantCredit():
                consumer = self._book.consumer(command.key)
                if consumer is not None:
                    self._send(consumer.group, consumer.granted(command))
            case OpenProducer():
                self._open_producer(command)
            case OpenConsumer():
                self._open_consumer(command)
            case CloseProducer():
                self._close_producer(command)
            case CloseConsumer():
                self._close_consumer(command)
            case CloseSession() | PauseSession() | CloseConnection():
                self._route_ending(command)
            case Administer():
                self._administer(command)

    def _publish(self, command: Publish) -> None:
        producer = self._book.producer(command.session, command.producer)
        if producer is None:
            block = command.block
            last = block.first_sequence + block.count - 1
            error = IllegalState("The producer is closed.")
            self._answer(NotStored(command.session, command.producer, block.first_sequence, last, error))
            return
        producer.published(command)
        self._send(producer.group, command)

    def _settle(self, command: SettleMessages) -> None:
        consumer = self._book.consumer(command.key)
        if consumer is None:
            # It is closed: there is nothing left to settle.
            self._answer(SettledTo(command.key, command.settle.number))
            return
        consumer.settling(command.settle)
        self._send(consumer.group, command)

    def _open_producer(self, command: OpenProducer) -> None:
        session = self._book.session(command.session, command.epoch)
        number = command.producer

        def placed(group: int, placed: object) -> bool:
            if self._book.sessions.get(session.id) is not session:
                return False
            assert isinstance(placed, OpenProducer)
            session.groups[group] = None
            session.producers[number] = TrackedProducer(group, placed)
            return True

        def done(reply: Answer | Failed) -> None:
            producer = session.producers.get(number)
            if producer is not None and producer.opened.request == reply.request:
                producer.ready = isinstance(reply, Answer)
                if isinstance(reply, Answer):
                    producer.opened.since = reply.fields["since"]
                else:
                    del session.producers[number]
            self._answer(reply)

        self._destinations.start(command, command.destination, True, placed, done)

    def _open_consumer(self, command: OpenConsumer) -> None:
        session = self._book.session(command.session, command.epoch)
        number = command.consumer
        # While its group is being looked up: closing it, or the end of its connection, must not be overlooked.
        session.looking[number] = (command.request, False)

        def placed(group: int, placed: object) -> bool:
            paused = session.is_paused(number, command.request)
            if paused is None or self._book.sessions.get(session.id) is not session:
                return False
            assert isinstance(placed, OpenConsumer)
            session.looking.pop(number, None)
            session.groups[group] = None
            consumer = session.consumers[number] = TrackedConsumer(group, placed)
            consumer.paused = paused
            return True

        def done(reply: Answer | Failed) -> None:
            if session.looking.get(number, (0, False))[0] == reply.request:
                del session.looking[number]
            consumer = session.consumers.get(number)
            if consumer is not None and consumer.opened.request == reply.request:
                consumer.ready = isinstance(reply, Answer)
                consumer.identity = reply.fields.get("identity") if isinstance(reply, Answer) else None
                if not consumer.ready:
                    del session.consumers[number]
                elif consumer.paused:
                    # Its client went away while the request was on its way.
                    self._send(consumer.group, PauseSession(session.id, session.epoch))
            self._answer(reply)

        at = group_of_part(number, self._groups) if command.destination.name == DEAD_MESSAGES else 0
        creates = command.mode != "replay"
        if self._subscriptions.concern(command):
            self._subscriptions.open(
                command,
                lambda then: self._destinations.start(command, command.destination, creates, placed, then),
                done,
            )
        else:
            self._destinations.start(command, command.destination, creates, placed, done, at)

    def _close_producer(self, command: CloseProducer) -> None:
        session = self._book.sessions.get(command.session)
        producer = session.producers.pop(command.producer, None) if session is not None else None
        if producer is not None and command.forget:
            self._send(producer.group, command)

    def _close_consumer(self, command: CloseConsumer) -> None:
        session = self._book.sessions.get(command.key[0])
        consumer = session.consumers.pop(command.key[1], None) if session is not None else None
        if session is not None:
            session.looking.pop(command.key[1], None)
        if consumer is None:
            self._answer(Answer(command.request, {}))
        else:
            self._pending.ask(consumer.group, command, self._answer)

    def _route_ending(self, command: CloseSession | PauseSession | CloseConnection) -> None:
        match command:
            case CloseSession():
                session = self._book.sessions.pop(command.session, None)
                groups = list(session.groups) if session is not None else []
                self._everywhere(groups, command, merge_ended)
            case PauseSession():
                session = self._book.sessions.get(command.session)
                if session is not None:
                    session.pause()
                    for group in session.groups:
                        self._send(group, command)
            case CloseConnection(request=request) if request:
                self._everywhere(self._groups, command, merge_ended)
            case CloseConnection():
                for group in self._groups:
                    self._send(group, command)

    def _everywhere(
        self, groups: Sequence[int], command: CloseSession | CloseConnection | Administer,
        merge: Callable[[list[Answer | Failed]], Answer | Failed],
    ) -> None:  # fmt: skip
        request = command.request
        gathering = Gathering(groups, lambda replies: self._answer(numbered(merge(replies), request)))
        for group in groups:
            self._pending.ask(group, command, gathering.take)
        if not groups:
            self._answer(Answer(request, {}))

    def _administer(self, command: Administer) -> None:
        operation, fields = command.operation, command.fields
        if operation == "subscription.delete" and len(self._groups) > 1:
            self._subscriptions.delete(command, self._answer)
        elif operation in MERGES:
            self._everywhere(self._groups, command, partial(MERGES[operation], command))
        elif self._stages.knows(operation):
            self._stages.start(command)
        elif operation == "connection.keep":
            # Not waited for: every new link begins with it.
            for group in self._groups:
                self._send(group, command)
        elif operation == "client_id.claim":
            self._pending.ask(self.places.slot_group(fields["client_id"]), command, partial(self._claimed, fields))
        elif operation == "client_id.release":
            if self._book.claims.get(fields["client_id"]) == fields["connection"]:
                del self._book.claims[fields["client_id"]]
            self._releasing.add(_claim_of(fields))
            self._pending.ask(self.places.slot_group(fields["client_id"]), command, partial(self._released, fields))
        else:
            self._destinations.administer(command)

    def _released(self, claim: dict[str, Any], reply: Answer | Failed) -> None:
        self._releasing.discard(_claim_of(claim))
        self._answer(reply)

    def _claimed(self, claim: dict[str, Any], reply: Answer | Failed) -> None:
        # Who went before the answer came has released it behind the claim, and must not get it again with a new link.
        if isinstance(reply, Answer) and _claim_of(claim) not in self._releasing:
            self._book.claims[claim["client_id"]] = claim["connection"]
            self._check_elsewhere(claim, reply)
        else:
            self._answer(reply)

    def _check_elsewhere(self, claim: dict[str, Any], granted: Answer) -> None:
        """Durable subscriptions with the client id may lie in any group; nobody waits for one that is away."""
        home = self.places.slot_group(claim["client_id"])
        others = [group for group in self._groups if group != home and self._links[group].phase is LinkPhase.UP]
        if claim["user"] is None or not others:
            self._answer(granted)
            return
        gathering = Gathering(others, partial(self._checked, home, claim, granted))
        for group in others:
            self.ask(group, "client_id.check", claim, gathering.take)

    def _checked(self, home: int, claim: dict[str, Any], granted: Answer, replies: list[Answer | Failed]) -> None:
        failed = [each.error for each in replies if isinstance(each, Failed)]
        refused = next((error for error in failed if isinstance(error, InvalidClientId)), None)
        if refused is None:
            self._answer(granted)
            return
        if self._book.claims.get(claim["client_id"]) == claim["connection"]:
            del self._book.claims[claim["client_id"]]
        self.ask(home, "client_id.release", claim, lambda _: None)
        self._answer(Failed(granted.request, refused))

    def resumed(self, session: bytes) -> None:
        """The client is back. What it had here before may be closed elsewhere, or be open there with others' words."""
        known = self._book.sessions.get(session)
        if known is not None:
            known.resumed()

    # ---- answers of a group

    def answered(self, group: int, reply: Reply) -> None:
        match reply:
            case Stored():
                producer = self._book.producer(reply.session, reply.producer)
                if producer is not None and producer.group == group:
                    producer.stored(reply.sequence)
                    self._answer(reply)
            case Delivery():
                consumer = self._book.consumer(reply.key)
                # What comes before the consumer is open again on this link comes once more behind the answer.
                if consumer is not None and consumer.group == group and consumer.is_open:
                    consumer.delivered(reply)
                    self._answer(reply)
            case SettledTo():
                consumer = self._book.consumer(reply.key)
                if consumer is not None:
                    consumer.settled(reply.number)
                self._answer(reply)
            case NotStored():
                producer = self._book.producer(reply.session, reply.producer)
                if producer is not None and producer.group == group:
                    producer.refused(reply.first, reply.last)
                    self._answer(reply)
            case ConsumerEnded() | Unreadable():
                self._told(reply)
            case Answer() | Failed():
                done = self._repeated[group].pop(reply.request, None)
                if done is not None:
                    done(reply)
                else:
                    self._pending.answered(group, reply)

    def _told(self, reply: ConsumerEnded | Unreadable) -> None:
        session = self._book.sessions.get(reply.key[0])
        if session is not None and isinstance(reply, ConsumerEnded):
            session.consumers.pop(reply.key[1], None)
        self._answer(reply)

    # ---- a new link

    def say_again(self, group: int) -> None:
        """Everything that a group has to hear on a new link, in the order in which it means the same."""
        repeated = self._repeated[group]
        repeated.clear()
        for client_id, connection in self._book.claims.items():
            if self.places.slot_group(client_id) == group:
                fields = {"client_id": client_id, "connection": connection, "again": True}
                claim = Administer(self._next_request(), "client_id.claim", fields)
                repeated[claim.request] = partial(self._claimed_again, client_id, connection)
                self._send(group, claim)
        for session in self._book.sessions.values():
            for command in session.again(group, self._next_request):
                if isinstance(command, OpenConsumer):
                    repeated[command.request] = partial(self._consumer_again, command.key)
                elif isinstance(command, OpenProducer):
                    repeated[command.request] = partial(self._producer_again, command)
                self._send(group, command)
        self._pending.again(group)

    def _claimed_again(self, client_id: str, connection: bytes, reply: Answer | Failed) -> None:
        if isinstance(reply, Failed) and self._book.claims.get(client_id) == connection:
            del self._book.claims[client_id]
            self._evict(connection, reply.error)

    def _producer_again(self, command: OpenProducer, reply: Answer | Failed) -> None:
        """A producer whose destination is gone learns it with the refusal of its next block, as it always does."""
        if isinstance(reply, Answer):
            self._moved(command.session, command.producer, reply.fields["destination"])

    def _consumer_again(self, key: ConsumerKey, reply: Answer | Failed) -> None:
        consumer = self._book.consumer(key)
        if consumer is None or consumer.reopening != reply.request or consumer.left:
            return
        if isinstance(reply, Failed):
            error = reply.error
            if isinstance(error, StaleName):
                error = InvalidDestination(f"{consumer.opened.destination} has been deleted.")
            self._told(ConsumerEnded(key, error))
            return
        gone = consumer.reopened(unpack_ranges(reply.fields.get("kept", b"")))
        if gone:
            self._gone(key, gone, unpack_ranges(reply.fields.get("finished", b"")))


def _claim_of(fields: dict[str, Any]) -> tuple[str, bytes]:
    return fields["client_id"], fields["connection"]
