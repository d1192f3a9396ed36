"""Seeds of whole clusters that once failed: see cluster_regressions/README.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tocsin.testing.clusters.run import SHAPES, run_cluster
from tocsin.testing.clusters.single import run_single

FOLDER = Path(__file__).parent / "cluster_regressions"
ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_it_does_not_come_back(path: Path) -> None:
    case = json.loads(path.read_text())
    if case["shape"] == "single":
        run_single(case["seed"])
    else:
        shape = next(shape for shape in SHAPES if str(shape) == case["shape"])
        run_cluster(case["seed"], shape, only=case.get("only", ()))
    assert (ROOT / case["test"]).is_file()
    assert case["found"]
