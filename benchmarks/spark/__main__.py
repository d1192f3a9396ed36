"""python -m benchmarks.spark [--rows N] [--rounds N] [--output FILE] [--no-start]"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.spark import figures, rows, starting, streams
from benchmarks.spark.cases import Case, Place, make_cases, sink_case, take_time

from tocsin.cli.bench.process import BenchFailed
from tocsin.cli.bench.server import OwnServer, own_server

ROOT = Path(__file__).parent.parent.parent
ROWS = 5_000_000
SINK_ROWS = 1_000_000
BATCH_SIZES = (250_000, 1_000_000)
WARM_ROUNDS = 3
"""Java goes on compiling for that long; streams run for days."""
SMALL_ROWS = {"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
"""What docs/spark.md advises for rows of up to 10 KB. All that is compared is measured with it, Parquet too."""
TOPIC = "bench.rows"


def note(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    options = read_options()
    # The workers of this machine must find the variant of the source that yields tuples.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with own_server() as server:
        found = measure(server, options.rows, options.rounds)
        if not options.no_start:
            note("An archive of an empty topic, without a Java of the system's.")
            found["archive_empty_s"] = round(starting.archive_seconds(server.url, server.folder, options.rounds), 2)
    output = Path(options.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(found, indent=2) + "\n")
    print("\n".join(figures.lines(found)))
    note(f"All figures are in {output}.")
    return 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"messages in the topic ({ROWS:,})")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count; one more comes before them (5)")
    parser.add_argument("--output", default="build/bench-spark.json", help="where the figures go")
    parser.add_argument("--no-start", action="store_true", help="leave out how long a pipeline takes to start")
    options = parser.parse_args()
    if options.rows < rows.ROWS_MIN or options.rounds < 1:
        parser.error(f"at least {rows.ROWS_MIN:,} rows and one round")
    return options


def measure(server: OwnServer, count: int, rounds: int) -> dict[str, Any]:
    import tocsin.spark

    note(f"{count:,} messages of {rows.VALUE_BYTES} bytes go into a topic.")
    filled = rows.fill_topic(server.url, TOPIC, count)
    # Nothing is to be made in the background when this has ended.
    spark = tocsin.spark.session(warm=False)
    try:
        place = Place(spark, server, TOPIC, server.folder, count)
        prepare(place)
        cases = make_cases(place)
        for name, value in SMALL_ROWS.items():
            spark.conf.set(name, value)
        run_rounds(cases, server, rounds)
        rates = {case.name: round(case.rows_per_second, 1) for case in cases}
        found: dict[str, Any] = {"rows": count, "rounds": rounds, **figures.ratios(rates)}
        rates |= measure_sink(place, rounds)
        for name in SMALL_ROWS:
            spark.conf.unset(name)
        found |= measure_streams(place)
        rates["fill_topic"] = round(count / filled, 1)
        return {
            **found,
            "rows_per_second": rates,
            "seconds": {case.name: [round(each, 3) for each in case.seconds] for case in cases},
            "spark": spark.version,
            "master": spark.sparkContext.master,
        }
    finally:
        spark.stop()


def prepare(place: Place) -> None:
    """The same rows as Parquet; that they are the same is checked."""
    note(f"The same rows go into {rows.FILES} Parquet files.")
    topic = rows.topic_frame(place.spark, place.server.url, place.topic)
    rows.write_parquet(split(place), place.parquet)
    native = rows.fingerprint(place.spark.read.parquet(str(place.parquet)))
    if rows.fingerprint(topic) != native or native[0] != place.rows:
        raise BenchFailed(f"Topic and Parquet differ: {native} in Parquet.")


def split(place: Place) -> Any:
    """As many tasks as files, each with a run of offsets."""
    reader = place.spark.read.format("tocsin").option("url", place.server.url).option("subscribe", place.topic)
    return reader.option("minPartitions", rows.FILES).load().coalesce(rows.FILES)


def run_rounds(cases: list[Case], server: OwnServer, rounds: int) -> None:
    for number in range(1 - WARM_ROUNDS, rounds + 1):
        note(f"Round {number} of {rounds}." if number > 0 else "A round to get warm.")
        for case in cases:
            took = take_time(case, server, counts=number > 0)
            note(f"  {case.name}: {case.rows / took:,.0f} rows/s")


def measure_streams(place: Place) -> dict[str, Any]:
    note("Streaming: triggers of one row, then large ones.")
    arguments = place.spark, place.server.url, place.topic, place.folder
    took = streams.one_row_triggers(place.spark, place.server.url, place.folder)
    found: dict[str, Any] = {"trigger_ms_p50": median(took), "trigger_ms": took}
    for size in BATCH_SIZES:
        found[f"addbatch_ms_{size}"] = streams.add_batch_ms(*arguments, size, place.rows)
    found["addbatch_ms"] = {str(size): found[f"addbatch_ms_{size}"] for size in BATCH_SIZES}
    return found


def measure_sink(place: Place, rounds: int) -> dict[str, float]:
    """A million rows through the sink, and the plain client's `send_many` of the same rows."""
    count = min(SINK_ROWS, place.rows)
    note(f"{count:,} rows through the sink, and by the plain client.")
    folder = place.folder / "million.parquet"
    part = rows.topic_frame(place.spark, place.server.url, place.topic, count)
    rows.write_parquet(part.repartition(rows.FILES), folder)
    sink = sink_case("million_to_sink", place.spark.read.parquet(str(folder)), count, place)
    plain: list[float] = []
    keyed: list[float] = []
    for number in range(rounds + 1):
        take_time(sink, place.server, counts=number > 0)
        plain.append(rows.send_plainly(place.server.url, "bench.plain", count, keyed=False))
        keyed.append(rows.send_plainly(place.server.url, "bench.keyed", count, keyed=True))
    shutil.rmtree(folder)
    return {
        "million_to_sink": round(sink.rows_per_second, 1),
        "plain_send_many": round(count / median(plain[1:]), 1),
        "plain_send_many_with_keys": round(count / median(keyed[1:]), 1),
    }


if __name__ == "__main__":
    sys.exit(main())
