"""House rules as tests. A failure says what to do instead.

Layers and cycles are import-linter's part (see pyproject.toml); here is what it cannot see.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "tocsin"
TESTS = ROOT / "tests"

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

# What makes a run depend on more than its input: clocks, chance, threads, the system.
WORLD = {"asyncio", "socket", "os", "time", "random", "threading", "selectors", "subprocess", "secrets"}
EDGES = {"runtime", "client", "admin", "node", "cli", "console", "spark", "testing", "aio"}
STANDARD_LIBRARY_ONLY = {"model", "wire", "client"}
# What is only faster with it, and falls back on the standard library.
OPTIONAL = ("tocsin.model.checksum", "zlib_ng")
FORBIDDEN_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
CODE_FROM_TEXT = {"eval", "exec", "compile", "__import__"}
MAY_COMPILE = "message_manager.selector"
VAGUE_NAMES = {"util", "utils", "common", "helper", "helpers", "misc"}

# Started or imported by name from outside, so nothing in src needs to import them.
ENTRY_POINTS = {"tocsin", "tocsin.aio", "tocsin.errors", "tocsin.cli.main", "tocsin.__main__"}
USED_FROM_OUTSIDE = ("tocsin.testing", "tocsin.spark", "tocsin.console")
# Built before the part that will use them. An entry goes as soon as something imports its module.
NOT_YET_USED: set[str] = set()

# Folders of tests that follow a question across modules instead of mirroring one package.
TOPIC_FOLDERS = {"simulation", "system", "interop", "spark", "browser", "fuzz", "jms", "crash"}
# The same for single files inside a mirrored folder.
TOPIC_FILES = {"test_tidy.py", "test_jms_table.py", "test_docs.py", "test_examples.py", "journal/test_crash.py"}


@dataclass(frozen=True)
class Module:
    path: Path
    name: str
    text: str
    tree: ast.Module

    @property
    def layer(self) -> str:
        return self.name.split(".")[1] if "." in self.name else ""

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def dotted_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> tuple[Module, ...]:
    def read(path: Path) -> Module:
        text = path.read_text()
        return Module(path, dotted_name(path), text, ast.parse(text, str(path)))

    return tuple(read(path) for path in sorted(PACKAGE.rglob("*.py")))


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported, also inside functions; relative names made absolute."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.name if module.is_package else module.name.rpartition(".")[0]
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            yield node.lineno, base
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def fail_on(problems: Iterator[str]) -> None:
    if found := sorted(problems):
        pytest.fail("\n".join(found), pytrace=False)


def place(module: Module, line: int = 1) -> str:
    return f"{module.path.relative_to(ROOT)}:{line}"


def may_touch_the_world(module: Module) -> bool:
    return module.layer in EDGES or (module.layer == "gateways" and "edge" in module.name.split("."))


def test_only_the_edges_touch_the_world() -> None:
    def problems() -> Iterator[str]:
        for module in modules():
            for line, name in imports(module):
                if name in WORLD and not may_touch_the_world(module):
                    yield f"{place(module, line)} imports {name}: take it as an argument, or use runtime."

    fail_on(problems())


def test_model_wire_and_client_import_the_standard_library_alone() -> None:
    def problems() -> Iterator[str]:
        for module in modules():
            for line, name in imports(module):
                top = name.split(".")[0]
                foreign = top != "tocsin" and top not in sys.stdlib_module_names
                if foreign and module.layer in STANDARD_LIBRARY_ONLY and (module.name, top) != OPTIONAL:
                    yield f"{place(module, line)} imports {top}: it must load where nothing is installed."

    fail_on(problems())


def test_no_code_is_made_from_data() -> None:
    def problems() -> Iterator[str]:
        for module in modules():
            for line, name in imports(module):
                if name.split(".")[0] in FORBIDDEN_MODULES:
                    yield f"{place(module, line)} imports {name}: write the bytes out by hand."
            for node in ast.walk(module.tree):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                    continue
                called = node.func.id
                allowed = called in ("exec", "compile") and MAY_COMPILE in module.name
                if called in CODE_FROM_TEXT and not allowed:
                    yield f"{place(module, node.lineno)} calls {called}: use a table of known cases."

    fail_on(problems())


def test_files_and_functions_stay_small() -> None:
    def problems() -> Iterator[str]:
        for module in modules():
            lines = module.text.count("\n")
            if lines > FILE_LINES_MAX:
                yield f"{place(module)} has {lines} lines, over {FILE_LINES_MAX}: split it by what it does."
            for node in ast.walk(module.tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    length = function_lines(node)
                    if length > FUNCTION_LINES_MAX:
                        yield f"{place(module, node.lineno)} {node.name} has {length} lines: name its steps."

    fail_on(problems())


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring: to explain must not cost."""
    assert node.end_lineno is not None
    length = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None and first.end_lineno is not None:
        length -= first.end_lineno - first.lineno + 1
    return length


def test_names_say_what_is_inside() -> None:
    def problems() -> Iterator[str]:
        for folder in (PACKAGE, TESTS):
            for path in folder.rglob("*.py"):
                vague = VAGUE_NAMES & {path.stem, path.stem.removeprefix("test_"), path.parent.name}
                if vague:
                    yield f"{path.relative_to(ROOT)}: call it by what it does, not {vague.pop()}."

    fail_on(problems())


def test_nothing_is_left_for_later() -> None:
    # Spelt so that this file does not find itself.
    leftover = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")

    def problems() -> Iterator[str]:
        for path in [*PACKAGE.rglob("*.py"), *TESTS.rglob("*.py"), *documents()]:
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                if found := leftover.search(line):
                    yield f"{path.relative_to(ROOT)}:{number} has {found[0]}: do it, or write down the plan."

    fail_on(problems())


