"""Stack traces of two languages become one sentence."""

from __future__ import annotations

import re

import pytest

from tocsin.model.errors import ConfigError
from tocsin.spark.pipelines.causes import cause_of


class OfSpark(Exception):
    """As PySpark raises them."""

    __module__ = "pyspark.errors"


STREAM = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure:
Task 0 in stage 1.0 failed 1 times: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "source.py", line 9, in read
    raise DataLost(text)
tocsin.model.errors.ConnectionFailed: No server could be reached at localhost:7177 for 30 seconds.

\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:500)
Driver stacktrace:
Caused by: java.lang.RuntimeException: other words
"""
USER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "mine.py", line 3, in double
    return 2 / row
ZeroDivisionError: division by zero

\tat org.apache.spark.Some.thing(Some.scala:1)
"""
ANALYSIS = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `pric` cannot be resolved. Did you mean `price`? \
SQLSTATE: 42703; line 1 pos 7;
'Project ['pric]
+- SubqueryAlias input
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (STREAM, "No server could be reached at localhost:7177 for 30 seconds."),
        (USER, "ZeroDivisionError: division by zero."),
        (ANALYSIS, "A column `pric` cannot be resolved. Did you mean `price`? line 1 pos 7."),
        ("plain words", "plain words."),
        (
            "[STREAM_FAILED] Query mine [id = 1-2, runId = 3] terminated with exception: [CAST_INVALID_INPUT] The "
            "value 'a' of the type can't be cast. SQLSTATE: 22018\nmore",
            "The value 'a' of the type can't be cast.",
        ),
        ("", "OfSpark without a text."),
    ],
)
def test_the_cause_is_found(text: str, sentence: str) -> None:
    assert cause_of(OfSpark(text)) == sentence


def test_an_error_of_ours_speaks_for_itself() -> None:
    assert cause_of(ConfigError("Give a topic.")) == "Give a topic."


def test_a_cause_is_no_novel() -> None:
    assert len(cause_of(OfSpark("x" * 10_000))) < 600


def test_an_error_of_the_users_own_has_its_place() -> None:
    options: dict[str, str] = {}
    try:
        options["checkpoint"]
    except KeyError as error:
        assert re.fullmatch(r"KeyError: 'checkpoint' \(test_causes.py, line \d+\)\.", cause_of(error))
