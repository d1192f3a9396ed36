"""The same with real message managers: what a client gets when the primary of its group dies."""

from __future__ import annotations

import pytest
from tests.client_manager.real_group import RealGroup
from tests.client_manager.scripted_groups import Cluster

from tocsin.cluster.commands import Publish
from tocsin.model.batch import DeliveryMode
from tocsin.model.errors import ProducerExpired
from tocsin.model.ranges import unpack_ranges
from tocsin.wire.frames import FrameType


def cluster_of(*groups: RealGroup) -> Cluster:
    return Cluster(list(groups))


def die(cluster: Cluster, group: RealGroup, primary: int) -> None:
    group.crash()
    cluster.fail_over(group, primary)


def test_messages_go_through_and_are_settled() -> None:
    group = RealGroup(1)
    cluster = cluster_of(group)
    session = cluster.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send("a", "b")
    assert producer.confirmed == 2
    first, second = consumer.take()
    assert consumer.ack(first, second) == consumer.settled
    assert group.driver.show("queue:orders")["messages"] == 0


def test_locks_come_back_and_nothing_is_lost_or_delivered_twice() -> None:
    group = RealGroup(1)
    cluster = cluster_of(group)
    session = cluster.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders", messages=3)
    producer.send(*"abcde")
    a, b, c = consumer.take()
    die(cluster, group, 11)
    assert consumer.take() == [], "what it holds does not come again"
    consumer.ack(a, b)
    consumer.grant(5)
    assert consumer.bodies() == ["d", "e"]
    consumer.ack(c)
    die(cluster, group, 12)
    assert consumer.settled == 2 and consumer.bodies() == []
    assert group.driver.show("queue:orders")["messages"] == 2


def test_a_block_whose_confirmation_was_lost_is_stored_once() -> None:
    group = RealGroup(1)
    cluster = cluster_of(group)
    session = cluster.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    group.answers_lost = True
    producer.send("a")
    assert producer.confirmed == 0 and any(isinstance(each, Publish) for each in group.taken)
    group.answers_lost = False
    die(cluster, group, 11)
    assert producer.confirmed == 1
    assert consumer.bodies() == ["a"] and group.driver.show("queue:orders")["published"] <= 1


def test_a_confirmed_non_persistent_batch_that_died_leaves_no_gap_before_a_persistent_one() -> None:
    group = RealGroup(1)
    cluster = cluster_of(group)
    session = cluster.connect().session()
    producer = session.producer("queue:orders")
    light = producer.block([b"light"], mode=DeliveryMode.NON_PERSISTENT)
    # Sealed while the first is in flight, so it says that the first may come again.
    heavy = producer.block([b"heavy"], sequence=2, unconfirmed_from=1)
    with group.driver.slow_disk():
        producer.resend(light)
        producer.resend(heavy)
        assert producer.confirmed == 1, "who sends without persistence does not wait for the disk"
        die(cluster, group, 11)
    assert producer.refused == [] and producer.confirmed == 2
    assert session.consumer("queue:orders").bodies() == ["heavy"]


def test_what_follows_a_refused_batch_is_not_stored_by_the_next_primary() -> None:
    group = RealGroup(1)
    cluster = cluster_of(group)
    producer = cluster.connect().session().producer("queue:orders")
    journal = group.driver.storage.recovered.journal
    journal.full = True
    producer.resend(producer.block([b"one"]))
    group.silent = True
    producer.resend(producer.block([b"two"], sequence=2, unconfirmed_from=1))
    group.silent = False
    die(cluster, group, 11)
    assert [(first, last) for first, last, _ in producer.refused] == [(1, 1), (2, 2)]


def test_a_forgotten_producer_is_told_by_the_next_primary_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.message_manager.producers.PRODUCER_ROWS_MAX", 1)
    group = RealGroup(1)
    cluster = cluster_of(group)
    session = cluster.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    group.answers_lost = True
    producer.send("one")
    group.answers_lost = False
    other = cluster.connect().session().producer("queue:orders")
    other.send("other")
    die(cluster, group, 11)
    assert [type(error) for _, _, error in producer.refused] == [ProducerExpired]
    assert producer.confirmed == 0 and sorted(consumer.bodies()) == ["one", "other"]


