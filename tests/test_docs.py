"""The documentation is true: its Python runs, its commands parse, its links lead somewhere, its tables match the code.

Python blocks of a page run in order and share their names, as a reader who types them in would have it. A block that is
marked `python fragment` is left out. Where a line says `print(...)  # text`, that is what the block must print.
Blocks marked `sh run` run in a shell; of all other commands each line must parse.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import tocsin
from tocsin.cli.bench.settings import Workload
from tocsin.cli.main import app
from tocsin.cli.pipelines.arguments import command_of
from tocsin.cli.pipelines.group import RunGroup
from tocsin.client_manager.requests import ADMINISTRATION
from tocsin.journal import recovery_table
from tocsin.model import entrance_limits, errors, limits, selector_limits, traffic_limits
from tocsin.node.config import ServerConfig
from tocsin.spark.pipelines.registry import NAMES, find

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SOURCES = ROOT / "src" / "tocsin"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")]
PAGES += sorted(DOCS.rglob("*.md"))
DEFAULT_URL = "tocsin://localhost:7177"
PROMISE = re.compile(r"^\s*print\(.*\)  # (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class CodeBlock:
    page: Path
    line: int
    words: tuple[str, ...]
    """What stands behind the three backticks: the language, then marks."""
    text: str

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def blocks(page: Path) -> tuple[CodeBlock, ...]:
    found: list[CodeBlock] = []
    opened: tuple[int, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.lstrip().startswith("```"):
            lines.append(line)
        elif opened is None:
            opened, lines = (number, line.strip().removeprefix("```")), []
        else:
            found.append(CodeBlock(page, opened[0], tuple(opened[1].split()), "\n".join(lines) + "\n"))
            opened = None
    assert opened is None, f"{page.relative_to(ROOT)}:{opened} opens a block that nothing closes"
    return tuple(found)


def marked(page: Path, language: str, mark: str | None = None) -> list[CodeBlock]:
    """Blocks of a language that have the mark; without one, those that are not fragments."""
    of_language = [block for block in blocks(page) if block.language == language]
    if mark is not None:
        return [block for block in of_language if mark in block.words]
    return [block for block in of_language if "fragment" not in block.words]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def pages_with(language: str, mark: str | None = None) -> list[Path]:
    return [page for page in PAGES if marked(page, language, mark)]


# ---- Python


@pytest.mark.parametrize("page", pages_with("python"), ids=name_of)
def test_python_on_a_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    with tocsin.Server(tmp_path / "data") as server:
        try:
            for block in marked(page, "python"):
                printed = run_python(block, names, server.url)
                promised = PROMISE.findall(block.text)
                if promised:
                    assert printed.splitlines() == promised, f"{block.where} prints something else"
        finally:
            for value in names.values():
                if isinstance(value, tocsin.Connection | tocsin.Server):
                    value.close() if isinstance(value, tocsin.Connection) else value.stop()


def run_python(block: CodeBlock, names: dict[str, Any], url: str) -> str:
    printed = io.StringIO()
    # Lines are counted as in the page, so that a failure points to where it is written.
    source = "\n" * block.line + block.text.replace(DEFAULT_URL, url)
    with contextlib.redirect_stdout(printed):
        exec(compile(source, block.where, "exec"), names)  # noqa: S102  our own pages
    return printed.getvalue()


def test_the_first_example_needs_no_change_to_run_against_make_run(tmp_path: Path) -> None:
    first = marked(ROOT / "README.md", "python")[0]
    assert DEFAULT_URL in first.text
    assert ServerConfig().port == 7177 and ServerConfig().is_loopback
    with tocsin.Server(tmp_path) as server:
        assert run_python(first, {"__name__": "__main__"}, server.url) == "two dozen EU\n"


def test_python_blocks_are_formatted_like_code() -> None:
    for page in pages_with("python"):
        for block in marked(page, "python"):
            for line in block.text.splitlines():
                assert len(line) <= 125 and line == line.rstrip(), f"{block.where}: {line!r}"


# ---- commands


def commands(block: CodeBlock) -> Iterator[list[str]]:
    """The words behind `tocsin` in each command of a shell block."""
    for line in block.text.replace("\\\n", " ").splitlines():
        code = line.strip().removeprefix("$ ")
        if not code or code.startswith("#"):
            continue
        lexer = shlex.shlex(code, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, "|"]:
            if set(word) <= set("|&;"):
                yield from _own(words)
                words = []
            else:
                words.append(word)


def _own(words: list[str]) -> Iterator[list[str]]:
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    words = words[: next((at for at, word in enumerate(words) if set(word) <= set("<>")), len(words))]
    if words and words[0].rpartition("/")[2] == "tocsin":
        yield words[1:]


def parse(words: list[str]) -> None:
    """Reads a command line as the command would, and does not run it. Bad words raise a usage error."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        found = command.get_command(None, words[0])
        if found is None:
            raise ValueError(f"No such command: {words[0]}.")
        command, words = found, words[1:]
    command.make_context("tocsin", list(words))


SHELL_PAGES = pages_with("sh")


