"""Options of dataclasses as options of commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from tests.cli.shell import Shell

from tocsin.cli.pipelines import arguments
from tocsin.cli.pipelines.arguments import command_of
from tocsin.cli.pipelines.running import RunSettings
from tocsin.spark.pipelines.definition import Pipeline, PipelineOptions, Report, option


def read_even(text: str) -> int:
    if int(text) % 2:
        raise ValueError(f"{text} is odd; give an even number.")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class Options(PipelineOptions):
    topics: tuple[str, ...] = option(help="Some topics.")
    to: str = option(help="Where to.", metavar="DIR")
    most: int | None = option(None, help="At most.")
    rate: float = option(1.5, help="How fast.")
    format: Literal["parquet", "delta"] = option("parquet", help="Of files.")
    follow: bool = option(False, help="Go on.")
    headers: bool = option(True, help="With headers.")
    even_number: int = option(2, help="An even number.", read=read_even)


PIPELINE = Pipeline("made", "Made for a test.", Options, lambda spark, options, progress: Report({}))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[tuple[RunSettings, Options]]:
    runs: list[tuple[RunSettings, Options]] = []
    monkeypatch.setattr(
        arguments, "run_pipeline", lambda settings, name, load, options, reads: runs.append((settings, options))
    )
    monkeypatch.delenv("TOCSIN_URL", raising=False)
    return runs


def run(*words: str) -> Any:
    return command_of(PIPELINE)(list(words), standalone_mode=False)


def test_what_is_not_given_has_its_default(given: list[tuple[RunSettings, Options]]) -> None:
    run("--topics", "a", "--to", "lake")
    assert given == [(RunSettings("local[*]", None, None, False), Options(topics=("a",), to="lake"))]


def test_every_type_is_read(given: list[tuple[RunSettings, Options]]) -> None:
    words = "--topics a --topics b --to lake --most 5 --rate 0.5 --format delta --follow --no-headers --even-number 8"
    run(
        *words.split(),
        "--url",
        "tocsin://h",
        "--master",
        "spark://h:7077",
        "--conf",
        "a=b",
        "--json",
        "--py-files",
        "x.zip",
    )
    wanted = Options(
        topics=("a", "b"),
        to="lake",
        most=5,
        rate=0.5,
        format="delta",
        follow=True,
        headers=False,
        even_number=8,
        url="tocsin://h",
    )
    assert given == [(RunSettings("spark://h:7077", ["a=b"], ["x.zip"], True), wanted)]


def test_variables_stand_in_for_options(
    given: list[tuple[RunSettings, Options]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN_URL", "tocsin://elsewhere")
    run("--topics", "a", "--to", "lake")
    assert given[0][1].url == "tocsin://elsewhere"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--to lake", "topics"),
        ("--topics a --to lake --format csv", "parquet"),
        ("--topics a --to lake --most many", "integer"),
        ("--topics a --to lake --even-number 3", "3 is odd"),
        ("--topics a --to lake --fast", "--fast"),
    ],
)
def test_mistakes_name_the_option(words: str, complaint: str) -> None:
    with pytest.raises(Exception, match=complaint):
        run(*words.split())


# ---- the real ones


SHELL = Shell("tocsin://localhost:1")


def test_pipelines_are_listed() -> None:
    listed = SHELL.json("pipeline", "list")
    assert {"transform", "triage"} <= {each["name"] for each in listed}
    assert all(each["summary"].endswith(".") for each in listed)
    assert "transform" in SHELL.seen("pipeline", "list")


def test_an_unknown_name_is_a_usage_error_with_the_nearest_one() -> None:
    assert "triage" in SHELL.fails(2, "pipeline", "run", "triag")


def test_a_file_that_is_not_there() -> None:
    assert "There is no file nowhere.py." in SHELL.fails(1, "pipeline", "run", "nowhere.py", "--x", "1")


def test_options_that_contradict_each_other_are_told_before_spark_starts() -> None:
    words = ("pipeline", "run", "transform", "--source", "a", "--target", "b", "--checkpoint", "c")
    assert "--sql-file" in SHELL.fails(1, *words)
    assert "needs --schema" in SHELL.fails(1, *words, "--sql", "SELECT 1", "--decode", "json")
    assert "is not NAME=VALUE" in SHELL.fails(1, *words, "--sql", "SELECT 1", "--conf", "x")
    assert "--group" in SHELL.fails(1, "pipeline", "run", "triage", "--resend")


def test_without_the_extra_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.cli.pipelines.running.find_spec", lambda name: None)
    said = SHELL.fails(1, "pipeline", "run", "triage")
    assert "Pipelines need pyspark and pyarrow: pip install 'tocsin[spark]'." in said
