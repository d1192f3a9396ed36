"""Runs without Spark: settings, and signals that ask and then insist."""

from __future__ import annotations

import signal
import threading

import pytest

from tocsin.cli.pipelines.running import RunSettings, _signals
from tocsin.model.errors import ConfigError
from tocsin.spark.pipelines.watching import Watcher


def settings(master: str = "local", conf: list[str] | None = None) -> RunSettings:
    return RunSettings(master, conf, None, False)


@pytest.mark.parametrize(("master", "local"), [("local", True), ("local[4]", True), ("spark://h:7077", False)])
def test_what_runs_here(master: str, local: bool) -> None:
    assert settings(master).is_local is local


def test_settings_of_spark() -> None:
    assert settings(conf=["a.b=c=d", " e = f "]).spark_conf() == {"a.b": "c=d", "e": "f"}
    assert settings().spark_conf() == {}
    for wrong in ("a", "=b"):
        with pytest.raises(ConfigError, match="NAME=VALUE"):
            settings(conf=[wrong]).spark_conf()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_first_and_interrupts_then(number: signal.Signals) -> None:
    stop = threading.Event()
    watcher = Watcher(stop=stop)
    before = signal.getsignal(number)
    with _signals(stop, watcher) as claim:
        # Spark takes the signal for itself when it starts.
        signal.signal(number, signal.SIG_IGN)
        claim()
        asked = [watcher.stopping]
        signal.raise_signal(number)
        assert [*asked, watcher.stopping] == [False, True]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_a_run_that_does_not_listen_is_interrupted_at_once() -> None:
    stop = threading.Event()
    with _signals(stop, Watcher(stop=stop)), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert not stop.is_set()
