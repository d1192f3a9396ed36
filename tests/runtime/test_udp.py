"""Real sockets on the loopback network."""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tocsin.model.errors import ConfigError
from tocsin.runtime.datagrams import Burst, to_node
from tocsin.runtime.udp import UdpSocket, datagram_bytes, receive_buffer_bytes

HOST = "127.0.0.1"
WAIT_SECONDS = 5.0


@pytest.fixture
def pair() -> Iterator[tuple[UdpSocket, UdpSocket]]:
    first, second = UdpSocket((HOST, 0)), UdpSocket((HOST, 0))
    yield first, second
    first.close()
    second.close()


def burst(*datagrams: bytes) -> Burst:
    return Burst(to_node(1, 2), [(datagram[:3], datagram[3:]) for datagram in datagrams], len(datagrams[0]))


def received(at: UdpSocket, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        assert select.select([at.raw], [], [], WAIT_SECONDS)[0], f"only {len(found)} of {count} came"
        got = at.receive()
        if got is not None:
            data, segment, source = got
            assert source[0] == HOST and source[1]
            found += [data[start : start + segment] for start in range(0, len(data), segment)]
    return found


def place(of: UdpSocket) -> tuple[str, int]:
    host, port = of.raw.getsockname()
    return host, port


def test_a_burst_arrives_as_its_datagrams(pair: tuple[UdpSocket, UdpSocket]) -> None:
    sender, receiver = pair
    datagrams = [bytes([number]) * 1000 for number in range(40)] + [b"short"]
    assert sender.send(burst(*datagrams), place(receiver))
    assert received(receiver, 41) == datagrams
    assert receiver.receive() is None


def test_a_single_datagram_may_be_as_large_as_udp_carries(pair: tuple[UdpSocket, UdpSocket]) -> None:
    sender, receiver = pair
    assert sender.send(burst(b"x" * datagram_bytes(65_535)), place(receiver))
    assert received(receiver, 1) == [b"x" * 65_507]


def test_without_offload_the_same_arrives(pair: tuple[UdpSocket, UdpSocket], monkeypatch: pytest.MonkeyPatch) -> None:
    sender, receiver = pair
    monkeypatch.setattr(UdpSocket, "_probe", lambda self, option, value: False)
    plain = UdpSocket((HOST, 0))
    try:
        assert not plain.sends_bursts and not plain.receives_bursts
        datagrams = [bytes([number]) * 1000 for number in range(10)]
        assert plain.send(burst(*datagrams), place(receiver))
        assert received(receiver, 10) == datagrams
        assert sender.send(burst(*datagrams), place(plain))
        assert received(plain, 10) == datagrams
    finally:
        plain.close()


class FailingSocket:
    """Stands for a kernel that says what a test wants it to say."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.calls: list[tuple[int, bool]] = []

    def sendmsg(self, parts: list[bytes], ancillary: Any, flags: int, place: object) -> int:
        self.calls.append((sum(map(len, parts)), bool(ancillary)))
        if self.errors and (code := self.errors.pop(0)):
            raise OSError(code, "as the test says")
        return 0


def failing(pair: tuple[UdpSocket, UdpSocket], *errors: int) -> tuple[UdpSocket, FailingSocket]:
    sender, _ = pair
    sender.close()
    fake = FailingSocket(*errors)
    sender.raw = fake  # type: ignore[assignment]
    fake.close = lambda: None  # type: ignore[attr-defined]
    sender._offload = True
    return sender, fake


def test_a_device_that_cannot_cut_bursts_gets_datagrams_from_then_on(pair: tuple[UdpSocket, UdpSocket]) -> None:
    sender, fake = failing(pair, errno.EIO)
    assert sender.send(burst(b"aaaa", b"bbbb"), (HOST, 1))
    assert not sender.sends_bursts
    assert sender.send(burst(b"cccc", b"dd"), (HOST, 1))
    assert fake.calls == [(8, True), (4, False), (4, False), (4, False), (2, False)]


def test_a_full_socket_says_so(pair: tuple[UdpSocket, UdpSocket]) -> None:
    sender, _ = failing(pair, errno.EAGAIN, errno.ENOBUFS)
    assert not sender.send(burst(b"aaaa", b"bbbb"), (HOST, 1))
    assert not sender.send(burst(b"aaaa"), (HOST, 1))
    assert sender.sends_bursts and sender.unsent == 0


def test_a_network_that_is_down_loses_datagrams_and_is_counted(pair: tuple[UdpSocket, UdpSocket]) -> None:
    sender, _ = failing(pair, errno.ENETUNREACH)
    assert sender.send(burst(b"aaaa"), (HOST, 1))
    assert sender.unsent == 1


def test_a_place_that_is_taken_is_an_error_with_a_sentence(pair: tuple[UdpSocket, UdpSocket]) -> None:
    with pytest.raises(ConfigError, match="for the bus: Address already in use"):
        UdpSocket(place(pair[0]))


def test_datagrams_fit_the_network() -> None:
    assert datagram_bytes(1_500) == 1_472
    assert datagram_bytes(65_536) == datagram_bytes(65_535) == 65_507


def test_buffers_are_large(pair: tuple[UdpSocket, UdpSocket]) -> None:
    usual = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        before = usual.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert pair[0].raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > before
    finally:
        usual.close()


def test_what_the_system_grants_is_known() -> None:
    assert receive_buffer_bytes("127.0.0.1") >= 2_048