def test_what_was_published_while_nobody_led_is_stored_by_the_next() -> None:
    group = RealGroup(1)
    cluster = cluster_of(group)
    producer = cluster.connect().session().producer("queue:orders")
    group.silent = True
    for number in range(5):
        producer.send(f"m{number}")
    group.silent = False
    die(cluster, group, 11)
    assert producer.confirmed == 5
    consumer = cluster.connect().session().consumer("queue:orders")
    assert consumer.bodies() == [f"m{number}" for number in range(5)]


def test_destinations_live_in_the_group_that_the_directory_names() -> None:
    groups = [RealGroup(1), RealGroup(2, primary=20)]
    cluster = cluster_of(*groups)
    client = cluster.connect()
    names = [f"q{number}" for number in range(8)]
    for index, name in enumerate(names):
        status = groups[index % 2].status(0)
        cluster.port.message(index % 2 + 1, groups[index % 2].primary, 1, status, cluster.now)
        cluster.port.message(2 - index % 2, groups[1 - index % 2].primary, 1, groups[0].status(9), cluster.now)
        client.request("destination.create", destination=f"queue:{name}")
    listed = client.request("destination.list", prefix="q", limit=5)
    assert [each["name"] for each in listed["destinations"]] == names[:5] and listed["more"]
    rest = client.request("destination.list", prefix="q", after=names[4], limit=5)
    assert [each["name"] for each in rest["destinations"]] == names[5:] and not rest["more"]
    counts = [len([each for each in group.driver.manager.directory if each.address.name in names]) for group in groups]
    assert counts == [4, 4]

    session = client.session()
    for name in names:
        session.producer(f"queue:{name}").send(name)
    die(cluster, groups[0], 11)
    assert [session.consumer(f"queue:{name}").bodies() for name in names] == [[name] for name in names]
    other = cluster.connect()
    session.close()
    other.request("destination.delete", destination="queue:q3")
    listed = other.request("destination.list", prefix="q")
    assert "q3" not in [each["name"] for each in listed["destinations"]]
    assert other.session().consumer("queue:q3").bodies() == []


def test_a_client_that_comes_to_another_client_manager_goes_on_there() -> None:
    group = RealGroup(1)
    one = Cluster([group])
    two = Cluster([group], node=2)
    client = one.connect("me")
    session = client.session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send(*"abc")
    a, b, c = consumer.take()
    consumer.ack(a)

    moved = two.connect("me", resume=client)
    again = moved.session(1, session)
    assert again.epoch == session.epoch + 1
    resumed = again.producer("queue:orders", former=producer)
    assert resumed.confirmed == 3
    held = again.consumer("queue:orders", former=consumer)
    assert held.kept == [(1, 3)]
    # The client manager that it left says late what it thinks: nothing of that counts.
    one.hang_up(client)
    one.advance(60.0)
    assert held.ack(b, c) == held.settled
    assert group.driver.show("queue:orders")["messages"] == 0
    resumed.send("d")
    two.receive(moved.number, b"")
    assert held.bodies() == ["d"]


def test_an_acknowledgement_counts_although_the_message_was_given_back_before() -> None:
    group = RealGroup(1)
    cluster = cluster_of(group)
    session = cluster.connect().session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send("a")
    (first,) = consumer.take()
    with group.driver.slow_disk():
        consumer.nack(first, delay_ms=0)
        (second,) = consumer.take()
        consumer.ack(second)
        assert consumer.settled == 0
        group.crash()
    cluster.fail_over(group, 11)
    assert consumer.settled == 2 and consumer.take() == []
    assert group.driver.show("queue:orders")["messages"] == 0


