"""What the API does, in steps that both shells drive: each yields what it waits for, and holds the lock only between.

The core decides under the lock; a step ends before anything is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from tocsin.client.consumer_spec import ConsumerSpec, check_subscription_name
from tocsin.client.core import Core
from tocsin.client.core_consuming import ConsumerState
from tocsin.client.core_publishing import Lane
from tocsin.client.core_sessions import Fields, SessionState
from tocsin.client.core_settling import NAMED_MAX, take_lost
from tocsin.client.delivered import ReceivedMessage
from tocsin.client.patience import asking
from tocsin.client.pending import Pending, Steps, all_of
from tocsin.model.destination import Kind
from tocsin.model.errors import IllegalState, TimedOut, TocsinError
from tocsin.model.limits import SESSION_CLOSE_SECONDS

ACK_MODES = ("auto", "client", "dups_ok")


def request(
    core: Core, session: int, op: str, fields: Fields | None = None, undo: Callable[[Fields], object] | None = None
) -> Steps[Fields]:
    """Asks the server. When nobody waits any more, what was not sent is withdrawn, and `undo` gets the answer to what
    was, with the lock held.
    """
    with core.port.lock:
        core.check_open()
        pending = core.request(session, op, fields or {})
        core.port.flush()
    try:
        with asking(_asked_of(fields or {})):
            reply: Fields = yield pending
    except BaseException:
        with core.port.lock:
            core.requests.withdraw(pending)
            if undo is not None:
                pending.when_done(partial(_undo, undo))
            core.port.flush()
        raise
    return reply


def _undo(undo: Callable[[Fields], object], answered: Pending) -> None:
    if answered.error is None:
        undo(answered.result)


def _asked_of(fields: Fields) -> str:
    """Whose answer a request waits for."""
    names = [fields["destination"]] if "destination" in fields else list(fields.get("destinations", ()))
    names += [stage["destination"] for stage in fields.get("stages", ())]
    different = list(dict.fromkeys(map(str, names)))
    if not different:
        return "The server"
    more = len(different) - NAMED_MAX
    return ", ".join(different[:NAMED_MAX]) + (f" or one of {more} others" if more > 0 else "")


def open_session(core: Core, ack: str, transacted: bool) -> Steps[SessionState]:
    if transacted:
        raise IllegalState("Transactions are not available in this release; leave transacted away.")
    if ack not in ACK_MODES:
        raise IllegalState(f"{ack!r} is no way to acknowledge; use one of {', '.join(ACK_MODES)}.")
    with core.port.lock:
        session = core.open_session(ack)
        core.port.flush()
    try:
        yield session.opened
    except BaseException:
        with core.port.lock:
            session.end()
            core.port.flush()
        raise
    return session


def close_session(session: SessionState, acknowledge: bool) -> Steps[None]:
    """Settles what was handed out, and ends the session, after a while also without an answer. May be called again."""
    core = session.core
    late: TimedOut | None = None
    if session.closed:
        return
    try:
        if session.failure is None:
            yield from _settle_all(session, acknowledge)
    except TimedOut as error:
        late = TimedOut(f"The session is closed, and what it has settled last may come again. {error}")
    finally:
        # Also when nobody waits any more.
        with core.port.lock:
            closing = session.end()
            core.port.flush()
    # The server may have lost it already, or answer no more: for the application it is closed either way.
    with suppress(TocsinError):
        yield all_of([closing], SESSION_CLOSE_SECONDS)
    if late is not None:
        raise late


def finish_sends(session: SessionState) -> Steps[TimedOut | None]:
    """Waits for all sends. What is not confirmed in time is given up, and named in the error that is returned."""
    core = session.core
    try:
        yield from wait_for_lanes(core, list(session.lanes.values()))
    except TimedOut as error:
        with core.port.lock:
            late = TimedOut(f"The session was closed while {unconfirmed(session.lanes.values())}. {error}")
            for lane in list(session.lanes.values()):
                lane.fail(late)
        return late
    return None


def wait_for_lanes(core: Core, lanes: list[Lane]) -> Steps[None]:
    """Until everything that these lanes have taken is confirmed or refused, as long as there are answers at all.

    Handles and callbacks are told what was refused: here it only counts that there was an answer.
    """
    for lane in lanes:
        with core.port.lock:
            last = lane.last_unconfirmed()
        while last is not None and not last.pending.done:
            with core.port.lock:
                answered = lane.when_answered()
            yield answered


def unconfirmed(lanes: Iterable[Lane]) -> str:
    """What is not confirmed, in words."""
    named = [f"{count:,} to {lane.destination}" for lane in lanes if (count := lane.unconfirmed)]
    more = f" and more to {len(named) - NAMED_MAX} others" if len(named) > NAMED_MAX else ""
    return f"messages were not confirmed, and may be stored or not: {', '.join(named[:NAMED_MAX])}{more}"


def _settle_all(session: SessionState, acknowledge: bool) -> Steps[None]:
    core = session.core
    with core.port.lock:
        for consumer in session.consumers:
            consumer.closed = True
            consumer.let_go(acknowledge)
        durable = [consumer.settlements.when_durable() for consumer in session.consumers]
        core.port.flush()
    yield all_of(durable, SESSION_CLOSE_SECONDS)


def open_consumer(session: SessionState, spec: ConsumerSpec) -> Steps[ConsumerState]:
    core = session.core
    with core.port.lock:
        session.check_open()
        # A closed consumer that waits for acknowledgements would keep its subscription busy.
        busy = [each for each in session.consumers if each.draining and _same_view(each.spec, spec)]
    for consumer in busy:
        yield from close_consumer(consumer, acknowledge=False, finally_=True)
    with core.port.lock:
        consumer = session.consumer(spec)
        core.port.flush()
    yield from until_opened(consumer)
    with core.port.lock:
        if core.autostart:
            core.start()
            core.port.flush()
    return consumer


def until_opened(consumer: ConsumerState) -> Steps[None]:
    """One that nobody waits for any more is not opened, or closed again."""
    core = consumer.session.core
    try:
        with asking(consumer.spec.destination):
            yield consumer.opened
    except BaseException:
        with core.port.lock:
            consumer.session.abandon_consumer(consumer)
            core.port.flush()
        raise


def _same_view(one: ConsumerSpec, other: ConsumerSpec) -> bool:
    return one.destination == other.destination and one.subscription == other.subscription


def close_consumer(consumer: ConsumerState, acknowledge: bool, finally_: bool = False) -> Steps[None]:
    """Ends a consumer. Where the application acknowledges, what it was handed stays locked until it has done so."""
    core, session = consumer.session.core, consumer.session
    if (consumer.closed and not (finally_ and consumer.draining)) or consumer not in session.consumers:
        consumer.closed = True
        return
    with core.port.lock:
        consumer.closed = True
        consumer.draining = False
        keep = session.ack == "client" and not finally_
        consumer.let_go(acknowledge, count=not keep)
        consumer.notify()
        if keep and consumer.settlements.outstanding:
            consumer.draining = True
            core.port.flush()
            return
        durable = consumer.settlements.when_durable()
        core.port.flush()
    try:
        yield durable
    finally:
        # Also when nobody waits any more.
        with core.port.lock:
            closing = session.drop_consumer(consumer)
            core.port.flush()
    yield closing


def receive(consumer: ConsumerState) -> Steps[ReceivedMessage | None]:
    """The next message; None when there will be none. A shell's time limit ends it from outside."""
    core = consumer.session.core
    while True:
        message = consumer.take()
        if message is not None:
            return message
        with core.port.lock:
            check_consumer(consumer)
            if consumer.is_over:
                return None
            ready = consumer.when_ready()
            core.port.flush()
        yield ready


