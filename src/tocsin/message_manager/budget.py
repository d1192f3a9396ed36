"""The work budget of one step of one destination. A step looks at a bounded number of rows and gives way."""

from __future__ import annotations

from tocsin.model.batch import Block
from tocsin.model.limits import ROWS_PER_STEP
from tocsin.model.selector_limits import SELECTOR_STEPS_PER_ROW

_MESSAGES_PER_ROW = 32
"""Looking into so many messages costs as much of a step's budget as looking at one row."""


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
