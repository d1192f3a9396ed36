"""The asserts between bounds run whenever the module is imported; here is that they are heeded and can fail."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tocsin.model import limits

SOURCE = Path(limits.__file__).read_text()
BOUNDS = {name: value for name, value in vars(limits).items() if re.fullmatch(r"[A-Z][A-Z0-9_]*", name)}


def test_every_bound_is_a_positive_number() -> None:
    assert len(BOUNDS) > 50
    for name, value in BOUNDS.items():
        assert isinstance(value, float if "SECONDS" in name else int), name
        assert value > 0, name


def test_each_bound_is_set_once() -> None:
    names = re.findall(r"^([A-Z][A-Z0-9_]*) =", SOURCE, re.MULTILINE)
    assert len(names) == len(set(names)) == len(BOUNDS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BATCH_MESSAGES_MAX", 10),
        ("MESSAGE_BYTES_MAX", "2**32"),
        ("FRAME_BYTES_BEFORE_LOGIN", "64 * MIB"),
        ("LOGIN_MESSAGE_BYTES_MAX", "4 * KIB"),
        ("PASSWORD_ITERATIONS_MAX", 4_096),
        ("PRODUCER_WINDOW_BYTES_MIN", "16 * MIB"),
        ("PREFETCH_DEFAULT", 1_000_000),
        ("SEGMENT_BYTES_DEFAULT", "16 * MIB"),
        ("LEASE_SECONDS", 1.0),
        ("PAGE_ITEMS_MAX", 65_536),
        ("REASON_BYTES_MAX", 65_536),
        ("BUS_MEMBERS_MAX", 200),
        ("BUS_NAK_RANGES_MAX", 100),
        ("BUS_ACKNOWLEDGE_BYTES", "4 * MIB"),
        ("BUS_WINDOW_PACKETS", 8_000),
        ("BUS_DATAGRAM_BYTES_MAX", 65_536),
        ("BUS_NAK_RETRY_SECONDS_MIN", 0.002),
        ("BUS_SUSPECT_SECONDS", 0.15),
    ],
)
def test_a_bound_that_contradicts_another_is_found(name: str, value: object) -> None:
    changed, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", SOURCE, flags=re.MULTILINE)
    assert count == 1
    with pytest.raises(AssertionError):
        evaluate(changed)


def test_the_bounds_as_they_are_agree() -> None:
    assert evaluate(SOURCE) == BOUNDS


def evaluate(source: str) -> dict[str, object]:
    """Runs the module's statements, which are plain assignments and asserts."""
    tree = ast.parse(source)
    assert all(isinstance(each, ast.Assign | ast.Assert | ast.Expr) for each in tree.body)
    names: dict[str, object] = {}
    exec(compile(tree, "limits", "exec"), names)  # noqa: S102  our own source
    return {name: value for name, value in names.items() if name in BOUNDS}
