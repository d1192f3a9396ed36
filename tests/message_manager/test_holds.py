"""Retention holds of one topic, as records change them."""

from __future__ import annotations

from tocsin.message_manager.holds import Hold, Holds, hold_record
from tocsin.message_manager.records import read_map


def test_records_set_move_and_end_holds() -> None:
    holds = Holds()
    for name, hold in [("a", Hold(5, 100)), ("b", Hold(3, 200)), ("a", Hold(7, 300))]:
        fields, parts = hold_record(1, name, hold)
        assert read_map(b"".join(parts)) == fields
        holds.apply(fields)
    assert holds.fields() == [["a", 7, 300], ["b", 3, 200]]
    assert (holds.lowest(), holds.next_end_ms()) == (3, 200)
    assert holds.overdue(199) == [] and holds.overdue(200) == ["b"]
    holds.apply(hold_record(1, "b", None)[0])
    holds.apply(hold_record(1, "b", None)[0])
    assert holds.fields() == [["a", 7, 300]]


def test_a_snapshot_has_all_of_them() -> None:
    holds, loaded = Holds(), Holds()
    holds.apply(hold_record(1, "a", Hold(5, 100))[0])
    loaded.load(holds.fields())
    assert loaded.rows == holds.rows
