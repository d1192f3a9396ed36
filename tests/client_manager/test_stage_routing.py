"""Stages of several groups, with real message managers: each group has an epoch once, over fail-overs too."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client_manager.real_group import RealGroup
from tests.client_manager.scripted_groups import Cluster, ScriptedGroup, kinds

from tocsin.cluster.commands import Administer
from tocsin.model.errors import IllegalState, InvalidDestination, StaleName
from tocsin.testing.scripted_client import ScriptedClient

Entry = dict[str, Any]


def two_groups() -> tuple[Cluster, RealGroup, RealGroup]:
    """Destination queue:q1 is in the first group and queue:q2 in the second."""
    one, two = RealGroup(1), RealGroup(2, primary=20)
    cluster = Cluster([one, two])
    client = cluster.connect()
    for index, (group, other) in enumerate(((one, two), (two, one)), start=1):
        cluster.port.message(group.number, group.primary, 1, group.status(0), cluster.now)
        cluster.port.message(other.number, other.primary, 1, other.status(9), cluster.now)
        client.request("destination.create", destination=f"queue:q{index}")
        assert group.driver.manager.directory.has(f"q{index}")
    return cluster, one, two


def stage(client: ScriptedClient, number: int, *bodies: str, destination: str) -> Entry:
    identity = number.to_bytes(16, "big")
    client.request("stage.open", destination=destination, stage=identity)
    session = client.session(number)
    session.producer(destination).send(*bodies, stage=identity)
    return {"destination": destination, "stage": identity, "messages": len(bodies)}


def commit(client: ScriptedClient, epoch: int, *stages: Entry) -> dict[str, Any]:
    reply = client.request("stage.commit", app="app", epoch=epoch, stages=list(stages))
    return {name: reply[name] for name in ("committed", "epoch")}


def last(client: ScriptedClient, *destinations: str) -> int:
    return int(client.request("stage.last", app="app", destinations=list(destinations))["epoch"])


def bodies(cluster: Cluster, destination: str) -> list[str]:
    return cluster.connect().session().consumer(destination).bodies()


def die(cluster: Cluster, group: RealGroup, primary: int) -> None:
    group.crash()
    cluster.fail_over(group, primary)


def operations(group: ScriptedGroup) -> list[str]:
    return [each for each in kinds(group.take_taken()) if each.startswith("stage.")]


def test_each_group_gets_its_part_and_is_asked_first() -> None:
    cluster, one, two = two_groups()
    client = cluster.connect()
    first, second = (stage(client, number, "a", "b", destination=f"queue:q{number}") for number in (1, 2))
    for group in (one, two):
        assert operations(group) == ["stage.open"]
    assert commit(client, 3, first, second) == {"committed": True, "epoch": 3}
    for group in (one, two):
        assert operations(group) == ["stage.check", "stage.commit"]
    assert bodies(cluster, "queue:q1") == bodies(cluster, "queue:q2") == ["a", "b"]
    assert commit(client, 3, first, second) == {"committed": False, "epoch": 3}
    assert last(client, "queue:q1", "queue:q2") == 3


def test_one_group_needs_no_question_before() -> None:
    cluster, one, two = two_groups()
    client = cluster.connect()
    staged = stage(client, 1, "a", destination="queue:q1")
    one.take_taken(), two.take_taken()
    commit(client, 0, staged)
    assert (operations(one), operations(two)) == (["stage.commit"], [])


def test_what_is_amiss_in_one_group_is_committed_in_none() -> None:
    cluster, one, two = two_groups()
    client = cluster.connect()
    first, second = (stage(client, number, "a", destination=f"queue:q{number}") for number in (1, 2))
    with pytest.raises(IllegalState, match="messages and not 7"):
        commit(client, 0, first, second | {"messages": 7})
    assert [group.driver.show(f"queue:q{group.number}")["staged"] for group in (one, two)] == [1, 1]
    assert last(client, "queue:q1") == last(client, "queue:q2") == -1
    assert commit(client, 0, first, second)["committed"]


def test_the_lowest_epoch_of_all_groups_counts() -> None:
    cluster, _, _ = two_groups()
    client = cluster.connect()
    commit(client, 4, stage(client, 1, "a", destination="queue:q1"))
    assert last(client, "queue:q1") == 4
    assert last(client, "queue:q1", "queue:q2") == -1
    assert last(client, "queue:q1", "queue:nowhere") == -1
    assert last(client) == -1
    both = [stage(client, 2, "b", destination="queue:q1"), stage(client, 3, "c", destination="queue:q2")]
    assert commit(client, 4, *both) == {"committed": True, "epoch": 4}, "the second group did not have it yet"
    assert bodies(cluster, "queue:q1") == ["a"], "the first one had it"
    assert bodies(cluster, "queue:q2") == ["c"]


def test_drops_are_counted_over_all_groups_and_what_is_unknown_is_fine() -> None:
    cluster, _, _ = two_groups()
    client = cluster.connect()
    stages = [stage(client, number, "a", destination=f"queue:q{number}") for number in (1, 2)]
    unknown = {"destination": "queue:nowhere", "stage": b"x" * 16, "messages": 1}
    assert client.request("stage.drop", stages=[*stages, unknown])["dropped"] == 2
    assert client.request("stage.drop", stages=[*stages, unknown])["dropped"] == 0
    with pytest.raises(InvalidDestination):
        commit(client, 0, unknown)


def test_what_was_staged_outlives_the_primary_and_is_committed_by_the_next() -> None:
    cluster, one, _ = two_groups()
    client = cluster.connect()
    staged = stage(client, 1, "a", "b", destination="queue:q1")
    die(cluster, one, 11)
    assert commit(client, 0, staged) == {"committed": True, "epoch": 0}
    die(cluster, one, 12)
    assert commit(client, 0, staged) == {"committed": False, "epoch": 0}
    assert bodies(cluster, "queue:q1") == ["a", "b"]


@pytest.mark.parametrize("done", [True, False], ids=["it was done", "it was not done"])
def test_a_commit_is_asked_for_again_until_the_next_primary_answers(done: bool) -> None:
    """Whether the dead primary had written it or not: it is committed once."""
    cluster, one, two = two_groups()
    client = cluster.connect()
    stages = [stage(client, number, "a", destination=f"queue:q{number}") for number in (1, 2)]
    one.take_taken(), two.take_taken()
    lose_the_commit(one, done)
    request = client.ask("stage.commit", app="app", epoch=0, stages=stages)
    assert client.answer(request) is None
    one.silent = one.answers_lost = False
    die(cluster, one, 11)
    answer = client.answer(request)
    assert answer is not None and answer["epoch"] == 0
    assert bodies(cluster, "queue:q1") == bodies(cluster, "queue:q2") == ["a"]
    assert last(client, "queue:q1", "queue:q2") == 0


def lose_the_commit(group: RealGroup, done: bool) -> None:
    """The group answers the check, and hears the commit or not; nobody hears its answer."""
    take = group.take

    def taking(message: Any, manager: str = "1/1") -> Any:
        if any(isinstance(each, Administer) and each.operation == "stage.commit" for each in message.commands):
            group.answers_lost, group.silent = done, not done
            group.take = take  # type: ignore[method-assign]
        return take(message, manager)

    group.take = taking  # type: ignore[method-assign]


def test_a_destination_that_was_deleted_and_made_elsewhere_is_looked_for_again() -> None:
    one, two = ScriptedGroup(1), ScriptedGroup(2, primary=20)
    cluster = Cluster([one, two])
    client = cluster.connect()
    client.request("destination.create", destination="queue:q")
    owner = one if any(kind == "destination.create" for kind in kinds(one.taken)) else two
    other = two if owner is one else one
    slot = one if "q" in one.names else two
    slot.names["q"] = (other.number, 2, 1)
    owner.answers["stage.commit"] = StaleName("It has been deleted since.")
    other.answers["stage.commit"] = {"committed": True, "epoch": 0}
    entry = {"destination": "queue:q", "stage": b"x" * 16, "messages": 1}
    assert commit(client, 0, entry) == {"committed": True, "epoch": 0}
    told = [each for each in other.taken if isinstance(each, Administer) and each.operation == "stage.commit"]
    assert [each["incarnation"] for command in told for each in command.fields["stages"]] == [2]
