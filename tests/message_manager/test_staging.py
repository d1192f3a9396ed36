"""Stages: unseen until they are committed, published once, whatever happens in between."""

from __future__ import annotations

from typing import Any

import pytest
from tests.message_manager.dialogue import NOTHING_CACHED, drain, dump, now_ms, server, session_of, state_of
from tests.message_manager.stage import identity

from tocsin.message_manager.state_hash import state_hash
from tocsin.model.batch import DeliveryMode
from tocsin.model.errors import Fenced, IllegalState, InvalidDestination, ResourceExhausted, StorageFull
from tocsin.model.limits import (
    CLAIM_MEMORY_SECONDS,
    EPOCH_MEMORY_SECONDS,
    KIB,
    STAGES_PER_COMMIT_MAX,
    STAGES_PER_DESTINATION_MAX,
)
from tocsin.testing.driver import Driver, Setup
from tocsin.testing.scripted_client import ScriptedClient

ORDERS, PRICES = "queue:orders", "topic:prices"
Entry = dict[str, Any]


def entry(number: int, messages: int, destination: str = ORDERS) -> Entry:
    return {"destination": destination, "stage": identity(number), "messages": messages}


def stage(driver: Driver, number: int, *bodies: str, destination: str = ORDERS, **headers: Any) -> Entry:
    """A stage with a batch for each body, by a client of its own; returns what a commit says of it."""
    client = driver.connect()
    client.request("stage.open", destination=destination, stage=identity(number), seconds=3_600)
    producer = client.session().producer(destination)
    for body in bodies:
        producer.send(body, stage=identity(number), **headers)
    assert producer.confirmed == len(bodies)
    client.goodbye()
    return entry(number, len(bodies), destination)


def commit(driver: Driver, epoch: int, *stages: Entry, app: str = "app", run: int | None = None) -> tuple[bool, int]:
    client = driver.connect()
    try:
        named = {} if run is None else {"run": run}
        reply = client.request("stage.commit", app=app, epoch=epoch, stages=list(stages), **named)
    finally:
        client.goodbye()
    return reply["committed"], reply["epoch"]


def drop(driver: Driver, *stages: Entry) -> int:
    return int(driver.connect().request("stage.drop", stages=list(stages))["dropped"])


def last(client: ScriptedClient, app: str = "app") -> int:
    return int(client.request("stage.last", app=app, destinations=[ORDERS])["epoch"])


def live_records(driver: Driver) -> int:
    return sum(index.live_records for index in driver.storage.recovered.journal._segments)


def test_nobody_sees_a_stage_before_it_is_committed() -> None:
    driver = server()
    consumer = session_of(driver).consumer(ORDERS)
    staged = stage(driver, 1, "a", "b")
    assert consumer.take() == []
    shown = driver.show(ORDERS)
    assert (shown["messages"], shown["staged"], shown["latest"]) == (0, 2, 0)
    assert commit(driver, 0, staged) == (True, 0)
    assert consumer.bodies() == ["a", "b"]
    assert driver.show(ORDERS)["staged"] == 0


def test_stages_are_published_in_the_order_given_and_consecutively() -> None:
    driver = server()
    first, second = stage(driver, 1, "a1", "a2"), stage(driver, 2, "b1")
    other = stage(driver, 3, "p", destination="queue:other")
    session_of(driver).producer(ORDERS).send("before")
    assert commit(driver, 0, second, other, first) == (True, 0)
    assert drain(driver) == ["before", "b1", "a1", "a2"]
    assert drain(driver, "queue:other") == ["p"]


def test_a_commit_is_seen_when_it_is_durable_and_not_before() -> None:
    driver = server()
    consumer = session_of(driver).consumer(ORDERS)
    staged = stage(driver, 1, "a")
    client = driver.connect()
    with driver.slow_disk():
        request = client.ask("stage.commit", app="app", epoch=0, stages=[staged])
        assert client.answer(request) is None
        assert consumer.take() == []
    assert client.answer(request) is not None
    assert consumer.bodies() == ["a"]


def test_an_epoch_is_committed_once_whatever_it_names_the_second_time() -> None:
    driver = server()
    staged = stage(driver, 1, "a")
    assert commit(driver, 5, staged) == (True, 5)
    assert commit(driver, 5, staged) == (False, 5)
    again = stage(driver, 2, "a, staged again")
    assert commit(driver, 5, again) == (False, 5)
    assert commit(driver, 3, stage(driver, 3, "of an older epoch")) == (False, 5)
    assert drain(driver) == ["a"]
    assert driver.show(ORDERS)["staged"] == 0, "what came too late is dropped"
    assert commit(driver, 6, again | {"messages": 0}) == (True, 6), "a dropped stage is as good as an empty one"


