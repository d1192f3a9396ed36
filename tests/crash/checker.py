"""After a crash: reopen, send again what was not confirmed, take everything out, and hold it against the history.

Nothing confirmed is lost; nothing whose acknowledgement was confirmed comes back; nothing is there twice; what was
delivered before says so; what a producer sent comes in its order.
"""

from __future__ import annotations

from collections import Counter

from tests.crash.history import History, Taken, body_of
from tests.crash.workload import APP, KEPT, LIMIT, RING, RING_BYTES, STAGED, VIEWS, consume, setup
from tests.message_manager.dialogue import check

from tocsin.testing.clock import VirtualClock
from tocsin.testing.disk import SimulatedDisk
from tocsin.testing.driver import Driver
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.testing.scripted_session import Received, ScriptedSession

AFTER_EVERYTHING_SECONDS = 60.0
"""By then all that was delayed is due and all that expires has expired."""


def verify(disk: SimulatedDisk, clock: VirtualClock, history: History, *, twice: bool = False) -> None:
    later = VirtualClock(clock.wall() - clock.now())
    later.advance(clock.now())
    driver = Driver(setup(), disk, later, boot=2)
    check(driver.manager)
    if history.client is None or history.session is None:
        return
    client = driver.connect("me", resume=history.client)
    session = client.session(history.session.number, history.session)
    for stage in history.stages:
        client.request("stage.open", destination=stage["destination"], stage=stage["stage"])
    _send_again(session, history)
    _commit_again(client, history)
    driver.advance(AFTER_EVERYTHING_SECONDS)
    check(driver.manager)
    buried = _drain(session, "queue:_DMQ") if history.lines else []
    graves = Counter(body_of(message) for message in buried)
    for view, taken in history.views.items():
        if view in history.lines:
            _check_view(history, view, taken, _drain(session, view), graves)
    _check_retained(session, history)
    if twice:
        _check_empty(driver)


def _send_again(session: ScriptedSession, history: History) -> None:
    """A client's resume: the server says what it has, the rest is sent again, in order."""
    for name, line in history.lines.items():
        producer = session.producer(name, line.producer)
        assert producer.confirmed >= line.producer.confirmed, f"{name}: confirmed messages are lost"
        assert producer.confirmed <= len(line.bodies), f"{name}: more is stored than was sent"
        for last, block in line.blocks:
            if last > producer.confirmed:
                producer.resend(block)
        assert not producer.refused, f"{name}: {producer.refused[:1]}"
        assert producer.confirmed == len(line.bodies), f"{name}: not all could be sent again"


def _commit_again(client: ScriptedClient, history: History) -> None:
    """Nobody knows whether the last epoch was committed; those before it were."""
    if history.epoch < 0:
        return
    last = client.request("stage.last", app=APP, destinations=[STAGED])["epoch"]
    before = history.epoch - 3 if history.epoch else -1
    assert last in (before, history.epoch), f"epoch {last} was the last, and {history.epoch} is under way"
    done = client.request("stage.commit", app=APP, epoch=history.epoch, stages=history.stages)
    assert done["committed"] is (last < history.epoch)
    again = client.request("stage.commit", app=APP, epoch=history.epoch, stages=history.stages)
    assert (again["committed"], again["epoch"]) == (False, history.epoch)


def _drain(session: ScriptedSession, view: str) -> list[Received]:
    consumer = consume(session, view)
    messages = consumer.take()
    consumer.ack(*messages)
    assert consumer.settled == consumer.last_settlement
    consumer.close()
    return messages


def _check_view(history: History, view: str, taken: Taken, messages: list[Received], graves: Counter[str]) -> None:
    sent = history.lines[view].bodies
    found = {body_of(message): message for message in messages}
    assert len(found) == len(messages), f"{view}: delivered twice"
    assert found.keys() <= set(sent), f"{view}: {sorted(found.keys() - set(sent))[:3]} was never sent"
    seen = taken.seen()
    for body in sent:
        places = (body in found) + graves[body]
        assert places <= 1, f"{view}: {body} is there {places} times"
        if taken.is_gone(body):
            assert not places, f"{view}: {body} was acknowledged and is back"
            continue
        assert places or body in taken.acknowledged, f"{view}: {body} is lost"
        attempts = taken.attempts(body)
        if body in found:
            assert found[body].redelivered or body not in seen, f"{view}: {body} does not say that it was delivered"
            assert found[body].count > attempts, f"{view}: {body} forgot its attempts"
            assert attempts < LIMIT, f"{view}: {body} was refused {attempts} times and is offered again"
            assert not body.startswith("short"), f"{view}: {body} has expired"
        elif graves[body]:
            assert body.startswith("short") or len(taken.refused.get(body, ())) >= LIMIT, f"{view}: why is {body} dead?"
    order = [sent.index(body_of(message)) for message in messages if body_of(message) not in taken.refused]
    assert order == sorted(order) or view == "queue:later", f"{view}: out of order"


def _check_retained(session: ScriptedSession, history: History) -> None:
    for name in (KEPT, RING):
        if name not in history.lines:
            continue
        reader = session.consumer(name, mode="replay", start={"at": "earliest"})
        messages = reader.take()
        sent = history.lines[name].bodies
        offsets = [message.offset for message in messages]
        assert offsets == list(range(offsets[0] if offsets else 0, len(sent))), f"{name}: offsets have holes"
        found = [body_of(message) for message in messages]
        assert len(set(found)) == len(found), f"{name}: stored twice"
        if name == KEPT:
            assert sorted(found) == sorted(sent), f"{name}: lost or invented"
            prompt = [body for body in found if "later" not in body]
            assert prompt == [body for body in sent if "later" not in body], f"{name}: out of order"
        else:
            assert found == sent[len(sent) - len(found) :], f"{name}: not its latest messages"
            size = sum(len(frame.payload) for frame in reader.deliveries)
            assert len(found) == len(sent) or size > RING_BYTES // 2, f"{name}: too much was dropped"
        reader.close()


def _check_empty(driver: Driver) -> None:
    """Everything has been acknowledged: after one more crash nothing is back."""
    again = driver.crash()
    session = again.connect("me").session()
    for view in (*VIEWS, "queue:_DMQ"):
        assert _drain(session, view) == [], f"{view}: something is back after the second crash"
