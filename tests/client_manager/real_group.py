"""A group whose members share one simulated disk: the message manager is the real one, who leads comes up from the
disk after a crash, as a new primary does from its log.
"""

from __future__ import annotations

from tests.client_manager.scripted_groups import ScriptedGroup

from tocsin.cluster.commands import Administer, Answer, Reply
from tocsin.cluster.envelope import Commands
from tocsin.testing.driver import Driver


class RealGroup(ScriptedGroup):
    """Replies go to the client manager whose commands were taken last; the others' wait in `replies`."""

    def __init__(self, number: int, primary: int = 10) -> None:
        super().__init__(number, primary=primary)
        self.driver = Driver()
        self.replies: dict[str, list[Reply]] = {}
        self.answers_lost = False

    def crash(self) -> None:
        self.driver = self.driver.crash()
        self.replies.clear()

    def take(self, message: Commands, manager: str = "1/1") -> list[Reply]:
        self.messages.append(message)
        if message.epoch != self.epoch or self.silent:
            return []
        self.link = message.link
        origin = f"{manager}/{message.link}"
        if origin not in self.replies:
            found: list[Reply] = []
            self.replies[origin] = found
            self.driver.broker._bus.join(origin, lambda _, reply: found.append(reply))
        clock = self.driver.clock
        for command in message.commands:
            self.taken.append(command)
            if isinstance(command, Administer) and command.operation == "link.complete":
                self.replies[origin].append(Answer(command.request, {}))
            else:
                self.driver.manager.handle(origin, command, clock.now(), clock.wall())
        self.driver.settle()
        replies, self.replies[origin][:] = list(self.replies[origin]), []
        return [] if self.answers_lost else replies
