"""Requests that are about no destination's own flow of control: names, sessions, stages. They are done at once."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.cluster.commands import Administer, Answer
from tocsin.message_manager.destination import DestinationState
from tocsin.message_manager.directory import Directory
from tocsin.message_manager.ledger import Ledger
from tocsin.message_manager.names import NameService
from tocsin.message_manager.sessions import Sessions, client_id_of
from tocsin.message_manager.staging import StageService


class Services:
    __slots__ = ("_durable", "_ledger", "_sessions", "_stages", "names")

    def __init__(
        self,
        directory: Directory,
        sessions: Sessions,
        ledger: Ledger,
        changed: Callable[[DestinationState], None],
    ) -> None:
        self._durable = directory.durable
        self._ledger = ledger
        self._sessions = sessions
        self._stages = StageService(directory, ledger, changed)
        self.names = NameService(directory.names, ledger)

    def answer(self, origin: str, command: Administer) -> bool:
        """Does what is asked; False when it is not for us."""
        operation, fields, lsn = command.operation, command.fields, 0
        if self.names.knows(operation):
            found, lsn = self.names.run(operation, fields)
        elif operation == "client_id.check":
            self._durable.check_client_owner(client_id_of(fields), fields.get("user"))
            found = {}
        elif self._sessions.knows(operation):
            if operation == "client_id.claim" and not fields.get("again"):
                self._durable.check_client_id(client_id_of(fields), fields.get("user"))
            found = self._sessions.run(origin, operation, fields)
        elif self._stages.knows(operation):
            found, lsn = self._stages.run(operation, fields)
        else:
            return False
        self._ledger.reply(origin, Answer(command.request, found), lsn)
        return True
