"""The server is killed again and again under load: nothing confirmed is lost, nothing comes twice unmarked."""

from __future__ import annotations

import random
from pathlib import Path

from tests.system.ledger import Ledger, check
from tests.system.load import Load
from tests.system.processes import ServerProcess

KILLS = 10
SEED = 20_177
SETTINGS = {"segment_bytes": 1024 * 1024, "max_message_bytes": 128 * 1024}


def kill_and_restart(server: ServerProcess, load: Load, ledger: Ledger, kills: int) -> None:
    """At moments that are given by what was confirmed and acknowledged meanwhile; then everything is drained."""
    chance = random.Random(SEED)
    for number in range(1, kills + 1):
        stored = ledger.confirmations + chance.choice((1, 100, 400, 1_000, 2_000))
        settled = ledger.acknowledgements + chance.choice((0, 0, 20, 200))
        ledger.wait_for(
            lambda stored=stored, settled=settled: (  # type: ignore[misc]
                ledger.confirmations >= stored and ledger.acknowledgements >= settled
            ),
            f"there is load before kill {number}",
        )
        server.kill()
        server.start()
    load.finish()


def test_nothing_confirmed_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    """Segments are small, so that the kills also meet rolling, compaction and snapshots."""
    with ServerProcess(tmp_path / "server", **SETTINGS) as server:
        load = Load(server.url)
        with load.running() as ledger:
            kill_and_restart(server, load, ledger, KILLS)
        check(ledger)
        assert ledger.confirmations > KILLS * 100
        assert any(each.redelivered for seen in ledger.seen.values() for each in seen)
        server.check_log()


def test_syncs_at_intervals_lose_nothing_when_only_the_process_dies(tmp_path: Path) -> None:
    """What was written is the system's then; a power failure would be another matter."""
    with ServerProcess(tmp_path / "server", sync="interval", sync_interval_ms=50, **SETTINGS) as server:
        load = Load(server.url)
        with load.running() as ledger:
            kill_and_restart(server, load, ledger, 3)
        check(ledger)
        assert server.stop() == 0
        server.check_log()
