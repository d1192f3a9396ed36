"""What a client says about stages is checked field by field."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.client_manager.stage_requests import STAGE_REQUESTS, destinations_of
from tocsin.model.errors import IllegalState, InvalidDestination, ProtocolError, TocsinError
from tocsin.model.limits import STAGE_SECONDS_DEFAULT, STAGE_SECONDS_MAX, STAGES_PER_COMMIT_MAX
from tocsin.model.values import Char

STAGE = bytes(range(16))
NAMED = {"destination": "queue:q", "stage": STAGE}
OPEN: dict[str, Any] = {**NAMED, "seconds": 60}
COMMIT: dict[str, Any] = {"app": "a", "epoch": 0, "stages": [{**NAMED, "messages": 5}]}


def test_known_fields_pass_and_others_are_left_out() -> None:
    assert STAGE_REQUESTS["stage.open"]({**OPEN, "more": 1}) == OPEN
    assert STAGE_REQUESTS["stage.open"](NAMED)["seconds"] == STAGE_SECONDS_DEFAULT
    assert STAGE_REQUESTS["stage.commit"]({**COMMIT, "more": 1}) == COMMIT
    assert STAGE_REQUESTS["stage.commit"]({**COMMIT, "run": 7}) == {**COMMIT, "run": 7}
    assert STAGE_REQUESTS["stage.commit"]({**COMMIT, "seconds": 60}) == {**COMMIT, "seconds": 60}
    assert STAGE_REQUESTS["stage.claim"]({**NAMED, "app": "a"}) == {"app": "a", "destination": NAMED["destination"]}
    assert STAGE_REQUESTS["stage.drop"](COMMIT) == {"stages": [NAMED]}
    fields = {"app": "a", "destinations": ["topic:t"]}
    assert STAGE_REQUESTS["stage.last"](fields) == fields


def test_all_destinations_of_a_request_are_found_once() -> None:
    other = {**NAMED, "destination": "topic:t"}
    assert destinations_of({"stages": [NAMED, other, NAMED]}) == ["q", "t"]
    assert destinations_of(OPEN) == ["q"]
    assert destinations_of({"destinations": ["topic:t", "topic:u"]}) == ["t", "u"]


@pytest.mark.parametrize(
    ("operation", "fields", "error"),
    [
        ("stage.open", {**OPEN, "destination": "q"}, InvalidDestination),
        ("stage.open", {**OPEN, "destination": 1}, ProtocolError),
        ("stage.open", {**OPEN, "stage": bytes(16)}, ProtocolError),
        ("stage.open", {**OPEN, "stage": b"short"}, ProtocolError),
        ("stage.open", {**OPEN, "stage": "a" * 16}, ProtocolError),
        ("stage.open", {**OPEN, "seconds": 0}, IllegalState),
        ("stage.commit", {**COMMIT, "seconds": 0}, IllegalState),
        ("stage.commit", {**COMMIT, "seconds": round(STAGE_SECONDS_MAX) + 1}, IllegalState),
        ("stage.commit", {**COMMIT, "seconds": "1"}, ProtocolError),
        ("stage.open", {**OPEN, "seconds": round(STAGE_SECONDS_MAX) + 1}, IllegalState),
        ("stage.open", {**OPEN, "seconds": "1"}, ProtocolError),
        ("stage.commit", {**COMMIT, "app": ""}, IllegalState),
        ("stage.commit", {**COMMIT, "app": "x" * 256}, IllegalState),
        ("stage.commit", {**COMMIT, "app": None}, ProtocolError),
        ("stage.commit", {**COMMIT, "epoch": -1}, ProtocolError),
        ("stage.commit", {**COMMIT, "epoch": True}, ProtocolError),
        ("stage.commit", {**COMMIT, "epoch": None}, ProtocolError),
        ("stage.commit", {**COMMIT, "run": "7"}, ProtocolError),
        ("stage.commit", {**COMMIT, "stages": None}, ProtocolError),
        ("stage.claim", {"app": "a"}, ProtocolError),
        ("stage.claim", {**NAMED, "app": ""}, IllegalState),
        ("stage.claim", {**NAMED, "app": Char("\ud800")}, IllegalState),
        ("stage.commit", {**COMMIT, "app": "\0run of another"}, IllegalState),
        ("stage.commit", {**COMMIT, "stages": [5]}, ProtocolError),
        ("stage.commit", {**COMMIT, "stages": [{**NAMED, "messages": -1}]}, ProtocolError),
        ("stage.drop", {"stages": [NAMED] * (STAGES_PER_COMMIT_MAX + 1)}, IllegalState),
        ("stage.last", {"app": "a", "destinations": [5]}, ProtocolError),
        ("stage.last", {"app": "a"}, ProtocolError),
    ],
)
def test_wrong_fields_are_refused(operation: str, fields: dict[str, Any], error: type[TocsinError]) -> None:
    with pytest.raises(error):
        STAGE_REQUESTS[operation](fields)
