"""What a client manager knows of the cluster."""

from __future__ import annotations

from tests.client_manager.scripted_groups import Cluster

from tocsin.bus.membership import MemberState


def test_the_status_of_the_cluster() -> None:
    cluster = Cluster()
    group = cluster.group
    cluster.port.message(1, group.primary, 1, group.status(live_bytes=5), cluster.now)
    cluster.port.member_changed(1, group.primary, 1, MemberState.UP, cluster.now)
    status = cluster.connect().request("cluster.status")
    (found,) = status["groups"]
    assert (found["primary"], found["epoch"], found["linked"]) == (group.primary, group.epoch, True)
    assert found["in_sync"] == [10, 11] and (found["committed"], found["last"]) == (7, 9)
    assert [(each["node"], each["state"]) for each in found["members"]] == [(10, "up"), (11, "unknown")]
