"""Requests are carried out within a budget of items: a page of a list is as much work as many messages.

A run of the message manager ends with the answer that uses the budget up. Requests that are about one destination wait
in its inbox then; those that are about none, as lists, wait here, and each run gets on with one of them at least.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tocsin.cluster.commands import Administer, Answer
from tocsin.message_manager.administration import Administration
from tocsin.message_manager.ledger import Ledger
from tocsin.model.limits import ANSWER_ITEMS_PER_RUN


class Answering:
    __slots__ = ("_administration", "_ledger", "left", "waiting")

    def __init__(self, administration: Administration, ledger: Ledger) -> None:
        self._administration = administration
        self._ledger = ledger
        self.left = ANSWER_ITEMS_PER_RUN
        """Items that answers may still have in this run; the last answer may have more than that."""
        self.waiting: deque[tuple[str, Administer]] = deque()
        """What has to wait for another run. Not empty only when nothing is left, so that nothing is overtaken."""

    def begin(self) -> None:
        self.left = ANSWER_ITEMS_PER_RUN

    def run(self, origin: str, command: Administer) -> None:
        fields, lsn = self._administration.run(command.operation, command.fields)
        self.left -= sum(len(each) for each in fields.values() if isinstance(each, list))
        self._ledger.reply(origin, Answer(command.request, fields), lsn)

    def run_or_wait(self, origin: str, command: Administer) -> None:
        """Carries a request out that is about no destination, now or in a run to come."""
        if self.left > 0:
            self.run(origin, command)
        else:
            self.waiting.append((origin, command))

    def resume(self, take: Callable[[str, Administer], None]) -> bool:
        """Takes up those that wait, as far as a budget of their own goes; True when some still wait."""
        if self.waiting:
            self.begin()
            while self.waiting and self.left > 0:
                take(*self.waiting.popleft())
        return bool(self.waiting)
