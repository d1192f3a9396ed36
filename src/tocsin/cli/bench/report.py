"""One result: the numbers every workload has, and what else it measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin.cli.bench.settings import Settings
from tocsin.cli.output import Quantity, print_fields, print_table

NS_PER_US = 1_000


@dataclass(slots=True, kw_only=True)
class Result:
    """Numbers that a workload does not measure are None."""

    settings: Settings
    seconds: float
    messages_per_second: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    p999_us: float | None = None
    server_cpu_s_per_100k: float | None = None
    server_rss_mib: float | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def as_object(self) -> dict[str, Any]:
        return {
            "workload": str(self.settings.workload),
            "size": self.settings.size,
            "count": self.settings.count,
            "seconds": round(self.seconds, 6),
            "messages_per_second": rounded(self.messages_per_second, 1),
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "p999_us": self.p999_us,
            "server_cpu_s_per_100k": rounded(self.server_cpu_s_per_100k, 4),
            "server_rss_mib": self.server_rss_mib,
            **self.more,
        }


def percentiles_us(took_ns: Iterable[int]) -> dict[str, float | None]:
    """p50, p99 and p99.9 in microseconds, each a value that was measured (nearest rank)."""
    ordered = sorted(took_ns)
    return {
        "p50_us": _percentile(ordered, 500),
        "p99_us": _percentile(ordered, 990),
        "p999_us": _percentile(ordered, 999),
    }


def _percentile(ordered: Sequence[int], per_mille: int) -> float | None:
    if not ordered:
        return None
    # The smallest value that at least so many of a thousand do not exceed, in whole numbers to stay exact.
    rank = -(-len(ordered) * per_mille // 1000)
    return round(ordered[max(rank, 1) - 1] / NS_PER_US, 1)


def rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def print_result(result: Result) -> None:
    fields = {name: value for name, value in result.as_object().items() if value is not None}
    print_fields(fields, title=f"tocsin bench {result.settings.workload}")


def print_results(results: Sequence[Result]) -> None:
    """All workloads in one table; what only some of them measure goes into the last column."""
    rows = []
    for result in results:
        shown = result.as_object()
        more = ", ".join(f"{name} {_short(value)}" for name, value in result.more.items() if value is not None)
        rows.append(
            (
                shown["workload"],
                shown["count"],
                _in_short(shown["messages_per_second"]),
                _in_short(shown["p50_us"]),
                _in_short(shown["p99_us"]),
                _in_short(shown["server_cpu_s_per_100k"]),
                _in_short(shown["server_rss_mib"]),
                more,
            )
        )
    print_table(("workload", "count", "messages/s", "p50 us", "p99 us", "CPU s/100k", "RSS MiB", "more"), rows)


def _in_short(value: float | None) -> Quantity | None:
    return None if value is None else Quantity(value, _short(value))


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)
