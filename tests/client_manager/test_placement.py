"""Destinations in several groups: where they are looked up, where they go, and what happens when two are faster."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client_manager.real_group import RealGroup
from tests.client_manager.scripted_groups import Cluster, ScriptedGroup, kinds

from tocsin.bus.membership import MemberState
from tocsin.cluster.commands import Administer, OpenConsumer, OpenProducer
from tocsin.cluster.envelope import NameChanged
from tocsin.cluster.slots import SlotTable
from tocsin.model.errors import IllegalState, InvalidDestination, StaleName, TocsinError

SLOTS = SlotTable.round_robin([1, 2, 3])


def name_of(group: int, number: int = 0) -> str:
    """A name whose slot belongs to a group."""
    return [f"q{each}" for each in range(100) if SLOTS.group_of(f"q{each}") == group][number]


def three() -> list[ScriptedGroup]:
    return [ScriptedGroup(number, primary=number * 10) for number in (1, 2, 3)]


def tell(cluster: Cluster, **live_gib: int) -> None:
    for name, size in live_gib.items():
        group = cluster.groups[int(name[1:])]
        cluster.port.message(group.number, group.primary, 1, group.status(size << 30), cluster.now)


def opened(group: ScriptedGroup) -> list[tuple[str, int]]:
    found = [each for each in group.taken if isinstance(each, OpenProducer | OpenConsumer)]
    return [(each.destination.name, each.incarnation) for each in found]


def test_a_new_destination_goes_to_the_group_with_the_least_in_it() -> None:
    cluster = Cluster(three())
    tell(cluster, g1=500, g2=20, g3=300)
    name = name_of(1)
    cluster.connect().session().producer(f"queue:{name}")
    assert kinds(cluster.groups[1].take_taken()) == ["name.find", "name.assign"]
    assert opened(cluster.groups[2]) == [(name, 1)] and opened(cluster.groups[3]) == []


def test_a_known_name_is_not_looked_up_again_until_it_changes() -> None:
    cluster = Cluster(three())
    session = cluster.connect().session()
    name = name_of(1)
    session.producer(f"queue:{name}")
    session.consumer(f"queue:{name}")
    assert kinds(cluster.groups[1].take_taken()).count("name.find") == 1
    cluster.port.message(1, 10, 1, NameChanged(name), cluster.now)
    session.consumer(f"queue:{name}")
    assert kinds(cluster.groups[1].take_taken()).count("name.find") == 1


def test_two_who_assign_one_name_end_at_the_same_group() -> None:
    groups = three()
    one, two = Cluster(groups), Cluster(groups, node=2)
    tell(one, g1=5, g2=1, g3=5)
    tell(two, g1=5, g2=5, g3=1)
    name = name_of(1)
    groups[0].silent = True
    first, second = one.connect().session().client, two.connect().session().client
    asked = first.ask("producer.open", 1, producer=1, destination=f"queue:{name}")
    other = second.ask("producer.open", 1, producer=1, destination=f"queue:{name}")
    groups[0].silent = False
    for cluster in (one, two):
        cluster.now += 5
        cluster.port.message(1, 10, 2, groups[0].beat(), cluster.now)
    groups[0].boot = 2
    for cluster in (one, two):
        cluster.settle()
    assert first.answer(asked) is not None and second.answer(other) is not None
    assert opened(groups[1]) == [(name, 1), (name, 1)] and opened(groups[2]) == []


def test_silence_of_the_group_of_the_slot_means_to_wait() -> None:
    cluster = Cluster(three())
    tell(cluster, g1=5, g2=1, g3=5)
    cluster.groups[1].silent = True
    client = cluster.connect().session().client
    request = client.ask("producer.open", 1, producer=1, destination=f"queue:{name_of(1)}")
    cluster.advance(60.0)
    assert client.answer(request) is None and opened(cluster.groups[2]) == []
    cluster.groups[1].silent = False
    cluster.fail_over(cluster.groups[1])
    assert client.answer(request) is not None and opened(cluster.groups[2]) != []


def test_who_only_reads_creates_nothing() -> None:
    cluster = Cluster(three())
    client = cluster.connect()
    name = name_of(1)
    with pytest.raises(InvalidDestination, match="There is no topic"):
        client.session().consumer(f"topic:{name}", mode="replay")
    with pytest.raises(InvalidDestination, match="There is no queue"):
        client.request("destination.show", destination=f"queue:{name}")
    assert cluster.groups[1].names == {}


def test_a_name_has_one_kind() -> None:
    cluster = Cluster(three())
    session = cluster.connect().session()
    session.producer(f"queue:{name_of(1)}")
    with pytest.raises(InvalidDestination, match="is a queue, not a topic"):
        session.producer(f"topic:{name_of(1)}")


class Renewed(ScriptedGroup):
    """Has a newer destination of the name than the directory said at first."""

    incarnation = 2

    def _answer(self, command: Any) -> Any:
        if isinstance(command, OpenProducer) and command.incarnation < self.incarnation:
            self.answers["producer.open"] = StaleName("The destination was deleted and made anew.")
        else:
            self.answers.pop("producer.open", None)
        return super()._answer(command)


def test_a_stale_name_is_looked_up_again() -> None:
    groups = [ScriptedGroup(1), Renewed(2, primary=20), ScriptedGroup(3, primary=30)]
    cluster = Cluster(groups)
    name = name_of(3)
    groups[2].names[name] = (2, 1, 1)
    other = cluster.connect().session()
    other.consumer(f"queue:{name}")
    groups[2].names[name] = (2, 2, 1)
    producer = other.producer(f"queue:{name}")
    assert producer.credit > 0
    assert opened(groups[1]) == [(name, 1), (name, 1), (name, 2)]


def test_a_name_whose_destination_was_deleted_long_ago_is_taken_out_and_given_anew() -> None:
    groups = [ScriptedGroup(1), Renewed(2, primary=20), ScriptedGroup(3, primary=30)]
    cluster = Cluster(groups)
    tell(cluster, g1=5, g2=1, g3=5)
    name = name_of(3)
    groups[2].names[name], groups[2].incarnations[name] = (2, 1, 1), 1
    cluster.connect().session().producer(f"queue:{name}")
    operations = [each.operation for each in groups[2].taken if isinstance(each, Administer)]
    assert operations[-3:] == ["name.remove", "name.find", "name.assign"]
    assert opened(groups[1]) == [(name, 1), (name, 2)]


def test_what_stays_stale_is_an_error_in_the_end() -> None:
    group = Renewed(2, primary=20)
    group.incarnation = 1 << 40
    cluster = Cluster([ScriptedGroup(1), group, ScriptedGroup(3, primary=30)])
    tell(cluster, g2=1)
    with pytest.raises(InvalidDestination):
        cluster.connect().session().producer(f"queue:{name_of(3)}")


def test_a_deletion_takes_the_name_out_after_the_destination() -> None:
    cluster = Cluster(three())
    client = cluster.connect()
    name = name_of(1)
    client.request("destination.create", destination=f"queue:{name}")
    owner = cluster.groups[1].names[name][0]
    client.request("destination.delete", destination=f"queue:{name}")
    assert cluster.groups[1].names == {}
    deleted = [each for each in cluster.groups[owner].taken if isinstance(each, Administer)]
    assert "destination.delete" in [each.operation for each in deleted]
    assert [each.fields["incarnation"] for each in deleted if each.operation == "destination.delete"] == [1]
    cluster.groups[owner].answers["destination.delete"] = IllegalState("It is in use.")
    client.request("destination.create", destination=f"queue:{name}")
    cluster.groups[cluster.groups[1].names[name][0]].answers["destination.delete"] = IllegalState("It is in use.")
    with pytest.raises(IllegalState):
        client.request("destination.delete", destination=f"queue:{name}")
    assert name in cluster.groups[1].names


def test_temporary_destinations_live_where_their_slot_is() -> None:
    cluster = Cluster(three())
    client = cluster.connect()
    client.request("temporary.create", kind="queue")
    (created,) = [
        (group.number, each.fields["name"])
        for group in cluster.groups.values()
        for each in group.taken
        if isinstance(each, Administer) and each.operation == "temporary.create"
    ]
    assert created[0] == SLOTS.group_of(created[1])
    client.goodbye()
    assert all("CloseConnection" in kinds(group.taken) for group in cluster.groups.values())


def test_nothing_new_goes_to_a_group_without_a_primary() -> None:
    cluster = Cluster(three())
    tell(cluster, g1=5, g2=1, g3=3)
    cluster.port.member_changed(2, 20, 1, MemberState.DOWN, cluster.now)
    cluster.connect().session().producer(f"queue:{name_of(1)}")
    assert cluster.groups[1].names[name_of(1)][0] == 3


def test_a_consumer_that_is_closed_while_its_name_is_looked_up_is_not_opened() -> None:
    cluster = Cluster(three())
    cluster.groups[1].silent = True
    session = cluster.connect().session()
    client = session.client
    request = client.ask("consumer.open", 1, consumer=7, destination=f"queue:{name_of(1)}", messages=1, bytes=1)
    session.request("consumer.close", consumer=7)
    cluster.groups[1].silent = False
    cluster.fail_over(cluster.groups[1])
    with pytest.raises(IllegalState):
        client.answer(request)
    assert all(opened(group) == [] for group in cluster.groups.values())


def test_a_session_that_is_closed_leaves_all_its_groups() -> None:
    cluster = Cluster(three())
    tell(cluster, g1=1, g2=2, g3=3)
    session = cluster.connect().session()
    session.producer(f"queue:{name_of(1)}")
    tell(cluster, g1=9)
    session.producer(f"queue:{name_of(1, 1)}")
    session.close()
    assert [("CloseSession" in kinds(group.taken)) for group in cluster.groups.values()] == [True, True, False]


def test_dead_messages_of_a_destination_are_where_it_is() -> None:
    cluster = Cluster(three())
    tell(cluster, g1=500, g2=20, g3=300)
    session = cluster.connect().session()
    name = name_of(1)
    session.producer(f"topic:{name}")
    assert opened(cluster.groups[2]) == [(name, 1)]
    session.producer(f"queue:_DMQ:topic:{name}")
    assert opened(cluster.groups[2]) == [(name, 1), (f"_DMQ:topic:{name}", 0)]


def test_dead_messages_of_a_destination_that_is_gone_are_where_others_are() -> None:
    cluster = Cluster(three())
    cluster.connect().session().producer("queue:_DMQ:topic:gone")
    group = cluster.groups[SLOTS.group_of("_DMQ")]
    assert opened(group) == [("_DMQ:topic:gone", 0)]


def test_a_burst_of_new_destinations_is_spread_though_nobody_says_anything_new() -> None:
    cluster = Cluster(three())
    tell(cluster, g1=0, g2=0, g3=0)
    client = cluster.connect()
    for number in range(30):
        client.request("destination.create", destination=f"queue:burst{number}")
    created = [
        sum(isinstance(each, Administer) and each.operation == "destination.create" for each in group.taken)
        for group in cluster.groups.values()
    ]
    assert created == [10, 10, 10]


# ---- what nobody made keeps no name


def names_of(groups: list[RealGroup]) -> list[str]:
    return [name for group in groups for name in group.driver.manager.directory.names.entries]


IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "a queue is not retained": {"retained": True},
    "only what is retained has a size": {"max_bytes": 1},
    "nor an age": {"max_age_ms": 1},
    "no copies": {"min_copies": 0},
    "less than none": {"redelivery_limit": -1},
}


@pytest.mark.parametrize("terms", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_no_group_would_create_is_refused_before_its_name_has_a_place(terms: dict[str, Any]) -> None:
    cluster = Cluster(three())
    client = cluster.connect()
    with pytest.raises(TocsinError):
        client.request("destination.create", destination="queue:ghost", **terms)
    assert not any(kinds(group.take_taken()) for group in cluster.groups.values())


def test_the_name_of_what_its_group_refuses_is_free_again() -> None:
    groups = [RealGroup(1), RealGroup(2, primary=20)]
    cluster = Cluster(list(groups))
    client = cluster.connect()
    for number in range(8):
        with pytest.raises(InvalidDestination, match="can't have 2 copies"):
            client.request("destination.create", destination=f"queue:ghost{number}", min_copies=2)
    assert names_of(groups) == []
    for group in groups:
        group.crash()
        cluster.fail_over(group)
    assert names_of(groups) == []
    client = cluster.connect()
    for number in range(8):
        client.request("destination.create", destination=f"topic:ghost{number}")
    client.session().producer("topic:ghost0").send("a")
    assert sorted(names_of(groups)) == [f"ghost{number}" for number in range(8)]


def test_a_name_stays_whose_destination_others_have_made() -> None:
    cluster = Cluster(three())
    client, name = cluster.connect(), name_of(1)
    for group in cluster.groups.values():
        group.answers["destination.create"] = IllegalState("It exists with other options.")
        group.answers["destination.renounce"] = {"renounced": False}
    with pytest.raises(IllegalState):
        client.request("destination.create", destination=f"queue:{name}")
    assert name in cluster.groups[1].names


def test_the_name_of_what_is_closed_before_it_is_open_is_free_again() -> None:
    groups = [RealGroup(1), RealGroup(2, primary=20)]
    cluster = Cluster(list(groups))
    slots = SlotTable.round_robin([1, 2])
    name = next(f"q{each}" for each in range(100) if slots.group_of(f"q{each}") == 1)
    session = cluster.connect().session()
    groups[0].answers_lost = True
    request = session.client.ask("consumer.open", 1, consumer=7, destination=f"queue:{name}", messages=1, bytes=1)
    session.request("consumer.close", consumer=7)
    groups[0].answers_lost = False
    cluster.fail_over(groups[0])
    with pytest.raises(IllegalState, match="closed before it was open"):
        session.client.answer(request)
    assert names_of(groups) == []
