"""`tocsin bench`: how fast this release is on this machine."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any

import typer

from tocsin.cli import options
from tocsin.cli.bench.settings import (
    BATCH_DEFAULT,
    COUNT_MAX,
    COUNTS,
    LOSS_PERCENT_MAX,
    LOSSES,
    MTU_DEFAULT,
    MTU_MIN,
    OF_CLUSTERS,
    PRODUCERS_MAX,
    RATE_MAX,
    RATES,
    RUNS_DEFAULT,
    RUNS_MAX,
    SECONDS_MAX,
    SIZE_DEFAULT,
    SIZE_MIN,
    SIZES,
    STEADY_SECONDS,
    TIMEOUT_SECONDS,
    TIMEOUTS,
    USES,
    Mode,
    Profile,
    Settings,
    Workload,
)
from tocsin.cli.bench.shape import LOCAL, parse_shape
from tocsin.cli.output import note, print_json

TERMINATED = 128 + signal.SIGTERM


Size = Annotated[
    int | None,
    typer.Option(min=SIZE_MIN, help="Bytes of a body.", show_default=f"{SIZE_DEFAULT}; bus 64000, replication 1000"),
]
Count = Annotated[int | None, typer.Option(min=1, max=COUNT_MAX, help="Messages.", show_default="by workload")]
Way = Annotated[Mode | None, typer.Option(help="publish, e2e: how the producer sends.", show_default="many")]
Producers = Annotated[
    int | None, typer.Option(min=1, max=PRODUCERS_MAX, help="sync: senders at once.", show_default="1")
]
Rate = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=RATE_MAX,
        help="latency, selector, failover, join: messages a second.",
        show_default="1000; selector 200",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        min=1, max=BATCH_DEFAULT, help="backlog, recovery: messages per batch.", show_default=str(BATCH_DEFAULT)
    ),
]
Mtu = Annotated[
    int | None,
    typer.Option(min=MTU_MIN, max=MTU_DEFAULT, help="bus: bytes of an IP packet.", show_default=str(MTU_DEFAULT)),
]
Loss = Annotated[
    int | None,
    typer.Option(
        min=0, max=LOSS_PERCENT_MAX, help="bus, loss: percent of datagrams that get lost.", show_default="0, 20"
    ),
]
Cluster = Annotated[
    Any | None,
    typer.Option(
        parser=options.usage(parse_shape),
        metavar="CMxMM",
        help="Against a cluster of so many client managers and one group of so many members, such as 1x2.",
        show_default=f"one server; workloads of clusters {LOCAL}",
    ),
]
Quickness = Annotated[
    Profile | None, typer.Option(help="Clusters: how soon a dead primary is replaced.", show_default="default")
]
Runs = Annotated[int | None, typer.Option(min=1, max=RUNS_MAX, help="failover: kills.", show_default=str(RUNS_DEFAULT))]
Seconds = Annotated[
    int | None,
    typer.Option(min=1, max=SECONDS_MAX, help="steady: how long.", show_default=f"{STEADY_SECONDS:.0f}"),
]
Url = Annotated[str | None, typer.Option("--url", help="A running server; else one is started for the run.")]
Local = Annotated[
    bool, options.flag("--local", help="By the local socket of the server that is started, instead of TCP.")
]
Timeout = Annotated[
    Any, options.duration_option("--timeout", help="A run that takes longer has failed.", show_default="120s, 600s")
]


def bench(
    workload: Annotated[Workload, typer.Argument(help="What to measure.")] = Workload.ALL,
    size: Size = None,
    count: Count = None,
    mode: Way = None,
    producers: Producers = None,
    rate: Rate = None,
    batch: Batch = None,
    mtu: Mtu = None,
    loss: Loss = None,
    cluster: Cluster = None,
    profile: Quickness = None,
    runs: Runs = None,
    seconds: Seconds = None,
    url: Url = None,
    local: Local = False,
    timeout: Timeout = None,
    json: options.Json = False,
) -> None:
    """Measure one workload, or all of them. Producers, consumers and server are separate processes."""
    timeout_s = float(timeout) if timeout is not None else TIMEOUTS.get(workload, TIMEOUT_SECONDS)
    given = {
        "mode": mode,
        "producers": producers,
        "rate": rate,
        "batch": batch,
        "mtu": mtu,
        "loss": loss,
        "cluster": cluster,
        "profile": profile,
        "runs": runs,
        "seconds": seconds,
        "local": local or None,
    }
    _check_uses(workload, given, url)
    if workload is Workload.ALL:
        with _tidy_end():
            _run_all(size, count, timeout_s, json)
        return
    settings = Settings(
        workload=workload,
        size=size or SIZES.get(workload, SIZE_DEFAULT),
        count=count or COUNTS.get(workload, 0),
        url=url,
        timeout_s=timeout_s,
        **_completed(workload, given),
    )
    with _tidy_end():
        _run_one(settings, json)


def _completed(workload: Workload, given: dict[str, Any]) -> dict[str, Any]:
    """What was given, and what some workloads take instead of the usual."""
    usual = {"rate": RATES.get(workload, 0), "loss": LOSSES.get(workload, 0)}
    return usual | {name: value for name, value in given.items() if value is not None}


def _check_uses(workload: Workload, given: dict[str, Any], url: str | None) -> None:
    """What would silently mean nothing is refused."""
    for name, value in given.items():
        uses = USES[name]
        fits = workload in uses or (name == "profile" and given["cluster"] is not None)
        if value is not None and not fits:
            raise typer.BadParameter(f"--{name} means something to {' and '.join(uses)} only.")
    if given["local"] and (url is not None or given["cluster"] is not None):
        raise typer.BadParameter("--local is for the server that is started; with --url write tocsin://unix:PATH.")
    if url is None:
        return
    if workload in (Workload.ALL, Workload.RECOVERY, Workload.BUS, *OF_CLUSTERS) or given["cluster"] is not None:
        raise typer.BadParameter(f"The workload {workload} starts what it measures itself; leave --url away.")


def _run_one(settings: Settings, json: bool) -> None:
    from tocsin.cli.bench.report import print_result
    from tocsin.cli.bench.workloads import RUN

    _announce(settings)
    result = RUN[settings.workload](settings)
    if json:
        print_json(result.as_object())
    else:
        print_result(result)


def _run_all(size: int | None, count: int | None, timeout_s: float, json: bool) -> None:
    from tocsin.cli.bench.report import Result, print_results
    from tocsin.cli.bench.suite import plan
    from tocsin.cli.bench.workloads import RUN

    results: list[Result] = []
    for settings in plan(size=size, count=count, timeout_s=timeout_s):
        _announce(settings)
        result = RUN[settings.workload](settings)
        results.append(result)
        if json:
            print_json(result.as_object())
    if json:
        print_json({"workload": "all", "results": [result.as_object() for result in results]})
    else:
        print_results(results)


def _announce(settings: Settings) -> None:
    """A line and no spinner: on a small machine even that would be measured."""
    if sys.stderr.isatty():
        note(f"Measuring {settings.workload}, {settings.count:,} messages of {settings.size:,} bytes ...")


@contextmanager
def _tidy_end() -> Iterator[None]:
    """SIGTERM would end us with the data directory left behind; children end with us either way."""
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(TERMINATED)
