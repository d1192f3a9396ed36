"""One channel of a node: where it listens, where it speaks, who is there, and what comes from whom."""

from __future__ import annotations

from collections.abc import Collection

from tocsin.bus.core import Core
from tocsin.bus.incoming import InFlow
from tocsin.bus.membership import Membership
from tocsin.bus.strangers import Peers, Strangers
from tocsin.runtime.datagrams import Way


class Channel:
    __slots__ = ("datagram_bytes", "flows", "listens", "membership", "number", "speaks", "strangers")

    def __init__(
        self,
        number: int,
        listens: Collection[Way],
        speaks: Collection[Way],
        datagram_bytes: int,
        core: Core,
        peers: Peers | None = None,
    ) -> None:
        self.number = number
        self.listens = frozenset(listens)
        self.speaks = frozenset(speaks)
        self.datagram_bytes = datagram_bytes
        self.membership = Membership(number, core.settings.suspect_seconds, core.settings.down_seconds)
        self.flows: dict[bytes, InFlow] = {}
        """By bytes 0 to 23 of their datagrams; only of incarnations that are members, or claim to be."""
        self.strangers = Strangers(peers)

    def drop_stale_flows(self) -> None:
        """Of incarnations that were replaced or forgotten."""
        find = self.membership.find
        stale = [
            each for each, flow in self.flows.items() if find(flow.member.node, flow.member.salt) is not flow.member
        ]
        for prefix in stale:
            del self.flows[prefix]
