"""Times of day that differ between the nodes of a group: delays and expiry are judged by one time, whoever serves."""

from __future__ import annotations

import pytest
from tests.node.group_stage import CONNECTION, SESSION, Stage, bodies

from tocsin.cluster.commands import Publish
from tocsin.model.batch import BatchHeader, Block, BodyKind, Column, DeliveryMode, encode_block
from tocsin.model.columns import bytes_column
from tocsin.model.destination import Kind
from tocsin.model.identity import DestinationId

AN_HOUR = 3600.0


@pytest.mark.parametrize("seconds", [AN_HOUR, -AN_HOUR])
def test_a_delay_goes_on_when_the_role_moves_to_a_node_with_another_time(seconds: float) -> None:
    stage = Stage(ahead={2: seconds})
    first = stage.elect()
    second = stage.backup()
    assert second.node == 2
    orders = stage.client.open_producer()["destination"]
    header = BatchHeader(
        "orders", Kind.QUEUE, 1, 0, BodyKind.BYTES, DeliveryMode.PERSISTENT, 4, CONNECTION, SESSION, 0, 1, 1,
        base_timestamp=5_000, delivery_time=65_000,
    )  # fmt: skip
    block = Block(encode_block(header, [bytes_column(Column.BODY, [b"in a minute"])]))
    stage.client.send(Publish(SESSION, 1, DestinationId(orders), block, None))
    stage.advance(1.0)
    sent = stage.clock.now()
    first.crash()
    assert stage.elect() is second
    assert bodies(stage.client.open_consumer()) == []
    while not bodies(stage.client.replies):
        stage.advance(1.0)
        # Where the node's own time is behind, the group's goes half as fast until it is the same.
        assert stage.clock.now() - sent < 125.0, "late"
    assert stage.clock.now() - sent > 57.0, "early"
