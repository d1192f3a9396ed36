"""Request and reply: which reply belongs to which request."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.dialogue import QUEUE, Dialogue

from tocsin.client.core_sessions import SessionState
from tocsin.client.pending import Pending
from tocsin.client.requesting import Replies, Requester
from tocsin.model.batch import Column
from tocsin.model.columns import column_values
from tocsin.model.errors import ConnectionFailed, IllegalState, InvalidDestination
from tocsin.model.message import Message


class Asking:
    """A session and its requests; steps go on when what they wait for is done."""

    def __init__(self) -> None:
        self.dialogue = Dialogue()
        self.dialogue.login()
        self.session: SessionState = self.dialogue.session()
        self.requester = Requester(self.session)
        self.queues = 0

    @property
    def replies(self) -> Replies:
        found = [each for each in self.session.consumers if isinstance(each, Replies)]
        return found[-1]

    def ask(self, body: Any = "question", **options: Any) -> Request:
        return Request(self, self.requester.steps(QUEUE, body, options))  # type: ignore[arg-type]

    def answer_all(self) -> list[str]:
        """What the server was asked for; each is answered."""
        operations = []
        for request in self.dialogue.requests():
            operations.append(request["op"])
            if request["op"] == "temporary.create":
                self.queues += 1
                self.dialogue.answer_one(request, destination=f"queue:_TMP.{self.queues}")
            else:
                self.dialogue.answer_one(request)
        return operations

    def reply(self, correlation: str | None, body: str = "reply", offset: int = 0) -> None:
        self.dialogue.deliver(self.replies, [body], offset=offset, correlation_id=correlation)


class Request:
    def __init__(self, asking: Asking, steps: Any) -> None:
        self._asking, self.steps = asking, steps
        self.result: Any = None
        self.error: BaseException | None = None
        self.waits: Pending | None = None
        self._go_on(steps.send, None)

    def _go_on(self, step: Any, given: Any) -> None:
        try:
            self.waits = step(given)
        except StopIteration as end:
            self.waits, self.result = None, end.value
        except BaseException as error:
            self.waits, self.error = None, error

    def run(self) -> Request:
        while self.waits is not None and self.waits.is_done():
            if self.waits.error is not None:
                self._go_on(self.steps.throw, self.waits.error)
            else:
                self._go_on(self.steps.send, self.waits.result)
        return self

    def sent(self) -> tuple[str, str]:
        """Drives it until its message is confirmed: its correlation id and its message id."""
        asking = self._asking
        for _ in range(6):
            asking.answer_all()
            self.run()
            blocks = asking.dialogue.published()
            if blocks:
                block = blocks[-1]
                (correlation,) = column_values(block, Column.CORRELATION_ID) or [None]
                (lane,) = asking.dialogue.core.lanes.values()
                message_id = lane.inflight[-1].message_id(0)
                asking.dialogue.confirm(lane.number, block.first_sequence)
                self.run()
                return str(correlation), str(message_id)
        raise AssertionError(f"nothing was sent: {self.error!r}")


@pytest.mark.parametrize("which", ["correlation", "message", "none"])
def test_a_reply_is_known_by_correlation_id_message_id_or_the_lack_of_one(which: str) -> None:
    asking = Asking()
    request = asking.ask()
    correlation, message_id = request.sent()
    asking.reply({"correlation": correlation, "message": message_id, "none": None}[which])
    assert request.run().result.body == "reply"


def test_replies_come_in_any_order_and_each_goes_to_its_own_request() -> None:
    asking = Asking()
    first, second, third = asking.ask("1"), asking.ask("2"), asking.ask("3")
    ids = [first.sent(), second.run().sent(), third.run().sent()]
    assert asking.queues == 1, "one queue for all"
    asking.reply(ids[2][0], "third", 0)
    asking.reply(ids[0][1], "first", 1)
    asking.reply(ids[1][0], "second", 2)
    assert [each.run().result.body for each in (first, second, third)] == ["first", "second", "third"]


def test_a_reply_that_names_nobody_is_clear_only_while_one_waits() -> None:
    asking = Asking()
    first, second = asking.ask("1"), asking.ask("2")
    ids = [first.sent(), second.run().sent()]
    asking.reply(None, "whose?", 0)
    assert first.run().result is None and second.run().result is None
    asking.reply(ids[1][0], "second", 1)
    assert second.run().result.body == "second"
    asking.reply(None, "first", 2)
    assert first.run().result.body == "first"


def test_a_late_reply_to_another_request_is_dropped() -> None:
    asking = Asking()
    given_up = asking.ask()
    late, _ = given_up.sent()
    given_up.steps.close()
    request = asking.ask()
    correlation, _ = request.sent()
    asking.reply(late, "late", 0)
    assert request.run().result is None
    asking.reply(correlation, "in time", 1)
    assert request.run().result.body == "in time"


def test_a_reply_that_names_a_message_whose_id_is_not_known_yet_is_kept_for_it() -> None:
    asking = Asking()
    request = asking.ask()
    _, message_id = request.sent()
    waiting = asking.replies.expect("another")
    assert request.waits is not None
    handle = next(iter(asking.replies._waiting.values())).handle
    asking.replies.forget(next(iter(asking.replies._waiting)))
    asking.reply(message_id, "early")
    assert handle is not None
    asking.replies.sent(waiting, handle)
    assert waiting.result.body == "early"


def test_the_messages_own_correlation_id_is_kept_and_waits_once() -> None:
    asking = Asking()
    request = asking.ask(Message("question", correlation_id="order-7"))
    assert request.sent()[0] == "order-7"
    again = asking.ask(correlation_id="order-7")
    assert isinstance(again.run().error, IllegalState) and "order-7" in str(again.error)
    asking.reply("order-7")
    assert request.run().result.body == "reply"


def test_a_queue_that_is_lost_fails_who_waits_and_the_next_request_makes_another() -> None:
    asking = Asking()
    request = asking.ask()
    request.sent()
    asking.replies.fail(InvalidDestination("There is no queue '_TMP.1'."))
    asking.session._forget_consumer(asking.replies)
    assert isinstance(request.run().error, ConnectionFailed) and "ask again" in str(request.error)
    another = asking.ask()
    correlation, _ = another.sent()
    assert asking.queues == 2
    asking.reply(correlation)
    assert another.run().result.body == "reply"


def test_who_is_given_up_while_the_queue_is_made_leaves_nothing_behind() -> None:
    for answered in range(2):
        asking = Asking()
        request, other = asking.ask(), asking.ask()
        for _ in range(answered):
            asking.answer_all()
            request.run()
        request.steps.close()
        left = asking.answer_all()
        assert "destination.delete" in left + asking.answer_all()
        assert not [each for each in asking.session.consumers if isinstance(each, Replies)]
        correlation, _ = other.run().sent()
        asking.reply(correlation)
        assert other.run().result.body == "reply"


def test_the_end_of_the_session_ends_who_waits() -> None:
    asking = Asking()
    request = asking.ask()
    request.sent()
    asking.session.end()
    assert isinstance(request.run().error, ConnectionFailed)
