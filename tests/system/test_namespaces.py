"""The machines of a test hear each other by multicast, until they are cut off; then they do not."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from tests.system.namespaces import Namespaces

GROUP, PORT = "239.77.1.1", 7300
HEARD_SECONDS_MAX = 5.0
SILENCE_SECONDS = 0.2


def ear(address: str) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind((GROUP, PORT))
    listening.setsockopt(
        socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + socket.inet_aton(address)
    )
    return listening


def mouth(address: str) -> socket.socket:
    speaking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    speaking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    return speaking


def opened(network: Namespaces, name: str, make: Callable[[str], socket.socket]) -> socket.socket:
    return network.inside(name, lambda: make(network.address(name)))


def hears(listening: socket.socket, speaking: socket.socket, patience: float) -> bool:
    """Says a new word again and again: a wire that was plugged in needs a moment."""
    word = b"%d" % time.monotonic_ns()
    deadline = time.monotonic() + patience
    listening.settimeout(0.05)
    while time.monotonic() < deadline:
        speaking.sendto(word, (GROUP, PORT))
        try:
            if listening.recv(100) == word:
                return True
        except TimeoutError:
            continue
    return False


def test_a_machine_that_is_cut_off_hears_nobody_until_it_is_healed() -> None:
    with (
        Namespaces(["a", "b", "c"]) as network,
        closing(opened(network, "a", mouth)) as speaking,
        closing(opened(network, "b", ear)) as second,
        closing(opened(network, "c", ear)) as third,
    ):
        for listening in (second, third):
            assert hears(listening, speaking, HEARD_SECONDS_MAX)
        network.isolate(["b"])
        assert not hears(second, speaking, SILENCE_SECONDS)
        assert hears(third, speaking, HEARD_SECONDS_MAX)
        network.isolate(["a", "b"])
        assert hears(second, speaking, HEARD_SECONDS_MAX), "those on the island hear each other"
        assert not hears(third, speaking, SILENCE_SECONDS)
        network.heal()
        for listening in (second, third):
            assert hears(listening, speaking, HEARD_SECONDS_MAX)


def test_a_cut_may_be_one_way() -> None:
    with (
        Namespaces(["a", "b", "c"]) as network,
        closing(opened(network, "a", mouth)) as first,
        closing(opened(network, "b", mouth)) as second,
        closing(opened(network, "b", ear)) as second_ear,
        closing(opened(network, "c", ear)) as third_ear,
    ):
        network.cut([("b", "a"), ("b", "c"), ("c", "b")])
        assert hears(third_ear, first, HEARD_SECONDS_MAX)
        assert not hears(second_ear, first, SILENCE_SECONDS)
        assert not hears(third_ear, second, SILENCE_SECONDS)
        network.cut([("b", "a")])
        assert not hears(second_ear, first, SILENCE_SECONDS)
        assert hears(third_ear, second, HEARD_SECONDS_MAX)


def test_nothing_is_left_behind() -> None:
    network = Namespaces(["a"])
    with pytest.raises(ZeroDivisionError), network:
        assert network.inside("a", socket.if_nameindex)[1][1].startswith("eth0")
        told = subprocess.run([*network.command("a"), sys.executable, "-c", "print(1)"], capture_output=True)
        assert told.stdout == b"1\n"
        network.inside("a", lambda: 1 // 0)
    with pytest.raises(FileNotFoundError):
        network.inside("a", socket.if_nameindex)
