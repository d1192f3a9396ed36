"""Client managers that take what they get slowly: their consumers wait, those of others do not."""

from __future__ import annotations

from tests.message_manager.stage import CM1, CM2, OTHER, SESSION, Stage, delivered

from tocsin.cluster.commands import Delivery, Stored
from tocsin.model.limits import DELIVERED_BYTES_PER_RUN, KIB, MIB


def test_a_spared_consumer_waits_and_its_rival_gets_everything() -> None:
    stage = Stage()
    orders = stage.open_producer(CM1)
    stage.open_consumer(CM1, SESSION)
    stage.open_consumer(CM2, OTHER)
    stage.manager.spare(frozenset({CM2}))
    replies = [*stage.publish(CM1, orders, 1, b"a"), *stage.publish(CM1, orders, 2, b"b")]
    assert len([reply for reply in replies if isinstance(reply, Stored)]) == 2
    assert delivered(replies) == [(0, 1, 1), (1, 2, 1)] and not stage.replies.get(CM2)


def test_what_waited_for_a_spared_consumer_comes_when_it_is_not_spared_any_more() -> None:
    stage = Stage()
    orders = stage.open_producer(CM1)
    stage.open_consumer(CM2, OTHER)
    stage.manager.spare(frozenset({CM2}))
    stage.publish(CM1, orders, 1, b"a", b"b")
    assert not stage.replies.get(CM2)
    stage.manager.spare(frozenset())
    stage.settle()
    assert delivered(stage.replies[CM2]) == [(0, 2, 1)]


def test_a_spared_browser_goes_on_later() -> None:
    stage = Stage()
    orders = stage.open_producer(CM1)
    stage.publish(CM1, orders, 1, b"a", b"b")
    stage.manager.spare(frozenset({CM2}))
    assert not delivered(stage.open_consumer(CM2, OTHER, mode="browse"))
    stage.manager.spare(frozenset())
    stage.settle()
    assert delivered(stage.replies[CM2]) == [(0, 2, 1)]


def test_one_run_delivers_only_so_many_bytes() -> None:
    """However many consumers have credit: whoever sends it can say before the next run that it is too much."""
    stage = Stage()
    orders = stage.open_producer(CM1)
    for number in range(200):
        stage.publish(CM1, orders, number + 1, bytes(100 * KIB))
    manager, sizes = stage.manager, []
    manager.hold_deliveries(stage.clock.now())
    for consumer in range(1, 4):
        stage.open_consumer(CM2, OTHER, consumer=consumer, bytes=64 * MIB)
    manager.release_deliveries()
    more = True
    while more:
        more = manager.run()
        sizes.append(sum(len(reply.block) for _, reply in manager.take_replies() if isinstance(reply, Delivery)))
        stage.storage.pump()
        more |= stage.workers.settle()
    assert sum(sizes) >= 200 * 100 * KIB
    assert max(sizes) <= DELIVERED_BYTES_PER_RUN + MIB
