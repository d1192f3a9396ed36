"""What clients have under way: who fills it is not read for a while, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client_manager.scripted_groups import Cluster, ScriptedGroup, delivery, stored

from tocsin.bus.membership import MemberState
from tocsin.client_manager.accounts import Account, Accounts
from tocsin.cluster.commands import OpenConsumer, SettledTo, SettleMessages
from tocsin.model.errors import IllegalState, ResourceExhausted
from tocsin.model.ranges import unpack_ranges
from tocsin.model.traffic_limits import (
    INBOUND_ALL_BYTES_LAST,
    INBOUND_ALL_BYTES_MAX,
    INBOUND_BYTES_MAX,
    INBOUND_COMMANDS_MAX,
)
from tocsin.testing.driver import Driver
from tocsin.testing.scripted_client import ScriptedClient
from tocsin.testing.scripted_session import ScriptedConsumer
from tocsin.wire.frames import FrameType, Outcome, Settle, control, write_settle

RANGES = 4_096


def pauses(cluster: Cluster) -> dict[int, bool]:
    return cluster.port.clients.take_pauses()


def settle_more(consumer: ScriptedConsumer, number: int, outcome: Outcome = Outcome.ACKNOWLEDGE) -> None:
    """A settlement of nothing that the consumer has, as large as they get."""
    ranges = [(2 * each, 2 * each + 1) for each in range(RANGES)]
    consumer.session.client.send(
        write_settle(consumer.session.number, Settle(consumer.number, outcome, number, ranges))
    )


def without_primary(cluster: Cluster, group: ScriptedGroup) -> None:
    cluster.port.member_changed(group.number, group.primary, group.boot, MemberState.DOWN, cluster.now)


# ---- accounts by themselves


def test_one_that_has_too_many_bytes_under_way_waits_until_half_of_them_are_done() -> None:
    accounts = Accounts()
    account, other = Account(accounts, 1), Account(accounts, 2)
    other.charge(1000)
    other.received(0)
    for _ in range(3):
        account.charge(INBOUND_BYTES_MAX // 3 + 1)
    account.received(0)
    assert accounts.take_pauses() == {1: True}
    account.release(INBOUND_BYTES_MAX // 3 + 1)
    assert accounts.take_pauses() == {}
    account.release(INBOUND_BYTES_MAX // 3 + 1)
    assert accounts.take_pauses() == {1: False}


def test_one_that_has_too_many_commands_under_way_waits_too() -> None:
    accounts = Accounts()
    account = Account(accounts, 1)
    for _ in range(INBOUND_COMMANDS_MAX + 1):
        account.charge(1)
    account.received(0)
    assert accounts.take_pauses() == {1: True}
    for _ in range(INBOUND_COMMANDS_MAX // 2 + 1):
        account.release(1)
    assert accounts.take_pauses() == {1: False}
    assert accounts.holders == 1


def test_when_all_have_too_much_those_wait_that_have_more_than_their_share() -> None:
    accounts = Accounts()
    many = [Account(accounts, number) for number in range(1, 41)]
    share = INBOUND_ALL_BYTES_MAX // 40
    for account in many[:20]:
        account.charge(2 * share + 1000)
    for account in many[20:]:
        account.charge(1000)
    for account in many:
        account.received(0)
    assert accounts.take_pauses() == dict.fromkeys(range(1, 21), True)
    many[0].release(2 * share + 1000)
    assert accounts.take_pauses() == {1: False}
    many[1].look_again()
    assert accounts.take_pauses() == {2: False}, "together they have enough room again"


def test_frames_that_are_begun_count_for_all_but_hold_nobody_up_who_has_to_complete_one() -> None:
    accounts = Accounts()
    half = Account(accounts, 1)
    half.received(INBOUND_ALL_BYTES_MAX + 1)
    assert accounts.take_pauses() == {} and accounts.bytes > INBOUND_ALL_BYTES_MAX
    half.received(0)
    assert accounts.bytes == 0
    half.received(INBOUND_ALL_BYTES_MAX)
    half.moved(0)
    assert accounts.bytes == 0, "what has begun goes with the connection"


def test_when_there_is_no_memory_for_what_is_begun_who_brings_more_than_a_share_is_refused() -> None:
    accounts = Accounts()
    holder, small, large = (Account(accounts, number) for number in (1, 2, 3))
    holder.charge(INBOUND_ALL_BYTES_LAST)
    small.charge(10)
    small.received(1000)
    with pytest.raises(ResourceExhausted, match="no memory for what its clients send at once"):
        large.received(INBOUND_ALL_BYTES_MAX)


# ---- as a dialogue


def test_settlements_for_a_group_without_a_primary_hold_back_who_sends_them() -> None:
    cluster = Cluster()
    group = cluster.group
    client, other = cluster.connect(), cluster.connect()
    consumer, innocent = client.session().consumer("queue:orders"), other.session().consumer("queue:orders")
    without_primary(cluster, group)
    sent = 0
    while not (said := pauses(cluster)):
        sent += 1
        settle_more(consumer, sent)
        assert sent * RANGES * 16 < 8 << 20, "more and more is kept"
    assert said == {client.number: True}
    innocent.ack()
    assert pauses(cluster) == {}
    cluster.fail_over(group)
    again = [each for each in group.take_taken() if isinstance(each, SettleMessages)]
    assert len(again) == sent + 1, "all of it is said to the new primary"
    cluster.reply(group, SettledTo(again[0].key, sent))
    assert pauses(cluster) == {client.number: False}


def test_renewals_for_a_group_without_a_primary_are_counted_and_confirmed_like_others() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    consumer = client.session().consumer("queue:orders")
    without_primary(cluster, group)
    for number in range(1, INBOUND_COMMANDS_MAX + 2):
        client.send(write_settle(1, Settle(consumer.number, Outcome.RENEW, number, [(0, 1)])))
    assert pauses(cluster) == {client.number: True}
    cluster.fail_over(group)
    again = [each for each in group.take_taken() if isinstance(each, SettleMessages)]
    cluster.reply(group, SettledTo(again[0].key, again[-1].settle.number))
    assert pauses(cluster) == {client.number: False}


def test_requests_to_a_group_without_a_primary_hold_back_who_asks() -> None:
    cluster = Cluster()
    group = cluster.group
    client, other = cluster.connect(), cluster.connect()
    without_primary(cluster, group)
    name = "x" * 200
    for number in range(INBOUND_COMMANDS_MAX + 1):
        client.ask("destination.show", destination=f"queue:{name}{number}")
    other.ask("destination.show", destination="queue:orders")
    assert pauses(cluster) == {client.number: True}
    cluster.fail_over(group)
    assert pauses(cluster) == {client.number: False}


def test_requests_that_are_refused_at_once_leave_nothing_behind() -> None:
    cluster = Cluster()
    client = cluster.connect()
    for _ in range(100):
        refused = client.ask("destination.create")
        with pytest.raises(Exception, match="lacks the field"):
            client.answer(refused)
    assert not cluster.port.clients._awaited


def test_blocks_count_until_they_are_confirmed() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    session = client.session()
    group.take_taken()
    producers = [session.producer("queue:orders") for _ in range(12)]
    group.take_taken()
    for producer in producers:
        producer.send(b"x" * (3 << 20))
    assert pauses(cluster) == {client.number: True}
    publishes = group.take_taken()
    cluster.reply(group, *(stored(each) for each in publishes[:4]))
    assert pauses(cluster) == {}
    cluster.reply(group, *(stored(each) for each in publishes[4:8]))
    assert pauses(cluster) == {client.number: False}


def test_a_client_that_ends_takes_its_charges_along() -> None:
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    session = client.session()
    consumer, producer = session.consumer("queue:orders"), session.producer("queue:orders")
    accounts = cluster.port.clients._registry.accounts
    without_primary(cluster, group)
    producer.send("one")
    settle_more(consumer, 1)
    assert accounts.bytes > 0
    cluster.hang_up(client)
    assert accounts.bytes > 0, "it may come back"
    cluster.advance(10.0)
    assert (accounts.bytes, accounts.holders) == (0, 0)


def test_one_that_comes_back_has_its_account_again() -> None:
    cluster = Cluster()
    client = cluster.connect()
    consumer = client.session().consumer("queue:orders")
    without_primary(cluster, cluster.group)
    for number in range(1, INBOUND_COMMANDS_MAX + 2):
        client.send(write_settle(1, Settle(consumer.number, Outcome.ACKNOWLEDGE, number, [])))
    assert pauses(cluster) == {client.number: True}
    cluster.hang_up(client)
    back = cluster.connect(resume=client)
    assert pauses(cluster) == {back.number: True}, "what it left is still under way"


def test_one_that_is_not_read_is_not_silent() -> None:
    cluster = Cluster()
    client = cluster.connect()
    state = cluster.port.clients._registry.connections[client.number]
    state.heartbeat = 1.0
    consumer = client.session().consumer("queue:orders")
    without_primary(cluster, cluster.group)
    for number in range(1, INBOUND_COMMANDS_MAX + 2):
        client.send(write_settle(1, Settle(consumer.number, Outcome.ACKNOWLEDGE, number, [])))
    for _ in range(40):
        cluster.advance(0.5)
    assert client.open
    cluster.fail_over(cluster.group)
    again = [each for each in cluster.group.take_taken() if isinstance(each, SettleMessages)]
    cluster.reply(cluster.group, SettledTo(again[0].key, again[-1].settle.number))
    for _ in range(6):
        cluster.advance(0.5)
    assert not client.open, "it is read again, and says nothing"


def flood(client: ScriptedClient, consumer: ScriptedConsumer) -> None:
    for number in range(1, INBOUND_COMMANDS_MAX + 2):
        client.send(write_settle(1, Settle(consumer.number, Outcome.ACKNOWLEDGE, number, [])))


def test_a_full_inbox_of_a_lone_server_holds_back_who_fills_it() -> None:
    driver = Driver()
    client, other = driver.connect(), driver.connect()
    consumer = client.session().consumer("queue:orders")
    producer = other.session().producer("queue:others")
    driver.storage.recovered.journal.pending_limit = 300
    with driver.slow_disk():
        producer.send(b"x" * 200)
        flood(client, consumer)
        assert driver.broker.clients.take_pauses() == {client.number: True}
    driver.settle()
    assert driver.broker.clients.take_pauses() == {client.number: False}
    assert consumer.settled == INBOUND_COMMANDS_MAX + 1 and producer.confirmed == 1


def test_a_consumer_in_a_cluster_says_again_no_more_ranges_than_a_group_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.client_manager.tracking.HELD_RANGES_MAX", 3)
    cluster = Cluster()
    group = cluster.group
    client = cluster.connect()
    session = client.session()
    producer, consumer = session.producer("queue:orders"), session.consumer("queue:orders")
    producer.send(*"abcdefghij")
    opened, publish = group.take_taken()[1:]
    cluster.reply(group, stored(publish), delivery(opened, publish, 0))
    consumer.ack(*consumer.take()[1::2])
    cluster.reply(group, SettledTo((session.producer_id, consumer.number), 1))
    cluster.fail_over(group)
    reopened = next(each for each in group.take_taken() if isinstance(each, OpenConsumer))
    assert reopened.held == [(0, 1), (2, 3), (4, 5)]
    (notice,) = client.take(FrameType.NOTICE)
    assert unpack_ranges(notice.fields()["gone"]) == [(6, 7), (8, 9)], "the client hears that others get the rest"


def test_a_consumer_that_is_open_is_not_opened_again_for_something_else() -> None:
    driver = Driver()
    client = driver.connect()
    client.session()
    terms: dict[str, Any] = {"on": 1, "consumer": 7, "mode": "consume", "messages": 0, "bytes": 0}
    client.request("consumer.open", destination="queue:a", **terms)
    with pytest.raises(IllegalState, match="Consumer 7 of the session is open"):
        client.request("consumer.open", destination="queue:b", **terms)
    assert driver.broker.clients._registry.consumers == 1


def test_consumers_count_however_their_numbers_are_reused_while_answers_are_on_the_way() -> None:
    """Opened with a selector that is wrong, closed and opened again, all in one go: what is open is what counts."""
    driver = Driver()
    client = driver.connect()
    client.session()
    terms: dict[str, Any] = {"mode": "consume", "messages": 0, "bytes": 0, "destination": "queue:a"}

    def frame(request: int, operation: str, consumer: int, **fields: Any) -> bytes:
        asked = {"id": request, "op": operation, "consumer": consumer, **fields}
        return control(FrameType.REQUEST, 1, asked)

    for consumer in range(1, 6):
        client.send(
            frame(10 * consumer, "consumer.open", consumer, **terms, selector="not a selector"),
            frame(10 * consumer + 1, "consumer.close", consumer),
            frame(10 * consumer + 2, "consumer.open", consumer, **terms),
            frame(10 * consumer + 3, "consumer.close", consumer),
            frame(10 * consumer + 4, "consumer.open", consumer, **terms),
        )
    attached = len(driver.manager.attachments.by_key)
    assert attached == driver.broker.clients._registry.consumers
    for consumer in range(1, 6):
        client.send(frame(100 + consumer, "consumer.close", consumer))
    assert driver.broker.clients._registry.consumers == 0
