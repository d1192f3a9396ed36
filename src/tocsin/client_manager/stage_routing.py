"""Stages over several groups: each group is asked about those of its own destinations, and all of them must answer.

A commit of several groups is first checked in all of them, so that what is amiss in one is known before any has
committed. Each group remembers the epoch by itself: who asks again is told that it was done, or it is done then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tocsin.client_manager.pending import Gathering, numbered
from tocsin.client_manager.placement import Ask, Place, Places
from tocsin.cluster.commands import Administer, Answer, Failed, Reply
from tocsin.model.destination import parse_destination
from tocsin.model.errors import InvalidDestination, StaleName, TocsinError
from tocsin.model.limits import NAME_RETRIES_MAX

Fields = dict[str, Any]
Replies = list[Answer | Failed]


def _merge_commits(replies: Replies) -> Fields:
    found = [each.fields for each in replies if isinstance(each, Answer)]
    epoch = min((fields["epoch"] for fields in found), default=-1)
    return {"committed": any(fields["committed"] for fields in found), "epoch": epoch}


def _merge_drops(replies: Replies) -> Fields:
    return {"dropped": sum(each.fields["dropped"] for each in replies if isinstance(each, Answer))}


def _merge_last(replies: Replies) -> Fields:
    return {"epoch": min((each.fields["epoch"] for each in replies if isinstance(each, Answer)), default=-1)}


MERGES: dict[str, Callable[[Replies], Fields]] = {
    "stage.commit": _merge_commits,
    "stage.drop": _merge_drops,
    "stage.last": _merge_last,
}


@dataclass(slots=True)
class _Round:
    """One request on its way to the groups. It begins anew when a destination was not where it was known to be."""

    command: Administer
    texts: list[str]
    places: dict[str, Place] = field(default_factory=dict)
    left: int = 0
    retries: int = 0
    error: TocsinError | None = None


class StageRouting:
    def __init__(self, places: Places, ask: Ask, answer: Callable[[Reply], None]) -> None:
        self._places = places
        self._ask = ask
        self._answer = answer

    def knows(self, operation: str) -> bool:
        return operation in MERGES

    def start(self, command: Administer) -> None:
        fields = command.fields
        texts = fields["destinations"] if command.operation == "stage.last" else [
            entry["destination"] for entry in fields["stages"]
        ]  # fmt: skip
        self._locate(_Round(command, list(dict.fromkeys(texts))))

    def _locate(self, round_: _Round) -> None:
        round_.places.clear()
        round_.error = None
        round_.left = len(round_.texts)
        for text in round_.texts:
            self._places.locate(parse_destination(text), False, partial(self._located, round_, text))
        if not round_.texts:
            self._finish(round_, Answer(0, MERGES[round_.command.operation]([])))

    def _located(self, round_: _Round, text: str, found: Place | TocsinError) -> None:
        round_.left -= 1
        if isinstance(found, Place):
            round_.places[text] = found
        elif not isinstance(found, InvalidDestination):
            round_.error = round_.error or found
        elif round_.command.operation == "stage.commit":
            # Where there is no destination there is no stage.
            round_.error = round_.error or found
        if round_.left:
            return
        if round_.error is not None:
            self._finish(round_, Failed(0, round_.error))
        else:
            self._send(round_)

    def _send(self, round_: _Round) -> None:
        operation, parts = round_.command.operation, self._parts(round_)
        if operation == "stage.last" and len(round_.places) < len(round_.texts):
            # In a destination that is not there nothing was ever committed.
            self._finish(round_, Answer(0, {"epoch": -1}))
        elif operation == "stage.commit" and len(parts) > 1:
            self._everywhere(parts, "stage.check", partial(self._checked, round_, parts))
        else:
            self._everywhere(parts, operation, partial(self._gathered, round_))

    def _parts(self, round_: _Round) -> dict[int, Fields]:
        """What each group is asked."""
        fields = round_.command.fields
        if round_.command.operation == "stage.last":
            return {place.group: {"app": fields["app"]} for place in round_.places.values()}
        parts: dict[int, Fields] = {}
        for entry in fields["stages"]:
            place = round_.places.get(entry["destination"])
            if place is not None:
                part = parts.setdefault(place.group, {**fields, "stages": []})
                part["stages"].append({**entry, "incarnation": place.incarnation})
        return parts

    def _everywhere(self, parts: dict[int, Fields], operation: str, done: Callable[[Replies], None]) -> None:
        gathering = Gathering(list(parts), done)
        for group, fields in parts.items():
            self._ask(group, operation, fields, gathering.take)
        if not parts:
            done([])

    def _checked(self, round_: _Round, parts: dict[int, Fields], replies: Replies) -> None:
        if any(isinstance(reply, Failed) for reply in replies):
            self._gathered(round_, replies)
        else:
            self._everywhere(parts, "stage.commit", partial(self._gathered, round_))

    def _gathered(self, round_: _Round, replies: Replies) -> None:
        errors = [reply.error for reply in replies if isinstance(reply, Failed)]
        if any(isinstance(error, StaleName) for error in errors) and round_.retries < NAME_RETRIES_MAX:
            round_.retries += 1
            for text, place in round_.places.items():
                self._places.outdated(parse_destination(text).name, place)
            self._locate(round_)
        elif errors:
            self._finish(round_, Failed(0, errors[0]))
        else:
            self._finish(round_, Answer(0, MERGES[round_.command.operation](replies)))

    def _finish(self, round_: _Round, reply: Answer | Failed) -> None:
        self._answer(numbered(reply, round_.command.request))
