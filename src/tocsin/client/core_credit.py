"""What a server may send without being asked for more: it could fill the memory of a client that does not look.

Beyond the credit there are, at most,
- one block of bytes, since a server that may send one more byte sends a whole block;
- what was under way when the consumer was opened again, on the credit that it had before: as much as the buffer takes;
- for the dead message queue of a cluster as much of each group, because each has one, and the whole credit for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tocsin.model.destination import DEAD_MESSAGES
from tocsin.model.errors import ProtocolError
from tocsin.model.limits import BLOCK_BYTES_MAX, GROUPS_MAX

if TYPE_CHECKING:
    from tocsin.client.core_consuming import ConsumerState


def check_credit(consumer: ConsumerState) -> None:
    """ProtocolError when more has come than any server of ours sends."""
    spec = consumer.spec
    senders = GROUPS_MAX if spec.destination.name == DEAD_MESSAGES else 1
    messages = consumer.granted + senders * max(1, spec.prefetch)
    size = consumer.granted_bytes + senders * spec.buffer_bytes + BLOCK_BYTES_MAX
    if consumer.received > messages or consumer.received_bytes > size:
        raise ProtocolError(
            f"The server sent {consumer.received} messages with {consumer.received_bytes} bytes of {spec.destination}, "
            f"where it was asked for {consumer.granted} messages with {consumer.granted_bytes} bytes at most."
        )
