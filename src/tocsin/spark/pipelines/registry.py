"""All ready pipelines, by name. A pipeline's module is imported when it is asked for."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from tocsin.model.errors import ConfigError
from tocsin.spark.pipelines.definition import Pipeline

NAMES = ("archive", "history", "replay", "transform", "triage", "verify")


def find(name: str) -> Pipeline:
    if name not in NAMES:
        nearest = get_close_matches(name, NAMES, n=1, cutoff=0.5)
        meant = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(NAMES)}, and files of your own."
        raise ConfigError(f"{name!r} is no pipeline; {meant}")
    pipeline = import_module(f"tocsin.spark.pipelines.{name}").PIPELINE
    assert isinstance(pipeline, Pipeline)
    return pipeline


def pipelines() -> list[Pipeline]:
    return [find(name) for name in NAMES]
