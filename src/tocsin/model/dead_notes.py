"""What a dead message says about itself, in properties that begin with JMS_tocsin_.

Servers note it when they move a message to the dead message queue. Clients note it themselves on messages that they
report as dead, through a stage: a pipeline, say, that can't read a value.
"""

from __future__ import annotations

from tocsin.model.batch import Block, ColumnData
from tocsin.model.destination import DEAD_MESSAGES, DEAD_OF, Destination
from tocsin.model.errors import AccessDenied, TocsinError
from tocsin.model.identity import NO_ID
from tocsin.model.values import Type

ORIGIN = "JMS_tocsin_origin"
REASON = "JMS_tocsin_reason"
ATTEMPTS = "JMS_tocsin_attempts"
SUBSCRIPTION = "JMS_tocsin_subscription"
OFFSET = "JMS_tocsin_offset"
"""Where in its origin a message was, if whoever reported it has said so."""
NOTES = (ORIGIN, REASON, ATTEMPTS, SUBSCRIPTION, OFFSET)
NOTES_BEGIN = "JMS_tocsin_"


def shortened(text: str, size: int) -> str:
    """As much of a text as so many bytes hold, whole characters only; a question mark for what UTF-8 can't write."""
    return text.encode("utf-8", "replace")[: max(0, size)].decode("utf-8", "ignore")


def lack_of_notes(block: Block, reported: Destination) -> TocsinError | None:
    """Why a client's block can't go to the dead messages of an origin, as `_DMQ:ORIGIN` names them: it must be staged,
    and name the origin and a reason.
    """
    origin = reported.name.removeprefix(DEAD_OF)
    if block.stage == NO_ID or (block.destination, block.destination_kind) != (DEAD_MESSAGES, reported.kind):
        return AccessDenied("Clients can't publish to the dead message queue; they can stage messages for it.")
    for name in (ORIGIN, REASON):
        column = _text(block, name)
        if column is None:
            return AccessDenied(f"A message that is reported as dead needs the property {name}, a text.")
        if name == ORIGIN and bytes(column.data) != origin.encode() * block.count:
            return AccessDenied(f"Messages that are reported as dead for {origin} must all name it as their origin.")
    return None


def _text(block: Block, name: str) -> ColumnData | None:
    """The column of a property that is a text in every row."""
    found = block.properties(name)
    whole = len(found) == 1 and found[0].type == Type.STRING and found[0].validity is None
    return found[0] if whole else None
