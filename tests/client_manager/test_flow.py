"""What may be on the way to a consumer, whatever its client allows."""

from __future__ import annotations

from tests.client_manager.scripted_groups import Cluster, delivery

from tocsin.client_manager.flow import ConsumerFlow, window_of
from tocsin.cluster.commands import GrantCredit, OpenConsumer
from tocsin.model.limits import OFFSET_MAX
from tocsin.model.traffic_limits import (
    CONNECTION_WINDOWS_BYTES_MAX,
    CONSUMER_WINDOW_BYTES,
    CONSUMER_WINDOW_BYTES_MIN,
    CONSUMER_WINDOWS_BYTES_MAX,
)

KEY = (b"s" * 16, 1)
BLOCK = 1 << 20


def test_a_consumer_has_a_window_that_many_consumers_share() -> None:
    assert window_of(1, 1) == CONSUMER_WINDOW_BYTES
    assert window_of(8, 8) == CONNECTION_WINDOWS_BYTES_MAX // 8
    assert window_of(1, 1_000) == CONSUMER_WINDOWS_BYTES_MAX // 1_000
    assert window_of(4_096, 4_096) == CONSUMER_WINDOW_BYTES_MIN


def test_what_a_client_allows_within_the_window_is_passed_on() -> None:
    flow = ConsumerFlow(10, 1_000, 5_000)
    assert flow.given == 1_000 and not flow.is_cut
    assert flow.allow(KEY, 20, 2_000, 5_000) == GrantCredit(KEY, 20, 2_000)
    assert flow.allow(KEY, 20, 2_000, 5_000) is None, "nothing new"
    assert not flow.delivered(500)


def test_more_than_the_window_is_given_as_it_moves_on() -> None:
    flow = ConsumerFlow(10, OFFSET_MAX, 5_000)
    assert flow.given == 5_000 and flow.is_cut
    assert flow.delivered(1_000) and flow.go_on(KEY, 5_000) is None, "not half of it is used"
    assert flow.delivered(2_000) and flow.go_on(KEY, 5_000) == GrantCredit(KEY, 10, 8_000)
    assert flow.allow(KEY, 11, OFFSET_MAX, 5_000) == GrantCredit(KEY, 11, 8_000)


def deliver_all(cluster: Cluster, opened: OpenConsumer, publish: object, most: int) -> int:
    """A group that sends as long as it may; returns how many bytes that were."""
    allowed, sent = opened.bytes, 0
    while sent < allowed and sent < most:
        one = delivery(opened, publish, sent)  # type: ignore[arg-type]
        cluster.reply(cluster.group, one)
        sent += len(one.block)
        for each in cluster.group.take_taken():
            if isinstance(each, GrantCredit):
                allowed = max(allowed, each.bytes)
    return sent


def test_a_client_that_does_not_read_gets_one_window_however_much_it_allows() -> None:
    cluster = Cluster()
    session = cluster.connect().session()
    producer = session.producer("queue:orders")
    session.consumer("queue:orders", messages=60_000, size=OFFSET_MAX)
    producer.send(b"x" * BLOCK)
    opened, publish = cluster.group.take_taken()[1:]
    assert isinstance(opened, OpenConsumer) and opened.bytes == CONSUMER_WINDOW_BYTES
    cluster.port.clients.slowed(1, True)
    sent = deliver_all(cluster, opened, publish, 10 * CONSUMER_WINDOW_BYTES)
    assert sent < CONSUMER_WINDOW_BYTES + 2 * BLOCK
    cluster.port.clients.slowed(1, False)
    cluster.settle()
    grants = [each for each in cluster.group.take_taken() if isinstance(each, GrantCredit)]
    assert [each.bytes for each in grants] == [sent + CONSUMER_WINDOW_BYTES], "it has read, and gets the next window"


def test_a_client_that_reads_gets_all_it_allows() -> None:
    cluster = Cluster()
    session = cluster.connect().session()
    producer = session.producer("queue:orders")
    session.consumer("queue:orders", messages=60_000, size=OFFSET_MAX)
    producer.send(b"x" * BLOCK)
    opened, publish = cluster.group.take_taken()[1:]
    assert isinstance(opened, OpenConsumer)
    assert deliver_all(cluster, opened, publish, 5 * CONSUMER_WINDOW_BYTES) >= 5 * CONSUMER_WINDOW_BYTES
