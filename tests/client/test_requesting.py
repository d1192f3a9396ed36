"""Request and reply: which reply belongs to which request."""

from __future__ import annotations

from typing import Any

from tests.client.dialogue import QUEUE, Dialogue

from tocsin.client.producing import Defaults, ProducerBase
from tocsin.client.requesting import Requester
from tocsin.model.batch import Column
from tocsin.model.columns import column_values
from tocsin.model.destination import Destination, Kind
from tocsin.model.message import Message

REPLIES = Destination(Kind.QUEUE, "_TMP.1", True)


class Holder:
    def __init__(self, state: Any) -> None:
        self._state = state


def asked(body: Any) -> tuple[Dialogue, Any, Any, str, str]:
    """A request under way: the dialogue, its consumer, its steps, its correlation id and its message id."""
    dialogue = Dialogue()
    dialogue.login()
    session = dialogue.session()
    consumer = dialogue.consumer(session, destination=REPLIES)
    steps = Requester(REPLIES, ProducerBase(session, None, Defaults()), Holder(consumer)).steps(QUEUE, body, {})
    sent = next(steps)
    dialogue.answer()
    (block,) = dialogue.published()
    assert column_values(block, Column.REPLY_TO) == ["queue:_TMP.1"]
    (correlation,) = column_values(block, Column.CORRELATION_ID) or [None]
    (lane,) = dialogue.core.lanes.values()
    message_id = lane.inflight[0].message_id(0)
    dialogue.confirm(lane.number, 1)
    assert sent.is_done()
    steps.send(None)
    assert message_id is not None
    return dialogue, consumer, steps, str(correlation), message_id


def reply(dialogue: Dialogue, consumer: Any, steps: Any, offset: int, correlation: str | None) -> Any:
    waiting = consumer.when_ready()
    dialogue.deliver(consumer, [f"reply {offset}"], offset=offset, correlation_id=correlation)
    assert waiting.is_done()
    try:
        steps.send(None)
    except StopIteration as end:
        return end.value
    return None


def test_a_reply_is_known_by_correlation_id_message_id_or_the_lack_of_one() -> None:
    for which in ("correlation", "message", "none"):
        dialogue, consumer, steps, correlation, message_id = asked("question")
        given = {"correlation": correlation, "message": message_id, "none": None}[which]
        answer = reply(dialogue, consumer, steps, 0, given)
        assert answer is not None
        assert answer.body == "reply 0"


def test_a_late_reply_to_another_request_is_dropped() -> None:
    dialogue, consumer, steps, correlation, _ = asked("question")
    assert reply(dialogue, consumer, steps, 0, "of an earlier request") is None
    answer = reply(dialogue, consumer, steps, 1, correlation)
    assert answer.body == "reply 1"


def test_the_messages_own_correlation_id_is_kept() -> None:
    dialogue, consumer, steps, correlation, _ = asked(Message("question", correlation_id="order-7"))
    assert correlation == "order-7"
    assert reply(dialogue, consumer, steps, 0, "order-7") is not None