@pytest.mark.parametrize("page", SHELL_PAGES, ids=name_of)
def test_commands_on_a_page_parse(page: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("tocsin-data", "backup"):
        (tmp_path / folder).mkdir()
    for block in marked(page, "sh"):
        for words in commands(block):
            try:
                parse(words)
            except typer.Exit:
                pass  # Asked for help or the version, and got it.
            except Exception as error:
                pytest.fail(f"{block.where}: tocsin {shlex.join(words)}: {error}")


@pytest.mark.parametrize("words", ["send", "send orders --colour red", "receive orders --count many", "fly"])
def test_a_wrong_command_would_be_noticed(words: str) -> None:
    with pytest.raises(Exception, match=r"Missing|No such|valid integer"):
        parse(words.split())


def test_commands_are_found_in_pipes_and_behind_variables() -> None:
    text = "# a comment\nTOCSIN_URL=x tocsin send orders 'a b' < f | sort\nseq 3 | .venv/bin/tocsin receive orders\n"
    block = CodeBlock(DOCS, 1, ("sh",), text)
    assert list(commands(block)) == [["send", "orders", "a b"], ["receive", "orders"]]


@pytest.mark.parametrize("page", pages_with("sh", "run"), ids=name_of)
def test_shell_blocks_marked_run_do_run(page: Path, tmp_path: Path) -> None:
    with tocsin.Server(tmp_path / "data") as server:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "TOCSIN_URL": server.url,
        }
        for block in marked(page, "sh", "run"):
            ended = subprocess.run(
                ["sh", "-eu"],
                input=block.text,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert ended.returncode == 0, f"{block.where}: {ended.stderr}"
            assert_output_follows(block, ended.stdout)


def assert_output_follows(block: CodeBlock, printed: str) -> None:
    """When the next block of the page is marked `text output`, that is what the commands print."""
    following = [other for other in blocks(block.page) if other.line > block.line][:1]
    for other in following:
        if other.words == ("text", "output"):
            assert printed == other.text, f"{block.where} prints something else"


def test_every_command_is_on_the_page_of_commands() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    missing = [name for name in command_names() if f"tocsin {name}" not in page]
    assert not missing, f"docs/cli.md does not show {missing}"


def command_names() -> list[str]:
    root: Any = typer.main.get_command(app)
    names = []
    for name, command in root.commands.items():
        inner = getattr(command, "commands", None)
        names += [f"{name} {each}" for each in inner] if inner else [name]
    return names


def test_every_option_is_on_the_page_of_commands() -> None:
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    missing = {option for option in all_options(typer.main.get_command(app)) if f"`{option}" not in page}
    assert not missing, f"docs/cli.md does not explain {sorted(missing)}"


def all_options(command: Any) -> set[str]:
    names = {name for option in command.params for name in option.opts if name.startswith("--")}
    if not isinstance(command, RunGroup):
        for inner in getattr(command, "commands", {}).values():
            names |= all_options(inner)
    return names - {"--help", "--install-completion", "--show-completion"}


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_a_pipeline_is_on_its_page(name: str) -> None:
    page = (DOCS / "pipelines" / f"{name}.md").read_text(encoding="utf-8")
    page += (DOCS / "pipelines" / "README.md").read_text(encoding="utf-8")
    missing = {option for option in all_options(command_of(find(name))) if f"`{option}" not in page}
    assert not missing, f"docs/pipelines/{name}.md does not explain {sorted(missing)}"


# ---- links and paths


LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(without_code(page)):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name_of(page)} links to {target}, which is not there"
        assert ROOT in (found, *found.parents), f"{name_of(page)} links out of the project: {target}"
        if anchor:
            assert anchor in anchors(found), f"{name_of(page)} links to {target}, and there is no such heading"


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", without_code(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_index() -> None:
    index = DOCS / "index.md"
    linked = {(index.parent / target.partition("#")[0]).resolve() for target in LINK.findall(without_code(index))}
    decisions = DOCS / "decisions" / "README.md"
    linked |= {(decisions.parent / target).resolve() for target in LINK.findall(without_code(decisions))}
    missing = [name_of(page) for page in DOCS.rglob("*.md") if page not in linked | {index}]
    assert not missing, f"docs/index.md leads to none of {missing}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_source_files_that_a_page_names_exist(page: Path) -> None:
    for named in re.findall(r"`([\w/.-]+/[\w.-]+\.py)`", page.read_text(encoding="utf-8")):
        places = [ROOT / named, SOURCES / named, page.parent / named]
        assert any(place.is_file() for place in places), f"{name_of(page)} names {named}, which is not there"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_names_a_place_of_one_machine(page: Path) -> None:
    found = re.search(
        r"(?<![\w.~/-])/(?:home|root|Users|work|tmp|mnt)/\w+|\b(?:10|192\.168)\.\d+\.\d+\.?\d*", page.read_text()
    )
    assert not found, f"{name_of(page)} names {found[0]}"


# ---- tables


