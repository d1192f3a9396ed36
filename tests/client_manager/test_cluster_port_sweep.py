"""Every field of every request at its extremes: through the client manager, the bytes between managers and real message
managers. Nothing may be met that nobody raised on purpose; what all tests share looks for that.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.client_manager.real_group import RealGroup
from tests.client_manager.scripted_groups import Cluster

from tocsin.client_manager.requests import ADMINISTRATION, FIELDS, NEEDED, OWN_FIELDS
from tocsin.cluster.commands import Answer, Reply
from tocsin.cluster.envelope import decode, encode_replies
from tocsin.model.faults import Faults
from tocsin.model.values import encode_value
from tocsin.node.reply_pieces import pieces_of
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.frames import HEADER, VERSION, Credit, FrameType, Outcome, Settle, write_credit, write_settle

NUMBERS = [-1, 0, 2**32, 2**53, 2**63 - 1, -(2**63)]
OTHERS: list[Any] = [
    None, True, float("nan"), "", "x" * 5_000, "\0", b"", b"x" * 16, [], [0, 1] * 50, [[0, 1]] * 50, {}, {"offset": -1},
    {"offset": 2**63 - 1, "end": -(2**63)}, {"at": 5}, {"time_ms": -(2**63), "identity": 7},
]  # fmt: skip
GIANTS: list[Any] = ["x" * 3_000_000, [0] * 60_000, [[0, 1]] * 20_000, bytes(16 * 65_537), [[[[[[[1]]]]]]]]
COMMON = ("destination", "id", "op")
OWN = {
    "session.open": ("session", "producer_id", "epoch"),
    "producer.open": ("producer", "destination", "since"),
    "producer.close": ("producer",),
    "consumer.open": (
        "consumer", "destination", "selector", "no_local", "mode", "subscription", "durable", "shared", "start",
        "messages", "bytes", "held",
    ),
    "consumer.close": ("consumer",),
    "client_id.set": ("client_id",),
    "temporary.create": ("kind",),
    "stage.open": ("stage", "seconds"),
    "stage.claim": ("app",),
    "stage.commit": ("app", "epoch", "stages", "run"),
    "stage.drop": ("stages",),
    "stage.last": ("app", "destinations"),
    "dead.resend": ("offsets",),
}  # fmt: skip
GOOD: dict[str, Any] = {
    "session": 2, "producer": 1, "consumer": 1, "destination": "queue:orders", "mode": "consume", "messages": 1,
    "bytes": 1, "start": None, "client_id": "me", "kind": "queue", "stage": b"s" * 16, "seconds": 60, "app": "app",
    "epoch": 1, "stages": [{"destination": "queue:orders", "stage": b"s" * 16, "messages": 0}], "offsets": [0, 1],
    "destinations": ["queue:orders"], "subscription": "s", "name": "n", "drain": "d", "after": 0, "upto": 1,
    "time_ms": 1, "end": 1, "parts": 2, "offset": 0,
}  # fmt: skip


class Sweep:
    def __init__(self) -> None:
        self.cluster = Cluster([RealGroup(1), RealGroup(2)])
        self.client = self._connect()

    def _connect(self) -> ScriptedClient:
        client = self.cluster.connect()
        client.session(1)
        return client

    def send(self, kind: FrameType, fields: dict[str, Any]) -> None:
        payload = encode_value(fields)
        self.send_raw(HEADER.pack(len(payload), kind, VERSION, 0, 1) + payload)

    def send_raw(self, frame: bytes) -> None:
        if not self.client.open:
            self.client = self._connect()
        self.client.frames.clear()
        self.client.answered.clear()
        self.client.send(frame)


def operations() -> list[str]:
    table = Cluster().port.clients._requests_table
    return sorted({*table, *ADMINISTRATION})


def fields_of(operation: str) -> list[str]:
    """All that a request may say; of a new one everything that is known."""
    if operation in OWN and operation not in NEEDED:
        return [*COMMON, *OWN[operation]]
    return [*COMMON, *FIELDS, *OWN_FIELDS.get(operation, {}), *OWN.get(operation, ())]


@pytest.mark.parametrize("operation", operations())
def test_every_field_of_a_request_may_be_anything(operation: str) -> None:
    sweep = Sweep()
    good = {name: GOOD[name] for name in fields_of(operation) if name in GOOD}
    if operation.startswith(("offset.", "hold.", "destination.create")):
        good["destination"] = "topic:x"
    for name in fields_of(operation):
        for value in NUMBERS + OTHERS:
            sweep.send(FrameType.REQUEST, {"id": 7, "op": operation, **good, name: value})
        sweep.send(FrameType.REQUEST, {each: good[each] for each in good if each != name} | {"id": 7, "op": operation})
    for giant in GIANTS:
        for name in ("destination", fields_of(operation)[-1]):
            sweep.send(FrameType.REQUEST, {"id": 7, "op": operation, **good, name: giant})
    assert sweep.cluster.connect().request("cluster.status")["client_managers"][0]["faults"] == 0
    for group in sweep.cluster.groups.values():
        assert isinstance(group, RealGroup)
        group.driver.snapshot()


@pytest.mark.parametrize("name", ["version", "product", "heartbeat", "user", "sasl", "client_id", "resume", "more"])
def test_every_field_of_a_hello_may_be_anything(name: str) -> None:
    cluster = Cluster([RealGroup(1)])
    tickets = [{"connection": value, "token": value} for value in (b"", b"x" * 16, 5, "x")]
    for value in [*NUMBERS, *OTHERS, *tickets]:
        payload = encode_value({"version": 1, name: value})
        cluster.dial().send(HEADER.pack(len(payload), FrameType.HELLO, VERSION, 0, 0) + payload)
    assert cluster.connect().open


def test_settlements_and_credit_may_be_anything() -> None:
    sweep = Sweep()
    big = [0, 1, 2**32, 2**53, 2**63, 2**64 - 1]
    for number in (0, 1, 2**24, 2**32 - 1):
        for amount in big:
            sweep.send_raw(write_credit(1, Credit(number, amount, amount)))
            for outcome in Outcome:
                settle = Settle(number, outcome, amount, [(0, amount), (amount, amount)], 2**32 - 2, "\ufffd" * 300)
                sweep.send_raw(write_settle(1, settle))
    assert sweep.cluster.connect().request("cluster.status")["client_managers"][0]["faults"] == 0


def test_fifty_lists_of_a_thousand_destinations_are_many_messages_of_the_bus() -> None:
    """Each page has half a megabyte: in one message they were more than the bus takes."""
    page = {"destinations": [{"name": "d" * 255, "kind": "queue", "messages": n} for n in range(1_000)], "more": True}
    replies: list[Reply] = [Answer(number, dict(page)) for number in range(1, 51)]
    pieces = pieces_of(replies, Faults())
    assert len(pieces) > 1
    sizes: list[int] = []
    found: list[Reply] = []
    for piece in pieces:
        message = b"".join(encode_replies(1, 1, 1, piece))
        sizes.append(len(message))
        found += decode(message).replies  # type: ignore[union-attr]
    assert found == replies
    assert max(sizes) < 2**20