def test_a_range_goes_on_behind_the_last_block_when_the_primary_dies() -> None:
    group = RealGroup(1)
    cluster = cluster_of(group)
    client = cluster.connect()
    client.request("destination.create", destination="topic:news", retained=True)
    session = client.session()
    producer = session.producer("topic:news")
    for _ in range(6):
        producer.send(*"abc")
    start = {"offset": 1, "end": 16, "columns": ["body"]}
    reader = session.consumer("topic:news", mode="replay", start=start, size=1)
    assert [message.offset for message in reader.take()] == [1, 2]
    die(cluster, group, 11)
    assert reader.take() == [] and not reader.ended
    reader.grant(1 << 40)
    assert [message.offset for message in reader.take()] == list(range(3, 16))
    assert reader.ended == {"consumer": reader.number, "end": True}


def test_offsets_holds_and_identity_are_the_same_under_the_next_primary() -> None:
    group = RealGroup(1)
    cluster = cluster_of(group)
    client = cluster.connect()
    client.request("destination.create", destination="topic:news", retained=True)
    client.session().producer("topic:news").send(*"abc")
    client.request("hold.set", destination="topic:news", name="query", offset=1, seconds=60)
    before = client.request("offset.range", destination="topic:news")
    die(cluster, group, 11)
    after = client.request("offset.range", destination="topic:news")
    assert {**after, "id": 0} == {**before, "id": 0}
    shown = client.request("destination.show", destination="topic:news")["holds"]
    assert [(each["name"], each["offset"], each["lag"]) for each in shown] == [("query", 1, 2)]
    cuts = client.request("offset.cuts", destination="topic:news", start=0, end=3, parts=2)
    assert cuts["cuts"] == [0, 3]


def test_requests_about_one_topic_go_to_its_group() -> None:
    groups = [RealGroup(1), RealGroup(2, primary=20)]
    cluster = cluster_of(*groups)
    client = cluster.connect()
    for index in range(4):
        client.request("destination.create", destination=f"topic:t{index}", retained=True)
        client.request("hold.set", destination=f"topic:t{index}", name="query", offset=0, seconds=60)
        assert client.request("offset.range", destination=f"topic:t{index}")["retained"]
    held = [state for group in groups for state in group.driver.manager.directory if state.holds.rows]
    assert sorted(state.address.name for state in held) == ["t0", "t1", "t2", "t3"]


def test_a_client_that_resumes_with_many_gaps_keeps_what_it_holds() -> None:
    """50,000 messages, every other one acknowledged, then a hiccup; then another member leads the group."""
    group = RealGroup(1)
    cluster = Cluster([group])
    client = cluster.connect("me")
    session = client.session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders", messages=65_536)
    for _ in range(5):
        producer.send(*["x"] * 10_000)
    messages = consumer.take()
    assert len(messages) == 50_000
    for start in range(0, 50_000, 10_000):
        consumer.ack(*messages[start : start + 10_000 : 2])
    cluster.hang_up(client)
    again = cluster.connect("me", resume=client)
    resumed = again.session(1, session).consumer("queue:orders", former=consumer, messages=65_536)
    assert resumed.kept == [(offset, offset + 1) for offset in range(1, 50_000, 2)]
    assert resumed.take() == []

    group.crash()
    cluster.fail_over(group)
    assert again.take(FrameType.NOTICE) == [] and resumed.take() == [], "it goes on as if nothing had happened"


def test_a_client_hears_of_all_that_is_gone_however_many_gaps_it_has() -> None:
    group = RealGroup(1)
    cluster = Cluster([group])
    client = cluster.connect("me")
    session = client.session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders", messages=65_536)
    for _ in range(5):
        producer.send(*["x"] * 10_000, mode=DeliveryMode.NON_PERSISTENT)
    messages = consumer.take()
    for start in range(0, 50_000, 10_000):
        consumer.ack(*messages[start : start + 10_000 : 2])
    group.crash()
    cluster.fail_over(group)
    notices = [frame.fields() for frame in client.take(FrameType.NOTICE)]
    gone = [each for fields in notices for each in unpack_ranges(fields["gone"])]
    assert gone == [(offset, offset + 1) for offset in range(1, 50_000, 2)]