def test_applications_have_epochs_of_their_own() -> None:
    driver = server()
    assert commit(driver, 5, stage(driver, 1, "a"), app="one") == (True, 5)
    assert commit(driver, 2, stage(driver, 2, "b"), app="two") == (True, 2)
    client = driver.connect()
    assert [last(client, app) for app in ("one", "two", "three")] == [5, 2, -1]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [(entry(9, 1), "is not there"), (entry(9, 1, "queue:nowhere"), "is not there"), (entry(1, 3), "has 2 messages")],
)
def test_a_commit_that_does_not_fit_is_refused_and_nothing_changes(wrong: Entry, text: str) -> None:
    driver = server()
    staged, other = stage(driver, 1, "a", "b"), stage(driver, 2, "c")
    before = dump(driver.manager)
    with pytest.raises(IllegalState, match=text):
        commit(driver, 0, other, wrong)
    assert dump(driver.manager) == before
    assert commit(driver, 0, other, staged) == (True, 0)
    assert drain(driver) == ["c", "a", "b"]


def test_a_stage_is_not_committed_twice_by_one_commit() -> None:
    driver = server()
    staged = stage(driver, 1, "a")
    with pytest.raises(IllegalState, match="twice"):
        commit(driver, 0, staged, staged)
    assert last(driver.connect()) == -1


def test_an_empty_epoch_is_remembered_and_an_empty_stage_need_not_be_there() -> None:
    driver = server()
    assert commit(driver, 7, entry(1, 0)) == (True, 7)
    assert last(driver.crash().connect()) == 7


def test_dropping_after_the_commit_has_no_effect() -> None:
    driver = server()
    staged, other = stage(driver, 1, "a"), stage(driver, 2, "b")
    commit(driver, 0, staged)
    assert drop(driver, staged) == 0
    assert drop(driver, other, other, entry(7, 0), entry(8, 0, "queue:nowhere")) == 1
    assert drain(driver) == ["a"]
    assert live_records(driver) == 0


def test_a_batch_for_a_stage_that_is_not_open_is_refused() -> None:
    driver = server()
    session = session_of(driver)
    producer = session.producer(ORDERS)
    producer.send("lost", stage=identity(1))
    [(_, _, error)] = producer.refused
    assert isinstance(error, IllegalState) and "not open" in str(error)
    assert drain(driver) == []


def test_a_batch_that_need_not_survive_is_not_staged() -> None:
    driver = server()
    session = session_of(driver)
    session.client.request("stage.open", destination=ORDERS, stage=identity(1))
    producer = session.producer(ORDERS)
    producer.send("volatile", stage=identity(1), mode=DeliveryMode.NON_PERSISTENT)
    assert len(producer.refused) == 1


def test_a_batch_is_staged_once_however_often_it_is_sent() -> None:
    driver = server()
    client = driver.connect()
    client.request("stage.open", destination=ORDERS, stage=identity(1))
    producer = client.session().producer(ORDERS)
    block = producer.block([b"a"], stage=identity(1))
    producer.resend(block)
    producer.resend(block)
    assert commit(driver, 0, entry(1, 1)) == (True, 0)
    producer.resend(block)
    assert producer.confirmed == 1 and not producer.refused
    assert drain(driver) == ["a"]


def test_a_silent_stage_is_dropped_and_an_append_keeps_it() -> None:
    driver = server()
    client = driver.connect()
    client.request("stage.open", destination=ORDERS, stage=identity(1), seconds=10)
    producer = client.session().producer(ORDERS)
    driver.advance(9)
    producer.send("a", stage=identity(1))
    driver.advance(9)
    assert driver.show(ORDERS)["staged"] == 1
    driver.advance(2)
    assert driver.show(ORDERS)["staged"] == 0
    assert live_records(driver) == 0
    with pytest.raises(IllegalState, match="not there"):
        commit(driver, 0, entry(1, 1))
    assert dump(driver.crash().manager) == dump(driver.manager)


def test_more_stages_expire_at_once_than_one_record_takes() -> None:
    driver = Driver(Setup(segment_bytes=8 * KIB))
    client = driver.connect()
    for number in range(1, 400):
        client.request("stage.open", destination=ORDERS, stage=number.to_bytes(16, "big"), seconds=60)
    driver.advance(100)
    assert not state_of(driver).stages.open and not driver.manager.settings.faults.count
    assert not state_of(driver.crash()).stages.open


