"""Readers of ranges: raw blocks, credit in bytes, and where they go on."""

from __future__ import annotations

import pytest
from tests.client.dialogue import QUEUE, TOPIC, Dialogue, bodies_of, drive, make_block

from tocsin.client import reading
from tocsin.client.core_reading import RangeState
from tocsin.model import errors
from tocsin.model.limits import KIB, RANGE_MESSAGES
from tocsin.wire.frames import Deliver, FrameType, control, write_deliver

BUFFER = 64 * KIB


def opened(start: int = 0, end: int = 100, **more: object) -> tuple[Dialogue, RangeState]:
    dialogue = Dialogue()
    dialogue.login()
    session = dialogue.session()
    terms = {"columns": None, "selector": None, "prefetch_bytes": BUFFER, "skip_removed": False, "drain": None} | more
    steps = reading.open_range(session, reading.range_spec(TOPIC, start, end, **terms))  # type: ignore[arg-type]
    drive(steps)
    (request,) = dialogue.answer()
    dialogue.heard.clear()
    pending, state = drive(steps)
    assert pending is None and isinstance(state, RangeState)
    assert request["op"] == "consumer.open" and request["mode"] == "replay"
    assert (request["messages"], request["bytes"]) == (RANGE_MESSAGES, BUFFER)
    assert request["start"]["offset"] == start and request["start"]["end"] == end
    return dialogue, state


def end(dialogue: Dialogue, state: RangeState, **fields: object) -> None:
    dialogue.say(control(FrameType.NOTICE, 1, {"consumer": state.number, "end": True, **fields}))


def test_blocks_come_as_they_were_sent_and_are_not_decoded() -> None:
    dialogue, state = opened()
    dialogue.deliver(state, ["a", "b", "c"], offset=40, ranges=[(1, 2, 1, 0), (2, 3, 1, 0)])
    found = state.take_block()
    assert found is not None and state.take_block() is None
    assert (found.offset, found.append_time, found.ranges, found.messages) == (40, 1, [(1, 2), (2, 3)], 2)
    assert bodies_of(found.block) == [b"a", b"b", b"c"] and isinstance(found.block.data, memoryview)


def test_what_is_asked_for_reaches_the_server() -> None:
    dialogue = Dialogue()
    dialogue.login()
    spec = reading.range_spec("topic:prices", 1, 2, ("key", "property:x"), "x > 1", BUFFER, True, ("query", 7))
    steps = reading.open_range(dialogue.session(), spec)
    drive(steps)
    (request,) = dialogue.requests()
    expected = {
        "offset": 1,
        "end": 2,
        "columns": ["key", "property:x"],
        "skip_removed": True,
        "drain": "query",
        "take": 7,
    }
    assert (request["start"], request["selector"], request["destination"]) == (expected, "x > 1", "topic:prices")


def test_credit_is_raised_by_what_was_taken_and_never_beyond_the_buffer() -> None:
    dialogue, state = opened()
    size = len(make_block([b"x" * 10_000]))
    for offset in range(3):
        dialogue.deliver(state, [b"x" * 10_000], offset=offset)
    assert dialogue.credits() == []
    state.take_block()
    assert dialogue.credits() == [], "less than a quarter was taken"
    state.take_block()
    (credit,) = dialogue.credits()
    assert credit.bytes == 3 * size + BUFFER - size and credit.messages == RANGE_MESSAGES
    state.take_block()
    assert dialogue.credits() == []


def test_who_waits_has_counted_all_that_it_took() -> None:
    dialogue, state = opened()
    for offset in range(20):
        dialogue.deliver(state, [b"x" * 1_000], offset=offset)
    steps = [drive(reading.next_block(state)) for _ in range(21)]
    assert [found.offset for _, found in steps[:-1]] == list(range(20)) and steps[-1][0] is not None
    assert state.buffered_bytes == 0 and len(dialogue.credits()) == 1


def test_the_range_ends_when_the_server_says_so_and_everything_was_taken() -> None:
    dialogue, state = opened()
    dialogue.deliver(state, ["a"])
    end(dialogue, state)
    pending, found = drive(reading.next_block(state))
    assert pending is None and found.offset == 0
    assert drive(reading.next_block(state)) == (None, None)
    for pending in reading.close_range(state):
        assert pending.done
    assert dialogue.requests() == [], "there is nothing left to close"
    assert state.session.consumers == []


def test_who_waits_is_woken_by_a_block() -> None:
    dialogue, state = opened()
    steps = reading.next_block(state)
    pending, _ = drive(steps)
    assert pending is not None and not pending.is_done()
    dialogue.deliver(state, ["a"])
    assert pending.is_done()
    assert drive(steps)[1].offset == 0


