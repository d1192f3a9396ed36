"""Faults of all kinds on a real cluster, with applications of all kinds: every history is right.

docs/reliability.md says what is promised, and lists the faults.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.system.campaign import Campaign, run
from tests.system.campaign_summary import SUMMARY
from tests.system.faults import FAULTS

MINUTES = float(os.environ.get("TOCSIN_CAMPAIGN_MINUTES", "60"))
"""Of the long form, both shapes together."""
SHAPES = (2, 3)
"""Members of the group; two have a witness."""

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace makes syncs fail")

Record = Callable[[str, object], None]


@pytest.mark.timeout(600)
def test_every_kind_of_fault_once(tmp_path: Path, record_property: Record) -> None:
    def over(campaign: Campaign) -> bool:
        return campaign.struck.total() >= len(FAULTS)

    run(tmp_path, 2, 15, over, lambda summary: record_property(SUMMARY, summary))


@pytest.mark.long
@pytest.mark.timeout(60 * (MINUTES / len(SHAPES) + 10))
@pytest.mark.parametrize("members", SHAPES)
def test_faults_for_an_hour(tmp_path: Path, members: int, record_property: Record) -> None:
    end = time.monotonic() + 60 * MINUTES / len(SHAPES)
    run(tmp_path, members, members, lambda _: time.monotonic() > end, lambda told: record_property(SUMMARY, told))
