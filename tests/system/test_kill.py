"""The server is killed again and again under load: nothing confirmed is lost, nothing comes twice unmarked."""

from __future__ import annotations

import random
from pathlib import Path

from tests.system.load import Load, check
from tests.system.processes import ServerProcess

KILLS = 20
SEED = 20_177


def test_nothing_confirmed_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    """Segments are small, so that the kills also meet rolling, compaction and snapshots."""
    chance = random.Random(SEED)
    settings = {"segment_bytes": 1024 * 1024, "max_message_bytes": 128 * 1024}
    with ServerProcess(tmp_path / "server", **settings) as server:
        load = Load(server.url)
        with load.running() as ledger:
            for number in range(1, KILLS + 1):
                stored = ledger.confirmations + chance.choice((1, 100, 400, 1_000, 2_000))
                settled = len(ledger.acknowledged) + chance.choice((0, 0, 20, 200))
                ledger.wait_for(
                    lambda stored=stored, settled=settled: (  # type: ignore[misc]
                        ledger.confirmations >= stored and len(ledger.acknowledged) >= settled
                    ),
                    f"there is load before kill {number}",
                )
                ledger.killed()
                server.kill()
                server.start()
            load.finish()
        check(ledger)
        assert ledger.confirmations > KILLS * 100
        assert any(each.redelivered for seen in ledger.seen.values() for each in seen)
