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
    MTU_DEFAULT,
    MTU_MIN,
    PRODUCERS_MAX,
    RATE_MAX,
    RATES,
    SIZE_DEFAULT,
    SIZE_MIN,
    SIZES,
    USES,
    Mode,
    Settings,
    Workload,
)
from tocsin.cli.output import note, print_json

TERMINATED = 128 + signal.SIGTERM


def bench(
    workload: Annotated[Workload, typer.Argument(help="What to measure.")] = Workload.ALL,
    size: Annotated[
        int | None, typer.Option(min=SIZE_MIN, help="Bytes of a body.", show_default=f"{SIZE_DEFAULT}; bus 64000")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, max=COUNT_MAX, help="Messages.", show_default="by workload")
    ] = None,
    mode: Annotated[
        Mode | None, typer.Option(help="publish, e2e: how the producer sends.", show_default="many")
    ] = None,
    producers: Annotated[
        int | None, typer.Option(min=1, max=PRODUCERS_MAX, help="sync: senders at once.", show_default="1")
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(min=1, max=RATE_MAX, help="latency, selector: messages a second.", show_default="1000, 200"),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1, max=BATCH_DEFAULT, help="backlog, recovery: messages per batch.", show_default=str(BATCH_DEFAULT)
        ),
    ] = None,
    mtu: Annotated[
        int | None,
        typer.Option(min=MTU_MIN, max=MTU_DEFAULT, help="bus: bytes of an IP packet.", show_default=str(MTU_DEFAULT)),
    ] = None,
    loss: Annotated[
        int | None,
        typer.Option(min=0, max=LOSS_PERCENT_MAX, help="bus: percent of datagrams that get lost.", show_default="0"),
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="A running server; else one is started for the run.")] = None,
    timeout: Annotated[Any, options.duration_option("--timeout", help="A run that takes longer has failed.")] = "120s",
    json: options.Json = False,
) -> None:
    """Measure one workload, or all of them. Producers, consumers and server are separate processes."""
    given = {"mode": mode, "producers": producers, "rate": rate, "batch": batch, "mtu": mtu, "loss": loss}
    for name, value in given.items():
        if value is not None and workload not in USES[name]:
            raise typer.BadParameter(f"--{name} means something to {' and '.join(USES[name])} only.")
    if workload in (Workload.ALL, Workload.RECOVERY, Workload.BUS) and url is not None:
        raise typer.BadParameter(f"The workload {workload} starts what it measures itself; leave --url away.")
    timeout_s = float(timeout)
    if workload is Workload.ALL:
        with _tidy_end():
            _run_all(size, count, timeout_s, json)
        return
    settings = Settings(
        workload=workload,
        size=size or SIZES.get(workload, SIZE_DEFAULT),
        count=count or COUNTS[workload],
        mode=mode or Mode.MANY,
        producers=producers or 1,
        rate=rate or RATES.get(workload, 0),
        batch=batch or BATCH_DEFAULT,
        mtu=mtu or MTU_DEFAULT,
        loss=loss or 0,
        url=url,
        timeout_s=timeout_s,
    )
    with _tidy_end():
        _run_one(settings, json)


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
