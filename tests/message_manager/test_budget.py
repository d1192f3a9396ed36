from __future__ import annotations

from tests.message_manager.stage import CM1, SESSION, Stage, block, identity

from tocsin.cluster.commands import Administer, GrantCredit, Publish, Stored
from tocsin.message_manager.budget import Step, Work
from tocsin.model.batch import BatchHeader, Block, encode_block
from tocsin.model.destination import Kind
from tocsin.model.identity import DestinationId
from tocsin.model.limits import ROWS_PER_STEP, WORK_PER_RUN
from tocsin.model.selector_limits import SELECTOR_STEPS_PER_ROW


def test_a_step_pays_for_the_messages_it_looks_into() -> None:
    header = BatchHeader("orders", Kind.QUEUE, 16_384)
    step = Step(30.0)
    assert step.look_at()
    step.look_into(Block(encode_block(header, [])))
    assert not step.look_at(), "a largest batch is a whole step's work"


def test_steps_of_selectors_are_paid_in_rows() -> None:
    step = Step(30.0, rows=10)
    assert step.affordable == 10 * SELECTOR_STEPS_PER_ROW
    step.pay(4 * SELECTOR_STEPS_PER_ROW)
    assert step.rows == 6
    step.pay(100 * SELECTOR_STEPS_PER_ROW)
    assert step.is_over
    assert step.affordable > 0, "each turn gets on"


def test_what_a_step_has_spent_is_paid_by_the_run() -> None:
    work, step = Work(), Step(30.0)
    step.rows -= 100
    work.pay_step(step)
    assert work.left == WORK_PER_RUN - 100 and not work.is_over
    work.pay(WORK_PER_RUN)
    assert work.is_over


def test_messages_that_come_at_once_are_stored_over_several_runs_in_their_order() -> None:
    stage, count = Stage(), 3 * WORK_PER_RUN
    orders = stage.open_producer(CM1)
    stage.manager.run()
    for number in range(count):
        command = Publish(SESSION, 1, DestinationId(orders), block(SESSION, number + 1, (b"x",)), None)
        stage.manager.handle(CM1, command, stage.clock.now(), stage.clock.wall())
    stored = stage.state(orders).log.next_offset
    assert 0 < stored <= WORK_PER_RUN, "the others wait for a run"
    assert stage.manager.waiting == count - stored
    while stage.manager.waiting:
        before = stage.state(orders).log.next_offset
        stage.manager.run()
        assert 0 < stage.state(orders).log.next_offset - before <= WORK_PER_RUN
        stage.storage.pump()
        stage.workers.settle()
    stage.settle()
    confirmed = [reply.sequence for reply in stage.replies[CM1] if isinstance(reply, Stored)]
    assert confirmed == list(range(1, count + 1)), "each is stored once, in order"


def test_commands_of_many_destinations_are_carried_out_over_several_runs() -> None:
    """Each command pays, so that one run does not serve as many destinations as have commands."""
    stage, count = Stage(), WORK_PER_RUN // 32
    for number in range(count):
        stage.open_consumer(CM1, identity(1000 + number), destination=f"queue:q{number}")
    for number in range(count):
        for credit in range(64):
            # Asked by others in turn, so that grants are not merged.
            for command in (
                GrantCredit((identity(1000 + number), 1), 2_000 + credit, 2_000 + credit),
                Administer(credit, "offset.range", {"destination": f"queue:q{number}"}),
            ):
                stage.manager.handle(CM1, command, stage.clock.now(), stage.clock.wall())
    runs, before = 0, stage.manager.waiting
    while stage.manager.waiting:
        stage.manager.run()
        assert 0 < before - stage.manager.waiting <= WORK_PER_RUN + ROWS_PER_STEP
        runs, before = runs + 1, stage.manager.waiting
    assert runs >= 2


def test_a_destination_that_is_alone_has_the_whole_run_and_else_a_step_of_it() -> None:
    stage = Stage()
    names = [f"queue:q{number}" for number in range(3)]
    for name in names:
        stage.open_producer(CM1, destination=name)
    for others in (names[:1], names):
        for name in others:
            for number in range(WORK_PER_RUN + ROWS_PER_STEP):
                asked = Administer(number, "offset.range", {"destination": name})
                stage.manager.handle(CM1, asked, stage.clock.now(), stage.clock.wall())
        stage.manager.run()
        left = [len(stage.state(name).inbox) for name in others]
        if len(others) == 1:
            assert left == [ROWS_PER_STEP]
        else:
            assert left[:2] == [WORK_PER_RUN] * 2, "one step each, then the run is over"
        stage.settle()