def test_an_error_comes_behind_the_blocks_that_came_before_it() -> None:
    dialogue, state = opened()
    dialogue.deliver(state, ["a"])
    end(dialogue, state, code=errors.DataLost.code, text="Offsets 1 to 9 are gone.")
    assert drive(reading.next_block(state))[1].offset == 0
    with pytest.raises(errors.DataLost, match="gone"):
        drive(reading.next_block(state))


def test_a_queue_is_browsed_as_blocks_and_shows_nothing_twice_after_a_lost_line() -> None:
    dialogue = Dialogue()
    dialogue.login()
    steps = reading.open_range(dialogue.session(), reading.browse_spec(QUEUE, "x > 1", BUFFER))
    drive(steps)
    (request,) = dialogue.answer()
    assert (request["mode"], request["selector"]) == ("browse", "x > 1")
    _, state = drive(steps)
    assert isinstance(state, RangeState)
    dialogue.deliver(state, ["a", "b"], offset=0)
    dialogue.lose()
    dialogue.pass_time(1)
    dialogue.core.connected(dialogue.now_seconds)
    dialogue.welcome()
    dialogue.answer()
    # It begins anew: the first block whole, and of the second more than before.
    dialogue.deliver(state, ["a", "b"], offset=0)
    dialogue.deliver(state, ["b", "c"], offset=1)
    end(dialogue, state)
    found = [state.take_block(), state.take_block(), state.take_block()]
    assert [(each.offset, each.ranges) for each in found if each is not None] == [(0, [(0, 2)]), (1, [(1, 2)])]
    assert state.is_over


def test_only_queues_are_browsed() -> None:
    with pytest.raises(errors.InvalidDestination, match="only queues can be browsed"):
        reading.browse_spec(TOPIC, None, BUFFER)


def test_after_a_lost_line_it_goes_on_behind_the_last_block() -> None:
    dialogue, state = opened(start=5, columns=["key"])
    dialogue.deliver(state, ["a", "b", "c"], offset=4, ranges=[(1, 3, 1, 0)])
    dialogue.lose()
    dialogue.pass_time(1)
    dialogue.core.connected(dialogue.now_seconds)
    dialogue.welcome()
    asked = [request for request in dialogue.answer() if request["op"] == "consumer.open"]
    assert [request["start"] for request in asked] == [{"offset": 7, "end": 100, "columns": ["key"]}]
    size = len(make_block(["a", "b", "c"]))
    assert asked[0]["bytes"] == BUFFER - size, "what waits here takes its room"
    dialogue.deliver(state, ["d"], offset=7)
    found = [state.take_block(), state.take_block()]
    assert [each.offset for each in found if each is not None] == [4, 7]


def test_after_a_lost_line_it_says_which_topic_its_offset_is_of() -> None:
    dialogue, state = opened(start=5)
    for offset in (5, 6):
        dialogue.lose()
        dialogue.pass_time(1)
        dialogue.core.connected(dialogue.now_seconds)
        dialogue.welcome()
        asked = [each for each in dialogue.answer(consumer_open={"identity": "here"}) if each["op"] == "consumer.open"]
        expected = {"offset": 5, "end": 100} if offset == 5 else {"offset": 6, "end": 100, "identity": "here"}
        assert asked[0]["start"] == expected
        dialogue.deliver(state, ["a"], offset=offset)


def test_one_that_had_received_nothing_begins_at_its_start_again() -> None:
    dialogue, _ = opened(start=5)
    dialogue.lose()
    dialogue.pass_time(1)
    dialogue.core.connected(dialogue.now_seconds)
    dialogue.welcome()
    asked = [request for request in dialogue.answer() if request["op"] == "consumer.open"]
    assert asked[0]["start"] == {"offset": 5, "end": 100}


def test_closed_early_it_wants_no_more() -> None:
    dialogue, state = opened()
    dialogue.deliver(state, ["a"])
    steps = reading.close_range(state)
    assert drive(steps)[0] is not None
    drive(steps)
    assert [request["op"] for request in dialogue.answer()] == ["consumer.close"]
    dialogue.deliver(state, ["late"])
    assert state.take_block() is None


def test_a_block_that_is_none_ends_the_reader_with_an_error() -> None:
    dialogue, state = opened()
    dialogue.say(b"".join(write_deliver(1, Deliver(state.number, 0, 1, [(0, 1, 1, 0)], b"x" * 200))))
    with pytest.raises(errors.MessageFormatError):
        drive(reading.next_block(state))


def test_stopping_a_connection_does_not_stop_a_reader() -> None:
    dialogue, state = opened()
    dialogue.core.stop()
    dialogue.deliver(state, ["a"])
    assert state.take_block() is not None