def test_every_module_is_used() -> None:
    used = {name for module in modules() for _, name in imports(module) if name != module.name}
    unused = {
        module.name
        for module in modules()
        if not module.is_package
        and module.name not in used | ENTRY_POINTS
        and not module.name.startswith(USED_FROM_OUTSIDE)
    }
    assert not (unused - NOT_YET_USED), f"Nothing imports {sorted(unused - NOT_YET_USED)}: use or remove it."
    wired = NOT_YET_USED - unused
    assert not wired, f"Now in use, or gone: take {sorted(wired)} out of NOT_YET_USED."


def test_every_package_says_what_it_is_for() -> None:
    def problems() -> Iterator[str]:
        folders = {PACKAGE, *(path.parent for path in PACKAGE.rglob("*.py"))}
        for missing in folders - {module.path.parent for module in modules() if module.is_package}:
            yield f"{missing.relative_to(ROOT)} has no __init__.py."
        for module in modules():
            if module.is_package and not ast.get_docstring(module.tree):
                yield f"{place(module)} needs a docstring that names the parts of the package."

    fail_on(problems())


def unnamed_parts(description: str, parts: list[str]) -> list[str]:
    """Which parts a package's docstring leaves out; `sync_*` stands for all that begin so."""
    words = set(re.findall(r"\w+\*?", description))
    beginnings = tuple(word[:-1] for word in words if word.endswith("*"))
    return [part for part in parts if part not in words and not part.startswith(beginnings)]


def test_every_package_names_its_parts() -> None:
    def problems() -> Iterator[str]:
        for package in modules():
            # The root is for users, who need no list of packages; docs/architecture.md has it.
            if not package.is_package or package.name == "tocsin":
                continue
            parts = [each.name.rpartition(".")[2] for each in modules() if each.name.rpartition(".")[0] == package.name]
            for part in unnamed_parts(ast.get_docstring(package.tree) or "", parts):
                yield f"{place(package)} does not name {part}: add a line that says what it is for."

    fail_on(problems())


def test_a_part_is_named_by_a_whole_word_or_by_its_beginning() -> None:
    description = "frames  the format; scram_message, core_*"
    parts = ["frames", "format", "frame", "scram", "scram_message", "core_login", "core"]
    assert unnamed_parts(description, parts) == ["frame", "scram", "core"]


def mirrored(test: Path) -> bool:
    """tests/a/test_x.py and tests/a/test_x_under_load.py belong to src/tocsin/a/x.py or the package a/x."""
    inside = test.relative_to(TESTS)
    if inside.as_posix() in TOPIC_FILES or inside.parts[0] in TOPIC_FOLDERS:
        return True
    folder = PACKAGE / inside.parent
    words = test.stem.removeprefix("test_").split("_")
    candidates = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    return any(
        (folder / f"{name}.py").is_file() or (folder / name).is_dir() or folder.name == name for name in candidates
    )


def test_tests_mirror_the_sources() -> None:
    def problems() -> Iterator[str]:
        for test in TESTS.rglob("test_*.py"):
            if not mirrored(test):
                yield f"{test.relative_to(ROOT)} tests no module of that name: rename it or give it a topic."

    fail_on(problems())


def documents() -> list[Path]:
    folders = [ROOT / "docs", ROOT / "examples", ROOT / "benchmarks"]
    found = [path for folder in folders for suffix in ("md", "py", "toml") for path in folder.rglob(f"*.{suffix}")]
    return [*found, *ROOT.glob("*.md")]


def test_nothing_names_a_path_of_one_machine() -> None:
    machine_path = re.compile(r"(?<![\w.~/-])/(?:home|root|Users|work|tmp)/\w")

    def problems() -> Iterator[str]:
        for path in [*documents(), *PACKAGE.rglob("*.py"), ROOT / "Makefile", ROOT / "pyproject.toml"]:
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                if found := machine_path.search(line):
                    yield f"{path.relative_to(ROOT)}:{number} names {found[0]}...: use a relative path."

    fail_on(problems())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import os.path", ["os.path"]),
        ("from os import path", ["os", "os.path"]),
        ("def f():\n    from . import frames", ["tocsin.wire", "tocsin.wire.frames"]),
        ("from ..model import limits", ["tocsin.model", "tocsin.model.limits"]),
        ("from .frames import read", ["tocsin.wire.frames", "tocsin.wire.frames.read"]),
    ],
)
def test_imports_are_seen_in_every_form(source: str, expected: list[str]) -> None:
    module = Module(PACKAGE / "wire" / "reader.py", "tocsin.wire.reader", source, ast.parse(source))
    assert [name for _, name in imports(module)] == expected


def test_length_of_a_function_leaves_out_its_docstring() -> None:
    tree = ast.parse('def f() -> None:\n    """One.\n\n    Two.\n    """\n    x = 1\n    y = 2\n')
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    assert function_lines(function) == 3


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("wire/test_scram.py", True),
        ("wire/test_scram_under_load.py", True),
        ("wire/test_wire.py", True),
        ("system/test_anything.py", True),
        ("wire/test_kettle.py", False),
        ("kettle/test_scram.py", False),
    ],
)
def test_mirror_is_told_from_its_absence(test: str, expected: bool) -> None:
    assert mirrored(TESTS / test) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tocsin.runtime.disk", True),
        ("tocsin.gateways.edge", True),
        ("tocsin.gateways.stomp.edge", True),
        ("tocsin.gateways.stomp.frames", False),
        ("tocsin.journal.journal", False),
        ("tocsin", False),
    ],
)
def test_edges_are_told_from_the_core(name: str, expected: bool) -> None:
    assert may_touch_the_world(Module(PACKAGE, name, "", ast.parse(""))) is expected
