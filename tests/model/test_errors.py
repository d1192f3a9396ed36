from __future__ import annotations

import re

import pytest

from tocsin.model import errors
from tocsin.model.errors import TocsinError, from_code

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, TocsinError)]


def drawn_tree() -> dict[str, str]:
    """Child and parent of every line of the tree in the module's docstring; four columns are one level."""
    assert errors.__doc__ is not None
    path: list[str] = []
    parents: dict[str, str] = {}
    for line in errors.__doc__.splitlines():
        found = re.match(r"([│├└─ ]*)([A-Z]\w+)(?:  |$)", line)
        if found is None:
            continue
        level, name = len(found[1]) // 4, found[2]
        del path[level:]
        parents[name] = path[-1] if path else ""
        path.append(name)
    return parents


def test_the_drawn_tree_is_the_tree() -> None:
    real = {
        each.__name__: next((base.__name__ for base in each.__bases__ if issubclass(base, TocsinError)), "")
        for each in CLASSES
    }
    assert drawn_tree() == real


def test_the_drawing_is_read_level_by_level() -> None:
    tree = drawn_tree()
    assert tree["TocsinError"] == ""
    assert tree["AccessDenied"] == "SecurityFailure"
    assert tree["StorageFailed"] == "EnvironmentFailure"


def test_each_error_has_its_own_code() -> None:
    codes = [vars(each)["code"] for each in CLASSES]
    assert len(set(codes)) == len(codes)
    assert all(0 < code < 1 << 31 for code in codes)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_from_its_code(kind: type[TocsinError]) -> None:
    error = from_code(kind.code, "It says why.")
    assert type(error) is kind
    assert str(error) == "It says why."


@pytest.mark.parametrize("code", [0, -1, 30_000, 1 << 40])
def test_a_code_of_a_newer_peer_becomes_the_root_error(code: int) -> None:
    error = from_code(code, "Something new.")
    assert type(error) is TocsinError
    assert str(error) == "Something new."


def test_waiting_and_connecting_fail_as_python_users_expect() -> None:
    assert issubclass(errors.TimedOut, TimeoutError)
    assert issubclass(errors.ConnectionFailed, ConnectionError)
