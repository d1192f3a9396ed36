"""Which datagrams are worth deriving a key for: each node of the cluster has a rate, so nobody is crowded out.

A key is needed for the first datagram of an incarnation, and for one that names another key of a flow that is known.

    of no node of the cluster                      nothing; it costs a look into a table
    of a node, from one of its own addresses       an allowance of its own
    of a node, from elsewhere                      one allowance for all of them

A forger that can be told by its address only uses up what is for forgers; one that forges addresses, too, only that of
the one node whose address it uses: it delays that node when it starts, and once in BUS_PACKETS_PER_KEY datagrams.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tocsin.bus.flow_control import TokenBucket
from tocsin.model.limits import BUS_NEWCOMERS_PER_SECOND, BUS_STRANGERS_PER_SECOND
from tocsin.runtime.datagrams import Place

Peers = Mapping[int, Collection[Place]]
"""The nodes that may take part in a channel, and from where each of them sends."""


class Strangers:
    """Without `peers` anybody may take part, within the one allowance."""

    __slots__ = ("_elsewhere", "_own", "_peers")

    def __init__(self, peers: Peers | None) -> None:
        self._peers = None if peers is None else {node: frozenset(places) for node, places in peers.items()}
        self._own: dict[int, TokenBucket] = {
            node: TokenBucket(BUS_NEWCOMERS_PER_SECOND, BUS_NEWCOMERS_PER_SECOND) for node in self._peers or ()
        }
        self._elsewhere = TokenBucket(BUS_STRANGERS_PER_SECOND, BUS_STRANGERS_PER_SECOND)

    def knows(self, node: int) -> bool:
        return self._peers is None or node in self._peers

    def admits(self, node: int, source: Place, now: float) -> bool:
        """Whether another key of this node may be derived now."""
        if self._peers is not None and source in self._peers.get(node, ()):
            return self._own[node].take(1, now)
        return self._elsewhere.take(1, now)
