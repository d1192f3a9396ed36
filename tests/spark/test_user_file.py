"""Files of users, and the options that stand behind them on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.model.errors import ConfigError
from tocsin.spark.pipelines.user_file import MODULE_NAME, default_options, load_entry, load_function, read_options


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(text)
    return path


def test_options_are_words_behind_dashes() -> None:
    words = ["--topic", "prices", "--limit=5", "--dry", "--note", "two words", "--last"]
    expected = {"topic": "prices", "limit": "5", "dry": "true", "note": "two words", "last": "true"}
    assert read_options(words) == expected


@pytest.mark.parametrize("words", [["prices"], ["-t", "prices"], ["--"], ["--a", "b", "c"]])
def test_other_words_are_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="is no option"):
        read_options(words)


@pytest.mark.parametrize("name", ["pipeline", "main"])
def test_the_function_of_a_file(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, f"def {name}(spark, options):\n    return [spark, options, __name__]\n")
    assert load_entry(path)("spark", {"a": "b"}) == ["spark", {"a": "b"}, MODULE_NAME]


def test_what_a_file_does_as_a_program_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, "def pipeline(spark, options): ...\nif __name__ == '__main__':\n    raise SystemExit(5)\n")
    assert callable(load_entry(path))


def test_a_file_imports_its_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("")
    (tmp_path / "neighbour_of_mine.py").write_text("NUMBER = 7\n")
    path = write(tmp_path, "import neighbour_of_mine\ndef pipeline(spark, options): return neighbour_of_mine.NUMBER\n")
    assert load_entry(path)(None, {}) == 7


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("x = 1\n", r"no function pipeline\(spark, options\)"), ("def pipeline(:\n", "line 1: ")],
)
def test_a_file_that_is_no_pipeline(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_entry(write(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no file"):
        load_entry(tmp_path / "none.py")


def test_a_function_by_module_or_file(tmp_path: Path) -> None:
    path = write(tmp_path, "def double(x): return 2 * x\n")
    assert load_function(f"{path}:double")(4) == 8
    assert load_function("math:sqrt")(9) == 3


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("double", "names no function"),
        (":double", "names no function"),
        ("math:", "names no function"),
        ("math:cube", "math has no function cube"),
        ("no_such_module_here:f", "can't be imported"),
    ],
)
def test_a_function_that_is_not_there(name: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_function(name)


def test_an_option_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_URL", "tocsin://here")
    options = default_options(["--topic", "prices"])
    assert (options["topic"], options["url"], options.get("other")) == ("prices", "tocsin://here", None)
    with pytest.raises(ConfigError, match="needs the option --checkpoint"):
        options["checkpoint"]
