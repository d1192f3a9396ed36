"""Datagrams that nobody should send, to the nodes of a cluster on this machine: run as a process of its own.

    python -m tests.system.hostile_bus FOLDER NODE SECONDS

A stranger without the secret sends garbage, forgeries and what it has recorded: cut, changed, repeated, in another
order and many in one call. A node that has the secret, and is nobody that runs, seals every kind of datagram and of
message with every field at its extremes. At the end it says how many of each it has sent.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from random import Random, SystemRandom

from tests.node.hostile_messages import NUMBERS, command_samples, commands, envelope_samples, extremes, group_samples

from tocsin.bus.datagram import INNER, PREFIX_BYTES, Flow, Kind, Stream, prefix_of
from tocsin.bus.events import Delivered, Event
from tocsin.bus.fragments import BEGIN, CHUNK, END, WHOLE
from tocsin.bus.machine import Bus
from tocsin.cli.cluster.directory import ClusterDirectory
from tocsin.cluster.envelope import Envelope, GroupBytes
from tocsin.cluster.envelope import decode as decode_envelope
from tocsin.cluster.envelope import encode as encode_envelope
from tocsin.cluster.group_config import NO_CONFIG, GroupConfig
from tocsin.cluster.register_messages import CommitSeen, Heartbeat
from tocsin.model.errors import TocsinError
from tocsin.model.limits import GROUP_NUMBER_MAX
from tocsin.node.bus_networks import channel_bytes, listens, open_networks, speaks
from tocsin.node.hello import HELLO
from tocsin.replication.codec import decode as decode_group
from tocsin.replication.codec import encode as encode_group
from tocsin.runtime.aead import AesGcm
from tocsin.runtime.bus_loop import BusLoop
from tocsin.runtime.datagrams import Address, Burst, Place, Way, group_in, to_node

TURN_SECONDS = 0.01
PER_TURN = 10
"""Of the stranger and of the node each: 1,000 a second, and bursts of many more datagrams among them."""
FORGED_AT_ONCE = 12
SEALED_NONSENSE = 0.3
"""The part of what the node with the secret says that is a datagram of no sense; the rest are whole messages."""
RECORDED_MAX = 2_000
OWN_QUEUE = "queue:hostile"
"""A client manager may delete what it likes; that is no question of form."""
_UDP_SEGMENT = 103
_EDGES = tuple(number for number in NUMBERS if 0 <= number < 1 << 64)


class Hostile:
    def __init__(self, folder: Path, name: str, loop: asyncio.AbstractEventLoop) -> None:
        directory = ClusterDirectory(folder)
        config = directory.node_config(name)
        self.cluster, self.node = config.cluster, config.node
        self.group = self.cluster.groups[0]
        self.random = Random(16)
        self.sent: Counter[str] = Counter()
        self.recorded: list[bytes] = []
        self.salts: dict[int, int] = {}
        self.epoch, self.config, self.last = 1, NO_CONFIG, 1
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        number = self.group.number
        network = self.group.channels[0].network
        others = [each for each in self.cluster.nodes if each.name != name]
        self.others = [each.number for each in others]
        self.places: list[Place] = [each.place(number, network) for each in others]
        if self.cluster.network(network).multicast:
            channel = self.group.channels[0]
            self.places += [(channel.address_in, channel.port), (channel.address_out, channel.port)]
        boot = int(time.time()) - 1_577_836_800 + 3_600
        self.bus = Bus(self.node.number, boot, SystemRandom().random, secret=config.secret, suite=AesGcm())
        self.bus.join(
            number,
            listens=listens(self.group, self.node),
            speaks=speaks(self.group, self.node),
            datagram_bytes=channel_bytes(self.cluster, self.group),
        )
        self.transport = open_networks(loop, self.cluster, self.node)
        self.driver: BusLoop[Event] = BusLoop(self.bus, self.transport, loop, self._heard)
        received = self.bus.received

        def record(channel: int, data: bytes, segment: int, now: float, source: Place = ("", 0)) -> None:
            self._record(data[:segment])
            received(channel, data, segment, now, source)

        self.bus.received = record  # type: ignore[method-assign]
        self.driver.start()

    def _record(self, datagram: bytes) -> None:
        if len(datagram) >= PREFIX_BYTES:
            sender, salt = struct.unpack_from("<H", datagram, 6)[0], struct.unpack_from("<Q", datagram, 16)[0]
            self.salts[sender] = salt
            if len(self.recorded) < RECORDED_MAX:
                self.recorded.append(datagram)
            else:
                self.recorded[self.random.randrange(RECORDED_MAX)] = datagram

    def _heard(self, events: object) -> None:
        for event in events:  # type: ignore[attr-defined]
            if isinstance(event, Delivered):
                with suppress(TocsinError):
                    found = decode_envelope(event.payload)
                    message = decode_group(found.parts[0]) if isinstance(found, GroupBytes) else None
                    if isinstance(message, Heartbeat):
                        self.epoch, self.config, self.last = message.epoch, message.config, message.last

    # ---- the stranger

    def stranger(self) -> None:
        random = self.random
        kind = random.choice(("garbage", "cut", "changed", "repeated", "coalesced", "forged", "unknown", "version"))
        base = random.choice(self.recorded) if self.recorded else bytes(60)
        match kind:
            case "garbage":
                data = random.randbytes(random.randrange(200))
            case "cut":
                data = base[: random.randrange(len(base))]
            case "changed":
                changed = bytearray(base)
                changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
                data = bytes(changed)
            case "repeated":
                data = base
            case "coalesced":
                self._coalesced(base)
                return
            case "version":
                data = base[:1] + bytes([random.choice((0, 1, 3, 255))]) + base[2:]
            case _:
                for _ in range(FORGED_AT_ONCE):
                    self._send(kind, self._forgery(kind))
                return
        self._send(kind, data)

    def _forgery(self, kind: str) -> bytes:
        """Of an incarnation that nobody knows: the receiver would need a key for it."""
        random = self.random
        number = random.choice(self.others) if kind == "forged" else random.randrange(1_000, 60_000)
        address = Address(random.choice((Way.IN, Way.OUT)), self.group.number)
        return prefix_of(Flow(1, address, number, _u32(random), random.randrange(1, 1 << 64))) + random.randbytes(60)

    def _coalesced(self, base: bytes) -> None:
        """Many short datagrams of a known flow in one call; the receiver may get them in one piece."""
        segment = self.random.randrange(1, 60)
        data = (base[:segment] if len(base) >= segment else bytes(segment)) * self.random.randrange(2, 40)
        place = self.random.choice(self.places)
        with suppress(OSError):
            ancillary = [(socket.IPPROTO_UDP, _UDP_SEGMENT, struct.pack("=H", segment))]
            self._socket.sendmsg([data + data[: segment - 1]], ancillary, 0, place)
            self.sent["coalesced"] += 1

    def _send(self, kind: str, data: bytes) -> None:
        with suppress(OSError):
            self._socket.sendto(data, self.random.choice(self.places))
            self.sent[kind] += 1

    # ---- the node with the secret

    def datagrams(self) -> Iterator[tuple[str, bytes]]:
        """What is sealed, without its counter: every kind with every field at its extremes."""
        yield "short", b""
        yield "short", bytes(INNER.size - 1)
        for kind in (*Kind, 0, 5, 255):
            for stream in (0, *Stream, 3, 255):
                for sequence in _EDGES:
                    yield "inner", INNER.pack(kind, stream, 0, 0, sequence) + bytes(8)
        for high in _EDGES:
            for low in (0, 1, 2, high):
                for released in (0, high, low):
                    status = struct.pack("<BBHIQQQQ", 0, 1, 0, 0, 2, high, low, released)
                    yield "status", INNER.pack(Kind.STATUS, 0, 0, 0, 0) + status
            for flags, streams, heard in ((1, 0, 0), (2, 0, 0), (0, 255, 0), (0, 0, 65_535), (0, 0, 1)):
                content = struct.pack("<BBHIQ", flags, streams, heard, 0, high)
                yield "status", INNER.pack(Kind.STATUS, 0, 0, 0, 0) + content
            for way in (0, 1, 2, 3, 255):
                acknowledged = struct.pack("<BBHIQ", way, 2, 0, 0, high)
                yield "acknowledgement", INNER.pack(Kind.ACKNOWLEDGEMENT, 0, 0, 0, 0) + acknowledged
                for first in (0, 1, high):
                    request = struct.pack("<BBHIQQ", way, 2, 1, 0, first, high)
                    yield "request", INNER.pack(Kind.REQUEST, 0, 0, 0, 0) + request
        for head in (0, 1, BEGIN, END, WHOLE, BEGIN | 1, END | 1, WHOLE | 1, (1 << 30) - 1, (1 << 32) - 1):
            for sequence in (1, 2, 3, 9_000):
                content = CHUNK.pack(head) + b"x"
                yield "chunk", INNER.pack(Kind.DATA, Stream.CONTROL, 0, 0, sequence) + content

    def datagram(self, kind: str, content: bytes) -> None:
        """Sealed for a flow of its own bus, under its next counter: authentic, and nonsense."""
        number = self.group.number
        flows = self.bus._sending.flows
        address = self.random.choice([each for each in flows if each.channel == number])
        flow = flows[address]
        if len(content) >= INNER.size and self.random.random() < 0.9:
            head = INNER.unpack_from(content)
            content = INNER.pack(*head[:3], flow.target_salt, head[4]) + content[INNER.size :]
        (parts,) = flow._sealer.seal([[content]])
        datagram = b"".join(parts)
        if self.random.random() < 0.1:
            datagram = datagram[: self.random.randrange(len(datagram))]
        self.transport.send(Burst(address, [[datagram]], max(1, len(datagram))))
        self.sent[f"sealed {kind}"] += 1

    def messages(self) -> Iterator[tuple[str, bytes]]:
        """Every message between nodes with every field at its extremes, as of now."""
        number = self.node.number
        config: GroupConfig = self.config
        for message in group_samples(self.epoch, number, config, self.last):
            for other in extremes(message):
                if isinstance(other, CommitSeen) and self.last < other.lsn <= GROUP_NUMBER_MAX:
                    # A lie that nobody can tell from the truth, and no question of form.
                    continue
                with suppress(struct.error, TocsinError, OverflowError, ValueError):
                    yield type(message).__name__, b"".join(encode_envelope(GroupBytes(encode_group(other))))
        said: list[Envelope] = envelope_samples(self.epoch, 1, b"s" * 16)
        said += [commands(self.epoch, 1, 0, command) for command in command_samples(b"s" * 16, b"c" * 16, 1, OWN_QUEUE)]
        for envelope in said:
            for changed in extremes(envelope):
                with suppress(
                    struct.error, TocsinError, OverflowError, ValueError, TypeError, AttributeError, KeyError
                ):
                    yield type(envelope).__name__, b"".join(encode_envelope(changed))
        for length in (0, 1, 16, 17, 21, 5_000):
            yield "hello", HELLO + self.random.randbytes(length)
            yield "layer", bytes([self.random.randrange(256)]) + self.random.randbytes(length)

    def message(self, kind: str, payload: bytes) -> None:
        number = self.group.number
        addresses: list[Address] = [group_in(number), *(to_node(number, node) for node in self.others)]
        address = self.random.choice(addresses)
        stream = self.random.choice(list(Stream)) if len(payload) < 60_000 else Stream.DATA
        with suppress(TocsinError):
            if self.bus.send(address, [payload], stream):
                self.sent[f"message {kind}"] += 1
        self.driver.flush()


def _u32(random: Random) -> int:
    return random.choice((1, (1 << 32) - 1, random.randrange(1, 1 << 32)))


async def run(folder: Path, name: str, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    hostile = Hostile(folder, name, loop)
    end = loop.time() + seconds
    datagrams = cycle(list(hostile.datagrams()))
    messages = hostile.messages()
    while loop.time() < end:
        for _ in range(PER_TURN):
            hostile.stranger()
            if hostile.random.random() < SEALED_NONSENSE:
                hostile.datagram(*next(datagrams))
            else:
                following = next(messages, None)
                if following is None:
                    messages = hostile.messages()
                else:
                    hostile.message(*following)
        await asyncio.sleep(TURN_SECONDS)
    hostile.driver.close()
    hostile._socket.close()
    sys.stdout.write(json.dumps({"sent": hostile.sent, "met": len(hostile.bus.members(hostile.group.number))}))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
