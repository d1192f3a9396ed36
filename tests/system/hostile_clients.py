"""Hostile clients as a process of their own: what they say is drawn from a seed, as in tests/fuzz, for some seconds.

`user` has logged in and says anything, pipelined giants included; `stranger` says the same without a login; `half-open`
takes connection after connection, says half a word and no more, and holds all that it gets.
"""

from __future__ import annotations

import argparse
import errno
import json
import secrets
import select
import socket
import sys
import time
from random import Random

from tests.fuzz.client_cases import Case, Control, Dial, HangUp, Known, Say
from tests.fuzz.client_source import ClientSource
from tests.fuzz.lone_stage import HostileEars

from tocsin.model.errors import TocsinError
from tocsin.wire.frames import Frame, FrameType, control
from tocsin.wire.reader import FrameReader
from tocsin.wire.scram import ScramClient

HOST = "127.0.0.1"
SOURCES = {"user": "127.0.0.4", "stranger": "127.0.0.3", "half-open": "127.0.0.2"}
"""Each kind comes from an address of its own, and honest clients from another."""
_CASES_PER_SECOND = 120
_PATIENCE = 3.0
_HELD_MAX = 900
_SECONDS_HELD = 20.0


class HostileSocket:
    """One connection; what comes is read now and then, and thrown away."""

    def __init__(self, port: int, source: str, known: Known) -> None:
        self.socket = socket.socket()
        self.socket.bind((source, 0))
        self.socket.settimeout(_PATIENCE)
        self.socket.connect((HOST, port))
        self._ears = HostileEars(known)

    def log_in(self, user: str, password: str) -> bool:
        scram = ScramClient(user, password, nonce=secrets.token_urlsafe(24))
        hello = {"version": 1, "product": "hostile", "user": user, "sasl": scram.start()}
        self.socket.sendall(control(FrameType.HELLO, 0, hello))
        reader = FrameReader()
        challenge = self._next(reader)
        if challenge is None or challenge.type is not FrameType.CHALLENGE:
            return False
        self.socket.sendall(control(FrameType.RESPONSE, 0, {"sasl": scram.answer(challenge.fields()["sasl"])}))
        welcome = self._next(reader)
        if welcome is None or welcome.type is not FrameType.WELCOME:
            return False
        self._ears.hear(control(FrameType.WELCOME, 0, welcome.fields()))
        return True

    def _next(self, reader: FrameReader) -> Frame | None:
        while data := self.socket.recv(65_536):
            for frame in reader.feed(data):
                return frame
        return None

    def say(self, data: bytes) -> bool:
        """Whether the server still listens; one that reads no more is left alone."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return self.hear()

    def hear(self) -> bool:
        while select.select([self.socket], [], [], 0)[0]:
            try:
                data = self.socket.recv(1 << 18)
            except OSError:
                return False
            if not data:
                return False
            self._ears.hear(data)
        return True


class Hostile:
    def __init__(self, kind: str, port: int, seed: int, login: tuple[str, str]) -> None:
        self._kind, self._port, self._login = kind, port, login
        self._source = ClientSource(Random(f"{kind} {seed}"), restarts=False, lists=60, giants=0.002)
        self._known: dict[int, Known] = {}
        self._sockets: dict[int, HostileSocket] = {}
        self.counts = {"cases": 0, "connections": 0, "logins": 0, "refused": 0}

    def run(self, end: float) -> None:
        begun = time.monotonic()
        while time.monotonic() < end:
            self._play(self._source.draw())
            self.counts["cases"] += 1
            ahead = self.counts["cases"] / _CASES_PER_SECOND - (time.monotonic() - begun)
            if ahead > 0:
                time.sleep(ahead)

    def _play(self, case: Case) -> None:
        match case:
            case Dial(slot):
                self._hang_up(slot)
                self._dial(slot)
            case HangUp(slot):
                self._hang_up(slot)
            case Say():
                self._say(case)

    def _dial(self, slot: int) -> None:
        known = self._known.setdefault(slot, Known())
        try:
            opened = HostileSocket(self._port, SOURCES[self._kind], known)
            self.counts["connections"] += 1
            if self._kind == "user":
                self.counts["logins"] += opened.log_in(*self._login)
        except (OSError, TocsinError):
            self.counts["refused"] += 1
            return
        self._sockets[slot] = opened

    def _hang_up(self, slot: int) -> None:
        gone = self._sockets.pop(slot, None)
        if gone is not None:
            gone.socket.close()

    def _say(self, case: Say) -> None:
        if case.slot not in self._sockets:
            self._dial(case.slot)
        line = self._sockets.get(case.slot)
        if line is None:
            return
        frames = [each for each in case.frames if self._kind != "user" or not _is_hello(each)]
        data = b"".join(map(self._known[case.slot].encode, frames))
        if not line.say(data[: len(data) - case.held_back]):
            self._hang_up(case.slot)


def _is_hello(frame: object) -> bool:
    return isinstance(frame, Control) and frame.kind is FrameType.HELLO


def hold_open(port: int, end: float) -> dict[str, int]:
    """As many connections as there can be, each with half a word said."""
    held: list[tuple[socket.socket, float]] = []
    counts = {"cases": 0, "connections": 0, "refused": 0, "most": 0}
    word = control(FrameType.HELLO, 0, {"version": 1, "product": "half"})
    while time.monotonic() < end:
        while held and (len(held) >= _HELD_MAX or time.monotonic() - held[0][1] > _SECONDS_HELD):
            held.pop(0)[0].close()
        opened = socket.socket()
        opened.bind((SOURCES["half-open"], 0))
        opened.setblocking(False)
        if opened.connect_ex((HOST, port)) not in (0, errno.EINPROGRESS):
            counts["refused"] += 1
            opened.close()
            time.sleep(0.05)
            continue
        time.sleep(0.01)
        try:
            opened.send(word[: 5 + counts["cases"] % 20])
        except OSError:
            counts["refused"] += 1
        held.append((opened, time.monotonic()))
        counts["cases"] += 1
        counts["connections"] += 1
        counts["most"] = max(counts["most"], len(held))
    for opened, _ in held:
        opened.close()
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=sorted(SOURCES), required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--login", nargs=2, default=("", ""))
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    if arguments.kind == "half-open":
        counts = hold_open(arguments.port, end)
    else:
        hostile = Hostile(arguments.kind, arguments.port, arguments.seed, tuple(arguments.login))
        hostile.run(end)
        counts = hostile.counts
    sys.stdout.write(json.dumps(counts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
