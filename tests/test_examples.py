"""Every example runs to its end and prints what its own docstring says; alone, and against a server that is there."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tocsin

EXAMPLES = Path(__file__).parent.parent / "examples"
NOT_SCRIPTS = {"any_server.py", "embedded_test.py"}
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in NOT_SCRIPTS)
PRINTS = "Prints:\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tocsin.Server]:
    with tocsin.Server(tmp_path) as running:
        yield running


def promised(name: str) -> list[str]:
    """The lines that stand behind "Prints:" at the end of the example's docstring."""
    docstring = ast.get_docstring(ast.parse((EXAMPLES / name).read_text(encoding="utf-8"))) or ""
    assert PRINTS in docstring, f"examples/{name} does not say what it prints"
    return [line.strip() for line in docstring.partition(PRINTS)[2].splitlines() if line.strip()]


def run(*arguments: str, url: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    if url is not None:
        environment["TOCSIN_URL"] = url
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs_with_a_server_of_its_own(name: str) -> None:
    ended = run(str(EXAMPLES / name))
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert ended.stdout.splitlines() == promised(name)


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs_twice_against_a_running_server(name: str, server: tocsin.Server) -> None:
    for _ in range(2):
        ended = run(str(EXAMPLES / name), url=server.url)
        assert (ended.stderr, ended.returncode) == ("", 0)
        assert ended.stdout.splitlines() == promised(name)


def test_the_test_that_embeds_a_server_passes() -> None:
    ended = run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "embedded_test.py"))
    assert ended.returncode == 0, ended.stdout
    assert "2 passed" in ended.stdout


def test_every_example_is_in_the_list_of_the_documentation() -> None:
    page = (EXAMPLES.parent / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [name for name in [*SCRIPTS, "embedded_test.py"] if f"examples/{name}" not in page]
    assert not missing, f"docs/index.md does not name {missing}"
