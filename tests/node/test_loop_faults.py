"""An error in the loop's own code ends the connection that met it; one without a connection stops the node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tocsin.model.errors import StorageFailed
from tocsin.model.faults import Faults
from tocsin.node.loop_faults import LoopFaults

pytestmark = pytest.mark.makes_mistakes


class Line:
    def __init__(self) -> None:
        self.aborted = 0

    def abort(self) -> None:
        self.aborted += 1


class Stage:
    def __init__(self) -> None:
        self.faults = Faults()
        self.given_up: list[BaseException] = []
        self._handler = LoopFaults(self.faults, self.given_up.append)

    def tell(self, **context: Any) -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.set_exception_handler(self._handler)
            loop.call_exception_handler({"message": "it went wrong", **context})
        finally:
            loop.close()


@pytest.mark.parametrize("whose", ["transport", "protocol"])
def test_an_error_of_a_connection_ends_it_and_nothing_else(whose: str, caplog: pytest.LogCaptureFixture) -> None:
    stage, line = Stage(), Line()
    stage.tell(exception=ValueError("of a peer"), **{"transport": None, whose: line})
    assert (line.aborted, stage.faults.count, stage.given_up) == (1, 1, [])
    assert "while driving a connection" in caplog.text and "of a peer" in caplog.text


def test_a_protocol_of_the_loop_whose_transport_is_gone_needs_no_end() -> None:
    stage = Stage()
    stage.tell(exception=ValueError(), transport=None, protocol=asyncio.Protocol())
    assert stage.faults.count == 1 and not stage.given_up


def test_an_error_that_is_told_of_twice_counts_once() -> None:
    stage, line, error = Stage(), Line(), ValueError()
    stage.tell(exception=error, transport=line)
    stage.tell(exception=error, protocol=line)
    assert (line.aborted, stage.faults.count) == (2, 1)
    stage.tell(exception=ValueError(), transport=line)
    assert stage.faults.count == 2


def test_an_error_of_no_connection_stops_the_node() -> None:
    stage, error = Stage(), ValueError()
    stage.tell(exception=error)
    assert stage.given_up == [error] and not stage.faults.count


def test_a_disk_that_fails_stops_the_node_whoever_met_it() -> None:
    stage, error = Stage(), StorageFailed("the disk")
    stage.tell(exception=error, transport=Line())
    assert stage.given_up == [error]


def test_what_is_no_mistake_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.tell(exception=OSError("of the system"))
    stage.tell()
    assert not stage.given_up and not stage.faults.count
    assert caplog.text.count("it went wrong") == 2
