"""The command that runs seeds of whole clusters: its table, and what it says about a seed that fails."""

from __future__ import annotations

import pytest

from tocsin.testing import simulate_clusters
from tocsin.testing.clusters.run import ClusterOutcome
from tocsin.testing.simulation.register_checks import Violation


def test_a_table_for_each_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate_clusters.main(["--seeds", "2", "--seed", "4", "--shape", "1+0", "--traces"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [["trace", "1+0", "4"], ["trace", "1+0", "5"]]
    assert lines[2].split()[:2] == ["shape", "seeds"]
    assert [line.split()[:2] for line in lines[3:]] == [["1+0", "2"], ["all", "2"]]


def test_a_shape_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate_clusters.main(["--seeds", "1", "--shape", "9+9"]) == 2
    assert "no shape 9+9" in capsys.readouterr().err


def test_a_seed_that_fails_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(seed: int, *arguments: object, **options: object) -> ClusterOutcome:
        raise Violation("I1", "a record is gone")

    monkeypatch.setattr(simulate_clusters, "run_cluster", broken)
    assert simulate_clusters.main(["--seeds", "5", "--seed", "77", "--shape", "2+1"]) == 1
    assert "FAILED: seed 77, shape 2+1: I1: a record is gone" in capsys.readouterr().out
