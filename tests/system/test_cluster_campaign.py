"""Faults of all kinds on a real cluster, with applications of all kinds: every history is right."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.system.campaign import run
from tests.system.faults import FAULTS

MINUTES = float(os.environ.get("TOCSIN_CAMPAIGN_MINUTES", "60"))
ROUND = 2


@pytest.mark.timeout(400)
@pytest.mark.parametrize("members", [2])
def test_every_kind_of_fault_once(tmp_path: Path, members: int) -> None:
    done = run(tmp_path, members, seed=members, size=ROUND, over=lambda running: running.struck.total() >= len(FAULTS))
    print(done)  # noqa: T201


@pytest.mark.long
@pytest.mark.timeout(2 * 60 * MINUTES)
@pytest.mark.parametrize("members", [2, 3])
def test_faults_for_an_hour(tmp_path: Path, members: int) -> None:
    end = time.monotonic() + 60 * MINUTES / 2
    done = run(tmp_path, members, seed=members, size=ROUND, over=lambda running: time.monotonic() > end)
    print(done)  # noqa: T201
