"""Offsets in Spark's checkpoint."""

from __future__ import annotations

import json

import pytest

from tocsin.model.errors import ConfigError
from tocsin.spark.offsets import Position, from_json, to_json


def test_what_a_checkpoint_holds() -> None:
    positions = {"prices": Position("i1", 123), "jobs": Position("i2", 7, "spark-1")}
    text = json.dumps(to_json(positions))
    assert text == '{"d": {"jobs": {"0": 7, "drain": "spark-1", "id": "i2"}, "prices": {"0": 123, "id": "i1"}}, "v": 1}'
    assert from_json(json.loads(text)) == positions


def test_the_same_positions_are_always_the_same_text() -> None:
    one = {"a": Position("x", 1), "b": Position("y", 2)}
    other = {"b": Position("y", 2), "a": Position("x", 1)}
    assert json.dumps(to_json(one)) == json.dumps(to_json(other))


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        ({"v": 2, "d": {}}, "version 2; this release reads up to 1"),
        ({"prices": {"0": 5}}, "not of the tocsin source"),
        ({"v": 1, "d": []}, "not of the tocsin source"),
        ({"v": 1, "d": {"prices": {"id": "x"}}}, "can't be read"),
    ],
)
def test_what_is_no_checkpoint_of_ours_is_refused(offset: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_json(offset)
