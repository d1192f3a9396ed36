"""Who may say what in a group; the extremes of all fields are in tests/node/test_group_member_hostile.py."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
from tests.node.hostile_messages import group_samples

from tocsin.cluster.group_config import EPOCH_MAX, Replica, first_config, next_epoch
from tocsin.cluster.register_messages import CommitSeen, Heartbeat, HeartbeatAnswer
from tocsin.model.limits import GROUP_NUMBER_MAX
from tocsin.replication.credible import is_credible
from tocsin.replication.log import Entry
from tocsin.replication.messages import Acked, Fence, Fetched, GroupMessage, Nack, Order, OrderEntry
from tocsin.replication.settings import GroupSettings

SETTINGS = GroupSettings((5, 6), (5, 6, 9))
LEADER, OTHER, WITNESS, CLIENT_MANAGER = 5, 6, 9, 30
EPOCH = next_epoch(0, SETTINGS.rank(LEADER))
CONFIG = first_config([Replica(5, 50), Replica(6, 60)], [Replica(5, 51), Replica(6, 61), Replica(9, 91)], 2)
ANSWERS = {"Promise", "Accepted", "HeartbeatAnswer", "Refuse"}
OF_THE_OWNER = {"Heartbeat", "Order", "Fence", "Resigned", "Stand"}


def heartbeat() -> Heartbeat:
    found = said_by(LEADER)["Heartbeat"]
    assert isinstance(found, Heartbeat)
    return found


def said_by(sender: int) -> dict[str, GroupMessage]:
    return {type(message).__name__: message for message in group_samples(EPOCH, sender, CONFIG, 7)}


@pytest.mark.parametrize("kind", sorted(said_by(LEADER)))
def test_who_may_say_it(kind: str) -> None:
    assert is_credible(SETTINGS, LEADER, said_by(LEADER)[kind])
    assert is_credible(SETTINGS, OTHER, said_by(OTHER)[kind]) is (kind not in OF_THE_OWNER)
    assert is_credible(SETTINGS, WITNESS, said_by(WITNESS)[kind]) is (kind in ANSWERS or kind == "CommitSeen")
    assert is_credible(SETTINGS, CLIENT_MANAGER, said_by(CLIENT_MANAGER)[kind]) is (kind == "CommitSeen")


@pytest.mark.parametrize("kind", ["Promise", "Accepted", "HeartbeatAnswer", "Fenced"])
def test_nobody_answers_for_another(kind: str) -> None:
    assert not is_credible(SETTINGS, OTHER, said_by(LEADER)[kind])


def test_an_epoch_belongs_to_one_member() -> None:
    theirs = next_epoch(EPOCH, SETTINGS.rank(OTHER))
    assert is_credible(SETTINGS, OTHER, Fence(theirs)) and not is_credible(SETTINGS, LEADER, Fence(theirs))
    assert not is_credible(SETTINGS, LEADER, Fence(EPOCH + 2)), "nobody has that rank"


@pytest.mark.parametrize(
    "message",
    [
        Nack(EPOCH_MAX + 1),
        Acked(EPOCH, 1, GROUP_NUMBER_MAX + 1),
        Order(EPOCH, EPOCH + 1, 1, 0, ()),
        Order(EPOCH, EPOCH, 0, 0, ()),
        Order(EPOCH, EPOCH, 1, 0, (OrderEntry(0, b"", None),)),
        Fetched(EPOCH, 1, 0, 0, 0, (Entry(EPOCH, 1, ()), Entry(EPOCH - 1, 1, ()))),
        Fetched(EPOCH, 1, EPOCH, 0, 0, (Entry(EPOCH - 1, 1, ()),)),
        Fetched(EPOCH, 1, 0, 0, 0, (Entry(EPOCH + 1, 1, ()),)),
        CommitSeen(EPOCH, 1 << 63),
        *(HeartbeatAnswer(EPOCH, 1.0, stamp, True, Replica(LEADER, 51)) for stamp in (nan, inf, -inf, 1e300)),
        *(replace(heartbeat(), wall=wall) for wall in (nan, inf, 1e300)),
        replace(heartbeat(), echoes=((LEADER, nan),)),
        replace(heartbeat(), config=replace(CONFIG, version=1 << 63)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_numbers_out_of_range_are_refused(message: GroupMessage) -> None:
    assert not is_credible(SETTINGS, LEADER, message)
