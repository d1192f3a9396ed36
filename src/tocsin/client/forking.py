"""Connections belong to the process that opened them.

A child that `os.fork` makes (gunicorn with preload, Celery's prefork, `multiprocessing`) gets a copy of everything: the
socket, and the sequences that tell a new message from a repetition. Were both sides to use them, the server would take
one's message for the other's. So in the child all lines are left behind: whoever uses one is told to connect after the
fork, and whatever is closed there says nothing to the server.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Line(Protocol):
    def leave_behind(self) -> None:
        """This is a copy in a child process: lets go of what it shares with its parent, and touches none of it."""


_LINES: WeakSet[Line] = WeakSet()


def belongs_to_this_process(line: Line) -> None:
    _LINES.add(line)


def _in_a_child() -> None:
    for line in list(_LINES):
        line.leave_behind()
    _LINES.clear()


os.register_at_fork(after_in_child=_in_a_child)
