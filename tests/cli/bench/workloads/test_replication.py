"""How ratios are compared."""

from __future__ import annotations

from tocsin.cli.bench.workloads.replication import spread_percent


def test_the_spread_is_the_dearest_over_the_cheapest() -> None:
    assert spread_percent({1: 1.0, 2: 1.02, 3: 1.05, 4: 1.01}) == 5.0
    assert spread_percent({1: 1.5, 2: 1.5}) == 0.0
