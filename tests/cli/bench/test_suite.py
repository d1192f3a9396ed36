"""The plan of `tocsin bench all`."""

from __future__ import annotations

from tocsin.cli.bench.settings import COUNTS, OF_CLUSTERS, Mode, Workload
from tocsin.cli.bench.suite import MANY_PRODUCERS, plan
from tocsin.cli.bench.workloads import RUN


def test_every_workload_is_in_it_with_its_usual_count() -> None:
    plans = plan(size=None, count=None, timeout_s=60)
    assert set(RUN) == set(Workload) - {Workload.ALL}
    assert {settings.workload for settings in plans} == set(RUN) - set(OF_CLUSTERS)
    assert plans[0].count == COUNTS[Workload.PUBLISH]
    assert [settings.mode for settings in plans if settings.workload is Workload.E2E] == list(Mode)
    assert [s.producers for s in plans if s.workload is Workload.SYNC] == [1, MANY_PRODUCERS]
    assert all(settings.timeout_s == 60 for settings in plans)


def test_size_and_count_hold_for_all() -> None:
    plans = plan(size=1024, count=10, timeout_s=60)
    assert {(settings.size, settings.count) for settings in plans} == {(1024, 10)}