def take_now(consumer: ConsumerState) -> ReceivedMessage | None:
    """The next message if it is here; acknowledgements leave when it is not, as before any wait."""
    message = consumer.take()
    if message is None:
        with consumer.session.core.port.lock:
            check_consumer(consumer)
            if not consumer.lazy:
                consumer.settlements.flush()
            consumer.session.core.port.flush()
    return message


def check_consumer(consumer: ConsumerState) -> None:
    """Raises for a consumer that was broken; one that was closed while somebody waits simply ends."""
    consumer.session.core.check_open()
    if consumer.session.failure is not None:
        raise consumer.session.failure
    if consumer.unreadable:
        raise consumer.unreadable.popleft()
    if consumer.error is not None and not consumer.buffer:
        raise consumer.error


def check_receiving(consumer: ConsumerState) -> None:
    """Before a receive: the application's own mistakes."""
    consumer.check_not_closed()
    if consumer.listening:
        raise IllegalState("The consumer has a listener, which gets all messages; take on_message away to receive.")
    consumer.session.check_open()


def recover(session: SessionState) -> Steps[None]:
    core = session.core
    with core.port.lock:
        session.check_open()
        for consumer in session.consumers:
            if consumer.settles:
                # Others have them: the application does not count on them any more.
                consumer.settlements.lost.clear()
                consumer.recover()
        durable = [consumer.settlements.when_durable() for consumer in session.consumers]
        core.port.flush()
    yield from durable


def acknowledge(session: SessionState) -> Steps[None]:
    """Acknowledges all that was handed out, and waits until that is durable."""
    session.acknowledge_all()
    yield from until_acknowledged(session.consumers)


def until_acknowledged(consumers: list[ConsumerState]) -> Steps[None]:
    """Raises NotAcknowledged for what was handed out and has gone to others."""
    yield from until_durable(consumers)
    if consumers:
        with consumers[0].session.core.port.lock:
            error = take_lost(consumers)
        if error is not None:
            raise error


def until_durable(consumers: list[ConsumerState], check: Callable[[], None] | None = None) -> Steps[None]:
    """Waits until what was settled is durable; then `check`, which is called with the lock held, may raise."""
    if not consumers:
        return
    core = consumers[0].session.core
    with core.port.lock:
        for consumer in consumers:
            consumer.settlements.flush()
        durable = [consumer.settlements.when_durable() for consumer in consumers]
        core.port.flush()
    waiting = [consumer for consumer in consumers if consumer.draining]
    yield from durable
    # A closed consumer ends at the server when its last message is acknowledged; its subscription is free then.
    for consumer in waiting:
        if consumer.closing is not None:
            with suppress(TocsinError):
                yield consumer.closing
    if check is not None:
        with core.port.lock:
            check()


def unsubscribe(session: SessionState, name: str, durable: bool) -> Steps[None]:
    with session.core.port.lock:
        session.check_open()
    check_subscription_name(name)
    fields = {"subscription": name, "durable": durable}
    yield from request(session.core, session.number, "subscription.delete", fields)


def create_temporary(session: SessionState, kind: Kind) -> Steps[str]:
    with session.core.port.lock:
        session.check_open()
    core = session.core

    def undo(reply: Fields) -> None:
        core.request(0, "destination.delete", {"destination": reply["destination"]})

    reply = yield from request(core, session.number, "temporary.create", {"kind": kind.word}, undo)
    return str(reply["destination"])
