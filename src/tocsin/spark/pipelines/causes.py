"""Why a query failed, as one sentence. Spark wraps the cause in stack traces of two languages."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from tocsin.model import errors

_OWN = {name for name, value in vars(errors).items() if isinstance(value, type)}
_RAISED = re.compile(
    r"^\s*(?:Caused by: )?(?:[\w$]+\.)*(?P<name>[A-Z]\w*(?:Error|Exception|Failure)?): (?P<text>\S.*)$", re.MULTILINE
)
_CLASS = re.compile(r"^\[(?P<name>[A-Z_.0-9]+)\] ")
_QUERY = re.compile(r"^Query [^\[]*\[id = [^\]]*\] terminated with exception: ")
_STATE = re.compile(r"\s*SQLSTATE: \w+;?")
_OF_SPARK = ("pyspark", "py4j")
_TEXT_MAX = 500


def cause_of(error: BaseException) -> str:
    """The sentence to show: our own error if there is one inside, else the last thing raised in Python, else what Spark
    says in its first line. An error that Spark has no part in comes with its place.
    """
    if isinstance(error, errors.TocsinError):
        return str(error)
    text = str(error)
    if not type(error).__module__.startswith(_OF_SPARK):
        return _ended(f"{type(error).__name__}: {text}{_place(error)}")
    raised = [(found["name"], found["text"].strip()) for found in _RAISED.finditer(text)]
    for name, sentence in reversed(raised):
        if name in _OWN:
            return _ended(sentence)
    if "Traceback (most recent call last)" in text and raised:
        name, sentence = _python(text) or raised[-1]
        return _ended(f"{name}: {sentence}")
    return _ended(_first_line(text)) if text.strip() else f"{type(error).__name__} without a text."


def _place(error: BaseException) -> str:
    """Where a program of the user's own went wrong."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def _python(text: str) -> tuple[str, str] | None:
    """What was raised at the end of the last Python traceback."""
    last = text.rpartition("Traceback (most recent call last)")[2]
    for line in last.splitlines()[1:]:
        # Lines of a traceback are indented; the error itself is not.
        if line and not line[0].isspace() and (found := _RAISED.match(line)):
            return found["name"], found["text"].strip()
    return None


def _first_line(text: str) -> str:
    """Spark's own sentence, without its codes and without the plan that follows."""
    line = next(line for line in text.splitlines() if line.strip())
    line = _CLASS.sub("", _STATE.sub("", line).strip())
    # The cause of a query that failed begins with a code of its own.
    return _CLASS.sub("", _QUERY.sub("", line)).rstrip("; ")


def _ended(sentence: str) -> str:
    sentence = sentence if len(sentence) <= _TEXT_MAX else f"{sentence[:_TEXT_MAX]}..."
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
