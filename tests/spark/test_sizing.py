"""Whether a run is one of seconds, by what there is to read."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import tocsin
from tocsin.spark.pipelines import sizing
from tocsin.spark.pipelines.definition import PipelineOptions, option
from tocsin.spark.pipelines.sizing import is_short


@dataclass(frozen=True, kw_only=True)
class Options(PipelineOptions):
    follow: bool = option(False, help="Go on.")


def test_few_messages_are_a_short_run(server: tocsin.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with tocsin.connect(server.url) as connection, connection.session() as session:
        connection.create_destination("prices", "topic", retained=True)
        session.producer(session.topic("prices")).send_many([b"a", b"b", b"c"])
    options = Options(url=server.url)
    assert is_short(options, ["topic:prices"])
    assert not is_short(Options(url=server.url, follow=True), ["topic:prices"])
    monkeypatch.setattr(sizing, "SHORT_MESSAGES", 3)
    assert not is_short(options, ["topic:prices"])


def test_who_can_not_tell_says_no(server: tocsin.Server) -> None:
    assert not is_short(Options(url=server.url), [])
    assert not is_short(Options(url=server.url), ["topic:missing"])
    assert not is_short(Options(url="tocsin://localhost:1"), ["topic:prices"])
