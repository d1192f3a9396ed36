"""The numbers of a run, and what they have to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Goal:
    name: str
    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"


GOALS = (
    Goal("read_ratio", least=0.75),
    Goal("tuple_ratio", least=4.0),
    Goal("to_parquet_ratio", least=0.85),
    Goal("sink_ratio", least=0.40),
    Goal("projection_ratio", least=1.4),
    Goal("trigger_ms_p50", most=250.0),
    Goal("addbatch_ms_250000", most=500.0),
    Goal("addbatch_ms_1000000", most=1250.0),
    Goal("archive_empty_s", most=10.0),
)


def ratios(rates: dict[str, float]) -> dict[str, float]:
    """Rows per second against each other; see benchmarks/README.md."""
    native, topic = rates["parquet_to_noop"], rates["topic_to_noop"]
    return {
        "read_ratio": round(topic / native, 3),
        "to_parquet_ratio": round(rates["topic_to_parquet"] / rates["parquet_to_parquet"], 3),
        "tuple_ratio": round(topic / rates["topic_as_tuples_to_noop"], 3),
        "sink_ratio": round(rates["parquet_to_sink"] / native, 3),
        "sink_ratio_same_columns": round(rates["parquet_to_sink"] / rates["parquet_key_value_to_noop"], 3),
        "projection_ratio": round(rates["topic_projected_to_noop"] / topic, 3),
    }


def lines(figures: dict[str, Any]) -> list[str]:
    """A table for people: each goal, what was measured, and whether that is enough."""
    shown = [f"{'figure':24}{'measured':>12}  goal"]
    for goal in GOALS:
        value = figures.get(goal.name)
        if value is None:
            shown.append(f"{goal.name:24}{'-':>12}  {goal}")
        else:
            shown.append(f"{goal.name:24}{value:>12,.2f}  {goal}{'' if goal.is_met(value) else '   MISSED'}")
    shown += ["", f"{'rows per second':36}{'median':>12}"]
    shown += [f"{name:36}{rate:>12,.0f}" for name, rate in figures["rows_per_second"].items()]
    return shown
