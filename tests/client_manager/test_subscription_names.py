"""Named subscriptions are what they are in one server, wherever their topics live."""

from __future__ import annotations

import pytest
from tests.client_manager.real_group import RealGroup
from tests.client_manager.scripted_groups import Cluster

from tocsin.model.errors import IllegalState, InvalidDestination
from tocsin.testing.scripted_session import ScriptedConsumer, ScriptedSession

NEWS, SPORT = "topic:news", "topic:sport"


class TwoGroups:
    """`topic:news` lives in the first group, `topic:sport` in the second; one client has the id "me"."""

    def __init__(self) -> None:
        self.first, self.second = RealGroup(1, 10), RealGroup(2, 20)
        self.cluster = Cluster([self.first, self.second])
        self.client = self.cluster.connect("me")
        self.session = self.client.session()
        self.make(NEWS, self.first, self.second)
        self.make(SPORT, self.second, self.first)

    def make(self, destination: str, here: RealGroup, elsewhere: RealGroup) -> None:
        for group, live_bytes in ((here, 0), (elsewhere, 1 << 20)):
            self.cluster.port.message(group.number, group.primary, 1, group.status(live_bytes), self.cluster.now)
        self.client.request("destination.create", destination=destination)
        assert here.driver.show(destination)["name"]

    def subscriptions(self) -> list[tuple[str, str]]:
        shown = [self.first.driver.show(NEWS), self.second.driver.show(SPORT)]
        return [(each["name"], found["name"]) for each in shown for found in each["subscriptions"]]


def subscribe(session: ScriptedSession, topic: str, *, durable: bool = True, shared: bool = False) -> ScriptedConsumer:
    return session.consumer(topic, subscription="audit", durable=durable, shared=shared)


def test_another_topic_in_another_group_replaces_an_unused_subscription() -> None:
    groups = TwoGroups()
    subscribe(groups.session, NEWS).close()
    assert groups.subscriptions() == [("news", "audit")]
    consumer = subscribe(groups.session, SPORT)
    assert groups.subscriptions() == [("sport", "audit")]
    groups.session.producer(SPORT).send("goal")
    assert consumer.bodies() == ["goal"]


def test_the_old_subscription_stays_when_the_new_one_can_not_be_opened() -> None:
    groups = TwoGroups()
    subscribe(groups.session, NEWS).close()
    with pytest.raises(Exception, match="selector"):
        groups.session.consumer(SPORT, subscription="audit", durable=True, selector="price >")
    assert groups.subscriptions() == [("news", "audit")]


@pytest.mark.parametrize(
    "terms", [{}, {"shared": True}, {"shared": True, "durable": False}], ids=["durable", "shared durable", "shared"]
)
def test_a_name_in_use_is_refused_to_another_topic_in_another_group(terms: dict[str, bool]) -> None:
    groups = TwoGroups()
    consumer = subscribe(groups.session, NEWS, **terms)
    with pytest.raises(IllegalState, match="in use"):
        subscribe(groups.session, SPORT, **terms)
    groups.session.producer(NEWS).send("text")
    assert consumer.bodies() == ["text"]
    assert groups.subscriptions() == [("news", "audit")]


def test_shared_and_unshared_durable_ones_share_no_name_over_groups() -> None:
    groups = TwoGroups()
    subscribe(groups.session, NEWS).close()
    with pytest.raises(IllegalState, match="is unshared, not shared"):
        subscribe(groups.session, SPORT, shared=True)


def test_names_of_other_clients_and_other_durability_are_other_names() -> None:
    groups = TwoGroups()
    subscribe(groups.session, NEWS)
    subscribe(groups.session, SPORT, shared=True, durable=False)
    subscribe(groups.cluster.connect("you").session(), SPORT)
    assert groups.subscriptions() == [("news", "audit"), ("sport", "audit"), ("sport", "audit")]


def test_the_client_s_own_subscription_is_deleted_before_one_without_client_id() -> None:
    groups = TwoGroups()
    subscribe(groups.cluster.connect().session(), NEWS, shared=True).close()
    subscribe(groups.session, SPORT).close()
    for left in ([("news", "audit")], []):
        groups.client.request("subscription.delete", subscription="audit")
        assert groups.subscriptions() == left
    with pytest.raises(InvalidDestination):
        groups.client.request("subscription.delete", subscription="audit")


def test_who_closes_while_groups_are_asked_gets_no_consumer() -> None:
    groups = TwoGroups()
    groups.second.silent = True
    session, client = groups.session, groups.client
    fields = {"consumer": 9, "destination": NEWS, "subscription": "audit", "durable": True, "messages": 1, "bytes": 1}
    opening = client.ask("consumer.open", session.number, **fields)
    client.ask("consumer.close", session.number, consumer=9)
    groups.second.silent = False
    groups.cluster.fail_over(groups.second, 21)
    with pytest.raises(IllegalState, match="closed before"):
        client.answer(opening)
    assert groups.subscriptions() == []
