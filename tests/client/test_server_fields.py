"""What a server says is checked when it comes: the client goes by no field that makes no sense."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from tests.client.dialogue import Dialogue

from tocsin.client.core import Phase
from tocsin.client.server_fields import TABLES, check
from tocsin.model.errors import ProtocolError
from tocsin.model.ranges import pack_ranges

Fields = dict[str, Any]

SUMMARY: Fields = {
    "destination": "queue:orders", "messages": 1, "bytes": 2, "earliest": 0, "latest": 3, "retained": False,
    "temporary": False, "delayed": 0, "staged": 0, "consumers": 0, "in_flight": 0, "published": 0, "delivered": 0,
    "acknowledged": 0, "expired": 0, "dead": 0, "max_age_ms": 0, "max_bytes": 0, "redelivery_limit": 10,
    "backoff_ms": 0, "min_copies": 1,
}  # fmt: skip
TAKE: Fields = {"take": 1, "messages": 2, "bytes": 3, "ranges": [[0, 2], [2, 2]]}
NODE: Fields = {
    "node": 1, "state": "up", "name": "one", "role": "primary", "applied": 1, "last": 1, "free_bytes": 1, "damaged": 0,
    "mended": 0, "faults": 0,
}  # fmt: skip
GROUP: Fields = {
    "group": 1, "primary": 1, "epoch": 1, "linked": True, "members": [NODE], "in_sync": [1], "committed": 1, "last": 1,
    "destinations": 1, "live_bytes": 1, "free_bytes": 1, "unclean_epoch": 0, "unclean_lsn": 0, "stalled": False,
    "voteless": ["one"], "unheard": [],
}  # fmt: skip
WORDS: Fields = {"code": 1, "text": "why"}
ANSWERS: dict[str, Fields] = {
    "WELCOME": {
        "connection": b"c" * 16, "token": b"t", "heartbeat": 10.0, "max_message_bytes": 1, "max_block_bytes": 1,
        "server": "s", "time_ms": 1,
    },
    "REPLY": {"id": 1},
    "FAILURE": {"id": 1, "request": 1, **WORDS},
    "REFUSED": {"producer": 1, "first": 1, "last": 2, **WORDS},
    "NOTICE": {"consumer": 3, "gone": pack_ranges([(0, 1)]), "finished": b"", "end": True, **WORDS},
    "session.open": {"producer_id": b"p" * 16, "epoch": 2**32 - 1},
    "producer.open": {"last_sequence": 0, "credit": 2**63 - 1, "since": 0},
    "consumer.open": {"identity": "i", "kept": pack_ranges([(0, 5), (7, 7)]), "finished": b"", "made": True},
    "temporary.create": {"destination": "queue:_TMP.1"},
    "destination.create": {"created": True},
    "destination.purge": {"messages": 0},
    "destination.list": {"destinations": [SUMMARY], "more": False},
    "destination.show": {
        **SUMMARY, "producers": 1, "subscriptions": [{}], "drains": [{}], "damaged": [[0, 1]],
        "holds": [{"name": "h", "offset": 0, "lag": 0, "expires": 0}],
    },
    "offset.range": {"first": 0, "end": 1, "identity": "i", "retained": True, "earliest": 0, "latest": 1},
    "offset.at": {"offset": 0},
    "offset.cuts": {"cuts": [0, 0, 5]},
    "offset.files": {
        "files": [{"path": "/a", "first": 0, "end": 1, "position": 80, "bytes": 100}], "more": False,
        "journal": b"j" * 16, "stream": 1, "identity": "i",
    },
    "dead.resend": {"messages": 0},
    "stage.claim": {"run": 1},
    "stage.commit": {"committed": True, "epoch": -1},
    "stage.drop": {"dropped": 0},
    "stage.last": {"epoch": -1},
    "drain.take": {**TAKE, "more": False},
    "drain.list": {"takes": [TAKE], "more": False},
    "drain.finish": {"messages": 0, "more": False},
    "drain.release": {"messages": 0, "more": False},
    "cluster.status": {"groups": [GROUP], "client_managers": [{"node": 1, "state": "up"}]},
}  # fmt: skip
MAY_BE_MISSING = {
    "WELCOME": {"heartbeat", "max_message_bytes", "max_block_bytes", "server", "time_ms"},
    "FAILURE": {"id", "request", "code", "text"},
    "REFUSED": {"code", "text"},
    "NOTICE": {"consumer", "gone", "finished", "end", "code", "text"},
    "producer.open": {"last_sequence", "credit", "since"},
    "consumer.open": {"identity", "kept", "finished", "made"},
    "destination.show": set(SUMMARY) | {"producers", "subscriptions", "drains", "holds", "damaged"},
    "offset.files": {"journal", "stream", "identity"},
    "stage.commit": {"epoch"},
    "drain.take": {"more"},
    "drain.list": {"more"},
    "drain.finish": {"more"},
    "drain.release": {"more"},
}
MAY_BE_MISSING["destination.show"] -= {"destination", "messages", "bytes", "earliest", "latest", "retained"}
NONSENSE: list[Any] = [
    -2, 2**63, 2**64, -(2**63), 1.5, float("nan"), float("inf"), True, "", "x", b"", b"x", b"\xff" * 15, [], [None],
    [0, -1], [5, 0], [[0]], [[1, 0]], [{}], {}, {"a": 1},
]  # fmt: skip
"""Each is one for most fields, and a good value for some."""


def broken(good: Any) -> Iterator[Any]:
    """A value of another kind in its place, or with one part of it missing or of another kind."""
    yield from (value for value in NONSENSE if type(value) is not type(good))
    match good:
        case bool():
            return
        case int():
            yield from (-2, 2**63, -(2**63))
        case float():
            yield from (0.0, -1.0, float("nan"), float("inf"))
        case list():
            for value in [None, *broken(good[0])] if good else []:
                yield [value, *good[1:]]
        case dict():
            for name in good:
                for value in broken(good[name]):
                    yield {**good, name: value}


PARTS = [(what, name) for what, fields in ANSWERS.items() for name in fields]


def test_every_answer_of_the_table_is_gone_over() -> None:
    assert {what: set(fields) for what, fields in ANSWERS.items()} == {
        what: {name.removesuffix("?") for name in table} for what, table in TABLES.items()
    }


@pytest.mark.parametrize("what", ANSWERS)
def test_what_servers_say_passes(what: str) -> None:
    for added in ({}, {"more_to_come": object()}):
        fields = ANSWERS[what] | added
        assert check(what, fields) is fields
    few = {name: value for name, value in ANSWERS[what].items() if name not in MAY_BE_MISSING.get(what, ())}
    assert check(what, few) is few
    assert check(what, few | dict.fromkeys(MAY_BE_MISSING.get(what, ())))
    assert check("destination.delete", {"items": 3}) == {"items": 3}


@pytest.mark.parametrize(("what", "name"), PARTS)
def test_a_field_that_is_missing_is_named(what: str, name: str) -> None:
    if name not in MAY_BE_MISSING.get(what, ()):
        for fields in (
            {**ANSWERS[what], name: None},
            {key: ANSWERS[what][key] for key in ANSWERS[what] if key != name},
        ):
            with pytest.raises(ProtocolError, match=f"'{name}' away"):
                check(what, fields)


@pytest.mark.parametrize(("what", "name"), PARTS)
def test_a_field_of_another_kind_or_beyond_its_extremes_is_named(what: str, name: str) -> None:
    good = copy.deepcopy(ANSWERS[what])
    for value in broken(good[name]):
        if isinstance(good[name], float) and type(value) is int and value > 0:
            continue  # Seconds may be whole ones.
        with pytest.raises(ProtocolError, match=f"'{name}'"):
            check(what, good | {name: value})


@pytest.mark.parametrize(
    ("what", "name", "value"),
    [
        ("WELCOME", "connection", b"c" * 15),
        ("WELCOME", "max_block_bytes", 2**40),
        ("WELCOME", "max_block_bytes", 0),
        ("session.open", "epoch", 2**32),
        ("consumer.open", "kept", pack_ranges([(5, 0)])),
        ("consumer.open", "kept", pack_ranges([(0, 2**63)])),
        ("temporary.create", "destination", "heap:one"),
        ("temporary.create", "destination", "queue:"),
        ("temporary.create", "destination", "orders"),
        ("destination.list", "destinations", [SUMMARY, {"destination": "queue:lonely"}]),
        ("offset.cuts", "cuts", [5, 0]),
        ("offset.files", "files", [{**ANSWERS["offset.files"]["files"][0], "path": "/a\0b"}]),
        ("drain.take", "ranges", [[0, 1, 2]]),
        ("stage.last", "epoch", -2),
    ],
)
def test_what_has_the_right_kind_may_still_make_no_sense(what: str, name: str, value: Any) -> None:
    with pytest.raises(ProtocolError, match=name):
        check(what, ANSWERS[what] | {name: value})


@pytest.mark.parametrize("what", [what for what in ANSWERS if "." in what])
def test_nobody_reads_an_answer_that_makes_no_sense(what: str) -> None:
    for name in ANSWERS[what]:
        dialogue = Dialogue()
        dialogue.login()
        asked = dialogue.core.request(0, what, {})
        (request,) = dialogue.requests()

        dialogue.answer_one(request, **ANSWERS[what] | {name: {"no": "sense"}})

        assert not asked.is_done()
        assert dialogue.phase() is Phase.DOWN, (what, name)
        assert isinstance(dialogue.core._last_error, ProtocolError)
