"""`tocsin pipeline run` as a user runs it. Most runs use the session of this process; one has its own, for signals."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.cli.shell import Shell
from tests.spark.topics import bodies, publish
from tests.system.processes import until

import tocsin

OWN = str(Path(__file__).parent / "jobs" / "own_pipeline.py")


@pytest.fixture
def shell(server: tocsin.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(server.url)


def test_a_ready_pipeline(spark: SparkSession, shell: Shell) -> None:
    publish(shell.url, "prices", [b'{"symbol": "X"}', b"<html>"])
    words = ("pipeline", "run", "transform", "--source", "prices", "--target", "clean", "--checkpoint", "state")
    more = ("--decode", "json", "--schema", "symbol STRING", "--sql", "SELECT symbol FROM input")
    done = shell.run(*words, *more, "--json")
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stdout)
    assert (report["rows"], report["bad"], report["lag"]) == (2, 1, {"prices": 0})
    said = done.stderr.decode()
    assert "topic:clean is created as a retained topic." in said
    group = shell.ok("pipeline", "run", "triage").decode().split("\t")
    assert group[1:4] == ["1", "topic:prices", "The value is not JSON."] and group[-1] == "<html>\n"
    resent = shell.run("pipeline", "run", "triage", "--reason", "not JSON", "--resend")
    assert "1 message was sent back to where it came from." in resent.stderr.decode()
    until(lambda: bodies(shell.url, "prices")[-1] == b"<html>", "the message is back")
    # The session was here before, and goes on.
    assert spark.range(3).count() == 3


def test_what_is_wrong_is_said_in_a_sentence(spark: SparkSession, shell: Shell) -> None:
    publish(shell.url, "prices", [b"a"])
    words = ("pipeline", "run", "transform", "--source", "prices", "--target", "clean", "--checkpoint", "state")
    assert "`valu`" in _one_sentence(shell.fails(1, *words, "--sql", "SELECT valu FROM input"))
    assert "CAST_INVALID_INPUT" not in _one_sentence(
        shell.fails(1, *words, "--sql", "SELECT cast(cast(value AS string) AS int) AS n FROM input")
    )
    assert "nowhere" in _one_sentence(
        shell.fails(1, "pipeline", "run", "triage", "--url", "tocsin://nowhere.invalid:1?connect_timeout=1")
    )


def _one_sentence(said: str) -> str:
    last = said.splitlines()[-1]
    assert last.startswith("tocsin: ") and last.endswith((".", "?"))
    assert "\tat " not in said and "JVM stacktrace" not in said
    return last


def test_a_file_of_ones_own(spark: SparkSession, shell: Shell, tmp_path: Path) -> None:
    publish(shell.url, "prices", [b"a", b"b"])
    publish(shell.url, "copy", [])
    words = ("--from", "prices", "--to", "copy", "--checkpoint", str(tmp_path / "state"))
    report = shell.json("pipeline", "run", OWN, *words)
    assert report["rows"] == 2
    assert sorted(bodies(shell.url, "copy")) == [b"a", b"b"]
    assert "needs the option --to" in shell.fails(1, "pipeline", "run", OWN, "--from", "prices")


def test_a_frame_is_shown(spark: SparkSession, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "few.py").write_text("def pipeline(spark, options):\n    return spark.range(int(options['n']))\n")
    assert shell.ok("pipeline", "run", "./few.py", "--n", "2") == b"0\n1\n"
    assert shell.json("pipeline", "run", "few.py", "--n=1") == {"rows": [{"id": 0}]}


@pytest.mark.timeout(240)
def test_a_run_that_follows_is_stopped_by_a_signal(shell: Shell, tmp_path: Path) -> None:
    publish(shell.url, "prices", [b"a"])
    publish(shell.url, "copy", [])
    words = ("--from", "prices", "--to", "copy", "--checkpoint", "state", "--follow", "--json")
    running = subprocess.Popen(
        shell.command("pipeline", "run", OWN, *words, "--master", "local[1]"),
        env=shell.environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert _first_body(shell.url, "copy") == b"a"
        running.send_signal(signal.SIGTERM)
        out, complaints = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0, complaints
    # A slow machine leaves time for a line of progress.
    assert all(re.match(r"\d+ rows ", line) for line in complaints.splitlines()), complaints
    assert json.loads(out)["rows"] == 1


def _first_body(url: str, topic: str) -> Any:
    with tocsin.connect(url) as connection, connection.session() as session:
        message = session.replay(session.topic(topic), start="earliest").receive(timeout=150)
        return None if message is None else message.body
