from __future__ import annotations

from tocsin.message_manager.budget import Step
from tocsin.model.batch import BatchHeader, Block, encode_block
from tocsin.model.destination import Kind
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
