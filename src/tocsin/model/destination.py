"""Queues and topics, and what a name may look like.

A name is 1 to 255 bytes of UTF-8 without white space, control characters, quotes, backslash or the wildcard characters.
Names that begin with an underscore belong to the system: clients can use some of them, and create none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from tocsin.model.errors import InvalidDestination, ProtocolError
from tocsin.model.limits import COPIES_MAX, DESTINATION_NAME_BYTES_MAX

ADMIN = "_ADMIN"
LOG = "_LOG"
DEAD_MESSAGES = "_DMQ"
WELL_KNOWN = (ADMIN, LOG, DEAD_MESSAGES)
DEAD_OF = f"{DEAD_MESSAGES}:"
"""Before the name of a destination: the dead message queue where that destination lives. Only stages can be for it."""

# Lone halves of surrogate pairs are among them, because UTF-8 has no form for these.
_FORBIDDEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f\"'\\*?#>\ud800-\udfff]")


class Kind(IntEnum):
    QUEUE = 1
    TOPIC = 2

    @property
    def word(self) -> str:
        return self.name.lower()


def kind_of(word: str) -> Kind:
    try:
        return Kind[word.upper()]
    except KeyError:
        raise InvalidDestination(f"{word!r} is not a kind of destination; use 'queue' or 'topic'.") from None


@dataclass(frozen=True, slots=True)
class Destination:
    """A queue or a topic by name. Temporary ones live and die with the connection that made them."""

    kind: Kind
    name: str
    temporary: bool = False

    def __str__(self) -> str:
        return f"{self.kind.word}:{self.name}"


def parse_destination(text: str) -> Destination:
    """Reads what `str(destination)` wrote, as in reply-to headers."""
    word, separator, name = text.partition(":")
    if not separator:
        raise InvalidDestination(f"{text!r} does not name a destination; write 'queue:NAME' or 'topic:NAME'.")
    return Destination(kind_of(word), check_name(name), name.startswith(TEMPORARY_PREFIX))


TEMPORARY_PREFIX = "_TMP."


def stored_name(name: str) -> str:
    """The name under which a destination is stored, which is another one only for a dead message queue."""
    return DEAD_MESSAGES if name.startswith(DEAD_OF) else name


def check_name(name: str, what: str = "destination") -> str:
    """Returns the name when its form is allowed; says what is wrong with it otherwise."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if not name:
        raise InvalidDestination(f"A {what} name must not be empty.")
    if size > DESTINATION_NAME_BYTES_MAX:
        raise InvalidDestination(
            f"The {what} name {name[:40]!r}... has {size} bytes; {DESTINATION_NAME_BYTES_MAX} is the most."
        )
    bad = _FORBIDDEN.search(name)
    if bad:
        raise InvalidDestination(
            f"The {what} name {name!r} contains {bad.group()!r}; white space, control characters, quotes, backslash "
            "and * ? # > are not allowed."
        )
    return name


def check_terms(kind: Kind, *, retained: bool, max_age_ms: int, max_bytes: int, min_copies: int) -> None:
    """Refuses what no destination of a kind can be created with."""
    if retained and kind is not Kind.TOPIC:
        raise InvalidDestination("Only topics can be retained; a queue keeps its messages until they are consumed.")
    if (max_age_ms or max_bytes) and not retained:
        raise InvalidDestination("A largest age or size needs a retained topic.")
    if not 1 <= min_copies <= COPIES_MAX:
        raise ProtocolError(f"The field 'min_copies' of a request must be a number from 1 to {COPIES_MAX}.")


def check_creatable(name: str) -> str:
    """What a client may bring into being: any good name that does not begin with an underscore."""
    if name.startswith("_"):
        raise InvalidDestination(
            f"The name {name!r} begins with an underscore; such names belong to the system ({', '.join(WELL_KNOWN)})."
        )
    return check_name(name)
