"""The command that runs seeds for a while: its table, and what it says about a seed that fails."""

from __future__ import annotations

import pytest

from tocsin.testing import simulate
from tocsin.testing.simulation.checkers import Violation
from tocsin.testing.simulation.run import Outcome


def test_a_table_for_each_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate.main(["--seeds", "2", "--seed", "4", "--shape", "1+0", "--traces"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [["trace", "1+0", "4"], ["trace", "1+0", "5"]]
    assert lines[2].split()[:2] == ["shape", "seeds"]
    assert lines[3].split()[:2] == ["1+0", "2"]


def test_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate.main(["--minutes", "0.001", "--shape", "1+0"]) == 0
    assert int(capsys.readouterr().out.splitlines()[-1].split()[1]) >= 1


def test_a_shape_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate.main(["--seeds", "1", "--shape", "9+9"]) == 2
    assert "no shape 9+9" in capsys.readouterr().err


def test_a_seed_that_fails_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(seed: int, *arguments: object, **options: object) -> Outcome:
        raise Violation("I1", "a record is gone")

    monkeypatch.setattr(simulate, "run_seed", broken)
    assert simulate.main(["--seeds", "5", "--seed", "77", "--shape", "2+1"]) == 1
    assert "FAILED: seed 77, shape 2+1: I1: a record is gone" in capsys.readouterr().out
