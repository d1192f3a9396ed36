"""UDP sockets for bursts: one system call for many datagrams where the kernel can (UDP_SEGMENT, UDP_GRO).

Segmentation offload (GSO) hands the kernel up to 64 KiB that it cuts into datagrams as late as possible, receive
offload (GRO) hands datagrams that came together over in one piece. Both are probed; without them a datagram costs a
call.
"""

from __future__ import annotations

import errno
import socket
import struct
from itertools import chain

from tocsin.model.errors import ConfigError
from tocsin.model.limits import BUS_DATAGRAM_BYTES_MAX, BUS_SOCKET_BUFFER_BYTES
from tocsin.runtime.datagrams import NOWHERE, Burst, Place

# From linux/udp.h, linux/in.h and asm-generic/socket.h, which the socket module does not know.
_UDP_SEGMENT = 103
_UDP_GRO = 104
_IP_MULTICAST_ALL = 49
_RECEIVE_BUFFER_FORCE = 33
_SEND_BUFFER_FORCE = 32
_SEGMENT = struct.Struct("=H")
_COALESCED = struct.Struct("=i")
_READ_BYTES = 1 << 16
_ANCILLARY_BYTES = socket.CMSG_SPACE(_COALESCED.size)
_NO_ROOM = {errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS}
# What a kernel or a device says that cannot cut a burst after all.
_NO_OFFLOAD = {errno.EIO, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOPROTOOPT}


class UdpSocket:
    """One non-blocking socket. Losing what cannot be sent is allowed; losing it silently for ever is not."""

    __slots__ = ("_offload", "raw", "receives_bursts", "unsent")

    def __init__(self, place: Place, *, shared: bool = False) -> None:
        """Binds; a `shared` place may be bound by other processes too, which all get what comes to it."""
        self.raw = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self.raw.setblocking(False)
            if shared:
                self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._enlarge(_RECEIVE_BUFFER_FORCE, socket.SO_RCVBUF)
            self._enlarge(_SEND_BUFFER_FORCE, socket.SO_SNDBUF)
            self.raw.bind(place)
        except OSError as error:
            self.raw.close()
            raise ConfigError(
                f"Can't use {place[0]} port {place[1]} for the bus: {error.strerror or error}."
            ) from error
        self._offload = self._probe(_UDP_SEGMENT, 0)
        self.receives_bursts = self._probe(_UDP_GRO, 1)
        self.unsent = 0
        """Datagrams that the network refused, such as those for a host without a route."""

    @property
    def sends_bursts(self) -> bool:
        return self._offload

    def speak_on(self, interface: str, hops: int) -> None:
        """Multicast leaves through the interface with this address, and other nodes of this machine hear it."""
        self.raw.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
        self.raw.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, hops)
        self.raw.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)

    def join(self, group: str, interface: str) -> None:
        """Hears this group from this interface, and no group that another socket of the machine has joined."""
        membership = socket.inet_aton(group) + socket.inet_aton(interface)
        self.raw.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        try:
            self.raw.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        except OSError:
            # Where there is no such option, the address the socket is bound to keeps other groups out.
            return

    def send(self, burst: Burst, place: Place) -> bool:
        """False when the kernel has no room now; then nothing, or only a part, has been sent."""
        if len(burst.datagrams) == 1:
            return self._call(burst.datagrams[0], (), place)
        if self._offload:
            segment = ((socket.IPPROTO_UDP, _UDP_SEGMENT, _SEGMENT.pack(burst.segment)),)
            try:
                return self._call(list(chain.from_iterable(burst.datagrams)), segment, place)
            except _NoOffload:
                self._offload = False
        return all(self._call(datagram, (), place) for datagram in burst.datagrams)

    def receive(self) -> tuple[bytes, int, Place] | None:
        """Datagrams in one piece, the length of each but the last, and their source; None when nothing is there."""
        try:
            data, ancillary, _, source = self.raw.recvmsg(_READ_BYTES, _ANCILLARY_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in (errno.ECONNREFUSED, errno.EINTR):
                # An earlier datagram found nobody at its address; that says nothing of this socket.
                return b"", 1, NOWHERE
            raise
        for level, kind, value in ancillary:
            if level == socket.IPPROTO_UDP and kind == _UDP_GRO:
                return data, int(_COALESCED.unpack(value)[0]), source
        return data, len(data) or 1, source

    def close(self) -> None:
        self.raw.close()

    def _call(self, parts: object, ancillary: object, place: Place) -> bool:
        try:
            self.raw.sendmsg(parts, ancillary, 0, place)  # type: ignore[arg-type]
        except OSError as error:
            if error.errno in _NO_ROOM:
                return False
            if ancillary and error.errno in _NO_OFFLOAD:
                raise _NoOffload from error
            # A network that is down loses datagrams as any network may; the windows above notice.
            self.unsent += 1
        return True

    def _enlarge(self, force: int, ask: int) -> None:
        """The kernel's own limit holds for those who may not exceed it."""
        try:
            self.raw.setsockopt(socket.SOL_SOCKET, force, BUS_SOCKET_BUFFER_BYTES)
        except OSError:
            self.raw.setsockopt(socket.SOL_SOCKET, ask, BUS_SOCKET_BUFFER_BYTES)

    def _probe(self, option: int, value: int) -> bool:
        try:
            self.raw.setsockopt(socket.IPPROTO_UDP, option, value)
        except OSError:
            return False
        return True


class _NoOffload(Exception):
    """The burst must go datagram by datagram."""


def datagram_bytes(mtu: int) -> int:
    """What UDP over IPv4 carries in one packet of a network; no network carries more than 64 KiB."""
    return min(mtu - 28, BUS_DATAGRAM_BYTES_MAX)


def receive_buffer_bytes(host: str) -> int:
    """How much a socket of the bus may hold before the system drops what comes: what it grants of what we ask."""
    probe = UdpSocket((host, 0))
    try:
        return probe.raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    finally:
        probe.close()
