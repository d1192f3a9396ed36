from __future__ import annotations

import pytest

from tocsin.cluster.commands import (
    Administer,
    Answer,
    CloseConsumer,
    CloseProducer,
    CloseSession,
    ConsumerEnded,
    Failed,
    GrantCredit,
    NotStored,
    OpenConsumer,
    OpenProducer,
    PauseSession,
    Publish,
    SettledTo,
    SettleMessages,
)  # fmt: skip
from tocsin.cluster.refusing import refusal
from tocsin.model.batch import BatchHeader, Block, encode_block
from tocsin.model.destination import Kind, parse_destination
from tocsin.model.errors import InternalError, InvalidDestination
from tocsin.model.identity import DestinationId
from tocsin.wire.frames import Outcome, Settle

WHO, KEY, HERE = b"s" * 16, (b"s" * 16, 4), parse_destination("queue:orders")
ERROR = InvalidDestination("It is gone.")


def test_a_batch_names_its_sequences() -> None:
    header = BatchHeader("orders", Kind.QUEUE, 3, first_sequence=5)
    publish = Publish(WHO, 9, DestinationId(1), Block(encode_block(header, [])), None)
    assert refusal(publish, ERROR) == NotStored(WHO, 9, 5, 7, ERROR)


def test_what_failed_by_a_mistake_is_not_done() -> None:
    error = InternalError("The server made a mistake.")
    assert refusal(CloseConsumer(7, KEY), error) == Failed(7, error)
    assert refusal(SettleMessages(KEY, Settle(4, Outcome.ACKNOWLEDGE, 12, [(0, 3)])), error) == ConsumerEnded(
        KEY, error
    )


def test_closing_and_settling_what_is_gone_is_done() -> None:
    assert refusal(CloseConsumer(7, KEY), ERROR) == Answer(7, {})
    assert refusal(SettleMessages(KEY, Settle(4, Outcome.NACK, 12, [])), ERROR) == SettledTo(KEY, 12)


@pytest.mark.parametrize(
    "command",
    [
        OpenProducer(7, WHO, 1, HERE, WHO),
        OpenConsumer(7, WHO, 1, HERE, WHO, None),
        CloseSession(7, WHO, False),
        Administer(7, "destination.purge"),
    ],
)
def test_a_request_fails_with_the_reason(command: object) -> None:
    assert refusal(command, ERROR) == Failed(7, ERROR)


@pytest.mark.parametrize("command", [GrantCredit(KEY, 1, 1), CloseProducer(WHO, DestinationId(1)), PauseSession(WHO)])
def test_who_does_not_wait_gets_no_answer(command: object) -> None:
    assert refusal(command, ERROR) is None
