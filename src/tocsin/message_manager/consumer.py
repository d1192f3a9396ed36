"""One attached consumer: its credit, its selector, and how far it has looked."""

from __future__ import annotations

from collections import deque

from tocsin.cluster.commands import ConsumerKey, OpenConsumer
from tocsin.message_manager.budget import Step
from tocsin.message_manager.searching import Search
from tocsin.message_manager.selector import Selector
from tocsin.model.batch import Block
from tocsin.model.ranges import Range, RangeSet, subtract
from tocsin.model.reading import RangeRead

ReadyKey = tuple[int, int]
"""(minus priority, offset): the order in which returned messages are handed out."""
EVERYTHING: ReadyKey = (-10, 0)
"""Before the first of them."""


class Consumer:
    """Consumes from a view, or only reads the log when it has none (browse and replay)."""

    __slots__ = (
        "_search", "asked", "browse_end", "bytes_allowed", "bytes_sent", "client_id", "connection", "cursors",
        "groups", "key", "looked", "messages_allowed", "messages_sent", "mode", "offers_seen", "opened_lsn", "origin",
        "paused", "pieces", "position", "range", "reserved", "reserved_messages", "selector", "settled_lsn",
        "settled_ranges",
    )  # fmt: skip

    def __init__(self, origin: str, opened: OpenConsumer, selector: Selector | None) -> None:
        self.key: ConsumerKey = opened.key
        self.origin = origin
        self.mode = opened.mode
        self.connection = opened.connection
        self.client_id = opened.client_id
        self.selector = selector
        # A consumer with a selector skips messages, so it looks with cursors of its own.
        self.cursors: list[int] | None = None
        # Returned messages before this key are not for this consumer, but for those that came since so many offers.
        self.looked: ReadyKey = EVERYTHING
        self.offers_seen = 0
        # The row that the selector was last asked about.
        self._search = Search(selector) if selector is not None else None
        # Offsets of message groups that belong to this consumer, found while another one looked.
        self.reserved: deque[Range] = deque()
        # Message groups that it has; None before the first, since most have none.
        self.groups: set[str] | None = None
        self.reserved_messages = 0
        self.messages_allowed = opened.messages
        self.bytes_allowed = opened.bytes
        self.messages_sent = 0
        self.bytes_sent = 0
        self.paused = False
        # Records that must be durable before anything is delivered, and before its settlements are confirmed.
        self.opened_lsn = 0
        self.settled_lsn = 0
        # Ranges that it has settled since somebody looked how many it holds.
        self.settled_ranges = 0
        # Browse and replay: the next offset to look at, and where browsing ends.
        self.position = 0
        self.browse_end = 0
        # A reader of a range: what it wants; the rows at which pieces begin that are read from the disk for it, and the
        # row behind the last of them.
        self.range: RangeRead | None = None
        self.pieces: deque[int] = deque()
        self.asked = 0

    @property
    def credit(self) -> int:
        """How many messages may be sent now."""
        if self.paused or self.bytes_sent >= self.bytes_allowed:
            return 0
        return self.messages_allowed - self.messages_sent

    def sent(self, messages: int, size: int) -> None:
        self.messages_sent += messages
        self.bytes_sent += size

    def matches(self, lsn: int, first: int, block: Block, step: Step) -> RangeSet:
        """The offsets of a row that the selector wants; asked often for one row, so the last answer is kept. Raises
        StillLooking.
        """
        assert self._search is not None
        return self._search.look(lsn, first, block, step)

    @property
    def costly(self) -> list[int]:
        """Those of the row that the selector was asked about last."""
        return self._search.costly if self._search is not None else []

    def take_costly(self) -> list[int]:
        """Messages that the selector was not asked about because that costs too much; each is named once."""
        return self._search.take_costly() if self._search is not None else []

    def reserve(self, offset: int) -> None:
        self.reserved_messages += 1
        if self.reserved and self.reserved[-1][1] == offset:
            self.reserved[-1] = (self.reserved[-1][0], offset + 1)
        else:
            self.reserved.append((offset, offset + 1))

    def take_reserved(self, wanted: RangeSet) -> list[Range]:
        """Takes what is reserved of ranges out again."""
        taken = [part for low, high in self.reserved for part in wanted.within(low, high)]
        if taken:
            self.reserved = deque(part for each in self.reserved for part in subtract([each], taken))
            self.reserved_messages = sum(high - low for low, high in self.reserved)
        return taken
