from __future__ import annotations

from tocsin.message_manager.settings import Settings


def test_each_message_manager_counts_its_own_mistakes() -> None:
    assert Settings().faults is not Settings().faults
