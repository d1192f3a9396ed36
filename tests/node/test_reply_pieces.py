from __future__ import annotations

import pytest

from tocsin.cluster.commands import Answer, ConsumerEnded, Delivery, Failed, Reply, SettledTo, Stored
from tocsin.cluster.envelope import Replies, decode, encode_replies
from tocsin.model.errors import InternalError
from tocsin.model.faults import Faults
from tocsin.model.limits import COMMANDS_PER_MESSAGE_MAX, REPLIES_BYTES_MAX
from tocsin.node.reply_pieces import Piece, pieces_of

KEY = (b"s" * 16, 3)


def read(piece: Piece) -> list[Reply]:
    message = decode(b"".join(encode_replies(64, 2, 9, piece)))
    assert isinstance(message, Replies) and (message.epoch, message.link, message.committed) == (64, 2, 9)
    return message.replies


def test_a_few_answers_are_one_message() -> None:
    replies: list[Reply] = [Answer(1, {"a": 1}), SettledTo(KEY, 5), Stored(b"s" * 16, 1, 7, 2)]
    (piece,) = pieces_of(replies, Faults())
    assert read(piece) == replies
    assert pieces_of([], Faults()) == []


def test_every_kind_of_answer_counts_by_its_bytes() -> None:
    text = "x" * (REPLIES_BYTES_MAX // 2)
    answers: list[Reply] = [Answer(number, {"text": text}) for number in range(4)]
    deliveries: list[Reply] = [Delivery(KEY, number, 1, [(0, 1, 1, 0)], text.encode()) for number in range(4)]
    pieces = pieces_of(answers + deliveries, Faults())
    assert len(pieces) == 8
    assert [reply for piece in pieces for reply in read(piece)] == answers + deliveries


def test_a_message_has_so_many_answers() -> None:
    pieces = pieces_of([Answer(number, {}) for number in range(COMMANDS_PER_MESSAGE_MAX + 1)], Faults())
    assert [len(piece) for piece in pieces] == [COMMANDS_PER_MESSAGE_MAX, 1]


@pytest.mark.makes_mistakes
def test_what_can_not_be_written_ends_what_it_answers_and_nothing_else() -> None:
    faults = Faults()
    broken: list[Reply] = [
        Answer(1, {"text": "\ud800"}),
        Answer(2, {"text": "x" * 30_000_000}),
        SettledTo(KEY, -1),
        Stored(b"s" * 16, 1, -1, 2),
    ]
    (piece,) = pieces_of([*broken, Answer(3, {})], faults)
    one, two, ended, three = read(piece)
    assert isinstance(one, Failed) and isinstance(two, Failed) and isinstance(ended, ConsumerEnded)
    assert (one.request, two.request, ended.key) == (1, 2, KEY) and isinstance(one.error, InternalError)
    assert three == Answer(3, {}) and faults.count == 4
