"""Messages to topics wait after a promotion for those who subscribe through other client managers."""

from __future__ import annotations

from tests.node.group_stage import CM, SESSION, Stage, answer, bodies, publish

from tocsin.cluster.commands import Administer, Answer, CloseSession, Reply, Stored
from tocsin.model.limits import TOPIC_HOLD_SECONDS

PRICES = "topic:prices"
OTHER_CM = 41
OTHER_SESSION = b"o" * 16


def promoted() -> Stage:
    """A new primary that knows of another client manager, which has not linked."""
    stage = Stage(client_managers=(CM, OTHER_CM))
    for seat in stage.seats.values():
        if not seat.witness:
            seat.member.node_up(CM, 7)
            seat.member.node_up(OTHER_CM, 1)
    stage.elect()
    return stage


def the_other_goes(stage: Stage) -> None:
    stage.primary().member.node_gone(OTHER_CM, 1)
    stage.settle()


def stored(replies: list[Reply]) -> list[int]:
    return [reply.sequence for reply in replies if isinstance(reply, Stored)]


def test_a_message_to_a_topic_waits_for_all_client_managers_and_one_to_a_queue_does_not() -> None:
    stage = promoted()
    client = stage.client
    prices, orders = client.open_producer(PRICES)["destination"], client.open_producer()["destination"]
    client.administer("link.complete")
    assert stored(client.send(publish(prices, "a", name=PRICES))) == []
    assert stored(client.send(publish(orders, "b"))) == [1]
    # Who subscribes meanwhile gets it.
    assert answer(client.open_consumer(PRICES)) == {}
    the_other_goes(stage)
    assert stored(client.replies) == [1] and bodies(client.replies) == ["a"]


def test_a_commit_of_stages_waits_too() -> None:
    """It gives messages to a topic: who subscribes through another client manager must not miss them."""
    stage = promoted()
    client = stage.client
    client.open_producer(PRICES)
    client.administer("link.complete")
    entry = {"destination": PRICES, "stage": b"s" * 16, "messages": 0}
    replies = client.send(Administer(99, "stage.commit", {"app": "app", "epoch": 1, "stages": [entry]}))
    assert not [each for each in replies if isinstance(each, Answer)]
    assert client.administer("stage.last", app="app") == {"epoch": -1}
    the_other_goes(stage)
    assert client.administer("stage.last", app="app") == {"epoch": 1}


def test_a_stage_for_a_topic_waits_too_and_one_for_a_queue_does_not() -> None:
    """Whether anybody hears the topic is known when all who subscribe through others are back."""
    stage = promoted()
    client = stage.client
    client.open_producer(PRICES)
    client.administer("link.complete")
    wanted = {"destination": PRICES, "stage": b"s" * 16, "seconds": 60}
    assert client.send(Administer(98, "stage.open", wanted)) == []
    assert client.administer("stage.open", destination="queue:orders", stage=b"q" * 16, seconds=60) == {}
    client.open_consumer(PRICES)
    the_other_goes(stage)
    assert Answer(98, {}) in client.replies


def test_a_client_manager_that_never_links_is_waited_for_about_a_second() -> None:
    stage = promoted()
    client = stage.client
    prices = client.open_producer(PRICES)["destination"]
    client.send(publish(prices, "a", name=PRICES))
    assert stage.primary().member.next_deadline() <= stage.clock.now() + TOPIC_HOLD_SECONDS
    stage.advance(TOPIC_HOLD_SECONDS)
    assert stored(client.replies) == [1]


def test_what_waited_keeps_its_order_and_the_end_of_its_session_comes_behind_it() -> None:
    stage = promoted()
    client = stage.client
    client.open_consumer(PRICES, session=b"t" * 16)
    prices = client.open_producer(PRICES)["destination"]
    client.open_producer(PRICES, session=OTHER_SESSION)
    client.administer("link.complete")
    client.send(*(publish(prices, str(number), first=number, name=PRICES) for number in (1, 2, 3)))
    ends = CloseSession(77, SESSION, False)
    too_late = publish(prices, "late", first=4, name=PRICES)
    behind = publish(prices, "4", first=1, name=PRICES, session=OTHER_SESSION)
    assert client.send(ends, too_late, behind) == []
    the_other_goes(stage)
    assert [
        (reply.session, reply.sequence) if isinstance(reply, Stored) else reply.request
        for reply in client.replies
        if isinstance(reply, Stored | Answer)
    ] == [(SESSION, 1), (SESSION, 2), (SESSION, 3), 77, (OTHER_SESSION, 1)]
    assert bodies(client.replies) == ["1", "2", "3", "4"]


def test_what_is_said_again_on_a_new_link_is_stored_once() -> None:
    stage = promoted()
    client = stage.client
    prices = client.open_producer(PRICES)["destination"]
    client.send(publish(prices, "a", name=PRICES))
    client.relink()
    client.open_producer(PRICES)
    client.open_consumer(PRICES)
    client.send(publish(prices, "a", name=PRICES), publish(prices, "b", first=2, name=PRICES))
    client.administer("link.complete")
    the_other_goes(stage)
    assert stored(client.replies) == [1, 2] and bodies(client.replies) == ["a", "b"]


def test_nothing_waits_when_nobody_else_is_there() -> None:
    stage = Stage()
    stage.elect()
    client = stage.client
    prices = client.open_producer(PRICES)["destination"]
    assert stored(client.send(publish(prices, "a", name=PRICES))) == [1]