def table(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table behind a heading, without its head."""
    text = page.read_text(encoding="utf-8")
    assert f"\n{heading}\n" in text, f"{name_of(page)} has no heading {heading!r}"
    rows: list[list[str]] = []
    for line in text.partition(f"\n{heading}\n")[2].splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))])
        elif rows:
            break
    return rows[2:]


def bare(cell: str) -> str:
    return cell.strip("`")


def test_the_table_of_settings_is_the_configuration() -> None:
    rows = {bare(row[0]): bare(row[1]) for row in table(DOCS / "server.md", "## Configuration")}
    assert rows == {setting.name: as_toml(setting.default) for setting in fields(ServerConfig)}


def as_toml(value: Any) -> str:
    assert value is not MISSING
    match value:
        case None:
            return "not set"
        case str() | Path():
            return f'"{value}"'
        case bool():
            return str(value).lower()
        case int():
            return f"{value:_}" if value >= 10_000 else str(value)
        case _:
            return str(value)


def test_the_table_of_limits_is_true() -> None:
    modules = (limits, traffic_limits, selector_limits, entrance_limits)
    bounds = {name: value for module in modules for name, value in vars(module).items()}
    for name, value, _ in table(DOCS / "server.md", "## Limits"):
        assert as_toml(bounds[bare(name)]) == bare(value), name


def test_the_table_of_errors_is_complete() -> None:
    named = {bare(row[0]) for row in table(DOCS / "client.md", "## Errors")}
    own = {name for name, value in vars(errors).items() if isinstance(value, type) and name in dir(tocsin.errors)}
    assert named == own


def test_the_journey_goes_through_functions_that_exist() -> None:
    rows = [
        row
        for part in ("## There", "## Back", "## To the consumer")
        for row in table(DOCS / "journey-of-a-message.md", part)
    ]
    assert len(rows) > 20
    for _, file, function, *_ in rows:
        path = ROOT / bare(file)
        assert path.is_file(), file
        assert bare(function) in functions(path), f"{file} has no {function}"


@cache
def functions(path: Path) -> set[str]:
    """Functions and classes of a module, methods as Class.method."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{each.name}" for each in inner}
    return found


def test_the_table_of_formats_points_to_drawings() -> None:
    rows = table(DOCS / "formats.md", "## Where each is drawn")
    assert len(rows) > 8
    for _, file, *_ in rows:
        docstring = ast.get_docstring(ast.parse((ROOT / bare(file)).read_text(encoding="utf-8"))) or ""
        drawn = re.search(r"^\s*(\d+|line \d+|tag)\s+\S+.*\S$", docstring, re.MULTILINE)
        assert drawn, f"the docstring of {file} draws no format"


def test_the_recovery_table_is_the_one_of_the_code() -> None:
    words = {
        "USE": "use",
        "MAKE": "make",
        "CUT": "cut",
        "REBUILD": "rebuild",
        "REFUSE": "refuse",
        "REFUSE_NEWER": "refuse",
    }
    tables = ("START", "SNAPSHOT", "SEGMENT", "ORDER", "RESERVE_CASES", "INDEX_CASES")
    cases = [case for name in tables for case in getattr(recovery_table, name)]
    documented = [(row[1], bare(row[2])) for row in table(DOCS / "architecture.md", "## Recovery")]
    assert documented == [(case.name, words[case.do.name]) for case in cases]


def test_the_layers_are_those_that_are_checked() -> None:
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    drawn = [block for block in blocks(DOCS / "architecture.md") if block.words == ("text", "layers")]
    assert [re.sub(r"\s{2,}.*", "", line) for line in drawn[0].text.splitlines()] == [
        re.sub(r"[()]", "", layer) for layer in layers
    ]


def test_the_workloads_are_those_of_the_command() -> None:
    named = [bare(row[0]) for row in table(DOCS / "performance.md", "## What is measured")]
    assert named == [str(workload) for workload in Workload if workload is not Workload.ALL]


def test_the_protocol_has_every_request_that_the_server_takes() -> None:
    named = {bare(row[0]) for row in table(DOCS / "protocol.md", "## Requests")}
    machine = (SOURCES / "client_manager" / "machine.py").read_text(encoding="utf-8")
    taken = set(re.findall(r'"([a-z_]+\.[a-z_]+)": self\._', machine))
    assert taken, "client_manager/machine.py has its table of requests no more"
    assert named == taken | set(ADMINISTRATION)


def test_decisions_are_listed_and_have_all_their_parts() -> None:
    pages = sorted(page for page in (DOCS / "decisions").glob("*.md") if page.name != "README.md")
    listed = LINK.findall((DOCS / "decisions" / "README.md").read_text(encoding="utf-8"))
    assert listed == [page.name for page in pages]
    for number, page in enumerate(pages, start=1):
        assert page.name.startswith(f"{number:04d}-")
        parts = re.findall(r"^\*\*([\w ]+)\*\*", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert parts == ["Decision", "Reason", "Instead of", "Cost", "Would change it"], page.name


def test_asyncio_is_left_as_it_was() -> None:
    """Pages call asyncio.run, which must not leave a loop behind for the tests that follow."""
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
