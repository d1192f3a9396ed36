"""Long answers are given out over several runs, and hold up nobody."""

from __future__ import annotations

from tests.message_manager.stage import CM1, CM2, ORDERS, Stage, block

from tocsin.cluster.commands import Administer, Answer, OpenProducer, Publish, Stored
from tocsin.model.destination import parse_destination
from tocsin.model.identity import DestinationId
from tocsin.model.limits import WORK_PER_RUN

SESSION = (9).to_bytes(16, "big")
NAMES = 700


def full_stage() -> Stage:
    stage = Stage()
    for number in range(NAMES):
        stage.ask(CM1, "destination.create", destination=f"queue:list{number}")
    return stage


def tell(stage: Stage, *commands: Administer | OpenProducer | Publish, origin: str = CM1) -> None:
    for command in commands:
        stage.manager.handle(origin, command, stage.clock.now(), stage.clock.wall())


def answers(stage: Stage) -> list[Answer]:
    return [reply for _, reply in stage.manager.take_replies() if isinstance(reply, Answer)]


def test_a_run_gives_out_few_of_many_long_lists() -> None:
    stage = full_stage()
    tell(stage, *(Administer(number, "destination.list", {}) for number in range(50)))
    at_once = answers(stage)
    assert len(at_once) * NAMES < WORK_PER_RUN + NAMES
    assert stage.manager.waiting == 50 - len(at_once)
    found = [answer.request for answer in at_once]
    runs = 0
    while stage.manager.run():
        several = answers(stage)
        assert several and len(several) * NAMES < WORK_PER_RUN + NAMES
        found += [answer.request for answer in several]
        runs += 1
    found += [answer.request for answer in answers(stage)]
    assert found == list(range(50)), "each is answered once, in the order in which they came"
    assert runs >= 20
    assert stage.manager.waiting == 0


def test_an_answer_without_items_is_paid_for_too() -> None:
    stage = Stage()
    tell(stage, *(Administer(number, "destination.list", {"prefix": "zzz"}) for number in range(3 * WORK_PER_RUN)))
    most, found = 0, answers(stage)
    assert 0 < len(found) <= WORK_PER_RUN
    while stage.manager.run():
        several = answers(stage)
        most, found = max(most, len(several)), found + several
    found += answers(stage)
    assert [answer.request for answer in found] == list(range(3 * WORK_PER_RUN))
    assert most <= WORK_PER_RUN


def test_a_message_is_stored_and_delivered_while_lists_wait() -> None:
    stage = full_stage()
    orders = stage.open_producer(CM2, SESSION)
    tell(stage, *(Administer(number, "destination.list", {}) for number in range(50)))
    tell(stage, Publish(SESSION, 1, DestinationId(orders), block(SESSION, 1, (b"at once",)), None), origin=CM2)
    stage.manager.run()
    stage.storage.pump()
    stage.workers.settle()
    stage.manager.run()
    stored = [reply for origin, reply in stage.manager.take_replies() if origin == CM2]
    assert any(isinstance(reply, Stored) for reply in stored)
    assert stage.manager.waiting > 40, "the lists still wait"


def test_details_of_one_destination_are_given_out_over_several_runs() -> None:
    stage = Stage()
    for number in range(600):
        stage.open_consumer(
            CM1, (1_000 + number).to_bytes(16, "big"), destination="topic:news", consumer=1, subscription=f"s{number}",
            durable=True, shared=True,
        )  # fmt: skip
    asked = [Administer(number, "destination.show", {"destination": "topic:news"}) for number in range(20)]
    tell(stage, *asked)
    tell(stage, OpenProducer(99, SESSION, 1, parse_destination(ORDERS), SESSION), origin=CM2)
    most, found = 0, 0
    for _ in range(100):
        more = stage.manager.run()
        several = answers(stage)
        most = max(most, sum("subscriptions" in answer.fields for answer in several))
        found += sum("subscriptions" in answer.fields for answer in several)
        if not more:
            break
    assert found == 20
    assert most <= 2
