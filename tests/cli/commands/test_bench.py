"""`tocsin bench all` with workloads that take no time: what is shown, and what is run."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tocsin.cli.bench import workloads
from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.report import Result
from tocsin.cli.bench.settings import OF_CLUSTERS, Profile, Settings, Workload
from tocsin.cli.bench.shape import Shape
from tocsin.cli.main import app

RUNNER = CliRunner()


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Replaces every workload; the list says which were run, with which settings."""
    ran: list[Settings] = []

    def run(settings: Settings) -> Result:
        ran.append(settings)
        return Result(settings=settings, seconds=2.0, messages_per_second=settings.count / 2)

    monkeypatch.setattr(workloads, "RUN", dict.fromkeys(workloads.RUN, run))
    return ran


def test_all_gives_a_line_per_run_and_one_object_at_the_end(ran: list[Settings]) -> None:
    result = RUNNER.invoke(app, ["bench", "all", "--count", "10", "--json"], catch_exceptions=False)
    *lines, last = map(json.loads, result.stdout.splitlines())
    assert [line["workload"] for line in lines] == [str(settings.workload) for settings in ran]
    assert last == {"workload": "all", "results": lines}
    assert {settings.workload for settings in ran} == set(workloads.RUN) - set(OF_CLUSTERS)


def test_no_workload_means_all_and_gives_one_table(ran: list[Settings]) -> None:
    result = RUNNER.invoke(app, ["bench", "--count", "10"], catch_exceptions=False)
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == [str(s.workload) for s in ran]


def test_settings_reach_the_workload(ran: list[Settings]) -> None:
    RUNNER.invoke(app, ["bench", "sync", "--count", "7", "--size", "64", "--producers", "3", "--timeout", "5s"])
    RUNNER.invoke(app, ["bench", "latency"])
    RUNNER.invoke(app, ["bench", "sync", "--local"])
    first, second, third = ran
    assert third.local
    assert first == Settings(workload=Workload.SYNC, count=7, size=64, producers=3, timeout_s=5.0)
    assert (second.count, second.rate, second.timeout_s) == (10_000, 1_000, 120.0)


def test_settings_of_clusters_reach_the_workload(ran: list[Settings]) -> None:
    RUNNER.invoke(app, ["bench", "failover", "--runs", "3", "--profile", "fast"], catch_exceptions=False)
    RUNNER.invoke(app, ["bench", "e2e", "--cluster", "1x2", "--profile", "fast"], catch_exceptions=False)
    RUNNER.invoke(app, ["bench", "loss"], catch_exceptions=False)
    RUNNER.invoke(app, ["bench", "steady", "--seconds", "9", "--cluster", "2x3"], catch_exceptions=False)
    failover, e2e, loss, steady = ran
    assert (failover.runs, failover.profile, failover.rate) == (3, Profile.FAST, 1_000)
    assert (e2e.cluster, e2e.profile) == (Shape(1, 2), Profile.FAST)
    assert (loss.loss, loss.cluster) == (20, None)
    assert (steady.seconds, steady.cluster) == (9.0, Shape(2, 3))


@pytest.mark.parametrize(
    "arguments",
    [
        ["e2e", "--cluster", "2"],
        ["e2e", "--cluster", "0x2"],
        ["e2e", "--runs", "3"],
        ["e2e", "--profile", "fast"],
        ["selector", "--cluster", "1x2"],
        ["failover", "--url", "tocsin://localhost"],
        ["e2e", "--cluster", "1x2", "--url", "tocsin://localhost"],
        ["e2e", "--local", "--url", "tocsin://localhost"],
        ["e2e", "--local", "--cluster", "1x2"],
        ["recovery", "--local"],
    ],
)
def test_what_would_mean_nothing_is_refused(ran: list[Settings], arguments: list[str]) -> None:
    assert RUNNER.invoke(app, ["bench", *arguments]).exit_code == 2
    assert not ran


def test_a_failed_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(settings: Settings) -> Result:
        raise BenchFailed("Message 3 came again where 4 was due.")

    monkeypatch.setattr(workloads, "RUN", {Workload.E2E: fail})
    result = RUNNER.invoke(app, ["bench", "e2e"])
    assert isinstance(result.exception, BenchFailed)
    assert result.stdout == ""
