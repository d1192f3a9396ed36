"""Requests about one destination: they go to its group, once that is known, and elsewhere when it was known wrongly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tocsin.client_manager.pending import Done, Pending, with_incarnation
from tocsin.client_manager.placement import Ask, Place, Places
from tocsin.cluster.commands import Administer, Answer, Failed, OpenConsumer, OpenProducer, Reply
from tocsin.model.destination import DEAD_MESSAGES, Destination, Kind, parse_destination
from tocsin.model.errors import IllegalState, StaleName, TocsinError
from tocsin.model.limits import NAME_RETRIES_MAX

_CREATING = frozenset({"destination.create", "stage.open"})
Placeable = OpenProducer | OpenConsumer | Administer
Placed = Callable[[int, Placeable], bool]
"""Told the group that a command is about to go to; False: nobody wants it any more."""


@dataclass(slots=True)
class _Attempt:
    command: Placeable
    address: Destination
    creates: bool
    placed: Placed
    done: Done
    retries: int = 0
    stale: Place | None = None
    """Where it was refused."""


class DestinationRequests:
    def __init__(self, places: Places, pending: Pending, ask: Ask, answer: Callable[[Reply], None]) -> None:
        self._places = places
        self._pending = pending
        self._ask = ask
        self._answer = answer

    def start(
        self, command: Placeable, address: Destination, creates: bool, placed: Placed, done: Done, at: int = 0
    ) -> None:
        """`at` is the group, where that is known."""
        attempt = _Attempt(command, address, creates, placed, done)
        if at:
            self._located(attempt, Place(at, 0))
        else:
            self._locate(attempt)

    def administer(self, command: Administer) -> None:
        try:
            address = _address(command)
        except TocsinError as error:
            self._answer(Failed(command.request, error))
            return
        creates = command.operation in _CREATING
        self.start(command, address, creates, lambda group, placed: True, self._answer)

    def _locate(self, attempt: _Attempt) -> None:
        self._places.locate(attempt.address, attempt.creates, partial(self._located, attempt))

    def _located(self, attempt: _Attempt, found: Place | TocsinError) -> None:
        command = attempt.command
        if isinstance(found, TocsinError):
            attempt.done(Failed(command.request, found))
            return
        if found == attempt.stale and found.incarnation:
            # The destination is gone, and whoever deleted it did not come to take its name out.
            self._remove(attempt.address.name, found, partial(self._removed, attempt))
            return
        if isinstance(command, Administer):
            command = with_incarnation(command, found.incarnation)
        else:
            command = replace(command, incarnation=found.incarnation)
        if attempt.placed(found.group, command):
            self._pending.ask(found.group, command, partial(self._answered, attempt, found))
        else:
            self._refused(attempt, found, Failed(command.request, IllegalState("It was closed before it was open.")))

    def _answered(self, attempt: _Attempt, place: Place, reply: Answer | Failed) -> None:
        name, command = attempt.address.name, attempt.command
        if isinstance(reply, Failed) and isinstance(reply.error, StaleName) and attempt.retries < NAME_RETRIES_MAX:
            attempt.retries += 1
            attempt.stale = place
            self._places.outdated(name, place)
            self._locate(attempt)
        elif isinstance(reply, Answer) and isinstance(command, Administer) and _deletes(command) and place.incarnation:
            self._remove(name, place, lambda _: attempt.done(reply))
        elif isinstance(reply, Failed):
            self._refused(attempt, place, reply)
        else:
            attempt.done(reply)

    def _refused(self, attempt: _Attempt, place: Place, reply: Failed) -> None:
        """A name that was given a place for what nobody made is free again, once its group has promised that none of
        those who know the place will make it there.
        """
        if not attempt.creates or not place.incarnation:
            attempt.done(reply)
            return

        def renounced(answer: Answer | Failed) -> None:
            if isinstance(answer, Answer) and answer.fields.get("renounced"):
                self._remove(attempt.address.name, place, lambda _: attempt.done(reply))
            else:
                attempt.done(reply)

        fields = {"destination": str(attempt.address), "incarnation": place.incarnation}
        self._ask(place.group, "destination.renounce", fields, renounced)

    def _remove(self, name: str, place: Place, done: Done) -> None:
        self._places.outdated(name, place)
        fields = {"name": name, "incarnation": place.incarnation}
        self._ask(self._places.slot_group(name), "name.remove", fields, done)

    def _removed(self, attempt: _Attempt, reply: Answer | Failed) -> None:
        attempt.stale = None
        self._locate(attempt)


def _deletes(command: Administer) -> bool:
    return command.operation == "destination.delete"


def _address(command: Administer) -> Destination:
    if command.operation == "dead.resend":
        return Destination(Kind.QUEUE, DEAD_MESSAGES)
    if command.operation == "temporary.create":
        return Destination(Kind(command.fields["kind"]), command.fields["name"], True)
    return parse_destination(command.fields["destination"])
