"""A failing script is made short, and what is left still fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.replication import rules
from tocsin.testing import simulate
from tocsin.testing.fault_script import Script, Strike
from tocsin.testing.shrinking import shrink
from tocsin.testing.simulation.faults import CALM
from tocsin.testing.simulation.register_checks import Violation
from tocsin.testing.simulation.run import run_script, run_seed
from tocsin.testing.simulation.world import Shape

SEED = 7
"""That finds the mutant."""


def script_of(count: int) -> Script:
    return Script(1, "2+1", tuple(Strike(float(number), "crash", number) for number in range(count)), 40.0)


def broken(script: Script, at: float = 30.0) -> Violation:
    violation = Violation("I1", "a record is gone")
    violation.script, violation.at = script, at
    return violation


def test_what_does_not_matter_is_left_out() -> None:
    def runs(script: Script) -> Violation | None:
        numbers = {strike.number for strike in script.strikes}
        return broken(script) if {3, 17} <= numbers and "loss" not in script.calm else None

    short = shrink(script_of(40), runs, ["loss", "drift"], [{"clients": 1}])
    assert short is not None
    assert [strike.number for strike in short.strikes] == [3, 17]
    assert (set(short.calm), dict(short.options), short.seconds) == ({"drift"}, {"clients": 1}, 30.0)


def test_what_does_not_fail_again_is_not_made_short() -> None:
    assert shrink(script_of(3), lambda script: None) is None


def test_there_is_an_end_to_trying() -> None:
    tried = []

    def runs(script: Script) -> Violation | None:
        tried.append(script)
        return broken(script) if len(script.strikes) > 900 else None

    assert shrink(script_of(1000), runs, runs_max=5) is not None
    assert len(tried) == 5


def test_a_script_is_read_as_it_was_written() -> None:
    script = Script(7, "3+2", (Strike(1.25, "crash", 4, "node 1"),), 21.5, frozenset({"loss"}), {"clients": 1})
    assert Script.from_json(script.to_json()) == script


def test_a_seed_that_a_mutant_fails_becomes_a_short_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was struck is struck again at the same times, and most of it turns out not to matter."""
    monkeypatch.setattr(rules, "may_stand", lambda config, candidate: True)
    with pytest.raises(Violation) as first:
        run_seed(SEED, Shape(2, 1))
    script = first.value.script
    assert script is not None

    def runs(attempt: Script) -> Violation | None:
        try:
            run_script(attempt)
        except Violation as violation:
            return violation
        return None

    repeated = runs(script)
    assert repeated is not None
    assert (repeated.at, repeated.script) == (first.value.at, script)
    short = shrink(script, runs, CALM, [{"clients": 1}], runs_max=80)
    assert short is not None
    assert len(short.strikes) <= len(script.strikes) // 4
    assert runs(Script.from_json(short.to_json())) is not None


def test_the_command_prints_a_script_that_can_be_run_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rules, "commit_point", lambda config, me, durable: durable.get(me, 0))
    assert simulate.main(["--seeds", "5", "--seed", "1", "--shape", "2+1"]) == 1
    said = capsys.readouterr().out
    text = said[said.index("\n{") : said.index("]}") + 2]
    path = tmp_path / "script.json"
    path.write_text(text)
    assert simulate.main(["--script", str(path)]) == 1
    assert "FAILED at" in capsys.readouterr().out
    monkeypatch.undo()
    assert simulate.main(["--script", str(path)]) == 0
