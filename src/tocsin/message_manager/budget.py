"""The work budgets: of one step of one destination, and of one run of a message manager.

A step looks at a bounded number of rows and gives way. A run does a few steps and what else is asked for, and gives
way too. Both count in rows that are looked at, of about 20 microseconds; what is dearer pays for more of them.
"""

from __future__ import annotations

from tocsin.model.batch import Block
from tocsin.model.limits import ROWS_PER_STEP, WORK_PER_RUN
from tocsin.model.selector_limits import SELECTOR_STEPS_PER_ROW

_MESSAGES_PER_ROW = 32
"""Looking into so many messages costs as much of a step's budget as looking at one row."""


class Work:
    """What a run may do altogether: commands, answers and deliveries pay from it. The last one may cost more than is
    left; then the others wait for the next run.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = WORK_PER_RUN

    def begin(self) -> None:
        self.left = WORK_PER_RUN

    @property
    def is_over(self) -> bool:
        return self.left <= 0

    def pay(self, rows: int) -> None:
        self.left -= rows

    def pay_step(self, step: Step) -> None:
        self.left -= ROWS_PER_STEP - step.rows


class Step:
    """In rows; a row that is looked into costs more."""

    __slots__ = ("lease", "rows")

    def __init__(self, lease: float, rows: int = ROWS_PER_STEP) -> None:
        self.rows = rows
        self.lease = lease

    def look_at(self) -> bool:
        """Pays for one row; False when the budget is used up."""
        self.rows -= 1
        return self.rows >= 0

    def look_into(self, block: Block) -> None:
        """Pays for reading columns of a block."""
        self.rows -= block.count // _MESSAGES_PER_ROW

    # ---- selectors, which count in steps of their own

    @property
    def is_over(self) -> bool:
        return self.rows < 0

    @property
    def affordable(self) -> int:
        """How many steps of a selector are left; never nothing, so that each turn gets on."""
        return max(1, self.rows) * SELECTOR_STEPS_PER_ROW

    def pay(self, steps: int) -> None:
        self.rows -= steps // SELECTOR_STEPS_PER_ROW
