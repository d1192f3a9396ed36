"""Seeds that once failed: see regressions/README.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tocsin.testing.simulation.journal_backed import JournalBackedLog
from tocsin.testing.simulation.log import MemoryLog
from tocsin.testing.simulation.run import SHAPES, run_seed

FOLDER = Path(__file__).parent / "regressions"
ROOT = Path(__file__).parent.parent.parent
LOGS = {"memory": MemoryLog, "journal": JournalBackedLog}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_it_does_not_come_back(path: Path) -> None:
    case = json.loads(path.read_text())
    shape = next(shape for shape in SHAPES if str(shape) == case["shape"])
    run_seed(case["seed"], shape, make_log=LOGS[case["log"]], **case["options"])
    assert (ROOT / case["test"]).is_file()
    assert case["found"]
