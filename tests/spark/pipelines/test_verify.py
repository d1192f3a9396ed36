"""An archive against its own log, and what the options refuse; with a server in test_archive_of_a_server.py."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.pipelines.made_up_runs import Run
from tests.spark.pipelines.tables import messages

from tocsin.model.errors import ConfigError
from tocsin.spark.pipelines.verify import Verdict, VerifyOptions, compare_by_offset, run, verify
from tocsin.spark.pipelines.watching import QUIET


def offline(spark: SparkSession, path: Path) -> Verdict:
    return verify(spark, VerifyOptions(topic="prices", archive=str(path / "lake"), offline=True))


def test_a_whole_archive_agrees_with_its_log(spark: SparkSession, tmp_path: Path) -> None:
    archive = Run(spark, tmp_path)
    archive.epoch(0, 0, 5)
    archive.epoch(1, 5, 9)
    found = offline(spark, tmp_path)
    assert found.equal and found.sentence() is None and (found.first, found.end) == (0, 9)


def test_a_gap_in_the_offsets_of_an_archive_is_found(spark: SparkSession, tmp_path: Path) -> None:
    archive = Run(spark, tmp_path, fail_on_data_loss=False)
    archive.epoch(0, 0, 5)
    archive.epoch(1, 7, 9)
    found = offline(spark, tmp_path)
    assert found.gaps == [(5, 7)]
    assert found.sentence() == f"{found.against} is not whole. Offsets 5 to 7 are missing."


def test_a_file_that_was_exchanged_is_found(spark: SparkSession, tmp_path: Path) -> None:
    archive = Run(spark, tmp_path)
    archive.epoch(0, 0, 5)
    archive.epoch(1, 5, 9)
    files = sorted((tmp_path / "lake").glob("topic=*/*/*.parquet"))
    shutil.copyfile(files[0], files[-1])
    found = offline(spark, tmp_path)
    assert found.comparison.differences.doubled > 0 and found.gaps
    assert "does not hold what the log says" in str(found.sentence())
    files[-1].unlink()
    assert "is not there" in str(offline(spark, tmp_path).sentence())


def test_gaps_of_the_topic_itself_are_none_of_the_archive(spark: SparkSession) -> None:
    source = messages(spark, 0, 20).where("offset not in (3, 4)")
    same = compare_by_offset(source, source.where("true"), "prices", "lake", (0, 20))
    assert same.equal and not same.gaps
    less = compare_by_offset(source, source.where("offset not between 10 and 12"), "prices", "lake", (0, 20))
    assert less.gaps == [(10, 13)] and less.comparison.differences.missing == 3


def test_the_report_fails_with_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    Run(spark, tmp_path).epoch(0, 0, 5)
    options = VerifyOptions(topic="prices", archive=str(tmp_path / "lake"), offline=True)
    assert run(spark, options, QUIET).failed is None
    (tmp_path / "lake" / "_tocsin" / "commits" / f"{0:020d}.json").unlink()
    with pytest.raises(ConfigError, match="There is no archive"):
        run(spark, options, QUIET)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "an archive or a target, one of them"),
        ({"archive": "lake", "target": "b"}, "one of them"),
        ({"target": "b", "offline": True}, "Offline only an archive"),
        ({"target": "b", "ids_only": True}, "name an expression"),
        ({"archive": "lake", "by": "key"}, "`by` is for comparing two topics"),
        ({"target": "b", "from_offset": 5, "to_offset": 4}, "from 5 to 4 ends before it begins"),
    ],
)
def test_options_that_make_no_sense_get_a_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        VerifyOptions(topic="prices", **given)