def test_a_stage_expires_after_a_restart_too() -> None:
    driver = server()
    staged = stage(driver, 1, "a")
    driver.snapshot()
    driver = driver.crash()
    driver.advance(3_500)
    assert driver.show(ORDERS)["staged"] == 1
    driver.advance(200)
    assert driver.show(ORDERS)["staged"] == 0
    assert drop(driver, staged) == 0


def test_opening_a_stage_again_is_no_harm() -> None:
    driver = server()
    staged = stage(driver, 1, "a")
    driver.connect().request("stage.open", destination=ORDERS, stage=identity(1), seconds=10)
    assert commit(driver, 0, staged) == (True, 0)
    assert drain(driver) == ["a"]


def test_there_is_a_most_of_stages() -> None:
    driver = server()
    driver.connect().request("stage.open", destination=ORDERS, stage=identity(1))
    stages = state_of(driver).stages
    sample = stages.open[identity(1)]
    stages.open |= {identity(number): sample for number in range(1, STAGES_PER_DESTINATION_MAX + 1)}
    with pytest.raises(ResourceExhausted, match="open stages"):
        driver.connect().request("stage.open", destination=ORDERS, stage=identity(STAGES_PER_DESTINATION_MAX + 1))


def test_a_full_disk_refuses_stages_and_commits_and_lets_them_be_dropped() -> None:
    driver = server()
    staged = stage(driver, 1, "a")
    driver.storage.recovered.journal.full = True
    with pytest.raises(StorageFull):
        driver.connect().request("stage.open", destination=ORDERS, stage=identity(2))
    driver.storage.recovered.journal.full = True
    with pytest.raises(StorageFull):
        commit(driver, 0, staged)
    assert last(driver.connect()) == -1
    driver.storage.recovered.journal.full = True
    assert drop(driver, staged) == 1


# ---- restarts


@pytest.mark.parametrize("snapshot", [False, True])
def test_stages_and_epochs_survive_a_crash(snapshot: bool) -> None:
    driver = server()
    first, second = stage(driver, 1, "a", "b"), stage(driver, 2, "c")
    third = stage(driver, 3, "gone")
    commit(driver, 4, second)
    drop(driver, third)
    if snapshot:
        driver.snapshot()
    crashed = driver.crash()
    assert dump(crashed.manager) == dump(driver.manager)
    assert state_hash(crashed.manager.directory) == state_hash(driver.manager.directory)
    assert commit(crashed, 4, first) == (False, 4)
    first = stage(crashed, 5, "a", "b")
    assert commit(crashed, 5, first) == (True, 5)
    assert drain(crashed.crash()) == ["c", "a", "b"]


def test_a_stage_whose_journal_was_compacted_around_it_is_still_there() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    staged = stage(driver, 1, *["x" * 3_000] * 20)
    producer = session_of(driver).producer(ORDERS)
    for _ in range(4):
        for _ in range(30):
            producer.send("y" * 9_000)
        drain(driver)
        driver.snapshot()
    assert driver.storage.recovered.journal._segments[0].generation > 0, "it was rewritten"
    driver = driver.crash()
    assert commit(driver, 0, staged) == (True, 0)
    assert drain(driver) == ["x" * 3_000] * 20
    assert live_records(driver) == 0


def test_a_commit_while_a_snapshot_is_made_counts_once() -> None:
    """Sections are made one by one: some have the commit, some get it by the record."""
    driver = server()
    names = [f"queue:{letter}" for letter in "abcdef"]
    stages = [stage(driver, number, "x", destination=name) for number, name in enumerate(names, start=1)]
    client = driver.connect()
    driver.storage.begin_snapshot()
    for _ in range(3):
        driver.turn()
        driver.workers.settle()
    client.request("stage.commit", app="app", epoch=1, stages=stages)
    driver.settle()
    driver = driver.crash()
    assert [drain(driver, name) for name in names] == [["x"]] * 6
    assert last(driver.connect()) == 1


# ---- topics


def test_a_retained_topic_is_replayed_with_what_was_staged_in_its_place() -> None:
    driver = server()
    driver.connect().request("destination.create", destination=PRICES, retained=True)
    producer = session_of(driver).producer(PRICES)
    producer.send("before")
    staged = stage(driver, 1, "s1", "s2", destination=PRICES)
    producer.send("between")
    commit(driver, 0, staged)
    producer.send("behind")
    for _ in range(2):
        replay = session_of(driver).consumer(PRICES, mode="replay", start={"at": "earliest"})
        assert replay.bodies() == ["before", "between", "s1", "s2", "behind"]
        driver = driver.crash()


