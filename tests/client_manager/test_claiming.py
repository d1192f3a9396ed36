"""Client ids are unique in the cluster; who leaves is hung up on when all that was its own is free."""

from __future__ import annotations

import pytest
from tests.client_manager.scripted_groups import Cluster, ScriptedGroup, kinds

from tocsin.cluster.commands import (
    Administer,
)
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.wire.frames import FrameType


def test_a_client_id_is_claimed_before_the_client_is_welcome() -> None:
    group = ScriptedGroup(1)
    one, two = Cluster([group]), Cluster([group], node=2)
    one.connect("me")
    assert kinds(group.take_taken()) == ["client_id.claim"]
    with pytest.raises(Exception, match="in use"):
        two.connect("me")
    group.take_taken()


def test_a_claim_waits_for_the_group_and_gives_up_with_the_login() -> None:
    group = ScriptedGroup(1)
    cluster = Cluster([group], login=3.0)
    group.silent = True
    client = cluster.dial()
    with pytest.raises(IndexError):
        client.hello("me")
    group.silent = False
    cluster.fail_over(group)
    assert len(client.take(FrameType.WELCOME)) == 1
    group.silent = True
    other = cluster.dial()
    with pytest.raises(IndexError):
        other.hello("you")
    cluster.advance(4.0)
    assert not other.open and client.open


def test_a_claim_that_is_granted_too_late_is_released_for_good() -> None:
    group = ScriptedGroup(1)
    cluster = Cluster([group], login=3.0)
    group.silent = True
    client = cluster.dial()
    with pytest.raises(IndexError):
        client.hello("me")
    cluster.advance(4.0)
    assert not client.open
    group.silent = False
    cluster.fail_over(group)
    assert "client_id.release" in kinds(group.take_taken()) and group.claims == {}
    cluster.fail_over(group, 12)
    assert "client_id.claim" not in kinds(group.take_taken()) and group.claims == {}


def test_a_client_keeps_its_client_id_when_it_comes_to_another_client_manager() -> None:
    group = ScriptedGroup(1)
    one, two = Cluster([group]), Cluster([group], node=2)
    client = one.connect("me")
    session = client.session()
    session.consumer("queue:orders")
    group.take_taken()
    group.link = 1
    again = two.connect("me", resume=client)
    assert again.identity == client.identity and not again.welcome["resumed"]
    resumed = again.session(1, session)
    assert resumed.producer_id == session.producer_id and resumed.epoch == session.epoch + 1
    taken = [each for each in group.taken if isinstance(each, Administer)]
    assert [each.operation for each in taken] == ["connection.keep", "client_id.claim"]
    assert taken[0].fields == {"connections": [client.identity], "arrived": True}


def test_claims_are_made_again_on_a_new_link_and_released_at_the_end() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect("me")
    cluster.fail_over(group)
    assert kinds(group.take_taken()) == ["client_id.claim"]
    client.goodbye()
    assert kinds(group.take_taken()) == ["CloseConnection", "client_id.release"]
    cluster.fail_over(group, 12)
    assert group.take_taken() == []


def is_open(client: ScriptedClient) -> bool:
    return client.open


def test_a_client_that_leaves_is_hung_up_on_when_its_client_id_is_free() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect("me")
    group.silent = True
    client.goodbye()
    assert kinds(group.messages[-1].commands) == ["CloseConnection", "client_id.release"]
    assert is_open(client)
    # It is said again to whoever leads next, until somebody has heard it.
    group.silent = False
    cluster.fail_over(group)
    assert not is_open(client) and group.claims == {}


def test_a_client_that_leaves_is_hung_up_on_when_no_group_has_temporary_destinations_of_it() -> None:
    groups = [ScriptedGroup(1), ScriptedGroup(2)]
    cluster = Cluster(groups)
    client = cluster.connect()
    client.request("temporary.create", kind="queue")
    groups[1].silent = True
    client.goodbye()
    assert client.open
    groups[1].silent = False
    cluster.fail_over(groups[1], 12)
    assert not client.open


def test_a_client_that_comes_from_elsewhere_may_have_temporary_destinations() -> None:
    group = ScriptedGroup(1)
    one, two = Cluster([group]), Cluster([group], node=2)
    client = one.connect()
    client.session()
    again = two.connect(resume=client)
    group.silent = True
    again.goodbye()
    assert again.open


def test_a_client_that_leaves_nothing_behind_does_not_wait_for_silent_groups() -> None:
    cluster = Cluster()
    client = cluster.connect()
    cluster.group.silent = True
    client.goodbye()
    assert not client.open


def test_nobody_waits_for_silent_groups_forever() -> None:
    cluster = Cluster(grace=5.0)
    client, impatient = cluster.connect("me"), cluster.connect("her")
    cluster.group.silent = True
    client.goodbye()
    impatient.goodbye()
    cluster.hang_up(impatient)
    cluster.advance(4)
    assert is_open(client)
    cluster.advance(2)
    assert not is_open(client)
    cluster.group.silent = False
    cluster.fail_over(cluster.group)
    assert cluster.group.claims == {}


def test_who_lost_its_client_id_meanwhile_has_to_go() -> None:
    cluster = Cluster()
    client = cluster.connect("me")
    cluster.group.claims["me"] = b"somebody else..."
    cluster.fail_over(cluster.group)
    assert not client.open


def test_set_later_it_is_claimed_too() -> None:
    group = ScriptedGroup(1)
    one, two = Cluster([group]), Cluster([group], node=2)
    one.connect().request("client_id.set", client_id="me")
    with pytest.raises(Exception, match="in use"):
        two.connect().request("client_id.set", client_id="me")
