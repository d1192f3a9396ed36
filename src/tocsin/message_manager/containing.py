"""An error that nobody expected, in the middle of a message manager's work.

When nothing was appended to the journal meanwhile, what is in memory is what a start would find, and the one command or
turn ends that met it. When something was, the state may have half of what its record says: memory and journal may
differ, which no answer can put right. Then the node stops, and a start makes the state from the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tocsin.message_manager.ledger import Ledger
from tocsin.model.errors import BrokenInvariant, InternalError
from tocsin.model.faults import Faults

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Containment:
    __slots__ = ("_faults", "_ledger")

    def __init__(self, ledger: Ledger, faults: Faults) -> None:
        self._ledger = ledger
        self._faults = faults

    def fault(self, doing: str, error: Exception, last_lsn: int) -> InternalError:
        """The words for whoever asked; `last_lsn` was the last record when the work began."""
        appended = self._ledger.last_lsn()
        if appended != last_lsn:
            raise BrokenInvariant(
                f"An error came while {doing}, after record {appended} was appended: what is in memory may differ from "
                f"the journal. The server stops, and a start makes its state from the journal. The error was: {error!r}"
            ) from error
        return self._faults.note(doing, error)

    def run(self, doing: str, otherwise: _T, work: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
        """Does something that is nobody's command; returns its result, or `otherwise` when it failed."""
        last = self._ledger.last_lsn()
        try:
            return work(*arguments, **named)
        except Exception as error:
            self.fault(doing, error, last)
            return otherwise
