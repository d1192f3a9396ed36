"""Drains in steps: what the client asks for, and when it asks again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.dialogue import QUEUE, TOPIC, Dialogue, drive

from tocsin.client import draining
from tocsin.client.draining import DrainTake
from tocsin.client.pending import Steps
from tocsin.model.errors import InvalidDestination, ResourceExhausted
from tocsin.wire.frames import FrameType, control


def taken(number: int, *ranges: tuple[int, int], more: bool = False) -> dict[str, Any]:
    messages = sum(end - first for first, end in ranges)
    shown = [list(each) for each in ranges]
    return {"take": number, "messages": messages, "bytes": 10 * messages, "ranges": shown, "more": more}


def converse(steps: Steps[Any], dialogue: Dialogue, *replies: dict[str, Any]) -> tuple[list[dict[str, Any]], Any]:
    """Answers one request after the other; what was asked, and the result."""
    asked: list[dict[str, Any]] = []
    pending, result = drive(steps)
    for reply in replies:
        (request,) = dialogue.requests()
        asked.append({name: value for name, value in request.items() if name not in ("id", "session")})
        dialogue.say(control(FrameType.REPLY, 0, {"id": request["id"], **reply}))
        assert pending is not None
        try:
            pending = steps.send(pending.get())
        except StopIteration as end:
            pending, result = None, end.value
    assert pending is None, "the operation waits for more"
    return asked, result


@pytest.fixture
def dialogue() -> Dialogue:
    dialogue = Dialogue()
    dialogue.login()
    return dialogue


def test_a_take_says_only_what_it_was_told(dialogue: Dialogue) -> None:
    steps = draining.take_steps(dialogue.core, QUEUE, "job", 4, None, 1_000, None)
    asked, result = converse(steps, dialogue, taken(5, (7, 9), (0, 3), more=True))
    assert asked == [{"op": "drain.take", "destination": "queue:orders", "drain": "job", "after": 4, "bytes": 1_000}]
    assert result == DrainTake(5, 5, 50, ((7, 9), (0, 3)), True)
    assert (result.first, result.end) == (0, 9)


def test_a_take_that_found_nothing_yet_is_asked_for_again(dialogue: Dialogue) -> None:
    steps = draining.take_steps(dialogue.core, QUEUE, "job", 4, 10, None, 60)
    asked, result = converse(steps, dialogue, taken(4, more=True), taken(4, more=True), taken(4))
    assert len(asked) == 3 and asked[0] == asked[2]
    assert (result.messages, result.more, result.first, result.end) == (0, False, 0, 0)


def test_a_list_goes_on_behind_its_last_take(dialogue: Dialogue) -> None:
    steps = draining.list_steps(dialogue.core, "queue:orders", "job", 1, 4)
    pages = ({"takes": [taken(2, (0, 1)), taken(3, (1, 2))], "more": True}, {"takes": [taken(4, (2, 3))]})
    asked, result = converse(steps, dialogue, *pages)
    assert [(each["after"], each["upto"]) for each in asked] == [(1, 4), (3, 4)]
    assert [each.take for each in result] == [2, 3, 4]


@pytest.mark.parametrize("finish", [True, False])
def test_finish_and_release_go_on_until_all_is_done(dialogue: Dialogue, finish: bool) -> None:
    if finish:
        steps = draining.finish_steps(dialogue.core, QUEUE, "job", 9)
    else:
        steps = draining.release_steps(dialogue.core, QUEUE, "job")
    asked, result = converse(steps, dialogue, {"messages": 5, "more": True}, {"messages": 2, "more": False})
    assert [each["op"] for each in asked] == ["drain.finish" if finish else "drain.release"] * 2
    assert result == 7


def test_a_server_without_end_is_given_up(dialogue: Dialogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "PAGES_MAX", 3)
    steps = draining.release_steps(dialogue.core, QUEUE, "job")
    with pytest.raises(ResourceExhausted, match="no end"):
        converse(steps, dialogue, *[{"messages": 1, "more": True}] * 4)


def test_topics_are_refused_before_anybody_is_asked(dialogue: Dialogue) -> None:
    with pytest.raises(InvalidDestination, match="topics are replayed"):
        drive(draining.finish_steps(dialogue.core, TOPIC, "job", 1))
    assert dialogue.requests() == []
