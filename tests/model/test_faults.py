from __future__ import annotations

import logging

import pytest

from tocsin.model.errors import BrokenInvariant, InternalError, StorageFailed
from tocsin.model.faults import Faults

pytestmark = pytest.mark.makes_mistakes


def mistake(faults: Faults, error: Exception, doing: str = "testing") -> InternalError:
    try:
        raise error
    except Exception as caught:
        return faults.note(doing, caught)


def test_a_mistake_is_counted_and_told_without_its_inside() -> None:
    faults = Faults()
    told = mistake(faults, KeyError("secret inside"), "taking a request")
    assert faults.count == 1
    assert "taking a request" in str(told) and "secret" not in str(told)


def test_a_spot_is_logged_ever_less_often(caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults()
    with caplog.at_level(logging.ERROR, "tocsin"):
        for number in range(1_000):
            mistake(faults, ValueError(number))
    assert faults.count == 1_000
    assert len(caplog.records) == 10, "the 1st, 2nd, 4th, ... 512th"
    assert caplog.records[0].exc_info is not None


def test_another_spot_is_logged_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults()
    for _ in range(3):
        mistake(faults, ValueError())
    caplog.clear()
    try:
        raise ValueError
    except ValueError as error:
        faults.note("testing", error)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("fatal", [BrokenInvariant, StorageFailed])
def test_what_stops_a_node_passes(fatal: type[Exception]) -> None:
    faults = Faults()
    with pytest.raises(fatal):
        mistake(faults, fatal("The disk has failed."))
    assert faults.count == 0
