"""One attached consumer: its credit, its selector, and how far it has looked."""

from __future__ import annotations

from tocsin.cluster.commands import ConsumerKey, OpenConsumer
from tocsin.message_manager.selector import Selector
from tocsin.model.ranges import Range


class Consumer:
    """Consumes from a view, or only reads the log when it has none (browse and replay)."""

    __slots__ = (
        "browse_end", "bytes_allowed", "bytes_sent", "client_id", "connection", "cursors", "key",
        "last_match", "messages_allowed", "messages_sent", "mode", "opened_lsn", "origin", "paused", "position", "reserved",
        "selector", "settled_lsn",
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
        # Rows that the selector was last asked about: (lsn, matching ranges within the row).
        self.last_match: tuple[int, list[Range]] = (-1, [])
        # Offsets of message groups that belong to this consumer, found while another one looked.
        self.reserved: list[Range] = []
        self.messages_allowed = opened.messages
        self.bytes_allowed = opened.bytes
        self.messages_sent = 0
        self.bytes_sent = 0
        self.paused = False
        # Records that must be durable before the consumer gets anything, and before it is told that it has settled.
        self.opened_lsn = 0
        self.settled_lsn = 0
        # Browse and replay: the next offset to look at, and where browsing ends.
        self.position = 0
        self.browse_end = 0

    @property
    def credit(self) -> int:
        """How many messages may be sent now."""
        if self.paused or self.bytes_sent >= self.bytes_allowed:
            return 0
        return self.messages_allowed - self.messages_sent

    def sent(self, messages: int, size: int) -> None:
        self.messages_sent += messages
        self.bytes_sent += size
