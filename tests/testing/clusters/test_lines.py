"""Lines between clients and servers: order, cuts, and the two ways in which a server goes."""

from __future__ import annotations

from tocsin.model.errors import TocsinError
from tocsin.testing.clusters.lines import Exchange, Line
from tocsin.testing.clusters.timeline import Being, Timeline


class Caller(Being):
    number = 1

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        self.line: Line | None = None
        self.said: list[str] = []
        self.begin_life()

    def answered(self, line: Line) -> None:
        self.line = line

    def unanswered(self, error: TocsinError) -> None:
        self.said.append("unanswered")

    def heard(self, line: Line, data: bytes, said_at: float) -> None:
        self.said.append(data.decode())

    def hung_up(self, line: Line, error: TocsinError) -> None:
        self.line = None
        self.said.append("hung up")


class Callee(Being):
    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        self.connection = 0
        self.heard: list[str] = []
        self.begin_life()

    def connected(self, connection: int, peer: str) -> None:
        self.connection = connection

    def received(self, connection: int, data: bytes) -> None:
        self.heard.append(data.decode())

    def disconnected(self, connection: int) -> None:
        self.heard.append("gone")


class Stage:
    def __init__(self) -> None:
        self.timeline = Timeline("1")
        self.exchange = Exchange(self.timeline)
        self.caller, self.callee = Caller(self.timeline), Callee(self.timeline)
        self.exchange.listen("server", self.callee)

    def run(self, seconds: float = 5.0) -> None:
        self.timeline.run_until(self.timeline.time + seconds)

    def connect(self) -> Line:
        self.exchange.dial(self.caller, "server")
        self.run()
        assert self.caller.line is not None
        return self.caller.line


def test_bytes_come_in_order_both_ways() -> None:
    stage = Stage()
    line = stage.connect()
    words = [str(number) for number in range(20)]
    for word in words:
        stage.exchange.say(line, word.encode())
        stage.exchange.reply(stage.callee.connection, word.encode())
    stage.run()
    assert stage.callee.heard == words
    assert stage.caller.said == words


def test_a_cut_line_brings_everything_when_it_is_mended() -> None:
    stage = Stage()
    line = stage.connect()
    stage.exchange.cut([(1, "server")])
    stage.exchange.say(line, b"to")
    stage.exchange.reply(stage.callee.connection, b"fro")
    stage.run()
    assert not stage.callee.heard and not stage.caller.said
    stage.exchange.mend()
    stage.run()
    assert (stage.callee.heard, stage.caller.said) == (["to"], ["fro"])


def test_nobody_answers_behind_a_cut_and_nobody_where_nobody_is() -> None:
    stage = Stage()
    stage.exchange.cut([(1, "server")])
    stage.exchange.dial(stage.caller, "server")
    stage.run()
    stage.exchange.mend()
    stage.callee.end_life()
    stage.exchange.dial(stage.caller, "server")
    stage.run()
    assert stage.caller.said == ["unanswered", "unanswered"]


def test_a_process_that_dies_is_noticed_at_once() -> None:
    stage = Stage()
    stage.connect()
    stage.callee.end_life()
    stage.exchange.died(stage.callee, silently=False)
    stage.run()
    assert stage.caller.said == ["hung up"]


def test_a_machine_without_power_is_noticed_when_it_is_back() -> None:
    stage = Stage()
    line = stage.connect()
    stage.callee.end_life()
    stage.exchange.died(stage.callee, silently=True)
    stage.exchange.say(line, b"still there?")
    stage.run()
    assert not stage.caller.said
    stage.callee.begin_life()
    stage.exchange.say(line, b"and now?")
    stage.run()
    assert stage.caller.said == ["hung up"]
    assert not stage.callee.heard


def test_a_client_hangs_up() -> None:
    stage = Stage()
    line = stage.connect()
    stage.exchange.say(line, b"bye")
    stage.exchange.hang_up(line)
    stage.run()
    assert stage.callee.heard == ["bye", "gone"]