def test_staged_batches_reach_the_files_of_a_retained_topic() -> None:
    driver = server(cache_bytes=NOTHING_CACHED)
    driver.connect().request("destination.create", destination=PRICES, retained=True)
    bodies = [f"{number} " + "x" * 5_000 for number in range(40)]
    staged = stage(driver, 1, *bodies, destination=PRICES)
    producer = session_of(driver).producer(ORDERS)
    commit(driver, 0, staged)
    for _ in range(60):
        producer.send("y" * 9_000)
    driver.advance(1)
    state = state_of(driver, PRICES)
    assert state.stream_end == 40
    driver.snapshot()
    driver = driver.crash()
    assert session_of(driver).consumer(PRICES, mode="replay", start={"at": "earliest"}).bodies() == bodies


def test_rows_whose_commit_is_not_durable_stay_out_of_the_files_of_a_topic() -> None:
    """Their blocks are in sealed segments for long, but a crash would take their offsets back."""
    driver = server()
    driver.connect().request("destination.create", destination=PRICES, retained=True)
    staged = stage(driver, 1, *["x" * 5_000] * 40, destination=PRICES)
    producer = session_of(driver).producer(ORDERS)
    client = driver.connect()
    for _ in range(30):
        producer.send("y" * 9_000)
    with driver.slow_disk():
        client.ask("stage.commit", app="app", epoch=0, stages=[staged])
        # As if a segment had been sealed just now: all rows are looked at again.
        driver.storage._journal_upkeep._moved_to = 0
        driver.storage.tick(driver.clock.now())
        driver.settle()
        assert state_of(driver, PRICES).stream_end == 0
        assert state_of(driver, PRICES).log.next_offset == 40
    driver.storage._journal_upkeep._moved_to = 0
    driver.storage.tick(driver.clock.now())
    driver.settle()
    assert state_of(driver, PRICES).stream_end > 0


def test_subscriptions_of_the_time_of_the_commit_get_it() -> None:
    driver = server()
    early = session_of(driver, "early").consumer(PRICES, subscription="s", durable=True)
    staged = stage(driver, 1, "a", destination=PRICES)
    between = session_of(driver, "between").consumer(PRICES, subscription="s", durable=True)
    commit(driver, 0, staged)
    late = session_of(driver, "late").consumer(PRICES, subscription="s", durable=True)
    assert [early.bodies(), between.bodies(), late.bodies()] == [["a"], ["a"], []]


def test_a_staged_batch_meets_the_selector_of_a_subscription() -> None:
    driver = server()
    consumer = session_of(driver, "me").consumer(PRICES, subscription="s", durable=True, selector="n > 1")
    client = driver.connect()
    client.request("stage.open", destination=PRICES, stage=identity(1))
    client.session().producer(PRICES).send("1", "2", "3", stage=identity(1), properties={"n": [1, 2, 3]})
    commit(driver, 0, entry(1, 3, PRICES))
    messages = consumer.take()
    assert [message.body for message in messages] == [b"2", b"3"]
    consumer.ack(*messages)
    assert state_of(driver, PRICES).log.live_bytes == 0


def test_j82_no_local_holds_for_staged_messages() -> None:
    driver = server()
    session = session_of(driver, "me")
    own = session.consumer(PRICES, subscription="s", durable=True, no_local=True)
    session.client.request("stage.open", destination=PRICES, stage=identity(1))
    session.producer(PRICES).send("my own", stage=identity(1))
    commit(driver, 0, entry(1, 1, PRICES), stage(driver, 2, "another's", destination=PRICES))
    assert own.bodies() == ["another's"]
    assert dump(driver.crash().manager)["destinations"]["prices"]["next_offset"] == 2


@pytest.mark.parametrize("due", [0, 5_000])
def test_j82_the_number_of_a_subscription_that_is_gone_may_be_another_ones_later(due: int) -> None:
    driver = server()
    session = session_of(driver)
    session.consumer(PRICES, no_local=True)
    session.client.request("stage.open", destination=PRICES, stage=identity(1))
    session.producer(PRICES).send("staged", stage=identity(1), due=due and now_ms(driver) + due)
    driver = driver.crash()
    consumer = session_of(driver, "me").consumer(PRICES, subscription="s", durable=True)
    commit(driver, 0, entry(1, 1, PRICES))
    driver.advance(6)
    assert consumer.bodies() == ["staged"]


