"""The checker of epochs notices what it is for."""

from __future__ import annotations

import pytest

from tocsin.testing.clusters.epochs import Epoch, EpochWriter
from tocsin.testing.clusters.history import History, Sent, ViewHistory
from tocsin.testing.clusters.timeline import Timeline
from tocsin.testing.clusters.workload import Pace, Workload
from tocsin.testing.simulation.register_checks import Violation


def writer(*offsets: int | None, since: float | None = None) -> EpochWriter:
    """One epoch of as many messages, and where a view has seen each."""
    history = History()
    epochs = EpochWriter(Workload(Timeline("test"), history, Pace()), ["queue:q"])
    messages = [Sent(f"m{number}", "queue:q", f"m{number}", 5.0, True) for number in range(len(offsets))]
    epochs.epochs.append(Epoch(0, {"queue:q": messages}))
    seen = {f"m{number}": offset for number, offset in enumerate(offsets) if offset is not None}
    history.views["queue:q"] = ViewHistory("queue:q", "queue:q", since, seen)
    return epochs


@pytest.mark.parametrize("offsets", [(7, 5, 6), (None, None), (3,)])
def test_all_or_nothing_is_fine(offsets: tuple[int | None, ...]) -> None:
    writer(*offsets).check()


@pytest.mark.parametrize("offsets", [(5, 7), (5, 6, 9), (5, None, 6), (None, 4)])
def test_a_part_or_a_gap_is_not(offsets: tuple[int | None, ...]) -> None:
    with pytest.raises(Violation, match="E1"):
        writer(*offsets).check()


def test_a_subscription_that_began_meanwhile_may_be_behind() -> None:
    writer(5, None, since=9.0).check()
    with pytest.raises(Violation, match="E1"):
        writer(5, None, since=1.0).check()
