"""R10: nothing of an epoch below the highest seen, group by group."""

from __future__ import annotations

from tocsin.replication.gate import EpochGate


def test_epochs_never_go_back() -> None:
    gate = EpochGate()
    assert [gate.passes(1, epoch) for epoch in (64, 64, 128, 64, 128, 192, 191)] == [
        True, True, True, False, True, True, False,
    ]  # fmt: skip
    assert gate.dropped == 2


def test_every_group_has_its_own() -> None:
    gate = EpochGate()
    assert gate.passes(1, 128)
    assert gate.passes(2, 64)
