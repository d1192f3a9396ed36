"""What a query says when it has waited in vain: the connection lives, and nobody answers for a destination.

Each wait of source, sink and pipelines has `reconnectTimeout` seconds without progress (ServerOptions.connect).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tocsin.model.errors import TimedOut

GO_ON = "A query that is started again with its checkpoint goes on where it was; nothing is lost or repeated."
UNSEEN = f"Nothing of this write is seen before it is committed, so it may be run again. {GO_ON}"
SENT = "What was confirmed is there already, and comes once more when the write is run again."
COMMITTED_ONCE = (
    "Whether this epoch was committed is not known. A query that is started again with its checkpoint, or a write with "
    "the same txnAppId and txnVersion, commits it once; nothing is lost or repeated."
)
LOOK_FIRST = (
    "Whether this write was committed is not known: look at the destination before it is run again. With txnAppId and "
    "txnVersion it can be repeated without a doubt."
)


@contextmanager
def failing_clearly(advice: str = GO_ON) -> Iterator[None]:
    """Around whatever asks the server: the error says what to do. Also a decorator."""
    try:
        yield
    except TimedOut as error:
        raise TimedOut(f"{error} {advice}") from error
