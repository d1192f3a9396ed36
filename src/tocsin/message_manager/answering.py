"""Requests pay for the items of their answers: a page of a list is as much work as many messages.

A run of the message manager ends with the answer that uses its budget up. Requests that are about one destination wait
in its inbox then; those that are about none, as lists, wait here, and each run gets on with one of them at least.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tocsin.cluster.commands import Administer, Answer
from tocsin.message_manager.administration import Administration
from tocsin.message_manager.ledger import Ledger


class Answering:
    __slots__ = ("_administration", "_ledger", "waiting")

    def __init__(self, administration: Administration, ledger: Ledger) -> None:
        self._administration = administration
        self._ledger = ledger
        self.waiting: deque[tuple[str, Administer]] = deque()
        """What has to wait for another run."""

    def run(self, origin: str, command: Administer) -> None:
        fields, lsn = self._administration.run(command.operation, command.fields)
        self._ledger.work.pay(sum(len(each) for each in fields.values() if isinstance(each, list)))
        self._ledger.reply(origin, Answer(command.request, fields), lsn)

    def run_or_wait(self, origin: str, command: Administer) -> None:
        """Carries a request out that is about no destination, now or in a run to come."""
        if self.waiting or self._ledger.work.is_over:
            self.waiting.append((origin, command))
        else:
            self.run(origin, command)

    def resume(self, take: Callable[[str, Administer], None]) -> bool:
        """Takes up those that wait, as far as a budget of their own goes; True when some still wait."""
        if self.waiting:
            work = self._ledger.work
            work.begin()
            waiting, self.waiting = self.waiting, deque()
            while waiting and not work.is_over:
                take(*waiting.popleft())
            self.waiting += waiting
        return bool(self.waiting)
