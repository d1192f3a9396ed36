from __future__ import annotations

from tocsin.client_manager.settings import Settings


def test_each_client_manager_counts_its_own_mistakes() -> None:
    assert Settings().faults is not Settings().faults
