"""Dead messages of all groups, as one queue."""

from __future__ import annotations

import pytest
from tests.client_manager.real_group import RealGroup
from tests.client_manager.scripted_groups import Cluster

from tocsin.client_manager.dead_letters import share, shifted
from tocsin.model.destination import DEAD_MESSAGES
from tocsin.model.errors import IllegalState
from tocsin.testing.scripted_session import ScriptedConsumer

DEAD = f"queue:{DEAD_MESSAGES}"


def test_offsets_find_their_group_again() -> None:
    ranges = [(3, 5), (9, 10)]
    both = [*shifted(ranges, 1), *shifted([(0, 7)], 2)]
    assert share(both, 1) == ranges and share(both, 2) == [(0, 7)] and share(both, 3) == []


def cluster_with_dead_messages() -> tuple[Cluster, list[str]]:
    """Two groups, and in each a queue whose one message has been refused once too often."""
    groups = [RealGroup(1), RealGroup(2, primary=20)]
    cluster = Cluster(list(groups))
    client = cluster.connect()
    session = client.session()
    names = []
    for index, group in enumerate(groups):
        for other in groups:
            status = other.status(live_bytes=0 if other is group else 9 << 40)
            cluster.port.message(other.number, other.primary, 1, status, cluster.now)
        name = f"orders{index}"
        client.request("destination.create", destination=f"queue:{name}", redelivery_limit=1)
        assert [each.address.name for each in group.driver.manager.directory if each.address.name == name] == [name]
        session.producer(f"queue:{name}").send(f"dead in {name}")
        consumer = session.consumer(f"queue:{name}")
        consumer.nack(*consumer.take(), delay_ms=0, reason="no")
        consumer.close()
        names.append(name)
    return cluster, names


def opened(cluster: Cluster) -> ScriptedConsumer:
    return cluster.connect().session().consumer(DEAD)


def test_a_consumer_gets_the_dead_messages_of_all_groups() -> None:
    cluster, names = cluster_with_dead_messages()
    client = cluster.connect()
    assert client.request("destination.show", destination=DEAD)["messages"] == 2
    consumer = opened(cluster)
    messages = consumer.take()
    assert sorted(each.body.decode() for each in messages) == [f"dead in {name}" for name in names]
    assert len({each.offset for each in messages}) == 2 and consumer.early == 0
    assert consumer.ack(messages[0]) == consumer.settled
    assert client.request("destination.show", destination=DEAD)["messages"] == 1
    assert consumer.nack(messages[1], delay_ms=0) == consumer.settled
    assert [each.count for each in consumer.take()] == [2]
    consumer.close()
    assert client.request("destination.purge", destination=DEAD)["messages"] == 1


def test_what_it_holds_survives_the_primary_of_one_group() -> None:
    cluster, _ = cluster_with_dead_messages()
    consumer = opened(cluster)
    messages = consumer.take()
    group = cluster.groups[2]
    assert isinstance(group, RealGroup)
    group.crash()
    cluster.fail_over(group, 21)
    assert consumer.take() == []
    assert consumer.ack(*messages) == consumer.settled
    assert cluster.connect().request("destination.show", destination=DEAD)["messages"] == 0


def test_a_consumer_resumes_with_what_it_holds_of_each_group() -> None:
    cluster, _ = cluster_with_dead_messages()
    client = cluster.connect()
    session = client.session()
    consumer = session.consumer(DEAD)
    held = consumer.held()
    assert len(held) == 2
    cluster.hang_up(client)
    again = cluster.connect(resume=client).session(1, session).consumer(DEAD, former=consumer)
    assert again.kept == held


def test_a_browser_ends_when_it_has_seen_all_groups() -> None:
    cluster, names = cluster_with_dead_messages()
    browser = cluster.connect().session().consumer(DEAD, mode="browse")
    assert sorted(browser.bodies()) == [f"dead in {name}" for name in names]
    assert browser.ended is not None and "code" not in browser.ended


def test_dead_messages_go_back_to_where_they_came_from() -> None:
    cluster, names = cluster_with_dead_messages()
    client = cluster.connect()
    browser = client.session().consumer(DEAD, mode="browse")
    offsets = [number for each in browser.take() for number in (each.offset, each.offset + 1)]
    assert client.request("dead.resend", offsets=offsets)["messages"] == 2
    session = cluster.connect().session()
    assert [session.consumer(f"queue:{name}").bodies() for name in names] == [[f"dead in {name}"] for name in names]


def test_dead_messages_of_several_groups_have_no_one_row_of_offsets() -> None:
    cluster, _ = cluster_with_dead_messages()
    client = cluster.connect()
    with pytest.raises(IllegalState, match="browse it"):
        client.request("offset.range", destination=DEAD)
    with pytest.raises(IllegalState, match="no one row of offsets"):
        client.request("drain.take", destination=DEAD, drain="d", after=0)
    with pytest.raises(IllegalState, match="browse it"):
        client.session().consumer(DEAD, mode="replay", start={"offset": 0, "end": 9})
