"""Mistakes on the way between clients and groups end the request or the connection that met them."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from tests.client_manager.scripted_groups import Cluster, delivery

from tocsin.client_manager.routing import Router
from tocsin.client_manager.tracking import TrackedConsumer
from tocsin.cluster.commands import OpenConsumer, Publish
from tocsin.model.errors import InternalError
from tocsin.wire.frames import FrameType

pytestmark = pytest.mark.makes_mistakes


def broken(*arguments: Any, **named: Any) -> NoReturn:
    raise KeyError("nobody expected this")


def test_a_command_that_can_not_be_routed_is_refused_to_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    client = cluster.connect()
    session = client.session()
    with monkeypatch.context() as patch:
        patch.setattr(Router, "_open_producer", broken)
        with pytest.raises(InternalError):
            session.producer("queue:orders")
        patch.setattr(Router, "_administer", broken)
        with pytest.raises(InternalError):
            client.request("destination.show", destination="queue:orders")
    assert client.open
    session.producer("queue:orders")
    assert client.request("cluster.status")["client_managers"][0]["faults"] == 2


def test_a_delivery_that_can_not_be_passed_on_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    victim, other = cluster.connect(), cluster.connect()
    session = victim.session()
    session.consumer("queue:orders")
    session.producer("queue:orders").send("one")
    taken = cluster.group.take_taken()
    [opened] = [each for each in taken if isinstance(each, OpenConsumer)]
    [publish] = [each for each in taken if isinstance(each, Publish)]
    monkeypatch.setattr(TrackedConsumer, "delivered", broken)
    cluster.reply(cluster.group, delivery(opened, publish, 0))
    assert victim.take(FrameType.FAILURE)[-1].fields()["code"] == InternalError.code
    assert not victim.open and other.open
    other.session().producer("queue:others")


def test_an_answer_that_can_not_be_passed_on_ends_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    client = cluster.connect()
    monkeypatch.setattr("tocsin.client_manager.pending.Pending.answered", broken)
    with pytest.raises(InternalError):
        client.request("destination.show", destination="queue:_DMQ")
    assert client.open
