"""Dead messages of a group: one settlement never stops a member, whatever it makes of what came in."""

from __future__ import annotations

from tests.node.group_stage import SESSION, Stage, publish

from tocsin.cluster.commands import SettledTo, SettleMessages
from tocsin.message_manager.state_hash import state_hash
from tocsin.model.limits import BATCH_MESSAGES_MAX, MIB, REASON_BYTES_MAX, SEGMENT_BYTES_DEFAULT
from tocsin.wire.frames import Outcome, Settle


def test_the_longest_reason_for_the_largest_batch_stops_no_member() -> None:
    stage = Stage(segment_bytes=SEGMENT_BYTES_DEFAULT, cache_bytes=64 * MIB)
    client = stage.client
    stage.elect()
    client.administer("destination.create", destination="queue:orders", redelivery_limit=1)
    destination = client.open_producer()["destination"]
    client.publish(destination, "small")
    body = "y" * (20 * MIB // BATCH_MESSAGES_MAX)
    client.send(publish(destination, *[body] * BATCH_MESSAGES_MAX, first=2))
    count = BATCH_MESSAGES_MAX + 1
    client.open_consumer(messages=2 * count)
    refused = Settle(1, Outcome.NACK, 1, [(0, 1), (1, count)], None, "r" * REASON_BYTES_MAX)
    answers = client.send(SettleMessages((SESSION, 1), refused))
    assert any(isinstance(answer, SettledTo) and answer.number == 1 for answer in answers)
    stage.advance(3)
    assert client.administer("destination.show", destination="queue:orders")["dead"] == count
    assert client.administer("destination.show", destination="queue:_DMQ")["messages"] == count
    members = [seat.member for seat in stage.seats.values() if not seat.witness]
    assert len({state_hash(member.manager.directory) for member in members}) == 1
    stage.primary().crash()
    stage.elect()
    assert client.administer("destination.show", destination="queue:_DMQ")["messages"] == count
