"""What a node says of itself is read again as it was written, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tocsin.node.status_file import GroupReport, NodeStatus, read_status, remove_status, write_status

REPORT = GroupReport(group=1, role="primary", epoch=64, primary=3, in_sync=(3, 4), last_lsn=9, committed_lsn=8)
STATUS = NodeStatus(node="mm-1a", number=3, pid=77, boot=5, time=12.5, digest="d", groups=(REPORT,))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_status(tmp_path, STATUS)
    write_status(tmp_path, replace(STATUS, boot=6))
    assert read_status(tmp_path) == replace(STATUS, boot=6)
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]
    remove_status(tmp_path)
    assert read_status(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"groups": 5}', '{"groups": [], "node": 1, "new": 2}'])
def test_what_cannot_be_read_is_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "status.json").write_text(text)
    assert read_status(tmp_path) is None


def test_a_folder_that_is_gone_ends_nobody(tmp_path: Path) -> None:
    write_status(tmp_path / "gone", STATUS)
