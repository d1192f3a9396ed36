from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tocsin.message_manager.attachment_table import AttachmentTable


def attachment(state: int) -> Any:
    return SimpleNamespace(state=SimpleNamespace(id=state))


def test_consumers_are_found_by_key_session_and_destination() -> None:
    table = AttachmentTable()
    one, two, other = attachment(1), attachment(2), attachment(1)
    table.add((b"a", 1), one)
    table.add((b"a", 2), two)
    table.add((b"b", 1), other)
    assert table.get((b"a", 2)) is two and table[(b"b", 1)] is other and (b"b", 2) not in table
    assert table.of_session(b"a") == [((b"a", 1), one), ((b"a", 2), two)]
    assert table.of_state(one.state) == [((b"a", 1), one), ((b"b", 1), other)]
    assert table.of_session(b"c") == [] and len(table) == 3


def test_nothing_of_who_has_gone_is_kept() -> None:
    table = AttachmentTable()
    one = attachment(1)
    state = one.state
    table.add((b"a", 1), one)
    assert table.remove((b"a", 1)) is one
    assert table.remove((b"a", 1)) is None
    assert list(table) == [] and table.of_session(b"a") == table.of_state(state) == []
    assert not table._by_session and not table._by_state
