"""A cluster on sealed datagrams, with strangers and hostile insiders on its network, in virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from tests.fuzz.bus_cases import (
    ABSENT,
    ABSENT_MANAGER,
    MANAGERS,
    MEMBERS,
    Arrives,
    BusCase,
    Heard,
    InsiderSource,
    Later,
    Made,
    Packet,
    Reported,
    StrangerSource,
    Told,
)
from tests.fuzz.cluster_stage import GROUP, Cluster, HonestPair
from tests.fuzz.engine import Broken, Machine, Target

from tocsin.bus.events import Event
from tocsin.bus.machine import Bus, BusSettings
from tocsin.model.errors import TocsinError
from tocsin.model.limits import MIB
from tocsin.runtime.aead import AesGcm
from tocsin.runtime.datagrams import Address, Burst, Way
from tocsin.testing.clusters.datagram_fabric import DatagramEnd, DatagramFabric
from tocsin.testing.clusters.timeline import Being, Timeline
from tocsin.testing.network import place_of

_SECRET = b"the secret that no stranger has!"
_SETTINGS = BusSettings(heartbeat_seconds=0.6, suspect_seconds=1.5, down_seconds=2.0)
_HEARD_MAX = 200
_BUFFERED_MAX = 64 * MIB
_HONEST_EVERY = 10


class SealedEnd(DatagramEnd):
    def __init__(
        self, fabric: DatagramFabric, being: Being, node: int, boot: int, deliver: Callable[[list[Event]], None]
    ) -> None:
        super().__init__(fabric, being, node, boot, deliver)
        chance = Random(node).random
        self.bus = Bus(node, boot, chance, secret=_SECRET, suite=AesGcm(), settings=_SETTINGS)


class SealedFabric(DatagramFabric):
    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        self.heard: list[tuple[Address, bytes]] = []
        self._network.sent = self.heard

    def new_end(self, being: Being, node: int, boot: int, deliver: Callable[[list[Event]], None]) -> DatagramEnd:
        return SealedEnd(self, being, node, boot, deliver)

    def arrive(self, node: int, data: bytes, segment: int) -> None:
        self._ends[node].arrive(GROUP, data, segment, place_of(0))

    def buses(self) -> dict[int, Bus]:
        return {node: end.bus for node, end in self._ends.items()}


class BusStage(Machine[BusCase]):
    def __init__(self, *, insiders: bool) -> None:
        """With insiders nobody can say what the group will agree on; without them the honest client must get on."""
        self._cluster = Cluster(MEMBERS, SealedFabric, (ABSENT, ABSENT_MANAGER), MANAGERS)
        assert isinstance(self._cluster.fabric, SealedFabric)
        self._fabric = self._cluster.fabric
        self._pair = HonestPair(self._cluster)
        self._pair.works()
        self._insiders = {node: self._enter(node) for node in (ABSENT, ABSENT_MANAGER)} if insiders else {}
        self._cluster.run(2.0)
        self._played = 0
        self._heard = {receiver: deque[bytes](maxlen=_HEARD_MAX) for receiver in (0, 10, 11, 100)}
        """What was on the network, and of that what could reach each node."""
        self._listen()

    def _enter(self, node: int) -> DatagramEnd:
        being = Being(self._cluster.timeline)
        being.begin_life()
        end = self._fabric.new_end(being, node, 1, lambda events: None)
        is_member = node == ABSENT
        listens = {Way.IN} if is_member else {Way.OUT}
        speaks = {Way.IN, Way.OUT} if is_member else {Way.IN}
        end.join(GROUP, listens=listens, speaks=speaks, datagram_bytes=1_400)
        self._fabric.attach(end)
        return end

    def play(self, case: BusCase) -> None:
        self._played += 1
        match case:
            case Arrives():
                self._arrives(case)
            case Told():
                end = self._insiders[case.sender]
                address = Address(case.way, GROUP, case.target)
                try:
                    end.send(address, [case.payload], case.stream)
                except TocsinError:
                    return
            case Reported():
                self._sealed(case.sender, case.way, case.target, lambda flow: flow.report(case.kind, case.content))
            case Packet():
                packet = ([case.content], len(case.content))
                self._sealed(
                    case.sender, case.way, case.target,
                    lambda flow: flow.packets(case.stream, case.sequence, [packet])[0],
                )  # fmt: skip
            case Later(seconds):
                self._cluster.run(seconds)
        self._cluster.run(0.003)
        self._listen()
        self._check()

    def _listen(self) -> None:
        """What was on the network since the last case, by who could receive it."""
        for address, datagram in self._fabric.heard:
            for receiver, kept in self._heard.items():
                if not receiver or _reaches(address, receiver):
                    kept.append(datagram)
        self._fabric.heard.clear()

    def _sealed(self, sender: int, way: Way, target: int, make: Callable[..., object]) -> None:
        flow = self._insiders[sender].bus._sending.flows.get(Address(way, GROUP, target))
        if flow is not None:
            datagram = make(flow)
            length = sum(map(len, datagram))  # type: ignore[call-overload]
            self._fabric.carry(sender, Burst(flow.address, (datagram,), length))  # type: ignore[arg-type]
            self._insiders[sender].soon()

    def _arrives(self, case: Arrives) -> None:
        pieces = [self._bytes(piece, case.receiver) for piece in case.pieces]
        segment = len(pieces[0]) if case.segment is None else case.segment
        self._fabric.arrive(case.receiver, b"".join(pieces), segment)

    def _bytes(self, piece: Heard | Made, receiver: int) -> bytes:
        if isinstance(piece, Made):
            return piece.data
        heard = self._heard[receiver if piece.to_receiver else 0]
        raw = bytearray(heard[-1 - piece.back % len(heard)])
        for at, data in piece.patches:
            raw[at : at + len(data)] = data
        length = len(raw) if piece.length is None else piece.length
        return bytes(raw[:length]) + bytes(max(0, length - len(raw)))

    def _check(self) -> None:
        self._cluster.check_up()
        for node, bus in self._fabric.buses().items():
            if bus.buffered_bytes() > _BUFFERED_MAX:
                raise Broken(f"The bus of node {node} keeps {bus.buffered_bytes()} bytes.")
        if not self._insiders and self._played % _HONEST_EVERY == 0:
            self._pair.works()

    def finish(self) -> None:
        if not self._insiders:
            self._cluster.run(3.0)
            self._pair.works()


def _reaches(address: Address, receiver: int) -> bool:
    if address.way is Way.NODE:
        return address.node == receiver
    return (address.way is Way.IN) == (receiver in MEMBERS)


STRANGERS = Target("strangers", lambda: BusStage(insiders=False), StrangerSource, 500)
INSIDERS = Target("insiders", lambda: BusStage(insiders=True), InsiderSource, 400)
