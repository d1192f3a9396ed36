"""The tables are complete and unambiguous: every combination of observations has exactly one case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import product
from typing import get_type_hints

import pytest

from tocsin.journal import recovery_table as table
from tocsin.journal.meta import MetaState
from tocsin.journal.recovery_table import Case, Do, Seen, SegmentSeen, Tail, decide
from tocsin.journal.segment import HeaderState

TABLES: list[tuple[Sequence[Case], type[Seen]]] = [
    (table.START, table.StartSeen),
    (table.SNAPSHOT, table.SnapshotSeen),
    (table.SEGMENT, table.SegmentSeen),
    (table.ORDER, table.OrderSeen),
    (table.RESERVE_CASES, table.ReserveSeen),
    (table.INDEX_CASES, table.IndexSeen),
]
IDS = ["start", "snapshot", "segment", "order", "reserve", "index"]


def everything(kind: type[Seen]) -> Iterator[Seen]:
    """Every combination of values that the observation's fields can have."""
    hints = get_type_hints(kind)
    choices = [list(hint) if issubclass(hint, Enum) else [False, True] for hint in hints.values()]
    for values in product(*choices):
        yield kind(**dict(zip(hints, values, strict=True)))


@pytest.mark.parametrize(("cases", "kind"), TABLES, ids=IDS)
def test_exactly_one_case_matches_every_combination(cases: Sequence[Case], kind: type[Seen]) -> None:
    used = set()
    for seen in everything(kind):
        matching = [case.name for case in cases if case.matches(seen)]
        assert len(matching) == 1, f"{seen} matches {matching}"
        used.update(matching)
    assert used == {case.name for case in cases}, "every case can happen"


FILLED = "A member of a group: move its folder away, and the others fill it. A lone server: restore the whole directory"


@pytest.mark.parametrize(("cases", "kind"), TABLES, ids=IDS)
def test_every_case_explains_itself_and_tests_real_fields(cases: Sequence[Case], kind: type[Seen]) -> None:
    for case in cases:
        assert case.why
        assert set(case.when) <= set(get_type_hints(kind))
        if case.do in (Do.REFUSE, Do.REFUSE_NEWER):
            sentence = case.why.format(file="f", position=1, lsn=2, problem="p")
            assert sentence.rstrip().endswith("."), "the user reads a sentence"
        if case.do is Do.REFUSE:
            assert "Nothing was changed" in case.why, "and knows that it may try again"
            advised = "from a backup" in case.why
            assert advised == (FILLED in case.why), "a member has no backup, and a server none of a single file"


def test_only_the_newest_segment_is_ever_cut_and_never_against_proof() -> None:
    for seen in everything(SegmentSeen):
        assert isinstance(seen, SegmentSeen)
        if decide(table.SEGMENT, seen).do is Do.CUT:
            assert seen.newest
            assert seen.torn
            assert not seen.proven


def test_a_journal_is_begun_only_where_nothing_is() -> None:
    for seen in everything(table.StartSeen):
        assert isinstance(seen, table.StartSeen)
        if decide(table.START, seen).do is Do.MAKE:
            assert (seen.meta, seen.data) == (MetaState.MISSING, False)


def test_a_torn_tail_is_decided_as_named() -> None:
    seen = SegmentSeen(HeaderState.GOOD, True, Tail.BAD, proven=False, torn=True)
    assert decide(table.SEGMENT, seen).name == "torn tail"