def test_a_topic_that_a_stage_makes_keeps_what_is_committed() -> None:
    driver = server()
    commit(driver, 0, stage(driver, 1, "a", "b", destination=PRICES))
    driver = driver.crash()
    assert driver.show(PRICES)["retained"]
    late = session_of(driver).consumer(PRICES, start={"at": "earliest"})
    assert late.bodies() == ["a", "b"]


def test_a_stage_for_a_topic_that_nobody_hears_is_refused_before_the_first_message() -> None:
    driver = server()
    driver.connect().request("destination.create", destination=PRICES)
    with pytest.raises(InvalidDestination, match="published to nobody"):
        stage(driver, 1, "a", destination=PRICES)
    listener = session_of(driver)
    consumer = listener.consumer(PRICES)
    commit(driver, 0, stage(driver, 2, "b", destination=PRICES))
    assert consumer.bodies() == ["b"], "whoever listens hears it, and nobody has to be durable"


def test_an_epoch_is_not_committed_to_a_topic_that_nobody_hears_any_more() -> None:
    driver = server()
    driver.connect().request("destination.create", destination=PRICES)
    consumer = session_of(driver).consumer(PRICES)
    staged = stage(driver, 1, "a", destination=PRICES)
    consumer.close()
    with pytest.raises(InvalidDestination, match="published to nobody"):
        commit(driver, 0, staged)
    consumer = session_of(driver).consumer(PRICES)
    assert commit(driver, 0, staged) == (True, 0), "the refusal changed nothing"
    assert consumer.bodies() == ["a"]
    assert commit(driver, 0, staged) == (False, 0)


def test_a_topic_that_is_not_retained_keeps_nothing_that_all_have_finished() -> None:
    driver = server()
    driver.connect().request("destination.create", destination=PRICES)
    consumer = session_of(driver).consumer(PRICES)
    commit(driver, 0, stage(driver, 1, "a", "b", destination=PRICES))
    consumer.ack(*consumer.take())
    state = state_of(driver, PRICES)
    assert (len(state.log), state.log.next_offset, state.log.live_bytes) == (0, 2, 0)
    assert live_records(driver) == 0


# ---- runs that take over from each other


def claim(driver: Driver, app: str = "app") -> int:
    return int(driver.connect().request("stage.claim", app=app, destination=ORDERS)["run"])


def test_of_two_live_runs_only_the_newer_one_commits() -> None:
    """As a replay does: the epoch is the offset behind what it publishes, and each run cuts the range as it likes."""
    driver = server()
    session_of(driver).producer(ORDERS)
    older = claim(driver)
    assert commit(driver, 1, stage(driver, 1, "0"), run=older) == (True, 1)
    late = stage(driver, 2, "1", "2")
    newer = claim(driver)
    assert newer > older and last(driver.connect()) == 1
    longer = stage(driver, 3, "1", "2", "3")
    assert commit(driver, 4, longer, run=newer) == (True, 4)
    for epoch in (3, 6):
        with pytest.raises(Fenced, match="Another run of 'app' has taken over"):
            commit(driver, epoch, late, run=older)
    driver = driver.crash()
    with pytest.raises(Fenced):
        commit(driver, 6, late)
    assert drain(driver) == ["0", "1", "2", "3"]
    assert commit(driver, 5, stage(driver, 4, "4"), run=newer) == (True, 5)


def test_applications_that_nobody_claimed_need_no_run() -> None:
    driver = server()
    session_of(driver).producer(ORDERS)
    claim(driver, "another")
    assert commit(driver, 0, stage(driver, 1, "a")) == (True, 0)
    assert commit(driver, 1, stage(driver, 2, "b"), run=7) == (True, 1), (
        "its claim was forgotten, and nobody came since"
    )


def test_a_run_that_was_forgotten_and_lives_is_still_an_older_one() -> None:
    driver = server()
    session_of(driver).producer(ORDERS)
    forgotten = claim(driver)
    driver.advance(EPOCH_MEMORY_SECONDS + 60)
    claim(driver, "others make room")
    assert claim(driver) > forgotten
    with pytest.raises(Fenced):
        commit(driver, 1, stage(driver, 1, "a"), run=forgotten)


def test_a_claim_is_kept_while_an_older_run_may_have_something_staged_and_then_as_long_as_its_commits() -> None:
    driver = server()
    session_of(driver).producer(ORDERS)
    older, silent = claim(driver), claim(driver, "silent")
    newer = claim(driver)
    driver.advance(CLAIM_MEMORY_SECONDS - 60)
    with pytest.raises(Fenced):
        commit(driver, 1, stage(driver, 1, "a"), run=older)
    assert commit(driver, 1, stage(driver, 2, "b"), run=newer) == (True, 1)
    driver.advance(EPOCH_MEMORY_SECONDS - 60)
    claim(driver, "others make room")
    with pytest.raises(Fenced):
        commit(driver.crash(), 2, stage(driver, 3, "c"), run=older)
    assert claim(driver, "silent") > silent


def test_a_commit_that_nobody_repeats_is_remembered_for_as_long_as_it_says() -> None:
    driver = server()
    staged = stage(driver, 1, "a")
    fields: dict[str, Any] = {"app": "once", "epoch": 0, "stages": [staged], "seconds": 60}
    client = driver.connect()
    assert client.request("stage.commit", **fields)["committed"] is True
    assert client.request("stage.commit", **fields)["committed"] is False
    driver = driver.crash()
    driver.advance(61)
    commit(driver, 0, stage(driver, 2, "b"))
    assert list(driver.manager.directory.epochs.rows) == ["app"]
    with pytest.raises(IllegalState, match="not there"):
        driver.connect().request("stage.commit", **fields)
    assert drain(driver) == ["a", "b"], "once, all the same"


# ---- priority, delay, expiry


def test_priority_counts() -> None:
    driver = server()
    commit(driver, 0, stage(driver, 1, "low", priority=1), stage(driver, 2, "high", priority=9))
    assert drain(driver) == ["high", "low"]


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_delay_counts_from_the_commit_on(snapshot: bool) -> None:
    driver = server()
    later = stage(driver, 1, "later", destination=PRICES, due=now_ms(driver) + 10_000)
    past = stage(driver, 2, "past", destination=PRICES, due=now_ms(driver) + 1)
    driver.advance(1)
    session_of(driver, "between").consumer(PRICES, subscription="s", durable=True)
    commit(driver, 0, later, past)
    session_of(driver, "after").consumer(PRICES, subscription="s", durable=True)
    if snapshot:
        driver.snapshot()
    driver = driver.crash()
    assert driver.show(PRICES)["delayed"] == 1
    driver.advance(10)
    between = session_of(driver, "between").consumer(PRICES, subscription="s", durable=True)
    assert between.bodies() == ["past", "later"], "it was there at the commit"
    assert session_of(driver, "after").consumer(PRICES, subscription="s", durable=True).bodies() == []


def test_staged_messages_expire_as_others_do() -> None:
    driver = server()
    commit(driver, 0, stage(driver, 1, "short", expiry=now_ms(driver) + 5_000), stage(driver, 2, "long"))
    driver.advance(6)
    assert drain(driver) == ["long"]
    assert drain(driver, "queue:_DMQ") == ["short"]


def test_a_deleted_destination_takes_its_stages_along() -> None:
    driver = server()
    staged = stage(driver, 1, "a", "b")
    driver.connect().request("destination.delete", destination=ORDERS)
    assert live_records(driver) == 0
    with pytest.raises(IllegalState, match="not there"):
        commit(driver, 0, staged)


def test_purging_leaves_stages_alone() -> None:
    driver = server()
    staged = stage(driver, 1, "a")
    driver.connect().request("destination.purge", destination=ORDERS)
    commit(driver, 0, staged)
    assert drain(driver) == ["a"]


# ---- size


def test_a_commit_of_many_batches_is_one_small_record() -> None:
    driver = server()
    staged = [stage(driver, number, *["x"] * 50) for number in range(1, 21)]
    before = driver.storage.recovered.journal.last_lsn
    client = driver.connect()
    with driver.slow_disk():
        client.ask("stage.commit", app="app", epoch=0, stages=staged)
        assert driver.storage.recovered.journal.last_lsn == before + 1
        assert driver.storage.recovered.journal.pending_bytes() < 1_000
    assert len(drain(driver)) == 1_000


def test_the_most_stages_in_one_request() -> None:
    driver = server()
    assert commit(driver, 0, *[entry(number, 0) for number in range(1, STAGES_PER_COMMIT_MAX + 1)]) == (True, 0)


def test_too_many_stages_in_one_request_are_refused() -> None:
    driver = server()
    with pytest.raises(IllegalState, match="write larger stages"):
        commit(driver, 0, *[entry(number, 0) for number in range(1, STAGES_PER_COMMIT_MAX + 2)])
